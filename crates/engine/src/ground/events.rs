//! What happened, in order, for those who watch, and the part of it that the audit log keeps.
//!
//! ```text
//! events/<segment>   a line for each event; a new file every ten minutes
//! ```
//!
//! A command only appends a line to the spool, which costs it microseconds. Readers, and chores in the background, move the lines into the
//! records, where they get their numbers. How far a file is recorded is written in the same transaction, so each line is recorded once,
//! whichever process is killed. A line that was cut short counts for nothing.

mod document;
mod spool;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
pub use whatif_store::{AuditEntry, Event};
use whatif_store::{SpoolPart, Spooled};
use whatif_sys::absence::OrAbsent;
use whatif_types::{EventKind, Sandbox};

pub use self::document::{DeedDocument, EventDocument};
use self::spool::{Line, Read, SEGMENT, append, identity_of, read_part, segment_of, segments};
use crate::ground::Ground;
use crate::ground::chores::Chore;
use crate::{EngineError, now};

const SPOOL: &str = "events";
/// Each time a file has grown by this, its events are recorded in the background.
const DUE: u64 = 256 << 10;
/// So many events stay readable.
const KEPT: u64 = 50_000;

/// What an event is about, in its body.
pub(crate) type Facts = Vec<(&'static str, Value)>;

impl Ground {
    /// Tells what happened to a sandbox. It cannot fail: what happened has happened, whether or not anybody can be told.
    pub(crate) fn tell(&self, kind: EventKind, sandbox: &Sandbox, facts: Facts) {
        let about = [("sandbox", Value::from(sandbox.id.as_str())), ("project", sandbox.project.to_string_lossy().into())];
        self.tell_of(kind, &sandbox.name, sandbox.owner.as_deref(), about.into_iter().chain(facts));
    }

    /// The same for what is no sandbox.
    pub(crate) fn tell_of(
        &self,
        kind: EventKind,
        subject: &str,
        owner: Option<&str>,
        facts: impl IntoIterator<Item = (&'static str, Value)>,
    ) {
        let who = self.caller.principal.key();
        let by = [("by", Value::from(who.as_str())), ("via", Value::from(self.caller.via))];
        let body = by.into_iter().chain(facts).map(|(name, value)| (name.to_owned(), value)).collect();
        let (kind, is_deed) = (kind.as_str().to_owned(), kind.is_audited());
        let line = Line { at: now(), kind, subject: subject.to_owned(), owner: owner.map(str::to_owned), who, is_deed, body };
        let Ok(text) = serde_json::to_string(&line) else { return };
        let size = append(&self.spool_dir(), text.as_bytes());
        if is_deed {
            // Nobody should have to wait for the next reader to find it in the audit log. What fails now is done then, unless there
            // is no line to read.
            let _ = match size {
                Ok(_) => self.record_events(),
                Err(_) => self.record_at_once(line),
            };
        } else if size.is_ok_and(|size| size / DUE != size.saturating_sub(text.len() as u64) / DUE) {
            self.chores.start(Chore::Tidy);
        }
    }

    /// At most `limit` events after a number, in order.
    pub fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>, EngineError> {
        self.record_events()?;
        Ok(self.store.events_after(after, limit)?)
    }

    /// The number of the latest event.
    pub fn last_event(&self) -> Result<u64, EngineError> {
        self.record_events()?;
        Ok(self.store.last_event()?)
    }

    /// The number of the earliest event that is kept.
    pub fn first_event(&self) -> Result<u64, EngineError> {
        Ok(self.store.first_event()?)
    }

    /// Something that changes with each event, and costs next to nothing to look at.
    pub fn events_mark(&self) -> Result<EventsMark, EngineError> {
        let path = self.spool_dir().join(segment_of(now()));
        let found = fs::metadata(&path).or_absent().map_err(|e| EngineError::io("examine", &path, e))?;
        Ok(EventsMark { name: path, length: found.map_or(0, |found| found.len()) })
    }

    /// At most `limit` entries of the audit log after a number, in order.
    pub fn deeds(&self, after: u64, limit: usize) -> Result<Vec<AuditEntry>, EngineError> {
        self.record_events()?;
        Ok(self.store.deeds_after(after, limit)?)
    }

    /// Goes through the whole audit log. An error names the first entry that is not as it was written.
    pub fn verify_deeds(&self) -> Result<Option<AuditEntry>, EngineError> {
        self.record_events()?;
        Ok(self.store.verify_deeds()?)
    }

    /// Moves what waits in the spool into the records.
    pub(crate) fn record_events(&self) -> Result<(), EngineError> {
        let directory = self.spool_dir();
        let names = segments(&directory).map_err(|e| EngineError::io("list", &directory, e))?;
        let current = segment_of(now().saturating_sub(SEGMENT));
        for name in names {
            let path = directory.join(&name);
            let is_whole = self.record_segment(&name, &path)?;
            if is_whole && name < current {
                let spool = identity_of(&name, &path).map_err(|e| EngineError::io("examine", &path, e))?;
                fs::remove_file(&path).or_absent().map_err(|e| EngineError::io("remove", &path, e))?;
                spool.map_or(Ok(()), |spool| self.store.forget_spool(&spool))?;
            }
        }
        Ok(())
    }

    /// Drops the oldest events.
    pub(crate) fn drop_old_events(&self) -> Result<(), EngineError> {
        match self.store.last_event()?.checked_sub(KEPT) {
            Some(last) => Ok(self.store.drop_events_before(last + 1)?),
            None => Ok(()),
        }
    }

    /// False if another process records it at the same time.
    fn record_segment(&self, name: &str, path: &Path) -> Result<bool, EngineError> {
        loop {
            // Before the file is opened: one that is recorded and removed meanwhile is not read from its beginning again.
            let spool = identity_of(name, path).map_err(|e| EngineError::io("examine", path, e))?;
            let Some(spool) = spool else { return Ok(true) };
            let from = self.store.spooled(&spool)?;
            let is_ours = match read_part(path, from).map_err(|e| EngineError::io("read", path, e))? {
                Read::Part(part) => {
                    let events: Vec<Spooled> = part.lines.into_iter().map(Spooled::from).collect();
                    self.store.append_spooled(&SpoolPart { spool: &spool, from, to: part.to }, &events)?
                }
                Read::Nothing => return Ok(true),
                // Somebody has cut it off.
                Read::Shorter => {
                    self.store.forget_spool(&spool)?;
                    true
                }
            };
            if !is_ours {
                return Ok(false);
            }
        }
    }

    /// Where the spool cannot be written.
    fn record_at_once(&self, line: Line) -> Result<(), EngineError> {
        let spool = format!("none {}", crate::ids::new_id()?);
        self.store.append_spooled(&SpoolPart { spool: &spool, from: 0, to: 0 }, &[line.into()])?;
        Ok(self.store.forget_spool(&spool)?)
    }

    fn spool_dir(&self) -> PathBuf {
        self.state.root().join(SPOOL)
    }
}

/// A value of `Ground::events_mark`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsMark {
    name: PathBuf,
    length: u64,
}
