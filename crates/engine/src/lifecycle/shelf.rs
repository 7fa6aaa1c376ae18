//! Claims a sandbox that was made beforehand.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io, iter};

use serde::{Deserialize, Serialize};
use whatif_diff::digest;
use whatif_keeper::protocol::{Exec, Request, Settings};
use whatif_layers::state_dir::SandboxLock;
use whatif_store::Inserted;
use whatif_sys::absence::{self, OrAbsent};
use whatif_types::sandbox::Viewed;
use whatif_types::{Limits, NetMode, PlaceKind, Plan, Sandbox, SandboxId};

use crate::ground::GroundError;
use crate::ground::chores::Chore;
use crate::ground::keepers::instance_in;
use crate::ground::limits::Lease;
use crate::ground::viewed::viewed_now;
use crate::lifecycle::Lifecycle;
use crate::lifecycle::boot::Wish;
use crate::lifecycle::create::{Created, Making, NewSandbox, Validated};
use crate::lifecycle::exec::hand_over;
use crate::lifecycle::unrecorded::Recorded;
use crate::network::usual;
use crate::{EngineError, now, roots, secrets};

pub(crate) const READY: &str = "ready.json";

/// What `ready.json` says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub sandbox: Sandbox,
    pub fingerprint: String,
    /// What its keeper was started with.
    pub settings: Settings,
}

impl Lifecycle {
    /// Hands out a ready sandbox, if there is one that is as good as a new one. With `first`, its command is on its way.
    pub(crate) fn claim(
        &self,
        name: &str,
        new: &NewSandbox,
        validated: &Validated,
        making: &Making<'_>,
    ) -> Result<Option<Created>, EngineError> {
        if validated.config.pool.size == 0 || !is_plain(new) || !validated.limits.are_usual() || !validated.grants.is_empty() {
            return Ok(None);
        }
        let shelf = self.shelf(&validated.project, validated.net);
        let Ok(entries) = fs::read_dir(&shelf) else { return Ok(None) };
        let mut fingerprint = None;
        for entry in entries.filter_map(Result::ok) {
            let place = entry.path();
            let Some((id, ready)) = read(&place) else { continue };
            if fingerprint.is_none() {
                fingerprint = Some(self.fingerprint(validated)?);
            }
            // It was made by somebody with stricter limits than its commands shall have.
            if !ready.settings.can_give(&Settings::own()) {
                continue;
            }
            // Somebody else's.
            let Ok(Some(lock)) = SandboxLock::take(&place) else { continue };
            let is_fresh = fingerprint.as_deref() == Some(ready.fingerprint.as_str());
            let instance = instance_in(&ready.sandbox, &place)?;
            let Some(mut client) = instance.connect().ok().filter(|_| is_fresh && instance.hold()) else {
                // Not ready any more; the next filling clears it away.
                let _ = fs::remove_file(place.join(READY));
                continue;
            };
            if self.ground.state.adopt(&place, &id, &lock).is_err() {
                continue;
            }
            let mut sandbox = ready.sandbox;
            // Nothing has run in it so far, and what its keeper looked up is part of the fingerprint.
            let roots = sandbox.details.position.viewed.take().map(|made| made.roots).unwrap_or_default();
            sandbox.details.position.viewed = Some(Viewed { roots, ..viewed_now(&validated.project, iter::empty()) });
            sandbox.name = name.to_owned();
            sandbox.created_at = now();
            sandbox.updated_at = sandbox.created_at;
            sandbox.version = 1;
            // Another one may have filled the pool.
            sandbox.owner = Some(self.ground.caller.principal.key());
            sandbox.details.cwd = validated.cwd.clone();
            sandbox.details.labels = new.labels.clone();
            sandbox.details.disposable = new.disposable;
            sandbox.details.network = validated.network.clone();
            sandbox.details.auto_snapshot = new.auto_snapshot || validated.config.snapshots.auto;
            sandbox.details.dropped_env = self.environment(&validated.config, &new.env).dropped;
            sandbox.details.command = making.command.to_vec();
            if let Err(error) = self.reserve_claimed(&sandbox, new, making.recorded) {
                // Not this time; the next one may have it.
                let _ = self.ground.state.give_back(&id, &place);
                return Err(error);
            }
            if let Some((exec, descriptors)) = making.first {
                // The keeper has the umask, limits and priority of whoever filled the pool.
                let exec = Exec { settings: Some(Settings::own()), ..exec.clone() };
                hand_over(sandbox.details.identity, descriptors);
                client.send(&Request::Exec(Box::new(exec)), descriptors)?;
            }
            return Ok(Some(Created { sandbox, recorded: making.recorded, lock, client, instance }));
        }
        Ok(None)
    }

