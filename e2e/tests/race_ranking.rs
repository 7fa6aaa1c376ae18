//! Who wins a race, and why: figures that checks print, repetition, and a judge who is asked about those that are level.

use serde_json::{Value, json};
use whatif_e2e::racing::runs_anywhere;
use whatif_e2e::{World, as_root_and_user, eventually, needs};

as_root_and_user!(
    a_figure_is_read_from_what_a_check_prints,
    a_figure_can_be_a_path_in_json,
    weights_say_what_matters_more,
    a_repeated_check_has_a_spread,
    what_is_within_the_noise_does_not_decide,
    a_check_that_passes_only_sometimes_has_not_passed,
    what_is_built_in_counts_only_if_it_is_asked_for,
    of_those_that_pass_the_smaller_change_wins,
    of_those_that_fail_the_one_with_fewer_failures_is_ahead,
    a_judge_is_asked_about_level_ones_only,
    a_judge_who_talks_nonsense_is_not_listened_to,
    a_judge_need_not_read,
    a_judge_cannot_reach_reality,
    the_first_success_cancels_the_others,
    a_budget_ends_it,
    losers_can_be_left_alone_early,
    the_same_race_has_the_same_ranking,
);

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

fn a_figure_is_read_from_what_a_check_prints(w: &World) {
    let check = "--check=bench=echo warming up at 1 req/s; echo \"did $(cat rate) req/s\"";
    let race =
        w.race([check, "--metric", "speed:higher=([0-9.]+) req/s", "echo 100 > rate", "echo 250.5 > rate", "echo none > rate"]);
    let race = race.exits(0);
    assert_eq!(race.order(), ["2", "1", "3"], "{:#}", race.ranking());
    assert_eq!(number(&race.outcome("2")["metrics"]["speed"]["value"]), 250.5, "the last match counts");
    assert_eq!(number(&race.standing("2")["score"]), 100.0);
    let second = number(&race.standing("1")["score"]);
    assert!((second - 100.0 * 100.0 / 250.5).abs() < 0.1, "{second}");
    assert!(race.why("1").contains("100") && race.why("1").contains("250.5"), "both are named: {}", race.why("1"));
    assert_eq!(number(&race.outcome("3")["metrics"]["speed"]["value"]), 1.0, "{:#}", race.outcome("3"));
}

fn a_figure_can_be_a_path_in_json(w: &World) {
    let check = "--check=size=echo building; echo '{\"bundle\": {\"parts\": [1, '$(cat size)']}}'; echo done";
    let race =
        w.race([check, "--metric", "size=$.bundle.parts[1]", "echo 400 > size", "echo 100 > size", "echo '\"large\"' > size"]);
    let race = race.exits(0);
    assert_eq!((race.order()[0], race.winner()), ("2", Some("2")), "lower is better: {:#}", race.ranking());
    assert_eq!(number(&race.outcome("1")["metrics"]["size"]["value"]), 400.0);
    assert_eq!(race.outcome("3")["metrics"].get("size"), None, "that is no number");
    assert_eq!(race.order(), ["2", "1", "3"]);
}

fn weights_say_what_matters_more(w: &World) {
    let attempts = ["echo 'speed 100 size 10' > out", "echo 'speed 50 size 5' > out"];
    let metrics = ["--check=cat out", "--metric", "speed:higher=speed ([0-9]+)", "--metric", "size:lower=size ([0-9]+)"];
    let speed = w.race([metrics.as_slice(), &["--weight", "speed=10"], attempts.as_slice()].concat()).exits(0);
    assert_eq!(speed.winner(), Some("1"));
    let size = w.race([metrics.as_slice(), &["--weight", "size=10"], attempts.as_slice()].concat()).exits(0);
    assert_eq!(size.winner(), Some("2"));
    let neither =
        w.race([metrics.as_slice(), &["--weight", "size=0", "--weight", "speed=0"], attempts.as_slice()].concat()).exits(0);
    assert_eq!(neither.standing("2")["place"], 1, "{:#}", neither.ranking());
}

