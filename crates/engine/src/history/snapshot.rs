//! `whatif snapshot`: a name for what a sandbox is at this moment.

use whatif_layers::state_dir::SandboxLock;
use whatif_provider::Restacker;
use whatif_store::Origin;
use whatif_types::{EventKind, LayerId, MadeBy, Sandbox, Selector, Snapshot, SnapshotDetails, SnapshotId, Status, name};

use crate::ground::GroundError;
use crate::history::History;
use crate::history::fork::Forks;
use crate::ids::new_id;
use crate::lifecycle::exec::Entered;
use crate::lifecycle::shift::{Destination, How, Live, Stopped};
use crate::{EngineError, now};

/// What snapshot to take.
#[derive(Clone, Debug)]
pub struct Take {
    /// Generated if there is none.
    pub label: Option<String>,
    pub message: Option<String>,
    pub live: Live,
    /// On the disk before it counts as taken.
    pub durable: bool,
    pub made_by: MadeBy,
}

impl Take {
    #[must_use]
    pub fn automatic(made_by: MadeBy, live: Live) -> Self {
        Self { label: None, message: None, live, durable: false, made_by }
    }
}

/// A snapshot that was taken.
#[derive(Debug)]
pub struct Taken {
    pub sandbox: Sandbox,
    pub snapshot: Snapshot,
    pub disturbed: Disturbed,
}

/// What it meant for whoever was at work in the sandbox.
#[derive(Debug)]
pub struct Disturbed {
    pub how: How,
    /// Processes that were ended for it.
    pub ended: Vec<whatif_keeper::protocol::Process>,
    /// Why the sandbox was stopped for it, if it was; it starts again by itself.
    pub stopped: Option<Stopped>,
}

/// A position that something can be made from.
#[derive(Debug)]
pub(crate) struct Named {
    pub sandbox: Sandbox,
    pub snapshot: Snapshot,
    /// If a snapshot had to be taken for it.
    pub disturbed: Option<Disturbed>,
}

impl History {
    pub fn snapshot(&self, which: &Selector, take: &Take) -> Result<Taken, EngineError> {
        if let Some(label) = &take.label {
            name::validate(label)?;
        }
        let helper = self.lifecycle.helper_ahead(which.word(), false);
        let sandbox = self.ground.resolve_to_use(which)?;
        let lock = self.ground.lock(&sandbox)?;
        let sandbox = self.ground.reread(&sandbox)?;
        self.ground.require_whole(&sandbox)?;
        let taken = self.snapshot_locked(sandbox, &lock, take, helper, None)?;
        self.ground.squash_if_due(&taken.sandbox);
        Ok(taken)
    }

    /// The caller has found that all of the sandbox is there.
    fn snapshot_locked(
        &self,
        sandbox: Sandbox,
        lock: &SandboxLock,
        take: &Take,
        helper: Option<Restacker>,
        forks: Option<&mut Forks<'_>>,
    ) -> Result<Taken, EngineError> {
        let trees = sandbox.details.trees.clone();
        self.take_snapshot(sandbox, lock, take, helper, forks).map_err(|error| error.about_inside(self.ground.state.root(), &trees))
    }

    fn take_snapshot(
        &self,
        mut sandbox: Sandbox,
        lock: &SandboxLock,
        take: &Take,
        helper: Option<Restacker>,
        mut forks: Option<&mut Forks<'_>>,
    ) -> Result<Taken, EngineError> {
        if sandbox.status == Status::Creating {
            return Err(GroundError::Busy { name: sandbox.name }.into());
        }
        self.ground.check_room()?;
        let label = self.free_label(&sandbox, take)?;
        self.ground.make_room_on_stack(&mut sandbox)?;
        // What the files of the head started from is frozen with them.
        self.ground.keep_bases_locked(&sandbox)?;
        if let Some(forks) = forks.as_deref_mut() {
            forks.make_room()?;
        }
        let mut destination = HereNamed { history: self, take, label, taken: None, forks };
        let moved = self.lifecycle.shift(&mut sandbox, lock, take.live, helper, &mut destination)?;
        let snapshot = destination.taken.ok_or_else(|| GroundError::Busy { name: sandbox.name.clone() })?;
        if take.durable {
            self.ground.state.flush_all()?;
        }
        self.ground.tell(EventKind::SnapshotTaken, &sandbox, vec![("label", snapshot.label.as_str().into())]);
        let disturbed = Disturbed { how: moved.how, ended: moved.ended, stopped: moved.stopped };
        Ok(Taken { sandbox, snapshot, disturbed })
    }

