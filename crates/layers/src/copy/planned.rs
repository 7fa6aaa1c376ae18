//! What a refresh is about to make of a copy, in case it is cut short.
//!
//! A copy is known by its inode and its times, and putting it in its place moves one of them. So the inventory can only be written
//! afterwards. Until then a plan tells which inode will be where: what is in its place then is reality's version.

use std::collections::BTreeMap;
use std::fs::{self, Metadata, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use whatif_types::copied::{self, Copy, Original};

use super::if_there;
use super::inventory::{Copied, btime, ctime};
use crate::{PathError, on};

/// Brings the inventory of a copy up to date after a refresh that was cut short. Nothing may have run in the sandbox since. Returns
/// the paths, relative to the tree, that have reality's version by then.
pub fn complete(copy: &Path, plan: &Path) -> Result<Vec<PathBuf>, PathError> {
    let bytes = fs::read(plan).map_err(on("read", plan))?;
    // It is whole before the first step is taken.
    let (Some(planned), Some(known)) = (copied::decode(&bytes), Copied::read(copy)?) else { return Ok(Vec::new()) };
    let planned = by_path(planned);
    let mut known = by_path(known.originals);
    for path in known.keys().filter(|path| !planned.contains_key(*path)).cloned().collect::<Vec<_>>() {
        if look(&copy.join(&path))?.is_none() {
            known.remove(&path);
        }
    }
    let mut in_place = Vec::new();
    for (path, original) in planned {
        let at = copy.join(&path);
        let Some(made) = original.copy.clone().filter(|_| known.get(&path) != Some(&original)) else { continue };
        let Some(found) = look(&at)?.filter(|found| made.is(found.ino(), btime(found))) else { continue };
        // A directory is opened to be moved, and closed afterwards.
        if found.is_dir() && found.mode() != made.mode {
            fs::set_permissions(&at, Permissions::from_mode(made.mode & 0o7777)).map_err(on("close", &at))?;
        }
        known.insert(path.clone(), Original { copy: Some(Copy { ctime: ctime(&found), ..made }), ..original });
        in_place.push(path);
    }
    Copied { originals: known.into_values().collect() }.write(copy)?;
    Ok(in_place)
}

fn by_path(originals: Vec<Original>) -> BTreeMap<PathBuf, Original> {
    originals.into_iter().map(|original| (original.path.clone(), original)).collect()
}

fn look(path: &Path) -> Result<Option<Metadata>, PathError> {
    if_there(fs::symlink_metadata(path)).map_err(on("examine", path))
}
