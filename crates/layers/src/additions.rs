//! What says of a frozen layer that something was added to it.
//!
//! What a layer shows never changes. But what it shows of reality an apply copies into it before reality loses it, and whoever
//! has been reading the layer since before that, as a merge does, has to know that what was read is not all of it.

use std::path::Path;

use rustix::fs::XattrFlags;
use whatif_sys::absence::OrAbsent;

use crate::shift::attribute;
use crate::{PathError, on};

/// Of the kind that the marks of renamed directories are, so every layer with one of those can have it.
const ADDITION: &str = "trusted.whatif.addition";

/// Says that something was added, under a name that no other addition has. A layer that is gone needs to say nothing.
pub fn announce(layer: &Path, name: &str) -> Result<(), PathError> {
    let said = rustix::fs::setxattr(layer, ADDITION, name.as_bytes(), XattrFlags::empty()).or_absent();
    said.map(|_| ()).map_err(on("mark", layer))
}

/// The name of the last addition; nothing if there never was one, or the layer is gone.
pub fn last(layer: &Path) -> Result<Option<Vec<u8>>, PathError> {
    Ok(attribute(layer, ADDITION).or_absent().map_err(on("examine", layer))?.flatten())
}
