//! The control group of the commands: how they get in, and what it says of them.

use std::os::fd::OwnedFd;

use whatif_cgroup::Meters;

#[derive(Debug)]
pub struct Group {
    pub entrances: Vec<OwnedFd>,
    pub meters: Meters,
    /// Whether other sandboxes' commands are in it as well.
    pub is_shared: bool,
}

/// What had happened in the group at some moment.
#[derive(Clone, Copy, Default)]
pub(super) struct Counted {
    pub out_of_memory: u64,
    pub pids_refused: u64,
}

impl Group {
    pub(super) fn count(&self) -> Counted {
        Counted { out_of_memory: self.meters.oom_kills().unwrap_or(0), pids_refused: self.meters.pids_hits().unwrap_or(0) }
    }
}
