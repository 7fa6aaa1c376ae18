//! A process that holds on to its sandbox's files in every way there is. Whatever it writes after a snapshot, the snapshot is
//! what it was, to the last byte, and so are the layers it is made of.

use serde_json::Value;
use whatif_e2e::{Canary, Listing, World, as_root, as_root_and_user, assert_same, eventually};

as_root_and_user!(
    a_snapshot_is_out_of_reach_of_every_held_file,
    a_snapshot_may_end_whoever_is_in_the_way,
    a_snapshot_may_be_refused_instead,
    a_rollback_leaves_nothing_to_write_to,
    threads_are_seen_and_go_on,
    sockets_in_the_project_still_answer,
    who_is_in_memory_only_goes_on,
    nothing_is_copied_without_a_reason,
    a_lock_is_still_held,
);
as_root!(a_root_of_its_own_is_no_way_around);

const WRITER: &str = include_str!("snapshots/writer.py");

/// Ways to hold a file or a directory such that it can still be written. Of these a copy must be made.
const WRITABLE: [&str; 10] = [
    "descriptor",
    "appending",
    "mapping",
    "mapping_to_be",
    "directory",
    "path_directory",
    "standing",
    "flying_file",
    "unlinked",
    "nameless",
];
/// Ways that are no reason for a copy, or not seen.
const OTHERS: [&str; 4] = ["reading", "path_only", "flying_directory", "storm"];

/// A sandbox in which the writer holds on by one way.
struct Held<'a> {
    w: &'a World,
    name: String,
    way: &'static str,
    before: Listing,
}

impl<'a> Held<'a> {
    fn new(w: &'a World, way: &'static str) -> Self {
        let name = w.new_sandbox(&format!("{}-x", way.replace('_', "-")));
        let prepare = "echo before > held; truncate -s 4096 held; mkdir sub; cd sub; for f in inner moved doomed; do echo $f > $f; done";
        w.exec(&name, prepare).ok();
        let project = w.project.display().to_string();
        w.whatif(["exec", &name, "-d", "--", "/usr/bin/python3", "-ISc", WRITER, way, &project]).go().ok();
        let held = Self { before: Listing::default(), w, name, way };
        eventually(&format!("the writer holds by {way}: {}", held.logs()), || held.w.exec(&held.name, "test -e /tmp/ready").code == 0);
        Self { before: held.w.listing(&held.name), ..held }
    }

    fn logs(&self) -> String {
        self.w.whatif(["logs", &self.name]).go().stdout
    }

    /// Lets it try, and returns what came of it.
    #[track_caller]
    fn go(&self) -> Value {
        self.w.exec(&self.name, "touch /tmp/go").ok();
        eventually(&format!("the writer by {} reports", self.way), || self.w.exec(&self.name, "test -e /tmp/report").code == 0);
        self.w.exec(&self.name, "cat /tmp/report").ok().json()
    }

    #[track_caller]
    fn assert_untouched(&self, label: &str, layers: &Canary, tried: &Value) {
        let context = format!("{label}, held by {}, which tried {tried}", self.way);
        let now = self.w.listing_of(&format!("{}@{label}", self.name));
        // A storm writes from before to after; what it wrote until the snapshot is part of that.
        if self.way != "storm" {
            now.assert_is(&self.before, &context);
        }
        assert_same(layers, &self.w.frozen());
    }

    /// It was not disturbed: what it held could be written.
    #[track_caller]
    fn assert_went_on(&self, tried: &Value) {
        let refused = |answer: &Value| answer == "Read-only file system";
        let disturbed = tried.as_object().is_none_or(|t| t.is_empty() || t.values().any(refused));
        assert!(!disturbed, "held by {}, it goes on: {tried}", self.way);
    }

    fn remove(self) {
        self.w.whatif(["rm", &self.name]).go().ok();
    }
}

fn a_snapshot_is_out_of_reach_of_every_held_file(w: &World) {
    for way in WRITABLE.into_iter().chain(OTHERS) {
        let held = Held::new(w, way);
        let taken = w.snapshot(&held.name, "kept");
        let layers = w.frozen();
        assert!(taken["ended"].as_array().is_some_and(Vec::is_empty), "{way}: {taken}");
        if WRITABLE.contains(&way) {
            assert_eq!(taken["copied"], true, "{way} can write, so the head is copied: {taken}");
        }
        let tried = held.go();
        held.assert_untouched("kept", &layers, &tried);
        if WRITABLE.contains(&way) {
            held.assert_went_on(&tried);
        }
        w.exec(&held.name, "echo afterwards > afterwards").ok();
        held.remove();
    }
}

fn a_snapshot_may_end_whoever_is_in_the_way(w: &World) {
    for way in WRITABLE.into_iter().chain(OTHERS) {
        let held = Held::new(w, way);
        let taken = w.json(["snapshot", &held.name, "kept", "--live", "stop"]);
        let ended = taken["ended"].to_string();
        assert_eq!(taken["copied"], false, "{way}: {taken}");
        assert!(ended.contains("python3"), "{way}: who was ended is said: {taken}");
        let layers = w.frozen();
        w.exec(&held.name, "echo AFTER > held; echo AFTER > sub/inner; rm sub/doomed").ok();
        held.assert_untouched("kept", &layers, &Value::Null);
        held.remove();
    }
}

