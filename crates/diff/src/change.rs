//! One typed difference between what a sandbox started from and what it made of it.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use whatif_overlay::Format;
use whatif_sys::absence::MeansAbsent;
use whatif_sys::direct;

use crate::attributes::{self, Attributes};
use crate::content;
use crate::links::Linked;
use crate::node::{Kind, Node};
use crate::risk::Flag;
use crate::unreadable::Unreadable;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Add,
    Modify,
    Delete,
    /// A deletion and an addition of much the same content.
    Rename,
    Mode,
    Owner,
    /// Extended attributes, access control lists among them.
    Xattr,
    /// A link that points elsewhere.
    Symlink,
    /// A file became a directory, a link became a file, and the like.
    Type,
    /// A pipe, socket or device. Shown, never applied.
    Special,
}

/// SHA-256 of a file's bytes.
pub type Hash = [u8; 32];

/// One side of a change.
#[derive(Clone, Debug)]
pub struct State {
    pub node: Node,
    /// Where its bytes, its target and its attributes can be read.
    pub at: PathBuf,
    /// Who wrote the layer it lies in.
    marks: Format,
    attributes: OnceCell<Attributes>,
    /// Where a link leads, once that was read.
    target: OnceCell<PathBuf>,
    /// The bytes, if they were read once and for all.
    bytes: Option<Arc<[u8]>>,
    /// What its bytes are from here on, see [`State::seal`].
    sealed: Option<Hash>,
}

impl State {
    #[must_use]
    pub fn new(node: Node, at: PathBuf, marks: Format) -> Self {
        Self { node, at, marks, attributes: OnceCell::new(), target: OnceCell::new(), bytes: None, sealed: None }
    }

    /// What was read from one descriptor: nothing of it is looked up by its path again.
    #[must_use]
    pub fn read_once(node: Node, at: PathBuf, attributes: Attributes, bytes: Vec<u8>) -> Self {
        let attributes = OnceCell::from(attributes);
        Self { attributes, bytes: Some(bytes.into()), ..Self::new(node, at, Format::None) }
    }

    /// The bytes of a file that is not too long for text. Of a sealed one these and no others.
    pub fn bytes(&self) -> io::Result<Cow<'_, [u8]>> {
        let Some(bytes) = &self.bytes else {
            return match (self.sealed, content::read(&self.at)) {
                (None, read) => read.map(Cow::Owned),
                (Some(sealed), Ok(read)) if <Hash>::from(Sha256::digest(&read)) == sealed => Ok(Cow::Owned(read)),
                (Some(_), Err(error)) if error.kind() == io::ErrorKind::FileTooLarge => Err(error),
                (Some(_), _) => Err(Errno::STALE.into()),
            };
        };
        Ok(Cow::Borrowed(bytes))
    }

    /// Reads everything that makes this entry what it is, once, so that whatever is said, decided and done about it is about the same:
    /// bytes, or where a link leads, and attributes. Up to `most` bytes are kept. It must still be as it was found, and stay so for as
    /// long as it is read; otherwise it is unreadable (`ESTALE`).
    pub(crate) fn seal(&mut self, most: u64) -> Result<(), Unreadable> {
        let sealed = match self.node.kind {
            Kind::File => self.seal_file(most),
            Kind::Link => self.target().map(drop).map_err(io::Error::from),
            _ => Ok(()),
        };
        sealed.map_err(|error| match Unreadable::of(&self.at, &error) {
            gone if gone.cause.means_absent() || gone.cause == Errno::LOOP => Unreadable { cause: Errno::STALE, ..gone },
            other => other,
        })
    }

    fn seal_file(&mut self, most: u64) -> io::Result<()> {
        let file = content::open(&self.at)?;
        let attributes = attributes::of_held(&file, self.marks)?;
        let (hash, bytes) = content::hash(&file, most)?;
        let now = Node::at(&file, "")?;
        // A store through a mapping that was made since would have moved the time of change.
        if (now.ino, now.size, now.mtime, now.ctime) != (self.node.ino, self.node.size, self.node.mtime, self.node.ctime) {
            return Err(Errno::STALE.into());
        }
        self.attributes = OnceCell::from(attributes);
        self.sealed = Some(hash);
        self.bytes = bytes.map(Into::into);
        Ok(())
    }

    /// Takes over what another name of the same file was found to be.
    pub(crate) fn seal_like(&mut self, other: &Self) {
        (self.attributes, self.sealed, self.bytes) = (other.attributes.clone(), other.sealed, other.bytes.clone());
    }

    /// SHA-256 of the bytes of a sealed file.
    #[must_use]
    pub fn sealed(&self) -> Option<Hash> {
        self.sealed
    }

    /// SHA-256 of the bytes of a file, sealed or not.
    pub(crate) fn hash(&self) -> io::Result<Hash> {
        match self.sealed {
            Some(hash) => Ok(hash),
            None => Ok(content::hash(&content::open(&self.at)?, 0)?.0),
        }
    }

    /// Whether both are files with the same bytes, or links with the same target. Directories have nothing of the kind.
    pub fn has_same_content(&self, other: &Self) -> Result<bool, Unreadable> {
        match (self.node.kind, other.node.kind) {
            (Kind::File, Kind::File) => has_same_bytes(self, other),
            (Kind::Link, Kind::Link) => Ok(self.target()? == other.target()?),
            (one, two) => Ok(one == two),
        }
    }

    /// Extended attributes, as far as they are carried.
    pub fn attributes(&self) -> Result<&Attributes, Unreadable> {
        if let Some(known) = self.attributes.get() {
            return Ok(known);
        }
        let read = attributes::of(&self.at, self.marks)?;
        Ok(self.attributes.get_or_init(|| read))
    }

    /// Who wrote the layer it lies in.
    #[must_use]
    pub fn marks(&self) -> Format {
        self.marks
    }

    /// For a caller that has read them already.
    pub fn set_attributes(&mut self, attributes: Attributes) {
        self.attributes = OnceCell::from(attributes);
    }

    /// Where a link leads. Read once: whoever judges it and whoever takes it mean the same.
    pub fn target(&self) -> Result<PathBuf, Unreadable> {
        if let Some(known) = self.target.get() {
            return Ok(known.clone());
        }
        let read = match &self.bytes {
            Some(target) => PathBuf::from(OsStr::from_bytes(target)),
            None => {
                let read = direct::hold(&self.at).and_then(|link| rustix::fs::readlinkat(link, "", Vec::new()));
                let read = read.map_err(|errno| Unreadable::new(&self.at, errno))?;
                PathBuf::from(OsStr::from_bytes(read.as_bytes()))
            }
        };
        Ok(self.target.get_or_init(|| read).clone())
    }
}

