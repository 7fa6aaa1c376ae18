//! What shall be changed, and what must be there for it: pure data.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use whatif_types::text;

use crate::approved::Approved;
use crate::unmanaged::Unmanaged;

/// Seconds and nanoseconds since 1970.
pub type Time = (i64, u32);

/// Changes that are made together or not at all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Absolute and without links. Every path of an operation is relative to one of them; nothing leads out of it through a link
    /// or across a mount.
    #[serde(with = "text::paths")]
    pub roots: Vec<PathBuf>,
    /// In any order.
    pub operations: Vec<Operation>,
    /// The caller's own; kept with the journal and handed back.
    pub about: serde_json::Value,
}

/// One path and what becomes of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Index into [`Plan::roots`].
    pub root: usize,
    /// Normal components only. Empty means the root itself, which only [`Change::Set`] may touch.
    #[serde(with = "text::path")]
    pub path: PathBuf,
    pub expected: Expected,
    pub change: Change,
}

/// What must be at the path now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    Absent,
    Present(Identity),
    /// A further name of a file that stays under its first one. So it is not kept when it goes, and made again when it comes back.
    FurtherName(Box<FurtherName>),
}

/// What is at a path that is one of several of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FurtherName {
    pub identity: Identity,
    pub of: Existing,
}

impl Expected {
    #[must_use]
    pub fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Absent => None,
            Self::Present(identity) => Some(identity),
            Self::FurtherName(name) => Some(&name.identity),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    File,
    Directory,
    Link,
    /// A pipe, socket or device.
    Other,
}

/// What `lstat` says about an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub kind: Kind,
    pub dev: u64,
    pub ino: u64,
    pub size: u64,
    pub mtime: Time,
    /// `(0, 0)` if it is not known or shall not count: a rename changes it, also one of an apply that was put back.
    pub ctime: Time,
    /// Permission bits only, `07777`.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A file, link or directory shall be here. It replaces an entry of any type; a directory that is replaced must be emptied by
    /// removals of the same plan. A directory over a directory keeps it and gives it the attributes, as `Set` does.
    Put { source: Source, attributes: Attributes },
    /// The file or link goes; a directory goes if removals of the same plan empty it.
    Remove,
    /// In place: the mode of a file with a single link, or any attributes of a directory.
    Set { attributes: Attributes },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Copied: blocks are shared where the file system can, holes stay holes.
    File(#[serde(with = "text::path")] PathBuf),
    /// The same of a file in a sandbox, which must be what was looked at.
    Approved(Box<Approved>),
    /// Not kept in the journal.
    Bytes(Vec<u8>),
    /// Where the link shall lead.
    Link(#[serde(with = "os")] OsString),
    Directory,
    /// The same inode as what that operation of the plan puts.
    HardLink(usize),
    /// The same inode as what is at another path, which the plan leaves alone. Where the file system refuses a further name, a copy
    /// with the attributes of the operation.
    Existing(Box<Existing>),
    /// A backup of an earlier apply. It is moved back where that is possible, so that the inode is the same again, and copied
    /// with all its attributes where not; the attributes of the operation are not looked at.
    Original(#[serde(with = "text::path")] PathBuf),
}

/// A file that gets a further name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Existing {
    /// Index into [`Plan::roots`].
    pub root: usize,
    #[serde(with = "text::path")]
    pub path: PathBuf,
    /// What must be there until the further name is made.
    pub identity: Identity,
}

/// What an entry shall have besides its content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// `07777`; not used for links.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// `None` leaves it to nature.
    pub mtime: Option<Time>,
    /// The whole set that is wanted of `user.*`, `system.posix_acl_*` and `security.capability`. Others are left alone.
    #[serde(with = "named_values")]
    pub xattrs: Vec<(OsString, Vec<u8>)>,
    /// Of a directory that is there: the same set as it must be now. A change time says nothing about it, because it also moves with
    /// every name in the directory. `None` if it does not matter.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_named_values")]
    pub xattrs_now: Option<Vec<(OsString, Vec<u8>)>>,
    /// Of a directory that comes back: what else it had. `None` if that was nothing, or is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmanaged: Option<Unmanaged>,
}

impl Identity {
    /// Of the entry at `path`, which is not followed.
    pub fn of(path: &Path) -> io::Result<Self> {
        path.symlink_metadata().map(|metadata| Self::from_metadata(&metadata))
    }

    /// Of an entry as `symlink_metadata` describes it.
    #[must_use]
    pub fn from_metadata(metadata: &Metadata) -> Self {
        let kind = match metadata.file_type() {
            t if t.is_file() => Kind::File,
            t if t.is_dir() => Kind::Directory,
            t if t.is_symlink() => Kind::Link,
            _ => Kind::Other,
        };
        let time = |seconds, nanoseconds| (seconds, u32::try_from(nanoseconds).unwrap_or(0));
        Self {
            kind,
            dev: metadata.dev(),
            ino: metadata.ino(),
            size: metadata.size(),
            mtime: time(metadata.mtime(), metadata.mtime_nsec()),
            ctime: time(metadata.ctime(), metadata.ctime_nsec()),
            mode: metadata.mode() & 0o7777,
            uid: metadata.uid(),
            gid: metadata.gid(),
            nlink: metadata.nlink(),
        }
    }

