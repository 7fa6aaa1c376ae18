//! A race that is being run, in the background or to its end.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Race;
use crate::{Call, World, wait_for};

/// Longer than any race of these tests takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(300);

/// A race in the background.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl World {
    /// `whatif --json race …`, whatever comes of it.
    #[track_caller]
    pub fn race<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Race {
        self.begin_race(arguments).ends()
    }

    /// The same, and goes on.
    #[track_caller]
    pub fn begin_race<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Running {
        Running::begin(self, self.whatif(["--json", "race"]).args(arguments))
    }
}

impl Running {
    /// Whatever speaks in events, with its output in files: a pipe would be one more thing that can fill.
    #[track_caller]
    pub fn begin(world: &World, call: Call) -> Self {
        let place = |name: &str| {
            let free = (0..).map(|n| world.dir.join(format!("race-{n}.{name}"))).find(|path| !path.exists());
            world.write(free.expect("there always is another number"), "")
        };
        let (stdout, stderr) = (place("stdout"), place("stderr"));
        let open = |path: &PathBuf| Stdio::from(fs::File::options().append(true).open(path).expect("it is ours"));
        let child = call.streams(Stdio::null(), open(&stdout), open(&stderr)).spawn();
        Self { child, stdout, stderr }
    }

    /// What it has said so far; a line that is not complete does not count.
    #[must_use]
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        let text = fs::read(&self.stdout).expect("it is ours");
        let text = String::from_utf8(text).expect("JSON is text");
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        let event = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("not a JSON document ({e}): {line}"));
        complete.lines().map(event).collect()
    }

    /// Waits until so many events of a kind have been told.
    #[track_caller]
    pub fn has_said(&mut self, kind: &str, times: usize) {
        let said = wait_for(DEADLINE, || {
            let told = self.events().iter().filter(|e| e["event"] == kind).count() >= times;
            (told || self.child.try_wait().expect("it is our child").is_some()).then_some(told)
        });
        assert_eq!(said, Some(true), "'{kind}' was not told {times} times: {:#?}\n{}", self.events(), self.said());
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid is a number");
        let _ = kill_process(pid, signal);
    }

    /// Waits for it to end by itself.
    #[track_caller]
    pub fn ends(mut self) -> Race {
        let ended = wait_for(DEADLINE, || self.child.try_wait().expect("it is our child"));
        let Some(status) = ended else { panic!("it did not end: {:#?}\n{}", self.events(), self.said()) };
        Race { code: status.code().unwrap_or(-1), events: self.events(), stderr: self.said() }
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.stderr).unwrap_or_default()).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
