//! Single properties that are easy to get wrong.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

use support::{Scene, assert_same, attributes, difference, mixed, snapshot};
use whatif_apply::{ApplyError, Attributes, Change, Identity, Plan, Source, Stage, UndoPlan, apply, undo_plan};

fn bytes(content: &[u8]) -> Source {
    Source::Bytes(content.to_vec())
}

fn round_trip(scene: &Scene, plan: &Plan) {
    let before = snapshot(&scene.tree);
    let directory = scene.directory();
    apply(plan, &directory, &mut |_| {}).unwrap();
    scene.assert_clean();
    let UndoPlan { plan: undo, changed, .. } = undo_plan(&directory).unwrap();
    assert_eq!(changed, []);
    apply(&undo, &scene.directory(), &mut |_| {}).unwrap();
    assert_same(&snapshot(&scene.tree), &before, "undone");
}

#[test]
fn a_change_in_the_middle_of_staging_or_swapping_puts_everything_back() {
    let total = |stage: Stage| {
        let scene = Scene::at("/dev/shm".as_ref(), None);
        let plan = mixed(&scene);
        let mut total = 0;
        apply(&plan, &scene.directory(), &mut |p| {
            if p.stage == stage {
                total = p.total
            }
        })
        .unwrap();
        total
    };
    for stage in [Stage::Staging, Stage::Swapping] {
        for when in 1..=total(stage) {
            let scene = Scene::at("/dev/shm".as_ref(), None);
            let plan = mixed(&scene);
            let before = snapshot(&scene.tree);
            // The last of its kind, so that all others are swapped by then.
            let victim = scene.tree.join("mode");
            let result = apply(&plan, &scene.directory(), &mut |p| {
                if p.stage == stage && p.done == when {
                    fs::write(&victim, b"user's").unwrap();
                }
            });
            let last = stage == Stage::Swapping && when == total(stage);
            assert_eq!(matches!(result, Err(ApplyError::Changed { .. })), !last, "{stage:?} {when}: {result:?}");
            assert_eq!(fs::read(&victim).unwrap(), b"user's");
            scene.assert_clean();
            if !last {
                let mut now = snapshot(&scene.tree);
                now.insert("mode".into(), before[std::path::Path::new("mode")].clone());
                assert_eq!(difference(&now, &before), None, "{stage:?} {when}");
            }
        }
    }
}

#[test]
fn a_version_that_somebody_puts_there_in_the_last_moment_stays() {
    // Each after the first name was swapped, and before its own turn.
    for victim in ["link", "removed", "mode", "becomes-file/inner", "changed", "gone/deep/file"] {
        let scene = Scene::at("/dev/shm".as_ref(), None);
        let plan = mixed(&scene);
        let before = snapshot(&scene.tree);
        let path = scene.tree.join(victim);
        let result = apply(&plan, &scene.directory(), &mut |p| {
            if p.stage == Stage::Swapping && p.done == 1 {
                fs::write(scene.base.join("mine"), b"user's").unwrap();
                fs::rename(scene.base.join("mine"), &path).unwrap();
            }
        });
        assert!(matches!(result, Err(ApplyError::Changed { .. })), "{victim}: {result:?}");
        assert_eq!(fs::read(&path).unwrap(), b"user's", "{victim}");
        scene.assert_clean();
        let mut now = snapshot(&scene.tree);
        now.insert(victim.into(), before[std::path::Path::new(victim)].clone());
        // What it replaced may have had another name.
        let mut before = before;
        now.values_mut().chain(before.values_mut()).for_each(|s| s.nlink = 0);
        assert_eq!(difference(&now, &before), None, "{victim}");
    }
}

