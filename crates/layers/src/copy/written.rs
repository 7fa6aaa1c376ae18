//! Whether a sandbox wrote to a copied tree. An overlay shows that by what is in its head; a copy is full from the beginning.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use whatif_types::copied;

use super::if_there;
use super::inventory::ctime;
use crate::{PathError, on};

/// Whether anything in the copy is newer than its inventory, which is written last. None if it has no inventory.
pub fn is_written(copy: &Path) -> Result<Option<bool>, PathError> {
    let inventory = copied::beside(copy);
    let Some(inventory) = if_there(fs::symlink_metadata(&inventory)).map_err(on("examine", &inventory))? else { return Ok(None) };
    let finished = (inventory.mtime(), inventory.mtime_nsec() as u32);
    // The tree itself may be renamed after that, which counts as a change of it, but not of what is in it.
    let top = fs::symlink_metadata(copy).map_err(on("examine", copy))?;
    if (top.mtime(), top.mtime_nsec() as u32) > finished {
        return Ok(Some(true));
    }
    let mut pending = vec![copy.to_owned()];
    while let Some(directory) = pending.pop() {
        let entries = fs::read_dir(&directory).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(on("list", &directory))?;
        for entry in entries {
            let path = entry.path();
            let metadata = fs::symlink_metadata(&path).map_err(on("examine", &path))?;
            if ctime(&metadata) > finished {
                return Ok(Some(true));
            }
            if metadata.is_dir() {
                pending.push(path);
            }
        }
    }
    Ok(Some(false))
}
