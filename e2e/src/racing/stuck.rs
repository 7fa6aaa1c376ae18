//! Races to be disturbed: one whose order is certain, and one that waits for a reason to go on.

use serde_json::{Value, json};

use super::Running;
use crate::{World, eventually};

/// Attempts, each with something to do, of which none is level with another, and their checks.
pub const ORDERED: [&str; 8] = [
    "--attempt=large=sleep 0.05; seq 50 > f",
    "--attempt=small=sleep 0.1; seq 2 > f",
    "--attempt=failing=sleep 0.05; exit 3",
    "--attempt=wrong=touch wrong",
    "--attempt=middle=sleep 0.02; seq 9 > f",
    "--check=right=sleep 0.05; test ! -e wrong",
    "--optional-check=f=test -e f",
    "--jobs=2",
];

impl World {
    /// A race called `stuck`, one at a time: one that ends, one that does not until there is a file `go` in the project, and another.
    #[must_use]
    pub fn stuck_race(&self) -> Vec<String> {
        let words = ["--check=true", "--jobs=1", "--name=stuck", "--attempt=quick=echo quick > f"].map(str::to_owned);
        let slow = format!("--attempt=slow={}; echo slow > f", self.endless());
        words.into_iter().chain([slow, "--attempt=last=seq 5 > f".to_owned()]).collect()
    }

    /// A command for a shell that does not end until there is a file `go`. It mentions this world, so it can be found outside.
    #[must_use]
    pub fn endless(&self) -> String {
        format!("test -e go || exec tail -f {}", self.write("endless", "").display())
    }

    /// Begins that race and waits until it is stuck.
    #[track_caller]
    pub fn begin_stuck_race(&self) -> Running {
        let arguments = self.stuck_race();
        let mut running = self.begin_race(arguments.iter().map(String::as_str));
        running.has_said("attempt_began", 2);
        eventually("it is stuck", || self.is_stuck());
        running
    }

    /// Whether such a command runs.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.processes().iter().any(|line| line.split(' ').nth(1) == Some("tail"))
    }

    /// All sandboxes are stopped, and there is no process of this world, or soon will not be.
    #[track_caller]
    pub fn assert_nothing_runs(&self) {
        eventually("nothing of it runs", || {
            let all = self.json(["ls"]);
            all.as_array().is_some_and(|all| all.iter().all(|s| s["status"] == "stopped")) && self.processes().is_empty()
        });
    }

    /// The attempts of a race that have ended, the best first, by what is recorded: where each stands, and why.
    #[track_caller]
    #[must_use]
    pub fn recorded_places(&self, race: &str) -> Vec<Value> {
        let shown = self.json(["race", "show", race]);
        let attempts = shown["attempts"].as_array().unwrap_or_else(|| panic!("no attempts: {shown:#}"));
        let ranked = attempts.iter().filter(|attempt| !attempt["place"].is_null());
        ranked.map(|a| json!({ "attempt": a["name"], "place": a["place"], "score": a["score"], "why": a["why"] })).collect()
    }

    /// Only their names.
    #[track_caller]
    #[must_use]
    pub fn recorded_order(&self, race: &str) -> Vec<String> {
        let places = self.recorded_places(race);
        places.iter().map(|place| place["attempt"].as_str().expect("a name").to_owned()).collect()
    }
}
