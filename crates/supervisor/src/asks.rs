//! Questions to a person: may the sandbox go there? The connection waits for the answer.

mod rate;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use whatif_netpolicy::{Host, Rule};

use self::rate::Rate;
use crate::control::protocol::{Ask, Asked};

const PATIENCE: Duration = Duration::from_secs(60);
/// For somebody to join who was announced when the supervisor started: the first connection is older than the supervisor.
const JOIN_PATIENCE: Duration = Duration::from_secs(3);
/// No person says no more often.
const MOST_REFUSED: usize = 1024;

#[derive(Debug)]
pub(crate) struct Asks {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Until then somebody may join who was announced.
    expected_until: Option<Instant>,
    /// Those who answer, by a number of their own.
    answerers: HashMap<u64, mpsc::UnboundedSender<Asked>>,
    open: HashMap<(Host, u16), Question>,
    rate: Rate,
    /// The first of those that were not asked about because there were too many questions, until there is room again.
    unasked: Option<Ask>,
    /// What somebody has said no to, and who. It holds for as long as they are there: a program that tries again does not nag.
    refused: HashMap<(Host, u16), u64>,
}

#[derive(Debug)]
struct Question {
    ask: Ask,
    answer: watch::Sender<Option<bool>>,
}

impl Asks {
    /// `is_answered`: somebody is about to join.
    pub(crate) fn new(is_answered: bool) -> Self {
        let expected_until = is_answered.then(|| Instant::now() + JOIN_PATIENCE);
        Self { state: Mutex::new(State { expected_until, ..State::default() }) }
    }

    /// Whether somebody allows it. No when nobody is there, no answer, or too much is asked. A question for which no
    /// connection waits any more is withdrawn: drop this when the client gives up.
    pub(crate) async fn ask(&self, host: &Host, port: u16) -> bool {
        let Some(mut waiting) = self.question(host, port) else { return false };
        let awaited = self.state().awaited();
        if let Some(until) = awaited {
            let _ = tokio::time::timeout_at(until.into(), waiting.answer.wait_for(Option::is_some)).await;
            if self.answerers() == 0 {
                self.settle_host(host, port, false);
            }
        }
        let answered = tokio::time::timeout(PATIENCE, waiting.answer.wait_for(Option::is_some)).await.is_ok();
        if !answered {
            self.settle_host(host, port, false);
        }
        *waiting.answer.borrow() == Some(true)
    }

    /// The open question about this host, or a new one.
    fn question(&self, host: &Host, port: u16) -> Option<Waiting<'_>> {
        let mut state = self.state();
        if state.answerers.is_empty() && state.awaited().is_none() {
            return None;
        }
        let key = (host.clone(), port);
        if state.refused.contains_key(&key) {
            return None;
        }
        if let Some(question) = state.open.get(&key) {
            return Some(Waiting { asks: self, answer: question.answer.subscribe(), key });
        }
        state.next += 1;
        let rule = Rule::for_host(host, port).to_string();
        let ask = Ask { id: state.next, host: host.to_string(), port, rule };
        if !state.rate.take(Instant::now()) {
            if state.unasked.is_none() {
                state.tell(&Asked::TooMany(ask.clone()));
                state.unasked = Some(ask);
            }
            return None;
        }
        state.unasked = None;
        state.tell(&Asked::Question(ask.clone()));
        let (sender, answer) = watch::channel(None);
        state.open.insert(key.clone(), Question { ask, answer: sender });
        Some(Waiting { asks: self, answer, key })
    }

    /// Somebody is there to answer; what is open is asked again.
    pub(crate) fn join(&self) -> (u64, mpsc::UnboundedReceiver<Asked>) {
        let (answerer, asked) = mpsc::unbounded_channel();
        let mut state = self.state();
        state.next += 1;
        let number = state.next;
        for question in state.open.values() {
            let _ = answerer.send(Asked::Question(question.ask.clone()));
        }
        if let Some(ask) = &state.unasked {
            let _ = answerer.send(Asked::TooMany(ask.clone()));
        }
        state.answerers.insert(number, answerer);
        state.expected_until = None;
        (number, asked)
    }

    /// When nobody is left, what is open is denied.
    pub(crate) fn leave(&self, number: u64) {
        let mut state = self.state();
        state.answerers.remove(&number);
        state.refused.retain(|_, who| *who != number);
        if state.answerers.is_empty() {
            for (_, question) in state.open.drain() {
                question.answer.send_replace(Some(false));
            }
        }
    }

    pub(crate) fn answerers(&self) -> usize {
        self.state().answerers.len()
    }

    /// What the question with this number was about; it is still open.
    pub(crate) fn subject(&self, id: u64) -> Option<(Host, u16)> {
        self.state().open.iter().find(|(_, question)| question.ask.id == id).map(|(key, _)| key.clone())
    }

    /// Somebody has said no.
    pub(crate) fn refuse(&self, number: u64, host: &Host, port: u16) {
        let mut state = self.state();
        if state.refused.len() < MOST_REFUSED {
            state.refused.insert((host.clone(), port), number);
        }
        drop(state);
        self.settle_host(host, port, false);
    }

    pub(crate) fn settle_host(&self, host: &Host, port: u16, allow: bool) {
        let mut state = self.state();
        if let Some(question) = state.close(&(host.clone(), port)) {
            question.answer.send_replace(Some(allow));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that waits for an answer.
struct Waiting<'a> {
    asks: &'a Asks,
    key: (Host, u16),
    answer: watch::Receiver<Option<bool>>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.asks.state();
        // This receiver is still one of those that are counted. Of a settled question there is another, or none.
        let is_last = |question: &Question| question.answer.receiver_count() <= 1;
        if self.answer.borrow().is_none() && state.open.get(&self.key).is_some_and(is_last) {
            state.close(&self.key);
        }
    }
}

impl State {
    fn tell(&mut self, asked: &Asked) {
        self.answerers.retain(|_, answerer| answerer.send(asked.clone()).is_ok());
    }

    /// Nobody need answer it any more, on no terminal.
    fn close(&mut self, key: &(Host, u16)) -> Option<Question> {
        let question = self.open.remove(key)?;
        self.tell(&Asked::Withdrawn(question.ask.id));
        Some(question)
    }

    /// How long somebody who was announced is waited for.
    fn awaited(&self) -> Option<Instant> {
        self.expected_until.filter(|until| *until > Instant::now())
    }
}
