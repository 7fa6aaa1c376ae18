//! A sandbox that is held still, and how far that can be relied on.
//!
//! The kernel's freezer holds whatever is inside, but not everybody has one. Stopping processes by signals is a courtesy to those that
//! mean no harm: a timer that sends SIGCONT undoes it. So where anything is alive, what was found is bound to its bytes in either case,
//! and nothing relies on their staying what they are.

use rustix::fs::statfs;
use whatif_diff::digest::Form;
use whatif_provider::Paused;
use whatif_types::{Sandbox, Status};

use crate::EngineError;
use crate::ground::Ground;

/// Until it is dropped.
#[derive(Debug)]
pub(crate) struct Still {
    /// `None` if the sandbox does not run.
    _paused: Option<Paused>,
    /// What a digest has to be made of.
    form: Form,
}

/// What a change set is bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    /// Of its digest.
    pub form: Form,
    /// What was found is read once and for all.
    pub seals: bool,
}

impl Binding {
    /// For layers, which nobody writes to, and for those who only count and name.
    pub(crate) const LOOSE: Self = Self { form: Form::Times, seals: false };
}

impl Still {
    /// To be compared with an earlier digest, if there is one.
    pub(crate) fn binding(&self, earlier: Option<&str>) -> Binding {
        let form = earlier.map_or(self.form, Form::of);
        Binding { form, seals: [form, self.form].contains(&Form::Content) }
    }
}

impl Ground {
    /// Keeps the processes of a living sandbox from writing until the result is dropped, as far as that can be done.
    pub(crate) fn hold_still(&self, sandbox: &Sandbox) -> Result<Still, EngineError> {
        let keeps_times = self.keeps_times(sandbox)?;
        let form = |is_alive: bool| if is_alive || !keeps_times { Form::Content } else { Form::Times };
        if sandbox.status != Status::Active {
            return Ok(Still { _paused: None, form: form(false) });
        }
        self.require_our_keeper(sandbox)?;
        match self.ask_instance(sandbox, |instance| instance.pause(&self.recorded(sandbox))?.complete())? {
            Some(paused) => Ok(Still { form: form(!paused.running.is_empty()), _paused: Some(paused) }),
            // Nothing runs in it from now on; until a moment ago it may have.
            None => Ok(Still { _paused: None, form: form(true) }),
        }
    }

    /// Whether the first store through a new mapping moves the time of change where the heads lie. In memory it need not.
    fn keeps_times(&self, sandbox: &Sandbox) -> Result<bool, EngineError> {
        const EXT: u64 = 0xef53;
        const XFS: u64 = 0x5846_5342;
        const BTRFS: u64 = 0x9123_683e;
        let directory = self.directory(sandbox)?;
        let found = statfs(&directory).map_err(|e| EngineError::io("examine", &directory, e.into()))?;
        Ok([EXT, XFS, BTRFS].contains(&(found.f_type as u64 & 0xffff_ffff)))
    }
}
