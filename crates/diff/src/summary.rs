//! Walks a head, never the base tree, and counts what differs from it.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::noise::is_noise;

/// One copy-on-write tree of a sandbox.
#[derive(Clone, Debug)]
pub struct TreeHead<'a> {
    /// Its directory in the head.
    pub head: PathBuf,
    /// Where it lies in reality and in the sandbox.
    pub base: PathBuf,
    /// Absolute paths that are not there inside, whatever reality has.
    pub masked: &'a [PathBuf],
    /// All trees of the sandbox: what is a tree of its own is not counted as part of this one.
    pub others: &'a [PathBuf],
    /// A full copy rather than an overlay: what is missing in it was deleted.
    pub copied: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

#[derive(Clone, Debug, Serialize)]
pub struct Change {
    pub kind: ChangeKind,
    #[serde(with = "whatif_types::text::path")]
    pub path: PathBuf,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    pub changed_files: u64,
    /// Disk space of the files in the head.
    pub size_bytes: u64,
    /// Whether there is more than caches and logs.
    pub matters: bool,
    /// The first few that matter.
    pub examples: Vec<Change>,
}

const MOST_EXAMPLES: usize = 5;
/// Copy-ups larger than this with equal size but another time count as changed without being read.
const LARGEST_COMPARED: u64 = 64 << 20;

/// Counts the changes in all trees. Entries that vanish while walking are skipped: the sandbox may be alive.
pub fn summarize(trees: &[TreeHead<'_>], project: &Path) -> io::Result<Summary> {
    let mut summary = Summary::default();
    for tree in trees {
        let mut walk = Walk { tree, project, summary: &mut summary };
        match if tree.copied { walk.copied(Path::new("")) } else { walk.overlaid(Path::new("")) } {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(summary)
}

struct Walk<'a> {
    tree: &'a TreeHead<'a>,
    project: &'a Path,
    summary: &'a mut Summary,
}

impl Walk<'_> {
    fn overlaid(&mut self, top: &Path) -> io::Result<()> {
        let mut pending = vec![top.to_owned()];
        while let Some(directory) = pending.pop() {
            for entry in list(&self.tree.head.join(&directory))? {
                let relative = directory.join(entry.file_name());
                let Ok(metadata) = fs::symlink_metadata(entry.path()) else { continue };
                if metadata.is_file() {
                    self.summary.size_bytes += metadata.blocks() * 512;
                }
                if metadata.is_dir() {
                    let before = self.before(&relative);
                    if !before.as_ref().is_some_and(|(_, m)| m.is_dir()) || is_opaque(&entry.path()) {
                        self.note(if before.is_some() { ChangeKind::Modified } else { ChangeKind::Added }, &relative);
                    } else if before.is_some_and(|(_, m)| attributes(&m) != attributes(&metadata)) {
                        self.note(ChangeKind::Modified, &relative);
                    }
                    pending.push(relative);
                } else if is_whiteout(&entry.path(), &metadata) {
                    if self.before(&relative).is_some() {
                        self.note(ChangeKind::Deleted, &relative);
                    }
                } else {
                    self.compare(&relative, &entry.path(), &metadata);
                }
            }
        }
        Ok(())
    }

    fn copied(&mut self, top: &Path) -> io::Result<()> {
        let mut pending = vec![top.to_owned()];
        while let Some(directory) = pending.pop() {
            let here = self.tree.head.join(&directory);
            for entry in list(&here)? {
                let relative = directory.join(entry.file_name());
                let Ok(metadata) = fs::symlink_metadata(entry.path()) else { continue };
                if metadata.is_file() {
                    self.summary.size_bytes += metadata.blocks() * 512;
                }
                if metadata.is_dir() {
                    if self.is_another_tree(&relative) {
                        continue;
                    }
                    if self.before(&relative).is_none() {
                        self.note(ChangeKind::Added, &relative);
                    }
                    pending.push(relative);
                } else {
                    self.compare(&relative, &entry.path(), &metadata);
                }
            }
            let Ok(real) = fs::read_dir(self.tree.base.join(&directory)) else { continue };
            for entry in real.filter_map(Result::ok) {
                let special =
                    entry.file_type().is_ok_and(|t| t.is_socket() || t.is_fifo() || t.is_char_device() || t.is_block_device());
                let relative = directory.join(entry.file_name());
                let gone = fs::symlink_metadata(here.join(entry.file_name())).is_err();
                if !special && gone && self.before(&relative).is_some() {
                    self.note(ChangeKind::Deleted, &relative);
                }
            }
        }
        Ok(())
    }

    fn compare(&mut self, relative: &Path, path: &Path, metadata: &Metadata) {
        match self.before(relative) {
            None => self.note(ChangeKind::Added, relative),
            Some((original, before)) => {
                if !is_same(&original, &before, path, metadata, self.tree.copied) {
                    self.note(ChangeKind::Modified, relative);
                }
            }
        }
    }

    fn is_another_tree(&self, relative: &Path) -> bool {
        let path = self.tree.base.join(relative);
        self.tree.others.contains(&path)
    }

    /// What the sandbox saw here before it changed anything.
    fn before(&self, relative: &Path) -> Option<(PathBuf, Metadata)> {
        let path = self.tree.base.join(relative);
        if self.tree.masked.iter().any(|m| path.starts_with(m)) {
            return None;
        }
        fs::symlink_metadata(&path).ok().map(|m| (path, m))
    }

    fn note(&mut self, kind: ChangeKind, relative: &Path) {
        self.summary.changed_files += 1;
        let path = self.tree.base.join(relative);
        if !is_noise(&path, self.project) {
            self.summary.matters = true;
            if self.summary.examples.len() < MOST_EXAMPLES {
                self.summary.examples.push(Change { kind, path });
            }
        }
    }
}

/// A directory the sandbox closed to its own user is counted, but nothing beneath it can be.
fn list(directory: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Vec::new()),
        other => other?.collect(),
    }
}

