//! Work in a sandbox's head that no recorded tree accounts for. Nobody can say which directory it is a change of, so it is shown by
//! no diff and mounted by no start; a command that went on all the same would lose it.

use std::fs;
use std::path::{Path, PathBuf};

use whatif_sys::absence::{self, OrAbsent};
use whatif_types::{Sandbox, copied};

use crate::EngineError;
use crate::ground::{Ground, GroundError};

impl Ground {
    pub(crate) fn require_no_stray_heads(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        match first_stray(&self.directory(sandbox)?.join("head"), sandbox.details.trees.len())? {
            None => Ok(()),
            Some(path) => Err(GroundError::StrayHead { name: sandbox.name.clone(), path }.into()),
        }
    }
}

fn first_stray(head: &Path, trees: usize) -> Result<Option<PathBuf>, EngineError> {
    // While a sandbox moves to other layers its head is gone for a moment, with all that is in it.
    let Some(entries) = fs::read_dir(head).or_absent().map_err(|e| EngineError::io("list", head, e))? else { return Ok(None) };
    for entry in entries {
        let entry = entry.map_err(|e| EngineError::io("list", head, e))?;
        let number = entry.file_name().to_str().and_then(|name| name.parse::<usize>().ok());
        let path = entry.path();
        if number.is_some_and(|number| number >= trees) && !is_only_a_copy(&path)? && holds_something(&path)? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// A copy of reality is made before the record that speaks of it, and nothing runs in between.
fn is_only_a_copy(head: &Path) -> Result<bool, EngineError> {
    let inventory = copied::beside(head);
    Ok(absence::look(&inventory).map_err(|e| EngineError::io("examine", &inventory, e))?.is_some())
}

pub(crate) fn holds_something(directory: &Path) -> Result<bool, EngineError> {
    let is_empty = absence::is_empty_dir(directory).or_absent().map_err(|e| EngineError::io("list", directory, e))?;
    Ok(is_empty == Some(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_without_a_tree_is_stray() {
        let head = std::env::temp_dir().join(format!("whatif-stray-heads-{}", std::process::id()));
        for directory in ["0/f", "1/f", "2", "3/f", "base/f", "new-7/f"] {
            fs::create_dir_all(head.join(directory)).unwrap();
        }
        fs::write(copied::beside(&head.join("3")), "").unwrap();
        assert_eq!(first_stray(&head, 2).unwrap(), None);
        fs::write(head.join("2/work"), "").unwrap();
        assert_eq!(first_stray(&head, 2).unwrap(), Some(head.join("2")));
        assert_eq!(first_stray(&head, 3).unwrap(), None);
        assert_eq!(first_stray(&head.join("gone"), 2).unwrap(), None);
        fs::remove_dir_all(head).unwrap();
    }
}
