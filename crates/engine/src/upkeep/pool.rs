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
use std::path::{Path, PathBuf};

use serde::Serialize;
use whatif_keeper::protocol::Settings;
use whatif_layers::remove;
use whatif_layers::state_dir::SandboxLock;
use whatif_types::{Backend, NetMode};

use crate::EngineError;
use crate::ground::keepers::{end_keeper_in, instance_in};
use crate::lifecycle::create::{Making, NewSandbox, Validated, with_a_name};
use crate::lifecycle::shelf::{READY, Ready, count, places, read, ready_in, shelves};
use crate::upkeep::Upkeep;

const LOCK: &str = "lock";

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

impl Upkeep {
    /// Makes sandboxes ready for the project at hand, up to the configured number, unless somebody is at it already.
    pub fn fill_pool(&self) -> Result<(), EngineError> {
        let validated = self.lifecycle.validate(&NewSandbox::default())?;
        let shelf = self.lifecycle.shelf(&validated.project, validated.net);
        match SandboxLock::take(&guard_of(&shelf)?)? {
            Some(_lock) => self.fill(&validated, &shelf).map(drop),
            None => Ok(()),
        }
    }

    /// The same for somebody who waits for it: whoever is at it already may have begun with another number in mind.
    pub fn fill_pool_now(&self) -> Result<Filled, EngineError> {
        let validated = self.lifecycle.validate(&NewSandbox::default())?;
        let shelf = self.lifecycle.shelf(&validated.project, validated.net);
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
        if !validated.limits.are_usual() {
            self.discard_ready(shelf, |_, _| true);
            return Ok(Some(Shortfall::Limits));
        }
        let fingerprint = self.lifecycle.fingerprint(validated)?;
        let own = Settings::own();
        let is_reached = |ready: &Ready, place: &Path| instance_in(&ready.sandbox, place).is_ok_and(|i| i.connect().is_ok());
        let is_bad = |ready: &Ready, place: &Path| {
            ready.fingerprint != fingerprint || !ready.settings.can_give(&own) || !is_reached(ready, place)
        };
        self.discard_ready(shelf, is_bad);
        self.fill_up(validated, shelf, &fingerprint)
    }

    fn fill_up(&self, validated: &Validated, shelf: &Path, fingerprint: &str) -> Result<Option<Shortfall>, EngineError> {
        let new = NewSandbox::default();
        while count(shelf) < validated.config.pool.size {
            let created = with_a_name(None, |name| {
                let unpooled = Validated { config: without_pool(&validated.config), ..validated.clone() };
                self.lifecycle.create_with(&format!("pool-{name}"), &new, &unpooled, &Making::default())
            })?;
            if created.sandbox.details.backend == Backend::Copy {
                self.lifecycle.discard(created.sandbox, created.lock, &*created.instance)?;
                return Ok(Some(Shortfall::Copied));
            }
            let id = created.sandbox.id.clone();
            let place = self.ground.state.transient().join(id.as_str());
            let ready = Ready { sandbox: created.sandbox, fingerprint: fingerprint.to_owned(), settings: Settings::own() };
            let text = serde_json::to_vec(&ready).map_err(|e| EngineError::io("write", &place, e.into()))?;
            fs::write(place.join(READY), text).map_err(|e| EngineError::io("write", &place, e))?;
            // In this order: killed in between, it is half made. The other way round it would be a record without a sandbox.
            self.ground.store.delete(&id)?;
            self.ground.state.shelve(&id, shelf)?;
        }
        Ok(None)
    }

    /// Throws away everything that is kept ready. Returns how many there were.
    pub fn drain_pool(&self) -> Result<usize, EngineError> {
        let mut drained = 0;
        for shelf in shelves(&self.ground.state.pool()) {
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
        let kept = shelves(&self.ground.state.pool()).into_iter().filter_map(|shelf| {
            // Whose keeper is dead will not be handed out.
            let is_alive = |ready: &Ready, place: &Path| instance_in(&ready.sandbox, place).is_ok_and(|i| i.hold());
            let ready = |(place, _): (PathBuf, _)| read(&place).map(|(_, ready)| ready).filter(|ready| is_alive(ready, &place));
            let all: Vec<Ready> = places(&shelf).into_iter().filter_map(ready).collect();
            let first = all.first()?;
            Some(Kept { project: first.sandbox.project.clone(), net: first.sandbox.details.net, ready: all.len() })
        });
        kept.collect()
    }

    /// Throws away what was made ready while the configuration wanted more, whatever project it was made for.
    fn discard_surplus(&self) -> usize {
        let discard = |shelf: &PathBuf| {
            let surplus = beyond(self.ground.caller.config.pool.size, ready_in(shelf));
            self.discard_ready(shelf, |_, place| surplus.iter().any(|p| p == place))
        };
        shelves(&self.ground.state.pool()).iter().map(discard).sum()
    }

    fn discard_ready(&self, shelf: &Path, is_bad: impl Fn(&Ready, &Path) -> bool) -> usize {
        let mut discarded = 0;
        for (place, id) in places(shelf) {
            // Held: it is being claimed.
            let Ok(Some(_lock)) = SandboxLock::take(&place) else { continue };
            if read(&place).is_none_or(|(_, ready)| is_bad(&ready, &place)) {
                end_keeper_in(&place, &id);
                let _ = remove::tree(&place);
                discarded += 1;
            }
        }
        discarded
    }
}

fn without_pool(config: &whatif_types::config::UserConfig) -> whatif_types::config::UserConfig {
    whatif_types::config::UserConfig { pool: Default::default(), ..config.clone() }
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
