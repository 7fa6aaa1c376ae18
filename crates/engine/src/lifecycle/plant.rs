//! Sandboxes that are recorded before anything runs in them: forks and imports.

use std::path::PathBuf;

use whatif_layers::state_dir::SandboxLock;
use whatif_layers::{StateDir, remove};
use whatif_store::{Origin, StoreError};
use whatif_types::sandbox::{Position, StopReason};
use whatif_types::{Sandbox, SandboxId, Status};

use crate::ground::GroundError;
use crate::ids::new_id;
use crate::lifecycle::Lifecycle;
use crate::lifecycle::create::inherited_masks;
use crate::{EngineError, now};

/// The directory of a sandbox that is about to be recorded. Without a record it is of no use, and goes again.
#[derive(Debug)]
pub(crate) struct Plot {
    state: StateDir,
    id: SandboxId,
    directory: PathBuf,
    is_recorded: bool,
    /// As long as it is held, nobody takes this for what a crash left.
    _lock: SandboxLock,
}

impl Plot {
    /// Puts it where sandboxes lie, if it became one.
    pub(crate) fn settle(self) -> Result<(), EngineError> {
        if self.is_recorded {
            self.state.settle(&self.id)?;
        }
        Ok(())
    }
}

impl Drop for Plot {
    fn drop(&mut self) {
        // The next command finds what could not be removed.
        if !self.is_recorded {
            let _ = remove::tree(&self.directory);
        }
    }
}

impl Lifecycle {
    pub(crate) fn new_plot(&self) -> Result<Plot, EngineError> {
        let id = new_id()?;
        let (directory, lock) = self.ground.state.create(&id)?;
        Ok(Plot { state: self.ground.state.clone(), id, directory, is_recorded: false, _lock: lock })
    }

    /// Records a sandbox that begins at a position, like the one it comes from in everything but what is exposed to it. It is started
    /// when needed.
    pub(crate) fn plant(
        &self,
        plot: &mut Plot,
        like: &Sandbox,
        name: &str,
        position: Position,
        expose: &[String],
        origin: Option<&Origin<'_>>,
    ) -> Result<Sandbox, EngineError> {
        let mut details = like.details.clone();
        details.position = Position { heads: Some(Vec::new()), ..position };
        let exposed = std::mem::replace(&mut details.exposed, expose.to_vec());
        details.veiled.extend(exposed);
        details.masked = inherited_masks(&details.masked, expose);
        details.labels.clear();
        details.handle = None;
        details.stop_reason = Some(StopReason::NotStarted);
        details.error = None;
        details.command.clear();
        details.exit_code = None;
        details.usage = None;
        details.enforced.clear();
        details.default_limits = None;
        // A port can lead to one only.
        details.network.publish.clear();
        details.expiry = self.ground.expiry(&details.limits)?;
        details.transient = false;
        details.disposable = false;
        // Their values are known to the other one's keeper only.
        details.set_env.clear();
        let sandbox = Sandbox {
            id: plot.id.clone(),
            name: name.to_owned(),
            status: Status::Stopped,
            version: 1,
            created_at: now(),
            updated_at: now(),
            project: like.project.clone(),
            provider: like.provider.clone(),
            owner: Some(self.ground.caller.principal.key()),
            node: None,
            details,
        };
        let inserted = match origin {
            Some(origin) => self.ground.store.insert_from(&sandbox, origin),
            None => self.ground.store.insert(&sandbox, None).map(|_| ()),
        };
        match inserted {
            Ok(()) => {
                plot.is_recorded = true;
                self.ground.note_removal(&sandbox);
                Ok(sandbox)
            }
            Err(StoreError::OriginGone) => Err(GroundError::NoSuchSnapshot { label: like.name.clone(), sandbox: None }.into()),
            Err(other) => Err(other.into()),
        }
    }
}
