//! Writing limits into the files of a group.

use std::path::Path;

use crate::file::{Dir, peek};
use crate::found::Resource;
use crate::{CgroupError, Version, Wanted};

/// The longest and the usual period, and the shortest quota, that the kernel takes; in microseconds.
const PERIOD: u64 = 100_000;
const LONG_PERIOD: u64 = 1_000_000;
const LEAST_QUOTA: u64 = 1_000;

/// The kernel refuses a limit above the highest process id there can be.
const MOST_PIDS: u64 = 4_194_304;

impl Wanted {
    pub(crate) fn limits(&self, resource: Resource) -> bool {
        match resource {
            Resource::Memory => self.memory.is_some(),
            Resource::Pids => self.pids.is_some(),
            Resource::Cpu => self.cpus_milli.is_some() || self.cpu_weight.is_some(),
        }
    }
}

/// Sets the wanted limit of one resource in a group that has its controller. `top` is where the hierarchy is mounted.
pub(crate) fn set(dir: &Dir, version: Version, resource: Resource, wanted: &Wanted, top: &Path) -> Result<(), CgroupError> {
    match (resource, version) {
        (Resource::Memory, Version::V1) => wanted.memory.map_or(Ok(()), |bytes| memory_v1(dir, bytes, wanted.swap)),
        (Resource::Memory, Version::V2) => wanted.memory.map_or(Ok(()), |bytes| memory_v2(dir, bytes, wanted.swap)),
        (Resource::Pids, _) => wanted.pids.map_or(Ok(()), |pids| dir.write("pids.max", &pids_text(pids))),
        (Resource::Cpu, Version::V1) => {
            wanted.cpu_weight.map_or(Ok(()), |weight| dir.write("cpu.shares", &shares(weight).to_string()))?;
            wanted.cpus_milli.map_or(Ok(()), |milli| cpu_v1(dir, milli, top))
        }
        (Resource::Cpu, Version::V2) => {
            wanted.cpu_weight.map_or(Ok(()), |weight| dir.write("cpu.weight", &weight.to_string()))?;
            wanted.cpus_milli.map_or(Ok(()), |milli| {
                let (quota, period) = share(milli);
                dir.write("cpu.max", &format!("{quota} {period}"))
            })
        }
    }
}

/// Whether a group that somebody else made has what is wanted of one resource.
pub(crate) fn is_set(dir: &Dir, version: Version, resource: Resource, wanted: &Wanted) -> bool {
    let has = |file: &str, wanted: Option<u64>| {
        wanted.is_none_or(|wanted| dir.read(file).is_ok_and(|text| text.trim().parse() == Ok(wanted)))
    };
    match (resource, version) {
        // The kernel counts in pages.
        (Resource::Memory, Version::V1) => has("memory.limit_in_bytes", wanted.memory.map(in_pages)),
        (Resource::Memory, Version::V2) => has("memory.max", wanted.memory.map(in_pages)),
        (Resource::Pids, _) => has("pids.max", wanted.pids),
        (Resource::Cpu, Version::V1) => has("cpu.shares", wanted.cpu_weight.map(shares)),
        (Resource::Cpu, Version::V2) => has("cpu.weight", wanted.cpu_weight.map(u64::from)),
    }
}

fn in_pages(bytes: u64) -> u64 {
    let page = rustix::param::page_size() as u64;
    bytes / page * page
}

/// The usual part of a group in v1 is 1024.
fn shares(weight: u32) -> u64 {
    (u64::from(weight) * 1024 / 100).max(2)
}

fn memory_v2(dir: &Dir, bytes: u64, swap: u64) -> Result<(), CgroupError> {
    dir.write_if_there("memory.swap.max", &swap.to_string())?;
    dir.write_if_there("memory.oom.group", "1")?;
    dir.write("memory.max", &bytes.to_string())
}

/// In v1 the buffers of sockets are no part of a group's memory; they have a limit of their own. So much of the memory limit is
/// plenty for them, and whoever holds on to more waits.
const SOCKETS: u64 = 4;

/// The limit with swap must never be below the one without, so it is lowered after that.
fn memory_v1(dir: &Dir, bytes: u64, swap: u64) -> Result<(), CgroupError> {
    let text = bytes.to_string();
    dir.write("memory.limit_in_bytes", &text)?;
    let counts_swap = dir.write_if_there("memory.memsw.limit_in_bytes", &(bytes + swap).to_string())?;
    if !counts_swap {
        // Without a count of swap the memory limit holds only if nothing is swapped out.
        dir.write_if_there("memory.swappiness", "0")?;
    }
    dir.write_if_there("memory.kmem.tcp.limit_in_bytes", &(bytes / SOCKETS).to_string())?;
    // Inherited from the group above: what runs out of memory would hang for ever instead of being killed.
    if dir.read("memory.oom_control")?.starts_with("oom_kill_disable 1") {
        dir.write("memory.oom_control", "0")?;
    }
    Ok(())
}

/// In v1 the kernel refuses more than a group above has. That one holds anyway, so there is nothing to add to it.
fn cpu_v1(dir: &Dir, milli: u32, top: &Path) -> Result<(), CgroupError> {
    let (quota, period) = share(milli);
    dir.write("cpu.cfs_period_us", &period.to_string())?;
    match dir.write("cpu.cfs_quota_us", &quota.to_string()) {
        Err(error) if error.is_invalid() && held_above(&dir.path, milli, top) => dir.write("cpu.cfs_quota_us", "-1"),
        result => result,
    }
}

fn held_above(group: &Path, milli: u32, top: &Path) -> bool {
    group.ancestors().skip(1).take_while(|above| above.starts_with(top)).any(|above| {
        let number = |file| peek(above, file).and_then(|text| text.trim().parse::<u64>().ok());
        let (quota, period) = (number("cpu.cfs_quota_us"), number("cpu.cfs_period_us"));
        quota.zip(period).is_some_and(|(quota, period)| u128::from(quota) * 1000 <= u128::from(milli) * u128::from(period))
    })
}

/// Quota and period for so many thousandths of a processor. A small share takes the long period to be exact.
fn share(milli: u32) -> (u64, u64) {
    let of = |period: u64| u64::from(milli) * period / 1000;
    if of(PERIOD) >= LEAST_QUOTA { (of(PERIOD), PERIOD) } else { (of(LONG_PERIOD).max(LEAST_QUOTA), LONG_PERIOD) }
}

fn pids_text(pids: u64) -> String {
    if pids > MOST_PIDS { "max".to_owned() } else { pids.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_a_processor_is_exact_down_to_a_thousandth() {
        assert_eq!(share(1500), (150_000, 100_000));
        assert_eq!(share(10), (1_000, 100_000));
        assert_eq!(share(9), (9_000, 1_000_000));
        assert_eq!(share(1), (1_000, 1_000_000));
        assert_eq!(share(0), (1_000, 1_000_000));
        assert_eq!(share(u32::MAX), (429_496_729_500, 100_000));
    }

    #[test]
    fn more_processes_than_there_can_be_is_no_limit() {
        assert_eq!(pids_text(0), "0");
        assert_eq!(pids_text(MOST_PIDS), "4194304");
        assert_eq!(pids_text(MOST_PIDS + 1), "max");
    }
}
