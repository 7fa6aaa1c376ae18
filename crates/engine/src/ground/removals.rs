//! Sandboxes that are to be removed when their time is up (`--then remove`): for each an empty file in `cache/removals` whose time is
//! that moment. So every command sees with one look whether one is due, without opening the records. A lost file costs no more than
//! time: what the rules remove is also looked for once an hour.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use whatif_types::limits::Then;
use whatif_types::{Sandbox, SandboxId, Status};

use crate::ground::Ground;
use crate::ground::label::KEEP;
use crate::ground::lifetime::clock;
use crate::{EngineError, now};

const DIRECTORY: &str = "removals";
/// One that could not be removed (another command was at work on it) is tried again by the first command after this time.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

impl Ground {
    /// How long until a sandbox is removed because its time is up; `None` if it is not to be removed then.
    pub(crate) fn removed_in(&self, sandbox: &Sandbox) -> Result<Option<Duration>, EngineError> {
        let is_asked = sandbox.details.limits.then == Some(Then::Remove);
        let stays = sandbox.status == Status::Deleted || sandbox.details.labels.contains_key(KEEP);
        match &sandbox.details.expiry {
            Some(expiry) if is_asked && !stays => Ok(Some(Duration::from_millis(expiry.remaining_ms(&clock()?)))),
            _ => Ok(None),
        }
    }

    /// The same as a time, in milliseconds since 1970.
    pub(crate) fn removed_at(&self, sandbox: &Sandbox) -> Result<Option<u64>, EngineError> {
        let left = self.removed_in(sandbox)?.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        Ok(left.map(|left| now().saturating_add(left)))
    }

    /// For every sandbox that gets its time, or more of it.
    pub(crate) fn note_removal(&self, sandbox: &Sandbox) {
        if let Ok(Some(at)) = self.removed_at(sandbox) {
            self.write_removal(&sandbox.id, UNIX_EPOCH + Duration::from_millis(at));
        }
    }

    /// Whether there is one whose time is up.
    pub(crate) fn is_removal_due(&self) -> bool {
        let now = SystemTime::now();
        // Usually there is none; and what cannot be read is found in an hour.
        let Ok(notes) = fs::read_dir(self.removals()) else { return false };
        notes.flatten().any(|note| note.metadata().and_then(|m| m.modified()).is_ok_and(|at| at <= now))
    }

    /// After those that were due are removed: the notes say of the others when they are.
    pub(crate) fn renew_removals(&self) -> Result<(), EngineError> {
        let Ok(notes) = fs::read_dir(self.removals()) else { return Ok(()) };
        for note in notes.flatten() {
            let id = note.file_name().to_str().and_then(SandboxId::parse);
            let sandbox = id.map(|id| self.store.get(&id)).transpose()?.flatten();
            let left = sandbox.as_ref().map(|sandbox| self.removed_in(sandbox)).transpose()?.flatten();
            match (sandbox, left) {
                (Some(sandbox), Some(left)) => self.write_removal(&sandbox.id, SystemTime::now() + left.max(AGAIN_AFTER)),
                _ => drop(fs::remove_file(note.path())),
            }
        }
        Ok(())
    }

    fn write_removal(&self, id: &SandboxId, at: SystemTime) {
        let directory = self.removals();
        let _ = fs::create_dir_all(&directory);
        let _ = File::create(directory.join(id.as_str())).and_then(|file| file.set_modified(at));
    }

    fn removals(&self) -> PathBuf {
        self.state.cache().join(DIRECTORY)
    }
}
