//! Brings a copy of a tree up to date where the sandbox did not touch it, as an overlay is by itself.
//!
//! Each path has three sides: what was copied, which the inventory tells, what the copy has now, and what reality has now. What the
//! sandbox changed, made, replaced or deleted is left alone, and so is everything in a directory that it replaced.
//!
//! All that takes long, the copying, happens out of sight. A refresh that is killed while it puts the new versions in place leaves some
//! that are reality's and that the inventory does not tell of. The caller writes down beforehand what is planned (`planned.rs`), and
//! what will be removed, so that it does not pass for deleted by the sandbox.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs::{self, Metadata, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use whatif_types::copied::{self, Attributes, Original};

use super::attributes::{self, is_compared};
use super::inventory::{Copied, btime, ctime};
use super::mounted::is_mounted;
use super::{Depth, copy_original, if_there, into_directory};
use crate::{PathError, on, remove};

/// What is needed to bring one copied tree up to date.
#[derive(Clone, Copy, Debug)]
pub struct Stale<'a> {
    /// In reality.
    pub tree: &'a Path,
    pub copy: &'a Path,
    pub depth: Depth,
    /// Paths of reality that the sandbox is not shown as they are.
    pub excluded: &'a [PathBuf],
    /// Files that stay what they are, also where they are out of date.
    pub held: &'a HashSet<PathBuf>,
    /// What the sandbox deleted, besides what was copied and is not in the copy any more.
    pub deleted: &'a HashSet<PathBuf>,
    /// What it does not have although it was copied, because reality took it away.
    pub absent: &'a HashSet<PathBuf>,
    /// What an apply deleted for it, and an undo may bring back.
    pub applied: &'a HashSet<PathBuf>,
    /// An empty directory on the same file system as the copy, for what is made out of sight.
    pub staging: &'a Path,
}

/// New versions that are ready to be put in place.
#[derive(Debug)]
pub struct Refresh<'a> {
    stale: Stale<'a>,
    known: BTreeMap<PathBuf, Original>,
    /// Names by their directory.
    children: BTreeMap<PathBuf, Vec<OsString>>,
    device: u64,
    steps: Vec<Step>,
    held_back: Vec<PathBuf>,
}

/// One thing to do. Paths are relative to the tree.
#[derive(Debug)]
enum Step {
    Remove {
        inside: PathBuf,
        is_directory: bool,
    },
    /// In place of the file that is there, if one is.
    Put {
        inside: PathBuf,
        staged: PathBuf,
        metadata: Metadata,
        attributes: Attributes,
    },
    PutDirectory {
        inside: PathBuf,
        staged: PathBuf,
        copied: Copied,
    },
    /// Neither reality nor the copy has it any more, nor anything in it.
    Forget {
        inside: PathBuf,
    },
    /// Reality gave a directory other attributes, or has other names in it.
    Look {
        inside: PathBuf,
        metadata: Metadata,
    },
}

