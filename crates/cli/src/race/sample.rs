//! Attempts of every kind, for the tests: what came of one depends on its name.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;
use whatif_types::experiment::{
    Attempt, AttemptPlan, AttemptState, Better, ChangedFile, Changes, CheckOutcome, CheckPlan, Ended, Experiment,
    ExperimentDetails, ExperimentPlan, Extract, Kind, Measured, MetricPlan, Outcome, Ranked, Ranking, TestCounts, Verdict,
};
use whatif_types::text::Text;
use whatif_types::{ExperimentId, LimitHit, SandboxId, Usage};

use super::brush::{Brush, Charset, Colours};
use super::{Shown, Standing};

pub const PLAIN: Brush<'static> = Brush { charset: Charset::Unicode, colours: Colours::None };

/// An attempt named `?` has not ended.
pub fn experiment(name: &str, attempts: &[&str]) -> Experiment {
    let planned = |name: &&str| AttemptPlan {
        name: name.to_string(),
        kind: Kind::Command,
        about: format!("sh ways/{name}.sh"),
        arguments: Vec::new(),
        input: None,
        parameters: BTreeMap::new(),
    };
    let recorded = |name: &&str| match *name {
        "?" => Attempt::waiting(),
        name => Attempt {
            state: AttemptState::Ended,
            sandbox: Some(SandboxId::from_random([7; 12])),
            outcome: Some(outcome(name)),
            ..Attempt::waiting()
        },
    };
    let plan = ExperimentPlan {
        attempts: attempts.iter().map(planned).collect(),
        checks: vec![check_plan("test")],
        repeats: 1,
        jobs: Some(2),
        ..ExperimentPlan::default()
    };
    Experiment {
        id: ExperimentId::from_random(*b"experiment12"),
        name: name.to_owned(),
        version: 1,
        created_at: 0,
        project: PathBuf::from("/home/you/project"),
        details: details(plan),
        records: attempts.iter().map(recorded).collect(),
    }
}

/// Through its record: what is not of interest here has a default there.
fn details(plan: ExperimentPlan) -> ExperimentDetails {
    let cwd = "/home/you/project";
    let record = json!({ "plan": plan, "began_at": 0, "ended_at": 4200, "spent_ms": 4200, "cwd": cwd, "sandbox": null });
    serde_json::from_value(record).unwrap()
}

pub fn check_plan(name: &str) -> CheckPlan {
    CheckPlan { name: name.to_owned(), run: "npm test".to_owned(), required: true, timeout: None, report: None }
}

/// With a metric that was measured three times, and that counts.
pub fn with_metric(mut experiment: Experiment) -> Experiment {
    let extract = Extract::Regex("([0-9.]+) req/s".to_owned());
    experiment.details.plan.metrics.push(MetricPlan { name: "req/s".to_owned(), extract, better: Better::Higher, check: None });
    experiment.details.plan.repeats = 3;
    for (at, recorded) in experiment.records.iter_mut().enumerate() {
        let value = 1200.0 - 250.0 * at as f64;
        let measured = Measured { value, low: value - 20.0, high: value + 20.0, runs: 3 };
        if let Some(outcome) = &mut recorded.outcome {
            outcome.metrics.insert("req/s".to_owned(), measured);
        }
    }
    experiment
}

/// In the order of the plan; the engine knows better.
pub fn ranking(experiment: &Experiment) -> Ranking {
    let ended = experiment.attempts().filter(|(_, recorded)| recorded.outcome.is_some());
    let places: Vec<Ranked> = ended
        .enumerate()
        .map(|(at, (planned, _))| Ranked {
            attempt: planned.name.clone(),
            place: at as u32 + 1,
            score: None,
            why: why(&planned.name).to_owned(),
        })
        .collect();
    let wins = |name: &str| matches!(name, "good" | "large" | "日本語");
    let winner = places.first().map(|p| p.attempt.clone()).filter(|name| wins(name));
    let because = match (&winner, places.len()) {
        (Some(name), 1) => format!("'{name}' passes 1 of 1 check, 6 tests, +1 −1 in 1 file"),
        (Some(name), _) if name == "good" => {
            "'good' and 'large' pass; 'good' is the smaller change (2 lines against 42)".to_owned()
        }
        (Some(name), _) => format!("'{name}' passes"),
        (None, all) => format!("none of {all} attempts passes; 'bad' comes closest: fails 'test' (exit code 1)"),
    };
    Ranking { places, winner, because }
}

fn why(name: &str) -> &'static str {
    match name {
        "good" => "passes 1 of 1 check, 6 tests, +1 −1 in 1 file",
        "large" => "behind 'good': larger change (42 lines against 2)",
        "bad" => "fails 'test' (exit code 1)",
        "slow" => "timed out after 5m",
        "late" => "cancelled: another one won",
        _ => "level with the one before; listed later",
    }
}

