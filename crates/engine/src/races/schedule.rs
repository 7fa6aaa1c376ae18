//! Who runs when: as many at a time as there are processors and room in memory, in the order of the plan.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Sender};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use whatif_types::experiment::{AttemptState, Event, Experiment, Outcome};
use whatif_types::{SandboxId, Size};

use super::attempt::{Say, Tried, broken};
use super::moves::Moves;
use super::run::{Flow, Racing, Tell};
use super::stop::{Stop, Why};
use super::{beside, room};
use crate::EngineError;
use crate::races::Races;

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

/// Attempts that wait for a worker and for room.
struct Queue {
    state: Mutex<State>,
    freed: Condvar,
    /// Whether so much memory is to be had.
    has_room: fn(u64) -> bool,
}

struct State {
    waiting: VecDeque<usize>,
    running: usize,
    /// What the largest attempt so far took, or may take.
    largest: u64,
}

impl Races {
    /// Those that are left, each to its end, unless somebody stops it.
    pub(super) fn run_all(
        &self,
        experiment: &mut Experiment,
        racing: &Racing,
        jobs: u32,
        left: Vec<usize>,
        tell: &mut Tell<'_>,
    ) -> Result<(), EngineError> {
        let mut clerk = Clerk { races: self, racing, moves: Moves::new(experiment), experiment };
        clerk.look_back(tell);
        let workers = (jobs as usize).min(left.len());
        let queue = Queue::new(left, racing.wish.limits.memory.map_or(0, |Size(bytes)| bytes), room::is_there);
        let (sender, messages) = mpsc::channel();
        std::thread::scope(|scope| {
            for started in 0..workers {
                let (sender, queue) = (sender.clone(), &queue);
                match Builder::new().spawn_scoped(scope, move || self.work(racing, queue, &sender)) {
                    Ok(_) => {}
                    Err(error) if started == 0 => return Err(beside::cannot_start(error)),
                    // Those who work do the rest, one after the other.
                    Err(_) => break,
                }
            }
            drop(sender);
            let listened = beside::listen(racing, &messages, tell, &mut |message, tell| clerk.take(message, tell));
            // Whatever failed here, those who work are told to stop before they are waited for.
            if listened.is_err() {
                racing.stop.set(Why::Interrupted);
            }
            listened
        })?;
        clerk.moves.look_once_more(self, tell);
        Ok(())
    }
}

/// Writes down what workers say, and passes it on.
struct Clerk<'a> {
    races: &'a Races,
    racing: &'a Racing,
    experiment: &'a mut Experiment,
    moves: Moves,
}

impl Clerk<'_> {
    /// Those that ended before may have started from something else.
    fn look_back(&mut self, tell: &mut Tell<'_>) {
        if self.experiment.records.iter().any(|record| record.state == AttemptState::Ended) {
            self.moves.look_once_more(self.races, tell);
        }
    }

    fn take(&mut self, message: Message, tell: &mut Tell<'_>) -> Result<Flow, EngineError> {
        match message {
            Message::Event(event) => {
                if let Event::AttemptBegan { attempt, .. } = &event {
                    self.races.note_running(self.experiment, attempt)?;
                    self.moves.look(self.races, tell);
                }
                Ok(tell(Some(&event)))
            }
            Message::Done { number, so_far, sandbox } => {
                let record = &mut self.experiment.records[number];
                (record.so_far, record.sandbox) = (Some(so_far), Some(sandbox));
                self.races.ground.store.put_attempt(&self.experiment.id, number, record)?;
                Ok(tell(None))
            }
            Message::Ended { number, outcome, sandbox } => {
                let attempt = self.racing.plan.attempts[number].name.clone();
                self.racing.notice(&attempt, &outcome);
                self.races.end_attempt(self.experiment, number, outcome.clone(), sandbox)?;
                self.note_time()?;
                Ok(tell(Some(&Event::AttemptEnded { attempt, outcome: Box::new(outcome) })))
            }
        }
    }

    /// Whoever resumes a race with a budget has so much less.
    fn note_time(&mut self) -> Result<(), EngineError> {
        if self.racing.deadline.is_none() {
            return Ok(());
        }
        self.experiment.details.spent_ms = self.racing.spent_ms();
        Ok(self.races.ground.store.update_experiment(self.experiment)?)
    }
}

impl Races {
    /// One worker: an attempt after the other.
    fn work(&self, racing: &Racing, queue: &Queue, sender: &Sender<Message>) {
        let ready = beside::give_input();
        let tell = |event: Event| _ = sender.send(Message::Event(event));
        while let Some(number) = queue.next(&racing.stop) {
            let done = |so_far: &Outcome, sandbox: &SandboxId| {
                let _ = sender.send(Message::Done { number, so_far: so_far.clone(), sandbox: sandbox.clone() });
            };
            let tried = match &ready {
                Ok(()) => self.attempt(racing, number, &Say { event: &tell, done: &done }),
                Err(error) => Some(Tried::without_sandbox(broken(error))),
            };
            let peak = tried.as_ref().map_or(0, |tried| tried.outcome.peak_memory());
            queue.done(peak);
            if let Some(Tried { outcome, sandbox }) = tried {
                let _ = sender.send(Message::Ended { number, outcome, sandbox });
            }
        }
    }
}

impl Queue {
    fn new(waiting: Vec<usize>, largest: u64, has_room: fn(u64) -> bool) -> Self {
        Self { state: Mutex::new(State { waiting: waiting.into(), running: 0, largest }), freed: Condvar::new(), has_room }
    }

    /// The next attempt, when there is room for it. One may always run.
    fn next(&self, stop: &Stop) -> Option<usize> {
        let mut state = self.lock();
        loop {
            if stop.why().is_some() || state.waiting.is_empty() {
                return None;
            }
            if state.running == 0 || (self.has_room)(state.largest) {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn attempts_come_in_order_as_long_as_there_is_room() {
        let (stop, queue) = (Stop::new().unwrap(), Queue::new(vec![3, 5, 8], 0, |_| true));
        assert_eq!([queue.next(&stop), queue.next(&stop), queue.next(&stop), queue.next(&stop)], [Some(3), Some(5), Some(8), None]);
    }

    #[test]
    fn without_room_one_runs_after_the_other() {
        static REFUSED: AtomicUsize = AtomicUsize::new(0);
        let has_no_room = |_| REFUSED.fetch_add(1, Ordering::SeqCst) == usize::MAX;
        let (stop, queue) = (Stop::new().unwrap(), Queue::new(vec![1, 2], 0, has_no_room));
        assert_eq!((queue.next(&stop), REFUSED.load(Ordering::SeqCst)), (Some(1), 0), "one may always run");
        std::thread::scope(|scope| {
            let second = scope.spawn(|| queue.next(&stop));
            while REFUSED.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(queue.lock().running, 1);
            queue.done(7);
            assert_eq!(second.join().unwrap(), Some(2));
        });
        let state = queue.lock();
        assert_eq!((state.running, state.largest), (1, 7), "what one took is what the next one needs");
    }

    #[test]
    fn nobody_begins_when_it_is_time_to_stop() {
        let (stop, queue) = (Stop::new().unwrap(), Queue::new(vec![1], 0, |_| true));
        stop.set(Why::Budget);
        assert_eq!(queue.next(&stop), None);
    }
}