#[test]
fn what_is_not_there_after_the_swap_is_not_called_a_success() {
    let scene = Scene::at("/dev/shm".as_ref(), None);
    scene.file("file", b"before");
    scene.file("other", b"before");
    let plan = scene.plan(vec![scene.put("file", bytes(b"after"), 0o644), scene.put("other", bytes(b"after"), 0o644)]);
    let directory = scene.directory();
    let result = apply(&plan, &directory, &mut |p| {
        if p.stage == Stage::Swapping && p.done == p.total {
            fs::write(scene.base.join("mine"), b"user's").unwrap();
            fs::rename(scene.base.join("mine"), scene.tree.join("file")).unwrap();
        }
    });
    assert!(matches!(result, Err(ApplyError::PutBack { .. })), "{result:?}");
    assert_eq!(fs::read(scene.tree.join("file")).unwrap(), b"user's");
    assert_eq!(fs::read(scene.tree.join("other")).unwrap(), b"before");
    assert_eq!(fs::read(directory.join("old/0")).unwrap(), b"before");
    scene.assert_clean();
}

#[test]
fn what_changed_since_an_apply_is_named_before_undoing_it() {
    let scene = Scene::new();
    let plan = mixed(&scene);
    let directory = scene.directory();
    apply(&plan, &directory, &mut |_| {}).unwrap();
    fs::write(scene.tree.join("changed"), b"edited since").unwrap();
    fs::write(scene.tree.join("removed"), b"made again").unwrap();
    fs::remove_file(scene.tree.join("tree/a/b/c")).unwrap();
    let UndoPlan { changed, .. } = undo_plan(&directory).unwrap();
    let names: Vec<_> = changed.iter().map(|c| c.path.strip_prefix(&scene.tree).unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["changed", "removed", "tree/a/b/c"]);
}

#[test]
fn everything_that_is_in_the_way_of_undoing_is_named_at_once() {
    let scene = Scene::new();
    for name in ["f", "g", "stays/gone", "other/gone", "all/of/it"] {
        scene.file(name, b"before");
    }
    scene.file("becomes-directory", b"file");
    let plan = scene.plan(vec![
        scene.put("f", bytes(b"after"), 0o644),
        scene.put("g", bytes(b"after"), 0o644),
        scene.remove("stays/gone"),
        scene.remove("other/gone"),
        scene.remove("all"),
        scene.remove("all/of"),
        scene.remove("all/of/it"),
        scene.put("d", Source::Directory, 0o755),
        scene.put("d/x", bytes(b"x"), 0o644),
        scene.put("d/e", Source::Directory, 0o755),
        scene.put("d/untouched", Source::Directory, 0o755),
        scene.put("becomes-directory", Source::Directory, 0o755),
        scene.put("becomes-directory/x", bytes(b"x"), 0o644),
    ]);
    let directory = scene.directory();
    apply(&plan, &directory, &mut |_| {}).unwrap();
    assert_eq!(undo_plan(&directory).unwrap().changed, []);
    scene.file("f", b"edited");
    fs::remove_file(scene.tree.join("g")).unwrap();
    scene.file("g/mine", b"mine");
    fs::remove_dir_all(scene.tree.join("stays")).unwrap();
    fs::remove_dir_all(scene.tree.join("other")).unwrap();
    std::os::unix::fs::symlink("d", scene.tree.join("other")).unwrap();
    for name in ["d/mine", "d/e/b", "d/e/a", "becomes-directory/mine"] {
        scene.file(name, b"mine");
    }
    let UndoPlan { changed, in_use, .. } = undo_plan(&directory).unwrap();
    let named: Vec<_> = changed.iter().map(|c| c.path.strip_prefix(&scene.tree).unwrap().to_str().unwrap()).collect();
    assert_eq!(named, ["becomes-directory", "f", "g", "other/gone", "stays/gone"], "{changed:?}");
    assert_eq!(changed[0].why, "holds 'mine', put there since");
    // Nothing is to come in the place of these.
    let staying: Vec<_> =
        in_use.iter().map(|c| (c.path.strip_prefix(&scene.tree).unwrap().to_str().unwrap(), c.why.as_str())).collect();
    assert_eq!(staying, [("d", "holds 'e' and 1 more, put there since"), ("d/e", "holds 'a' and 1 more, put there since")]);
}

