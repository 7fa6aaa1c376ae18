//! The kernel's freezer for a living sandbox: lent to its keeper when something is to be held, and taken back when the keeper is gone.
//!
//! Moving processes into a group makes the kernel wait for some milliseconds. So where v1 lets a command in by itself it is started in
//! the group, and what else goes on running is moved while nobody waits.
//!
//! The keeper owns the hold: it thaws when whoever asked for it leaves, however that happens. What a killed keeper left frozen would
//! stay so, and in v1 not even die. So the group is noted in the sandbox's directory, and whoever ends a keeper, or finds that it has
//! ended, looks there.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use whatif_cgroup::{Found, Freezer, Site, Version};
use whatif_keeper::Client;
use whatif_keeper::client::ClientError;
use whatif_sys::absence::OrAbsent;
use whatif_types::limits::Means;
use whatif_types::{Enforced, SandboxId};

use super::groups;
use super::instance::Keeper;
use crate::Recorded;

/// In the sandbox's directory: the group.
const NOTE: &str = "freezer";

impl Keeper {
    /// Lends it a freezer, if something runs that it had to hold by signals, and if there is one here for this user.
    pub(super) fn lend_freezer(&self, client: &mut Client, recorded: &Recorded<'_>) -> Result<(), ClientError> {
        if client.wants_freezer()?
            && let Some(freezer) = self.make_freezer(recorded)
        {
            client.lend_freezer(&freezer)?;
        }
        Ok(())
    }

    /// Lends one before it is wanted, where the group would be of this kind.
    pub(super) fn lend_freezer_early(
        &self,
        client: &mut Client,
        recorded: &Recorded<'_>,
        is_wanted: impl Fn(Version) -> bool,
    ) -> Result<(), ClientError> {
        if let Some(site) = self.site().filter(|site| is_wanted(site.version()))
            && let Some(freezer) = self.make_at(&site, recorded)
        {
            client.lend_freezer(&freezer)?;
        }
        Ok(())
    }

    /// Whether no freezer was lent, and not everything is in the group that limits it anyway.
    pub(super) fn lacks_freezer(&self, recorded: &Recorded<'_>) -> bool {
        !is_frozen_by_its_limits(recorded.enforced) && !was_lent(self.directory())
    }

    /// Whoever has none holds by signals, as well as these do: what was found is bound to its content in any case.
    fn make_freezer(&self, recorded: &Recorded<'_>) -> Option<Freezer> {
        if !is_frozen_by_its_limits(recorded.enforced) {
            return self.make_at(&self.site()?, recorded);
        }
        let (group, freezer) = Freezer::of_group(&Found::look(), &groups::name(recorded.state, self.id()).ok()?).ok()?;
        self.note(&group)?;
        Some(freezer)
    }

    /// Below the keeper's own group: what holds for that goes on holding.
    fn site(&self) -> Option<Site> {
        Site::look(self.process()?.pid()).ok()
    }

    fn make_at(&self, site: &Site, recorded: &Recorded<'_>) -> Option<Freezer> {
        let name = groups::name(recorded.state, self.id()).ok()?;
        self.note(&site.path(&name))?;
        site.make(&name).ok()
    }

    fn note(&self, group: &Path) -> Option<()> {
        fs::write(self.directory().join(NOTE), group.as_os_str().as_bytes()).ok()
    }
}

/// In cgroup2 the group that limits a sandbox freezes it as well.
fn is_frozen_by_its_limits(enforced: &[Enforced]) -> bool {
    enforced.iter().any(|e| e.by == Means::Cgroup2)
}

/// Whether a freezer was lent to a keeper of this sandbox. What cannot be looked at may be one.
pub(super) fn was_lent(directory: &Path) -> bool {
    noted(directory).is_none_or(|group| group.is_some())
}

/// Lets go what a keeper that was killed may hold.
pub(super) fn thaw(directory: &Path) {
    if let Some(Some(group)) = noted(directory) {
        whatif_cgroup::thaw(&group);
    }
}

/// Removes the groups of a keeper that is gone, with whatever that left in them.
pub(super) fn clear(id: &SandboxId, directory: Option<&Path>, recorded: &Recorded<'_>) {
    let Ok(name) = groups::name(recorded.state, id) else { return };
    let is_limited = recorded.enforced.iter().any(|e| matches!(e.by, Means::Cgroup1 | Means::Cgroup2));
    // Looking for all that have its name takes long where there are many groups.
    if is_limited || !directory.is_some_and(|directory| take_back(directory, &name)) {
        let _ = whatif_cgroup::remove(&Found::look(), &name);
    }
    if let Some(directory) = directory {
        let _ = fs::remove_file(directory.join(NOTE));
    }
}

/// False if the group has to be looked for.
fn take_back(directory: &Path, name: &str) -> bool {
    noted(directory).is_some_and(|group| group.is_none_or(|group| whatif_cgroup::remove_at(&group, name).is_ok()))
}

/// The group, if there is one. `None` if that cannot be told.
fn noted(directory: &Path) -> Option<Option<PathBuf>> {
    let text = fs::read(directory.join(NOTE)).or_absent().ok()?;
    Some(text.map(|text| PathBuf::from(OsString::from_vec(text))))
}