    /// The label asked for if it is free, or one that is.
    pub(crate) fn free_label(&self, sandbox: &Sandbox, take: &Take) -> Result<String, EngineError> {
        if let Some(label) = &take.label {
            return match self.ground.store.find_snapshot(&sandbox.id, label)? {
                Some(_) => Err(whatif_store::StoreError::LabelTaken { label: label.clone() }.into()),
                None => Ok(label.clone()),
            };
        }
        let mut number = sandbox.details.position.taken + 1;
        loop {
            let label = match take.made_by {
                MadeBy::Request => format!("s{number}"),
                automatic => format!("{}-{number}", automatic.prefix()),
            };
            if self.ground.store.find_snapshot(&sandbox.id, &label)?.is_none() {
                return Ok(label);
            }
            number += 1;
        }
    }

    /// Removes snapshots; what only they needed is deleted. Sandboxes made from them stay.
    pub fn remove_snapshots(&self, labels: &[String]) -> Result<Vec<(Sandbox, Snapshot)>, EngineError> {
        let removed = labels.iter().map(|label| self.ground.find_snapshot(label)).collect::<Result<Vec<_>, _>>()?;
        let ids: Vec<SnapshotId> = removed.iter().map(|(_, s)| s.id.clone()).collect();
        self.ground.store.delete_snapshots(&ids)?;
        self.ground.store.flush()?;
        self.ground.layers_are_left();
        for (sandbox, snapshot) in &removed {
            self.ground.tell(EventKind::SnapshotRemoved, sandbox, vec![("label", snapshot.label.as_str().into())]);
        }
        Ok(removed)
    }
}

/// Stays where it is, and gives it a name.
struct HereNamed<'a, 'f> {
    history: &'a History,
    take: &'a Take,
    label: String,
    taken: Option<Snapshot>,
    /// Made from it at once.
    forks: Option<&'a mut Forks<'f>>,
}

impl Destination for HereNamed<'_, '_> {
    fn stack(&self, sandbox: &Sandbox, layer: Option<&LayerId>) -> Vec<LayerId> {
        sandbox.details.position.stack.iter().chain(layer).cloned().collect()
    }

    fn record(&mut self, sandbox: &mut Sandbox, layer: Option<&LayerId>) -> Result<(), EngineError> {
        // Where the sandbox did not move, its stack lacks the layer: it is a copy.
        let mut stack = sandbox.details.position.stack.clone();
        stack.extend(layer.filter(|l| !sandbox.details.position.stack.contains(l)).cloned());
        let snapshot = new_snapshot(sandbox, self.label.clone(), self.take, stack)?;
        step_to(sandbox, &snapshot);
        if layer.is_none() && self.forks.is_some() {
            // Nobody has flushed the names of a new layer, and theirs with them.
            self.history.ground.state.flush_begun()?;
        }
        self.history.ground.store.insert_snapshot(&snapshot, sandbox)?;
        if let Some(forks) = self.forks.as_deref_mut() {
            forks.record(sandbox, &snapshot);
        }
        self.taken = Some(snapshot);
        Ok(())
    }

    fn leaves_its_stack(&self) -> bool {
        false
    }
}

pub(crate) fn new_snapshot(sandbox: &Sandbox, label: String, take: &Take, stack: Vec<LayerId>) -> Result<Snapshot, EngineError> {
    let id = SnapshotId::parse(new_id()?.as_str()).ok_or_else(|| GroundError::Busy { name: sandbox.name.clone() })?;
    Ok(Snapshot {
        id,
        sandbox: sandbox.id.clone(),
        label,
        created_at: now(),
        details: SnapshotDetails {
            made_by: take.made_by,
            message: take.message.clone(),
            parent: sandbox.details.position.at.clone(),
            stack,
            durable: take.durable,
        },
    })
}

