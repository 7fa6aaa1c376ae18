//! pip: what it is set up for, else what it would use by itself.

use crate::answers::Answers;
use crate::ask::{AskError, Question, first_program};
use crate::beside::Beside;
use crate::place::Place;
use crate::surroundings::Surroundings;

const TOOL: &str = "pip";
/// pip's own words for the index it was born with, and for where that keeps its files.
const DEFAULTS: &str = "from pip._internal.models.index import PyPI as i; print(i.simple_url); print(i.file_storage_domain)";

pub(crate) fn ask(surroundings: &Surroundings<'_>) -> Answers {
    let mut answers = Answers::default();
    let Some(program) = first_program(surroundings, &["pip3", "pip"]) else { return answers };
    let question = Question::new(&program, surroundings).args(["--disable-pip-version-check", "config", "list"]);
    // Both take a while to start, and somebody waits.
    let (settings, defaults) = std::thread::scope(|scope| {
        let defaults = Beside::start(scope, || defaults(surroundings));
        (question.ask(), defaults.end())
    });
    let mut has_index = false;
    match settings {
        Ok(text) => {
            for (key, value) in text.lines().filter_map(setting) {
                has_index |= key == "index-url";
                if matches!(key, "index-url" | "extra-index-url" | "find-links" | "proxy") {
                    value.split_whitespace().for_each(|url| answers.url(TOOL, url, &format!("pip's setting {key}")));
                }
            }
        }
        Err(error) => answers.unanswered(format!("pip {error}")),
    }
    if !has_index {
        answers.add(defaults);
    }
    answers
}

fn defaults(surroundings: &Surroundings<'_>) -> Answers {
    let mut answers = Answers::default();
    let Some(python) = surroundings.program("python3") else { return answers };
    // Isolated: nothing is imported from the current directory.
    let answer = Question::new(&python, surroundings).args(["-I", "-c", DEFAULTS]).ask();
    match answer.as_deref().map(|text| text.split_once('\n')) {
        Ok(Some((index, files))) => {
            answers.url(TOOL, index, "pip itself");
            answers.place(TOOL, Place::of_host(files.trim_end()).map(Some), "pip itself");
        }
        Ok(None) | Err(AskError::Failed) => answers.trouble("pip does not say which index it uses by itself".to_owned()),
        Err(error) => answers.unanswered(format!("pip {error}")),
    }
    answers
}

/// From `section.key='value'`, as Python writes a string. The section is a scope, a command, or `:env:`.
fn setting(line: &str) -> Option<(&str, String)> {
    let (name, value) = line.split_once('=')?;
    let key = name.rsplit('.').next()?;
    let quote = value.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inner = value.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut plain = String::new();
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next()? {
                'n' | 'r' | 't' => plain.push('\n'),
                c @ ('\\' | '\'' | '"') => plain.push(c),
                // A control character: no URL has one.
                _ => plain.push('\0'),
            },
            c => plain.push(c),
        }
    }
    Some((key, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_written_as_python_strings() {
        for (line, expected) in [
            ("global.index-url='https://a.example/simple'", Some(("index-url", "https://a.example/simple"))),
            (
                ":env:.extra-index-url='https://a.example\\nhttps://b.example'",
                Some(("extra-index-url", "https://a.example\nhttps://b.example")),
            ),
            ("install.find-links=\"https://u:p'w@a.example\"", Some(("find-links", "https://u:p'w@a.example"))),
            ("global.index-url='https://a.example\\x00.b.example'", Some(("index-url", "https://a.example\u{0}00.b.example"))),
            ("global.index-url='open", None),
            ("global.index-url=", None),
            ("nothing", None),
        ] {
            assert_eq!(setting(line), expected.map(|(key, value)| (key, value.to_owned())), "{line}");
        }
    }
}
