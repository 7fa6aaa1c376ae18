//! The clocks of the kernel, read without asking it.

use std::time::Duration;

/// Seconds and nanoseconds of the time that file systems write down, which moves in ticks.
#[must_use]
pub fn ticks() -> (i64, u32) {
    let now = read(libc::CLOCK_REALTIME_COARSE);
    (now.tv_sec, now.tv_nsec as u32)
}

/// Since the machine was started, sleep included. Nobody can set it.
#[must_use]
pub fn since_boot() -> Duration {
    let now = read(libc::CLOCK_BOOTTIME);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

fn read(clock: libc::clockid_t) -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure outlives the call. These clocks are there.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now
}
