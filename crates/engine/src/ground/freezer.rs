//! The kernel's freezer for a living sandbox: lent to its keeper when something is to be held, and taken back when the keeper is gone.
//!
//! Moving processes into a group makes the kernel wait for some milliseconds. So where v1 lets a command in by itself it is started in
//! the group, and what else goes on running is moved while nobody waits.
//!
//! The keeper owns the hold: it thaws when whoever asked for it leaves, however that happens. What a killed keeper left frozen would
//! stay so, and in v1 not even die. So the group is noted in the sandbox's directory, and whoever ends a keeper, or finds that it has
//! ended, looks there.

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use whatif_cgroup::{Found, Freezer, Site, Version};
use whatif_keeper::Client;
use whatif_keeper::client::ClientError;
use whatif_provider::Instance;
use whatif_sys::absence::OrAbsent;
use whatif_types::Sandbox;
use whatif_types::boot::PROTOCOL_VERSION;
use whatif_types::limits::Means;

use crate::ground::Ground;

/// In the sandbox's directory: the group.
const NOTE: &str = "freezer";
/// How often it is thawed while a keeper ends: that may have frozen it in its last moment.
const AGAIN: Duration = Duration::from_millis(100);

impl Ground {
    /// Lends the keeper a freezer, if something runs that it had to hold by signals, and if there is one here for this user.
    pub(crate) fn lend_freezer(&self, sandbox: &Sandbox, client: &mut Client) -> Result<(), ClientError> {
        if client.wants_freezer()?
            && let Some(freezer) = self.make_freezer(sandbox)
        {
            client.lend_freezer(&freezer)?;
        }
        Ok(())
    }

    /// Lends one before a command is started, if that can begin in its group: in v1, which is root's.
    pub(crate) fn lend_freezer_ahead(&self, sandbox: &Sandbox, client: &mut Client) -> Result<(), ClientError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        self.lend_freezer_early(sandbox, client, |site| site.version() == Version::V1)
    }

    /// Lends one for what goes on running, and lets the keeper take that in while nobody waits for it. What is not done here is done
    /// when it is held.
    pub(crate) fn prepare_to_hold(&self, sandbox: &Sandbox) {
        if self.lacks_freezer(sandbox)
            && let Ok(mut client) = self.connect(sandbox)
        {
            let _ = self.lend_freezer_early(sandbox, &mut client, |_| true);
        }
    }

    fn lend_freezer_early(
        &self,
        sandbox: &Sandbox,
        client: &mut Client,
        is_wanted: impl Fn(&Site) -> bool,
    ) -> Result<(), ClientError> {
        if self.lacks_freezer(sandbox)
            && let Some(site) = self.site(sandbox).filter(is_wanted)
            && let Some(freezer) = self.make_at(sandbox, &site)
        {
            client.lend_freezer(&freezer)?;
        }
        Ok(())
    }

    /// Whether no freezer was lent, and not everything is in the group that limits it anyway.
    fn lacks_freezer(&self, sandbox: &Sandbox) -> bool {
        let was_lent = || self.directory(sandbox).is_ok_and(|directory| was_lent(&directory));
        sandbox.details.keeper_version == PROTOCOL_VERSION && !is_frozen_by_its_limits(sandbox) && !was_lent()
    }

    /// Removes the group of a keeper that is gone. False if it has to be looked for.
    pub(crate) fn take_freezer_back(&self, sandbox: &Sandbox, directory: &Path) -> bool {
        let (Some(group), Ok(name)) = (noted(directory), self.group_name(&sandbox.id)) else { return false };
        group.is_none_or(|group| whatif_cgroup::remove_at(&group, &name).is_ok())
    }

    /// Whoever has none holds by signals, as well as these do: what was found is bound to its content in any case.
    fn make_freezer(&self, sandbox: &Sandbox) -> Option<Freezer> {
        if !is_frozen_by_its_limits(sandbox) {
            return self.make_at(sandbox, &self.site(sandbox)?);
        }
        let (group, freezer) = Freezer::of_group(&Found::look(), &self.group_name(&sandbox.id).ok()?).ok()?;
        self.note(sandbox, &group)?;
        Some(freezer)
    }

    fn site(&self, sandbox: &Sandbox) -> Option<Site> {
        self.instance(sandbox).ok()?.freezer_site()
    }

    fn make_at(&self, sandbox: &Sandbox, site: &Site) -> Option<Freezer> {
        let name = self.group_name(&sandbox.id).ok()?;
        self.note(sandbox, &site.path(&name))?;
        site.make(&name).ok()
    }

    fn note(&self, sandbox: &Sandbox, group: &Path) -> Option<()> {
        fs::write(self.directory(sandbox).ok()?.join(NOTE), group.as_os_str().as_bytes()).ok()
    }
}

/// In cgroup2 the group that limits a sandbox freezes it as well.
fn is_frozen_by_its_limits(sandbox: &Sandbox) -> bool {
    sandbox.details.enforced.iter().any(|e| e.by == Means::Cgroup2)
}

/// Whether a freezer was lent to a keeper of this sandbox. What cannot be looked at may be one.
pub(crate) fn was_lent(directory: &Path) -> bool {
    noted(directory).is_none_or(|group| group.is_some())
}

pub(crate) fn forget(directory: &Path) {
    let _ = fs::remove_file(directory.join(NOTE));
}

/// Lets go what a keeper that was killed may hold.
pub(crate) fn thaw(directory: &Path) {
    if let Some(Some(group)) = noted(directory) {
        whatif_cgroup::thaw(&group);
    }
}

/// True when the keeper, which was killed, is gone, and all that it may have left frozen.
pub(crate) fn wait_until_ended(instance: &dyn Instance, directory: &Path, limit: Duration) -> bool {
    if !was_lent(directory) {
        return instance.wait(Some(limit));
    }
    let deadline = Instant::now() + limit;
    loop {
        thaw(directory);
        let left = deadline.saturating_duration_since(Instant::now());
        if instance.wait(Some(left.min(AGAIN))) {
            return true;
        }
        if left.is_zero() {
            return false;
        }
    }
}

/// The group, if there is one. `None` if that cannot be told.
fn noted(directory: &Path) -> Option<Option<PathBuf>> {
    let text = fs::read(directory.join(NOTE)).or_absent().ok()?;
    Some(text.map(|text| PathBuf::from(std::ffi::OsString::from_vec(text))))
}
