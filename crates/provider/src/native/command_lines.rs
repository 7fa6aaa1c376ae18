//! The command lines of the processes of a sandbox, read from outside.
//!
//! The kernel reads a line from the memory of its process and waits until nothing changes there, which a process inside can make
//! last: one that forks all the time and has little of a processor, for seconds. The keeper must not wait for that at all, and we do
//! not wait for long.

use std::collections::HashMap;
use std::fs;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use whatif_keeper::protocol::Process;

/// For all lines together.
const PATIENCE: Duration = Duration::from_millis(400);

/// Replaces the names of processes by their lines, where they can be found in time. A keeper's children are found by their numbers
/// inside.
pub(super) fn fill_in(keeper: u32, processes: &mut [Process]) {
    let mut by_number: HashMap<i32, u32> = HashMap::new();
    let mut pending = vec![keeper];
    while let Some(parent) = pending.pop() {
        for child in children(parent) {
            if let Some(inside) = number_inside(child) {
                by_number.insert(inside, child);
            }
            pending.push(child);
        }
    }
    let wanted: Vec<(usize, u32)> = (processes.iter().enumerate().filter(|(_, process)| !process.is_exec))
        .filter_map(|(index, process)| Some((index, *by_number.get(&process.pid)?)))
        .collect();
    for (index, line) in lines_of(wanted) {
        processes[index].command = line;
    }
}

/// A thread that waits for a process ends with it, or with us. Where there can be none, names have to do.
fn lines_of(wanted: Vec<(usize, u32)>) -> Vec<(usize, String)> {
    let (sender, lines) = mpsc::channel();
    let deadline = Instant::now() + PATIENCE;
    let reading = move || {
        for (index, pid) in wanted {
            if line_of(pid).is_some_and(|line| sender.send((index, line)).is_err()) {
                break;
            }
        }
    };
    if std::thread::Builder::new().spawn(reading).is_err() {
        return Vec::new();
    }
    let next = || lines.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok();
    std::iter::from_fn(next).collect()
}

fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

fn number_inside(pid: u32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|l| l.strip_prefix("NSpid:"))?.split_whitespace().last()?.parse().ok()
}

fn line_of(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<String> = bytes.split(|b| *b == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect();
    let line = words.join(" ").trim().to_owned();
    (!line.is_empty()).then_some(line)
}
