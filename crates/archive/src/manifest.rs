//! What an archive says it has.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::budget::{Budget, Limits};
use crate::codec;
use crate::digest;
use crate::entry::{About, Entry, Kind};
use crate::error::{ArchiveError, on};
use crate::frames;
use crate::header::padding;
use crate::names;
use crate::source::Source;

/// The only format so far.
pub const FORMAT: u32 = 1;

const NAME: &[u8] = b"manifest.json";
const DIGEST_NAME: &[u8] = b"manifest.sha256";
/// Every manifest is held in memory before it is known whom it comes from.
const LARGEST: u64 = 4 << 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub format: u32,
    /// Whatever the caller of [`write`](crate::write()) had to say.
    pub about: serde_json::Value,
    /// In the order of the archive.
    pub layers: Vec<LayerEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerEntry {
    pub id: String,
    /// SHA-256, in hexadecimal digits, over everything in the layer.
    pub digest: String,
    /// Entries of any kind, the layer's own directory included.
    pub files: u64,
    /// Content of all files.
    pub bytes: u64,
}

/// Reads the manifest of an archive and nothing else. It is whole and well-formed; whether the layers are is not known yet.
/// The digest is the one that was told when the archive was written.
pub fn read_manifest(path: &Path) -> Result<(Manifest, String), ArchiveError> {
    let file = File::open(path).map_err(on("open", path))?;
    read_manifest_from(file).map_err(|error| match error {
        ArchiveError::Input(source) => on("read", path)(source),
        other => other,
    })
}

/// The same of an archive that is being read. More of it may be read than the manifest.
pub fn read_manifest_from(input: impl Read) -> Result<(Manifest, String), ArchiveError> {
    let (manifest, digest, _) = from_frame(BufReader::new(input))?;
    Ok((manifest, digest))
}

impl Manifest {
    /// Every layer once, by a name that is safe to use.
    pub(crate) fn check(&self) -> Result<(), ArchiveError> {
        let mut seen = HashSet::new();
        for LayerEntry { id, .. } in &self.layers {
            names::check_layer_id(id)?;
            if !seen.insert(id) {
                return Err(ArchiveError::Manifest { why: format!("has layer '{id}' twice") });
            }
        }
        Ok(())
    }

    /// All layers together: bytes of content, and entries.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let sum = |number: fn(&LayerEntry) -> u64| self.layers.iter().map(number).fold(0, u64::saturating_add);
        (sum(|layer| layer.bytes), sum(|layer| layer.files))
    }

    fn parse(json: &[u8]) -> Result<Self, ArchiveError> {
        let broken = |error: serde_json::Error| ArchiveError::Manifest { why: format!("cannot be read: {error}") };
        let value: serde_json::Value = serde_json::from_slice(json).map_err(broken)?;
        // Asked first: another format may look different in every other respect.
        match value.get("format") {
            Some(format) if *format == FORMAT => {}
            Some(format) => return Err(ArchiveError::UnknownFormat { found: format.to_string().chars().take(40).collect() }),
            None => return Err(ArchiveError::NotAnArchive),
        }
        let manifest: Self = serde_json::from_value(value).map_err(broken)?;
        manifest.check()?;
        Ok(manifest)
    }
}

/// Writes the first frame, and returns the digest of the manifest: as it has those of the layers, it stands for all of them.
pub(crate) fn write(manifest: &Manifest, out: &mut impl Write) -> Result<String, ArchiveError> {
    let broken = |error: serde_json::Error| ArchiveError::Manifest { why: format!("cannot be written: {error}") };
    let mut json = serde_json::to_vec_pretty(manifest).map_err(broken)?;
    json.push(b'\n');
    if json.len() as u64 > LARGEST {
        return Err(ArchiveError::Manifest { why: format!("is larger than {LARGEST} bytes") });
    }
    let digest = digest::of(&json);
    let mut frame = frames::encoder(out).map_err(ArchiveError::Output)?;
    for (name, content) in [(NAME, &json), (DIGEST_NAME, &checksum_line(&digest))] {
        frame.write_all(&codec::encode(&plain_file(name, content.len() as u64))).map_err(ArchiveError::Output)?;
        frame.write_all(content).map_err(ArchiveError::Output)?;
        frame.write_all(&vec![0; padding(content.len() as u64)]).map_err(ArchiveError::Output)?;
    }
    frame.finish().map_err(ArchiveError::Output)?;
    Ok(digest)
}

/// Reads the first frame and gives back its digest and what follows.
pub(crate) fn from_frame<R: BufRead>(mut input: R) -> Result<(Manifest, String, R), ArchiveError> {
    const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let start = input.fill_buf().map_err(ArchiveError::Input)?;
    if start.iter().zip(MAGIC).any(|(found, expected)| *found != expected) {
        return Err(ArchiveError::NotAnArchive);
    }
    let mut budget = Budget::new(Limits { bytes: LARGEST + (16 << 10), ..Limits::default() });
    let mut source = Source::new(frames::decoder(input)?, &mut budget);
    let json = expect(&mut source, NAME)?;
    let digest = digest::of(&json);
    if expect(&mut source, DIGEST_NAME)? != checksum_line(&digest) {
        return Err(ArchiveError::Manifest { why: "has another digest than the archive says".to_owned() });
    }
    let rest = frames::finish(source.into_inner())?;
    Ok((Manifest::parse(&json)?, digest, rest))
}

/// The content of the next entry, which must be this file.
fn expect<R: Read>(source: &mut Source<'_, R>, name: &[u8]) -> Result<Vec<u8>, ArchiveError> {
    let entry = match source.entry() {
        Ok(Some(entry)) if entry == plain_file(name, entry.kind.size()) => entry,
        // Some other file that happens to be compressed.
        Ok(_) | Err(ArchiveError::Malformed { .. }) => return Err(ArchiveError::NotAnArchive),
        Err(error) => return Err(error),
    };
    let mut content = Vec::new();
    source.content(&entry, &mut |piece| {
        content.extend(piece);
        Ok(())
    })?;
    Ok(content)
}

fn plain_file(name: &[u8], size: u64) -> Entry {
    let about = About { mode: 0o644, ..About::default() };
    Entry { path: name.to_vec(), kind: Kind::File { size }, about, attributes: Default::default() }
}

/// As `sha256sum` prints it.
fn checksum_line(digest: &str) -> Vec<u8> {
    format!("{digest}  manifest.json\n").into_bytes()
}
