//! `whatif gc --adopt`: records for sandboxes and templates that are on the disk and in no record, as after a lost database.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use whatif_layers::state_dir::SandboxLock;
use whatif_store::sqlite::SqliteStore;
use whatif_store::{Store, StoreError};
use whatif_sys::absence;
use whatif_types::{Sandbox, SandboxId};

use crate::ground::intact::Known;
use crate::ground::ledger::{self, Entries, Ledger};
use crate::ground::written_down::entries;
use crate::upkeep::Upkeep;
use crate::{EngineError, now};

/// Names to try for a sandbox whose own was given to another one meanwhile.
const MOST_NAMES: usize = 1000;

/// What was taken up into the records.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Adopted {
    pub sandboxes: Vec<String>,
    /// Snapshots that the records of known sandboxes lacked, as `NAME@LABEL`.
    pub snapshots: Vec<String>,
    pub templates: Vec<String>,
    /// What stays as it is, because nothing says what it was.
    pub left: Vec<Left>,
    /// Where the damaged database was put.
    #[serde(with = "whatif_types::text::paths")]
    pub set_aside: Vec<PathBuf>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Left {
    #[serde(with = "whatif_types::text::path")]
    pub path: PathBuf,
    pub why: String,
}

impl Upkeep {
    /// The directories of sandboxes that no record knows.
    pub fn unrecorded(&self) -> Result<Vec<PathBuf>, EngineError> {
        let ids = self.unrecorded_in(&*self.ground.store)?;
        Ok(ids.into_iter().map(|id| self.ground.state.sandboxes().join(id.as_str())).collect())
    }

    fn unrecorded_in(&self, store: &dyn Store) -> Result<Vec<SandboxId>, EngineError> {
        // In this order: one that is made from here on is not in the list.
        let settled = self.ground.state.settled()?;
        let known: HashSet<SandboxId> = store.list()?.into_iter().map(|s| s.id).collect();
        let mut unrecorded = Vec::new();
        for id in settled.into_iter().filter(|id| !known.contains(id)) {
            let path = self.ground.state.sandboxes().join(id.as_str());
            if absence::is_dir(&path).map_err(|e| EngineError::io("examine", &path, e))? {
                unrecorded.push(id);
            }
        }
        Ok(unrecorded)
    }

    /// Whether a directory without a record says what it was.
    pub(crate) fn is_adoptable(&self, id: &SandboxId) -> Result<bool, EngineError> {
        Ok(entries(&self.ground.state.sandboxes().join(id.as_str()), id)?.is_some())
    }

    /// Records what is on the disk and says what it was. Nothing is deleted.
    pub fn adopt(&self) -> Result<Adopted, EngineError> {
        let mut adopted = Adopted::default();
        let fresh = SqliteStore::at(self.ground.state.database()).watched_by(Box::new(Ledger::of(&self.ground.state)));
        let mut store = &*self.ground.store;
        if store.list().is_err_and(|error| error.is_damage()) {
            adopted.set_aside = set_aside(&self.ground.state.database())?;
            store = &fresh;
        }
        for sandbox in store.list()? {
            let (is_behind, snapshots) = self.bring_up_to_date(store, &sandbox)?;
            adopted.sandboxes.extend(is_behind.then_some(sandbox.name));
            adopted.snapshots.extend(snapshots);
        }
        for id in self.unrecorded_in(store)? {
            let directory = self.ground.state.sandboxes().join(id.as_str());
            let left = |why: &str| Left { path: directory.clone(), why: why.to_owned() };
            // Held: another command is at work on it.
            let Some(_lock) = SandboxLock::take(&directory)? else {
                adopted.left.push(left("another command is using it; try again"));
                continue;
            };
            match entries(&directory, &id)? {
                Some(entries) => adopted.sandboxes.push(record(store, entries)?),
                None => adopted.left.push(left("nothing in it says what it was; its changes are in its head/")),
            }
        }
        let (templates, strange) =
            ledger::templates(&self.ground.state).map_err(|e| EngineError::io("read", self.ground.state.root(), e))?;
        for template in templates {
            if store.get_template(&template.name)?.is_none() {
                store.insert_template(&template, None, false)?;
                adopted.templates.push(template.name);
            }
        }
        adopted.left.extend(strange.into_iter().map(|path| Left { path, why: "it cannot be understood".to_owned() }));
        store.flush()?;
        Ok(adopted)
    }

