//! What whatif exits with. No library knows of it: it follows from the code of an error.

use whatif_types::Explain;

/// What whatif itself failing exits with, unless something below says it better.
pub const FAILED: u8 = 125;
/// Reality and a sandbox disagree, and nothing was written.
pub const CONFLICT: u8 = 1;
pub const USAGE: u8 = 2;
pub const TIMED_OUT: u8 = 124;
pub const CANNOT_EXECUTE: u8 = 126;
pub const NOT_FOUND: u8 = 127;

/// How this process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitCode(pub u8);

impl ExitCode {
    pub const SUCCESS: Self = Self(0);
    /// The answer is no.
    pub const FAILURE: Self = Self(1);
}

impl From<u8> for ExitCode {
    fn from(code: u8) -> Self {
        Self(code)
    }
}

#[must_use]
pub fn code(error: &dyn Explain) -> u8 {
    match error.code() {
        code if is_misuse(code) => USAGE,
        // Two commands that got into each other's way are no conflict with reality: the same once more may do.
        "conflict" if error.retryable() => FAILED,
        "conflict" | "changed_since" | "check_failed" | "exists" => CONFLICT,
        "command_not_found" => NOT_FOUND,
        "cannot_execute" => CANNOT_EXECUTE,
        "cancelled" => signal(error).map_or(FAILED, of_signal),
        _ => FAILED,
    }
}

/// Codes of errors that another command line would not have met.
fn is_misuse(code: &str) -> bool {
    const OF_LIBRARIES: [&str; 26] = [
        "invalid_name",
        "unknown_provider",
        "other_sandbox",
        "cannot_squash",
        "invalid_limit",
        "unknown_limits",
        "inside_sandbox",
        "nothing_to_compare",
        "no_match",
        "no_such_hunk",
        "skips_everything",
        "needs_approval",
        "invalid_pattern",
        "closed_by_project",
        "invalid_network",
        "invalid_race",
        "needs_variable",
        "nothing_to_merge",
        "attempt_taken",
        "no_such_commit",
        "template_of_other_project",
        "invalid_mask",
        "no_logs",
        "nothing_to_attach_to",
        "invalid_offset",
        // Of clients of earlier versions.
        "usage",
    ];
    OF_LIBRARIES.contains(&code) || crate::failure::CODES.contains(&code)
}

/// As a shell tells of a command that a signal ended.
#[must_use]
pub fn of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(FAILED)
}

fn signal(error: &dyn Explain) -> Option<i32> {
    error.details()?.get("signal")?.as_i64()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use whatif_engine::changes::ChangesError;
    use whatif_engine::ground::GroundError;
    use whatif_engine::lifecycle::LifecycleError;
    use whatif_engine::races::RaceError;
    use whatif_engine::{EngineError, StoreError};
    use whatif_keeper::protocol::{Failed, Reason};

    use super::*;

    #[test]
    fn each_code_has_its_exit_code() {
        let failed = |reason| EngineError::from(LifecycleError::Command(Failed { reason, errno: 2, message: String::new() }));
        let name = || "fox".to_owned();
        let table: [(EngineError, u8); 12] = [
            (ChangesError::ComparesReality.into(), 2),
            (whatif_types::name::validate("a b").unwrap_err().into(), 2),
            (RaceError::NothingToMerge.into(), 2),
            (RaceError::Behind { attempt: name(), sandbox: name() }.into(), 1),
            (ChangesError::CheckFailed { name: name(), why: name() }.into(), 1),
            (LifecycleError::WouldReplace { paths: Vec::new() }.into(), 1),
            (StoreError::Conflict { name: name() }.into(), 125),
            (failed(Reason::NotFound), 127),
            (failed(Reason::CannotExecute), 126),
            (ChangesError::Cancelled { signal: 15 }.into(), 143),
            (whatif_engine::changes::apply::ApplyError::Cancelled.into(), 125),
            (GroundError::NoSuchSandbox { name: name() }.into(), 125),
        ];
        for (error, expected) in table {
            assert_eq!(code(&error), expected, "{error}");
        }
    }
}
