//! `whatif rollback`: a sandbox returns to a snapshot. What it had is kept under a name of its own, until that is removed.

use whatif_types::{EventKind, LayerId, MadeBy, Sandbox, Selector, Snapshot};

use crate::history::History;
use crate::history::snapshot::{Take, new_snapshot, origin};
use crate::lifecycle::shift::{Destination, Live, Stopped};
use crate::owner::Owner;
use crate::{EngineError, now};

/// A rollback that happened.
#[derive(Debug)]
pub struct RolledBack {
    pub sandbox: Sandbox,
    pub to: Snapshot,
    /// What the sandbox was before; roll back to it to undo this.
    pub before: Option<Snapshot>,
    /// Processes that were ended for it.
    pub ended: Vec<whatif_keeper::protocol::Process>,
    /// Why the sandbox was stopped for it, if it was; it starts again by itself.
    pub stopped: Option<Stopped>,
}

impl History {
    /// Returns to the snapshot that `label` means for this sandbox. What runs in it is ended, or nothing is done: `live` says.
    pub fn roll_back(&self, which: &Selector, label: &str, live: Live) -> Result<RolledBack, EngineError> {
        let helper = self.lifecycle.helper_ahead(which.word(), true);
        let sandbox = self.ground.resolve_to_use(which)?;
        let lock = self.ground.lock(&sandbox)?;
        let mut sandbox = self.ground.reread(&sandbox)?;
        let to = self.ground.snapshot_for(&sandbox, label)?;
        self.ground.require_whole(&sandbox)?;
        self.ground.require_layers(&Owner::Snapshot(format!("{}@{}", sandbox.name, to.label)), &to.details.stack)?;
        self.ground.keep_bases_locked(&sandbox)?;
        let take =
            Take { message: Some(format!("before the rollback to {}", to.label)), ..Take::automatic(MadeBy::Rollback, live) };
        let label = self.free_label(&sandbox, &take)?;
        let left = sandbox.details.position.stack.clone();
        let mut destination = There { history: self, to: &to, take: &take, label, left, before: None };
        let moved = self.lifecycle.shift(&mut sandbox, &lock, live, helper, &mut destination)?;
        let before = destination.before;
        self.ground.tell(EventKind::SandboxRolledBack, &sandbox, vec![("to", to.label.as_str().into())]);
        Ok(RolledBack { sandbox, to, before, ended: moved.ended, stopped: moved.stopped })
    }
}

struct There<'a> {
    history: &'a History,
    to: &'a Snapshot,
    take: &'a Take,
    label: String,
    /// The stack the sandbox stood on.
    left: Vec<LayerId>,
    before: Option<Snapshot>,
}

impl Destination for There<'_> {
    fn stack(&self, _sandbox: &Sandbox, _layer: Option<&LayerId>) -> Vec<LayerId> {
        self.to.details.stack.clone()
    }

    fn record(&mut self, sandbox: &mut Sandbox, layer: Option<&LayerId>) -> Result<(), EngineError> {
        let Some(layer) = layer else {
            sandbox.details.position.at = Some(self.to.id.clone());
            sandbox.updated_at = now();
            return Ok(self.history.ground.store.move_to(sandbox, &origin(self.to), None)?);
        };
        let left: Vec<LayerId> = self.left.iter().chain([layer]).cloned().collect();
        let before = new_snapshot(sandbox, self.label.clone(), self.take, left)?;
        sandbox.details.position.at = Some(self.to.id.clone());
        sandbox.details.position.taken += 1;
        sandbox.updated_at = now();
        // Without the snapshot it returns to, its layers may be gone: those of this sandbox may have been merged since.
        self.history.ground.store.move_to(sandbox, &origin(self.to), Some(&before))?;
        self.before = Some(before);
        Ok(())
    }

    fn leaves_its_stack(&self) -> bool {
        true
    }
}
