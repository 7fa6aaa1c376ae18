//! Questions to a person: may the sandbox go there? The connection waits for the answer.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use whatif_netpolicy::{Host, Rule};

use crate::control::protocol::Ask;

const PATIENCE: Duration = Duration::from_secs(60);
/// At once. A person who gets more of them answers none.
const MOST_QUESTIONS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Asks {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Those who answer, by a number of their own.
    answerers: HashMap<u64, mpsc::UnboundedSender<Ask>>,
    open: HashMap<(Host, u16), Question>,
}

#[derive(Debug)]
struct Question {
    ask: Ask,
    answer: watch::Sender<Option<bool>>,
}

impl Asks {
    /// Whether somebody allows it. No when nobody is there, or nobody answers.
    pub(crate) async fn ask(&self, host: &Host, port: u16) -> bool {
        let Some(mut answer) = self.question(host, port) else { return false };
        let answered = tokio::time::timeout(PATIENCE, answer.wait_for(Option::is_some)).await.is_ok();
        if !answered {
            self.settle_host(host, port, false);
        }
        *answer.borrow() == Some(true)
    }

    /// The open question about this host, or a new one.
    fn question(&self, host: &Host, port: u16) -> Option<watch::Receiver<Option<bool>>> {
        let mut state = self.state();
        if state.answerers.is_empty() {
            return None;
        }
        let key = (host.clone(), port);
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
        (number, asked)
    }

    /// When nobody is left, what is open is denied.
    pub(crate) fn leave(&self, number: u64) {
        let mut state = self.state();
        state.answerers.remove(&number);
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

    pub(crate) fn settle_host(&self, host: &Host, port: u16, allow: bool) {
        if let Some(question) = self.state().open.remove(&(host.clone(), port)) {
            question.answer.send_replace(Some(allow));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
