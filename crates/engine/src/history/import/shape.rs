//! Whether what was unpacked has the shape of a layer. An archive can hold anything under any name, and what reads layers later
//! trusts theirs: a link in the place of a note would be followed.

use std::fs::{self, FileType};
use std::path::{Component, Path};

use whatif_layers::parts;
use whatif_types::copied;

use super::ground::is_plain;
use crate::EngineError;
use crate::history::HistoryError;

/// Refuses a layer with other parts than one that was frozen here has.
pub(crate) fn check(layer: &Path, trees: usize) -> Result<(), EngineError> {
    each(layer, |name, path, kind| {
        if is_number(name).is_some_and(|number| number < trees as u64) {
            return Ok(kind.is_dir());
        }
        match name {
            parts::BASE if kind.is_dir() => check_base(path).map(|()| true),
            parts::FILE => Ok(kind.is_file()),
            _ => match name.strip_prefix("copied-").and_then(is_number) {
                Some(_) if kind.is_file() => check_inventory(path).map(|()| true),
                _ => Ok(false),
            },
        }
    })
}

/// What the files of a layer started from: an index, and under numbers the bytes, or links as they were.
fn check_base(base: &Path) -> Result<(), EngineError> {
    each(base, |name, _, kind| Ok(kind.is_file() || (kind.is_symlink() && is_number(name).is_some())))?;
    let read = whatif_diff::base::paths_in(base).map_err(|e| EngineError::io("read", base, e))?;
    if read.iter().all(|path| is_plain(path)) { Ok(()) } else { Err(misshapen(base)) }
}

/// What a copied tree was made from.
fn check_inventory(path: &Path) -> Result<(), EngineError> {
    let bytes = fs::read(path).map_err(|e| EngineError::io("read", path, e))?;
    let leads_down = |path: &Path| path.components().all(|c| matches!(c, Component::Normal(_)));
    match copied::decode(&bytes) {
        Some(originals) if originals.iter().all(|original| leads_down(&original.path)) => Ok(()),
        _ => Err(misshapen(path)),
    }
}

fn each(directory: &Path, mut may_be: impl FnMut(&str, &Path, FileType) -> Result<bool, EngineError>) -> Result<(), EngineError> {
    let failed = |e| EngineError::io("examine", directory, e);
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (name, path, kind) = (entry.file_name(), entry.path(), entry.file_type().map_err(failed)?);
        if !may_be(&name.to_string_lossy(), &path, kind)? {
            return Err(misshapen(&path));
        }
    }
    Ok(())
}

/// As it is written: without a sign, without leading zeros.
fn is_number(name: &str) -> Option<u64> {
    name.parse().ok().filter(|number: &u64| number.to_string() == name)
}

fn misshapen(path: &Path) -> EngineError {
    let name: Vec<_> = path.components().rev().take(2).map(|c| c.as_os_str().to_string_lossy()).collect();
    HistoryError::BadArchive {
        why: format!("{} is nothing that a layer has", name.into_iter().rev().collect::<Vec<_>>().join("/")),
    }
    .into()
}
