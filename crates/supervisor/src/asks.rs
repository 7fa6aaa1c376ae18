//! Questions to a person: may the sandbox go there? The connection waits for the answer.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use whatif_netpolicy::{Host, Rule};

use crate::control::protocol::Ask;

const PATIENCE: Duration = Duration::from_secs(60);
/// For somebody to join who was announced when the supervisor started: the first connection is older than the supervisor.
const JOIN_PATIENCE: Duration = Duration::from_secs(3);
/// At once. A person who gets more of them answers none.
const MOST_QUESTIONS: usize = 64;
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
    answerers: HashMap<u64, mpsc::UnboundedSender<Ask>>,
    open: HashMap<(Host, u16), Question>,
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

    /// Whether somebody allows it. No when nobody is there, or nobody answers.
    pub(crate) async fn ask(&self, host: &Host, port: u16) -> bool {
        let Some(mut answer) = self.question(host, port) else { return false };
        let awaited = self.state().awaited();
        if let Some(until) = awaited {
            let _ = tokio::time::timeout_at(until.into(), answer.wait_for(Option::is_some)).await;
            if self.answerers() == 0 {
                self.settle_host(host, port, false);
            }
        }
        let answered = tokio::time::timeout(PATIENCE, answer.wait_for(Option::is_some)).await.is_ok();
        if !answered {
            self.settle_host(host, port, false);
        }
        *answer.borrow() == Some(true)
    }

    /// The open question about this host, or a new one.
    fn question(&self, host: &Host, port: u16) -> Option<watch::Receiver<Option<bool>>> {
        let mut state = self.state();
        if state.answerers.is_empty() && state.awaited().is_none() {
            return None;
        }
        let key = (host.clone(), port);
        if state.refused.contains_key(&key) {
            return None;
        }
        if let Some(question) = state.open.get(&key) {
            return Some(question.answer.subscribe());
        }
        if state.open.len() >= MOST_QUESTIONS {
            return None;
        }
        state.next += 1;
        let rule = Rule::for_host(host, port).to_string();
        let ask = Ask { id: state.next, host: host.to_string(), port, rule };
        state.answerers.retain(|_, answerer| answerer.send(ask.clone()).is_ok());
        let (answer, answered) = watch::channel(None);
        state.open.insert(key, Question { ask, answer });
        Some(answered)
    }

    /// Somebody is there to answer; what is open is asked again.
    pub(crate) fn join(&self) -> (u64, mpsc::UnboundedReceiver<Ask>) {
        let (answerer, asked) = mpsc::unbounded_channel();
        let mut state = self.state();
        state.next += 1;
        let number = state.next;
        for question in state.open.values() {
            let _ = answerer.send(question.ask.clone());
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
        if let Some(question) = self.state().open.remove(&(host.clone(), port)) {
            question.answer.send_replace(Some(allow));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// How long somebody who was announced is waited for.
    fn awaited(&self) -> Option<Instant> {
        self.expected_until.filter(|until| *until > Instant::now())
    }
}
