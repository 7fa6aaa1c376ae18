//! `whatif diff`: what a sandbox changed, or what makes one sandbox of another.

mod document;

use std::collections::HashMap;
use std::path::PathBuf;

use whatif_diff::change::{Base, difference};
use whatif_diff::scan::reality;
use whatif_diff::{Change, ChangeSet, Depth, Found, State};
use whatif_types::Sandbox;

pub use self::document::{CONTEXT_LINES, Document, Stats};

use crate::{Engine, EngineError};

/// What is compared.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A sandbox with what it started from; without a name, the latest of the project.
    Sandbox(Option<String>),
    /// Two sandboxes. No name means reality.
    Between(Option<String>, Option<String>),
}

/// A change set and whose it is.
#[derive(Debug)]
pub struct Diff {
    pub sandbox: Sandbox,
    /// How a reader would call it: a name, or `a..b`.
    pub title: String,
    pub set: ChangeSet,
}

impl Engine {
    pub fn diff(&self, subject: &Subject, depth: Depth) -> Result<Diff, EngineError> {
        match subject {
            Subject::Sandbox(name) => {
                let sandbox = self.resolve(name.as_deref())?;
                let set = self.change_set(&sandbox, depth)?;
                Ok(Diff { title: sandbox.name.clone(), sandbox, set })
            }
            Subject::Between(from, to) => self.diff_between(from.as_deref(), to.as_deref(), depth),
        }
    }

    fn diff_between(&self, from: Option<&str>, to: Option<&str>, depth: Depth) -> Result<Diff, EngineError> {
        let side = |name: Option<&str>| -> Result<Option<(Sandbox, Found)>, EngineError> {
            let Some(name) = name else { return Ok(None) };
            let sandbox = self.resolve(Some(name))?;
            let found = self.find_changes(&sandbox)?;
            Ok(Some((sandbox, found)))
        };
        let (from, to) = (side(from)?, side(to)?);
        let name = |side: &Option<(Sandbox, Found)>| side.as_ref().map_or(String::new(), |(s, _)| s.name.clone());
        let title = format!("{}..{}", name(&from), name(&to));
        let Some(sandbox) = to.as_ref().or(from.as_ref()).map(|(s, _)| s.clone()) else {
            return Err(EngineError::Usage {
                message: "'..' alone compares reality with itself".to_owned(),
                hint: "name a sandbox on at least one side: whatif diff A..B".to_owned(),
            });
        };
        let found = between(from.map(|f| f.1).unwrap_or_default(), to.map(|t| t.1).unwrap_or_default());
        let set = self.sort_out(&sandbox, found, depth)?;
        Ok(Diff { sandbox, title, set })
    }

    /// Whether a word on the command line names a sandbox.
    #[must_use]
    pub fn is_sandbox(&self, name: &str) -> bool {
        self.resolve(Some(name)).is_ok()
    }
}

/// What makes the second of what the first is. Where one of them changed nothing, it is as reality.
fn between(from: Found, to: Found) -> Found {
    let states = |found: &Found| -> HashMap<PathBuf, Option<State>> {
        found.changes.iter().map(|c| (c.path.clone(), c.after.clone())).collect()
    };
    let (old, new) = (states(&from), states(&to));
    let mut paths: Vec<&PathBuf> = old.keys().chain(new.keys().filter(|p| !old.contains_key(*p))).collect();
    paths.sort();
    let changes = paths.into_iter().filter_map(|path| {
        let side = |states: &HashMap<PathBuf, Option<State>>| states.get(path).cloned().unwrap_or_else(|| reality(path));
        let (before, after) = (side(&old), side(&new));
        let kind = difference(before.as_ref(), after.as_ref(), true)?;
        Some(Change {
            path: path.clone(),
            kind,
            before,
            after,
            base: Base::Reality,
            reality: None,
            blocked: None,
            flags: Vec::new(),
            ignored: false,
            outside: false,
            deletion: None,
            similarity: None,
        })
    });
    Found { changes: changes.collect(), unreadable: [from.unreadable, to.unreadable].concat(), ..Found::default() }
}
