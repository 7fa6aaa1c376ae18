//! With the database lost, nothing is lost: it is said, nothing is deleted, and the sandboxes can be recorded again.

use std::fs;
use std::path::PathBuf;

use whatif_e2e::{World, as_root_and_user};

as_root_and_user!(
    sandboxes_are_adopted_with_their_snapshots,
    a_damaged_database_is_put_aside,
    a_running_sandbox_goes_on,
    templates_are_adopted,
    what_says_nothing_about_itself_is_named_and_left,
    a_name_that_was_given_away_is_changed,
    half_a_line_is_skipped,
    layers_alone_are_named_and_left,
    an_older_database_deletes_nothing_that_is_newer,
    what_an_older_database_lacks_is_adopted,
    an_older_record_does_not_count_for_more_than_a_newer_one,
    without_sandboxes_the_snapshots_stay,
    without_any_other_directory_it_goes_on,
    what_the_records_let_go_is_still_deleted,
);

fn made(w: &World) {
    w.outside("echo kept > kept").ok();
    w.new_sandbox("s");
    w.exec("s", "echo 1 > first").ok();
    w.whatif(["snapshot", "s", "one"]).go().ok();
    w.exec("s", "echo 2 > second").ok();
    w.whatif(["snapshot", "s", "two", "-m", "why"]).go().ok();
    w.whatif(["snapshot", "s", "three"]).go().ok();
    w.whatif(["snapshot", "rm", "s@three"]).go().ok();
    w.exec("s", "echo 3 > third").ok();
    w.whatif(["stop", "s"]).go().ok();
    w.whatif(["run", "--keep", "--quiet", "--name", "r", "--", "/bin/sh", "-c", "echo run > from-run"]).go().ok();
}

fn lose_database(w: &World) {
    // What deletes layers in the background would go on with the database that it has open.
    w.settle();
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(w.state.join(format!("state.db{suffix}")));
    }
}

fn inventory(w: &World) -> String {
    w.outside(&format!("cd {}; find layers sandboxes 2>/dev/null | grep -vE 'ledger|keeper.sock' | sort", w.state.display())).stdout
}

/// Says so, and `gc` deletes nothing.
#[track_caller]
fn said_and_kept(w: &World, count: usize) {
    let before = inventory(w);
    for arguments in [&["ls"][..], &["--json", "ls"]] {
        let listed = w.whatif(arguments.iter().copied()).go().ok().says("gc --adopt");
        assert!(listed.stderr.contains(&format!("{count} sandbox")), "{}", listed.stderr);
    }
    let collected = w.json(["gc"]);
    assert_eq!(collected["adoptable"].as_array().map(Vec::len), Some(count), "{collected}");
    w.whatif(["gc", "--older-than", "1ms"]).go().ok();
    assert_eq!(inventory(w), before, "nothing was deleted");
    assert!(w.whatif(["--json", "doctor"]).go().stdout.contains("gc --adopt"));
}

fn whole(w: &World) {
    assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().stdout, "first\nsecond\nthird\n");
    let snapshots = w.json(["snapshots", "s"]);
    let labels: Vec<&str> = snapshots.as_array().into_iter().flatten().filter_map(|s| s["label"].as_str()).collect();
    assert_eq!(labels, ["one", "two"]);
    w.whatif(["fork", "s@one", "child"]).go().ok();
    assert_eq!(w.exec("child", "cat first; ls").ok().stdout, "1\nfirst\nkept\n");
    w.whatif(["start", "s"]).go().ok();
    assert_eq!(w.exec("s", "cat first second third").ok().stdout, "1\n2\n3\n");
    w.whatif(["stop", "s"]).go().ok();
    w.whatif(["apply", "s", "--yes"]).go().ok();
    assert_eq!(w.read("third"), "3\n");
}