/// A check has a fork of its own each time, so what differs must come from elsewhere.
const DIFFERENT_EACH_TIME: &str = "--check=bench=echo took $((100 + $(od -An -N1 -tu1 /dev/urandom) % 5)) ms";

fn a_repeated_check_has_a_spread(w: &World) {
    let race = w.race([DIFFERENT_EACH_TIME, "--metric", "took=took ([0-9]+) ms", "--repeats", "9", "echo x > x"]).exits(0);
    let took = &race.outcome("1")["metrics"]["took"];
    assert_eq!(took["runs"], 9);
    let (low, value, high) = (number(&took["low"]), number(&took["value"]), number(&took["high"]));
    assert!((100.0..105.0).contains(&low) && low <= value && value <= high && high < 105.0, "{took}");
    assert_eq!(race.check("1", "bench")["runs"].as_array().map(Vec::len), Some(9));
    let mut numbers: Vec<_> = race.all("check_ended").iter().map(|e| e["run"].clone()).collect();
    numbers.dedup();
    assert_eq!(numbers, (1..=9).map(|n| json!(n)).collect::<Vec<_>>());
}

/// Seven values of the same five: their spreads overlap, so the smaller change wins, however the values fell.
fn what_is_within_the_noise_does_not_decide(w: &World) {
    let race =
        w.race([DIFFERENT_EACH_TIME, "--metric", "took=took ([0-9]+) ms", "--repeats", "7", "seq 9 > x", "seq 2 > x"]).exits(0);
    assert_eq!(race.winner(), Some("2"), "{:#}", race.ranking());
    assert_eq!((number(&race.standing("1")["score"]), number(&race.standing("2")["score"])), (100.0, 100.0));
}

fn a_check_that_passes_only_sometimes_has_not_passed(w: &World) {
    // Fails unless a byte is small, which it is not nine times in a row.
    let flaky = "--check=flaky=test $(od -An -N1 -tu1 /dev/urandom) -lt 40";
    let race = w.race([flaky, "--repeats", "9", "echo x > x"]).exits(1);
    assert_eq!(race.verdict("1"), "failed_checks");
    let runs = race.check("1", "flaky")["runs"].as_array().expect("runs").len();
    assert!((1..=9).contains(&runs));
}

fn what_is_built_in_counts_only_if_it_is_asked_for(w: &World) {
    let attempts = ["seq 100 > many", "mkdir d; touch d/a d/b d/c"];
    let plain = w.race([&["--check", "true"], attempts.as_slice()].concat()).exits(0);
    assert_eq!(plain.standing("1")["score"], Value::Null);
    let metrics = plain.outcome("1")["metrics"].as_object().expect("metrics").clone();
    for name in ["duration", "cpu", "memory", "attempt_duration", "lines", "files", "bytes"] {
        assert!(metrics.contains_key(name), "{name} is missing: {metrics:#?}");
    }
    assert_eq!((number(&metrics["lines"]["value"]), number(&metrics["files"]["value"])), (100.0, 1.0));
    assert_eq!(plain.winner(), Some("2"), "fewer lines");
    let files = w.race([&["--check", "true", "--weight", "files=1"], attempts.as_slice()].concat()).exits(0);
    assert_eq!((files.winner(), number(&files.standing("1")["score"])), (Some("1"), 100.0));
}

fn of_those_that_pass_the_smaller_change_wins(w: &World) {
    let race = w.race(["--check", "true", "seq 40 > f", "seq 2 > f", "touch a; echo x > b; echo y > c"]).exits(0);
    assert_eq!(race.order(), ["2", "3", "1"], "{:#}", race.ranking());
    assert!(race.why("1").contains("40"), "{}", race.why("1"));
}

