//! After all names are swapped: earlier versions go to `old`, directories get their attributes, and what is there now is recorded.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, OFlags};
use rustix::io::Errno;

use crate::attributes::{hold, set_mode, settle, without_overwriting, xattrs};
use crate::backup::{move_out, remove_tree};
use crate::error::{Fault, on};
use crate::fingerprint::Fingerprints;
use crate::flush::{self, FEW};
use crate::further_name::is_further_name;
use crate::held::{directory_of, explain, in_the_way};
use crate::journal::Done;
use crate::layout::Role;
use crate::look::{look, look_at};
use crate::plan::{Identity, Kind, Operation, Source};
use crate::roll_back::clear_staging;
use crate::swap::look_here;
use crate::transaction::{Progress, Stage, Transaction};

/// `left` are operations that recovery could not do; they are not touched again. Can be repeated after a crash anywhere in it.
pub(crate) fn finish(
    tx: &mut Transaction,
    left: &BTreeSet<usize>,
    mut reported: Vec<(PathBuf, String)>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Done, Fault> {
    let going: Vec<usize> = tx.layout.published().chain(tx.layout.remove.iter().copied()).filter(|n| !left.contains(n)).collect();
    let total = going.len() + tx.layout.set_directories.len();
    for (done, n) in going.into_iter().enumerate() {
        put_away(tx, n, &mut reported)?;
        progress(Progress { stage: Stage::Finishing, done: done + 1, total });
    }
    for n in tx.layout.staged().collect::<Vec<_>>() {
        if !left.contains(&top_of(tx, n)) {
            consume(tx, n)?;
        }
    }
    clear_staging(tx, &mut reported)?;
    close_moved(tx, left)?;
    for n in tx.layout.set_directories.clone() {
        if !left.contains(&n) {
            set_directory(tx, n, &mut reported)?;
        }
    }
    let mut done = record(tx, left, &mut reported)?;
    flush_names(tx)?;
    (done.left, done.reported) = (left.iter().copied().collect(), reported);
    Ok(done)
}

/// New directories that had to be opened to be moved get their own mode.
fn close_moved(tx: &mut Transaction, left: &BTreeSet<usize>) -> Result<(), Fault> {
    for n in tx.layout.published().filter(|n| !left.contains(n)).collect::<Vec<_>>() {
        let Some(staged) = tx.staged[n].clone().filter(|s| s.kind == Kind::Directory && s.mode & 0o200 == 0) else { continue };
        let (step, path) = (tx.layout.steps[n].clone(), tx.layout.steps[n].path.clone());
        let found = tx.held.find(step.target.root, &step.target.directory).map_err(on("reach", &path))?;
        let Some(parent) = found else { continue };
        let directory = match hold(&*parent, &step.target.name) {
            Ok(directory) => directory,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(on("open", &path)(error)),
        };
        let now = look_at(&directory).map_err(on("examine", &path))?.identity;
        if staged.same_inode(&now) && now.mode == staged.mode | 0o200 {
            set_mode(&directory, staged.mode).map_err(on("set the mode of", &path))?;
        }
    }
    Ok(())
}

fn top_of(tx: &Transaction, n: usize) -> usize {
    if let Role::Nested { top } = tx.layout.steps[n].role { top } else { n }
}

/// Moves the earlier version from its temporary name to `old`.
fn put_away(tx: &mut Transaction, n: usize, reported: &mut Vec<(PathBuf, String)>) -> Result<(), Fault> {
    let step = &tx.layout.steps[n];
    let Some(before) = tx.header.plan.operations[n].before() else { return Ok(()) };
    let (path, name) = (step.path.as_path(), &step.temporary.name);
    let aside = match tx.held.directory(step.temporary.root, &step.temporary.directory) {
        Ok(aside) => aside,
        // Recovery comes here again, and everything in it was put away.
        Err(error) if error.kind() == ErrorKind::NotFound && step.is_apart => return Ok(()),
        Err(error) => return Err(explain(error, path)),
    };
    if before.kind == Kind::Directory {
        return match rustix::fs::unlinkat(&*aside, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(on("remove", path)(errno)),
        };
    }
    let stays_as = tx.header.plan.operations[n].stays_as().cloned();
    if let Some(existing) = &stays_as
        && let Some(seen) = look(&*aside, name).map_err(on("examine", path))?
        && existing.is_named(&mut tx.held, &seen.identity)
    {
        return rustix::fs::unlinkat(&*aside, name, AtFlags::empty()).map_err(on("remove", path));
    }
    if tx.header.copied.binary_search(&n).is_ok() {
        // A copy was made before. If somebody still had it open and wrote to it, it is made again.
        let now = look(&*aside, name).map_err(on("examine", path))?;
        if now.is_some_and(|now| before.changed(&now.identity).is_some()) {
            remove_tree(&tx.old, n.to_string().as_ref()).map_err(on("back up", path))?;
            return move_out(&aside, name, &tx.old, n).map_err(on("back up", path));
        }
        return match rustix::fs::unlinkat(&*aside, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(on("remove", path)(errno)),
        };
    }
    match move_out(&aside, name, &tx.old, n) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // Recovery comes here again.
            if stays_as.is_none() && !tx.store.has_old(n)? {
                reported.push((path.to_owned(), "has no backup: another process removed its earlier version".to_owned()));
            }
            Ok(())
        }
        Err(error) => Err(on("back up", path)(error)),
    }
}

