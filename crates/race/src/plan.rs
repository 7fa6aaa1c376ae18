//! Whether a plan as a whole makes sense, wherever it came from. Everything that can be known to be wrong is refused here,
//! before anything runs.

use std::collections::BTreeSet;

use whatif_types::experiment::ExperimentPlan;
use whatif_types::remedy::{Call, Choice, Sentence, Value};
use whatif_types::{Explain, Kind, Remedy, name, remedy};

use crate::attempts::{MOST_ATTEMPTS, RESERVED};
use crate::metric::{Extractor, MetricError};
use crate::rank::BUILT_IN;

/// More would not make a spread any clearer.
const MOST_REPEATS: u32 = 100;

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("there is nothing to race")]
    Nothing,
    #[error("{count} attempts are too many (at most {MOST_ATTEMPTS})")]
    TooMany { count: usize },
    #[error("{what} '{name}' is given twice")]
    Twice { what: &'static str, name: String },
    #[error("'{name}' is not a valid name for an attempt")]
    Name { name: String },
    #[error("an empty check would always pass")]
    EmptyCheck,
    #[error("checks are repeated 1 to {MOST_REPEATS} times")]
    Repeats,
    #[error("with 0 attempts at a time nothing would run")]
    NoJobs,
    #[error("metric '{name}': {source}")]
    Metric { name: String, source: MetricError },
    #[error("metric '{metric}' refers to unknown check '{check}'")]
    NoSuchCheck { metric: String, check: String },
    #[error("metrics are read from the output of checks, and there are no checks")]
    NoChecks,
    #[error("a weight is given for unknown metric '{metric}'")]
    NoSuchMetric { metric: String, known: Vec<String> },
    #[error("{weight} is not a valid weight")]
    Weight { weight: f64 },
}

impl Explain for PlanError {
    fn code(&self) -> &'static str {
        "invalid_race"
    }

    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn wording(&self) -> Option<Sentence> {
        match self {
            Self::NoJobs => Some(remedy!["with ", Choice::Jobs("0".into()), " nothing would run"]),
            _ => None,
        }
    }

    fn remedies(&self) -> Vec<Remedy> {
        let remedy = match self {
            Self::Nothing => remedy!["name some attempts: ", Call::RaceAny, ", or write an experiment.toml"],
            Self::TooMany { .. } => "race them in groups".into(),
            Self::Twice { .. } => "give one of them another name".into(),
            Self::Name { .. } => format!("letters, digits, '-', '_' and '.'; {} are reserved", RESERVED.join(", ")).into(),
            Self::EmptyCheck => remedy!["say what to run: ", Choice::Check(Value::Blank)],
            Self::Repeats => remedy!["choose another number: ", Choice::Repeats("3".into())],
            Self::NoJobs => "leave it out, or use a number of at least 1".into(),
            Self::Metric { .. } => "a regular expression, or $.path.in.json".into(),
            Self::NoSuchCheck { .. } => "name one of the checks".into(),
            Self::NoChecks => remedy!["add one: ", Choice::Check(Value::Blank)],
            Self::NoSuchMetric { known, .. } => format!("there are {}", known.join(", ")).into(),
            Self::Weight { .. } => "a weight is a number of 0 or more".into(),
        };
        vec![remedy]
    }
}

pub fn check(plan: &ExperimentPlan) -> Result<(), PlanError> {
    check_attempts(plan)?;
    unique("check", plan.checks.iter().map(|check| check.name.as_str()))?;
    if plan.checks.iter().any(|check| check.run.trim().is_empty()) {
        return Err(PlanError::EmptyCheck);
    }
    if !(1..=MOST_REPEATS).contains(&plan.repeats) {
        return Err(PlanError::Repeats);
    }
    if plan.jobs == Some(0) {
        return Err(PlanError::NoJobs);
    }
    check_metrics(plan)?;
    check_weights(plan)
}

fn check_attempts(plan: &ExperimentPlan) -> Result<(), PlanError> {
    if plan.attempts.is_empty() {
        return Err(PlanError::Nothing);
    }
    if plan.attempts.len() > MOST_ATTEMPTS {
        return Err(PlanError::TooMany { count: plan.attempts.len() });
    }
    let names = || plan.attempts.iter().map(|attempt| attempt.name.as_str());
    match names().find(|name| RESERVED.contains(name) || name::validate(name).is_err()) {
        Some(name) => Err(PlanError::Name { name: name.escape_debug().to_string() }),
        None => unique("attempt", names()),
    }
}

