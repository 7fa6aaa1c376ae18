//! A tree of reality, remembered in every detail, to be compared later.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Path to everything about the file there: bytes, type, mode, owner, times, links, extended attributes.
pub type Canary = BTreeMap<PathBuf, String>;

/// Remembers trees. Reading changes only access times, which are not part of it.
#[must_use]
pub fn of(roots: &[&Path]) -> Canary {
    let mut canary = Canary::new();
    roots.iter().for_each(|root| visit(root, &mut canary));
    canary
}

fn visit(path: &Path, canary: &mut Canary) {
    let Ok(meta) = fs::symlink_metadata(path) else {
        canary.insert(path.to_owned(), "absent".to_owned());
        return;
    };
    let content = match meta.file_type() {
        t if t.is_file() => fs::read(path).unwrap_or_default(),
        t if t.is_symlink() => fs::read_link(path).map(|l| l.as_os_str().as_bytes().to_vec()).unwrap_or_default(),
        _ => Vec::new(),
    };
    let entry = format!(
        "mode {:o} owner {}:{} size {} links {} inode {} mtime {}.{:09} ctime {}.{:09} content {:x} xattr {:?}",
        meta.mode(),
        meta.uid(),
        meta.gid(),
        if meta.is_dir() { 0 } else { meta.size() },
        meta.nlink(),
        meta.ino(),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec(),
        hash(&content),
        attributes(path),
    );
    canary.insert(path.to_owned(), entry);
    if meta.is_dir() {
        for child in fs::read_dir(path).into_iter().flatten().filter_map(Result::ok) {
            visit(&child.path(), canary);
        }
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn attributes(path: &Path) -> Vec<(String, u64)> {
    let mut names = vec![0; 4096];
    let length = rustix::fs::llistxattr(path, names.as_mut_slice()).unwrap_or(0);
    let value = |name: &str| {
        let mut value = vec![0; 4096];
        let length = rustix::fs::lgetxattr(path, name, value.as_mut_slice()).unwrap_or(0);
        hash(&value[..length])
    };
    let text = String::from_utf8_lossy(&names[..length]).into_owned();
    text.split('\0').filter(|n| !n.is_empty()).map(|n| (n.to_owned(), value(n))).collect()
}

/// Panics with the differences, if there are any.
#[track_caller]
pub fn assert_same(before: &Canary, after: &Canary) {
    let differences: Vec<String> = before
        .keys()
        .chain(after.keys().filter(|k| !before.contains_key(*k)))
        .filter(|path| before.get(*path) != after.get(*path))
        .map(|p| format!("{}\n  before: {:?}\n  after:  {:?}", p.display(), before.get(p), after.get(p)))
        .collect();
    assert!(differences.is_empty(), "reality was touched:\n{}", differences.join("\n"));
}
