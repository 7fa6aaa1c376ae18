//! Git's configuration files, read as git reads them. Git itself is not asked: it would need to trust the repository, leaves out
//! what a condition excludes at the moment, and takes longer than everything else a diff does.

/// One line of a file. The part in quotes of a section's name makes no difference here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// `section.key`, in lower case.
    pub key: String,
    pub value: String,
}

/// All settings of a text, in their order. What git would refuse is passed over.
pub(super) fn of(text: &str) -> Vec<Setting> {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let (mut settings, mut section) = (Vec::new(), String::new());
    let mut rest = text.as_str();
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return settings };
        if first == '[' {
            (section, rest) = header(&rest[1..]);
            continue;
        }
        let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(rest.len());
        let (key, after) = rest.split_at(length);
        match after.trim_start_matches([' ', '\t']).strip_prefix('=') {
            Some(written) if !key.is_empty() => {
                let (value, after) = value(written);
                settings.push(Setting { key: format!("{section}.{}", key.to_ascii_lowercase()), value });
                rest = after;
            }
            // A comment, a key that is only on, or nothing git understands.
            _ => rest = after.split_once('\n').map_or("", |(_, next)| next),
        }
    }
}

/// The name of a section, and what follows its bracket, maybe in the same line.
fn header(text: &str) -> (String, &str) {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let end = text.find(|c: char| match c {
        _ if std::mem::take(&mut is_escaped) => false,
        '\\' => {
            is_escaped = is_quoted;
            false
        }
        '"' => {
            is_quoted = !is_quoted;
            false
        }
        other => other == '\n' || other == ']' && !is_quoted,
    });
    let (name, after) = text.split_at(end.unwrap_or(text.len()));
    // Long ago, `[section.part]` was `[section "part"]`.
    let section = name.split(['.', '"']).next().unwrap_or_default().trim();
    (section.to_ascii_lowercase(), after.strip_prefix(']').unwrap_or(after))
}

/// What stands behind the `=`, and the lines after it.
fn value(written: &str) -> (String, &str) {
    let (mut value, mut is_quoted) = (String::new(), false);
    // What is kept although it is space, since it stands in quotes or before something else.
    let mut kept = 0;
    let mut characters = written.char_indices();
    while let Some((at, character)) = characters.next() {
        let mut taken = character;
        match character {
            '\n' => return (ended(value, kept), &written[at..]),
            '#' | ';' if !is_quoted => {
                let after = written[at..].split_once('\n').map_or("", |(_, next)| next);
                return (ended(value, kept), after);
            }
            '"' => {
                is_quoted = !is_quoted;
                kept = value.len();
                continue;
            }
            '\\' => match characters.next() {
                None => break,
                Some((_, '\n')) => continue,
                Some((_, 'n')) => taken = '\n',
                Some((_, 't')) => taken = '\t',
                Some((_, other)) => taken = other,
            },
            space if space.is_whitespace() && !is_quoted => {
                if !value.is_empty() {
                    value.push(space);
                }
                continue;
            }
            _ => {}
        }
        value.push(taken);
        kept = value.len();
    }
    (ended(value, kept), "")
}

fn ended(mut value: String, kept: usize) -> String {
    value.truncate(kept);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        of(text).into_iter().map(|s| (s.key, s.value)).collect()
    }

    #[test]
    fn settings_are_read_as_git_reads_them() {
        let text = "\u{feff}# first\r\n[Core]\r\n\thooksPath = tools/hooks ; why\r\n\tbare\n[filter \"a ] \\\" b\"] clean=x\\\n y \n\
                    [alias.old]\n st = \"!a \\\"b\\\" # c\" d  # e\n broken ] line\n[include]path=../t\n x = \"  \" \n last = \\\\";
        let expected = [
            ("core.hookspath", "tools/hooks"),
            ("filter.clean", "x y"),
            ("alias.st", "!a \"b\" # c d"),
            ("include.path", "../t"),
            ("include.x", "  "),
            ("include.last", "\\"),
        ];
        assert_eq!(read(text), expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    #[test]
    fn what_is_cut_short_ends() {
        for text in ["[", "[a \"", "[a]\nb =", "[a]\nb = \\", "[a]\nb = \"x", "=", "[a]b", "\u{e9}\n[a]\u{e9}=1"] {
            assert!(read(text).len() < 2, "{text:?}");
        }
    }
}
