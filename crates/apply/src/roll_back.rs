//! Puts everything back. Decides from what lies where: a crash can fall between a rename and anything that was written about it.
//!
//! Three things can lie at a name: the version of before, the one that was staged, or something of somebody else. Only the first
//! two are moved, and only the second is deleted. Repeating it after a crash anywhere in it is safe.

mod discard;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{AtFlags, Mode, RenameFlags};
use rustix::io::Errno;
use whatif_sys::absence::OrAbsent;

use crate::attributes::{ACL, hold, set_acl, set_mode, set_mtime, settle};
use crate::backup::{move_out, names_in, remove_tree};
use crate::content::open_file;
use crate::error::{Fault, on};
use crate::flush;
use crate::held::in_the_way;
use crate::layout::{IGNORE, Spot, Step};
use crate::look::{Seen, look, look_at};
use crate::plan::{Attributes, Identity, Kind};
use crate::swap::{Sides, exchange_back, open_to_move};
use crate::transaction::Transaction;

pub(crate) use discard::set_aside;

pub(crate) type Reported = Vec<(PathBuf, String)>;

/// How far it had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    Staging,
    /// Names may have been swapped.
    Swap,
}

/// What there is to say about paths, in words that follow them.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Others changed these.
    pub reported: Reported,
    /// Nothing could be done about these yet. As long as there are any it is not over.
    pub unreachable: BTreeMap<PathBuf, &'static str>,
}

/// Puts back whatever can be reached.
pub(crate) fn roll_back(tx: &mut Transaction, reached: Reached) -> Result<Notes, Fault> {
    let mut notes = Notes::default();
    if reached == Reached::Swap {
        unswap(tx, &mut notes)?;
    }
    for n in tx.layout.published().collect::<Vec<_>>() {
        discard::discard(tx, n, &mut notes)?;
    }
    if !notes.unreachable.is_empty() {
        // It is done again, so nothing is closed yet.
        return Ok(notes);
    }
    drop_copies(tx, reached)?;
    clear_staging(tx, &mut notes.reported)?;
    restore_times(tx)?;
    if reached == Reached::Swap {
        for n in tx.layout.remove.clone() {
            lock_again(tx, n)?;
        }
    }
    flush::everything(&tx.held, &tx.store)?;
    Ok(notes)
}

/// Removes the staging directories that lie near their targets. By now all that was staged in them is gone.
pub(crate) fn clear_staging(tx: &mut Transaction, reported: &mut Reported) -> Result<(), Fault> {
    for (root, path) in &tx.layout.near {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let absolute = tx.held.roots[*root].path.join(path);
        let Some(directory) = tx.held.find(*root, path).map_err(on("reach", &absolute))? else { continue };
        let Some(above) = tx.held.find(*root, above).map_err(on("reach", &absolute))? else { continue };
        // It may be the directory that git shall not look into for as long as there is anything in it.
        if names_in(&*above, name).map_err(on("list", &absolute))?.iter().any(|inner| inner != IGNORE.0) {
            reported.push((absolute, "holds something that is not part of the change and was left there".to_owned()));
            continue;
        }
        for outcome in
            [rustix::fs::unlinkat(&*directory, IGNORE.0, AtFlags::empty()), rustix::fs::unlinkat(&*above, name, AtFlags::REMOVEDIR)]
        {
            match outcome {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(on("remove", &absolute)(errno)),
            }
        }
        tx.held.forget(*root, path);
    }
    Ok(())
}

/// Copies of what is in its place again are needed by nobody. What is not is kept: this may be all there is of it.
fn drop_copies(tx: &mut Transaction, reached: Reached) -> Result<(), Fault> {
    for n in tx.header.copied.clone() {
        let step = tx.layout.steps[n].clone();
        let path = step.path.as_path();
        let before = tx.header.plan.operations[n].before().cloned();
        let is_back = match reach(tx, &step.target, n)? {
            Ok(parent) => look(&*parent, &step.target.name).map_err(on("examine", path))?,
            Err(_) => None,
        }
        .is_some_and(|now| before.as_ref().is_some_and(|before| before.same_inode(&now.identity)));
        // As long as nothing was swapped, whatever is there is its owner's doing.
        if is_back || reached == Reached::Staging {
            for name in [format!("{n}"), format!("{n}.part")] {
                remove_tree(&tx.old, name.as_ref()).map_err(on("remove the copy of", path))?;
            }
        }
    }
    Ok(())
}