pub fn shown<'a>(experiment: &'a Experiment, ranking: &'a Ranking) -> Shown<'a> {
    Shown { experiment, ranking, standing: Standing::Ended, is_latest: true }
}

pub fn outcome(name: &str) -> Outcome {
    match name {
        "bad" => Outcome {
            verdict: Verdict::FailedChecks,
            checks: vec![failing("test", 1)],
            changes: changes(&[("src/add.rs", '~', 1, 0, "b")]),
            ..passing()
        },
        "large" => Outcome {
            changes: changes(&[("docs/add.md", '+', 30, 0, "d"), ("src/add.rs", '~', 10, 2, "l"), ("src/old.rs", '-', 0, 9, "")]),
            ..passing()
        },
        "idle" => Outcome { changes: Changes::default(), ended: Some(ended(0, 300)), ..passing() },
        "rude" => Outcome {
            changes: Changes { outside: 2, ignored: 52, ..changes(&[("src/add.rs", '~', 1, 1, "a")]) },
            denied: vec!["blocked.test:80".into(), "other.test:443".into()],
            ..passing()
        },
        "mixed" => Outcome { ended: None, ..passing() },
        "flaky" => {
            let mut check = failing("test", 1);
            check.runs.push(ended(0, 100));
            check.runs.push(ended(0, 100));
            Outcome { verdict: Verdict::FailedChecks, checks: vec![check], ..passing() }
        }
        "slow" => unchecked(Verdict::Failed, Ended { timed_out: true, ..ended(124, 300_000) }),
        "hungry" => unchecked(Verdict::Failed, Ended { limit_hit: Some(LimitHit::Memory), ..ended(137, 800) }),
        "wrong" => unchecked(Verdict::Failed, Ended { tail: "sh: nosuch: not found".into(), ..ended(127, 20) }),
        "walled" => Outcome { denied: vec!["db.internal:5432".into()], ..unchecked(Verdict::Failed, ended(2, 500)) },
        "cheat" => Outcome { verdict: Verdict::Forbidden("tests/add.rs".into()), checks: Vec::new(), ..passing() },
        "late" => Outcome { ended: None, ..unchecked(Verdict::Cancelled("another one won".into()), Ended::default()) },
        "broken" => Outcome { ended: None, ..unchecked(Verdict::Broken("no space left on the disk".into()), Ended::default()) },
        _ => passing(),
    }
}

fn passing() -> Outcome {
    Outcome {
        verdict: Verdict::Passed,
        ended: Some(ended(0, 600)),
        checks: vec![CheckOutcome { name: "test".into(), required: true, runs: vec![ended(0, 1800)], tests: Some(tests(6, 0)) }],
        changes: changes(&[("src/add.rs", '~', 1, 1, "a")]),
        denied: Vec::new(),
        metrics: BTreeMap::new(),
        remarks: Vec::new(),
    }
}

fn unchecked(verdict: Verdict, ended: Ended) -> Outcome {
    Outcome { verdict, ended: Some(ended), checks: Vec::new(), changes: Changes::default(), ..passing() }
}

pub fn failing(check: &str, exit_code: i32) -> CheckOutcome {
    let tail = "running 6 tests\n\x1b[31massertion failed\x1b[0m: add(1, 2) == 3\n  left: -1\n right: 3\ntest result: FAILED. 5 passed; 1 failed\n";
    let run = Ended { tail: tail.into(), ..ended(exit_code, 1300) };
    let tests = TestCounts { failures: vec!["adds".into()], ..tests(5, 1) };
    CheckOutcome { name: check.into(), required: true, runs: vec![run], tests: Some(tests) }
}

pub fn ended(exit_code: i32, wall_ms: u64) -> Ended {
    let usage = Usage { wall_ms, cpu_ms: wall_ms / 2, peak_memory_bytes: 20 << 20, written_bytes: 0 };
    Ended { exit_code, usage, ..Ended::default() }
}

fn tests(passed: u64, failed: u64) -> TestCounts {
    TestCounts { format: "cargo".into(), passed, failed, ..TestCounts::default() }
}

/// Path, mark, lines added, lines deleted, digest.
pub type File<'a> = (&'a str, char, u64, u64, &'a str);

pub fn changes(files: &[File<'_>]) -> Changes {
    let list: Vec<ChangedFile> = files
        .iter()
        .map(|(path, mark, added, deleted, digest)| ChangedFile {
            path: Text::from(*path),
            mark: *mark,
            added_lines: *added,
            deleted_lines: *deleted,
            digest: digest.to_string(),
        })
        .collect();
    Changes {
        files: list.len() as u64,
        added_lines: list.iter().map(|f| f.added_lines).sum(),
        deleted_lines: list.iter().map(|f| f.deleted_lines).sum(),
        list,
        ..Changes::default()
    }
}