fn sandboxes_are_adopted_with_their_snapshots(w: &World) {
    made(w);
    lose_database(w);
    said_and_kept(w, 2);
    let adopted = w.json(["gc", "--adopt"]);
    assert_eq!(adopted["sandboxes"].as_array().map(Vec::len), Some(2), "{adopted}");
    assert_eq!(w.whatif(["diff", "r", "--name-only"]).go().ok().stdout, "from-run\n");
    whole(w);
    assert!(w.whatif(["gc", "--adopt"]).go().ok().stdout.contains("nothing to adopt"));
}

fn a_damaged_database_is_put_aside(w: &World) {
    made(w);
    lose_database(w);
    fs::write(w.state.join("state.db"), [7; 9000]).expect("it is our directory");
    let before = inventory(w);
    w.whatif(["ls"]).go().fails_with_hint(125).says("gc --adopt");
    w.whatif(["gc"]).go().fails_with_hint(125);
    assert_eq!(inventory(w), before, "nothing was deleted");
    let adopted = w.json(["gc", "--adopt"]);
    assert_eq!(adopted["set_aside"].as_array().map(Vec::len), Some(1), "{adopted}");
    whole(w);
}

fn a_running_sandbox_goes_on(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo here > here; mkdir -p /tmp/x; echo memory > /tmp/x/m").ok();
    lose_database(w);
    said_and_kept(w, 1);
    w.whatif(["gc", "--adopt"]).go().ok();
    assert_eq!(w.exec("s", "cat /tmp/x/m").ok().text(), "memory", "it ran all the time");
    assert_eq!(w.json(["ls"])[0]["status"], "active");
}

fn templates_are_adopted(w: &World) {
    made(w);
    w.whatif(["template", "save", "s", "t"]).go().ok();
    lose_database(w);
    said_and_kept(w, 2);
    assert_eq!(w.json(["gc", "--adopt"])["templates"], serde_json::json!(["t"]));
    w.whatif(["gc"]).go().ok();
    let shown = w.whatif(["run", "--template", "t", "--rm", "--quiet", "--", "cat", "first", "third"]).go().ok().stdout;
    assert_eq!(shown, "1\n3\n");
    w.whatif(["template", "rm", "t"]).go().ok();
}

fn what_says_nothing_about_itself_is_named_and_left(w: &World) {
    made(w);
    let directory = PathBuf::from(w.json(["show", "r"])["directory"].as_str().expect("it has one"));
    lose_database(w);
    let _ = fs::remove_file(directory.join("ledger.jsonl"));
    let _ = fs::remove_file(directory.join("sandbox.json"));
    let before = inventory(w);
    let adopted = w.json(["gc", "--adopt"]);
    assert_eq!(adopted["left"][0]["path"], directory.display().to_string(), "{adopted}");
    w.whatif(["gc"]).go().ok();
    assert_eq!(inventory(w), before, "nothing was deleted");
    w.outside(&format!("chmod -R u+rwx {0}; rm -rf {0}", directory.display())).ok();
}

fn a_name_that_was_given_away_is_changed(w: &World) {
    made(w);
    lose_database(w);
    w.new_sandbox("s");
    w.exec("s", "echo other > other").ok();
    let adopted = w.json(["gc", "--adopt"]);
    assert!(adopted["sandboxes"].as_array().is_some_and(|all| all.iter().any(|name| name == "s-2")), "{adopted}");
    assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().stdout, "other\n");
    assert_eq!(w.whatif(["diff", "s-2", "--name-only"]).go().ok().stdout, "first\nsecond\nthird\n");
}

fn half_a_line_is_skipped(w: &World) {
    made(w);
    let directory = PathBuf::from(w.json(["show", "s"])["directory"].as_str().expect("it has one"));
    let ledger = directory.join("ledger.jsonl");
    let mut text = fs::read(&ledger).expect("it has one");
    text.extend(b"\n{\"sandbox\":{\"id\":\"");
    fs::write(&ledger, text).expect("it is ours");
    lose_database(w);
    w.whatif(["gc", "--adopt"]).go().ok();
    whole(w);
}

