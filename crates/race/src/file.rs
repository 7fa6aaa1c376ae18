//! `experiment.toml`: a race written down.

mod error;
mod written;

use std::collections::{BTreeMap, BTreeSet};

use whatif_types::experiment::{AttemptPlan, CheckPlan, ExperimentPlan, Extract, MetricPlan};
use whatif_types::text::Text;
use whatif_types::{Limits, Span, name};

pub use self::error::{FileError, Problem};
use self::written::{Attempt, Check, Command, Metric, Placed, Written};
use crate::attempts::{AttemptsError, Draft, MOST_ATTEMPTS, Matrix, Name, Template, name_all};
use crate::metric::Extractor;
use crate::rank::BUILT_IN;

/// What the file says, each part by itself good; whether they fit together shows when a plan is made of them.
#[derive(Clone, Debug)]
pub struct File {
    pub name: Option<String>,
    /// As `--net`.
    pub net: Vec<String>,
    /// For each attempt.
    pub timeout: Option<Span>,
    /// Memory, processors, processes, room on the disk.
    pub limits: Limits,
    /// For checks that do not say how long they may take.
    pub check_timeout: Option<Span>,
    pub setup: Option<String>,
    pub judge: Option<String>,
    pub protect: Vec<String>,
    pub repeats: Option<u32>,
    pub jobs: Option<u32>,
    pub budget: Option<Span>,
    pub first_success: bool,
    pub cancel_losers: bool,
    agent: Option<Command>,
    weights: BTreeMap<String, f64>,
    attempts: Vec<Placed<Attempt>>,
    checks: Vec<Placed<Check>>,
    metrics: Vec<Placed<Metric>>,
}

