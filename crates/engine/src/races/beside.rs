//! Work in threads of its own, while whoever watches a race is told what happens and can end it.

use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use whatif_types::experiment::Event;

use super::run::{Flow, Racing, Tell};
use super::stop::Why;
use crate::EngineError;
use crate::races::Races;

/// How often whoever watches is called when nothing happens.
const TICK: Duration = Duration::from_millis(80);

impl Races {
    /// One thing, to its end.
    pub(super) fn beside<T: Send>(
        &self,
        racing: &Racing,
        tell: &mut Tell<'_>,
        work: impl FnOnce(&Races, &dyn Fn(Event)) -> Result<T, EngineError> + Send,
    ) -> Result<T, EngineError> {
        let (sender, events) = mpsc::channel();
        std::thread::scope(|scope| {
            let worker = Builder::new().spawn_scoped(scope, move || {
                give_input()?;
                work(self, &|event| _ = sender.send(event))
            });
            let worker = worker.map_err(cannot_start)?;
            listen(racing, &events, tell, &mut |event, tell| Ok(tell(Some(&event))))?;
            // Whoever panics takes us along.
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

pub(super) fn cannot_start(error: io::Error) -> EngineError {
    EngineError::io("start", Path::new("a thread"), error)
}

/// Until nobody has anything more to say.
pub(super) fn listen<M>(
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

/// For a thread that gives commands their input: one that does not want it must not end us.
pub(super) fn give_input() -> Result<(), EngineError> {
    whatif_sys::signals::block(&[Signal::PIPE.as_raw()]).map_err(|e| EngineError::io("block", Path::new("a signal"), e))
}