/// Whoever got further is more interesting, although none is good enough.
fn of_those_that_fail_the_one_with_fewer_failures_is_ahead(w: &World) {
    let tap = "--check=tap=cat tap; grep -q ^not tap && exit 1; exit 0";
    let attempts = [
        "printf '1..3\\nnot ok 1 - a\\nnot ok 2 - b\\nok 3 - c\\n' > tap",
        "printf '1..3\\nok 1 - a\\nnot ok 2 - b\\nok 3 - c\\n' > tap",
        "exit 1",
        "echo not counted > tap",
    ];
    let race = w.race([&[tap], attempts.as_slice()].concat()).exits(1);
    assert_eq!(race.order(), ["2", "1", "4", "3"], "{:#}", race.ranking());
    assert_eq!(race.check("2", "tap")["tests"]["failed"], 1, "{:#}", race.outcome("2"));
    assert_eq!(race.check("2", "tap")["tests"]["failures"], json!(["b"]), "{:#}", race.outcome("2"));
}

/// Names its favourite, then says what it was told: whom about, and what it knows of each.
const JUDGE: &str = r#"
import json, sys
told = json.load(sys.stdin)
print("b")
for attempt in told["attempts"]:
    print(attempt["name"], attempt["outcome"]["verdict"]["is"], sorted(attempt))
"#;

fn a_judge_is_asked_about_level_ones_only(w: &World) {
    needs!(w, "python3");
    let judge = format!("/usr/bin/python3 {}", w.write(w.home.join("judge.py"), JUDGE).display());
    let attempts = ["--attempt=a=echo a > f", "--attempt=b=echo b > f", "--attempt=larger=seq 9 > f", "--attempt=failing=exit 1"];
    let race = w.race([&["--check", "true", "--judge", &judge], attempts.as_slice()].concat()).exits(0);
    race.assert_makes_sense();
    assert_eq!(race.winner(), Some("b"), "its word counts: {:#}", race.ranking());
    assert!(race.why("a").contains("judge") || race.why("b").contains("judge"), "{:#}", race.ranking());
    let judged = w.json(["race", "show"])["judged"].clone();
    assert_eq!(judged[0]["better"], "b", "{judged:#}");
    let told = judged[0]["because"].as_str().unwrap_or_default();
    assert!(told.contains("a passed") && told.contains("b passed") && told.contains("diff"), "{told}");
    assert!(!told.contains("failing"), "who does not pass is not shown: {told}");
    for event in race.all("judge_began") {
        let names = event["among"].as_array().expect("a list");
        assert!(names.len() > 1 && !names.contains(&json!("failing")), "{event:#}");
    }

    let clear = w.race(["--check", "test -e good", "--judge", &judge, "touch good; echo x > x", "echo x > x"]).exits(0);
    assert_eq!((clear.winner(), clear.all("judge_began").len()), (Some("1"), 0), "there is nothing to ask");
}

/// Then the next rule decides, and it is said.
fn a_judge_who_talks_nonsense_is_not_listened_to(w: &World) {
    let answers = [
        "echo neither",
        "echo b; exit 3",
        "true",
        "head -c 300000 /dev/urandom",
        "echo b; kill -9 $$",
        "exec 0<&-; echo c",
        "printf '\\033[2Jb\\n'",
        "echo b >&2",
        "no-such-judge",
    ];
    for answer in answers {
        let race = w.race(["--check", "true", "--judge", answer, "--attempt=a=echo a > f", "--attempt=b=echo b > f"]).exits(0);
        assert_eq!((race.winner(), race.order()), (Some("a"), vec!["a", "b"]), "{answer}: {:#}", race.ranking());
        let shown = w.whatif(["race", "show"]).go().ok();
        let said = format!("{}{}", shown.stdout, shown.stderr);
        assert!(said.contains("judge") && !said.contains('\u{1b}'), "{answer} is not said:\n{said}");
        assert!(said.len() < 20_000, "{answer}: {} bytes", said.len());
    }
}

