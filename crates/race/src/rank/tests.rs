mod changed;
mod properties;

use std::collections::BTreeMap;

use whatif_types::experiment::{
    AttemptPlan, Better, Changes, CheckOutcome, CheckPlan, Ended, Extract, Kind, Measured, MetricPlan, TestCounts, Verdict,
};
use whatif_types::{LimitHit, Usage};

use super::*;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn plan() -> ExperimentPlan {
    let attempt = |name: &str| AttemptPlan {
        name: name.to_owned(),
        kind: Kind::Command,
        about: String::new(),
        arguments: Vec::new(),
        input: None,
        parameters: BTreeMap::new(),
    };
    let check =
        |name: &str, required| CheckPlan { name: name.to_owned(), run: String::new(), required, timeout: None, report: None };
    ExperimentPlan {
        attempts: NAMES.map(attempt).to_vec(),
        checks: vec![check("test", true), check("lint", false)],
        repeats: 1,
        ..ExperimentPlan::default()
    }
}

fn with_metric(name: &str, better: Better) -> ExperimentPlan {
    let metric = MetricPlan { name: name.to_owned(), extract: Extract::Regex(String::new()), better, check: None };
    ExperimentPlan { metrics: vec![metric], ..plan() }
}

fn ended(exit_code: i32) -> Ended {
    Ended { exit_code, usage: Usage { wall_ms: 300_000, ..Usage::default() }, ..Ended::default() }
}

fn check(name: &str, required: bool, exit_codes: &[i32], tests: Option<(u64, u64)>) -> CheckOutcome {
    let tests = tests.map(|(passed, failed)| TestCounts { format: "cargo".to_owned(), passed, failed, ..TestCounts::default() });
    CheckOutcome { name: name.to_owned(), required, runs: exit_codes.iter().map(|code| ended(*code)).collect(), tests }
}

fn changes(files: u64, added_lines: u64, deleted_lines: u64) -> Changes {
    Changes { files, added_lines, deleted_lines, ..Changes::default() }
}

/// Passes both checks with 12 tests, and changes one line.
fn passed() -> Outcome {
    Outcome {
        verdict: Verdict::Passed,
        ended: Some(ended(0)),
        checks: vec![check("test", true, &[0], Some((12, 0))), check("lint", false, &[0], None)],
        changes: changes(1, 1, 1),
        denied: Vec::new(),
        metrics: BTreeMap::new(),
        remarks: Vec::new(),
    }
}

fn failing(tests: Option<(u64, u64)>) -> Outcome {
    let checks = vec![check("test", true, &[1], tests), check("lint", false, &[0], None)];
    Outcome { verdict: Verdict::FailedChecks, checks, ..passed() }
}

fn not_checked(verdict: Verdict, ended: Option<Ended>) -> Outcome {
    Outcome { verdict, ended, checks: Vec::new(), ..passed() }
}

fn measuring(metric: &str, values: (f64, f64, f64)) -> Outcome {
    let (low, value, high) = values;
    Outcome { metrics: BTreeMap::from([(metric.to_owned(), Measured { value, low, high, runs: 3 })]), ..passed() }
}

fn ranked(plan: &ExperimentPlan, outcomes: &[Outcome], judged: &[Judged]) -> Ranking {
    let all: Vec<_> = outcomes.iter().enumerate().collect();
    rank(plan, &all, judged)
}

/// Name, place and why of each.
fn lines(ranking: &Ranking) -> Vec<String> {
    ranking.places.iter().map(|one| format!("{}. {}: {}", one.place, one.attempt, one.why)).collect()
}

#[track_caller]
fn assert_ranked(plan: &ExperimentPlan, outcomes: &[Outcome], judged: &[Judged], expected: &[&str], because: &str) {
    let ranking = ranked(plan, outcomes, judged);
    assert_eq!(lines(&ranking), expected);
    assert_eq!(ranking.because, because);
}

fn word(among: &[&str], better: Option<&str>, because: &str) -> Judged {
    let among = among.iter().map(|name| (*name).to_owned()).collect();
    Judged { among, better: better.map(str::to_owned), because: because.to_owned() }
}

