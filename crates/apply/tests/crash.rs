//! Kills an apply, or a recovery, at its system calls and lets single calls fail. Whatever happens, the tree is exactly what it
//! was before or exactly what the plan says, and recovering a second time does nothing.
//!
//! By default every few calls are tried; with `WHATIF_APPLY_EXHAUSTIVE=1` every one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{Scene, Shown, difference, mixed, snapshot, without_inodes};
use whatif_apply::{ApplyError, Outcome, Plan, Progress, Source, Stage, UndoPlan, apply, recover, undo_plan};

/// Every call that changes something.
const CHANGES: &[&str] = &[
    "openat",
    "mkdirat",
    "mkdir",
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "syncfs",
    "linkat",
    "renameat",
    "renameat2",
    "unlinkat",
    "unlink",
    "symlinkat",
    "chmod",
    "fchmod",
    "fchownat",
    "utimensat",
    "setxattr",
    "removexattr",
    "ftruncate",
    "ioctl",
    "copy_file_range",
];

/// Every call that can fail for reasons of its own.
const FALLIBLE: &[&str] = &[
    "openat",
    "openat2",
    "mkdirat",
    "mkdir",
    "write",
    "pwrite64",
    "pread64",
    "fsync",
    "fdatasync",
    "syncfs",
    "linkat",
    "renameat2",
    "unlinkat",
    "symlinkat",
    "chmod",
    "fchmod",
    "fchownat",
    "utimensat",
    "statx",
    "getdents64",
    "flock",
    "listxattr",
    "readlinkat",
    "faccessat2",
];

const FILLING: &[&str] =
    &["openat", "mkdirat", "mkdir", "write", "pwrite64", "renameat2", "linkat", "symlinkat", "fsync", "fdatasync"];

/// Not a test by itself: what the others run in a process of its own.
#[test]
#[ignore = "run by the other tests"]
fn child() {
    let Ok(base) = std::env::var("WHATIF_APPLY_CHILD") else { return };
    let base = PathBuf::from(base);
    let directory: PathBuf = fs::read_to_string(base.join("directory")).unwrap().into();
    let said = if std::env::var_os("WHATIF_APPLY_RECOVER").is_some() {
        format!("{:?}", recover(&directory))
    } else {
        let plan: Plan = serde_json::from_slice(&fs::read(base.join("plan.json")).unwrap()).unwrap();
        let interfere = std::env::var_os("WHATIF_APPLY_INTERFERE").is_some();
        let progress = &mut |p: Progress| {
            if interfere && p.stage == Stage::Swapping && p.done + 1 == p.total {
                fs::write(plan.roots[0].join("mode"), b"user's").unwrap();
            }
        };
        match apply(&plan, &directory, progress) {
            Ok(_) => "done".to_owned(),
            Err(ApplyError::Interrupted { why, .. } | ApplyError::Unsettled { why }) => format!("interrupted: {why}"),
            Err(error) => format!("failed: {error:?}"),
        }
    };
    // Not through a file: the calls that this takes are counted too.
    print!("<{said}>");
}

/// A scene with a plan, ready to be applied by a child.
struct Case {
    scene: Scene,
    directory: PathBuf,
    before: BTreeMap<PathBuf, Shown>,
}

impl Case {
    fn new(across: bool) -> Self {
        let memory = Path::new("/dev/shm");
        let disk = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let scene = if across { Scene::at(memory, Some(disk)) } else { Scene::at(memory, None) };
        let plan = mixed(&scene);
        Self::of(scene, &plan)
    }

    /// The undo of what gave files further names.
    fn undo_of_further_names() -> (Self, BTreeMap<PathBuf, Shown>) {
        let scene = Scene::at(Path::new("/dev/shm"), None);
        scene.file("d/old", b"content");
        scene.file("over", b"of its own");
        let original = snapshot(&scene.tree);
        let plan = scene.plan(vec![
            scene.put("new", scene.existing("d/old"), 0o644),
            scene.put("over", Source::HardLink(0), 0),
            scene.put("e", Source::Directory, 0o755),
            scene.put("e/deep", Source::HardLink(0), 0),
        ]);
        let directory = scene.directory();
        apply(&plan, &directory, &mut |_| {}).unwrap();
        let UndoPlan { plan: undo, changed, .. } = undo_plan(&directory).unwrap();
        assert_eq!(changed, []);
        (Self::of(scene, &undo), original)
    }

