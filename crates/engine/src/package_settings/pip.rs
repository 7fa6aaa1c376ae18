//! `pip.conf`, as Python's `configparser` reads it: sections, a value behind the first `=` or `:`, and more of it on the lines that
//! are indented deeper than its name.

use super::{Kept, credential, harmless, lines};

pub(super) fn without_credentials(text: &str) -> Kept {
    let mut kept = Kept::default();
    let mut section = Section::None;
    // The setting that deeper lines belong to, which may have been left out.
    let mut open: Option<Open> = None;
    for line in lines(text) {
        let content = line.trim();
        if content.is_empty() || content.starts_with(['#', ';']) {
            continue;
        }
        let indent = line.chars().take_while(|c| c.is_whitespace()).count();
        match &mut open {
            Some(open) if indent > open.indent => open.values.push(content),
            _ => {
                close(open.take(), &mut kept);
                if let Some(name) = section_of(content) {
                    section = if is_plain(name) { Section::Kept } else { Section::LeftOut };
                    match section {
                        Section::Kept => kept.keep(&format!("[{name}]")),
                        _ => kept.left_out += 1,
                    }
                } else {
                    open = Some(Open::new(content, indent, section));
                }
            }
        }
    }
    close(open.take(), &mut kept);
    kept
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    None,
    Kept,
    LeftOut,
}

struct Open<'a> {
    /// `None` if all of it is left out.
    name: Option<&'a str>,
    indent: usize,
    values: Vec<&'a str>,
}

impl<'a> Open<'a> {
    fn new(content: &'a str, indent: usize, section: Section) -> Self {
        match content.split_once(['=', ':']).filter(|_| section == Section::Kept) {
            Some((name, value)) => Self { name: Some(name.trim()), indent, values: vec![value.trim()] },
            None => Self { name: None, indent, values: Vec::new() },
        }
    }

    fn cleaned(&self) -> Option<String> {
        let name = self.name?;
        let plain = name.to_ascii_lowercase().replace('_', "-");
        if !harmless::PIP.contains(&plain.as_str()) {
            return None;
        }
        let is = |table: &[&str]| table.contains(&plain.as_str());
        let clean = if is(harmless::PROGRAMS) {
            credential::of_program
        } else if is(harmless::OPTIONS) {
            credential::of_options
        } else {
            credential::cleaned_strictly
        };
        let values = self.values.iter().map(|value| clean(without_comment(value))).collect::<Option<Vec<_>>>()?;
        Some(format!("{name} = {}", values.join("\n    ")))
    }
}

fn close(open: Option<Open<'_>>, kept: &mut Kept) {
    match open.as_ref().map(Open::cleaned) {
        Some(Some(setting)) => kept.keep(&setting),
        Some(None) => kept.left_out += 1,
        None => {}
    }
}

fn section_of(content: &str) -> Option<&str> {
    let (name, _) = content.strip_prefix('[')?.rsplit_once(']')?;
    Some(name)
}

/// A command of pip, or `global`.
fn is_plain(section: &str) -> bool {
    (1..=32).contains(&section.len()) && section.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

/// The value up to a comment behind it. To pip all of it is the value, but nobody writes such a one.
fn without_comment(value: &str) -> &str {
    let is_start = |(at, character): (usize, char)| {
        matches!(character, ';' | '#') && value[..at].ends_with(|before: char| before.is_whitespace())
    };
    let end = value.char_indices().find(|found| is_start(*found)).map_or(value.len(), |(at, _)| at);
    value[..end].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_lists_and_harmless_settings_stay() {
        let kept = without_credentials(
            "[global]\nindex-url = https://u:p@pypi.example.org/simple\nextra-index-url =\n    https://a.example/simple\n    \
             # one more\n\n    https://x:y@b.example/simple\nproxy = http://me:pw@proxy.example:3128\ncache_dir: /data/pip\n\
             client-cert = /home/me/key.pem\n[install]\n  user = yes\n  use-feature = fast-deps\n",
        );
        let expected = "[global]\nindex-url = https://pypi.example.org/simple\nextra-index-url = \n    https://a.example/simple\n    \
                        https://b.example/simple\ncache_dir = /data/pip\n[install]\nuser = yes\nuse-feature = fast-deps\n";
        assert_eq!(kept.lines, expected);
        assert_eq!(kept.left_out, 2);
    }

    #[test]
    fn nothing_hostile_gets_through() {
        for text in [
            "[global]\n  password = SECRET",
            "[global]\npassword:\n  SECRET\n",
            "[global]\ntoken: a = SECRET",
            "[global]\npassword = a\n\n  SECRET",
            "[global]\npassword = a\n# x\n\tSECRET",
            "[global]\npre = yes\rpassword = SECRET",
            "[SECRET]\npre = yes",
            "[a SECRET]\npre = SECRET",
            "pre = SECRET",
            "SECRET",
            "[global]\nSECRET",
            "[global] SECRET",
            "[global]\npre = yes ; SECRET",
            "[global]\n# SECRET",
            "[global]\nindex-url = https://u:SECRET@h.example/simple",
            "[global]\nindex-url =\n  https://u:SECRET@h.example/simple",
            "[global]\nindex-url = https://h.example/simple?SECRET",
            "[global]\nextra-index-url = https://a.example https://SECRET@b.example",
            "[global]\nproxy = http://u:SECRET@h.example",
            "[global]\nclient-cert = SECRET",
            "[global]\nunknown = npm_SECRET0123456789",
            "[global]\nPASSWORD = SECRET",
            "[global]\npre\0 = SECRET",
            "[global]\nglobal-option = --password=SECRET",
            "[global]\nglobal-option = --password SECRET",
            "[global]\nglobal-option = --password\n  SECRET",
            "[global]\nbuild-option = --pw SECRET",
            "[global]\nname = user:SECRET",
            "[global]\nroot = user:SECRET",
            "[global]\nindex-url = https%3A%2F%2Fu:SECRET%40h",
            "[global]\nindex-url = https://u:SECRET%40h",
            "[global]\nwebhook = SECRET",
            "[global]\npre = -----BEGIN CERTIFICATE----- SECRET",
        ] {
            let shown = without_credentials(text).shown();
            assert!(!shown.contains("SECRET"), "{text:?}: {shown}");
        }
    }
}
