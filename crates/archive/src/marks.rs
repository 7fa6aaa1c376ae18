//! What a layer's directories and files tell overlayfs, in a form that belongs to nobody.

use crate::entry::Kind;
use crate::names;

/// Under which names overlayfs finds its marks, which depends on who mounts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// `trusted.overlay.*`: mounted by root.
    Trusted,
    /// `user.overlay.*`: mounted by an ordinary user.
    User,
}

impl Marks {
    pub(crate) fn prefix(self) -> &'static [u8] {
        match self {
            Self::Trusted => b"trusted.overlay.",
            Self::User => b"user.overlay.",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    /// Nothing shows through this directory (`y`), or files in it may be whiteouts (`x`).
    Opaque,
    /// There was something below when it was made.
    Origin,
    /// Immutable (`i`) and append-only (`a`), as they were set inside.
    Protected,
    /// Where the lower part of a renamed directory lies.
    Redirect,
    /// An empty file that stands for a whiteout.
    Whiteout,
}

/// What an attribute of overlayfs is to an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Carried(Mark),
    /// Bookkeeping of one machine, which the kernel makes anew.
    Bookkeeping,
    /// The file is without its content.
    Partial,
    Unknown,
}

const ALL: [(Mark, &str); 5] = [
    (Mark::Opaque, "opaque"),
    (Mark::Origin, "origin"),
    (Mark::Protected, "protattr"),
    (Mark::Redirect, "redirect"),
    (Mark::Whiteout, "whiteout"),
];

impl Mark {
    /// The name after the prefix.
    pub(crate) fn name(self) -> &'static str {
        ALL.iter().find(|(mark, _)| *mark == self).map_or("", |(_, name)| name)
    }

    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        ALL.iter().find(|(_, known)| known.as_bytes() == name).map(|(mark, _)| *mark)
    }

    /// The value in an archive. An origin is a file handle of one file system; elsewhere only that there is one means something.
    pub(crate) fn neutral(self, value: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Origin | Self::Whiteout => b"y".to_vec(),
            _ => value,
        }
    }

    /// The value on disk. An empty origin is overlayfs's "copied up from something unknown".
    pub(crate) fn real(self, value: &[u8]) -> &[u8] {
        if self == Self::Origin { b"" } else { value }
    }

    /// Words that follow "which", if this mark means nothing there or leads astray.
    pub(crate) fn objection(self, value: &[u8], kind: &Kind) -> Option<&'static str> {
        let fits = match self {
            Self::Opaque | Self::Redirect => *kind == Kind::Directory,
            Self::Origin | Self::Protected => matches!(kind, Kind::Directory | Kind::File { .. }),
            Self::Whiteout => *kind == Kind::File { size: 0 },
        };
        if !fits {
            return Some("nothing of its kind can have");
        }
        let is_known = match self {
            Self::Opaque => matches!(value, b"y" | b"x"),
            Self::Origin | Self::Whiteout => value == b"y",
            Self::Protected => matches!(value, b"a" | b"i" | b"ai" | b"ia"),
            Self::Redirect => return (!is_plain_redirect(value)).then_some("leads astray"),
        };
        (!is_known).then_some("has a value that means nothing")
    }
}

pub(crate) fn meaning(name: &[u8]) -> Meaning {
    match (Mark::of(name), name) {
        (Some(mark), _) => Meaning::Carried(mark),
        (_, b"impure" | b"nlink" | b"upper" | b"uuid") => Meaning::Bookkeeping,
        (_, b"metacopy") => Meaning::Partial,
        _ => Meaning::Unknown,
    }
}

/// A name beside it, or a path from the root of the tree.
fn is_plain_redirect(value: &[u8]) -> bool {
    match value.strip_prefix(b"/") {
        Some(path) => value.len() <= names::LONGEST && names::objection(path).is_none(),
        None => !value.contains(&b'/') && names::objection(value).is_none(),
    }
}