    /// What differs, if anything, in words that follow the path. Of a directory only itself counts, not what is in it.
    #[must_use]
    pub fn difference(&self, now: &Self) -> Option<&'static str> {
        if self.dev != now.dev {
            return Some("is another file now");
        }
        let touched = self.kind != Kind::Directory && self.ctime != (0, 0) && self.ctime != now.ctime;
        self.changed(now).or_else(|| touched.then_some("was touched: its change time differs"))
    }

    /// Like `difference`, but without what a rename or a reboot changes by itself: times of change, links, device numbers.
    #[must_use]
    pub(crate) fn changed(&self, now: &Self) -> Option<&'static str> {
        if self.kind != now.kind {
            return Some(match now.kind {
                Kind::File => "is a file now",
                Kind::Directory => "is a directory now",
                Kind::Link => "is a link now",
                Kind::Other => "is a pipe, socket or device now",
            });
        }
        if self.ino != now.ino {
            return Some("was replaced by another file");
        }
        if (self.uid, self.gid) != (now.uid, now.gid) {
            return Some("has another owner now");
        }
        if self.kind != Kind::Link && self.mode != now.mode {
            return Some("has another mode now");
        }
        (self.kind != Kind::Directory && (self.size, self.mtime) != (now.size, now.mtime)).then_some("was modified")
    }

    /// Like `changed`, for something that was staged. A directory that its owner may not write to is opened while it is moved.
    #[must_use]
    pub(crate) fn changed_since_staged(&self, now: &Self) -> Option<&'static str> {
        let opened = self.kind == Kind::Directory && now.mode == self.mode | 0o200;
        if opened { self.changed(&Self { mode: self.mode, ..now.clone() }) } else { self.changed(now) }
    }

    /// The same entry, whatever happened to it. Inode numbers are reused, so this alone never allows a deletion.
    #[must_use]
    pub(crate) fn same_inode(&self, now: &Self) -> bool {
        (self.kind, self.ino) == (now.kind, now.ino)
    }

    /// The attributes that `lstat` shows, with these extended ones.
    #[must_use]
    pub fn attributes(&self, xattrs: Vec<(OsString, Vec<u8>)>) -> Attributes {
        Attributes {
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            mtime: Some(self.mtime),
            xattrs,
            xattrs_now: None,
            unmanaged: None,
        }
    }
}

impl Operation {
    /// The path in reality.
    #[must_use]
    pub fn absolute(&self, roots: &[PathBuf]) -> PathBuf {
        let root = roots.get(self.root).map_or(Path::new("/"), PathBuf::as_path);
        if self.path.as_os_str().is_empty() { root.to_owned() } else { root.join(&self.path) }
    }

    pub(crate) fn before(&self) -> Option<&Identity> {
        self.expected.identity()
    }

    pub(crate) fn before_kind(&self) -> Option<Kind> {
        self.before().map(|i| i.kind)
    }

    pub(crate) fn source(&self) -> Option<&Source> {
        match &self.change {
            Change::Put { source, .. } => Some(source),
            _ => None,
        }
    }

    /// The file that stays when what is at the path goes.
    pub(crate) fn stays_as(&self) -> Option<&Existing> {
        match &self.expected {
            Expected::FurtherName(name) => Some(&name.of),
            _ => None,
        }
    }

    /// What is there already and only gets a further name.
    pub(crate) fn existing(&self) -> Option<&Existing> {
        match self.source() {
            Some(Source::Existing(existing)) => Some(existing),
            _ => None,
        }
    }

    pub(crate) fn attributes(&self) -> Option<&Attributes> {
        match &self.change {
            Change::Put { attributes, .. } | Change::Set { attributes } => Some(attributes),
            Change::Remove => None,
        }
    }
}

mod os {
    use std::ffi::OsString;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use whatif_types::text::Text;

    pub fn serialize<S: Serializer>(value: &OsString, serializer: S) -> Result<S::Ok, S::Error> {
        Text::from(value).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OsString, D::Error> {
        Text::deserialize(deserializer).map(|text| text.to_os())
    }
}

pub(crate) mod named_values {
    use std::ffi::OsString;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use whatif_types::text::Text;

    pub fn serialize<S: Serializer>(value: &[(OsString, Vec<u8>)], serializer: S) -> Result<S::Ok, S::Error> {
        value.iter().map(|(name, value)| (Text::from(name), value)).collect::<Vec<_>>().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(OsString, Vec<u8>)>, D::Error> {
        let pairs = Vec::<(Text, Vec<u8>)>::deserialize(deserializer)?;
        Ok(pairs.into_iter().map(|(name, value)| (name.to_os(), value)).collect())
    }
}

mod optional_named_values {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::attributes::Xattrs;

    #[derive(Serialize, Deserialize)]
    struct Values(#[serde(with = "super::named_values")] Xattrs);

    pub fn serialize<S: Serializer>(value: &Option<Xattrs>, serializer: S) -> Result<S::Ok, S::Error> {
        value.clone().map(Values).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Xattrs>, D::Error> {
        Ok(Option::<Values>::deserialize(deserializer)?.map(|values| values.0))
    }
}
