//! Where `/proc` has the processes of the sandbox, and by which numbers.
//!
//! Usually it is the sandbox's own, and numbers them as they number each other. In some containers the kernel gives no new one, and
//! what is at `/proc` is the container's: with other processes in it, and with other numbers for those of the sandbox. Whatever is
//! read there of a process goes by way of this.

use std::fs::{self, DirEntry, File};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::processes::unless_gone;

const KEEPER: i32 = 1;

/// A process of the sandbox.
pub(super) struct Listed {
    pub pid: i32,
    /// Its directory in `/proc`.
    pub path: PathBuf,
}

/// Our `fdinfo` in a `/proc` that is that of a namespace around ours. What is in that `/proc` under our own number may be masked.
static DESCRIPTORS: OnceLock<OwnedFd> = OnceLock::new();

/// From here on `/proc` is taken to be one around ours.
pub(super) fn translate_by(descriptors: OwnedFd) {
    let _ = DESCRIPTORS.set(descriptors);
}

/// Whether `/proc` is that of a namespace around ours.
pub(super) fn is_anothers() -> bool {
    DESCRIPTORS.get().is_some()
}

/// All but the keeper.
pub(super) fn all() -> io::Result<Vec<Listed>> {
    let mut all = Vec::new();
    let depth = if is_anothers() { Some(own_depth()?) } else { None };
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(number) = number_in(&entry) else { continue };
        let pid = match depth {
            None => Some(number),
            Some(depth) => own_number(number, depth)?,
        };
        all.extend(pid.filter(|pid| *pid != KEEPER).map(|pid| Listed { pid, path: entry.path() }));
    }
    Ok(all)
}

/// The directory in `/proc` of one that is known by its number. Of one that is gone, none that is there.
pub(super) fn path_of(pid: i32) -> PathBuf {
    let number = DESCRIPTORS.get().map_or(Some(pid), |descriptors| listed_number(pid, descriptors).ok().flatten()).unwrap_or(0);
    PathBuf::from(format!("/proc/{number}"))
}

/// What a process of the sandbox is called inside that `/proc` calls by this number: 0 for one that is none of it.
pub(super) fn pid_of(number: i32) -> i32 {
    if !is_anothers() {
        return number;
    }
    own_depth().and_then(|depth| own_number(number, depth)).ok().flatten().unwrap_or(0)
}

fn number_in(entry: &DirEntry) -> Option<i32> {
    entry.file_name().to_str()?.parse().ok()
}

/// In how many namespaces we have a number, from that of `/proc` to our own.
fn own_depth() -> io::Result<usize> {
    Ok(numbers_in(&fs::read_to_string("/proc/self/status")?).len())
}

/// One line has the numbers of a process, from the namespace of `/proc` inwards. A sandbox beside ours has as many of them, so it is
/// looked whether `/proc` calls the one with that number here the same.
fn own_number(listed: i32, depth: usize) -> io::Result<Option<i32>> {
    let Some(descriptors) = DESCRIPTORS.get() else { return Ok(Some(listed)) };
    let Some(status) = unless_gone(fs::read_to_string(format!("/proc/{listed}/status")))? else { return Ok(None) };
    let Some(pid) = depth.checked_sub(1).and_then(|own| numbers_in(&status).get(own).copied()) else { return Ok(None) };
    Ok(if listed_number(pid, descriptors)? == Some(listed) { Some(pid) } else { None })
}

/// By which number `/proc` lists a process of our namespace. `None` once it is gone.
fn listed_number(pid: i32, descriptors: &OwnedFd) -> io::Result<Option<i32>> {
    let Some(pid) = Pid::from_raw(pid) else { return Ok(None) };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        // The number of a thread that is not the first of its process.
        Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => return Ok(None),
        other => other?,
    };
    let about = openat(descriptors, process.as_raw_fd().to_string(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = String::new();
    File::from(about).read_to_string(&mut text)?;
    Ok(listed_in(&text))
}

/// A process that has ended is called -1.
fn listed_in(about: &str) -> Option<i32> {
    let line = about.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    line.trim().parse().ok().filter(|number| *number > 0)
}

fn numbers_in(status: &str) -> Vec<i32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    line.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_the_outermost_namespace_inwards() {
        assert_eq!(numbers_in("Name:\tx\nPid:\t41\nNSpid:\t41\t7\t1\n"), [41, 7, 1]);
        assert_eq!(listed_in("pos:\t0\nPid:\t41\nNSpid:\t41\t7\n"), Some(41));
        assert_eq!(listed_in("pos:\t0\nPid:\t-1\n"), None);
    }

    #[test]
    fn in_a_proc_of_our_own_everybody_has_one_number() {
        let own = std::process::id() as i32;
        let descriptors = OwnedFd::from(File::open("/proc/self/fdinfo").unwrap());
        assert!(!is_anothers());
        assert!(own_depth().unwrap() > 0);
        assert_eq!(own_number(own, own_depth().unwrap()).unwrap(), Some(own));
        assert_eq!(listed_number(own, &descriptors).unwrap(), Some(own));
        assert!(all().unwrap().iter().any(|process| process.pid == own && process.path.ends_with(own.to_string())));
    }
}
