//! One call of a program, with a deadline, and what came of it.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::wait_for;

/// Nothing in this suite may take longer.
const DEADLINE: Duration = Duration::from_secs(40);

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
        let stdout = child.stdout.take().map(Collected::from);
        let stderr = child.stderr.take().map(Collected::from);
        let Some(status) = wait_for(DEADLINE, || child.try_wait().expect("it is our child")) else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("it did not end within {DEADLINE:?}: {shown}\n{}", stderr.map(Collected::text).unwrap_or_default());
        };
        Outcome {
            shown,
            code: status.code().unwrap_or(-1),
            stdout: stdout.map(Collected::text).unwrap_or_default(),
            stderr: stderr.map(Collected::text).unwrap_or_default(),
        }
    }
}

/// Output gathered by a thread, so that a full pipe never blocks the program.
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: std::thread::JoinHandle<()>,
}

impl Collected {
    fn from(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&bytes);
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 16 << 10];
            while let Ok(length @ 1..) = pipe.read(&mut buffer) {
                shared.lock().expect("no reader panics").extend_from_slice(&buffer[..length]);
            }
        });
        Self { bytes, thread }
    }

    fn text(self) -> String {
        let _ = wait_for(Duration::from_secs(1), || self.thread.is_finished().then_some(()));
        String::from_utf8_lossy(&self.bytes.lock().expect("no reader panics")).into_owned()
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
