//! How a layer says "gone", "nothing shows through" and "came from there".
//!
//! Each way of mounting writes its own marks, and only those are believed: for a sandbox of root, `user.overlay.opaque` is an
//! attribute like any other, which whatever runs inside may set to make its changes look like something else.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};

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
const FUSE_WHITEOUT: &[u8] = b".wh.";
const FUSE_OPAQUE: &[u8] = b".wh..wh..opq";

impl Marks {
    fn prefixes(self) -> &'static [&'static str] {
        match self {
            Self::Trusted => &["trusted.overlay."],
            Self::User => &["user.overlay."],
            Self::Fuse => &["user.fuseoverlayfs.", "user.overlay.", "trusted.overlay."],
            Self::None => &[],
        }
    }

    /// Whether an attribute is a mark of this layer, not a change.
    #[must_use]
    pub fn owns(self, attribute: &[u8]) -> bool {
        self.prefixes().iter().any(|p| attribute.starts_with(p.as_bytes())) || attribute.starts_with(b"trusted.")
    }

    /// The name that a whiteout in this layer takes away, if the entry is one.
    pub(crate) fn whited_out(self, directory: impl AsFd, name: &OsStr, node: &Node) -> Option<OsString> {
        if self == Self::None {
            return None;
        }
        if node.kind == Kind::Device && node.rdev == 0 {
            return Some(name.to_owned());
        }
        if self == Self::Fuse
            && let Some(hidden) = name.as_bytes().strip_prefix(FUSE_WHITEOUT)
            && !hidden.starts_with(FUSE_WHITEOUT)
        {
            return Some(OsStr::from_bytes(hidden).to_owned());
        }
        let marked = node.kind == Kind::File && node.size == 0 && self.has(&open_path(directory, name)?, "whiteout");
        marked.then(|| name.to_owned())
    }

    /// Whether a file beside a path that is not there says that nothing shows through.
    pub(crate) fn has_whiteout_beside(self, directory: impl AsFd, path: &Path) -> bool {
        if self != Self::Fuse {
            return false;
        }
        let Some(name) = path.file_name() else { return false };
        let whiteout = [FUSE_WHITEOUT, name.as_bytes()].concat();
        Node::at(directory, path.with_file_name(OsStr::from_bytes(&whiteout))).is_ok()
    }

    /// Entries that exist only to say something about others.
    pub(crate) fn is_bookkeeping(self, name: &OsStr) -> bool {
        self == Self::Fuse && name.as_bytes().starts_with(FUSE_OPAQUE)
    }

    /// What a directory says about itself, in as few calls as possible.
    pub(crate) fn look(self, directory: &OwnedFd) -> Seen {
        let mut room = [0_u8; 1024];
        let names = match rustix::fs::flistxattr(directory, &mut room[..]) {
            Ok(length) => attributes::names(&room[..length]).collect::<Vec<&[u8]>>(),
            // More than fits: everything is looked at by name.
            Err(_) => return self.look_by_name(directory),
        };
        let is_there = |mark: &str| {
            let fits = |n: &&[u8]| self.prefixes().iter().any(|p| n.strip_prefix(p.as_bytes()) == Some(mark.as_bytes()));
            names.iter().any(fits)
        };
        Seen {
            attributes: if names.iter().any(|n| attributes::is_carried(n, self)) {
                self.attributes_of(directory)
            } else {
                Attributes::new()
            },
            is_opaque: self.is_fuse_opaque(directory) || (is_there("opaque") && self.is_marked_opaque(directory)),
            redirect: if is_there("redirect") { self.redirect(directory) } else { None },
            is_copied_up: is_there("origin"),
        }
    }

    fn look_by_name(self, directory: &OwnedFd) -> Seen {
        Seen {
            attributes: self.attributes_of(directory),
            is_opaque: self.is_fuse_opaque(directory) || self.is_marked_opaque(directory),
            redirect: self.redirect(directory),
            is_copied_up: self.has(directory, "origin"),
        }
    }

    fn attributes_of(self, directory: &OwnedFd) -> Attributes {
        // The dot: what is listed is the directory, not the link to it.
        attributes::of(&attributes::path_of(directory).join("."), self)
    }

    fn is_marked_opaque(self, directory: &OwnedFd) -> bool {
        self.value(directory, "opaque").is_some_and(|v| v == b"y")
    }

    fn is_fuse_opaque(self, directory: &OwnedFd) -> bool {
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        self == Self::Fuse && rustix::fs::statat(directory, OsStr::from_bytes(FUSE_OPAQUE), flags).is_ok()
    }

    /// A name beside it, or a path from the root of the tree, where the lower part of a renamed directory lies.
    fn redirect(self, directory: &OwnedFd) -> Option<OsString> {
        self.value(directory, "redirect").map(OsString::from_vec)
    }

    fn has(self, file: &OwnedFd, mark: &str) -> bool {
        self.value(file, mark).is_some()
    }

    fn value(self, file: &OwnedFd, mark: &str) -> Option<Vec<u8>> {
        let mut value = [0_u8; LONGEST_VALUE];
        self.prefixes().iter().find_map(|prefix| {
            let name = format!("{prefix}{mark}");
            let length = attributes::get(file, OsStr::new(&name), &mut value)?;
            Some(value[..length].to_vec())
        })
    }
}

/// What a layer's directory says about itself.
pub(crate) struct Seen {
    pub attributes: Attributes,
    /// Nothing shows through it.
    pub is_opaque: bool,
    pub redirect: Option<OsString>,
    /// There was something below it when it was made.
    pub is_copied_up: bool,
}

fn open_path(directory: impl AsFd, name: &OsStr) -> Option<OwnedFd> {
    openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()
}
