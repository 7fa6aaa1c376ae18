//! Processor time. The processes inside can make the supervisor work, with handshakes above all, so it stays within their limit.
//!
//! All connections are served by one thread: while that one sleeps, handshakes, names and relays wait alike. A control group
//! would do the same, but not every user has one.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use whatif_types::limits::Cpus;

/// Seconds of a processor that can be saved up, so that a program that starts is not slowed down.
const MOST_SAVED: f64 = 0.2;
/// The shortest time between two measurements.
const SHORTEST: Duration = Duration::from_millis(10);

/// Keeps this process within a limit, for as long as it runs.
pub(crate) async fn keep(limit: Cpus) {
    let mut quota = Quota::new(f64::from(limit), Instant::now(), used());
    loop {
        let pause = quota.pause(Instant::now(), used());
        // Not a future: everything else has to wait, too.
        std::thread::sleep(pause);
        tokio::time::sleep(quota.until_next()).await;
    }
}

/// By all threads of this process since it started.
fn used() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

#[derive(Debug)]
struct Quota {
    /// In processors.
    limit: f64,
    /// In seconds of a processor. Below zero more was used than the limit allows.
    saved: f64,
    measured: Instant,
    used: Duration,
}

impl Quota {
    fn new(limit: f64, now: Instant, used: Duration) -> Self {
        Self { limit, saved: MOST_SAVED, measured: now, used }
    }

    /// How long to sleep, so that on average no more is used than the limit allows.
    fn pause(&mut self, now: Instant, used: Duration) -> Duration {
        let gained = now.duration_since(self.measured).as_secs_f64() * self.limit;
        let spent = used.saturating_sub(self.used).as_secs_f64();
        self.saved = (self.saved + gained - spent).min(MOST_SAVED);
        (self.measured, self.used) = (now, used);
        Duration::try_from_secs_f64(-self.saved / self.limit).unwrap_or_default()
    }

    /// One thread cannot use up what is saved in less time than that, so a supervisor that is idle wakes up rarely.
    fn until_next(&self) -> Duration {
        Duration::try_from_secs_f64(self.saved).unwrap_or_default().max(SHORTEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_always_busy_gets_its_limit_in_the_long_run() {
        for limit in [0.01, 0.2, 0.9] {
            let begun = Instant::now();
            let (mut passed, mut used) = (Duration::ZERO, Duration::ZERO);
            let mut quota = Quota::new(limit, begun, used);
            while passed < Duration::from_secs(60) {
                passed += quota.pause(begun + passed, used);
                let busy = quota.until_next();
                passed += busy;
                used += busy;
            }
            let most = passed.as_secs_f64() * limit + MOST_SAVED + SHORTEST.as_secs_f64();
            assert!(used.as_secs_f64() <= most, "{limit}: {used:?} in {passed:?}");
            assert!(used.as_secs_f64() >= passed.as_secs_f64() * limit * 0.9, "{limit}: {used:?} in {passed:?}");
        }
    }

    #[test]
    fn one_that_stays_within_its_limit_never_waits() {
        let begun = Instant::now();
        let step = Duration::from_millis(50);
        let mut quota = Quota::new(0.5, begun, Duration::ZERO);
        for n in 1..100 {
            assert_eq!(quota.pause(begun + step * n, step * n / 4), Duration::ZERO);
        }
        assert_eq!(quota.until_next(), Duration::from_secs_f64(MOST_SAVED));
    }
}
