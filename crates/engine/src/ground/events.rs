//! What happened, in order, for those who watch, and the part of it that the audit log keeps.
//!
//! ```text
//! events/<segment>   a line for each event; a new file every ten minutes
//! ```
//!
//! A command only appends a line to the spool, which costs it microseconds. Readers, and chores in the background, move the lines into the
//! records, where they get their numbers. How far a file is recorded is written in the same transaction, so each line is recorded once,
//! whichever process is killed. A line that was cut short counts for nothing.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
pub use whatif_store::{AuditEntry, Event};
use whatif_store::{SpoolPart, Spooled};
use whatif_sys::absence::OrAbsent;
use whatif_types::timestamp::rfc3339;
use whatif_types::{EventKind, Sandbox};

use crate::ground::Ground;
use crate::ground::chores::Chore;
use crate::{EngineError, now};

const SPOOL: &str = "events";
/// One file takes the events of so many milliseconds.
const SEGMENT: u64 = 600_000;
/// Each time a file has grown by this, its events are recorded in the background.
const DUE: u64 = 256 << 10;
/// How much is recorded in one transaction.
const PART: u64 = 256 << 10;
/// So many events stay readable.
const KEPT: u64 = 50_000;

/// A line of the spool.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    at: u64,
    kind: String,
    subject: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// The principal.
    who: String,
    /// Whether the audit log gets it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_deed: bool,
    body: Map<String, Value>,
}

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
        let size = spool(&self.spool_dir(), text.as_bytes());
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
                    let events: Vec<Spooled> = part.lines.into_iter().map(spooled).collect();
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
        self.store.append_spooled(&SpoolPart { spool: &spool, from: 0, to: 0 }, &[spooled(line)])?;
        Ok(self.store.forget_spool(&spool)?)
    }

    fn spool_dir(&self) -> PathBuf {
        self.state.root().join(SPOOL)
    }
}

/// An event as clients show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventDocument {
    pub number: u64,
    pub at: String,
    pub kind: String,
    /// The name of the sandbox, template or race.
    pub subject: String,
    pub owner: Option<String>,
    /// The principal that caused it, and through which client.
    pub by: String,
    pub via: String,
    /// What else there is to say about this kind of event.
    pub about: Map<String, Value>,
}

impl From<Event> for EventDocument {
    fn from(event: Event) -> Self {
        let Event { number, at, kind, subject, owner, body } = event;
        let (by, via, about) = parts(body);
        Self { number, at: rfc3339(at), kind, subject, owner, by, via, about }
    }
}

/// An entry of the audit log as clients show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeedDocument {
    pub number: u64,
    pub at: String,
    pub principal: String,
    pub action: String,
    pub subject: String,
    pub via: String,
    pub about: Map<String, Value>,
    /// Of this entry and the hash of the one before it.
    pub hash: String,
}

impl From<AuditEntry> for DeedDocument {
    fn from(entry: AuditEntry) -> Self {
        let AuditEntry { number, at, principal, action, subject, body, hash } = entry;
        let (_, via, about) = parts(serde_json::from_str(&body).unwrap_or_default());
        let hash = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { number, at: rfc3339(at), principal, action, subject, via, about, hash }
    }
}

fn parts(body: Value) -> (String, String, Map<String, Value>) {
    let mut about = match body {
        Value::Object(about) => about,
        _ => Map::new(),
    };
    let mut word = |name: &str| about.remove(name).and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default();
    let (by, via) = (word("by"), word("via"));
    (by, via, about)
}

/// A value of `Ground::events_mark`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsMark {
    name: PathBuf,
    length: u64,
}

fn segment_of(at: u64) -> String {
    format!("{:012}", at / SEGMENT)
}

