//! A damaged journal is never acted on, and no version of anything is ever lost because of one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use support::{Scene, difference, snapshot};
use whatif_apply::{
    ApplyError, Conduct, Operation, Outcome, Plan, Source, UndoPlan, Verdict, apply, apply_in, recover, recover_in, undo_plan,
};

/// A plan whose apply is stopped in the middle of the swap: the callback of the progress gives up.
struct Stopped {
    scene: Scene,
    directory: PathBuf,
    plan: Plan,
}

/// How far it gets.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Staging,
    Swapping(usize),
    Finishing(usize),
    End,
}

impl Stopped {
    fn new(at: At) -> Self {
        let scene = Scene::at(Path::new("/dev/shm"), None);
        for n in 0..4 {
            scene.file(&format!("changed-{n}"), format!("before {n}").as_bytes());
            scene.file(&format!("removed-{n}"), format!("removed {n}").as_bytes());
        }
        scene.file("foreign", b"foreign");
        let mut operations: Vec<Operation> = Vec::new();
        for n in 0..4 {
            operations.push(scene.put(&format!("changed-{n}"), Source::Bytes(format!("after {n}").into_bytes()), 0o644));
            operations.push(scene.remove(&format!("removed-{n}")));
            operations.push(scene.put(&format!("new-{n}"), Source::Bytes(format!("new {n}").into_bytes()), 0o644));
        }
        let plan = scene.plan(operations);
        let directory = scene.directory();
        let stopped = Self { scene, directory, plan };
        stopped.run(at);
        stopped
    }

    fn run(&self, at: At) {
        use whatif_apply::Stage;
        let result = std::panic::catch_unwind(|| {
            apply(&self.plan, &self.directory, &mut |progress| {
                let stop = match at {
                    At::Staging => progress.stage == Stage::Staging && progress.done == 5,
                    At::Swapping(n) => progress.stage == Stage::Swapping && progress.done == n,
                    At::Finishing(n) => progress.stage == Stage::Finishing && progress.done == n,
                    At::End => false,
                };
                // Like a crash: nothing of ours runs after it.
                if stop {
                    std::panic::resume_unwind(Box::new(()));
                }
            })
        });
        assert_eq!(result.is_err(), at != At::End);
    }

    fn journal(&self) -> PathBuf {
        self.directory.join("journal")
    }

    /// Everything that anybody ever wrote, wherever it lies now.
    fn contents(&self) -> BTreeSet<Vec<u8>> {
        let mut all: BTreeSet<Vec<u8>> =
            snapshot(&self.scene.tree).into_values().filter(|s| s.kind == "file").map(|s| s.content).collect();
        for part in ["old", "unapplied"] {
            for entry in fs::read_dir(self.directory.join(part)).into_iter().flatten().flatten() {
                all.extend(fs::read(entry.path()));
            }
        }
        all
    }

    /// Recovers with the journal as it is now. Whatever comes of it, nothing of before is lost and nothing foreign touched.
    fn check(&self, what: &str) {
        let (tree, contents) = (snapshot(&self.scene.tree), self.contents());
        let result = recover(&self.directory);
        match &result {
            Err(ApplyError::Journal { .. }) | Ok(whatif_apply::Recovered { outcome: Outcome::Nothing | Outcome::WasDone, .. }) => {
                assert_eq!(difference(&tree, &snapshot(&self.scene.tree)), None, "{what}: {result:?}");
            }
            Ok(recovered) => {
                if recovered.outcome == Outcome::RolledBack {
                    for n in 0..4 {
                        let read = |name: &str| fs::read_to_string(self.scene.tree.join(format!("{name}-{n}"))).unwrap_or_default();
                        assert_eq!((read("changed"), read("removed")), (format!("before {n}"), format!("removed {n}")), "{what}");
                    }
                }
                let now = self.contents();
                let lost: Vec<_> = contents.iter().filter(|c| is_before(c) && !now.contains(*c)).collect();
                assert!(lost.is_empty(), "{what}: {result:?} lost {lost:?}");
            }
            Err(error) => panic!("{what}: {error:?}"),
        }
        assert_eq!(fs::read(self.scene.tree.join("foreign")).unwrap(), b"foreign");
    }
}

fn is_before(content: &[u8]) -> bool {
    [&b"before"[..], b"removed", b"foreign"].iter().any(|p| content.starts_with(p))
}

const ALL: [At; 6] = [At::Staging, At::Swapping(1), At::Swapping(7), At::Swapping(12), At::Finishing(5), At::End];

