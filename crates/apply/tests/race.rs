//! Somebody changes the tree while an apply works in it. Nothing outside is ever touched, and nobody's version is lost.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags};
use support::{Scene, assert_same, snapshot};
use whatif_apply::{ApplyError, Source, apply, recover};

fn exchange(a: &std::path::Path, b: &std::path::Path) {
    let _ = rustix::fs::renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE);
}

const LONG: Duration = Duration::from_secs(2);

#[test]
fn a_parent_that_is_swapped_for_a_link_leads_nowhere() {
    let scene = Scene::at("/dev/shm".as_ref(), None);
    let outside = scene.base.join("outside");
    fs::create_dir_all(outside.join("deep")).unwrap();
    fs::write(outside.join("deep/file"), b"precious").unwrap();
    fs::write(outside.join("deep/removed"), b"precious").unwrap();
    let canary = snapshot(&outside);
    symlink(&outside, scene.tree.join("trap")).unwrap();
    fs::create_dir_all(scene.tree.join("parent/deep")).unwrap();
    let stop = AtomicBool::new(false);
    let (mut applied, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                exchange(&scene.tree.join("trap"), &scene.tree.join("parent"));
                std::thread::sleep(Duration::from_micros(n * 7 % 900));
            }
        });
        let end = Instant::now() + LONG;
        let mut n = 0;
        while Instant::now() < end {
            n += 1;
            let file = |path: &str, content: String| scene.put(path, Source::Bytes(content.into_bytes()), 0o644);
            let plan = scene.plan(vec![
                file("parent/deep/file", format!("new {n}")),
                file(&format!("parent/deep/new-{n}"), "new".to_owned()),
                scene.put(&format!("parent/link-{n}"), Source::Link("x".into()), 0),
            ]);
            let directory = scene.directory();
            match apply(&plan, &directory, &mut |_| {}) {
                Ok(_) => applied += 1,
                Err(ApplyError::Interrupted { .. }) => {
                    // Recovery works under the same conditions.
                    for _ in 0..100 {
                        if recover(&directory).is_ok() {
                            break;
                        }
                    }
                    refused += 1;
                }
                Err(_) => refused += 1,
            }
            let _ = fs::remove_dir_all(&directory);
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{applied} applied, {refused} refused");
    assert!(applied > 0 && refused > 0);
    assert_same(&snapshot(&outside), &canary, "something outside was touched");
}

#[test]
fn a_version_that_somebody_writes_meanwhile_is_never_lost() {
    let scene = Scene::at("/dev/shm".as_ref(), None);
    let target = scene.file("file", b"0");
    let stop = AtomicBool::new(false);
    let (mut applied, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        // An editor: writes a new version beside the file and renames it over.
        scope.spawn(|| {
            for n in 1.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let new = scene.base.join("editor");
                fs::write(&new, n.to_string()).unwrap();
                fs::rename(&new, scene.tree.join("file")).unwrap();
                std::thread::sleep(Duration::from_micros(n % 300));
            }
        });
        let end = Instant::now() + LONG;
        while Instant::now() < end {
            let operation = scene.put("file", Source::Bytes(b"ours".to_vec()), 0o644);
            let seen = fs::read(&target).unwrap();
            // Only a plan that is consistent in itself says anything.
            if support::expected(&target) != operation.expected {
                continue;
            }
            let directory = scene.directory();
            match apply(&scene.plan(vec![operation]), &directory, &mut |_| {}) {
                Ok(_) => {
                    applied += 1;
                    assert_eq!(
                        fs::read(directory.join("old/0")).unwrap(),
                        seen,
                        "another version was taken away than was reviewed"
                    );
                }
                Err(ApplyError::Interrupted { .. }) => drop(recover(&directory).unwrap()),
                Err(error) => {
                    refused += 1;
                    assert_ne!(fs::read(&target).unwrap(), b"ours", "{error:?}");
                }
            }
            fs::remove_dir_all(&directory).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{applied} applied, {refused} refused");
    assert!(applied > 0 && refused > 0, "{applied} applied, {refused} refused");
    scene.assert_clean();
}

#[test]
fn a_file_that_appears_in_a_directory_that_goes_is_not_lost() {
    let scene = Scene::at("/dev/shm".as_ref(), None);
    let end = Instant::now() + LONG;
    let (mut applied, mut refused) = (0, 0);
    while Instant::now() < end {
        fs::create_dir_all(scene.tree.join("going/inner")).unwrap();
        for n in 0..5 {
            scene.file(&format!("going/{n}"), b"x");
        }
        let mut operations: Vec<_> = (0..5).map(|n| scene.remove(&format!("going/{n}"))).collect();
        operations.extend([scene.remove("going"), scene.remove("going/inner")]);
        let plan = scene.plan(operations);
        let directory = scene.directory();
        let delay = applied * 37 % 400;
        let (result, written) = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                std::thread::sleep(Duration::from_micros(delay));
                fs::write(scene.tree.join("going/inner/mine"), b"mine").is_ok()
            });
            (apply(&plan, &directory, &mut |_| {}), writer.join().unwrap())
        });
        let mine = scene.tree.join("going/inner/mine");
        match result {
            Ok(_) => {
                applied += 1;
                assert!(!written, "a file was lost");
                assert!(!scene.tree.join("going").exists());
            }
            Err(ApplyError::Interrupted { .. }) => {
                recover(&directory).unwrap();
                assert!(!written || mine.exists(), "a file was lost");
            }
            Err(_) => {
                refused += 1;
                assert!(!written || mine.exists(), "a file was lost");
                assert!((0..5).all(|n| scene.tree.join(format!("going/{n}")).exists()));
            }
        }
        fs::remove_dir_all(&directory).unwrap();
        let _ = fs::remove_dir_all(scene.tree.join("going"));
    }
    println!("{applied} applied, {refused} refused");
    assert!(applied > 0);
    scene.assert_clean();
}