/// In the reverse order of the swap.
fn unswap(tx: &mut Transaction, notes: &mut Notes) -> Result<(), Fault> {
    for n in tx.layout.set_files.clone().into_iter().rev() {
        unset_file(tx, n, notes)?;
    }
    for n in tx.layout.publish_over_directories.clone().into_iter().rev() {
        unpublish(tx, n, notes)?;
    }
    for n in tx.layout.remove.clone().into_iter().rev() {
        unremove(tx, n, notes)?;
    }
    for n in tx.layout.publish.clone().into_iter().rev() {
        unpublish(tx, n, notes)?;
    }
    Ok(())
}

/// Why the directory of a path cannot be reached.
pub(crate) struct Unreachable {
    /// Follows the path.
    pub why: &'static str,
    /// There is none, so what was in it may be gone for good.
    pub gone: bool,
}

/// The directory of a spot of a step.
pub(crate) fn reach(tx: &mut Transaction, spot: &Spot, step: usize) -> Result<Result<Rc<OwnedFd>, Unreachable>, Fault> {
    match tx.held.directory(spot.root, &spot.directory) {
        Ok(directory) => Ok(Ok(directory)),
        Err(error) => match in_the_way(&error) {
            Some(why) => Ok(Err(Unreachable { why, gone: error.kind() == io::ErrorKind::NotFound })),
            None => Err(on("reach", &tx.layout.steps[step].path)(error)),
        },
    }
}

/// Both directories of a step. A staging directory that was cleared away is not missed: nothing was left in it.
pub(crate) fn sides(tx: &mut Transaction, step: &Step, n: usize) -> Result<Result<Sides, Unreachable>, Fault> {
    let target = match reach(tx, &step.target, n)? {
        Ok(target) => target,
        Err(unreachable) => return Ok(Err(unreachable)),
    };
    Ok(match reach(tx, &step.temporary, n)? {
        Ok(aside) => Ok(Sides { target, aside }),
        Err(unreachable) => match tx.held.stage().filter(|_| unreachable.gone && step.is_apart) {
            // Another place of ours, where nothing has that name.
            Some(aside) => Ok(Sides { target, aside }),
            None => Err(unreachable),
        },
    })
}

impl Notes {
    /// The directory, if it can be reached; otherwise that is noted.
    fn reach(&mut self, tx: &mut Transaction, spot: &Spot, step: usize) -> Result<Option<Rc<OwnedFd>>, Fault> {
        let reached = reach(tx, spot, step)?;
        Ok(reached.map_err(|unreachable| self.unreachable.insert(tx.layout.steps[step].path.clone(), unreachable.why)).ok())
    }
}

