//! `whatif fork`: new sandboxes that begin where another one is, sharing every layer with it.

use whatif_store::{Origin, StoreError};
use whatif_types::sandbox::{Position, StopReason};
use whatif_types::{MadeBy, Sandbox, Snapshot, Status, name};

use crate::create::{new_id, with_a_name};
use crate::lineage::Owner;
use crate::shift::Live;
use crate::snapshot::{Disturbed, Named, origin};
use crate::{Engine, EngineError, now};

/// What to make from what.
#[derive(Clone, Debug)]
pub struct Fork<'a> {
    /// A sandbox, or a snapshot.
    pub source: &'a str,
    pub name: Option<&'a str>,
    pub count: usize,
    pub live: Live,
}

/// Forks that were made.
#[derive(Debug)]
pub struct Forked {
    pub from: Snapshot,
    pub parent: Sandbox,
    pub sandboxes: Vec<Sandbox>,
    pub disturbed: Option<Disturbed>,
}

impl Engine {
    pub fn fork(&self, fork: &Fork<'_>) -> Result<Forked, EngineError> {
        if let Some(given) = fork.name {
            name::validate(given)?;
        }
        let helper = self.helper_ahead(Some(fork.source), false);
        self.check_room()?;
        let Named { sandbox: parent, snapshot: from, disturbed } =
            self.position_called(fork.source, MadeBy::Fork, fork.live, helper)?;
        let made_from = format!("{}@{}", parent.name, from.label);
        self.require_layers(&Owner::Snapshot(made_from.clone()), &from.details.stack)?;
        let mut sandboxes = Vec::with_capacity(fork.count);
        for number in 1..=fork.count {
            let given = match fork.name {
                Some(name) if fork.count > 1 => Some(format!("{name}-{number}")),
                other => other.map(str::to_owned),
            };
            let position = Position {
                stack: from.details.stack.clone(),
                at: Some(from.id.clone()),
                began_at: Some(parent.details.position.began_at.unwrap_or(parent.created_at)),
                arrived_at: parent.details.position.arrived_at,
                made_from: Some(made_from.clone()),
                ..Position::default()
            };
            let made = with_a_name(given.as_deref(), |name| self.plant(&parent, name, position.clone(), Some(&origin(&from))));
            sandboxes.push(made?);
        }
        self.flush_settled()?;
        Ok(Forked { from, parent, sandboxes, disturbed })
    }

    /// Sandboxes that were settled so far survive a power cut, with their records. In this order: a record whose directory is not
    /// there would be taken for that of a lost sandbox.
    pub(crate) fn flush_settled(&self) -> Result<(), EngineError> {
        self.state.flush_settled()?;
        Ok(self.store.flush()?)
    }

    /// Records a sandbox that begins at a position, like the one it comes from in everything else. It is started when needed.
    pub(crate) fn plant(
        &self,
        like: &Sandbox,
        name: &str,
        position: Position,
        origin: Option<&Origin<'_>>,
    ) -> Result<Sandbox, EngineError> {
        let id = new_id()?;
        let mut details = like.details.clone();
        details.position = Position { heads: Some(Vec::new()), ..position };
        details.labels.clear();
        details.keeper_pid = None;
        details.stop_reason = Some(StopReason::NotStarted);
        details.error = None;
        details.command.clear();
        details.exit_code = None;
        details.usage = None;
        details.enforced.clear();
        // A port can lead to one only.
        details.network.publish.clear();
        details.expiry = self.expiry(&details.limits)?;
        details.transient = false;
        details.disposable = false;
        // Their values are known to the other one's keeper only.
        details.set_env.clear();
        let sandbox = Sandbox {
            id: id.clone(),
            name: name.to_owned(),
            status: Status::Stopped,
            version: 1,
            created_at: now(),
            updated_at: now(),
            project: like.project.clone(),
            provider: like.provider.clone(),
            details,
        };
        let (directory, _lock) = self.state.create(&id)?;
        let inserted = match origin {
            Some(origin) => self.store.insert_from(&sandbox, origin),
            None => self.store.insert(&sandbox, None).map(|_| ()),
        };
        if let Err(error) = inserted {
            let _ = whatif_layers::remove::tree(&directory);
            return Err(match error {
                StoreError::OriginGone => EngineError::NoSuchSnapshot { label: like.name.clone(), sandbox: None },
                other => other.into(),
            });
        }
        self.state.settle(&id)?;
        Ok(sandbox)
    }
}
