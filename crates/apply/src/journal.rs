//! The journal: one record a line, each with its length and a checksum.
//!
//! The first record comes into being whole, by a rename, before anything is staged. A last line without its end is a torn write
//! and counts for nothing. Any other damage makes the whole journal unusable: nothing it names is touched.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use whatif_sys::absence::OrAbsent;
use whatif_types::text;

use crate::attributes::Xattrs;
use crate::error::{ApplyError, Fault, Problem, on};
use crate::fingerprint::Hash;
use crate::layout::{Layout, Staging};
use crate::plan::{Identity, Plan, Time};
use crate::unmanaged::Unmanaged;

/// 2 added where each directory's new versions are staged; in 1 all of them lie next to their targets. 3 added further names of
/// files that are there already, 4 files of a sandbox that must be what was approved, 5 applies whose caller decides.
const VERSION: u32 = 5;
/// What is written where nothing of a later version is made use of, so that earlier programs can undo it.
const USUAL: u32 = 4;
const OLDEST: u32 = 1;
const NAME: &str = "journal";
/// Hexadecimal digits of the checksum that are kept.
const DIGITS: usize = 32;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Entry {
    Header(Box<Header>),
    /// What was staged, by operation.
    Staged(Vec<Option<Identity>>),
    /// From here on it goes forward, unless the caller decides.
    Commit,
    /// The caller has decided that it goes forward, and is not asked again.
    Decided,
    /// From here on it goes back.
    Abort {
        why: String,
    },
    Done(Done),
    RolledBack(#[serde(with = "text::explained_paths")] Vec<(PathBuf, String)>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    pub version: u32,
    /// Part of every temporary name.
    pub id: String,
    /// Without the bytes of `Source::Bytes`.
    pub plan: Plan,
    /// Inode of each root.
    pub roots: Vec<u64>,
    /// Extended attributes, before, of what is changed in place or cannot be kept as it is.
    #[serde(with = "numbered_xattrs")]
    pub xattrs: BTreeMap<usize, Xattrs>,
    /// What else the directories had that go. Earlier versions did not write it down.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unmanaged: BTreeMap<usize, Unmanaged>,
    pub parents: Vec<Parent>,
    /// Operations whose earlier version is copied, since `old` lies on another file system.
    pub copied: Vec<usize>,
    #[serde(default)]
    pub decider: Decider,
}

/// Who says whether an apply that was committed goes forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Decider {
    /// The commit record itself.
    #[default]
    Journal,
    /// Something that only the caller knows of: the commit record says no more than that everything is staged.
    Caller,
}

/// An existing directory in which names come and go.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Parent {
    pub root: usize,
    #[serde(with = "text::path")]
    pub path: PathBuf,
    pub ino: u64,
    pub mtime: Time,
    #[serde(default)]
    pub staging: Staging,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Done {
    /// What is there now, by operation.
    pub after: Vec<Option<Identity>>,
    /// What the content of that can be recognized by, by operation. Earlier versions did not write it down.
    #[serde(default)]
    pub hashes: BTreeMap<usize, Hash>,
    /// Of the parents of the header, in that order.
    pub parents: Vec<Option<Time>>,
    /// Operations that recovery could not do, since somebody else had changed something.
    pub left: Vec<usize>,
    #[serde(with = "text::explained_paths")]
    pub reported: Vec<(PathBuf, String)>,
}

#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    /// Length of what is valid.
    length: u64,
}

/// What a journal says.
#[derive(Debug)]
pub(crate) struct Told {
    pub header: Header,
    pub staged: Option<Vec<Option<Identity>>>,
    pub committed: bool,
    pub decided: bool,
    pub aborted: bool,
    pub done: Option<Done>,
    pub rolled_back: Option<Vec<(PathBuf, String)>>,
}

