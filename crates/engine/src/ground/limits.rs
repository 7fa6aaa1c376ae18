//! Which limits a sandbox has. By what each is enforced is its provider's concern.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use whatif_keeper::protocol::Request;
use whatif_layers::allotment::Mounted;
use whatif_layers::state_dir::FAREWELL;
pub use whatif_provider::Scope;
use whatif_provider::{BindError, Binding, Bound, Enforcement, Provider, Recorded, Weak};
use whatif_types::boot::{KeeperLimits, Room};
use whatif_types::config::UserConfig;
use whatif_types::limits::{Expiry, Means, Resource};
use whatif_types::{Enforced, Handle, Identity, Limits, Sandbox, SandboxId};

use crate::EngineError;
use crate::ground::lifetime::clock;
use crate::ground::{Ground, GroundError};
use crate::owner::Owner;

/// Set for a command that was started anew in a scope.
pub const IN_SCOPE: &str = "WHATIF_IN_SCOPE";

/// What enforces the limits of a sandbox, its keeper's part included.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    pub bound: Bound,
    keeper: KeeperLimits,
    farewell: Option<OwnedFd>,
}

impl Bounds {
    /// What the keeper is told, with descriptors in the order it takes them.
    pub(crate) fn request(&self) -> (Request, Vec<BorrowedFd<'_>>) {
        let group = self.bound.passed();
        let descriptors = self.bound.descriptors().chain(self.farewell.iter().map(AsFd::as_fd)).collect();
        (Request::Bounds { limits: Box::new(self.keeper.clone()), group, farewell: self.farewell.is_some() }, descriptors)
    }
}

/// What limits a sandbox, and until when it lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease<'a> {
    pub limits: &'a Limits,
    pub expiry: Option<&'a Expiry>,
    /// One that was there before, and may have snapshots.
    pub sandbox: Option<&'a Sandbox>,
}

impl Lease<'_> {
    pub(crate) fn unlimited() -> Self {
        const UNLIMITED: &Limits = &Limits::none();
        Self { limits: UNLIMITED, expiry: None, sandbox: None }
    }
}

/// Refuses a limit of 0: taken at its word it would end everything at once, and nobody who means "no limit" wants that.
pub fn check(asked: &Limits) -> Result<(), EngineError> {
    asked.check().map_err(|why| GroundError::Limit { why, examples: asked.examples() }.into())
}

impl Ground {
    /// What is said on the command line, then by a profile or preset, then by the configuration; never more than the project allows.
    pub(crate) fn limits(&self, config: &UserConfig, asked: &Limits, provider: &dyn Provider) -> Result<Limits, EngineError> {
        check(asked)?;
        let mut limits = asked.clone();
        if let Some(name) = asked.preset.as_deref().filter(|name| *name != Limits::OFF) {
            limits = limits.or(profile(config, name)?);
        }
        if !asked.are_off() {
            limits = limits.or(config.limits.clone());
            if let Some(name) = config.limits.preset.as_deref().filter(|name| asked.preset.is_none() && *name != Limits::OFF) {
                limits = limits.or(profile(config, name)?);
            }
        }
        let mut most = config.limits_of_project.clone();
        if let Some(name) = most.preset.clone() {
            most = most.or(profile(config, &name)?);
        }
        let limits = limits.at_most(&most);
        if limits.require {
            self.require(&limits, provider)?;
        }
        Ok(limits)
    }

    /// Refuses limits that would be enforced less strictly than a kernel could.
    fn require(&self, limits: &Limits, provider: &dyn Provider) -> Result<(), EngineError> {
        let Enforcement { weak, scope } = provider.enforcement(limits, self.caller.identity());
        if let Some(scope) = scope.filter(|_| self.can_move_into_scope()) {
            return Err(GroundError::ScopeNeeded { scope }.into());
        }
        match weak {
            Some(Weak { resource, by, why, fix }) => Err(GroundError::LimitsUnavailable { resource, by, why, fix }.into()),
            None => Ok(()),
        }
    }

    /// Where limits can be had by starting anew in a scope of the user's service manager, that is the way to go; once.
    fn can_move_into_scope(&self) -> bool {
        let is_in_one = self.caller.environment.iter().any(|(name, _)| name == IN_SCOPE);
        self.caller.runtime_dir.is_some() && !is_in_one
    }

