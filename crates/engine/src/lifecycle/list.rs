//! All sandboxes at a glance.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use whatif_keeper::Client;
pub use whatif_store::{Cursor, SandboxFilter};
use whatif_types::sandbox::{Details, StopReason};
use whatif_types::timestamp::rfc3339;
use whatif_types::{LayerId, Sandbox, Selector, Status};

use crate::at_once::at_once;
use crate::ground::lifetime::is_expired;
use crate::ground::retention::goes_at;
use crate::ground::{GroundError, intact};
use crate::lifecycle::Lifecycle;
use crate::missing::Missing;
use crate::{EngineError, now};

/// One line of `ls`; the order of fields is that of the documented JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    pub id: String,
    pub name: String,
    pub status: Status,
    pub provider: String,
    #[serde(with = "whatif_types::text::path")]
    pub project: PathBuf,
    pub created_at: String,
    pub changed_files: u64,
    pub size_bytes: u64,
    pub pids: usize,
    pub labels: BTreeMap<String, String>,
    /// When it is removed: because its time is up, or if nobody uses it until then.
    pub goes_at: Option<String>,
    /// What of it should be in the state directory and is not.
    pub missing: Vec<Missing>,
    #[serde(skip)]
    pub created_ms: u64,
    #[serde(skip)]
    pub goes_ms: Option<u64>,
    /// Its time is up: nothing runs in it until it is given more.
    #[serde(skip)]
    pub is_expired: bool,
    /// It holds changes that nobody decided about, and nobody has used it for long.
    #[serde(skip)]
    pub is_forgotten: bool,
}

/// What was found out, for all that stand on the same layers: a hundred forks are looked at once.
#[derive(Default)]
struct Known {
    /// Changed files and bytes of stacks, for those that changed nothing since.
    changes: HashMap<(PathBuf, Vec<LayerId>), (u64, u64)>,
    layers: intact::Known,
}

impl Lifecycle {
    /// `whatif ls`: newest first.
    pub fn list(&self) -> Result<Vec<Listed>, EngineError> {
        self.list_of(self.recorded_sandboxes()?)
    }

    /// What the records say of all sandboxes, newest first. Nothing is looked at for that.
    pub fn recorded_sandboxes(&self) -> Result<Vec<Sandbox>, EngineError> {
        Ok(self.ground.store.list()?)
    }

