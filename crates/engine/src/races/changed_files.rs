//! Which attempt changed which file, and which made the same of it.

use std::collections::BTreeMap;

use whatif_types::experiment::{ChangedFile, Changes};
use whatif_types::text::Text;

use super::Shown;

/// Attempts that changed files, the best first, and what each made of each file.
#[derive(Debug)]
pub struct Matrix<'a> {
    pub attempts: Vec<&'a str>,
    /// How many more there are.
    pub left_out: usize,
    /// By path; one cell for each attempt. Without those that all of them changed in the same way.
    pub rows: Vec<(&'a Text, Vec<Cell<'a>>)>,
    /// All changed them in the same way.
    pub shared: Vec<&'a ChangedFile>,
}

#[derive(Clone, Copy, Debug)]
pub enum Cell<'a> {
    Untouched,
    Changed(&'a ChangedFile),
    /// It changed more files than are listed.
    Unknown,
}

impl<'a> Cell<'a> {
    #[must_use]
    pub fn file(self) -> Option<&'a ChangedFile> {
        match self {
            Self::Changed(file) => Some(file),
            _ => None,
        }
    }
}

/// Of so many attempts at most.
#[must_use]
pub fn matrix(race: Shown<'_>, most: usize) -> Matrix<'_> {
    let mut changed: Vec<(&str, &Changes)> =
        race.ranked().map(|(name, o)| (name, &o.changes)).filter(|(_, c)| !c.list.is_empty()).collect();
    let left_out = changed.len().saturating_sub(most);
    changed.truncate(most);
    let lists: Vec<BTreeMap<&Text, &ChangedFile>> =
        changed.iter().map(|(_, changes)| changes.list.iter().map(|file| (&file.path, file)).collect()).collect();
    let mut paths: Vec<&Text> = lists.iter().flat_map(|list| list.keys().copied()).collect();
    paths.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    paths.dedup();
    let attempts = changed.iter().map(|(name, _)| *name).collect();
    let mut matrix = Matrix { attempts, left_out, rows: Vec::new(), shared: Vec::new() };
    for path in paths {
        let cells = changed.iter().zip(&lists).map(|((_, changes), list)| match list.get(path) {
            Some(file) => Cell::Changed(file),
            None if changes.files > changes.list.len() as u64 => Cell::Unknown,
            None => Cell::Untouched,
        });
        let cells: Vec<Cell<'_>> = cells.collect();
        match all_the_same(&cells) {
            Some(file) if cells.len() > 1 => matrix.shared.push(file),
            _ => matrix.rows.push((path, cells)),
        }
    }
    matrix
}

fn all_the_same<'a>(cells: &[Cell<'a>]) -> Option<&'a ChangedFile> {
    let first = cells.first()?.file()?;
    cells.iter().all(|cell| cell.file().is_some_and(|file| is_same(file, first))).then_some(first)
}

#[must_use]
pub fn is_same(one: &ChangedFile, other: &ChangedFile) -> bool {
    one.mark == other.mark && one.digest == other.digest
}
