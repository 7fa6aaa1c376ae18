//! A process of ours that outlives whatever started it: a keeper or a supervisor. It is found again by its number.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::{children, scheduling};

/// Held by a descriptor, so that nothing done to it can reach another process that was given its number since.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    pidfd: OwnedFd,
    /// Its number is its own as long as nobody has collected it.
    is_child: bool,
}

impl Process {
    /// One that we have just started.
    #[must_use]
    pub fn started(pid: Pid, pidfd: OwnedFd) -> Self {
        Self { pid, pidfd, is_child: true }
    }

    /// The one that serves `subject` as what `command` says. A number may have changed hands, or mean another process in another PID
    /// namespace, so the process has to say by its command line that it is the one.
    #[must_use]
    pub fn find(number: u32, command: &str, subject: &str) -> Option<Self> {
        let pid = Pid::from_raw(i32::try_from(number).ok()?)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        (subject_of(pid, command)? == subject).then_some(Self { pid, pidfd, is_child: false })
    }

    /// All that play this part, and whom they serve. One that cannot be looked at is none of them.
    pub fn all(command: &str) -> impl Iterator<Item = (Self, String)> {
        let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        let pids = entries.filter_map(|e| Pid::from_raw(e.file_name().to_str()?.parse().ok()?));
        pids.filter_map(move |pid| {
            subject_of(pid, command)?;
            let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            // Again: only now it is certain that the number is that of what is held.
            Some((Self { pid, pidfd, is_child: false }, subject_of(pid, command)?))
        })
    }

    #[must_use]
    pub fn number(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Something about it in `/proc`. Whoever uses it asks afterwards whether the process is still there.
    #[must_use]
    pub fn in_proc(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.pid.as_raw_nonzero()))
    }

    /// One that is gone needs no signal.
    pub fn kill(&self) {
        if self.is_child {
            scheduling::do_not_preempt(self.pid);
        }
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// True when it is gone, with all that it had mounted. Without a limit, waits as long as it takes.
    #[must_use]
    pub fn wait(&self, limit: Option<Duration>) -> bool {
        let timeout = limit.map(|limit| Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() });
        let has_ended = loop {
            match poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], timeout.as_ref()) {
                Err(Errno::INTR) if limit.is_none() => {}
                other => break other.is_ok_and(|n| n > 0),
            }
        };
        if has_ended {
            children::collect();
        }
        has_ended
    }
}

/// Whom a process serves, if its command line is `<program> <command> <subject> …`.
fn subject_of(pid: Pid, command: &str) -> Option<String> {
    let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).ok()?;
    let mut words = line.split(|b| *b == 0).skip(1);
    let is_meant = words.next()? == command.as_bytes();
    let subject = std::str::from_utf8(words.next()?).ok()?;
    is_meant.then(|| subject.to_owned())
}