    /// From here on a command may run in it.
    fn reserve_claimed(&self, sandbox: &Sandbox, new: &NewSandbox, recorded: Recorded) -> Result<(), EngineError> {
        if recorded == Recorded::WhenItLasts {
            return self.jot_down(sandbox, &self.ground.directory(sandbox)?);
        }
        match self.ground.store.insert(sandbox, new.idempotency_key.as_deref())? {
            Inserted::New => Ok(()),
            Inserted::Existing(_) => Err(GroundError::Busy { name: sandbox.name.clone() }.into()),
        }
    }

    /// Whether the pool of a project has too few or too many. Cheap.
    #[must_use]
    pub fn wants_filling(&self, project: &Path) -> bool {
        if self.ground.caller.config.pool.size == 0 {
            return shelves(&self.ground.state.pool()).iter().any(|shelf| count(shelf) > 0);
        }
        let Ok(config) = self.ground.caller.config_for(project) else { return false };
        let Ok((net, _)) = usual(&config) else { return false };
        let are_plain =
            self.ground.limits(&config, &Limits::none(), whatif_provider::usual()).is_ok_and(|limits| limits.are_usual())
                && config.grants.is_empty();
        are_plain && count(&self.shelf(project, net)) != config.pool.size
    }

    pub(crate) fn shelf(&self, project: &Path, net: NetMode) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        let mut key = project.as_os_str().as_bytes().to_vec();
        key.extend(format!("\0{net:?}").bytes());
        self.ground.state.pool().join(&digest::of_bytes(&key)[..16])
    }

    /// Everything about reality and the configuration that a sandbox takes over when it is made, and does not follow afterwards.
    pub(crate) fn fingerprint(&self, validated: &Validated) -> Result<String, EngineError> {
        let provider = whatif_provider::usual();
        let secrets = secrets::lazily(&self.ground.caller, &validated.config, &[], &[]);
        let backend = validated.config.layers.backend;
        let id = SandboxId::from_random([0; 12]);
        let wish = Wish {
            id: &id,
            directory: Path::new(""),
            project: &validated.project,
            known_trees: None,
            mounted_before: None,
            beneath: None,
            stack: &[],
            veiled: &[],
            fill: None,
            net: validated.net,
            grants: &validated.grants,
            reach: &[],
            environment: &[],
            provider,
            backend,
            config: &validated.config,
            secrets: &secrets,
            lease: Lease::unlimited(),
        };
        let (plan, mut masks) = self.plan_layers(&wish, self.first_choice(backend).backend)?;
        // When directories on the way to what is masked were last touched matters to nobody.
        for directory in masks.layers.iter_mut().flat_map(|m| &mut m.directories) {
            directory.attributes.mtime = (0, 0);
        }
        let copied = copied_state(&plan)?;
        let roots = roots::of(plan.trees());
        let program = own_program().map_err(|e| EngineError::io("examine", Path::new("/proc/self/exe"), e))?;
        let on_the_way = on_the_way(&validated.project)?;
        let runtime_dir = self.ground.caller.runtime_dir.as_ref();
        let text = serde_json::to_vec(&(
            &plan,
            &masks,
            roots,
            copied,
            on_the_way,
            program,
            validated.net,
            runtime_dir,
            &validated.config.memory,
        ))
        .map_err(|e| EngineError::io("describe", &validated.project, e.into()))?;
        Ok(digest::of_bytes(&text))
    }

    pub(crate) fn fill_pool_if_due(&self, sandbox: &Sandbox) {
        if self.wants_filling(&sandbox.project) {
            self.ground.chores.start(Chore::FillPool);
        }
    }
}

