//! Makes the new versions, whole and with all attributes, where no tool looks for them, and copies of the earlier ones where they
//! cannot be kept by a rename.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::attributes::{settle, settle_link};
use crate::backup::copy_entry;
use crate::content::{Copier, create_file, open_file, write_at};
use crate::error::{Fault, on};
use crate::flush::{self, FEW};
use crate::held::{Held, directory_of, explain};
use crate::layout::{IGNORE, Layout, Step, link_base};
use crate::look::{look, look_at};
use crate::plan::{Attributes, Change, Existing, Identity, Kind, Plan, Source};
use crate::transaction::{Conduct, Progress, Stage, Transaction};
use crate::unmanaged::Unmanaged;

/// Fills in `staged`. `plan` is the caller's, which still has its bytes. Returns what new versions could not be given.
pub(crate) fn stage(tx: &mut Transaction, plan: &Plan, conduct: &mut Conduct<'_>) -> Result<Vec<(PathBuf, String)>, Fault> {
    let entries: Vec<usize> = tx.layout.stage_entries.clone();
    let directories = tx.layout.stage_directories.clone();
    let total = entries.len() + directories.len() + tx.header.copied.len();
    let mut staging = Staging {
        copier: Copier::until(conduct.is_cancelled),
        one_by_one: total <= FEW,
        copied: HashMap::new(),
        kept: HashMap::new(),
        incomplete: false,
        lost: Vec::new(),
    };
    let mut done = 0;
    let mut step = || {
        done += 1;
        (conduct.progress)(Progress { stage: Stage::Staging, done, total });
        if (conduct.is_cancelled)() { Err(Fault::Cancelled) } else { Ok(()) }
    };

    make_staging_directories(tx)?;
    for n in &directories {
        let spot = &tx.layout.steps[*n].temporary;
        let path = &tx.layout.steps[*n].path;
        let parent = directory_of(&mut tx.held, spot, path)?;
        rustix::fs::mkdirat(&*parent, &spot.name, Mode::RWXU).map_err(on("stage", path))?;
    }
    for n in entries {
        tx.staged[n] = Some(staging.entry(tx, plan, n)?);
        step()?;
    }
    for n in tx.header.copied.clone() {
        staging.copy_old(tx, n)?;
        step()?;
    }
    // Inner first, and after all content: a directory may become one that nothing can be put into.
    for n in directories.into_iter().rev() {
        tx.staged[n] = Some(staging.directory(tx, n)?);
        step()?;
    }
    staging.look_again(tx)?;
    staging.flush(tx)?;
    Ok(staging.lost)
}

/// Those that lie near their targets. Git must not see anything in them, not even for a moment.
fn make_staging_directories(tx: &mut Transaction) -> Result<(), Fault> {
    for (root, path) in &tx.layout.near {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let absolute = tx.held.roots[*root].path.join(path);
        let above = tx.held.directory(*root, above).map_err(|error| explain(error, &absolute))?;
        rustix::fs::mkdirat(&*above, name, Mode::RWXU).map_err(on("create", &absolute))?;
        let directory = tx.held.directory(*root, path).map_err(|error| explain(error, &absolute))?;
        let (name, content) = IGNORE;
        let ignore = create_file(&*directory, name).map_err(on("create", &absolute))?;
        write_at(&ignore, content, 0).map_err(on("write", &absolute))?;
    }
    Ok(())
}

struct Staging<'a> {
    copier: Copier<'a>,
    one_by_one: bool,
    /// Backups with several names that had to be copied: device and inode, and the operation of the first copy.
    copied: HashMap<(u64, u64), usize>,
    /// The same for earlier versions.
    kept: HashMap<(u64, u64), usize>,
    /// Something could not be flushed by itself.
    incomplete: bool,
    /// What a new version does not have of the one that it replaces.
    lost: Vec<(PathBuf, String)>,
}

