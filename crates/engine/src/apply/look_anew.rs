//! Lets running sandboxes see what became of reality's directories.
//!
//! The kernel remembers the directories that a mount has looked up. One that an apply removed and made again stays the removed one
//! for whoever has seen it before: an empty one. Where nothing runs, the layers are mounted anew, and everything is looked up again.

use std::time::{Duration, Instant};

use whatif_apply::{Change as Act, Expected, Kind, Operation, Plan, Source};
use whatif_layers::state_dir::SandboxLock;
use whatif_types::{Backend, LayerId, Sandbox, Status};

use super::About;
use crate::shift::{Destination, Live};
use crate::{Engine, EngineError, now};

/// So long is spent on other sandboxes; those that are left see it from their next snapshot, rollback or start on.
const PATIENCE: Duration = Duration::from_millis(500);

impl Engine {
    /// After a transaction, for the sandbox it was about, whose lock the caller holds, and for all others in the same trees.
    pub(crate) fn look_anew(&self, sandbox: Sandbox, plan: &Plan) -> Result<(), EngineError> {
        let about: About = serde_json::from_value(plan.about.clone())
            .map_err(|e| EngineError::io("read the description of", &sandbox.project, e.into()))?;
        let id = sandbox.id.clone();
        let own = if about.marks.is_empty() { Ok(()) } else { self.look_without_marks(sandbox) };
        if plan.operations.iter().any(replaces_a_directory) {
            let deadline = Instant::now() + PATIENCE;
            let is_here = |s: &Sandbox| plan.roots.iter().any(|r| r.starts_with(&s.project) || s.project.starts_with(r));
            // Others know nothing of reality, or could only be stopped for it.
            let is_meant = |s: &Sandbox| s.status == Status::Active && s.details.backend == Backend::Overlay && s.id != id;
            let others = self.store.list()?.into_iter().filter(|s| is_meant(s) && is_here(s));
            for other in others.take_while(|_| Instant::now() < deadline) {
                let _ = self.mount_other_anew(&other);
            }
        }
        own
    }

    /// In layers marks are changed by changing the layers, so they may be mounted meanwhile.
    fn look_without_marks(&self, mut sandbox: Sandbox) -> Result<(), EngineError> {
        if sandbox.status != Status::Active {
            return self.drop_marks(&mut sandbox);
        }
        self.mount_anew(&mut sandbox)?;
        self.drop_marks(&mut sandbox)?;
        self.mount_anew(&mut sandbox)
    }

    fn mount_other_anew(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        // Whoever is at work with it is not kept waiting.
        let Some(_lock) = SandboxLock::take(&self.directory(sandbox)?)? else { return Ok(()) };
        let mut sandbox = self.refresh(sandbox)?;
        if sandbox.status == Status::Active { self.mount_anew(&mut sandbox) } else { Ok(()) }
    }

    /// What was the head is a layer afterwards.
    fn mount_anew(&self, sandbox: &mut Sandbox) -> Result<(), EngineError> {
        self.make_room_on_stack(sandbox)?;
        self.keep_bases_locked(sandbox)?;
        self.shift(sandbox, Live::Refuse, None, &mut Here { engine: self }).map(|_| ())
    }
}

fn replaces_a_directory(operation: &Operation) -> bool {
    let is_directory = |e: &Expected| e.identity().is_some_and(|i| i.kind == Kind::Directory);
    match &operation.change {
        Act::Remove => is_directory(&operation.expected),
        Act::Put { source, .. } => matches!(source, Source::Directory) || is_directory(&operation.expected),
        _ => false,
    }
}

/// Where the sandbox is already.
struct Here<'a> {
    engine: &'a Engine,
}

impl Destination for Here<'_> {
    fn stack(&self, sandbox: &Sandbox, layer: Option<&LayerId>) -> Vec<LayerId> {
        sandbox.details.position.stack.iter().chain(layer).cloned().collect()
    }

    fn record(&mut self, sandbox: &mut Sandbox, _layer: Option<&LayerId>) -> Result<(), EngineError> {
        sandbox.updated_at = now();
        Ok(self.engine.store.update(sandbox)?)
    }

    fn leaves_its_stack(&self) -> bool {
        true
    }
}
