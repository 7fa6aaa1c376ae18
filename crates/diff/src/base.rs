//! What a sandbox started from, kept for the files it changed.
//!
//! Overlayfs remembers nothing about the file below a changed one. So soon after the sandbox touches a file, its identity in
//! reality and, if it is text, its bytes are kept here. When reality moves on later, a merge still has its true base.
//!
//! ```text
//! base/index   a line for each path; a later line replaces an earlier one
//! base/<n>     the bytes
//! ```

mod index;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use whatif_types::text;

use self::index::Line;
use crate::attributes;
use crate::change::{Base, Change, State};
use crate::content;
use crate::marks::Marks;
use crate::node::{Kind, Node, Time};

/// Longer text is rarely merged by lines; only its identity is kept.
const LONGEST_KEPT: u64 = 4 << 20;
const INDEX: &str = "index";

/// What is known about one path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    #[serde(with = "text::path")]
    pub path: PathBuf,
    /// Reality at that moment.
    pub node: Node,
    /// The file in `base/` with the bytes.
    pub content: Option<u64>,
    /// The bytes are not reality's: part of the sandbox's change is in reality already, merged with what others did.
    #[serde(default)]
    pub reconciled: bool,
    /// Only the identity was needed so far; the bytes may be kept when the sandbox touches the file again.
    #[serde(default)]
    pub identity_only: bool,
    /// Nothing was in reality; `node` is then the sandbox's.
    #[serde(default)]
    pub absent: bool,
    /// The inode of the head's file and its time of change when both had the same content.
    #[serde(default)]
    pub equal_to: Option<(u64, Time)>,
}

impl Record {
    fn new(path: &Path, node: Node) -> Self {
        Self { path: path.to_owned(), node, content: None, reconciled: false, identity_only: false, absent: false, equal_to: None }
    }
}

/// All records of one sandbox.
#[derive(Debug, Default)]
pub struct Bases {
    directory: PathBuf,
    /// By path, as bytes: comparing paths by their components takes several times as long.
    records: HashMap<OsString, Record>,
}

impl Bases {
    /// Those kept in a sandbox's `base/` directory; none if there is none.
    pub fn load(directory: &Path) -> io::Result<Self> {
        let mut records = HashMap::new();
        match fs::read(directory.join(INDEX)) {
            Ok(bytes) => {
                // A line that a crash cut short says nothing.
                index::read(&bytes, |line| remember(&mut records, line));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(Self { directory: directory.to_owned(), records })
    }

    #[must_use]
    pub fn get(&self, path: &Path) -> Option<&Record> {
        self.records.get(path.as_os_str())
    }

    /// What the sandbox started from at this path, given what is there now, what the sandbox has, and when it first changed it.
    #[must_use]
    pub fn start_of(&self, path: &Path, now: Option<&State>, after: Option<&State>, touched: Time) -> (Option<State>, Base) {
        let Some(record) = self.records.get(path.as_os_str()) else { return self.start_without_record(path, now, touched) };
        if record.absent {
            let base = if now.is_some_and(|n| n.node.kind != Kind::Directory) { Base::Kept } else { Base::Reality };
            return if base == Base::Kept { (None, base) } else { (now.cloned(), base) };
        }
        let kept = self.kept(record);
        if !record.reconciled && now.is_some_and(|now| self.is_still(record, now, kept.as_ref())) {
            return (now.cloned(), Base::Reality);
        }
        // What became real is what the sandbox has, as long as it has not touched it since.
        let is_untouched = |a: &&State| record.equal_to == Some((a.node.ino, a.node.ctime));
        match kept.or_else(|| after.filter(is_untouched).cloned()) {
            Some(kept) => (Some(kept), Base::Kept),
            None => (now.cloned(), Base::Lost),
        }
    }

    /// Reality's times tell, unless a directory above is not the one it was.
    fn start_without_record(&self, path: &Path, now: Option<&State>, touched: Time) -> (Option<State>, Base) {
        let Some(now) = now else { return (None, Base::Reality) };
        if now.node.kind == Kind::Directory {
            return (Some(now.clone()), Base::Reality);
        }
        let above = path.ancestors().skip(1).find_map(|a| self.records.get(a.as_os_str()).map(|record| (a, record)));
        match above {
            // The sandbox made the directory; whatever reality has in it now came later.
            Some((_, record)) if record.absent => (None, Base::Kept),
            Some((ancestor, record)) if Node::of(ancestor).is_none_or(|n| n.ino != record.node.ino) => {
                (Some(now.clone()), Base::Lost)
            }
            _ if now.node.ctime > touched => (Some(now.clone()), Base::Lost),
            _ => (Some(now.clone()), Base::Reality),
        }
    }

    fn kept(&self, record: &Record) -> Option<State> {
        let at = match (record.content, record.node.kind) {
            (Some(number), _) => self.directory.join(number.to_string()),
            _ => return None,
        };
        Some(State::new(record.node.clone(), at, Marks::None))
    }

    fn is_still(&self, record: &Record, now: &State, kept: Option<&State>) -> bool {
        if now.node.is_untouched_since(&record.node) {
            return true;
        }
        let attributes = |n: &Node| (n.kind, n.mode, n.uid, n.gid, n.size);
        attributes(&now.node) == attributes(&record.node)
            && match kept {
                Some(kept) => content::is_same(&now.at, &kept.at, now.node.size).unwrap_or(false),
                None => now.node.has_same_content_stamp(&record.node),
            }
    }

    /// Keeps what has not been kept yet of the files that these changes touched.
    pub fn keep(&mut self, changes: &[Change]) -> io::Result<()> {
        let wanted: Vec<&Change> = changes.iter().filter(|c| self.is_wanted(c)).collect();
        let tops = self.tops(changes);
        if wanted.is_empty() && tops.is_empty() {
            return Ok(());
        }
        let mut writer = Writer::begin(&self.directory)?;
        // Another command may have kept them while this one waited.
        let written = Self::load(&self.directory)?.records;
        self.records.extend(written);
        for change in wanted {
            let Some(before) = &change.before else { continue };
            if self.records.get(change.path.as_os_str()).is_some_and(|r| !r.identity_only) {
                continue;
            }
            let content = writer.keep_text(before)?;
            // Read while it was written to: neither the old state nor the new one.
            if Node::of(&before.at).is_none_or(|now| !now.is_untouched_since(&before.node)) {
                continue;
            }
            let record = Record { content, ..Record::new(&change.path, before.node.clone()) };
            self.add(&mut writer, Line::Known(record));
        }
        for (change, state) in tops {
            let absent = change.before.is_none();
            let record = Record { absent, identity_only: !absent, ..Record::new(&change.path, state.node.clone()) };
            self.add(&mut writer, Line::Known(record));
        }
        writer.end()
    }

    /// What came or went as a whole: of a directory only itself, not what is in it.
    fn tops<'a>(&self, changes: &'a [Change]) -> Vec<(&'a Change, &'a State)> {
        let mut tops: Vec<(&Change, &State)> = Vec::new();
        let mut top: Option<(&Path, bool)> = None;
        for change in changes {
            let (state, is_added) = match (&change.before, &change.after) {
                (None, Some(after)) => (after, true),
                (Some(before), None) => (before, false),
                _ => continue,
            };
            if top.is_some_and(|(path, added)| added == is_added && change.path.starts_with(path)) {
                continue;
            }
            if change.is_directory() {
                top = Some((&change.path, is_added));
            }
            if change.base == Base::Reality && !self.records.contains_key(change.path.as_os_str()) {
                tops.push((change, state));
            }
        }
        tops
    }

    fn is_wanted(&self, change: &Change) -> bool {
        let is_file = |s: &Option<State>| s.as_ref().is_some_and(|s| s.node.kind == Kind::File);
        change.base == Base::Reality
            && is_file(&change.before)
            && change.after.is_some()
            && self.records.get(change.path.as_os_str()).is_none_or(|r| r.identity_only)
    }

    /// Sets what the sandbox starts from now: after part of its change became real, or after that was undone.
    pub fn replace(&mut self, new: Vec<NewBase>) -> io::Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        let mut writer = Writer::begin(&self.directory)?;
        for base in new {
            let line = match base {
                NewBase::Identity { path, node, equal_to } => {
                    Line::Known(Record { identity_only: true, equal_to, ..Record::new(&path, node) })
                }
                NewBase::Content { path, node, bytes, reconciled } => {
                    let content = Some(writer.keep_bytes(&bytes)?);
                    Line::Known(Record { content, reconciled, ..Record::new(&path, node) })
                }
                NewBase::Forget { path } => Line::Forgotten(path),
                NewBase::Again(record) => Line::Known(record),
            };
            self.add(&mut writer, line);
        }
        writer.end()
    }

