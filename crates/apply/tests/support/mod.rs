//! Real trees in throw-away directories, and what they look like.
#![allow(dead_code, reason = "not every test file needs all of it")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use whatif_apply::{Attributes, Change, Existing, Expected, Identity, Kind, Operation, Plan, Source};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// A directory that goes when the test ends. `tree` is what plans are applied to, `state` holds journals and backups.
pub struct Scene {
    pub base: PathBuf,
    pub tree: PathBuf,
    pub state: PathBuf,
}

impl Scene {
    pub fn new() -> Self {
        Self::at(Path::new(env!("CARGO_TARGET_TMPDIR")), None)
    }

    /// The state lies on another file system than the tree.
    pub fn across() -> Self {
        Self::at(Path::new(env!("CARGO_TARGET_TMPDIR")), Some(Path::new("/dev/shm")))
    }

    pub fn at(tree: &Path, state: Option<&Path>) -> Self {
        let name = format!("whatif-apply-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let base = tree.join(&name);
        let _ = fs::remove_dir_all(&base);
        let state = state.map_or_else(|| base.join("state"), |s| s.join(&name));
        let _ = fs::remove_dir_all(&state);
        fs::create_dir_all(base.join("tree")).unwrap();
        fs::create_dir_all(base.join("new")).unwrap();
        fs::create_dir_all(&state).unwrap();
        let base = base.canonicalize().unwrap();
        Self { tree: base.join("tree"), base, state }
    }

    /// A fresh private directory for one apply.
    pub fn directory(&self) -> PathBuf {
        let path = self.state.join(format!("apply-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    pub fn file(&self, path: &str, content: &[u8]) -> PathBuf {
        let path = self.tree.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Something outside of the tree to be copied into it.
    pub fn source(&self, content: &[u8]) -> PathBuf {
        let path = self.base.join("new").join(COUNT.fetch_add(1, Ordering::Relaxed).to_string());
        fs::write(&path, content).unwrap();
        path
    }

    pub fn plan(&self, operations: Vec<Operation>) -> Plan {
        Plan { roots: vec![self.tree.clone()], operations, about: serde_json::json!({"note": "test"}) }
    }

    pub fn put(&self, path: &str, source: Source, mode: u32) -> Operation {
        self.operation(path, Change::Put { source, attributes: attributes(mode) })
    }

    pub fn remove(&self, path: &str) -> Operation {
        self.operation(path, Change::Remove)
    }

    pub fn set(&self, path: &str, mode: u32) -> Operation {
        let now = Attributes::of(&self.tree.join(path)).unwrap();
        self.operation(path, Change::Set { attributes: Attributes { mode, mtime: None, ..now } })
    }

    /// A further name of a file in the tree.
    pub fn existing(&self, path: &str) -> Source {
        let identity = Identity::of(&self.tree.join(path)).unwrap();
        Source::Existing(Box::new(Existing { root: 0, path: path.into(), identity }))
    }

    pub fn operation(&self, path: &str, change: Change) -> Operation {
        Operation { root: 0, path: path.into(), expected: expected(&self.tree.join(path)), change }
    }

    /// Nothing of ours may stay in the tree.
    pub fn assert_clean(&self) {
        for path in snapshot(&self.tree).keys() {
            assert!(!path.to_string_lossy().contains(".whatif-"), "left behind: {}", path.display());
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        make_removable(&self.base);
        let _ = fs::remove_dir_all(&self.base);
        let _ = fs::remove_dir_all(&self.state);
    }
}

fn make_removable(path: &Path) {
    let Ok(metadata) = path.symlink_metadata() else { return };
    if metadata.is_dir() {
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            make_removable(&entry.path());
        }
    }
}

pub fn expected(path: &Path) -> Expected {
    path.symlink_metadata().map_or(Expected::Absent, |m| Expected::Present(Identity::from_metadata(&m)))
}

pub fn attributes(mode: u32) -> Attributes {
    Attributes { mode, uid: uid(), gid: gid(), mtime: Some((1_600_000_000, 123_456_789)), ..Attributes::default() }
}

pub fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

pub fn gid() -> u32 {
    rustix::process::getegid().as_raw()
}

/// All that can be told apart about an entry, except times of change and of access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub kind: &'static str,
    pub content: Vec<u8>,
    pub mode: u32,
    pub owner: (u32, u32),
    pub mtime: (i64, i64),
    pub nlink: u64,
    /// Zero for directories: a directory that was removed and made again is another inode.
    pub ino: u64,
    pub xattrs: Vec<(OsString, Vec<u8>)>,
}

/// The whole tree.
pub fn snapshot(root: &Path) -> BTreeMap<PathBuf, Shown> {
    let mut all = BTreeMap::new();
    walk(root, Path::new(""), &mut all);
    all
}

fn walk(root: &Path, relative: &Path, all: &mut BTreeMap<PathBuf, Shown>) {
    let path = root.join(relative);
    let metadata = path.symlink_metadata().unwrap();
    let identity = Identity::from_metadata(&metadata);
    let (kind, content) = match identity.kind {
        Kind::File => ("file", fs::read(&path).unwrap()),
        Kind::Link => ("link", fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()),
        Kind::Directory => ("directory", Vec::new()),
        Kind::Other => ("other", Vec::new()),
    };
    let directory = identity.kind == Kind::Directory;
    let shown = Shown {
        kind,
        content,
        mode: metadata.mode(),
        owner: (metadata.uid(), metadata.gid()),
        mtime: (metadata.mtime(), metadata.mtime_nsec()),
        nlink: if directory { 0 } else { metadata.nlink() },
        ino: if directory { 0 } else { metadata.ino() },
        xattrs: Attributes::of(&path).unwrap().xattrs,
    };
    all.insert(relative.to_owned(), shown);
    if directory {
        for entry in fs::read_dir(&path).unwrap() {
            walk(root, &relative.join(entry.unwrap().file_name()), all);
        }
    }
}

/// Compares two trees and says where they differ, not everything they hold.
pub fn assert_same(left: &BTreeMap<PathBuf, Shown>, right: &BTreeMap<PathBuf, Shown>, what: &str) {
    if let Some(difference) = difference(left, right) {
        panic!("{what}: {difference}");
    }
}

pub fn difference(left: &BTreeMap<PathBuf, Shown>, right: &BTreeMap<PathBuf, Shown>) -> Option<String> {
    for path in left.keys().chain(right.keys()) {
        if left.get(path) != right.get(path) {
            return Some(format!("{}: {:?} is not {:?}", path.display(), left.get(path), right.get(path)));
        }
    }
    None
}

/// Without inodes: what was put anew has other ones.
pub fn without_inodes(tree: &BTreeMap<PathBuf, Shown>) -> BTreeMap<PathBuf, Shown> {
    tree.iter().map(|(p, s)| (p.clone(), Shown { ino: 0, ..s.clone() })).collect()
}

/// One of every kind of change.
pub fn mixed(scene: &Scene) -> Plan {
    scene.file("changed", b"before");
    scene.file("removed", b"going");
    scene.file("gone/deep/file", b"x");
    scene.file("gone/other", b"y");
    scene.file("becomes-directory", b"file");
    scene.file("becomes-file/inner", b"z");
    scene.file("becomes-link", b"file");
    scene.file("mode", b"#!/bin/sh\n");
    scene.file("kept/neighbour", b"stays");
    scene.file("becomes-same", b"a file of its own");
    symlink("changed", scene.tree.join("link")).unwrap();
    fs::create_dir(scene.tree.join("attributes")).unwrap();
    fs::hard_link(scene.tree.join("changed"), scene.tree.join("second-name")).unwrap();
    let file = |content: &[u8]| Source::File(scene.source(content));
    scene.plan(vec![
        scene.put("changed", file(b"after"), 0o644),
        scene.remove("removed"),
        scene.remove("gone/deep/file"),
        scene.remove("gone"),
        scene.remove("gone/other"),
        scene.remove("gone/deep"),
        scene.put("becomes-directory/new", Source::Bytes(b"inside".to_vec()), 0o600),
        scene.put("becomes-directory", Source::Directory, 0o755),
        scene.put("becomes-file", file(b"now a file"), 0o640),
        scene.remove("becomes-file/inner"),
        scene.put("becomes-link", Source::Link("nowhere".into()), 0o777),
        scene.set("mode", 0o755),
        scene.set("attributes", 0o750),
        scene.put("link", Source::Link("elsewhere".into()), 0o777),
        scene.put("kept/new", file(b"new"), 0o4755),
        scene.put("tree/a/b/c", file(b"deep"), 0o444),
        scene.put("tree/a/b", Source::Directory, 0o500),
        scene.put("tree/a", Source::Directory, 0o700),
        scene.put("tree", Source::Directory, 0o755),
        scene.put("tree/linked", Source::HardLink(15), 0),
        scene.put("same", scene.existing("kept/neighbour"), 0o644),
        scene.put("tree/same", Source::HardLink(20), 0),
        scene.put("becomes-same", Source::HardLink(20), 0),
    ])
}