/// There is much to read, and it knows already.
fn a_judge_need_not_read(w: &World) {
    let attempts = ["--attempt=a=seq 90000 > f", "--attempt=b=seq 90000 | tac > f"];
    let judge = "exec 0<&-; sleep 0.2; echo b";
    let race = w.race([&["--check=true", "--judge", judge], attempts.as_slice()].concat()).exits(0);
    assert_eq!(race.winner(), Some("b"));
}

/// It is a program like others, and no more trusted with reality than they are.
fn a_judge_cannot_reach_reality(w: &World) {
    let judge = "cat > /dev/null; echo judged > judged; echo b";
    let race = w.race(["--check", "true", "--judge", judge, "--attempt=a=echo a > f", "--attempt=b=echo b > f"]).exits(0);
    assert_eq!(race.winner(), Some("b"));
    assert!(!w.project.join("judged").exists());
    assert!(!w.json(["ls"]).to_string().contains("judge"), "and nothing is left of it");
}

fn the_first_success_cancels_the_others(w: &World) {
    let attempts =
        ["--attempt=slow=echo slow > f; exec sleep 98763", "--attempt=quick=echo quick > f", "--attempt=never=echo never > f"];
    let race = w.race([&["--check", "true", "--jobs", "2", "--first-success"], attempts.as_slice()].concat()).exits(0);
    race.assert_makes_sense();
    assert_eq!(race.winner(), Some("quick"));
    assert_eq!(race.verdict("slow"), "cancelled");
    assert!(["cancelled", "passed"].contains(&race.verdict("never")), "it may have been begun in time");
    assert!(race.outcome("slow")["verdict"]["because"].to_string().contains("quick"), "{:#}", race.outcome("slow"));
    eventually("nothing runs", || !runs_anywhere("sleep 98763"));
}

fn a_budget_ends_it(w: &World) {
    let attempts =
        ["--attempt=quick=echo quick > f", "--attempt=slow=echo slow > f; exec sleep 1000", "--attempt=late=echo late > f"];
    let race = w.race([&["--check", "true", "--jobs", "1", "--budget", "10s"], attempts.as_slice()].concat()).exits(0);
    race.assert_makes_sense();
    assert_eq!(race.winner(), Some("quick"), "what was done counts");
    for name in ["slow", "late"] {
        assert_eq!(race.verdict(name), "cancelled", "{:#}", race.outcome(name));
        assert!(race.outcome(name)["verdict"]["because"].to_string().contains("budget"), "{:#}", race.outcome(name));
    }
    assert_eq!(race.only("ended")["interrupted"], false);
}

/// The rest of its checks would only cost time.
fn losers_can_be_left_alone_early(w: &World) {
    let checks = ["--check=first=grep -q good f", "--check=second=echo second", "--optional-check=third=echo third"];
    let attempts = ["--attempt=bad=echo bad > f", "--attempt=good=echo good > f"];
    let race = w.race([checks.as_slice(), &["--cancel-losers", "--repeats", "2"], attempts.as_slice()].concat()).exits(0);
    race.assert_makes_sense();
    let began = |name: &str| race.all("check_began").iter().filter(|e| e["attempt"] == name).count();
    assert_eq!((began("bad"), began("good")), (1, 6), "{:#?}", race.events);
    assert_eq!((race.verdict("bad"), race.winner()), ("failed_checks", Some("good")));
    let all = w.race([checks.as_slice(), attempts.as_slice()].concat()).exits(0);
    assert_eq!(all.all("check_began").len(), 6, "otherwise all are run");
}

fn the_same_race_has_the_same_ranking(w: &World) {
    let attempts = ["seq 3 > f", "seq 3 | tac > f", "seq 2 > f", "exit 1", "exit 2", "seq 9 > g", "touch bad"];
    let run = |jobs: &str| {
        let race = w.race([&["--check", "test ! -e bad", "--jobs", jobs], attempts.as_slice()].concat()).exits(0);
        race.ranking().clone()
    };
    let first = run("1");
    assert_eq!(first, run("2"));
    assert_eq!(first, run("7"));
}