#[test]
fn names_of_255_bytes_and_of_any_bytes_work() {
    use std::os::unix::ffi::OsStringExt;
    let scene = Scene::new();
    let long = "x".repeat(255);
    scene.file(&long, b"before");
    let mut odd = scene.put("odd", bytes(b"odd"), 0o644);
    odd.path = std::ffi::OsString::from_vec(b"\xff\n\t \x1b[31m".to_vec()).into();
    let plan = scene.plan(vec![scene.put(&long, bytes(b"after"), 0o644), scene.put(&"y".repeat(255), bytes(b"new"), 0o644), odd]);
    round_trip(&scene, &plan);
}

#[test]
fn files_with_several_names_are_never_changed_in_place_and_stay_together() {
    let scene = Scene::new();
    let first = scene.file("first", b"shared");
    for name in ["second", "outside-of-the-plan"] {
        fs::hard_link(&first, scene.tree.join(name)).unwrap();
    }
    let plan = scene.plan(vec![
        scene.put("first", bytes(b"new"), 0o644),
        scene.remove("second"),
        scene.put("third", Source::HardLink(0), 0),
        scene.put("fourth", Source::HardLink(2), 0),
    ]);
    let directory = scene.directory();
    apply(&plan, &directory, &mut |_| {}).unwrap();
    assert_eq!(fs::read(scene.tree.join("outside-of-the-plan")).unwrap(), b"shared");
    let inode = |name: &str| fs::metadata(scene.tree.join(name)).map(|m| (m.ino(), m.nlink())).unwrap();
    assert_eq!((inode("first"), inode("first").1), (inode("fourth"), 3));
    let scene = Scene::new();
    let first = scene.file("first", b"shared");
    fs::hard_link(&first, scene.tree.join("second")).unwrap();
    round_trip(&scene, &scene.plan(vec![scene.remove("first"), scene.remove("second")]));
}

#[test]
fn hard_links_stay_together_in_copied_backups_too() {
    let scene = Scene::across();
    let first = scene.file("first", b"shared");
    fs::hard_link(&first, scene.tree.join("second")).unwrap();
    let directory = scene.directory();
    apply(&scene.plan(vec![scene.remove("first"), scene.remove("second")]), &directory, &mut |_| {}).unwrap();
    let undo = undo_plan(&directory).unwrap().plan;
    apply(&undo, &scene.directory(), &mut |_| {}).unwrap();
    let metadata = fs::metadata(scene.tree.join("second")).unwrap();
    assert_eq!((metadata.nlink(), metadata.ino()), (2, fs::metadata(&first).unwrap().ino()));
}

