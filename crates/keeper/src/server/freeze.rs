//! Holds every process still while somebody looks at what they wrote: with the freezer if there is one, else by signals.

use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use whatif_cgroup::Freezer;

use super::freezer::Iced;
use super::processes;
use crate::protocol::Process;

/// A process in the middle of a long system call stops only after it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Processes that are held, and for whom.
pub(super) struct Frozen {
    pub by: u64,
    /// They are held while the layers change under the sandbox.
    pub changes_layers: bool,
    held: Held,
}

/// What keeps them from running.
enum Held {
    /// Nothing ran when it began, and nothing was started since.
    Nothing,
    Freezer(Iced),
    Signals {
        /// Stopped before us, by somebody else; they stay so.
        were_stopped: Vec<i32>,
    },
}

impl Frozen {
    /// Stops everything but the sandbox's own `helpers`. `None` if something does not stop; then nothing is held, nor after an
    /// error.
    pub(super) fn begin(by: u64, helpers: &[i32], freezer: Option<&Rc<Freezer>>) -> io::Result<Option<Self>> {
        let were_stopped = others(helpers)?.iter().filter(|p| p.state == 'T').map(|p| p.pid).collect();
        if let Some(freezer) = freezer.filter(|_| processes::others_alive())
            // Whatever keeps it from freezing, signals may do.
            && let Ok(Some(iced)) = Iced::begin(freezer, helpers)
        {
            go_on(were_stopped);
            return Ok(Some(Self { by, changes_layers: false, held: Held::Freezer(iced) }));
        }
        let frozen = Self { by, changes_layers: false, held: Held::Signals { were_stopped } };
        match stop_all(helpers) {
            Ok(true) => Ok(Some(frozen)),
            Ok(false) => {
                frozen.end();
                Ok(None)
            }
            Err(error) => {
                frozen.end();
                Err(error)
            }
        }
    }

    /// There is nothing to stop, and nothing may be started.
    pub(super) fn nothing(by: u64) -> Self {
        Self { by, changes_layers: false, held: Held::Nothing }
    }

    /// For those that were killed while they were held.
    pub(super) fn let_die(&self) {
        if let Held::Freezer(iced) = &self.held {
            iced.let_die();
        }
    }

    /// Lets them go on.
    pub(super) fn end(self) {
        if let Held::Signals { were_stopped } = self.held {
            go_on(were_stopped);
        }
    }
}

/// Children first: a shell that runs before its job does would believe that the job was stopped.
fn go_on(were_stopped: Vec<i32>) {
    let Ok(all) = processes::list(|_| None) else { return go_on_unseen(were_stopped) };
    let mut deepest_first: Vec<&Process> = all.iter().collect();
    deepest_first.sort_by_key(|p| std::cmp::Reverse(depth(p, &all)));
    // Whatever their state: who waits in the middle of a call will stop when it is over, unless the order is taken back.
    for process in deepest_first.into_iter().filter(|p| !were_stopped.contains(&p.pid)) {
        signal(process, Signal::CONT);
    }
}

/// The same without a list of them, which can only be had at another time: none stays held.
fn go_on_unseen(were_stopped: Vec<i32>) {
    processes::signal_all(Signal::CONT);
    for pid in were_stopped.into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::STOP);
    }
}

/// Whether everything stands still in time.
fn stop_all(helpers: &[i32]) -> io::Result<bool> {
    let deadline = Instant::now() + PATIENCE;
    while processes::others_alive() {
        stop_all_but(helpers);
        let all = others(helpers)?;
        if all.iter().all(|p| is_still(p, &all)) {
            break;
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(true)
}

/// Stops everybody at once: a list would miss those that fork and end faster than it is made. Helpers go on at the next moment.
pub(super) fn stop_all_but(helpers: &[i32]) {
    processes::signal_all(Signal::STOP);
    for pid in helpers.iter().copied().filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::CONT);
    }
}

fn others(helpers: &[i32]) -> io::Result<Vec<Process>> {
    let mut all = processes::list(|_| None)?;
    all.retain(|p| !helpers.contains(&p.pid));
    Ok(all)
}

pub(super) fn signal(process: &Process, signal: Signal) {
    if let Some(pid) = Pid::from_raw(process.pid) {
        let _ = kill_process(pid, signal);
    }
}

/// A parent between `vfork` and `exec` of its child runs only after the child does.
fn is_still(process: &Process, all: &[Process]) -> bool {
    let is_stopped = |p: &Process| matches!(p.state, 'T' | 't' | 'Z' | 'X');
    is_stopped(process) || (process.state == 'D' && all.iter().any(|p| p.parent == process.pid && p.state == 'T'))
}

fn depth(process: &Process, all: &[Process]) -> usize {
    let mut depth = 0;
    let mut parent = process.parent;
    // Parents are found by number; the limit is against numbers that changed hands meanwhile.
    while let Some(next) = all.iter().find(|p| p.pid == parent).filter(|_| depth < all.len()) {
        parent = next.parent;
        depth += 1;
    }
    depth
}
