//! Reading a group from where nothing can be opened in it any more: files opened beforehand are handed over with their kind.

use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::Version;
use crate::file::{Dir, read_at_start, write_at_start};

/// What an opened file of a group tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meter {
    MemoryNow,
    MemoryPeak,
    /// Has a line `oom_kill N`, in both versions.
    MemoryEvents,
    /// Nanoseconds.
    CpuUsage,
    /// Has a line `usage_usec N`.
    CpuStat,
    PidsNow,
    /// Has a line `max N`, in both versions.
    PidsEvents,
}

/// Every file there can be, with the version that has it and what it is opened for.
const FILES: [(Version, &str, Meter, Use); 12] = [
    (Version::V1, "memory.usage_in_bytes", Meter::MemoryNow, Use::Read),
    (Version::V1, "memory.max_usage_in_bytes", Meter::MemoryPeak, Use::ReadAndReset),
    (Version::V1, "memory.oom_control", Meter::MemoryEvents, Use::Read),
    (Version::V1, "cpuacct.usage", Meter::CpuUsage, Use::Read),
    (Version::V1, "pids.current", Meter::PidsNow, Use::Read),
    (Version::V1, "pids.events", Meter::PidsEvents, Use::Read),
    (Version::V2, "memory.current", Meter::MemoryNow, Use::Read),
    (Version::V2, "memory.peak", Meter::MemoryPeak, Use::ReadAndReset),
    (Version::V2, "memory.events", Meter::MemoryEvents, Use::Read),
    (Version::V2, "cpu.stat", Meter::CpuStat, Use::Read),
    (Version::V2, "pids.current", Meter::PidsNow, Use::Read),
    (Version::V2, "pids.events", Meter::PidsEvents, Use::Read),
];

#[derive(Clone, Copy)]
enum Use {
    Read,
    /// Older kernels cannot reset, and let it be opened for reading only.
    ReadAndReset,
}

/// Opens what the group has. In v1 the controllers tell which files that are; an attempt that cannot succeed costs time.
pub(crate) fn open(dir: &Dir, version: Version, controllers: &[&str]) -> Vec<(Meter, OwnedFd)> {
    let has = |file: &str| version == Version::V2 || controllers.iter().any(|c| file.split('.').next() == Some(c));
    let of_it = FILES.iter().filter(|(of, file, ..)| *of == version && has(file));
    of_it.filter_map(|(_, file, meter, access)| Some((*meter, open_one(dir, file, *access)?))).collect()
}

/// Only what tells of processes that were killed because memory ran out.
pub(crate) fn open_events(dir: &Dir, version: Version) -> Option<(Meter, OwnedFd)> {
    let (_, file, meter, access) = FILES.iter().find(|(of, _, meter, _)| *of == version && *meter == Meter::MemoryEvents)?;
    Some((*meter, open_one(dir, file, *access)?))
}

fn open_one(dir: &Dir, file: &str, access: Use) -> Option<OwnedFd> {
    match access {
        Use::Read => dir.file_if_there(file, OFlags::RDONLY),
        Use::ReadAndReset => dir.file_if_there(file, OFlags::RDWR).or_else(|| dir.file_if_there(file, OFlags::RDONLY)),
    }
}

/// The handed over files of one group. What is not there, or cannot be read any more, reads as nothing.
#[derive(Debug, Default)]
pub struct Meters {
    files: Vec<(Meter, OwnedFd)>,
}

impl Meters {
    #[must_use]
    pub fn new(files: Vec<(Meter, OwnedFd)>) -> Meters {
        Meters { files }
    }

    /// Bytes in use, caches included.
    #[must_use]
    pub fn memory_now(&self) -> Option<u64> {
        self.number(Meter::MemoryNow)
    }

    /// The most bytes that were in use since the group was made or the peak was reset.
    #[must_use]
    pub fn memory_peak(&self) -> Option<u64> {
        self.number(Meter::MemoryPeak)
    }

    /// Whether it was reset: not every kernel can. Counts for this description of the file only in cgroup2.
    pub fn reset_peak(&self) -> bool {
        self.file(Meter::MemoryPeak).is_some_and(|file| write_at_start(file, "0").is_ok())
    }

    /// Processes that were killed because memory ran out.
    #[must_use]
    pub fn oom_kills(&self) -> Option<u64> {
        self.field(Meter::MemoryEvents, "oom_kill")
    }

    #[must_use]
    pub fn cpu_ms(&self) -> Option<u64> {
        let nanoseconds = self.number(Meter::CpuUsage).map(|ns| ns / 1_000_000);
        nanoseconds.or_else(|| self.field(Meter::CpuStat, "usage_usec").map(|us| us / 1000))
    }

    #[must_use]
    pub fn pids_now(&self) -> Option<u64> {
        self.number(Meter::PidsNow)
    }

    /// How often a process could not be made because of the limit.
    #[must_use]
    pub fn pids_hits(&self) -> Option<u64> {
        self.field(Meter::PidsEvents, "max")
    }

    fn number(&self, meter: Meter) -> Option<u64> {
        self.text(meter)?.trim().parse().ok()
    }

    fn field(&self, meter: Meter, key: &str) -> Option<u64> {
        field(&self.text(meter)?, key)
    }

    fn text(&self, meter: Meter) -> Option<String> {
        read_at_start(self.file(meter)?).ok()
    }

    fn file(&self, meter: Meter) -> Option<&OwnedFd> {
        self.files.iter().find(|(kind, _)| *kind == meter).map(|(_, file)| file)
    }
}

/// The number behind a key, in text of lines `key number`.
fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_key() {
        let text = "low 0\noom 3\noom_kill 2\noom_group_kill 1\n";
        assert_eq!(field(text, "oom_kill"), Some(2));
        assert_eq!(field(text, "oom"), Some(3));
        assert_eq!(field(text, "max"), None);
        assert_eq!(field("oom_kill_disable 0\nunder_oom 0\noom_kill 7", "oom_kill"), Some(7));
    }

    #[test]
    fn kinds_have_stable_names() {
        assert_eq!(serde_json::to_string(&Meter::MemoryPeak).unwrap(), "\"memory_peak\"");
        assert_eq!(serde_json::from_str::<Meter>("\"pids_events\"").unwrap(), Meter::PidsEvents);
    }
}
