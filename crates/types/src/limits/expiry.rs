//! When a sandbox's time is up, in a way that no setting of a clock changes.

use serde::{Deserialize, Serialize};

use crate::Span;

/// What the clocks say at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Which boot this is.
    pub boot_id: String,
    /// Since then, sleep included; nobody can set it.
    pub since_boot_ms: u64,
    /// Of the calendar; anybody may have set it.
    pub wall_ms: u64,
}

/// A moment to come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expiry {
    ttl_ms: u64,
    boot_id: String,
    since_boot_ms: u64,
    wall_ms: u64,
}

impl Expiry {
    #[must_use]
    pub fn after(ttl: Span, now: &Clock) -> Self {
        let ttl_ms = ttl.as_millis();
        Self {
            ttl_ms,
            boot_id: now.boot_id.clone(),
            since_boot_ms: now.since_boot_ms.saturating_add(ttl_ms),
            wall_ms: now.wall_ms.saturating_add(ttl_ms),
        }
    }

    /// How long until then; nothing if it is past. Within the same boot the calendar does not matter; after another one it is
    /// all there is, but it never makes more of a time than there was to begin with.
    #[must_use]
    pub fn remaining_ms(&self, now: &Clock) -> u64 {
        if self.boot_id == now.boot_id {
            self.since_boot_ms.saturating_sub(now.since_boot_ms)
        } else {
            self.wall_ms.saturating_sub(now.wall_ms).min(self.ttl_ms)
        }
    }

    /// The same moment, told by the clock of this boot. From the first look after a boot on the calendar does not matter any more, and
    /// a calendar that goes back with each boot does not give the time again.
    #[must_use]
    pub fn in_this_boot(self, now: &Clock) -> Self {
        if self.boot_id == now.boot_id { self } else { Self::after(Span::from_millis(self.remaining_ms(now)), now) }
    }

    #[must_use]
    pub fn is_past(&self, now: &Clock) -> bool {
        self.remaining_ms(now) == 0
    }

    /// For people.
    #[must_use]
    pub fn wall_ms(&self) -> u64 {
        self.wall_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(boot_id: &str, since_boot_ms: u64, wall_ms: u64) -> Clock {
        Clock { boot_id: boot_id.to_owned(), since_boot_ms, wall_ms }
    }

    #[test]
    fn a_clock_that_is_set_changes_nothing() {
        let expiry = Expiry::after(Span::from_secs(60), &clock("a", 1000, 5_000_000));
        for wall in [0, 5_000_000, u64::MAX] {
            assert_eq!(expiry.remaining_ms(&clock("a", 1000, wall)), 60_000);
            assert!(expiry.is_past(&clock("a", 61_000, wall)));
        }
    }

    #[test]
    fn after_another_boot_the_calendar_counts_within_reason() {
        let expiry = Expiry::after(Span::from_secs(60), &clock("a", 1000, 5_000_000));
        assert_eq!(expiry.remaining_ms(&clock("b", 10, 5_020_000)), 40_000);
        assert!(expiry.is_past(&clock("b", 10, 5_060_000)));
        assert_eq!(expiry.remaining_ms(&clock("b", 10, 0)), 60_000, "a clock that went back does not keep it for ever");
    }

    #[test]
    fn the_calendar_counts_once_after_a_boot() {
        let expiry = Expiry::after(Span::from_secs(60), &clock("a", 1000, 5_000_000)).in_this_boot(&clock("b", 10, 5_020_000));
        for wall in [0, 5_020_000, u64::MAX] {
            assert_eq!(expiry.remaining_ms(&clock("b", 10, wall)), 40_000);
        }
        let later = expiry.in_this_boot(&clock("c", 7, 0));
        assert_eq!(later.remaining_ms(&clock("c", 7, 0)), 40_000, "a boot with an older calendar gave time back");
    }
}
