//! Databases consist of several files, and belong to whoever has them open. What was written to an SQLite database last is in a
//! journal beside it, and is brought into whatever file has its name then: one that was exchanged meanwhile would be damaged, or
//! lose what it brought. A server of PostgreSQL writes what it has in memory over whatever lies in its directory, and has all that
//! belongs together in many files.

mod postgres;

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::process::{Flock, FlockType, fcntl_getlk};
use whatif_diff::{Bases, Change, ChangeKind, Kind, Node, State, content};
use whatif_sys::direct;

use self::postgres::Clusters;
use crate::EngineError;
use crate::merge::damage::{IN_USE, OTHER_DATABASE, WITHOUT_DATABASE, WITHOUT_JOURNAL};

const HEADER: &[u8; 16] = b"SQLite format 3\0";
/// A database consists of pages that are multiples of this.
const PAGE: u64 = 512;
const JOURNALS: [&str; 2] = ["-wal", "-journal"];
/// What SQLite locks in the file of a database: whoever reads, all the time where there is a write-ahead log, has the shared bytes.
const LOCKED: (u64, u64) = (0x4000_0000, 512);

/// What an apply would do to databases, of all changes and those that it takes.
pub(super) struct Databases<'a> {
    changes: HashMap<&'a Path, &'a Change>,
    taken: HashSet<&'a Path>,
    bases: &'a Bases,
    clusters: Clusters,
}

impl<'a> Databases<'a> {
    pub(super) fn new(changes: &'a [Change], taken: HashSet<&'a Path>, bases: &'a Bases) -> Result<Self, EngineError> {
        let owners: HashSet<PathBuf> = changes.iter().filter_map(|c| owner_of(&c.path)).collect();
        let is_of_one = |c: &&Change| !owners.is_empty() && (owners.contains(&c.path) || owner_of(&c.path).is_some());
        let of_databases = changes.iter().filter(is_of_one).map(|c| (c.path.as_path(), c)).collect();
        Ok(Self { changes: of_databases, taken, bases, clusters: Clusters::of(changes)? })
    }

    /// Why a change that is taken would damage a database.
    pub(super) fn damage(&self, change: &Change, now: Option<&State>) -> io::Result<Option<&'static str>> {
        let path = &change.path;
        if let Some(why) = self.damage_to_cluster(path) {
            return Ok(Some(why));
        }
        if let Some(now) = now
            && now.node.kind == Kind::File
            && is_open(path, &now.at, now.node.size, |journal| self.taken.contains(journal))?
        {
            return Ok(Some(IN_USE));
        }
        if self.leaves_journal(change)? {
            return Ok(Some(WITHOUT_JOURNAL));
        }
        match owner_of(path).filter(|owner| !self.taken.contains(owner.as_path())) {
            Some(owner) => self.fits_database(change, &owner),
            None => Ok(None),
        }
    }

    /// The same for whatever is done to one file of a cluster.
    pub(super) fn damage_to_cluster(&self, path: &Path) -> Option<&'static str> {
        self.clusters.damage(path)
    }

    /// Whether it is a database of which the sandbox has a journal that stays behind.
    fn leaves_journal(&self, change: &Change) -> io::Result<bool> {
        let Some(after) = change.after.as_ref().filter(|after| may_be_database(&after.node)) else { return Ok(false) };
        let stays = |journal: PathBuf| {
            let left = self.changes.get(journal.as_path()).filter(|c| !self.taken.contains(c.path.as_path()));
            left.and_then(|c| c.after.as_ref()).is_some_and(|journal| journal.node.kind == Kind::File && journal.node.size > 0)
        };
        Ok(JOURNALS.into_iter().any(|suffix| stays(beside(&change.path, suffix))) && is_database(&after.at)?)
    }

    /// Whether a journal that is taken, or taken away, is that of the database as reality has it.
    fn fits_database(&self, change: &Change, owner: &Path) -> io::Result<Option<&'static str>> {
        let changed =
            self.changes.get(owner).filter(|c| matches!(c.kind, ChangeKind::Add | ChangeKind::Modify | ChangeKind::Rename));
        if let Some(after) = changed.and_then(|c| c.after.as_ref()) {
            return Ok(is_one(after)?.then_some(WITHOUT_DATABASE));
        }
        let Some(journal) = change.after.as_ref().filter(|a| a.node.kind == Kind::File && a.node.size > 0) else { return Ok(None) };
        let Some(real) = Node::of(owner)?.filter(may_be_database) else { return Ok(None) };
        let has_moved = match self.bases.get(owner).filter(|record| !record.absent) {
            Some(record) => (record.node.ino, record.node.ctime) != (real.ino, real.ctime),
            None => real.ctime > journal.node.btime.unwrap_or(journal.node.ctime),
        };
        Ok((has_moved && is_database(owner)?).then_some(OTHER_DATABASE))
    }
}

/// Databases of which the sandbox has a journal: it stands on the version that the sandbox has, and damages any other.
pub(super) fn of_journals(changes: &[Change]) -> HashSet<PathBuf> {
    let holds_something = |c: &&Change| c.after.as_ref().is_some_and(|a| a.node.kind == Kind::File && a.node.size > 0);
    changes.iter().filter(holds_something).filter_map(|c| owner_of(&c.path)).collect()
}

/// Whether a file of the sandbox is a database.
pub(super) fn is_one(file: &State) -> io::Result<bool> {
    Ok(may_be_database(&file.node) && is_database(&file.at)?)
}

/// Whether reality has a database open that an undo would put back.
pub(super) fn is_open_database(path: &Path, is_taken: impl Fn(&Path) -> bool) -> io::Result<bool> {
    match direct::look(path)?.filter(std::fs::Metadata::is_file) {
        Some(meta) => is_open(path, path, meta.len(), is_taken),
        None => Ok(false),
    }
}

fn is_open(path: &Path, at: &Path, size: u64, is_taken: impl Fn(&Path) -> bool) -> io::Result<bool> {
    if size == 0 || !size.is_multiple_of(PAGE) {
        return Ok(false);
    }
    let mut has_journal = false;
    for journal in JOURNALS.map(|suffix| beside(path, suffix)) {
        has_journal |= direct::look(&journal)?.is_some_and(|meta| meta.is_file() && meta.len() > 0) && !is_taken(&journal);
    }
    match is_database(at) {
        Ok(true) => Ok(has_journal || is_locked(at)?),
        // A file may be replaced by who may not read it. That one is hardly their database, unless its name says so.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !has_journal => Ok(false),
        result => result,
    }
}

/// By another process: we lock no databases but our own records.
fn is_locked(path: &Path) -> io::Result<bool> {
    let (start, length) = LOCKED;
    let lock = Flock { start, length, ..Flock::from(FlockType::WriteLock) };
    Ok(fcntl_getlk(content::open(path)?, &lock)?.is_some())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// The database that a journal would belong to, by its name.
fn owner_of(path: &Path) -> Option<PathBuf> {
    let bytes = path.as_os_str().as_bytes();
    let name = JOURNALS.into_iter().find_map(|suffix| bytes.strip_suffix(suffix.as_bytes()))?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

fn may_be_database(node: &Node) -> bool {
    node.kind == Kind::File && node.size > 0 && node.size.is_multiple_of(PAGE)
}

fn is_database(path: &Path) -> io::Result<bool> {
    let mut start = Vec::with_capacity(HEADER.len());
    content::open(path)?.take(HEADER.len() as u64).read_to_end(&mut start)?;
    Ok(start == HEADER)
}
