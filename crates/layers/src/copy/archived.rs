//! The inventory of a copied tree on its way through an archive.
//!
//! What is unpacked has other inodes and times than what was packed. So an archive says of each copy whether it was untouched, and
//! an import writes down what became of those that were.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use whatif_types::copied::{self, Copy};

use super::if_there;
use super::inventory::{Copied, btime, ctime, describe};
use crate::{PathError, on};

/// No file has it. Archives of earlier versions have the numbers that the files had where they were made, touched or not.
const UNTOUCHED: u64 = 0;
/// Nobody has it: the owner that the copy was made with, by whatever number it is known where it is unpacked.
const OF_THE_COPY: u32 = u32::MAX;

impl Copied {
    /// What an archive says of the copy at this place. None if the copy has no inventory.
    pub fn to_archive(copy: &Path) -> Result<Option<Vec<u8>>, PathError> {
        let Some(Self { mut originals }) = Self::read(copy)? else { return Ok(None) };
        for original in &mut originals {
            let Some(known) = original.copy.take() else { continue };
            let place = copy.join(&original.path);
            let Some(found) = if_there(fs::symlink_metadata(&place)).map_err(on("examine", &place))? else { continue };
            if is_untouched(&known, &found) {
                let owner = |known: u32, found: u32| if known == found { OF_THE_COPY } else { known };
                let (uid, gid) = (owner(known.uid, found.uid()), owner(known.gid, found.gid()));
                original.copy = Some(Copy { ino: UNTOUCHED, ctime: (0, 0), mode: known.mode, uid, gid, btime: None });
            }
        }
        Ok(Some(copied::encode(&originals)))
    }

    /// Writes down what the untouched copies at this place are here, where an archive was unpacked.
    pub fn from_archive(copy: &Path) -> Result<(), PathError> {
        let Some(mut inventory) = Self::read(copy)? else { return Ok(()) };
        for original in &mut inventory.originals {
            let Some(known) = original.copy.take_if(|known| known.ino == UNTOUCHED) else { continue };
            let place = copy.join(&original.path);
            let Some(found) = if_there(fs::symlink_metadata(&place)).map_err(on("examine", &place))? else { continue };
            let made = describe(&found);
            let owner = |known: u32, made: u32| if known == OF_THE_COPY { made } else { known };
            let (uid, gid) = (owner(known.uid, made.uid), owner(known.gid, made.gid));
            original.copy = Some(Copy { mode: known.mode, uid, gid, ..made });
        }
        inventory.write(copy)
    }
}

/// The time of a directory says what happened in it, and nothing about itself.
pub(super) fn is_untouched(known: &Copy, found: &fs::Metadata) -> bool {
    known.is(found.ino(), btime(found)) && (found.is_dir() || ctime(found) == known.ctime)
}
