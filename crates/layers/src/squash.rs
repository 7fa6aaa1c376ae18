//! Merges a run of neighbouring frozen layers into one that shows the same, whatever lies above or below the run.
//!
//! Every layer makes each look-up dearer, and the kernel takes no more than 500 of them. `policy` says when a run is due,
//! `lookup` finds what it shows the way the kernel would, and `build` writes that down. How a layer says what it does is
//! `whatif_overlay`'s knowledge, and what becomes of the merged layers the caller's business.
//!
//! Nothing in the run is written. But a hard link renews the change time of its file, in every layer that has it.
//!
//! The layers must be readable: an ordinary user's sandbox can make directories that its own user cannot list, and a run with
//! one of them is an error, unless merged with the capabilities of a user namespace.

mod attributes;
mod build;
mod leaf;
mod lookup;
pub mod policy;
mod trail;

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use whatif_overlay::Format;

use self::lookup::Run;
use crate::{PathError, on, remove};

/// What a merge came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Everything but directories: `linked` and `copied` together.
    pub files: u64,
    /// Shares its inode with the layer it came from.
    pub linked: u64,
    /// Could not be linked.
    pub copied: u64,
    /// Written for copies; shared blocks do not count.
    pub bytes: u64,
}

/// Merges `layers`, one tree's directory in each layer of the run, newest first, into the new directory `into`.
///
/// It grows under another name, so `into` is either whole or not there. What a crash leaves of it, the next try removes; two
/// at the same time must be prevented by the caller.
pub fn merge(layers: &[PathBuf], into: &Path, format: Format) -> Result<Merged, PathError> {
    let refuse = |kind: io::ErrorKind| on("merge layers into", into)(io::Error::from(kind));
    let Some(name) = into.file_name().filter(|_| !layers.is_empty()) else { return Err(refuse(io::ErrorKind::InvalidInput)) };
    if into.symlink_metadata().is_ok() {
        return Err(refuse(io::ErrorKind::AlreadyExists));
    }
    let mut unfinished = name.to_owned();
    unfinished.push(".part");
    let unfinished = into.with_file_name(unfinished);

    remove::tree(&unfinished)?;
    let merged = build_whole(layers, &unfinished, into, format);
    if merged.is_err() {
        // The first error is the one to tell; what stays behind is removed by the next try.
        let _ = remove::tree(&unfinished);
    }
    merged
}

fn build_whole(layers: &[PathBuf], unfinished: &Path, into: &Path, format: Format) -> Result<Merged, PathError> {
    let run = Run::open(layers, format)?;
    std::fs::DirBuilder::new().mode(0o700).create(unfinished).map_err(on("create", unfinished))?;
    let merged = build::build(&run, unfinished)?;
    rustix::fs::renameat_with(CWD, unfinished, CWD, into, RenameFlags::NOREPLACE).map_err(on("rename to", into))?;
    Ok(merged)
}
