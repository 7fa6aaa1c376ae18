//! Snapshots, rollbacks, forks and merges that are killed, or fail, at any moment: after the next command everything is as it
//! was before, or as it must become. No layer is missing, nothing is half done, nothing runs that should not.
//!
//! Moments are chosen twice: by the clock, and by system call. By default a few of each, `WHATIF_SWEEP=full` for every call, and
//! `WHATIF_KILLS=1000` for that many moments; `WHATIF_SEED=7` for other ones.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use whatif_e2e::{Fault, Listing, Point, Random, World, as_root_and_user, needs, sample, wait_for};

as_root_and_user!(
    killed_by_the_clock_it_happened_or_did_not,
    killed_at_a_system_call_it_happened_or_did_not,
    an_error_at_a_system_call_is_survived,
    a_killed_recovery_is_repeated,
);

/// What is interrupted. The words are those of the command line.
const COMMANDS: [&[&str]; 6] = [
    &["snapshot", "s", "new"],
    &["snapshot", "s", "new", "--live", "stop"],
    &["rollback", "s", "one"],
    &["fork", "s", "f"],
    &["squash", "s"],
    &["snapshot", "rm", "s@two"],
];

/// Layers of fuse-overlayfs are not merged.
fn commands(w: &World) -> Vec<&'static [&'static str]> {
    COMMANDS.into_iter().filter(|command| w.backend() != "fuse" || command[0] != "squash").collect()
}

/// A sandbox with three layers and work in its head, and everything it can be.
struct Scene<'a> {
    w: &'a World,
    one: Listing,
    two: Listing,
    head: Listing,
}

impl<'a> Scene<'a> {
    fn set(w: &'a World, is_occupied: bool) -> Self {
        w.outside("rm -rf -- *; echo kept > kept; echo edited > edited; mkdir -p d/e; echo x > d/x").ok();
        w.new_sandbox("s");
        w.exec("s", "echo 1 > edited; mv d moved; rm kept").ok();
        let one = w.listing("s");
        w.snapshot("s", "one");
        w.exec("s", "echo 2 > edited; echo new > new; rm -r moved/e").ok();
        let two = w.listing("s");
        w.snapshot("s", "two");
        w.exec("s", "echo 3 > edited; mkdir moved/e; echo z > moved/e/z; rm new").ok();
        if is_occupied {
            w.whatif(["exec", "s", "-d", "--", "sleep", "1000"]).go().ok();
        }
        Self { w, one, two, head: w.listing("s") }
    }

    /// Whatever was interrupted: `command` happened, or it did not.
    #[track_caller]
    fn assert_whole(&self, command: &[&str], context: &str) {
        let w = self.w;
        w.json(["ls"]);
        let clean = wait_for(Duration::from_secs(40), || w.transient().is_empty().then_some(()));
        assert!(clean.is_some(), "{context}: half done: {:?}", w.transient());
        self.assert_layers_are_there(context);
        let labels = w.labels("s");
        let rolled_back = labels.iter().find(|l| l.starts_with("before-rollback"));
        w.whatif(["start", "s"]).go().ok();
        let now = if rolled_back.is_some() { &self.one } else { &self.head };
        w.listing("s").assert_is(now, &format!("{context}: the sandbox, with {labels:?}"));
        for label in &labels {
            let expected = match label.as_str() {
                "one" => &self.one,
                "two" => &self.two,
                _ => &self.head,
            };
            w.listing_of(&format!("s@{label}")).assert_is(expected, &format!("{context}: {label}"));
        }
        assert!(
            labels.iter().any(|l| l == "one") && (labels.iter().any(|l| l == "two") || command[0..2] == ["snapshot", "rm"]),
            "{context}: {labels:?}"
        );
        if w.json(["ls"]).to_string().contains("\"name\":\"f\"") {
            w.listing("f").assert_is(&self.head, &format!("{context}: the fork"));
        }
        // And it goes on.
        let written = w.exec("s", "echo 4 > edited");
        assert_eq!(written.code, 0, "{context}: it can be written: {}", written.stderr);
        w.snapshot("s", "later");
        assert_eq!(w.exec("s", "cat edited").ok().text(), "4", "{context}");
        self.assert_nothing_stray(context);
    }