/// The backup that was brought back has two names now; the one in the store of the earlier apply goes.
fn consume(tx: &Transaction, n: usize) -> Result<(), Fault> {
    let (Some(Source::Original(original)), Some(staged)) = (tx.header.plan.operations[n].source(), &tx.staged[n]) else {
        return Ok(());
    };
    match look(CWD, original).map_err(on("examine", original))? {
        Some(seen) if seen.identity.same_inode(staged) && seen.identity.nlink > 1 && seen.identity.dev == staged.dev => {
            rustix::fs::unlinkat(CWD, original, AtFlags::empty()).map_err(on("remove", original))
        }
        _ => Ok(()),
    }
}

fn set_directory(tx: &mut Transaction, n: usize, reported: &mut Vec<(PathBuf, String)>) -> Result<(), Fault> {
    let (step, operation) = (&tx.layout.steps[n], &tx.header.plan.operations[n]);
    let path = step.path.as_path();
    let (Some(before), Some(wanted)) = (operation.before(), operation.attributes()) else { return Ok(()) };
    let parent = directory_of(&mut tx.held, &step.target, path)?;
    let held;
    let directory = if step.target.name.is_empty() {
        &*parent
    } else {
        held = hold(&*parent, &step.target.name).map_err(on("open", path))?;
        &held
    };
    let now = look_at(directory).map_err(on("examine", path))?.identity;
    if !before.same_inode(&now) {
        reported.push((path.to_owned(), "was exchanged for another directory; its attributes were left as they are".to_owned()));
        return Ok(());
    }
    let set = || -> std::io::Result<bool> {
        let now = now.attributes(xattrs(directory)?);
        let before = before.attributes(tx.header.xattrs.get(&n).cloned().unwrap_or_else(|| now.xattrs.clone()));
        let (result, is_theirs) = without_overwriting(&before, &now, wanted);
        settle(directory, &result)?;
        Ok(is_theirs)
    };
    if set().map_err(on("set the attributes of", path))? {
        reported.push((path.to_owned(), "had its attributes changed by another process; they were left as they are".to_owned()));
    }
    Ok(())
}

/// What this apply puts at a path.
fn ours(operation: &Operation, role: Role, staged: Option<&Identity>) -> Option<Identity> {
    if role != Role::Set {
        return staged.cloned();
    }
    let (before, wanted) = (operation.before()?, operation.attributes()?);
    Some(Identity { mode: wanted.mode, uid: wanted.uid, gid: wanted.gid, ..before.clone() })
}

/// What an undo has to find in order to take it away: what is there now if that is what we put there. What somebody made of it
/// since is theirs, so ours is recorded, and an undo sees the difference. Follows the path: what they did.
fn left_there(now: Option<Identity>, ours: Option<Identity>) -> (Option<Identity>, Option<&'static str>) {
    match (now, ours) {
        (Some(now), Some(ours)) => match ours.changed(&now) {
            // Of a directory that stays, the kernel may not keep every bit; there is nothing in it that could get lost.
            Some(_) if ours.kind == Kind::Directory && ours.same_inode(&now) => (Some(now), None),
            Some(why) => (Some(ours), Some(why)),
            None => (Some(now), None),
        },
        (None, Some(ours)) => (Some(ours), Some("was removed")),
        (now, None) => (now, None),
    }
}