    /// Some of them, newest first: at most so many after a cursor, and where to go on. Nothing is looked at for that.
    pub fn page(
        &self,
        filter: &SandboxFilter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<(Vec<Sandbox>, Option<Cursor>), EngineError> {
        let page = self.ground.store.page(filter, after, limit)?;
        Ok((page.rows, page.next))
    }

    /// What the records say of one, whether it still runs included.
    pub fn find(&self, which: &Selector) -> Result<Sandbox, EngineError> {
        self.ground.resolve(which)
    }

    /// How many sandboxes the records have in each state.
    pub fn counts(&self) -> Result<Vec<(&'static str, u64)>, EngineError> {
        let mut counts = BTreeMap::new();
        for sandbox in self.ground.store.list()? {
            *counts.entry(sandbox.status.as_str()).or_insert(0) += 1;
        }
        Ok(counts.into_iter().collect())
    }

    /// The lines for these.
    pub fn list_of(&self, sandboxes: Vec<Sandbox>) -> Result<Vec<Listed>, EngineError> {
        let known = Mutex::default();
        let all = at_once(sandboxes, |sandbox| self.line_for(sandbox, &known));
        // One that went meanwhile is not there.
        let is_there =
            |listed: &Result<Listed, EngineError>| !matches!(listed, Err(EngineError::Ground(GroundError::NoSuchSandbox { .. })));
        all.into_iter().filter(is_there).collect()
    }

    /// Its keeper is asked once, and answers while what it changed is looked at.
    fn line_for(&self, sandbox: Sandbox, known: &Mutex<Known>) -> Result<Listed, EngineError> {
        let mut asked = None;
        if sandbox.status == Status::Active {
            asked = self.ground.connect(&sandbox).ok().and_then(|mut client| {
                client.ask_for_list().ok()?;
                Some(client)
            });
        }
        // That it answers shows that it lives.
        let sandbox = if asked.is_some() { sandbox } else { self.ground.refreshed(sandbox)? };
        self.listed_beside(sandbox, asked, known)
    }

    /// How long until a sandbox is removed because its time is up; `None` if it is not to be removed then.
    pub fn removed_in(&self, sandbox: &Sandbox) -> Result<Option<Duration>, EngineError> {
        self.ground.removed_in(sandbox)
    }

    /// The names alone, which nothing has to be looked at for.
    pub fn names(&self) -> Result<Vec<String>, EngineError> {
        Ok(self.ground.store.list()?.into_iter().map(|sandbox| sandbox.name).collect())
    }

    /// The line for one sandbox.
    pub fn listed(&self, sandbox: Sandbox) -> Result<Listed, EngineError> {
        self.listed_beside(sandbox, None, &Mutex::default())
    }

    /// The line for one sandbox among others. A running one is looked at; for a stopped one the record is true.
    fn listed_beside(&self, sandbox: Sandbox, asked: Option<Client>, known: &Mutex<Known>) -> Result<Listed, EngineError> {
        let missing = self.ground.missing_while_it_moves(&sandbox, &mut lock(known).layers)?;
        let (mut changed_files, mut size_bytes, mut pids) = (sandbox.details.changed_files, sandbox.details.size_bytes, 0);
        if sandbox.status == Status::Active {
            // One that cannot be examined must not keep the others from being listed.
            if let Ok(now) = self.summarize_beside(&sandbox, known) {
                (changed_files, size_bytes) = now;
            }
            pids = match asked {
                Some(mut client) => client.listed().map_or(0, |processes| processes.len()),
                None => self.ground.connect(&sandbox).and_then(|mut client| Ok(client.list()?.len())).unwrap_or(0),
            };
        }
        if sandbox.details.stop_reason == Some(StopReason::NotStarted)
            && let Ok((now, _)) = self.summarize_beside(&sandbox, known)
        {
            changed_files = now;
        }
        // What lies in layers was changed by it, or by what it came from.
        for layer in &sandbox.details.position.stack {
            size_bytes += self.ground.layer_size(layer).map_or(0, |(_, bytes)| bytes);
        }
        let rules = &self.ground.caller.config.gc;
        let removed_at = self.ground.removed_at(&sandbox)?;
        let goes_ms = goes_at(
            rules,
            &Sandbox { details: Details { changed_files, ..sandbox.details.clone() }, ..sandbox.clone() },
            removed_at,
        );
        let is_old = rules.unused.0.is_some_and(|most| now().saturating_sub(sandbox.updated_at) >= most.as_millis());
        let is_forgotten = is_old && goes_ms.is_none() && sandbox.status == Status::Stopped && changed_files > 0;
        Ok(Listed {
            goes_at: goes_ms.map(rfc3339),
            goes_ms,
            is_expired: sandbox.status == Status::Stopped && is_expired(&sandbox)?,
            is_forgotten,
            id: sandbox.id.to_string(),
            name: sandbox.name,
            status: sandbox.status,
            provider: sandbox.provider,
            project: sandbox.project,
            created_at: rfc3339(sandbox.created_at),
            changed_files,
            size_bytes,
            pids,
            labels: sandbox.details.labels,
            missing,
            created_ms: sandbox.created_at,
        })
    }

    fn summarize_beside(&self, sandbox: &Sandbox, known: &Mutex<Known>) -> Result<(u64, u64), EngineError> {
        let look = || self.ground.summarize(sandbox).map(|summary| (summary.changed_files, summary.size_bytes));
        if !self.ground.is_as_it_began(sandbox)? {
            return look();
        }
        match lock(known).changes.entry((sandbox.project.clone(), sandbox.details.position.stack.clone())) {
            Entry::Occupied(entry) => Ok(*entry.get()),
            Entry::Vacant(entry) => Ok(*entry.insert(look()?)),
        }
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
