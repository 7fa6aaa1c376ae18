//! Ctrl-C, TERM and HUP while a transaction runs: they are noted, and the transaction comes to a good end first.

use std::cell::Cell;
use std::io::IsTerminal;
use std::os::fd::OwnedFd;

use rustix::process::Signal;
use whatif_engine::EngineError;
use whatif_engine::changes::ChangesError;
use whatif_engine::changes::apply::{ApplyError, Progress as Step};
use whatif_engine::changes::gate::Follower;
use whatif_sys::last_words::LastWords;

use crate::output::Output;
use crate::progress::Progress;

const SIGNALS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// A person in front of a transaction: sees how far it is, and may interrupt it.
#[derive(Debug)]
pub struct Following<'a> {
    output: &'a Output,
    progress: Option<Progress>,
    /// Until there is something to put back.
    so_far: Option<LastWords>,
    interrupts: Interrupts,
}

impl<'a> Following<'a> {
    #[must_use]
    pub fn new(output: &'a Output) -> Self {
        Self { output, progress: None, so_far: nothing_changed_so_far(output), interrupts: Interrupts::default() }
    }

    /// Says by which signal it was stopped, if it was.
    pub fn explained<T>(&self, outcome: Result<T, EngineError>) -> Result<T, EngineError> {
        match (outcome, self.interrupts.came()) {
            (Err(EngineError::Changes(ChangesError::Apply(ApplyError::Cancelled))), Some(signal)) => {
                Err(ChangesError::Cancelled { signal }.into())
            }
            (outcome, _) => outcome,
        }
    }

    /// The signal that came too late to stop it.
    #[must_use]
    pub fn ended(self) -> Option<i32> {
        self.interrupts.came()
    }
}

impl Follower for Following<'_> {
    fn progress(&mut self, step: Step) {
        self.progress.get_or_insert_with(|| Progress::new(self.output)).show(&step);
    }

    fn pauses(&mut self) {
        self.progress = None;
    }

    fn commences(&mut self) {
        if self.so_far.is_some() || self.interrupts.descriptor.is_none() {
            self.interrupts = Interrupts::watch();
            self.so_far = None;
        }
    }

    fn is_cancelled(&mut self) -> bool {
        self.interrupts.came().is_some()
    }
}

/// While a plan is made, waited with or asked about: a signal ends the process at once, which says that nothing was changed.
/// `None` where that cannot be prepared; then it only ends.
fn nothing_changed_so_far(output: &Output) -> Option<LastWords> {
    // What was typed, or a question, stands on the line.
    let before = if std::io::stderr().is_terminal() && !output.json { "\n" } else { "" };
    let words = SIGNALS.map(Signal::as_raw).map(|signal| {
        let text = output.rendered(&ChangesError::Cancelled { signal }, None);
        (signal, format!("{before}{text}\n").into_bytes())
    });
    LastWords::prepare(words.into()).ok()
}

/// Keeps these signals from ending the process, for as long as this lives. By default it lets them end it: while nothing is under
/// way that is the quickest answer.
#[derive(Debug, Default)]
struct Interrupts {
    /// `None` where they cannot be watched; they end the process then, and the next command repairs what that leaves.
    descriptor: Option<OwnedFd>,
    came: Cell<Option<i32>>,
}

impl Interrupts {
    fn watch() -> Self {
        Self { descriptor: whatif_sys::signals::as_descriptor(&SIGNALS.map(Signal::as_raw)).ok(), came: Cell::new(None) }
    }

    /// The first that came; later ones change nothing.
    fn came(&self) -> Option<i32> {
        if let Some(descriptor) = &self.descriptor {
            let waiting = whatif_sys::signals::take(descriptor);
            self.came.set(self.came.get().or(waiting.first().copied()));
        }
        self.came.get()
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        if self.descriptor.is_some() {
            // One that is still waiting would end us now, in the middle of what we have to say.
            let _ = self.came();
            whatif_sys::signals::unblock(&SIGNALS.map(Signal::as_raw));
        }
    }
}
