//! Carries a committed apply through after a crash. Touches only what is as it was before or as it was staged; the rest is
//! reported and left, and our version of it kept in `unapplied`.

use std::collections::BTreeSet;
use std::ffi::OsString;

use rustix::fs::RenameFlags;
use rustix::io::Errno;

use crate::backup::move_out;
use crate::error::{Fault, on};
use crate::further_name::is_further_name;
use crate::held::Held;
use crate::layout::{Spot, Step};
use crate::look::{Seen, look};
use crate::plan::{Identity, Kind};
use crate::roll_back::{Notes, Unreachable, reach, set_aside, sides};
use crate::swap::{self, Sides, exchange_back, look_here, other_than};
use crate::transaction::Transaction;

/// Swaps what is not swapped yet. Returns the operations that were left.
pub(crate) fn forward(tx: &mut Transaction) -> Result<(BTreeSet<usize>, Notes), Fault> {
    let (mut left, mut notes) = (BTreeSet::new(), Notes::default());
    let mut note = |n: usize, outcome: Outcome, tx: &Transaction| match outcome {
        Outcome::Done => {}
        Outcome::Left(why) => {
            left.insert(n);
            notes.reported.push((tx.layout.steps[n].path.clone(), why));
        }
        Outcome::OutOfReach(why) => drop(notes.unreachable.insert(tx.layout.steps[n].path.clone(), why)),
    };
    for n in tx.layout.publish.clone() {
        let outcome = publish(tx, n)?;
        note(n, outcome, tx);
    }
    for n in tx.layout.remove.clone().into_iter().rev() {
        let (step, before) = (tx.layout.steps[n].clone(), tx.header.plan.operations[n].before().cloned());
        // Its own directory may be gone already, and then it is too.
        if let Some(before) = before
            && tx.held.find(step.target.root, &step.target.directory).map_err(on("reach", &step.path))?.is_some()
        {
            swap::unlock(&mut tx.held, &step, &before)?;
        }
    }
    for n in tx.layout.remove.clone() {
        let outcome = remove(tx, n)?;
        note(n, outcome, tx);
    }
    for n in tx.layout.publish_over_directories.clone() {
        let outcome = publish(tx, n)?;
        note(n, outcome, tx);
    }
    for n in tx.layout.set_files.clone().into_iter().chain(tx.layout.set_directories.clone()) {
        let outcome = set(tx, n)?;
        note(n, outcome, tx);
    }
    Ok((left, notes))
}

