//! Throws away what was staged.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, CWD, RenameFlags};
use rustix::io::Errno;
use whatif_sys::absence::OrAbsent;

use super::{Notes, reach};
use crate::attributes::{hold, set_mode};
use crate::backup::move_out;
use crate::error::{Fault, on};
use crate::further_name::is_further_name;
use crate::layout::Step;
use crate::look::look;
use crate::plan::{Kind, Source};
use crate::transaction::Transaction;

/// Removes what was staged. What somebody put into a staged directory while it was in its place is not ours, and stays there.
pub(super) fn discard(tx: &mut Transaction, n: usize, notes: &mut Notes) -> Result<(), Fault> {
    let step = tx.layout.steps[n].clone();
    let path = step.path.as_path();
    if notes.unreachable.contains_key(path) {
        // What lies aside may still have to go back there.
        return Ok(());
    }
    let parent = match reach(tx, &step.temporary, n)? {
        Ok(parent) => parent,
        Err(unreachable) => {
            // If there is no directory, what was staged in it went with it. Whether that matters was decided before.
            if !unreachable.gone {
                notes.unreachable.insert(path.to_owned(), unreachable.why);
            }
            return Ok(());
        }
    };
    let Some(aside) = look(&*parent, &step.temporary.name).map_err(on("examine", path))? else { return Ok(()) };
    let before = tx.header.plan.operations[n].before();
    let original = matches!(tx.header.plan.operations[n].source(), Some(Source::Original(_)));
    // The name alone is enough only as long as nothing can have been swapped.
    let ours = match &tx.staged[n] {
        Some(staged) => staged.same_inode(&aside.identity),
        None => !before.is_some_and(|b| b.same_inode(&aside.identity)) || original,
    };
    if !ours {
        // Somebody replaced ours in the moment in which theirs was put back: this is what they replaced.
        notes
            .reported
            .push((path.to_owned(), "was replaced by another process; a version before that is kept with the backups".to_owned()));
        return match move_out(&parent, &step.temporary.name, &tx.old, n) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => set_aside(tx, n, &parent, &step),
            result => result.map_err(on("keep", path)),
        };
    }
    let is_only_a_name = is_further_name(&tx.header.plan, n, tx.staged[n].as_ref());
    if !is_only_a_name && tx.staged[n].as_ref().is_some_and(|s| s.changed_since_staged(&aside.identity).is_some()) {
        return set_aside(tx, n, &parent, &step);
    }
    if give_back(tx, n, &parent)? {
        return Ok(());
    }
    if aside.identity.kind != Kind::Directory {
        return unlink(&parent, &step.temporary.name, AtFlags::empty()).map(|_| ()).map_err(on("remove", path));
    }
    if remove_staged_tree(tx, n, &parent)? {
        return Ok(());
    }
    // Those within first, while they can be reached.
    let within = staged_directories(tx, n);
    for inner in within.into_iter().rev() {
        restore_mode(tx, inner)?;
    }
    return_to_others(tx, n, &parent, notes)
}

/// A directory with what others put into it, or changed in it, is theirs by now. Where its place is not free it is kept.
fn return_to_others(tx: &mut Transaction, n: usize, parent: &OwnedFd, notes: &mut Notes) -> Result<(), Fault> {
    let step = tx.layout.steps[n].clone();
    let path = step.path.as_path();
    if tx.header.plan.operations[n].before().is_none()
        && let Ok(target) = reach(tx, &step.target, n)?
    {
        match rustix::fs::renameat_with(parent, &step.temporary.name, &*target, &step.target.name, RenameFlags::NOREPLACE) {
            Ok(()) => {
                if let Some(attributes) = tx.header.plan.operations[n].attributes() {
                    let directory = hold(&*target, &step.target.name).map_err(on("open", path))?;
                    set_mode(&directory, attributes.mode).map_err(on("restore the mode of", path))?;
                }
                let why = "contains files added or changed since, and was left in place";
                notes.reported.push((path.to_owned(), why.to_owned()));
                return Ok(());
            }
            Err(Errno::EXIST | Errno::NOTEMPTY) => {}
            Err(errno) => return Err(on("put back", path)(errno)),
        }
    }
    let why = "contained files added or changed since; they are in 'unapplied'";
    notes.reported.push((path.to_owned(), why.to_owned()));
    set_aside(tx, n, parent, &step)
}

