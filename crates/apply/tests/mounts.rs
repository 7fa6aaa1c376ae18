//! What other mounts do to an apply. Each test runs in a mount namespace of its own, which needs root; otherwise it is skipped.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "a skip says why")]

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use support::{Scene, assert_same, mixed, snapshot, without_inodes};
use whatif_apply::{ApplyError, Source, Stage, UndoPlan, apply, check, undo_plan};

/// Runs a test of this file again where its mounts are nobody else's.
fn apart(child: &str) {
    let program = std::env::current_exe().unwrap();
    let arguments = ["--mount", "--propagation", "private", "--"];
    let possible = Command::new("unshare").args(arguments).arg("true").output().is_ok_and(|o| o.status.success());
    if !possible {
        println!("skipped: no mount namespace can be made here");
        return;
    }
    let mut command = Command::new("unshare");
    command.args(arguments).arg(program).args([child, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    let output = command.env("WHATIF_APPLY_APART", "1").output().unwrap();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

fn is_apart() -> bool {
    std::env::var_os("WHATIF_APPLY_APART").is_some()
}

fn mount(arguments: &[&str]) -> bool {
    Command::new("mount").args(arguments).status().unwrap().success()
}

#[test]
fn directories_of_a_lower_layer_can_be_removed_and_come_back() {
    apart("overlay_child");
}

#[test]
#[ignore = "run by another test"]
fn overlay_child() {
    if !is_apart() {
        return;
    }
    for interfere in [false, true] {
        let scene = Scene::at("/dev/shm".as_ref(), None);
        let mut plan = mixed(&scene);
        // An overlay can neither exchange a directory of its lower layer nor keep the inode of a file there that has several
        // names. Both are refused and put back.
        fs::remove_file(scene.tree.join("second-name")).unwrap();
        let is_linked =
            |path: &Path| ["tree/linked", "same", "tree/same", "becomes-same"].iter().any(|name| path == Path::new(name));
        plan.operations.retain(|o| !o.path.starts_with("becomes-file") && !is_linked(&o.path));
        let lower = scene.base.join("lower");
        fs::rename(&scene.tree, &lower).unwrap();
        for name in ["tree", "upper", "work"] {
            fs::create_dir(scene.base.join(name)).unwrap();
        }
        let path = |name: &str| scene.base.join(name).display().to_string();
        let options =
            format!("lowerdir={},upperdir={},workdir={},redirect_dir=off,index=off", path("lower"), path("upper"), path("work"));
        if !mount(&["-t", "overlay", "overlay", "-o", &options, &path("tree")]) {
            println!("skipped: no overlay can be mounted here");
            return;
        }
        for operation in &mut plan.operations {
            operation.expected = support::expected(&scene.tree.join(&operation.path));
        }
        let before = snapshot(&scene.tree);
        let directory = scene.directory();
        let result = apply(&plan, &directory, &mut |p| {
            if interfere && p.stage == Stage::Swapping && p.done + 1 == p.total {
                fs::write(scene.tree.join("mode"), b"user's").unwrap();
            }
        });
        if interfere {
            assert!(matches!(result, Err(ApplyError::Changed { .. })), "{result:?}");
            let mut now = snapshot(&scene.tree);
            now.insert("mode".into(), before[Path::new("mode")].clone());
            assert_same(&without_inodes(&now), &without_inodes(&before), "put back");
        } else {
            result.unwrap();
            assert!(!scene.tree.join("gone").exists());
            let UndoPlan { plan: undo, changed, .. } = undo_plan(&directory).unwrap();
            assert_eq!(changed, []);
            apply(&undo, &scene.directory(), &mut |_| {}).unwrap();
            // Copying a file up breaks its hard links, so these are not compared.
            let loose = |tree| {
                let mut tree = without_inodes(&tree);
                tree.values_mut().for_each(|s| s.nlink = 0);
                tree
            };
            assert_same(&loose(snapshot(&scene.tree)), &loose(before), "undone");
        }
        scene.assert_clean();
        assert!(Command::new("umount").arg(&scene.tree).status().unwrap().success());
    }
}

#[test]
fn another_mount_of_the_same_file_system_and_read_only_ones_are_noticed() {
    apart("bind_child");
}

#[test]
#[ignore = "run by another test"]
fn bind_child() {
    if !is_apart() {
        return;
    }
    let scene = Scene::at("/dev/shm".as_ref(), None);
    scene.file("file", b"before");
    scene.file("mounted/inner", b"x");
    scene.file("read-only/inner", b"x");
    // The tree is reached by another mount than the backups, so nothing can be renamed between them.
    let tree = scene.tree.display().to_string();
    assert!(mount(&["--bind", &tree, &tree]));
    let plan = scene.plan(vec![scene.put("file", Source::Bytes(b"after".to_vec()), 0o644)]);
    let before = snapshot(&scene.tree);
    let directory = scene.directory();
    apply(&plan, &directory, &mut |_| {}).unwrap();
    assert_eq!(fs::read(directory.join("old/0")).unwrap(), b"before");
    assert_ne!(fs::metadata(directory.join("old/0")).unwrap().ino(), before[Path::new("file")].ino);
    let undo = undo_plan(&directory).unwrap().plan;
    apply(&undo, &scene.directory(), &mut |_| {}).unwrap();
    assert_same(&without_inodes(&snapshot(&scene.tree)), &without_inodes(&before), "undone");

    // Mounts within it are neither entered nor replaced.
    let inner = scene.tree.join("mounted/inner").display().to_string();
    let read_only = scene.tree.join("read-only").display().to_string();
    assert!(mount(&["--bind", &inner, &inner]));
    assert!(mount(&["--bind", &read_only, &read_only]) && mount(&["-o", "remount,ro,bind", &read_only]));
    let plan = scene.plan(vec![scene.remove("mounted/inner"), scene.remove("read-only/inner")]);
    let Err(ApplyError::Problems(problems)) = check(&plan, &scene.directory()) else { panic!("accepted") };
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems.iter().all(|p| p.what.contains("mount")), "{problems:?}");
    // With the read-only mount as a root of its own.
    let plan = whatif_apply::Plan { roots: vec![read_only.clone().into()], ..scene.plan(vec![]) };
    let operation = whatif_apply::Operation { path: "inner".into(), ..scene.remove("read-only/inner") };
    let Err(ApplyError::Problems(problems)) =
        check(&whatif_apply::Plan { operations: vec![operation], ..plan }, &scene.directory())
    else {
        panic!("accepted")
    };
    assert!(problems[0].what.contains("read-only"), "{problems:?}");

    // A file system that has no room.
    let small = scene.base.join("small");
    fs::create_dir(&small).unwrap();
    assert!(mount(&["-t", "tmpfs", "-o", "size=1m,nr_inodes=20", "tmpfs", &small.display().to_string()]));
    let plan = |operations| whatif_apply::Plan { roots: vec![small.clone()], operations, about: serde_json::Value::Null };
    let big = scene.put("big", Source::Bytes(vec![1; 2 << 20]), 0o644);
    let many = (0..30).map(|n| scene.put(&format!("many-{n}"), Source::Bytes(vec![1]), 0o644)).collect();
    for (operations, word) in [(vec![big], "room"), (many, "inodes")] {
        let Err(ApplyError::Problems(problems)) = check(&plan(operations), &scene.directory()) else { panic!("accepted") };
        assert!(problems.iter().any(|p| p.what.contains(word)), "{problems:?}");
    }
    for path in [&small.display().to_string(), &inner, &read_only, &tree] {
        assert!(Command::new("umount").arg(path).status().unwrap().success());
    }
}