enum Outcome {
    Done,
    Left(String),
    OutOfReach(&'static str),
}

/// Where nothing is any more there is nothing to wait for.
fn not_reached(unreachable: &Unreachable) -> Outcome {
    match unreachable.gone {
        true => Outcome::Left(format!("{} now and was left as it is", unreachable.why)),
        false => Outcome::OutOfReach(unreachable.why),
    }
}

fn left(why: impl Into<String>) -> Outcome {
    Outcome::Left(why.into())
}

/// Something of somebody else is in the way of what this tells; `why` follows the path.
fn as_outcome(result: Result<(), Fault>) -> Result<Outcome, Fault> {
    match result {
        Ok(()) => Ok(Outcome::Done),
        Err(Fault::Changed { why, .. }) => Ok(Outcome::Left(why)),
        Err(fault) => Err(fault),
    }
}

fn publish(tx: &mut Transaction, n: usize) -> Result<Outcome, Fault> {
    let step = tx.layout.steps[n].clone();
    let sides = match sides(tx, &step, n)? {
        Ok(sides) => sides,
        Err(unreachable) => {
            if unreachable.gone {
                keep_aside(tx, n, &step)?;
            }
            return Ok(not_reached(&unreachable));
        }
    };
    let (target, aside) = sides.look(&step)?;
    let before = tx.header.plan.operations[n].before().cloned();
    let Some(staged) = tx.staged[n].clone() else { return Ok(left("was never staged")) };
    let is_staged = |seen: &Option<Seen>| seen.as_ref().is_some_and(|s| staged.same_inode(&s.identity));

    let spoilt = aside.as_ref().filter(|a| staged.same_inode(&a.identity)).and_then(|a| staged.changed_since_staged(&a.identity));
    let spoilt = spoilt.filter(|_| !is_further_name(&tx.header.plan, n, Some(&staged)));
    let outcome = match &before {
        _ if spoilt.is_some() => left("was left as it is: another process changed the new version before it was in place"),
        None if is_staged(&aside) && target.is_none() => publish_now(&mut tx.held, &step, None, &staged)?,
        None if is_staged(&aside) => left("exists now: another process created it"),
        None if is_staged(&target) => Outcome::Done,
        None if target.is_none() => left("is gone: another process removed the new version"),
        None => left("was replaced by another process"),
        Some(before) => over(tx, n, &step, &sides, before, &staged, (target, aside))?,
    };
    if let Outcome::Left(_) = outcome {
        // Only if it is ours; at this name may lie the version of before.
        if is_staged(&sides.look(&step)?.1) {
            set_aside(tx, n, &sides.aside, &step)?;
        }
    }
    Ok(outcome)
}

/// The directory of the target is gone, but not what lies aside: ours goes to `unapplied`, the version of before to `old`.
fn keep_aside(tx: &mut Transaction, n: usize, step: &Step) -> Result<(), Fault> {
    let Ok(aside) = reach(tx, &step.temporary, n)? else { return Ok(()) };
    let path = step.path.as_path();
    let Some(seen) = look(&*aside, &step.temporary.name).map_err(on("examine", path))? else { return Ok(()) };
    if tx.staged[n].as_ref().is_some_and(|staged| staged.same_inode(&seen.identity)) {
        return set_aside(tx, n, &aside, step);
    }
    move_out(&aside, &step.temporary.name, &tx.old, n).map_err(on("keep", path))
}

fn publish_now(held: &mut Held, step: &Step, before: Option<&Identity>, staged: &Identity) -> Result<Outcome, Fault> {
    as_outcome(swap::publish(held, step, before, Some(staged)))
}

/// What replaces something.
fn over(
    tx: &mut Transaction,
    n: usize,
    step: &Step,
    sides: &Sides,
    before: &Identity,
    staged: &Identity,
    (target, aside): (Option<Seen>, Option<Seen>),
) -> Result<Outcome, Fault> {
    let path = step.path.as_path();
    let is_staged = |seen: &Seen| staged.same_inode(&seen.identity);
    let is_before = |seen: &Seen| before.same_inode(&seen.identity);
    Ok(match (target, aside) {
        (Some(target), Some(aside)) if is_staged(&target) && !is_staged(&aside) => {
            // Perhaps the crash came before anybody looked at what the exchange brought out.
            match other_than(before, &sides.aside, &step.temporary).map_err(on("examine", path))? {
                None => Outcome::Done,
                Some(why) => {
                    exchange_back(sides, step, Some(staged))?;
                    left(why)
                }
            }
        }
        (Some(target), None) if is_staged(&target) => Outcome::Done,
        (Some(target), Some(aside)) if is_staged(&aside) => match before.changed(&target.identity) {
            None => publish_now(&mut tx.held, step, Some(before), staged)?,
            Some(why) => left(why),
        },
        (None, Some(aside)) if is_staged(&aside) => left("does not exist any more"),
        // Swapped, and then somebody did something to ours.
        (_, Some(aside)) if is_before(&aside) => Outcome::Done,
        (_, None) if is_put_away(tx, n)? => Outcome::Done,
        _ => left("was changed by another process"),
    })
}

fn remove(tx: &mut Transaction, n: usize) -> Result<Outcome, Fault> {
    let step = tx.layout.steps[n].clone();
    let path = step.path.as_path();
    let Some(before) = tx.header.plan.operations[n].before().cloned() else { return Ok(Outcome::Done) };
    // The directory of what was removed may be gone as well, so where it was put aside counts first.
    let aside = match reach(tx, &step.temporary, n)? {
        Ok(directory) => look(&*directory, &step.temporary.name).map_err(on("examine", path))?.map(|seen| (directory, seen)),
        // It was cleared away already, after everything in it.
        Err(unreachable) if unreachable.gone && step.is_apart => None,
        Err(unreachable) => return Ok(not_reached(&unreachable)),
    };
    let anchor = Spot { root: step.target.root, directory: step.anchor.clone(), name: OsString::new() };
    if let Err(unreachable) = reach(tx, &anchor, n)? {
        let is_taken = aside.as_ref().is_some_and(|(_, aside)| before.same_inode(&aside.identity));
        return Ok(if unreachable.gone && is_taken { Outcome::Done } else { not_reached(&unreachable) });
    }
    let parent = reach(tx, &step.target, n)?.ok();
    let target = match &parent {
        Some(parent) => look(&**parent, &step.target.name).map_err(on("examine", path))?,
        None => None,
    };
    match (target, aside) {
        (None, Some((directory, _))) => match other_than(&before, &directory, &step.temporary).map_err(on("examine", path))? {
            None => Ok(Outcome::Done),
            Some(why) => {
                if let Some(parent) = parent {
                    let back = RenameFlags::NOREPLACE;
                    match rustix::fs::renameat_with(&*directory, &step.temporary.name, &*parent, &step.target.name, back) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(on("restore", path)(errno)),
                    }
                }
                Ok(left(why))
            }
        },
        (Some(_), Some((_, aside))) if before.same_inode(&aside.identity) => Ok(Outcome::Done),
        (Some(_), Some(_)) => Ok(left("was changed by another process")),
        (Some(target), None) => match before.changed(&target.identity) {
            // Its mode may be our doing.
            Some(_) if before.kind == Kind::Directory && before.same_inode(&target.identity) => {
                as_outcome(swap::remove(&mut tx.held, &step, &before))
            }
            None => as_outcome(swap::remove(&mut tx.held, &step, &before)),
            Some(_) if is_put_away(tx, n)? => Ok(Outcome::Done),
            Some(why) => Ok(left(why)),
        },
        (None, None) if before.kind == Kind::Directory || is_put_away(tx, n)? => Ok(Outcome::Done),
        (None, None) => Ok(left("was removed by another process, so there is no backup of it")),
    }
}

