//! Missing is not empty: with any part of a sandbox gone from the state directory, every command that would need it refuses,
//! says what is missing, and touches nothing.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use whatif_e2e::{Outcome, World, as_root_and_user, on_other_backends};

as_root_and_user!(
    a_missing_layer_is_an_error_everywhere,
    part_of_a_layer_that_is_missing_is_an_error,
    what_a_layer_started_from_is_missed,
    a_missing_head_is_an_error_everywhere,
    one_tree_of_the_head_is_missed,
    a_missing_copy_is_no_deletion,
    a_missing_directory_is_an_error_and_its_snapshots_stay,
    a_layer_that_goes_under_a_living_sandbox_is_noticed,
    a_template_without_its_layer_starts_nothing,
    forks_and_rollbacks_go_by_what_they_need,
    what_never_was_is_not_missed,
    what_goes_while_a_command_runs_is_missed,
    nothing_runs_on_without_its_directory,
);
on_other_backends!(a_missing_layer_is_an_error_everywhere, a_missing_head_is_an_error_everywhere, what_never_was_is_not_missed);

/// A stopped sandbox with a snapshot `one`, a snapshot `two`, and a change since; the project has `kept` and `old`.
fn made(w: &World) -> PathBuf {
    w.outside("echo kept > kept; echo old > old").ok();
    w.new_sandbox("s");
    w.exec("s", "echo 1 > first; rm old").ok();
    w.whatif(["snapshot", "s", "one"]).go().ok();
    w.exec("s", "echo 2 > second").ok();
    w.whatif(["snapshot", "s", "two"]).go().ok();
    w.exec("s", "echo 3 > third").ok();
    w.whatif(["stop", "s"]).go().ok();
    PathBuf::from(w.json(["show", "s"])["directory"].as_str().expect("it has one"))
}

fn stack(w: &World) -> Vec<PathBuf> {
    let stack = w.json(["show", "s"])["details"]["position"]["stack"].clone();
    let ids = stack.as_array().expect("a list").iter().map(|id| id.as_str().expect("text").to_owned());
    ids.map(|id| w.state.join("layers").join(id)).collect()
}

fn delete(w: &World, path: &Path) {
    w.outside(&format!("chmod -R u+rwx {0}; rm -rf {0}", path.display())).ok();
    assert!(!path.exists());
}

/// The project is as it was.
#[track_caller]
fn nothing_happened(w: &World) {
    assert_eq!((w.read("kept").as_str(), w.read("old").as_str()), ("kept\n", "old\n"));
    for name in ["first", "second", "third"] {
        assert!(!w.project.join(name).exists(), "{name} became real");
    }
}

/// Says which sandbox, what is missing, and what to do.
#[track_caller]
fn refuses(outcome: Outcome, missing: &Path) {
    outcome.fails_with_hint(125).says("is incomplete").says("'s").says(&missing.display().to_string());
}

/// Everything that needs all of the sandbox.
const NEEDED: [&[&str]; 11] = [
    &["diff", "s"],
    &["diff", "s", "--name-only"],
    &["status", "s"],
    &["apply", "s", "--yes"],
    &["apply", "s", "--dry-run"],
    &["start", "s"],
    &["snapshot", "s", "three"],
    &["fork", "s", "f"],
    &["export", "s", "-o", "archive"],
    &["template", "save", "s", "t"],
    &["rebase", "s"],
];

#[track_caller]
fn refused_everywhere(w: &World, missing: &Path) {
    for command in NEEDED {
        refuses(w.whatif(command.iter().copied()).go(), missing);
        nothing_happened(w);
    }
    // A review needs a terminal, or speaks JSON.
    let review = w.whatif(["--json", "review", "s"]).go().exits(125);
    let said = format!("{}{}", review.stdout, review.stderr);
    assert!(said.contains("\"incomplete\"") && said.contains(&missing.display().to_string()), "{said}");
    named(w, missing);
}

