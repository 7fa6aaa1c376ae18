//! One command that was started.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;
use whatif_sys::command::{Failure, Starting};
use whatif_sys::wait::Ended;
use whatif_types::{CommandId, LimitHit};

use super::connections::Connections;
use super::group::Counted;
use super::log::Log;
use super::typed::Typed;
use crate::log::record::Started;
use crate::protocol::{Exec, Failed, Reason, Reply};

/// Between asking a command to end and killing it, when its time is up or its client is gone.
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST_COMMAND: usize = 256;

pub(super) struct Running {
    pub pid: i32,
    /// Who is told about its end.
    pub waiting: Vec<u64>,
    /// Whose leaving ends it.
    pub owner: Option<u64>,
    /// Until the command is known to run.
    pub starting: Option<Starting>,
    pub program: String,
    /// Where it was started.
    pub directory: String,
    /// The whole line, for whoever asks later.
    pub command: String,
    /// Nobody else was there when it began, nor began meanwhile.
    pub is_alone: bool,
    /// Handed to the client once the command runs, or to whoever attaches; and kept for resizing.
    pub terminal: Option<OwnedFd>,
    /// The other end of its standard input, for whoever attaches.
    pub input: Option<OwnedFd>,
    /// On the way to its terminal, if whoever attaches cannot have that.
    pub typed: Option<Typed>,
    pub log: Option<Log>,
    /// Of its standard error, if that is kept apart. Nobody is attached to it.
    pub errors: Option<Log>,
    pub deadline: Option<Instant>,
    pub timed_out: bool,
    pub kill_at: Option<Instant>,
    pub began: Instant,
    /// What the control group had counted when it began.
    pub counted: Counted,
    /// The limit on processes was reached while it ran.
    pub was_crowded: bool,
    /// The limit it was ended for.
    pub hit: Option<LimitHit>,
    pub ended: Option<Ended>,
}

impl Running {
    pub(super) fn announce(&mut self, connections: &mut Connections) {
        let started = Started {
            pid: self.pid,
            has_input: self.takes_input().is_some(),
            is_terminal: self.terminal.is_some(),
            command: self.command.clone(),
        };
        if let Some(log) = &mut self.log {
            log.has_started(&started);
        }
        let master = self.terminal.as_ref().filter(|_| self.log.is_none()).map(AsFd::as_fd);
        for client in &self.waiting {
            connections.send(*client, &Reply::Started { pid: self.pid }, master.as_slice());
        }
    }

    /// What whoever attaches can write to.
    pub(super) fn takes_input(&self) -> Option<BorrowedFd<'_>> {
        let typed = self.typed.as_ref().map(Typed::as_fd);
        typed.or(self.terminal.as_ref().or(self.input.as_ref()).map(AsFd::as_fd))
    }

    pub(super) fn id(&self) -> Option<CommandId> {
        self.log.as_ref().and_then(|log| log.id)
    }

    pub(super) fn end_gently(&mut self, signal: Signal) {
        self.signal(signal.as_raw());
        self.kill_at = Some(Instant::now() + PATIENCE);
    }

    /// To the whole group: what the command started and did not put in a group of its own.
    pub(super) fn signal(&self, signal: i32) {
        if self.ended.is_none() {
            let _ = whatif_sys::signals::send_to_group(self.pid, signal);
        }
    }
}

pub(super) fn has_input(fd: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0)
}

pub(super) fn line_of(exec: &Exec) -> String {
    let words: Vec<_> = exec.arguments.iter().map(|a| a.to_os().to_string_lossy().into_owned()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(LONGEST_COMMAND) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

pub(super) fn describe(failure: Failure, program: &str, directory: &str) -> Failed {
    let (reason, errno, what) = match failure {
        Failure::Directory(errno) => (Reason::Directory, errno, format!("enter the working directory {directory}")),
        Failure::Execute(errno) if program.is_empty() => {
            return Failed { reason: Reason::NotFound, message: "the name of the command is empty".to_owned(), errno };
        }
        Failure::Execute(errno) if errno == rustix::io::Errno::NOENT.raw_os_error() => {
            return Failed { reason: Reason::NotFound, message: format!("{program}: not found in the sandbox"), errno };
        }
        Failure::Execute(errno) => (Reason::CannotExecute, errno, format!("execute {program}")),
        Failure::Bounds(errno) => (Reason::CannotExecute, errno, "put the command within its limits".to_owned()),
        Failure::Setup(errno) => (Reason::CannotExecute, errno, "set up the command".to_owned()),
    };
    Failed { reason, message: format!("failed to {what}: {}", io::Error::from_raw_os_error(errno)), errno }
}
