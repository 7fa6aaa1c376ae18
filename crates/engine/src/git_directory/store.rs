//! The objects that a repository of reality will have, and whether they are all that its branches need.
//!
//! Git is asked in a repository of our own, made for the question: it borrows reality's objects and has those of the plan, but none
//! of the configuration, hooks and remotes of either.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use whatif_apply::Change as Act;
use whatif_sys::absence::OrAbsent;
use whatif_sys::programs::{Programs, USUAL};
use whatif_sys::random;
use whatif_sys::run_to_end::run_to_end;

use super::locks::entries;
use super::{Fault, Put, Repository};
use crate::EngineError;

pub(super) const MISSING: &str = "stands on objects that reality does not have and that are not applied with it";
pub(super) const NO_GIT: &str = "cannot be checked: there is no git here to say whether reality has the objects it stands on";

pub(crate) struct Store {
    git: PathBuf,
    search_path: OsString,
    scratch: Scratch,
    /// Git fetches some objects only when it needs them.
    is_partial: bool,
}

impl Store {
    /// The objects of a repository once the plan is carried out; `None` if there is no git to ask. `project`: not where git is looked for.
    pub(crate) fn of(repository: &Repository<'_>, home: &Path, project: &Path) -> Result<Option<Self>, EngineError> {
        let programs = Programs::new(&std::env::var_os("PATH").unwrap_or_else(|| USUAL.into()), home, project);
        let Some(git) = programs.find("git") else { return Ok(None) };
        let failed = |e| EngineError::io("look at the objects of", &repository.directory, e);
        let packs = entries(&repository.directory.join("objects/pack")).map_err(failed)?;
        let is_partial = packs.iter().any(|pack| pack.extension().is_some_and(|e| e == "promisor"));
        let scratch = Scratch::new().and_then(|scratch| scratch.fill(repository).map(|()| scratch)).map_err(failed)?;
        Ok(Some(Self { git, search_path: programs.search_path(), scratch, is_partial }))
    }

    /// What of the plan refers to something that is not there.
    pub(crate) fn faults(&self, repository: &Repository<'_>) -> Result<Vec<Fault>, EngineError> {
        let mut tips = repository.new_tips(!self.is_partial)?;
        let (old, staged) = (repository.old_tips()?, repository.staged()?);
        // What reality stands on already is no matter of the plan's.
        tips.values_mut().for_each(|ids| ids.retain(|id| !old.contains(id) && !staged.contains(id)));
        let new: BTreeSet<&String> = tips.values().flatten().collect();
        let Some(id) = new.first() else { return Ok(Vec::new()) };
        self.configure(id.len()).map_err(|e| EngineError::io("write", &self.scratch.path, e))?;
        let missing = self.missing(new.iter().copied().chain(&old))?;
        let old: Vec<&String> = old.iter().filter(|id| !missing.contains(*id)).collect();
        if !new.iter().any(|id| missing.contains(*id)) && self.is_connected(new.iter().copied(), &old)? {
            return Ok(Vec::new());
        }
        let mut faults = Vec::new();
        for (path, ids) in &tips {
            if ids.iter().any(|id| missing.contains(id)) || !self.is_connected(ids, &old)? {
                faults.push(Fault { path: path.clone(), why: MISSING });
            }
        }
        Ok(faults)
    }

