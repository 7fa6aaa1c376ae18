//! What a change does to the mode, the owner and the attributes of a path, in words.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use whatif_engine::Change;
use whatif_engine::changes::diff::granted_words;
pub use whatif_engine::changes::diff::granted_words::{mode, owner};

use crate::output::printable;

/// Whom files belong to where nobody gives them away: the user, and the project's owner.
#[derive(Clone, Copy, Debug)]
pub struct Owners {
    user: (u32, u32),
    project: (u32, u32),
}

impl Owners {
    #[must_use]
    pub fn of(project: &Path) -> Self {
        let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let project = std::fs::symlink_metadata(project).map_or(user, |m| (m.uid(), m.gid()));
        Self { user, project }
    }

    /// `owner 7:7` of a new file that belongs to neither.
    #[must_use]
    pub fn unusual(&self, change: &Change) -> Option<String> {
        let node = change.after.as_ref().filter(|_| change.before.is_none()).map(|after| &after.node)?;
        let is_usual = [self.user, self.project].iter().any(|(uid, gid)| (*uid, *gid) == (node.uid, node.gid));
        (!is_usual).then(|| format!("owner {}:{}", node.uid, node.gid))
    }
}

/// `access for user 12: rwx`, `attribute user.origin set`.
#[must_use]
pub fn attributes(change: &Change) -> Vec<String> {
    granted_words::attributes(change).iter().map(|words| printable(words)).collect()
}
