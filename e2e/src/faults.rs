//! Faults at a chosen system call of a command, with strace: it is killed there, or the call fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::{Call, World};

/// The calls that change something. A question mark, because not every architecture has all of them.
const WRITES: [&str; 38] = [
    "?openat",
    "?openat2",
    "?open",
    "?creat",
    "?write",
    "?pwrite64",
    "?writev",
    "?pwritev",
    "?fsync",
    "?fdatasync",
    "?syncfs",
    "?sync_file_range",
    "?rename",
    "?renameat",
    "?renameat2",
    "?unlink",
    "?unlinkat",
    "?rmdir",
    "?mkdir",
    "?mkdirat",
    "?symlink",
    "?symlinkat",
    "?link",
    "?linkat",
    "?mknodat",
    "?chmod",
    "?fchmod",
    "?fchmodat",
    "?fchmodat2",
    "?fchown",
    "?fchownat",
    "?utimensat",
    "?fsetxattr",
    "?setxattr",
    "?lsetxattr",
    "?copy_file_range",
    "?ftruncate",
    "?ioctl",
];

/// The calls by which a sandbox is put on other layers, and by which others are told about it.
const MOVES: [&str; 16] = [
    "?mount",
    "?umount2",
    "?move_mount",
    "?open_tree",
    "?mount_setattr",
    "?fsmount",
    "?pivot_root",
    "?chroot",
    "?setns",
    "?unshare",
    "?sendmsg",
    "?sendto",
    "?connect",
    "?kill",
    "?wait4",
    "?execve",
];

/// The calls by which a command finds out what is there.
const READS: [&str; 14] = [
    "?statx",
    "?newfstatat",
    "?openat",
    "?openat2",
    "?open",
    "?getdents64",
    "?read",
    "?pread64",
    "?readlink",
    "?readlinkat",
    "?getxattr",
    "?lgetxattr",
    "?llistxattr",
    "?flistxattr",
];

