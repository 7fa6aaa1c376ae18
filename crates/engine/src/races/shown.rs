//! A race as clients show it.

use std::collections::HashMap;

use whatif_types::experiment::{AttemptPlan, Experiment, Outcome, Ranked, Ranking};

use super::Standing;

/// A race with what is known about it besides its record.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    pub experiment: &'a Experiment,
    pub ranking: &'a Ranking,
    pub standing: Standing,
    /// Commands that name no race mean this one.
    pub is_latest: bool,
}

/// An attempt that ended.
#[derive(Clone, Copy, Debug)]
pub struct PlacedAttempt<'a> {
    pub place: &'a Ranked,
    pub plan: &'a AttemptPlan,
    pub outcome: &'a Outcome,
}

impl<'a> Shown<'a> {
    /// Those that ended and are ranked, the best first.
    pub fn ranked(self) -> impl Iterator<Item = (&'a str, &'a Outcome)> {
        self.placed().map(|placed| (placed.place.attempt.as_str(), placed.outcome))
    }

    /// The same with all that is known of each. There may be hundreds of them.
    pub fn placed(self) -> impl Iterator<Item = PlacedAttempt<'a>> {
        let ended = self.experiment.attempts().filter_map(|(plan, recorded)| Some((plan, recorded.outcome.as_ref()?)));
        let by_name: HashMap<&str, (&AttemptPlan, &Outcome)> = ended.map(|one| (one.0.name.as_str(), one)).collect();
        self.ranking.places.iter().filter_map(move |place| {
            let (plan, outcome) = by_name.get(place.attempt.as_str())?;
            Some(PlacedAttempt { place, plan, outcome })
        })
    }
}
