//! How many questions are recorded. A name costs nothing to make up, and lines about names must not crowd out those about
//! connections.

use std::time::{Duration, Instant};

/// More names than any program asks for in earnest.
const AT_ONCE: u32 = 1000;
const ONE_MORE_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Quota {
    left: u32,
    refilled: Option<Instant>,
    /// Since it was last said.
    omitted: u64,
    /// Doubles each time it is said, so that this stays rare.
    next_notice: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Enough,
    None,
    /// Nor for so many before; it is time to say so.
    NoneFor(u64),
}

impl Default for Quota {
    fn default() -> Self {
        Self { left: AT_ONCE, refilled: None, omitted: 0, next_notice: 1 }
    }
}

impl Quota {
    pub(super) fn take(&mut self, now: Instant) -> Room {
        self.refill(now);
        if self.left > 0 {
            self.left -= 1;
            return Room::Enough;
        }
        self.omitted += 1;
        if self.omitted < self.next_notice {
            return Room::None;
        }
        self.next_notice = self.next_notice.saturating_mul(2);
        Room::NoneFor(std::mem::take(&mut self.omitted))
    }

    fn refill(&mut self, now: Instant) {
        let last = *self.refilled.get_or_insert(now);
        let passed = now.saturating_duration_since(last).as_secs() / ONE_MORE_EVERY.as_secs();
        if passed > 0 {
            self.left = u32::try_from(passed).unwrap_or(u32::MAX).saturating_add(self.left).min(AT_ONCE);
            self.refilled = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(quota: &mut Quota, times: usize, now: Instant) -> usize {
        (0..times).filter(|_| quota.take(now) == Room::Enough).count()
    }

    #[test]
    fn there_is_room_for_many_at_once_and_then_for_one_a_second() {
        let mut quota = Quota::default();
        let start = Instant::now();
        assert_eq!(taken(&mut quota, 5000, start), 1000);
        assert_eq!(taken(&mut quota, 10, start + Duration::from_millis(999)), 0);
        assert_eq!(taken(&mut quota, 10, start + Duration::from_secs(1)), 1);
        assert_eq!(taken(&mut quota, 10, start + Duration::from_secs(4)), 3);
        assert_eq!(taken(&mut quota, 5000, start + Duration::from_secs(1_000_000)), 1000, "never more than that at once");
    }

    #[test]
    fn what_is_left_out_is_said_rarely_and_adds_up() {
        let mut quota = Quota::default();
        let start = Instant::now();
        taken(&mut quota, 1000, start);
        let notices = (0..10_000).filter_map(|_| match quota.take(start) {
            Room::NoneFor(lines) => Some(lines),
            _ => None,
        });
        let notices = notices.collect::<Vec<_>>();
        assert_eq!(notices, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]);
        assert_eq!(notices.iter().sum::<u64>() + quota.omitted, 10_000);
    }
}
