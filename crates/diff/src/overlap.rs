//! Whether a layer has anything to say about what is in the layers below it.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use whatif_sys::absence;

use crate::marks::Marks;

/// A layer in which everything is new, or about reality only, says nothing about those below. Whatever cannot be looked at may.
#[must_use]
pub fn overlaps(layer: &Path, below: &[PathBuf], marks: Marks) -> bool {
    let has_kernel_marks = matches!(marks, Marks::Trusted | Marks::User);
    !has_kernel_marks || is_met(layer, below, marks).unwrap_or(true)
}

fn is_met(layer: &Path, below: &[PathBuf], marks: Marks) -> std::io::Result<bool> {
    let mut pending = vec![PathBuf::new()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(layer.join(&directory))? {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            let mut others = Vec::new();
            for layer in below {
                others.extend(absence::look(&layer.join(&path))?);
            }
            if others.is_empty() {
                continue;
            }
            if !entry.file_type()?.is_dir() || others.iter().any(|other| !other.is_dir()) {
                return Ok(true);
            }
            let opened =
                open(entry.path(), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
            let seen = marks.look(&opened)?;
            if seen.is_opaque || seen.redirect.is_some() {
                return Ok(true);
            }
            pending.push(path);
        }
    }
    Ok(false)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_in_both_counts() {
        let root = std::env::temp_dir().join(format!("whatif-overlap-{}", std::process::id()));
        for directory in ["head/new/deep", "head/both", "below/both", "below/other"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for file in ["head/new/deep/f", "head/both/mine", "below/both/theirs", "below/other/f"] {
            fs::write(root.join(file), file).unwrap();
        }
        let below = [root.join("below"), root.join("never-made")];
        let met = |marks| overlaps(&root.join("head"), &below, marks);
        assert!(!met(Marks::User));
        // Its marks are names, and a copy has none.
        assert!(met(Marks::Fuse) && met(Marks::None));
        fs::write(root.join("head/both/theirs"), "changed").unwrap();
        assert!(met(Marks::User));
        fs::remove_dir_all(root).unwrap();
    }
}
