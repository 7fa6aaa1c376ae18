//! Holding processes with the kernel's freezer, which no signal undoes and no parent notices.

use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use whatif_cgroup::Freezer;

use super::freeze::stop_all_but;
use super::processes;

/// Whoever multiplies faster than it can be taken in, or stays in the kernel, is held by signals, if at all.
const PATIENCE: Duration = Duration::from_secs(1);

/// Everything is frozen until this is dropped. It must be, however the keeper ends: in v1 what is frozen does not even die.
pub(super) struct Iced(Rc<Freezer>);

impl Iced {
    /// Freezes everything but the sandbox's own `helpers`, and stops it; it is for the caller to take that back. `None` if that takes too long; then nothing is frozen, nor after an error.
    pub(super) fn begin(freezer: &Rc<Freezer>, helpers: &[i32]) -> io::Result<Option<Self>> {
        let iced = Self(Rc::clone(freezer));
        // First, so that whatever is taken in stops there and has no more children.
        freezer.freeze()?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Who is outside must not get away meanwhile. Who is frozen never comes to stop.
            stop_all_but(helpers);
            let were_all_in = gather(freezer, helpers)?;
            if were_all_in && freezer.is_frozen()? {
                return Ok(Some(iced));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            if were_all_in {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    /// Those that were killed can only die when they are thawed; they do so before anything else.
    pub(super) fn let_die(&self) {
        let _ = self.0.thaw();
    }
}

impl Drop for Iced {
    fn drop(&mut self) {
        let _ = self.0.thaw();
    }
}

/// Takes in whoever is not in yet, which makes the kernel wait for some milliseconds. Whether all were: children of those that are in
/// are in, too.
pub(super) fn gather(freezer: &Freezer, helpers: &[i32]) -> io::Result<bool> {
    let mut were_all_in = true;
    for process in processes::list(|_| None)?.iter().filter(|p| p.state != 'Z' && !helpers.contains(&p.pid)) {
        if !processes::is_in_group(process.pid, |membership| freezer.holds(membership))? {
            freezer.take(process.pid)?;
            were_all_in = false;
        }
    }
    Ok(were_all_in)
}
