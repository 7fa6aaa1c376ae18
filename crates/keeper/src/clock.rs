//! The clock that lifetimes go by.

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since the machine was started, sleep included. Nobody can set it.
#[must_use]
pub fn since_boot_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000
}
