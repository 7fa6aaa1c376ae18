//! Changes what was said about a sandbox when it was made: its labels, and how long it lives.

use std::collections::BTreeMap;

use whatif_types::limits::Expiry;
use whatif_types::{EventKind, Limits, Sandbox, Selector, Span, Status};

use crate::EngineError;
use crate::ground::lifetime::clock;
use crate::ground::limits;
use crate::lifecycle::{Lifecycle, LifecycleError};

/// What is to be different. Nothing said stays as it is.
#[derive(Clone, Debug, Default)]
pub struct Alteration {
    /// By name; a label without a value is removed.
    pub labels: BTreeMap<String, Option<String>>,
    /// How long it lives from now on.
    pub ttl: Option<Span>,
    /// Only if the record is of this version.
    pub if_version: Option<u64>,
}

impl Lifecycle {
    /// What runs in the sandbox does not notice.
    pub fn alter(&self, which: &Selector, asked: &Alteration) -> Result<Sandbox, EngineError> {
        limits::check(&Limits { ttl: asked.ttl, ..Limits::none() })?;
        let sandbox = self.ground.resolve(which)?;
        let _lock = self.ground.lock(&sandbox)?;
        let mut sandbox = self.ground.refresh(&sandbox)?;
        if let Some(seen) = asked.if_version.filter(|seen| *seen != sandbox.version) {
            return Err(LifecycleError::VersionChanged { name: sandbox.name, seen, now: sandbox.version }.into());
        }
        let labels = with_labels(&sandbox.details.labels, &asked.labels);
        if asked.ttl.is_none() && labels == sandbox.details.labels {
            return Ok(sandbox);
        }
        sandbox.details.labels = labels;
        let ends_at_ms = asked.ttl.map(|ttl| self.give_time(&mut sandbox, ttl)).transpose()?;
        self.record_altered(&mut sandbox, ends_at_ms)?;
        let labels = serde_json::to_value(&sandbox.details.labels).unwrap_or_default();
        let ttl = sandbox.details.limits.ttl.map(|ttl| ttl.to_string());
        self.ground.tell(EventKind::SandboxChanged, &sandbox, vec![("labels", labels), ("ttl", ttl.into())]);
        Ok(sandbox)
    }

    /// Its time begins again, and is as long as the project allows. Returns when it ends, by the clock of this boot.
    pub(super) fn give_time(&self, sandbox: &mut Sandbox, ttl: Span) -> Result<u64, EngineError> {
        let asked = Limits { ttl: Some(ttl), then: sandbox.details.limits.then, ..Limits::none() };
        let limits = asked.at_most(&self.ground.caller.config_for(&sandbox.project)?.limits_of_project);
        let ttl = limits.ttl.unwrap_or(ttl);
        let clock = clock()?;
        sandbox.details.limits.ttl = Some(ttl);
        sandbox.details.limits.then = limits.then;
        sandbox.details.expiry = Some(Expiry::after(ttl, &clock));
        Ok(clock.since_boot_ms.saturating_add(ttl.as_millis()))
    }

    /// Tells the keeper too, if there is one and its time is another.
    pub(super) fn record_altered(&self, sandbox: &mut Sandbox, ends_at_ms: Option<u64>) -> Result<(), EngineError> {
        self.ground.store.update(sandbox)?;
        self.ground.note_removal(sandbox);
        if sandbox.status == Status::Active {
            if let Some(ends_at_ms) = ends_at_ms {
                self.ground.require_our_keeper(sandbox)?;
                self.ground.connect(sandbox)?.renew(Some(ends_at_ms))?;
            }
            self.ground.publish(sandbox);
        }
        Ok(())
    }
}

fn with_labels(known: &BTreeMap<String, String>, asked: &BTreeMap<String, Option<String>>) -> BTreeMap<String, String> {
    let mut labels = known.clone();
    for (name, value) in asked {
        match value {
            Some(value) => drop(labels.insert(name.clone(), value.clone())),
            None => drop(labels.remove(name)),
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_merged_and_those_without_a_value_go() {
        let known = BTreeMap::from([("team".to_owned(), "x".to_owned()), ("keep".to_owned(), String::new())]);
        let asked = BTreeMap::from([
            ("team".to_owned(), Some("y".to_owned())),
            ("keep".to_owned(), None),
            ("never".to_owned(), None),
            ("more".to_owned(), Some(String::new())),
        ]);
        let labels = with_labels(&known, &asked);
        assert_eq!(labels, BTreeMap::from([("team".to_owned(), "y".to_owned()), ("more".to_owned(), String::new())]));
        assert_eq!(with_labels(&known, &BTreeMap::new()), known);
    }
}
