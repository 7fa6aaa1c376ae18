//! Gives the staged versions their names and takes names away. Each single change is one call of the kernel, looked at afterwards:
//! if what came out is not what was expected, it is put back at once.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;

use crate::attributes::{ACL, hold, set_acl, set_mode};
use crate::backup::names_in;
use crate::error::{Fault, on};
use crate::held::{Held, directory_of, explain};
use crate::layout::{Role, Spot, Step};
use crate::look::{Seen, look, look_at};
use crate::plan::{Attributes, Identity, Kind, Operation};
use crate::transaction::{Progress, Stage, Transaction};

/// How often somebody may come between.
const TRIES: usize = 1000;

/// Before the point of no return: everything must still be as it was reviewed.
pub(crate) fn still_as_expected(tx: &mut Transaction) -> Result<(), Fault> {
    for (operation, step) in tx.header.plan.operations.iter().zip(&tx.layout.steps) {
        if matches!(step.role, Role::Nested { .. }) {
            continue;
        }
        let parent = directory_of(&mut tx.held, &step.target, &step.path)?;
        let now = look_here(&parent, &step.target).map_err(on("examine", &step.path))?;
        match (operation.before(), now) {
            (None, None) => {}
            (None, Some(_)) => return Err(Fault::changed(&step.path, "exists now")),
            (Some(_), None) => return Err(Fault::changed(&step.path, "does not exist any more")),
            (Some(before), Some(now)) => {
                // Bringing a backup back gives its inode a further name, and another of its names may be among the targets.
                let why = if before.nlink > 1 { before.changed(&now.identity) } else { before.difference(&now.identity) };
                if let Some(why) = why {
                    return Err(Fault::changed(&step.path, why));
                }
            }
        }
    }
    for existing in tx.header.plan.operations.iter().filter_map(Operation::existing) {
        existing.still_there(&mut tx.held, &existing.absolute(&tx.header.plan.roots))?;
    }
    Ok(())
}

/// The entry at a spot; the root itself has no name.
pub(crate) fn look_here(parent: &OwnedFd, spot: &Spot) -> io::Result<Option<Seen>> {
    if spot.name.is_empty() { look_at(parent).map(Some) } else { look(parent, &spot.name) }
}

pub(crate) fn swap(tx: &mut Transaction, progress: &mut dyn FnMut(Progress)) -> Result<(), Fault> {
    let (steps, operations) = (&tx.layout.steps, &tx.header.plan.operations);
    let layout = &tx.layout;
    let total = layout.publish.len() + layout.remove.len() + layout.publish_over_directories.len() + layout.set_files.len();
    let mut done = 0;
    let mut count = || {
        done += 1;
        progress(Progress { stage: Stage::Swapping, done, total });
    };
    for n in &layout.publish {
        publish(&mut tx.held, &steps[*n], operations[*n].before(), tx.staged[*n].as_ref())?;
        count();
    }
    for n in layout.remove.iter().rev() {
        if let Some(before) = operations[*n].before() {
            unlock(&mut tx.held, &steps[*n], before)?;
        }
    }
    for n in &layout.remove {
        if let Some(before) = operations[*n].before() {
            remove(&mut tx.held, &steps[*n], before)?;
        }
        count();
    }
    for n in &layout.publish_over_directories {
        publish(&mut tx.held, &steps[*n], operations[*n].before(), tx.staged[*n].as_ref())?;
        count();
    }
    for n in &layout.set_files {
        if let (Some(before), Some(wanted)) = (operations[*n].before(), operations[*n].attributes()) {
            set_file(&mut tx.held, &steps[*n], before, wanted)?;
        }
        count();
    }
    Ok(())
}

/// The directories of a step: of its target, and of where its new version is staged.
pub(crate) struct Sides {
    pub target: Rc<OwnedFd>,
    pub aside: Rc<OwnedFd>,
}

impl Sides {
    fn of(held: &mut Held, step: &Step) -> Result<Self, Fault> {
        let target = directory_of(held, &step.target, &step.path)?;
        Ok(Self { target, aside: directory_of(held, &step.temporary, &step.path)? })
    }

    /// What lies at the target and what lies aside.
    pub(crate) fn look(&self, step: &Step) -> Result<(Option<Seen>, Option<Seen>), Fault> {
        let examine = || on("examine", &step.path);
        let target = look(&*self.target, &step.target.name).map_err(examine())?;
        Ok((target, look(&*self.aside, &step.temporary.name).map_err(examine())?))
    }

