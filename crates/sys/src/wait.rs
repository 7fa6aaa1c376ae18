//! Collects children that ended, with what they used.

use std::time::Duration;

/// A child that ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub pid: i32,
    /// How it exited by itself.
    pub code: Option<i32>,
    /// What killed it.
    pub signal: Option<i32>,
    pub used: Used,
}

/// Of a process and of all its descendants that were waited for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    pub cpu: Duration,
    /// Of the largest of them.
    pub peak_memory_bytes: u64,
    /// On the way to a disk.
    pub written_bytes: u64,
}

/// The next child that ended, without waiting for one.
#[must_use]
pub fn next_ended() -> Option<Ended> {
    let mut status = 0;
    // SAFETY: a zeroed structure is a valid one to be filled.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to our own, live memory.
    let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
    (pid > 0).then(|| Ended {
        pid,
        code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
        used: Used::of(&usage),
    })
}

/// What all children used that were collected so far.
#[must_use]
pub fn used_by_ended() -> Used {
    // SAFETY: a zeroed structure is a valid one to be filled.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to our own, live memory.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    Used::of(&usage)
}

impl Used {
    fn of(usage: &libc::rusage) -> Self {
        let time = |t: libc::timeval| Duration::new(t.tv_sec.unsigned_abs(), t.tv_usec.unsigned_abs() as u32 * 1000);
        Self {
            cpu: time(usage.ru_utime) + time(usage.ru_stime),
            peak_memory_bytes: usage.ru_maxrss.unsigned_abs() * 1024,
            written_bytes: usage.ru_oublock.unsigned_abs() * 512,
        }
    }
}
