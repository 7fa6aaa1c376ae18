//! Which questions are new enough to be recorded: programs ask for the same name, in two families, all day long.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use whatif_netpolicy::HostName;

const QUIET: Duration = Duration::from_secs(60);
const MOST_NAMES: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// By name and what was decided: a change of the rules shows at once.
    seen: HashMap<(HostName, bool), Instant>,
}

impl Repeats {
    pub(super) fn is_new(&mut self, name: &HostName, allowed: bool, now: Instant) -> bool {
        let is_recent = |seen: &Instant| now.saturating_duration_since(*seen) < QUIET;
        let key = (name.clone(), allowed);
        if self.seen.get(&key).is_some_and(is_recent) {
            return false;
        }
        if self.seen.len() >= MOST_NAMES {
            self.seen.retain(|_, seen| is_recent(seen));
        }
        // Better a line too many than a name that was never recorded.
        if self.seen.len() >= MOST_NAMES {
            self.seen.clear();
        }
        self.seen.insert(key, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> HostName {
        format!("n{number}.example").parse().unwrap()
    }

    #[test]
    fn a_name_is_new_once_a_minute_and_when_the_decision_is_another() {
        let mut repeats = Repeats::default();
        let start = Instant::now();
        assert!(repeats.is_new(&name(1), false, start));
        assert!(!repeats.is_new(&name(1), false, start));
        assert!(repeats.is_new(&name(1), true, start) && repeats.is_new(&name(2), false, start));
        assert!(!repeats.is_new(&name(1), false, start + QUIET - Duration::from_millis(1)));
        assert!(repeats.is_new(&name(1), false, start + QUIET));
        assert!(!repeats.is_new(&name(1), false, start + QUIET), "the minute begins anew");
    }

    #[test]
    fn many_names_take_bounded_room_and_none_is_missed() {
        let mut repeats = Repeats::default();
        let start = Instant::now();
        for number in 0..3 * MOST_NAMES {
            assert!(repeats.is_new(&name(number), false, start));
            assert!(repeats.seen.len() <= MOST_NAMES);
        }
    }
}
