use whatif_types::experiment::{Attempt, AttemptState, Changes, CheckOutcome, Experiment, Ranking, Verdict};

use super::*;
use crate::race::sample::{self, PLAIN};

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| line.render(PLAIN)).collect::<Vec<_>>().join("\n")
}

fn report_of(experiment: &Experiment, ranking: &Ranking, room: usize) -> String {
    text(&lines(sample::shown(experiment, ranking), Detail::Short, room))
}

/// Ranked in the order given.
fn reported(experiment: &Experiment, room: usize) -> String {
    report_of(experiment, &sample::ranking(experiment), room)
}

#[test]
fn eighty_columns() {
    assert_eq!(
        reported(&sample::experiment("fix-add", &["good", "large", "bad"]), 80),
        "\
good wins: 'good' and 'large' pass; 'good' is the smaller change (2 lines
  against 42)

#  ATTEMPT  RESULT                 TESTS  CHANGE           TIME   CPU    MEMORY
1  good     ✔ passed                 6/6  1 file +1 −1     2.4s  1.2s  20.0 MiB
2  large    ✔ passed                 6/6  3 files +40 −11  2.4s  1.2s  20.0 MiB
3  bad      ✘ fails test (exit 1)    5/6  1 file +1        1.9s  0.9s  20.0 MiB

why
  good   passes 1 of 1 check, 6 tests, +1 −1 in 1 file
  large  behind 'good': larger change (42 lines against 2)
  bad    fails 'test' (exit code 1)

bad fails test (exit 1)
  failing: adds
  │ running 6 tests
  │ assertion failed: add(1, 2) == 3
  │   left: -1
  │  right: 3
  │ test result: FAILED. 5 passed; 1 failed

FILE         good   large    bad
docs/add.md  ·      new +30  ·
src/add.rs   +1 −1  +10 −2   +1
src/old.rs   ·      gone −9  ·"
    );
}

#[test]
fn two_hundred_columns() {
    let mut experiment = sample::with_metric(sample::experiment("fix-add", &["good", "large", "bad", "walled"]));
    experiment.details.plan.checks.push(sample::check_plan("lint"));
    for recorded in &mut experiment.records[..3] {
        let lint = CheckOutcome { name: "lint".into(), required: false, runs: vec![sample::ended(0, 150)], tests: None };
        recorded.outcome.as_mut().unwrap().checks.push(lint);
    }
    experiment.records[1].outcome.as_mut().unwrap().checks[1].runs[0].exit_code = 2;
    let mut ranking = sample::ranking(&experiment);
    (ranking.places[0].score, ranking.places[1].score) = (Some(100.0), Some(79.17));
    assert_eq!(
        report_of(&experiment, &ranking, 200),
        "\
good wins: 'good' and 'large' pass; 'good' is the smaller change (2 lines against 42)

#  ATTEMPT  RESULT                     test  lint  TESTS  CHANGE           SCORE     req/s  TIME   CPU    MEMORY  WHAT
1  good     ✔ passed                   ✔     ✔       6/6  1 file +1 −1     100.0  1200 ±20  2.5s  1.3s  20.0 MiB  sh ways/good.sh
2  large    ✔ passed                   ✔     ✘       6/6  3 files +40 −11   79.2   950 ±20  2.5s  1.3s  20.0 MiB  sh ways/large.sh
3  bad      ✘ fails test (exit 1)      ✘     ✔       5/6  1 file +1                700 ±20  2.0s  1.0s  20.0 MiB  sh ways/bad.sh
4  walled   ✘ denied db.internal:5432  ·     ·            nothing                  450 ±20  0.5s  0.2s  20.0 MiB  sh ways/walled.sh

why
  good    passes 1 of 1 check, 6 tests, +1 −1 in 1 file
  large   behind 'good': larger change (42 lines against 2)
  bad     fails 'test' (exit code 1)
  walled  level with the one before; listed later

bad fails test (exit 1)
  failing: adds
  │ running 6 tests
  │ assertion failed: add(1, 2) == 3
  │   left: -1
  │  right: 3
  │ test result: FAILED. 5 passed; 1 failed

! walled: denied db.internal:5432
  to allow: --net allow=db.internal:5432

FILE         good   large    bad
docs/add.md  ·      new +30  ·
src/add.rs   +1 −1  +10 −2   +1
src/old.rs   ·      gone −9  ·"
    );
    assert_eq!(
        text(&places::table(sample::shown(&experiment, &ranking), Extent::Full, 80)),
        "\
#  ATTEMPT  RESULT                     TESTS  CHANGE           SCORE     req/s
1  good     ✔ passed                     6/6  1 file +1 −1     100.0  1200 ±20
2  large    ✔ passed                     6/6  3 files +40 −11   79.2   950 ±20
3  bad      ✘ fails test (exit 1)        5/6  1 file +1                700 ±20
4  walled   ✘ denied db.internal:5432         nothing                  450 ±20"
    );
}

