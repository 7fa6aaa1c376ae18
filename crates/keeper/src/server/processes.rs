//! The processes of the sandbox, as the kernel lists them in its own `/proc`.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;

use crate::protocol::{Process, Stats};

/// Whether anything besides the keeper is alive. As PID 1 the keeper asks about "everybody else" with signal 0.
pub(super) fn others_alive() -> bool {
    // "Not permitted" also means that somebody is there.
    !whatif_sys::signals::send_to_all(0).is_err_and(|e| e.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()))
}

pub(super) fn signal_all(signal: Signal) {
    let _ = whatif_sys::signals::send_to_all(signal.as_raw());
}

/// All of them. `known` says the line of those that were started by `exec`; of the others there is only the name: reading their
/// lines means waiting for them, and whoever runs inside can make that last.
pub(super) fn list(known: impl Fn(i32) -> Option<String>) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let mut processes: Vec<Process> = entries
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != 1)
        .filter_map(|pid| read(pid, known(pid)))
        .collect();
    processes.sort_by_key(|p| p.pid);
    processes
}

pub(super) fn stats(uptime: Duration) -> Stats {
    let all = list(|_| None);
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

/// What a process wrote, with all it waited for.
fn written(pid: i32) -> u64 {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    io.lines().find_map(|l| l.strip_prefix("write_bytes: ")).and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn read(pid: i32, line: Option<String>) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain anything, so the fields are counted from the last one.
    let (head, tail) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    let mut state = fields.first()?.chars().next()?;
    if state == 'Z' {
        // The first thread may end before the others.
        state = state_of_others(pid).unwrap_or(state);
    }
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        state,
        is_exec: line.is_some(),
        command: line.unwrap_or_else(|| format!("[{}]", head.split_once('(').map_or("", |(_, name)| name))),
        cpu_ms: (number(11) + number(12)) * 1000 / ticks,
        memory_bytes: number(21) * rustix::param::page_size() as u64,
    })
}

/// The state of a thread that is alive, if there is one; one that runs before one that is stopped.
fn state_of_others(pid: i32) -> Option<char> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let states = threads.filter_map(|t| {
        let stat = fs::read_to_string(t.ok()?.path().join("stat")).ok()?;
        stat.rsplit_once(')')?.1.trim_start().chars().next()
    });
    let alive: Vec<char> = states.filter(|s| !matches!(s, 'Z' | 'X')).collect();
    alive.iter().find(|s| **s != 'T').or(alive.first()).copied()
}
