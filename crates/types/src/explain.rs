//! How an error explains itself: a stable code, its kind, and what can be done about it as data.
//!
//! Errors are typed where they are raised and rendered once, by a client: as text and an exit code, or as an answer over a wire.
//! The client asks for these things only.

use std::error::Error;
use std::io;

use serde::Serialize;

use crate::remedy;
use crate::remedy::{Call, Mention, Remedy, Sentence, Value};

/// What kind of failure it is, for clients that do not know the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// What was asked for is not there.
    NotFound,
    /// It stands against something that is there, or that changed meanwhile.
    Conflict,
    /// The request makes no sense, whenever it is made.
    Invalid,
    /// The caller may not do it.
    Forbidden,
    /// Something that it needs is not there, or not now.
    Unavailable,
    /// Memory, room, descriptors, time or another limit is used up.
    Exhausted,
    /// Something is wrong with whatif or its machine, not with the request.
    Internal,
}

/// Implemented by every error that reaches a person.
pub trait Explain: Error {
    /// Stable, machine-readable, `snake_case`.
    fn code(&self) -> &'static str;
    fn kind(&self) -> Kind;
    /// What can be done about it, most useful first.
    fn remedies(&self) -> Vec<Remedy> {
        Vec::new()
    }
    /// The message, if it names choices, which each client spells in its own way.
    fn wording(&self) -> Option<Sentence> {
        None
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

/// The kind of what the kernel said.
#[must_use]
pub fn kind_of(error: &io::Error) -> Kind {
    match error.kind() {
        _ if shortage_of(error).is_some() => Kind::Exhausted,
        io::ErrorKind::NotFound => Kind::NotFound,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Kind::Forbidden,
        io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => Kind::Invalid,
        _ => Kind::Internal,
    }
}

/// What the machine is short of, if an error comes of that, and what to do about it: any other remedy would lead nowhere.
#[must_use]
pub fn shortage(error: &(dyn Error + 'static)) -> Option<Remedy> {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.filter_map(|error| error.downcast_ref::<io::Error>()).find_map(shortage_of)
}

/// What helps if the state directory is on the disk that is full.
#[must_use]
pub fn disk_full() -> Remedy {
    remedy![
        "the disk is full: ",
        Mention(Call::List),
        " shows what each sandbox holds, ",
        Mention(Call::remove(Value::Blank)),
        " frees it"
    ]
}

/// The same of one that comes from the kernel.
#[must_use]
pub fn shortage_of(error: &io::Error) -> Option<Remedy> {
    const TOO_MANY_IN_A_PROCESS: i32 = 24;
    const TOO_MANY_IN_THE_SYSTEM: i32 = 23;
    const FILE_TOO_LARGE: i32 = 27;
    let words = match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, _) => return Some(disk_full()),
        (io::ErrorKind::OutOfMemory, _) => "the machine is out of memory; free some and try again",
        (_, Some(TOO_MANY_IN_A_PROCESS)) => "raise the limit of open files and try again: ulimit -n 4096",
        (_, Some(FILE_TOO_LARGE)) => "raise the limit of file sizes and try again: ulimit -f unlimited",
        (_, Some(TOO_MANY_IN_THE_SYSTEM)) => "the machine has too many files open; close some programs and try again",
        _ => return None,
    };
    Some(words.into())
}

/// The same of one that says why a process or a thread could not be started. Of other things it would say something else.
#[must_use]
pub fn shortage_of_processes(error: &io::Error) -> Option<Remedy> {
    let is_too_many = error.kind() == io::ErrorKind::WouldBlock;
    is_too_many.then(|| "too many processes are running for their limit (ulimit -u); end some, or raise it, and try again".into())
}

/// An explanation in the form that is printed as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Explained {
    pub code: &'static str,
    pub kind: Kind,
    pub message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedy>,
    pub retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
}

impl Explained {
    #[must_use]
    pub fn of(error: &dyn Explain) -> Self {
        Self {
            code: error.code(),
            kind: error.kind(),
            message: whole_message(error),
            remedies: error.remedies(),
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
