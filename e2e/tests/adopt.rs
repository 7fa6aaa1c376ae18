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