impl Staging<'_> {
    fn entry(&mut self, tx: &mut Transaction, plan: &Plan, n: usize) -> Result<Identity, Fault> {
        let path = tx.layout.steps[n].path.clone();
        let Change::Put { source, attributes } = &plan.operations[n].change else {
            return Err(on("stage", &path)(Errno::INVAL));
        };
        if let Source::File(_) | Source::Approved(_) | Source::Bytes(_) = source {
            let target = self.new_file(tx, n)?;
            let device = tx.held.roots[tx.layout.steps[n].temporary.root].seen.identity.dev;
            if let Source::Approved(approved) = source {
                approved.copy(&mut self.copier, &target, device, &path)?;
                return self.complete(&target, attributes).map_err(on("stage", &path));
            }
            let filled = match source {
                Source::Bytes(bytes) => write_at(&target, bytes, 0),
                Source::File(from) => open_file(CWD, from).and_then(|from| self.copier.copy(&from, &target, device).map(drop)),
                _ => Err(Errno::INVAL.into()),
            };
            return filled.and_then(|()| self.complete(&target, attributes)).map_err(on("stage", &path));
        }
        let spot = &tx.layout.steps[n].temporary;
        let parent = directory_of(&mut tx.held, spot, &path)?;
        let made = match source {
            Source::Link(leads) => rustix::fs::symlinkat(leads, &*parent, &spot.name)
                .map_err(io::Error::from)
                .and_then(|()| settle_link(&*parent, &spot.name, attributes))
                .and_then(|()| there(&parent, &spot.name)),
            Source::HardLink(_) => link_base(plan, n)
                .ok_or(Errno::INVAL.into())
                .and_then(|base| link(tx.layout.steps.get(base), &mut tx.held, &parent, &spot.name))
                .and_then(|()| there(&parent, &spot.name)),
            Source::Original(from) => self.original(from, &tx.layout, &mut tx.held, n, &parent),
            Source::Existing(existing) => {
                let first = existing.absolute(&plan.roots);
                return self.further_name(existing, &first, &mut tx.held, (&parent, &spot.name), attributes);
            }
            Source::Directory | Source::File(_) | Source::Approved(_) | Source::Bytes(_) => Err(Errno::INVAL.into()),
        };
        made.map_err(on("stage", &path))
    }

    /// An empty file with what the one it replaces has besides the attributes of the plan.
    fn new_file(&mut self, tx: &mut Transaction, n: usize) -> Result<OwnedFd, Fault> {
        let step = &tx.layout.steps[n];
        let path = step.path.as_path();
        let parent = directory_of(&mut tx.held, &step.temporary, path)?;
        let target = create_file(&*parent, &step.temporary.name).map_err(on("stage", path))?;
        if tx.header.plan.operations[n].before().is_some_and(|before| before.kind == Kind::File) {
            let there = directory_of(&mut tx.held, &step.target, path)?;
            let replaced = Unmanaged::of(&there, &step.target.name).map_err(on("examine", path))?;
            let lost = replaced.give(&target).map_err(on("stage", path))?;
            self.lost.extend(lost.into_iter().map(|what| (path.to_owned(), format!("could not keep {what}"))));
        }
        Ok(target)
    }

    /// Attributes last, then what `lstat` will say.
    fn complete(&self, target: &OwnedFd, attributes: &Attributes) -> io::Result<Identity> {
        settle(target, attributes)?;
        if self.one_by_one {
            flush::file(target)?;
        }
        let identity = look_at(target)?.identity;
        as_wanted(&identity, attributes)?;
        Ok(identity)
    }

    /// A second name for the backup; the first one goes when the apply is done. So the inode is the one it was.
    fn original(&mut self, from: &Path, layout: &Layout, held: &mut Held, n: usize, parent: &OwnedFd) -> io::Result<Identity> {
        let name = &layout.steps[n].temporary.name;
        match rustix::fs::linkat(CWD, from, parent, name, AtFlags::empty()) {
            Ok(()) => {}
            // Somebody else's file may get no further name, but it can be moved. Taking it back moves it back.
            Err(Errno::PERM) if rustix::fs::renameat_with(CWD, from, parent, name, RenameFlags::NOREPLACE).is_ok() => {}
            Err(Errno::XDEV | Errno::PERM | Errno::MLINK) => self.original_copied(from, layout, held, n, parent)?,
            Err(errno) => return Err(errno.into()),
        }
        let identity = there(parent, name)?;
        if self.one_by_one && identity.kind == Kind::File {
            self.incomplete |= !flush::entry(parent, name, OFlags::empty())?;
        }
        Ok(identity)
    }

    /// A further name for what is there already.
    fn further_name(
        &mut self,
        existing: &Existing,
        first: &Path,
        held: &mut Held,
        (parent, name): (&OwnedFd, &OsStr),
        attributes: &Attributes,
    ) -> Result<Identity, Fault> {
        let source = existing.spot();
        let directory = directory_of(held, &source, first)?;
        match rustix::fs::linkat(&*directory, &source.name, parent, name, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Err(Fault::changed(first, "does not exist any more")),
            // Another mount or quota, another user's file, or one that has as many names as it can have.
            Err(Errno::XDEV | Errno::PERM | Errno::MLINK) => {
                let source = open_file(&*directory, &source.name).map_err(on("open", first))?;
                let now = look_at(&source).map_err(on("examine", first))?.identity;
                if let Some(why) = existing.identity.changed(&now) {
                    return Err(Fault::changed(first, why));
                }
                let target = create_file(parent, name).map_err(on("stage", first))?;
                let device = look_at(&target).map_err(on("stage", first))?.identity.dev;
                self.copier.copy(&source, &target, device).map_err(on("copy", first))?;
                return self.complete(&target, attributes).map_err(on("copy", first));
            }
            Err(errno) => return Err(on("link", first)(errno)),
        }
        let identity = there(parent, name).map_err(on("examine", first))?;
        if let Some(why) = existing.identity.changed(&identity) {
            return Err(Fault::changed(first, why));
        }
        if self.one_by_one {
            self.incomplete |= !flush::entry(parent, name, OFlags::empty()).map_err(on("flush", first))?;
        }
        Ok(identity)
    }

    fn original_copied(&mut self, from: &Path, layout: &Layout, held: &mut Held, n: usize, parent: &OwnedFd) -> io::Result<()> {
        let name = &layout.steps[n].temporary.name;
        let seen = look(CWD, from)?.ok_or(Errno::NOENT)?;
        let key = (seen.identity.dev, seen.identity.ino);
        if let Some(first) = self.copied.get(&key) {
            return link(layout.steps.get(*first), held, parent, name);
        }
        let (Some(directory), Some(last)) = (from.parent(), from.file_name()) else { return Err(Errno::INVAL.into()) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = rustix::fs::open(directory, flags, Mode::empty())?;
        copy_entry(&mut self.copier, &directory, last, parent, name)?;
        if seen.identity.nlink > 1 {
            self.copied.insert(key, n);
        }
        Ok(())
    }

    /// The earlier version, into `old`. Files with several names stay one file there.
    fn copy_old(&mut self, tx: &mut Transaction, n: usize) -> Result<(), Fault> {
        let step = &tx.layout.steps[n];
        let path = step.path.as_path();
        let Some(before) = tx.header.plan.operations[n].before() else { return Ok(()) };
        let parent = directory_of(&mut tx.held, &step.target, path)?;
        let new = n.to_string();
        let key = (before.dev, before.ino);
        let mut copy = || -> io::Result<()> {
            if let Some(first) = self.kept.get(&key) {
                return Ok(rustix::fs::linkat(&tx.old, first.to_string(), &tx.old, &new, AtFlags::empty())?);
            }
            copy_entry(&mut self.copier, &parent, &step.target.name, &tx.old, new.as_ref())?;
            if self.one_by_one && before.kind == Kind::File {
                self.incomplete |= !flush::entry(&tx.old, new.as_str(), OFlags::empty())?;
            }
            if before.nlink > 1 {
                self.kept.insert(key, n);
            }
            Ok(())
        };
        copy().map_err(on("back up", path))?;
        match look(&*parent, &step.target.name).map_err(on("examine", path))? {
            Some(seen) => {
                // A further name that was staged for one of its names has moved the change time of all of them.
                let now = &seen.identity;
                let why = if before.nlink > 1 { before.changed(now) } else { before.difference(now) };
                why.map_or(Ok(()), |why| Err(Fault::changed(path, why)))
            }
            None => Err(Fault::changed(path, "does not exist any more")),
        }
    }

    fn directory(&mut self, tx: &mut Transaction, n: usize) -> Result<Identity, Fault> {
        let step = &tx.layout.steps[n];
        let path = step.path.as_path();
        let parent = directory_of(&mut tx.held, &step.temporary, path)?;
        let Some(wanted) = tx.header.plan.operations[n].attributes() else { return Err(on("stage", path)(Errno::INVAL)) };
        let complete = || -> io::Result<(Identity, Vec<String>)> {
            // It is still ours alone, so it can be opened.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(&*parent, &step.temporary.name, flags, Mode::empty())?;
            let lost = wanted.unmanaged.as_ref().map(|unmanaged| unmanaged.give(&opened)).transpose()?;
            Ok((self.complete(&opened, wanted)?, lost.unwrap_or_default()))
        };
        let (identity, lost) = complete().map_err(on("stage", path))?;
        self.lost.extend(lost.into_iter().map(|what| (path.to_owned(), format!("could not keep {what}"))));
        Ok(identity)
    }

    /// Further names of an inode change what it shows of itself.
    fn look_again(&self, tx: &mut Transaction) -> Result<(), Fault> {
        let mut linked: Vec<usize> = Vec::new();
        for n in &tx.layout.stage_entries {
            if let Some(Source::HardLink(_) | Source::Existing(_)) = tx.header.plan.operations[*n].source() {
                linked.extend([Some(*n), link_base(&tx.header.plan, *n)].into_iter().flatten());
            } else if let (Some(Source::Original(_)), Some(1..)) =
                (tx.header.plan.operations[*n].source(), tx.staged[*n].as_ref().map(|s| s.nlink))
            {
                linked.push(*n);
            }
        }
        for n in linked {
            let step = &tx.layout.steps[n];
            let parent = directory_of(&mut tx.held, &step.temporary, &step.path)?;
            if let Some(seen) = look(&*parent, &step.temporary.name).map_err(on("examine", &step.path))? {
                tx.staged[n] = Some(seen.identity);
            }
        }
        Ok(())
    }

    /// Everything that was made must be on the disk, and its name too, before the journal says that it can be relied on.
    fn flush(&mut self, tx: &mut Transaction) -> Result<(), Fault> {
        if self.one_by_one {
            let tops = tx.layout.published().map(|n| &tx.layout.steps[n].temporary).map(|s| (s.root, s.directory.clone()));
            let near = tx.layout.near.iter().map(|(root, path)| (*root, path.parent().map(Path::to_owned).unwrap_or_default()));
            for (root, path) in tops.chain(near).collect::<BTreeSet<_>>() {
                let absolute = tx.held.roots[root].path.join(&path);
                let directory = tx.held.directory(root, &path).map_err(|error| explain(error, &absolute))?;
                self.incomplete |= !flush::directory(&*directory).map_err(on("flush", &absolute))?;
            }
            if !tx.header.copied.is_empty() {
                flush::file(&tx.old).map_err(on("flush", &tx.store.path))?;
            }
        }
        if self.one_by_one && !self.incomplete { Ok(()) } else { flush::everything(&tx.held, &tx.store) }
    }
}

/// The kernel drops some bits without an error.
fn as_wanted(identity: &Identity, wanted: &Attributes) -> io::Result<()> {
    let same = (identity.uid, identity.gid, identity.mode) == (wanted.uid, wanted.gid, wanted.mode);
    if same { Ok(()) } else { Err(io::Error::other("the file system did not keep its owner or mode")) }
}

fn there(parent: &OwnedFd, name: &OsStr) -> io::Result<Identity> {
    Ok(look(parent, name)?.ok_or(Errno::NOENT)?.identity)
}

/// A further name for what another step has staged.
fn link(first: Option<&Step>, held: &mut Held, parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let spot = &first.ok_or(Errno::INVAL)?.temporary;
    let directory = held.directory(spot.root, &spot.directory)?;
    Ok(rustix::fs::linkat(&*directory, &spot.name, parent, name, AtFlags::empty())?)
}