/// A backup that could only be moved here goes back to where it is kept. `false` if what is here is something else.
fn give_back(tx: &Transaction, n: usize, parent: &OwnedFd) -> Result<bool, Fault> {
    let Some(Source::Original(original)) = tx.header.plan.operations[n].source() else { return Ok(false) };
    let step = &tx.layout.steps[n];
    if look(CWD, original).map_err(on("examine", original))?.is_some() {
        return Ok(false);
    }
    match rustix::fs::renameat_with(parent, &step.temporary.name, CWD, original, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(errno) => Err(on("put back the backup of", &step.path)(errno)),
    }
}

/// Keeps what was staged in `unapplied`.
pub(crate) fn set_aside(tx: &Transaction, n: usize, parent: &OwnedFd, step: &Step) -> Result<(), Fault> {
    let unapplied = tx.store.part("unapplied")?;
    match move_out(parent, &step.temporary.name, &unapplied, n) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(on("keep", &step.path)(error)),
    }
}

/// Only what the plan put there, inner first. `false` if something else is in it.
fn remove_staged_tree(tx: &mut Transaction, top: usize, parent: &OwnedFd) -> Result<bool, Fault> {
    // A directory may have got a mode already that does not let us in.
    let directories = staged_directories(tx, top);
    for n in [top].iter().chain(&directories) {
        if closed_mode(tx, *n).is_some() {
            give_mode(tx, *n, 0o700)?;
        }
    }
    let mut complete = true;
    let inner = tx.layout.nested.get(&top).cloned().unwrap_or_default();
    let mut order: Vec<usize> = inner.into_iter().filter(|n| !is_directory(tx, *n)).collect();
    order.extend(directories.into_iter().rev());
    for n in &order {
        let step = &tx.layout.steps[*n];
        let found = tx.held.find(step.temporary.root, &step.temporary.directory).map_err(on("reach", &step.path))?;
        let Some(directory) = found else { continue };
        let now = look(&*directory, &step.temporary.name).map_err(on("examine", &step.path))?;
        let changed = match (&tx.staged[*n], &now) {
            (Some(staged), Some(_)) if is_further_name(&tx.header.plan, *n, Some(staged)) => false,
            (Some(staged), Some(now)) if !is_directory(tx, *n) => staged.changed(&now.identity).is_some(),
            _ => false,
        };
        if changed {
            complete = false;
            continue;
        }
        if now.is_some() && give_back(tx, *n, &directory)? {
            continue;
        }
        let flags = if is_directory(tx, *n) { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        complete &= unlink(&directory, &step.temporary.name, flags).map_err(on("remove", &step.path))?;
    }
    let step = &tx.layout.steps[top];
    Ok(complete && unlink(parent, &step.temporary.name, AtFlags::REMOVEDIR).map_err(on("remove", &step.path))?)
}

fn is_directory(tx: &Transaction, n: usize) -> bool {
    tx.header.plan.operations[n].source() == Some(&Source::Directory)
}

/// Those within a staged directory, outer first.
fn staged_directories(tx: &Transaction, top: usize) -> Vec<usize> {
    tx.layout.nested.get(&top).into_iter().flatten().copied().filter(|n| is_directory(tx, *n)).collect()
}

/// The mode that it is to have, if that keeps us out.
fn closed_mode(tx: &Transaction, n: usize) -> Option<u32> {
    tx.header.plan.operations[n].attributes().map(|attributes| attributes.mode).filter(|mode| mode & 0o700 != 0o700)
}

/// A directory that stays is as it was made, not as it was opened to be emptied.
fn restore_mode(tx: &mut Transaction, n: usize) -> Result<(), Fault> {
    closed_mode(tx, n).map_or(Ok(()), |mode| give_mode(tx, n, mode))
}

/// If the directory is still there.
fn give_mode(tx: &mut Transaction, n: usize, mode: u32) -> Result<(), Fault> {
    let step = &tx.layout.steps[n];
    let found = tx.held.find(step.temporary.root, &step.temporary.directory).map_err(on("reach", &step.path))?;
    let Some(directory) = found else { return Ok(()) };
    match hold(&*directory, &step.temporary.name).or_absent().map_err(on("open", &step.path))? {
        Some(held) => set_mode(&held, mode).map_err(on("change the mode of", &step.path)),
        None => Ok(()),
    }
}

/// `false` if there is something else now, or something in it.
fn unlink(directory: &OwnedFd, name: &OsStr, flags: AtFlags) -> io::Result<bool> {
    match rustix::fs::unlinkat(directory, name, flags) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST | Errno::ISDIR | Errno::NOTDIR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
