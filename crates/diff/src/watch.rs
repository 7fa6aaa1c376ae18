//! Whether a head may hold names it did not hold before, without looking at each of them.
//!
//! A file is first touched by an entry that appears in its directory in the head, which moves the directory's time. So the
//! directories of the last look and their times are enough to know whether another look is due.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use whatif_types::text;

use crate::node::{Node, Time};

const FILE: &str = "watch";

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

/// Whether anything may have been touched since the last look. Without one, the heads' own directories tell.
#[must_use]
pub fn has_news(base: &Path, heads: &[PathBuf]) -> bool {
    let Some(known) = fs::read(base.join(FILE)).ok().and_then(|bytes| serde_json::from_slice::<Vec<Directory>>(&bytes).ok()) else {
        return !heads.is_empty();
    };
    known.iter().any(|d| Node::of(&d.path).is_none_or(|now| now.ctime != d.ctime))
}
