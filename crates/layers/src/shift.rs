//! A sandbox on its way from one stack of layers to another.
//!
//! ```text
//! transient/shift-<sandbox>    a note: the layer that its head becomes
//! ```
//!
//! The head becomes a layer by a rename, and whether that has happened is decided by the records. As long as the note exists it
//! is not: whoever finds it without an owner asks the records and goes forward or back.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use serde::{Deserialize, Serialize};
use whatif_types::{LayerId, SandboxId};

use crate::state_dir::{NOTE, SHIFT, SandboxLock, StateDir, make_private};
use crate::{PathError, copy, on, remove};

/// Directories made beforehand, in a sandbox's directory: one for a head, and in it one for each tree, and those for work.
pub const SPARE_HEAD: &str = "spare-head";
pub const SPARE_WORK: &str = "spare-work";
/// How the name of a tree's head begins while it is being made for a sandbox that was there before.
pub const UNFINISHED_HEAD: &str = "new-";

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
        let Some(note) = note_in(path) else {
            return Err(on("understand", path)(io::Error::from(io::ErrorKind::InvalidData)));
        };
        let Some(sandbox) = state.find(&note.sandbox) else {
            fs::remove_file(path).map_err(on("remove", path))?;
            return Ok(None);
        };
        let layer = note.layer.as_ref().map(|l| state.layer_path(l));
        Ok(Some(Self { path: path.to_owned(), sandbox, layer, note, lock }))
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
        let _written = fs::File::open(base.join("index")).ok().filter(|index| flock(index, FlockOperation::LockExclusive).is_ok());
        rename_if_there(&base, &head.join("base"))?;
        fs::rename(&head, layer).map_err(on("freeze", &head))?;
        if next == NextHead::Laid && fs::rename(self.sandbox.join(SPARE_HEAD), &head).is_ok() {
            return Ok(());
        }
        make_private(&head)
    }

    /// A copy of the head becomes a layer; the head stays.
    pub fn freeze_copy(&mut self) -> Result<(), PathError> {
        let Some(layer) = &self.layer else { return Ok(()) };
        self.note.is_copy = true;
        // Locked before it takes the place of the other one: without an owner it would be taken for what a crash left.
        let new = self.sandbox.join("shift.new");
        let lock = SandboxLock::on_new_file(&new, &text(&self.note))?;
        fs::rename(&new, &self.path).map_err(on("write", &self.path))?;
        self.lock = lock;
        make_private(layer)?;
        for part in ["head", "base"] {
            let from = self.sandbox.join(part);
            let parts = if part == "head" { children(&from)? } else { vec![from].into_iter().filter(|b| b.is_dir()).collect() };
            for from in parts {
                let to = layer.join(from.file_name().unwrap_or(from.as_os_str()));
                make_private(&to)?;
                copy::layer(&from, &to)?;
            }
        }
        Ok(())
    }

    /// What the records say did not happen is taken back.
    pub fn go_back(self) -> Result<(), PathError> {
        if let Some(layer) = self.layer.as_ref().filter(|l| l.is_dir()) {
            let head = self.sandbox.join("head");
            if self.note.is_copy {
                remove::tree(layer)?;
            } else {
                remove::tree(&head)?;
                fs::rename(layer, &head).map_err(on("take back", layer))?;
            }
        }
        rename_if_there(&self.sandbox.join("head").join("base"), &self.sandbox.join("base"))?;
        self.end()
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

/// What a shift under way says about itself.
#[must_use]
pub fn note_in(path: &Path) -> Option<Note> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
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
        if root.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(UNFINISHED_HEAD.as_bytes())) {
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
