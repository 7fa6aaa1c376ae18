//! Judges an attempt: the checks, one after the other, in a fork of its sandbox that is thrown away. What they write is not
//! part of the attempt, and what they do to each other they do to each attempt alike.

use std::collections::BTreeMap;
use std::io::Read as _;

use whatif_keeper::client::ClientError;
use whatif_keeper::protocol::{Access, EntryKind, Failed};
use whatif_race::counts::junit;
use whatif_types::experiment::{AttemptPlan, CheckOutcome, CheckPlan, Ended, Event, MetricPlan, Outcome, TestCounts};
use whatif_types::{NetMode, Span};

use super::attempt::{denied, how_it_ended, never_begun, variables};
use super::measure;
use super::output::{Read, Reader};
use super::run::Racing;
use super::setup::Begin;
use crate::captured::{Heard, Pipes};
use crate::create::{Created, with_a_name};
use crate::exec::{Surroundings, hand_over};
use crate::{CommandSpec, Engine, EngineError};

/// Larger reports are not read.
const LARGEST_REPORT: u64 = 64 << 20;

/// One time that a check was run.
struct Checked {
    ended: Ended,
    tests: Option<TestCounts>,
    metrics: Vec<(String, f64)>,
    missed_network: bool,
}

impl Checked {
    fn not_begun(failed: &Failed) -> Self {
        Self { ended: never_begun(failed), tests: None, metrics: Vec::new(), missed_network: false }
    }
}

impl Engine {
    /// All checks, as often as the plan says. False if it was stopped.
    pub(super) fn run_trials(
        &self,
        racing: &Racing,
        plan: &AttemptPlan,
        begin: &Begin,
        outcome: &mut Outcome,
        tell: &dyn Fn(Event),
    ) -> Result<bool, EngineError> {
        let new_outcome =
            |check: &CheckPlan| CheckOutcome { name: check.name.clone(), required: check.required, runs: Vec::new(), tests: None };
        outcome.checks = racing.plan.checks.iter().map(new_outcome).collect();
        let mut custom: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for run in 1..=racing.plan.repeats {
            let mut created = self.fork_for_checks(racing, begin)?;
            let tried = self.trial_of(racing, plan, &mut created, run, outcome, &mut custom, tell);
            outcome.denied.extend(denied(&self.troubles_since(&created.sandbox, 0)));
            self.discard_here(&created.sandbox, &created.pidfd)?;
            match tried? {
                Flow::Stopped => return Ok(false),
                Flow::Lost => break,
                Flow::GoOn => {}
            }
        }
        outcome.denied.sort();
        outcome.denied.dedup();
        // Those that another one was lost before are not part of the result.
        outcome.checks.retain(|check| !check.runs.is_empty());
        measure::note_trials(outcome, &custom);
        Ok(true)
    }

    fn fork_for_checks(&self, racing: &Racing, begin: &Begin) -> Result<Created, EngineError> {
        let new = begin.fitting(racing.wish.clone());
        let validated = self.validate(&new)?;
        let start = begin.start();
        let created = validated.with_network(|validated| {
            with_a_name(None, |name| self.create_with(name, &new, validated, Vec::new(), None, Some(&start)))
        })?;
        if let Err(error) = self.serve_from_the_start(&created.sandbox, Default::default()) {
            self.discard_here(&created.sandbox, &created.pidfd)?;
            return Err(error);
        }
        Ok(created)
    }

