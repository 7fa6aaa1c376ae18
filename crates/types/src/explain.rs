//! How an error explains itself: a stable code, the exit code of its kind, and hints as data.
//!
//! Errors are typed where they are raised and rendered once, at the edge. The edge asks for these things only.

use std::error::Error;

use serde::Serialize;

/// What whatif itself failing exits with, unless an error knows better.
pub const EXIT_FAILED: u8 = 125;
/// Reality and a sandbox disagree, and nothing was written.
pub const EXIT_CONFLICT: u8 = 1;
pub const EXIT_USAGE: u8 = 2;
pub const EXIT_TIMED_OUT: u8 = 124;
pub const EXIT_CANNOT_EXECUTE: u8 = 126;
pub const EXIT_NOT_FOUND: u8 = 127;

/// Implemented by every error that reaches a person.
pub trait Explain: Error {
    /// Stable, machine-readable, `snake_case`.
    fn code(&self) -> &'static str;
    /// Next commands or remedies, most useful first.
    fn hints(&self) -> Vec<String> {
        Vec::new()
    }
    fn exit_code(&self) -> u8 {
        EXIT_FAILED
    }
    /// More for programs: what the message is about, as data.
    fn details(&self) -> Option<serde_json::Value> {
        None
    }
    /// Whether the same call may succeed later without anything being changed by the caller.
    fn retryable(&self) -> bool {
        false
    }
}

/// An explanation in the form that is printed as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    pub code: &'static str,
    pub message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<String>,
    pub retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
}

impl Explained {
    #[must_use]
    pub fn of(error: &dyn Explain) -> Self {
        Self {
            code: error.code(),
            message: whole_message(error),
            hints: error.hints(),
            retryable: error.retryable(),
            details: error.details(),
        }
    }
}

/// The message with its causes, `: `-separated, as in "failed to start the keeper: mount overlay on /: invalid argument".
#[must_use]
pub fn whole_message(error: &dyn Explain) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.ends_with(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        cause = error.source();
    }
    message
}
