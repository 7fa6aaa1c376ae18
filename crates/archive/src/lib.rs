//! One file that carries layers from one machine to another.
//!
//! [`write`] puts layers and whatever the caller has to say about them into an archive, [`read`] makes directories of it again,
//! [`read_manifest`] tells what is in it without unpacking. What the layers are for is not this crate's business.
//!
//! # The format
//!
//! A tar archive (ustar with pax records), compressed by zstd. Any `tar` lists it.
//!
//! ```text
//! frame 1   manifest.json      format, what the caller said, layers with their digests
//!           manifest.sha256    of that file, as `sha256sum -c` likes it
//! frame 2   <layer id>         then everything in it, parents first, siblings in the order of their bytes
//!           <layer id> …       in the order of the manifest
//! ```
//!
//! - **The manifest comes first**, in a frame of its own, so that it can be shown and judged before anything is unpacked, from a
//!   pipe as well. Its digests must be known by then, so layers are read twice. They are frozen; one that changes in between is an
//!   error.
//! - **Own reader and writer instead of the `tar` crate.** That crate is made to accept what all kinds of programs ever wrote, and
//!   unpacks by path. Here nothing is accepted that [`write`] would not have written: an entry is decoded, encoded again and must
//!   be the same bytes. So there is one way to say a thing, and no field that one reader sees and another does not.
//! - **The order is part of the format.** A second entry of the same name, a file where a directory was, something beneath a
//!   symbolic link: all of it is out of order or has no directory, and is refused before the file system is asked.
//! - **Overlay marks are neutral** (`WHATIF.overlay.opaque`), so what root archived can be read by an ordinary user and the other
//!   way round. Marks that are spelled as the attributes they become are refused.
//! - **The digest of a layer** is computed from what is handed to the kernel, not from what a header announced. It says that an
//!   archive is whole, not who made it: whoever can forge a layer can forge its digest. Compare [`Written::digest`] for that.
//!
//! # What becomes of privileges
//!
//! Set-user-id and set-group-id bits are kept: they are what the sandbox had, and they end in a layer, which only an apply can
//! bring to reality, where they are flagged. Without [`Options::keep_owners`] everything belongs to the caller, so such a bit gives
//! nobody's rights but the caller's; file capabilities, which only root can give, are left out and counted. Access lists are kept
//! as they are, with the numbers of users they had.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod attributes;
mod beneath;
mod budget;
mod codec;
mod digest;
mod entry;
mod error;
mod filling;
mod frames;
mod header;
mod layers;
mod manifest;
mod marks;
mod names;
mod pax;
mod read;
mod source;
mod tree;
mod unpack;
mod write;

pub use budget::Limits;
pub use error::ArchiveError;
pub use manifest::{FORMAT, LayerEntry, Manifest, read_manifest, read_manifest_from};
pub use read::{Extracted, Options, Redirect, read};
pub use write::{Layer, LeftOut, Written, measure, write};
