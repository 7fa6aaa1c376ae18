//! Which parts a frozen layer has: a directory for each tree that its head had, and one for what its files started from.
//!
//! Not every tree is in every layer, because mounts come and go. So a part that is not there may never have been; the layer says
//! so itself, in an attribute that is written when it is frozen. Layers of earlier versions say nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::{PathError, on};

const PARTS: &str = "user.whatif.parts";
/// The part with what the files of a layer started from.
pub const BASE: &str = "base";
/// Enough for the numbers of a thousand trees.
const LONGEST: usize = 8192;

/// Writes down which parts a layer has. Where a file system has no such attributes, only its directory can be missed later.
pub fn seal(layer: &Path) -> Result<(), PathError> {
    let names = present(layer)?;
    let text = names.into_iter().collect::<Vec<_>>().join(",");
    match rustix::fs::setxattr(layer, PARTS, text.as_bytes(), XattrFlags::empty()) {
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(on("describe", layer)(errno)),
    }
}

/// The parts that a layer was frozen with; `None` if it does not say.
pub fn sealed(layer: &Path) -> Result<Option<BTreeSet<String>>, PathError> {
    let mut text = vec![0; LONGEST];
    match rustix::fs::getxattr(layer, PARTS, &mut text[..]) {
        Ok(length) => {
            let text = String::from_utf8_lossy(&text[..length]);
            let parts: BTreeSet<String> = text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
            // No layer is frozen without parts: this note was damaged, and says nothing.
            Ok((!parts.is_empty()).then_some(parts))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(on("examine", layer)(errno)),
    }
}

/// The parts that are there.
pub fn present(layer: &Path) -> Result<BTreeSet<String>, PathError> {
    let names = fs::read_dir(layer).map_err(on("list", layer))?.map(|entry| {
        let entry = entry?;
        Ok(entry.file_type()?.is_dir().then(|| entry.file_name().to_string_lossy().into_owned()))
    });
    names.filter_map(Result::transpose).collect::<io::Result<_>>().map_err(on("list", layer))
}