/// `ls`, `show`, `doctor` and `gc` name it, and nothing is deleted.
#[track_caller]
fn named(w: &World, missing: &Path) {
    let text = missing.display().to_string();
    let names = |value: &Value| value.as_array().is_some_and(|all| all.iter().any(|m| m["path"] == text.as_str()));
    let listed = w.json(["ls"]);
    assert!(names(&listed[0]["missing"]), "{listed}");
    assert!(w.whatif(["ls"]).go().ok().stdout.contains(&text));
    assert!(names(&w.json(["show", "s"])["missing"]));
    let doctor = w.whatif(["--json", "doctor"]).go().json().to_string();
    assert!(doctor.contains(&text), "{doctor}");
    let before = w.outside(&format!("ls -R {0}/layers {0}/sandboxes 2>/dev/null; true", w.state.display())).ok().stdout;
    let collected = w.json(["gc"]);
    let incomplete = collected["incomplete"].as_array().cloned().unwrap_or_default();
    assert!(incomplete.iter().any(|one| names(&one["missing"])), "{collected}");
    assert_eq!(w.outside(&format!("ls -R {0}/layers {0}/sandboxes 2>/dev/null; true", w.state.display())).ok().stdout, before);
}

/// Layers of fuse-overlayfs stay as they are: it would mistake files for each other in merged ones.
fn merges_layers(w: &World) -> bool {
    w.backend() != "fuse"
}

fn a_missing_layer_is_an_error_everywhere(w: &World) {
    made(w);
    let layer = stack(w)[1].clone();
    delete(w, &layer);
    refused_everywhere(w, &layer);
    refuses(w.whatif(["rollback", "s", "one"]).go(), &layer);
    if merges_layers(w) {
        refuses(w.whatif(["squash", "s"]).go(), &layer);
    }
    // What is intact can be gone on with, and what is left can be given up.
    w.whatif(["fork", "s@one", "saved"]).go().ok();
    assert_eq!(w.exec("saved", "cat first; ls").ok().stdout, "1\nfirst\nkept\n");
    w.whatif(["rm", "s", "--yes"]).go().ok();
}

fn part_of_a_layer_that_is_missing_is_an_error(w: &World) {
    made(w);
    let layer = stack(w)[0].clone();
    let tree = fs::read_dir(&layer)
        .expect("it is a layer")
        .map(|e| e.expect("an entry").path())
        .find(|p| w.outside(&format!("find {} -name first | grep -q .", p.display())).code == 0)
        .expect("one tree has the change");
    delete(w, &tree);
    refused_everywhere(w, &tree);
    refuses(w.whatif(["rollback", "s", "one"]).go(), &tree);
}

fn what_a_layer_started_from_is_missed(w: &World) {
    made(w);
    let base = stack(w)[0].join("base");
    assert!(base.is_dir());
    delete(w, &base);
    refuses(w.whatif(["apply", "s", "--yes"]).go(), &base);
    nothing_happened(w);
    named(w, &base);
}

fn a_missing_head_is_an_error_everywhere(w: &World) {
    let directory = made(w);
    let head = directory.join("head");
    delete(w, &head);
    refused_everywhere(w, &head);
    refuses(w.whatif(["rollback", "s", "one"]).go(), &head);
    let said = w.whatif(["diff", "s"]).go().stderr;
    assert!(said.contains("whatif fork s@two"), "an intact snapshot is offered: {said}");
    w.whatif(["fork", "s@two", "saved"]).go().ok();
    assert_eq!(w.exec("saved", "cat first second").ok().stdout, "1\n2\n");
}

fn one_tree_of_the_head_is_missed(w: &World) {
    w.outside("echo kept > kept; echo old > old").ok();
    // Never snapshotted: kept by `run` as it is.
    w.whatif(["run", "--keep", "--quiet", "--name", "s", "--", "/bin/sh", "-c", "echo 1 > first"]).go().ok();
    let directory = PathBuf::from(w.json(["show", "s"])["directory"].as_str().expect("it has one"));
    let tree = fs::read_dir(directory.join("head"))
        .expect("it has a head")
        .map(|e| e.expect("an entry").path())
        .find(|p| w.outside(&format!("find {} -name first | grep -q .", p.display())).code == 0)
        .expect("one tree has the change");
    delete(w, &tree);
    refused_everywhere(w, &tree);
    // A `run` that ended starts again by itself, so this is what `exec` says too.
    refuses(w.whatif(["exec", "s", "--", "true"]).go(), &tree);
}

