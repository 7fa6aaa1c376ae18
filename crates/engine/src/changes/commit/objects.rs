//! The objects of a commit before there is one: in a directory within the repository's own, where only we look. Git does the same
//! with what is pushed to it, and removes such a directory one day if everybody else forgets it.
//!
//! So an apply that fails, on a full disk for instance, leaves no packs or parts of packs in the repository.

use std::path::PathBuf;

use whatif_sys::absence;

use super::note::Note;
use crate::EngineError;
use crate::git::Git;

/// What is in a pack counts once its index is there, so that comes last. An object that the repository has already is the same.
const ADMIT: &str = r#"
cd -- "$1"
for kind in */; do
    kind=${kind%/}
    if [ "$kind" = info ]; then continue; fi
    if ! [ -d "$2/$kind" ]; then mv -- "$kind" "$2/$kind"; continue; fi
    for pattern in '*[!x]' '*x'; do
        for one in "$kind"/$pattern; do
            if [ -e "$one" ] && ! [ -e "$2/$one" ]; then mv -- "$one" "$2/$one"; fi
        done
    done
done
"#;

#[derive(Debug)]
pub(super) struct Objects {
    repository: PathBuf,
    apart: PathBuf,
}

impl Objects {
    /// `None` for a commit that an earlier version began: its objects are in the repository.
    pub(super) fn of(note: &Note) -> Option<Self> {
        let repository = note.objects.clone()?;
        let apart = repository.join(format!("tmp_objdir-whatif-{}", note.id));
        Some(Self { repository, apart })
    }

    /// A git that finds the repository's objects, and writes its own apart from them.
    pub(super) fn set_apart(&self, git: &Git) -> Result<Git, EngineError> {
        let script = "mkdir -- \"$1\" \"$1/info\" \"$1/pack\"; printf '%s\\n' \"$2\" > \"$1/info/alternates\"";
        git.script(script, &[&self.apart, &self.repository])?;
        Ok(git.writing_to(&self.apart))
    }

    /// Makes them the repository's own. Until a branch leads to them they still mean nothing.
    pub(super) fn admit(&self, git: &Git) -> Result<(), EngineError> {
        git.script(ADMIT, &[&self.apart, &self.repository])?;
        self.remove(git)
    }

    pub(super) fn remove(&self, git: &Git) -> Result<(), EngineError> {
        if !absence::exists(&self.apart).map_err(|e| EngineError::io("examine", &self.apart, e))? {
            return Ok(());
        }
        git.script("rm -rf -- \"$1\"", &[&self.apart])
    }
}
