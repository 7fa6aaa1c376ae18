//! Refuses to work on a stack that is too small: overflowing it would end the command in the middle of something.
//!
//! The work is not moved to a thread with a stack of its own, because the kernel lets only a process with a single thread enter a
//! user namespace.

use std::error::Error;
use std::fmt;

use rustix::process::{Resource, getrlimit};
use whatif_types::{Explain, Kind, Remedy};

/// Several times what any command was seen to use.
const NEEDED_KIB: u64 = 1024;
/// What most systems give.
const USUAL_KIB: u64 = 8192;

#[derive(Debug, PartialEq, Eq)]
pub struct TooSmall {
    limit_kib: u64,
    /// How far the limit may be raised.
    most_kib: u64,
}

pub fn check() -> Result<(), TooSmall> {
    let limit = getrlimit(Resource::Stack);
    of_limits(limit.current, limit.maximum)
}

/// Both in bytes; without one, there is no limit.
fn of_limits(current: Option<u64>, maximum: Option<u64>) -> Result<(), TooSmall> {
    let in_kib = |limit: Option<u64>| limit.map_or(u64::MAX, |bytes| bytes / 1024);
    let (limit_kib, most_kib) = (in_kib(current), in_kib(maximum));
    if limit_kib < NEEDED_KIB { Err(TooSmall { limit_kib, most_kib }) } else { Ok(()) }
}

impl fmt::Display for TooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the stack is limited to {} KiB, and whatif needs {NEEDED_KIB} KiB", self.limit_kib)
    }
}

impl Error for TooSmall {}

impl Explain for TooSmall {
    fn code(&self) -> &'static str {
        "stack_too_small"
    }

    fn kind(&self) -> Kind {
        Kind::Exhausted
    }

    fn remedies(&self) -> Vec<Remedy> {
        vec![match self.most_kib.min(USUAL_KIB) {
            enough @ NEEDED_KIB.. => format!("raise the limit and try again: ulimit -s {enough}").into(),
            _ => "the hard limit allows no more; try again from a shell with a higher one ('ulimit -Hs' shows it)".into(),
        }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_is_one_that_can_be_followed() {
        let refused = |current: u64, most: Option<u64>| of_limits(Some(current << 10), most.map(|m| m << 10)).unwrap_err();
        let hint = |current: u64, most: Option<u64>| refused(current, most).remedies()[0].to_string();
        assert!(hint(64, None).ends_with("ulimit -s 8192"));
        assert!(hint(64, Some(2048)).ends_with("ulimit -s 2048"));
        assert!(hint(64, Some(64)).contains("hard limit"));
    }

    #[test]
    fn what_is_enough_is_not_refused() {
        assert_eq!(of_limits(None, None), Ok(()));
        assert_eq!(of_limits(Some(NEEDED_KIB << 10), Some(NEEDED_KIB << 10)), Ok(()));
    }
}
