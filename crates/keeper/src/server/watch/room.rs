//! Room on the disk: what the sandbox's changes take, and what must stay free for everybody else.
//!
//! Measuring a head means walking it. What tells cheaply whether that is worth while is the free room of the file system: as
//! long as it did not fall by what the sandbox may still write, the sandbox did not write it.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{Dir, Mode, OFlags, fstatvfs, openat};
use whatif_types::LimitHit;
use whatif_types::boot::{KeeperLimits, Room};

use super::nameless;
use super::walk::{Taken, walk};

/// Faster than this nothing is written.
const BYTES_PER_SECOND: u64 = 4 << 30;
const FILES_PER_SECOND: u64 = 1 << 20;
const OFTEN: Duration = Duration::from_millis(3);
const NOW_AND_THEN: Duration = Duration::from_millis(100);
/// A walk that takes longer is made while everybody is held still.
const LONG: Duration = Duration::from_millis(10);
/// Left for the host where nothing else is said, and at most this part of what was free.
const RESERVE: Taken = Taken { bytes: 64 << 20, files: 4096 };
const RESERVE_PART: u64 = 4;

/// Whoever is refused something has less than this left, as a rule.
const LITTLE: Taken = Taken { bytes: 128 << 10, files: 1 };
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Cleaning up takes a little, too.
const GRAIN: Taken = Taken { bytes: 1 << 20, files: 64 };

/// Where to look.
pub(in crate::server) struct Head {
    /// Any directory in the file system of the head.
    pub near: OwnedFd,
    /// The sandbox's own directory, if its room is limited.
    pub directory: Option<OwnedFd>,
}

pub(super) struct RoomWatch {
    head: Head,
    room: Room,
    keep_free: Option<u64>,
    reserve: Taken,
    last: Option<Measured>,
    fallen: Falls,
    /// A sandbox that is over its limit already may still be cleaned up.
    allowed: Taken,
}

/// By how much the free room fell since the last walk. What others give back meanwhile does not make up for it.
#[derive(Clone, Copy, Default)]
struct Falls {
    before: Option<Taken>,
    sum: Taken,
}

impl Falls {
    fn note(&mut self, free: Taken) {
        if let Some(before) = self.before.replace(free) {
            self.sum.bytes += before.bytes.saturating_sub(free.bytes);
            self.sum.files += before.files.saturating_sub(free.files);
        }
    }
}

/// What a head has of the file system.
struct Allotment {
    taken: u64,
    left: Taken,
}

/// The result of a walk.
#[derive(Clone, Copy)]
struct Measured {
    taken: Taken,
    /// What was free in the file system then.
    free: Taken,
    at: Instant,
    took: Duration,
}

impl RoomWatch {
    pub(super) fn new(limits: &KeeperLimits, head: Head) -> Self {
        let mut watch = Self {
            head,
            room: limits.room,
            keep_free: limits.keep_free,
            reserve: Taken::default(),
            last: None,
            fallen: Falls::default(),
            allowed: Taken::default(),
        };
        if watch.room.is_watched() {
            watch.measure();
        }
        watch
    }

    /// Says when to look first.
    pub(super) fn begin(&mut self) -> Duration {
        let free = self.free();
        self.reserve = Taken {
            bytes: self.keep_free.unwrap_or_else(|| RESERVE.bytes.min(free.bytes / RESERVE_PART)),
            files: RESERVE.files.min(free.files / RESERVE_PART),
        };
        let is_over = self.last.is_some_and(|m| {
            self.room.bytes.is_some_and(|b| m.taken.bytes > b) || self.room.files.is_some_and(|f| m.taken.files > f)
        });
        // Since then it may have become less, or more.
        let taken = if is_over { self.measure() } else { Taken::default() };
        let allowed = |limit: Option<u64>, taken: u64, grain: u64| match limit {
            None => u64::MAX,
            // However often somebody begins: what is beyond a little more does not grow.
            Some(limit) if taken > limit => taken.max(limit.saturating_add(grain)),
            Some(limit) => limit,
        };
        self.allowed = Taken {
            bytes: allowed(self.room.bytes, taken.bytes, GRAIN.bytes),
            files: allowed(self.room.files, taken.files, GRAIN.files),
        };
        self.pause(free)
    }

    pub(super) fn look(&mut self, hold: &mut dyn FnMut(bool)) -> Result<Duration, LimitHit> {
        let free = self.free();
        if free.bytes < self.reserve.bytes || free.files < self.reserve.files {
            return Err(LimitHit::Reserve);
        }
        self.fallen.note(free);
        if let Some(last) = self.last.filter(|last| self.is_suspicious(last, free)) {
            let long = last.took > LONG;
            if long {
                hold(true);
            }
            let hit = self.measure_and_judge();
            if long {
                hold(false);
            }
            if let Some(hit) = hit {
                return Err(hit);
            }
        }
        Ok(self.pause(free))
    }

    pub(super) fn look_closely(&mut self) -> Option<LimitHit> {
        let last = self.last?;
        self.fallen.note(self.free());
        if self.may_be_over(&last) { self.measure_and_judge() } else { None }
    }

