//! Has a supervisor started when the command wants the network, without ever making the command's streams wait for it; and
//! passes its questions on to the person at the terminal.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use whatif_engine::network::permits::Permitted;
use whatif_engine::network::{Answering, Ask, Asked};
use whatif_engine::{Engine, EngineError, Sandbox};

use super::prompt::{Answer, Outcome, Prompt};
use crate::output::{Output, Style};

pub(super) struct Network<'e> {
    engine: &'e Engine,
    /// Whether there is a person to ask, who has not had enough of it.
    is_interactive: bool,
    starting: Option<Starting>,
    /// It was wanted again meanwhile: the one that was just started may be gone already.
    is_wanted_again: bool,
    questions: Option<Answering>,
    prompt: Prompt,
    is_told: bool,
}

/// A supervisor that is being started by a thread; the other end of this is closed when it is through.
struct Starting {
    done: UnixStream,
    thread: std::thread::JoinHandle<Result<(), EngineError>>,
}

impl<'e> Network<'e> {
    pub(super) fn new(engine: &'e Engine, sandbox: &Sandbox, is_interactive: bool, output: &Output) -> Self {
        // There may be a supervisor from an earlier command.
        let questions = if is_interactive { engine.network.answering(sandbox) } else { None };
        let prompt = Prompt::new(&sandbox.name, output);
        Self { engine, is_interactive, starting: None, is_wanted_again: false, questions, prompt, is_told: false }
    }

    /// The keys too, while they are ours.
    pub(super) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let done = self.starting.as_ref().map(|starting| PollFd::new(&starting.done, PollFlags::IN));
        let asked = self.questions.as_ref().map(|questions| PollFd::from_borrowed_fd(questions.as_fd(), PollFlags::IN));
        let typed = self.is_asking().then(|| PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN));
        done.into_iter().chain(asked).chain(typed)
    }

    /// Which registries the user's tools are set up for may have to be asked first, and that takes a moment.
    pub(super) fn is_wanted(&mut self, sandbox: &Sandbox) {
        if self.starting.is_some() {
            self.is_wanted_again = true;
            return;
        }
        let Ok((done, theirs)) = UnixStream::pair() else { return };
        let network = Arc::clone(&self.engine.network);
        let (sandbox, is_answered) = (sandbox.clone(), self.is_interactive);
        let start = move || {
            let started = if is_answered { network.supervise_answered(&sandbox) } else { network.supervise(&sandbox) };
            drop(theirs);
            started
        };
        // Without a thread the next one who wants it has another try.
        let Ok(thread) = std::thread::Builder::new().spawn(start) else { return };
        self.starting = Some(Starting { done, thread });
    }

    /// Whether a question is on the screen: then the terminal is not the command's.
    pub(super) fn is_asking(&self) -> bool {
        self.prompt.is_asking()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.prompt.deadline()
    }

    /// True once after something of ours was on the screen.
    pub(super) fn gives_screen_back(&mut self) -> bool {
        self.prompt.gives_screen_back()
    }

    /// Returns a key that is meant for the command although a question was open.
    pub(super) fn work(&mut self, sandbox: &Sandbox, output: &Output) -> Option<u8> {
        self.finish_start(sandbox, output);
        // First, so that an answer to what is no longer asked is none.
        while let Some(asked) = self.next_heard() {
            match asked {
                Asked::Question(ask) => self.prompt.ask(ask),
                Asked::Withdrawn(id) => self.prompt.withdraw(id),
                Asked::TooMany(ask) => self.prompt.tell_too_many(&ask),
            }
        }
        match self.prompt.look()? {
            Outcome::Answered { ask, answer } => {
                let remembered = self.remember(sandbox, &ask, answer);
                if let Some(questions) = &mut self.questions {
                    let _ = questions.answer(ask.id, answer != Answer::No);
                }
                self.prompt.confirm(&ask, &remembered);
                None
            }
            Outcome::Interrupted(key) => {
                self.stop_asking("interrupted. Nothing more is asked in this run");
                Some(key)
            }
            Outcome::NobodyThere => {
                self.stop_asking("no answer. Nothing more is asked in this run");
                None
            }
        }
    }

    /// What is open is denied, and so is whatever no rule allows from now on.
    pub(super) fn stop_asking(&mut self, because: &str) {
        self.is_interactive = false;
        self.questions = None;
        self.prompt.drop_all(because);
    }

    fn finish_start(&mut self, sandbox: &Sandbox, output: &Output) {
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
            _ if self.is_interactive => self.questions = self.engine.network.answering(sandbox),
            _ => {}
        }
        if std::mem::take(&mut self.is_wanted_again) {
            self.is_wanted(sandbox);
        }
    }

    fn next_heard(&mut self) -> Option<Asked> {
        let questions = self.questions.as_mut()?;
        if !questions.has_more() {
            let mut fds = [PollFd::from_borrowed_fd(questions.as_fd(), PollFlags::IN)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            if !poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0) {
                return None;
            }
        }
        match questions.hear() {
            Ok(Some(asked)) => Some(asked),
            // The supervisor is gone.
            _ => {
                self.questions = None;
                self.prompt.drop_all("its connection is gone");
                None
            }
        }
    }

    /// Says in words for how long it is allowed.
    fn remember(&self, sandbox: &Sandbox, ask: &Ask, answer: Answer) -> String {
        let (permitted, words) = match answer {
            Answer::No => return "no".to_owned(),
            Answer::Once => return "allowed once".to_owned(),
            Answer::ForProject => (Permitted::ForProject, "allowed for this project"),
            Answer::Always => (Permitted::Always, "allowed always"),
        };
        let Ok(rule) = ask.rule.parse() else { return "allowed once".to_owned() };
        match self.engine.network.permit(&sandbox.project, &rule, permitted) {
            Ok(()) => words.to_owned(),
            Err(error) => format!("allowed once; it is not remembered: {error}"),
        }
    }
}
