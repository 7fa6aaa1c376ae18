//! Directories lead elsewhere just when everything has to be put back. What was swapped in them is put back in them, at once or,
//! when they could not be reached, by a later recovery.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use support::{Scene, Shown, assert_same, snapshot};
use whatif_apply::{ApplyError, Operation, Outcome, Plan, Source, Stage, State, apply, read, recover};

/// More directories than are held open.
const MANY: usize = 300;

fn exchange(a: &Path, b: &Path) {
    rustix::fs::renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE).unwrap();
}

fn bytes(content: &[u8]) -> Source {
    Source::Bytes(content.to_vec())
}

/// A directory `d` with some of everything in it, and something else that takes its place.
struct Place {
    scene: Scene,
    plan: Plan,
    before: BTreeMap<PathBuf, Shown>,
    directory: PathBuf,
    d: PathBuf,
    other: PathBuf,
}

#[derive(Clone, Copy, Debug)]
enum Other {
    Link,
    Directory,
    File,
}

impl Place {
    /// With `many` the directories are too many to be held.
    fn new(other: Other, many: bool) -> Self {
        let scene = Scene::at("/dev/shm".as_ref(), None);
        for name in ["edited", "gone", "mode", "sub/x", "going/deep/x"] {
            scene.file(&format!("d/{name}"), b"old");
            fs::create_dir_all(scene.base.join("outside").join(name).parent().unwrap()).unwrap();
            fs::write(scene.base.join("outside").join(name), b"precious").unwrap();
        }
        scene.file("last", b"old");
        let mut operations = vec![
            scene.put("d/edited", bytes(b"new"), 0o644),
            scene.remove("d/gone"),
            scene.set("d/mode", 0o600),
            scene.put("d/new", bytes(b"new"), 0o644),
            scene.put("d/sub/x", bytes(b"new"), 0o644),
            scene.remove("d/going"),
            scene.remove("d/going/deep"),
            scene.remove("d/going/deep/x"),
            scene.put("d/made", Source::Directory, 0o755),
            scene.put("d/made/x", bytes(b"new"), 0o644),
            scene.put("last", bytes(b"new"), 0o644),
        ];
        for n in 0..if many { MANY } else { 0 } {
            scene.file(&format!("many/{n}/x"), b"old");
            operations.push(scene.put(&format!("many/{n}/x"), bytes(b"new"), 0o644));
        }
        let d = scene.tree.join("d");
        let taking = scene.base.join("taking");
        match other {
            Other::Link => symlink(scene.base.join("outside"), &taking).unwrap(),
            Other::Directory => fs::create_dir(&taking).unwrap(),
            Other::File => fs::write(&taking, b"precious").unwrap(),
        }
        let (plan, before) = (scene.plan(operations), snapshot(&scene.tree));
        let directory = scene.directory();
        Self { scene, plan, before, directory, d, other: taking }
    }

    /// Puts the other thing in the place of `d` when so many names are swapped.
    fn apply(&self, when: impl Fn(usize, usize) -> bool) -> Result<(), ApplyError> {
        let outside = snapshot(&self.scene.base.join("outside"));
        let result = apply(&self.plan, &self.directory, &mut |p| {
            if p.stage == Stage::Swapping && when(p.done, p.total) {
                exchange(&self.d, &self.other);
            }
        });
        assert_same(&snapshot(&self.scene.base.join("outside")), &outside, "something outside was touched");
        result.map(|_| ())
    }

    fn assert_as_before(&self, what: &str) {
        let mut now = snapshot(&self.scene.tree);
        // Exchanging something in the root gives it a new time.
        now.get_mut(Path::new("")).unwrap().mtime = self.before[Path::new("")].mtime;
        assert_same(&now, &self.before, what);
        self.scene.assert_clean();
    }
}

#[test]
fn a_directory_that_leads_elsewhere_is_put_back_all_the_same() {
    for other in [Other::Link, Other::Directory, Other::File] {
        for when in 1..=10 {
            let place = Place::new(other, false);
            let result = place.apply(|done, total| done == when && total == 10);
            let what = format!("{other:?}, {when}");
            assert!(matches!(result, Err(ApplyError::Changed { .. })), "{what}: {result:?}");
            exchange(&place.d, &place.other);
            place.assert_as_before(&what);
            assert_eq!(recover(&place.directory).unwrap().outcome, Outcome::RolledBack);
            place.assert_as_before(&format!("{what}, after a recovery"));
        }
    }
}

