//! Attempts that go wrong in every way, and a machine that is full: what went wrong is said, and harms nobody else.

use serde_json::{Value, json};
use whatif_e2e::racing::{ORDERED, runs_anywhere};
use whatif_e2e::{World, as_root, as_root_and_user, eventually, needs};

as_root_and_user!(
    an_attempt_without_end_is_ended,
    a_check_without_end_is_ended,
    an_attempt_that_runs_out_of_memory_is_told,
    an_attempt_that_leaves_many_processes_leaves_none,
    a_hundred_megabytes_of_output_are_no_trouble,
    hostile_output_reaches_no_terminal,
    an_attempt_that_deletes_the_project_harms_itself_only,
    fifty_attempts_wait_for_their_turn,
    a_reality_that_moves_is_told,
    two_races_at_once_do_not_disturb_each_other,
    others_can_be_asked_while_it_runs,
);
as_root!(a_full_disk_is_told_and_can_be_emptied);

/// What people and programs are told about an attempt.
#[track_caller]
fn assert_told(w: &World, attempt: &str, words: &str) {
    let shown = w.whatif(["race", "show"]).go().ok();
    let text = format!("{}{}", shown.stdout, shown.stderr);
    let line = text.lines().find(|line| line.contains(attempt) && line.contains(words));
    assert!(line.is_some(), "'{words}' is not told of '{attempt}':\n{text}");
}

fn an_attempt_without_end_is_ended(w: &World) {
    let race = w
        .race(["--check=true", "--timeout=4s", "--attempt=endless=echo begun; exec sleep 1000", "--attempt=quick=echo x > x"])
        .exits(0);
    race.assert_makes_sense();
    assert_eq!((race.winner(), race.verdict("endless")), (Some("quick"), "failed"));
    assert_eq!(race.outcome("endless")["ended"]["timed_out"], true);
    assert!(race.why("endless").contains("timed out"), "{}", race.why("endless"));
    assert_told(w, "endless", "timed out");
}

fn a_check_without_end_is_ended(w: &World) {
    w.write(
        "experiment.toml",
        "check_timeout = \"4s\"\n[[attempt]]\nname = \"hangs\"\nrun = \"echo 1000 > time\"\n[[attempt]]\nname = \"quick\"\nrun = \"echo 0 > time\"\n\
         [[check]]\nname = \"wait\"\nrun = \"sleep $(cat time)\"\n",
    );
    let race = w.race([]).exits(0);
    race.assert_makes_sense();
    assert_eq!((race.winner(), race.verdict("hangs")), (Some("quick"), "failed_checks"));
    assert_eq!(race.check("hangs", "wait")["runs"][0]["timed_out"], true);
    assert_told(w, "hangs", "timed out");
}

fn an_attempt_that_runs_out_of_memory_is_told(w: &World) {
    needs!(w, "python3");
    let eat = "--attempt=hungry=/usr/bin/python3 -c \"x = bytearray(400 << 20); print(len(x))\"";
    let race = w.race(["--check=true", "--memory=100M", eat, "--attempt=modest=echo x > x"]).exits(0);
    race.assert_makes_sense();
    assert_eq!((race.winner(), race.verdict("hungry")), (Some("modest"), "failed"));
    assert_eq!(race.outcome("hungry")["ended"]["limit_hit"], "memory", "{:#}", race.outcome("hungry"));
    assert_told(w, "hungry", "memory");
}

fn an_attempt_that_leaves_many_processes_leaves_none(w: &World) {
    let leave = "--attempt=leaves=i=0; while [ $i -lt 60 ]; do (trap '' TERM HUP INT; exec setsid sleep 98765) >/dev/null 2>&1 & i=$((i+1)); done; echo x > x";
    let race = w.race(["--check=! cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep '9876[5]'", leave]).exits(0);
    assert_eq!(race.verdict("leaves"), "passed", "{:#}", race.outcome("leaves"));
    w.assert_nothing_runs();
    eventually("none is left", || !runs_anywhere("sleep 98765"));
}

