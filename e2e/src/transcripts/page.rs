//! What there is to play on a page of the documentation.

/// A page, in the order in which it is played.
#[derive(Debug)]
pub struct Page {
    pub(super) parts: Vec<Part>,
}

#[derive(Debug)]
pub(super) enum Part {
    /// What the reader does not see, or sees without output.
    Direction {
        line: usize,
        is_root: bool,
        script: String,
    },
    Session(Session),
}

#[derive(Debug)]
pub(super) struct Session {
    pub is_root: bool,
    pub leave: Leave,
    pub exchanges: Vec<Exchange>,
}

/// What a session leaves open, beyond times, ids and sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    Nothing,
    Numbers,
    Order,
}

/// A command and what it prints. Lines are counted from 1.
#[derive(Debug)]
pub(super) struct Exchange {
    pub line: usize,
    pub command: String,
    pub output: Vec<String>,
}

/// Other lines in place of `old` lines, from the line `first` on.
#[derive(Debug)]
pub(super) struct Replacement {
    pub first: usize,
    pub old: usize,
    pub output: Vec<String>,
}

impl Page {
    /// # Panics
    ///
    /// Where a block or a comment has no end, or a session does not begin with a prompt.
    #[must_use]
    pub fn read(name: &str, text: &str) -> Self {
        let mut lines = text.lines().enumerate().map(|(number, line)| (number + 1, line));
        let mut parts = Vec::new();
        while let Some((line, text)) = lines.next() {
            let mut until = |end: &str| -> Vec<(usize, String)> {
                let mut inside = Vec::new();
                loop {
                    match lines.next() {
                        Some((_, text)) if text == end => return inside,
                        Some((line, text)) => inside.push((line, text.to_owned())),
                        None => panic!("{name}:{line}: '{end}' is missing"),
                    }
                }
            };
            let direction = |is_root, inside: Vec<(usize, String)>| Part::Direction { line, is_root, script: joined(&inside) };
            if let Some(whose) = text.strip_prefix("<!-- run") {
                parts.push(direction(whose.trim() == "as root", until("-->")));
            } else if text == "```sh run" {
                parts.push(direction(false, until("```")));
            } else if let Some(how) = text.strip_prefix("```console") {
                let inside = until("```");
                let how = how.trim();
                match how.strip_prefix("not-run:") {
                    Some(why) => assert!(!why.trim().is_empty(), "{name}:{line}: say why it is not run"),
                    None => parts.push(Part::Session(session(name, &inside, how))),
                }
            } else if text.starts_with("```") && text != "```" {
                until("```");
            }
        }
        Self { parts }
    }
}

fn session(name: &str, inside: &[(usize, String)], how: &str) -> Session {
    let (line, first) = inside.first().unwrap_or_else(|| panic!("{name}: an empty session"));
    let leave = match how {
        "" => Leave::Nothing,
        "numbers-vary" => Leave::Numbers,
        "any-order" => Leave::Order,
        _ => panic!("{name}:{line}: '{how}' says nothing about a session"),
    };
    let prompt = ["$ ", "# "].into_iter().find(|prompt| first.starts_with(prompt));
    let prompt = prompt.unwrap_or_else(|| panic!("{name}:{line}: a session begins with a prompt"));
    let mut exchanges: Vec<Exchange> = Vec::new();
    for (line, text) in inside {
        match (text.strip_prefix(prompt), exchanges.last_mut()) {
            (Some(command), _) => exchanges.push(Exchange { line: *line, command: command.to_owned(), output: Vec::new() }),
            (None, Some(exchange)) => exchange.output.push(text.clone()),
            (None, None) => unreachable!("the first line has the prompt"),
        }
    }
    Session { is_root: prompt == "# ", leave, exchanges }
}

fn joined(lines: &[(usize, String)]) -> String {
    lines.iter().map(|(_, line)| format!("{line}\n")).collect()
}

/// The page with these replacements, which are in the order of the page.
pub(super) fn rewritten(text: &str, replacements: &[Replacement]) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut written: Vec<&str> = Vec::with_capacity(lines.len());
    let mut next = 0;
    for replacement in replacements {
        let first = replacement.first - 1;
        written.extend(&lines[next..first]);
        written.extend(replacement.output.iter().map(String::as_str));
        next = first + replacement.old;
    }
    written.extend(&lines[next..]);
    written.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "a\n<!-- run\ncd x\n-->\n```console\n$ ls\none\ntwo\n$ true\n```\n```console not-run: it is art\n$ rm\n```\n";

    #[test]
    fn a_page_is_read_in_order() {
        let page = Page::read("page", TEXT);
        let [Part::Direction { script, .. }, Part::Session(session)] = &page.parts[..] else { panic!("{page:?}") };
        assert_eq!(script, "cd x\n");
        let commands: Vec<_> = session.exchanges.iter().map(|e| (e.line, e.command.as_str(), e.output.len())).collect();
        assert_eq!(commands, [(6, "ls", 2), (9, "true", 0)]);
    }

    #[test]
    fn what_came_is_written_where_it_belongs() {
        let other = Replacement { first: 7, old: 2, output: vec!["three".to_owned()] };
        assert_eq!(rewritten(TEXT, &[other]), TEXT.replace("one\ntwo", "three"));
    }
}
