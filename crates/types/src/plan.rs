//! The mount plan: what a sandbox sees at which path. Pure data; `layers` computes it and carries it out.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::mountinfo::is_within;
use crate::text;

/// How copy-on-write is done. Best first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The kernel's overlayfs.
    #[default]
    Overlay,
    /// fuse-overlayfs, in user space.
    Fuse,
    /// A copy of the project (reflinked where the file system can); everything else read-only.
    Copy,
}

impl Backend {
    /// Whether a running sandbox can be put on other layers: a program that serves its file systems cannot be replaced under it.
    #[must_use]
    pub fn can_restack(self) -> bool {
        self != Self::Fuse
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Overlay => "overlay",
            Self::Fuse => "fuse",
            Self::Copy => "copy",
        })
    }
}

impl FromStr for Backend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "overlay" => Ok(Self::Overlay),
            "fuse" => Ok(Self::Fuse),
            "copy" => Ok(Self::Copy),
            other => Err(format!("'{other}' is not a backend; use 'overlay', 'fuse' or 'copy'")),
        }
    }
}

/// What stands at one path of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceKind {
    /// A real tree, copy-on-write. `tree` numbers its directory in the head.
    Writable { tree: usize },
    /// A directory with mounts beneath it that the kernel will not overlay for an ordinary user: its own files are
    /// copied into the head, its subdirectories are places of their own.
    Skeleton { tree: usize },
    /// A real tree as it is, not writable.
    ReadOnly,
    /// A private file system in memory.
    Private { mode: u32 },
    /// Nothing: an empty directory (or file, where a file stood) that cannot be written.
    Hidden,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    #[serde(with = "text::path")]
    pub path: PathBuf,
    pub kind: PlaceKind,
}

/// Everything the sandbox sees, parents before children. The first place is always `/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub backend: Backend,
    pub places: Vec<Place>,
    /// Symbolic links of the real `/run` that lead out of it and are needed inside (`/run/current-system` and the like).
    #[serde(with = "text::path_pairs")]
    pub run_links: Vec<(PathBuf, PathBuf)>,
}

impl Plan {
    /// The place that decides what is seen at a path.
    #[must_use]
    pub fn place_of(&self, path: &Path) -> Option<&Place> {
        self.places.iter().filter(|p| is_within(path, &p.path)).max_by_key(|p| p.path.as_os_str().len())
    }

    /// The copy-on-write trees with their numbers.
    pub fn trees(&self) -> impl Iterator<Item = (usize, &Path)> {
        self.places.iter().filter_map(|p| match p.kind {
            PlaceKind::Writable { tree } | PlaceKind::Skeleton { tree } => Some((tree, p.path.as_path())),
            _ => None,
        })
    }
}
