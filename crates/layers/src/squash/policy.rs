//! When to merge, and what: a counter. Pure.
//!
//! A layer of tier 0 is one snapshot; merging [`FAN_IN`] neighbours of one tier makes one of the next. So the tiers of a stack
//! read like the digits of the number of its snapshots: after n of them there are at most (`FAN_IN` - 1) · log n layers, and
//! each snapshot was merged at most log n times.

use std::ops::Range;

/// How many neighbours make one of the next tier. Fewer keep stacks shallow, more keep merges rare. After 10,000 snapshots a
/// stack has been at most 22 deep with 5, 25 with 6 and 29 with 8, and a snapshot was merged at most 5, 5 and 4 times.
pub const FAN_IN: usize = 5;

/// The run to merge now, if any, in a stack whose layers have these tiers, bottom first. It always reaches to the top.
///
/// Where one merge would make the next one due, both are done at once: nothing is merged twice in a row.
#[must_use]
pub fn due(tiers: &[u8]) -> Option<Range<usize>> {
    let mut start = tiers.len();
    let mut carried = 0;
    for tier in *tiers.last()?..=u8::MAX {
        // Lower tiers beneath higher ones have no place in a counter; where they are, they go along.
        let here = tiers[..start].iter().rev().take_while(|t| **t <= tier).count();
        if here + carried < FAN_IN {
            break;
        }
        start -= here;
        carried = 1;
    }
    (carried == 1).then_some(start..tiers.len())
}

/// The tier of the layer that a run becomes.
#[must_use]
pub fn merged(tiers: &[u8]) -> u8 {
    tiers.iter().max().map_or(0, |tier| tier.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A stack as it grows: tiers, and for each layer how often each of its snapshots was merged.
    #[derive(Default)]
    struct Stack {
        tiers: Vec<u8>,
        merges: Vec<Vec<u32>>,
        deepest: usize,
    }

    impl Stack {
        fn push(&mut self) {
            self.tiers.push(0);
            self.merges.push(vec![0]);
            if let Some(range) = due(&self.tiers) {
                self.merge(range);
            }
            assert_eq!(due(&self.tiers), None, "one merge is enough: {:?}", self.tiers);
            self.deepest = self.deepest.max(self.tiers.len());
        }

        fn merge(&mut self, range: Range<usize>) {
            assert_eq!(range.end, self.tiers.len());
            let tier = merged(&self.tiers[range.clone()]);
            let counts: Vec<u32> = self.merges.drain(range.clone()).flatten().map(|count| count + 1).collect();
            self.tiers.truncate(range.start);
            self.tiers.push(tier);
            self.merges.push(counts);
        }

        fn all_merges(&self) -> impl Iterator<Item = u32> {
            self.merges.iter().flatten().copied()
        }
    }

    #[test]
    fn nothing_is_due_below_the_fan_in() {
        assert_eq!(due(&[]), None);
        assert_eq!(due(&[0; FAN_IN - 1]), None);
        assert_eq!(due(&[3, 2, 1, 0]), None);
    }

    #[test]
    fn neighbours_of_one_tier_are_merged() {
        assert_eq!(due(&[0; FAN_IN]), Some(0..FAN_IN));
        assert_eq!(due(&[1; FAN_IN]), Some(0..FAN_IN), "also when the last merge was interrupted");
        assert_eq!(due(&[2, 1, 0, 0, 0, 0, 0, 0]), Some(2..8), "also those that came while a merge failed");
        assert_eq!(merged(&[0; FAN_IN]), 1);
    }

    #[test]
    fn a_carry_is_one_merge() {
        let tiers = [2, 1, 1, 1, 1, 0, 0, 0, 0, 0];
        assert_eq!(due(&tiers), Some(1..10));
        assert_eq!(merged(&tiers[1..]), 2);
    }

    #[test]
    fn ten_thousand_snapshots_stay_shallow_and_cheap() {
        let mut stack = Stack::default();
        for _ in 0..10_000 {
            stack.push();
        }
        assert_eq!(stack.all_merges().count(), 10_000);
        assert_eq!(stack.deepest, 22);
        assert_eq!(stack.all_merges().max(), Some(5));
        assert!(stack.all_merges().map(u64::from).sum::<u64>() <= 5 * 10_000);
    }

    proptest! {
        /// Rolling back to an earlier position and going on from there is what forks and roll-backs do.
        #[test]
        fn any_history_of_pushes_and_roll_backs_stays_shallow(steps in prop::collection::vec((1_usize..400, 0_usize..24), 1..40)) {
            let mut stack = Stack::default();
            let pushes: usize = steps.iter().map(|(pushes, _)| pushes).sum();
            for (pushes, kept) in steps {
                for _ in 0..pushes {
                    stack.push();
                }
                let kept = kept.min(stack.tiers.len());
                stack.tiers.truncate(kept);
                stack.merges.truncate(kept);
            }
            let digits = pushes.ilog(FAN_IN) as usize + 1;
            prop_assert!(stack.deepest <= digits * (FAN_IN - 1), "{} layers after {pushes}", stack.deepest);
            prop_assert!(stack.all_merges().max().unwrap_or(0) as usize <= digits);
        }

        #[test]
        fn any_stack_at_all_comes_to_rest(mut tiers in prop::collection::vec(0_u8..6, 0..60)) {
            while let Some(range) = due(&tiers) {
                prop_assert!(range.len() >= FAN_IN && range.end == tiers.len());
                let tier = merged(&tiers[range.clone()]);
                tiers.truncate(range.start);
                tiers.push(tier);
            }
        }
    }
}
