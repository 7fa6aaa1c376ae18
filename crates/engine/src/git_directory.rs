//! Git's own directories: `.git`, bare repositories, and those kept away from their work trees. One is told by what it holds, as git
//! itself does it, so its name does not matter.
//!
//! Here is what an apply and an undo have to know about them: where they are, whether git is at work in one, and whether its
//! branches stand on objects that are there. What follows from it is decided by `apply` and `undo`.

mod locks;
mod refs;
mod store;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use whatif_apply::{Change as Act, Plan, Source};
use whatif_diff::{Change, is_in_repository};
use whatif_sys::direct;

pub(crate) use self::locks::is_lock;
pub(crate) use self::refs::Fault;
pub(crate) use self::store::Store;
use crate::EngineError;
use crate::git::GitError;

/// What makes a directory one.
const PARTS: [&str; 3] = ["HEAD", "objects", "refs"];

/// Finds the repository whose own directory a path is in.
#[derive(Debug, Default)]
pub(crate) struct GitDirectories {
    /// Parts that a sandbox has and reality need not have.
    made: HashSet<PathBuf>,
    known: HashMap<PathBuf, Option<Rc<Path>>>,
}

impl GitDirectories {
    /// Those of reality, and those that a sandbox made.
    pub(crate) fn with(changes: &[Change]) -> Self {
        let is_part = |path: &Path| path.file_name().is_some_and(|name| PARTS.iter().any(|part| name == *part));
        let made = changes.iter().filter(|c| c.after.is_some() && is_part(&c.path)).map(|c| c.path.clone());
        Self { made: made.collect(), known: HashMap::new() }
    }

    /// The innermost one around a path. That of a linked work tree is a part of the one it belongs to.
    pub(crate) fn around(&mut self, path: &Path) -> Result<Option<Rc<Path>>, EngineError> {
        let Some(parent) = path.parent() else { return Ok(None) };
        if let Some(known) = self.known.get(parent) {
            return Ok(known.clone());
        }
        let found = if self.is_one(parent)? { Some(Rc::from(parent)) } else { self.around(parent)? };
        self.known.insert(parent.to_owned(), found.clone());
        Ok(found)
    }

    /// The same for an object, or what belongs to the objects.
    pub(crate) fn of_object(&mut self, path: &Path) -> Result<Option<Rc<Path>>, EngineError> {
        Ok(self.around(path)?.filter(|directory| path.starts_with(directory.join("objects"))))
    }

    fn is_one(&self, directory: &Path) -> Result<bool, EngineError> {
        for part in PARTS.map(|part| directory.join(part)) {
            let is_there = || direct::look(&part).map_err(|e| EngineError::io("examine", &part, e));
            if !self.made.contains(&part) && is_there()?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether a file of reality is git's own. What cannot be looked at may be.
pub(crate) fn is_gits_own(path: &Path) -> bool {
    is_in_repository(path) || !matches!(GitDirectories::default().around(path), Ok(None))
}

/// A repository of reality, and what a plan does in its own directory.
#[derive(Debug)]
pub(crate) struct Repository<'p> {
    pub directory: Rc<Path>,
    plan: &'p Plan,
    acts: HashMap<PathBuf, &'p Act>,
}

/// What a plan puts somewhere.
enum Put<'p> {
    File(PathBuf),
    Bytes(&'p [u8]),
    Link(&'p OsStr),
    Directory,
}

impl<'p> Repository<'p> {
    /// Those that a plan writes to. One that comes or goes as a whole is not among them: nothing else stands on it.
    pub(crate) fn written_by(plan: &'p Plan) -> Result<Vec<Self>, EngineError> {
        let mut directories = GitDirectories::default();
        let mut found: HashMap<Rc<Path>, Self> = HashMap::new();
        for operation in &plan.operations {
            let path = operation.absolute(&plan.roots);
            if let Some(directory) = directories.around(&path)? {
                let new = || Self { directory: directory.clone(), plan, acts: HashMap::new() };
                found.entry(directory.clone()).or_insert_with(new).acts.insert(path, &operation.change);
            }
        }
        let gone = gone(plan);
        let mut all: Vec<Self> = found.into_values().filter(|r| !gone.contains(&*r.directory)).collect();
        all.sort_by(|a, b| a.directory.cmp(&b.directory));
        Ok(all)
    }

    fn put(&self, source: &'p Source) -> Put<'p> {
        match source {
            Source::File(at) | Source::Original(at) => Put::File(at.clone()),
            Source::Approved(approved) => Put::File(approved.path.clone()),
            Source::Existing(existing) => Put::File(self.plan.roots[existing.root].join(&existing.path)),
            Source::Bytes(bytes) => Put::Bytes(bytes),
            Source::Link(target) => Put::Link(target),
            Source::Directory => Put::Directory,
            // The one it is a link to is none itself.
            Source::HardLink(first) => match self.plan.operations.get(*first).map(|o| &o.change) {
                Some(Act::Put { source, .. }) if !matches!(source, Source::HardLink(_)) => self.put(source),
                _ => Put::Bytes(&[]),
            },
        }
    }

    /// Fails if git is at work in one of these.
    pub(crate) fn require_rest(all: &[Self]) -> Result<(), EngineError> {
        Self::require_rest_but_for(all, |_, _| false)
    }

    /// The same when a commit may follow. It holds the lock of an index, which the plan leaves alone then.
    pub(crate) fn require_rest_of_others(all: &[Self]) -> Result<(), EngineError> {
        let is_ours = |repository: &Self, lock: &Path| {
            let index = lock.with_extension("");
            index.file_name() == Some(OsStr::new("index")) && !repository.acts.contains_key(&index)
        };
        Self::require_rest_but_for(all, is_ours)
    }

    fn require_rest_but_for(all: &[Self], is_ours: impl Fn(&Self, &Path) -> bool) -> Result<(), EngineError> {
        for repository in all {
            let held = locks::held_in(&repository.directory);
            let held = held.map_err(|e| EngineError::io("look for git's locks in", &repository.directory, e))?;
            if let Some(lock) = held.into_iter().find(|lock| !is_ours(repository, lock)) {
                return Err(GitError::AtWork { lock }.into());
            }
        }
        Ok(())
    }
}

/// What a plan takes away, or puts something else in the place of.
pub(crate) fn gone(plan: &Plan) -> HashSet<PathBuf> {
    let goes = |act: &Act| match act {
        Act::Remove => true,
        Act::Put { source, .. } => *source != Source::Directory,
        Act::Set { .. } => false,
    };
    plan.operations.iter().filter(|o| goes(&o.change)).map(|o| o.absolute(&plan.roots)).collect()
}
