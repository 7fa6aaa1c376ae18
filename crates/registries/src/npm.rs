//! npm, and its relatives that go by the same files.

use std::path::Path;

use serde_json::{Map, Value};

use crate::answers::Answers;
use crate::ask::{AskError, Question, first_program, shown};
use crate::files;
use crate::surroundings::Surroundings;

const TOOL: &str = "npm";

pub(crate) fn ask(surroundings: &Surroundings<'_>) -> Answers {
    let mut answers = Answers::default();
    let Some(program) = surroundings.program("npm") else { return answers };
    let question = Question::new(&program, surroundings).args(["config", "ls", "--long", "--json"]);
    // No log files, and no looking for a newer npm.
    let question = question.env("npm_config_logs_max", "0").env("npm_config_update_notifier", "false");
    match question.ask().map(|text| serde_json::from_str::<Map<String, Value>>(&text)) {
        Ok(Ok(settings)) => {
            let texts = settings.iter().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
            texts.clone().for_each(|(key, value)| setting(key, value, &mut answers));
            for file in ["userconfig", "globalconfig"].into_iter().filter_map(|key| settings.get(key)?.as_str()) {
                read_hidden(Path::new(file), &settings, surroundings, &mut answers);
            }
        }
        Ok(Err(_)) => answers.unanswered("npm does not say how it is set up".to_owned()),
        Err(error) => answers.unanswered(format!("npm {error}")),
    }
    answers
}

fn setting(key: &str, url: &str, answers: &mut Answers) {
    let is_scoped = key.starts_with('@') && key.ends_with(":registry");
    if (is_scoped || matches!(key, "registry" | "proxy" | "https-proxy")) && !url.is_empty() {
        answers.url(TOOL, url, &format!("npm's setting {}", shown(key)));
    }
}

/// npm leaves out what has a password in it, and so its files are looked at for settings it has not told.
fn read_hidden(path: &Path, told: &Map<String, Value>, surroundings: &Surroundings<'_>, answers: &mut Answers) {
    let text = files::text(path, surroundings).unwrap_or_default();
    for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
        let (key, value) = (key.trim(), value.trim().trim_matches(['"', '\'']));
        if !told.contains_key(key) {
            setting(key, value, answers);
        }
    }
}

/// They have a default of their own. Each version has another name for it, and none for it is no trouble.
pub(crate) fn ask_relatives(surroundings: &Surroundings<'_>) -> Answers {
    let mut answers = Answers::default();
    for (tool, programs, key) in [
        ("yarn", &["yarn", "yarnpkg"][..], "registry"),
        ("yarn", &["yarn", "yarnpkg"], "npmRegistryServer"),
        ("pnpm", &["pnpm"], "registry"),
    ] {
        if answers.names(tool) {
            continue;
        }
        let Some(program) = first_program(surroundings, programs) else { continue };
        let question = Question::new(&program, surroundings).args(["config", "get", key]);
        // What stands in for them would download them first.
        let question = question.env("COREPACK_ENABLE_NETWORK", "0").env("COREPACK_ENABLE_DOWNLOAD_PROMPT", "0");
        match question.ask() {
            Ok(answer) => {
                let url = answer.lines().map(str::trim).find(|line| line.starts_with("http"));
                url.into_iter().for_each(|url| answers.url(tool, url, &format!("{tool}'s setting {key}")));
            }
            Err(AskError::Failed) => {}
            Err(error) => answers.unanswered(format!("{tool} {error}")),
        }
    }
    answers
}
