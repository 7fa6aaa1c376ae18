//! Where a directory was before it was renamed.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::format::Format;
use crate::mark::Mark;

/// Where what was renamed lies in the layers below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// Another name in the same directory.
    Beside(OsString),
    /// A path from the root of the tree, without a slash before it.
    FromRoot(PathBuf),
}

impl Redirect {
    /// One name, or a slash before each of several. The kernel looks up no directory that says anything else (`EINVAL`).
    pub fn parse(value: &[u8]) -> Result<Self, Errno> {
        let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0);
        match value.strip_prefix(b"/") {
            Some(path) if path.split(|byte| *byte == b'/').all(is_name) => Ok(Self::FromRoot(OsStr::from_bytes(path).into())),
            None if is_name(value) => Ok(Self::Beside(OsStr::from_bytes(value).to_owned())),
            _ => Err(Errno::INVAL),
        }
    }

    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Beside(name) => name.as_bytes().to_vec(),
            Self::FromRoot(path) => [b"/", path.as_os_str().as_bytes()].concat(),
        }
    }

    /// Whether it leads to a path in the tree, as far as can be told without knowing which directory says so.
    #[must_use]
    pub fn may_lead_to(&self, source: &Path) -> bool {
        match self {
            Self::Beside(name) => source.file_name() == Some(name),
            Self::FromRoot(path) => path == source,
        }
    }
}

impl Format {
    /// fuse-overlayfs follows none. Nor does the kernel for an ordinary user; but it never writes one there, and refuses all of a
    /// directory that has one.
    pub fn redirect(self, directory: &impl AsFd) -> Result<Option<Redirect>, Errno> {
        match self {
            Self::Fuse | Self::None => Ok(None),
            Self::Trusted | Self::User => self.get(directory, Mark::Redirect)?.map(|value| Redirect::parse(&value)).transpose(),
        }
    }

    pub fn set_redirect(self, directory: &impl AsFd, redirect: &Redirect) -> Result<(), Errno> {
        match self {
            Self::Fuse | Self::None => Err(Errno::NOTSUP),
            Self::Trusted | Self::User => self.set(directory, Mark::Redirect, &redirect.to_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_names_or_paths_from_the_root() {
        assert_eq!(Redirect::parse(b"a"), Ok(Redirect::Beside("a".into())));
        assert_eq!(Redirect::parse(b"/a/b"), Ok(Redirect::FromRoot("a/b".into())));
        for right in [&b"a"[..], b"/a", b"/a/b", b"/...", b"\xff"] {
            assert_eq!(Redirect::parse(right).unwrap().to_bytes(), right);
        }
        for wrong in [&b""[..], b"/", b".", b"a/b", b"//a", b"/a//b", b"/a/", b"..", b"/a/../b", b"/..", b"a\0b"] {
            assert_eq!(Redirect::parse(wrong), Err(Errno::INVAL), "{wrong:?}");
        }
    }

    #[test]
    fn a_name_may_be_anywhere_and_a_path_only_in_one_place() {
        assert!(Redirect::Beside("c".into()).may_lead_to(Path::new("a/c")));
        assert!(!Redirect::Beside("c".into()).may_lead_to(Path::new("c/a")));
        assert!(Redirect::FromRoot("a/c".into()).may_lead_to(Path::new("a/c")));
        assert!(!Redirect::FromRoot("c".into()).may_lead_to(Path::new("a/c")));
    }
}