/// What is not in a copy was deleted; but not if there is no copy.
fn a_missing_copy_is_no_deletion(w: &World) {
    w.outside("echo kept > kept; echo old > old").ok();
    let script = "echo 1 > first";
    w.whatif(["run", "--backend", "copy", "--keep", "--quiet", "--name", "s", "--", "/bin/sh", "-c", script]).go().ok();
    let directory = PathBuf::from(w.json(["show", "s"])["directory"].as_str().expect("it has one"));
    let entries = fs::read_dir(directory.join("head")).expect("it has a head").map(|e| e.expect("an entry").path());
    // Without its inventory a copy counts as one of an earlier version: what differs from reality is a conflict.
    for head in entries.filter(|entry| entry.is_dir()) {
        delete(w, &head);
        refuses(w.whatif(["apply", "s", "--yes"]).go(), &head);
        nothing_happened(w);
        refuses(w.whatif(["diff", "s"]).go(), &head);
    }
}

fn a_missing_directory_is_an_error_and_its_snapshots_stay(w: &World) {
    let directory = made(w);
    delete(w, &directory);
    refused_everywhere(w, &directory);
    refuses(w.whatif(["rollback", "s", "one"]).go(), &directory);
    w.whatif(["fork", "s@two", "saved"]).go().ok();
    assert_eq!(w.exec("saved", "cat first second").ok().stdout, "1\n2\n");
    w.whatif(["rm", "s", "--yes"]).go().ok();
    assert_eq!(w.exec("saved", "cat first").ok().text(), "1");
}

fn a_layer_that_goes_under_a_living_sandbox_is_noticed(w: &World) {
    made(w);
    w.whatif(["start", "s"]).go().ok();
    w.exec("s", "true").ok();
    let layer = stack(w)[0].clone();
    let aside = w.dir.join("aside");
    fs::rename(&layer, &aside).expect("both are ours");
    refuses(w.whatif(["exec", "s", "--", "true"]).go(), &layer);
    refuses(w.whatif(["diff", "s"]).go(), &layer);
    // It can still be stopped, and goes on where it was when the layer is back.
    w.whatif(["stop", "s"]).go().ok();
    refuses(w.whatif(["start", "s"]).go(), &layer);
    fs::rename(&aside, &layer).expect("both are ours");
    w.whatif(["start", "s"]).go().ok();
    assert_eq!(w.exec("s", "cat first second third").ok().stdout, "1\n2\n3\n");
    // The same for its head.
    let head = PathBuf::from(w.json(["show", "s"])["directory"].as_str().expect("it has one")).join("head");
    fs::rename(&head, &aside).expect("both are ours");
    refuses(w.whatif(["exec", "s", "--", "true"]).go(), &head);
    w.whatif(["rm", "s", "--yes"]).go().ok();
    delete(w, &aside);
}

fn a_template_without_its_layer_starts_nothing(w: &World) {
    made(w);
    w.whatif(["template", "save", "s", "t"]).go().ok();
    let layer = stack(w)[0].clone();
    delete(w, &layer);
    let outcome = w.whatif(["run", "--template", "t", "--rm", "--", "true"]).go();
    outcome.fails_with_hint(125).says("template 't' is incomplete").says(&layer.display().to_string());
    w.whatif(["new", "n", "--template", "t"]).go().fails_with_hint(125).says("template 't'");
    w.whatif(["template", "ls"]).go().ok();
    w.whatif(["template", "rm", "t"]).go().ok();
}

fn forks_and_rollbacks_go_by_what_they_need(w: &World) {
    made(w);
    let layers = stack(w);
    delete(w, &layers[0]);
    for command in [&["fork", "s@two", "f"][..], &["fork", "s@one", "f"], &["diff", "s@one"], &["export", "s@two", "-o", "archive"]]
    {
        let outcome = w.whatif(command.iter().copied()).go();
        outcome.fails_with_hint(125).says("is incomplete").says(&layers[0].display().to_string());
    }
    assert_eq!(w.json(["ls"]).as_array().map(Vec::len), Some(1), "nothing was made");
}

