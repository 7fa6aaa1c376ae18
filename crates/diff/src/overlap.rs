//! Whether a tree's head has anything to say about what is in the layers below it.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use whatif_overlay::Format;
use whatif_sys::absence;

use crate::said::Directory;
use crate::scan::Tree;

/// A head in which everything is new, or about reality only, says nothing about those below. What cannot be looked at may.
#[must_use]
pub fn overlaps(tree: &Tree) -> bool {
    let has_kernel_marks = matches!(tree.marks, Format::Trusted | Format::User);
    let Some((head, below)) = tree.layers.split_first() else { return false };
    !has_kernel_marks || is_met(head, below, tree).unwrap_or(true)
}

fn is_met(head: &Path, below: &[PathBuf], tree: &Tree) -> std::io::Result<bool> {
    let mut pending = vec![PathBuf::new()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(head.join(&directory))? {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            let mut others = Vec::new();
            for layer in below {
                let at = layer.join(&path);
                others.extend(absence::look(&at)?.map(|other| (at, other)));
            }
            if others.is_empty() {
                continue;
            }
            if !entry.file_type()?.is_dir() || others.iter().any(|(_, other)| !other.is_dir()) {
                return Ok(true);
            }
            if look_at(&entry.path(), tree.marks)?.is_put() {
                return Ok(true);
            }
            // Reality does not show through a directory that a layer made or moved, so nothing in it is about reality only. Where
            // reality has none, all of it is new.
            if absence::look(&tree.path.join(&path))?.is_some() {
                for (at, _) in &others {
                    if look_at(at, tree.marks)?.is_put() {
                        return Ok(true);
                    }
                }
            }
            pending.push(path);
        }
    }
    Ok(false)
}

fn look_at(directory: &Path, marks: Format) -> std::io::Result<Directory> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(Directory::read(marks, &open(directory, flags, Mode::empty())?)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_in_both_counts() {
        let root = std::env::temp_dir().join(format!("whatif-overlap-{}", std::process::id()));
        for directory in ["head/new/deep", "head/both", "below/both", "below/other", "reality"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for file in ["head/new/deep/f", "head/both/mine", "below/both/theirs", "below/other/f"] {
            fs::write(root.join(file), file).unwrap();
        }
        let layers = ["head", "below", "never-made"].map(|layer| root.join(layer)).to_vec();
        let met = |marks| overlaps(&Tree { path: root.join("reality"), layers: layers.clone(), marks, copied: false });
        assert!(!met(Format::User));
        // Its marks are names, and a copy has none.
        assert!(met(Format::Fuse) && met(Format::None));
        // Reality does not show through.
        set_opaque(&root.join("below/both"), "y");
        assert!(!met(Format::User));
        fs::create_dir(root.join("reality/both")).unwrap();
        assert!(met(Format::User) && !met(Format::Trusted));
        set_opaque(&root.join("below/both"), "n");
        assert!(!met(Format::User));
        fs::write(root.join("head/both/theirs"), "changed").unwrap();
        assert!(met(Format::User));
        fs::remove_dir_all(root).unwrap();
    }

    fn set_opaque(directory: &Path, value: &str) {
        rustix::fs::setxattr(directory, "user.overlay.opaque", value.as_bytes(), rustix::fs::XattrFlags::empty()).unwrap();
    }
}
