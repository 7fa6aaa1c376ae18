//! One question to one tool: bounded in time and in what it may say.

use std::fmt::Display;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::{Pid, PidfdFlags, Signal};
use whatif_sys::onlooker;

use crate::surroundings::Surroundings;

/// For everything together. A person waits for the answer, but an interpreter takes seconds to start on a busy machine, and an answer
/// that comes too late leaves rules out.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
const LONGEST_ANSWER: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error("cannot be started: {0}")]
    Start(std::io::Error),
    #[error("did not answer within {} seconds", PATIENCE.as_secs())]
    Late,
    #[error("says more than can be a set-up")]
    TooMuch,
    #[error("failed")]
    Failed,
    #[error("answers with something that is not text")]
    NotText,
    #[error("cannot be listened to: {0}")]
    Io(#[from] std::io::Error),
}

impl From<rustix::io::Errno> for AskError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// A command line being put together.
#[derive(Debug)]
pub(crate) struct Question {
    command: Command,
    scratch: Option<PathBuf>,
    deadline: Instant,
}

impl Question {
    /// Asked in the home, or at the root if there is none: never in the project.
    pub(crate) fn new(program: &Path, surroundings: &Surroundings<'_>) -> Self {
        let mut command = Command::new(program);
        let has_home = surroundings.home.metadata().is_ok_and(|home| home.is_dir());
        let directory = if has_home { surroundings.home } else { Path::new("/") };
        command.env_clear().envs(surroundings.variables.iter().copied());
        command.env("PATH", surroundings.search_path()).env("HOME", surroundings.home).current_dir(directory);
        Self { command, scratch: None, deadline: surroundings.deadline }
    }

    pub(crate) fn args<T: AsRef<std::ffi::OsStr>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.command.args(arguments);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn cwd(mut self, directory: impl AsRef<Path>) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Where it may write. Tools keep logs, caches and settings wherever they can, and nothing is to change because somebody asks.
    pub(crate) fn scratch(mut self, directory: impl Into<PathBuf>) -> Self {
        self.scratch = Some(directory.into());
        self
    }

    pub(crate) fn ask(self) -> Result<String, AskError> {
        let (is_success, answer) = self.listen()?;
        let text = String::from_utf8(answer).map_err(|_| AskError::NotText)?;
        if is_success { Ok(text) } else { Err(AskError::Failed) }
    }

    /// For a tool that is expected to fail.
    pub(crate) fn run(self) -> Result<(), AskError> {
        self.listen().map(drop)
    }

    fn listen(mut self) -> Result<(bool, Vec<u8>), AskError> {
        // A group of its own, so that whatever a late tool has started ends with it.
        onlooker::confine(&mut self.command, self.scratch.as_deref())?;
        self.command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = self.command.spawn().map_err(AskError::Start)?;
        let outcome = answer_of(&mut child, self.deadline);
        // Not waited for yet, so the number is still its own.
        if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let status = child.wait()?;
        outcome.map(|answer| (status.success(), answer))
    }
}

/// What it says until it ends. What it leaves behind may hold the pipe for as long as it likes.
fn answer_of(child: &mut Child, deadline: Instant) -> Result<Vec<u8>, AskError> {
    let mut pipe = child.stdout.take().ok_or(AskError::NotText)?;
    rustix::fs::fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
    let pid = Pid::from_raw(child.id().cast_signed()).ok_or(AskError::NotText)?;
    let end = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    let mut answer = Vec::new();
    let mut is_open = true;
    loop {
        let left = deadline.checked_duration_since(Instant::now()).ok_or(AskError::Late)?;
        let timeout = Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or_default(), tv_nsec: left.subsec_nanos().into() };
        let mut events = vec![PollFd::new(&end, PollFlags::IN)];
        if is_open {
            events.push(PollFd::new(&pipe, PollFlags::IN));
        }
        match poll(&mut events, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        // In this order: what it wrote before its end is then in the pipe.
        let has_ended = !events[0].revents().is_empty();
        is_open = is_open && drain(&mut pipe, &mut answer)?;
        if has_ended {
            return Ok(answer);
        }
    }
}

/// Whether more can come.
fn drain(pipe: &mut impl Read, answer: &mut Vec<u8>) -> Result<bool, AskError> {
    let mut buffer = [0; 16 << 10];
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => return Ok(false),
            Ok(length) => answer.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        if answer.len() > LONGEST_ANSWER {
            return Err(AskError::TooMuch);
        }
    }
}

/// A name from outside, fit for a message.
pub(crate) fn shown(text: impl Display) -> String {
    text.to_string().chars().take(60).flat_map(char::escape_debug).collect()
}

/// The first of these programs that there is.
pub(crate) fn first_program(surroundings: &Surroundings<'_>, names: &[&str]) -> Option<PathBuf> {
    names.iter().find_map(|name| surroundings.program(name))
}
