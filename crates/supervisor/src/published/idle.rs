//! Connections through which nothing passes any more. Neither side has to end them, and each has a place.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::relay::Traffic;

#[derive(Debug)]
pub(super) struct Limits {
    /// Both sides are there. Some wait long for something to say, such as a session with a database.
    both: Duration,
    /// One side has ended and the other neither answers nor ends.
    half: Duration,
    interval: Duration,
}

pub(super) const LIMITS: Limits =
    Limits { both: Duration::from_secs(60 * 60), half: Duration::from_secs(60), interval: Duration::from_secs(5) };

/// Returns when nothing has passed for too long.
pub(super) async fn is_idle(traffic: &Traffic, has_half_ended: &AtomicBool, limits: &Limits) {
    let passed = || traffic.sent.load(Ordering::Relaxed).wrapping_add(traffic.received.load(Ordering::Relaxed));
    let (mut last, mut since, mut was_half) = (passed(), Instant::now(), false);
    loop {
        tokio::time::sleep(limits.interval).await;
        let (now, is_half) = (passed(), has_half_ended.load(Ordering::Relaxed));
        if now != last || is_half != was_half {
            (last, since, was_half) = (now, Instant::now(), is_half);
        }
        if since.elapsed() >= if is_half { limits.half } else { limits.both } {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Limits =
        Limits { both: Duration::from_secs(600), half: Duration::from_millis(60), interval: Duration::from_millis(5) };

    fn ends_within(milliseconds: u64, traffic: &Traffic, half: &AtomicBool) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let limit = Duration::from_millis(milliseconds);
        runtime.block_on(async { tokio::time::timeout(limit, is_idle(traffic, half, &QUICK)).await.is_ok() })
    }

    #[test]
    fn what_one_side_has_ended_is_idle_soon_and_else_it_may_rest_long() {
        let traffic = Traffic::default();
        assert!(!ends_within(200, &traffic, &AtomicBool::new(false)));
        assert!(ends_within(20_000, &traffic, &AtomicBool::new(true)));
    }
}