fn a_hundred_megabytes_of_output_are_no_trouble(w: &World) {
    let loud = "--attempt=loud=yes 0123456789 | head -c 100000000; yes error | head -c 1000000 >&2; echo the end; echo x > x";
    let race = w.race(["--check=loud=yes checked | head -c 20000000; echo the end", loud]).exits(0);
    let tails = [&race.outcome("loud")["ended"]["tail"], &race.check("loud", "loud")["runs"][0]["tail"]];
    for tail in tails {
        let tail = tail.as_str().expect("text");
        assert!(
            tail.trim_end().ends_with("the end") && tail.len() <= 8 << 10 && tail.lines().count() <= 40,
            "{} bytes",
            tail.len()
        );
    }
    let line = w.json(["race", "show"]).to_string();
    assert!(line.len() < 200_000, "{} bytes", line.len());
}

fn hostile_output_reaches_no_terminal(w: &World) {
    let print = "printf '\\033[2J\\033]0;owned\\007\\233\\377\\376 \\303( \\0 \\342\\200\\256 end\\n'";
    let attempts = [format!("--attempt=a={print}; {print} >&2; exit 1"), format!("--attempt=b={print} > f; cat f")];
    let check = format!("--check=c={print}; exit 1");
    let race = w.race([check.as_str(), &attempts[0], &attempts[1]]).exits(1);
    race.assert_makes_sense();
    assert!(race.outcome("a")["ended"]["tail"].as_str().is_some_and(|tail| tail.contains("end")));
    assert!(race.check("b", "c")["runs"][0]["tail"].as_str().is_some_and(|tail| tail.contains("end")));
    let hostile = |text: &str| text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}' || c == '\u{9b}');
    let people = w.whatif(["race", &check, &attempts[0], &attempts[1]]).go().exits(1);
    let shown = w.whatif(["race", "show"]).go().ok();
    for text in [people.stdout, people.stderr, shown.stdout, shown.stderr] {
        assert!(!hostile(&text), "{text:?}");
    }
}

fn an_attempt_that_deletes_the_project_harms_itself_only(w: &World) {
    w.outside("echo f > f; mkdir d; seq 9 > d/g").ok();
    let gone = "--attempt=gone=rm -rf \"$PWD\"";
    let race = w.race(["--check=test -e f", gone, "--attempt=empty=rm -rf ./* ; echo f > f", "--attempt=fine=echo x > x"]).exits(0);
    race.assert_makes_sense();
    assert_eq!(race.winner(), Some("fine"), "{:#}", race.ranking());
    assert!(["failed", "failed_checks", "broken"].contains(&race.verdict("gone")), "{:#}", race.outcome("gone"));
    assert_eq!(race.verdict("empty"), "passed");
    assert_eq!(w.outside("cat f; wc -l < d/g").ok().stdout, "f\n9\n");
}

/// Each says when it began and when it ended, by one clock; so one can tell how many there were at each moment.
fn fifty_attempts_wait_for_their_turn(w: &World) {
    let values: Vec<String> = (1..=50).map(|n| n.to_string()).collect();
    let matrix = format!("N={}", values.join(","));
    let command = "echo {N} > f; date +%s%N; sleep 0.05; date +%s%N";
    let race = w.race(["--check=date +%s%N", "--jobs=2", "--matrix", &matrix, "--", "sh", "-c", command]).exits(0);
    race.assert_makes_sense();
    assert_eq!((race.all("attempt_ended").len(), race.order().len(), race.winner()), (50, 50, Some("1")));
    let mut moments = Vec::new();
    for name in &values {
        let times =
            |text: &Value| -> Vec<u64> { text.as_str().expect("text").lines().map(|l| l.parse().expect("a time")).collect() };
        let own = times(&race.outcome(name)["ended"]["tail"]);
        let checked = times(&race.check(name, "date +%s%N")["runs"][0]["tail"]);
        assert!(own[0] < own[1] && own[1] < checked[0]);
        moments.extend([(own[0], 1), (checked[0], -1)]);
    }
    moments.sort_unstable();
    let mut now = 0;
    let most = moments.iter().map(|(_, step)| {
        now += step;
        now
    });
    assert_eq!(most.max(), Some(2), "two at once, and never three");
    w.whatif(["race", "rm", "--all"]).go().ok();
    assert_eq!(w.json(["ls"]), json!([]));
}

