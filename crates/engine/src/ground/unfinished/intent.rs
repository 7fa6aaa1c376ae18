//! What a version starts from that a rebase is about to put into the head. A rebase that is cut short before it wrote that down
//! would leave a version with reality's changes in it as the sandbox's own: should reality take them back, an apply would bring them
//! again.
//!
//! ```text
//! rebase.new    the version, until it is moved to its place; in work/ if the head is a project
//! rebase.looks  instead of it: the attributes that a directory is getting, until it is written down what it starts from
//! rebase.base/  what the sandbox starts from once that is done; `copied-<tree>` in it: what a copied tree will be made from
//! ```
//!
//! Each is on the disk before the next one is written, and `rebase.base/` before anything that it speaks of changes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use whatif_diff::base::{self, NewBase};
use whatif_diff::{Bases, Node, State};
use whatif_layers::allotment::beside_head;
use whatif_layers::state_dir::SandboxLock;
use whatif_layers::{PathError, copy, durable, remove};
use whatif_overlay::Format;
use whatif_sys::absence::{self, OrAbsent};
use whatif_types::{Sandbox, copied, text};

use crate::ground::Ground;
use crate::ground::changed::marks_of;
use crate::merge::{Looks, give};
use crate::trees::tree_of;
use crate::{EngineError, private_file};

/// In a sandbox's directory.
pub(crate) fn new_version(directory: &Path) -> Result<PathBuf, PathError> {
    Ok(beside_head(directory)?.join("rebase.new"))
}

fn intended(directory: &Path) -> PathBuf {
    directory.join("rebase.base")
}

fn new_looks(directory: &Path) -> PathBuf {
    directory.join("rebase.looks")
}

/// A directory that is getting other attributes. That takes several calls, so it is done again if it was cut short.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Looking {
    #[serde(with = "text::path")]
    pub path: PathBuf,
    /// In the sandbox's directory.
    #[serde(with = "text::path")]
    pub place: PathBuf,
    pub looks: Looks,
}

/// Written when the version is made, before it is put in its place.
pub(crate) fn note(directory: &Path, base: NewBase) -> io::Result<()> {
    fs::remove_file(new_looks(directory)).or_absent()?;
    let beside = beside_head(directory).map_err(|e| e.source)?;
    durable::names_in(&beside).and_then(|()| durable::names_in(directory)).map_err(|e| e.source)?;
    intend(directory, base)
}

/// Written before a directory gets the first of its attributes.
pub(crate) fn note_looks(directory: &Path, looking: &Looking, base: NewBase) -> io::Result<()> {
    private_file::replace_durably(&new_looks(directory), &serde_json::to_vec(looking)?)?;
    intend(directory, base)
}

fn intend(directory: &Path, base: NewBase) -> io::Result<()> {
    let intended = intended(directory);
    Bases::load(&intended)?.replace(vec![base], None)?;
    durable::tree(&intended).and_then(|()| durable::names_in(directory)).map_err(|e| e.source)
}

/// Where it is written what a copied tree will be made from, before anything in it is brought up to date.
pub(crate) fn planned_copy(directory: &Path, tree: usize) -> PathBuf {
    copied::beside(&intended(directory).join(tree.to_string()))
}

/// It is on the disk once everything else that the refresh needs is.
pub(crate) fn note_copy(directory: &Path, tree: usize, plan: &[u8]) -> io::Result<()> {
    let intended = intended(directory);
    match fs::DirBuilder::new().mode(0o700).create(&intended) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => private_file::replace(&planned_copy(directory, tree), plan),
    }
}

/// The version is in its place.
pub(crate) fn keep(directory: &Path) -> Result<(), EngineError> {
    let (intended, base) = (intended(directory), directory.join("base"));
    let failed = |e| EngineError::io("write", &base, e);
    base::add(&intended, &base).map_err(failed)?;
    // The bytes are on the disk already.
    File::open(base.join(base::INDEX)).and_then(|index| index.sync_all()).map_err(failed)?;
    durable::names_in(&base)?;
    forget(directory)
}

