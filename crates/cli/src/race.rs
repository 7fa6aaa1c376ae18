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

use whatif_types::experiment::{Experiment, ExperimentPlan, Outcome, Ranking};

pub use self::board::Board;
pub use self::document::document;
pub use self::list::list;
pub use self::live::Live;
pub use self::report::report;
pub use self::told::told;

/// A race with what is known about it besides its record.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    pub experiment: &'a Experiment,
    pub ranking: &'a Ranking,
    pub standing: Standing,
    /// Commands without `--race` mean this one.
    pub is_latest: bool,
}

/// Only who asks for the race's lock knows whether somebody runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Running,
    /// It can be resumed.
    Interrupted,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Right after a race: of many attempts only what one reads at once.
    Short,
    Full,
}

impl Standing {
    fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Ended => "ended",
        }
    }
}

impl<'a> Shown<'a> {
    fn outcome(self, attempt: &str) -> Option<&'a Outcome> {
        self.experiment.attempts().find(|(planned, _)| planned.name == attempt).and_then(|(_, recorded)| recorded.outcome.as_ref())
    }

    /// Those that ended and are ranked, the best first.
    fn ranked(self) -> impl Iterator<Item = (&'a str, &'a Outcome)> {
        self.ranking.places.iter().filter_map(move |p| Some((p.attempt.as_str(), self.outcome(&p.attempt)?)))
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
