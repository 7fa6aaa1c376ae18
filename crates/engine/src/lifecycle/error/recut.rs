use std::fmt;
use std::path::PathBuf;

use whatif_types::remedy::{Call, Value};
use whatif_types::{Remedy, remedy};

use crate::owner::Owner;

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
            Self::Gone { tree } => {
                write!(f, "it has changes in {}, which is no longer mounted or no longer exists", tree.display())
            }
            Self::Split { tree } => write!(f, "it has changes in {}, and mounts beneath that came or went", tree.display()),
            Self::Covered { place } => write!(f, "what is now at {} would hide its changes there", place.display()),
            Self::Going { tree } => write!(f, "{} was unmounted meanwhile", tree.display()),
        }
    }
}

impl Recut {
    pub(super) fn remedy(&self, owner: &Owner) -> Remedy {
        let before = match self {
            Self::Gone { .. } => "nothing is lost; put it back and try again, ".to_owned(),
            Self::Split { tree } => {
                format!("nothing is lost; undo that and try again ('findmnt' lists mounts; look beneath {}), ", tree.display())
            }
            Self::Covered { place } => {
                format!("nothing is lost; unmount {0}, or move it away, and try again, ", place.display())
            }
            Self::Going { .. } => return "nothing was changed; mount it again if it is needed, and try again".into(),
        };
        Remedy::from(before).and(keeping(owner))
    }
}

fn keeping(owner: &Owner) -> Remedy {
    match owner {
        Owner::Template(name) => {
            remedy!["or save another one: ", Call::SaveTemplate { sandbox: Value::Blank, template: name.into(), replace: true }]
        }
        Owner::Sandbox(name) | Owner::Snapshot(name) => {
            remedy!["or take out what it changed: ", Call::patch(name), ", or ", Call::export(name)]
        }
    }
}