    #[expect(clippy::too_many_arguments, reason = "what is known, what is used, and what is added to")]
    fn trial_of(
        &self,
        racing: &Racing,
        plan: &AttemptPlan,
        created: &mut Created,
        run: u32,
        outcome: &mut Outcome,
        custom: &mut BTreeMap<String, Vec<f64>>,
        tell: &dyn Fn(Event),
    ) -> Result<Flow, EngineError> {
        let mut values: BTreeMap<String, f64> = BTreeMap::new();
        let mut flow = Flow::GoOn;
        for (number, check) in racing.plan.checks.iter().enumerate() {
            tell(Event::CheckBegan { attempt: plan.name.clone(), check: check.name.clone(), run });
            let Some(checked) = self.run_one(racing, plan, created, check, &mut outcome.remarks)? else { return Ok(Flow::Stopped) };
            let Checked { ended, tests, metrics, missed_network } = checked;
            if missed_network {
                note(&mut outcome.remarks, format!("'{}' tried to reach a network and had none", check.name));
            }
            tell(Event::CheckEnded {
                attempt: plan.name.clone(),
                check: check.name.clone(),
                run,
                ended: ended.clone(),
                tests: tests.clone(),
            });
            // The last check that tells a number is the one that counts.
            values.extend(metrics);
            let is_lost = check.required && !ended.is_success() && racing.plan.cancel_losers;
            outcome.checks[number].add(ended, tests);
            if is_lost {
                flow = Flow::Lost;
                break;
            }
        }
        for (name, value) in values {
            custom.entry(name).or_default().push(value);
        }
        Ok(flow)
    }

    /// `None` if it was stopped.
    fn run_one(
        &self,
        racing: &Racing,
        plan: &AttemptPlan,
        created: &mut Created,
        check: &CheckPlan,
        remarks: &mut Vec<String>,
    ) -> Result<Option<Checked>, EngineError> {
        let config = self.context.config_for(&created.sandbox.project)?;
        if let Some(report) = &check.report {
            empty_report(created, report)?;
        }
        let sandbox = &created.sandbox;
        let pipes = Pipes::new(None, Heard::Both)?;
        let timeout = check.timeout.or(sandbox.details.limits.timeout).map(Span::duration);
        let spec = CommandSpec {
            arguments: vec!["/bin/sh".into(), "-c".into(), check.run.clone().into()],
            env: [racing.wish.env.clone(), variables(racing, plan)].concat(),
            cwd: None,
            stdio: pipes.stdio(),
            terminal: None,
            timeout,
        };
        let request = self.request(&config, Surroundings::of(sandbox, &sandbox.details.cwd), &spec, false);
        hand_over(sandbox.details.identity, &pipes.descriptors());
        match created.client.exec(request, &pipes.descriptors()) {
            // The attempt took away what it needs.
            Err(ClientError::Failed(failed)) => return Ok(Some(Checked::not_begun(&failed))),
            other => _ = other?,
        }
        let is_its = |metric: &&MetricPlan| metric.check.as_ref().is_none_or(|name| *name == check.name);
        let mut reader = Reader::new(racing.plan.metrics.iter().filter(is_its));
        let stop = Some(racing.stop.as_fd());
        let exited = self.watch(sandbox, &mut created.client, pipes, stop, &mut |piece| reader.feed(piece))?;
        let Some(exited) = exited else { return Ok(None) };
        let (tail, Read { mut tests, metrics }) = reader.finish();
        if let Some(report) = &check.report {
            match read_report(created, report) {
                Ok(counts) => tests = Some(counts),
                Err(why) => note(remarks, format!("the report {report} of '{}' cannot be read: {why}", check.name)),
            }
        }
        let missed_network = exited.missed_network && created.sandbox.details.net == NetMode::None;
        Ok(Some(Checked { ended: how_it_ended(&exited, &tail), tests, metrics, missed_network }))
    }
}

/// What a trial means for the next one.
enum Flow {
    GoOn,
    /// It fails, and that is enough to know.
    Lost,
    Stopped,
}

/// One that was there before is not the check's.
fn empty_report(created: &mut Created, report: &str) -> Result<(), EngineError> {
    let path = created.sandbox.details.cwd.join(report);
    if created.client.examine(&path)?.is_some_and(|entry| entry.kind == EntryKind::File) {
        created.client.open(&path, Access::Replace { mode: 0o644 })?;
    }
    Ok(())
}

fn read_report(created: &mut Created, report: &str) -> Result<TestCounts, String> {
    let path = created.sandbox.details.cwd.join(report);
    let (file, _) = created.client.open(&path, Access::Read).map_err(|e| e.to_string())?;
    let mut xml = Vec::new();
    file.take(LARGEST_REPORT).read_to_end(&mut xml).map_err(|e| e.to_string())?;
    junit::count(&xml).map_err(|e| e.to_string())
}

fn note(remarks: &mut Vec<String>, remark: String) {
    if !remarks.contains(&remark) {
        remarks.push(remark);
    }
}
