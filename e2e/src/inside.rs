//! Short ways into a living sandbox, and to what is known about it.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::{Outcome, World};

impl World {
    /// `whatif new NAME …`.
    #[track_caller]
    pub fn limited(&self, name: &str, limits: &[&str]) {
        self.whatif(["new", name]).args(limits).go().ok();
    }

    /// A python program in a living sandbox.
    #[track_caller]
    pub fn python(&self, sandbox: &str, program: &str) -> Outcome {
        self.whatif(["exec", sandbox, "--", "/usr/bin/python3", "-c", program]).go()
    }

    /// The same, and what is said about its end, as JSON.
    #[track_caller]
    #[must_use]
    pub fn python_json(&self, sandbox: &str, program: &str) -> Value {
        self.whatif(["--json", "exec", sandbox, "--", "/usr/bin/python3", "-c", program]).go().json()
    }

    /// One command in a living sandbox that looks at something, waits while reality changes, and goes on. It still sees what it has
    /// looked up, which another command would not.
    #[track_caller]
    pub fn exec_around(&self, sandbox: &str, look: &str, reality: &str, inside: &str) {
        let script = format!("{{ {look}; }} > /dev/null; echo ready; read go; {inside}");
        let call = self.whatif(["exec", "-i", sandbox, "--", "/bin/sh", "-c", &script]);
        let mut running = call.streams(Stdio::piped(), Stdio::piped(), Stdio::inherit()).spawn();
        let mut said = BufReader::new(running.stdout.take().expect("it is a pipe"));
        said.read_line(&mut String::new()).expect("it says something");
        self.outside(reality).ok();
        drop(running.stdin.take());
        let mut rest = String::new();
        said.read_to_string(&mut rest).expect("it ends");
        assert!(running.wait().expect("it is our child").success(), "{rest}");
    }

    /// Everything about a sandbox.
    #[track_caller]
    #[must_use]
    pub fn show(&self, sandbox: &str) -> Value {
        self.json(["show", sandbox])
    }

    /// Where a sandbox lies.
    #[track_caller]
    #[must_use]
    pub fn directory(&self, sandbox: &str) -> PathBuf {
        PathBuf::from(self.show(sandbox)["directory"].as_str().expect("it has one"))
    }

    #[track_caller]
    #[must_use]
    pub fn keeper_pid(&self, sandbox: &str) -> i32 {
        self.show(sandbox)["keeper_pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("it runs")
    }

    /// It answers.
    #[track_caller]
    pub fn assert_alive(&self, sandbox: &str) {
        assert_eq!(self.exec(sandbox, "echo alive").ok().text(), "alive");
    }
}
