use std::time::Duration;

use whatif_types::experiment::{Event, Experiment, TestCounts};
use whatif_types::text::Text;

use super::*;
use crate::race::sample::{self, PLAIN};

const SECOND: Duration = Duration::from_secs(1);

/// A race as it is told: each attempt takes two seconds, and one begins each second.
struct Race {
    board: Board,
    start: Instant,
}

impl Race {
    fn began(experiment: &Experiment) -> Self {
        let start = Instant::now();
        let mut fresh = experiment.clone();
        fresh.details.spent_ms = 0;
        fresh.records.iter_mut().for_each(|recorded| recorded.outcome = None);
        let mut board = Board::new(&fresh);
        let names = experiment.attempts().map(|(planned, _)| planned.name.clone()).collect();
        let began = Event::Began { race: experiment.name.clone(), attempts: names, checks: Vec::new(), jobs: 2, resumed: false };
        board.take(&began, start);
        Self { board, start }
    }

    fn with(mut self, event: Event, seconds: u32) -> Self {
        self.board.take(&event, self.start + SECOND * seconds);
        self
    }

    fn begin(self, attempt: &str, seconds: u32) -> Self {
        self.with(Event::AttemptBegan { attempt: attempt.to_owned(), sandbox: "bold-fox".to_owned() }, seconds)
    }

    fn check(self, attempt: &str, check: &str, run: u32, seconds: u32) -> Self {
        self.with(Event::CheckBegan { attempt: attempt.to_owned(), check: check.to_owned(), run }, seconds)
    }

    fn end(mut self, experiment: &Experiment, attempts: &[&str]) -> Self {
        for (at, name) in attempts.iter().enumerate() {
            let (_, recorded) = experiment.attempts().find(|(planned, _)| planned.name == *name).unwrap();
            let outcome = Box::new(recorded.outcome.clone().unwrap());
            let ended = Event::AttemptEnded { attempt: name.to_string(), outcome };
            self = if recorded.outcome.as_ref().unwrap().ended.is_some() { self.begin(name, at as u32) } else { self };
            self = self.with(ended, at as u32 + 2);
        }
        self
    }

    /// Six seconds after it began.
    fn shown(&self, columns: usize, height: usize) -> String {
        let lines = frame(&self.board, self.start + SECOND * 6, columns - 1, height);
        assert!(lines.len() <= height && lines.iter().all(|line| line.width() < columns));
        lines.iter().map(|line| line.render(PLAIN)).collect::<Vec<_>>().join("\n")
    }
}

/// Some ended, one is checked, one runs, one waits.
fn middle() -> Race {
    let attempts = ["good", "bad", "slow", "late", "other", "next", "last"];
    let experiment = sample::with_metric(sample::experiment("fix-add", &attempts));
    let race = Race::began(&experiment).end(&experiment, &attempts[..4]).begin("other", 4).begin("next", 5);
    race.check("other", "test", 2, 5)
}

#[test]
fn eighty_columns() {
    assert_eq!(
        middle().shown(80, 23),
        "\
fix-add · 7 attempts, 2 at a time · 6.0s · 4 done, 1 passed
ATTEMPT  STATE                       TESTS  CHANGE           TIME     req/s
✔ good   passed                        6/6  1 file +1 −1     2.0s  1200 ±20
✘ bad    fails test (exit 1)           5/6  1 file +1        2.0s   950 ±20
✘ slow   timed out                          nothing          2.0s   700 ±20
– late   cancelled: another one won                                 450 ±20
⠋ other  checking test 2/3                                   2.0s
⠋ next   running                                             1.0s
· last   waiting"
    );
}