/// The files of directories whose own files are copied: when each was last touched.
pub(crate) fn copied_state(plan: &Plan) -> Result<Vec<(u64, i64, i64, u64)>, EngineError> {
    let mut state = Vec::new();
    for place in plan.places.iter().filter(|p| matches!(p.kind, PlaceKind::Skeleton { .. })) {
        let failed = |e| EngineError::io("examine", &place.path, e);
        let Some(entries) = unless_closed(fs::read_dir(&place.path)).map_err(failed)? else { continue };
        for entry in entries {
            let metadata = unless_closed(entry.and_then(|e| e.metadata())).map_err(failed)?;
            state.extend(metadata.map(|m| (m.ino(), m.ctime(), m.ctime_nsec(), m.size())));
        }
    }
    state.sort_unstable();
    Ok(state)
}

/// What is gone or closed to us is not in a sandbox either. What cannot be seen for another reason may have changed, so a
/// ready-made sandbox must not pass for a new one.
pub(crate) fn unless_closed<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    match looked {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        other => other.or_absent(),
    }
}

pub(crate) fn own_program() -> io::Result<(u64, i64, u64)> {
    let metadata = fs::metadata("/proc/self/exe")?;
    Ok((metadata.ino(), metadata.mtime(), metadata.size()))
}

/// The directories on the way to the project, which a keeper has looked up: it would not notice that others took their places.
pub(crate) fn on_the_way(project: &Path) -> Result<Vec<(u64, u64)>, EngineError> {
    let mut on_the_way = Vec::new();
    for directory in project.ancestors() {
        let metadata = unless_closed(fs::metadata(directory)).map_err(|e| EngineError::io("examine", directory, e))?;
        on_the_way.extend(metadata.map(|m| (m.dev(), m.ino())));
    }
    Ok(on_the_way)
}

/// Whether anything was asked for that a ready-made sandbox does not have.
pub(crate) fn is_plain(new: &NewSandbox) -> bool {
    let special = [&new.mask, &new.expose, &new.env].iter().any(|list| !list.is_empty());
    let for_network = new.reach.is_empty() && new.publish.is_empty() && new.secrets.is_empty();
    !special && for_network && new.grants.is_empty() && new.provider.is_none() && new.backend.is_none() && new.template.is_none()
}

pub(crate) fn read(place: &Path) -> Option<(SandboxId, Ready)> {
    let id = SandboxId::parse(place.file_name()?.to_str()?)?;
    Some((id, serde_json::from_slice(&fs::read(place.join(READY)).ok()?).ok()?))
}

/// Here and below what cannot be looked at is passed over: nobody has worked in a ready-made sandbox, and a new one does as well.
pub(crate) fn shelves(pool: &Path) -> Vec<PathBuf> {
    fs::read_dir(pool).into_iter().flatten().filter_map(Result::ok).map(|e| e.path()).collect()
}

/// Where sandboxes are on a shelf, and which.
pub(crate) fn places(shelf: &Path) -> Vec<(PathBuf, SandboxId)> {
    let id = |place: &Path| SandboxId::parse(place.file_name()?.to_str()?);
    let found = shelves(shelf).into_iter();
    found.filter_map(|place| id(&place).map(|id| (place, id))).collect()
}

pub(crate) fn ready_in(shelf: &Path) -> Vec<PathBuf> {
    let places = places(shelf).into_iter().map(|(place, _)| place);
    places.filter(|p| absence::exists(&p.join(READY)).unwrap_or(false)).collect()
}

pub(crate) fn count(shelf: &Path) -> usize {
    ready_in(shelf).len()
}