    /// From its temporary name to its own, or the other way round.
    fn publish(&self, step: &Step, flags: RenameFlags) -> rustix::io::Result<()> {
        rustix::fs::renameat_with(&*self.aside, &step.temporary.name, &*self.target, &step.target.name, flags)
    }
}

/// Gives a staged version its name.
pub(crate) fn publish(held: &mut Held, step: &Step, before: Option<&Identity>, staged: Option<&Identity>) -> Result<(), Fault> {
    let path = step.path.as_path();
    let sides = Sides::of(held, step)?;
    if let Some(staged) = staged {
        open_to_move(&sides.aside, &step.temporary, staged).map_err(on("publish", path))?;
    }
    let Some(before) = before else {
        return match sides.publish(step, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(Fault::changed(path, "exists now")),
            Err(errno) => Err(on("publish", path)(errno)),
        };
    };
    match sides.publish(step, RenameFlags::EXCHANGE) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Err(Fault::changed(path, "does not exist any more")),
        Err(errno) => return Err(on("exchange", path)(errno)),
    }
    let Some(why) = other_than(before, &sides.aside, &step.temporary).map_err(on("examine", path))? else { return Ok(()) };
    exchange_back(&sides, step, staged)?;
    Err(Fault::changed(path, why))
}

/// Only who may write to a directory may move it to another one. Its mode is put right when all names are swapped.
pub(crate) fn open_to_move(parent: &OwnedFd, spot: &Spot, identity: &Identity) -> io::Result<()> {
    if identity.kind != Kind::Directory || identity.mode & 0o200 != 0 {
        return Ok(());
    }
    let directory = hold(parent, &spot.name)?;
    let now = look_at(&directory)?.identity;
    if identity.same_inode(&now) && now.mode == identity.mode { set_mode(&directory, identity.mode | 0o200) } else { Ok(()) }
}

/// What came out is not ours to take. Somebody may replace what lies there even while it is put back; theirs is the newest then
/// and has to stay. So this goes on until what comes out is what was put there last.
pub(crate) fn exchange_back(sides: &Sides, step: &Step, staged: Option<&Identity>) -> Result<(), Fault> {
    let path = step.path.as_path();
    let aside = || look(&*sides.aside, &step.temporary.name).map(|seen| seen.map(|s| s.identity)).map_err(on("examine", path));
    if let Some(staged) = staged {
        open_to_move(&sides.target, &step.target, staged).map_err(on("restore", path))?;
    }
    let mut there = staged.cloned();
    for _ in 0..TRIES {
        let holding = aside()?;
        match sides.publish(step, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            Err(Errno::NOENT) => match sides.publish(step, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => continue,
                Err(errno) => return Err(on("restore", path)(errno)),
            },
            Err(errno) => return Err(on("restore", path)(errno)),
        }
        let out = aside()?;
        if there.zip(out).is_none_or(|(there, out)| there.changed_since_staged(&out).is_none()) {
            return Ok(());
        }
        there = holding;
    }
    Err(Fault::changed(path, "is being replaced all the time"))
}

/// Takes an entry away, to its temporary name.
pub(crate) fn remove(held: &mut Held, step: &Step, before: &Identity) -> Result<(), Fault> {
    let path = step.path.as_path();
    let parent = directory_of(held, &step.target, path)?;
    let aside = directory_of(held, &step.temporary, path)?;
    match rustix::fs::renameat_with(&*parent, &step.target.name, &*aside, &step.temporary.name, RenameFlags::NOREPLACE) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Err(Fault::changed(path, "does not exist any more")),
        // An overlay may be unable to rename a directory of its lower layer, and one that is not ours may not be moved.
        Err(Errno::XDEV | Errno::ACCESS) if before.kind == Kind::Directory => return remove_directory(&parent, step, before),
        Err(errno) => return Err(on("remove", path)(errno)),
    }
    let Some(why) = other_than(before, &aside, &step.temporary).map_err(on("examine", path))? else { return Ok(()) };
    rustix::fs::renameat_with(&*aside, &step.temporary.name, &*parent, &step.target.name, RenameFlags::NOREPLACE)
        .map_err(on("restore", path))?;
    Err(Fault::changed(path, why))
}

