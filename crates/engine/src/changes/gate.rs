//! The one way into reality: a plan, an approval, the checks, then the transaction.
//!
//! A client supplies who answers and who watches. It decides nothing: what makes a plan real is not to be had outside of the engine.

use std::cell::RefCell;

use whatif_apply::Progress;

use crate::EngineError;
use crate::changes::apply::{Applied, ApplyError, ApplyRequest, ByReason, Prepared, Reason, Watch};
use crate::changes::checks::CheckResult;
use crate::changes::commit::{CommitOptions, Committed};
use crate::changes::undo::{PreparedUndo, UndoRequest};
use crate::changes::{Changes, ChangesError};

/// An apply that was approved beforehand is planned again if reality moves between its plan and its first step.
const MOST_PLANS: usize = 3;

/// Who answers for whoever wants something to be real.
pub trait Approver {
    /// `None` if nobody can be asked.
    fn answer(&mut self, question: Question<'_>) -> Option<bool>;

    /// What an earlier apply left unfinished in the same trees, and what became of it.
    fn note(&mut self, note: &str);

    /// A check has ended. One that is required and failed ends the apply.
    fn checked(&mut self, result: &CheckResult);
}

/// Who follows a transaction, and may stop it.
pub trait Follower {
    fn progress(&mut self, progress: Progress);

    /// Nothing is under way for a while: there is something to say or to ask.
    fn pauses(&mut self);

    /// Until now there was nothing to put back. From here on there is, and a transaction that is stopped comes to a good end first.
    fn commences(&mut self);

