//! The marks by their names, which are the same for all who write them.

/// In the order of their names, which is the order in which archives have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// Something in this directory was copied up.
    Impure,
    /// The file is without its content, which lies in a layer below.
    Metacopy,
    /// How many links a file has that overlayfs does not see.
    Nlink,
    /// Nothing shows through this directory (`y`), or files in it may be whiteouts (`x`).
    Opaque,
    /// There was something below when it was made.
    Origin,
    /// Immutable (`i`) and append-only (`a`), as they were set inside. The kernel reads it in a head only.
    Protected,
    /// Where the lower part of a renamed directory lies.
    Redirect,
    /// What an entry of overlayfs's index stands for.
    Upper,
    /// The identity of the mount.
    Uuid,
    /// An empty file that stands for a whiteout.
    Whiteout,
}

const ALL: [(Mark, &str); 10] = [
    (Mark::Impure, "impure"),
    (Mark::Metacopy, "metacopy"),
    (Mark::Nlink, "nlink"),
    (Mark::Opaque, "opaque"),
    (Mark::Origin, "origin"),
    (Mark::Protected, "protattr"),
    (Mark::Redirect, "redirect"),
    (Mark::Upper, "upper"),
    (Mark::Uuid, "uuid"),
    (Mark::Whiteout, "whiteout"),
];

impl Mark {
    /// The name after the prefix.
    #[must_use]
    pub fn name(self) -> &'static str {
        ALL.iter().find(|(mark, _)| *mark == self).map_or("", |(_, name)| name)
    }

    #[must_use]
    pub fn of(name: &[u8]) -> Option<Self> {
        ALL.iter().find(|(_, known)| known.as_bytes() == name).map(|(mark, _)| *mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_marks_have_one_order() {
        assert!(ALL.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
        for (mark, name) in ALL {
            assert_eq!((mark.name(), Mark::of(name.as_bytes())), (name, Some(mark)));
        }
        assert_eq!(Mark::of(b"overlay.opaque"), None);
    }
}
