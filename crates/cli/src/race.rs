//! How a race is shown: the live table while it runs, the report after it, the list of races. Nothing is decided here.

mod board;
mod brush;
mod document;
mod files;
mod frame;
mod grid;
mod line;
mod list;
mod live;
mod report;

#[cfg(test)]
mod sample;
mod told;
mod words;

use std::collections::HashMap;

use whatif_types::experiment::{AttemptPlan, Experiment, ExperimentPlan, Outcome, Ranked, Ranking};

pub use self::board::Board;
pub use self::document::document;
pub use self::list::list;
pub use self::live::Live;
pub use self::report::report;
pub use self::told::told;
pub use whatif_engine::races::Standing;

/// A race with what is known about it besides its record.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    pub experiment: &'a Experiment,
    pub ranking: &'a Ranking,
    pub standing: Standing,
    /// Commands without `--race` mean this one.
    pub is_latest: bool,
}

/// An attempt that ended.
#[derive(Clone, Copy, Debug)]
struct PlacedAttempt<'a> {
    place: &'a Ranked,
    plan: &'a AttemptPlan,
    outcome: &'a Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Right after a race: of many attempts only what one reads at once.
    Short,
    Full,
}

impl<'a> Shown<'a> {
    /// Those that ended and are ranked, the best first.
    fn ranked(self) -> impl Iterator<Item = (&'a str, &'a Outcome)> {
        self.placed().map(|placed| (placed.place.attempt.as_str(), placed.outcome))
    }

    /// The same with all that is known of each. There may be hundreds of them.
    fn placed(self) -> impl Iterator<Item = PlacedAttempt<'a>> {
        let ended = self.experiment.attempts().filter_map(|(plan, recorded)| Some((plan, recorded.outcome.as_ref()?)));
        let by_name: HashMap<&str, (&AttemptPlan, &Outcome)> = ended.map(|one| (one.0.name.as_str(), one)).collect();
        self.ranking.places.iter().filter_map(move |place| {
            let (plan, outcome) = by_name.get(place.attempt.as_str())?;
            Some(PlacedAttempt { place, plan, outcome })
        })
    }
}

/// The metrics with a column of their own: those asked for, and built-in ones that count and stand nowhere else.
fn metrics(plan: &ExperimentPlan) -> Vec<String> {
    let mut names: Vec<String> = plan.metrics.iter().map(|m| m.name.clone()).collect();
    let weighted = plan.weights.keys().filter(|name| !matches!(name.as_str(), "lines" | "files" | "tests"));
    let more: Vec<String> = weighted.filter(|name| !names.contains(name)).cloned().collect();
    names.extend(more);
    names
}