    /// Brings the records of a sandbox up to what its ledger says, as after the database was restored from a backup. Tells whether
    /// its own was behind, and the snapshots that were missing.
    fn bring_up_to_date(&self, store: &dyn Store, sandbox: &Sandbox) -> Result<(bool, Vec<String>), EngineError> {
        let nothing = || Ok((false, Vec::new()));
        let Some(directory) = self.ground.state.find(&sandbox.id)? else { return nothing() };
        // Held: another command is at work on it, and knows better.
        let Some(_lock) = SandboxLock::take(&directory)? else { return nothing() };
        let Some(Entries { sandbox: newest, snapshots }) = entries(&directory, &sandbox.id)? else { return nothing() };
        let Some(mut sandbox) = store.get(&sandbox.id)? else { return nothing() };
        let latest = newest.version;
        let is_behind = latest > sandbox.version;
        if is_behind {
            sandbox = Sandbox { name: sandbox.name, version: sandbox.version, ..newest };
        }
        // Until it counts for more than what it was read from.
        while sandbox.version < latest {
            store.update(&mut sandbox)?;
        }
        let mut added = Vec::new();
        for mut snapshot in snapshots {
            let is_known = snapshot.sandbox != sandbox.id || store.get_snapshot(&snapshot.id)?.is_some();
            // One whose layers are gone was removed.
            if is_known || !self.ground.missing_layers(&snapshot.details.stack, &mut Known::new())?.is_empty() {
                continue;
            }
            let wanted = snapshot.label.clone();
            under_a_free_name(&wanted, |label| {
                snapshot.label = label;
                store.insert_snapshot(&snapshot, &mut sandbox)
            })?;
            added.push(format!("{}@{}", sandbox.name, snapshot.label));
        }
        Ok((is_behind, added))
    }
}

fn record(store: &dyn Store, entries: Entries) -> Result<String, EngineError> {
    let Entries { mut sandbox, snapshots } = entries;
    sandbox.details.transient = false;
    let wanted = sandbox.name.clone();
    under_a_free_name(&wanted, |name| {
        sandbox.name = name;
        store.insert(&sandbox, None).map(|_| ())
    })?;
    let id = sandbox.id.clone();
    for snapshot in snapshots.iter().filter(|s| s.sandbox == id) {
        store.insert_snapshot(snapshot, &mut sandbox)?;
    }
    Ok(sandbox.name)
}

/// Tries a name, then the same with numbers, until one is not taken.
fn under_a_free_name(wanted: &str, mut insert: impl FnMut(String) -> Result<(), StoreError>) -> Result<(), StoreError> {
    let mut tried = insert(wanted.to_owned());
    for number in 2..=MOST_NAMES {
        match tried {
            Err(StoreError::NameTaken { .. } | StoreError::LabelTaken { .. }) => tried = insert(format!("{wanted}-{number}")),
            other => return other,
        }
    }
    tried
}

/// Puts a damaged database where nobody uses it.
fn set_aside(database: &Path) -> Result<Vec<PathBuf>, EngineError> {
    let mut moved = Vec::new();
    for suffix in ["-wal", "-shm", ""] {
        let mut from = database.as_os_str().to_owned();
        from.push(suffix);
        let to = PathBuf::from(format!("{}.damaged-{}{suffix}", database.display(), now()));
        match fs::rename(&from, &to) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            other => {
                other.map_err(|e| EngineError::io("move", Path::new(&from), e))?;
                moved.push(to);
            }
        }
    }
    Ok(moved)
}
