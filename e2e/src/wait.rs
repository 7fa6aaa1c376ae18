//! Waiting for a condition, never for a time.

use std::time::{Duration, Instant};

/// Most of what is waited for happens at once, and the rest should not be disturbed by asking.
const FIRST_INTERVAL: Duration = Duration::from_millis(1);
const LONGEST_INTERVAL: Duration = Duration::from_millis(10);

/// Asks until there is an answer or the deadline has passed.
pub fn wait_for<T>(deadline: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + deadline;
    let mut interval = FIRST_INTERVAL;
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(interval);
        interval = LONGEST_INTERVAL.min(interval * 2);
    }
}

/// Panics unless the condition comes true. The machine may be busy with much else, so that has time.
#[track_caller]
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    assert!(wait_for(Duration::from_secs(180), || condition().then_some(())).is_some(), "never happened: {what}");
}
