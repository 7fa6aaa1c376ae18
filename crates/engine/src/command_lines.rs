//! The command lines of the processes of a sandbox, read from outside.
//!
//! The kernel reads a line from the memory of its process and waits until nothing changes there, which whoever runs inside can make
//! last. The keeper must not wait for anybody; we may.

use std::collections::HashMap;
use std::fs;

use whatif_keeper::protocol::Process;

/// Replaces the names of processes by their lines, where they can be found. A keeper's children are found by their numbers inside.
pub(crate) fn fill_in(keeper: u32, processes: &mut [Process]) {
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
    for process in processes.iter_mut().filter(|p| !p.is_exec) {
        if let Some(line) = by_number.get(&process.pid).and_then(|pid| line_of(*pid)) {
            process.command = line;
        }
    }
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
