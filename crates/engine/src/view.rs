//! The view that a sandbox has of reality: since when it is fresh, and how it gets fresh again.
//!
//! The kernel remembers what it looked up for an overlay, so a file that reality replaced may still be seen as it was. Nothing of
//! that is left when the overlay is reconfigured, which changes nothing else and takes a fraction of a millisecond. A process that
//! is alive holds on to what it has open, so it is done only while there is none.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, Timespec, clock_gettime};
use whatif_apply::Plan;
use whatif_diff::Node;
use whatif_keeper::Client;
use whatif_types::boot::PROTOCOL_VERSION;
use whatif_types::sandbox::Viewed;
use whatif_types::{Backend, Sandbox, Status};

use crate::private_file;
use crate::shift::helper::Helper;
use crate::stop::keeper_pidfd;
use crate::{Engine, EngineError};

/// In the sandbox's directory: when its view was last made fresh, if that was after it was put together.
const FILE: &str = "viewed.json";
/// In the state directory: touched when an apply or undo has changed reality.
const STAMP: &str = "moved";
/// A view that was fresh this short a time ago is left alone: a person who switches from reality to a sandbox takes longer.
const FRESH_FOR: i64 = 1;
/// Longer than a tick of any kernel.
const MOST_TICKS: u32 = 12;
const TICK: Duration = Duration::from_millis(1);

/// The present moment, for a view that is about to be put together.
pub(crate) fn viewed_now(project: &Path) -> Viewed {
    let time = |id| {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(id);
        (tv_sec, tv_nsec as u32)
    };
    // In this order: nothing is later than it says.
    let tick = time(ClockId::RealtimeCoarse);
    // Without it, the project's directory is one like the others.
    let project = Node::of(project).ok().flatten().map(|n| (n.dev, n.ino));
    Viewed { at: time(ClockId::Realtime), tick, project }
}

/// Since when everything that the sandbox sees was looked up.
pub(crate) fn viewed(sandbox: &Sandbox, directory: &Path) -> Option<Viewed> {
    let made = sandbox.details.position.viewed.clone();
    let refreshed = fs::read(directory.join(FILE)).ok().and_then(|text| serde_json::from_slice::<Viewed>(&text).ok());
    made.into_iter().chain(refreshed).max_by_key(|v| v.at)
}

/// The root directory of a living sandbox, to look at what it sees. Only the kernel's own overlays answer by themselves: what is
/// served by a process may be held still.
pub(crate) fn enter(sandbox: &Sandbox) -> Option<OwnedFd> {
    if sandbox.status != Status::Active || sandbox.details.backend != Backend::Overlay {
        return None;
    }
    let root = format!("/proc/{}/root", sandbox.details.keeper_pid?);
    let root = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    // Afterwards: the number may have changed hands before.
    keeper_pidfd(sandbox).map(|_| root)
}

fn forget_what_was_looked_up(sandbox: &Sandbox, client: &mut Client) -> Result<(), EngineError> {
    let inner = client.inner()?;
    Helper::start()?.refresh(sandbox, &inner)
}

impl Engine {
    /// Notes that reality was changed by an apply or undo. Views that are older are made fresh before they are used again.
    pub(crate) fn note_move(&self) {
        // Without it, what they see of it is found to be unknown.
        let _ = fs::write(self.stamp(), "");
    }

    fn stamp(&self) -> PathBuf {
        self.state.root().join(STAMP)
    }

    /// Before reality changes: what living sandboxes have touched so far, they started from as it is. Later nobody could tell.
    pub(crate) fn keep_bases_of_others(&self, plan: &Plan) {
        let Ok(all) = self.store.list() else { return };
        let is_meant = |s: &&Sandbox| {
            let overlaps = |tree: &PathBuf| plan.roots.iter().any(|root| root.starts_with(tree) || tree.starts_with(root));
            s.status == Status::Active && s.details.trees.iter().any(overlaps)
        };
        for sandbox in all.iter().filter(is_meant) {
            // What cannot be kept is unknown afterwards, and treated so.
            let _ = self.keep_bases(sandbox);
        }
    }

    /// Before a command: lets a sandbox in which nothing runs see reality as it is now.
    pub(crate) fn freshen(&self, sandbox: &Sandbox, client: &mut Client) -> Result<(), EngineError> {
        // A keeper of an earlier version does not have all that is needed.
        if sandbox.details.backend != Backend::Overlay || sandbox.details.keeper_version != PROTOCOL_VERSION {
            return Ok(());
        }
        let directory = self.directory(sandbox)?;
        let known = viewed(sandbox, &directory);
        let now = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
        let is_recent = known.as_ref().is_some_and(|v| now <= v.at.0 + FRESH_FOR);
        if is_recent && !self.has_moved_since(known.as_ref()) {
            return Ok(());
        }
        if client.list()?.iter().any(|p| p.state != 'Z') {
            return Ok(());
        }
        // Nothing starts until everything was forgotten; what starts then looks it up again.
        let is_idle = client.freeze()?.is_empty();
        let fresh = viewed_now(&sandbox.project);
        let done = if is_idle { forget_what_was_looked_up(sandbox, client) } else { Ok(()) };
        client.thaw()?;
        done?;
        if is_idle {
            let text = serde_json::to_vec(&fresh).map_err(|e| EngineError::io("describe", &directory, e.into()))?;
            let path = directory.join(FILE);
            private_file::replace(&path, &text).map_err(|e| EngineError::io("write", &path, e))?;
        }
        Ok(())
    }

    fn has_moved_since(&self, viewed: Option<&Viewed>) -> bool {
        match Node::of(&self.stamp()) {
            Ok(stamp) => stamp.is_some_and(|stamp| viewed.is_none_or(|v| stamp.mtime >= v.tick)),
            Err(_) => true,
        }
    }

    /// File systems tell time in ticks. Changes of reality that come after a command shall be seen to come after the view it had,
    /// so one that ended within the tick that its view began with waits for the next.
    pub(crate) fn await_next_tick(&self, sandbox: &Sandbox) {
        let Some(viewed) = self.directory(sandbox).ok().and_then(|directory| viewed(sandbox, &directory)) else { return };
        for _ in 0..MOST_TICKS {
            let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::RealtimeCoarse);
            if (tv_sec, tv_nsec as u32) > viewed.at {
                return;
            }
            std::thread::sleep(TICK);
        }
    }
}
