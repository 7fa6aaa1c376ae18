//! Judges an attempt: the checks, one after the other, in a fork of its sandbox that is thrown away. What they write is not
//! part of the attempt, and what they do to each other they do to each attempt alike.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;

use whatif_keeper::client::ClientError;
use whatif_keeper::protocol::{Access, Failed};
use whatif_race::counts::junit;
use whatif_sys::clock;
use whatif_types::experiment::{AttemptPlan, CheckOutcome, CheckPlan, Ended, Event, MetricPlan, Outcome, TestCounts};
use whatif_types::{NetMode, Span};

use super::attempt::denied;
use super::command::{how_it_ended, never_begun, variables};
use super::measure;
use super::output::{Read, Reader};
use super::run::Racing;
use super::setup::Begin;
use crate::EngineError;
use crate::lifecycle::captured::{Heard, Pipes};
use crate::lifecycle::create::{Created, Making, with_a_name};
use crate::lifecycle::exec::{CommandSpec, Surroundings, hand_over};
use crate::network::Published;
use crate::races::Races;

/// One more than what is read of it, so that it shows.
const LARGEST_REPORT: u64 = (64 << 20) + 1;

/// One time that a check was run.
struct Checked {
    ended: Ended,
    tests: Option<TestCounts>,
    metrics: Vec<(String, f64)>,
}

impl Checked {
    fn not_begun(failed: &Failed) -> Self {
        Self { ended: never_begun(failed), tests: None, metrics: Vec::new() }
    }
}

/// Everything it takes to judge one attempt.
struct Judging<'a> {
    races: &'a Races,
    racing: &'a Racing,
    plan: &'a AttemptPlan,
    outcome: &'a mut Outcome,
    /// Custom numbers, one of each trial that told them.
    custom: BTreeMap<String, Vec<f64>>,
    tell: &'a dyn Fn(Event),
}

impl Races {
    /// All checks, as often as the plan says. False if it was stopped.
    pub(super) fn run_trials(
        &self,
        racing: &Racing,
        plan: &AttemptPlan,
        begin: &Begin,
        outcome: &mut Outcome,
        tell: &dyn Fn(Event),
    ) -> Result<bool, EngineError> {
        Judging { races: self, racing, plan, outcome, custom: BTreeMap::new(), tell }.run(begin)
    }

    fn fork_for_checks(&self, racing: &Racing, begin: &Begin) -> Result<Created, EngineError> {
        let new = begin.fitting(racing.wish.clone());
        let validated = self.lifecycle.validate(&new)?;
        let start = begin.start();
        let created = validated.with_network(|validated| {
            with_a_name(None, |name| {
                self.lifecycle.create_with(name, &new, validated, &Making { start: Some(&start), ..Making::default() })
            })
        })?;
        if let Err(error) = self.network.serve_from_the_start(&created.sandbox, Published::default()) {
            self.lifecycle.discard_here(&created.sandbox, &*created.instance)?;
            return Err(error);
        }
        Ok(created)
    }
}

