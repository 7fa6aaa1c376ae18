//! How a layer says "gone", "nothing shows through" and "goes on over there", read and written.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, XattrFlags, fsetxattr, openat, statat};
use rustix::io::Errno;

use super::attributes::{self, At};
use super::{Format, trail::Trail};

const FUSE_WHITEOUT: &str = ".wh.";
const FUSE_OPAQUE: &str = ".wh..wh..opq";

/// Attributes that overlayfs writes for itself. All others below its prefix belong to somebody else: what an overlay within
/// the sandbox wrote is kept as `overlay.overlay.…`.
const OWN: [&str; 9] = ["opaque", "redirect", "origin", "impure", "nlink", "uuid", "metacopy", "protattr", "whiteout"];

/// What a directory says about the layers below its own.
#[derive(Clone, Debug)]
pub(super) enum Mark {
    /// They go on at the same name.
    None,
    /// They do not show.
    Opaque,
    Redirect(Redirect),
}

/// Where what was renamed lies in the layers below.
#[derive(Clone, Debug)]
pub(super) enum Redirect {
    /// Another name in the same directory.
    Name(OsString),
    /// Somewhere else in the tree.
    Path(Trail),
}

impl Format {
    fn prefixes(self) -> &'static [&'static str] {
        match self {
            Self::Trusted => &["trusted.overlay."],
            Self::User => &["user.overlay."],
            Self::Fuse => &["user.fuseoverlayfs.", "trusted.overlay.", "user.overlay."],
        }
    }

    /// Whether an attribute speaks about layers, and not for a user.
    pub(super) fn owns(self, attribute: &OsStr) -> bool {
        let is_own = |prefix: &&str| {
            attribute.as_bytes().strip_prefix(prefix.as_bytes()).is_some_and(|mark| OWN.iter().any(|own| own.as_bytes() == mark))
        };
        self.prefixes().iter().any(is_own)
    }

    /// The name that an entry speaks about, or nothing if it speaks about its directory.
    pub(super) fn subject(self, name: &OsStr) -> Option<&OsStr> {
        match name.as_bytes().strip_prefix(FUSE_WHITEOUT.as_bytes()) {
            Some(_) if self == Self::Fuse && name == FUSE_OPAQUE => None,
            Some(hidden) if self == Self::Fuse => Some(OsStr::from_bytes(hidden)),
            _ => Some(name),
        }
    }

    /// What fuse-overlayfs calls the whiteout of a name where it may make no device.
    pub(super) fn whiteout_name(self, name: &OsStr) -> Option<OsString> {
        (self == Self::Fuse).then(|| [OsStr::new(FUSE_WHITEOUT), name].into_iter().collect())
    }

    pub(super) fn is_whiteout(self, entry: At<'_>, stat: &Stat) -> io::Result<bool> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::CharacterDevice => Ok(stat.st_rdev == 0),
            // The kernel reads this form too, though it never writes it.
            FileType::RegularFile if stat.st_size == 0 => Ok(self.get(entry, "whiteout")?.is_some()),
            _ => Ok(false),
        }
    }

    pub(super) fn read(self, directory: &OwnedFd) -> io::Result<Mark> {
        let entry = At::itself(directory);
        if self.get(entry, "opaque")?.is_some_and(|value| value == b"y") || self.has_opaque_file(directory)? {
            return Ok(Mark::Opaque);
        }
        match self.get(entry, "redirect")? {
            Some(redirect) if self != Self::Fuse => Ok(Mark::Redirect(parse(&redirect)?)),
            _ => Ok(Mark::None),
        }
    }

    pub(super) fn write(self, directory: &OwnedFd, mark: &Mark) -> io::Result<()> {
        match mark {
            Mark::None => Ok(()),
            Mark::Opaque => self.write_opaque(directory),
            Mark::Redirect(Redirect::Name(name)) => self.set(directory, "redirect", name.as_bytes()),
            Mark::Redirect(Redirect::Path(path)) => self.set(directory, "redirect", &path.absolute()),
        }
    }

    /// "Was there below when it was made." Overlayfs looks for whiteouts in a directory that is alone at its place only if it
    /// has this mark, and would list them otherwise. Empty, it says that the file of before is not known.
    pub(super) fn write_origin(self, directory: &OwnedFd, origin: &[u8]) -> io::Result<()> {
        self.set(directory, "origin", origin)
    }

    pub(super) fn origin(self, directory: &OwnedFd) -> io::Result<Option<Vec<u8>>> {
        self.get(At::itself(directory), "origin")
    }

    /// Whether a file says that it was copied up.
    pub(super) fn is_copy(self, entry: At<'_>) -> io::Result<bool> {
        Ok(self.get(entry, "origin")?.is_some())
    }

    /// What it was copied up from is not below any more: from here on it counts as made where it lies. Other layers that have the
    /// same file have what it was copied up from, too. Where that cannot be said it stays in doubt.
    pub(super) fn forget_origin(self, entry: At<'_>) -> io::Result<()> {
        for prefix in self.prefixes() {
            match attributes::remove(entry, OsStr::new(&format!("{prefix}origin"))) {
                Ok(()) | Err(Errno::NODATA | Errno::NOTSUP | Errno::PERM | Errno::ACCESS) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// In both forms, as fuse-overlayfs does: the file is there for file systems without attributes.
    fn write_opaque(self, directory: &OwnedFd) -> io::Result<()> {
        if self == Self::Fuse {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            openat(directory, FUSE_OPAQUE, flags, Mode::RWXU)?;
        }
        match self.set(directory, "opaque", b"y") {
            Err(error) if self == Self::Fuse && error.kind() == io::ErrorKind::Unsupported => Ok(()),
            other => other,
        }
    }

    fn has_opaque_file(self, directory: &OwnedFd) -> io::Result<bool> {
        if self != Self::Fuse {
            return Ok(false);
        }
        match statat(directory, FUSE_OPAQUE, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn get(self, entry: At<'_>, mark: &str) -> io::Result<Option<Vec<u8>>> {
        for prefix in self.prefixes() {
            if let Some(value) = attributes::get(entry, OsStr::new(&format!("{prefix}{mark}")))? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    fn set(self, directory: &OwnedFd, mark: &str, value: &[u8]) -> io::Result<()> {
        Ok(fsetxattr(directory, format!("{}{mark}", self.prefixes()[0]), value, XattrFlags::empty())?)
    }
}

/// One name, or a slash before each of several. Anything else the kernel refuses, and so do we.
fn parse(redirect: &[u8]) -> io::Result<Redirect> {
    let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0);
    match redirect.strip_prefix(b"/") {
        Some(path) if path.split(|byte| *byte == b'/').all(is_name) => {
            let names = path.split(|byte| *byte == b'/').map(OsStr::from_bytes);
            Ok(Redirect::Path(names.fold(Trail::default(), |trail, name| trail.join(name))))
        }
        None if is_name(redirect) => Ok(Redirect::Name(OsStr::from_bytes(redirect).to_owned())),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "not a redirect")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marks_of_the_own_kind_are_marks() {
        let owns = |format: Format, name: &str| format.owns(OsStr::new(name));
        assert!(owns(Format::Trusted, "trusted.overlay.opaque"));
        assert!(!owns(Format::Trusted, "user.overlay.opaque"));
        assert!(!owns(Format::Trusted, "trusted.overlay.overlay.opaque"));
        assert!(owns(Format::User, "user.overlay.origin"));
        assert!(owns(Format::Fuse, "user.fuseoverlayfs.opaque"));
        assert!(!owns(Format::Fuse, "user.fuseoverlayfs.override_stat"));
    }

    #[test]
    fn redirects_are_names_or_paths_from_the_root() {
        assert!(matches!(parse(b"a"), Ok(Redirect::Name(name)) if name == "a"));
        assert!(matches!(parse(b"/a/b"), Ok(Redirect::Path(path)) if path.absolute() == b"/a/b"));
        for wrong in [&b""[..], b"/", b"a/b", b"/a//b", b"/a/", b"..", b"/a/../b", b"a\0b"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn fuse_whiteouts_speak_about_another_name() {
        let subject = |format: Format, name: &'static str| format.subject(OsStr::new(name));
        assert_eq!(subject(Format::Fuse, ".wh.a"), Some(OsStr::new("a")));
        assert_eq!(subject(Format::Fuse, ".wh..wh..opq"), None);
        assert_eq!(subject(Format::Trusted, ".wh.a"), Some(OsStr::new(".wh.a")));
    }
}
