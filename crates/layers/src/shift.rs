//! A sandbox on its way from one stack of layers to another.
//!
//! ```text
//! transient/shift-<sandbox>/shift.json   the layer that its head becomes
//! transient/shift-<sandbox>/layer/       a copy of the head, when it cannot be taken away from whoever writes to it
//! ```
//!
//! The head becomes a layer by a rename, and whether that has happened is decided by the records. As long as this directory
//! exists it is not: whoever finds it without an owner asks the records and goes forward or back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use whatif_types::{LayerId, SandboxId};

use crate::state_dir::{SandboxLock, StateDir, make_private};
use crate::{PathError, copy, on, remove};

const NOTE: &str = "shift.json";
const COPY: &str = "layer";

/// What `shift.json` says.
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
    directory: PathBuf,
    sandbox: PathBuf,
    layer: Option<PathBuf>,
    note: Note,
    _lock: SandboxLock,
}

impl Shift {
    /// Announces it. From here on a crash is noticed by the next command.
    pub fn begin(state: &StateDir, sandbox: &Path, note: Note) -> Result<Self, PathError> {
        let (directory, lock) = state.begin_shift(&note.sandbox, |directory| write(directory, &note))?;
        let layer = note.layer.as_ref().map(|l| state.layer_path(l));
        if layer.is_some() {
            make_private(&state.layers())?;
        }
        Ok(Self { directory, sandbox: sandbox.to_owned(), layer, note, _lock: lock })
    }

    /// Takes over one that a crash left. `None`: its owner is at work.
    pub fn inherit(state: &StateDir, directory: &Path) -> Result<Option<Self>, PathError> {
        let Some(lock) = SandboxLock::take(directory)? else { return Ok(None) };
        let path = directory.join(NOTE);
        let note: Note = match fs::read(&path).map(|bytes| serde_json::from_slice(&bytes)) {
            Ok(Ok(note)) => note,
            // Nothing had begun.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                remove::tree(directory)?;
                return Ok(None);
            }
            Ok(Err(error)) => return Err(on("understand", &path)(io::Error::from(error))),
            Err(error) => return Err(on("read", &path)(error)),
        };
        let Some(sandbox) = state.find(&note.sandbox) else {
            remove::tree(directory)?;
            return Ok(None);
        };
        let layer = note.layer.as_ref().map(|l| state.layer_path(l));
        Ok(Some(Self { directory: directory.to_owned(), sandbox, layer, note, _lock: lock }))
    }

    #[must_use]
    pub fn note(&self) -> &Note {
        &self.note
    }

    /// The layer that the head becomes, if any.
    #[must_use]
    pub fn layer(&self) -> Option<&Path> {
        self.layer.as_deref()
    }

    /// The head becomes a layer, with what its files started from, and there is an empty one in its place.
    pub fn freeze(&self) -> Result<(), PathError> {
        let Some(layer) = &self.layer else { return Ok(()) };
        let (head, base) = (self.sandbox.join("head"), self.sandbox.join("base"));
        rename_if_there(&base, &head.join("base"))?;
        fs::rename(&head, layer).map_err(on("freeze", &head))?;
        make_private(&head)
    }

    /// A copy of the head becomes a layer; the head stays.
    pub fn freeze_copy(&mut self) -> Result<(), PathError> {
        let Some(layer) = &self.layer else { return Ok(()) };
        self.note.is_copy = true;
        write(&self.directory, &self.note)?;
        let copy = self.directory.join(COPY);
        make_private(&copy)?;
        let head = self.sandbox.join("head");
        for entry in fs::read_dir(&head).map_err(on("list", &head))? {
            let entry = entry.map_err(on("list", &head))?;
            let to = copy.join(entry.file_name());
            make_private(&to)?;
            copy::layer(&entry.path(), &to)?;
        }
        let base = self.sandbox.join("base");
        if base.is_dir() {
            let to = copy.join("base");
            make_private(&to)?;
            copy::layer(&base, &to)?;
        }
        fs::rename(&copy, layer).map_err(on("keep", layer))
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

    /// Nothing is left to decide.
    pub fn end(self) -> Result<(), PathError> {
        remove::tree(&self.directory)
    }
}

/// What a shift under way says about itself.
#[must_use]
pub fn note_in(directory: &Path) -> Option<Note> {
    serde_json::from_slice(&fs::read(directory.join(NOTE)).ok()?).ok()
}

/// Replaced at once: a torn note would say nothing.
fn write(directory: &Path, note: &Note) -> Result<(), PathError> {
    let (new, path) = (directory.join("shift.new"), directory.join(NOTE));
    let text = serde_json::to_vec(note).map_err(io::Error::from).map_err(on("write", &path))?;
    fs::write(&new, text).and_then(|()| fs::rename(&new, &path)).map_err(on("write", &path))
}

fn rename_if_there(from: &Path, to: &Path) -> Result<(), PathError> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(on("move", from)),
    }
}
