//! Random trees and random plans: what is there afterwards is what the plan says, and undoing brings back what was there before.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use support::{Scene, assert_same, snapshot};
use whatif_apply::{Expected, Operation, Plan, Source, UndoPlan, apply, undo_plan};

/// What lies at a path.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    File(Vec<u8>, u32),
    Link(String),
    Directory(u32, BTreeMap<String, Node>),
}

fn node() -> impl Strategy<Value = Node> {
    let mode = prop_oneof![Just(0o644), Just(0o755), Just(0o600), Just(0o4711), Just(0o444)];
    let leaf = prop_oneof![
        4 => (proptest::collection::vec(any::<u8>(), 0..40), mode).prop_map(|(c, m)| Node::File(c, m)),
        1 => "[a-z/.]{1,12}".prop_map(Node::Link),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        let mode = prop_oneof![Just(0o755), Just(0o700), Just(0o2775)];
        (mode, proptest::collection::btree_map("[a-e]", inner, 0..4)).prop_map(|(m, c)| Node::Directory(m, c))
    })
}

fn tree() -> impl Strategy<Value = BTreeMap<String, Node>> {
    proptest::collection::btree_map("[a-e]", node(), 0..5)
}

fn make(path: &Path, node: &Node) {
    match node {
        Node::File(content, mode) => {
            fs::write(path, content).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(*mode)).unwrap();
        }
        Node::Link(to) => symlink(to, path).unwrap(),
        Node::Directory(mode, children) => {
            fs::create_dir(path).unwrap();
            for (name, child) in children {
                make(&path.join(name), child);
            }
            fs::set_permissions(path, fs::Permissions::from_mode(*mode)).unwrap();
        }
    }
}

/// The operations that turn one tree into another.
fn differences(scene: &Scene, path: &Path, old: Option<&Node>, new: Option<&Node>, operations: &mut Vec<Operation>) {
    let text = path.to_str().unwrap();
    let empty = BTreeMap::new();
    let children = |node: Option<&Node>| match node {
        Some(Node::Directory(_, children)) => children.clone(),
        _ => empty.clone(),
    };
    let (inner_old, inner_new) = (children(old), children(new));
    match (old, new) {
        (Some(_), None) => operations.push(scene.remove(text)),
        (Some(Node::Directory(a, _)), Some(Node::Directory(b, _))) if a == b => {}
        (Some(Node::Directory(..)), Some(Node::Directory(0o700, _))) => operations.push(scene.put(text, Source::Directory, 0o700)),
        (Some(Node::Directory(..)), Some(Node::Directory(b, _))) => operations.push(scene.set(text, *b)),
        (Some(Node::File(a, m)), Some(Node::File(b, n))) if a == b && m != n => operations.push(scene.set(text, *n)),
        (old, Some(new)) if old != Some(new) => operations.push(match new {
            Node::File(content, mode) if content.len() % 2 == 0 => scene.put(text, Source::Bytes(content.clone()), *mode),
            Node::File(content, mode) => scene.put(text, Source::File(scene.source(content)), *mode),
            Node::Link(to) => scene.put(text, Source::Link(to.into()), 0o777),
            Node::Directory(mode, _) => scene.put(text, Source::Directory, *mode),
        }),
        _ => {}
    }
    // Looking at a path may lead through a link that is replaced by a directory; nothing is there then.
    if let (None, Some(operation)) = (old, operations.last_mut().filter(|o| o.path == path)) {
        operation.expected = Expected::Absent;
    }
    let mut names: Vec<&String> = inner_old.keys().chain(inner_new.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        differences(scene, &path.join(name), inner_old.get(name), inner_new.get(name), operations);
    }
}

fn assert_is(scene: &Scene, path: &Path, expected: &BTreeMap<String, Node>) {
    let mut names: Vec<String> =
        fs::read_dir(scene.tree.join(path)).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, expected.keys().cloned().collect::<Vec<_>>(), "{}", path.display());
    for (name, node) in expected {
        let (inner, real) = (path.join(name), scene.tree.join(path).join(name));
        let metadata = real.symlink_metadata().unwrap();
        match node {
            Node::File(content, mode) => {
                assert_eq!(
                    (&fs::read(&real).unwrap(), metadata.permissions().mode() & 0o7777),
                    (content, *mode),
                    "{}",
                    inner.display()
                );
            }
            Node::Link(to) => assert_eq!(fs::read_link(&real).unwrap(), PathBuf::from(to)),
            Node::Directory(mode, children) => {
                assert_eq!(metadata.permissions().mode() & 0o7777, *mode, "{}", inner.display());
                assert_is(scene, &inner, children);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if std::env::var_os("WHATIF_APPLY_EXHAUSTIVE").is_some() { 3000 } else { 80 }, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_becomes_any_other_and_back(old in tree(), new in tree(), across: bool, order: u64) {
        let state = across.then(|| Path::new(env!("CARGO_TARGET_TMPDIR")));
        let scene = Scene::at(Path::new("/dev/shm"), state);
        for (name, node) in &old {
            make(&scene.tree.join(name), node);
        }
        let before = snapshot(&scene.tree);
        let mut operations = Vec::new();
        let (was, shall) = (Node::Directory(0, old.clone()), Node::Directory(0, new.clone()));
        differences(&scene, Path::new(""), Some(&was), Some(&shall), &mut operations);
        // Plans come in any order.
        let mut state = order;
        for n in (1..operations.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            operations.swap(n, usize::try_from(state >> 33).unwrap() % (n + 1));
        }
        let plan: Plan = scene.plan(operations);
        let directory = scene.directory();
        apply(&plan, &directory, &mut |_| {}).unwrap();
        assert_is(&scene, Path::new(""), &new);
        let after = snapshot(&scene.tree);

        let UndoPlan { plan: undo, changed, .. } = undo_plan(&directory).unwrap();
        prop_assert_eq!(changed, vec![]);
        let undo_directory = scene.directory();
        apply(&undo, &undo_directory, &mut |_| {}).unwrap();
        let loose = |tree| if across { support::without_inodes(&tree) } else { tree };
        assert_same(&loose(snapshot(&scene.tree)), &loose(before), "undone");

        let UndoPlan { plan: redo, changed, .. } = undo_plan(&undo_directory).unwrap();
        prop_assert_eq!(changed, vec![]);
        apply(&redo, &scene.directory(), &mut |_| {}).unwrap();
        assert_same(&loose(snapshot(&scene.tree)), &loose(after), "redone");
    }
}
