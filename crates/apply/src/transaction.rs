//! An apply from its beginning to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use whatif_sys::random;

use crate::backup::Store;
use crate::check::{Wanted, open_roots, survey};
use crate::error::{ApplyError, Fault, on};
use crate::fingerprint::Hash;
use crate::held::Held;
use crate::journal::{Decider, Entry, Header, Journal};
use crate::layout::Layout;
use crate::plan::{Change, Expected, Identity, Plan, Source};
use crate::roll_back::{Notes, Reached, roll_back};
use crate::turn::Turn;
use crate::{finish, stage, swap};

/// How far an apply has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub stage: Stage,
    pub done: usize,
    pub total: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Another apply is at work in the same tree.
    Waiting,
    /// New versions are made under temporary names.
    Staging,
    /// Names are swapped.
    Swapping,
    /// Earlier versions are put away.
    Finishing,
}

/// An apply that is done, on the disk, and can be undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// What is there now, by operation; `None` where nothing is.
    pub after: Vec<Option<Identity>>,
    /// What the content of that can be recognized by, by operation, where it was read.
    pub hashes: BTreeMap<usize, Hash>,
    /// What others did to a path in the last moment, if anything.
    pub reported: Vec<(PathBuf, String)>,
}

/// What all steps work with.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub layout: Layout,
    pub held: Held,
    pub store: Store,
    /// `old` in the store.
    pub old: OwnedFd,
    pub header: Header,
    /// New versions, by operation.
    pub staged: Vec<Option<Identity>>,
}

/// How the caller follows an apply and has a say in it.
#[expect(missing_debug_implementations, reason = "closures have nothing to show")]
pub struct Conduct<'a> {
    pub progress: &'a mut dyn FnMut(Progress),
    /// Asked until the commit record is written: from then on the apply is finished, whatever the answer would be.
    pub is_cancelled: &'a dyn Fn() -> bool,
    /// Roots that are locked already.
    pub turn: Option<&'a Turn>,
    /// Asked once everything is in place, if something outside of these roots belongs to the same transaction. Recovery asks again.
    pub decide: Option<&'a mut dyn FnMut() -> Verdict>,
}

/// What becomes of an apply whose files are in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Forward,
    /// Everything is put back.
    Back {
        why: String,
    },
    /// It stays as it is until a recovery knows.
    Unknown {
        why: String,
    },
}