    fn add(&mut self, writer: &mut Writer, line: Line) {
        writer.add(&line);
        remember(&mut self.records, line);
    }
}

fn remember(records: &mut HashMap<OsString, Record>, line: Line) {
    match line {
        Line::Known(record) => records.insert(record.path.clone().into_os_string(), record),
        Line::Forgotten(path) => records.remove(path.as_os_str()),
    };
}

/// A base set on purpose.
#[derive(Debug)]
pub enum NewBase {
    /// Reality is the base, as it is now.
    Identity { path: PathBuf, node: Node, equal_to: Option<(u64, Time)> },
    /// These bytes are; `reconciled` if reality has others.
    Content { path: PathBuf, node: Node, bytes: Vec<u8>, reconciled: bool },
    /// There is none: nothing is in reality.
    Forget { path: PathBuf },
    /// What it was before.
    Again(Record),
}

pub(crate) fn make(directory: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Appends to the directory, one command at a time.
struct Writer {
    directory: PathBuf,
    index: File,
    lines: Vec<u8>,
    next: u64,
}

impl Writer {
    fn begin(directory: &Path) -> io::Result<Self> {
        make(directory)?;
        let index = OpenOptions::new().append(true).create(true).mode(0o600).open(directory.join(INDEX))?;
        flock(&index, FlockOperation::LockExclusive)?;
        let numbers = fs::read_dir(directory)?.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u64>().ok());
        let next = numbers.max().map_or(0, |n| n + 1);
        Ok(Self { directory: directory.to_owned(), index, lines: Vec::new(), next })
    }

    /// The number of a copy of the text, if it is text of sensible length.
    fn keep_text(&mut self, before: &State) -> io::Result<Option<u64>> {
        if before.node.size > LONGEST_KEPT {
            return Ok(None);
        }
        match content::read(&before.at) {
            Ok(bytes) if !whatif_patch::is_binary(&bytes) => {
                let number = self.keep_bytes(&bytes)?;
                attributes::copy(before.attributes(), &self.directory.join(number.to_string()));
                Ok(Some(number))
            }
            // Not readable now means not mergeable later; it stays a change like any other.
            _ => Ok(None),
        }
    }

    fn keep_bytes(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let number = self.next;
        let path = self.directory.join(number.to_string());
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(bytes)?;
        self.next += 1;
        Ok(number)
    }

    fn add(&mut self, line: &Line) {
        index::write(line, &mut self.lines);
    }

    /// The index follows the bytes it speaks of.
    fn end(mut self) -> io::Result<()> {
        self.index.write_all(&self.lines)
    }
}