/// Appends a line, and returns how long the file is then.
fn spool(directory: &Path, line: &[u8]) -> io::Result<u64> {
    // A line of its own even if the one before it was cut short.
    let line = [b"\n", line, b"\n"].concat();
    for is_last in [false, true] {
        let path = directory.join(segment_of(now()));
        let opened = File::options().append(true).create(true).mode(0o600).open(&path);
        let mut file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_last => {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
                continue;
            }
            other => other?,
        };
        file.write_all(&line)?;
        let found = file.metadata()?;
        // Whoever is held up for minutes may find that its file was recorded and removed meanwhile.
        if found.nlink() > 0 {
            return Ok(found.len());
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

fn segments(directory: &Path) -> io::Result<Vec<String>> {
    let Some(entries) = fs::read_dir(directory).or_absent()? else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        // Nothing else is ours, and a pipe would hold up whoever reads it.
        if entry.file_type()?.is_file() {
            names.extend(entry.file_name().into_string().ok().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())));
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// By which name the records know a file: another one of the same name, because somebody removed the first one, is read from its
/// beginning. `None` if there is none.
fn identity_of(name: &str, path: &Path) -> io::Result<Option<String>> {
    let Some(found) = fs::symlink_metadata(path).or_absent()? else { return Ok(None) };
    let born = found.created().ok().and_then(|at| Some(at.duration_since(UNIX_EPOCH).ok()?.as_nanos())).unwrap_or(0);
    Ok(Some(format!("{name} {:x} {born:x}", found.ino())))
}

struct Part {
    lines: Vec<Line>,
    to: u64,
}

enum Read {
    Part(Part),
    Nothing,
    /// The file ends before the place.
    Shorter,
}

/// Whole lines from there on.
fn read_part(path: &Path, from: u64) -> io::Result<Read> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = File::options().read(true).custom_flags(flags.bits() as i32).open(path);
    let Some(mut file) = opened.or_absent()? else { return Ok(Read::Nothing) };
    if file.metadata()?.len() < from {
        return Ok(Read::Shorter);
    }
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(PART).read_to_end(&mut bytes)?;
    let is_full = bytes.len() as u64 == PART;
    let end = match bytes.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => end + 1,
        // No line of ours is as long as a part.
        None if is_full => bytes.len(),
        None => return Ok(Read::Nothing),
    };
    let lines = bytes[..end].split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    Ok(Read::Part(Part { lines, to: from + end as u64 }))
}

fn spooled(line: Line) -> Spooled {
    let Line { at, kind, subject, owner, who, is_deed, body } = line;
    Spooled { at, kind, subject, owner, body: Value::Object(body), deed_of: is_deed.then_some(who) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: u64) -> String {
        format!("{{\"at\":{n},\"kind\":\"k\",\"subject\":\"s\",\"who\":\"user:0\",\"body\":{{}}}}")
    }

    fn read(path: &Path, from: u64) -> (Vec<u64>, u64) {
        let Read::Part(part) = read_part(path, from).unwrap() else { panic!("there is something") };
        (part.lines.iter().map(|line| line.at).collect(), part.to)
    }

    #[test]
    fn whole_lines_are_read_and_torn_ones_lose_nothing_but_themselves() {
        let directory = std::env::temp_dir().join(format!("whatif-spool-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        assert!(segments(&directory).unwrap().is_empty());
        spool(&directory, line(1).as_bytes()).unwrap();
        spool(&directory, line(2).as_bytes()).unwrap();
        let path = directory.join(&segments(&directory).unwrap()[0]);
        let (events, to) = read(&path, 0);
        assert_eq!((events, to), (vec![1, 2], fs::metadata(&path).unwrap().len()));
        assert!(matches!(read_part(&path, to).unwrap(), Read::Nothing));
        assert!(matches!(read_part(&path, to + 1).unwrap(), Read::Shorter));

        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(&format!("\n{}", line(3)).as_bytes()[..20]).unwrap();
        let (events, torn) = read(&path, to);
        assert!(events.is_empty() && torn == to + 1, "{torn}");
        spool(&directory, line(4).as_bytes()).unwrap();
        let (events, end) = read(&path, torn);
        assert_eq!((events, end), (vec![4], fs::metadata(&path).unwrap().len()));
        assert!(matches!(read_part(&directory.join("gone"), 0).unwrap(), Read::Nothing));
        assert!(identity_of("a", &directory.join("gone")).unwrap().is_none());
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn segments_sort_by_time() {
        assert!(segment_of(1_700_000_000_000) < segment_of(1_700_000_000_000 + SEGMENT));
        assert_eq!(segment_of(SEGMENT), segment_of(2 * SEGMENT - 1));
    }
}