fn attributes(metadata: &Metadata) -> (u32, u32, u32) {
    (metadata.mode(), metadata.uid(), metadata.gid())
}

/// Overlayfs copies a file up for many reasons; the same bytes and attributes are no change.
fn is_same(original: &Path, before: &Metadata, path: &Path, after: &Metadata, copied: bool) -> bool {
    // A user's copy of somebody else's file belongs to the user.
    let same_attributes = if copied { before.mode() == after.mode() } else { attributes(before) == attributes(after) };
    if !same_attributes || before.size() != after.size() {
        return false;
    }
    if before.is_symlink() {
        return fs::read_link(original).ok() == fs::read_link(path).ok();
    }
    if (before.mtime(), before.mtime_nsec()) == (after.mtime(), after.mtime_nsec()) {
        return true;
    }
    before.is_file() && before.size() <= LARGEST_COMPARED && has_same_bytes(original, path).unwrap_or(false)
}

fn has_same_bytes(a: &Path, b: &Path) -> io::Result<bool> {
    let (mut a, mut b) = (File::open(a)?, File::open(b)?);
    let (mut left, mut right) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let length = a.read(&mut left)?;
        if length == 0 {
            return Ok(b.read(&mut right)? == 0);
        }
        b.read_exact(&mut right[..length])?;
        if left[..length] != right[..length] {
            return Ok(false);
        }
    }
}

fn is_whiteout(path: &Path, metadata: &Metadata) -> bool {
    (metadata.file_type().is_char_device() && metadata.rdev() == 0)
        || (metadata.is_file() && metadata.size() == 0 && has_mark(path, "whiteout"))
        || path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b".wh."))
}

fn is_opaque(path: &Path) -> bool {
    has_mark(path, "opaque")
}

/// Overlayfs's marks, in the form root's and an ordinary user's mounts write them, and fuse-overlayfs's.
fn has_mark(path: &Path, mark: &str) -> bool {
    let mut value = [0_u8; 1];
    ["trusted.overlay.", "user.overlay.", "user.fuseoverlayfs."]
        .iter()
        .any(|prefix| rustix::fs::lgetxattr(path, OsStr::new(&format!("{prefix}{mark}")), &mut value[..]).is_ok_and(|n| n == 1))
}
