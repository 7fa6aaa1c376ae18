//! How an error explains itself: a stable code, the exit code of its kind, and hints as data.
//!
//! Errors are typed where they are raised and rendered once, at the edge. The edge asks for these things only.

use std::error::Error;
use std::io;

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

/// What the machine is short of, if an error comes of that, and what to do about it: any other remedy would lead nowhere.
#[must_use]
pub fn shortage(error: &(dyn Error + 'static)) -> Option<String> {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.filter_map(|error| error.downcast_ref::<io::Error>()).find_map(shortage_of)
}

/// What helps if the state directory is on the disk that is full.
pub const DISK_FULL: &str = "the disk is full: 'whatif ls' shows what each sandbox holds, 'whatif rm NAME' frees it";

/// The same of one that comes from the kernel.
#[must_use]
pub fn shortage_of(error: &io::Error) -> Option<String> {
    const TOO_MANY_IN_A_PROCESS: i32 = 24;
    const TOO_MANY_IN_THE_SYSTEM: i32 = 23;
    const FILE_TOO_LARGE: i32 = 27;
    let hint = match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, _) => DISK_FULL,
        (io::ErrorKind::OutOfMemory, _) => "the machine is out of memory; free some and try again",
        (_, Some(TOO_MANY_IN_A_PROCESS)) => "raise the limit of open files and try again: ulimit -n 4096",
        (_, Some(FILE_TOO_LARGE)) => "raise the limit of file sizes and try again: ulimit -f unlimited",
        (_, Some(TOO_MANY_IN_THE_SYSTEM)) => "the machine has too many files open; close some programs and try again",
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The same of one that says why a process or a thread could not be started. Of other things it would say something else.
#[must_use]
pub fn shortage_of_processes(error: &io::Error) -> Option<String> {
    let is_too_many = error.kind() == io::ErrorKind::WouldBlock;
    is_too_many
        .then(|| "too many processes are running for their limit (ulimit -u); end some, or raise it, and try again".to_owned())
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
