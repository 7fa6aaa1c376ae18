//! The end of processes, with all that belongs to them.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::eventually;

/// Kills processes and waits until the kernel has ended all of each. A keeper loses its name and lets go of its files before
/// everything that it started has ended, and until then it can be reached but does not answer.
#[track_caller]
pub fn kill_wholly(pids: &[i32]) {
    // One that cannot be opened is gone.
    let processes: Vec<_> = pids.iter().filter_map(|pid| pidfd_open(Pid::from_raw(*pid)?, PidfdFlags::empty()).ok()).collect();
    for process in &processes {
        let _ = pidfd_send_signal(process, Signal::KILL);
    }
    let now = Duration::ZERO.try_into().expect("a short time");
    for process in &processes {
        eventually("what was killed has ended", || poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&now)) == Ok(1));
    }
}
