//! The warm pool: sandboxes made beforehand, so that making one is claiming one.
//!
//! ```text
//! pool/<key>/<id>/   the directory of a sandbox that stands, with ready.json beside its head
//! ```
//!
//! A key stands for a project and how its sandboxes are made by default. Only such plain sandboxes are kept ready; whoever wants
//! something special gets it made. Before one is handed out, what it was made from is looked at again: if anything a sandbox
//! cannot follow by itself has changed since (mounts, what is masked, files that were copied), it is left for the next filling
//! to throw away.

use std::fs;
use std::io;
use std::iter;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use whatif_diff::digest;
use whatif_keeper::Client;
use whatif_keeper::protocol::{Exec, Request, Settings};
use whatif_layers::remove;
use whatif_layers::state_dir::SandboxLock;
use whatif_store::Inserted;
use whatif_sys::absence::{self, OrAbsent};
use whatif_types::sandbox::Viewed;
use whatif_types::{Backend, Limits, NetMode, PlaceKind, Plan, Sandbox, SandboxId};

use crate::boot::Wish;
use crate::create::{Created, NewSandbox, Validated, with_a_name};
use crate::exec::hand_over;
use crate::limits::Lease;
use crate::network::usual;
use crate::recover::end_keeper_in;
use crate::stop::keeper_pidfd;
use crate::view::{roots, viewed_now};
use crate::{Engine, EngineError, now, secrets};

const READY: &str = "ready.json";
const LOCK: &str = "lock";

/// What `ready.json` says.
#[derive(Debug, Serialize, Deserialize)]
struct Ready {
    sandbox: Sandbox,
    fingerprint: String,
    /// What its keeper was started with.
    settings: Settings,
}

/// The ready sandboxes of one project.
#[derive(Clone, Debug, Serialize)]
pub struct Kept {
    #[serde(with = "whatif_types::text::path")]
    pub project: PathBuf,
    pub net: NetMode,
    pub ready: usize,
}

/// What filling a pool came to.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Filled {
    pub ready: usize,
    /// How many the configuration wants.
    pub size: usize,
    /// Those thrown away because there were more than that, of all projects.
    pub surplus: usize,
    pub shortfall: Option<Shortfall>,
}

/// Why a project has none ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shortfall {
    /// Those with limits are made when they are wanted: their time, for one, begins then.
    Limits,
    /// What was copied cannot be kept fresh, and what fell back may do better next time.
    Copied,
}