/// The sandbox is at this snapshot now.
pub(crate) fn step_to(sandbox: &mut Sandbox, snapshot: &Snapshot) {
    sandbox.details.position.at = Some(snapshot.id.clone());
    sandbox.details.position.taken += 1;
    sandbox.updated_at = now();
}

impl History {
    /// A name for the present state of a sandbox that something can be made from: the snapshot it stands at if it has not
    /// changed since, a new one otherwise, with forks that are recorded together with it.
    pub(crate) fn named_position(
        &self,
        sandbox: &Sandbox,
        made_by: MadeBy,
        live: Live,
        helper: Option<Restacker>,
        forks: Option<&mut Forks<'_>>,
    ) -> Result<Named, EngineError> {
        let lock = self.ground.lock(sandbox)?;
        let sandbox = self.ground.refresh(sandbox)?;
        self.ground.require_whole(&sandbox)?;
        let at = match &sandbox.details.position.at {
            Some(id) if self.ground.heads_are_empty(&sandbox)? => self.ground.store.get_snapshot(id)?,
            _ => None,
        };
        if let Some(snapshot) = at.filter(|s| s.details.stack == sandbox.details.position.stack) {
            return Ok(Named { sandbox, snapshot, disturbed: None });
        }
        let Taken { sandbox, snapshot, disturbed } =
            self.snapshot_locked(sandbox, &lock, &Take::automatic(made_by, live), helper, forks)?;
        Ok(Named { sandbox, snapshot, disturbed: Some(disturbed) })
    }

    /// The same for what a user calls a sandbox or a snapshot.
    pub(crate) fn position_called(
        &self,
        source: &str,
        made_by: MadeBy,
        live: Live,
        helper: Option<Restacker>,
        forks: Option<&mut Forks<'_>>,
    ) -> Result<Named, EngineError> {
        if let Some(sandbox) = self.ground.sandbox_called(source)? {
            return self.named_position(&sandbox, made_by, live, helper, forks);
        }
        let (sandbox, snapshot) = self.ground.find_snapshot(source).map_err(|error| match error {
            EngineError::Ground(GroundError::NoSuchSnapshot { sandbox: None, .. }) => {
                GroundError::NoSuchPosition { name: source.escape_debug().to_string() }.into()
            }
            other => other,
        })?;
        Ok(Named { sandbox, snapshot, disturbed: None })
    }
}

impl History {
    /// The snapshot before a command; none if nothing has changed since the last one. Old ones of its kind are removed.
    pub fn snapshot_before_command(&self, entered: &mut Entered) -> Result<Option<Taken>, EngineError> {
        entered.let_go()?;
        let lock = self.ground.lock(&entered.sandbox)?;
        let sandbox = self.ground.refresh(&entered.sandbox)?;
        if sandbox.details.position.at.is_some() && self.ground.heads_are_empty(&sandbox)? {
            return Ok(None);
        }
        self.ground.require_whole(&sandbox)?;
        let taken = self.snapshot_locked(sandbox, &lock, &Take::automatic(MadeBy::Exec, Live::Copy), None, None)?;
        self.forget_old_snapshots(&taken.sandbox)?;
        self.ground.squash_if_due(&taken.sandbox);
        Ok(Some(taken))
    }

    /// Of automatic snapshots only the latest are kept.
    fn forget_old_snapshots(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        let keep = self.ground.caller.config_for(&sandbox.project)?.snapshots.keep;
        let taken = sandbox.details.position.taken;
        // Looked at now and then only: listing them is more work than leaving a few too many.
        if !taken.is_multiple_of(FORGET_EVERY) {
            return Ok(());
        }
        let mut automatic = self.ground.store.list_snapshots(&sandbox.id)?;
        automatic.retain(|s| s.details.made_by == MadeBy::Exec);
        let old = automatic.len().saturating_sub(keep);
        let ids: Vec<SnapshotId> = automatic.into_iter().take(old).map(|s| s.id).collect();
        Ok(self.ground.store.delete_snapshots(&ids)?)
    }
}

const FORGET_EVERY: u64 = 8;

/// What a snapshot is to whoever starts from it.
pub(crate) fn origin(snapshot: &Snapshot) -> Origin<'_> {
    Origin::Snapshot(&snapshot.id)
}