#[test]
fn holes_stay_holes_and_big_files_are_copied_whole() {
    let scene = Scene::new();
    let source = scene.source(b"");
    let mut file = fs::File::options().write(true).open(&source).unwrap();
    file.set_len(1 << 40).unwrap();
    file.seek(SeekFrom::Start(5 << 30)).unwrap();
    file.write_all(&vec![7; 3 << 20]).unwrap();
    let dense = scene.source(&(0..5_000_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
    let plan =
        scene.plan(vec![scene.put("sparse", Source::File(source), 0o600), scene.put("dense", Source::File(dense.clone()), 0o600)]);
    apply(&plan, &scene.directory(), &mut |_| {}).unwrap();
    let sparse = scene.tree.join("sparse");
    let metadata = fs::metadata(&sparse).unwrap();
    assert_eq!(metadata.len(), 1 << 40);
    assert!(metadata.blocks() * 512 < 16 << 20, "{} blocks", metadata.blocks());
    let mut read = [0_u8; 2];
    fs::File::open(&sparse).unwrap().read_exact_at(&mut read, (5 << 30) - 1).unwrap();
    assert_eq!(read, [0, 7]);
    assert_eq!(fs::read(scene.tree.join("dense")).unwrap(), fs::read(dense).unwrap());
}

#[test]
fn a_pipe_can_be_removed_and_comes_back_without_being_opened() {
    let scene = Scene::new();
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.tree.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
    let directory = scene.directory();
    apply(&scene.plan(vec![scene.remove("pipe")]), &directory, &mut |_| {}).unwrap();
    assert!(fs::symlink_metadata(scene.tree.join("pipe")).is_err());
    let undo = undo_plan(&directory).unwrap().plan;
    apply(&undo, &scene.directory(), &mut |_| {}).unwrap();
    assert_eq!(Identity::of(&scene.tree.join("pipe")).unwrap().kind, whatif_apply::Kind::Other);
}

#[test]
fn the_root_itself_can_have_its_attributes_changed() {
    let scene = Scene::new();
    scene.file("x", b"x");
    let plan = scene.plan(vec![scene.set("", 0o750), scene.put("new", bytes(b"new"), 0o644)]);
    let before = snapshot(&scene.tree);
    let directory = scene.directory();
    apply(&plan, &directory, &mut |_| {}).unwrap();
    assert_eq!(fs::metadata(&scene.tree).unwrap().mode() & 0o7777, 0o750);
    let UndoPlan { plan: undo, changed, .. } = undo_plan(&directory).unwrap();
    assert_eq!(changed, []);
    apply(&undo, &scene.directory(), &mut |_| {}).unwrap();
    assert_same(&snapshot(&scene.tree), &before, "undone");
}

#[test]
fn acls_are_inherited_by_nobody_and_set_where_they_are_wanted() {
    let scene = Scene::new();
    // Version 2: owner rwx, user 1000 rwx, group r-x, mask rwx, others r-x.
    let entry = |tag: u16, mode: u16, id: u32| [&tag.to_le_bytes()[..], &mode.to_le_bytes(), &id.to_le_bytes()].concat();
    let none = u32::MAX;
    let acl = |mask: u16| {
        let entries = [entry(1, 7, none), entry(2, 7, 1000), entry(4, 5, none), entry(16, mask, none), entry(32, 5, none)];
        [2_u32.to_le_bytes().to_vec(), entries.concat()].concat()
    };
    fs::create_dir(scene.tree.join("directory")).unwrap();
    let directory = scene.tree.join("directory");
    let set = rustix::fs::setxattr(&directory, "system.posix_acl_default", &acl(7), rustix::fs::XattrFlags::empty());
    if set.is_err() {
        println!("skipped: this file system has no ACLs");
        return;
    }
    let wanted = Attributes { xattrs: vec![("system.posix_acl_access".into(), acl(5))], ..attributes(0o755) };
    let plan = scene.plan(vec![
        scene.put("directory/plain", bytes(b"x"), 0o640),
        scene.put("directory/tree", Source::Directory, 0o750),
        scene.put("directory/tree/file", bytes(b"x"), 0o600),
        scene.operation("directory/granted", Change::Put { source: bytes(b"x"), attributes: wanted.clone() }),
    ]);
    round_trip(&scene, &plan);
    apply(&scene.plan(plan.operations), &scene.directory(), &mut |_| {}).unwrap();
    for (path, mode) in [("plain", 0o640), ("tree", 0o750), ("tree/file", 0o600)] {
        assert_eq!(Attributes::of(&directory.join(path)).unwrap(), attributes(mode), "{path}");
    }
    assert_eq!(Attributes::of(&directory.join("granted")).unwrap(), wanted);
    // A mode alone, of a file that has an ACL.
    let plan = scene.plan(vec![scene.set("directory/granted", 0o755), scene.set("directory/plain", 0o600)]);
    round_trip(&scene, &plan);
}

#[test]
fn a_thousand_directories_need_few_descriptors() {
    let scene = Scene::new();
    for n in 0..1000 {
        scene.file(&format!("{n}/file"), b"x");
    }
    let plan = scene.plan((0..1000).map(|n| scene.put(&format!("{n}/file"), bytes(b"y"), 0o644)).collect());
    let mut most = 0;
    let count = || fs::read_dir("/proc/self/fd").unwrap().count();
    apply(&plan, &scene.directory(), &mut |p| {
        if p.done % 50 == 0 {
            most = most.max(count())
        }
    })
    .unwrap();
    assert!(most < 600, "{most} descriptors");
}

/// As an ordinary user: what cannot be done is said beforehand, what can be done is done and taken back.
#[test]
fn an_ordinary_user_gets_what_is_possible() {
    if !rustix::process::geteuid().is_root() {
        return user_child();
    }
    use std::os::unix::process::CommandExt;
    let program = std::env::current_exe().unwrap();
    let mut command = std::process::Command::new(&program);
    command.args(["user_child", "--exact", "--ignored", "--test-threads=1"]).uid(65534).gid(65534).current_dir("/");
    match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            println!("skipped: {} is out of reach", program.display())
        }
        Err(error) => panic!("{error}"),
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
    }
}

