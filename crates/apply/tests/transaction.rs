//! What an apply does when nothing goes wrong, and what undoing it brings back.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;

use support::{Scene, assert_same, attributes, mixed, snapshot, without_inodes};
use whatif_apply::{Attributes, Change, Outcome, Source, State, UndoPlan, apply, check, read, recover, undo_plan};

#[test]
fn every_kind_of_change_is_made_and_taken_back_exactly() {
    for scene in [Scene::new(), Scene::across()] {
        let plan = mixed(&scene);
        let before = snapshot(&scene.tree);
        let directory = scene.directory();
        check(&plan, &directory).unwrap();
        apply(&plan, &directory, &mut |_| {}).unwrap();
        scene.assert_clean();
        let after = snapshot(&scene.tree);
        let content = |path: &str| fs::read_to_string(scene.tree.join(path)).unwrap();
        assert_eq!(content("changed"), "after");
        assert_eq!(content("second-name"), "before");
        assert_eq!(content("becomes-directory/new"), "inside");
        assert_eq!(content("becomes-file"), "now a file");
        assert_eq!(content("tree/a/b/c"), "deep");
        assert_eq!(content("tree/linked"), "deep");
        assert_eq!(fs::read_link(scene.tree.join("becomes-link")).unwrap().to_str(), Some("nowhere"));
        assert!(!scene.tree.join("gone").exists() && !scene.tree.join("removed").exists());
        let metadata = fs::metadata(scene.tree.join("kept/new")).unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.mtime(), metadata.mtime_nsec()), (0o4755, 1_600_000_000, 123_456_789));
        assert_eq!(fs::metadata(scene.tree.join("tree/linked")).unwrap().nlink(), 2);
        assert_eq!(fs::metadata(scene.tree.join("tree/a/b")).unwrap().mode() & 0o7777, 0o500);
        let record = read(&directory).unwrap();
        assert_eq!((record.state, record.about["note"].as_str()), (State::Done, Some("test")));
        assert_eq!(recover(&directory).unwrap().outcome, Outcome::WasDone);

        let UndoPlan { plan: undo, changed, .. } = undo_plan(&directory).unwrap();
        assert_eq!(changed, []);
        let undo_directory = scene.directory();
        apply(&undo, &undo_directory, &mut |_| {}).unwrap();
        scene.assert_clean();
        let moved = scene.state.starts_with(&scene.base);
        let undone = snapshot(&scene.tree);
        if moved {
            assert_same(&undone, &before, "undone");
        } else {
            // A copy cannot bring an inode back, nor names of it that the plan did not know.
            let loose = |tree| {
                let mut tree = without_inodes(tree);
                tree.values_mut().for_each(|s| s.nlink = 0);
                tree
            };
            assert_same(&loose(&undone), &loose(&before), "undone");
        }

        let UndoPlan { plan: redo, changed, .. } = undo_plan(&undo_directory).unwrap();
        assert_eq!(changed, []);
        apply(&redo, &scene.directory(), &mut |_| {}).unwrap();
        let redone = snapshot(&scene.tree);
        if moved {
            assert_same(&redone, &after, "redone");
        }
    }
}

#[test]
fn extended_attributes_and_times_are_exactly_what_was_asked_for() {
    let scene = Scene::new();
    scene.file("file", b"x");
    rustix::fs::setxattr(scene.tree.join("file"), "user.old", b"1", rustix::fs::XattrFlags::empty()).unwrap();
    let wanted = Attributes { xattrs: vec![("user.new".into(), b"2\0\xff".to_vec())], ..attributes(0o444) };
    let source = Source::File(scene.source(b"y"));
    let plan = scene.plan(vec![scene.operation("file", Change::Put { source, attributes: wanted.clone() })]);
    let before = snapshot(&scene.tree);
    let directory = scene.directory();
    apply(&plan, &directory, &mut |_| {}).unwrap();
    assert_eq!(Attributes::of(&scene.tree.join("file")).unwrap(), wanted);
    let undo = undo_plan(&directory).unwrap().plan;
    apply(&undo, &scene.directory(), &mut |_| {}).unwrap();
    assert_same(&snapshot(&scene.tree), &before, "undone");
}
