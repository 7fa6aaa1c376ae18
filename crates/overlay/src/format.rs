//! Who writes a layer, and under which names its marks are found.

use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::attribute::{self, Names};
use crate::mark::Mark;

/// Each way of mounting writes its own marks, and only those are believed: for a sandbox of root, `user.overlay.opaque` is an
/// attribute like any other, which whatever runs inside may set to make its changes look like something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The kernel's overlayfs, mounted by root: `trusted.overlay.*`.
    Trusted,
    /// The kernel's overlayfs, mounted by an ordinary user: `user.overlay.*`. It makes no redirects.
    User,
    /// fuse-overlayfs: `user.fuseoverlayfs.*`, or `trusted.overlay.*` where it may. It has [more forms](crate::fuse) than it can
    /// defend; those are not believed.
    Fuse,
    /// A plain copy; it has no marks.
    None,
}

const TRUSTED: &str = "trusted.overlay.";
const USER: &str = "user.overlay.";
const FUSE: &str = "user.fuseoverlayfs.";

/// Whether an attribute may be a mark of some format, where it is not known who wrote it.
#[must_use]
pub fn is_reserved(attribute: &[u8]) -> bool {
    [TRUSTED, USER, FUSE].iter().any(|prefix| attribute.starts_with(prefix.as_bytes()))
}

impl Format {
    /// The first is the one to write.
    pub(crate) fn prefixes(self) -> &'static [&'static str] {
        match self {
            Self::Trusted => &[TRUSTED],
            Self::User => &[USER],
            Self::Fuse => &[FUSE, TRUSTED],
            Self::None => &[],
        }
    }

    /// Whether the name of an attribute is not for programs inside to set. Those that they set all the same, through a kernel that
    /// lets them, lie on disk as `overlay.overlay.*`. So they are no [marks](Self::mark), but mean nothing outside the layer either.
    #[must_use]
    pub fn reserves(self, attribute: &[u8]) -> bool {
        self.prefixes().iter().any(|prefix| attribute.starts_with(prefix.as_bytes()))
    }

    /// The mark that an attribute of a layer is.
    #[must_use]
    pub fn mark(self, attribute: &[u8]) -> Option<Mark> {
        self.prefixes().iter().find_map(|prefix| attribute.strip_prefix(prefix.as_bytes())).and_then(Mark::of)
    }

    /// The attribute that a mark is written to. A plain copy has none.
    #[must_use]
    pub fn attribute(self, mark: Mark) -> Option<String> {
        self.prefixes().first().map(|prefix| format!("{prefix}{}", mark.name()))
    }

    /// Whether what is held has a mark, whatever it says. Unlike reading one, this needs no permission.
    pub fn has(self, file: &impl AsFd, mark: Mark) -> Result<bool, Errno> {
        Ok(self != Self::None && self.is_among(&Names::of(file)?, mark))
    }

    /// Takes a mark away, if there is one.
    pub fn remove(self, file: &impl AsFd, mark: Mark) -> Result<(), Errno> {
        for prefix in self.prefixes() {
            attribute::remove(file, &format!("{prefix}{}", mark.name()))?;
        }
        Ok(())
    }

    pub(crate) fn is_among(self, names: &Names, mark: Mark) -> bool {
        names.iter().any(|name| self.mark(name) == Some(mark))
    }

    pub(crate) fn get(self, file: &impl AsFd, mark: Mark) -> Result<Option<Vec<u8>>, Errno> {
        for prefix in self.prefixes() {
            if let Some(value) = attribute::get(file, &format!("{prefix}{}", mark.name()))? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    pub(crate) fn set(self, file: &impl AsFd, mark: Mark, value: &[u8]) -> Result<(), Errno> {
        attribute::set(file, &self.attribute(mark).ok_or(Errno::NOTSUP)?, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marks_of_the_own_kind_are_marks() {
        let is_mark = |format: Format, name: &str| format.mark(name.as_bytes()).is_some();
        assert!(is_mark(Format::Trusted, "trusted.overlay.opaque"));
        assert!(!is_mark(Format::Trusted, "user.overlay.opaque"));
        assert!(is_mark(Format::User, "user.overlay.origin"));
        assert!(is_mark(Format::Fuse, "user.fuseoverlayfs.opaque"));
        assert!(!is_mark(Format::Fuse, "user.overlay.opaque"));
        assert!(!is_mark(Format::None, "trusted.overlay.opaque"));
    }

    #[test]
    fn what_is_set_inside_is_reserved_and_no_mark() {
        for (format, name) in [
            (Format::Trusted, "trusted.overlay.overlay.opaque"),
            (Format::User, "user.overlay.overlay.whiteout"),
            (Format::Fuse, "user.fuseoverlayfs.override_stat"),
        ] {
            assert!(format.reserves(name.as_bytes()) && format.mark(name.as_bytes()).is_none(), "{name}");
        }
    }
}