    /// Every layer that a record names is there, and after a `gc` no other.
    #[track_caller]
    fn assert_layers_are_there(&self, context: &str) {
        let w = self.w;
        let existing = || -> BTreeSet<String> {
            let entries = std::fs::read_dir(w.layers()).into_iter().flatten().filter_map(Result::ok);
            entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
        };
        w.whatif(["gc"]).go().ok();
        let mut needed = BTreeSet::new();
        let words = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(|l| l.as_str().map(str::to_owned)).collect()
        };
        for sandbox in w.json(["ls"]).as_array().into_iter().flatten() {
            let name = sandbox["name"].as_str().unwrap_or_default();
            let position = w.json(["show", name])["details"]["position"].clone();
            needed.extend(words(&position["stack"]).into_iter().chain(words(&position["mounted"])));
            for snapshot in w.json(["snapshots", name]).as_array().into_iter().flatten() {
                needed.extend(words(&snapshot["stack"]));
            }
        }
        assert!(!needed.is_empty(), "{context}: records name their layers");
        let settled = wait_for(Duration::from_secs(60), || (existing() == needed).then_some(()));
        assert!(settled.is_some(), "{context}: layers {:?}, needed {needed:?}", existing());
    }

    /// A keeper for each sandbox that runs, and nothing else; nothing is held still.
    #[track_caller]
    fn assert_nothing_stray(&self, context: &str) {
        let w = self.w;
        let active = || w.json(["ls"]).as_array().into_iter().flatten().filter(|s| s["status"] == "active").count();
        // Whoever runs in the background may have somebody who waits for it to want the network.
        let running = || w.processes().into_iter().filter(|p| !p.contains("/whatif attend ")).collect::<Vec<_>>();
        let quiet = wait_for(Duration::from_secs(60), || (running().len() == active()).then_some(()));
        assert!(quiet.is_some(), "{context}: {} active, running: {:?}", active(), running());
        let listed = w.json(["ps", "s"])["processes"].clone();
        assert!(!listed.to_string().contains("\"state\":\"T\""), "{context}: somebody is still held: {listed}");
        assert_eq!(w.mounts(), Vec::<String>::new(), "{context}");
    }

    fn clear(self) {
        self.w.whatif(["rm", "--all", "--yes"]).go().ok();
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

fn killed_by_the_clock_it_happened_or_did_not(w: &World) {
    let mut random = Random::from(number("WHATIF_SEED", 1));
    let commands = commands(w);
    let mut longest = [Duration::ZERO; COMMANDS.len()];
    for round in 0..number("WHATIF_KILLS", 10) as usize {
        let turn = round % commands.len();
        let command = commands[turn];
        let scene = Scene::set(w, random.once_in(3));
        if longest[turn].is_zero() {
            let since = Instant::now();
            w.whatif(command.iter().copied()).go().ok();
            longest[turn] = since.elapsed();
            scene.clear();
            continue;
        }
        let moment = longest[turn].mul_f64(random.below(1000) as f64 / 900.0);
        let mut child = w.whatif(command.iter().copied()).streams(Stdio::null(), Stdio::null(), Stdio::null()).spawn();
        let since = Instant::now();
        while since.elapsed() < moment {
            std::hint::spin_loop();
        }
        child.kill().expect("it is our child");
        child.wait().expect("it is our child");
        scene.assert_whole(command, &format!("{command:?} killed after {moment:?} of {:?}", longest[turn]));
        scene.clear();
    }
}

/// The points of a command, and some of them; each test begins at another one.
fn points(w: &World, command: &[&str], wanted: usize, turn: usize) -> Vec<Point> {
    let scene = Scene::set(w, false);
    let points = w.points_of_move(&w.project, command);
    scene.clear();
    assert!(points.len() > 5, "{command:?} does something: {points:?}");
    sample(&points, wanted, turn)
}

fn killed_at_a_system_call_it_happened_or_did_not(w: &World) {
    needs!(w, "strace");
    for (turn, command) in commands(w).into_iter().enumerate() {
        for point in points(w, command, 2, turn) {
            let scene = Scene::set(w, false);
            w.with_fault(&point, Fault::Kill, command).cwd(&w.project).go();
            scene.assert_whole(command, &format!("{command:?} killed at {point:?}"));
            scene.clear();
        }
    }
}

fn an_error_at_a_system_call_is_survived(w: &World) {
    needs!(w, "strace");
    for (turn, command) in commands(w).into_iter().enumerate() {
        for (n, point) in points(w, command, 1, turn + 1).into_iter().enumerate() {
            let scene = Scene::set(w, false);
            let error = ["EIO", "ENOSPC", "ENOMEM"][(turn + n) % 3];
            w.with_fault(&point, Fault::Error(error), command).cwd(&w.project).go();
            scene.assert_whole(command, &format!("{command:?} with {error} at {point:?}"));
            scene.clear();
        }
    }
}

fn a_killed_recovery_is_repeated(w: &World) {
    needs!(w, "strace");
    let command = COMMANDS[0];
    for point in points(w, command, 2, 2) {
        let scene = Scene::set(w, false);
        w.with_fault(&point, Fault::Kill, command).cwd(&w.project).go();
        for call in ["rename", "unlinkat", "rmdir", "pwrite64"] {
            let recovery = Point { call: call.to_owned(), number: 1 };
            w.with_fault(&recovery, Fault::Kill, &["ls"]).cwd(&w.project).go();
        }
        scene.assert_whole(command, &format!("{command:?} killed at {point:?}, and its recovery as well"));
        scene.clear();
    }
}