    fn of(scene: Scene, plan: &Plan) -> Self {
        let directory = scene.directory();
        fs::write(scene.base.join("plan.json"), serde_json::to_vec(plan).unwrap()).unwrap();
        fs::write(scene.base.join("directory"), directory.to_str().unwrap()).unwrap();
        let before = snapshot(&scene.tree);
        Self { scene, directory, before }
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new("strace");
        command.args(["-qq", "-f"]).args(options);
        command.arg(std::env::current_exe().unwrap()).args(["child", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env("WHATIF_APPLY_CHILD", &self.scene.base).stdin(Stdio::null());
        command
    }

    /// Runs a child with an injection, which counts each call by itself. What it said, or `None` if it was killed.
    fn run(&self, inject: &str, recover: bool) -> Option<String> {
        let variable = if recover { "WHATIF_APPLY_RECOVER" } else { "WHATIF_APPLY_CHILD" };
        self.run_with(inject, variable)
    }

    fn run_with(&self, inject: &str, variable: &str) -> Option<String> {
        let call = inject.split(':').next().unwrap();
        let mut command = self.command(&["-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &format!("inject={inject}")]);
        if variable != "WHATIF_APPLY_CHILD" {
            command.env(variable, "1");
        }
        let output = command.output().expect("strace is needed for this test");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            return None;
        }
        Some(text[text.find('<').unwrap() + 1..text.rfind('>').unwrap()].to_owned())
    }

    /// Recovers twice and checks everything there is to check.
    fn check(&self, after: &BTreeMap<PathBuf, Shown>, what: &str) -> Outcome {
        let recovered = recover(&self.directory).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(recovered.reported, [], "{what}");
        self.check_tree(recovered.outcome, after, what);
        let tree = snapshot(&self.scene.tree);
        let again = recover(&self.directory).unwrap();
        assert_eq!(difference(&tree, &snapshot(&self.scene.tree)), None, "{what}: the second recovery changed something");
        let expected = if recovered.outcome == Outcome::RolledForward { Outcome::WasDone } else { recovered.outcome };
        assert_eq!(again.outcome, expected, "{what}");
        if expected == Outcome::WasDone {
            self.check_undo(what);
        }
        recovered.outcome
    }

    fn check_tree(&self, outcome: Outcome, after: &BTreeMap<PathBuf, Shown>, what: &str) {
        let now = snapshot(&self.scene.tree);
        let difference = match outcome {
            Outcome::RolledBack | Outcome::Nothing => difference(&now, &self.before),
            Outcome::RolledForward | Outcome::WasDone => difference(&comparable(&now), after),
        };
        assert_eq!(difference, None, "{what}: {outcome:?}");
    }

    fn check_undo(&self, what: &str) {
        let UndoPlan { plan: undo, changed, .. } = undo_plan(&self.directory).unwrap();
        assert_eq!(changed, [], "{what}");
        apply(&undo, &self.scene.directory(), &mut |_| {}).unwrap_or_else(|e| panic!("{what}: {e:?}"));
        let exact = self.scene.state.starts_with(&self.scene.base);
        let (now, before) = (snapshot(&self.scene.tree), self.before.clone());
        let difference = if exact { difference(&now, &before) } else { difference(&nameless(&now), &nameless(&before)) };
        assert_eq!(difference, None, "{what}: undone");
    }
}

/// Copies have other inodes, and other numbers of names.
fn nameless(tree: &BTreeMap<PathBuf, Shown>) -> BTreeMap<PathBuf, Shown> {
    tree.iter().map(|(p, s)| (p.clone(), Shown { ino: 0, nlink: 0, ..s.clone() })).collect()
}

/// Without what differs from one run to the next: inodes, and times that are left to nature.
fn comparable(tree: &BTreeMap<PathBuf, Shown>) -> BTreeMap<PathBuf, Shown> {
    let mut tree = without_inodes(tree);
    tree.values_mut().filter(|s| s.mtime.0 != 1_600_000_000).for_each(|s| s.mtime = (0, 0));
    tree
}

/// What the tree looks like when nothing goes wrong.
fn undisturbed(across: bool) -> BTreeMap<PathBuf, Shown> {
    let case = Case::new(across);
    let plan: Plan = serde_json::from_slice(&fs::read(case.scene.base.join("plan.json")).unwrap()).unwrap();
    apply(&plan, &case.directory, &mut |_| {}).unwrap();
    comparable(&snapshot(&case.scene.tree))
}

fn stride(usual: usize) -> usize {
    if std::env::var_os("WHATIF_APPLY_EXHAUSTIVE").is_some() { 1 } else { usual }
}

#[test]
fn a_kill_at_any_call_leaves_all_or_nothing() {
    for (across, usual) in [(false, 4), (true, 9)] {
        let after = undisturbed(across);
        let mut seen = BTreeMap::new();
        for call in CHANGES {
            for n in (1..).step_by(stride(usual)) {
                let case = Case::new(across);
                let said = case.run(&format!("{call}:signal=SIGKILL:when={n}"), false);
                let outcome = case.check(&after, &format!("killed at {call} {n}, across {across}"));
                *seen.entry(format!("{outcome:?}")).or_insert(0) += 1;
                if said.is_some() {
                    assert_eq!(said.as_deref(), Some("done"));
                    break;
                }
            }
        }
        println!("kills, across {across}: {seen:?}");
        for outcome in ["Nothing", "RolledBack", "RolledForward"] {
            assert!(seen.contains_key(outcome), "no kill led to {outcome}: {seen:?}");
        }
    }
}

#[test]
fn a_kill_while_further_names_are_undone_leaves_all_or_nothing() {
    let mut seen = BTreeMap::new();
    for call in ["openat", "linkat", "renameat2", "unlinkat", "fsync", "fdatasync", "write", "utimensat"] {
        for n in (1..).step_by(stride(2)) {
            let (case, original) = Case::undo_of_further_names();
            let what = format!("killed at {call} {n}");
            let said = case.run(&format!("{call}:signal=SIGKILL:when={n}"), false);
            let recovered = recover(&case.directory).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(recovered.reported, [], "{what}");
            *seen.entry(format!("{:?}", recovered.outcome)).or_insert(0) += 1;
            let is_done = matches!(recovered.outcome, Outcome::RolledForward | Outcome::WasDone);
            let expected = if is_done { &original } else { &case.before };
            assert_eq!(difference(&snapshot(&case.scene.tree), expected), None, "{what}: {:?}", recovered.outcome);
            if is_done {
                let UndoPlan { plan: redo, changed, .. } = undo_plan(&case.directory).unwrap();
                assert_eq!(changed, [], "{what}");
                apply(&redo, &case.scene.directory(), &mut |_| {}).unwrap_or_else(|e| panic!("{what}: {e:?}"));
                assert_eq!(difference(&snapshot(&case.scene.tree), &case.before), None, "{what}: done once more");
            }
            if said.is_some() {
                break;
            }
        }
    }
    assert!(["Nothing", "RolledBack", "RolledForward"].iter().all(|outcome| seen.contains_key(*outcome)), "{seen:?}");
}

#[test]
fn a_kill_while_everything_is_put_back_leaves_all_or_nothing() {
    let mut seen = BTreeMap::new();
    for call in ["renameat2", "unlinkat", "fdatasync", "write", "utimensat", "syncfs", "fchmod"] {
        for n in (1..).step_by(stride(3)) {
            let case = Case::new(false);
            let what = format!("killed at {call} {n}");
            let said = case.run_with(&format!("{call}:signal=SIGKILL:when={n}"), "WHATIF_APPLY_INTERFERE");
            let recovered = recover(&case.directory).unwrap_or_else(|e| panic!("{what}: {e}"));
            *seen.entry(format!("{:?}", recovered.outcome)).or_insert(0) += 1;
            let mut now = snapshot(&case.scene.tree);
            let user = now.insert("mode".into(), case.before[Path::new("mode")].clone()).unwrap();
            match recovered.outcome {
                Outcome::RolledForward if user.content != case.before[Path::new("mode")].content => {
                    // Killed before it was written down that it goes back; so it goes forward, but for what the user did.
                    let paths: Vec<_> = recovered.reported.iter().map(|(p, _)| p.clone()).collect();
                    assert_eq!(paths, [case.scene.tree.join("mode")], "{what}");
                }
                Outcome::RolledForward => assert_eq!(recovered.reported, [], "{what}"),
                _ => assert_eq!(difference(&now, &case.before), None, "{what}"),
            }
            case.scene.assert_clean();
            let tree = snapshot(&case.scene.tree);
            recover(&case.directory).unwrap();
            assert_eq!(difference(&tree, &snapshot(&case.scene.tree)), None, "{what}: the second recovery changed something");
            if said.is_some() {
                break;
            }
        }
    }
    println!("kills while putting back: {seen:?}");
    assert!(seen.contains_key("RolledBack") && seen.contains_key("RolledForward"), "{seen:?}");
}

#[test]
fn a_kill_during_recovery_converges() {
    let after = undisturbed(false);
    let mut runs = 0;
    // Some way into staging, into the swap, into finishing.
    for first in [
        "utimensat:signal=SIGKILL:when=4",
        "renameat2:signal=SIGKILL:when=8",
        "renameat2:signal=SIGKILL:when=17",
        "unlinkat:signal=SIGKILL:when=2",
    ] {
        for call in CHANGES {
            for n in (1..).step_by(stride(5)) {
                let case = Case::new(false);
                assert_eq!(case.run(first, false), None);
                let done = case.run(&format!("{call}:signal=SIGKILL:when={n}"), true).is_some();
                case.check(&after, &format!("killed at {first}, recovery at {call} {n}"));
                runs += 1;
                if done {
                    break;
                }
            }
        }
    }
    println!("kills during recovery: {runs}");
}

#[test]
fn an_error_at_any_call_leaves_all_or_nothing() {
    let after = undisturbed(false);
    let mut seen = BTreeMap::new();
    for (error, calls, usual) in [("EIO", FALLIBLE, 7), ("ENOSPC", FILLING, 6)] {
        for call in calls {
            for n in (1..).step_by(stride(usual)) {
                let case = Case::new(false);
                let what = format!("{error} at {call} {n}");
                // Before our code runs the error hits the test program itself, which then gives up.
                let said = case.run(&format!("{call}:error={error}:when={n}"), false).unwrap_or_default();
                let kind = said.split(':').next().unwrap_or_default().to_owned();
                match kind.as_str() {
                    "done" => assert_eq!(case.check(&after, &what), Outcome::WasDone, "{what}"),
                    "failed" => {
                        case.check_tree(Outcome::RolledBack, &after, &format!("{what}: {said}"));
                        case.scene.assert_clean();
                    }
                    _ => drop(case.check(&after, &format!("{what}: {said}"))),
                }
                *seen.entry(kind.clone()).or_insert(0) += 1;
                // Some errors are overcome, so one success does not mean that there are no more calls.
                if kind == "done" && n > calls_made(call) {
                    break;
                }
            }
        }
    }
    println!("errors: {seen:?}");
    assert!(seen.contains_key("failed") && seen.contains_key("interrupted"), "{seen:?}");
}

/// How often a call is made in an undisturbed apply.
fn calls_made(call: &str) -> usize {
    let case = Case::new(false);
    let log = case.scene.base.join("log");
    let mut command = case.command(&["-e", &format!("trace={call}"), "-o", log.to_str().unwrap()]);
    assert!(command.output().unwrap().status.success());
    fs::read_to_string(&log).unwrap().lines().count()
}
