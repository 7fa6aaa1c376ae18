//! Everything that stands against a plan is found before anything is written, and all of it is said at once.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use support::{Scene, assert_same, attributes, expected, mixed, snapshot};
use whatif_apply::{ApplyError, Attributes, Change, Expected, Operation, Plan, Problem, Source, apply, check, recover};

fn problems(plan: &Plan, scene: &Scene) -> Vec<Problem> {
    let before = snapshot(&scene.tree);
    let directory = scene.directory();
    let Err(ApplyError::Problems(checked)) = check(plan, &directory) else { panic!("the plan was accepted") };
    let Err(ApplyError::Problems(applied)) = apply(plan, &directory, &mut |_| {}) else { panic!("the plan was applied") };
    assert_eq!(checked, applied);
    assert_same(&snapshot(&scene.tree), &before, "something was written");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    checked
}

fn bytes() -> Source {
    Source::Bytes(b"new".to_vec())
}

fn create(path: &str) -> Operation {
    let change = Change::Put { source: bytes(), attributes: attributes(0o644) };
    Operation { root: 0, path: path.into(), expected: Expected::Absent, change }
}

fn said(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(|p| format!("{}: {}\n", p.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default(), p.what))
        .collect()
}

#[test]
fn all_problems_are_listed_at_once() {
    let scene = Scene::new();
    scene.file("modified", b"x");
    scene.file("vanished", b"x");
    scene.file("directory/stays", b"x");
    scene.file("linked", b"x");
    scene.file("becomes-pipe", b"x");
    fs::hard_link(scene.tree.join("linked"), scene.tree.join("linked-too")).unwrap();
    symlink("/etc", scene.tree.join("link")).unwrap();
    let plan = scene.plan(vec![
        scene.put("modified", bytes(), 0o644),
        scene.remove("vanished"),
        create("appeared"),
        scene.remove("directory"),
        create("link/passwd"),
        create("missing/file"),
        create("modified-not/../x"),
        scene.set("linked", 0o600),
        scene.put("becomes-pipe", bytes(), 0o644),
        scene.put("sourceless", Source::File(scene.base.join("nothing")), 0o644),
    ]);
    let bad = Plan { operations: vec![plan.operations[6].clone()], ..plan.clone() };
    assert!(said(&problems(&bad, &scene)).contains("not a plain path"));

    fs::write(scene.tree.join("modified"), b"other").unwrap();
    fs::remove_file(scene.tree.join("vanished")).unwrap();
    fs::remove_file(scene.tree.join("becomes-pipe")).unwrap();
    let made = rustix::fs::mkfifoat(rustix::fs::CWD, scene.tree.join("becomes-pipe"), rustix::fs::Mode::RWXU);
    made.unwrap();
    fs::write(scene.tree.join("appeared"), b"user's").unwrap();
    let mut plan = plan;
    plan.operations.remove(6);
    let said = said(&problems(&plan, &scene));
    for expected in [
        "modified: was modified",
        "vanished: does not exist any more",
        "appeared: exists now",
        "directory: would be removed, but holds 'stays'",
        "link: cannot be worked in: what is in it lies behind a link",
        "missing: cannot be worked in: what is in it lies in a directory that does not exist",
        "linked: has several names",
        "becomes-pipe: is a pipe, socket or device now",
        "nothing is gone",
    ] {
        assert!(said.contains(expected), "{expected}\nis missing in\n{said}");
    }
}

#[test]
fn plans_that_contradict_themselves_are_refused() {
    let scene = Scene::new();
    scene.file("file", b"x");
    scene.file("directory/inner", b"x");
    let link = |path: &str, to: &str| scene.put(path, Source::Link(to.into()), 0);
    let directory = |path: &str| scene.put(path, Source::Directory, 0o755);
    let cases: Vec<(&str, Vec<Operation>)> = vec![
        ("occurs twice", vec![create("new"), create("new")]),
        ("reached through a link that the plan makes", vec![link("d", "/etc"), create("d/cron.d")]),
        ("something that is no directory", vec![create("d"), create("d/x")]),
        ("a directory that does not exist", vec![directory("d"), create("d/e/x")]),
        ("a directory that is removed", vec![scene.remove("directory"), scene.remove("directory/inner"), create("directory/x")]),
        ("is a root", vec![scene.operation("", Change::Remove)]),
        ("plain path", vec![create("/etc/passwd")]),
        ("plain path", vec![create("./x")]),
        ("plain path", vec![create("a//b")]),
        ("plain path", vec![create("a/")]),
        ("plain path", vec![create("..")]),
        ("plain path", vec![Operation { path: PathBuf::from(std::ffi::OsString::from_vec(b"a\0b".to_vec())), ..create("x") }]),
        ("no root", vec![Operation { root: 7, ..create("x") }]),
        ("hard link to something", vec![scene.put("x", Source::HardLink(0), 0)]),
        ("hard link to something", vec![scene.put("x", Source::HardLink(9), 0)]),
        ("hard link to something", vec![scene.put("x", Source::HardLink(1), 0), scene.put("y", Source::HardLink(0), 0)]),
        ("hard link to something", vec![directory("d"), scene.put("x", Source::HardLink(0), 0)]),
        ("expected to be absent", vec![scene.remove("missing")]),
        ("too long", vec![create(&"x".repeat(256))]),
        ("target of a link", vec![link("x", "")]),
        ("only have its mode changed", {
            let attributes = Attributes { mode: 0o600, mtime: Some((1, 1)), ..Attributes::of(&scene.tree.join("file")).unwrap() };
            vec![scene.operation("file", Change::Set { attributes })]
        }),
    ];
    for (expected, operations) in cases {
        let said = said(&problems(&scene.plan(operations), &scene));
        assert!(said.contains(expected), "{expected:?} is missing in {said:?}");
    }
}

