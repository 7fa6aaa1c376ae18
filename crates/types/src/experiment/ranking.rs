//! Which attempt is the best, and why each stands where it stands.

use serde::{Deserialize, Serialize};

/// All attempts that ended, the best first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    pub places: Vec<Ranked>,
    /// The name of the first one, if it passes and changed something.
    pub winner: Option<String>,
    /// One sentence: why that one.
    pub because: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    pub attempt: String,
    /// From 1 on. Those that nothing sets apart but their order in the plan have the same place.
    pub place: u32,
    /// Out of 100, among those that pass; none if no metric has a weight.
    pub score: Option<f64>,
    /// One line: what sets it apart from the one before it.
    pub why: String,
}

/// What a judge said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// Those that were level, in the order of the plan.
    pub among: Vec<String>,
    /// None if it named none of them.
    pub better: Option<String>,
    /// What it printed besides, or why there is no answer.
    pub because: String,
}