impl Journal {
    pub(crate) fn create(directory: &Path, header: Header) -> Result<(Self, Header), Fault> {
        let (new, path) = (directory.join("journal.new"), directory.join(NAME));
        let entry = Entry::Header(Box::new(header));
        let line = frame(&entry).map_err(on("describe", &path))?;
        let write = || -> io::Result<File> {
            let mut file = File::options().append(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(&line)?;
            file.sync_all()?;
            rustix::fs::renameat_with(rustix::fs::CWD, &new, rustix::fs::CWD, &path, rustix::fs::RenameFlags::NOREPLACE)?;
            File::open(directory)?.sync_all()?;
            Ok(file)
        };
        let Entry::Header(header) = entry else { return Err(on("describe", &path)(io::Error::from(io::ErrorKind::InvalidData))) };
        match write() {
            Ok(file) => Ok((Self { file, path, length: line.len() as u64 }, *header)),
            Err(error) => {
                // Nothing is staged yet, so a header that stays behind does no harm.
                let _ = fs::remove_file(&new);
                let _ = fs::remove_file(&path);
                Err(on("write", &path)(error))
            }
        }
    }

    /// Appends records; when this returns they are on the disk. On failure nothing is left of them, if that can be had.
    pub(crate) fn append(&mut self, entries: &[Entry]) -> Result<(), Fault> {
        let mut line = Vec::new();
        for entry in entries {
            line.append(&mut frame(entry).map_err(on("describe", &self.path))?);
        }
        let mut write = || -> io::Result<()> {
            self.file.write_all(&line)?;
            self.file.sync_data()
        };
        match write() {
            Ok(()) => {
                self.length += line.len() as u64;
                Ok(())
            }
            Err(error) => {
                let _ = self.file.set_len(self.length).and_then(|()| self.file.sync_data());
                Err(on("write", &self.path)(error))
            }
        }
    }

    /// `None` if nothing was begun.
    pub(crate) fn open(directory: &Path) -> Result<Option<(Self, Told)>, ApplyError> {
        let path = directory.join(NAME);
        let mut bytes = Vec::new();
        let opened = File::options().read(true).append(true).open(&path);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(on("open", &path)(error).into()),
        };
        file.read_to_end(&mut bytes).map_err(on("read", &path))?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let (told, length) = parse(&bytes).map_err(|why| ApplyError::Journal { directory: directory.to_owned(), why })?;
        if length < bytes.len() as u64 {
            // What is appended must not continue a torn line.
            file.set_len(length).map_err(on("repair", &path))?;
        }
        Ok(Some((Self { file, path, length }, told)))
    }

    /// Removes the journal of an apply that was put back, so that another one can be written in its place.
    pub(crate) fn discard(directory: &Path) -> Result<(), Fault> {
        let path = directory.join(NAME);
        fs::remove_file(&path).map_err(on("remove", &path))
    }

    /// Like `open`, but changes nothing. It may be filed away at any moment; then there is none here.
    pub(crate) fn peek(directory: &Path) -> Result<Option<Told>, ApplyError> {
        let path = directory.join(NAME);
        match fs::read(&path).or_absent().map_err(on("read", &path))? {
            Some(bytes) if !bytes.is_empty() => told(directory, &bytes).map(Some),
            _ => Ok(None),
        }
    }

    /// Reads without changing anything.
    pub(crate) fn read(directory: &Path) -> Result<Told, ApplyError> {
        let path = directory.join(NAME);
        told(directory, &fs::read(&path).map_err(on("read", &path))?)
    }
}

fn told(directory: &Path, bytes: &[u8]) -> Result<Told, ApplyError> {
    parse(bytes).map(|(told, _)| told).map_err(|why| ApplyError::Journal { directory: directory.to_owned(), why })
}

fn frame(entry: &Entry) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(entry)?;
    let mut line = format!("{:08x} {} ", json.len(), checksum(&json)).into_bytes();
    line.extend_from_slice(&json);
    line.push(b'\n');
    Ok(line)
}

fn checksum(json: &[u8]) -> String {
    let digest = Sha256::digest(json);
    digest.iter().take(DIGITS / 2).map(|b| format!("{b:02x}")).collect()
}

fn parse(bytes: &[u8]) -> Result<(Told, u64), String> {
    let mut length = 0;
    let mut entries = Vec::new();
    for (n, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        match line.strip_suffix(b"\n") {
            Some(line) => {
                let json = unframe(line).ok_or_else(|| format!("record {} is damaged", n + 1))?;
                if n == 0 {
                    refuse_other_versions(json)?;
                }
                entries.push(serde_json::from_slice(json).map_err(|e| format!("record {}: {e}", n + 1))?);
            }
            None if n == 0 => return Err("its first record is torn".to_owned()),
            None => break,
        }
        length += line.len() as u64;
    }
    Ok((tell(entries)?, length))
}

