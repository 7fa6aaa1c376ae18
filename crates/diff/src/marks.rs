//! How a layer says "gone", "nothing shows through" and "came from there".
//!
//! Each way of mounting writes its own marks, and only those are believed: for a sandbox of root, `user.overlay.opaque` is an
//! attribute like any other, which whatever runs inside may set to make its changes look like something else.
//!
//! fuse-overlayfs has more forms than it can defend. It keeps programs from making devices 0:0 and from setting
//! `trusted.overlay.*` and `user.fuseoverlayfs.*`; so these are marks. But a program can set `user.overlay.*`, and can make a
//! `.wh.<name>` by mkdir, link, symlink or rename; so such names are what they are, files and directories. That
//! fuse-overlayfs would take them for marks when it is mounted again is why it is not mounted over them (`whatif_layers::fuse`).

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use whatif_sys::absence::OrAbsent;
use whatif_sys::direct;
use whatif_sys::file_handle::FileHandle;

use crate::attributes::{self, Attributes};
use crate::node::{Kind, Node};

/// Who wrote a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// The kernel's overlayfs, mounted by root.
    Trusted,
    /// The kernel's overlayfs, mounted by an ordinary user.
    User,
    Fuse,
    /// A plain copy; it has no marks.
    None,
}

/// Longer than any path.
const LONGEST_VALUE: usize = 4096;
const ORIGIN_MAGIC: u8 = 0xfb;
const FILE_SYSTEM_ID: usize = 16;
const FUSE_WHITEOUT: &[u8] = b".wh.";
/// Made in every opaque directory next to its attribute, for file systems without attributes. There, nothing is mounted by us.
const FUSE_OPAQUE: [&[u8]; 2] = [b".wh..wh..opq", b".wh..opq"];