fn check_metrics(plan: &ExperimentPlan) -> Result<(), PlanError> {
    unique("metric", plan.metrics.iter().map(|metric| metric.name.as_str()).chain(BUILT_IN))?;
    for metric in &plan.metrics {
        let name = || metric.name.clone();
        Extractor::new(metric).map_err(|source| PlanError::Metric { name: name(), source })?;
        let is_there = |check: &&String| plan.checks.iter().any(|known| known.name == **check);
        if let Some(check) = metric.check.as_ref().filter(|check| !is_there(check)) {
            return Err(PlanError::NoSuchCheck { metric: name(), check: check.clone() });
        }
    }
    if plan.checks.is_empty() && !plan.metrics.is_empty() { Err(PlanError::NoChecks) } else { Ok(()) }
}

fn check_weights(plan: &ExperimentPlan) -> Result<(), PlanError> {
    let known = || BUILT_IN.into_iter().chain(plan.metrics.iter().map(|metric| metric.name.as_str()));
    for (metric, weight) in &plan.weights {
        if !known().any(|name| name == metric) {
            let known = known().map(str::to_owned).collect();
            return Err(PlanError::NoSuchMetric { metric: metric.clone(), known });
        }
        if !weight.is_finite() || *weight < 0.0 {
            return Err(PlanError::Weight { weight: *weight });
        }
    }
    Ok(())
}

fn unique<'a>(what: &'static str, names: impl Iterator<Item = &'a str>) -> Result<(), PlanError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(PlanError::Twice { what, name: name.escape_debug().to_string() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use whatif_types::experiment::{AttemptPlan, Better, CheckPlan, Extract, Kind, MetricPlan};

    use super::*;

    fn attempt(name: &str) -> AttemptPlan {
        AttemptPlan {
            name: name.to_owned(),
            kind: Kind::Command,
            about: String::new(),
            arguments: Vec::new(),
            input: None,
            parameters: Default::default(),
        }
    }

    fn a_check(name: &str, run: &str) -> CheckPlan {
        CheckPlan { name: name.to_owned(), run: run.to_owned(), required: true, timeout: None, report: None }
    }

    fn metric(name: &str, regex: &str, of: Option<&str>) -> MetricPlan {
        let extract = Extract::Regex(regex.to_owned());
        MetricPlan { name: name.to_owned(), extract, better: Better::Lower, check: of.map(str::to_owned) }
    }

    fn good() -> ExperimentPlan {
        ExperimentPlan {
            attempts: vec![attempt("a"), attempt("b")],
            checks: vec![a_check("test", "make test")],
            metrics: vec![metric("speed", "([0-9]+)", Some("test"))],
            weights: [("speed".to_owned(), 2.0), ("lines".to_owned(), 0.0)].into(),
            repeats: 1,
            ..ExperimentPlan::default()
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_way_out() {
        check(&good()).unwrap();
        type Spoil = fn(&mut ExperimentPlan);
        let cases: [(Spoil, &str); 13] = [
            (|p| p.attempts.clear(), "there is nothing to race"),
            (
                |p| p.attempts = (0..=MOST_ATTEMPTS).map(|n| attempt(&n.to_string())).collect(),
                "1001 attempts are too many (at most 1000)",
            ),
            (|p| p.attempts[1].name = "a".to_owned(), "attempt 'a' is given twice"),
            (|p| p.attempts[1].name = "judge".to_owned(), "'judge' is not a valid name for an attempt"),
            (|p| p.attempts[1].name = "\u{1b}[2J".to_owned(), "'\\u{1b}[2J' is not a valid name for an attempt"),
            (|p| p.checks.push(a_check("test", "true")), "check 'test' is given twice"),
            (|p| p.checks.push(a_check("none", " ")), "an empty check would always pass"),
            (|p| p.repeats = 0, "checks are repeated 1 to 100 times"),
            (|p| p.jobs = Some(0), "with 0 attempts at a time nothing would run"),
            (|p| p.metrics[0].check = Some("lint".to_owned()), "metric 'speed' refers to unknown check 'lint'"),
            (|p| p.metrics.push(metric("cpu", "x", None)), "metric 'cpu' is given twice"),
            (|p| _ = p.weights.insert("sped".to_owned(), 1.0), "a weight is given for unknown metric 'sped'"),
            (|p| _ = p.weights.insert("lines".to_owned(), f64::NAN), "NaN is not a valid weight"),
        ];
        for (spoil, expected) in cases {
            let mut plan = good();
            spoil(&mut plan);
            let error = check(&plan).unwrap_err();
            assert_eq!(error.to_string(), expected);
            assert!(error.kind() == whatif_types::Kind::Invalid && !error.remedies()[0].is_empty(), "{expected}");
        }
        let unreadable = ExperimentPlan { metrics: vec![metric("speed", "(", None)], ..good() };
        assert!(matches!(check(&unreadable), Err(PlanError::Metric { .. })));
        let unchecked = ExperimentPlan { checks: Vec::new(), metrics: vec![metric("speed", "x", None)], ..good() };
        assert!(matches!(check(&unchecked), Err(PlanError::NoChecks)));
    }
}
