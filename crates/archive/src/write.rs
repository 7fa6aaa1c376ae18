//! From layers to an archive.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use whatif_overlay::Format;

use crate::codec;
use crate::digest::LayerDigest;
use crate::entry::{Entry, Kind};
use crate::error::{ArchiveError, on};
use crate::frames;
use crate::header::{BLOCK, padding};
use crate::manifest::{self, FORMAT, LayerEntry, Manifest};
use crate::names;
use crate::tree::Tree;

/// A layer to be archived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Letters, digits, `-` and `_`. The layer is called that in the archive.
    pub id: String,
    pub directory: PathBuf,
    /// Who wrote it. Marks of the other kind are attributes that anything in the sandbox could set, and are left out. A plain copy
    /// has no marks, so either will do; whiteouts of fuse-overlayfs are files like others and stay what they are.
    pub marks: Format,
    /// Parts of it, by their names, that are plain copies. All others lie over something, of which each entry hides what has its name.
    pub copied: Vec<String>,
    /// Files of it, by their paths in it, that hold something else in the archive than here.
    pub instead: Vec<(String, Vec<u8>)>,
    /// Files of it, by their paths in it, that are of no use elsewhere.
    pub without: Vec<String>,
}

/// What was found in layers and has no place in an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LeftOut {
    pub sockets: u64,
    /// All but whiteouts.
    pub devices: u64,
    /// `trusted.*` and overlay marks that are none of the layer's kind.
    pub attributes: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    pub manifest: Manifest,
    /// SHA-256 of the manifest in the archive. It stands for everything in the archive: who knows it from elsewhere knows that
    /// nobody changed anything.
    pub digest: String,
    pub left_out: LeftOut,
}

/// Writes an archive of all layers, in full, together with what the caller has to say.
///
/// The layers must not change meanwhile; if one does, this fails. `out` is not flushed to disk. `progress` is told the bytes of
/// content written so far, and called with zero while the layers are measured.
pub fn write(
    mut out: impl Write,
    about: serde_json::Value,
    layers: &[Layer],
    progress: &mut dyn FnMut(u64),
) -> Result<Written, ArchiveError> {
    let entries = layers.iter().map(|layer| go_over(layer, &mut io::sink(), &mut |_| progress(0)).map(|(entry, _)| entry));
    let manifest = Manifest { format: FORMAT, about, layers: entries.collect::<Result<_, _>>()? };
    manifest.check()?;
    let digest = manifest::write(&manifest, &mut out)?;

    let mut frame = frames::encoder(out).map_err(ArchiveError::Output)?;
    let mut left_out = LeftOut::default();
    let mut done = 0;
    for (layer, expected) in layers.iter().zip(&manifest.layers) {
        let (entry, without) = go_over(layer, &mut frame, &mut |bytes| {
            done += bytes;
            progress(done);
        })?;
        if entry != *expected {
            return Err(ArchiveError::Changed { path: layer.directory.clone() });
        }
        left_out.sockets += without.sockets;
        left_out.devices += without.devices;
        left_out.attributes += without.attributes;
    }
    frame.write_all(&[0; 2 * BLOCK]).map_err(ArchiveError::Output)?;
    frame.finish().and_then(|mut out| out.flush()).map_err(ArchiveError::Output)?;
    Ok(Written { manifest, digest, left_out })
}

/// What the manifest of an archive would say about a layer. The same for a layer that was read from an archive with its owners.
pub fn measure(layer: &Layer) -> Result<LayerEntry, ArchiveError> {
    Ok(go_over(layer, &mut io::sink(), &mut |_| {})?.0)
}

/// Reads a layer once, writes it as tar, and says what was written. `progress` is told the size of each piece.
fn go_over(layer: &Layer, out: &mut dyn Write, progress: &mut dyn FnMut(u64)) -> Result<(LayerEntry, LeftOut), ArchiveError> {
    names::check_layer_id(&layer.id)?;
    let mut tree = Tree::open(layer)?;
    let mut digest = LayerDigest::new();
    let (mut files, mut bytes) = (0, 0);
    while let Some((mut entry, file)) = tree.next()? {
        let mut content: Option<Box<dyn Read>> = file.map(|file| Box::new(file) as Box<dyn Read>);
        if let Some(other) = other_content(layer, &entry) {
            entry.kind = Kind::File { size: other.len() as u64 };
            content = Some(Box::new(other));
        }
        digest.entry(&entry);
        out.write_all(&codec::encode(&entry)).map_err(ArchiveError::Output)?;
        let size = entry.kind.size();
        if let Some(content) = content {
            copy(content, &tree.full_path(&entry), size, &mut |piece| {
                digest.content(piece);
                progress(piece.len() as u64);
                out.write_all(piece).map_err(ArchiveError::Output)
            })?;
        }
        out.write_all(&[0; BLOCK][..padding(size)]).map_err(ArchiveError::Output)?;
        files += 1;
        bytes += size;
    }
    Ok((LayerEntry { id: layer.id.clone(), digest: digest.finish(), files, bytes }, tree.left_out))
}

fn other_content<'l>(layer: &'l Layer, entry: &Entry) -> Option<&'l [u8]> {
    let inside = names::within_layer(&entry.path);
    let is_file = matches!(entry.kind, Kind::File { .. });
    layer.instead.iter().find(|(path, _)| is_file && path.as_bytes() == inside).map(|(_, content)| content.as_slice())
}

/// Exactly `size` bytes, as announced in the header.
fn copy(
    mut content: impl Read,
    path: &Path,
    size: u64,
    take: &mut dyn FnMut(&[u8]) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let mut piece = vec![0; size.min(128 << 10) as usize];
    let mut left = size;
    while left > 0 {
        let room = left.min(piece.len() as u64) as usize;
        let length = match content.read(&mut piece[..room]) {
            Ok(0) => return Err(ArchiveError::Changed { path: path.to_owned() }),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(on("read", path)(error)),
        };
        take(&piece[..length])?;
        left -= length as u64;
    }
    Ok(())
}
