//! Records that are locked, damaged, lost or cannot be written (DR-07): it is said, nobody hangs, and nothing is lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use whatif_e2e::{World, as_root_and_user, as_user, assert_same, eventually, needs};

as_root_and_user!(
    records_locked_by_somebody_else_are_waited_for,
    records_that_are_damaged_lose_nothing,
    records_that_are_gone_lose_nothing,
    a_lost_log_of_the_records_loses_no_head,
);
as_user!(
    // It waits for as long as patience lasts, whoever asks.
    a_lock_on_the_records_that_never_ends_is_an_error_and_no_hang,
    // Root writes whatever the modes say; for root a read-only mount is tried with the other troubles.
    a_state_directory_that_cannot_be_written_can_be_read_and_used,
);

fn kill_by_id(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid is not zero");
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn find(directory: &Path, name: &str) -> Option<PathBuf> {
    let entries: Vec<PathBuf> = fs::read_dir(directory).ok()?.filter_map(Result::ok).map(|e| e.path()).collect();
    let here = entries.iter().find(|p| p.file_name().is_some_and(|n| n == name)).cloned();
    here.or_else(|| entries.iter().filter(|p| p.is_dir() && !p.is_symlink()).find_map(|p| find(p, name)))
}

/// Holds the records' write lock until it is told to end.
fn hold_records(w: &World) -> Child {
    let program = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], isolation_level=None)\ndb.execute('BEGIN EXCLUSIVE')\nprint('held', flush=True)\nsys.stdin.read()\ndb.execute('ROLLBACK')";
    let database = w.state.join("state.db").display().to_string();
    let call = w.program("/usr/bin/python3").args(["-c", program, &database]);
    let mut holder = call.streams(Stdio::piped(), Stdio::piped(), Stdio::null()).spawn();
    let mut word = [0; 5];
    std::io::Read::read_exact(holder.stdout.as_mut().expect("it is piped"), &mut word).expect("it gets the lock");
    holder
}

/// DR-07.
fn records_locked_by_somebody_else_are_waited_for(w: &World) {
    needs!(w, "python3");
    w.new_sandbox("one");
    let mut holder = hold_records(w);
    let making = w.whatif(["new", "two"]);
    let making = std::thread::spawn(move || making.go());
    // Who needs no record to be written does not wait.
    assert_eq!(w.exec("one", "echo works").ok().text(), "works");
    assert_eq!(w.whatif(["ls", "-q"]).go().ok().text(), "one");
    assert!(!making.is_finished(), "it waits");
    drop(holder.stdin.take());
    making.join().expect("no panic").ok();
    let _ = holder.wait();
    assert_eq!(w.json(["ls"]).as_array().map(Vec::len), Some(2));
}

