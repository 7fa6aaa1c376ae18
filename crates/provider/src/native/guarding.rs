//! The limits that every sandbox has by default, so that what runs away inside leaves the host alive.
//!
//! Memory and processor time are bounded by one control group for all sandboxes of a user, which is made once and stays: many sandboxes
//! could otherwise do together what none may do alone, and making a group for each takes time that every command would pay for. Where
//! there are no groups, the keeper does what it can.

use std::fs;

use rustix::process::Pid;
use whatif_cgroup::{Found, Group, Version, Wanted};
use whatif_types::boot::{HostMemory, KeeperLimits};
use whatif_types::limits::{DefaultLimit, DefaultLimits, Machine, Means, Sizes};
use whatif_types::{Identity, Limits, Size};

use crate::Bound;

/// Prefix and the values: groups that differ in them are different groups.
const NAME: &str = "whatif-shared";

/// What this machine has. `None` where even that cannot be read.
fn machine() -> Option<Machine> {
    let info = rustix::system::sysinfo();
    let unit = u64::from(info.mem_unit).max(1);
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let pids = number("/proc/sys/kernel/threads-max")?.min(number("/proc/sys/kernel/pid_max")?);
    Some(Machine { memory: info.totalram as u64 * unit, swap: info.totalswap as u64 * unit, pids })
}

/// Which of them there would be for an instance with these limits, and by what. Looks only.
pub(super) fn planned(found: &Found, limits: &Limits, identity: Identity, keep: Option<Size>) -> Option<(DefaultLimits, Sizes)> {
    let sizes = machine()?.sizes(keep);
    let by_group = |offered: Result<Version, &whatif_cgroup::Why>| match offered {
        Ok(Version::V1) => Some(Means::Cgroup1),
        Ok(Version::V2) => Some(Means::Cgroup2),
        Err(_) => None,
    };
    // With limits of its own a sandbox has a group of its own.
    let together = wanted_of(found, limits) == Wanted::default();
    let of = |limit, by: Option<Means>, otherwise| DefaultLimit {
        limit,
        by: by.unwrap_or(otherwise),
        together: together && by.is_some(),
    };
    let memory = by_group(found.memory());
    let pids = by_group(found.pids());
    let mut planned = DefaultLimits::default();
    if limits.memory.is_none() {
        planned.memory = Some(of(sizes.memory, memory, Means::Watcher));
    }
    if limits.pids.is_none() {
        // The kernel counts those of each sandbox by themselves, unless it has the ids of the host.
        planned.pids = match (identity, pids) {
            (Identity::Same, None) => None,
            (Identity::Same, pids) => Some(of(sizes.pids_together, pids, Means::Rlimit)),
            _ => Some(DefaultLimit { limit: sizes.pids.min(of_user(identity)), by: Means::Rlimit, together: false }),
        };
        if planned.pids.is_none() {
            planned.missing.push(format!("pids: {}", found.pids().err().map(ToString::to_string).unwrap_or_default()));
        }
    }
    // A lower priority would be no substitute: it means nothing between sessions, and commands have that of who asked for them.
    match by_group(found.cpu()) {
        Some(by) => planned.cpu_weight = Some(of(sizes.cpu_weight, Some(by), by)),
        None => planned.missing.push(format!("cpu weight: {}", found.cpu().err().map(ToString::to_string).unwrap_or_default())),
    }
    Some((planned, sizes))
}

/// Three quarters of a user's processes are for all of its sandboxes together.
fn of_user(identity: Identity) -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nproc).current;
    match (identity, limit) {
        (Identity::Own { .. }, Some(limit)) => limit - limit / 4,
        _ => u64::MAX,
    }
}

/// What the limits that were asked for need of a group.
pub(super) fn wanted_of(found: &Found, limits: &Limits) -> Wanted {
    Wanted {
        cpus_milli: limits.cpus.filter(|_| found.cpu().is_ok()).map(|c| c.thousandths()),
        memory: limits.memory.filter(|_| found.memory().is_ok()).map(|m| m.0),
        pids: limits.pids.filter(|_| found.pids().is_ok()),
        ..Wanted::default()
    }
}

