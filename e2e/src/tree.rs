//! A directory tree as data, to say that two are the same, or in which files they differ.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// How closely a tree is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What a patch of git's carries: names, types, bytes, link targets, and whether a file is executable.
    Patch,
    /// Names, types, owners, modes, bytes, link targets, and the extended attributes a user can set.
    Content,
    /// The times of files as well. Those of directories follow from whatever was done last in them.
    Times,
}

/// Every path below a directory and what is there, as a line a person can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree(BTreeMap<PathBuf, String>);

impl Tree {
    #[must_use]
    pub fn of(root: &Path, detail: Detail) -> Self {
        let mut entries = BTreeMap::new();
        visit(root, Path::new(""), detail, &mut entries);
        Self(entries)
    }

    /// The same tree without a directory of it, for what follows rules of its own.
    #[must_use]
    pub fn without(mut self, directory: impl AsRef<Path>) -> Self {
        self.0.retain(|path, _| !path.starts_with(directory.as_ref()));
        self
    }

    /// The regular files and links alone; directories are all a patch cannot carry.
    #[must_use]
    pub fn files(mut self) -> Self {
        self.0.retain(|_, entry| !entry.starts_with("directory"));
        self
    }

    /// What is at a path.
    #[must_use]
    pub fn get(&self, path: &Path) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    /// What another tree has instead, path by path. Empty if they are the same.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let paths = self.0.keys().chain(other.0.keys().filter(|path| !self.0.contains_key(*path)));
        let shown = |tree: &Self, path: &PathBuf| tree.0.get(path).map_or_else(|| "nothing".to_owned(), Clone::clone);
        paths
            .filter(|path| self.0.get(*path) != other.0.get(*path))
            .map(|path| format!("{path:?}\n    is {}\n    not {}", shown(self, path), shown(other, path)))
            .collect()
    }

    #[track_caller]
    pub fn assert_is(&self, expected: &Self, context: &str) {
        let differences = self.differences(expected);
        assert!(differences.is_empty(), "{context}:\n  {}", differences.join("\n  "));
    }
}

fn visit(root: &Path, relative: &Path, detail: Detail, entries: &mut BTreeMap<PathBuf, String>) {
    // Not `join("")`: that adds a slash, and with it a link would be followed.
    let path = if relative.as_os_str().is_empty() { root.to_owned() } else { root.join(relative) };
    let Ok(meta) = fs::symlink_metadata(&path) else { return };
    entries.insert(relative.to_owned(), describe(&path, &meta, detail));
    if meta.is_dir() {
        for child in fs::read_dir(&path).into_iter().flatten().filter_map(Result::ok) {
            visit(root, &relative.join(child.file_name()), detail, entries);
        }
    }
}

fn describe(path: &Path, meta: &Metadata, detail: Detail) -> String {
    let kind = meta.file_type();
    let (what, content) = match kind {
        t if t.is_dir() => ("directory", String::new()),
        t if t.is_symlink() => ("link", fs::read_link(path).map(|t| shown(t.as_os_str().as_bytes())).unwrap_or_default()),
        t if t.is_file() => ("file", fs::read(path).map_or_else(|e| format!("({e})"), |bytes| shown(&bytes))),
        t if t.is_fifo() => ("fifo", String::new()),
        t if t.is_socket() => ("socket", String::new()),
        _ => ("device", format!("{:x}", meta.rdev())),
    };
    if detail == Detail::Patch {
        let executable = if kind.is_file() && meta.mode() & 0o100 != 0 { " executable" } else { "" };
        return format!("{what}{executable} {content}");
    }
    let mode = if kind.is_symlink() { String::new() } else { format!(" {:04o}", meta.mode() & 0o7777) };
    let time = match detail {
        Detail::Times if kind.is_file() => format!(" of {}.{:09}", meta.mtime(), meta.mtime_nsec()),
        _ => String::new(),
    };
    format!("{what}{mode} {}:{}{time} {content}{}", meta.uid(), meta.gid(), attributes(path))
}

/// The beginning, and if that is not all, the length and a hash.
fn shown(bytes: &[u8]) -> String {
    const LONGEST: usize = 80;
    if bytes.len() <= LONGEST {
        return format!("\"{}\"", bytes.escape_ascii());
    }
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("\"{}\"… {} bytes, hash {:x}", bytes[..LONGEST].escape_ascii(), bytes.len(), hasher.finish())
}

fn attributes(path: &Path) -> String {
    let mut names = vec![0; 4096];
    let length = rustix::fs::llistxattr(path, names.as_mut_slice()).unwrap_or(0);
    let names = String::from_utf8_lossy(&names[..length]).into_owned();
    let value = |name: &str| {
        let mut value = vec![0; 4096];
        let length = rustix::fs::lgetxattr(path, name, value.as_mut_slice()).unwrap_or(0);
        value[..length].escape_ascii().to_string()
    };
    let mut set: Vec<String> =
        names.split('\0').filter(|name| name.starts_with("user.")).map(|name| format!(" {name}={}", value(name))).collect();
    set.sort();
    set.concat()
}
