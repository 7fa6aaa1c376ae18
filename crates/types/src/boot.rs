//! What the engine tells a keeper to become. Sent once, over the socket the keeper is born with.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{LayerId, NetMode, Plan, SandboxId, text};

/// Version of the boot description and of the keeper's protocol; a keeper serves exactly the one it was born with.
pub const PROTOCOL_VERSION: u32 = 10;

/// How ids inside relate to ids outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Identity {
    /// Started by root: `count` ids from 0 on are others outside (see [`Identity::outer`]). The layers are idmapped, so ownership
    /// in the head is true.
    Mapped { base: u32, count: u32 },
    /// Started by root where the kernel or the file system cannot idmap: ids are the same inside and outside.
    Same,
    /// Started by an ordinary user: that user, and nobody else.
    Own { uid: u32, gid: u32 },
}

/// So many ids of a mapped sandbox, from 0 on, are its own: no other one that runs has them outside.
pub const OWN_IDS: u32 = 4096;
/// Outside, the other ids of all mapped sandboxes begin here: above every range that system tools hand out.
pub const COMMON_IDS: u32 = 0x7000_0000;
const UNKNOWN_ID: u32 = 65_534;

impl Identity {
    /// What an id inside is outside: the first ones follow `base`, the others are the same for all.
    #[must_use]
    pub fn outer(self, id: u32) -> Option<u32> {
        match self {
            Self::Mapped { base, count } if id < count => Some(if id < OWN_IDS { base + id } else { COMMON_IDS + id }),
            Self::Mapped { .. } => Some(COMMON_IDS + UNKNOWN_ID),
            Self::Same => Some(id),
            Self::Own { .. } => None,
        }
    }

    #[must_use]
    pub fn started_by_root(self) -> bool {
        !matches!(self, Self::Own { .. })
    }

    /// Whether something inside can be shown as belonging to this uid. An ordinary user can own things only as itself.
    #[must_use]
    pub fn can_own(self, id: u32) -> bool {
        !matches!(self, Self::Own { uid, .. } if uid != id)
    }

    /// Whether processes of the host can have the uids of those inside.
    #[must_use]
    pub fn is_shared_with_host(self) -> bool {
        !matches!(self, Self::Mapped { .. })
    }

    /// The uid outside of the one who is root (or the user) inside.
    #[must_use]
    pub fn outer_uid(self) -> u32 {
        match self {
            Self::Mapped { base, .. } => base,
            Self::Same => 0,
            Self::Own { uid, .. } => uid,
        }
    }

    #[must_use]
    pub fn outer_gid(self) -> u32 {
        match self {
            Self::Mapped { base, .. } => base,
            Self::Same => 0,
            Self::Own { gid, .. } => gid,
        }
    }
}

/// Overlayfs needs a work directory beside each head, and no two mounts may share one: which of them a mount has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Work(u64);

impl Work {
    /// For the mounts that take the place of those with this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The work directory of a tree, below the sandbox's `work/`.
    #[must_use]
    pub fn name(self, tree: usize) -> String {
        if self.0 == 0 { tree.to_string() } else { format!("{tree}.{}", self.0) }
    }
}

/// A device of the machine that the sandbox was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Where it is inside, below `/dev`.
    #[serde(with = "text::path")]
    pub path: PathBuf,
    /// Where it is outside. No link leads there.
    #[serde(with = "text::path")]
    pub real: PathBuf,
    pub major: u32,
    pub minor: u32,
    /// What the one outside allows to whom.
    pub mode: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Boot {
    pub version: u32,
    pub id: SandboxId,
    /// The sandbox's directory in the state directory: `head/`, `work/`.
    #[serde(with = "text::path")]
    pub directory: PathBuf,
    pub work: Work,
    /// Where most of the work will be done.
    #[serde(with = "text::path", default)]
    pub project: PathBuf,
    /// Where the frozen layers lie, if there are any.
    #[serde(with = "text::path")]
    pub layers: PathBuf,
    /// The layers under the head, newest first.
    pub stack: Vec<LayerId>,
    /// What is hidden or shown rewritten.
    pub masks: Masks,
    pub plan: Plan,
    pub identity: Identity,
    /// Besides those that every sandbox has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// Whether user namespaces may be made inside.
    #[serde(default)]
    pub allows_userns: bool,
    pub net: NetMode,
    /// Ports of the host's loopback that can be reached at the same port inside.
    #[serde(default)]
    pub reach: Vec<u16>,
    /// Variables every command gets unless it sets them itself.
    pub environment: Vec<(String, String)>,
    /// Where `/run/user/<uid>` or its like must exist inside.
    #[serde(with = "text::optional_path")]
    pub runtime_dir: Option<PathBuf>,
    /// Whether the room in the head is limited.
    #[serde(default)]
    pub measures_head: bool,
    /// Whether the file system itself holds the head to its limits. Otherwise the keeper measures it.
    #[serde(default)]
    pub has_allotment: bool,
    /// Whether the keeper may have to count what lies in sockets.
    #[serde(default)]
    pub counts_sockets: bool,
}

