//! Configuration files, read with care: nothing here is large, a pipe or a device.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

use crate::surroundings::Surroundings;

const LARGEST: u64 = 1 << 20;
const MOST_IN_DIRECTORY: usize = 200;

/// The text, or nothing if there is none that can be a configuration of the user.
pub(crate) fn text(path: &Path, surroundings: &Surroundings<'_>) -> Option<String> {
    if !surroundings.is_open(path) {
        return None;
    }
    let mut content = Vec::new();
    open(path)?.take(LARGEST).read_to_end(&mut content).ok()?;
    Some(String::from_utf8_lossy(&content).into_owned())
}

/// Opened without waiting for a writer, should it be a pipe.
pub(crate) fn open(path: &Path) -> Option<File> {
    let descriptor = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty()).ok()?;
    let status = rustix::fs::fstat(&descriptor).ok()?;
    (FileType::from_raw_mode(status.st_mode) == FileType::RegularFile).then(|| descriptor.into())
}

/// What is in a directory, sorted.
pub(crate) fn list(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).take(MOST_IN_DIRECTORY).collect();
    paths.sort();
    paths
}

/// Where something was said, for a person.
pub(crate) fn shown(path: &Path, home: &Path) -> String {
    let text = match path.strip_prefix(home) {
        Ok(below) => Path::new("~").join(below).display().to_string(),
        Err(_) => path.display().to_string(),
    };
    text.chars().flat_map(|c| if c.is_control() { c.escape_debug().collect::<Vec<_>>() } else { vec![c] }).collect()
}
