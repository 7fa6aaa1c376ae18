//! The processes of the sandbox, as the kernel lists them in its own `/proc`.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, RawDir, open};
use rustix::io::Errno;
use rustix::process::Signal;
use whatif_sys::absence::OrAbsent;
use whatif_types::CommandId;

use crate::protocol::{Process, Stats};

/// The line of a command that was started by `exec`, and its id if it has one.
type Known = (String, Option<CommandId>);

/// Whether anything besides the keeper is there: in the list, because to ask about "everybody else" with a signal makes the kernel go
/// through all processes of the machine. What cannot be listed may be somebody.
pub(super) fn others_alive() -> bool {
    let mut space = [MaybeUninit::uninit(); 4096];
    let Ok(list) = open("/proc", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) else { return true };
    let mut entries = RawDir::new(list, &mut space);
    while let Some(entry) = entries.next() {
        let Ok(entry) = entry else { return true };
        let name = entry.file_name().to_bytes();
        if name.first().is_some_and(u8::is_ascii_digit) && name != b"1" {
            return true;
        }
    }
    false
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
    for entry in fs::read_dir("/proc")? {
        let pid = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        if let Some(pid) = pid.filter(|pid| *pid != 1) {
            processes.extend(read(pid, known(pid))?);
        }
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
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    io.lines().find_map(|l| l.strip_prefix("write_bytes: ")).and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn read(pid: i32, known: Option<Known>) -> io::Result<Option<Process>> {
    let Some(stat) = unless_gone(fs::read_to_string(format!("/proc/{pid}/stat")))? else { return Ok(None) };
    let Some(mut process) = parse(pid, &stat, known) else { return Ok(None) };
    if process.state == 'Z' {
        // The first thread may end before the others, and knows nothing of their memory then.
        let alive = other_threads(pid)?;
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
    let Some(membership) = unless_gone(fs::read_to_string(format!("/proc/{pid}/cgroup")))? else { return Ok(true) };
    if is_in(&membership) {
        return Ok(true);
    }
    let Some(threads) = unless_gone(fs::read_dir(format!("/proc/{pid}/task")))? else { return Ok(true) };
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
fn other_threads(pid: i32) -> io::Result<Vec<Process>> {
    let Some(threads) = unless_gone(fs::read_dir(format!("/proc/{pid}/task")))? else { return Ok(Vec::new()) };
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