fn remove_directory(parent: &OwnedFd, step: &Step, before: &Identity) -> Result<(), Fault> {
    let path = step.path.as_path();
    if let Some(why) = other_than(before, parent, &step.target).map_err(on("examine", path))? {
        return Err(Fault::changed(path, why));
    }
    match rustix::fs::unlinkat(parent, &step.target.name, AtFlags::REMOVEDIR) {
        Ok(()) => Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Err(Fault::changed(path, "holds something that is not part of the change")),
        Err(Errno::NOENT | Errno::NOTDIR) => Err(Fault::changed(path, "does not exist any more")),
        Err(errno) => Err(on("remove", path)(errno)),
    }
}

/// A directory that goes may be one that its owner cannot write to. Its mode comes back with it if it does not go after all.
pub(crate) fn unlock(held: &mut Held, step: &Step, before: &Identity) -> Result<(), Fault> {
    if before.kind != Kind::Directory || before.mode & 0o700 == 0o700 || rustix::process::geteuid().as_raw() != before.uid {
        return Ok(());
    }
    let path = step.path.as_path();
    let parent = directory_of(held, &step.target, path)?;
    let directory = match hold(&*parent, &step.target.name) {
        Ok(directory) => directory,
        // Recovery comes here again.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(on("open", path)(error)),
    };
    if before.same_inode(&look_at(&directory).map_err(on("examine", path))?.identity) {
        set_mode(&directory, before.mode | 0o700).map_err(on("open", path))?;
    }
    Ok(())
}

/// Why what lies at `spot` is not what was there before; `None` if it is. A directory must be empty too.
pub(crate) fn other_than(before: &Identity, directory: &OwnedFd, spot: &Spot) -> io::Result<Option<&'static str>> {
    let Some(now) = look(directory, &spot.name)? else { return Ok(Some("disappeared while it was taken away")) };
    if before.kind == Kind::Directory && before.same_inode(&now.identity) {
        return Ok((!names_in(directory, &spot.name)?.is_empty()).then_some("holds something that is not part of the change"));
    }
    Ok(before.changed(&now.identity))
}

/// Changes the mode of a file, and the ACL that goes with it.
pub(crate) fn set_file(held: &mut Held, step: &Step, before: &Identity, wanted: &Attributes) -> Result<(), Fault> {
    let path = step.path.as_path();
    let parent = directory_of(held, &step.target, path)?;
    let file = hold(&*parent, &step.target.name).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Fault::changed(path, "does not exist any more"),
        _ => on("open", path)(error),
    })?;
    let now = look_at(&file).map_err(on("examine", path))?.identity;
    let allowed = Identity { mode: now.mode, ..before.clone() };
    if let Some(why) = allowed.changed(&now) {
        return Err(Fault::changed(path, why));
    }
    if now.nlink > 1 {
        return Err(Fault::changed(path, "has several names now"));
    }
    let acl = wanted.xattrs.iter().find(|(name, _)| name.as_encoded_bytes() == ACL).map(|(_, value)| value.as_slice());
    // Without one first: a mode would only change the mask of an ACL.
    let set = set_acl(&file, None).and_then(|()| set_mode(&file, wanted.mode));
    set.and_then(|()| acl.map_or(Ok(()), |acl| set_acl(&file, Some(acl)))).map_err(on("set the mode of", path))
}

/// After the swap: every path, found again from its root, leads to what was put there.
pub(crate) fn verify(tx: &mut Transaction) -> Result<(), Fault> {
    let mut last: Option<&Spot> = None;
    for (n, step) in tx.layout.steps.iter().enumerate() {
        if matches!(step.role, Role::Nested { .. }) {
            continue;
        }
        let (operation, path) = (&tx.header.plan.operations[n], step.path.as_path());
        // Neighbours share a directory; it is found again once.
        let again = last.is_none_or(|l| (l.root, &l.directory) != (step.target.root, &step.target.directory));
        last = Some(&step.target);
        let parent = match again {
            true => tx.held.directory_again(step.target.root, &step.target.directory),
            false => tx.held.directory(step.target.root, &step.target.directory),
        };
        let now = match parent {
            Ok(parent) => look_here(&parent, &step.target).map_err(on("examine", path))?,
            Err(error) if step.role == Role::Remove && gone(&error) => None,
            Err(error) => return Err(explain(error, path)),
        };
        let expected = match step.role {
            Role::Remove => None,
            Role::Set => operation.before(),
            _ => tx.staged[n].as_ref(),
        };
        match (expected, now) {
            (None, None) => {}
            (Some(expected), Some(now)) if expected.same_inode(&now.identity) => {}
            _ => return Err(Fault::changed(path, "was changed by another process")),
        }
    }
    Ok(())
}

/// The directory of what was removed was removed too, or became something else.
fn gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}
