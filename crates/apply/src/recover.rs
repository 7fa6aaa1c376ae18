//! What is done about an apply that did not come to its end.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::backup::Store;
use crate::error::{ApplyError, Fault, on};
use crate::held::{Held, in_the_way};
use crate::journal::{Decider, Entry, Journal, Told};
use crate::layout::Role;
use crate::look::look;
use crate::roll_back::{Notes, Reached, roll_back};
use crate::transaction::{Transaction, Verdict};
use crate::turn::Turn;
use crate::{finish, forward};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is as it was before.
    RolledBack,
    /// Everything is as the plan said.
    RolledForward,
    /// It had come to its end already.
    WasDone,
    /// It had not begun.
    Nothing,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    pub outcome: Outcome,
    /// Of the plan; null if nothing had begun.
    pub about: Value,
    /// Paths that others changed meanwhile, and what was done about them.
    pub reported: Vec<(PathBuf, String)>,
}

/// Finishes an apply after a crash, in one direction or the other. Doing it again does nothing more.
///
/// Paths whose directory is not there, or is another one, cannot be decided about. All others are seen to, and the apply stays
/// unfinished: [`ApplyError::Interrupted`] names those paths, and a later recovery goes on with them.
pub fn recover(directory: &Path) -> Result<Recovered, ApplyError> {
    let mut decide = || Verdict::Unknown { why: "only the program that began it knows how it ends".to_owned() };
    recover_in(directory, None, &mut decide)
}

/// The roots of an apply that has begun, whether it has come to its end or not.
pub fn begun_in(directory: &Path) -> Result<Option<Vec<PathBuf>>, ApplyError> {
    Ok(Journal::peek(directory)?.map(|told| told.header.plan.roots))
}

/// The same, by a caller that has locked some of the roots, and that decides about an apply where [`Conduct::decide`] was to.
///
/// [`Conduct::decide`]: crate::Conduct::decide
pub fn recover_in(directory: &Path, turn: Option<&Turn>, decide: &mut dyn FnMut() -> Verdict) -> Result<Recovered, ApplyError> {
    // Read once to learn the roots, and again when nobody else can be at work.
    let roots = match Journal::peek(directory)? {
        None => return Ok(Recovered { outcome: Outcome::Nothing, about: Value::Null, reported: Vec::new() }),
        Some(told) => match finished(&told) {
            Some(recovered) => return Ok(recovered),
            None => told.header.plan.roots,
        },
    };
    let held = open_roots(&roots, directory)?;
    held.lock(turn)?;
    let Some((mut journal, told)) = Journal::open(directory)? else {
        return Ok(Recovered { outcome: Outcome::Nothing, about: Value::Null, reported: Vec::new() });
    };
    if let Some(recovered) = finished(&told) {
        return Ok(recovered);
    }
    for (root, ino) in held.roots.iter().zip(&told.header.roots) {
        if root.seen.identity.ino != *ino {
            return Err(ApplyError::RootGone { root: root.path.clone(), directory: directory.to_owned() });
        }
    }
    let (committed, mut aborted) = (told.committed, told.aborted);
    if committed && !aborted && !told.decided && told.header.decider == Decider::Caller {
        match decide() {
            Verdict::Forward => journal.append(&[Entry::Decided]).map_err(ApplyError::interrupted)?,
            Verdict::Back { why } => {
                journal.append(&[Entry::Abort { why }]).map_err(ApplyError::interrupted)?;
                aborted = true;
            }
            Verdict::Unknown { why } => return Err(ApplyError::Interrupted { why, unreachable: Vec::new() }),
        }
    }
    let about = told.header.plan.about.clone();
    let mut tx = transaction(told, held, directory)?;
    let interrupted = ApplyError::interrupted;
    if committed && !aborted {
        let (left, Notes { reported, unreachable }) = forward::forward(&mut tx).map_err(interrupted)?;
        if !unreachable.is_empty() {
            return Err(ApplyError::out_of_reach("", unreachable, &reported));
        }
        let done = finish::finish(&mut tx, &left, reported, &mut |_| {}).map_err(interrupted)?;
        let reported = done.reported.clone();
        journal.append(&[Entry::Done(done)]).map_err(interrupted)?;
        return Ok(Recovered { outcome: Outcome::RolledForward, about, reported });
    }
    if !aborted && was_swapped(&mut tx).map_err(interrupted)? {
        let why = "it says that nothing was swapped, but something was".to_owned();
        return Err(ApplyError::Journal { directory: directory.to_owned(), why });
    }
    let reached = if aborted { Reached::Swap } else { Reached::Staging };
    if reached == Reached::Swap {
        expect_parents(&mut tx);
    }
    let Notes { reported, unreachable } = roll_back(&mut tx, reached).map_err(interrupted)?;
    if !unreachable.is_empty() {
        return Err(ApplyError::out_of_reach("", unreachable, &reported));
    }
    journal.append(&[Entry::RolledBack(reported.clone())]).map_err(interrupted)?;
    Ok(Recovered { outcome: Outcome::RolledBack, about, reported })
}