/// The so many-th call of this name in one process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    pub call: String,
    pub number: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `kill -9` before the call does anything.
    Kill,
    /// Any other signal, at the same moment.
    Signal(&'static str),
    /// This one call fails.
    Error(&'static str),
    /// It and all further calls of its name fail.
    ErrorFromThenOn(&'static str),
}

impl World {
    /// Runs `whatif …` in a directory to its end and returns, in their order, the points at which it changed something.
    #[track_caller]
    pub fn points_of(&self, directory: &Path, arguments: &[&str]) -> Vec<Point> {
        self.points_among(&WRITES, directory, arguments)
    }

    /// The same with the points at which it mounted something or spoke to another process.
    #[track_caller]
    pub fn points_of_move(&self, directory: &Path, arguments: &[&str]) -> Vec<Point> {
        self.points_among(&[WRITES.as_slice(), MOVES.as_slice()].concat(), directory, arguments)
    }

    /// The same with the points at which it looked at something.
    #[track_caller]
    pub fn points_of_reading(&self, directory: &Path, arguments: &[&str]) -> Vec<Point> {
        let trace = self.trace(&READS, directory, arguments);
        points_in(&trace, |_, _| true)
    }

    #[track_caller]
    fn points_among(&self, calls: &[&str], directory: &Path, arguments: &[&str]) -> Vec<Point> {
        points_in(&self.trace(calls, directory, arguments), changes_something)
    }

    #[track_caller]
    fn trace(&self, calls: &[&str], directory: &Path, arguments: &[&str]) -> String {
        let trace = self.dir.join("trace");
        let set = format!("trace={}", calls.join(","));
        let strace = self.program("/usr/bin/strace").args(["-f", "--seccomp-bpf", "-s0", "-e", &set, "-e", "signal=none", "-o"]);
        strace.args([&trace, &self.bin]).args(arguments).cwd(directory).go().ok();
        let trace = fs::read(&trace).expect("strace wrote it");
        String::from_utf8_lossy(&trace).into_owned()
    }

    /// `whatif …` with a fault.
    pub fn with_fault(&self, point: &Point, fault: Fault, arguments: &[&str]) -> Call {
        self.with_fault_told(point, fault, arguments, Path::new("/dev/null"))
    }

    /// The same for a command that may fail before it has ended its keeper: nobody waits for the tracer, which follows that one, too.
    pub fn with_fault_alone(&self, point: &Point, fault: Fault, arguments: &[&str]) -> Call {
        self.traced(&["-D"], point, fault, arguments, Path::new("/dev/null"))
    }

    /// The same, and what the tracer says about it goes to a file.
    pub(crate) fn with_fault_told(&self, point: &Point, fault: Fault, arguments: &[&str], told: &Path) -> Call {
        self.traced(&[], point, fault, arguments, told)
    }

    fn traced(&self, options: &[&str], point: &Point, fault: Fault, arguments: &[&str], told: &Path) -> Call {
        let (call, number) = (&point.call, point.number);
        let inject = match fault {
            Fault::Kill => format!("inject={call}:signal=SIGKILL:when={number}"),
            Fault::Signal(signal) => format!("inject={call}:signal={signal}:when={number}"),
            Fault::Error(error) => format!("inject={call}:error={error}:when={number}"),
            Fault::ErrorFromThenOn(error) => format!("inject={call}:error={error}:when={number}+"),
        };
        let trace = format!("trace={call}");
        // Without `--seccomp-bpf`: strace 6.1 then counts, but sends no signal.
        let strace =
            self.program("/usr/bin/strace").args(options).args(["-f", "-o"]).args([told]).args(["-e", &trace, "-e", &inject]);
        strace.args([&self.bin]).args(arguments)
    }
}

/// strace counts the calls of each name and each process by themselves, and so must we.
fn points_in(trace: &str, is_wanted: impl Fn(&str, &str) -> bool) -> Vec<Point> {
    let (mut counts, mut seen) = (BTreeMap::<(&str, &str), usize>::new(), BTreeSet::new());
    let mut points = Vec::new();
    for line in trace.lines() {
        let Some((process, rest)) = line.split_once(' ') else { continue };
        let Some((call, arguments)) = rest.trim_start().split_once('(') else { continue };
        if call.is_empty() || !call.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            continue;
        }
        let number = counts.entry((process, call)).or_default();
        *number += 1;
        let point = Point { call: call.to_owned(), number: *number };
        if is_wanted(call, arguments) && seen.insert(point.clone()) {
            points.push(point);
        }
    }
    points
}

/// Opening a file to read it, or asking about a terminal, does not.
fn changes_something(call: &str, arguments: &str) -> bool {
    let any = |words: &[&str]| words.iter().any(|word| arguments.contains(word));
    match call {
        "open" | "openat" | "openat2" => any(&["O_CREAT", "O_WRONLY", "O_RDWR", "O_TMPFILE", "O_TRUNC"]),
        "ioctl" => any(&["FICLONE", "FS_IOC"]),
        _ => true,
    }
}

/// So many of the points, or all of them with `WHATIF_SWEEP=full`: every so many-th, beginning at another one for each turn,
/// so that the turns together see more than each of them alone.
#[must_use]
pub fn sample(points: &[Point], wanted: usize, turn: usize) -> Vec<Point> {
    if std::env::var("WHATIF_SWEEP").is_ok_and(|s| s == "full") {
        return points.to_vec();
    }
    let stride = points.len().div_ceil(wanted).max(1);
    points.iter().skip(turn * 3 % stride).step_by(stride).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_name_and_process() {
        let trace = "7  openat(AT_FDCWD, \"\"..., O_RDONLY) = 3\n7  openat(3, \"\"..., O_WRONLY|O_CREAT, 0666) = 4\n\
                     8  write(4, \"\"..., 3 <unfinished ...>\n7  write(4, \"\"..., 3) = 3\n8  <... write resumed>) = 3\n\
                     7  write(4, \"\"..., 3) = 3\n7  +++ exited with 0 +++\n";
        let point = |call: &str, number| Point { call: call.to_owned(), number };
        assert_eq!(points_in(trace, changes_something), [point("openat", 2), point("write", 1), point("write", 2)]);
    }
}