/// First the index: without it, nothing is said.
pub(crate) fn forget(directory: &Path) -> Result<(), EngineError> {
    let (intended, looks) = (intended(directory), new_looks(directory));
    for file in [intended.join(base::INDEX), looks] {
        fs::remove_file(&file).or_absent().map_err(|e| EngineError::io("remove", &file, e))?;
    }
    Ok(remove::tree(&intended)?)
}

impl Ground {
    /// Writes down what a rebase that was cut short had not written down yet.
    pub(crate) fn recover_rebase(&self, sandbox: &Sandbox, _lock: &SandboxLock) -> Result<(), EngineError> {
        let directory = self.directory(sandbox)?;
        if !is_begun(&directory)? {
            return Ok(());
        }
        if self.recover_copies(sandbox, &directory)? {
            return forget(&directory);
        }
        if let Some(looking) = read_looks(&directory)? {
            let known = Bases::load(&intended(&directory)).map_err(|e| EngineError::io("read", intended(&directory), e))?;
            // It may have ended between the two; then nothing was changed, or all is written down.
            if known.get(&looking.path).is_none() {
                return forget(&directory);
            }
            let (place, marks) = (directory.join(&looking.place), marks_at(sandbox, &looking.path));
            let failed = |e| EngineError::io("rewrite", &looking.path, e);
            if let Some(node) = Node::of(&place)? {
                give(&place, &State::new(node, place.clone(), marks), &looking.looks).map_err(failed)?;
            }
            return keep(&directory);
        }
        let version = new_version(&directory)?;
        match absence::exists(&version).map_err(|e| EngineError::io("examine", &version, e))? {
            true => forget(&directory),
            false => keep(&directory),
        }
    }

    /// The same for a command that only looks, unless another one is at the sandbox.
    pub(crate) fn recover_rebase_if_free(&self, sandbox: &Sandbox, directory: &Path) -> Result<(), EngineError> {
        if !is_begun(directory)? {
            return Ok(());
        }
        match SandboxLock::take(directory)? {
            Some(lock) => self.recover_rebase(sandbox, &lock),
            None => Ok(()),
        }
    }

    /// Writes down what copies have of reality since a refresh that was cut short. False if none was.
    pub(crate) fn recover_copies(&self, sandbox: &Sandbox, directory: &Path) -> Result<bool, EngineError> {
        let mut is_found = false;
        for number in &sandbox.details.copied_trees {
            let plan = planned_copy(directory, *number);
            let is_planned = absence::exists(&plan).map_err(|e| EngineError::io("examine", &plan, e))?;
            let Some(tree) = sandbox.details.trees.get(*number).filter(|_| is_planned) else { continue };
            let copy = directory.join("head").join(number.to_string());
            let renewed = copy::complete(&copy, &plan)?.into_iter().map(|inside| tree.join(inside));
            let mut bases = self.bases(sandbox)?;
            let is_replaced = |path: &PathBuf| bases.get(path).is_some_and(|record| record.absent && record.by.is_none());
            let replaced = renewed.filter(is_replaced).map(|path| NewBase::Forget { path }).collect();
            bases.replace(replaced, None).map_err(|e| EngineError::io("write", directory.join("base"), e))?;
            durable::all_around(directory)?;
            is_found = true;
        }
        Ok(is_found)
    }
}

fn is_begun(directory: &Path) -> Result<bool, EngineError> {
    let intended = intended(directory);
    absence::exists(&intended).map_err(|e| EngineError::io("examine", &intended, e))
}

fn read_looks(directory: &Path) -> Result<Option<Looking>, EngineError> {
    let path = new_looks(directory);
    let failed = |e| EngineError::io("read", &path, e);
    let Some(bytes) = fs::read(&path).or_absent().map_err(failed)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|e| failed(e.into()))
}

fn marks_at(sandbox: &Sandbox, path: &Path) -> Format {
    tree_of(sandbox, path).map_or(Format::None, |(number, _)| marks_of(sandbox, number))
}
