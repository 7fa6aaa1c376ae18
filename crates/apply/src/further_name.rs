//! Further names for files that are there already.
//!
//! Such a name holds no data of its own: others may go on changing the file under its first name, and nothing gets lost with the
//! further one. So only the inode tells whether it is ours.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::error::{Fault, on};
use crate::held::{Held, directory_of};
use crate::layout::{Spot, link_base};
use crate::look::{Seen, look};
use crate::plan::{Existing, Identity, Plan};

impl Existing {
    pub(crate) fn spot(&self) -> Spot {
        let directory = self.path.parent().map(Path::to_owned).unwrap_or_default();
        Spot { root: self.root, directory, name: self.path.file_name().map(ToOwned::to_owned).unwrap_or_default() }
    }

    /// The path in reality.
    #[must_use]
    pub fn absolute(&self, roots: &[PathBuf]) -> PathBuf {
        roots.get(self.root).map_or_else(|| self.path.clone(), |root| root.join(&self.path))
    }

    /// Its directory and what is there.
    pub(crate) fn look(&self, held: &mut Held, path: &Path) -> Result<(Rc<OwnedFd>, Option<Seen>), Fault> {
        let spot = self.spot();
        let directory = directory_of(held, &spot, path)?;
        let seen = look(&*directory, &spot.name).map_err(on("examine", path))?;
        Ok((directory, seen))
    }

    /// Whether this file still has its own name. If that cannot be told, it counts as gone.
    pub(crate) fn is_named(&self, held: &mut Held, other: &Identity) -> bool {
        let first = self.look(held, &self.path).ok().and_then(|(_, seen)| seen);
        first.is_some_and(|first| first.identity.same_inode(other) && first.identity.dev == other.dev)
    }

    /// Before the point of no return: it is still the file that gets the name. Its change time does not count, because the name that
    /// was staged has moved it.
    pub(crate) fn still_there(&self, held: &mut Held, path: &Path) -> Result<(), Fault> {
        match self.look(held, path)?.1 {
            None => Err(Fault::changed(path, "does not exist any more")),
            Some(seen) => self.identity.changed(&seen.identity).map_or(Ok(()), |why| Err(Fault::changed(path, why))),
        }
    }
}

/// The file that an operation gives a further name to, directly or as one of several.
pub(crate) fn existing_of(plan: &Plan, n: usize) -> Option<&Existing> {
    plan.operations.get(link_base(plan, n)?)?.existing()
}

/// Whether what was staged is such a name, and not a copy that was made because the file system refused one.
pub(crate) fn is_further_name(plan: &Plan, n: usize, staged: Option<&Identity>) -> bool {
    staged.zip(existing_of(plan, n)).is_some_and(|(staged, existing)| staged.same_inode(&existing.identity))
}