impl<'a> Refresh<'a> {
    /// Finds what is out of date, and copies it. None if an earlier version copied the tree without an inventory.
    pub fn prepare(stale: Stale<'a>) -> Result<Option<Self>, PathError> {
        let Some(copied) = Copied::read(stale.copy)? else { return Ok(None) };
        let Some(top) = look(stale.tree)?.filter(Metadata::is_dir) else { return Ok(None) };
        let known: BTreeMap<PathBuf, Original> = copied.originals.into_iter().map(|o| (o.path.clone(), o)).collect();
        let mut children: BTreeMap<PathBuf, Vec<OsString>> = BTreeMap::new();
        for path in known.keys() {
            if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
                children.entry(parent.to_owned()).or_default().push(name.to_owned());
            }
        }
        let mut this = Self { stale, known, children, device: top.dev(), steps: Vec::new(), held_back: Vec::new() };
        let Some(copy) = look(stale.copy)?.filter(|copy| this.is_copy(Path::new(""), copy)) else { return Ok(None) };
        this.directory(Path::new(""), true)?;
        this.look_of(Path::new(""), &copy, top)?;
        Ok(Some(this))
    }

    /// What reality has no more, or has something of another kind in the place of.
    pub fn removed(&self) -> impl Iterator<Item = PathBuf> {
        self.steps.iter().filter_map(|step| match step {
            Step::Remove { inside, .. } => Some(self.stale.tree.join(inside)),
            _ => None,
        })
    }

    /// What would have been brought up to date, and was not to be.
    pub fn held_back(&self) -> &[PathBuf] {
        &self.held_back
    }

    /// What becomes reality's version, with everything in it.
    pub fn renewed(&self) -> impl Iterator<Item = PathBuf> {
        self.steps.iter().filter_map(|step| match step {
            Step::Put { inside, .. } | Step::PutDirectory { inside, .. } => Some(self.stale.tree.join(inside)),
            _ => None,
        })
    }

    /// What both sides deleted, with everything in it.
    pub fn forgotten(&self) -> impl Iterator<Item = PathBuf> {
        self.steps.iter().filter_map(|step| match step {
            Step::Forget { inside } => Some(self.stale.tree.join(inside)),
            _ => None,
        })
    }

    /// Directories that get reality's attributes.
    pub fn looked_at(&self) -> impl Iterator<Item = PathBuf> {
        self.steps.iter().filter_map(|step| match step {
            Step::Look { inside, .. } => Some(joined(self.stale.tree, inside)),
            _ => None,
        })
    }

    /// What the copy will be made from. For `complete`, should this be cut short; attributes that directories get are not in it.
    pub fn planned(&self) -> Result<Vec<u8>, PathError> {
        let (children, steps, held_back) = Default::default();
        let mut planned = Self { known: self.known.clone(), children, steps, held_back, ..*self };
        for step in &self.steps {
            match step {
                Step::Remove { inside, .. } => drop(planned.known.remove(inside)),
                Step::Forget { inside } => planned.forget(inside),
                Step::Put { inside, staged, metadata, attributes } => {
                    planned.learn(inside, metadata, staged, attributes.clone())?
                }
                Step::PutDirectory { inside, copied, .. } => planned.learn_all(inside, copied.clone()),
                Step::Look { .. } => {}
            }
        }
        Ok(copied::encode(&planned.known.into_values().collect::<Vec<_>>()))
    }

    /// Puts the new versions in place, and writes down what the copy was made from now.
    pub fn carry_out(mut self) -> Result<(), PathError> {
        if self.steps.is_empty() {
            return Ok(());
        }
        self.flush()?;
        let mut steps = std::mem::take(&mut self.steps);
        // What is new comes last: should reality take it away again before the inventory tells of it, the sandbox seems to have made it.
        steps.sort_by_key(|step| match step {
            Step::Put { inside, .. } => !self.known.contains_key(inside),
            Step::PutDirectory { .. } => true,
            Step::Remove { .. } | Step::Forget { .. } | Step::Look { .. } => false,
        });
        for step in steps {
            self.take(step)?;
        }
        self.flush()?;
        Copied { originals: std::mem::take(&mut self.known).into_values().collect() }.write(self.stale.copy)?;
        self.flush()
    }

    fn flush(&self) -> Result<(), PathError> {
        let staging = self.stale.staging;
        let held = rustix::fs::open(staging, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        held.and_then(rustix::fs::syncfs).map_err(on("flush", staging))
    }

    /// Looks at what is in a directory that was copied. False if nothing will be left in it.
    fn directory(&mut self, inside: &Path, is_in_reality: bool) -> Result<bool, PathError> {
        let mut names: BTreeSet<OsString> = self.children.get(inside).into_iter().flatten().cloned().collect();
        names.extend(list(&self.stale.copy.join(inside))?);
        if is_in_reality {
            names.extend(list(&self.stale.tree.join(inside))?);
        }
        let mut is_left = false;
        for name in names {
            is_left |= self.entry(&inside.join(name), is_in_reality)?;
        }
        Ok(is_left)
    }

    /// Looks at one path. False if the copy will have nothing there.
    fn entry(&mut self, inside: &Path, is_in_reality: bool) -> Result<bool, PathError> {
        let full = self.stale.tree.join(inside);
        let has = look(&self.stale.copy.join(inside))?;
        if self.stale.excluded.contains(&full) {
            return Ok(has.is_some());
        }
        let now = if is_in_reality { look(&full)? } else { None };
        if let Some(now) = &now
            && is_mounted(&full, now, self.device)?
        {
            return Ok(has.is_some());
        }
        let now = now.filter(|now| now.is_dir() || now.is_file() || now.is_symlink());
        match has {
            Some(has) if !self.is_copy(inside, &has) => Ok(true),
            Some(has) if has.is_dir() => self.copied_directory(inside, &has, now),
            Some(has) => self.copied_file(inside, &has, now),
            None if self.is_deleted(inside, &full) => {
                let is_applied = full.ancestors().any(|above| self.stale.applied.contains(above));
                if now.is_none() && self.known.contains_key(inside) && !is_applied && look(&full)?.is_none() {
                    self.steps.push(Step::Forget { inside: inside.to_owned() });
                }
                Ok(false)
            }
            None => now.map_or(Ok(false), |now| self.stage(inside, now)),
        }
    }

    fn is_deleted(&self, inside: &Path, full: &Path) -> bool {
        let was_copied = self.known.contains_key(inside) && !self.stale.absent.contains(full);
        was_copied || self.stale.deleted.contains(full)
    }

    fn copied_directory(&mut self, inside: &Path, has: &Metadata, now: Option<Metadata>) -> Result<bool, PathError> {
        // What is in it is another tree, or a mount.
        if self.stale.depth == Depth::Level {
            return Ok(true);
        }
        let reality = now.as_ref().filter(|now| now.is_dir()).cloned();
        let is_left = self.directory(inside, reality.is_some())?;
        if let Some(reality) = reality {
            self.look_of(inside, has, reality)?;
            return Ok(true);
        }
        if is_left || !self.looks_as_copied(inside, has)? {
            return Ok(true);
        }
        self.steps.push(Step::Remove { inside: inside.to_owned(), is_directory: true });
        now.map_or(Ok(false), |now| self.stage(inside, now))
    }

    fn copied_file(&mut self, inside: &Path, has: &Metadata, now: Option<Metadata>) -> Result<bool, PathError> {
        let Some(original) = self.known.get(inside) else { return Ok(true) };
        let is_untouched = original.copy.as_ref().is_some_and(|copy| copy.ctime == ctime(has));
        if !is_untouched || now.as_ref().is_some_and(|now| is_same_version(original, now)) {
            return Ok(true);
        }
        let full = self.stale.tree.join(inside);
        if self.stale.held.contains(&full) {
            self.held_back.push(full);
            return Ok(true);
        }
        if now.as_ref().is_none_or(Metadata::is_dir) {
            self.steps.push(Step::Remove { inside: inside.to_owned(), is_directory: false });
        }
        now.map_or(Ok(false), |now| self.stage(inside, now))
    }

    /// Makes what reality has out of sight.
    fn stage(&mut self, inside: &Path, now: Metadata) -> Result<bool, PathError> {
        let (full, staged) = (self.stale.tree.join(inside), self.stale.staging.join(self.steps.len().to_string()));
        let inside = inside.to_owned();
        if now.is_dir() {
            if self.stale.depth == Depth::Level {
                return Ok(false);
            }
            fs::DirBuilder::new().mode(0o700).create(&staged).map_err(on("create", &staged))?;
            let copied = into_directory(&full, &staged, Depth::Tree, self.stale.excluded)?;
            self.steps.push(Step::PutDirectory { inside, staged, copied });
        } else {
            // It went since it was looked at: the next refresh sees to it.
            let Some((metadata, attributes)) = copy_original(&full, &staged, &now)? else { return Ok(true) };
            self.steps.push(Step::Put { inside, staged, metadata, attributes });
        }
        Ok(true)
    }

    fn look_of(&mut self, inside: &Path, has: &Metadata, now: Metadata) -> Result<(), PathError> {
        let is_behind = self.known.get(inside).is_some_and(|original| original.ctime != ctime(&now));
        if is_behind && self.looks_as_copied(inside, has)? {
            self.steps.push(Step::Look { inside: inside.to_owned(), metadata: now });
        }
        Ok(())
    }

    /// Whether an entry is the one that was copied, whatever was done to it since.
    fn is_copy(&self, inside: &Path, has: &Metadata) -> bool {
        let copy = self.known.get(inside).and_then(|original| original.copy.as_ref());
        copy.is_some_and(|copy| copy.is(has.ino(), btime(has)))
    }

    /// Whether the sandbox gave a copied directory no attributes of its own.
    fn looks_as_copied(&self, inside: &Path, has: &Metadata) -> Result<bool, PathError> {
        let Some(original) = self.known.get(inside) else { return Ok(false) };
        let (Some(copy), Some(known)) = (&original.copy, &original.attributes) else { return Ok(false) };
        let at = self.stale.copy.join(inside);
        let compared = |all: &Attributes| all.iter().filter(|(name, _)| is_compared(name)).cloned().collect::<BTreeSet<_>>();
        let has_same = (copy.mode, copy.uid, copy.gid) == (has.mode(), has.uid(), has.gid());
        Ok(has_same && compared(known) == compared(&attributes::of_path(&at).map_err(on("examine", &at))?))
    }

    fn take(&mut self, step: Step) -> Result<(), PathError> {
        match step {
            Step::Remove { inside, is_directory } => {
                let at = self.stale.copy.join(&inside);
                let removed = if is_directory { fs::remove_dir(&at) } else { fs::remove_file(&at) };
                removed.map_err(on("remove", &at))?;
                self.known.remove(&inside);
            }
            Step::Put { inside, staged, metadata, attributes } => {
                let at = self.stale.copy.join(&inside);
                fs::rename(&staged, &at).map_err(on("replace", &at))?;
                self.learn(&inside, &metadata, &at, attributes)?;
            }
            Step::PutDirectory { inside, staged, copied } => {
                let at = self.stale.copy.join(&inside);
                // An ordinary user may not move a directory that it cannot write.
                let closed = fs::symlink_metadata(&staged).map_err(on("examine", &staged))?.permissions();
                let open = Permissions::from_mode(closed.mode() | 0o700);
                fs::set_permissions(&staged, open).map_err(on("open", &staged))?;
                fs::rename(&staged, &at).map_err(on("create", &at))?;
                fs::set_permissions(&at, closed).map_err(on("close", &at))?;
                self.learn_all(&inside, copied);
            }
            Step::Forget { inside } => self.forget(&inside),
            Step::Look { inside, metadata } => {
                let at = self.stale.copy.join(&inside);
                let attributes = attributes::renew(&self.stale.tree.join(&inside), &at, &metadata)?;
                self.learn(&inside, &metadata, &at, attributes)?;
            }
        }
        Ok(())
    }

    fn learn_all(&mut self, inside: &Path, copied: Copied) {
        for mut original in copied.originals {
            original.path = joined(inside, &original.path);
            self.known.insert(original.path.clone(), original);
        }
    }

    /// It and everything in it.
    fn forget(&mut self, inside: &Path) {
        let below = self.known.range(inside.to_owned()..).map(|(path, _)| path).take_while(|path| path.starts_with(inside));
        for path in below.cloned().collect::<Vec<_>>() {
            self.known.remove(&path);
        }
    }

    fn learn(&mut self, inside: &Path, original: &Metadata, at: &Path, attributes: Attributes) -> Result<(), PathError> {
        let mut one = Copied::default();
        one.add(inside, original, at, attributes)?;
        self.known.extend(one.originals.into_iter().map(|o| (o.path.clone(), o)));
        Ok(())
    }
}

/// An empty directory for what is made out of sight. What a killed refresh left there goes.
pub fn staging(at: &Path) -> Result<(), PathError> {
    remove::tree(at)?;
    fs::DirBuilder::new().mode(0o700).create(at).map_err(on("create", at))
}

/// The tree itself has no name in it.
fn joined(tree: &Path, inside: &Path) -> PathBuf {
    if inside.as_os_str().is_empty() { tree.to_owned() } else { tree.join(inside) }
}

fn look(path: &Path) -> Result<Option<Metadata>, PathError> {
    if_there(fs::symlink_metadata(path)).map_err(on("examine", path))
}

fn list(directory: &Path) -> Result<Vec<OsString>, PathError> {
    let Some(entries) = if_there(fs::read_dir(directory)).map_err(on("list", directory))? else { return Ok(Vec::new()) };
    entries.map(|entry| entry.map(|e| e.file_name()).map_err(on("list", directory))).collect()
}

fn is_same_version(original: &Original, now: &Metadata) -> bool {
    (original.dev, original.ino, original.size) == (now.dev(), now.ino(), now.size())
        && original.mode == now.mode()
        && original.ctime == ctime(now)
        && original.mtime == (now.mtime(), now.mtime_nsec() as u32)
}
