//! What a sandbox started from, kept for the files it changed.
//!
//! Overlayfs remembers nothing about the file below a changed one. So soon after the sandbox touches a file, its identity in
//! reality and, if it is text, its bytes are kept here. When reality moves on later, a merge still has its true base.
//!
//! ```text
//! base/index   a line for each path; a later line replaces an earlier one
//! base/<n>     the bytes; of a link a link; of a directory that was deleted the digest of what was in it, of one that was renamed
//!              and became real where it was before
//! ```
//!
//! A frozen layer has a directory of its own for what was touched first while it was the head. So a stack has a chain of them,
//! where a later directory replaces what an earlier one says; only the last one, the sandbox's own, is still written.

mod above;
mod arrived;
mod closely;
mod copied;
mod covered;
mod deleted;
mod index;
mod inventory;
mod join;
mod record;
mod replace;
mod room;
mod start;
mod undone;
mod unshown;
mod writer;

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use whatif_overlay::Format;
use whatif_sys::absence::OrAbsent;

use self::above::Above;
pub use self::arrived::distrust;
pub use self::covered::Covered;
pub use self::index::FILE as INDEX;
use self::index::Line;
pub(crate) use self::inventory::confirm;
pub use self::join::{add, copy, join, join_held};
pub use self::record::{Hash, Made, Record, hash_of};
pub use self::replace::NewBase;
use self::start::{looks_changed, start_from};
use self::undone::Undone;
pub use self::undone::{Fate, note};
pub use self::unshown::{Shareable, shareable};
pub use self::writer::LONGEST_KEPT;
pub(crate) use self::writer::make;
use self::writer::{Kept, Writer};
use crate::change::{Base, Change, State};
use crate::node::{Kind, Node, Time};
use crate::scan::Unchanged;
use crate::unreadable::Unreadable;

/// So many bytes of deleted files are read at a time, to recognize them if reality gets them again.
const MOST_HASHED: u64 = 64 << 20;

/// The same of what the sandbox wrote again without changing it.
const MOST_KEPT: u64 = 16 << 20;

/// All records of one sandbox.
#[derive(Debug, Default)]
pub struct Bases {
    /// Oldest first; the last one is the sandbox's own.
    directories: Vec<PathBuf>,
    /// By path, as bytes: comparing paths by their components takes several times as long.
    records: HashMap<OsString, Placed>,
    /// Where nothing was in reality.
    absent: Above,
    /// Directories that the sandbox has something else in the place of.
    covered: Above,
    /// The names that applies made real, by directory. Some may have been forgotten since.
    made_in: HashMap<OsString, BTreeSet<OsString>>,
    /// Where it is written down which applies are undone, and what was read there, once a line asked for it.
    undone: (Option<PathBuf>, Option<Undone>),
    /// What the sandbox is not shown as it is. No bytes of it are kept.
    unshown: Vec<PathBuf>,
    /// So many bytes are kept at most, if there is a limit.
    most: Option<u64>,
}

/// A record and the number of the directory it is in.
#[derive(Debug)]
struct Placed {
    record: Record,
    directory: usize,
}

/// Every path that the index in a `base/` directory speaks of.
pub fn paths_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    index::read(&index::load(directory)?, |line| paths.push(line.path().to_owned()));
    Ok(paths)
}

impl Bases {
    /// Those kept in a sandbox's `base/` directory; none if there is none.
    pub fn load(directory: &Path) -> io::Result<Self> {
        Self::load_chain(&[directory], None)
    }

    /// Those of a stack: of its layers, oldest first, and last the sandbox's own directory. Any of them may be missing.
    /// `undone` is the file that says which applies are undone; without one, none is.
    pub fn load_chain(directories: &[&Path], undone: Option<&Path>) -> io::Result<Self> {
        let directories = directories.iter().map(|d| d.to_path_buf()).collect();
        let mut bases = Self { directories, undone: (undone.map(Path::to_owned), None), ..Self::default() };
        for number in 0..bases.directories.len() {
            bases.read(number)?;
        }
        Ok(bases)
    }

    fn read(&mut self, directory: usize) -> io::Result<()> {
        let bytes = index::load(&self.directories[directory])?;
        let mut failed = None;
        index::read(&bytes, |line| match self.stands(&line) {
            Ok(true) => self.remember(line, directory),
            Ok(false) => {}
            Err(error) => failed = Some(error),
        });
        failed.map_or(Ok(()), Err)
    }

    /// Whether the apply that a line came with is not undone.
    fn stands(&mut self, line: &Line) -> io::Result<bool> {
        let (Some(by), (Some(file), known)) = (line.by(), &mut self.undone) else { return Ok(true) };
        let undone = match known {
            Some(undone) => undone,
            None => known.insert(Undone::read(file)?),
        };
        Ok(!undone.is_undone(by, line.path()))
    }