fn finished(told: &Told) -> Option<Recovered> {
    let about = told.header.plan.about.clone();
    let done = told.done.as_ref().map(|d| (Outcome::WasDone, d.reported.clone()));
    let (outcome, reported) = done.or_else(|| told.rolled_back.clone().map(|r| (Outcome::RolledBack, r)))?;
    Some(Recovered { outcome, about, reported })
}

fn open_roots(roots: &[PathBuf], directory: &Path) -> Result<Held, ApplyError> {
    Held::open(roots).map_err(|mut faults| match faults.pop() {
        // Not mounted, perhaps. What would be found there instead is not what the journal speaks of.
        Some(Fault::Io { path, source, .. }) if in_the_way(&source).is_some() => {
            ApplyError::RootGone { root: path, directory: directory.to_owned() }
        }
        Some(fault) => fault.into(),
        None => ApplyError::RootGone { root: PathBuf::new(), directory: directory.to_owned() },
    })
}

fn transaction(told: Told, mut held: Held, directory: &Path) -> Result<Transaction, ApplyError> {
    let layout = told.header.layout().map_err(|problems| ApplyError::Journal {
        directory: directory.to_owned(),
        why: ApplyError::Problems(problems).to_string(),
    })?;
    let store = Store::open(directory)?;
    let old = store.part("old")?;
    held.add_stage(&store)?;
    let staged = told.staged.unwrap_or_else(|| vec![None; told.header.plan.operations.len()]);
    Ok(Transaction { layout, held, store, old, header: told.header, staged })
}

/// In another directory there is nothing to put back: what was swapped lies in the one that was there. A directory that was
/// itself removed may have been made anew.
fn expect_parents(tx: &mut Transaction) {
    let removed = tx.layout.removed();
    for parent in &tx.header.parents {
        if !removed.contains(&(parent.root, parent.path.clone())) {
            tx.held.expect(parent.root, &parent.path, parent.ino);
        }
    }
}

/// A journal that lost its last records must not make us delete the earlier versions that lie at temporary names.
fn was_swapped(tx: &mut Transaction) -> Result<bool, Fault> {
    for (n, step) in tx.layout.steps.iter().enumerate() {
        if !matches!(step.role, Role::Publish | Role::Remove) {
            continue;
        }
        let path = step.path.as_path();
        let mut see = |spot: &crate::layout::Spot| match tx.held.find(spot.root, &spot.directory).map_err(on("reach", path))? {
            Some(directory) => look(&*directory, &spot.name).map_err(on("examine", path)),
            None => Ok(None),
        };
        let (target, aside) = (see(&step.target)?, see(&step.temporary)?);
        let before = tx.header.plan.operations[n].before();
        let is = |identity: Option<&crate::plan::Identity>, seen: &Option<crate::look::Seen>| {
            identity.zip(seen.as_ref()).is_some_and(|(i, s)| i.same_inode(&s.identity))
        };
        let staged = tx.staged[n].as_ref();
        let swapped = match step.role {
            Role::Remove => aside.is_some(),
            _ => (is(staged, &target) && !is(before, &target)) || (is(before, &aside) && !is(staged, &aside)),
        };
        if swapped || tx.store.has_old(n)? && tx.header.copied.binary_search(&n).is_err() {
            return Ok(true);
        }
    }
    Ok(false)
}
