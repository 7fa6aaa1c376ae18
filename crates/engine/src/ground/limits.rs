//! By what each limit of a sandbox is enforced here, and setting that up.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

pub use whatif_cgroup::Scope;
use whatif_cgroup::{Found, Group, Version, Wanted};
use whatif_keeper::protocol::{PassedGroup, Request};
use whatif_layers::state_dir::FAREWELL;
use whatif_provider::{Recorded, groups};
use whatif_types::boot::{KeeperLimits, Room};
use whatif_types::config::UserConfig;
use whatif_types::limits::{Expiry, Means, Resource};
use whatif_types::{Enforced, Identity, Limits, Sandbox, SandboxId};

use crate::EngineError;
use crate::error::Misuse;
use crate::ground::Ground;
use crate::ground::lifetime::clock;
use crate::owner::Owner;

/// Set for a command that was started anew in a scope.
pub const IN_SCOPE: &str = "WHATIF_IN_SCOPE";

/// A control group as far as it was needed, and what is left for the keeper to do.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    pub enforced: Vec<Enforced>,
    pub keeper: KeeperLimits,
    group: Option<Group>,
    farewell: Option<OwnedFd>,
}

impl Bounds {
    /// What the keeper is told, with descriptors in the order it takes them.
    pub(crate) fn request(&self) -> (Request, Vec<BorrowedFd<'_>>) {
        let group = self.group.as_ref().map(|group| PassedGroup {
            entrances: group.entrances().len(),
            meters: group.meters().iter().map(|(meter, _)| *meter).collect(),
        });
        let of_group = self.group.iter().flat_map(|g| g.entrances().iter().chain(g.meters().iter().map(|(_, fd)| fd)));
        let descriptors = of_group.chain(&self.farewell).map(AsFd::as_fd).collect();
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
    asked.check().map_err(|why| Misuse::Limit { why }.into())
}

impl Ground {
    /// What is said on the command line, then by a profile or preset, then by the configuration; never more than the project allows.
    pub(crate) fn limits(&self, config: &UserConfig, asked: &Limits) -> Result<Limits, EngineError> {
        check(asked)?;
        let mut limits = asked.clone();
        if let Some(name) = asked.preset.as_deref().filter(|name| *name != "none") {
            limits = limits.or(profile(config, name)?);
        }
        if asked.preset.as_deref() != Some("none") {
            limits = limits.or(config.limits.clone());
            if let Some(name) = config.limits.preset.as_deref().filter(|_| asked.preset.is_none()) {
                limits = limits.or(profile(config, name)?);
            }
        }
        let mut most = config.limits_of_project.clone();
        if let Some(name) = most.preset.clone() {
            most = most.or(profile(config, &name)?);
        }
        let limits = limits.at_most(&most);
        if limits.require {
            self.require(&limits)?;
        }
        Ok(limits)
    }

    /// Refuses limits that would be enforced less strictly than a kernel could.
    fn require(&self, limits: &Limits) -> Result<(), EngineError> {
        let found = Found::look();
        self.want_scope(&found, limits)?;
        for (resource, _) in limits.resources() {
            let by = means(&found, resource, self.caller.identity());
            if by.is_weak_for(resource) {
                let why = match resource {
                    Resource::Memory => found.memory().err(),
                    _ => found.cpu().err(),
                };
                return Err(EngineError::LimitsUnavailable {
                    resource,
                    by,
                    why: why.map(|w| w.reason.clone()).unwrap_or_default(),
                    fix: why.and_then(|w| w.fix.clone()),
                });
            }
        }
        Ok(())
    }

    /// Where control groups can be had by starting anew in a scope of the user's service manager, that is the way to go; once.
    fn want_scope(&self, found: &Found, limits: &Limits) -> Result<(), EngineError> {
        let Some(scope) = found.scope() else { return Ok(()) };
        let is_in_one = self.caller.environment.iter().any(|(name, _)| name == IN_SCOPE);
        let missing = [
            limits.memory.is_some() && found.memory().is_err(),
            limits.pids.is_some() && found.pids().is_err(),
            limits.cpus.is_some() && found.cpu().is_err(),
        ];
        let has_manager = self.caller.runtime_dir.is_some();
        if missing.contains(&true) && has_manager && !is_in_one {
            return Err(EngineError::ScopeNeeded { scope: scope.clone() });
        }
        Ok(())
    }

    /// Sets up what enforces the limits, before anything runs.
    pub(crate) fn bind(
        &self,
        id: &SandboxId,
        directory: &Path,
        lease: Lease<'_>,
        config: &UserConfig,
        identity: Identity,
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
            let frozen = lease.sandbox.map(|s| self.frozen_room(s)).transpose()?.unwrap_or_default();
            bounds.keeper.room = Room { bytes: limits.disk.map(|d| d.0), files: limits.inodes, ..frozen };
        }
        if limits.resources().next().is_none() {
            return Ok(bounds);
        }
        let found = Found::look();
        self.want_scope(&found, limits)?;
        let mut wanted = Wanted::default();
        for (resource, _) in limits.resources() {
            let by = means(&found, resource, identity);
            bounds.enforced.push(Enforced { resource, by });
            match (resource, by) {
                (Resource::Memory, Means::Watcher) => bounds.keeper.memory = limits.memory.map(|m| m.0),
                (Resource::Memory, _) => wanted.memory = limits.memory.map(|m| m.0),
                (Resource::Pids, Means::Rlimit) => bounds.keeper.pids = limits.pids,
                (Resource::Pids, _) => wanted.pids = limits.pids,
                (Resource::Cpus, Means::Affinity) => bounds.keeper.processors = limits.cpus.map(|c| c.rounded_up()),
                (Resource::Cpus, _) => wanted.cpus_milli = limits.cpus.map(|c| c.thousandths()),
                (Resource::Disk | Resource::Inodes, _) => {}
            }
        }
        if wanted != Wanted::default() {
            let name = self.group_name(id)?;
            // One of before may have been left behind.
            let group = Group::make(&found, &name, &wanted).or_else(|_| {
                whatif_cgroup::remove(&found, &name)?;
                Group::make(&found, &name, &wanted)
            });
            bounds.group = Some(group?);
        }
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

    fn group_name(&self, id: &SandboxId) -> Result<String, EngineError> {
        let root = self.state.root();
        groups::name(root, id).map_err(|e| EngineError::io("examine", root, e))
    }

    /// Of all control groups of this state directory, and of no other.
    pub(crate) fn group_prefix(&self) -> Result<String, EngineError> {
        let root = self.state.root();
        groups::prefix(root).map_err(|e| EngineError::io("examine", root, e))
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
        Misuse::NoSuchLimits { name: name.to_owned(), known }.into()
    })
}

/// The strictest way there is here.
fn means(found: &Found, resource: Resource, identity: Identity) -> Means {
    let group = match resource {
        Resource::Memory => found.memory(),
        Resource::Pids => found.pids(),
        Resource::Cpus => found.cpu(),
        Resource::Disk | Resource::Inodes => return Means::Watcher,
    };
    match (group, resource) {
        (Ok(Version::V2), _) => Means::Cgroup2,
        (Ok(Version::V1), _) => Means::Cgroup1,
        (Err(_), Resource::Memory) => Means::Watcher,
        // The kernel does not count the processes of its own root.
        (Err(_), Resource::Pids) if identity != Identity::Same => Means::Rlimit,
        (Err(_), _) => Means::Affinity,
    }
}