    pub(super) fn layers_changed(&mut self, bytes: u64, files: u64) {
        self.room.frozen_bytes = bytes;
        self.room.frozen_files = files;
        if self.room.is_watched() {
            self.measure();
        }
    }

    pub(super) fn known_bytes(&self) -> Option<u64> {
        let allotted = || self.allotment().map(|a| a.taken + self.room.frozen_bytes);
        self.last.map(|m| m.taken.bytes).or_else(allotted)
    }

    /// The limit that keeps anything more from being written, where the file system itself holds to it.
    pub(super) fn refuses(&self) -> Option<LimitHit> {
        let left = self.allotment()?.left;
        let is_hit = |limit: Option<u64>, left: u64, little: u64| limit.is_some() && left < little;
        match (is_hit(self.room.bytes, left.bytes, LITTLE.bytes), is_hit(self.room.files, left.files, LITTLE.files)) {
            (true, _) => Some(LimitHit::Disk),
            (_, true) => Some(LimitHit::Inodes),
            _ => None,
        }
    }

    /// As the file system tells it of a directory that belongs to a project.
    fn allotment(&self) -> Option<Allotment> {
        let directory = self.head.directory.as_ref().filter(|_| self.room.is_exact)?;
        let head = openat(directory, "head", FLAGS, Mode::empty()).ok()?;
        let is_tree = |name: &CStr| name.to_bytes().iter().all(u8::is_ascii_digit);
        let first = Dir::read_from(&head).ok()?.filter_map(Result::ok).find(|entry| is_tree(entry.file_name()))?;
        let found = fstatvfs(openat(&head, first.file_name(), FLAGS, Mode::empty()).ok()?).ok()?;
        let taken = found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize);
        Some(Allotment { taken, left: Taken { bytes: found.f_bavail.saturating_mul(found.f_frsize), files: found.f_favail } })
    }

    /// So much room is gone that the sandbox may have taken all it may; or it is long ago that somebody looked.
    fn is_suspicious(&self, last: &Measured, free: Taken) -> bool {
        let changed = free.bytes != last.free.bytes || free.files != last.free.files;
        // Others may give back just then what the sandbox takes.
        self.may_be_over(last) || (changed && last.at.elapsed() > (last.took * 20).max(NOW_AND_THEN))
    }

    fn may_be_over(&self, last: &Measured) -> bool {
        let (left, gone) = (self.left(last.taken), self.fallen.sum);
        gone.bytes >= left.bytes || gone.files >= left.files
    }

    fn left(&self, taken: Taken) -> Taken {
        Taken { bytes: self.allowed.bytes.saturating_sub(taken.bytes), files: self.allowed.files.saturating_sub(taken.files) }
    }

    /// As long as the sandbox needs at least to take what it may still take.
    fn pause(&self, free: Taken) -> Duration {
        let mut left =
            Taken { bytes: free.bytes.saturating_sub(self.reserve.bytes), files: free.files.saturating_sub(self.reserve.files) };
        if let Some(last) = &self.last {
            let own = self.left(last.taken);
            left = Taken { bytes: left.bytes.min(own.bytes), files: left.files.min(own.files) };
        }
        let seconds = (left.bytes as f64 / BYTES_PER_SECOND as f64).min(left.files as f64 / FILES_PER_SECOND as f64);
        let slowest = if self.last.is_some() { NOW_AND_THEN } else { super::SELDOM };
        Duration::try_from_secs_f64(seconds).unwrap_or(slowest).clamp(OFTEN, slowest)
    }

    fn measure_and_judge(&mut self) -> Option<LimitHit> {
        let taken = self.measure();
        match taken {
            t if t.bytes > self.allowed.bytes => Some(LimitHit::Disk),
            t if t.files > self.allowed.files => Some(LimitHit::Inodes),
            _ => None,
        }
    }

    fn measure(&mut self) -> Taken {
        let began = Instant::now();
        let free = self.free();
        let (mut taken, seen) = self.head.directory.as_ref().map_or((Taken::default(), true), walk);
        let nameless = nameless::measure();
        let complete = seen && nameless.is_ok();
        taken.bytes += self.room.frozen_bytes + nameless.map_or(0, |n| n.on_disk);
        taken.files += self.room.frozen_files;
        if let Some(last) = self.last.filter(|_| !complete) {
            // Whoever hides what it writes is charged with all that was written.
            taken.bytes = taken.bytes.max(last.taken.bytes + last.free.bytes.saturating_sub(free.bytes));
            taken.files = taken.files.max(last.taken.files + last.free.files.saturating_sub(free.files));
        }
        self.fallen = Falls { before: Some(free), sum: Taken::default() };
        self.last = Some(Measured { taken, free, at: Instant::now(), took: began.elapsed() });
        taken
    }

    fn free(&self) -> Taken {
        // Who cannot ask is told that there is nothing, and ends what runs.
        // Of a directory that belongs to a project, a file system tells what that has.
        fstatvfs(self.head.directory.as_ref().unwrap_or(&self.head.near)).map_or(Taken::default(), |s| {
            // A file system that makes room for files as they come (btrfs) says that it has none at all.
            let files = if s.f_files == 0 { u64::MAX } else { s.f_favail };
            Taken { bytes: s.f_bavail * s.f_frsize, files }
        })
    }
}