#[test]
fn who_passes_comes_before_who_does_not() {
    assert_ranked(
        &plan(),
        &[failing(None), passed()],
        &[],
        &["1. b: passes 2 of 2 checks, 12 tests, +1 −1 in 1 file", "2. a: fails 'test' (exit code 1)"],
        "'b' passes and 'a' does not",
    );
    assert_ranked(
        &plan(),
        &[failing(None), passed(), failing(None)],
        &[],
        &[
            "1. b: passes 2 of 2 checks, 12 tests, +1 −1 in 1 file",
            "2. a: fails 'test' (exit code 1)",
            "2. c: fails 'test' (exit code 1); level with 'a', listed later",
        ],
        "'b' is the only one of 3 that passes",
    );
}

#[test]
fn who_was_cancelled_is_not_said_to_fail() {
    let cancelled = || not_checked(Verdict::Cancelled("another one passed".to_owned()), None);
    let table = [
        (vec![passed(), cancelled()], "'a' passes; the other one was cancelled"),
        (vec![passed(), cancelled(), cancelled()], "'a' passes; the 2 others were cancelled"),
        (vec![passed(), failing(None), cancelled()], "'a' is the only one of 2 that passes; one more was cancelled"),
        (vec![passed(), failing(None), cancelled(), cancelled()], "'a' is the only one of 2 that passes; 2 more were cancelled"),
    ];
    for (outcomes, because) in table {
        assert_eq!(ranked(&plan(), &outcomes, &[]).because, because);
    }
}

#[test]
fn each_way_not_to_pass_has_its_place_and_its_words() {
    let timed_out = Ended { timed_out: true, ..ended(-1) };
    let out_of_memory = Ended { limit_hit: Some(LimitHit::Memory), ..ended(137) };
    assert_ranked(
        &plan(),
        &[
            not_checked(Verdict::Broken("no room\non the disk".to_owned()), None),
            not_checked(Verdict::Cancelled("the budget was used up".to_owned()), None),
            not_checked(Verdict::Failed, Some(timed_out)),
            not_checked(Verdict::Forbidden("tests/a.rs".to_owned()), Some(ended(0))),
            failing(None),
        ],
        &[],
        &[
            "1. e: fails 'test' (exit code 1)",
            "2. d: changed what it must not: tests/a.rs",
            "3. c: timed out after 5 m",
            "4. b: cancelled: the budget was used up",
            "5. a: could not be run: no room on the disk",
        ],
        "none of 5 attempts passes; 'e' comes closest: fails 'test' (exit code 1)",
    );
    assert_ranked(
        &plan(),
        &[not_checked(Verdict::Failed, Some(ended(3))), not_checked(Verdict::Failed, Some(out_of_memory))],
        &[],
        &["1. a: its command failed (exit code 3)", "1. b: stopped by the memory limit"],
        "none of 2 attempts passes",
    );
    assert_eq!(ranked(&plan(), &[failing(None)], &[]).because, "'a' does not pass: fails 'test' (exit code 1)");
    assert_eq!(ranked(&plan(), &[], &[]).because, "no attempt has ended");
}

#[test]
fn those_that_fail_checks_are_compared_by_how_far_they_come() {
    let mut more_checks = failing(Some((1, 5)));
    more_checks.checks.push(check("build", true, &[0], None));
    let fewer_passed = failing(Some((6, 2)));
    assert_ranked(
        &plan(),
        &[failing(None), failing(Some((8, 4))), failing(Some((10, 2))), fewer_passed, more_checks],
        &[],
        &[
            "1. e: fails 'test' (exit code 1, 5 of 6 tests fail)",
            "2. c: fails 'test' (exit code 1, 2 of 12 tests fail); behind 'e': fewer checks passed (0 against 1)",
            "3. d: fails 'test' (exit code 1, 2 of 8 tests fail); behind 'c': fewer tests passed (6 against 10)",
            "4. b: fails 'test' (exit code 1, 4 of 12 tests fail); behind 'd': more tests fail (4 against 2)",
            "5. a: fails 'test' (exit code 1); behind 'b': its tests were not counted (those of 'b': 4 failed)",
        ],
        "none of 5 attempts passes; 'e' comes closest: fails 'test' (exit code 1, 5 of 6 tests fail)",
    );
}

