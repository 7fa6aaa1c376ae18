//! Attributes that no sandbox has a say about stay with the path when a new version takes its place.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on has failed; skips are said")]

mod support;

use std::fs;
use std::path::Path;

use rustix::fs::{IFlags, XattrFlags, getxattr, ioctl_getflags, ioctl_setflags, setxattr};
use support::Scene;
use whatif_apply::{Source, UndoPlan, apply, undo_plan};

fn value(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 64];
    let length = getxattr(path, name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

fn has_flag(path: &Path) -> bool {
    ioctl_getflags(fs::File::open(path).unwrap()).unwrap().contains(IFlags::NODUMP)
}

fn play(scene: &Scene, backups_keep_flags: bool) {
    let names = ["trusted.whatif-test", "security.whatif-test"];
    for name in ["replaced", "removed"] {
        let path = scene.file(name, b"old");
        if names.iter().any(|name| setxattr(&path, *name, b"1", XattrFlags::empty()).is_err()) {
            println!("skipped: this user or file system cannot give such attributes");
            return;
        }
        let file = fs::File::open(&path).unwrap();
        ioctl_setflags(&file, ioctl_getflags(&file).unwrap() | IFlags::NODUMP).unwrap();
    }
    let is_kept = |name: &str, when: &str| {
        let path = scene.tree.join(name);
        assert!(names.iter().all(|name| value(&path, name).as_deref() == Some(b"1")), "{name} {when}");
        // What was removed comes back from its backup alone.
        assert!(has_flag(&path) || name == "removed" && !backups_keep_flags, "flag of {name} {when}");
    };
    let plan = scene.plan(vec![scene.put("replaced", Source::Bytes(b"new".to_vec()), 0o644), scene.remove("removed")]);
    let directory = scene.directory();
    let applied = apply(&plan, &directory, &mut |_| {}).unwrap();
    assert_eq!(applied.reported, []);
    is_kept("replaced", "applied");
    let UndoPlan { plan: undo, changed, .. } = undo_plan(&directory).unwrap();
    assert_eq!(changed, []);
    apply(&undo, &scene.directory(), &mut |_| {}).unwrap();
    assert_eq!(fs::read(scene.tree.join("replaced")).unwrap(), b"old");
    is_kept("replaced", "undone");
    is_kept("removed", "undone");
}

#[test]
fn what_is_not_compared_stays_with_a_replaced_file() {
    play(&Scene::new(), true);
}

#[test]
fn the_same_where_earlier_versions_are_copies() {
    play(&Scene::across(), false);
}