#[test]
fn mounts_are_neither_crossed_nor_replaced() {
    let scene = Scene::new();
    let plan = |operations| Plan { roots: vec!["/".into()], operations, about: serde_json::Value::Null };
    let crossing = Operation { root: 0, path: "proc/whatif-test".into(), ..create("x") };
    let replacing = Operation { root: 0, path: "proc".into(), expected: expected("/proc".as_ref()), change: Change::Remove };
    for operation in [crossing, replacing] {
        // Never applied, whatever the check says.
        let Err(ApplyError::Problems(problems)) = check(&plan(vec![operation]), &scene.directory()) else { panic!("accepted") };
        assert!(said(&problems).contains("mount"), "{problems:?}");
    }
}

#[test]
fn a_link_in_the_path_of_a_root_is_refused() {
    let scene = Scene::new();
    symlink(&scene.tree, scene.base.join("alias")).unwrap();
    let plan = Plan { roots: vec![scene.base.join("alias")], ..scene.plan(vec![create("x")]) };
    let Err(ApplyError::Problems(problems)) = check(&plan, &scene.directory()) else { panic!("accepted") };
    assert!(said(&problems).contains("link"), "{problems:?}");
}

#[test]
fn locked_files_and_full_disks_are_found_beforehand() {
    let scene = Scene::new();
    let file = scene.file("locked", b"x");
    scene.file("locked-directory/x", b"x");
    let flags = |path: &PathBuf, on: bool| {
        let file = fs::File::open(path).unwrap();
        let old = rustix::fs::ioctl_getflags(&file).unwrap();
        let new = if on { old | rustix::fs::IFlags::IMMUTABLE } else { old - rustix::fs::IFlags::IMMUTABLE };
        rustix::fs::ioctl_setflags(&file, new)
    };
    let huge = scene.base.join("new/huge");
    // Blocks that are really there, but more than fit a second time, cannot be made in a test; so only locks are tried here.
    fs::write(&huge, b"small").unwrap();
    let plan = scene.plan(vec![scene.remove("locked"), scene.remove("locked-directory/x"), create("fine")]);
    let directory = scene.tree.join("locked-directory");
    if flags(&file, true).is_err() {
        println!("skipped: this user or file system cannot lock files");
        return;
    }
    flags(&directory, true).unwrap();
    // Setting a flag changes the time of change, which is not what this is about.
    let operations = plan.operations.iter().map(|o| Operation { expected: expected(&scene.tree.join(&o.path)), ..o.clone() });
    let found = problems(&Plan { operations: operations.collect(), ..plan.clone() }, &scene);
    flags(&file, false).unwrap();
    flags(&directory, false).unwrap();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|p| p.what.contains("locked") && format!("{:?}", p.remedy).contains("chattr")), "{found:?}");
}

#[test]
fn only_one_apply_works_in_a_root_at_a_time() {
    let scene = Scene::new();
    let root = fs::File::open(&scene.tree).unwrap();
    rustix::fs::flock(&root, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let result = apply(&scene.plan(vec![create("x")]), &scene.directory(), &mut |_| {});
    assert!(matches!(result, Err(ApplyError::Busy { .. })), "{result:?}");
}

#[test]
fn the_same_root_may_be_named_twice_and_roots_may_lie_in_each_other() {
    let scene = Scene::new();
    scene.file("inner/file", b"x");
    let roots = vec![scene.tree.clone(), scene.tree.clone(), scene.tree.join("inner")];
    let operations = vec![create("a"), Operation { root: 1, ..create("b") }, Operation { root: 2, ..create("c") }];
    let plan = Plan { roots, ..scene.plan(operations) };
    apply(&plan, &scene.directory(), &mut |_| {}).unwrap();
    assert!(["a", "b", "inner/c"].iter().all(|p| scene.tree.join(p).exists()));
    let inner = Operation { root: 0, ..scene.remove("inner") };
    assert!(said(&problems(&Plan { operations: vec![inner], ..plan }, &scene)).contains("holds the root of another tree"));
}

#[test]
fn a_directory_without_a_journal_has_nothing_to_recover() {
    let scene = Scene::new();
    let directory = scene.directory();
    assert_eq!(recover(&directory).unwrap().outcome, whatif_apply::Outcome::Nothing);
    fs::write(directory.join("journal"), b"").unwrap();
    assert_eq!(recover(&directory).unwrap().outcome, whatif_apply::Outcome::Nothing);
}

#[test]
fn a_plan_survives_json() {
    let scene = Scene::new();
    let mut plan = mixed(&scene);
    plan.operations[0].path = PathBuf::from(std::ffi::OsString::from_vec(b"caf\xe9\n".to_vec()));
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
}