/// Whether the version of before is where it goes in the end. A further name of a file that stays goes nowhere.
fn is_put_away(tx: &Transaction, n: usize) -> Result<bool, Fault> {
    Ok(tx.header.plan.operations[n].stays_as().is_some() || tx.store.has_old(n)?)
}

/// Only what has the attributes of before or the wanted ones, or some of each.
fn set(tx: &mut Transaction, n: usize) -> Result<Outcome, Fault> {
    let step = tx.layout.steps[n].clone();
    let parent = match reach(tx, &step.target, n)? {
        Ok(parent) => parent,
        Err(unreachable) => return Ok(not_reached(&unreachable)),
    };
    let operation = &tx.header.plan.operations[n];
    let (Some(before), Some(wanted)) = (operation.before(), operation.attributes()) else { return Ok(Outcome::Done) };
    let Some(now) = look_here(&parent, &step.target).map_err(on("examine", &step.path))? else {
        return Ok(left("does not exist any more"));
    };
    let now = now.identity;
    let known = |mode: u32| [before.mode, wanted.mode].iter().any(|m| mode == *m || mode == m & 0o1777 || mode == m | 0o200);
    if !before.same_inode(&now)
        || ![before.uid, wanted.uid].contains(&now.uid)
        || ![before.gid, wanted.gid].contains(&now.gid)
        || !known(now.mode)
    {
        return Ok(left("was changed by another process"));
    }
    if before.kind == Kind::Directory {
        // Finishing does it, when nothing has to be put into it any more.
        return Ok(Outcome::Done);
    }
    let (before, wanted) = (before.clone(), wanted.clone());
    as_outcome(swap::set_file(&mut tx.held, &step, &before, &wanted))
}
