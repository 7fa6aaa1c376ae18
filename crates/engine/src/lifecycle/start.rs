//! Starts a stopped sandbox again, over the head it had.

use whatif_types::boot::{PROTOCOL_VERSION, Work};
use whatif_types::sandbox::StopReason;
use whatif_types::{EventKind, Limits, Sandbox, Selector, Span, Status};

use crate::choice::Choice;
use crate::ground::intact::with_heads_of;
use crate::ground::lifetime::{clock, is_expired};
use crate::ground::{GroundError, limits};
use crate::lifecycle::shift::View;
use crate::lifecycle::{Lifecycle, LifecycleError};
use crate::network::forget_supervisor;
use crate::{EngineError, now, roots};

/// Why a stopped sandbox is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Asked,
    /// Nobody meant it to be down: it rests, or its keeper was lost. One that was stopped on request stays so.
    ForACommand,
}

impl Lifecycle {
    /// `whatif start`. One that runs already is left alone, but for the time it has: with a `ttl` that begins anew.
    pub fn start(&self, which: &Selector, ttl: Option<Span>) -> Result<Sandbox, EngineError> {
        limits::check(&Limits { ttl, ..Limits::none() })?;
        let mut sandbox = self.ground.resolve_to_use(which)?;
        if let Some(ttl) = ttl {
            sandbox = self.renew(&sandbox, ttl)?;
        }
        if sandbox.status != Status::Active {
            return self.start_stopped(sandbox, Why::Asked);
        }
        // Its supervisor may have been killed.
        if self.network.network_mark(&sandbox) > 0 || !sandbox.details.network.publish.is_empty() {
            self.network.supervise(&sandbox)?;
            self.network.publish_missing(&sandbox);
        }
        Ok(sandbox)
    }

    fn renew(&self, sandbox: &Sandbox, ttl: Span) -> Result<Sandbox, EngineError> {
        let _lock = self.ground.lock(sandbox)?;
        let mut sandbox = self.ground.refresh(sandbox)?;
        let ends_at_ms = self.give_time(&mut sandbox, ttl)?;
        self.record_altered(&mut sandbox, Some(ends_at_ms))?;
        Ok(sandbox)
    }

    pub(crate) fn start_stopped(&self, sandbox: Sandbox, why: Why) -> Result<Sandbox, EngineError> {
        let _lock = self.ground.lock(&sandbox)?;
        let mut sandbox = self.ground.refresh(&sandbox)?;
        if sandbox.status == Status::Active {
            return Ok(sandbox);
        }
        // Before the lock it may have looked as if its keeper was lost, while another command was stopping it.
        if why == Why::ForACommand && sandbox.details.stop_reason == Some(StopReason::Requested) {
            return Err(GroundError::Stopped { name: sandbox.name }.into());
        }
        if is_expired(&sandbox)? {
            return Err(LifecycleError::Expired { name: sandbox.name }.into());
        }
        if let Some(expiry) = sandbox.details.expiry.take() {
            sandbox.details.expiry = Some(expiry.in_this_boot(&clock()?));
        }
        sandbox.status.check_move_to(Status::Active).map_err(whatif_store::StoreError::from)?;
        self.ground.require_whole(&sandbox)?;
        self.drop_marks(&mut sandbox)?;
        let directory = self.ground.directory(&sandbox)?;
        self.ground.mark_deleted(&sandbox, &directory);
        View::forget(&directory);
        forget_supervisor(&directory);
        let (mounted, stack) = (&sandbox.details.mounted_trees, &sandbox.details.position.stack);
        let mounted_before = self.with_changes(mounted, stack, Some(&directory.join("head")))?;
        let same_ids = sandbox.details.identity == whatif_types::Identity::Same;
        let choice = Choice { backend: sandbox.details.backend, same_ids, ..Choice::default() };
        let booting = self.with_wish(&sandbox, &directory, &sandbox.details.position.stack, |wish| {
            let booting = self.begin_boot(wish, choice)?;
            self.finish_boot(wish, booting, None)
        })?;
        // It has other ids outside each time it starts.
        let heads = with_heads_of(&sandbox, &booting.plan);
        let (backend, reason) = (sandbox.details.backend, sandbox.details.backend_reason.take());
        booting.note_in(&mut sandbox);
        (sandbox.details.backend, sandbox.details.backend_reason) = (backend, reason);
        sandbox.details.position.heads = Some(heads);
        sandbox.details.position.mounted = sandbox.details.position.stack.clone();
        sandbox.details.position.work = Work::default();
        sandbox.details.mounted_trees = roots::mounts_and(&booting.viewed.roots, &mounted_before);
        sandbox.details.position.viewed = Some(booting.viewed);
        // Its heads are made, and hide it from here on.
        sandbox.details.veiled.clear();
        sandbox.details.keeper_version = PROTOCOL_VERSION;
        sandbox.details.stop_reason = None;
        sandbox.status = Status::Active;
        sandbox.updated_at = now();
        self.ground.record(&mut sandbox)?;
        self.ground.note_removal(&sandbox);
        self.ground.publish(&sandbox);
        let network = &sandbox.details.network;
        if !(network.publish.is_empty() && network.secrets.is_empty()) {
            self.network.supervise(&sandbox)?;
        }
        self.ground.tell(EventKind::SandboxStarted, &sandbox, Vec::new());
        Ok(sandbox)
    }
}
