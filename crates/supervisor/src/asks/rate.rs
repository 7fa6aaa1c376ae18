//! How many questions a person is asked. Each holds up what is on the terminal, and a person who gets many answers them unread.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

const MOST: usize = 5;
const WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Rate {
    /// When the last questions were asked, the oldest first.
    asked: VecDeque<Instant>,
}

impl Rate {
    /// Whether there is room for one more question.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        while self.asked.front().is_some_and(|at| now.saturating_duration_since(*at) >= WITHIN) {
            self.asked.pop_front();
        }
        let has_room = self.asked.len() < MOST;
        if has_room {
            self.asked.push_back(now);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_minute_has_more_than_a_few() {
        let mut rate = Rate::default();
        let start = Instant::now();
        let asked = |rate: &mut Rate, seconds| (0..1000).filter(|_| rate.take(start + Duration::from_secs(seconds))).count();
        assert!(rate.take(start));
        assert_eq!(asked(&mut rate, 30), MOST - 1);
        assert_eq!(asked(&mut rate, 59), 0);
        assert_eq!(asked(&mut rate, 60), 1);
        assert_eq!(asked(&mut rate, 90), MOST - 1);
    }
}
