//! From what a user types to a snapshot.
//!
//! `LABEL` is one of the sandbox's own, or of those it came from; `NAME@LABEL` names the sandbox too; `@-1` is the latest
//! snapshot on the way to where the sandbox stands, `@-2` the one before.

use whatif_store::Found;
use whatif_types::{Sandbox, Snapshot};

use crate::EngineError;
use crate::ground::{Ground, GroundError};

/// A sandbox with this label stays.
pub(crate) const KEEP: &str = "keep";

impl Ground {
    /// The snapshot that is meant when a sandbox is named already.
    pub(crate) fn snapshot_for(&self, sandbox: &Sandbox, label: &str) -> Result<Snapshot, EngineError> {
        if let Some(steps) = steps_back(label) {
            return self.step_back(sandbox, steps, label);
        }
        if let Some(snapshot) = self.store.find_snapshot(&sandbox.id, label)? {
            return Ok(snapshot);
        }
        if label.contains('@') {
            let found = self.find_snapshot(label)?.1;
            return if self.is_on_the_way(sandbox, &found)? { Ok(found) } else { Err(not_its_own(sandbox, label)) };
        }
        let mut line = self.line(sandbox);
        match line.find_map(|s| s.map(|s| (s.label == label).then_some(s)).transpose()) {
            Some(found) => found,
            None => {
                Err(GroundError::NoSuchSnapshot { label: label.escape_debug().to_string(), sandbox: Some(sandbox.name.clone()) }
                    .into())
            }
        }
    }

    /// Whether it is one of the sandbox's own, or one that it came by.
    fn is_on_the_way(&self, sandbox: &Sandbox, snapshot: &Snapshot) -> Result<bool, EngineError> {
        if snapshot.sandbox == sandbox.id {
            return Ok(true);
        }
        self.line(sandbox).find_map(|s| s.map(|s| (s.id == snapshot.id).then_some(true)).transpose()).unwrap_or(Ok(false))
    }

    /// The snapshot that is meant on its own, and its sandbox.
    pub(crate) fn find_snapshot(&self, label: &str) -> Result<(Sandbox, Snapshot), EngineError> {
        let unknown = || EngineError::from(GroundError::NoSuchSnapshot { label: label.escape_debug().to_string(), sandbox: None });
        if let Some((name, own)) = label.split_once('@').filter(|(name, _)| !name.is_empty()) {
            let sandbox = self.resolve(&name.into())?;
            let own = if own.starts_with('-') { format!("@{own}") } else { own.to_owned() };
            let snapshot = self.snapshot_for(&sandbox, &own)?;
            return Ok((sandbox, snapshot));
        }
        if steps_back(label).is_some() {
            let sandbox = self.resolve(&self.caller.selector(None)?)?;
            let snapshot = self.snapshot_for(&sandbox, label)?;
            return Ok((sandbox, snapshot));
        }
        let project = self.caller.project_of(&self.caller.cwd)?;
        let mut candidates = Vec::new();
        for snapshot in self.store.find_label(label)? {
            if let Some(sandbox) = self.store.get(&snapshot.sandbox)? {
                candidates.push((sandbox, snapshot));
            }
        }
        // What belongs to the project at hand is meant before anything else.
        if candidates.iter().any(|(s, _)| s.project == project) {
            candidates.retain(|(s, _)| s.project == project);
        }
        match candidates.len() {
            0 => Err(unknown()),
            1 => candidates.pop().ok_or_else(unknown),
            _ => {
                let mut names: Vec<String> = candidates.iter().map(|(s, l)| format!("{}@{}", s.name, l.label)).collect();
                names.sort();
                Err(GroundError::AmbiguousSnapshot { label: label.to_owned(), names }.into())
            }
        }
    }

    /// Whether any snapshot has this label.
    pub fn is_label(&self, label: &str) -> Result<bool, EngineError> {
        Ok(!self.store.find_label(label)?.is_empty())
    }

    /// Whether a sandbox is called exactly this.
    pub(crate) fn sandbox_called(&self, name: &str) -> Result<Option<Sandbox>, EngineError> {
        match self.store.find(name)? {
            Found::One(sandbox) if sandbox.name == name => Ok(Some(self.refreshed(*sandbox)?)),
            _ => Ok(None),
        }
    }

    fn step_back(&self, sandbox: &Sandbox, steps: usize, label: &str) -> Result<Snapshot, EngineError> {
        match self.line(sandbox).nth(steps - 1) {
            Some(snapshot) => snapshot,
            None => Err(GroundError::NoSuchSnapshot { label: label.to_owned(), sandbox: Some(sandbox.name.clone()) }.into()),
        }
    }

    /// The snapshots on the way to where a sandbox stands, newest first. It ends where one was removed.
    pub(crate) fn line(&self, sandbox: &Sandbox) -> impl Iterator<Item = Result<Snapshot, EngineError>> + '_ {
        let mut next = sandbox.details.position.at.clone();
        std::iter::from_fn(move || {
            let found = self.store.get_snapshot(&next.take()?).map_err(EngineError::from).transpose()?;
            next = found.as_ref().ok().and_then(|s| s.details.parent.clone());
            Some(found)
        })
    }
}

fn not_its_own(sandbox: &Sandbox, label: &str) -> EngineError {
    GroundError::NotItsOwn { label: label.escape_debug().to_string(), sandbox: sandbox.name.clone() }.into()
}

/// `@-3` is three.
fn steps_back(label: &str) -> Option<usize> {
    label.strip_prefix("@-").and_then(|n| n.parse().ok()).filter(|n| *n > 0)
}
