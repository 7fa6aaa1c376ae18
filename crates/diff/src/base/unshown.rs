//! What a sandbox is not shown as it is, because it is masked or shown rewritten. Its version of such a file starts from bytes that
//! it must never see, so they are not kept for it, and what an earlier version kept of them does not leave the machine.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use super::Bases;
use super::index::{self, Line};
use super::record::Record;
use super::writer::numbers;

impl Bases {
    /// From now on, no bytes of these are kept, nor of what is in them.
    pub fn keep_no_bytes_of(&mut self, unshown: Vec<PathBuf>) {
        self.unshown = unshown;
    }
}

pub(super) fn is_among(unshown: &[PathBuf], path: &Path) -> bool {
    unshown.iter().any(|above| path.starts_with(above))
}

/// What of a `base/` directory may be given away.
#[derive(Debug)]
pub struct Shareable {
    /// What the index has to say.
    pub index: Vec<u8>,
    /// Names of files that have to stay.
    pub withheld: Vec<String>,
}

/// Without what is kept of some paths, and without bytes that no line speaks of: whose they were is not known. `None` if nothing has
/// to stay.
pub fn shareable(directory: &Path, unshown: &[PathBuf]) -> io::Result<Option<Shareable>> {
    let bytes = index::load(directory)?;
    let (mut lines, mut spoken_of, mut is_changed) = (Vec::new(), HashSet::new(), false);
    index::read(&bytes, |line| {
        let line = match line {
            Line::Known(record) if is_among(unshown, &record.path) && !record.absent => {
                is_changed = true;
                Line::Known(bare(record))
            }
            other => other,
        };
        if let Line::Known(Record { content: Some(number), .. }) = &line {
            spoken_of.insert(*number);
        }
        index::write(&line, &mut lines);
    });
    // Without an index there may be no directory.
    if bytes.is_empty() {
        return Ok(None);
    }
    let withheld: Vec<String> = numbers(directory)?.filter(|n| !spoken_of.contains(n)).map(|n| n.to_string()).collect();
    Ok((is_changed || !withheld.is_empty()).then_some(Shareable { index: lines, withheld }))
}

/// That there was something. What it was cannot be told any more, so a change on both sides is a conflict.
fn bare(record: Record) -> Record {
    let Record { path, node, by, .. } = record;
    Record { by, unknown: true, lost: true, ..Record::new(&path, node) }
}
