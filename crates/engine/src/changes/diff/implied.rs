//! Directories that come or go with what is in them.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use whatif_diff::{Change, ChangeKind};

/// Directories that came or went with what is in them say nothing of their own.
#[derive(Debug)]
pub struct Implied<'a> {
    all: &'a [&'a Change],
    /// Where renamed files came from.
    sources: Vec<&'a Path>,
}

impl<'a> Implied<'a> {
    /// Among these, in the order of a change set.
    #[must_use]
    pub fn by(all: &'a [&'a Change]) -> Self {
        let mut sources: Vec<&Path> = all.iter().filter_map(|c| c.old_path()).collect();
        sources.sort_unstable_by_key(|path| path.as_os_str().as_bytes());
        Self { all, sources }
    }

    #[must_use]
    pub fn has(&self, change: &Change) -> bool {
        change.is_directory()
            && matches!(change.kind, ChangeKind::Add | ChangeKind::Delete)
            && (has_any_in(self.all, |c| &c.path, &change.path) || has_any_in(&self.sources, |path| path, &change.path))
    }
}

/// Whether any of these, sorted by the bytes of their paths, is in a directory.
pub fn has_any_in<T>(sorted: &[T], path: impl Fn(&T) -> &Path, directory: &Path) -> bool {
    let prefix = [directory.as_os_str().as_bytes(), b"/"].concat();
    let first = sorted.partition_point(|one| path(one).as_os_str().as_bytes() < prefix.as_slice());
    sorted.get(first).is_some_and(|one| path(one).as_os_str().as_bytes().starts_with(&prefix))
}
