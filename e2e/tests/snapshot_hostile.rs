//! A process that holds on to its sandbox's files in every way there is. Whatever it writes after a snapshot, the snapshot is
//! what it was, to the last byte, and so are the layers it is made of; and nothing it does is disturbed.

use serde_json::{Value, json};
use whatif_e2e::{Canary, Listing, World, as_root, as_root_and_user, assert_same, eventually, skip};

as_root_and_user!(
    a_snapshot_is_out_of_reach_of_every_held_file,
    a_snapshot_may_end_whoever_is_in_the_way,
    a_snapshot_or_a_rollback_may_be_refused_instead,
    a_rollback_ends_whoever_holds_anything,
    sockets_in_the_project_still_answer,
    who_is_in_memory_only_goes_on,
    a_lock_is_still_held,
    nothing_is_copied_without_a_reason,
);
as_root!(a_root_of_its_own_is_no_way_around);

const WRITER: &str = include_str!("snapshots/writer.py");

/// Ways to hold a file or a directory.
const WAYS: [&str; 16] = [
    "descriptor",
    "appending",
    "reading",
    "path_only",
    "mapping",
    "mapping_to_be",
    "directory",
    "path_directory",
    "standing",
    "flying_file",
    "flying_directory",
    "unlinked",
    "nameless",
    "thread",
    "orphaned_thread",
    "storm",
];

/// Some of them, for what does not depend on the way.
const SOME_WAYS: [&str; 5] = ["descriptor", "mapping", "flying_directory", "orphaned_thread", "storm"];

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
        let prepare =
            "echo before > held; truncate -s 4096 held; mkdir sub; cd sub; for f in inner moved doomed; do echo $f > $f; done";
        w.exec(&name, prepare).ok();
        let project = w.project.display().to_string();
        w.whatif(["exec", &name, "-d", "--", "/usr/bin/python3", "-ISc", WRITER, way, &project]).go().ok();
        let held = Self { before: Listing::default(), w, name, way };
        eventually(&format!("the writer holds by {way}: {}", held.logs()), || {
            held.w.exec(&held.name, "test -e /tmp/ready").code == 0
        });
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
    for way in WAYS {
        if way == "nameless" && w.backend() == "fuse" {
            let program = "import os; os.open('.', os.O_TMPFILE | os.O_RDWR)";
            let refused = w.whatif(["run", "--rm", "--quiet", "--", "/usr/bin/python3", "-ISc", program]).go();
            assert!(refused.stderr.contains("Operation not supported"), "{refused:?}");
            skip("not on fuse: fuse-overlayfs makes no files without a name, so none can be held");
            continue;
        }
        let held = Held::new(w, way);
        let taken = w.snapshot(&held.name, "kept");
        let layers = w.frozen();
        assert_eq!((&taken["copied"], &taken["ended"]), (&true.into(), &json!([])), "{way} is alive: {taken}");
        let tried = held.go();
        held.assert_untouched("kept", &layers, &tried);
        held.assert_went_on(&tried);
        w.exec(&held.name, "echo afterwards > afterwards").ok();
        held.remove();
    }
}

fn a_snapshot_may_end_whoever_is_in_the_way(w: &World) {
    for way in SOME_WAYS {
        let held = Held::new(w, way);
        let taken = w.json(["snapshot", &held.name, "kept", "--live", "stop"]);
        assert_eq!(taken["copied"], false, "{way}: {taken}");
        assert!(taken["ended"].as_array().is_some_and(|e| !e.is_empty()), "{way}: who was ended is said: {taken}");
        assert!(way == "orphaned_thread" || taken["ended"].to_string().contains("python3"), "{way}: {taken}");
        let layers = w.frozen();
        w.exec(&held.name, "echo AFTER > held; echo AFTER > sub/inner; rm sub/doomed").ok();
        held.assert_untouched("kept", &layers, &Value::Null);
        held.remove();
    }
}

fn a_snapshot_or_a_rollback_may_be_refused_instead(w: &World) {
    for way in SOME_WAYS {
        let held = Held::new(w, way);
        w.snapshot(&held.name, "first");
        for command in [["snapshot", &held.name, "second"], ["rollback", &held.name, "first"]] {
            let refused = w.whatif(["--json"]).args(command).args(["--live", "refuse"]).go().exits(125);
            assert!(refused.stderr.contains("in_use"), "{way}: {command:?} {} {}", refused.stdout, refused.stderr);
        }
        assert_eq!(w.labels(&held.name), ["first"], "{way}: nothing was taken");
        held.assert_went_on(&held.go());
        held.remove();
    }
}

fn a_rollback_ends_whoever_holds_anything(w: &World) {
    for way in SOME_WAYS {
        let held = Held::new(w, way);
        w.snapshot(&held.name, "start");
        w.exec(&held.name, "echo more > more").ok();
        let done = w.rollback(&held.name, "start");
        assert!(done["ended"].as_array().is_some_and(|e| !e.is_empty()), "{way}: who was ended is said: {done}");
        let layers = w.frozen();
        held.assert_untouched("start", &layers, &Value::Null);
        let before = done["before"]["label"].as_str().unwrap_or_else(|| panic!("{way}: what it was is kept: {done}"));
        let fork = w.fork(&format!("{}@{before}", held.name), "undone");
        assert_eq!(w.exec(&fork, "cat more; head -c 7 held; cat sub/doomed").ok().stdout, "more\nbefore\ndoomed\n", "{way}");
        w.whatif(["rm", &fork]).go().ok();
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

/// The control: when nobody is alive, nothing is copied.
fn nothing_is_copied_without_a_reason(w: &World) {
    let name = w.new_sandbox("s");
    w.exec(&name, "echo x > f").ok();
    assert_eq!(w.snapshot(&name, "alone")["copied"], false);
    w.exec(&name, "echo y > f").ok();
    w.whatif(["exec", &name, "-d", "--cwd", "/", "--", "sleep", "1000"]).go().ok();
    let taken = w.snapshot(&name, "beside");
    assert_eq!((&taken["copied"], &taken["ended"]), (&true.into(), &json!([])), "{taken}");
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
