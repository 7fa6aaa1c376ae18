//! One call of a program, with a deadline, and what came of it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;

/// Nothing in this suite may take longer, on a machine that is busy with much else either.
const DEADLINE: Duration = Duration::from_secs(300);
/// What the children of a program may take to finish their output after it has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A command line being put together.
#[derive(Debug)]
pub struct Call {
    command: Command,
    input: Option<Vec<u8>>,
}

impl Call {
    pub(crate) fn new(command: Command) -> Self {
        Self { command, input: None }
    }

    pub(crate) fn into_command(self) -> Command {
        self.command
    }

    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    #[must_use]
    pub fn cwd(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    #[must_use]
    pub fn input(mut self, bytes: &[u8]) -> Self {
        self.input = Some(bytes.to_vec());
        self
    }

    /// For streams of another kind than pipes; use [`Call::spawn`] with it.
    #[must_use]
    pub fn streams(mut self, stdin: Stdio, stdout: Stdio, stderr: Stdio) -> Self {
        self.command.stdin(stdin).stdout(stdout).stderr(stderr);
        self
    }

    /// Starts it and leaves it to the caller, who must wait for it.
    #[track_caller]
    pub fn spawn(mut self) -> Child {
        self.command.spawn().expect("the program can be started")
    }

    /// Runs it to its end. Output still held open by processes left behind is not waited for.
    #[track_caller]
    pub fn go(mut self) -> Outcome {
        let shown = format!("{:?}", self.command);
        self.command.stdin(if self.input.is_some() { Stdio::piped() } else { Stdio::null() });
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().expect("the program can be started");
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), self.input) {
            // The program may end without reading it.
            std::thread::spawn(move || stdin.write_all(&input));
        }
        let mut stdout = Stream::of(child.stdout.take());
        let mut stderr = Stream::of(child.stderr.take());
        let Some(status) = ended(&mut child, &mut [&mut stdout, &mut stderr]) else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("it did not end within {DEADLINE:?}: {shown}\n{}", stderr.text());
        };
        Outcome { shown, code: status.code().unwrap_or(-1), stdout: stdout.text(), stderr: stderr.text() }
    }
}

/// Waits for the end of a program and reads meanwhile what it says. The kernel tells when there is something: the tests make tens
/// of thousands of calls, and asking now and then would cost each of them more than most programs take.
fn ended(child: &mut Child, streams: &mut [&mut Stream]) -> Option<ExitStatus> {
    let end = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).expect("it is our child");
    let mut deadline = Instant::now() + DEADLINE;
    let mut status = None;
    while status.is_none() || streams.iter().any(|stream| stream.pipe.is_some()) {
        let Some(left) = deadline.checked_duration_since(Instant::now()) else { break };
        let open = streams.iter().filter_map(|stream| stream.pipe.as_ref()).map(|pipe| PollFd::new(pipe, PollFlags::IN));
        let mut awaited: Vec<PollFd> = open.chain(status.is_none().then(|| PollFd::new(&end, PollFlags::IN))).collect();
        match poll(&mut awaited, Some(&left.try_into().expect("a deadline is near"))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("failed to wait for a program: {error}"),
        }
        for stream in streams.iter_mut() {
            stream.read();
        }
        if status.is_none() {
            status = child.try_wait().expect("it is our child");
            // Others may hold its output open, for as long as they live.
            deadline = if status.is_some() { Instant::now() + LAST_WORDS } else { deadline };
        }
    }
    status
}

/// What a program says on one of its streams.
struct Stream {
    /// Until its end.
    pipe: Option<OwnedFd>,
    bytes: Vec<u8>,
}

impl Stream {
    fn of(pipe: Option<impl Into<OwnedFd>>) -> Self {
        let pipe = pipe.map(Into::into);
        if let Some(pipe) = &pipe {
            ioctl_fionbio(pipe, true).expect("a pipe can be read without waiting");
        }
        Self { pipe, bytes: Vec::new() }
    }

    /// A part of what is there by now: what is written without end must not keep us from the clock.
    fn read(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        let mut buffer = [0; 64 << 10];
        match rustix::io::read(pipe, &mut buffer) {
            Ok(0) => self.pipe = None,
            Ok(length) => self.bytes.extend_from_slice(&buffer[..length]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => panic!("failed to read what a program says: {error}"),
        }
    }

    /// What was said so far. Whoever still has the other end goes on without anybody listening, and must not notice.
    fn text(self) -> String {
        if let Some(pipe) = self.pipe {
            ioctl_fionbio(&pipe, false).expect("a pipe can be read with waiting");
            std::thread::spawn(move || std::io::copy(&mut File::from(pipe), &mut std::io::sink()));
        }
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// How a call ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    shown: String,
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "exit code of {}\n--- stdout\n{}\n--- stderr\n{}", self.shown, self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub fn ok(self) -> Self {
        self.exits(0)
    }

    /// Standard output without the last newline.
    #[must_use]
    pub fn text(&self) -> &str {
        self.stdout.trim_end_matches('\n')
    }

    /// Standard output as exactly one JSON document.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("not one JSON document ({e}): {}\n{}\n{}", self.shown, self.stdout, self.stderr))
    }

    /// A failure of whatif itself: this exit code, a message, and a hint at what to do.
    #[track_caller]
    pub fn fails_with_hint(self, code: i32) -> Self {
        let outcome = self.exits(code);
        assert!(outcome.stderr.contains("hint:"), "no hint from {}\n{}", outcome.shown, outcome.stderr);
        outcome
    }

    /// Standard error mentions this.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(
            self.stderr.contains(text),
            "'{text}' is not said by {}\n--- stdout\n{}\n--- stderr\n{}",
            self.shown,
            self.stdout,
            self.stderr
        );
        self
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal, kill_process};

    use super::*;

    fn shell(script: &str) -> Outcome {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Call::new(command).go()
    }

    #[test]
    fn all_that_was_said_is_known_with_the_exit_code() {
        let outcome = shell("seq 100000; echo problem >&2; exit 3").exits(3);
        assert_eq!((outcome.stdout.lines().count(), outcome.stderr.as_str()), (100_000, "problem\n"));
        assert_eq!(shell("(sleep 0.2; echo later) & echo first").ok().stdout, "first\nlater\n");
    }

    #[test]
    fn output_that_others_hold_open_or_fill_is_not_waited_for() {
        for background in ["sleep 60", "yes"] {
            let outcome = shell(&format!("{background} & echo $! >&2; echo first")).ok();
            let pid = outcome.stderr.trim().parse().ok().and_then(Pid::from_raw).expect("the shell says whom it started");
            assert!(kill_process(pid, Signal::KILL).is_ok(), "{background} still runs");
            assert!(outcome.stdout.contains("first\n"), "{background}");
        }
    }

    #[test]
    fn whoever_goes_on_writing_does_not_notice_that_nobody_listens() {
        let written = std::env::temp_dir().join(format!("whatif-call-{}", std::process::id()));
        let script = format!("(sleep 4; echo unheard && echo written > {}) & echo first", written.display());
        assert_eq!(shell(&script).ok().stdout, "first\n");
        crate::eventually("it went on", || std::fs::read_to_string(&written).is_ok_and(|text| text == "written\n"));
        let _ = std::fs::remove_file(&written);
    }
}