/// What the default limits need of a group, where groups are to be had.
fn wanted_by(planned: &DefaultLimits, sizes: &Sizes, found: &Found) -> Wanted {
    let is_group = |limit: Option<DefaultLimit>| limit.is_some_and(|l| matches!(l.by, Means::Cgroup1 | Means::Cgroup2));
    Wanted {
        cpus_milli: None,
        cpu_weight: is_group(planned.cpu_weight).then_some(sizes.cpu_weight as u32),
        memory: is_group(planned.memory).then_some(sizes.memory),
        swap: if is_group(planned.memory) { sizes.swap } else { 0 },
        // Also where each sandbox has a limit of its own: many of them, or many users inside, have no other in common.
        pids: (planned.pids.is_some() && found.pids().is_ok()).then_some(sizes.pids_together),
    }
}

/// The group for what nobody limited, with its values in its name.
fn shared(found: &Found, wanted: &Wanted) -> Result<Group, whatif_cgroup::CgroupError> {
    let value = |value: Option<u64>| value.unwrap_or(0);
    let (memory, pids, weight) = (value(wanted.memory), value(wanted.pids), value(wanted.cpu_weight.map(u64::from)));
    Group::shared(found, &format!("{NAME}-{memory:x}-{:x}-{pids:x}-{weight:x}", wanted.swap), wanted)
}

/// Bounds an instance that has no group of its own. What cannot be set up is noted, and does not keep it from starting.
pub(super) fn guard(bound: &mut Bound, found: &Found, keeper: Option<Pid>, (planned, sizes): (DefaultLimits, Sizes)) {
    let mut planned = planned;
    let wanted = wanted_by(&planned, &sizes, found);
    if wanted != Wanted::default() {
        let taken = shared(found, &wanted).and_then(|group| {
            // In cgroup2 it takes the kernel long to move a process, so the keeper is moved once, while it is busy with its start.
            if uses_v2(&planned, found) {
                keeper.map_or(Ok(()), |keeper| group.take(keeper))?;
                return Ok(None);
            }
            Ok(Some(group))
        });
        match taken {
            Ok(group) => bound.shared = group,
            Err(error) => without_group(&mut planned, &sizes, &whatif_types::explain::whole_message(&error)),
        }
    }
    leave_to_keeper(&mut bound.keeper, &planned, &sizes);
    bound.defaults = Some(planned);
}

/// The part of the default limits that goes into an instance's own group.
pub(super) fn add_to_own(wanted: &mut Wanted, planned: &DefaultLimits, sizes: &Sizes, found: &Found) {
    let own = wanted_by(planned, sizes, found);
    wanted.cpu_weight = own.cpu_weight;
    wanted.swap = if wanted.memory.is_none() { own.swap } else { 0 };
    wanted.memory = wanted.memory.or(own.memory);
    wanted.pids = wanted.pids.or(own.pids);
}

/// What a keeper sees to of them.
pub(super) fn leave_to_keeper(keeper: &mut KeeperLimits, planned: &DefaultLimits, sizes: &Sizes) {
    let by = |limit: Option<DefaultLimit>, means: Means| limit.filter(|l| l.by == means);
    keeper.pids = by(planned.pids, Means::Rlimit).map(|l| l.limit).or(keeper.pids);
    keeper.host_memory = by(planned.memory, Means::Watcher).map(|_| HostMemory { limit: sizes.memory, kept: sizes.kept });
}

/// The group could not be made or entered.
pub(super) fn without_group(planned: &mut DefaultLimits, sizes: &Sizes, why: &str) {
    planned.missing.push(format!("a control group: {why}"));
    let falls_back = |limit: &mut Option<DefaultLimit>, by: Means| {
        if let Some(limit) = limit.as_mut().filter(|l| matches!(l.by, Means::Cgroup1 | Means::Cgroup2)) {
            (limit.by, limit.together) = (by, false);
        }
    };
    falls_back(&mut planned.memory, Means::Watcher);
    planned.cpu_weight = None;
    if planned.pids.is_some_and(|l| l.by != Means::Rlimit) {
        planned.pids = None;
        planned.missing.push(format!("pids {}", sizes.pids_together));
    }
}

fn uses_v2(planned: &DefaultLimits, found: &Found) -> bool {
    let is_v2 = |limit: Option<DefaultLimit>| limit.is_some_and(|l| l.by == Means::Cgroup2);
    is_v2(planned.memory) || is_v2(planned.cpu_weight) || found.pids() == Ok(Version::V2)
}