#[test]
fn nobody_passes() {
    assert_eq!(
        reported(&sample::experiment("fix-add", &["bad", "slow", "late"]), 80),
        "\
none of 3 attempts passes; 'bad' comes closest: fails 'test' (exit code 1)

#  ATTEMPT  RESULT                        TESTS  CHANGE      TIME    CPU
1  bad      ✘ fails test (exit 1)           5/6  1 file +1   1.9s   0.9s
2  slow     ✘ timed out                          nothing    5m00s  2m30s
3  late     – cancelled: another one won

why
  bad   fails 'test' (exit code 1)
  slow  timed out after 5m
  late  cancelled: another one won

bad fails test (exit 1)
  failing: adds
  │ running 6 tests
  │ assertion failed: add(1, 2) == 3
  │   left: -1
  │  right: 3
  │ test result: FAILED. 5 passed; 1 failed

FILE        bad
src/add.rs  +1"
    );
}

#[test]
fn a_race_that_was_interrupted() {
    let mut experiment = sample::experiment("fix-add", &["good", "?", "bad"]);
    experiment.records[2] = Attempt { state: AttemptState::Running, ..experiment.records[1].clone() };
    let ranking = sample::ranking(&experiment);
    let race = Shown { standing: Standing::Interrupted, ..sample::shown(&experiment, &ranking) };
    assert_eq!(
        text(&lines(race, Detail::Short, 80)),
        "\
good leads (interrupted, 1 of 3 done): 'good' passes 1 of 1 check, 6 tests, +1
  −1 in 1 file

#  ATTEMPT  RESULT         TESTS  CHANGE        TIME   CPU    MEMORY
1  good     ✔ passed         6/6  1 file +1 −1  2.4s  1.2s  20.0 MiB
   ?        · not begun
   bad      · interrupted

why
  good  passes 1 of 1 check, 6 tests, +1 −1 in 1 file

FILE        good
src/add.rs  +1 −1"
    );
    assert_eq!(
        text(&next::lines(race, Detail::Short, 80)),
        "  go on: whatif race resume   keep good: whatif race apply best
  look: whatif race diff good   all of it: whatif race show"
    );
}

#[test]
fn nothing_has_ended_yet() {
    let experiment = sample::experiment("fix-add", &["?"]);
    let ranking = Ranking { because: "no attempt has ended".into(), ..Ranking::default() };
    let race = Shown { standing: Standing::Running, ..sample::shown(&experiment, &ranking) };
    assert_eq!(
        text(&lines(race, Detail::Full, 80)),
        "\
running, 0 of 1 done: no attempt has ended

ATTEMPT  RESULT     WHAT
?        · waiting  sh ways/?.sh"
    );
    assert!(next::lines(race, Detail::Full, 80).is_empty());
}

