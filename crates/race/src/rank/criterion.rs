//! What attempts are compared by, the most important first.

use std::cmp::Reverse;

use whatif_types::experiment::{CheckOutcome, Judged, Outcome};

use super::class::Reach;
use super::score::Score;
use super::{Class, Contender};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Criterion {
    Class,
    /// Who did nothing has nothing to keep, whatever became of it; who only left something elsewhere has hardly more.
    Changed,
    /// Among those that fail checks: required checks that pass.
    Required,
    /// Among those that fail checks: tests that fail.
    FailedTests,
    Optional,
    Score,
    PassedTests,
    Judge,
    Lines,
    Files,
}

/// Scores that differ by less are level.
const LEVEL: f64 = 0.5;

type Group<'c, 'a> = Vec<&'c Contender<'a>>;

impl Criterion {
    pub const BEFORE_THE_JUDGE: [Self; 7] =
        [Self::Class, Self::Changed, Self::Required, Self::FailedTests, Self::Optional, Self::Score, Self::PassedTests];
    pub const ALL: [Self; 10] = [
        Self::Class,
        Self::Changed,
        Self::Required,
        Self::FailedTests,
        Self::Optional,
        Self::Score,
        Self::PassedTests,
        Self::Judge,
        Self::Lines,
        Self::Files,
    ];

    /// The group in parts, the best part first; each part in the order of the plan.
    pub fn apart<'c, 'a>(self, group: Group<'c, 'a>, judged: &[Judged]) -> Vec<Group<'c, 'a>> {
        let Some(class) = group.first().map(|one| one.class).filter(|_| group.len() > 1) else {
            return vec![group];
        };
        match self {
            Self::Class => by(group, |one| one.class),
            Self::Changed => by(group, |one| Reach::of(&one.outcome.changes)),
            Self::Required if class == Class::FailedChecks => by(group, |one| Reverse(required(one.outcome).0)),
            // Those without counts come last: nobody knows how many fail.
            Self::FailedTests if class == Class::FailedChecks => by(group, |one| failed_tests(one.outcome).unwrap_or(u64::MAX)),
            Self::Optional => by(group, |one| Reverse(optional(one.outcome).0)),
            Self::Score if class.has_passed() => by_score(group),
            Self::PassedTests if class.is_checked() => by(group, |one| Reverse(passed_tests(one.outcome))),
            Self::Judge if class.has_passed() => by_judge(group, judged),
            Self::Lines if class.is_checked() => by(group, |one| lines(one.outcome)),
            Self::Files if class.is_checked() => by(group, |one| one.outcome.changes.files),
            _ => vec![group],
        }
    }
}

fn by<'c, 'a, K: Ord>(mut group: Group<'c, 'a>, key: impl Fn(&Contender) -> K) -> Vec<Group<'c, 'a>> {
    group.sort_by_key(|one| (key(one), one.index));
    let mut parts: Vec<Group> = Vec::new();
    for one in group {
        match parts.last_mut() {
            Some(part) if key(part[0]) == key(one) => part.push(one),
            _ => parts.push(vec![one]),
        }
    }
    parts
}

/// Being level is no equivalence, so each part is those that are level with its best.
fn by_score<'c, 'a>(mut group: Group<'c, 'a>) -> Vec<Group<'c, 'a>> {
    let total = |one: &Contender| one.score.as_ref().map_or(0.0, Score::total);
    group.sort_by(|one, other| total(other).total_cmp(&total(one)).then(one.index.cmp(&other.index)));
    let mut parts: Vec<Group> = Vec::new();
    for one in group {
        match parts.last_mut() {
            Some(part) if total(part[0]) - total(one) < LEVEL => part.push(one),
            _ => parts.push(vec![one]),
        }
    }
    for part in &mut parts {
        part.sort_by_key(|one| one.index);
    }
    parts
}

fn by_judge<'c, 'a>(group: Group<'c, 'a>, judged: &[Judged]) -> Vec<Group<'c, 'a>> {
    let names = names(&group);
    match word(judged, &names) {
        Some(word) => {
            let (better, others) = group.into_iter().partition(|one| word.better.as_deref() == Some(one.name));
            vec![better, others]
        }
        None => vec![group],
    }
}

pub fn names(group: &[&Contender]) -> Vec<String> {
    group.iter().map(|one| one.name.to_owned()).collect()
}

/// The last word counts, if it names one of them.
fn word<'j>(judged: &'j [Judged], names: &[String]) -> Option<&'j Judged> {
    judged.iter().rev().find(|word| is_about(word, names) && word.better.as_ref().is_some_and(|better| names.contains(better)))
}

pub fn is_about(word: &Judged, names: &[String]) -> bool {
    word.among == names
}

/// Passed, and how many there are.
pub fn required(outcome: &Outcome) -> (usize, usize) {
    passed_of(outcome, |check| check.required)
}

/// Passed, and how many there are.
pub fn optional(outcome: &Outcome) -> (usize, usize) {
    passed_of(outcome, |check| !check.required)
}

fn passed_of(outcome: &Outcome, which: impl Fn(&CheckOutcome) -> bool) -> (usize, usize) {
    let checks = outcome.checks.iter().filter(|check| which(check));
    (checks.clone().filter(|check| check.has_passed()).count(), checks.count())
}

pub fn failed_tests(outcome: &Outcome) -> Option<u64> {
    let mut counts = outcome.checks.iter().filter_map(|check| check.tests.as_ref()).peekable();
    counts.peek()?;
    Some(counts.fold(0, |sum, tests| sum.saturating_add(tests.failed)))
}

pub fn passed_tests(outcome: &Outcome) -> u64 {
    outcome.checks.iter().filter_map(|check| check.tests.as_ref()).fold(0, |sum, tests| sum.saturating_add(tests.passed))
}

pub fn lines(outcome: &Outcome) -> u64 {
    outcome.changes.added_lines.saturating_add(outcome.changes.deleted_lines)
}