fn unframe(line: &[u8]) -> Option<&[u8]> {
    let (length, rest) = line.split_at_checked(8)?;
    let (sum, json) = rest.strip_prefix(b" ")?.split_at_checked(DIGITS)?;
    let json = json.strip_prefix(b" ")?;
    let length = usize::from_str_radix(std::str::from_utf8(length).ok()?, 16).ok()?;
    (length == json.len() && checksum(json).as_bytes() == sum).then_some(json)
}

/// Before the rest of a header is understood: another version may have other fields.
fn refuse_other_versions(json: &[u8]) -> Result<(), String> {
    #[derive(Deserialize)]
    struct First {
        header: Version,
    }
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    match serde_json::from_slice(json) {
        Ok(First { header: Version { version: OLDEST..=VERSION } }) => Ok(()),
        Ok(First { header: Version { version } }) => {
            Err(format!("it has version {version}, this program knows {OLDEST} to {VERSION}"))
        }
        Err(error) => Err(format!("it has no header: {error}")),
    }
}

fn tell(entries: Vec<Entry>) -> Result<Told, String> {
    let mut entries = entries.into_iter();
    let Some(Entry::Header(header)) = entries.next() else { return Err("it has no header".to_owned()) };
    let mut told =
        Told { header: *header, staged: None, committed: false, decided: false, aborted: false, done: None, rolled_back: None };
    for entry in entries {
        match entry {
            Entry::Header(_) => return Err("it has two headers".to_owned()),
            Entry::Staged(_) if told.staged.is_some() => return Err("it is written twice".to_owned()),
            Entry::Staged(staged) => told.staged = Some(staged),
            Entry::Commit if told.staged.is_none() || told.aborted => return Err("its records contradict each other".to_owned()),
            Entry::Commit => told.committed = true,
            Entry::Decided if !told.committed || told.aborted => return Err("its records contradict each other".to_owned()),
            Entry::Decided => told.decided = true,
            Entry::Abort { .. } => told.aborted = true,
            Entry::Done(_) if !told.committed || told.aborted => return Err("its records contradict each other".to_owned()),
            Entry::Done(done) => told.done = Some(done),
            Entry::RolledBack(reported) => told.rolled_back = Some(reported),
        }
    }
    let count = told.header.plan.operations.len();
    let fits = |list: &Vec<Option<Identity>>| list.len() == count;
    if told.staged.as_ref().is_some_and(|s| !fits(s)) || told.done.as_ref().is_some_and(|d| !fits(&d.after)) {
        return Err("its records do not fit each other".to_owned());
    }
    Ok(told)
}

impl Header {
    /// Where everything is staged, as it was decided when the journal was written.
    pub(crate) fn layout(&self) -> Result<Layout, Vec<Problem>> {
        let mut layout = Layout::of(&self.plan, &self.id)?;
        let staging: HashMap<(usize, &Path), Staging> =
            self.parents.iter().map(|p| ((p.root, p.path.as_path()), p.staging)).collect();
        layout.stage_in(&self.plan, &self.id, |root, path| staging.get(&(root, path)).copied().unwrap_or_default());
        Ok(layout)
    }

    pub(crate) fn new(id: String, plan: &Plan, decider: Decider) -> Self {
        let mut plan = plan.clone();
        for operation in &mut plan.operations {
            if let crate::plan::Change::Put { source: crate::plan::Source::Bytes(bytes), .. } = &mut operation.change {
                *bytes = Vec::new();
            }
        }
        let version = if decider == Decider::Caller { VERSION } else { USUAL };
        Self {
            version,
            id,
            plan,
            roots: Vec::new(),
            xattrs: BTreeMap::new(),
            unmanaged: BTreeMap::new(),
            parents: Vec::new(),
            copied: Vec::new(),
            decider,
        }
    }
}

mod numbered_xattrs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::attributes::Xattrs;

    #[derive(Serialize, Deserialize)]
    struct One(#[serde(with = "crate::plan::named_values")] Xattrs);

    pub fn serialize<S: Serializer>(map: &BTreeMap<usize, Xattrs>, serializer: S) -> Result<S::Ok, S::Error> {
        map.iter().map(|(n, x)| (n, One(x.clone()))).collect::<Vec<_>>().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<usize, Xattrs>, D::Error> {
        Ok(Vec::<(usize, One)>::deserialize(deserializer)?.into_iter().map(|(n, x)| (n, x.0)).collect())
    }
}
