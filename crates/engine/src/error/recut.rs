use std::fmt;
use std::path::PathBuf;

use crate::lineage::Owner;

/// Why what a sandbox changed would not be seen if it were mounted again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recut {
    /// Its directory, or the mount there, is not there any more.
    Gone { tree: PathBuf },
    /// Mounts beneath it came or went, so that it cannot be overlaid as it was.
    Split { tree: PathBuf },
    /// Something is mounted over part of it, or came to be a place of its own.
    Covered { place: PathBuf },
    /// It was unmounted while the sandbox was being mounted.
    Going { tree: PathBuf },
}

impl fmt::Display for Recut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone { tree } => write!(f, "it has changes in {}, which is not mounted or not there any more", tree.display()),
            Self::Split { tree } => write!(f, "it has changes in {}, and mounts beneath that came or went", tree.display()),
            Self::Covered { place } => write!(f, "what is at {} by now would hide what it changed there", place.display()),
            Self::Going { tree } => write!(f, "{} was unmounted meanwhile", tree.display()),
        }
    }
}

impl Recut {
    pub(super) fn hint(&self, owner: &Owner) -> String {
        let keep = match owner {
            Owner::Template(name) => format!("or save another one: whatif template save SANDBOX {name} --replace"),
            Owner::Sandbox(name) | Owner::Snapshot(name) => {
                format!("or take out what it changed: whatif diff {name} --patch, or whatif export {name}")
            }
        };
        match self {
            Self::Gone { .. } => format!("nothing is lost; put it back and try again, {keep}"),
            Self::Split { tree } => {
                format!(
                    "nothing is lost; undo that and try again ('findmnt' lists mounts; look beneath {}), {keep}",
                    tree.display()
                )
            }
            Self::Covered { place } => {
                format!("nothing is lost; unmount {0}, or move it away, and try again, {keep}", place.display())
            }
            Self::Going { .. } => "nothing was changed; mount it again if it is needed, and try again".to_owned(),
        }
    }
}
