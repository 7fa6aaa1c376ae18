//! Hides again what frozen layers hold of a path that was exposed to the sandbox they come from.
//!
//! A mask lies below the layers, so what was copied up from an exposed path shows above it. Whoever begins with these layers and is
//! not shown the path gets a deletion of it in its fresh head. Masked paths count as absent in a diff, so that is no change.

use std::fs::{self, DirBuilder, Metadata};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::io::Errno;
use whatif_overlay::whiteout;
use whatif_sys::absence;

use crate::copy::{Copied, copy_looks};
use crate::{PathError, on, remove};

/// In the fresh head of an overlay. `layers` are the parts of this tree, bottom first, and `tree` is what shows through them.
pub fn cover(head: &Path, layers: &[PathBuf], tree: &Path, path: &Path) -> Result<(), PathError> {
    let mut is_held = false;
    for layer in layers {
        is_held |= find(layer, path)?.is_some();
    }
    let Some(parent) = path.parent().filter(|_| is_held) else { return Ok(()) };
    let mut made = Vec::new();
    let above: Vec<&Path> = parent.ancestors().filter(|a| !a.as_os_str().is_empty()).collect();
    for directory in above.into_iter().rev() {
        let at = head.join(directory);
        match DirBuilder::new().mode(0o700).create(&at) {
            Ok(()) => made.push(directory),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(on("create", &at)(error)),
        }
    }
    let mark = head.join(path);
    match whiteout::make(CWD, &mark) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(on("create", &mark)(errno)),
    }
    // Deepest first, and last of all: filling a directory changes its times, and its mode may forbid it.
    for directory in made.into_iter().rev() {
        for shown in layers.iter().rev().map(PathBuf::as_path).chain([tree]) {
            if let Some(metadata) = find(shown, directory)?.filter(Metadata::is_dir) {
                copy_looks(&shown.join(directory), &head.join(directory), &metadata)?;
                break;
            }
        }
    }
    Ok(())
}

/// In a copy of a layer, which is whole: there it is as if it had never been copied.
pub fn leave_out(copy: &Path, copied: Option<&mut Copied>, path: &Path) -> Result<(), PathError> {
    if let Some(found) = find(copy, path)? {
        let at = copy.join(path);
        if found.is_dir() { remove::tree(&at)? } else { fs::remove_file(&at).map_err(on("remove", &at))? }
    }
    if let Some(copied) = copied {
        copied.forget(path);
    }
    Ok(())
}

/// What lies at a path below a directory, without following a link on the way.
fn find(root: &Path, path: &Path) -> Result<Option<Metadata>, PathError> {
    let mut at = root.to_owned();
    let mut found = None;
    for component in path.components() {
        if found.as_ref().is_some_and(|above: &Metadata| !above.is_dir()) {
            return Ok(None);
        }
        at.push(component);
        found = absence::look(&at).map_err(on("examine", &at))?;
        if found.is_none() {
            return Ok(None);
        }
    }
    Ok(found)
}