/// [`apply_in`] for callers that neither wait for their turn nor change their mind.
pub fn apply(plan: &Plan, directory: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Applied, ApplyError> {
    apply_in(plan, directory, &mut Conduct { progress, is_cancelled: &|| false, turn: None, decide: None })
}

/// Makes all changes of the plan, or none. `directory` is a fresh, empty, private directory for journal and backups; what is in
/// it afterwards is needed for undoing, or, after [`ApplyError::Interrupted`] and [`ApplyError::Unsettled`], for
/// [`recover`](crate::recover).
pub fn apply_in(plan: &Plan, directory: &Path, conduct: &mut Conduct<'_>) -> Result<Applied, ApplyError> {
    match attempt(plan, directory, conduct, Wanted::Apart) {
        // A quota or an encryption that ends at a directory, or a directory that may not be moved to another one.
        Err(error) if cannot_be_moved(&error) => {
            Journal::discard(directory)?;
            attempt(&moved_once(plan), directory, conduct, Wanted::Beside)
        }
        other => other,
    }
}

/// Everything was put back because something could not be renamed from one directory to another.
fn cannot_be_moved(error: &ApplyError) -> bool {
    let ApplyError::Io { action: "publish" | "exchange" | "remove", source, .. } = error else { return false };
    matches!(Errno::from_io_error(source), Some(Errno::XDEV | Errno::ACCESS | Errno::PERM))
}

/// Moving something there and back changed its change time.
fn moved_once(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    for operation in &mut plan.operations {
        match &mut operation.expected {
            Expected::Present(identity) => identity.ctime = (0, 0),
            Expected::FurtherName(name) => name.identity.ctime = (0, 0),
            Expected::Absent => {}
        }
        if let Change::Put { source: Source::Existing(existing), .. } = &mut operation.change {
            existing.identity.ctime = (0, 0);
        }
    }
    plan
}

fn attempt(plan: &Plan, directory: &Path, conduct: &mut Conduct<'_>, wanted: Wanted) -> Result<Applied, ApplyError> {
    // 1. Nobody else applies in these roots, and nothing stands against the plan.
    let id = random::word::<8>().map_err(on("name", directory))?;
    let layout = Layout::of(plan, &id).map_err(ApplyError::Problems)?;
    let mut held = open_roots(plan)?;
    held.lock(conduct.turn)?;
    let store = Store::open(directory)?;
    let surveyed = survey(plan, &layout, &mut held, &store, wanted)?;

    // 2. The journal comes before the first temporary file, so none can be left behind that it does not know.
    let old = store.part("old")?;
    let roots = held.roots.iter().map(|r| r.seen.identity.ino).collect();
    let (xattrs, unmanaged) = (surveyed.xattrs, surveyed.unmanaged);
    let (parents, copied) = (surveyed.parents, surveyed.copied);
    held.add_stage(&store)?;
    let decider = if conduct.decide.is_some() { Decider::Caller } else { Decider::Journal };
    let (mut journal, header) =
        Journal::create(directory, Header { roots, xattrs, unmanaged, parents, copied, ..Header::new(id, plan, decider) })?;
    let staged = vec![None; plan.operations.len()];
    let layout = header.layout().map_err(ApplyError::Problems)?;
    let mut tx = Transaction { layout, held, store, old, header, staged };

    // 3. Everything is made and on the disk before the first name changes.
    let ready = stage::stage(&mut tx, plan, conduct).and_then(|lost| swap::still_as_expected(&mut tx).map(|()| lost));
    let ready = if (conduct.is_cancelled)() { Err(Fault::Cancelled) } else { ready };
    let lost = match ready {
        Ok(lost) => lost,
        Err(fault) => return Err(give_up(&mut tx, &mut journal, fault, Reached::Staging)),
    };
    if let Err(fault) = journal.append(&[Entry::Staged(tx.staged.clone()), Entry::Commit]) {
        return Err(give_up(&mut tx, &mut journal, fault, Reached::Swap));
    }

    // 4. Swap. What was found to be other than expected is put back, and all the rest with it.
    if let Err(fault) = swap::swap(&mut tx, conduct.progress).and_then(|()| swap::verify(&mut tx)) {
        return Err(give_up(&mut tx, &mut journal, fault, Reached::Swap));
    }

    // 5. What lies outside of the roots has the last word.
    if let Some(decide) = conduct.decide.as_mut() {
        let verdict = if (conduct.is_cancelled)() { Err(Fault::Cancelled) } else { Ok(decide()) };
        match verdict {
            Ok(Verdict::Forward) => journal.append(&[Entry::Decided]).map_err(ApplyError::unsettled)?,
            Ok(Verdict::Unknown { why }) => return Err(ApplyError::Interrupted { why, unreachable: Vec::new() }),
            // What was interrupted along with us failed for that.
            Ok(Verdict::Back { .. }) if (conduct.is_cancelled)() => {
                return Err(give_up(&mut tx, &mut journal, Fault::Cancelled, Reached::Swap));
            }
            Ok(Verdict::Back { why }) => return Err(give_up(&mut tx, &mut journal, Fault::Refused { why }, Reached::Swap)),
            Err(fault) => return Err(give_up(&mut tx, &mut journal, fault, Reached::Swap)),
        }
    }

    // 6. From here it only goes forward. What fails now is finished by recovery; it is not a success.
    let done = finish::finish(&mut tx, &BTreeSet::new(), lost, conduct.progress).map_err(ApplyError::unsettled)?;
    let (after, hashes, reported) = (done.after.clone(), done.hashes.clone(), done.reported.clone());
    journal.append(&[Entry::Done(done)]).map_err(ApplyError::unsettled)?;
    Ok(Applied { after, hashes, reported })
}

/// Puts everything back and says why. It goes through the directories that are held, whatever their names lead to now; what still
/// cannot be reached is left to recovery.
fn give_up(tx: &mut Transaction, journal: &mut Journal, fault: Fault, reached: Reached) -> ApplyError {
    let mut undo = || -> Result<Notes, Fault> {
        if reached == Reached::Swap {
            journal.append(&[Entry::Abort { why: fault.to_string() }])?;
        }
        let notes = roll_back(tx, reached)?;
        if notes.unreachable.is_empty() {
            journal.append(&[Entry::RolledBack(notes.reported.clone())])?;
        }
        Ok(notes)
    };
    match undo() {
        Ok(Notes { reported, unreachable }) if !unreachable.is_empty() => {
            ApplyError::out_of_reach(&format!("{fault}, and not everything could be put back"), unreachable, &reported)
        }
        Ok(Notes { reported, .. }) => match (fault, reported.first()) {
            (fault, None) => fault.into(),
            (fault, Some((path, what))) => {
                let why = format!("{fault}; everything was put back, but {} {what}", path.display());
                ApplyError::PutBack { path: path.clone(), why, reported }
            }
        },
        Err(second) => {
            let why = format!("{fault}, and undoing it failed: {second}");
            ApplyError::Interrupted { why, unreachable: Vec::new() }
        }
    }
}