    fn remember(&mut self, line: Line, directory: usize) {
        self.absent.set(line.path(), matches!(&line, Line::Known(record) if record.absent));
        self.covered.set(line.path(), matches!(&line, Line::Known(record) if record.is_covered));
        if let Line::Known(record) = &line
            && record.made >= Made::Real
            && let (Some(above), Some(name)) = (record.path.parent(), record.path.file_name())
        {
            self.made_in.entry(above.as_os_str().to_owned()).or_default().insert(name.to_owned());
        }
        match line {
            Line::Known(record) => self.records.insert(record.path.clone().into_os_string(), Placed { record, directory }),
            Line::Forgotten { path, .. } => self.records.remove(path.as_os_str()),
        };
    }

    fn find(&self, path: &Path) -> Option<&Placed> {
        self.records.get(path.as_os_str())
    }

    #[must_use]
    pub fn get(&self, path: &Path) -> Option<&Record> {
        self.find(path).map(|placed| &placed.record)
    }

    /// Whether nothing was in reality at this path, or at one above it, when the sandbox made it.
    #[must_use]
    pub fn was_absent(&self, path: &Path) -> bool {
        self.absent.covers(path)
    }

    /// The device and inode of a directory that the sandbox is known to have seen at this path.
    pub(crate) fn directory_seen(&self, path: &Path) -> Option<(u64, u64)> {
        let is_seen = |r: &&Record| r.node.kind == Kind::Directory && !r.absent && !r.unknown && !r.is_on_the_way();
        self.get(path).filter(is_seen).map(|r| (r.node.dev, r.node.ino))
    }

    /// The directory that reality is known to have had at this path.
    pub(crate) fn directory_known(&self, path: &Path) -> Option<&Node> {
        self.get(path).filter(|r| r.node.kind == Kind::Directory && !r.absent && !r.unknown).map(|r| &r.node)
    }

    #[must_use]
    pub(crate) fn made(&self, path: &Path) -> Made {
        self.get(path).map_or(Made::Nothing, |r| r.made)
    }

    /// Whether all that a directory was when it was renamed from this source, relative to its tree, is real now.
    pub(crate) fn is_in_place(&self, path: &Path, source: &Path) -> Result<bool, Unreadable> {
        let Some(placed) = self.find(path).filter(|p| p.record.made == Made::InPlace) else { return Ok(false) };
        Ok(self.said(placed)?.is_some_and(|known| known == source.as_os_str().as_bytes()))
    }

    /// When the sandbox saw for the last time what is in a directory above a path, if it has something else in its place.
    pub(crate) fn covered_since(&self, path: &Path) -> Option<Time> {
        if !self.covered.covers(path) {
            return None;
        }
        let covered = |above| self.get(above).filter(|record| record.is_covered);
        path.ancestors().skip(1).find_map(covered).map(|record| record.node.mtime)
    }

    /// Whether reality had nothing at a path before the sandbox made it, also where it has that by now.
    pub(crate) fn was_made_inside(&self, path: &Path) -> bool {
        self.get(path).is_some_and(|record| record.made_inside) || self.was_absent(path)
    }

    /// What applies made real in a directory that the sandbox made.
    pub(crate) fn made_real_in(&self, directory: &Path) -> impl Iterator<Item = &Record> {
        let names = self.made_in.get(directory.as_os_str()).filter(|_| self.was_made_inside(directory));
        let record = move |name: &OsString| self.get(&directory.join(name)).filter(|record| record.made >= Made::Real);
        names.into_iter().flatten().filter_map(record)
    }

    /// What is kept of a directory.
    fn said(&self, placed: &Placed) -> Result<Option<Vec<u8>>, Unreadable> {
        let Some(number) = placed.record.content.filter(|_| placed.record.node.kind == Kind::Directory) else { return Ok(None) };
        let at = self.directories[placed.directory].join(number.to_string());
        fs::read(&at).or_absent().map_err(|error| Unreadable::of(&at, &error))
    }

    /// What the sandbox started from at this path, given what is there now, what the sandbox has, and when it first changed it.
    pub fn start_of(
        &self,
        path: &Path,
        now: Option<&State>,
        after: Option<&State>,
        touched: Time,
    ) -> Result<(Option<State>, Base), Unreadable> {
        match self.find(path) {
            Some(placed) => start_from(&placed.record, self.kept(placed), now, after),
            None => self.start_without_record(path, now, after, touched),
        }
    }