#[test]
#[ignore = "run by another test, as another user"]
fn user_child() {
    if rustix::process::geteuid().is_root() {
        return;
    }
    let scene = Scene::at("/dev/shm".as_ref(), None);
    // Closed directories can be made, removed and brought back.
    let tree = scene.plan(vec![
        scene.put("closed", Source::Directory, 0o500),
        scene.put("closed/inner", Source::Directory, 0o000),
        scene.put("closed/inner/file", bytes(b"x"), 0o400),
    ]);
    let directory = scene.directory();
    apply(&tree, &directory, &mut |_| {}).unwrap();
    let mode = |path: &str| fs::symlink_metadata(scene.tree.join(path)).unwrap().mode() & 0o7777;
    assert_eq!((mode("closed"), mode("closed/inner")), (0o500, 0));
    fs::set_permissions(scene.tree.join("closed/inner"), fs::Permissions::from_mode(0o500)).unwrap();
    let going = scene.plan(vec![scene.remove("closed"), scene.remove("closed/inner"), scene.remove("closed/inner/file")]);
    let before = snapshot(&scene.tree);
    // First with somebody who interferes: everything must be closed again.
    let refused = apply(&going, &scene.directory(), &mut |p| {
        if p.stage == Stage::Swapping && p.done == 1 {
            fs::write(scene.tree.join("closed/mine"), b"mine").unwrap();
        }
    });
    assert!(matches!(refused, Err(ApplyError::Changed { .. })), "{refused:?}");
    fs::set_permissions(scene.tree.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::remove_file(scene.tree.join("closed/mine")).unwrap();
    fs::set_permissions(scene.tree.join("closed"), fs::Permissions::from_mode(0o500)).unwrap();
    let mut now = snapshot(&scene.tree);
    now.get_mut(std::path::Path::new("closed")).unwrap().mtime = before[std::path::Path::new("closed")].mtime;
    assert_same(&now, &before, "put back");
    scene.assert_clean();
    let going = scene.plan(vec![scene.remove("closed"), scene.remove("closed/inner"), scene.remove("closed/inner/file")]);
    round_trip(&scene, &going);

    // A staged tree with closed directories can be thrown away.
    let mut again = scene.plan(vec![
        scene.put("other", Source::Directory, 0o500),
        scene.put("other/inner", Source::Directory, 0o000),
        scene.put("other/inner/file", bytes(b"x"), 0o400),
        scene.put("conflict", bytes(b"x"), 0o644),
    ]);
    let refused = apply(&again, &scene.directory(), &mut |p| {
        if p.stage == Stage::Staging && p.done == p.total {
            fs::write(scene.tree.join("conflict"), b"mine").unwrap();
        }
    });
    assert!(matches!(refused, Err(ApplyError::Changed { .. })), "{refused:?}");
    scene.assert_clean();

    // What only root may do is refused, all of it at once.
    let foreign = Attributes { uid: 0, ..attributes(0o644) };
    let capable = Attributes { xattrs: vec![("security.capability".into(), vec![0; 20])], ..attributes(0o755) };
    again.operations = vec![
        scene.operation("foreign", Change::Put { source: bytes(b"x"), attributes: foreign }),
        scene.operation("capable", Change::Put { source: bytes(b"x"), attributes: capable }),
        scene.put("closed/new", bytes(b"x"), 0o644),
    ];
    again.roots.push("/tmp".into());
    let Err(ApplyError::Problems(problems)) = apply(&again, &scene.directory(), &mut |_| {}) else { panic!("accepted") };
    assert_eq!(problems.len(), 3, "{problems:?}");
}
