//! What a file or directory was copied up from.

use std::os::fd::AsFd;

use rustix::io::Errno;
use whatif_sys::file_handle::FileHandle;

use crate::attribute;
use crate::format::Format;
use crate::mark::Mark;

const MAGIC: u8 = 0xfb;
const FILE_SYSTEM_ID: usize = 16;

impl Format {
    /// The mark as it is, if there was something below when this was made. Empty, it says that what is not known.
    pub fn origin(self, file: &impl AsFd) -> Result<Option<Vec<u8>>, Errno> {
        self.get(file, Mark::Origin)
    }

    /// Says so. The kernel looks for whiteouts in a directory that is alone at its place only if it has this mark, and would list
    /// them otherwise.
    pub fn set_origin(self, file: &impl AsFd, origin: &[u8]) -> Result<(), Errno> {
        self.set(file, Mark::Origin, origin)
    }

    /// The file below, by its handle. Only root's overlays name it so.
    pub fn origin_handle(self, file: &impl AsFd) -> Result<Option<FileHandle>, Errno> {
        if self != Self::Trusted {
            return Ok(None);
        }
        Ok(self.origin(file)?.as_deref().and_then(handle))
    }

    /// Whether a mark of this format may name the file below. An ordinary user's overlay has no name for it, so its mark says no more than that
    /// there was one.
    #[must_use]
    pub fn can_name_origins(self) -> bool {
        matches!(self, Self::Trusted | Self::Fuse)
    }

    /// Whether the mark of what is held does.
    pub fn names_origin(self, file: &impl AsFd) -> Result<bool, Errno> {
        match self.origin_attribute() {
            Some(name) => Ok(attribute::get(file, &name)?.is_some_and(|value| !value.is_empty())),
            None => Ok(false),
        }
    }

    /// Takes the name of the file below out of the mark, which still says that there was one.
    pub fn forget_name_of_origin(self, file: &impl AsFd) -> Result<(), Errno> {
        self.origin_attribute().map_or(Ok(()), |name| attribute::replace(file, &name, b""))
    }

    fn origin_attribute(self) -> Option<String> {
        if self.can_name_origins() { self.attribute(Mark::Origin) } else { None }
    }
}

/// Version, magic, length, flags, kind of handle, the file system's id; then the handle.
fn handle(origin: &[u8]) -> Option<FileHandle> {
    match origin {
        [0, MAGIC, said, _, kind, rest @ ..] if usize::from(*said) == origin.len() => {
            Some(FileHandle { kind: i32::from(*kind), bytes: rest.get(FILE_SYSTEM_ID..)?.to_vec() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_what_follows_the_file_system() {
        let mut origin = vec![0, MAGIC, 25, 0, 1];
        origin.extend([7; FILE_SYSTEM_ID]);
        origin.extend([1, 2, 3, 4]);
        assert_eq!(handle(&origin), Some(FileHandle { kind: 1, bytes: vec![1, 2, 3, 4] }));
        origin.push(5);
        assert_eq!(handle(&origin), None, "longer than it says");
        assert_eq!(handle(b""), None);
        assert_eq!(handle(&[0, MAGIC, 5, 0, 1]), None, "without a file system");
    }
}