    /// Which of these objects are not there.
    pub(crate) fn missing<'i>(&self, ids: impl IntoIterator<Item = &'i String>) -> Result<HashSet<String>, EngineError> {
        let ids: Vec<&String> = ids.into_iter().collect();
        let Some(id) = ids.first() else { return Ok(HashSet::new()) };
        self.configure(id.len()).map_err(|e| EngineError::io("write", &self.scratch.path, e))?;
        let lines: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let told = self.ask(&["cat-file", "--batch-check", "--buffer"], &lines)?;
        if !told.status.success() {
            // Then nothing is known to be there.
            return Ok(ids.into_iter().cloned().collect());
        }
        let told = String::from_utf8_lossy(&told.stdout);
        Ok(told.lines().filter_map(|line| line.strip_suffix(" missing")).map(str::to_owned).collect())
    }

    /// Whether everything is there that these objects stand on, down to what `old` stand on.
    fn is_connected<'i>(&self, ids: impl IntoIterator<Item = &'i String>, old: &[&String]) -> Result<bool, EngineError> {
        let new = ids.into_iter().map(|id| format!("{id}\n"));
        let lines: String = new.chain(old.iter().map(|id| format!("^{id}\n"))).collect();
        let partial = self.is_partial.then_some("--exclude-promisor-objects");
        let arguments: Vec<&str> = ["rev-list", "--objects", "--quiet", "--stdin"].into_iter().chain(partial).collect();
        Ok(self.ask(&arguments, &lines)?.status.success())
    }

    fn ask(&self, arguments: &[&str], lines: &str) -> Result<Output, EngineError> {
        let scratch = &self.scratch.path;
        let input = scratch.join("input");
        let given = fs::write(&input, lines).and_then(|()| File::open(&input)).map_err(|e| EngineError::io("write", &input, e))?;
        let mut command = Command::new(&self.git);
        command.env_clear().env("PATH", &self.search_path).env("HOME", scratch).env("GIT_DIR", scratch).current_dir(scratch);
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_NO_REPLACE_OBJECTS", "1").env("GIT_TERMINAL_PROMPT", "0");
        // An object that is not there is not fetched.
        command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none");
        let told = run_to_end(command.args(arguments).stdin(Stdio::from(given)));
        told.map_err(|e| EngineError::io("run", &self.git, e))
    }

    fn configure(&self, length_of_id: usize) -> io::Result<()> {
        let format = if length_of_id == 64 { "objectFormat = sha256\n" } else { "" };
        let partial = if self.is_partial { "partialClone = none\n" } else { "" };
        let settings = format!("[core]\nrepositoryFormatVersion = 1\nbare = true\n[extensions]\n{format}{partial}");
        fs::write(self.scratch.path.join("config"), settings)
    }
}

impl Repository<'_> {
    /// What of the plan refers to objects, where nobody can say whether they are there.
    pub(crate) fn unchecked(&self) -> Result<Vec<Fault>, EngineError> {
        let old = self.old_tips()?;
        let tips = self.new_tips(false)?.into_iter().filter(|(_, ids)| ids.iter().any(|id| !old.contains(id)));
        Ok(tips.map(|(path, _)| Fault { path, why: NO_GIT }).collect())
    }
}

/// A directory that is gone when it is not needed any more.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("whatif-{}", random::word::<8>()?));
        // Made new or not at all, so it is empty and ours.
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }

    fn fill(&self, repository: &Repository<'_>) -> io::Result<()> {
        let objects = self.path.join("objects");
        fs::create_dir_all(objects.join("info"))?;
        fs::create_dir(self.path.join("refs"))?;
        fs::write(self.path.join("HEAD"), "ref: refs/heads/none\n")?;
        // By a link: git would take some characters of a path for something else.
        let lent = self.path.join("lent");
        symlink(repository.directory.join("objects"), &lent)?;
        fs::write(objects.join("info/alternates"), lent.as_os_str().as_encoded_bytes())?;
        if let Some(shallow) = repository.after(&repository.directory.join("shallow"))? {
            fs::write(self.path.join("shallow"), shallow)?;
        }
        for (path, act) in &repository.acts {
            let (Ok(within), Act::Put { source, .. }) = (path.strip_prefix(&repository.directory), act) else { continue };
            if !within.starts_with("objects") || within.starts_with("objects/info") {
                continue;
            }
            let copy = self.path.join(within);
            copy.parent().map_or(Ok(()), fs::create_dir_all)?;
            match repository.put(source) {
                Put::File(at) => symlink(at, &copy)?,
                Put::Bytes(bytes) => fs::write(&copy, bytes)?,
                Put::Link(_) | Put::Directory => {}
            }
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left of it in a directory of temporary files does no harm.
        let _ = fs::remove_dir_all(&self.path).or_absent();
    }
}
