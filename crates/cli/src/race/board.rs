//! Everything the live table shows, gathered from the events of a race.

use std::time::{Duration, Instant};

use whatif_types::experiment::{Event, Experiment, Outcome, TestCounts, Verdict};

use super::words;

#[derive(Debug)]
pub struct Board {
    pub(super) race: String,
    pub(super) jobs: u32,
    pub(super) phase: Phase,
    /// How many paths of reality changed since it began.
    pub(super) moved: usize,
    pub(super) checks: Vec<String>,
    pub(super) repeats: u32,
    pub(super) metrics: Vec<String>,
    pub(super) rows: Vec<Row>,
    /// By those who ran it before.
    spent: Duration,
    began: Option<Instant>,
}

#[derive(Debug)]
pub(super) enum Phase {
    Attempts,
    Setup,
    Judging,
}

/// One attempt.
#[derive(Debug)]
pub(super) struct Row {
    pub name: String,
    pub about: String,
    pub progress: Progress,
    /// The last count of each check.
    pub tests: Vec<(String, TestCounts)>,
    pub cpu_ms: u64,
    pub memory_bytes: u64,
    began: Option<Instant>,
    took: Option<Duration>,
}

#[derive(Debug)]
pub(super) enum Progress {
    Waiting,
    Running,
    /// `step` counts the checks of all repeats, from 1.
    Checking {
        check: String,
        step: usize,
    },
    Done(Box<Outcome>),
}

impl Board {
    #[must_use]
    pub fn new(experiment: &Experiment) -> Self {
        let plan = &experiment.details.plan;
        let rows = experiment.attempts().map(|(planned, recorded)| {
            let mut row = Row::waiting(&planned.name, &planned.about);
            if let Some(outcome) = &recorded.outcome {
                row.end(outcome.clone(), None);
            }
            row
        });
        Self {
            race: experiment.name.clone(),
            jobs: plan.jobs.unwrap_or(0),
            phase: Phase::Attempts,
            moved: 0,
            checks: plan.checks.iter().map(|c| c.name.clone()).collect(),
            repeats: plan.repeats.max(1),
            metrics: super::metrics(plan),
            rows: rows.collect(),
            spent: Duration::from_millis(experiment.details.spent_ms),
            began: None,
        }
    }

    pub fn take(&mut self, event: &Event, now: Instant) {
        self.began.get_or_insert(now);
        match event {
            Event::Began { race, attempts, jobs, .. } => {
                self.race.clone_from(race);
                self.jobs = *jobs;
                for name in attempts {
                    self.row(name);
                }
            }
            Event::SetupBegan => self.phase = Phase::Setup,
            Event::SetupEnded { .. } => self.phase = Phase::Attempts,
            Event::AttemptBegan { attempt, .. } => self.row(attempt).begin(now),
            Event::CheckBegan { attempt, check, run } => {
                let place = self.checks.iter().position(|c| c == check).unwrap_or(0);
                let step = (run.saturating_sub(1) as usize) * self.checks.len() + place + 1;
                self.row(attempt).progress = Progress::Checking { check: check.clone(), step };
            }
            Event::CheckEnded { attempt, check, ended, tests, .. } => {
                let row = self.row(attempt);
                row.cpu_ms += ended.usage.cpu_ms;
                row.memory_bytes = row.memory_bytes.max(ended.usage.peak_memory_bytes);
                if let Some(tests) = tests {
                    row.tests.retain(|(name, _)| name != check);
                    row.tests.push((check.clone(), tests.clone()));
                }
            }
            Event::AttemptEnded { attempt, outcome } => self.row(attempt).end((**outcome).clone(), Some(now)),
            Event::RealityMoved { paths } => self.moved = self.moved.max(paths.len()),
            Event::JudgeBegan { .. } => self.phase = Phase::Judging,
            Event::Ended { .. } => {}
        }
    }

    /// The one of that name; a new one, if it was added later.
    fn row(&mut self, name: &str) -> &mut Row {
        let at = self.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            self.rows.push(Row::waiting(name, ""));
            self.rows.len() - 1
        });
        &mut self.rows[at]
    }

    pub(super) fn has_metric(&self, name: &str) -> bool {
        self.metrics.iter().any(|m| m == name)
    }

    pub(super) fn elapsed(&self, now: Instant) -> Duration {
        self.spent + self.began.map_or(Duration::ZERO, |began| now.saturating_duration_since(began))
    }

    /// Steps of one attempt's checks.
    pub(super) fn steps(&self) -> usize {
        self.checks.len() * self.repeats as usize
    }
}

impl Row {
    fn waiting(name: &str, about: &str) -> Self {
        Self {
            name: name.to_owned(),
            about: about.to_owned(),
            progress: Progress::Waiting,
            tests: Vec::new(),
            cpu_ms: 0,
            memory_bytes: 0,
            began: None,
            took: None,
        }
    }

    fn begin(&mut self, now: Instant) {
        *self = Self { progress: Progress::Running, began: Some(now), ..Self::waiting(&self.name, &self.about) };
    }

    /// Without a moment: it was over before we came.
    fn end(&mut self, outcome: Outcome, now: Option<Instant>) {
        let (wall, cpu, memory) = words::used(&outcome);
        let watched = now.zip(self.began).map(|(now, began)| now.saturating_duration_since(began));
        self.took = watched.or_else(|| words::was_run(&outcome).then(|| Duration::from_millis(wall)));
        (self.cpu_ms, self.memory_bytes) = (cpu, memory);
        self.tests = outcome.checks.iter().filter_map(|c| Some((c.name.clone(), c.tests.clone()?))).collect();
        self.progress = Progress::Done(Box::new(outcome));
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.progress, Progress::Running | Progress::Checking { .. })
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.progress, Progress::Done(_))
    }

    pub(super) fn outcome(&self) -> Option<&Outcome> {
        match &self.progress {
            Progress::Done(outcome) => Some(outcome),
            _ => None,
        }
    }

    pub(super) fn has_passed(&self) -> bool {
        self.outcome().is_some_and(|o| o.verdict == Verdict::Passed)
    }

    pub(super) fn time(&self, now: Instant) -> Option<Duration> {
        self.took.or_else(|| self.is_running().then_some(self.began).flatten().map(|began| now.saturating_duration_since(began)))
    }

    /// What is worth more to see has the smaller one: what runs, then the best of what ended, then what waits.
    pub(super) fn urgency(&self) -> (u8, u64, u64) {
        let Some(outcome) = self.outcome() else { return (if self.is_running() { 0 } else { u8::MAX }, 0, 0) };
        let verdict = match outcome.verdict {
            Verdict::Passed if outcome.changes.is_empty() => 3,
            Verdict::Passed if outcome.changes.files == 0 => 2,
            Verdict::Passed => 1,
            Verdict::FailedChecks => 4,
            Verdict::Forbidden(_) => 5,
            Verdict::Failed => 6,
            Verdict::Broken(_) => 7,
            Verdict::Cancelled(_) => 8,
        };
        let failed = self.tests.iter().map(|(_, t)| t.failed).sum();
        (verdict, failed, outcome.changes.added_lines + outcome.changes.deleted_lines)
    }
}