/// What is known about the state a sandbox started from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// Reality still is what the sandbox started from.
    Reality,
    /// Reality moved on; what the sandbox started from was kept.
    Kept,
    /// Reality moved on before that could be kept.
    Lost,
    /// Reality replaced it under a living sandbox, which may have seen either version.
    Unknown,
}

/// Why a change can never be made real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Blocked {
    /// A pipe, socket or device.
    Special,
    /// Reality has something here that the sandbox was not shown, or was shown only in part.
    Masked,
}

#[derive(Clone, Debug)]
pub struct Change {
    pub path: PathBuf,
    pub kind: ChangeKind,
    /// What the sandbox started from.
    pub before: Option<State>,
    pub after: Option<State>,
    pub base: Base,
    /// What is in reality now.
    pub reality: Option<Node>,
    pub blocked: Option<Blocked>,
    pub flags: Vec<Flag>,
    /// Build output and the like, by the project's own rules.
    pub ignored: bool,
    /// Outside the project.
    pub outside: bool,
    /// Of a rename: what happened at the old path.
    pub deletion: Option<Box<Change>>,
    /// Of a rename, in per cent.
    pub similarity: Option<u8>,
    /// Where the sandbox has what it took away from here, if that is not a rename.
    pub moved_to: Vec<PathBuf>,
    /// What it is a hard link to.
    pub linked: Option<Linked>,
    /// Reality has other names of the file, and they would not follow the change.
    pub leaves_names_behind: bool,
    /// An apply has made some of it real before.
    pub was_applied: bool,
}

impl Change {
    /// Whether it takes an approval of its own to apply it, by the flags that were looked for.
    #[must_use]
    pub fn needs_approval(&self) -> bool {
        self.flags.iter().any(|flag| flag.needs_approval())
    }

    /// A change of which nothing more is known yet.
    #[must_use]
    pub fn new(path: PathBuf, kind: ChangeKind, before: Option<State>, after: Option<State>) -> Self {
        Self {
            path,
            kind,
            before,
            after,
            base: Base::Reality,
            reality: None,
            blocked: None,
            flags: Vec::new(),
            ignored: false,
            outside: false,
            deletion: None,
            similarity: None,
            moved_to: Vec::new(),
            linked: None,
            leaves_names_behind: false,
            was_applied: false,
        }
    }

