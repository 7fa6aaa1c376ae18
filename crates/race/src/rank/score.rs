//! A score out of 100, of the metrics that have a weight.

use whatif_types::experiment::{Better, ExperimentPlan, Measured, Outcome};

use super::class::Reach;

/// Measured for every attempt; all but the tests are better when they are lower.
pub const BUILT_IN: [&str; 8] = ["duration", "cpu", "memory", "attempt_duration", "lines", "files", "bytes", "tests"];

/// What one attempt has of each metric.
#[derive(Clone, Debug)]
pub struct Score<'a> {
    parts: Vec<Part<'a>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    pub metric: &'a str,
    /// What was measured, if anything.
    pub value: Option<f64>,
    /// Of this metric, out of 1.
    reached: f64,
    /// Of all weights together, out of 1.
    share: f64,
}

impl<'a> Score<'a> {
    /// Out of 100.
    pub fn total(&self) -> f64 {
        (100.0 * self.parts.iter().map(|part| part.reached * part.share).sum::<f64>()).clamp(0.0, 100.0)
    }

    /// The metric that this one lost the most by, in both.
    pub fn lost_most<'b>(&'b self, better: &'b Self) -> Option<(&'b Part<'a>, &'b Part<'a>)> {
        let lost = |(own, other): &(&Part, &Part)| (other.reached - own.reached) * own.share;
        // The first of several.
        self.parts.iter().zip(&better.parts).rev().max_by(|one, other| lost(one).total_cmp(&lost(other)))
    }
}

struct Weighted<'a> {
    metric: &'a str,
    better: Better,
    share: f64,
}

/// One for each outcome; none if nothing that has a weight was measured.
pub fn scores<'a>(plan: &'a ExperimentPlan, outcomes: &[&'a Outcome]) -> Vec<Option<Score<'a>>> {
    let weighted = weighted(plan, outcomes);
    if weighted.is_empty() {
        return vec![None; outcomes.len()];
    }
    let mut parts: Vec<Vec<Part>> = vec![Vec::new(); outcomes.len()];
    for Weighted { metric, better, share } in weighted {
        let values: Vec<Option<Spread>> = outcomes.iter().map(|outcome| Spread::of(measured(outcome, metric)?, better)).collect();
        let field = Field::of(&values);
        for (parts, value) in parts.iter_mut().zip(&values) {
            let reached = value.zip(field).map_or(0.0, |(value, field)| field.reached(value));
            parts.push(Part { metric, value: value.map(|value| value.measured), reached, share });
        }
    }
    parts.into_iter().map(|parts| Some(Score { parts })).collect()
}

/// A metric that nobody has sets nobody apart, and would only make all scores lower.
fn weighted<'a>(plan: &'a ExperimentPlan, outcomes: &[&Outcome]) -> Vec<Weighted<'a>> {
    let custom = plan.metrics.iter().map(|metric| {
        let weight = plan.weights.get(&metric.name).copied().unwrap_or(1.0);
        Weighted { metric: metric.name.as_str(), better: metric.better, share: weight }
    });
    let is_custom = |name: &str| plan.metrics.iter().any(|metric| metric.name == name);
    let built_in = plan.weights.iter().filter(|(name, _)| !is_custom(name)).map(|(name, weight)| {
        let better = if name == "tests" { Better::Higher } else { Better::Lower };
        Weighted { metric: name, better, share: *weight }
    });
    let counts = |one: &Weighted| one.share.is_finite() && one.share > 0.0;
    let is_known = |one: &Weighted| outcomes.iter().any(|outcome| measured(outcome, one.metric).is_some());
    let mut all: Vec<_> = custom.chain(built_in).filter(|one| counts(one) && is_known(one)).collect();
    // Divided twice, because the sum of large weights may be too large.
    let largest = all.iter().map(|one| one.share).fold(0.0, f64::max);
    let sum: f64 = all.iter().map(|one| one.share / largest).sum();
    for one in &mut all {
        one.share = one.share / largest / sum;
    }
    all
}

/// Of nothing in the project there is no size: it would be the smallest of all.
fn measured<'a>(outcome: &'a Outcome, metric: &str) -> Option<&'a Measured> {
    let is_size = matches!(metric, "lines" | "files" | "bytes");
    outcome.metrics.get(metric).filter(|_| !is_size || Reach::of(&outcome.changes) == Reach::Project)
}

/// A measured number, turned so that lower is better.
#[derive(Clone, Copy, Debug)]
struct Spread {
    measured: f64,
    value: f64,
    low: f64,
    high: f64,
    better: Better,
}

impl Spread {
    fn of(measured: &Measured, better: Better) -> Option<Self> {
        let finite = [measured.value, measured.low, measured.high].iter().all(|number| number.is_finite());
        let (low, high) = (measured.low.min(measured.value), measured.high.max(measured.value));
        let (value, low, high) = match better {
            Better::Lower => (measured.value, low, high),
            Better::Higher => (-measured.value, -high, -low),
        };
        finite.then_some(Self { measured: measured.value, value, low, high, better })
    }
}

/// The best there is.
#[derive(Clone, Copy, Debug)]
struct Field {
    best: Spread,
}

impl Field {
    fn of(values: &[Option<Spread>]) -> Option<Self> {
        // Of several that are the best, the one that is most certain to be.
        let known = values.iter().flatten().copied();
        let best = known.min_by(|one, other| one.value.total_cmp(&other.value).then(one.high.total_cmp(&other.high)))?;
        Some(Self { best })
    }

    /// Out of 1.
    fn reached(&self, of: Spread) -> f64 {
        if of.low <= self.best.high || of.value <= self.best.value {
            return 1.0;
        }
        let ratio = match of.better {
            Better::Lower if self.best.value > 0.0 => self.best.value / of.value,
            Better::Higher if self.best.value < 0.0 => of.value / self.best.value,
            // No number is a multiple of nothing, or of less: what counts is how far it is from the best. How far others
            // are says nothing about this one.
            _ => 1.0 / (1.0 + (of.value - self.best.value)),
        };
        if ratio.is_finite() { ratio.clamp(0.0, 1.0) } else { 0.0 }
    }
}
