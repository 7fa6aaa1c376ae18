//! What of reality a sandbox was not shown.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Names by their directory, which is how they are met.
pub(super) struct Hidden<'a>(HashMap<&'a OsStr, Vec<&'a OsStr>>);

impl<'a> Hidden<'a> {
    pub(super) fn new(paths: &'a [PathBuf]) -> Self {
        let mut names: HashMap<&OsStr, Vec<&OsStr>> = HashMap::new();
        for (directory, name) in paths.iter().filter_map(|p| p.parent().zip(p.file_name())) {
            names.entry(directory.as_os_str()).or_default().push(name);
        }
        Self(names)
    }

    /// The hidden names in a directory.
    pub(super) fn within(&self, directory: &Path) -> &[&'a OsStr] {
        self.0.get(without_slash(directory)).map_or(&[], Vec::as_slice)
    }

    /// Whether a path below a directory, or something above it there, is hidden.
    pub(super) fn covers(&self, directory: &Path, path: &Path) -> bool {
        let mut names = path.ancestors().filter_map(|p| p.parent().zip(p.file_name()));
        names.any(|(parent, name)| self.within(&directory.join(parent)).contains(&name))
    }
}

/// The root of a tree joined with nothing ends in a slash.
fn without_slash(path: &Path) -> &OsStr {
    let bytes = path.as_os_str().as_bytes();
    match bytes.strip_suffix(b"/") {
        Some(bytes) if !bytes.is_empty() => OsStr::from_bytes(bytes),
        _ => path.as_os_str(),
    }
}
