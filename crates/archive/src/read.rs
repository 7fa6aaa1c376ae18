//! From an archive to layers.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use whatif_overlay::Format;

use crate::budget::{Budget, Limits};
use crate::entry::Kind;
use crate::error::ArchiveError;
use crate::frames;
use crate::layers::Layers;
use crate::manifest::{self, Manifest};
use crate::source::Source;
use crate::unpack::{Unpacked, Unpacking};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which marks the overlays that will be mounted on the layers look for.
    pub marks: Format,
    /// Whether things get the owners they had, which only root can do. Otherwise they are the caller's.
    pub keep_owners: bool,
    pub limits: Limits,
}

/// A renamed directory, and where overlayfs looks for its lower part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// `<layer id>/…`.
    pub path: PathBuf,
    /// A name next to it, or an absolute path from the root of its tree.
    pub target: PathBuf,
}

/// What was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Extracted {
    pub manifest: Manifest,
    /// That of the manifest, as it was told when the archive was written.
    pub digest: String,
    /// Files whose capabilities could not be given to them, since owners were not kept either.
    pub capabilities_left_out: u64,
    /// What the layers show under other names. Only their spelling was checked: the caller knows what they must not lead to.
    pub redirects: Vec<Redirect>,
}

/// Makes `into/<layer id>/…` of all layers.
///
/// `into` is an empty directory that nobody else can reach. Nothing outside of it is touched, whatever the archive says. Only when
/// all is read and every digest is right this succeeds; after an error `into` holds anything or nothing, and the caller removes
/// it. Nothing is flushed to disk.
///
/// `judge` sees the manifest before anything is unpacked, and may refuse it; what it returns comes back. `progress` is told the bytes of content so far. The total is in the manifest.
pub fn read<T, E: From<ArchiveError>>(
    input: impl Read,
    into: &Path,
    options: &Options,
    judge: impl FnOnce(&Manifest) -> Result<T, E>,
    progress: &mut dyn FnMut(u64),
) -> Result<(Extracted, T), E> {
    let (manifest, digest, input) = manifest::from_frame(BufReader::with_capacity(128 << 10, input))?;
    let judged = judge(&manifest)?;
    Ok((unpack(manifest, digest, input, into, options, progress)?, judged))
}

fn unpack(
    manifest: Manifest,
    digest: String,
    input: impl BufRead,
    into: &Path,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Result<Extracted, ArchiveError> {
    let mut budget = Budget::new(options.limits);
    let (bytes, entries) = manifest.totals();
    budget.has_room(bytes, entries)?;

    let mut source = Source::new(frames::decoder(input)?, &mut budget);
    let mut layers = Layers::new(&manifest);
    let mut unpacking = Unpacking::new(into, options)?;
    let mut done = 0;
    while let Some(entry) = source.entry()? {
        layers.entry(&entry)?;
        unpacking.enter(&entry)?;
        if let Kind::File { .. } = entry.kind {
            let mut file = unpacking.file(&entry)?;
            source.content(&entry, &mut |piece| {
                file.put(piece)?;
                layers.content(piece);
                done += piece.len() as u64;
                progress(done);
                Ok(())
            })?;
            unpacking.settle(&file.finish()?, &entry)?;
        } else {
            unpacking.make(entry)?;
        }
    }
    let mut rest = frames::finish(source.into_inner())?;
    if rest.read(&mut [0]).map_err(ArchiveError::Input)? != 0 {
        return Err(ArchiveError::Trailing);
    }
    layers.finish()?;
    let Unpacked { capabilities_left_out, redirects } = unpacking.finish()?;
    Ok(Extracted { manifest, digest, capabilities_left_out, redirects })
}
