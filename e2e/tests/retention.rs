//! Sandboxes that hold nothing go by themselves, and say when. What holds changes waits for a decision.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use whatif_e2e::{World, as_root_and_user, eventually};

as_root_and_user!(
    what_holds_nothing_goes_when_nobody_used_it,
    what_holds_changes_waits_for_a_decision,
    retention_can_be_turned_off,
    it_runs_once_an_hour,
    a_sandbox_can_be_removed_with_its_time,
    a_sandbox_that_had_stopped_goes_with_its_time,
    who_gives_it_more_time_keeps_it,
    a_project_cannot_have_changes_removed,
    whatever_was_changed_waits_for_a_decision,
);

fn note(w: &World) -> PathBuf {
    w.state.join("cache/collected.json")
}

/// As if the last time had been two hours ago.
fn an_hour_later(w: &World) {
    let file = fs::File::options().write(true).open(note(w)).expect("a command was run before");
    file.set_modified(SystemTime::now() - Duration::from_secs(7200)).expect("it is ours");
    w.whatif(["ls"]).go().ok();
}

fn names(w: &World) -> String {
    w.whatif(["ls", "-q"]).go().ok().stdout
}

#[track_caller]
fn is_collected(w: &World) {
    eventually("it ran", || {
        fs::read_to_string(note(w)).is_ok_and(|text| text.contains("\"total_bytes\":") && !text.contains("null"))
    });
}

fn what_holds_nothing_goes_when_nobody_used_it(w: &World) {
    w.new_sandbox("empty");
    w.whatif(["stop", "empty"]).go().ok();
    // By default in a fortnight.
    let listed = w.json(["ls"])[0].clone();
    assert!(listed["goes_at"].as_str().is_some(), "{listed}");
    let table = w.whatif(["ls"]).go().ok().stdout;
    assert!(table.contains("GOES IN") && table.contains("14d"), "{table}");
    an_hour_later(w);
    is_collected(w);
    assert_eq!(names(w), "empty\n");
    w.configure("[gc]\nunused = \"1ms\"\n");
    an_hour_later(w);
    eventually("it is gone", || names(w).is_empty());
    eventually("that is said", || w.whatif(["ls"]).go().ok().stderr.contains("removed empty: it holds no changes"));
    let again = w.whatif(["ls"]).go().ok().stderr;
    assert!(!again.contains("removed empty"), "once is enough: {again}");
}

fn what_holds_changes_waits_for_a_decision(w: &World) {
    w.configure("[gc]\nunused = \"1ms\"\n");
    w.whatif(["run", "--keep", "--name", "work", "-q", "--", "sh", "-c", "echo a > a"]).go().ok();
    w.new_sandbox("running");
    w.whatif(["new", "kept", "--label", "keep=yes"]).go().ok();
    w.whatif(["stop", "kept"]).go().ok();
    w.new_sandbox("saved");
    w.snapshot("saved", "wanted");
    w.whatif(["stop", "saved"]).go().ok();
    an_hour_later(w);
    is_collected(w);
    let mut left: Vec<String> = names(w).lines().map(str::to_owned).collect();
    left.sort();
    assert_eq!(left, ["kept", "running", "saved", "work"]);
    let told = w.whatif(["ls"]).go().ok();
    assert!(told.stderr.contains("1 sandbox with unapplied changes") && told.stderr.contains("whatif gc --older-than"), "{told:?}");
    w.apply(&["work"]).ok();
    w.configure("[gc]\nunused = \"1ms\"\nkeep = \"1ms\"\n");
    an_hour_later(w);
    eventually("what was decided about is gone", || !names(w).contains("work"));
}

fn retention_can_be_turned_off(w: &World) {
    for rules in ["unused = \"never\"", "unused = \"1ms\"\nauto = false"] {
        w.configure(format!("[gc]\n{rules}\n"));
        w.new_sandbox("s");
        w.whatif(["stop", "s"]).go().ok();
        assert_eq!(w.json(["ls"])[0]["goes_at"], serde_json::Value::Null, "{rules}");
        if rules.contains("never") {
            an_hour_later(w);
            is_collected(w);
        } else {
            w.whatif(["ls"]).go().ok();
        }
        assert_eq!(names(w), "s\n", "{rules}");
        w.whatif(["rm", "s"]).go().ok();
    }
    // On request it goes by the same rule.
    w.new_sandbox("s");
    w.whatif(["stop", "s"]).go().ok();
    w.whatif(["gc"]).go().ok();
    assert_eq!(names(w), "");
    w.configure("[gc]\nunused = \"soon\"\n");
    assert!(w.whatif(["ls"]).go().code != 0);
    w.configure("");
}

fn it_runs_once_an_hour(w: &World) {
    w.whatif(["ls"]).go().ok();
    an_hour_later(w);
    is_collected(w);
    let at = fs::metadata(note(w)).and_then(|m| m.modified()).expect("it is there");
    for _ in 0..5 {
        w.whatif(["ls"]).go().ok();
        w.inside("true").ok();
    }
    assert_eq!(fs::metadata(note(w)).and_then(|m| m.modified()).expect("it is there"), at);
}

fn a_sandbox_can_be_removed_with_its_time(w: &World) {
    for (name, then) in [("goes", "remove"), ("stays", "stop")] {
        w.limited(name, &["--ttl", "1s", "--then", then]);
        w.exec(name, "echo a > a").ok();
    }
    let is_left = |name: &str| names(w).lines().any(|line| line == name);
    // The next command finds that the time is up.
    eventually("it is gone", || {
        w.whatif(["ls"]).go().ok();
        !is_left("goes")
    });
    assert!(is_left("stays"));
    eventually("its time is up too", || w.exec("stays", "true").code == 125);
    assert_eq!(w.json(["diff", "stays"])["changes"].as_array().map(Vec::len), Some(1));
    // Without a time there is none to go with.
    assert!(w.whatif(["new", "--then", "remove"]).go().code != 0);
}