#[test]
fn failing_checks_are_named_with_what_happened() {
    let with = |checks: Vec<CheckOutcome>| Outcome { checks, ..failing(None) };
    let flaky = with(vec![check("test", true, &[0, 1, 0], None)]);
    let slow = with(vec![CheckOutcome { runs: vec![Ended { timed_out: true, ..ended(0) }], ..check("test", true, &[0], None) }]);
    let two = with(vec![check("test", true, &[1], None), check("build", true, &[2], None)]);
    let many = with(["x", "y", "z", "w"].map(|name| check(name, true, &[i32::from(name != "w")], None)).to_vec());
    let table = [
        (flaky, "fails 'test' (1 of 3 runs, exit code 1)"),
        (slow, "fails 'test' (timed out after 5 m)"),
        (two, "fails 'test' (exit code 1) and 'build' (exit code 2)"),
        (many, "fails 3 of 4 checks, first 'x' (exit code 1)"),
        (with(Vec::new()), "not every required check was run"),
    ];
    for (outcome, expected) in table {
        assert_eq!(ranked(&plan(), &[outcome], &[]).places[0].why, expected);
    }
}

#[test]
fn optional_checks_count_when_all_required_ones_pass() {
    let mut without_lint = passed();
    without_lint.checks[1] = check("lint", false, &[1], None);
    assert_ranked(
        &plan(),
        &[without_lint.clone(), passed()],
        &[],
        &["1. b: passes 2 of 2 checks, 12 tests, +1 −1 in 1 file", "2. a: behind 'b': fewer optional checks passed (0 against 1)"],
        "'b' and 'a' pass; 'b' passes more optional checks (1 against 0)",
    );
    assert_eq!(ranked(&plan(), &[without_lint], &[]).because, "'a' passes 1 of 2 checks, 12 tests, +1 −1 in 1 file");
}

#[test]
fn the_score_is_relative_to_the_best() {
    let plan = with_metric("speed", Better::Higher);
    let outcomes = [measuring("speed", (30.0, 30.0, 30.0)), measuring("speed", (40.0, 40.0, 40.0)), passed()];
    assert_ranked(
        &plan,
        &outcomes,
        &[],
        &[
            "1. b: passes 2 of 2 checks, 12 tests, +1 −1 in 1 file",
            "2. a: behind 'b': lower score (75.0 against 100.0; speed 30 against 40)",
            "3. c: behind 'a': lower score (0.0 against 75.0; speed none against 30)",
        ],
        "3 attempts pass; 'b' has a higher score than 'a' (100.0 against 75.0; speed 40 against 30)",
    );
    assert_eq!(
        ranked(&plan, &outcomes[..2], &[]).because,
        "'b' and 'a' pass; 'b' has the higher score (100.0 against 75.0; speed 40 against 30)"
    );
    let scores: Vec<_> = ranked(&plan, &outcomes, &[]).places.iter().map(|one| one.score).collect();
    assert_eq!(scores, [Some(100.0), Some(75.0), Some(0.0)]);
    assert_eq!(ranked(&super::tests::plan(), &[passed(), failing(None)], &[]).places[0].score, None, "nothing has a weight");
}

