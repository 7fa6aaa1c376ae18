//! One shell for all sessions of a page: directories and variables stay.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What no command of the documentation takes.
const DEADLINE: Duration = Duration::from_secs(90);
const END: char = '\u{1e}';

#[derive(Debug)]
pub struct Shell {
    child: Child,
    said: std::fs::File,
    script: PathBuf,
}

impl Shell {
    /// The command starts a shell that reads commands from its standard input. The shell must be able to read `script`.
    #[track_caller]
    pub(super) fn start(mut command: Command, script: PathBuf) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("there is a shell");
        let said = OwnedFd::from(child.stdout.take().expect("it is a pipe")).into();
        Self { child, said, script }
    }

    /// What it printed, and its exit code. Standard error goes where standard output goes, as on a terminal.
    #[track_caller]
    pub(super) fn run(&mut self, script: &str) -> (String, i32) {
        std::fs::write(&self.script, script).expect("the script can be written");
        let line = format!(". {} </dev/null 2>&1; printf '\\036%d\\036' $?\n", self.script.display());
        self.child.stdin.as_mut().expect("it is a pipe").write_all(line.as_bytes()).expect("the shell still reads");
        let deadline = Instant::now() + DEADLINE;
        let mut said = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&said);
            if let Some((output, code)) = text.strip_suffix(END).and_then(|text| text.rsplit_once(END)) {
                return (output.to_owned(), code.parse().expect("the shell printed a number"));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).expect("a deadline is near");
            let ready = poll(&mut [PollFd::new(&self.said, PollFlags::IN)], Some(&left)).expect("a pipe can be waited for");
            assert!(ready > 0, "it did not end within {DEADLINE:?}: {script}\n{text}");
            let mut buffer = [0; 16 << 10];
            let length = self.said.read(&mut buffer).expect("a pipe can be read");
            assert!(length > 0, "the shell has ended: {script}\n{text}");
            said.extend_from_slice(&buffer[..length]);
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