    /// Reality's times tell, unless a directory above is not the one it was.
    fn start_without_record(
        &self,
        path: &Path,
        now: Option<&State>,
        after: Option<&State>,
        touched: Time,
    ) -> Result<(Option<State>, Base), Unreadable> {
        let Some(now) = now else { return Ok((None, Base::Reality)) };
        let above = path.ancestors().skip(1).find_map(|a| self.get(a).filter(|r| !r.is_on_the_way()).map(|record| (a, record)));
        let is_directory = |s: &State| s.node.kind == Kind::Directory;
        Ok(match above {
            // The sandbox made the directory; whatever reality has in it now came later.
            Some((_, record)) if record.absent => (None, Base::Kept),
            // What happened in a directory is told by what is in it. What happened to the directory itself moves only its ctime; a name
            // that comes or goes moves both.
            _ if is_directory(now) && !after.is_some_and(is_directory) => {
                let was_changed = now.node.ctime > touched && now.node.mtime != now.node.ctime;
                (Some(now.clone()), if was_changed { Base::Lost } else { Base::Reality })
            }
            Some((ancestor, record)) if !is_directory(now) && Node::of(ancestor)?.is_none_or(|n| n.ino != record.node.ino) => {
                (Some(now.clone()), Base::Lost)
            }
            _ if now.node.ctime > touched => (Some(now.clone()), Base::Lost),
            _ => (Some(now.clone()), Base::Reality),
        })
    }

    fn kept(&self, placed: &Placed) -> Option<State> {
        if placed.record.node.kind == Kind::Directory {
            return None;
        }
        let at = self.directories[placed.directory].join(placed.record.content?.to_string());
        let mut kept = State::new(placed.record.node.clone(), at, Format::None);
        if let Some(attributes) = &placed.record.attributes {
            kept.set_attributes(attributes.clone());
        }
        Some(kept)
    }

    /// Keeps what has not been kept yet of the files that these changes touched.
    pub fn keep(&mut self, changes: &[Change]) -> io::Result<()> {
        let wanted: Vec<&Change> = changes.iter().filter(|c| self.is_wanted(c)).collect();
        let tops = self.tops(changes);
        let unknown: Vec<Record> = changes.iter().filter_map(|c| self.unknown(c)).collect();
        let copied: Vec<&Change> = changes.iter().filter(|c| self.is_known_by_inventory(c)).collect();
        if wanted.is_empty() && tops.is_empty() && unknown.is_empty() && copied.is_empty() {
            return Ok(());
        }
        let (mut writer, own) = self.begin()?;
        // Another command may have kept them while this one waited.
        self.read(own)?;
        for change in wanted {
            let Some(before) = &change.before else { continue };
            if self.get(&change.path).is_some_and(|r| !r.identity_only) {
                continue;
            }
            let kept = writer.keep(before)?;
            let attributes = Some(before.attributes()?.clone());
            // Read while it was written to: neither the old state nor the new one.
            if Node::of(&before.at)?.is_none_or(|now| !now.is_untouched_since(&before.node)) {
                continue;
            }
            let Kept { content, hash } = kept;
            // It says more about what an apply made of it, and counts as long as that.
            let by = self.get(&change.path).and_then(|r| r.by.clone());
            let record = Record { content, hash, attributes, by, ..Record::new(&change.path, before.node.clone()) };
            self.add(&mut writer, own, Line::Known(record));
        }
        for record in unknown {
            self.add(&mut writer, own, Line::Known(record));
        }
        let mut left = MOST_HASHED;
        for (change, state) in tops {
            let absent = change.before.is_none();
            let kept = if absent { Kept::default() } else { self.keep_of_deleted(change, changes, &mut writer, &mut left)? };
            let Kept { content, hash } = kept;
            let attributes = if absent { None } else { Some(state.attributes()?.clone()) };
            let mut node = state.node.clone();
            let is_covered = !absent && node.kind == Kind::Directory;
            if is_covered {
                node.mtime = inventory::latest(change, changes).unwrap_or(node.mtime);
            }
            let record = Record { absent, content, hash, attributes, ..Record::new(&change.path, node) };
            self.add(&mut writer, own, Line::Known(Record { identity_only: !absent, is_covered, ..record }));
            if !absent {
                self.keep_of_directories_below(change, changes, &mut writer, own)?;
            }
        }
        for change in copied {
            // What is in a directory that it made goes with it.
            if self.is_known_by_inventory(change)
                && let Some(record) = Self::record_of_copied(change, &mut writer, &mut left)?
            {
                self.add(&mut writer, own, Line::Known(record));
            }
        }
        writer.end()
    }

