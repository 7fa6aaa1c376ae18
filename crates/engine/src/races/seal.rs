//! Whether an attempt's sandbox is still what its race left of it. People can work in it like in any other.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

use whatif_diff::digest;
use whatif_types::experiment::{Attempt, Experiment};
use whatif_types::{MadeBy, Sandbox, Status};

use crate::EngineError;
use crate::ground::label::KEEP;
use crate::races::Races;

impl Races {
    /// A digest of where a sandbox stands and of everything in its head. Reality has no part in it, nor has what a start or a stop
    /// does to directories.
    pub(super) fn seal(&self, sandbox: &Sandbox) -> Result<String, EngineError> {
        let mut told = Vec::new();
        let at = sandbox.details.position.at.as_ref().map(ToString::to_string);
        told.extend(format!("{at:?} {:?}\n", sandbox.details.based_at).bytes());
        let head = self.ground.directory(sandbox)?.join("head");
        for number in 0..sandbox.details.trees.len() {
            let mut tree = Vec::new();
            add_directory(&mut tree, &head.join(number.to_string()))?;
            // A start may cut further trees, where something was mounted since.
            if !tree.is_empty() {
                told.extend(format!("tree {number}\n").bytes());
                told.append(&mut tree);
            }
        }
        Ok(digest::of_bytes(&told))
    }

    /// Why a sandbox of a race that is over must not go with it, if somebody has a use for it.
    pub(super) fn why_kept(&self, experiment: &Experiment, sandbox: &Sandbox) -> Result<Option<&'static str>, EngineError> {
        let record = experiment.records.iter().find(|r| r.sandbox.as_ref() == Some(&sandbox.id));
        if sandbox.status == Status::Active {
            return Ok(Some("is running"));
        }
        if sandbox.details.labels.contains_key(KEEP) {
            return Ok(Some("has the label 'keep'"));
        }
        let by_request = |by: MadeBy| matches!(by, MadeBy::Request | MadeBy::Rollback | MadeBy::Template | MadeBy::Export);
        if self.ground.store.list_snapshots(&sandbox.id)?.iter().any(|s| by_request(s.details.made_by)) {
            return Ok(Some("has snapshots"));
        }
        match record {
            Some(record) if !self.is_sealed(record, sandbox)? => Ok(Some("was changed since it was judged")),
            _ => Ok(None),
        }
    }

    /// Of a race from before seals, only what was judged by checks is known.
    pub(super) fn is_sealed(&self, record: &Attempt, sandbox: &Sandbox) -> Result<bool, EngineError> {
        match (&record.seal, &record.snapshot) {
            (Some(seal), _) => Ok(*seal == self.seal(sandbox)?),
            (None, Some(_)) => self.stands_as_judged(record, sandbox),
            (None, None) => Ok(false),
        }
    }

    fn stands_as_judged(&self, record: &Attempt, sandbox: &Sandbox) -> Result<bool, EngineError> {
        let stands_there = sandbox.details.position.at == record.snapshot && sandbox.details.based_at.is_none();
        Ok(stands_there && self.ground.heads_are_empty(sandbox)?)
    }
}

fn add_directory(told: &mut Vec<u8>, directory: &Path) -> Result<(), EngineError> {
    let failed = |error| EngineError::io("read", directory, error);
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        // An attempt may close a directory to its own user. To change anything in it, it has to be opened, which moves its time.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let metadata = fs::symlink_metadata(directory).map_err(failed)?;
            told.extend(format!("closed {} {}", metadata.ctime(), metadata.ctime_nsec()).bytes());
            return Ok(());
        }
        other => other.map_err(failed)?,
    };
    let mut entries = entries.collect::<io::Result<Vec<_>>>().map_err(failed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let metadata = entry.metadata().map_err(|error| EngineError::io("examine", entry.path(), error))?;
        let name = entry.file_name();
        told.extend(name.len().to_le_bytes());
        told.extend(name.as_bytes());
        told.extend(format!("{} {} {} ", metadata.mode(), metadata.uid(), metadata.gid()).bytes());
        if metadata.is_dir() {
            told.push(b'(');
            add_directory(told, &entry.path())?;
            told.push(b')');
        } else {
            let (ino, size, rdev) = (metadata.ino(), metadata.size(), metadata.rdev());
            told.extend(format!("{ino} {size} {rdev} {} {}", metadata.ctime(), metadata.ctime_nsec()).bytes());
        }
    }
    Ok(())
}
