//! What a process may do, and what may come of it.

use serde_json::Value;
use whatif_e2e::{Outcome, Random, World};

/// Printed by a command as soon as it runs.
const RAN: &str = "it-ran";
/// With what it ends if nobody ends it.
const CODE: i32 = 7;
/// With what whatif itself fails.
const OWN_FAILURE: i32 = 125;

/// Errors that say no more than that something failed: the causes of all others are named.
const RAW: [&str; 5] = ["incomplete", "io_error", "keeper_unreachable", "setup_failed", "internal"];

/// One call.
pub struct Verb {
    arguments: Vec<String>,
}

impl Verb {
    pub fn random(w: &World, random: &mut Random, sandboxes: usize) -> Self {
        // Half of all meet at a few.
        let mut name = || format!("s{}", if random.once_in(2) { random.below(sandboxes.min(10)) } else { random.below(sandboxes) });
        let (one, other) = (name(), name());
        let file = format!("dir{}/file{}", random.below(4), random.below(40));
        let archive = w.home.join(format!("{one}.archive")).display().to_string();
        let script = format!(
            "echo {RAN}; sed -i '{}s/$/ x/' {file} 2>/dev/null; echo {other} > new-{one}; exit {CODE}",
            random.below(7) + 1
        );
        let command: &[&str] = match random.below(44) {
            0..=3 => &["run", "--rm", "--quiet", "--", "/bin/sh", "-c", &script],
            4..=7 => &["run", "--keep", "--name", &one, "--", "/bin/sh", "-c", &script],
            8..=9 => &["new", &one],
            10..=15 => &["exec", &one, "--", "/bin/sh", "-c", &script],
            16 => &["exec", "-d", &one, "--", "sleep", "1"],
            17 => &["diff", &one],
            18 => &["diff", "--name-only", &one],
            19..=20 => &["apply", &one, "--yes"],
            21 => &["undo", "--yes"],
            22 => &["status", &one],
            23 => &["show", &one],
            24 => &["ls"],
            25 => &["ps", &one],
            26 => &["stats"],
            27 => &["du"],
            28 => &["gc"],
            29 => &["history"],
            30 => &["net", &one],
            31..=32 => &["snapshot", &one],
            33 => &["snapshots", &one],
            34 => &["rollback", &one, "@-1"],
            35 => &["fork", &one, &other],
            36 => &["squash", &one],
            37 => &["stop", &one, "--grace", "20ms"],
            38 => &["start", &one],
            39 => &["rebase", &one],
            40 => &["export", "--force", &one, "--output", &archive],
            41 => &["import", &archive, "--name", &other],
            _ => &["rm", &one],
        };
        Self { arguments: command.iter().map(|&word| word.to_owned()).collect() }
    }

    pub fn name(&self) -> &str {
        &self.arguments[0]
    }

    pub fn go(&self, w: &World) -> Outcome {
        w.whatif(["--json"]).args(&self.arguments).go()
    }

    /// In a word.
    pub fn end(&self, outcome: &Outcome) -> String {
        match error(outcome) {
            Some(error) => error["code"].as_str().unwrap_or("?").to_owned(),
            None => outcome.code.to_string(),
        }
    }

    fn runs_a_command(&self) -> bool {
        matches!(self.name(), "run" | "exec") && !self.arguments.iter().any(|word| word == "-d")
    }
}

/// What is wrong with the way a call ended.
pub fn complaint(w: &World, verb: &Verb, outcome: &Outcome) -> Option<String> {
    let why = why(w, verb, outcome)?;
    let Outcome { code, stdout, stderr, .. } = outcome;
    Some(format!("{why}: {:?} ended with {code}\n{stdout}\n{stderr}", verb.arguments))
}

fn why(w: &World, verb: &Verb, outcome: &Outcome) -> Option<String> {
    let has_run = verb.runs_a_command() && outcome.stdout.contains(RAN);
    if verb.runs_a_command() && outcome.code == CODE && !has_run {
        return Some("it says that it ran, and did not".to_owned());
    }
    let Some(error) = error(outcome) else {
        let is_failure = !verb.runs_a_command() && outcome.code == OWN_FAILURE;
        return is_failure.then(|| "a failure without an error".to_owned());
    };
    let code = error["code"].as_str().unwrap_or_default();
    let message = error["message"].as_str().unwrap_or_default();
    let has_hint = error["hints"].as_array().is_some_and(|hints| !hints.is_empty());
    if has_run && error["retryable"] != false {
        return Some("it ran, and would be run again".to_owned());
    }
    // A file that the caller named may be missing.
    let is_callers = code == "io_error" && !message.contains(&*w.state.to_string_lossy());
    if RAW.contains(&code) && !is_callers {
        return Some("a raw error".to_owned());
    }
    (!has_hint).then(|| "an error without a next step".to_owned())
}

fn error(outcome: &Outcome) -> Option<Value> {
    let last = outcome.stderr.lines().rfind(|line| line.starts_with('{'))?;
    serde_json::from_str::<Value>(last).ok().map(|document| document["error"].clone()).filter(|error| !error.is_null())
}
