//! What a person allowed when asked: for one project, or always. Kept in the state directory, apart from what is written by hand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use whatif_layers::state_dir::SandboxLock;
use whatif_types::EventKind;
use whatif_types::network::Rule;

use crate::config_file::ConfigError;
use crate::network::Network;
use crate::{EngineError, private_file};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Permits {
    pub always: Vec<Rule>,
    pub projects: BTreeMap<PathBuf, Vec<Rule>>,
}

impl Permits {
    pub(super) fn for_project(&self, project: &Path) -> impl Iterator<Item = Rule> {
        self.always.iter().chain(self.projects.get(project).into_iter().flatten()).cloned()
    }
}

/// For how long something is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permitted {
    ForProject,
    Always,
}

impl Network {
    pub fn permits(&self) -> Result<Permits, EngineError> {
        let path = self.permits_file();
        match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|e| ConfigError { path, message: e.to_string() }.into()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Permits::default()),
            Err(error) => Err(EngineError::io("read", &path, error)),
        }
    }

    /// Remembers a rule for later sandboxes.
    pub fn permit(&self, project: &Path, rule: &Rule, permitted: Permitted) -> Result<(), EngineError> {
        self.change_permits(|permits| {
            let rules = match permitted {
                Permitted::Always => &mut permits.always,
                Permitted::ForProject => permits.projects.entry(project.to_owned()).or_default(),
            };
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        })?;
        let project = if permitted == Permitted::Always { "*".into() } else { project.to_string_lossy() };
        let facts = [("project", project.into()), ("permit", rule.to_string().into())];
        self.ground.tell_of(EventKind::NetworkChanged, "permits", None, facts);
        Ok(())
    }

    /// Forgets a rule wherever it was remembered. Returns in how many places that was.
    pub fn forget_permit(&self, rule: &Rule) -> Result<usize, EngineError> {
        let mut forgotten = 0;
        self.change_permits(|permits| {
            for rules in std::iter::once(&mut permits.always).chain(permits.projects.values_mut()) {
                let before = rules.len();
                rules.retain(|known| known != rule);
                forgotten += before - rules.len();
            }
            permits.projects.retain(|_, rules| !rules.is_empty());
        })?;
        Ok(forgotten)
    }

    fn change_permits(&self, change: impl FnOnce(&mut Permits)) -> Result<(), EngineError> {
        let path = self.permits_file();
        let failed = |e: std::io::Error| EngineError::io("write", &path, e);
        // Somebody may be asked in another terminal at the same time.
        let _lock = SandboxLock::wait(&self.ground.state.cache())?;
        let mut permits = self.permits()?;
        change(&mut permits);
        let text = serde_json::to_vec_pretty(&permits).map_err(|e| failed(e.into()))?;
        private_file::replace_durably(&path, &text).map_err(failed)
    }

    fn permits_file(&self) -> PathBuf {
        self.ground.state.root().join("permits.json")
    }
}
