//! What keeps a runaway program from taking the whole machine, where no limit was asked for.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Means, Resource};
use crate::Size;

/// The limits that every sandbox has unless `--limits none` was asked for. They are sized from the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DefaultLimits {
    /// In bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<DefaultLimit>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<DefaultLimit>,
    /// A percentage of what a process of the host gets when processors are scarce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_weight: Option<DefaultLimit>,
    /// What could not be set up, and why. It does not keep a sandbox from starting: nobody asked for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// One of them, and what stands behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultLimit {
    pub limit: u64,
    pub by: Means,
    /// Whether it bounds all sandboxes of this user together, rather than each of them.
    #[serde(default)]
    pub together: bool,
}

impl DefaultLimits {
    /// Each of them in words.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let of = |limit: Option<DefaultLimit>, text: &dyn Fn(u64) -> String, resource: Resource| {
            limit.map(|limit| {
                let scope = if limit.together { ", all sandboxes together" } else { "" };
                let weak = if limit.by.is_weak_for(resource) { "; not strict" } else { "" };
                format!("{}{scope} ({}{weak})", text(limit.limit), limit.by)
            })
        };
        [
            of(self.memory, &|bytes| format!("memory {}", Size(bytes)), Resource::Memory),
            of(self.pids, &|pids| format!("pids {pids}"), Resource::Pids),
            of(self.cpu_weight, &|percent| format!("cpu weight {percent} % of a host process"), Resource::Cpus),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// What the default limits are sized from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    pub memory: u64,
    pub swap: u64,
    /// The most processes and threads that the kernel will have.
    pub pids: u64,
}

/// Memory for the host: an eighth of it, within these bounds.
const MEMORY_PART: u64 = 8;
const LEAST_KEPT: u64 = 256 << 20;
const MOST_KEPT: u64 = 4 << 30;
/// No configuration leaves less to the sandboxes: nothing would start.
const LEAST_LEFT: u64 = 64 << 20;
/// One sandbox gets this percentage of all processes there can be, as one service does from systemd.
const PIDS_PERCENT: u64 = 15;
const LEAST_PIDS: u64 = 256;
/// Half of what a process of the host gets.
const CPU_WEIGHT: u64 = 50;

/// How much, before it is known what can enforce it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// What sandboxes may have in memory.
    pub memory: u64,
    /// What they may have swapped out on top of that.
    pub swap: u64,
    /// Memory that stays with the host.
    pub kept: u64,
    /// Processes and threads of one sandbox.
    pub pids: u64,
    /// Of all sandboxes together.
    pub pids_together: u64,
    pub cpu_weight: u64,
}

impl Machine {
    /// `keep` is what the configuration wants to keep for the host.
    #[must_use]
    pub fn sizes(&self, keep: Option<Size>) -> Sizes {
        let by_default = (self.memory / MEMORY_PART).clamp(LEAST_KEPT.min(self.memory / 2), MOST_KEPT);
        let memory = self.memory.saturating_sub(keep.map_or(by_default, |keep| keep.0)).max(LEAST_LEFT);
        Sizes {
            memory,
            swap: self.swap / 2,
            kept: self.memory.saturating_sub(memory),
            pids: (self.pids * PIDS_PERCENT / 100).max(LEAST_PIDS),
            pids_together: (self.pids / 2).max(LEAST_PIDS),
            cpu_weight: CPU_WEIGHT,
        }
    }
}

impl fmt::Display for DefaultLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe().join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_keeps_an_eighth_of_the_memory_within_bounds() {
        let sized = |memory, keep| Machine { memory, swap: 2 << 30, pids: 32_768 }.sizes(keep);
        assert_eq!(sized(16 << 30, None).memory, 14 << 30);
        assert_eq!(sized(1 << 40, None).kept, 4 << 30);
        assert_eq!(sized(1 << 30, None).kept, 256 << 20);
        assert_eq!(sized(256 << 20, None).kept, 128 << 20);
        assert_eq!(sized(16 << 30, Some(Size(15 << 30))).memory, 1 << 30);
        assert_eq!(sized(16 << 30, Some(Size(64 << 30))).memory, 64 << 20);
        let Sizes { swap, pids, pids_together, .. } = sized(16 << 30, None);
        assert_eq!((swap, pids, pids_together), (1 << 30, 4915, 16_384));
    }

    #[test]
    fn they_say_by_what_and_of_whom() {
        let limits = DefaultLimits {
            memory: Some(DefaultLimit { limit: 14 << 30, by: Means::Cgroup2, together: true }),
            pids: Some(DefaultLimit { limit: 4915, by: Means::Rlimit, together: false }),
            ..DefaultLimits::default()
        };
        assert_eq!(limits.describe(), ["memory 14 GiB, all sandboxes together (cgroup v2)", "pids 4915 (rlimit)"]);
    }
}
