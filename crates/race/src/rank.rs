//! Which attempt is the best. The same outcomes give the same ranking, in whatever order they came.
//!
//! All attempts begin as one group. One criterion after the other takes groups apart, and where two neighbours were taken
//! apart is why the second stands behind the first. Those that no criterion takes apart stay in the order of the plan.

mod class;
mod criterion;
mod score;
mod words;

use std::collections::BTreeMap;

use whatif_types::experiment::{ExperimentPlan, Judged, Outcome, Ranked, Ranking};

use self::class::Class;
use self::criterion::Criterion;
pub use self::score::BUILT_IN;
use self::score::{Score, scores};

/// One attempt that ended, with everything it is compared by.
struct Contender<'a> {
    index: usize,
    name: &'a str,
    class: Class,
    outcome: &'a Outcome,
    score: Option<Score<'a>>,
}

/// A contender, and what sets it apart from the one before; nothing if they are level.
struct Placed<'c, 'a> {
    contender: &'c Contender<'a>,
    apart: Option<Criterion>,
}

/// `outcomes`: with their index into the plan's attempts; only those that ended.
#[must_use]
pub fn rank(plan: &ExperimentPlan, outcomes: &[(usize, &Outcome)], judged: &[Judged]) -> Ranking {
    let contenders = contenders(plan, outcomes);
    let order = in_order(&contenders, judged);
    let winner = order.first().filter(|first| first.contender.class == Class::Passed);
    Ranking {
        winner: winner.map(|first| first.contender.name.to_owned()),
        because: words::because(&order, judged) + &words::not_found(&nowhere(plan, &contenders)),
        places: places(&order, judged),
    }
}

/// The names, in the order of the plan, of those among the best that only a judge could set apart and that none has yet.
/// A judge is asked before the size of the change decides.
#[must_use]
pub fn level_at_the_top(plan: &ExperimentPlan, outcomes: &[(usize, &Outcome)], judged: &[Judged]) -> Option<Vec<String>> {
    let contenders = contenders(plan, outcomes);
    let mut groups = vec![contenders.iter().collect::<Vec<_>>()];
    for criterion in Criterion::BEFORE_THE_JUDGE {
        groups = groups.into_iter().flat_map(|group| criterion.apart(group, judged)).collect();
    }
    let top = groups.first().filter(|top| top.len() > 1 && top[0].class == Class::Passed)?;
    let names = criterion::names(top);
    (!judged.iter().any(|word| criterion::is_about(word, &names))).then_some(names)
}

fn contenders<'a>(plan: &'a ExperimentPlan, outcomes: &[(usize, &'a Outcome)]) -> Vec<Contender<'a>> {
    // By index: the order in which they ended says nothing, and nobody competes twice.
    let mut by_index: BTreeMap<usize, &'a Outcome> = BTreeMap::new();
    for (index, outcome) in outcomes {
        by_index.entry(*index).or_insert(outcome);
    }
    let named = by_index.into_iter().filter_map(|(index, outcome)| Some((index, plan.attempts.get(index)?, outcome)));
    let mut contenders: Vec<_> = named
        .map(|(index, attempt, outcome)| Contender {
            index,
            name: &attempt.name,
            class: Class::of(plan, outcome),
            outcome,
            score: None,
        })
        .collect();
    let passed: Vec<&Outcome> = contenders.iter().filter(|one| one.class.has_passed()).map(|one| one.outcome).collect();
    let mut scores = scores(plan, &passed).into_iter();
    for contender in contenders.iter_mut().filter(|one| one.class.has_passed()) {
        contender.score = scores.next().flatten();
    }
    contenders
}

/// Metrics that no check printed, of whatever attempt: most likely their expression is wrong.
fn nowhere<'a>(plan: &'a ExperimentPlan, contenders: &[Contender]) -> Vec<&'a str> {
    let checked: Vec<_> = contenders.iter().filter(|one| one.class.is_checked()).collect();
    let is_nowhere = |name: &str| !checked.is_empty() && checked.iter().all(|one| !one.outcome.metrics.contains_key(name));
    plan.metrics.iter().map(|metric| metric.name.as_str()).filter(|name| is_nowhere(name)).collect()
}

fn in_order<'c, 'a>(contenders: &'c [Contender<'a>], judged: &[Judged]) -> Vec<Placed<'c, 'a>> {
    let mut groups = vec![(None, contenders.iter().collect::<Vec<_>>())];
    for criterion in Criterion::ALL {
        groups = groups
            .into_iter()
            .flat_map(|(apart, group)| {
                let parts = criterion.apart(group, judged).into_iter().enumerate();
                parts.map(move |(part, members)| (if part == 0 { apart } else { Some(criterion) }, members))
            })
            .collect();
    }
    let members = groups.into_iter().flat_map(|(apart, group)| {
        group.into_iter().enumerate().map(move |(at, contender)| Placed { contender, apart: if at == 0 { apart } else { None } })
    });
    members.collect()
}

fn places(order: &[Placed], judged: &[Judged]) -> Vec<Ranked> {
    let mut place = 1;
    let mut places = Vec::with_capacity(order.len());
    for (at, placed) in order.iter().enumerate() {
        if placed.apart.is_some() {
            place = u32::try_from(at).unwrap_or(u32::MAX).saturating_add(1);
        }
        let before = at.checked_sub(1).map(|before| order[before].contender);
        places.push(Ranked {
            attempt: placed.contender.name.to_owned(),
            place,
            score: placed.contender.score.as_ref().map(Score::total),
            why: words::why(placed, before, judged),
        });
    }
    places
}

#[cfg(test)]
mod tests;
