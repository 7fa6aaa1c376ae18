//! Starts a stopped sandbox again, over the head it had.

use whatif_types::boot::Work;
use whatif_types::{Sandbox, Status};

use crate::boot::Wish;
use crate::choice::Choice;
use crate::create::{copied_trees, trees_by_number};
use crate::{Engine, EngineError, now, secrets};

impl Engine {
    /// `whatif start`. One that runs already is left alone.
    pub fn start(&self, name: Option<&str>) -> Result<Sandbox, EngineError> {
        let sandbox = self.resolve(name)?;
        if sandbox.status == Status::Active { Ok(sandbox) } else { self.start_stopped(sandbox) }
    }

    pub(crate) fn start_stopped(&self, sandbox: Sandbox) -> Result<Sandbox, EngineError> {
        let _lock = self.lock(&sandbox)?;
        let mut sandbox = self.refresh(&sandbox)?;
        if sandbox.status == Status::Active {
            return Ok(sandbox);
        }
        sandbox.status.check_move_to(Status::Active).map_err(whatif_store::StoreError::from)?;
        let directory = self.directory(&sandbox)?;
        let config = self.context.config_for(&sandbox.project)?;
        let provider = whatif_provider::by_name(&sandbox.provider)?;
        let secrets = secrets::of(&self.context, &config, &sandbox.details.masked, &sandbox.details.exposed);
        let wish = Wish {
            id: &sandbox.id,
            directory: &directory,
            project: &sandbox.project,
            known_trees: Some(&sandbox.details.trees),
            stack: &sandbox.details.position.stack,
            fill: None,
            net: sandbox.details.net,
            environment: &[],
            provider: &*provider,
            // Its head was made for this one; another could not read it.
            backend: Some(sandbox.details.backend),
            config: &config,
            secrets: &secrets,
        };
        let same_ids = sandbox.details.identity == whatif_types::Identity::Same;
        let choice = Choice { backend: sandbox.details.backend, same_ids, ..Choice::default() };
        let booting = self.begin_boot(&wish, choice)?;
        let (booting, protection) = self.finish_boot(&wish, booting, None)?;
        sandbox.details.trees = known_and_new(&sandbox, &trees_by_number(&booting));
        sandbox.details.copied_trees = copied_trees(&booting);
        sandbox.details.position.mounted = sandbox.details.position.stack.clone();
        sandbox.details.position.work = Work::default();
        sandbox.details.protection = protection;
        sandbox.details.keeper_pid = Some(booting.pid);
        sandbox.details.stop_reason = None;
        sandbox.status = Status::Active;
        sandbox.updated_at = now();
        self.store.update(&mut sandbox)?;
        self.publish(&sandbox);
        Ok(sandbox)
    }
}

/// Numbers given once are never given to another tree, even while their mount is absent.
fn known_and_new(sandbox: &Sandbox, now: &[std::path::PathBuf]) -> Vec<std::path::PathBuf> {
    let mut trees = sandbox.details.trees.clone();
    trees.extend(now.iter().filter(|t| !sandbox.details.trees.contains(t)).cloned());
    trees
}