/// Heads that nothing was mounted on, layers without some tree, a sandbox that was never started.
fn what_never_was_is_not_missed(w: &World) {
    made(w);
    w.whatif(["snapshot", "s", "at-rest"]).go().ok();
    w.whatif(["fork", "s", "child"]).go().ok();
    for name in ["s", "child"] {
        let listed = w.json(["show", name]);
        assert_eq!(listed["missing"], serde_json::json!([]), "{listed}");
        assert!(w.whatif(["diff", name, "--name-only"]).go().ok().stdout.contains("third"));
        w.whatif(["status", name]).go().ok();
    }
    w.whatif(["rollback", "s", "one"]).go().ok();
    w.whatif(["rollback", "s", "at-rest"]).go().ok();
    assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().stdout.lines().count(), 4);
    w.whatif(["start", "s"]).go().ok();
    assert_eq!(w.exec("s", "cat first second third").ok().stdout, "1\n2\n3\n");
    assert!(w.whatif(["gc"]).go().ok().stdout.contains("nothing to do"));
    if merges_layers(w) {
        w.whatif(["squash", "s"]).go().ok();
    }
    w.whatif(["apply", "s", "--yes"]).go().ok();
    assert_eq!(w.read("third"), "3\n");
}

/// A command that writes and waits, the deletion of something of its sandbox meanwhile, and what whatif says when it has ended.
fn with_deletion(w: &World, arguments: &[&str], part: &str) -> (i32, String) {
    let script = "echo work > work; echo begun; cat";
    let call = w.whatif(arguments.iter().copied().chain(["--", "/bin/sh", "-c", script]));
    let mut run = call.streams(Stdio::piped(), Stdio::piped(), Stdio::piped()).spawn();
    let mut word = [0; 5];
    run.stdout.as_mut().expect("it is piped").read_exact(&mut word).expect("it writes");
    for place in ["transient", "sandboxes"] {
        for entry in fs::read_dir(w.state.join(place)).expect("it is there") {
            fs::remove_dir_all(entry.expect("it can be read").path().join(part)).expect("it is ours");
        }
    }
    drop(run.stdin.take());
    let ended = run.wait_with_output().expect("it is our child");
    (ended.status.code().expect("it exits"), String::from_utf8_lossy(&ended.stderr).into_owned())
}

fn what_goes_while_a_command_runs_is_missed(w: &World) {
    for part in ["head", ""] {
        for arguments in [&["run", "--name", "s"][..], &["run", "-q", "--name", "s"]] {
            let (code, said) = with_deletion(w, arguments, part);
            assert!(code == 125 && said.contains("its changes are gone"), "{part} {arguments:?}: {code} {said}");
            assert!(said.contains("hint") && said.contains("whatif rm s") && !said.contains(" changed ("), "{said}");
            w.whatif(["rm", "s"]).go().ok();
            w.assert_nothing_left();
        }
        w.new_sandbox("s");
        let (code, said) = with_deletion(w, &["exec", "-i", "s"], part);
        assert!(code == 125 && said.contains("its changes are gone"), "{part} exec: {code} {said}");
        w.whatif(["rm", "s"]).go().ok();
        w.assert_nothing_left();
    }
    let (_, said) = with_deletion(w, &["run", "--rm", "--name", "s"], "head");
    assert!(said.contains("is not known") && !said.contains("nothing changed"), "{said}");
}

fn nothing_runs_on_without_its_directory(w: &World) {
    w.new_sandbox("s");
    fs::remove_dir_all(w.json(["show", "s"])["directory"].as_str().expect("it has one")).expect("it is ours");
    w.whatif(["rm", "s"]).go().ok();
    assert_eq!(w.whatif(["gc"]).go().ok().text(), "nothing to do");
    w.assert_nothing_left();
}