impl Judging<'_> {
    fn run(mut self, begin: &Begin) -> Result<bool, EngineError> {
        let checks = &self.racing.plan.checks;
        self.outcome.checks = checks.iter().map(|check| CheckOutcome::new(&check.name, check.required)).collect();
        for run in 1..=self.racing.plan.repeats {
            let mut created = self.races.fork_for_checks(self.racing, begin)?;
            let tried = self.trial(&mut created, run);
            self.outcome.denied.extend(denied(&self.races.network.troubles_since(&created.sandbox, 0)));
            self.races.lifecycle.discard_here(&created.sandbox, &*created.instance)?;
            match tried? {
                Next::Stopped => return Ok(false),
                Next::Lost => break,
                Next::GoOn => {}
            }
        }
        self.outcome.denied.sort();
        self.outcome.denied.dedup();
        // Those that were not reached are not part of the result.
        self.outcome.checks.retain(|check| !check.runs.is_empty());
        measure::note_trials(self.outcome, &self.custom);
        Ok(true)
    }

    /// All checks, once.
    fn trial(&mut self, created: &mut Created, run: u32) -> Result<Next, EngineError> {
        let mut values: BTreeMap<String, f64> = BTreeMap::new();
        let mut flow = Next::GoOn;
        for (number, check) in self.racing.plan.checks.iter().enumerate() {
            let (attempt, name) = (self.plan.name.clone(), check.name.clone());
            (self.tell)(Event::CheckBegan { attempt: attempt.clone(), check: name.clone(), run });
            let Some(checked) = self.check(created, check)? else { return Ok(Next::Stopped) };
            let Checked { ended, tests, metrics } = checked;
            (self.tell)(Event::CheckEnded { attempt, check: name, run, ended: ended.clone(), tests: tests.clone() });
            // The last check that tells a number is the one that counts.
            values.extend(metrics);
            let is_lost = check.required && !ended.is_success() && self.racing.plan.cancel_losers;
            self.outcome.checks[number].add(ended, tests);
            if is_lost {
                flow = Next::Lost;
                break;
            }
        }
        for (name, value) in values {
            self.custom.entry(name).or_default().push(value);
        }
        Ok(flow)
    }

    /// `None` if it was stopped.
    fn check(&mut self, created: &mut Created, check: &CheckPlan) -> Result<Option<Checked>, EngineError> {
        let began = clock::ticks();
        let (races, racing, sandbox) = (self.races, self.racing, &created.sandbox);
        let config = races.ground.caller.config_for(&sandbox.project)?;
        let pipes = Pipes::new(None, Heard::Both)?;
        let spec = CommandSpec {
            arguments: vec!["/bin/sh".into(), "-c".into(), check.run.clone().into()],
            env: [racing.wish.env.clone(), variables(racing, self.plan)].concat(),
            cwd: None,
            stdio: pipes.stdio(),
            terminal: None,
            timeout: check.timeout.or(sandbox.details.limits.timeout).map(Span::duration),
            called: None,
        };
        let request = races.lifecycle.request(&config, Surroundings::of(sandbox, &sandbox.details.cwd), &spec, false);
        hand_over(sandbox.details.identity, &pipes.descriptors());
        match created.client.exec(request, &pipes.descriptors()) {
            // The attempt took away what it needs.
            Err(ClientError::Failed(failed)) => return Ok(Some(Checked::not_begun(&failed))),
            other => _ = other?,
        }
        let is_its = |metric: &&MetricPlan| metric.check.as_ref().is_none_or(|name| *name == check.name);
        let mut reader = Reader::new(racing.plan.metrics.iter().filter(is_its));
        let stop = Some(racing.stop.as_fd());
        let exited = races.lifecycle.watch(sandbox, &mut created.client, pipes, stop, &mut |piece| reader.feed(piece))?;
        let Some(exited) = exited else { return Ok(None) };
        let (tail, Read { mut tests, metrics }) = reader.finish();
        if exited.missed_network && sandbox.details.net == NetMode::None {
            self.remark(format!("'{}' tried to reach a network and had none", check.name));
        }
        if let Some(report) = &check.report {
            match read_report(created, report, began) {
                Ok(counts) => tests = Some(counts),
                Err(why) => self.remark(format!("the report {report} of '{}' cannot be read: {why}", check.name)),
            }
        }
        Ok(Some(Checked { ended: how_it_ended(&exited, &tail), tests, metrics }))
    }

    /// Once, however often it is so.
    fn remark(&mut self, remark: String) {
        if !self.outcome.remarks.contains(&remark) {
            self.outcome.remarks.push(remark);
        }
    }
}

/// What a trial means for the next one.
enum Next {
    GoOn,
    /// It fails, and that is enough to know.
    Lost,
    Stopped,
}

fn read_report(created: &mut Created, report: &str, began: (i64, u32)) -> Result<TestCounts, String> {
    let path = created.sandbox.details.cwd.join(report);
    let (file, _) = created.client.open(&path, Access::Read).map_err(|e| e.to_string())?;
    let metadata = file.metadata().map_err(|e| e.to_string())?;
    // One that the attempt brought along is not the check's; this time cannot be set by anybody.
    if (metadata.ctime(), metadata.ctime_nsec() as u32) < began {
        return Err("it was there before the check began".to_owned());
    }
    let mut xml = Vec::new();
    file.take(LARGEST_REPORT).read_to_end(&mut xml).map_err(|e| e.to_string())?;
    junit::count(&xml).map_err(|e| e.to_string())
}
