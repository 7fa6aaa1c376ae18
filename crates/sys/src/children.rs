//! Our own children that live longer than whatever started them: keepers, supervisors and helpers.
//!
//! A command that starts one ends before it. A process that stays has to collect those that have ended, or they stay as well.

use std::process::Child;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// Collected and forgotten by the same turn, so no number here can belong to another child.
static LEFT_ALONE: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Nobody waits for this child any more: it is collected when it has ended.
pub fn leave_alone(child: &Child) {
    leave_alone_by_number(Pid::from_child(child));
}

/// The same for one that was not started by way of the standard library.
pub fn leave_alone_by_number(child: Pid) {
    LEFT_ALONE.lock().unwrap_or_else(PoisonError::into_inner).push(child);
}

/// Collects those that have ended.
pub fn collect() {
    let has_ended = |child: &Pid| {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        // One that is not ours to collect is gone as well.
        matches!(waitid(WaitId::Pid(*child), options), Ok(Some(_)) | Err(Errno::CHILD))
    };
    LEFT_ALONE.lock().unwrap_or_else(PoisonError::into_inner).retain(|child| !has_ended(child));
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn who_has_ended_is_collected_and_who_lives_is_left_alone() {
        let start = |seconds: &str| {
            let child = std::process::Command::new("/bin/sleep").arg(seconds).spawn().expect("it can be started");
            leave_alone(&child);
            (PathBuf::from(format!("/proc/{}", child.id())), child)
        };
        let (short, _) = start("0");
        let (long, mut sleeper) = start("1000");
        let deadline = Instant::now() + Duration::from_secs(30);
        while short.exists() {
            assert!(Instant::now() < deadline, "it was never collected");
            std::thread::sleep(Duration::from_millis(1));
            collect();
        }
        assert!(long.exists());
        sleeper.kill().expect("it is ours");
        while long.exists() {
            assert!(Instant::now() < deadline, "it was never collected");
            collect();
        }
    }
}