#[test]
fn what_is_within_the_noise_does_not_decide() {
    let plan = with_metric("latency", Better::Lower);
    let noisy = [measuring("latency", (9.0, 12.0, 20.0)), measuring("latency", (8.0, 10.0, 11.0))];
    assert_eq!(lines(&ranked(&plan, &noisy, &[]))[1], "1. b: level with 'a'; listed later");
    let apart = [measuring("latency", (11.5, 12.0, 20.0)), measuring("latency", (8.0, 10.0, 11.0))];
    assert_eq!(lines(&ranked(&plan, &apart, &[]))[1], "2. a: behind 'b': lower score (83.3 against 100.0; latency 12 against 10)");
    let hardly = [measuring("latency", (10.04, 10.04, 10.04)), measuring("latency", (10.0, 10.0, 10.0))];
    assert_eq!(ranked(&plan, &hardly, &[]).places.iter().map(|one| one.place).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn a_metric_that_nobody_has_lowers_no_score_and_is_told() {
    let mut plan = with_metric("heap", Better::Lower);
    let unknown = ranked(&plan, &[passed(), passed()], &[]);
    assert_eq!(unknown.places[0].score, None);
    assert_eq!(
        unknown.because,
        "'a' and 'b' pass and nothing sets them apart; 'a' is listed first; metric 'heap' was found in no output"
    );
    plan.weights.insert("cpu".to_owned(), 1.0);
    let ranking = ranked(&plan, &[measuring("cpu", (2.0, 2.0, 2.0)), measuring("cpu", (1.0, 1.0, 1.0))], &[]);
    assert_eq!(ranking.places.iter().map(|one| one.score).collect::<Vec<_>>(), [Some(100.0), Some(50.0)]);
    plan.metrics.push(MetricPlan { name: "speed".to_owned(), ..plan.metrics[0].clone() });
    let because = ranked(&plan, &[passed()], &[]).because;
    assert!(because.ends_with("; metric 'heap' and 1 other were found in no output"), "{because}");
    let not_run = not_checked(Verdict::Failed, Some(ended(1)));
    assert_eq!(ranked(&plan, &[not_run], &[]).because, "'a' does not pass: its command failed (exit code 1)");
}

#[test]
fn built_in_metrics_count_with_a_weight_only() {
    let outcomes = [measuring("memory", (4e9, 4e9, 4e9)), measuring("memory", (1e9, 1e9, 1e9))];
    assert_eq!(ranked(&plan(), &outcomes, &[]).places[0].attempt, "a");
    let mut weighted = plan();
    weighted.weights.insert("memory".to_owned(), 3.0);
    assert_eq!(
        lines(&ranked(&weighted, &outcomes, &[]))[1],
        "2. a: behind 'b': lower score (25.0 against 100.0; memory 3.7 GiB against 953.7 MiB)"
    );
    weighted.weights.insert("memory".to_owned(), 0.0);
    assert_eq!(ranked(&weighted, &outcomes, &[]).places[0].score, None);
}

#[test]
fn weights_say_how_much_each_metric_counts() {
    let mut plan = with_metric("latency", Better::Lower);
    plan.weights = BTreeMap::from([("latency".to_owned(), 3.0), ("duration".to_owned(), 1.0)]);
    let both = |latency: f64, duration: f64| {
        let mut outcome = measuring("latency", (latency, latency, latency));
        outcome.metrics.insert("duration".to_owned(), Measured { value: duration, low: duration, high: duration, runs: 1 });
        outcome
    };
    let ranking = ranked(&plan, &[both(2.0, 1.0), both(1.0, 2.5)], &[]);
    assert_eq!(ranking.places.iter().map(|one| one.score).collect::<Vec<_>>(), [Some(85.0), Some(62.5)]);
    assert_eq!(ranking.places[1].why, "behind 'b': lower score (62.5 against 85.0; latency 2 against 1)");
}

#[test]
fn nothing_and_less_than_nothing_have_a_score_too() {
    let score = |better, values: [f64; 3]| {
        let plan = with_metric("delta", better);
        let outcomes = values.map(|value| measuring("delta", (value, value, value)));
        let ranking = ranked(&plan, &outcomes, &[]);
        NAMES[..3]
            .iter()
            .map(|name| ranking.places.iter().find(|one| one.attempt == *name).unwrap().score.unwrap().round())
            .collect::<Vec<_>>()
    };
    assert_eq!(score(Better::Lower, [0.0, 5.0, 10.0]), [100.0, 17.0, 9.0]);
    assert_eq!(score(Better::Lower, [-10.0, 0.0, 10.0]), [100.0, 9.0, 5.0]);
    // How far off a third one is says nothing about the others.
    assert_eq!(score(Better::Lower, [0.0, 3.0, 1000.0]), [100.0, 25.0, 0.0]);
    assert_eq!(score(Better::Higher, [0.0, 5.0, 10.0]), [0.0, 50.0, 100.0]);
    assert_eq!(score(Better::Higher, [-10.0, 0.0, 10.0]), [0.0, 0.0, 100.0]);
    assert_eq!(score(Better::Higher, [-4.0, -2.0, -2.0]), [33.0, 100.0, 100.0]);
    assert_eq!(score(Better::Lower, [0.0, 0.0, 0.0]), [100.0, 100.0, 100.0]);
    assert_eq!(score(Better::Lower, [f64::MIN, 0.0, f64::MAX]), [100.0, 0.0, 0.0]);
    assert_eq!(score(Better::Lower, [f64::MIN_POSITIVE, 1.0, f64::MAX])[0], 100.0);
    assert_eq!(score(Better::Lower, [1.0, f64::NAN, f64::INFINITY]), [100.0, 0.0, 0.0]);
}

#[test]
fn more_tests_that_pass_are_better() {
    let mut fewer = passed();
    fewer.checks[0] = check("test", true, &[0], Some((10, 0)));
    assert_ranked(
        &plan(),
        &[fewer, passed()],
        &[],
        &["1. b: passes 2 of 2 checks, 12 tests, +1 −1 in 1 file", "2. a: behind 'b': fewer tests passed (10 against 12)"],
        "'b' and 'a' pass; 'b' passes more tests (12 against 10)",
    );
}

#[test]
fn the_smaller_change_is_better() {
    let larger = Outcome { changes: changes(1, 30, 10), ..passed() };
    assert_ranked(
        &plan(),
        &[larger, passed()],
        &[],
        &["1. b: passes 2 of 2 checks, 12 tests, +1 −1 in 1 file", "2. a: behind 'b': larger change (40 lines against 2)"],
        "'b' and 'a' pass; 'b' is the smaller change (2 lines against 40)",
    );
    let wider = Outcome { changes: changes(2, 1, 1), ..passed() };
    assert_ranked(
        &plan(),
        &[wider, passed()],
        &[],
        &["1. b: passes 2 of 2 checks, 12 tests, +1 −1 in 1 file", "2. a: behind 'b': change in more files (2 against 1)"],
        "'b' and 'a' pass; 'b' changes fewer files (1 against 2)",
    );
}

#[test]
fn of_more_than_two_that_pass_none_is_left_out() {
    let of = |files, lines| Outcome { changes: changes(files, lines, 0), ..passed() };
    let because = |outcomes: &[Outcome]| ranked(&plan(), outcomes, &[]).because;
    assert_eq!(
        because(&[of(1, 7), of(1, 6), of(1, 5), failing(None)]),
        "3 attempts pass; 'c' is a smaller change than 'b' (5 lines against 6)"
    );
    assert_eq!(because(&[of(3, 5), of(2, 5), of(1, 5)]), "3 attempts pass; 'c' changes fewer files than 'b' (1 against 2)");
    let with = |tests, lint| {
        let checks = vec![check("test", true, &[0], Some((tests, 0))), check("lint", false, &[lint], None)];
        Outcome { checks, ..passed() }
    };
    assert_eq!(
        because(&[with(12, 1), with(12, 0), with(12, 1)]),
        "3 attempts pass; 'b' passes more optional checks than 'a' (1 against 0)"
    );
    assert_eq!(
        because(&[with(10, 0), with(11, 0), with(12, 0)]),
        "3 attempts pass; 'c' passes more tests than 'b' (12 against 11)"
    );
    let nothing = || Outcome { changes: Changes::default(), ..passed() };
    assert_eq!(because(&[nothing(), nothing(), passed()]), "3 attempts pass; only 'c' changes something");
}

#[test]
fn those_that_nothing_sets_apart_share_a_place() {
    let worse = Outcome { changes: changes(1, 9, 0), ..passed() };
    assert_ranked(
        &plan(),
        &[worse, passed(), passed()],
        &[],
        &[
            "1. b: passes 2 of 2 checks, 12 tests, +1 −1 in 1 file",
            "1. c: level with 'b'; listed later",
            "3. a: behind 'c': larger change (9 lines against 2)",
        ],
        "3 attempts pass; nothing sets 'b' and 'c' apart; 'b' is listed first",
    );
    let worse = Outcome { changes: changes(1, 9, 0), ..passed() };
    let of_four = ranked(&plan(), &[passed(), passed(), passed(), worse], &[]);
    assert_eq!(of_four.because, "4 attempts pass; nothing sets the first 3 apart; 'a' is listed first");
    let two = ranked(&plan(), &[passed(), passed(), failing(None)], &[]);
    assert_eq!(two.because, "'a' and 'b' pass and nothing sets them apart; 'a' is listed first");
    let three = ranked(&plan(), &[passed(), passed(), passed()], &[word(&["a", "b", "c"], None, "")]);
    assert_eq!(three.because, "3 attempts pass and nothing sets them apart; 'a' is listed first; the judge gave no answer");
}

#[test]
fn the_judge_is_asked_before_the_size_of_the_change_decides() {
    let larger = Outcome { changes: changes(1, 30, 10), ..passed() };
    let outcomes = [passed(), larger, passed(), failing(None)];
    let all: Vec<_> = outcomes.iter().enumerate().collect();
    assert_eq!(level_at_the_top(&plan(), &all, &[]), Some(["a", "b", "c"].map(str::to_owned).to_vec()));

    let said = [word(&["a", "b", "c"], Some("b"), "\n  keeps the old behaviour \nand more")];
    assert_eq!(level_at_the_top(&plan(), &all, &said), None);
    assert_ranked(
        &plan(),
        &outcomes,
        &said,
        &[
            "1. b: passes 2 of 2 checks, 12 tests, +30 −10 in 1 file",
            "2. a: behind 'b': the judge prefers 'b' (keeps the old behaviour)",
            "2. c: level with 'a'; listed later",
            "4. d: fails 'test' (exit code 1)",
        ],
        "3 attempts pass; the judge prefers 'b' (keeps the old behaviour)",
    );

    // What it said about others says nothing about these.
    for other in [word(&["a", "b"], Some("b"), ""), word(&["a", "b", "c"], Some("d"), ""), word(&["c", "b", "a"], Some("b"), "")] {
        assert_eq!(ranked(&plan(), &outcomes, &[other]).winner.as_deref(), Some("a"));
    }
}

#[test]
fn a_judge_without_an_answer_is_not_asked_again() {
    let outcomes = [Outcome { changes: changes(1, 9, 0), ..passed() }, passed()];
    let all: Vec<_> = outcomes.iter().enumerate().collect();
    let silent = [word(&["a", "b"], None, "it timed out")];
    assert_eq!(level_at_the_top(&plan(), &all, &silent), None);
    assert_eq!(
        ranked(&plan(), &outcomes, &silent).because,
        "'b' and 'a' pass; 'b' is the smaller change (2 lines against 9); the judge gave no answer: it timed out"
    );
}

#[test]
fn nobody_is_asked_about_one_or_about_those_that_do_not_pass() {
    for outcomes in [vec![passed(), failing(None)], vec![failing(None), failing(None)], Vec::new()] {
        let all: Vec<_> = outcomes.iter().enumerate().collect();
        assert_eq!(level_at_the_top(&plan(), &all, &[]), None);
    }
}

#[test]
fn who_is_said_to_pass_without_the_checks_to_show_for_it_does_not_win() {
    let none_run = Outcome { checks: Vec::new(), ..passed() };
    let failed = Outcome { verdict: Verdict::Passed, ..failing(None) };
    let ranking = ranked(&plan(), &[none_run, failed], &[]);
    assert_eq!(ranking.winner, None);
}

#[test]
fn without_checks_whoever_succeeds_passes() {
    let plan = ExperimentPlan { checks: Vec::new(), ..plan() };
    let outcome = Outcome { checks: Vec::new(), ..passed() };
    assert_eq!(ranked(&plan, &[outcome], &[]).places[0].why, "succeeds, +1 −1 in 1 file");
}