    /// Keeps what reality was where the sandbox has the same, as a look found it.
    pub fn keep_unchanged(&mut self, unchanged: &[Unchanged]) -> io::Result<()> {
        let is_new = |bases: &Self, one: &Unchanged| !bases.records.contains_key(one.now.at.as_os_str());
        if !unchanged.iter().any(|one| is_new(self, one)) {
            return Ok(());
        }
        let (mut writer, own) = self.begin()?;
        self.read(own)?;
        let mut left = MOST_KEPT;
        for one in unchanged {
            if is_new(self, one) {
                let (attributes, equal_to) = (Some(one.now.attributes()?.clone()), one.equal_to());
                let kept = keep_of_one_moment(one, &mut writer, &mut left)?;
                let (content, identity_only) = (kept.content, kept.content.is_none());
                let record = Record { content, hash: kept.hash, ..Record::new(&one.now.at, one.now.node.clone()) };
                self.add(&mut writer, own, Line::Known(Record { attributes, equal_to, identity_only, ..record }));
            }
        }
        writer.end()
    }

    /// The directories of reality that the sandbox has parts of and that do not look any more as they did.
    pub fn changed_directories(&self) -> Result<Vec<&Path>, Unreadable> {
        let mut changed = Vec::new();
        for record in self.records.values().map(|placed| &placed.record) {
            let is_known = record.node.kind == Kind::Directory && !record.absent && !record.reconciled;
            if is_known && looks_changed(record)? {
                changed.push(record.path.as_path());
            }
        }
        Ok(changed)
    }

    /// It stays unknown whatever is found later: what could have told it, the times and the view, does not last.
    fn unknown(&self, change: &Change) -> Option<Record> {
        // What is in a directory tells what happened to it, as long as it is there.
        let lost = change.base == Base::Lost && !change.is_directory() && change.deletion.is_none();
        let is_new = (lost || change.base == Base::Unknown) && self.get(&change.path).is_none();
        let node = match &change.reality {
            Some(node) if lost && node.kind == Kind::Directory => return None,
            Some(node) => node.clone(),
            // Reality deleted what was copied up.
            None if change.base == Base::Unknown => Node::of_nothing(),
            None => return None,
        };
        is_new.then(|| Record { unknown: true, lost, ..Record::new(&change.path, node) })
    }

    /// What came or went as a whole: of a directory only itself, not what is in it.
    fn tops<'a>(&self, changes: &'a [Change]) -> Vec<(&'a Change, &'a State)> {
        let mut tops: Vec<(&Change, &State)> = Vec::new();
        let mut top: Option<(&Path, bool)> = None;
        for change in changes {
            let (state, is_added) = match (&change.before, &change.after) {
                (None, Some(after)) => (after, true),
                (Some(before), None) => (before, false),
                // What is in a directory that was replaced goes by itself.
                (Some(before), Some(after)) if before.node.kind == Kind::Directory && after.node.kind != Kind::Directory => {
                    (before, false)
                }
                _ => continue,
            };
            if top.is_some_and(|(path, added)| added == is_added && change.path.starts_with(path)) {
                continue;
            }
            if change.is_directory() {
                top = Some((&change.path, is_added));
            }
            let is_recorded = self.get(&change.path).is_some_and(|r| !r.is_on_the_way());
            let is_known = is_recorded || (is_added && self.was_absent(&change.path));
            if change.base == Base::Reality && !is_known {
                tops.push((change, state));
            }
        }
        tops
    }

    fn is_wanted(&self, change: &Change) -> bool {
        let can_be_kept = |s: &Option<State>| s.as_ref().is_some_and(|s| matches!(s.node.kind, Kind::File | Kind::Link));
        change.base == Base::Reality
            && can_be_kept(&change.before)
            && change.after.is_some()
            && self.get(&change.path).is_none_or(|r| r.identity_only)
    }

    /// Begins to write to the own directory, and says which one that is.
    fn begin(&self) -> io::Result<(Writer, usize)> {
        let Some(own) = self.directories.len().checked_sub(1) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "there is no directory for what files started from"));
        };
        let mut writer = Writer::begin(&self.directories[own])?;
        writer.unshown.clone_from(&self.unshown);
        writer.left = self.left()?;
        Ok((writer, own))
    }

    fn add(&mut self, writer: &mut Writer, own: usize, line: Line) {
        writer.add(&line);
        self.remember(line, own);
    }
}

/// Nothing if it was written to meanwhile, or is closed or too long. Text that the sandbox wrote again without changing it is kept,
/// as it may change it next, and reality may as well.
fn keep_of_one_moment(one: &Unchanged, writer: &mut Writer, left: &mut u64) -> io::Result<Kept> {
    let Node { kind, size, .. } = one.now.node;
    let kept = if one.copy.is_some() && kind == Kind::File && size <= LONGEST_KEPT.min(*left) {
        *left -= size;
        writer.keep(&one.now)?
    } else if one.is_in_copy {
        Kept { content: None, hash: writer::hash_if_open(&one.now, MOST_HASHED)? }
    } else {
        Kept::default()
    };
    let is_still = Node::of(&one.now.at)?.is_some_and(|now| now.is_untouched_since(&one.now.node));
    Ok(if is_still { kept } else { Kept::default() })
}