fn layers(w: &World) -> String {
    w.outside(&format!("cd {}/layers && find . -type f | sort | xargs -r sha256sum", w.state.display())).ok().stdout
}

/// `gc` in every form, and what other commands do in the background, deletes no layer.
#[track_caller]
fn layers_stay(w: &World) {
    let before = layers(w);
    assert!(!before.is_empty());
    let twice = [&["gc", "--dry-run"][..], &["gc"], &["tidy", "--layers"], &["du"], &["gc", "--older-than", "1000d"], &["gc"]];
    for arguments in twice {
        w.whatif(arguments.iter().copied()).go().ok();
        assert_eq!(layers(w), before, "after {arguments:?}");
    }
}

fn count_of_layers(w: &World) -> usize {
    fs::read_dir(w.state.join("layers")).expect("there are some").count()
}

fn layers_alone_are_named_and_left(w: &World) {
    made(w);
    lose_database(w);
    fs::remove_dir_all(w.state.join("sandboxes")).expect("it is ours");
    layers_stay(w);
    let count = count_of_layers(w);
    let collected = w.json(["gc"]);
    assert_eq!(collected["unknown_layers"].as_array().map(Vec::len), Some(count), "{collected}");
    assert_eq!(collected["layers"], serde_json::json!([]), "{collected}");
    assert!(w.whatif(["gc"]).go().ok().stdout.contains("--delete-unknown"));
    w.whatif(["ls"]).go().ok().says("in no record");
    assert!(w.whatif(["--json", "doctor"]).go().stdout.contains("in no record"));
    // New sandboxes come and go, and do not make them known.
    w.new_sandbox("later");
    w.exec("later", "echo l > l").ok();
    w.whatif(["snapshot", "later", "one"]).go().ok();
    w.whatif(["rm", "later", "--yes"]).go().ok();
    w.whatif(["gc"]).go().ok();
    assert!(count_of_layers(w) >= count);
    w.whatif(["gc", "--delete-unknown", "--dry-run"]).go().ok();
    assert!(count_of_layers(w) >= count);
    w.whatif(["gc", "--delete-unknown"]).go().ok();
    assert_eq!(layers(w), "", "that was asked for");
    assert_eq!(w.json(["gc"])["unknown_layers"], serde_json::json!([]));
}

/// A backup of the database, then more work.
fn restored(w: &World) {
    w.new_sandbox("early");
    w.exec("early", "echo e > e").ok();
    w.whatif(["snapshot", "early", "one"]).go().ok();
    w.whatif(["stop", "early"]).go().ok();
    let state = w.state.display();
    w.outside(&format!("mkdir {state}/../backup && cp {state}/state.db* {state}/../backup")).ok();
    made(w);
    w.whatif(["start", "early"]).go().ok();
    w.exec("early", "echo f > f").ok();
    w.whatif(["snapshot", "early", "two"]).go().ok();
    w.exec("early", "echo g > g").ok();
    w.whatif(["stop", "early"]).go().ok();
    lose_database(w);
    w.outside(&format!("cp {state}/../backup/state.db* {state}/")).ok();
}

fn an_older_database_deletes_nothing_that_is_newer(w: &World) {
    restored(w);
    let before = layers(w);
    // Also where all sandboxes that it does not know are gone.
    let early = PathBuf::from(w.json(["show", "early"])["directory"].as_str().expect("it has one"));
    let sandboxes = fs::read_dir(w.state.join("sandboxes")).expect("there are some").filter_map(Result::ok).map(|e| e.path());
    for other in sandboxes.filter(|path| *path != early) {
        w.outside(&format!("chmod -R u+rwx {0}; rm -rf {0}", other.display())).ok();
    }
    layers_stay(w);
    // What the newer ones stand on is not let go either.
    w.whatif(["snapshot", "rm", "early@one", "--yes"]).go();
    w.whatif(["rm", "early", "--yes"]).go().ok();
    w.whatif(["gc"]).go().ok();
    assert_eq!(layers(w), before);
}