impl Engine {
    /// Hands out a ready sandbox, if there is one that is as good as a new one. With `first`, its command is on its way.
    pub(crate) fn claim(
        &self,
        name: &str,
        new: &NewSandbox,
        validated: &Validated,
        command: &[String],
        first: Option<(&Exec, &[std::os::fd::BorrowedFd<'_>])>,
    ) -> Result<Option<Created>, EngineError> {
        if validated.config.pool.size == 0 || !is_plain(new) || !validated.limits.is_unlimited() {
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
            let keeper = Client::connect(&place).ok().filter(|_| is_fresh).zip(keeper_pidfd(&ready.sandbox));
            let Some((mut client, pidfd)) = keeper else {
                // Not ready any more; the next filling clears it away.
                let _ = fs::remove_file(place.join(READY));
                continue;
            };
            if self.state.adopt(&place, &id, &lock).is_err() {
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
            sandbox.details.cwd = validated.cwd.clone();
            sandbox.details.labels = new.labels.clone();
            sandbox.details.disposable = new.disposable;
            sandbox.details.network = validated.network.clone();
            sandbox.details.auto_snapshot = new.auto_snapshot || validated.config.snapshots.auto;
            sandbox.details.dropped_env = self.environment(&validated.config, &new.env).dropped;
            sandbox.details.command = command.to_vec();
            match self.store.insert(&sandbox, new.idempotency_key.as_deref()) {
                Ok(Inserted::New) => {}
                other => {
                    // Not this time; the next one may have it.
                    let _ = self.state.give_back(&id, &place);
                    return match other {
                        Err(error) => Err(error.into()),
                        Ok(_) => Err(EngineError::Busy { name: name.to_owned() }),
                    };
                }
            }
            if let Some((exec, descriptors)) = first {
                // The keeper has the umask, limits and priority of whoever filled the pool.
                let exec = Exec { settings: Some(Settings::own()), ..exec.clone() };
                hand_over(sandbox.details.identity, descriptors);
                client.send(&Request::Exec(Box::new(exec)), descriptors)?;
            }
            return Ok(Some(Created { sandbox, lock, client, pidfd }));
        }
        Ok(None)
    }

    /// Whether the pool of a project has too few or too many. Cheap.
    #[must_use]
    pub fn wants_filling(&self, project: &Path) -> bool {
        if self.context.config.pool.size == 0 {
            return shelves(&self.state.pool()).iter().any(|shelf| count(shelf) > 0);
        }
        let Ok(config) = self.context.config_for(project) else { return false };
        let Ok((net, _)) = usual(&config) else { return false };
        let are_plain = self.limits(&config, &Limits::none()).is_ok_and(|limits| limits.is_unlimited());
        are_plain && count(&self.shelf(project, net)) != config.pool.size
    }

    /// Makes sandboxes ready for the project at hand, up to the configured number, unless somebody is at it already.
    pub fn fill_pool(&self) -> Result<(), EngineError> {
        let validated = self.validate(&NewSandbox::default())?;
        let shelf = self.shelf(&validated.project, validated.net);
        match SandboxLock::take(&guard_of(&shelf)?)? {
            Some(_lock) => self.fill(&validated, &shelf).map(drop),
            None => Ok(()),
        }
    }

    /// The same for somebody who waits for it: whoever is at it already may have begun with another number in mind.
    pub fn fill_pool_now(&self) -> Result<Filled, EngineError> {
        let validated = self.validate(&NewSandbox::default())?;
        let shelf = self.shelf(&validated.project, validated.net);
        let _lock = hold(&shelf)?;
        self.fill(&validated, &shelf)
    }

    /// For whoever holds the guard of the shelf.
    fn fill(&self, validated: &Validated, shelf: &Path) -> Result<Filled, EngineError> {
        let size = validated.config.pool.size;
        let shortfall = if size > 0 { self.refresh_shelf(validated, shelf)? } else { None };
        let surplus = self.discard_surplus();
        Ok(Filled { ready: count(shelf), size, surplus, shortfall })
    }

    /// Replaces what cannot be handed out any more, and adds what is missing.
    fn refresh_shelf(&self, validated: &Validated, shelf: &Path) -> Result<Option<Shortfall>, EngineError> {
        if !validated.limits.is_unlimited() {
            self.discard_ready(shelf, |_, _| true);
            return Ok(Some(Shortfall::Limits));
        }
        let fingerprint = self.fingerprint(validated)?;
        let own = Settings::own();
        let is_bad = |ready: &Ready, place: &Path| {
            ready.fingerprint != fingerprint || !ready.settings.can_give(&own) || Client::connect(place).is_err()
        };
        self.discard_ready(shelf, is_bad);
        self.fill_up(validated, shelf, &fingerprint)
    }

    fn fill_up(&self, validated: &Validated, shelf: &Path, fingerprint: &str) -> Result<Option<Shortfall>, EngineError> {
        let new = NewSandbox::default();
        while count(shelf) < validated.config.pool.size {
            let created = with_a_name(None, |name| {
                let unpooled = Validated { config: without_pool(&validated.config), ..validated.clone() };
                self.create_with(&format!("pool-{name}"), &new, &unpooled, Vec::new(), None, None)
            })?;
            if created.sandbox.details.backend == Backend::Copy {
                self.discard(created.sandbox, created.lock, &created.pidfd)?;
                return Ok(Some(Shortfall::Copied));
            }
            let id = created.sandbox.id.clone();
            let place = self.state.transient().join(id.as_str());
            let ready = Ready { sandbox: created.sandbox, fingerprint: fingerprint.to_owned(), settings: Settings::own() };
            let text = serde_json::to_vec(&ready).map_err(|e| EngineError::io("write", &place, e.into()))?;
            fs::write(place.join(READY), text).map_err(|e| EngineError::io("write", &place, e))?;
            // In this order: killed in between, it is half made. The other way round it would be a record without a sandbox.
            self.store.delete(&id)?;
            self.state.shelve(&id, shelf)?;
        }
        Ok(None)
    }

    /// Throws away everything that is kept ready. Returns how many there were.
    pub fn drain_pool(&self) -> Result<usize, EngineError> {
        let mut drained = 0;
        for shelf in shelves(&self.state.pool()) {
            // A command that fills it would go on, and have nowhere to put what it has just made.
            let _lock = hold(&shelf)?;
            drained += self.discard_ready(&shelf, |_, _| true);
            let _ = remove::tree(&shelf);
        }
        Ok(drained)
    }

    /// What is kept ready.
    #[must_use]
    pub fn pool(&self) -> Vec<Kept> {
        let kept = shelves(&self.state.pool()).into_iter().filter_map(|shelf| {
            let all = places(&shelf).into_iter().filter_map(|p| read(&p).map(|(_, ready)| ready));
            // Whose keeper is dead will not be handed out.
            let all: Vec<Ready> = all.filter(|ready| keeper_pidfd(&ready.sandbox).is_some()).collect();
            let first = all.first()?;
            Some(Kept { project: first.sandbox.project.clone(), net: first.sandbox.details.net, ready: all.len() })
        });
        kept.collect()
    }

    /// Throws away what was made ready while the configuration wanted more, whatever project it was made for.
    fn discard_surplus(&self) -> usize {
        let discard = |shelf: &PathBuf| {
            let surplus = beyond(self.context.config.pool.size, ready_in(shelf));
            self.discard_ready(shelf, |_, place| surplus.iter().any(|p| p == place))
        };
        shelves(&self.state.pool()).iter().map(discard).sum()
    }

    fn discard_ready(&self, shelf: &Path, is_bad: impl Fn(&Ready, &Path) -> bool) -> usize {
        let mut discarded = 0;
        for place in places(shelf) {
            // Held: it is being claimed.
            let Ok(Some(_lock)) = SandboxLock::take(&place) else { continue };
            if read(&place).is_none_or(|(_, ready)| is_bad(&ready, &place)) {
                end_keeper_in(&place);
                let _ = remove::tree(&place);
                discarded += 1;
            }
        }
        discarded
    }

    fn shelf(&self, project: &Path, net: NetMode) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        let mut key = project.as_os_str().as_bytes().to_vec();
        key.extend(format!("\0{net:?}").bytes());
        self.state.pool().join(&digest::of_bytes(&key)[..16])
    }

    /// Everything about reality and the configuration that a sandbox takes over when it is made, and does not follow afterwards.
    fn fingerprint(&self, validated: &Validated) -> Result<String, EngineError> {
        let provider = whatif_provider::by_name(whatif_provider::native::NAME)?;
        let secrets = secrets::lazily(&self.context, &validated.config, &[], &[]);
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
            reach: &[],
            environment: &[],
            provider: &*provider,
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
        let runtime_dir = self.context.runtime_dir.as_ref();
        let text = serde_json::to_vec(&(&plan, &masks, roots, copied, on_the_way, program, validated.net, runtime_dir))
            .map_err(|e| EngineError::io("describe", &validated.project, e.into()))?;
        Ok(digest::of_bytes(&text))
    }
}

/// The files of directories whose own files are copied: when each was last touched.
fn copied_state(plan: &Plan) -> Result<Vec<(u64, i64, i64, u64)>, EngineError> {
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
fn unless_closed<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    match looked {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        other => other.or_absent(),
    }
}

fn own_program() -> io::Result<(u64, i64, u64)> {
    let metadata = fs::metadata("/proc/self/exe")?;
    Ok((metadata.ino(), metadata.mtime(), metadata.size()))
}

/// The directories on the way to the project, which a keeper has looked up: it would not notice that others took their places.
fn on_the_way(project: &Path) -> Result<Vec<(u64, u64)>, EngineError> {
    let mut on_the_way = Vec::new();
    for directory in project.ancestors() {
        let metadata = unless_closed(fs::metadata(directory)).map_err(|e| EngineError::io("examine", directory, e))?;
        on_the_way.extend(metadata.map(|m| (m.dev(), m.ino())));
    }
    Ok(on_the_way)
}

/// Whether anything was asked for that a ready-made sandbox does not have.
fn is_plain(new: &NewSandbox) -> bool {
    let special = [&new.mask, &new.expose, &new.env].iter().any(|list| !list.is_empty());
    let for_network = new.reach.is_empty() && new.publish.is_empty() && new.secrets.is_empty();
    !special && for_network && new.provider.is_none() && new.backend.is_none() && new.template.is_none()
}

fn without_pool(config: &whatif_types::config::UserConfig) -> whatif_types::config::UserConfig {
    whatif_types::config::UserConfig { pool: Default::default(), ..config.clone() }
}

fn read(place: &Path) -> Option<(SandboxId, Ready)> {
    let id = SandboxId::parse(place.file_name()?.to_str()?)?;
    Some((id, serde_json::from_slice(&fs::read(place.join(READY)).ok()?).ok()?))
}

/// Here and below what cannot be looked at is passed over: nobody has worked in a ready-made sandbox, and a new one does as well.
fn shelves(pool: &Path) -> Vec<PathBuf> {
    fs::read_dir(pool).into_iter().flatten().filter_map(Result::ok).map(|e| e.path()).collect()
}

fn places(shelf: &Path) -> Vec<PathBuf> {
    let is_place = |p: &PathBuf| p.file_name().and_then(|n| n.to_str()).is_some_and(|n| SandboxId::parse(n).is_some());
    shelves(shelf).into_iter().filter(is_place).collect()
}

fn ready_in(shelf: &Path) -> Vec<PathBuf> {
    places(shelf).into_iter().filter(|p| absence::exists(&p.join(READY)).unwrap_or(false)).collect()
}

fn count(shelf: &Path) -> usize {
    ready_in(shelf).len()
}

/// Those that are more than `size`: the same ones for two who look at once.
fn beyond(size: usize, mut ready: Vec<PathBuf>) -> Vec<PathBuf> {
    ready.sort_unstable();
    ready.split_off(size.min(ready.len()))
}

/// Waits for the guard of a shelf. While one waits, another command may remove it with everything else.
fn hold(shelf: &Path) -> Result<SandboxLock, EngineError> {
    loop {
        if let Some(lock) = SandboxLock::wait(&guard_of(shelf)?)? {
            return Ok(lock);
        }
    }
}

/// What whoever fills a shelf holds: two at a time would make too many.
fn guard_of(shelf: &Path) -> Result<PathBuf, EngineError> {
    let guard = shelf.join(LOCK);
    fs::create_dir_all(&guard).map_err(|e| EngineError::io("create", &guard, e))?;
    Ok(guard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_more_than_the_size_is_surplus_and_the_same_for_everybody() {
        let of = |names: [&str; 3]| names.map(PathBuf::from).to_vec();
        assert_eq!(beyond(2, of(["b", "c", "a"])), [PathBuf::from("c")]);
        assert_eq!(beyond(2, of(["c", "a", "b"])), [PathBuf::from("c")]);
        assert_eq!(
            (beyond(0, of(["a", "b", "c"])).len(), beyond(3, of(["a", "b", "c"])).len(), beyond(9, vec![]).len()),
            (3, 0, 0)
        );
    }
}
