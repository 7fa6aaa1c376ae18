//! Short ways into a living sandbox, and to what is known about it.

use std::path::PathBuf;

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
