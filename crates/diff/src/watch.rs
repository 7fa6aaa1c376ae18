//! Whether a head may hold names it did not hold before, without looking at each of them.
//!
//! A file is first touched by an entry that appears in its directory in the head, which moves the directory's time. So the
//! directories of the last look and their times are enough to know whether another look is due, and where.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use whatif_types::text;

use crate::node::{Node, Time};

/// In a `base/` directory. It names places of this machine.
pub const FILE: &str = "watch";

/// A directory of a head, and when it last changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Directory {
    #[serde(with = "text::path")]
    pub path: PathBuf,
    pub ctime: Time,
}

/// Writes down what a look found.
pub fn remember(base: &Path, directories: &[Directory]) -> io::Result<()> {
    crate::base::make(base)?;
    let text = serde_json::to_vec(directories)?;
    let new = base.join("watch.new");
    fs::write(&new, text)?;
    fs::rename(new, base.join(FILE))
}

/// Whether anything may have been touched since the last look. Without one that can be read, the heads' own directories tell.
#[must_use]
pub fn has_news(base: &Path, heads: &[PathBuf]) -> bool {
    let Some(known) = remembered(base) else { return !heads.is_empty() };
    // What cannot be looked at here is looked at again there, and told.
    known.iter().any(|d| Node::of(&d.path).map_or(true, |now| now.is_none_or(|now| now.ctime != d.ctime)))
}

fn remembered(base: &Path) -> Option<Vec<Directory>> {
    serde_json::from_slice(&fs::read(base.join(FILE)).ok()?).ok()
}

/// What the last look found, for one that is only about what came since.
#[derive(Debug, Default)]
pub struct LastLook {
    directories: HashMap<PathBuf, Seen>,
}

#[derive(Debug)]
struct Seen {
    ctime: Time,
    /// The directories in it.
    below: Vec<OsString>,
}

impl LastLook {
    /// The one remembered there. Without one that can be read, everything is new.
    #[must_use]
    pub fn remembered(base: &Path) -> Self {
        let all = remembered(base).unwrap_or_default();
        let seen = |d: &Directory| (d.path.clone(), Seen { ctime: d.ctime, below: Vec::new() });
        let mut directories: HashMap<PathBuf, Seen> = all.iter().map(seen).collect();
        for path in all.iter().map(|d| &d.path) {
            if let (Some(name), Some(parent)) = (path.file_name(), path.parent().and_then(|p| directories.get_mut(p))) {
                parent.below.push(name.to_owned());
            }
        }
        Self { directories }
    }

    /// The directories in one in which nothing came or went since.
    pub(crate) fn unchanged(&self, path: &Path, ctime: Time) -> Option<impl Iterator<Item = &OsStr>> {
        let seen = self.directories.get(path).filter(|seen| seen.ctime == ctime)?;
        Some(seen.below.iter().map(OsString::as_os_str))
    }
}
