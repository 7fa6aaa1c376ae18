//! A sandbox on its way from one stack of layers to another.
//!
//! ```text
//! transient/shift-<sandbox>    a note: the layer that its head becomes
//! ```
//!
//! The head becomes a layer by a rename, and whether that has happened is decided by the records. As long as the note exists it
//! is not: whoever finds it without an owner asks the records and goes forward or back.
//!
//! A power cut leaves a moment of the past, and not of all things the same one. So that something always leads to the data, the
//! note is on the disk before the rename, the rename before the record, and the record before the note goes. What the note and
//! the layer say about themselves is in extended attributes: those are part of the journal, like names, and the bytes of a file
//! are not.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, RenameFlags, XattrFlags, flock, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use whatif_sys::absence::{self, OrAbsent};
use whatif_types::{LayerId, SandboxId};

use crate::state_dir::{NOTE, NOTE_ATTRIBUTE, SHIFT, SandboxLock, StateDir, make_private};
use crate::{PathError, copy, durable, on, parts, remove};

/// Directories made beforehand, in a sandbox's directory: one for a head, and in it one for each tree, and those for work.
pub const SPARE_HEAD: &str = "spare-head";
pub const SPARE_WORK: &str = "spare-work";
/// How the name of a tree's head begins while it is being made for a sandbox that was there before.
pub const UNFINISHED_HEAD: &str = "new-";

/// Where a layer says what it is.
const LAYER_ATTRIBUTE: &str = "user.whatif.layer";
/// Longer than any note.
const LONGEST: usize = 1024;

/// What a layer says about itself, so that it can be found by who has lost the records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerOrigin {
    /// Whose head it was.
    pub sandbox: Option<SandboxId>,
    /// The layer beneath it in the stack it was made on.
    pub below: Option<LayerId>,
}

impl LayerOrigin {
    /// Marks a directory that becomes a layer. Only a help after a loss: a file system without attributes goes without.
    pub fn mark(&self, directory: &Path) {
        if let Ok(text) = serde_json::to_vec(self) {
            let _ = rustix::fs::setxattr(directory, LAYER_ATTRIBUTE, &text, XattrFlags::empty());
        }
    }

    /// What a layer says; nothing if an earlier version made it.
    pub fn of(layer: &Path) -> Result<Option<Self>, PathError> {
        let text = attribute(layer, LAYER_ATTRIBUTE).map_err(on("read the mark of", layer))?;
        text.map(|text| serde_json::from_slice(&text).map_err(io::Error::from)).transpose().map_err(on("understand", layer))
    }
}

/// The value of an attribute that may not be there.
pub(crate) fn attribute(path: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; LONGEST];
    match rustix::fs::getxattr(path, name, &mut value[..]) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// What takes the place of a head that becomes a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHead {
    /// Without trees: they are made when the sandbox starts, with the attributes of what shows through them then.
    Bare,
    /// With trees that were made beforehand, if there are any. The caller gives their roots the attributes they must have.
    Laid,
}

/// What the note says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Note {
    pub sandbox: SandboxId,
    /// What the head becomes, if there is anything in it.
    pub layer: Option<LayerId>,
    /// Not the head itself but a copy of it.
    #[serde(default)]
    pub is_copy: bool,
    /// The layer that the head lies on.
    #[serde(default)]
    pub below: Option<LayerId>,
}

/// A shift under way, owned by this process.
#[derive(Debug)]
pub struct Shift {
    path: PathBuf,
    sandbox: PathBuf,
    layer: Option<PathBuf>,
    note: Note,
    /// As long as it is held, nobody takes this for what a crash left.
    lock: SandboxLock,
}

impl Shift {
    /// Announces it. From here on a crash is noticed by the next command.
    pub fn begin(state: &StateDir, sandbox: &Path, note: Note) -> Result<Self, PathError> {
        let (path, lock) = state.begin_shift(&note.sandbox, &text(&note))?;
        let layer = note.layer.as_ref().map(|l| state.layer_path(l));
        if layer.is_some() {
            state.make_layers()?;
        }
        Ok(Self { path, sandbox: sandbox.to_owned(), layer, note, lock })
    }

    /// Takes over one that a crash left. `None`: its owner is at work, or nothing is left to do.
    pub fn inherit(state: &StateDir, path: &Path) -> Result<Option<Self>, PathError> {
        let Some(lock) = SandboxLock::take(path)? else { return Ok(None) };
        let note = read_note(path)?;
        let layer = note.layer.as_ref().map(|l| state.layer_path(l));
        let Some(sandbox) = state.find(&note.sandbox)? else { return Ok(None) };
        Ok(Some(Self { path: path.to_owned(), sandbox, layer, note, lock }))
    }

