//! Who runs when: as many at a time as there are processors and room in memory, in the order of the plan.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use whatif_types::experiment::{AttemptState, Event, Experiment, Outcome};
use whatif_types::{SandboxId, Size};

use super::attempt::{Say, Tried, broken};
use super::moves::Moves;
use super::room;
use super::run::{Flow, Racing, Tell};
use super::stop::Why;
use crate::{Context, Engine, EngineError};

/// How often whoever watches is called when nothing happens.
const TICK: Duration = Duration::from_millis(80);
/// How often it is looked whether there is room by now.
const LOOK: Duration = Duration::from_millis(200);

/// What a worker says.
enum Message {
    Event(Event),
    /// Its own command has ended, and its changes are there; it is not judged yet.
    Done {
        number: usize,
        so_far: Outcome,
        sandbox: SandboxId,
    },
    Ended {
        number: usize,
        outcome: Outcome,
        sandbox: Option<SandboxId>,
    },
}

struct Queue {
    state: Mutex<State>,
    freed: Condvar,
}

struct State {
    waiting: VecDeque<usize>,
    running: usize,
    /// What the largest attempt so far took, or may take.
    largest: u64,
}

impl Engine {
    pub(super) fn run_all(
        &self,
        experiment: &mut Experiment,
        racing: &Racing,
        jobs: u32,
        left: Vec<usize>,
        tell: &mut Tell<'_>,
    ) -> Result<(), EngineError> {
        let largest = racing.wish.limits.memory.map_or(0, |Size(bytes)| bytes);
        let workers = (jobs as usize).min(left.len());
        let state = State { waiting: left.into(), running: 0, largest };
        let queue = Queue { state: Mutex::new(state), freed: Condvar::new() };
        let mut moves = Moves::new(experiment);
        if experiment.records.iter().any(|record| record.state == AttemptState::Ended) {
            // Those that ended before may have started from something else.
            moves.look_once_more(self, tell);
        }
        let (sender, messages) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..workers {
                let (sender, queue, context) = (sender.clone(), &queue, self.context.clone());
                scope.spawn(move || work(context, racing, queue, &sender));
            }
            drop(sender);
            let listened = listen(racing, &messages, tell, &mut |message, tell| match message {
                Message::Event(event) => {
                    if let Event::AttemptBegan { attempt, .. } = &event {
                        self.note_running(experiment, attempt)?;
                        moves.look(self, tell);
                    }
                    Ok(tell(Some(&event)))
                }
                Message::Done { number, so_far, sandbox } => {
                    experiment.records[number].so_far = Some(so_far);
                    experiment.records[number].sandbox = Some(sandbox);
                    self.store.put_attempt(&experiment.id, number, &experiment.records[number])?;
                    Ok(tell(None))
                }
                Message::Ended { number, outcome, sandbox } => {
                    let attempt = racing.plan.attempts[number].name.clone();
                    racing.notice(&attempt, &outcome);
                    self.end_attempt(experiment, number, outcome.clone(), sandbox)?;
                    if racing.deadline.is_some() {
                        // Whoever resumes it has so much less.
                        experiment.details.spent_ms = racing.spent_ms();
                        self.store.update_experiment(experiment)?;
                    }
                    Ok(tell(Some(&Event::AttemptEnded { attempt, outcome: Box::new(outcome) })))
                }
            });
            // Whatever failed here, those who work are told to stop before they are waited for.
            if listened.is_err() {
                racing.stop.set(Why::Interrupted);
            }
            listened
        })?;
        moves.look_once_more(self, tell);
        Ok(())
    }

    /// Does one thing in a thread of its own, while whoever watches is told what happens, and can end it.
    pub(super) fn beside<T: Send>(
        &self,
        racing: &Racing,
        tell: &mut Tell<'_>,
        work: impl FnOnce(&Engine, &dyn Fn(Event)) -> Result<T, EngineError> + Send,
    ) -> Result<T, EngineError> {
        let (sender, events) = mpsc::channel();
        let context = self.context.clone();
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || work(&open(context)?, &|event| _ = sender.send(event)));
            listen(racing, &events, tell, &mut |event, tell| Ok(tell(Some(&event))))?;
            // Whoever panics takes us along.
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Until nobody has anything more to say.
fn listen<M>(
    racing: &Racing,
    messages: &Receiver<M>,
    tell: &mut Tell<'_>,
    take: &mut dyn FnMut(M, &mut Tell<'_>) -> Result<Flow, EngineError>,
) -> Result<(), EngineError> {
    loop {
        let flow = match messages.recv_timeout(TICK) {
            Ok(message) => take(message, tell)?,
            Err(RecvTimeoutError::Timeout) => tell(None),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        if flow == Flow::Stop {
            racing.stop.set(Why::Interrupted);
        }
        if racing.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            racing.stop.set(Why::Budget);
        }
    }
}

/// One worker: an attempt after the other, each with records of its own.
fn work(context: Context, racing: &Racing, queue: &Queue, sender: &Sender<Message>) {
    let engine = open(context);
    let tell = |event: Event| _ = sender.send(Message::Event(event));
    while let Some(number) = queue.next(racing) {
        let done = |so_far: &Outcome, sandbox: &SandboxId| {
            let _ = sender.send(Message::Done { number, so_far: so_far.clone(), sandbox: sandbox.clone() });
        };
        let tried = match &engine {
            Ok(engine) => engine.attempt(racing, number, &Say { event: &tell, done: &done }),
            Err(error) => Some(Tried::without_sandbox(broken(error))),
        };
        let peak = tried.as_ref().map_or(0, |tried| tried.outcome.peak_memory());
        queue.done(peak);
        if let Some(Tried { outcome, sandbox }) = tried {
            let _ = sender.send(Message::Ended { number, outcome, sandbox });
        }
    }
}

/// For a thread that gives commands their input: one that does not want it must not end us.
fn open(context: Context) -> Result<Engine, EngineError> {
    whatif_sys::signals::block(&[Signal::PIPE.as_raw()]).map_err(|e| EngineError::io("block", Path::new("a signal"), e))?;
    Engine::open(context)
}

impl Queue {
    /// The next attempt, when there is room for it. One may always run.
    fn next(&self, racing: &Racing) -> Option<usize> {
        let mut state = self.lock();
        loop {
            if racing.stop.why().is_some() || state.waiting.is_empty() {
                return None;
            }
            if state.running == 0 || room::is_there(state.largest) {
                state.running += 1;
                return state.waiting.pop_front();
            }
            state = self.freed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn done(&self, peak: u64) {
        let mut state = self.lock();
        state.running -= 1;
        state.largest = state.largest.max(peak);
        self.freed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
