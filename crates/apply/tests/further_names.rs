//! Further names of files that are there already.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use support::{Scene, assert_same, snapshot};
use whatif_apply::{ApplyError, Plan, Source, UndoPlan, apply, check, undo_plan};

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

/// `new` becomes a further name of `old`.
fn linked() -> (Scene, Plan) {
    let scene = Scene::new();
    scene.file("old", b"content");
    let plan = scene.plan(vec![scene.put("new", scene.existing("old"), 0o644)]);
    (scene, plan)
}

#[test]
fn a_further_name_is_the_same_file_and_is_taken_back() {
    for scene in [Scene::new(), Scene::across()] {
        scene.file("old", b"content");
        scene.file("over", b"other");
        let before = snapshot(&scene.tree);
        let plan = scene.plan(vec![
            scene.put("new", scene.existing("old"), 0o644),
            scene.put("over", Source::HardLink(0), 0),
            scene.put("d", Source::Directory, 0o755),
            scene.put("d/deep", Source::HardLink(1), 0),
        ]);
        let directory = scene.directory();
        apply(&plan, &directory, &mut |_| {}).unwrap();
        for name in ["new", "over", "d/deep"] {
            assert_eq!(inode(&scene.tree.join(name)), inode(&scene.tree.join("old")), "{name}");
        }
        scene.assert_clean();
        let UndoPlan { plan: undo, changed, .. } = undo_plan(&directory).unwrap();
        assert_eq!(changed, []);
        let directory = scene.directory();
        apply(&undo, &directory, &mut |_| {}).unwrap();
        let mut now = snapshot(&scene.tree);
        if !scene.state.starts_with(&scene.base) {
            // It came back as a copy.
            now.get_mut(Path::new("over")).unwrap().ino = before[Path::new("over")].ino;
        }
        assert_same(&now, &before, "undone");
        let UndoPlan { plan: redo, changed, .. } = undo_plan(&directory).unwrap();
        assert_eq!(changed, []);
        apply(&redo, &scene.directory(), &mut |_| {}).unwrap();
        for name in ["new", "over", "d/deep"] {
            assert_eq!(inode(&scene.tree.join(name)), inode(&scene.tree.join("old")), "{name} once more");
        }
    }
}

#[test]
fn what_others_do_to_the_file_meanwhile_does_not_stop_an_undo() {
    let (scene, plan) = linked();
    let directory = scene.directory();
    apply(&plan, &directory, &mut |_| {}).unwrap();
    fs::write(scene.tree.join("old"), b"edited since").unwrap();
    let UndoPlan { plan: undo, changed, .. } = undo_plan(&directory).unwrap();
    assert_eq!(changed, [], "the file stays under its first name");
    apply(&undo, &scene.directory(), &mut |_| {}).unwrap();
    assert!(!scene.tree.join("new").exists());
    assert_eq!(fs::read(scene.tree.join("old")).unwrap(), b"edited since");
}

#[test]
fn the_last_name_of_an_edited_file_is_not_taken_by_an_undo() {
    let (scene, plan) = linked();
    let directory = scene.directory();
    apply(&plan, &directory, &mut |_| {}).unwrap();
    fs::write(scene.tree.join("old"), b"edited since").unwrap();
    fs::remove_file(scene.tree.join("old")).unwrap();
    let UndoPlan { changed, .. } = undo_plan(&directory).unwrap();
    assert_eq!(changed.iter().map(|c| c.path.clone()).collect::<Vec<_>>(), [scene.tree.join("new")]);
}

#[test]
fn a_file_that_changed_gets_no_further_name() {
    type Meddle = fn(&Path);
    let cases: [(&str, Meddle); 3] = [
        ("does not exist any more", |old| fs::remove_file(old).unwrap()),
        ("was modified", |old| fs::write(old, b"something else").unwrap()),
        ("was replaced by another file", |old| {
            fs::write(old.with_extension("x"), b"content").unwrap();
            fs::rename(old.with_extension("x"), old).unwrap();
        }),
    ];
    for (why, meddle) in cases {
        let (scene, plan) = linked();
        meddle(&scene.tree.join("old"));
        let before = snapshot(&scene.tree);
        for error in
            [check(&plan, &scene.state).unwrap_err(), apply(&plan, &scene.directory(), &mut |_| {}).map(|_| ()).unwrap_err()]
        {
            let ApplyError::Problems(problems) = error else { panic!("{error:?}") };
            assert_eq!((problems[0].path.clone(), problems[0].what.as_str()), (scene.tree.join("old"), why));
        }
        assert_same(&snapshot(&scene.tree), &before, why);
    }
}

#[test]
fn a_change_while_it_is_staged_takes_everything_back() {
    let (scene, plan) = linked();
    let old = scene.tree.join("old");
    let outcome = apply(&plan, &scene.directory(), &mut |p| {
        if p.stage == whatif_apply::Stage::Staging {
            fs::write(&old, b"somebody's newest").unwrap();
        }
    });
    let ApplyError::Changed { path, .. } = outcome.unwrap_err() else { panic!("not refused") };
    assert_eq!(path, old);
    assert_eq!(fs::read(&old).unwrap(), b"somebody's newest");
    assert_eq!(fs::metadata(&old).unwrap().nlink(), 1, "no further name stays behind, not even in the store");
    assert!(!scene.tree.join("new").exists());
    scene.assert_clean();
}

#[test]
fn a_plan_that_changes_the_file_cannot_give_it_a_further_name() {
    let (scene, mut plan) = linked();
    plan.operations.push(scene.remove("old"));
    assert!(matches!(check(&plan, &scene.state), Err(ApplyError::Problems(_))));
}