fn unpublish(tx: &mut Transaction, n: usize, notes: &mut Notes) -> Result<(), Fault> {
    let step = tx.layout.steps[n].clone();
    let path = step.path.as_path();
    let sides = match sides(tx, &step, n)? {
        Ok(sides) => sides,
        Err(unreachable) => {
            notes.unreachable.insert(path.to_owned(), unreachable.why);
            return Ok(());
        }
    };
    let (target, aside) = sides.look(&step)?;
    let staged = tx.staged[n].as_ref();
    let is_staged = |seen: &Seen| staged.is_some_and(|s| s.same_inode(&seen.identity));
    let Some(before) = tx.header.plan.operations[n].before() else {
        let (Some(target), None, Some(staged)) = (target, aside, staged) else { return Ok(()) };
        if !is_staged(&target) {
            return Ok(());
        }
        if let Some(why) = staged.changed_since_staged(&target.identity) {
            notes.reported.push((path.to_owned(), format!("{why} since it was made, so it was left there")));
            return Ok(());
        }
        return open_to_move(&sides.target, &step.target, staged)
            .and_then(|()| rename(&sides.target, &step.target.name, &sides.aside, &step.temporary.name))
            .map_err(on("take back", path));
    };
    match (target, aside) {
        // Whatever came out of the exchange goes back, ours or not.
        (Some(target), Some(aside)) if is_staged(&target) && !is_staged(&aside) => {
            if let Some(why) = staged.and_then(|s| s.changed_since_staged(&target.identity)) {
                notes.reported.push((path.to_owned(), format!("{why} since it was made; that version is in 'unapplied'")));
            }
            exchange_back(&sides, &step, staged)
        }
        (None, Some(aside)) if before.same_inode(&aside.identity) => {
            notes.reported.push((path.to_owned(), "was removed by another process; the earlier version is back".to_owned()));
            rename(&sides.aside, &step.temporary.name, &sides.target, &step.target.name).map_err(on("restore", path))
        }
        (Some(_), Some(aside)) if before.same_inode(&aside.identity) && !same(staged, &aside) => {
            if before.kind != Kind::Directory {
                notes
                    .reported
                    .push((path.to_owned(), "was replaced by another process; the earlier version is kept in 'old'".to_owned()));
                move_out(&sides.aside, &step.temporary.name, &tx.old, n).map_err(on("keep", path))?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn same(identity: Option<&Identity>, seen: &Seen) -> bool {
    identity.is_some_and(|i| i.same_inode(&seen.identity))
}

fn unremove(tx: &mut Transaction, n: usize, notes: &mut Notes) -> Result<(), Fault> {
    let step = tx.layout.steps[n].clone();
    let path = step.path.as_path();
    let aside_directory = match reach(tx, &step.temporary, n)? {
        Ok(directory) => directory,
        // Cleared away: everything that was in it is back.
        Err(unreachable) if unreachable.gone && step.is_apart => return Ok(()),
        Err(unreachable) => {
            notes.unreachable.insert(path.to_owned(), unreachable.why);
            return Ok(());
        }
    };
    let Some(parent) = notes.reach(tx, &step.target, n)? else { return Ok(()) };
    let before = tx.header.plan.operations[n].before();
    if let Some(before) = before.filter(|b| b.kind == Kind::Directory) {
        let xattrs = tx.header.xattrs.get(&n).cloned().unwrap_or_default();
        let wanted = Attributes { unmanaged: tx.header.unmanaged.get(&n).cloned(), ..before.attributes(xattrs) };
        let (anew, lost) = unremove_directory(&step, before, wanted, &aside_directory, &parent).map_err(on("restore", path))?;
        notes.reported.extend(lost.into_iter().map(|what| (path.to_owned(), format!("could not keep {what}"))));
        if anew {
            tx.held.forget(step.target.root, &step.target.directory.join(&step.target.name));
        }
        return Ok(());
    }
    let Some(aside) = look(&*aside_directory, &step.temporary.name).map_err(on("examine", path))? else { return Ok(()) };
    match rename(&aside_directory, &step.temporary.name, &parent, &step.target.name) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && aside.identity.kind != Kind::Directory => {
            notes
                .reported
                .push((path.to_owned(), "was created again by another process; the earlier version is kept in 'old'".to_owned()));
            move_out(&aside_directory, &step.temporary.name, &tx.old, n).map_err(on("keep", path))
        }
        Err(error) => Err(on("restore", path)(error)),
    }
}

/// The directory itself comes back, or one like it if it could not be kept. Says whether it is another one, and what that lacks.
fn unremove_directory(
    step: &Step,
    before: &Identity,
    wanted: Attributes,
    aside: &OwnedFd,
    parent: &OwnedFd,
) -> io::Result<(bool, Vec<String>)> {
    let mut lost = Vec::new();
    if look(parent, &step.target.name)?.is_none() {
        match rustix::fs::mkdirat(aside, &step.temporary.name, Mode::RWXU) {
            Ok(()) => {
                let open = Attributes { mode: before.mode | 0o700, ..wanted };
                if let Some(unmanaged) = &open.unmanaged {
                    lost = unmanaged.give(&open_file(aside, &step.temporary.name)?)?;
                }
                settle(&hold(aside, &step.temporary.name)?, &open)?;
            }
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        rename(aside, &step.temporary.name, parent, &step.target.name)?;
    }
    Ok((!look(parent, &step.target.name)?.is_some_and(|now| before.same_inode(&now.identity)), lost))
}

/// A directory that was opened for what was in it, when all that is back.
fn lock_again(tx: &mut Transaction, n: usize) -> Result<(), Fault> {
    let (step, before) = (&tx.layout.steps[n], tx.header.plan.operations[n].before());
    let Some(before) = before.filter(|b| b.kind == Kind::Directory && b.mode & 0o700 != 0o700) else { return Ok(()) };
    let path = step.path.as_path();
    let found = tx.held.find(step.target.root, &step.target.directory).map_err(on("reach", path))?;
    let Some(parent) = found else { return Ok(()) };
    let Some(directory) = hold(&*parent, &step.target.name).or_absent().map_err(on("open", path))? else { return Ok(()) };
    let now = look_at(&directory).map_err(on("examine", path))?.identity;
    if now.kind == Kind::Directory && now.uid == before.uid && now.mode == before.mode | 0o700 {
        set_mode(&directory, before.mode).map_err(on("restore the mode of", path))?;
    }
    Ok(())
}

fn rename(from: &OwnedFd, name: &OsStr, to: &OwnedFd, new: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::renameat_with(from, name, to, new, RenameFlags::NOREPLACE)?)
}

fn unset_file(tx: &mut Transaction, n: usize, notes: &mut Notes) -> Result<(), Fault> {
    let step = tx.layout.steps[n].clone();
    let path = step.path.as_path();
    let Some(parent) = notes.reach(tx, &step.target, n)? else { return Ok(()) };
    let operation = &tx.header.plan.operations[n];
    let (Some(before), Some(wanted)) = (operation.before(), operation.attributes()) else { return Ok(()) };
    let file = match hold(&*parent, &step.target.name) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(on("open", path)(error)),
    };
    let now = look_at(&file).map_err(on("examine", path))?.identity;
    if !before.same_inode(&now) || (now.mode != wanted.mode && now.mode != before.mode) {
        return Ok(());
    }
    let acl =
        tx.header.xattrs.get(&n).and_then(|x| x.iter().find(|(name, _)| name.as_encoded_bytes() == ACL)).map(|(_, v)| v.as_slice());
    let set = set_acl(&file, None).and_then(|()| set_mode(&file, before.mode));
    set.and_then(|()| acl.map_or(Ok(()), |acl| set_acl(&file, Some(acl)))).map_err(on("restore the mode of", path))
}

/// Directories in which names came and went have their times again.
fn restore_times(tx: &mut Transaction) -> Result<(), Fault> {
    let removed = tx.layout.removed();
    for parent in &tx.header.parents {
        let absolute = tx_path(&tx.held.roots, parent.root, &parent.path);
        let Some(directory) = tx.held.find(parent.root, &parent.path).map_err(on("reach", &absolute))? else { continue };
        let now = look_at(&*directory).map_err(on("examine", &absolute))?;
        let same = now.identity.ino == parent.ino || removed.contains(&(parent.root, parent.path.clone()));
        if same && now.identity.mtime != parent.mtime {
            match set_mtime(&*directory, parent.mtime) {
                // It is somebody else's directory, and its times are not ours to set.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                other => other.map_err(on("restore the time of", &absolute))?,
            }
        }
    }
    Ok(())
}

fn tx_path(roots: &[crate::held::Root], root: usize, path: &Path) -> PathBuf {
    roots.get(root).map_or_else(|| path.to_owned(), |r| r.path.join(path))
}