    /// Removes the note of a sandbox that is gone. A layer of it may be all that is left; then the note stays.
    pub fn forget_if_gone(state: &StateDir, path: &Path) -> Result<(), PathError> {
        let Some(_lock) = SandboxLock::take(path)? else { return Ok(()) };
        let note = read_note(path)?;
        let is_needed = state.find(&note.sandbox)?.is_some() || note.layer.is_some_and(|l| is_there(&state.layer_path(&l)));
        if is_needed { Ok(()) } else { fs::remove_file(path).map_err(on("remove", path)) }
    }

    #[must_use]
    pub fn note(&self) -> &Note {
        &self.note
    }

    /// The head becomes a layer, with what its files started from, and there is an empty one in its place.
    pub fn freeze(&self, next: NextHead) -> Result<(), PathError> {
        let (head, base) = (self.sandbox.join("head"), self.sandbox.join("base"));
        let Some(layer) = &self.layer else {
            return if next == NextHead::Bare { strip(&head) } else { Ok(()) };
        };
        // Whoever writes to it finishes first, and whoever comes later looks again where it is.
        let index = base.join("index");
        let written = fs::File::open(&index).or_absent().map_err(on("open", &index))?;
        if let Some(written) = &written {
            flock(written, FlockOperation::LockExclusive).map_err(on("lock", &index))?;
        }
        rename_if_there(&base, &head.join("base"))?;
        self.origin().mark(&head);
        parts::seal(&head)?;
        fs::rename(&head, layer).map_err(on("freeze", &head))?;
        if next == NextHead::Laid && fs::rename(self.sandbox.join(SPARE_HEAD), &head).is_ok() {
            return Ok(());
        }
        make_private(&head)
    }

    /// What `freeze` did is on the disk: from here on a record may speak of the layer.
    pub fn flush(&self) -> Result<(), PathError> {
        match self.layer.as_deref() {
            Some(layer) if self.note.is_copy => {
                durable::tree(layer)?;
                durable::names_in(layer.parent().unwrap_or(layer))
            }
            Some(layer) => durable::names_in(layer.parent().unwrap_or(layer)),
            None => Ok(()),
        }
    }

    fn origin(&self) -> LayerOrigin {
        LayerOrigin { sandbox: Some(self.note.sandbox.clone()), below: self.note.below.clone() }
    }

    /// A copy of the head becomes a layer; the head stays. `copy_bases` copies what its files started from, which somebody who looks
    /// at the sandbox may write meanwhile.
    pub fn freeze_copy(&mut self, copy_bases: impl FnOnce(&Path, &Path) -> io::Result<()>) -> Result<(), PathError> {
        let Some(layer) = &self.layer else { return Ok(()) };
        self.note.is_copy = true;
        // Locked before it takes the place of the other one: without an owner it would be taken for what a crash left.
        let new = self.sandbox.join("shift.new");
        let lock = SandboxLock::on_new_file(&new, &text(&self.note))?;
        fs::rename(&new, &self.path).map_err(on("write", &self.path))?;
        self.lock = lock;
        make_private(layer)?;
        self.origin().mark(layer);
        for from in children(&self.sandbox.join("head"))? {
            // Inventories of copied trees come along with their trees.
            if !absence::is_dir(&from).map_err(on("examine", &from))? {
                continue;
            }
            let to = layer.join(from.file_name().unwrap_or(from.as_os_str()));
            make_private(&to)?;
            if let Some(copied) = copy::copied_layer(&from, &to)? {
                copied.write(&to)?;
            }
        }
        let base = self.sandbox.join("base");
        copy_bases(&base, &layer.join("base")).map_err(on("copy", &base))?;
        parts::seal(layer)
    }

    /// What the records say did not happen is taken back. Somebody may have looked at the sandbox meanwhile and kept what its files
    /// started from: `join` makes one directory of what both say, oldest first.
    pub fn go_back(self, join: impl FnOnce(&[&Path], &Path) -> io::Result<()>) -> Result<(), PathError> {
        if let Some(layer) = self.layer.as_ref().filter(|l| is_there(l)) {
            let head = self.sandbox.join("head");
            if self.note.is_copy {
                remove::tree(layer)?;
            } else {
                // Nobody could write to the new head before the record was on the disk. If something is in it all the same, the
                // record was lost, and this is not ours to decide.
                if holds_work(&head)? {
                    return Err(on("take back", layer)(io::Error::other(format!(
                        "there is work in {} as well; the records that joined the two are lost",
                        head.display()
                    ))));
                }
                remove::tree(&head)?;
                fs::rename(layer, &head).map_err(on("take back", layer))?;
            }
        }
        self.return_bases(join)?;
        self.end()
    }

