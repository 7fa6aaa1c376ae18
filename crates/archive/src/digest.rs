//! What makes a layer this layer, in one number.
//!
//! SHA-256 over `whatif layer 1\n` and then, for each entry in the order of the archive:
//!
//! ```text
//! kind        one byte, a letter of the list below
//! path        relative to the layer; empty for the layer itself
//! target      of a link or hard link, the latter relative to the layer; else empty
//! mode, uid, gid, nanoseconds    four bytes each
//! seconds     eight bytes
//! attributes  their number, then name and value of each: plain ones by their names, then marks as `WHATIF.overlay.<mark>`
//! size        of the content, and the content
//! ```
//!
//! Numbers are little-endian, lengths and counts have eight bytes and stand before what they count, so no two layers read the
//! same. A layer's id is not part of it.

use sha2::{Digest, Sha256};

use crate::entry::{Entry, Kind};
use crate::names;

#[derive(Debug)]
pub(crate) struct LayerDigest {
    hash: Sha256,
}

impl LayerDigest {
    pub(crate) fn new() -> Self {
        Self { hash: Sha256::new_with_prefix(b"whatif layer 1\n") }
    }

    /// Everything about an entry but its content, which has to follow.
    pub(crate) fn entry(&mut self, entry: &Entry) {
        let mut bytes = Vec::with_capacity(256);
        let (letter, target) = match &entry.kind {
            Kind::Directory => (b'd', &[][..]),
            Kind::File { .. } => (b'f', &[][..]),
            Kind::Link { to } => (b'l', &to[..]),
            Kind::HardLink { to } => (b'h', names::within_layer(to)),
            Kind::Pipe => (b'p', &[][..]),
            Kind::Whiteout => (b'w', &[][..]),
        };
        bytes.push(letter);
        text(&mut bytes, names::within_layer(&entry.path));
        text(&mut bytes, target);
        let about = &entry.about;
        for number in [about.mode, about.uid, about.gid, about.mtime.nanoseconds] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(about.mtime.seconds.to_le_bytes());
        let attributes = &entry.attributes;
        bytes.extend(((attributes.plain.len() + attributes.marks.len()) as u64).to_le_bytes());
        for (name, value) in &attributes.plain {
            text(&mut bytes, name);
            text(&mut bytes, value);
        }
        for (mark, value) in &attributes.marks {
            text(&mut bytes, format!("WHATIF.overlay.{}", mark.name()).as_bytes());
            text(&mut bytes, value);
        }
        bytes.extend(entry.kind.size().to_le_bytes());
        self.hash.update(bytes);
    }

    pub(crate) fn content(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
    }

    pub(crate) fn finish(self) -> String {
        hex(&self.hash.finalize())
    }
}

pub(crate) fn of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn text(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
