//! The memory of all processes together, where there is no control group to count it.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::nameless;
use super::sockets::Census;
use super::system_v;
use crate::server::numbering;
use crate::server::processes::unless_gone;

/// Faster than this no memory is filled.
const BYTES_PER_SECOND: f64 = 8e9;
const OFTEN: Duration = Duration::from_millis(2);
const NOW_AND_THEN: Duration = Duration::from_millis(50);
/// What it takes to clean up.
const GRAIN: u64 = 16 << 20;
/// Places in memory that files can be put in.
const IN_MEMORY: [&str; 4] = ["/tmp", "/dev/shm", "/run", "/var/tmp"];
const TMPFS: u64 = 0x0102_1994;

/// What takes longer to find out is looked at less often.
const SOMETIMES: Duration = Duration::from_millis(150);

/// After this long without an answer of the kernel the limit cannot be said to hold.
const LONGEST_BLIND: Duration = Duration::from_secs(1);

pub(super) struct Memory {
    limit: u64,
    /// The same, or more where files in memory alone are over it already: they can still be cleaned up.
    allowed: u64,
    /// What belongs to no process, and when that was looked at.
    unowned: u64,
    looked_at: Option<Instant>,
    /// The kernel does not answer since then.
    blind_since: Option<Instant>,
    /// Nothing where the network is not the sandbox's own.
    sockets: Option<Census>,
}

impl Memory {
    pub(super) fn new(limit: u64, sockets: Option<Census>) -> Self {
        Self { limit, allowed: limit, unowned: 0, looked_at: None, blind_since: None, sockets }
    }

    /// Says when to look first.
    pub(super) fn begin(&mut self) -> Duration {
        let files = in_files() + self.unowned;
        let is_full = files > self.limit / 2 && files + GRAIN > self.limit;
        self.allowed = if is_full { files + GRAIN } else { self.limit };
        self.pause(files)
    }

    /// How long until the next look is due; nothing if it is too much, or if that cannot be seen for long.
    pub(super) fn look(&mut self) -> Option<Duration> {
        match self.measure() {
            Ok(until_next) => {
                self.blind_since = None;
                until_next
            }
            Err(_) => {
                let since = *self.blind_since.get_or_insert_with(Instant::now);
                (since.elapsed() < LONGEST_BLIND).then_some(OFTEN)
            }
        }
    }

    fn measure(&mut self) -> io::Result<Option<Duration>> {
        if self.looked_at.is_none_or(|at| at.elapsed() > SOMETIMES) {
            self.unowned = nameless::measure()?.in_memory + system_v::measure()? + self.in_sockets()?;
            self.looked_at = Some(Instant::now());
        }
        let files = in_files() + self.unowned;
        let mut quick = 0;
        for process in processes()? {
            quick += resident(&process)?.map_or(0, |part| part.own + part.shared);
        }
        if files + quick <= self.allowed {
            return Ok(Some(self.pause(files + quick)));
        }
        // Processes share what they had before they split, and what they share on purpose; that must count once.
        let (mut own, mut shared) = (0, 0);
        for process in processes()? {
            let part = match share(&process)? {
                Some(part) => Some(part),
                None => resident(&process)?,
            };
            own += part.as_ref().map_or(0, |part| part.own);
            shared += part.as_ref().map_or(0, |part| part.shared);
        }
        // What is shared may be one of the files, or a memory of its own; nobody says which.
        Ok((own + shared.max(files) <= self.allowed).then_some(NOW_AND_THEN))
    }

    fn in_sockets(&self) -> io::Result<u64> {
        self.sockets.as_ref().map_or(Ok(0), Census::measure)
    }

    fn pause(&self, used: u64) -> Duration {
        let seconds = self.allowed.saturating_sub(used) as f64 / BYTES_PER_SECOND;
        Duration::from_secs_f64(seconds).clamp(OFTEN, NOW_AND_THEN)
    }
}

/// What all processes have in memory, and files there. What processes share counts once where that is known.
pub(super) fn in_processes_and_files() -> io::Result<u64> {
    let mut total = in_files();
    for process in processes()? {
        let part = match share(&process)? {
            Some(part) => Some(part),
            None => resident(&process)?,
        };
        total += part.map_or(0, |part| part.own);
    }
    Ok(total + nameless::measure()?.in_memory)
}

fn processes() -> io::Result<Vec<PathBuf>> {
    Ok(numbering::all()?.into_iter().map(|process| process.path).collect())
}

/// What a process has in memory, but for what can be read again from a disk. (What is locked cannot.)
struct Part {
    own: u64,
    shared: u64,
}

fn resident(process: &Path) -> io::Result<Option<Part>> {
    told_by_any(process, |thread| {
        let Some(status) = unless_gone(fs::read_to_string(thread.join("status")))? else { return Ok(None) };
        let of = |name| kib(&status, name).unwrap_or(0);
        let own = kib(&status, "RssAnon:").map(|own| own + of("VmSwap:") + of("VmLck:").min(of("RssFile:")));
        Ok(own.map(|own| Part { own, shared: of("RssShmem:") }))
    })
}

/// Its share, where others have a part in it. If that cannot be had, all of it counts.
fn share(process: &Path) -> io::Result<Option<Part>> {
    told_by_any(process, |thread| {
        let Ok(rollup) = fs::read_to_string(thread.join("smaps_rollup")) else { return Ok(None) };
        let of = |name| kib(&rollup, name).unwrap_or(0);
        let own = kib(&rollup, "Pss_Anon:").map(|own| own + of("SwapPss:") + of("Locked:").min(of("Pss_File:")));
        Ok(own.zip(kib(&rollup, "Pss_Shmem:")).map(|(own, shared)| Part { own, shared }))
    })
}

/// The first thread speaks for all of them, unless it has ended before the others: then the kernel tells nothing of it.
fn told_by_any<T>(process: &Path, tell: impl Fn(&Path) -> io::Result<Option<T>>) -> io::Result<Option<T>> {
    if let Some(told) = tell(process)? {
        return Ok(Some(told));
    }
    for thread in nameless::numbers(&process.join("task"))? {
        if let Some(told) = tell(&thread)? {
            return Ok(Some(told));
        }
    }
    Ok(None)
}

/// A line `Name:   123 kB`, in bytes.
pub(super) fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// What files in memory take.
pub(super) fn in_files() -> u64 {
    let mut counted = HashSet::new();
    let used = IN_MEMORY.iter().filter_map(|place| {
        let stat = rustix::fs::statfs(*place).ok().filter(|s| s.f_type as u64 == TMPFS)?;
        let is_new = counted.insert(fs::metadata(place).ok()?.dev());
        is_new.then(|| (stat.f_blocks - stat.f_bfree) * stat.f_bsize.unsigned_abs())
    });
    used.sum()
}
