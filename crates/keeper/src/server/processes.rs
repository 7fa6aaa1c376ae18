//! The processes of the sandbox, as the kernel lists them in `/proc`.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, RawDir, SeekFrom, open, seek};
use rustix::io::Errno;
use rustix::process::Signal;
use whatif_sys::absence::OrAbsent;
use whatif_types::CommandId;

use super::numbering::{self, Listed};
use crate::protocol::{Process, Stats};

/// The line of a command that was started by `exec`, and its id if it has one.
type Known = (String, Option<CommandId>);

/// Where in `/proc` the kernel's own entries end and the processes begin, the first of them at the third place.
const FIRST_PROCESS: u64 = 256 + 2;

/// Whether anything besides the keeper is there: in the list, because to ask about "everybody else" with a signal makes the kernel go
/// through all processes of the machine. What cannot be listed may be somebody.
pub(super) fn others_alive() -> bool {
    if numbering::is_anothers() {
        // The list has others in it that are not inside.
        return whatif_sys::signals::send_to_all(0).err().and_then(|e| Errno::from_io_error(&e)) != Some(Errno::SRCH);
    }
    let Ok(list) = open("/proc", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) else { return true };
    // A kernel that counts otherwise does not begin with us there.
    if seek(&list, SeekFrom::Start(FIRST_PROCESS)).is_ok()
        && let Some(others) = others_listed(&list, Expected::UsFirst)
    {
        return others;
    }
    seek(&list, SeekFrom::Start(0)).is_err() || others_listed(&list, Expected::Anything) != Some(false)
}

/// What a list begins with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    UsFirst,
    Anything,
}

/// Whether there are others from here on in the list. `None` if it is not as expected, or cannot be read.
fn others_listed(list: &OwnedFd, expected: Expected) -> Option<bool> {
    let mut space = [MaybeUninit::uninit(); 1024];
    let mut entries = RawDir::new(list, &mut space);
    let mut is_first = true;
    while let Some(entry) = entries.next() {
        let entry = entry.ok()?;
        let name = entry.file_name().to_bytes();
        if std::mem::take(&mut is_first) && expected == Expected::UsFirst && name != b"1" {
            return None;
        }
        if name.first().is_some_and(u8::is_ascii_digit) && name != b"1" {
            return Some(true);
        }
    }
    (!is_first).then_some(false)
}

/// Processes and threads of others, those that ended and wait to be reaped included: the kernel counts them too.
pub(super) fn count_others() -> io::Result<u64> {
    let mut count = 0;
    for entry in std::fs::read_dir("/proc")? {
        let entry = entry?;
        if entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()).is_none_or(|pid| pid == 1) {
            continue;
        }
        // A directory has a link for each one in it, and two of its own.
        let threads = unless_gone(std::fs::metadata(entry.path().join("task")))?.map_or(0, |task| task.nlink().saturating_sub(2));
        count += threads.max(1);
    }
    Ok(count)
}

pub(super) fn signal_all(signal: Signal) {
    let _ = whatif_sys::signals::send_to_all(signal.as_raw());
}

/// All of them. `known` says the line of those that were started by `exec`; of the others there is only the name: reading their
/// lines means waiting for them, and whoever runs inside can make that last.
///
/// One that cannot be looked at is an error: what is not listed is taken to be gone, and is neither held still nor ended.
pub(super) fn list(known: impl Fn(i32) -> Option<Known>) -> io::Result<Vec<Process>> {
    let mut processes = Vec::new();
    for listed in numbering::all()? {
        processes.extend(read(&listed, known(listed.pid))?);
    }
    processes.sort_by_key(|p| p.pid);
    Ok(processes)
}

/// What `/proc` says about a process; `None` once it is gone.
pub(super) fn unless_gone<T>(said: io::Result<T>) -> io::Result<Option<T>> {
    match said {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(None),
        other => other.or_absent(),
    }
}