    /// Sets up what enforces the limits, before anything runs.
    pub(crate) fn bind(
        &self,
        id: &SandboxId,
        directory: &Path,
        lease: Lease<'_>,
        config: &UserConfig,
        (provider, identity, keeper): (&dyn Provider, Identity, Handle),
    ) -> Result<Bounds, EngineError> {
        let limits = lease.limits;
        let mut bounds = Bounds::default();
        bounds.keeper.keep_free = config.disk.keep_free.map(|s| s.0);
        bounds.keeper.idle_ms = limits.idle.map(|i| i.as_millis());
        if let Some(expiry) = lease.expiry {
            let clock = clock()?;
            bounds.keeper.ends_at_ms = Some(clock.since_boot_ms.saturating_add(expiry.remaining_ms(&clock)));
        }
        if limits.idle.is_some() || lease.expiry.is_some() {
            let path = directory.join(FAREWELL);
            let file = std::fs::File::create(&path).map_err(|e| EngineError::io("create", &path, e))?;
            bounds.farewell = Some(file.into());
        }
        if limits.limits_room() {
            bounds.keeper.room = self.room_of(limits, lease.sandbox)?;
            bounds.keeper.room.is_exact = self.limit_room(directory, &bounds.keeper.room, |trees| match lease.sandbox {
                Some(_) => Mounted::Soon { trees },
                // With nothing in it, it has room enough.
                None => Mounted::With { trees },
            })?;
        }
        let guards = !limits.are_off();
        if limits.resources().next().is_none() && !guards {
            return Ok(bounds);
        }
        let (state, can_move) = (self.state.root(), self.can_move_into_scope());
        let keep_memory = config.memory.keep_free;
        bounds.bound = provider.bind(&Binding { id, state, limits, identity, can_move, guards, keep_memory, keeper })?;
        if bounds.keeper.room.is_exact {
            let is_room = |e: &&mut Enforced| matches!(e.resource, Resource::Disk | Resource::Inodes);
            bounds.bound.enforced.iter_mut().filter(is_room).for_each(|enforced| enforced.by = Means::Quota);
        }
        let KeeperLimits { memory, pids, processors, host_memory, .. } = bounds.bound.keeper;
        bounds.keeper = KeeperLimits { memory, pids, processors, host_memory, ..bounds.keeper };
        Ok(bounds)
    }

    /// What a sandbox's own frozen layers take of its room; not those it shares with others.
    pub(crate) fn frozen_room(&self, sandbox: &Sandbox) -> Result<Room, EngineError> {
        let mut room = Room::default();
        for layer in self.lineage()?.only_needed_by(&Owner::Sandbox(sandbox.name.clone())) {
            let measured = whatif_layers::measure::tree(&self.state.layer_path(layer))?;
            room.frozen_bytes += measured.bytes;
            room.frozen_files += measured.files;
        }
        Ok(room)
    }

    /// What a sandbox with these limits may take, and what its layers take of that.
    pub(crate) fn room_of(&self, limits: &Limits, sandbox: Option<&Sandbox>) -> Result<Room, EngineError> {
        let frozen = sandbox.map(|s| self.frozen_room(s)).transpose()?.unwrap_or_default();
        Ok(Room { bytes: limits.disk.map(|d| d.0), files: limits.inodes, ..frozen })
    }

    /// Removes what limited a sandbox whose keeper is gone, and whatever else the machine has of it.
    pub(crate) fn unbind(&self, sandbox: &Sandbox) {
        match self.directory(sandbox) {
            Ok(directory) => self.unbind_in(sandbox, &directory),
            // Nothing tells whether there are any.
            Err(_) => self.unbind_lost(&sandbox.id),
        }
    }

    /// The same for one that lies there.
    pub(crate) fn unbind_in(&self, sandbox: &Sandbox, directory: &Path) {
        if let Ok(provider) = whatif_provider::by_name(&sandbox.provider) {
            provider.clear(&sandbox.id, Some(directory), &self.recorded(sandbox));
        }
    }

    /// The same for one of which nothing else is known.
    pub(crate) fn unbind_lost(&self, id: &SandboxId) {
        let recorded = Recorded { state: self.state.root(), enforced: &[] };
        whatif_provider::ALL.iter().for_each(|provider| provider.clear(id, None, &recorded));
    }
}

impl From<BindError> for EngineError {
    fn from(error: BindError) -> Self {
        match error {
            BindError::ScopeNeeded { scope } => GroundError::ScopeNeeded { scope }.into(),
            BindError::State { path, source } => Self::io("examine", &path, source),
            BindError::Limits(error) => error.into(),
        }
    }
}

/// A profile may stand on a preset.
fn profile(config: &UserConfig, name: &str) -> Result<Limits, EngineError> {
    let Some(profile) = config.profiles.get(name) else { return preset(config, name) };
    match &profile.preset {
        Some(beneath) => Ok(profile.clone().or(preset(config, beneath)?)),
        None => Ok(profile.clone()),
    }
}

fn preset(config: &UserConfig, name: &str) -> Result<Limits, EngineError> {
    Limits::preset(name).ok_or_else(|| {
        let mut known = ["small", "medium", "large"].map(str::to_owned).to_vec();
        known.extend(config.profiles.keys().filter(|name| Limits::preset(name).is_none()).cloned());
        GroundError::NoSuchLimits { name: name.to_owned(), known }.into()
    })
}