fn a_sandbox_that_had_stopped_goes_with_its_time(w: &World) {
    // However little goes by itself.
    w.configure("[gc]\nauto = false\nunused = \"1ms\"\n");
    w.new_sandbox("empty");
    w.whatif(["stop", "empty"]).go().ok();
    let limits = ["--ttl", "8s", "--then", "remove"];
    let told = w.whatif(["run", "--name", "brief"]).args(limits).args(["--", "sh", "-c", "echo a > a"]).go().ok();
    assert!(told.stderr.contains("removed with its changes in "), "{told:?}");
    w.whatif(["new", "kept", "--label", "keep=yes"]).args(limits).go().ok();
    w.whatif(["run", "--name", "applied", "-q"]).args(limits).args(["--", "sh", "-c", "echo b > b"]).go().ok();
    w.apply(&["applied"]).ok();
    let listed = w.json(["ls"]);
    let of = |name: &str| listed.as_array().into_iter().flatten().find(|s| s["name"] == name).cloned().expect("it is listed");
    assert!(of("brief")["goes_at"].is_string() && of("kept")["goes_at"].is_null(), "{listed}");
    let table = w.whatif(["ls"]).go().ok().stdout;
    let line = table.lines().find(|line| line.starts_with("brief")).expect("it is listed");
    assert!(
        line.split_whitespace().any(|word| word.ends_with('s') && word.trim_end_matches('s').parse::<u8>().is_ok_and(|n| n <= 8))
    );
    assert!(w.show("brief")["remaining_ms"].as_u64().is_some_and(|left| left <= 8000));
    std::thread::sleep(Duration::from_secs(8));
    // The next command notices it, whichever it is.
    w.whatif(["history"]).go().ok();
    eventually("they are gone", || !names(w).contains("brief") && !names(w).contains("applied"));
    let mut left: Vec<String> = names(w).lines().map(str::to_owned).collect();
    left.sort();
    assert_eq!(left, ["empty", "kept"]);
}

fn who_gives_it_more_time_keeps_it(w: &World) {
    let limits = ["--ttl", "3s", "--then", "remove"];
    w.whatif(["run", "--name", "wanted", "-q"]).args(limits).args(["--", "sh", "-c", "echo a > a"]).go().ok();
    w.whatif(["start", "wanted", "--ttl", "1h"]).go().ok();
    w.whatif(["stop", "wanted"]).go().ok();
    std::thread::sleep(Duration::from_secs(3));
    an_hour_later(w);
    is_collected(w);
    assert_eq!(names(w), "wanted\n");
    let table = w.whatif(["ls"]).go().ok().stdout;
    assert!(table.contains("60m") || table.contains("59m"), "{table}");
}

fn a_project_cannot_have_changes_removed(w: &World) {
    w.write(".whatif.toml", "[limits]\nttl = \"1s\"\nthen = \"remove\"\n");
    let refused = w.whatif(["run", "--", "true"]).go();
    assert!(refused.code != 0 && refused.stderr.contains("limits.then") && refused.stderr.contains("only tighten"), "{refused:?}");
    w.write(".whatif.toml", "[limits]\npreset = \"none\"\n");
    let refused = w.whatif(["run", "--", "true"]).go();
    assert!(refused.code != 0 && refused.stderr.contains("limits.preset = \"none\""), "{refused:?}");
    // It can end a sandbox earlier, and not have its changes removed by that.
    w.write(".whatif.toml", "[limits]\nttl = \"1s\"\n");
    w.limited("s", &["--ttl", "1h", "--then", "remove"]);
    let limits = w.show("s")["details"]["limits"].clone();
    assert!(limits["ttl"] == "1s" && limits["then"].is_null(), "{limits}");
}

fn whatever_was_changed_waits_for_a_decision(w: &World) {
    w.outside("git init -q .; echo '*.log' > .gitignore; echo a > a; mkdir -p ~/.cache").ok();
    w.configure("[gc]\nunused = \"1ms\"\n");
    let changes = [
        ("top", "chmod 0751 ."),
        ("attributes", "setfattr -n user.a -v b . 2> /dev/null || chmod 0711 ."),
        ("ignored", "echo x > x.log"),
        ("cached", "mkdir -p ~/.cache/some && echo x > ~/.cache/some/x"),
        ("outside", "echo x > ~/outside"),
        ("around", "chmod 0711 ~"),
        ("mode", "chmod 0600 a"),
        ("pipe", "mkfifo pipe"),
        ("linked", "ln a b"),
        ("directory", "mkdir empty"),
        ("deleted", "rm a"),
        ("committed", "git -c user.name=n -c user.email=e commit -q --allow-empty -m one"),
        ("package", "mkdir -p node_modules/x && echo '{\"name\": \"x\", \"version\": \"1.0.0\"}' > node_modules/x/package.json"),
    ];
    for (name, script) in changes {
        w.new_sandbox(name);
        w.exec(name, script).ok();
        w.whatif(["stop", name]).go().ok();
    }
    w.new_sandbox("nothing");
    w.exec("nothing", "cat a; echo x > /tmp/x").ok();
    w.whatif(["stop", "nothing"]).go().ok();
    let document = w.json(["gc"]);
    let gone: Vec<&str> = document["sandboxes"].as_array().into_iter().flatten().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(gone, ["nothing"], "{document}");
    let mut expected: Vec<&str> = changes.iter().map(|(name, _)| *name).collect();
    expected.sort_unstable();
    let listed = names(w);
    let mut left: Vec<&str> = listed.lines().collect();
    left.sort_unstable();
    assert_eq!(left, expected);
}