#[test]
fn no_flipped_byte_makes_it_do_anything() {
    for at in ALL {
        let length = fs::read(Stopped::new(at).journal()).unwrap().len();
        let stopped = Stopped::new(at);
        let good = fs::read(stopped.journal()).unwrap();
        for position in (0..length.min(good.len())).step_by(23).chain(good.len() - 3..good.len() - 1) {
            for flip in [0x01, 0x80] {
                let mut bad = good.clone();
                bad[position] ^= flip;
                fs::write(stopped.journal(), &bad).unwrap();
                let tree = snapshot(&stopped.scene.tree);
                let result = recover(&stopped.directory);
                assert!(matches!(result, Err(ApplyError::Journal { .. })), "{at:?}, byte {position}: {result:?}");
                assert_eq!(difference(&tree, &snapshot(&stopped.scene.tree)), None, "{at:?}, byte {position}");
            }
        }
        // With the right journal all is well.
        fs::write(stopped.journal(), &good).unwrap();
        assert_eq!(recover(&stopped.directory).unwrap().reported, []);
    }
}

#[test]
fn a_journal_cut_off_anywhere_loses_nothing() {
    for at in ALL {
        let good = fs::read(Stopped::new(at).journal()).unwrap();
        let ends: Vec<usize> = good.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(n, _)| n).collect();
        let mut lengths: Vec<usize> = (0..good.len()).step_by(good.len() / 20).collect();
        for end in ends {
            lengths.extend([end - 1, end, end + 1]);
        }
        for length in lengths {
            let stopped = Stopped::new(at);
            let whole = fs::read(stopped.journal()).unwrap();
            fs::write(stopped.journal(), &whole[..length.min(whole.len())]).unwrap();
            stopped.check(&format!("{at:?}, cut to {length}"));
            // And again.
            stopped.check(&format!("{at:?}, cut to {length}, again"));
        }
    }
}

#[test]
fn records_that_are_doubled_or_of_another_version_are_refused() {
    let stopped = Stopped::new(At::Swapping(3));
    let good = fs::read(stopped.journal()).unwrap();
    let first = good.iter().position(|b| *b == b'\n').unwrap() + 1;
    let doubled = [&good[..first], &good[..]].concat();
    let swapped = [&good[first..], &good[..first]].concat();
    let foreign = b"SQLite format 3\0\n".to_vec();
    for bad in [doubled, swapped, foreign, vec![0; 4096], b"\n".to_vec()] {
        fs::write(stopped.journal(), &bad).unwrap();
        let tree = snapshot(&stopped.scene.tree);
        assert!(matches!(recover(&stopped.directory), Err(ApplyError::Journal { .. })));
        assert_eq!(difference(&tree, &snapshot(&stopped.scene.tree)), None);
    }
    fs::write(stopped.journal(), &good).unwrap();
    assert_eq!(recover(&stopped.directory).unwrap().outcome, Outcome::RolledForward);
}

#[test]
fn a_root_that_is_another_directory_now_is_left_alone() {
    let stopped = Stopped::new(At::Swapping(3));
    let away = stopped.scene.base.join("away");
    fs::rename(&stopped.scene.tree, &away).unwrap();
    assert!(matches!(recover(&stopped.directory), Err(ApplyError::RootGone { .. })));
    fs::create_dir(&stopped.scene.tree).unwrap();
    assert!(matches!(recover(&stopped.directory), Err(ApplyError::RootGone { .. })));
    fs::remove_dir(&stopped.scene.tree).unwrap();
    fs::rename(&away, &stopped.scene.tree).unwrap();
    assert_eq!(recover(&stopped.directory).unwrap().outcome, Outcome::RolledForward);
}

#[test]
fn what_a_user_changed_between_crash_and_recovery_is_kept_and_reported() {
    for at in [At::Staging, At::Swapping(1), At::Swapping(7), At::Swapping(12)] {
        let stopped = Stopped::new(at);
        let tree = &stopped.scene.tree;
        // Every target gets something of the user's, one way or the other.
        for n in 0..4 {
            fs::write(tree.join("mine"), format!("user {n}")).unwrap();
            fs::rename(tree.join("mine"), tree.join(format!("changed-{n}"))).unwrap();
            fs::write(tree.join(format!("removed-{n}")), format!("user removed {n}")).unwrap();
            fs::write(tree.join(format!("new-{n}")), format!("user new {n}")).unwrap();
        }
        let before: BTreeSet<_> = stopped.contents().into_iter().filter(|c| is_before(c)).collect();
        let recovered = recover(&stopped.directory).unwrap();
        for n in 0..4 {
            for (path, content) in [("changed", "user"), ("removed", "user removed"), ("new", "user new")] {
                let now = fs::read_to_string(tree.join(format!("{path}-{n}"))).unwrap();
                assert_eq!(now, format!("{content} {n}"), "{at:?}: {recovered:?}");
            }
        }
        let now = stopped.contents();
        assert!(before.iter().all(|c| now.contains(c)), "{at:?}: lost a version");
        if !matches!(at, At::Staging | At::Swapping(12)) {
            assert!(!recovered.reported.is_empty(), "{at:?}");
        }
        stopped.scene.assert_clean();
    }
}