    fn return_bases(&self, join: impl FnOnce(&[&Path], &Path) -> io::Result<()>) -> Result<(), PathError> {
        let (frozen, base, joined) = (self.sandbox.join("head/base"), self.sandbox.join("base"), self.sandbox.join("base.joined"));
        match fs::rename(&frozen, &base) {
            Err(error) if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => return other.map_err(on("move", &frozen)),
        }
        remove::tree(&joined)?;
        let index = base.join("index");
        let written = fs::File::open(&index).or_absent().map_err(on("open", &index))?;
        if let Some(written) = &written {
            flock(written, FlockOperation::LockExclusive).map_err(on("lock", &index))?;
        }
        join(&[&frozen, &base], &joined).map_err(on("join", &frozen))?;
        if !is_there(&joined) {
            remove::tree(&base)?;
            return fs::rename(&frozen, &base).map_err(on("move", &frozen));
        }
        // What it is made of goes only when it is on the disk. Done again after a crash, it comes to the same.
        durable::tree(&joined)?;
        renameat_with(CWD, &joined, CWD, &base, RenameFlags::EXCHANGE).map_err(on("exchange", &base))?;
        durable::names_in(&self.sandbox)?;
        remove::tree(&joined)?;
        remove::tree(&frozen)
    }

    /// It has happened; whatever is missing is made.
    pub fn go_on(self) -> Result<(), PathError> {
        make_private(&self.sandbox.join("head"))?;
        self.end()
    }

    /// It has happened, and another process sees to what is left. Nobody takes it for what a crash left before that one has ended.
    pub fn hand_over(self) -> Result<Unfinished, PathError> {
        let open = |path: &Path| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty()).map_err(on("open", path))
        };
        let transient = self.path.parent().unwrap_or(&self.path);
        Ok(Unfinished { transient: open(transient)?, sandbox: open(&self.sandbox)?, lock: self.lock.directory.into() })
    }

    /// Nothing is left to decide.
    pub fn end(self) -> Result<(), PathError> {
        let moved = fs::rename(&self.path, self.sandbox.join(NOTE)).map_err(on("remove", &self.path));
        drop(self.lock);
        moved
    }
}

/// A shift that has happened, in the hands of whoever finishes it. Paths mean nothing there.
#[derive(Debug)]
pub struct Unfinished {
    transient: OwnedFd,
    sandbox: OwnedFd,
    lock: OwnedFd,
}

impl Unfinished {
    #[must_use]
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        [self.transient.as_fd(), self.sandbox.as_fd(), self.lock.as_fd()]
    }

    #[must_use]
    pub fn from_descriptors([transient, sandbox, lock]: [OwnedFd; 3]) -> Self {
        Self { transient, sandbox, lock }
    }

    /// Nothing is left to do.
    pub fn end(self, sandbox: &SandboxId) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.transient, format!("{SHIFT}{sandbox}"), &self.sandbox, NOTE)?)
    }
}

/// What a shift under way says about itself. One that cannot be read may speak of any layer.
pub fn read_note(path: &Path) -> Result<Note, PathError> {
    let text = match attribute(path, NOTE_ATTRIBUTE).map_err(on("read", path))? {
        Some(text) => text,
        // Of an earlier version, or on a file system without attributes.
        None => fs::read(path).map_err(on("read", path))?,
    };
    serde_json::from_slice(&text).map_err(io::Error::from).map_err(on("understand", path))
}

/// Whether a sandbox wrote anything into a head. What was only copied there is older than the inventory next to it, or still has the
/// name of what is unfinished.
fn holds_work(head: &Path) -> Result<bool, PathError> {
    if !is_there(head) {
        return Ok(false);
    }
    for root in children(head)? {
        let is_directory = fs::symlink_metadata(&root).map_err(on("examine", &root))?.is_dir();
        if !is_directory || is_unfinished(&root) {
            continue;
        }
        let is_work = match copy::is_written(&root)? {
            Some(is_written) => is_written,
            None => !children(&root)?.is_empty(),
        };
        if is_work {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_unfinished(root: &Path) -> bool {
    root.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(UNFINISHED_HEAD.as_bytes()))
}

/// What cannot be looked at is there.
fn is_there(path: &Path) -> bool {
    !matches!(fs::symlink_metadata(path), Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
}

fn text(note: &Note) -> Vec<u8> {
    serde_json::to_vec(note).unwrap_or_default()
}

fn children(directory: &Path) -> Result<Vec<PathBuf>, PathError> {
    let entries = fs::read_dir(directory).map_err(on("list", directory))?;
    entries.map(|entry| entry.map(|e| e.path()).map_err(on("list", directory))).collect()
}

/// Removes the roots of trees that hold nothing: they have the attributes of a stack that the sandbox leaves.
fn strip(head: &Path) -> Result<(), PathError> {
    for root in children(head)? {
        if is_unfinished(&root) {
            remove::tree(&root)?;
            continue;
        }
        match fs::remove_dir(&root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other.map_err(on("remove", &root))?,
        }
    }
    Ok(())
}

fn rename_if_there(from: &Path, to: &Path) -> Result<(), PathError> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(on("move", from)),
    }
}