#[test]
fn two_hundred_columns() {
    assert_eq!(
        middle().shown(200, 23),
        "\
fix-add · 7 attempts, 2 at a time · 6.0s · 4 done, 1 passed
ATTEMPT  STATE                       TESTS  CHANGE           TIME    CPU     MEMORY     req/s  WHAT
✔ good   passed                        6/6  1 file +1 −1     2.0s   1.2s   20.0 MiB  1200 ±20  sh ways/good.sh
✘ bad    fails test (exit 1)           5/6  1 file +1        2.0s   0.9s   20.0 MiB   950 ±20  sh ways/bad.sh
✘ slow   timed out                          nothing          2.0s  2m30s   20.0 MiB   700 ±20  sh ways/slow.sh
– late   cancelled: another one won                                                   450 ±20  sh ways/late.sh
⠋ other  checking test 2/3                                   2.0s                              sh ways/other.sh
⠋ next   running                                             1.0s                              sh ways/next.sh
· last   waiting                                                                               sh ways/last.sh"
    );
}

#[test]
fn forty_columns_have_room_for_what_matters() {
    assert_eq!(
        middle().shown(40, 23),
        "\
fix-add · 6.0s · 4/7 done, 1 passed
ATTEMPT  STATE                     TIME
✔ good   passed                    2.0s
✘ bad    fails test (exit 1)       2.0s
✘ slow   timed out                 2.0s
– late   cancelled: another one…
⠋ other  checking test 2/3         2.0s
⠋ next   running                   1.0s
· last   waiting"
    );
    assert_eq!(
        middle().shown(12, 3),
        "\
fix-add · …
⠋ other  c…
… 1 runnin…"
    );
}

#[test]
fn fifty_attempts_on_a_small_terminal() {
    let names: Vec<String> = (1..=50).map(|n| format!("way-{n}")).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    (names[3], names[10], names[20]) = ("bad", "large", "slow");
    let experiment = sample::experiment("many", &names);
    let race = Race::began(&experiment).end(&experiment, &["bad", "slow", "large", "way-1"]).begin("way-49", 4).begin("way-50", 4);
    assert_eq!(
        race.shown(80, 12),
        "\
many · 50 attempts, 2 at a time · 6.0s · 4 done, 2 passed
ATTEMPT   STATE                TESTS  CHANGE            TIME    CPU     MEMORY
⠋ way-49  running                                       2.0s
⠋ way-50  running                                       2.0s
✔ way-1   passed                 6/6  1 file +1 −1      2.0s   1.2s   20.0 MiB
✔ large   passed                 6/6  3 files +40 −11   2.0s   1.2s   20.0 MiB
✘ bad     fails test (exit 1)    5/6  1 file +1         2.0s   0.9s   20.0 MiB
✘ slow    timed out                   nothing           2.0s  2m30s   20.0 MiB
· way-2   waiting
· way-3   waiting
· way-5   waiting
… 41 waiting"
    );
    let race = race.end(&experiment, &names[..45]);
    assert_eq!(
        race.shown(80, 9),
        "\
many · 50 attempts, 2 at a time · 6.0s · 45 done, 43 passed
ATTEMPT   STATE                TESTS  CHANGE           TIME    CPU     MEMORY
⠋ way-49  running                                      2.0s
⠋ way-50  running                                      2.0s
✔ way-1   passed                 6/6  1 file +1 −1     2.0s   1.2s   20.0 MiB
✔ way-2   passed                 6/6  1 file +1 −1     2.0s   1.2s   20.0 MiB
✔ way-3   passed                 6/6  1 file +1 −1     2.0s   1.2s   20.0 MiB
✔ way-5   passed                 6/6  1 file +1 −1     2.0s   1.2s   20.0 MiB
… 3 waiting, 41 done"
    );
    assert_eq!(
        race.shown(80, 3),
        "\
many · 50 attempts, 2 at a time · 6.0s · 45 done, 43 passed
⠋ way-49  running                               2.0s
… 1 running, 3 waiting, 45 done"
    );
    assert_eq!((race.shown(80, 1).lines().count(), race.shown(80, 0).lines().count()), (1, 0));
}