impl File {
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let written = Written::parse(text)?;
        if let Some(name) = &written.name {
            name::validate(name)?;
        }
        let zero = [
            (written.repeats == Some(0), "repeats"),
            (written.jobs == Some(0), "jobs"),
            (written.timeout.is_some_and(is_no_time), "timeout"),
            (written.check_timeout.is_some_and(is_no_time), "check_timeout"),
            (written.budget.is_some_and(is_no_time), "budget"),
        ];
        if let Some((_, key)) = zero.into_iter().find(|(is_zero, _)| *is_zero) {
            return Err(Problem::Zero { key }.into());
        }
        let limits = Limits::from(written.limits);
        limits.check().map_err(|why| Problem::Limits { why })?;
        Ok(Self {
            name: written.name,
            net: written.net.into_list(),
            timeout: written.timeout,
            limits,
            check_timeout: written.check_timeout,
            setup: written.setup,
            judge: written.judge,
            protect: written.protect,
            repeats: written.repeats,
            jobs: written.jobs,
            budget: written.budget,
            first_success: written.first_success,
            cancel_losers: written.cancel_losers,
            agent: written.agent,
            weights: written.weights,
            attempts: written::placed(written.attempt, text),
            checks: written::placed(written.check, text),
            metrics: written::placed(written.metric, text),
        })
    }

    /// `read_patch` is given the paths as they are written, relative to the file. A file may have no attempts; then whoever
    /// asks has them from elsewhere.
    pub fn into_plan(self, read_patch: &mut dyn FnMut(&str) -> Result<Text, String>) -> Result<ExperimentPlan, FileError> {
        let checks = self.checks()?;
        let metrics = self.metrics(&checks)?;
        let weights = self.weights(&metrics)?;
        Ok(ExperimentPlan {
            attempts: self.attempts(read_patch)?,
            checks,
            metrics,
            weights,
            setup: self.setup,
            judge: self.judge,
            protect: self.protect,
            repeats: self.repeats.unwrap_or(1),
            jobs: self.jobs,
            budget: self.budget,
            first_success: self.first_success,
            cancel_losers: self.cancel_losers,
        })
    }

    fn attempts(&self, read_patch: &mut dyn FnMut(&str) -> Result<Text, String>) -> Result<Vec<AttemptPlan>, FileError> {
        let mut drafts = Vec::new();
        let mut lines = BTreeMap::new();
        for Placed { line, value: attempt } in &self.attempts {
            if let Some(name) = &attempt.name {
                lines.insert(name.as_str(), *line);
            }
            drafts.extend(self.drafts(attempt, read_patch).map_err(|problem| problem.at(*line))?);
            if drafts.len() > MOST_ATTEMPTS {
                return Err(Problem::from(AttemptsError::TooMany { count: drafts.len() }).at(*line));
            }
        }
        name_all(drafts).map_err(|error| {
            let line = match &error {
                AttemptsError::Duplicate { name } | AttemptsError::Reserved { name } => lines.get(name.as_str()).copied(),
                _ => None,
            };
            FileError { line, problem: error.into() }
        })
    }

    /// One, or one for each combination of its matrix.
    fn drafts(&self, attempt: &Attempt, read_patch: &mut dyn FnMut(&str) -> Result<Text, String>) -> Result<Vec<Draft>, Problem> {
        if let Some(name) = &attempt.name {
            name::validate(name).map_err(AttemptsError::from)?;
        }
        let rows = attempt.rows();
        let has_matrix = !rows.is_empty();
        let name = || Name::from(attempt.name.clone());
        match (&attempt.run, &attempt.patch, &attempt.revert, &attempt.prompt) {
            (Some(run), None, None, None) => self.expand(attempt, &rows, run, None),
            (None, None, None, Some(prompt)) if prompt.trim().is_empty() => Err(AttemptsError::EmptyPrompt.into()),
            (None, None, None, Some(prompt)) => {
                let agent = self.agent.as_ref().ok_or(Problem::NoAgent)?;
                self.expand(attempt, &rows, agent, Some(prompt))
            }
            (None, Some(_), None, None) if has_matrix => Err(Problem::NoMatrix { kind: "patch" }),
            (None, None, Some(_), None) if has_matrix => Err(Problem::NoMatrix { kind: "revert" }),
            (None, Some(path), None, None) => {
                let content = read_patch(path).map_err(|why| Problem::Patch { path: path.escape_debug().to_string(), why })?;
                Ok(vec![Draft::patch(name(), path, content)?])
            }
            (None, None, Some(commit), None) => Ok(vec![Draft::revert(name(), commit)?]),
            _ => Err(Problem::NotOneWay),
        }
    }

    fn expand(
        &self,
        attempt: &Attempt,
        rows: &[(&str, Vec<String>)],
        command: &Command,
        prompt: Option<&str>,
    ) -> Result<Vec<Draft>, Problem> {
        let matrix = Matrix::new(rows.iter().map(|(name, values)| (*name, values.as_slice())))?;
        if matrix.len() > MOST_ATTEMPTS {
            return Err(AttemptsError::TooMany { count: matrix.len() }.into());
        }
        let arguments = command.to_texts();
        let template = Template::command(&arguments);
        // A shell has its own braces, so that only a matrix makes any of them ours.
        if !rows.is_empty() || matches!(command, Command::Program(_)) {
            template.check(matrix.variables(), prompt.is_some())?;
        }
        if prompt.is_some() && matches!(command, Command::Script(_)) && template.has_prompt() {
            return Err(AttemptsError::PromptInScript.into());
        }
        let drafts = matrix.combinations().into_iter().map(|values| {
            let name = if values.is_empty() {
                Name::from(attempt.name.clone())
            } else {
                Name::Derived(attempt.name.iter().cloned().chain(values.texts().map(str::to_owned)).collect())
            };
            match (command, prompt) {
                (Command::Script(script), None) => Draft::script_with(name, script, &values),
                (Command::Script(agent), Some(prompt)) => Draft::prompt_for_script(name, agent, prompt, &values),
                (Command::Program(_), None) => Draft::command(name, &template, &values),
                (Command::Program(_), Some(prompt)) => Draft::prompt(name, &template, prompt, &values),
            }
        });
        Ok(drafts.collect())
    }

    fn checks(&self) -> Result<Vec<CheckPlan>, FileError> {
        let mut names = BTreeSet::new();
        let mut plans = Vec::new();
        for Placed { line, value: check } in &self.checks {
            let plan = check.plan(self.check_timeout).map_err(|problem| problem.at(*line))?;
            if !names.insert(plan.name.clone()) {
                return Err(Problem::DuplicateCheck { name: plan.name.escape_debug().to_string() }.at(*line));
            }
            plans.push(plan);
        }
        Ok(plans)
    }

    fn metrics(&self, checks: &[CheckPlan]) -> Result<Vec<MetricPlan>, FileError> {
        let mut names = BTreeSet::new();
        let mut plans = Vec::new();
        for Placed { line, value: metric } in &self.metrics {
            let extract = match (&metric.regex, &metric.json) {
                (Some(regex), None) => Extract::Regex(regex.clone()),
                (None, Some(path)) => Extract::Json(path.clone()),
                _ => return Err(Problem::NotOneSource.at(*line)),
            };
            if let Some(name) = metric.check.as_ref().filter(|name| !checks.iter().any(|check| check.name == **name)) {
                let known = listed(checks.iter().map(|check| check.name.as_str()));
                return Err(Problem::UnknownCheck { name: name.escape_debug().to_string(), known }.at(*line));
            }
            let plan = MetricPlan { name: metric.name.clone(), extract, better: metric.better, check: metric.check.clone() };
            Extractor::new(&plan).map_err(|error| Problem::from(error).at(*line))?;
            if !names.insert(metric.name.clone()) {
                return Err(Problem::DuplicateMetric { name: metric.name.clone() }.at(*line));
            }
            plans.push(plan);
        }
        Ok(plans)
    }

    fn weights(&self, metrics: &[MetricPlan]) -> Result<BTreeMap<String, f64>, FileError> {
        let is_good = |weight: f64| weight.is_finite() && weight >= 0.0;
        let mut weights = BTreeMap::new();
        for (name, weight) in &self.weights {
            if !is_good(*weight) {
                return Err(Problem::Weight { name: name.escape_debug().to_string() }.into());
            }
            if !BUILT_IN.contains(&name.as_str()) && !metrics.iter().any(|metric| metric.name == *name) {
                let known = listed(BUILT_IN.into_iter().chain(metrics.iter().map(|metric| metric.name.as_str())));
                return Err(Problem::UnknownWeight { name: name.escape_debug().to_string(), known }.into());
            }
            weights.insert(name.clone(), *weight);
        }
        for Placed { line, value: metric } in &self.metrics {
            let Some(weight) = metric.weight else { continue };
            if !is_good(weight) {
                return Err(Problem::Weight { name: metric.name.clone() }.at(*line));
            }
            if weights.insert(metric.name.clone(), weight).is_some() {
                return Err(Problem::DuplicateWeight { name: metric.name.clone() }.at(*line));
            }
        }
        Ok(weights)
    }
}

fn is_no_time(span: Span) -> bool {
    span.as_millis() == 0
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.map(|name| name.escape_debug().to_string()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests;
