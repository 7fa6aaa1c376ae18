//! How two runs of the same tests differ.

use std::collections::BTreeMap;

use super::differences::Differences;

/// How a test came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    Skipped,
}

pub(super) type Outcomes = BTreeMap<String, Outcome>;

#[derive(Debug, Default)]
pub(super) struct Compared {
    passed: [usize; 2],
    failed: [usize; 2],
    /// Differences with a known reason.
    listed: usize,
    /// What passes outside and not inside, and is not listed.
    pub worse: Vec<String>,
    /// What did so only once.
    pub once: Vec<String>,
}

impl Compared {
    pub fn add(&mut self, other: Self) {
        for side in [0, 1] {
            self.passed[side] += other.passed[side];
            self.failed[side] += other.failed[side];
        }
        self.listed += other.listed;
        self.worse.extend(other.worse);
        self.once.extend(other.once);
    }

    /// Keeps as worse only what was worse again.
    pub fn confirm(&mut self, again: &Self) {
        let (worse, once) = std::mem::take(&mut self.worse).into_iter().partition(|test| again.worse.contains(test));
        self.worse = worse;
        self.once = once;
    }

    pub fn line(&self, suite: &str, part: &str) -> String {
        let ([passed_outside, passed_inside], [failed_outside, failed_inside]) = (self.passed, self.failed);
        format!(
            "{suite:<8} {part:<36} passed {passed_outside:>5} outside {passed_inside:>5} inside   failed {failed_outside:>3} outside \
             {failed_inside:>3} inside   {} listed, {} not",
            self.listed,
            self.worse.len()
        )
    }
}

/// Compares one part of a suite. A test that is missing inside is worse as well: whatever ran the tests may have been what failed.
pub(super) fn compare(suite: &str, part: &str, outside: &Outcomes, inside: &Outcomes, known: &Differences) -> Compared {
    let count = |outcome| [outside, inside].map(|outcomes| outcomes.values().filter(|found| **found == outcome).count());
    let passed = outside.iter().filter(|(_, outcome)| **outcome == Outcome::Passed);
    let worse = passed.filter(|(name, _)| inside.get(*name) != Some(&Outcome::Passed)).map(|(name, _)| format!("{suite} {name}"));
    let (listed, mut worse): (Vec<_>, Vec<_>) = worse.partition(|name| known.has(name));
    if outside.is_empty() {
        worse.push(format!("{suite} {part}: nothing was run outside"));
    }
    Compared { passed: count(Outcome::Passed), failed: count(Outcome::Failed), listed: listed.len(), worse, once: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(of: &[(&str, Outcome)]) -> Outcomes {
        of.iter().map(|(name, outcome)| ((*name).to_owned(), *outcome)).collect()
    }

    fn worse(outside: &[(&str, Outcome)], inside: &[(&str, Outcome)], known: &str) -> Vec<String> {
        compare("s", "p", &outcomes(outside), &outcomes(inside), &Differences::parse(known).unwrap()).worse
    }

    #[test]
    fn what_fails_is_skipped_or_is_missing_only_inside_is_worse() {
        use Outcome::{Failed, Passed, Skipped};
        let outside = [("a", Passed), ("b", Passed), ("c", Passed), ("d", Passed), ("e", Failed), ("f", Skipped)];
        let inside = [("a", Passed), ("b", Failed), ("c", Skipped), ("e", Failed), ("f", Failed)];
        assert_eq!(worse(&outside, &inside, ""), ["s b", "s c", "s d"]);
    }

    #[test]
    fn a_listed_difference_counts_as_listed() {
        let outside = outcomes(&[("a 1", Outcome::Passed), ("a 2", Outcome::Passed), ("b", Outcome::Passed)]);
        let result = compare("s", "p", &outside, &Outcomes::new(), &Differences::parse("s a*: a reason\n").unwrap());
        assert_eq!((result.listed, result.worse), (2, vec!["s b".to_owned()]));
    }

    #[test]
    fn a_part_that_ran_nothing_is_no_success() {
        assert_eq!(worse(&[], &[], ""), ["s p: nothing was run outside"]);
        assert!(worse(&[("a", Outcome::Skipped)], &[], "").is_empty());
    }

    #[test]
    fn what_differs_once_is_told_apart_from_what_differs_twice() {
        let of = |worse: &[&str]| Compared { worse: worse.iter().map(|name| (*name).to_owned()).collect(), ..Compared::default() };
        let mut first = of(&["a", "b"]);
        first.confirm(&of(&["b", "c"]));
        assert_eq!((first.worse, first.once), (vec!["b".to_owned()], vec!["a".to_owned()]));
    }
}