impl Marks {
    fn prefixes(self) -> &'static [&'static str] {
        match self {
            Self::Trusted => &["trusted.overlay."],
            Self::User => &["user.overlay."],
            Self::Fuse => &["user.fuseoverlayfs.", "trusted.overlay."],
            Self::None => &[],
        }
    }

    /// Whether an attribute is a mark of this layer, not a change.
    #[must_use]
    pub fn owns(self, attribute: &[u8]) -> bool {
        self.prefixes().iter().any(|p| attribute.starts_with(p.as_bytes())) || attribute.starts_with(b"trusted.")
    }

    /// Whether an entry of this layer is a whiteout: what has its name below is gone.
    pub(crate) fn is_whiteout(self, directory: impl AsFd, name: &OsStr, node: &Node) -> Result<bool, Errno> {
        match node.kind {
            _ if self == Self::None => Ok(false),
            Kind::Device => Ok(node.rdev == 0),
            Kind::File if node.size == 0 => match self.has(&open_path(directory, name)?, "whiteout") {
                // A file that the sandbox closed to itself. No mount of ours writes this mark, and none that does closes the file.
                Err(Errno::ACCESS) => Ok(false),
                other => other,
            },
            _ => Ok(false),
        }
    }

    /// Entries that exist only to say something about their directory.
    pub(crate) fn is_bookkeeping(self, directory: &OwnedFd, name: &OsStr, node: &Node) -> Result<bool, Errno> {
        if self != Self::Fuse || !FUSE_OPAQUE.contains(&name.as_bytes()) {
            return Ok(false);
        }
        match node.kind {
            Kind::Device => Ok(node.rdev == 0),
            Kind::File if node.size == 0 => self.is_marked_opaque(directory),
            _ => Ok(false),
        }
    }

    /// Whether a name in reality is not shown because of another one: fuse-overlayfs takes reality's own files for marks too.
    pub(crate) fn hides_from_reality(self, reality: impl AsFd, name: &OsStr) -> Result<bool, Errno> {
        if self != Self::Fuse || name.as_bytes().starts_with(FUSE_WHITEOUT) {
            return Ok(self == Self::Fuse);
        }
        let whiteout = [FUSE_WHITEOUT, name.as_bytes()].concat();
        match Node::at(reality, OsStr::from_bytes(&whiteout)).or_absent() {
            Ok(found) => Ok(found.is_some()),
            Err(Errno::NAMETOOLONG) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Whether an entry of a layer, where there is one below, is that one copied up rather than made inside.
    pub(crate) fn is_copied_up(self, path: &Path, kind: Kind) -> Result<bool, Errno> {
        let entry = direct::hold(path)?;
        // This one marks only files so; a directory made where another one was hides that one.
        if self == Self::Fuse && kind == Kind::Directory {
            return Ok(!self.is_marked_opaque(&entry)?);
        }
        self.has(&entry, "origin")
    }

    /// What a directory says about itself, in as few calls as possible.
    pub(crate) fn look(self, directory: &OwnedFd) -> Result<Seen, Errno> {
        let mut room = [0_u8; 1024];
        let names = match rustix::fs::flistxattr(directory, &mut room[..]) {
            Ok(length) => attributes::names(&room[..length]).collect::<Vec<&[u8]>>(),
            // More than fits: everything is looked at by name.
            Err(Errno::RANGE) => return self.look_by_name(directory),
            Err(Errno::NOTSUP) => Vec::new(),
            Err(errno) => return Err(errno),
        };
        let is_there = |mark: &str| {
            let fits = |n: &&[u8]| self.prefixes().iter().any(|p| n.strip_prefix(p.as_bytes()) == Some(mark.as_bytes()));
            names.iter().any(fits)
        };
        Ok(Seen {
            attributes: if names.iter().any(|n| attributes::is_carried(n, self)) {
                self.attributes_of(directory)?
            } else {
                Attributes::new()
            },
            is_opaque: is_there("opaque") && self.is_marked_opaque(directory)?,
            redirect: if is_there("redirect") { self.redirect(directory)? } else { None },
            is_copied_up: if self == Self::Fuse { !is_there("opaque") } else { is_there("origin") },
        })
    }

    fn look_by_name(self, directory: &OwnedFd) -> Result<Seen, Errno> {
        let is_opaque = self.is_marked_opaque(directory)?;
        Ok(Seen {
            attributes: self.attributes_of(directory)?,
            is_opaque,
            redirect: self.redirect(directory)?,
            is_copied_up: if self == Self::Fuse { !is_opaque } else { self.has(directory, "origin")? },
        })
    }

    fn attributes_of(self, directory: &OwnedFd) -> Result<Attributes, Errno> {
        attributes::of_held(directory, self)
    }

    fn is_marked_opaque(self, directory: &OwnedFd) -> Result<bool, Errno> {
        Ok(self.value(directory, "opaque")?.is_some_and(|v| v == b"y"))
    }

    /// A name beside it, or a path from the root of the tree, where the lower part of a renamed directory lies.
    fn redirect(self, directory: &OwnedFd) -> Result<Option<OsString>, Errno> {
        Ok(self.value(directory, "redirect")?.map(OsString::from_vec))
    }

    /// The mark that may name what a file was copied up from.
    pub(crate) fn of_origin(self) -> Option<&'static str> {
        match self {
            Self::Trusted => Some("trusted.overlay.origin"),
            Self::Fuse => Some("user.fuseoverlayfs.origin"),
            _ => None,
        }
    }

    /// Whether it does. What cannot be looked at names nothing.
    pub(crate) fn names_origin(self, path: &Path) -> bool {
        let (Some(mark), Ok(entry)) = (self.of_origin(), direct::hold(path)) else { return false };
        let length = attributes::get(&entry, OsStr::new(mark), &mut [0_u8; LONGEST_VALUE]);
        length.is_ok_and(|length| length.is_some_and(|length| length > 0))
    }

    /// The file below that a file or directory was copied up from. Only root's overlays say so.
    pub(crate) fn origin(self, path: &Path) -> Option<FileHandle> {
        if self != Self::Trusted {
            return None;
        }
        let mut value = [0_u8; LONGEST_VALUE];
        let entry = direct::hold(path).ok()?;
        let length = attributes::get(&entry, OsStr::new("trusted.overlay.origin"), &mut value).ok()??;
        // Version, magic, length, flags, kind of handle, the file system's id; then the handle.
        match &value[..length] {
            [0, ORIGIN_MAGIC, said, _, kind, rest @ ..] if usize::from(*said) == length => {
                Some(FileHandle { kind: i32::from(*kind), bytes: rest.get(FILE_SYSTEM_ID..)?.to_vec() })
            }
            _ => None,
        }
    }

    fn has(self, file: &OwnedFd, mark: &str) -> Result<bool, Errno> {
        Ok(self.value(file, mark)?.is_some())
    }

    fn value(self, file: &OwnedFd, mark: &str) -> Result<Option<Vec<u8>>, Errno> {
        let mut value = [0_u8; LONGEST_VALUE];
        for prefix in self.prefixes() {
            let name = format!("{prefix}{mark}");
            if let Some(length) = attributes::get(file, OsStr::new(&name), &mut value)? {
                return Ok(Some(value[..length].to_vec()));
            }
        }
        Ok(None)
    }
}

/// What a layer's directory says about itself.
pub(crate) struct Seen {
    pub attributes: Attributes,
    /// Nothing shows through it.
    pub is_opaque: bool,
    pub redirect: Option<OsString>,
    /// There was something below it when it was made. Directories that fuse-overlayfs makes where nothing was are opaque.
    pub is_copied_up: bool,
}

fn open_path(directory: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}