#[test]
fn what_cannot_be_reached_is_put_back_when_it_can_be_again() {
    for other in [Other::Link, Other::Directory, Other::File] {
        let place = Place::new(other, true);
        let result = place.apply(|done, total| done == total);
        // Some of it may still have been held. All the rest is back already.
        let Err(ApplyError::Interrupted { unreachable, .. }) = result else { panic!("{other:?}: {result:?}") };
        assert!(unreachable.contains(&place.d.join("edited")), "{other:?}: {unreachable:?}");
        for n in 0..MANY {
            assert_eq!(fs::read(place.scene.tree.join(format!("many/{n}/x"))).unwrap(), b"old", "{other:?}");
        }
        assert_eq!(fs::read(place.scene.tree.join("last")).unwrap(), b"old");
        for round in 0..2 {
            let tree = snapshot(&place.scene.tree);
            let result = recover(&place.directory).map(|_| ());
            assert_named(&place, result, other, &format!("recovery {round}"));
            assert_same(&snapshot(&place.scene.tree), &tree, "a recovery that can do nothing does nothing");
            assert_eq!(read(&place.directory).unwrap().state, State::Pending);
        }
        // Away altogether.
        let away = place.scene.base.join("away");
        fs::rename(&place.d, &away).unwrap();
        assert_named(&place, recover(&place.directory).map(|_| ()), other, "away");
        fs::rename(&away, &place.d).unwrap();

        exchange(&place.d, &place.other);
        let recovered = recover(&place.directory).unwrap();
        assert_eq!((recovered.outcome, recovered.reported), (Outcome::RolledBack, vec![]), "{other:?}");
        place.assert_as_before(&format!("{other:?}"));
        assert_eq!(recover(&place.directory).unwrap().outcome, Outcome::RolledBack);
        place.assert_as_before(&format!("{other:?}, again"));
    }
}

/// Every path in `d`, and no other.
#[track_caller]
fn assert_named(place: &Place, result: Result<(), ApplyError>, other: Other, what: &str) {
    let Err(ApplyError::Interrupted { why, unreachable }) = result else { panic!("{other:?}, {what}: {result:?}") };
    // What is in a new directory goes with that.
    let is_own = |o: &&Operation| o.path.starts_with("d") && o.path != Path::new("d/made/x");
    let mut wanted: Vec<PathBuf> = place.plan.operations.iter().filter(is_own).map(|o| o.absolute(&place.plan.roots)).collect();
    wanted.sort();
    assert_eq!(unreachable, wanted, "{other:?}, {what}: {why}");
    assert!(wanted.iter().all(|path| why.contains(path.to_str().unwrap())), "{other:?}, {what}: {why}");
}

#[test]
fn what_somebody_replaced_in_a_directory_that_is_back_is_kept_and_reported() {
    let place = Place::new(Other::Link, true);
    assert!(matches!(place.apply(|done, total| done == total), Err(ApplyError::Interrupted { .. })));
    exchange(&place.d, &place.other);
    fs::write(place.scene.base.join("mine"), b"mine").unwrap();
    fs::rename(place.scene.base.join("mine"), place.d.join("edited")).unwrap();
    let recovered = recover(&place.directory).unwrap();
    let paths: Vec<_> = recovered.reported.iter().map(|(path, _)| path.clone()).collect();
    assert_eq!((recovered.outcome, paths), (Outcome::RolledBack, vec![place.d.join("edited")]));
    assert_eq!(fs::read(place.d.join("edited")).unwrap(), b"mine");
    assert_eq!(fs::read(place.directory.join("old/0")).unwrap(), b"old");
    place.scene.assert_clean();
}

#[test]
fn an_apply_that_goes_forward_waits_for_its_directories_too() {
    for other in [Other::Link, Other::File] {
        let place = Place::new(other, false);
        // Like a crash in the middle of the swap.
        let crashed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            apply(&place.plan, &place.directory, &mut |p| {
                if p.stage == Stage::Swapping && p.done == 3 {
                    std::panic::resume_unwind(Box::new(()));
                }
            })
        }));
        assert!(crashed.is_err());
        exchange(&place.d, &place.other);
        for _ in 0..2 {
            assert_named(&place, recover(&place.directory).map(|_| ()), other, "recovery");
        }
        exchange(&place.d, &place.other);
        let recovered = recover(&place.directory).unwrap();
        assert_eq!((recovered.outcome, recovered.reported), (Outcome::RolledForward, vec![]), "{other:?}");
        for name in ["edited", "new", "sub/x", "made/x"] {
            assert_eq!(fs::read(place.d.join(name)).unwrap(), b"new", "{other:?}: {name}");
        }
        assert!(!place.d.join("gone").exists() && !place.d.join("going").exists());
        place.scene.assert_clean();
    }
}