pub(super) fn stats(all: &[Process], uptime: Duration) -> Stats {
    let ended = whatif_sys::wait::used_by_ended();
    Stats {
        processes: all.len(),
        cpu_ms: ended.cpu.as_millis() as u64 + all.iter().map(|p| p.cpu_ms).sum::<u64>(),
        memory_bytes: all.iter().map(|p| p.memory_bytes).sum(),
        written_bytes: ended.written_bytes + all.iter().map(|p| written(p.pid)).sum::<u64>(),
        uptime_ms: uptime.as_millis() as u64,
        ..Stats::default()
    }
}

/// What a process wrote, with all it waited for. Only shown, so what is not told counts as nothing.
fn written(pid: i32) -> u64 {
    let io = fs::read_to_string(numbering::path_of(pid).join("io")).unwrap_or_default();
    io.lines().find_map(|l| l.strip_prefix("write_bytes: ")).and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn read(Listed { pid, path }: &Listed, known: Option<Known>) -> io::Result<Option<Process>> {
    let Some(stat) = unless_gone(fs::read_to_string(path.join("stat")))? else { return Ok(None) };
    let Some(mut process) = parse(*pid, &stat, known) else { return Ok(None) };
    process.parent = numbering::pid_of(process.parent);
    if process.state == 'Z' {
        // The first thread may end before the others, and knows nothing of their memory then.
        let alive = other_threads(*pid, path)?;
        let runs = alive.iter().find(|thread| thread.state != 'T').or(alive.first());
        process.state = runs.map_or(process.state, |thread| thread.state);
        process.memory_bytes = alive.iter().map(|thread| thread.memory_bytes).max().unwrap_or(process.memory_bytes);
    }
    Ok(Some(process))
}

fn parse(pid: i32, stat: &str, known: Option<Known>) -> Option<Process> {
    // The name is in parentheses and may contain anything, so the fields are counted from the last one.
    let (head, tail) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    let (line, id) = known.map_or((None, None), |(line, id)| (Some(line), id));
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        state: fields.first()?.chars().next()?,
        id,
        is_exec: line.is_some(),
        command: line.unwrap_or_else(|| format!("[{}]", head.split_once('(').map_or("", |(_, name)| name))),
        cpu_ms: (number(11) + number(12)) * 1000 / ticks,
        memory_bytes: number(21) * rustix::param::page_size() as u64,
    })
}

/// Whether a process is in the group that `is_in` recognizes by `/proc/<pid>/cgroup`. One that is gone is no outsider.
///
/// Threads share their group, but the first one stays behind in its own if it has ended before.
pub(super) fn is_in_group(pid: i32, is_in: impl Fn(&str) -> bool) -> io::Result<bool> {
    let process = numbering::path_of(pid);
    let Some(membership) = unless_gone(fs::read_to_string(process.join("cgroup")))? else { return Ok(true) };
    if is_in(&membership) {
        return Ok(true);
    }
    let Some(threads) = unless_gone(fs::read_dir(process.join("task")))? else { return Ok(true) };
    for thread in threads {
        let Some(thread) = unless_gone(thread)? else { continue };
        let Some(stat) = unless_gone(fs::read_to_string(thread.path().join("stat")))? else { continue };
        let Some(membership) = unless_gone(fs::read_to_string(thread.path().join("cgroup")))? else { continue };
        if !matches!(state_in(&stat), Some('Z' | 'X') | None) && !is_in(&membership) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The threads that are alive, each as if it were a process.
fn other_threads(pid: i32, process: &Path) -> io::Result<Vec<Process>> {
    let Some(threads) = unless_gone(fs::read_dir(process.join("task")))? else { return Ok(Vec::new()) };
    let mut alive = Vec::new();
    for thread in threads {
        let Some(thread) = unless_gone(thread)? else { continue };
        let Some(stat) = unless_gone(fs::read_to_string(thread.path().join("stat")))? else { continue };
        alive.extend(parse(pid, &stat, None).filter(|thread| !matches!(thread.state, 'Z' | 'X')));
    }
    Ok(alive)
}

fn state_in(stat: &str) -> Option<char> {
    stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next())
}
