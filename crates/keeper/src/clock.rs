//! The clock that lifetimes go by.

/// Milliseconds since the machine was started, sleep included. Nobody can set it.
#[must_use]
pub fn since_boot_ms() -> u64 {
    whatif_sys::clock::since_boot().as_millis() as u64
}