fn a_snapshot_may_be_refused_instead(w: &World) {
    for way in WRITABLE {
        let held = Held::new(w, way);
        let refused = w.whatif(["--json", "snapshot", &held.name, "kept", "--live", "refuse"]).go().exits(125);
        assert!(refused.stderr.contains("in_use"), "{way}: {} {}", refused.stdout, refused.stderr);
        assert!(w.labels(&held.name).is_empty(), "{way}: nothing was taken");
        let tried = held.go();
        held.assert_went_on(&tried);
        held.remove();
    }
}

/// With `--keep-running`, who holds on to what was goes on, and can change nothing of it.
fn a_rollback_leaves_nothing_to_write_to(w: &World) {
    for way in WRITABLE.into_iter().chain(OTHERS).filter(|way| *way != "storm") {
        let held = Held::new(w, way);
        let first = w.whatif(["--json", "rollback", &held.name, "nothing"]).go();
        assert_eq!(first.code, 125, "there is none yet");
        let taken = w.whatif(["--json", "snapshot", &held.name, "start"]).go().ok().json();
        w.exec(&held.name, "echo more > more").ok();
        let done = w.whatif(["--json", "rollback", "--keep-running", &held.name, "start"]).go();
        if done.code != 0 {
            assert!(done.stderr.contains("in_use"), "{way}: {} {}", done.stdout, done.stderr);
            assert_eq!(w.exec(&held.name, "cat more").ok().text(), "more", "{way}: nothing has happened");
            assert_eq!(taken["copied"], true, "{way}: {taken}");
            let layers = w.frozen();
            let tried = held.go();
            held.assert_untouched("start", &layers, &tried);
            held.remove();
            continue;
        }
        let layers = w.frozen();
        let before = done.json()["before"]["label"].as_str().map(str::to_owned);
        let tried = held.go();
        held.assert_untouched("start", &layers, &tried);
        if let Some(label) = before {
            let fork = w.fork(&format!("{}@{label}", held.name), "undone");
            assert_eq!(w.exec(&fork, "cat more; head -c 7 held; cat sub/doomed").ok().stdout, "more\nbefore\ndoomed\n", "{way}");
            w.whatif(["rm", &fork]).go().ok();
        }
        held.remove();
    }
}

/// Each thread can have a working directory of its own, and the one that all the others are named after may be gone.
fn threads_are_seen_and_go_on(w: &World) {
    for way in ["thread", "orphaned_thread"] {
        let held = Held::new(w, way);
        w.snapshot(&held.name, "kept");
        let layers = w.frozen();
        let tried = held.go();
        held.assert_untouched("kept", &layers, &tried);
        held.assert_went_on(&tried);
        let stopped = w.json(["snapshot", &held.name, "stopped", "--live", "stop"]);
        assert!(stopped["ended"].as_array().is_some_and(|e| e.len() == 1), "{way}: who was ended is said: {stopped}");
        held.remove();
    }
}

fn sockets_in_the_project_still_answer(w: &World) {
    for way in ["listening", "listening_nearby"] {
        let held = Held::new(w, way);
        w.snapshot(&held.name, "kept");
        assert_eq!(held.go()["connect"], "done", "{way}");
        held.remove();
    }
}

/// Standing in `/tmp` is no reason to copy anything, or to be cut off.
fn who_is_in_memory_only_goes_on(w: &World) {
    let held = Held::new(w, "memory");
    w.snapshot(&held.name, "kept");
    let tried = held.go();
    assert!(tried.as_object().is_some_and(|t| t.values().all(|v| v == "done")), "{tried}");
}

/// The control: without anybody in the way, nothing is copied.
fn nothing_is_copied_without_a_reason(w: &World) {
    let name = w.new_sandbox("s");
    w.exec(&name, "echo x > f").ok();
    w.whatif(["exec", &name, "-d", "--cwd", "/", "--", "sleep", "1000"]).go().ok();
    let taken = w.snapshot(&name, "kept");
    assert_eq!((&taken["copied"], &taken["ended"]), (&false.into(), &serde_json::json!([])), "{taken}");
    assert!(w.whatif(["ps", &name]).go().ok().stdout.contains("sleep 1000"));
}

fn a_lock_is_still_held(w: &World) {
    let held = Held::new(w, "locked");
    w.snapshot(&held.name, "kept");
    assert_eq!(held.go()["second"], "Resource temporarily unavailable", "nobody else gets it");
}

fn a_root_of_its_own_is_no_way_around(w: &World) {
    let held = Held::new(w, "rooted");
    w.snapshot(&held.name, "kept");
    let layers = w.frozen();
    let tried = held.go();
    held.assert_untouched("kept", &layers, &tried);
    assert_eq!(tried["create"], "done", "it goes on, and can write: {tried}");
}