/// What is there now.
fn record(tx: &mut Transaction, left: &BTreeSet<usize>, reported: &mut Vec<(PathBuf, String)>) -> Result<Done, Fault> {
    let mut done = Done::default();
    let mut fingerprints = Fingerprints::new();
    for n in 0..tx.layout.steps.len() {
        let step = &tx.layout.steps[n];
        if left.contains(&top_of(tx, n)) {
            done.after.push(None);
            continue;
        }
        let plan = &tx.header.plan;
        // Nothing changes in a published tree but the number of names.
        let settled = matches!(step.role, Role::Nested { .. })
            && !matches!(plan.operations[n].source(), Some(Source::HardLink(_) | Source::Original(_) | Source::Existing(_)))
            && tx.staged[n].as_ref().is_some_and(|s| s.nlink == 1 || s.kind == Kind::Directory);
        let after = match step.role {
            Role::Remove => None,
            _ if settled => tx.staged[n].clone(),
            _ => {
                let parent = tx.held.directory(step.target.root, &step.target.directory);
                let now = match parent.and_then(|parent| look_here(&parent, &step.target)) {
                    Ok(now) => now.map(|seen| seen.identity),
                    // Somebody moved it away since; it is not ours any more.
                    Err(error) if in_the_way(&error).is_some() => None,
                    Err(error) => return Err(on("examine", &step.path)(error)),
                };
                let staged = tx.staged[n].as_ref();
                if let Some(existing) = plan.operations[n].existing().filter(|_| !is_further_name(plan, n, staged)) {
                    let why = format!("is a copy: {} could not get a further name", existing.absolute(&plan.roots).display());
                    reported.push((step.path.clone(), why));
                }
                let (after, why) = match now {
                    // An edit since then is one of a file that had a name before.
                    Some(now) if is_further_name(plan, n, Some(&now)) => (Some(now), None),
                    now => left_there(now, ours(&plan.operations[n], step.role, staged)),
                };
                reported.extend(why.map(|why| (step.path.clone(), format!("{why} since it was applied; that was left as it is"))));
                after
            }
        };
        if let Some(after) = after.as_ref().filter(|a| matches!(a.kind, Kind::File | Kind::Link))
            && let Ok(parent) = tx.held.directory(step.target.root, &step.target.directory)
            && let Some(hash) = fingerprints.take(&parent, &step.target.name, after)
        {
            done.hashes.insert(n, hash);
        }
        done.after.push(after);
    }
    for parent in &tx.header.parents {
        // Found again: the directory itself may be among what was removed.
        done.parents.push(match tx.held.directory_again(parent.root, &parent.path).and_then(look_at) {
            Ok(seen) => Some(seen.identity.mtime),
            Err(error) if in_the_way(&error).is_some() => {
                tx.held.forget(parent.root, &parent.path);
                None
            }
            Err(error) => return Err(on("examine", &parent.path)(error)),
        });
    }
    Ok(done)
}

fn flush_names(tx: &mut Transaction) -> Result<(), Fault> {
    let count = tx.header.parents.len() + tx.layout.set_directories.len() + tx.layout.set_files.len();
    let mut complete = count <= FEW;
    if complete {
        for parent in &tx.header.parents {
            let found = tx.held.find(parent.root, &parent.path).map_err(on("reach", &parent.path))?;
            let Some(descriptor) = found else { continue };
            complete &= flush::directory(&*descriptor).map_err(on("flush", &parent.path))?;
        }
        for n in tx.layout.set_directories.iter().chain(&tx.layout.set_files) {
            let step = &tx.layout.steps[*n];
            let found = tx.held.find(step.target.root, &step.target.directory).map_err(on("reach", &step.path))?;
            let Some(parent) = found else { continue };
            let flushed = match step.target.name.is_empty() {
                true => flush::directory(&*parent),
                false => flush::entry(&*parent, &step.target.name, OFlags::empty()),
            };
            complete &= flushed.map_err(on("flush", &step.path))?;
        }
        flush::file(&tx.old).map_err(on("flush", &tx.store.path))?;
    }
    if complete { Ok(()) } else { flush::everything(&tx.held, &tx.store) }
}