#[test]
fn every_verdict_has_its_words() {
    let attempts = ["good", "idle", "bad", "flaky", "cheat", "wrong", "slow", "hungry", "walled", "late", "broken"];
    let experiment = sample::experiment("all", &attempts);
    assert_eq!(
        Race::began(&experiment).end(&experiment, &attempts).shown(80, 23),
        "\
all · 11 attempts, 2 at a time · 6.0s · 11 done, 2 passed
ATTEMPT   STATE                                    TESTS  CHANGE           TIME
✔ good    passed                                     6/6  1 file +1 −1     2.0s
– idle    changed nothing                            6/6  nothing          2.0s
✘ bad     fails test (exit 1)                        5/6  1 file +1        2.0s
✘ flaky   fails test (1 of 3 runs)                   5/6  1 file +1 −1     2.0s
✘ cheat   forbidden: tests/add.rs                         1 file +1 −1     2.0s
✘ wrong   failed (exit 127)                               nothing          2.0s
✘ slow    timed out                                       nothing          2.0s
✘ hungry  out of memory                                   nothing          2.0s
✘ walled  denied db.internal:5432                         nothing          2.0s
– late    cancelled: another one won
✘ broken  could not be run: no space left on the…"
    );
}

#[test]
fn before_anything_has_ended() {
    let experiment = sample::experiment("fix-add", &["a", "b"]);
    let race = Race::began(&experiment).with(Event::SetupBegan, 0);
    assert_eq!(
        race.shown(80, 23),
        "\
fix-add · 2 attempts, 2 at a time · 6.0s · setting up
ATTEMPT  STATE                CHANGE           TIME    CPU     MEMORY
· a      waiting
· b      waiting"
    );
    let tests = Some(TestCounts { passed: 3, ..TestCounts::default() });
    let ended = Event::CheckEnded { attempt: "a".into(), check: "test".into(), run: 1, ended: sample::ended(0, 900), tests };
    let race =
        race.with(Event::SetupEnded { ended: sample::ended(0, 900) }, 1).begin("a", 1).check("a", "test", 1, 2).with(ended, 3);
    let moved = Event::RealityMoved { paths: vec![Text::from("src/add.rs")] };
    assert_eq!(
        race.with(moved, 4).shown(80, 23),
        "\
fix-add · 2 attempts, 2 at a time · 6.0s · 0 done
ATTEMPT  STATE                TESTS  CHANGE           TIME    CPU     MEMORY
⠋ a      checking test          3/3                   5.0s   0.5s   20.0 MiB
· b      waiting
reality moved since it began: 1 path changed"
    );
}

#[test]
fn what_ended_before_a_race_was_resumed_is_still_there() {
    let experiment = sample::experiment("fix-add", &["good", "?"]);
    let mut race = Race { board: Board::new(&experiment), start: Instant::now() };
    let names = vec!["good".to_owned(), "?".to_owned()];
    race = race.with(Event::Began { race: "fix-add".into(), attempts: names, checks: Vec::new(), jobs: 2, resumed: true }, 0);
    let race = race.begin("?", 3).with(Event::JudgeBegan { among: Vec::new() }, 4);
    assert_eq!(
        race.shown(80, 23),
        "\
fix-add · 2 attempts, 2 at a time · 10.2s · the judge decides
ATTEMPT  STATE                TESTS  CHANGE           TIME    CPU     MEMORY
✔ good   passed                 6/6  1 file +1 −1     2.4s   1.2s   20.0 MiB
⠹ ?      running                                      3.0s"
    );
}

#[test]
fn names_in_any_script_line_up_and_hostile_ones_do_nothing() {
    let hostile = "\x1b[2J\u{202e}x\n";
    let experiment = sample::experiment("наука", &["日本語", "größer", hostile]);
    let race = Race::began(&experiment).end(&experiment, &["日本語", "größer"]).begin(hostile, 4).check(hostile, "\x07\r", 1, 5);
    assert_eq!(
        race.shown(80, 23),
        "\
наука · 3 attempts, 2 at a time · 6.0s · 2 done, 2 passed
ATTEMPT               STATE                TESTS  CHANGE           TIME    CPU
✔ 日本語              passed                 6/6  1 file +1 −1     2.0s   1.2s
✔ größer              passed                 6/6  1 file +1 −1     2.0s   1.2s
⠋ \\x1b[2J\\u{202e}x\\n  checking \\x07\\r                              2.0s"
    );
    assert!(race.shown(20, 23).chars().all(|c| c == '\n' || !c.is_control()));
}