#[test]
fn of_many_attempts_only_what_one_reads_at_once() {
    let names: Vec<String> = (1..=48).map(|n| format!("way-{n}")).collect();
    let names: Vec<&str> = ["good", "large"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let experiment = sample::experiment("many", &names);
    let short = reported(&experiment, 80);
    assert_eq!(short.lines().count(), 50, "{short}");
    assert_eq!(
        short.lines().skip(30).collect::<Vec<_>>().join("\n"),
        "\
27  way-25   ✔ passed    6/6  1 file +1 −1     2.4s  1.2s  20.0 MiB
28  way-26   ✔ passed    6/6  1 file +1 −1     2.4s  1.2s  20.0 MiB
29  way-27   ✔ passed    6/6  1 file +1 −1     2.4s  1.2s  20.0 MiB
30  way-28   ✔ passed    6/6  1 file +1 −1     2.4s  1.2s  20.0 MiB
  … and 20 more: whatif race show

why
  good   passes 1 of 1 check, 6 tests, +1 −1 in 1 file
  large  behind 'good': larger change (42 lines against 2)
  way-1  level with the one before; listed later
  way-2  level with the one before; listed later
  way-3  level with the one before; listed later
  way-4  level with the one before; listed later
  way-5  level with the one before; listed later
  way-6  level with the one before; listed later
  way-7  level with the one before; listed later
  way-8  level with the one before; listed later
  … and 40 more: whatif race show

which files each attempt changed: whatif race show"
    );
    let ranking = sample::ranking(&experiment);
    let full = lines(sample::shown(&experiment, &ranking), Detail::Full, 80);
    assert!(full.len() > 100 && full.iter().all(|line| line.width() <= 80));
}

/// Each in its own way, so that nothing is put together. This takes minutes where every attempt is compared with all others.
#[test]
fn a_thousand_attempts() {
    let names: Vec<String> = (1..=1000).map(|n| format!("way-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut experiment = sample::experiment("many", &names);
    for (at, recorded) in experiment.records.iter_mut().enumerate() {
        let mut outcome = sample::outcome(if at < 500 { "large" } else { "bad" });
        outcome.checks[0].runs[0].tail.push_str(&format!("{at} is too much"));
        outcome.changes.list.iter_mut().for_each(|file| file.digest = format!("{} {at}", file.digest));
        outcome.remarks.push(format!("took {at} steps"));
        recorded.outcome = Some(outcome);
    }
    let ranking = sample::ranking(&experiment);
    let full = text(&lines(sample::shown(&experiment, &ranking), Detail::Full, 80));
    for part in ["1000  way-1000", "  │ 999 is too much", "! way-1000: took 999 steps", "of the best 9 of 1000"] {
        assert!(full.contains(part), "{part}");
    }
}

#[test]
fn the_same_failure_is_shown_once_and_only_its_end() {
    let mut experiment = sample::experiment("fix-add", &["bad", "worse", "wrong"]);
    let tail: String = (1..=40).map(|n| format!("line {n}\n")).collect();
    let mut outcome = sample::outcome("bad");
    outcome.checks[0].runs[0].tail = format!("{tail}\n\n");
    (experiment.records[0].outcome, experiment.records[1].outcome) = (Some(outcome.clone()), Some(outcome));
    let ranking = sample::ranking(&experiment);
    assert_eq!(
        text(&failures::failed(sample::shown(&experiment, &ranking), Extent::Full, 80)),
        "\
bad, worse fail test (exit 1)
  failing: adds
  │ line 31
  │ line 32
  │ line 33
  │ line 34
  │ line 35
  │ line 36
  │ line 37
  │ line 38
  │ line 39
  │ line 40

wrong failed (exit 127)
  │ sh: nosuch: not found"
    );
}

#[test]
fn the_counts_of_a_test_report_are_not_repeated() {
    let mut experiment = sample::experiment("fix-add", &["bad", "worse"]);
    for (recorded, time) in experiment.records.iter_mut().zip(["12.5", "13"]) {
        let mut outcome = sample::outcome("bad");
        outcome.checks[0].tests = None;
        outcome.checks[0].runs[0].tail =
            format!("not ok 1 - adds\n# why not\n1..1\n# tests 1\n# pass 0\n# fail 1\n# duration_ms {time}\n");
        recorded.outcome = Some(outcome);
    }
    let ranking = sample::ranking(&experiment);
    let shown = text(&failures::failed(sample::shown(&experiment, &ranking), Extent::Full, 80));
    assert_eq!(
        shown,
        "\
bad, worse fail test (exit 1)
  │ not ok 1 - adds
  │ # why not
  │ 1..1"
    );
}

#[test]
fn a_metric_that_nobody_prints_is_told() {
    let mut experiment = sample::with_metric(sample::experiment("fix-add", &["good", "wrong"]));
    let remarks = |experiment: &Experiment| text(&failures::remarks(sample::shown(experiment, &sample::ranking(experiment)), 80));
    assert_eq!(remarks(&experiment), "");
    experiment.records.iter_mut().for_each(|recorded| recorded.outcome.as_mut().unwrap().metrics.clear());
    assert_eq!(remarks(&experiment), "! metric 'req/s' was found in no output");
}

#[test]
fn remarks_and_hosts_that_were_denied() {
    let mut experiment = sample::experiment("fix-add", &["walled", "a", "b"]);
    let remark = "left a process running, which was ended".to_owned();
    for at in [1, 2] {
        experiment.records[at].outcome.as_mut().unwrap().remarks.push(remark.clone());
    }
    experiment.records[2].outcome.as_mut().unwrap().denied = vec!["x;rm -rf ~:80".into(), "[::1]\x1b:80".into()];
    let ranking = sample::ranking(&experiment);
    assert_eq!(
        text(&failures::remarks(sample::shown(&experiment, &ranking), 80)),
        "\
! walled: denied db.internal:5432
  to allow: --net allow=db.internal:5432
! a, b: left a process running, which was ended
! b: denied x;rm -rf ~:80, [::1]\\x1b:80"
    );
}

#[test]
fn names_in_any_script_line_up_and_hostile_ones_do_nothing() {
    let hostile = "\x1b]0;x\x07\u{202e}'$(id)";
    let mut experiment = sample::experiment("fix-add", &["日本語", hostile, "größer"]);
    let outcome = experiment.records[1].outcome.as_mut().unwrap();
    (outcome.remarks, outcome.verdict) = (vec!["\x1b[2J".into()], Verdict::Broken("\u{9b}1m\nx".into()));
    outcome.changes = sample::changes(&[("a\x1b[31m\nb", '~', 1, 0, "h")]);
    let ranking = sample::ranking(&experiment);
    let shown = report_of(&experiment, &ranking, 80);
    assert_eq!(
        shown,
        "\
日本語 wins: '日本語' passes

#  ATTEMPT            RESULT                           TESTS  CHANGE        TIME
1  日本語             ✔ passed                           6/6  1 file +1 −1  2.4s
2  \\x1b]0;x\\x07\\u{2…  ✘ could not be run: \\u{9b}1m\\nx    6/6  1 file +1     2.4s
3  größer             ✔ passed                           6/6  1 file +1 −1  2.4s

why
  日本語                level with the one before; listed later
  \\x1b]0;x\\x07\\u{202e…  level with the one before; listed later
  größer                level with the one before; listed later

! \\x1b]0;x\\x07\\u{202e}'$(id): \\x1b[2J

FILE          日本語  \\x1b]0;x\\x07\\u{202e}'$(id)  größer
a\\x1b[31m\\nb  ·       +1                          ·
src/add.rs    +1 −1   ·                           = 日本語"
    );
    let next = text(&next::lines(Shown { is_latest: false, ..sample::shown(&experiment, &ranking) }, Detail::Full, 80));
    assert_eq!(
        next,
        "  keep 日本語: whatif race apply best --race fix-add
  compare: whatif race diff 日本語 größer --race fix-add"
    );
}

#[test]
fn one_that_was_put_together_from_others_has_no_command_but_a_change() {
    let experiment = sample::experiment("fix-add", &["mixed"]);
    let ranking = sample::ranking(&experiment);
    assert_eq!(
        text(&places::table(sample::shown(&experiment, &ranking), Extent::Full, 80)),
        "\
#  ATTEMPT  RESULT    TESTS  CHANGE        TIME   CPU    MEMORY
1  mixed    ✔ passed    6/6  1 file +1 −1  1.8s  0.9s  20.0 MiB"
    );
}

#[test]
fn nothing_is_proposed_that_needs_a_sandbox_that_is_gone() {
    let mut experiment = sample::experiment("fix-add", &["good", "large"]);
    experiment.records.iter_mut().for_each(|recorded| recorded.sandbox = None);
    experiment.details.applied.push("good".to_owned());
    let ranking = sample::ranking(&experiment);
    let race = sample::shown(&experiment, &ranking);
    assert_eq!(text(&next::lines(race, Detail::Full, 80)), "");
    assert_eq!(
        text(&sentence(race, 100)),
        "\
good wins: 'good' and 'large' pass; 'good' is the smaller change (2 lines against 42)
applied: good"
    );
}

#[test]
fn what_was_applied_is_not_proposed_again_and_the_others_still_are() {
    let mut experiment = sample::experiment("fix-add", &["good", "large", "bad"]);
    experiment.details.applied.push("good".to_owned());
    let ranking = sample::ranking(&experiment);
    let next = |experiment: &Experiment| text(&next::lines(sample::shown(experiment, &ranking), Detail::Full, 80));
    assert_eq!(next(&experiment), "  compare: whatif race diff large bad");
    experiment.records[1].sandbox = None;
    experiment.records[2].sandbox = None;
    assert_eq!(next(&experiment), "", "what is left of it lies outside the project");
    experiment = sample::experiment("fix-add", &["good", "large", "bad"]);
    experiment.details.applied.push("bad".to_owned());
    assert_eq!(next(&experiment), "  keep good: whatif race apply best   compare: whatif race diff good large");
}

#[test]
fn a_winner_that_changed_nothing_in_the_project_is_applied_with_what_it_changed() {
    let steps = |outside, ignored, is_latest| {
        let mut experiment = sample::experiment("fix-add", &["good"]);
        experiment.records[0].outcome.as_mut().unwrap().changes = Changes { outside, ignored, ..Changes::default() };
        let ranking = sample::ranking(&experiment);
        text(&next::lines(Shown { is_latest, ..sample::shown(&experiment, &ranking) }, Detail::Full, 80))
    };
    assert_eq!(steps(2, 0, true), "  keep good: whatif race apply best --outside");
    assert_eq!(steps(0, 1, true), "  keep good: whatif race apply best --ignored");
    assert_eq!(steps(2, 1, false), "  keep good: whatif race apply best --outside --ignored --race fix-add");
}

#[test]
fn eighty_columns_have_room_for_what_was_changed_elsewhere_and_denied() {
    let experiment = sample::experiment("fix-add", &["good", "rude", "large"]);
    let table = |room| {
        let ranking = sample::ranking(&experiment);
        text(&places::table(sample::shown(&experiment, &ranking), Extent::Full, room))
    };
    assert_eq!(
        table(80),
        "\
#  ATTEMPT  RESULT                       TESTS  CHANGE                      TIME
1  good     ✔ passed                       6/6  1 file +1 −1                2.4s
2  rude     ✔ passed, denied blocked.t…    6/6  1 file +1 −1, 54 elsewhere  2.4s
3  large    ✔ passed                       6/6  3 files +40 −11             2.4s"
    );
    assert_eq!(
        table(120),
        "\
#  ATTEMPT  RESULT                               TESTS  CHANGE                      TIME   CPU    MEMORY
1  good     ✔ passed                               6/6  1 file +1 −1                2.4s  1.2s  20.0 MiB
2  rude     ✔ passed, denied blocked.test:80 +1    6/6  1 file +1 −1, 54 elsewhere  2.4s  1.2s  20.0 MiB
3  large    ✔ passed                               6/6  3 files +40 −11             2.4s  1.2s  20.0 MiB"
    );
}

#[test]
fn next_steps() {
    let steps = |attempts: &[&str], room| {
        let experiment = sample::experiment("fix-add", attempts);
        let ranking = sample::ranking(&experiment);
        text(&next::lines(sample::shown(&experiment, &ranking), Detail::Short, room))
    };
    assert_eq!(
        steps(&["good", "large"], 120),
        "  keep good: whatif race apply best   compare: whatif race diff good large   all of it: whatif race show"
    );
    assert_eq!(
        steps(&["good", "large"], 80),
        "  keep good: whatif race apply best   compare: whatif race diff good large
  all of it: whatif race show"
    );
    assert_eq!(
        steps(&["bad", "slow"], 120),
        "  look: whatif race diff bad   again: whatif race rerun   all of it: whatif race show"
    );
}