/// What the keeper sees to itself. What a control group does is not here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeeperLimits {
    /// By RLIMIT_NPROC.
    pub pids: Option<u64>,
    /// By looking at the processes, in bytes.
    pub memory: Option<u64>,
    /// By affinity.
    pub processors: Option<usize>,
    /// By looking at the head.
    pub room: Room,
    /// What must stay free in the file system of the head, in bytes; some is kept in any case.
    pub keep_free: Option<u64>,
    /// When the sandbox ends, in milliseconds since the machine was started.
    pub ends_at_ms: Option<u64>,
    /// How long it may be without a command.
    pub idle_ms: Option<u64>,
    /// Memory that the host keeps, where no control group sees to that.
    pub host_memory: Option<HostMemory>,
}

/// By looking at the machine, and at the processes only when they may be the reason. In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostMemory {
    /// What the sandbox may use.
    pub limit: u64,
    /// What stays with the host.
    pub kept: u64,
}

/// How much may be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Room {
    pub bytes: Option<u64>,
    pub files: Option<u64>,
    /// The file system sees to that, and nobody needs to look.
    pub is_exact: bool,
    /// What the frozen layers under the head take of it.
    pub frozen_bytes: u64,
    pub frozen_files: u64,
}

impl Room {
    #[must_use]
    pub fn is_watched(&self) -> bool {
        !self.is_exact && (self.bytes.is_some() || self.files.is_some())
    }
}

/// What is hidden or shown rewritten, but for places of the plan that are hidden as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Masks {
    pub layers: Vec<MaskLayer>,
    /// On read-only places: these files are mounted over the real ones, by their full paths.
    pub files: Vec<MaskFile>,
}

/// The mask layer of one place: made in memory when the sandbox starts, above reality and below the head, if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskLayer {
    #[serde(with = "text::path")]
    pub place: PathBuf,
    /// The directories on the way to what is masked, parents first; they look as in reality.
    pub directories: Vec<MaskDirectory>,
    /// Paths that are not there inside, relative to the place.
    #[serde(with = "text::paths")]
    pub hidden: Vec<PathBuf>,
    pub rewritten: Vec<MaskFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskDirectory {
    #[serde(with = "text::path")]
    pub path: PathBuf,
    pub attributes: Attributes,
}

/// A file that is shown with other content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskFile {
    #[serde(with = "text::path")]
    pub path: PathBuf,
    pub content: String,
    pub attributes: Attributes,
}

/// Mode, owner and time of modification, as seen from inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub mtime: (i64, i64),
}

/// What protects a sandbox, as found when it was set up. Printed by `show`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protection {
    /// The Landlock ABI in force; 0 where the kernel has none.
    pub landlock_abi: u32,
    /// Places of the plan that could only be given read-only, with the reason.
    #[serde(with = "text::explained_paths")]
    pub read_only: Vec<(PathBuf, String)>,
    /// Read-only places that could not be shown through an overlay, with the reason: pipes, sockets and locks there are the host's.
    #[serde(default, with = "text::explained_paths")]
    pub shared: Vec<(PathBuf, String)>,
    /// What the kernel shows of itself that is not the sandbox's own but the one around it, read-only, with the reason.
    #[serde(default, with = "text::explained_paths", skip_serializing_if = "Vec::is_empty")]
    pub borrowed: Vec<(PathBuf, String)>,
}