    /// The side to look at: what is there now, or what was.
    #[must_use]
    pub fn shown(&self) -> Option<&State> {
        self.after.as_ref().or(self.before.as_ref())
    }

    #[must_use]
    pub fn shown_kind(&self) -> Kind {
        self.shown().map_or(Kind::File, |s| s.node.kind)
    }

    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.shown_kind() == Kind::Directory
    }

    /// Where a renamed file was.
    #[must_use]
    pub fn old_path(&self) -> Option<&Path> {
        self.deletion.as_ref().map(|d| d.path.as_path())
    }

    /// Of a rename: what happened at the new path, without the old one.
    #[must_use]
    pub fn addition(&self) -> Self {
        Self { kind: ChangeKind::Add, before: None, deletion: None, similarity: None, ..self.clone() }
    }

    /// Of a rename: whether it is one for sure. Bytes and time are what they were.
    #[must_use]
    pub fn is_move(&self) -> bool {
        let time = |state: &Option<State>| state.as_ref().map(|s| s.node.mtime);
        self.similarity == Some(100) && time(&self.before) == time(&self.after)
    }

    /// A directory that the sandbox renamed, while reality lost the one it was: nobody knows any more what came along with it.
    #[must_use]
    pub fn has_lost_its_source(&self) -> bool {
        self.is_directory() && self.deletion.is_some()
    }

    /// A name that stays the same as long as the path does.
    #[must_use]
    pub fn id(&self) -> String {
        crate::digest::short(self.path.as_os_str())
    }

    /// Reality changed here since the sandbox started from it. For a rename: at either of its paths.
    #[must_use]
    pub fn has_drifted(&self) -> bool {
        self.base != Base::Reality
    }

    /// Where reality moved: of a rename the deletion, the addition or both, of anything else the change itself.
    pub fn drifted_parts(&self) -> impl Iterator<Item = &Self> {
        let moved_here = self.has_drifted() && (self.deletion.is_none() || self.reality.is_some());
        let moved_there = self.deletion.as_deref().filter(|deletion| deletion.has_drifted());
        [moved_there, moved_here.then_some(self)].into_iter().flatten()
    }
}

/// How two states of one path differ; `None` if they do not. Times alone are no difference: overlayfs copies a file up for many
/// reasons, and the bytes are compared because a time can be put back.
pub fn difference(before: Option<&State>, after: Option<&State>, owners_matter: bool) -> Result<Option<ChangeKind>, Unreadable> {
    let (before, after) = match (before, after) {
        (None, None) => return Ok(None),
        (None, Some(after)) => {
            return Ok(Some(if after.node.kind.is_special() { ChangeKind::Special } else { ChangeKind::Add }));
        }
        (Some(_), None) => return Ok(Some(ChangeKind::Delete)),
        (Some(before), Some(after)) => (before, after),
    };
    if before.node.kind != after.node.kind {
        return Ok(Some(if after.node.kind.is_special() { ChangeKind::Special } else { ChangeKind::Type }));
    }
    match after.node.kind {
        Kind::File if !has_same_bytes(before, after)? => return Ok(Some(ChangeKind::Modify)),
        Kind::Link if before.target()? != after.target()? => return Ok(Some(ChangeKind::Symlink)),
        _ => {}
    }
    if after.node.kind != Kind::Link && before.node.mode != after.node.mode {
        return Ok(Some(ChangeKind::Mode));
    }
    if owners_matter && (before.node.uid, before.node.gid) != (after.node.uid, after.node.gid) {
        return Ok(Some(ChangeKind::Owner));
    }
    Ok((before.attributes()? != after.attributes()?).then_some(ChangeKind::Xattr))
}

fn has_same_bytes(before: &State, after: &State) -> Result<bool, Unreadable> {
    if before.node.size != after.node.size {
        return Ok(false);
    }
    let were_read = before.bytes.is_some() || after.bytes.is_some();
    if before.node.size == 0 || (before.at == after.at && !were_read) {
        return Ok(true);
    }
    let compared = || match were_read {
        true => Ok(before.bytes()? == after.bytes()?),
        false => content::is_same(&before.at, &after.at, after.node.size),
    };
    compared().map_err(|error| Unreadable::of(&after.at, &error))
}

/// `path` as people see it: relative to the project where it lies in it.
#[must_use]
pub fn shown_path<'a>(path: &'a Path, project: &Path) -> &'a Path {
    match path.strip_prefix(project) {
        Ok(relative) if !relative.as_os_str().is_empty() => relative,
        Ok(_) => Path::new("."),
        Err(_) => path,
    }
}
