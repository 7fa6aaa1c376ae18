//! uv. It cannot be asked how it is set up, so its files are read; its help says what it uses by itself.

use std::path::PathBuf;

use toml::{Table, Value};

use crate::answers::Answers;
use crate::ask::Question;
use crate::files;
use crate::surroundings::Surroundings;

const TOOL: &str = "uv";

pub(crate) fn ask(surroundings: &Surroundings<'_>) -> Answers {
    let mut answers = Answers::default();
    let Some(program) = surroundings.program("uv") else { return answers };
    let mut has_default = ["UV_DEFAULT_INDEX", "UV_INDEX_URL"].iter().any(|name| surroundings.variable(name).is_some());
    for path in configuration(surroundings) {
        let Some(table) = files::text(&path, surroundings).and_then(|text| text.parse::<Table>().ok()) else { continue };
        has_default |= read(&table, &files::shown(&path, surroundings.home), &mut answers);
    }
    if !has_default {
        let help = Question::new(&program, surroundings).args(["pip", "install", "--help"]).ask();
        match help.as_deref().map(|text| text.split_once("by default: <").and_then(|(_, rest)| rest.split_once('>'))) {
            Ok(Some((url, _))) => answers.url(TOOL, url, "uv's help"),
            Ok(None) => answers.trouble("uv does not say which index it uses by itself".to_owned()),
            Err(error) => answers.unanswered(format!("uv {error}")),
        }
    }
    answers
}

pub(crate) fn configuration(surroundings: &Surroundings<'_>) -> Vec<PathBuf> {
    match surroundings.variable("UV_CONFIG_FILE") {
        Some(path) => vec![PathBuf::from(path)],
        None => vec![surroundings.directory("XDG_CONFIG_HOME", ".config").join("uv/uv.toml"), PathBuf::from("/etc/uv/uv.toml")],
    }
}

/// Whether it names what is used instead of the default.
fn read(table: &Table, said: &str, answers: &mut Answers) -> bool {
    let mut has_default = false;
    let inner = table.get("pip").and_then(Value::as_table);
    for table in [Some(table), inner].into_iter().flatten() {
        for key in ["index-url", "extra-index-url", "find-links"] {
            let value = table.get(key);
            has_default |= key == "index-url" && value.is_some();
            let urls = value.and_then(Value::as_str).into_iter();
            let urls = urls.chain(value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str));
            urls.for_each(|url| answers.url(TOOL, url, said));
        }
        for index in table.get("index").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table) {
            has_default |= index.get("default").and_then(Value::as_bool).unwrap_or_default();
            index.get("url").and_then(Value::as_str).into_iter().for_each(|url| answers.url(TOOL, url, said));
        }
    }
    has_default
}