#[test]
fn what_an_exchange_brought_out_is_looked_at_after_a_crash_too() {
    let stopped = Stopped::new(At::Swapping(1));
    let tree = &stopped.scene.tree;
    assert_eq!(fs::read(tree.join("changed-0")).unwrap(), b"after 0");
    // As if somebody had written to the file just before it was exchanged, and nobody had looked yet.
    let aside = stopped.directory.join("old/0.new");
    assert_eq!(fs::read(&aside).unwrap(), b"before 0");
    fs::write(aside, b"user's").unwrap();
    let recovered = recover(&stopped.directory).unwrap();
    assert_eq!(recovered.reported.len(), 1, "{recovered:?}");
    assert_eq!(fs::read(tree.join("changed-0")).unwrap(), b"user's");
    assert_eq!(fs::read(tree.join("changed-1")).unwrap(), b"after 1");
    assert_eq!(fs::read(stopped.directory.join("unapplied/0")).unwrap(), b"after 0");
    stopped.scene.assert_clean();
}

/// Makes of what an apply left what an earlier version of the journal would have left. In the first one, everything lies beside its
/// target.
fn as_version(version: u32, stopped: &Stopped) {
    let text = fs::read_to_string(stopped.journal()).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let mut header: serde_json::Value = serde_json::from_str(first.splitn(3, ' ').nth(2).unwrap()).unwrap();
    let inner = &mut header["header"];
    assert_eq!(inner["version"], 4);
    inner["version"] = version.into();
    for parent in inner["parents"].as_array_mut().unwrap() {
        assert_eq!(parent["staging"], "store");
        if version == 1 {
            parent.as_object_mut().unwrap().remove("staging");
        }
    }
    let id = inner["id"].as_str().unwrap().to_owned();
    let json = header.to_string();
    let sum: String = Sha256::digest(&json).iter().take(16).map(|b| format!("{b:02x}")).collect();
    fs::write(stopped.journal(), format!("{:08x} {sum} {json}\n{rest}", json.len())).unwrap();
    if version > 1 {
        return;
    }
    for n in 0..stopped.plan.operations.len() {
        let staged = stopped.directory.join(format!("old/{n}.new"));
        if staged.exists() {
            fs::rename(staged, stopped.scene.tree.join(format!(".whatif-{id}-{n}"))).unwrap();
        }
    }
}

#[test]
fn an_apply_of_an_earlier_version_is_recovered() {
    let moments = [
        (At::Staging, Outcome::RolledBack),
        (At::Swapping(1), Outcome::RolledForward),
        (At::Swapping(7), Outcome::RolledForward),
        (At::Finishing(5), Outcome::RolledForward),
    ];
    for (version, (at, outcome)) in [1, 2].into_iter().flat_map(|version| moments.map(|moment| (version, moment))) {
        let stopped = Stopped::new(at);
        as_version(version, &stopped);
        let recovered = recover(&stopped.directory).unwrap();
        assert_eq!((recovered.outcome, recovered.reported), (outcome, vec![]), "{at:?} of version {version}");
        stopped.scene.assert_clean();
        let is_done = outcome == Outcome::RolledForward;
        for n in 0..4 {
            let word = if is_done { "after" } else { "before" };
            assert_eq!(fs::read_to_string(stopped.scene.tree.join(format!("changed-{n}"))).unwrap(), format!("{word} {n}"));
            assert_eq!(stopped.scene.tree.join(format!("removed-{n}")).exists(), !is_done);
            assert_eq!(stopped.scene.tree.join(format!("new-{n}")).exists(), is_done);
        }
        if is_done {
            let UndoPlan { plan: undo, changed, .. } = undo_plan(&stopped.directory).unwrap();
            assert_eq!(changed, []);
            apply(&undo, &stopped.scene.directory(), &mut |_| {}).unwrap();
        }
    }
}

#[test]
fn what_was_made_ready_and_then_changed_is_not_applied() {
    let stopped = Stopped::new(At::Swapping(1));
    // Long after the crash, so that its time tells.
    fs::write(stopped.directory.join("old/3.new"), b"forged 1").unwrap();
    let recovered = recover(&stopped.directory).unwrap();
    assert_eq!(recovered.reported.len(), 1, "{recovered:?}");
    assert_eq!(fs::read(stopped.scene.tree.join("changed-1")).unwrap(), b"before 1");
    assert_eq!(fs::read(stopped.directory.join("unapplied/3")).unwrap(), b"forged 1");
}