fn a_reality_that_moves_is_told(w: &World) {
    w.outside("echo old > f; mkdir d").ok();
    // The first one waits until it is told to go on, and longer than until reality is looked at again.
    let wait = "--attempt=first=cat f; sleep 1; until test -e /tmp/go; do sleep 0.05; done; echo x > x";
    let attempts = [wait, "--attempt=second=cat f; echo x > x"];
    let is_running = |race: &str| {
        let is_it = |s: &Value| s["name"] == format!("{race}.first").as_str() && s["status"] == "active";
        eventually("it runs", || w.json(["ls"]).as_array().is_some_and(|all| all.iter().any(is_it)));
    };
    let go_on = |race: &str| {
        // Whatever it says: the race may be done with the sandbox before this command is.
        w.whatif(["exec", "-d", &format!("{race}.first"), "--", "touch", "/tmp/go"]).go();
    };
    let mut running = w.begin_race([&["--check=true", "--jobs=1", "--name=one"], attempts.as_slice()].concat());
    running.has_said("attempt_began", 1);
    is_running("one");
    w.outside("echo new > f; echo new > d/new").ok();
    go_on("one");
    let race = running.ends().exits(0);
    let moved = race.only("reality_moved");
    assert!(moved["paths"].to_string().contains("\"f\""), "{moved:#}");
    let told = race.events.iter().position(|e| e["event"] == "reality_moved");
    let second = race.events.iter().position(|e| e["event"] == "attempt_began" && e["attempt"] == "second");
    assert!(told < second, "before it matters: {:#?}", race.events);

    w.outside("echo old > f").ok();
    let output = w.write(w.dir.join("people"), "");
    let file = || std::fs::File::options().append(true).open(&output).expect("it is ours");
    let call = w.whatif(["race", "--check=true", "--jobs=1", "--name=two"]).args(attempts);
    let mut people = call.streams(std::process::Stdio::null(), file().into(), file().into()).spawn();
    is_running("two");
    w.outside("echo new > f").ok();
    go_on("two");
    assert!(people.wait().is_ok_and(|status| status.success()));
    let said = w.read(&output);
    assert!(said.contains("reality") && said.contains('f'), "{said}");
}

fn two_races_at_once_do_not_disturb_each_other(w: &World) {
    let run = |name: &str| w.begin_race([&["--name", name], ORDERED.as_slice()].concat());
    let (one, two) = (run("one"), run("two"));
    let (one, two) = (one.ends().exits(0), two.ends().exits(0));
    one.assert_makes_sense();
    two.assert_makes_sense();
    assert_eq!(one.places(), two.places());
    // A name is somebody's.
    let again = w.whatif(["race", "--name", "one", "--check", "true", "echo x > x"]).go();
    assert!([2, 125].contains(&again.code) && again.stderr.contains("one") && again.stderr.contains("hint:"), "{again:?}");
    assert_eq!(w.json(["race", "ls"]).as_array().map(Vec::len), Some(2));
}

/// Sandboxes for checks come and go all the time.
fn others_can_be_asked_while_it_runs(w: &World) {
    let mut running = w.begin_race(["--check=true", "--repeats=40", "--count=4", "--", "sh", "-c", "echo x > x"]);
    running.has_said("check_began", 1);
    while running.events().iter().all(|e| e["event"] != "ended") {
        for command in ["ls", "gc", "du"] {
            w.whatif([command]).go().ok();
        }
    }
    assert_eq!(running.ends().exits(0).order().len(), 4);
}

fn a_full_disk_is_told_and_can_be_emptied(w: &World) {
    let race = "race --check true '--attempt=fills=dd if=/dev/zero of=big bs=64k' '--attempt=modest=echo x > x' --jobs 1";
    let text = format!(
        "mount -t tmpfs -o mode=700,size=6m none {state} && W={bin}; $W {race}; echo code $?; $W race show; $W race rm --all; echo removed $?; $W ls -q; \
         i=0; while [ -n \"$(ls -A {state}/transient)\" ] && [ $i -lt 3000 ]; do i=$((i+1)); sleep 0.01; done; $W run --rm -q -- echo again",
        state = w.state.display(),
        bin = w.bin.display(),
    );
    let outcome = w.program("/usr/bin/unshare").args(["--mount", "--propagation", "private", "/bin/sh", "-c", &text]).go();
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(said.contains("modest wins") && said.contains("code 0"), "who needs no more goes on: {said}");
    assert!(said.contains("the disk was nearly full") || said.contains("No space left on device"), "{said}");
    assert!(said.contains("removed 0") && said.contains("again"), "{said}");
    assert!(!w.project.join("big").exists());
}
