//! `--idempotency-key`: the same command with the same key is done once, and gives the same answer again.

use std::fmt::Debug;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use whatif_engine::Engine;
use whatif_engine::ground::once::{Begun, Once};

use super::Outcome;
use crate::exit::ExitCode;
use crate::output::{self, Output, printable};

/// A longer answer is not kept.
const LONGEST: usize = 1 << 20;
const LONGEST_KEY: usize = 255;

/// The answer, as it is kept.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Answer {
    code: u8,
    lines: Vec<String>,
    notes: Vec<String>,
    document: Option<Value>,
}

/// What is special about a verb.
#[derive(Clone, Copy)]
pub struct Verb {
    pub name: &'static str,
    /// Longer it cannot take, unless it was killed.
    pub within: Duration,
    /// Whether asking again with this code is to give the same answer. Otherwise it may be tried again.
    pub settles: fn(ExitCode) -> bool,
}

pub fn key(text: &str) -> Result<String, String> {
    match text.len() {
        0 => Err("a key has at least one character".to_owned()),
        1..=LONGEST_KEY => Ok(text.to_owned()),
        _ => Err(format!("a key has at most {LONGEST_KEY} bytes")),
    }
}

/// `asked` is the same whenever the same is asked for.
pub fn once(
    engine: &Engine,
    key: Option<&str>,
    verb: Verb,
    asked: &impl Debug,
    output: &Output,
    work: impl FnOnce() -> Outcome,
) -> Outcome {
    let Some(key) = key else { return work() };
    let request = format!("{:?} {asked:?}", engine.caller().cwd);
    match engine.ground.begin_once(Once { key, verb: verb.name, request: &request, within: verb.within })? {
        Begun::Before(answer) => Ok(repeated(&answer, key, output)),
        Begun::Now(claimed) => {
            output::begin_record();
            let outcome = work();
            let recorded = output::end_record();
            if let Ok(code) = &outcome
                && (verb.settles)(*code)
            {
                let output::Recorded { lines, notes, document } = recorded;
                let mut answer = Answer { code: code.0, lines, notes, document };
                if serde_json::to_string(&answer).map_or(usize::MAX, |text| text.len()) > LONGEST {
                    answer = Answer { code: code.0, ..Answer::default() };
                }
                claimed.answer(&serde_json::to_string(&answer).unwrap_or_default())?;
            }
            outcome
        }
    }
}

fn repeated(answer: &str, key: &str, output: &Output) -> ExitCode {
    let Answer { code, lines, notes, document } = serde_json::from_str(answer).unwrap_or_default();
    let key = printable(key);
    output.note(match (lines.is_empty() && notes.is_empty(), code) {
        (true, 0) => format!("whatif: this was done before with the key '{key}'; it was not done again"),
        (true, code) => format!("whatif: this was done before with the key '{key}', with exit code {code}; it was not done again"),
        (false, _) => format!("whatif: this was done before with the key '{key}'; it was not done again. What was said then:"),
    });
    // What was asked for without --json is answered as far as that is known.
    output.document(&document.unwrap_or_else(|| json!({ "exit_code": code })));
    lines.iter().for_each(|line| output.line(line));
    notes.iter().for_each(|note| output.note(note));
    ExitCode::from(code)
}