fn what_an_older_database_lacks_is_adopted(w: &World) {
    restored(w);
    let before = layers(w);
    let adopted = w.json(["gc", "--adopt"]);
    assert_eq!(adopted["snapshots"], serde_json::json!(["early@two"]), "{adopted}");
    whole(w);
    assert_eq!(w.whatif(["diff", "early", "--name-only"]).go().ok().stdout, "e\nf\ng\n");
    w.whatif(["fork", "early@two", "again"]).go().ok();
    assert_eq!(w.exec("again", "cat e f").ok().stdout, "e\nf\n");
    w.whatif(["gc"]).go().ok();
    assert_eq!(layers(w), before);
    assert!(w.whatif(["gc", "--adopt"]).go().ok().stdout.contains("nothing to adopt"));
}

fn without_sandboxes_the_snapshots_stay(w: &World) {
    made(w);
    fs::remove_dir_all(w.state.join("sandboxes")).expect("it is ours");
    layers_stay(w);
    w.whatif(["fork", "s@two", "child"]).go().ok();
    assert_eq!(w.exec("child", "cat first second").ok().stdout, "1\n2\n");
}

fn without_any_other_directory_it_goes_on(w: &World) {
    made(w);
    for name in ["transient", "names", "spare", "cache"] {
        let _ = w.outside(&format!("rm -rf {}/{name}", w.state.display()));
        layers_stay(w);
        w.whatif(["run", "--quiet", "--rm", "--", "true"]).go().ok();
        w.whatif(["start", "s"]).go().ok();
        w.whatif(["stop", "s"]).go().ok();
    }
    whole(w);
}

fn what_the_records_let_go_is_still_deleted(w: &World) {
    made(w);
    assert!(!layers(w).is_empty());
    w.whatif(["rm", "s", "--yes"]).go().ok();
    w.whatif(["gc"]).go().ok();
    assert_eq!(layers(w), "");
    assert_eq!(w.json(["gc"])["unknown_layers"], serde_json::json!([]));
}

/// The backup says that it runs, so the first command writes an older record after the newer ones.
fn an_older_record_does_not_count_for_more_than_a_newer_one(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo 1 > first").ok();
    let state = w.state.display();
    w.outside(&format!("mkdir {state}/../backup && cp {state}/state.db* {state}/../backup")).ok();
    w.exec("s", "echo 2 > second").ok();
    w.whatif(["snapshot", "s", "one"]).go().ok();
    w.whatif(["snapshot", "rm", "s@one"]).go().ok();
    w.exec("s", "echo 3 > third").ok();
    w.whatif(["stop", "s"]).go().ok();
    lose_database(w);
    w.outside(&format!("cp {state}/../backup/state.db* {state}/")).ok();

    w.whatif(["ls"]).go().ok();
    for command in [["diff", "s"].as_slice(), &["apply", "--yes", "s"], &["start", "s"], &["exec", "s", "--", "true"]] {
        w.whatif(command.iter().copied()).go().fails_with_hint(125).says("gc --adopt");
    }
    let before = layers(w);
    w.whatif(["gc", "--delete-unknown"]).go().ok();
    assert_eq!(layers(w), before, "what a sandbox says that it needs stays");
    assert_eq!(w.json(["gc", "--adopt"])["sandboxes"], serde_json::json!(["s"]));
    assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().stdout, "first\nsecond\nthird\n");
    w.whatif(["start", "s"]).go().ok();
    assert_eq!(w.exec("s", "cat first second third; echo 4 > fourth").ok().text(), "1\n2\n3");
    // Once is enough, and nothing falls back to it later.
    assert_eq!(w.json(["gc", "--adopt"])["sandboxes"], serde_json::json!([]));
    assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().stdout, "first\nfourth\nsecond\nthird\n");
}
