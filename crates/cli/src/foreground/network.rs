//! Has a supervisor started when the command wants the network, without ever making the command's streams wait for it; and
//! passes its questions on to the person at the terminal.

use std::io::Read;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use whatif_engine::network::permits::Permitted;
use whatif_engine::network::{Answering, Ask};
use whatif_engine::{Engine, EngineError, Sandbox};

use super::prompt::{self, Answer};
use crate::output::{Output, Style};

pub(super) struct Network<'e> {
    engine: &'e Engine,
    sandbox: &'e Sandbox,
    /// Whether there is somebody to ask.
    is_interactive: bool,
    starting: Option<Starting>,
    /// It was wanted again meanwhile: the one that was just started may be gone already.
    is_wanted_again: bool,
    questions: Option<Answering>,
    is_told: bool,
}

/// A supervisor that is being started by a thread; the other end of this is closed when it is through.
struct Starting {
    done: UnixStream,
    thread: std::thread::JoinHandle<Result<(), EngineError>>,
}

impl<'e> Network<'e> {
    pub(super) fn new(engine: &'e Engine, sandbox: &'e Sandbox, is_interactive: bool) -> Self {
        // There may be a supervisor from an earlier command.
        let questions = if is_interactive { engine.answering(sandbox) } else { None };
        Self { engine, sandbox, is_interactive, starting: None, is_wanted_again: false, questions, is_told: false }
    }

    pub(super) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let done = self.starting.as_ref().map(|starting| PollFd::new(&starting.done, PollFlags::IN));
        let asked = self.questions.as_ref().map(|questions| PollFd::from_borrowed_fd(questions.as_fd(), PollFlags::IN));
        done.into_iter().chain(asked)
    }

    /// Which registries the user's tools are set up for may have to be asked first, and that takes a moment.
    pub(super) fn is_wanted(&mut self) {
        if self.starting.is_some() {
            self.is_wanted_again = true;
            return;
        }
        let Ok((done, theirs)) = UnixStream::pair() else { return };
        let (context, sandbox, is_answered) = (self.engine.context.clone(), self.sandbox.clone(), self.is_interactive);
        let thread = std::thread::spawn(move || {
            let engine = Engine::open(context)?;
            let started = if is_answered { engine.supervise_answered(&sandbox) } else { engine.supervise(&sandbox) };
            drop(theirs);
            started
        });
        self.starting = Some(Starting { done, thread });
    }

    pub(super) fn work(&mut self, output: &Output) {
        self.finish_start(output);
        while let Some(ask) = self.next_question() {
            let answer = prompt::ask(&ask, output);
            self.remember(&ask, answer, output);
            if let Some(questions) = &mut self.questions {
                let _ = questions.answer(ask.id, answer != Answer::No);
            }
        }
    }

    fn finish_start(&mut self, output: &Output) {
        let is_done = |starting: &mut Starting| {
            let _ = starting.done.set_nonblocking(true);
            matches!(starting.done.read(&mut [0]), Ok(0))
        };
        let Some(Starting { thread, .. }) = self.starting.take_if(is_done) else { return };
        match thread.join() {
            Ok(Err(error)) if !self.is_told => {
                self.is_told = true;
                output.note(format!("{} it has no network: {error}", output.paint_note(Style::Yellow, "whatif:")));
            }
            _ if self.is_interactive => self.questions = self.engine.answering(self.sandbox),
            _ => {}
        }
        if std::mem::take(&mut self.is_wanted_again) {
            self.is_wanted();
        }
    }

    fn next_question(&mut self) -> Option<Ask> {
        let questions = self.questions.as_mut()?;
        if !questions.has_more() {
            let mut fds = [PollFd::from_borrowed_fd(questions.as_fd(), PollFlags::IN)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            if !poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0) {
                return None;
            }
        }
        match questions.next_question() {
            Ok(Some(ask)) => Some(ask),
            // The supervisor is gone.
            _ => {
                self.questions = None;
                None
            }
        }
    }

    fn remember(&self, ask: &Ask, answer: Answer, output: &Output) {
        let permitted = match answer {
            Answer::ForProject => Permitted::ForProject,
            Answer::Always => Permitted::Always,
            Answer::Once | Answer::No => return,
        };
        let Ok(rule) = ask.rule.parse() else { return };
        if let Err(error) = self.engine.permit(&self.sandbox.project, &rule, permitted) {
            output.note(format!("{} it is allowed this once: {error}", output.paint_note(Style::Yellow, "whatif:")));
        }
    }
}
