//! Removing groups, with whatever still lives in them.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::on;
use crate::file::{Dir, peek};
use crate::found::is_control_groups;
use crate::freezer::thaw_in;
use crate::{CgroupError, Found, name, search};

/// Killed processes need a moment to be gone, and more of it when the machine is busy.
const PATIENCE: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// So many processes are held at once while they are killed.
const BATCH: usize = 256;

/// Kills what is left in the group of that name, wherever it is, and removes it with the groups in it. It may be absent.
pub fn remove(found: &Found, name: &str) -> Result<(), CgroupError> {
    name::check(name)?;
    remove_all(&search::named(found, name)?)
}

/// The same for one that was noted to be here and nowhere else. A note can be cut short, so what has another name is left alone.
pub fn remove_at(group: &Path, name: &str) -> Result<(), CgroupError> {
    name::check(name)?;
    if group.file_name().is_none_or(|found| found != name) {
        return Err(on("find", group)(Errno::NOENT));
    }
    if is_control_groups(group) { remove_one(group) } else { Ok(()) }
}

/// Removes the directory of all groups in cgroup2 if there is none in it. The next group makes it again, which takes a while.
pub fn tidy(found: &Found) {
    if let Some(unified) = found.v2() {
        // It is in use, or was never made, or is somebody else's.
        let _ = fs::remove_dir(unified.parent());
    }
}

/// Goes on after an error, so that as little as possible is left; the first one is reported.
pub(crate) fn remove_all(places: &[PathBuf]) -> Result<(), CgroupError> {
    places.iter().map(|place| remove_one(place)).fold(Ok(()), Result::and)
}

fn remove_one(group: &Path) -> Result<(), CgroupError> {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = FIRST_PAUSE;
    while !is_removed(group)? {
        if Instant::now() > deadline {
            return Err(CgroupError::Busy { path: group.to_owned() });
        }
        kill(group);
        // Those that are still busy are tried again.
        nested(group).iter().rev().for_each(|inner| drop(fs::remove_dir(inner)));
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Ok(())
}

/// Whether the directory could be removed; not when something is in it.
fn is_removed(group: &Path) -> Result<bool, CgroupError> {
    match fs::remove_dir(group) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => Ok(false),
        Err(error) => Err(on("remove", group)(error)),
    }
}

/// Kills everything in a group and in those in it. What does not work now is tried again until the deadline, so errors are not
/// looked at: a group that cannot be emptied is reported as busy.
fn kill(group: &Path) {
    let Ok(dir) = Dir::open(group.to_owned()) else { return };
    if dir.write_if_there("cgroup.kill", "1").unwrap_or(false) {
        return;
    }
    // Where processes are counted nothing new can be made any more, so one round is enough.
    let _ = dir.write_if_there("pids.max", "0");
    kill_processes(group);
    nested(group).iter().for_each(|inner| kill_processes(inner));
    // In v1 what is frozen dies only when it is thawed.
    thaw_in(&dir);
}

/// A process id may be somebody else's by the time it is used. So each is first held, and killed only if after that its id is
/// still in the group: what is held then is that very process, or dead.
fn kill_processes(group: &Path) {
    let me = rustix::process::getpid();
    let listed: Vec<Pid> = processes(group).filter(|pid| *pid != me).collect();
    for batch in listed.chunks(BATCH) {
        let held: Vec<_> = batch.iter().filter_map(|pid| Some((*pid, pidfd_open(*pid, PidfdFlags::empty()).ok()?))).collect();
        let still: HashSet<Pid> = processes(group).collect();
        for (_, process) in held.iter().filter(|(pid, _)| still.contains(pid)) {
            // It died by itself, or is not ours to kill, which the deadline brings to light.
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }
}

/// Those that are visible from here: others are listed as 0.
fn processes(group: &Path) -> impl Iterator<Item = Pid> {
    let text = peek(group, "cgroup.procs").unwrap_or_default();
    text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect::<Vec<_>>().into_iter()
}

/// The groups in a group, each after the one it is in.
fn nested(group: &Path) -> Vec<PathBuf> {
    let mut groups = vec![group.to_owned()];
    let mut next = 0;
    while let Some(directory) = groups.get(next) {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let inner: Vec<PathBuf> = entries.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()).collect();
        groups.extend(inner);
        next += 1;
    }
    groups.split_off(1)
}
