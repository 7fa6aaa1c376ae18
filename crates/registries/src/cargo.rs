//! cargo: the registries in the user's configuration, and the one it uses by itself.
//!
//! An index says where its crates are downloaded from, which can be another host. cargo keeps that with its copy of the index.

mod default_index;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml::{Table, Value};
use whatif_netpolicy::Host;

use crate::answers::Answers;
use crate::ask::shown;
use crate::files;
use crate::place::Place;
use crate::surroundings::Surroundings;

const TOOL: &str = "cargo";

pub(crate) fn ask(surroundings: &Surroundings<'_>) -> Answers {
    let mut answers = Answers::default();
    let Some(program) = surroundings.program("cargo") else { return answers };
    let home = surroundings.directory("CARGO_HOME", ".cargo");
    let mut indexes = Indexes::default();
    for path in configuration(&home) {
        let Some(text) = files::text(&path, surroundings) else { continue };
        let said = files::shown(&path, surroundings.home);
        match text.parse::<Table>() {
            Ok(table) => indexes.configured(&table, &said, &mut answers),
            Err(_) => answers.trouble(format!("{said} is not TOML")),
        }
    }
    for (name, value) in &surroundings.variables {
        if name.starts_with("CARGO_REGISTRIES_") && name.ends_with("_INDEX") {
            indexes.named(value, &shown(name), &mut answers);
        }
    }
    if !indexes.is_default_replaced {
        match default_index::ask(&program, surroundings) {
            Ok(place) => indexes.known(place, "cargo itself", &mut answers),
            Err(error) => answers.unanswered(format!("cargo {error}")),
        }
    }
    indexes.downloads(&home, surroundings, &mut answers);
    answers
}

pub(crate) fn configuration(home: &Path) -> [PathBuf; 2] {
    [home.join("config.toml"), home.join("config")]
}

#[derive(Debug, Default)]
struct Indexes {
    hosts: BTreeSet<String>,
    is_default_replaced: bool,
}

impl Indexes {
    fn configured(&mut self, table: &Table, said: &str, answers: &mut Answers) {
        let entries = |key: &str| table.get(key).and_then(Value::as_table).cloned().unwrap_or_default();
        for (name, source) in entries("source") {
            self.is_default_replaced |= name == "crates-io" && source.get("replace-with").is_some();
            let urls = ["registry", "git"].into_iter().filter_map(|key| source.get(key)?.as_str());
            urls.for_each(|url| self.named(url, said, answers));
        }
        for (_, registry) in entries("registries") {
            registry.get("index").and_then(Value::as_str).into_iter().for_each(|url| self.named(url, said, answers));
        }
        let proxy = table.get("http").and_then(|http| http.get("proxy")?.as_str());
        proxy.into_iter().for_each(|url| answers.url(TOOL, url, said));
    }

    fn named(&mut self, url: &str, said: &str, answers: &mut Answers) {
        match Place::of_url(url) {
            Ok(Some(place)) => self.known(place, said, answers),
            other => answers.place(TOOL, other, said),
        }
    }

    fn known(&mut self, place: Place, said: &str, answers: &mut Answers) {
        if let Host::Name(name) = place.host() {
            self.hosts.insert(name.to_string());
        }
        answers.place(TOOL, Ok(Some(place)), said);
    }

    /// Only for indexes that are named above: a project can have made cargo download any index.
    fn downloads(&self, home: &Path, surroundings: &Surroundings<'_>, answers: &mut Answers) {
        let directories = files::list(&home.join("registry/index"));
        for host in &self.hosts {
            let is_of_host = |directory: &&PathBuf| {
                let name = directory.file_name().and_then(|name| name.to_str()).and_then(|name| name.rsplit_once('-'));
                name.is_some_and(|(start, _)| start == host)
            };
            let mut is_told = false;
            for path in directories.iter().filter(is_of_host).map(|directory| directory.join("config.json")) {
                let text = files::text(&path, surroundings).unwrap_or_default();
                let value = serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default();
                if let Some(url) = value.get("dl").and_then(serde_json::Value::as_str) {
                    is_told = true;
                    answers.url(TOOL, url, &files::shown(&path, surroundings.home));
                }
            }
            if !is_told {
                answers.trouble(format!(
                    "cargo has not used {host} yet, so it is not known where that index keeps its crates; run 'cargo fetch' once outside"
                ));
            }
        }
    }
}