    /// Once it is, a transaction that is not committed is taken back. One that is committed is finished.
    fn is_cancelled(&mut self) -> bool;
}

/// What has to be answered before anything becomes real.
#[derive(Clone, Copy, Debug)]
pub enum Question<'a> {
    /// Whether to take what needs its own approval as well: so many changes.
    Risky(&'a Prepared, usize),
    Apply(&'a Prepared),
    Undo(&'a PreparedUndo),
}

/// What shall become real, and on whose word.
#[derive(Clone, Debug)]
pub struct ApplyWish {
    pub request: ApplyRequest,
    /// Whoever asks approves of whatever this makes real. What needs its own approval they have to name all the same.
    pub is_approved: bool,
    /// Whether the configured checks run first.
    pub is_checked: bool,
    pub commit: Option<CommitOptions>,
}

/// How an apply ended, if nothing failed.
#[derive(Debug)]
pub enum Made {
    Applied(Box<MadeReal>),
    /// There was nothing to do.
    Nothing(Box<Prepared>),
    /// Nothing was written: reality and the sandbox disagree.
    Conflicts(Box<Prepared>),
    /// The answer was no.
    Declined,
}

#[derive(Debug)]
pub struct MadeReal {
    pub applied: Applied,
    pub committed: Option<Committed>,
    pub left_out: ByReason,
}

impl MadeReal {
    /// Whether it was all but what is never taken by itself: ignored files, and what lies outside the project.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.left_out.keys().all(|(reason, _)| matches!(reason, Reason::Ignored | Reason::Outside))
    }
}

/// What would become real.
#[derive(Debug)]
pub struct Planned {
    pub prepared: Prepared,
    /// How many files would be committed, if that was asked for.
    pub to_commit: Option<usize>,
}

/// What shall be taken back, and on whose word.
#[derive(Clone, Debug, Default)]
pub struct UndoWish {
    pub request: UndoRequest,
    pub is_approved: bool,
}

/// How an undo ended, if nothing failed.
#[derive(Debug)]
pub enum TakenBack {
    Undone(Box<Undone>),
    /// The answer was no.
    Declined,
}

#[derive(Debug)]
pub struct Undone {
    pub prepared: PreparedUndo,
    /// What others did to a path in the last moment, and who does not see it yet.
    pub notes: Vec<String>,
}

/// What became of a plan that somebody was asked about.
enum Asked {
    Approved(Prepared),
    Conflicts(Prepared),
    Declined,
}

impl Changes {
    /// `whatif apply --dry-run`: the plan, checked as far as that is possible without writing. Conflicts are part of it.
    pub fn plan_apply(&self, wish: &ApplyWish) -> Result<Planned, EngineError> {
        let prepared = self.prepare_apply(&wish.request)?;
        if !prepared.conflicts.is_empty() {
            return Ok(Planned { prepared, to_commit: None });
        }
        if !prepared.is_empty() {
            self.check_apply(&prepared)?;
        }
        let to_commit = match wish.commit {
            Some(_) => Some(self.check_commit(&self.prepare_commit(prepared.project())?, &prepared)?),
            None => None,
        };
        Ok(Planned { prepared, to_commit })
    }

    /// `whatif apply`. Whatever fails, reality is then as it was before or as it is to be, never between.
    pub fn make_real(
        &self,
        wish: &ApplyWish,
        approver: &mut dyn Approver,
        follower: &mut dyn Follower,
    ) -> Result<Made, EngineError> {
        for _ in 1..MOST_PLANS {
            match self.make_real_once(wish, approver, follower) {
                Err(EngineError::Changes(ChangesError::Apply(error))) if wish.is_approved && has_moved(&error) => {}
                other => return other,
            }
        }
        self.make_real_once(wish, approver, follower)
    }

    fn make_real_once(
        &self,
        wish: &ApplyWish,
        approver: &mut dyn Approver,
        follower: &mut dyn Follower,
    ) -> Result<Made, EngineError> {
        // Nobody is asked, so nothing has to come between the plan and the apply. Checks may take long, and others need not wait.
        let is_at_once = wish.is_approved && !(wish.is_checked && self.has_checks(&wish.request)?);
        let prepared = match is_at_once {
            true => followed(follower, |watch| self.prepare_apply_in_turn(&wish.request, watch))?,
            false => self.prepare_apply(&wish.request)?,
        };
        prepared.notes().iter().for_each(|note| approver.note(note));
        if !prepared.conflicts.is_empty() {
            return Ok(Made::Conflicts(Box::new(prepared)));
        }
        if prepared.is_empty() {
            return Ok(Made::Nothing(Box::new(prepared)));
        }
        let asked = match wish.is_approved || self.is_auto_approved(&prepared)? {
            true => Asked::Approved(prepared),
            false => self.ask_about_apply(wish, prepared, approver)?,
        };
        let prepared = match asked {
            Asked::Approved(prepared) => prepared,
            Asked::Conflicts(prepared) => return Ok(Made::Conflicts(Box::new(prepared))),
            Asked::Declined => return Ok(Made::Declined),
        };
        let commit = match &wish.commit {
            Some(options) => Some((options, self.prepare_commit(prepared.project())?)),
            None => None,
        };
        if wish.is_checked {
            self.run_checks(&prepared, &mut |result| approver.checked(result))?;
        }
        follower.commences();
        let left_out = prepared.left_out_by_reason();
        let (applied, committed) = followed(follower, |watch| match &commit {
            Some((options, committer)) => {
                let (applied, committed) = self.apply_and_commit(committer, prepared, options, watch)?;
                Ok((applied, Some(committed)))
            }
            None => Ok((self.apply(prepared, watch)?, None)),
        })?;
        Ok(Made::Applied(Box::new(MadeReal { applied, committed, left_out })))
    }

    /// What needs its own approval is asked about on its own. The sandbox goes on meanwhile.
    fn ask_about_apply(&self, wish: &ApplyWish, mut prepared: Prepared, approver: &mut dyn Approver) -> Result<Asked, EngineError> {
        let nobody = || EngineError::from(ChangesError::NotApproved { undo: None });
        prepared.let_go_on();
        let risky = prepared.left_out.iter().filter(|l| l.reason == Reason::Risky).count();
        if risky > 0 && approver.answer(Question::Risky(&prepared, risky)).ok_or_else(nobody)? {
            drop(prepared);
            prepared = self.prepare_apply(&ApplyRequest { risky: true, ..wish.request.clone() })?;
            if !prepared.conflicts.is_empty() {
                return Ok(Asked::Conflicts(prepared));
            }
            prepared.let_go_on();
        }
        let is_approved = approver.answer(Question::Apply(&prepared)).ok_or_else(nobody)?;
        Ok(if is_approved { Asked::Approved(prepared) } else { Asked::Declined })
    }

    /// `whatif undo`.
    pub fn take_back(
        &self,
        wish: &UndoWish,
        approver: &mut dyn Approver,
        follower: &mut dyn Follower,
    ) -> Result<TakenBack, EngineError> {
        let prepared = match wish.is_approved {
            true => followed(follower, |watch| self.prepare_undo_in_turn(&wish.request, watch))?,
            false => self.prepare_undo(&wish.request)?,
        };
        prepared.notes().iter().for_each(|note| approver.note(note));
        if !wish.is_approved {
            let nobody = || EngineError::from(ChangesError::NotApproved { undo: Some(prepared.page.id.clone()) });
            if !approver.answer(Question::Undo(&prepared)).ok_or_else(nobody)? {
                return Ok(TakenBack::Declined);
            }
        }
        follower.commences();
        let notes = followed(follower, |watch| self.undo(&prepared, watch))?;
        Ok(TakenBack::Undone(Box::new(Undone { prepared, notes })))
    }
}

/// Whether a plan failed because reality is not what it was made for, as far as that can be told.
fn has_moved(error: &ApplyError) -> bool {
    matches!(error, ApplyError::Changed { .. } | ApplyError::PutBack { .. } | ApplyError::Problems(_))
}

fn followed<T>(follower: &mut dyn Follower, work: impl FnOnce(&mut Watch<'_>) -> Result<T, EngineError>) -> Result<T, EngineError> {
    let follower = RefCell::new(follower);
    let outcome = work(&mut Watch {
        progress: &mut |progress| follower.borrow_mut().progress(progress),
        is_cancelled: &|| follower.borrow_mut().is_cancelled(),
    });
    follower.into_inner().pauses();
    outcome
}
