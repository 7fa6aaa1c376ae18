//! What an attempt came to, as far as that comes before all else.

use whatif_types::experiment::{Changes, CheckOutcome, ExperimentPlan, Outcome, Verdict};

/// The best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Passed,
    /// It passes, but there is nothing to keep.
    ChangedNothing,
    FailedChecks,
    Forbidden,
    Failed,
    Cancelled,
    Broken,
}

impl Class {
    /// Who is said to have passed must also have the checks to show for it: a record may be older than the plan.
    pub fn of(plan: &ExperimentPlan, outcome: &Outcome) -> Self {
        match outcome.verdict {
            Verdict::Passed if !passes_all(plan, outcome) => Self::FailedChecks,
            Verdict::Passed if outcome.changes.is_empty() => Self::ChangedNothing,
            Verdict::Passed => Self::Passed,
            Verdict::FailedChecks => Self::FailedChecks,
            Verdict::Forbidden(_) => Self::Forbidden,
            Verdict::Failed => Self::Failed,
            Verdict::Cancelled(_) => Self::Cancelled,
            Verdict::Broken(_) => Self::Broken,
        }
    }

    pub fn has_passed(self) -> bool {
        matches!(self, Self::Passed | Self::ChangedNothing)
    }

    /// Of others, nothing is known that could be compared.
    pub fn is_checked(self) -> bool {
        self.has_passed() || self == Self::FailedChecks
    }
}

/// How far what it changed is of use. The best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    Project,
    /// Only what the project ignores, or what lies outside: logs and caches, mostly. An apply leaves it out unless told otherwise.
    Elsewhere,
    Nowhere,
}

impl Reach {
    pub fn of(changes: &Changes) -> Self {
        match changes {
            Changes { files: 1.., .. } => Self::Project,
            changes if changes.is_empty() => Self::Nowhere,
            _ => Self::Elsewhere,
        }
    }
}

fn passes_all(plan: &ExperimentPlan, outcome: &Outcome) -> bool {
    let passed = |name: &str| outcome.checks.iter().any(|check| check.name == name && check.has_passed());
    plan.checks.iter().filter(|check| check.required).all(|check| passed(&check.name))
        && outcome.checks.iter().filter(|check| check.required).all(CheckOutcome::has_passed)
}