/// DR-07: all of them at once, because each waits for as long as patience lasts.
fn a_lock_on_the_records_that_never_ends_is_an_error_and_no_hang(w: &World) {
    needs!(w, "python3");
    w.new_sandbox("one");
    w.exec("one", "echo kept > made").ok();
    wait_for_others(w);
    let before = w.inventory();
    let holder = hold_records(w);
    let calls = [
        vec!["new", "two"],
        vec!["run", "--", "true"],
        vec!["new", "--idempotency-key", "k", "three"],
        vec!["snapshot", "one", "label"],
    ];
    let running: Vec<_> = calls
        .iter()
        .map(|arguments| (arguments.clone(), w.whatif(arguments.iter().copied())))
        .map(|(arguments, call)| std::thread::spawn(move || (arguments.join(" "), call.go())))
        .collect();
    for thread in running {
        let (command, outcome) = thread.join().expect("it ends in time");
        assert_eq!(outcome.code, 125, "{command}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("records") && outcome.stderr.contains("hint:"), "{command}: {}", outcome.stderr);
    }
    end(holder);
    w.whatif(["gc"]).go().ok();
    w.assert_inventory_is(&before, "nothing was half made");
    assert_eq!(w.exec("one", "cat made").ok().text(), "kept");
    w.snapshot("one", "label");
}

/// A sandbox that runs and one that does not, each with a layer and work in its head.
fn two_sandboxes(w: &World) {
    for name in ["runs", "rests"] {
        w.new_sandbox(name);
        w.exec(name, "echo 1 > one").ok();
        w.snapshot(name, "label");
        w.exec(name, "echo 2 > two").ok();
    }
    w.whatif(["stop", "rests"]).go().ok();
}

#[track_caller]
fn assert_two_sandboxes(w: &World, context: &str) {
    w.whatif(["start", "rests"]).go().ok();
    for name in ["runs", "rests"] {
        assert_eq!(w.exec(name, "cat one two").ok().stdout, "1\n2\n", "{name} {context}");
        assert_eq!(w.labels(name), ["label"], "{name} {context}");
        w.rollback(name, "label");
        assert_eq!(w.exec(name, "cat one; ls two 2>/dev/null").stdout, "1\n", "{name} {context}");
        w.rollback(name, "before-rollback-2");
        assert_eq!(w.exec(name, "cat one two").ok().stdout, "1\n2\n", "{name} {context}");
    }
}

/// Everything a person might try with records that cannot be used.
fn try_everything(w: &World) {
    let commands: [&[&str]; 10] = [
        &["ls"],
        &["gc"],
        &["run", "--", "true"],
        &["new", "other"],
        &["rm", "runs"],
        &["rm", "--all", "--yes"],
        &["stop", "runs"],
        &["start", "rests"],
        &["snapshot", "runs", "again"],
        &["diff", "rests"],
    ];
    for command in commands {
        w.whatif(command.iter().copied()).go().fails_with_hint(125).says("records");
    }
}

/// Until there are only keepers left, which use no records.
fn wait_for_others(w: &World) {
    eventually("nobody uses the records", || w.processes().iter().all(|p| p.contains(" keeper ")));
}

/// Puts the records aside, waiting for who still writes to them.
fn put_aside(w: &World, name: &str) {
    wait_for_others(w);
    w.outside(&format!("cd {state} && mkdir {name} && cp -p state.db* {name}/ && rm state.db*", state = w.state.display())).ok();
}

fn put_back(w: &World, name: &str) {
    wait_for_others(w);
    w.outside(&format!("cd {state} && rm -f state.db* && mv {name}/* . && rmdir {name}", state = w.state.display())).ok();
}

/// DR-07: no database any more, a page of garbage in the middle, cut short.
fn records_that_are_damaged_lose_nothing(w: &World) {
    two_sandboxes(w);
    let layers = w.frozen();
    let damages = [
        "head -c 65536 /dev/urandom > state.db",
        "cp kept/state.db . && head -c 600 /dev/urandom | dd of=state.db conv=notrunc bs=1 status=none",
        "mkdir state.db",
    ];
    for damage in damages {
        put_aside(w, "kept");
        w.outside(&format!("cd {} && {damage}", w.state.display())).ok();
        try_everything(w);
        assert_eq!(w.exec("runs", "cat one two").ok().stdout, "1\n2\n", "who needs no records goes on: {damage}");
        w.outside(&format!("cd {} && rm -rf state.db*", w.state.display())).ok();
        put_back(w, "kept");
        assert_same(&layers, &w.frozen());
        assert_eq!(w.json(["ls"]).as_array().map(Vec::len), Some(2), "{damage}");
    }
    assert_two_sandboxes(w, "after the records were mended");
}

/// DR-07: moved away, as advice for damaged records might be, and then cleaned up after.
fn records_that_are_gone_lose_nothing(w: &World) {
    two_sandboxes(w);
    let layers = w.frozen();
    put_aside(w, "kept");
    assert_eq!(w.json(["ls"]), serde_json::json!([]));
    let collected = w.json(["gc"]);
    assert_eq!(collected["unknown"].as_array().map(Vec::len), Some(2), "they are named, not deleted: {collected}");
    // A life goes on meanwhile.
    w.new_sandbox("other");
    w.exec("other", "echo x > x").ok();
    w.snapshot("other", "one");
    w.whatif(["rm", "other"]).go().ok();
    w.whatif(["gc"]).go().ok();
    let mut now = w.frozen();
    // What came since may stay; what was there must.
    now.retain(|path, _| layers.contains_key(path) && *path != w.layers());
    let mut before = layers;
    before.remove(&w.layers());
    assert_same(&before, &now);
    put_back(w, "kept");
    assert_two_sandboxes(w, "after the records were found again");
}

/// DR-07: the newest entries of the records are gone, as after a copy that forgot them.
fn a_lost_log_of_the_records_loses_no_head(w: &World) {
    w.new_sandbox("recorded");
    w.exec("recorded", "echo kept > made").ok();
    // What is recorded by now is in the file itself.
    w.whatif(["tidy"]).go().ok();
    w.new_sandbox("forgotten");
    w.exec("forgotten", "echo kept > made").ok();
    let place = w.directory("forgotten");
    wait_for_others(w);
    w.outside(&format!("cd {} && rm state.db-wal state.db-shm", w.state.display())).ok();
    assert_eq!(w.exec("recorded", "cat made").ok().text(), "kept");
    let collected = w.json(["gc"]);
    let unknown = collected["unknown"].to_string();
    let listed = w.json(["ls"]).to_string();
    assert!(unknown.contains(&place.display().to_string()) || listed.contains("forgotten"), "{collected} {listed}");
    assert!(find(&place.join("head"), "made").is_some(), "its head is there");
    // A new one by the same name is another one, or is refused; nothing is mixed up.
    let _ = w.whatif(["new", "forgotten"]).go();
    assert!(find(&place.join("head"), "made").is_some(), "its head is there");
    for line in w.processes().iter().filter(|l| l.contains(" keeper ")) {
        kill_by_id(line.split(' ').next().and_then(|p| p.parse().ok()).expect("a line begins with the pid"));
    }
    eventually("its keeper is gone", || w.processes().is_empty());
    w.outside(&format!("chmod -R u+rwx {place}; rm -rf {place}", place = place.display())).ok();
}

/// DR-07 and "a read-only state directory", for whoever owns it.
fn a_state_directory_that_cannot_be_written_can_be_read_and_used(w: &World) {
    two_sandboxes(w);
    wait_for_others(w);
    let state = w.state.display();
    w.outside(&format!("chmod u-w {state} {state}/* {state}/sandboxes/*")).ok();
    assert_eq!(w.whatif(["ls", "-q"]).go().ok().stdout.lines().count(), 2);
    w.whatif(["show", "rests"]).go().ok();
    assert_eq!(w.exec("runs", "cat one two").ok().stdout, "1\n2\n");
    for command in [
        vec!["new", "other"],
        vec!["run", "--", "true"],
        vec!["start", "rests"],
        vec!["rm", "rests"],
        vec!["snapshot", "runs", "x"],
    ] {
        let outcome = w.whatif(command.clone()).go();
        assert_eq!(outcome.code, 125, "{command:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("hint:"), "{command:?}: {}", outcome.stderr);
    }
    w.outside(&format!("chmod u+w {state} {state}/* {state}/sandboxes/*")).ok();
    assert_two_sandboxes(w, "after it could be written again");
}