#[test]
fn what_somebody_edits_after_a_crash_is_refused_by_an_undo() {
    let stopped = Stopped::new(At::Swapping(7));
    let tree = &stopped.scene.tree;
    assert_eq!(fs::read(tree.join("changed-0")).unwrap(), b"after 0");
    fs::write(tree.join("changed-0"), b"user's").unwrap();
    fs::write(tree.join("mine"), b"mine").unwrap();
    fs::rename(tree.join("mine"), tree.join("changed-1")).unwrap();
    fs::remove_file(tree.join("changed-2")).unwrap();
    assert_eq!(recover(&stopped.directory).unwrap().outcome, Outcome::RolledForward);
    let UndoPlan { changed, .. } = undo_plan(&stopped.directory).unwrap();
    let paths: Vec<PathBuf> = changed.into_iter().map(|c| c.path).collect();
    assert_eq!(paths, [0, 1, 2].map(|n| tree.join(format!("changed-{n}"))));
}

#[test]
fn an_apply_that_is_cancelled_before_its_commit_did_not_happen() {
    let scene = Scene::at(Path::new("/dev/shm"), None);
    for cancelled_at in 0..6 {
        scene.file("changed", b"before");
        let operations = vec![
            scene.put("changed", Source::Bytes(b"after".to_vec()), 0o644),
            scene.put("new", Source::Bytes(b"n".to_vec()), 0o644),
        ];
        let (plan, before, directory) = (scene.plan(operations), snapshot(&scene.tree), scene.directory());
        let asked = std::cell::Cell::new(0);
        let is_cancelled = || asked.replace(asked.get() + 1) >= cancelled_at;
        let mut conduct = Conduct { progress: &mut |_| {}, is_cancelled: &is_cancelled, turn: None, decide: None };
        match apply_in(&plan, &directory, &mut conduct) {
            Err(ApplyError::Cancelled) => assert_eq!(difference(&before, &snapshot(&scene.tree)), None),
            Ok(_) => return assert!(cancelled_at > 1),
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("it never happened");
}

/// What belongs to an apply outside of its tree has the last word, also after a crash, and is asked once.
#[test]
fn the_caller_decides_when_everything_is_in_place() {
    let (forward, back) = (|| Verdict::Forward, || Verdict::Back { why: "no".to_owned() });
    let unknown = || Verdict::Unknown { why: "who knows".to_owned() };
    let never = || -> Verdict { panic!("it was decided") };
    let scene = || {
        let scene = Scene::at(Path::new("/dev/shm"), None);
        scene.file("changed", b"before");
        let operations = vec![scene.put("changed", Source::Bytes(b"after".to_vec()), 0o644)];
        let (plan, directory) = (scene.plan(operations), scene.directory());
        (scene, plan, directory)
    };
    let run = |decide: &mut dyn FnMut() -> Verdict| {
        let (scene, plan, directory) = scene();
        let before = snapshot(&scene.tree);
        let mut conduct = Conduct { progress: &mut |_| {}, is_cancelled: &|| false, turn: None, decide: Some(decide) };
        let outcome = apply_in(&plan, &directory, &mut conduct);
        (scene, directory, before, outcome)
    };
    let (scene, directory, _, outcome) = run(&mut &forward);
    assert!(outcome.is_ok() && fs::read(scene.tree.join("changed")).unwrap() == b"after");
    assert_eq!(recover_in(&directory, None, &mut &never).unwrap().outcome, Outcome::WasDone);

    let (scene, _, before, outcome) = run(&mut &back);
    assert!(matches!(outcome, Err(ApplyError::Refused { why }) if why == "no"));
    assert_eq!(difference(&before, &snapshot(&scene.tree)), None);

    for (verdict, recovered, content) in
        [(&forward as &dyn Fn() -> Verdict, Outcome::RolledForward, "after"), (&back, Outcome::RolledBack, "before")]
    {
        let (scene, directory, _, outcome) = run(&mut &unknown);
        assert!(matches!(outcome, Err(ApplyError::Interrupted { .. })));
        assert!(matches!(recover(&directory), Err(ApplyError::Interrupted { .. })), "nobody can be asked");
        assert_eq!(recover_in(&directory, None, &mut || verdict()).unwrap().outcome, recovered);
        assert_eq!(fs::read_to_string(scene.tree.join("changed")).unwrap(), content);
    }
}
