//! What recovery and `gc` make of notes and directories whose records are lost, incomplete or older than they are: nothing that may
//! be somebody's work is deleted.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde_json::json;
use whatif_e2e::{World, as_root_and_user, eventually, on_other_backends};

as_root_and_user!(
    a_note_that_cannot_be_read_stops_deletion,
    a_note_keeps_its_layer_from_deletion,
    work_in_a_new_head_is_not_deleted_for_an_old_one,
    a_sandbox_that_ran_is_kept_without_its_record,
    a_copy_is_kept_without_its_record_if_it_was_written_to,
    a_layer_says_where_it_comes_from,
);

on_other_backends!(work_in_a_new_head_is_not_deleted_for_an_old_one);

const LAYER: &str = "0123456789ab";

fn id_of(w: &World, name: &str) -> String {
    w.json(["show", name])["id"].as_str().expect("it has an id").to_owned()
}

/// A stopped sandbox with something in its head, which is returned.
fn stopped(w: &World, name: &str) -> PathBuf {
    w.new_sandbox(name);
    w.exec(name, "echo work > work").ok();
    w.whatif(["stop", name]).go().ok();
    w.state.join("sandboxes").join(id_of(w, name)).join("head")
}

/// A layer that no record names.
fn stray_layer(w: &World) -> PathBuf {
    let layer = w.state.join("layers").join(LAYER);
    w.write(layer.join("0/file"), "frozen\n");
    layer
}

fn note(w: &World, sandbox: &str, text: &str) -> PathBuf {
    w.write(w.state.join("transient").join(format!("shift-{sandbox}")), text)
}

fn files_in(directory: &PathBuf) -> usize {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|e| e.path())
        .fold(0, |sum, path| sum + if path.is_dir() { files_in(&path) } else { 1 })
}

fn a_note_that_cannot_be_read_stops_deletion(w: &World) {
    stopped(w, "a");
    let layer = stray_layer(w);
    // As a power cut leaves it: the name is there and the bytes are not.
    let note = note(w, &id_of(w, "a"), "");
    let collected = w.whatif(["gc"]).go();
    assert_ne!(collected.code, 0, "{}", collected.stdout);
    assert!(collected.stderr.contains("shift-"), "{}", collected.stderr);
    assert!(layer.join("0/file").exists());
    fs::remove_file(note).expect("it is still there");
    w.whatif(["gc", "--delete-unknown"]).go().ok();
    assert!(!layer.exists());
}

fn a_note_keeps_its_layer_from_deletion(w: &World) {
    stopped(w, "a");
    let layer = stray_layer(w);
    // Its sandbox is gone; the layer may be all that is left of it.
    let note = note(w, "cccccccccccc", &format!(r#"{{"sandbox":"cccccccccccc","layer":"{LAYER}"}}"#));
    let _ = w.whatif(["gc"]).go();
    assert!(layer.join("0/file").exists());
    fs::remove_file(note).expect("it is still there");
}

fn work_in_a_new_head_is_not_deleted_for_an_old_one(w: &World) {
    let head = stopped(w, "a");
    let before = files_in(&head);
    assert!(before > 0);
    let layer = stray_layer(w);
    let id = id_of(w, "a");
    let note = note(w, &id, &format!(r#"{{"sandbox":"{id}","layer":"{LAYER}"}}"#));
    let listed = w.whatif(["ls"]).go().ok();
    assert!(listed.stderr.contains("there is work in"), "{}", listed.stderr);
    assert_eq!(files_in(&head), before);
    assert!(layer.join("0/file").exists());
    fs::remove_file(note).expect("it is still there");
}

fn a_sandbox_that_ran_is_kept_without_its_record(w: &World) {
    w.new_sandbox("a");
    let lost = w.state.join("transient/dddddddddddd");
    w.write(lost.join("head/0/work"), "work\n");
    w.mkdir(&lost.join("work/0/work"));
    let path = lost.to_string_lossy().into_owned();
    w.program("/usr/bin/setfattr").args(["-n", "user.whatif.owner", "-v", "1", path.as_str()]).go().ok();
    w.whatif(["ls"]).go().ok();
    let settled = w.state.join("sandboxes/dddddddddddd");
    assert_eq!(fs::read_to_string(settled.join("head/0/work")).ok().as_deref(), Some("work\n"));
    fs::remove_dir_all(settled).expect("it is ours");
}

/// A copy is full from the beginning; what is newer than its inventory is work.
fn a_copy_is_kept_without_its_record_if_it_was_written_to(w: &World) {
    w.new_sandbox("a");
    for (id, is_written) in [("dddddddddddd", true), ("ffffffffffff", false)] {
        let lost = w.state.join("transient").join(id);
        let file = w.write(lost.join("head/0/file"), "copied\n");
        let inventory = w.write(lost.join("head/copied-0"), "whatif copied 2\nend\n");
        w.mkdir(&lost.join("work/0"));
        if is_written {
            let copied = fs::metadata(inventory).expect("it was just written");
            eventually("the clock of the file system moves on", || {
                w.write(&file, "work\n");
                let written = fs::metadata(&file).expect("it was just written");
                (written.ctime(), written.ctime_nsec()) > (copied.mtime(), copied.mtime_nsec())
            });
        }
        let path = lost.to_string_lossy().into_owned();
        w.program("/usr/bin/setfattr").args(["-n", "user.whatif.owner", "-v", "1", path.as_str()]).go().ok();
        w.whatif(["ls"]).go().ok();
        let settled = w.state.join("sandboxes").join(id);
        let kept = fs::read_to_string(settled.join("head/0/file")).ok();
        assert_eq!(kept.as_deref(), is_written.then_some("work\n"));
        assert!(!lost.exists());
        if is_written {
            fs::remove_dir_all(settled).expect("it is ours");
        }
    }
}

fn a_layer_says_where_it_comes_from(w: &World) {
    w.new_sandbox("a");
    let stacks = ["one", "two"].map(|label| {
        w.exec("a", &format!("echo {label} > {label}")).ok();
        w.snapshot("a", label)["snapshot"]["stack"].clone()
    });
    for (place, below) in [(0, json!(null)), (1, stacks[1][0].clone())] {
        let layer = w.state.join("layers").join(stacks[1][place].as_str().expect("a layer has an id"));
        let path = layer.to_string_lossy().into_owned();
        let mark = w.program("/usr/bin/getfattr").args(["--only-values", "-n", "user.whatif.layer", path.as_str()]).go().ok();
        let mark: serde_json::Value = serde_json::from_str(&mark.stdout).expect("a mark is a document");
        assert_eq!(mark, json!({ "sandbox": id_of(w, "a"), "below": below }));
    }
}
