//! How a race is shown: the live table while it runs, the report after it, the list of races. Nothing is decided here.

mod board;
mod brush;
#[cfg(test)]
mod document_tests;
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

use whatif_types::experiment::ExperimentPlan;

pub use self::board::Board;
pub use self::list::list;
pub use self::live::Live;
pub use self::report::report;
pub use self::told::told;
use whatif_engine::races::PlacedAttempt;
pub use whatif_engine::races::{Shown, Standing};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Right after a race: of many attempts only what one reads at once.
    Short,
    Full,
}

/// The metrics with a column of their own: those asked for, and built-in ones that count and stand nowhere else.
fn metrics(plan: &ExperimentPlan) -> Vec<String> {
    let mut names: Vec<String> = plan.metrics.iter().map(|m| m.name.clone()).collect();
    let weighted = plan.weights.keys().filter(|name| !matches!(name.as_str(), "lines" | "files" | "tests"));
    let more: Vec<String> = weighted.filter(|name| !names.contains(name)).cloned().collect();
    names.extend(more);
    names
}
