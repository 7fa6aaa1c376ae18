//! Who is at the other end of a unix socket. (rustix's type for it has no room for pid 0, which is what matters to us.)

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::process::Pid;

use crate::check;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// 0 when the peer is not in our PID namespace.
    pub pid: i32,
    pub uid: u32,
    pub gid: u32,
}

/// Whether the peer is a process of the PID namespace that a procfs shows, and not of one within it, as those in sandboxes are.
/// `descriptors` is our `fdinfo` in that procfs: it lists the numbers that a process has, one for each namespace from there inwards.
/// Unsupported for a peer outside our own namespace before Linux 6.5, which tells nothing about it.
pub fn is_in_namespace(socket: impl AsFd, descriptors: impl AsFd) -> io::Result<bool> {
    let process = process_of(&socket)?;
    let name = process.as_raw_fd().to_string();
    let about = rustix::fs::openat(descriptors, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    // The kernel tells all of it at once.
    let mut text = [0; LONGEST];
    let length = rustix::io::read(about, &mut text)?;
    Ok(numbers_in(&String::from_utf8_lossy(&text[..length])) == 1)
}

/// Our `/proc/self/fdinfo`, by a mount of its own: nothing else of that procfs can be reached from it. Needs power over our mounts.
pub fn own_descriptors() -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    Ok(open_tree(CWD, "/proc/self/fdinfo", flags)?)
}

/// More than the kernel says about a process.
const LONGEST: usize = 4096;

/// None for a process that has ended, or that we cannot see.
fn numbers_in(about: &str) -> usize {
    let line = about.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    line.split_whitespace().filter(|number| number.parse::<i32>().is_ok_and(|number| number > 0)).count()
}

/// The process that connected, whatever has become of its number.
fn process_of(socket: &impl AsFd) -> io::Result<OwnedFd> {
    let mut descriptor: libc::c_int = -1;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    let socket = socket.as_fd();
    // SAFETY: the buffer is an integer of the length given, and both outlive the call.
    let asked = check(
        unsafe {
            let value = (&raw mut descriptor).cast();
            libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_PEERPIDFD, value, &raw mut length)
        }
        .into(),
    );
    match asked {
        // SAFETY: the kernel just returned this descriptor to us.
        Ok(_) => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        // Before Linux 6.5 there is only the number.
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
            let number = Pid::from_raw(of(socket)?.pid).ok_or(io::ErrorKind::Unsupported)?;
            Ok(rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty())?)
        }
        Err(error) => Err(error),
    }
}

const SO_PEERPIDFD: libc::c_int = 77;

pub fn of(socket: impl AsFd) -> io::Result<Peer> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the buffer is a `ucred` of the length given, and both outlive the call.
    check(
        unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut credentials).cast(),
                &raw mut length,
            )
        }
        .into(),
    )?;
    Ok(Peer { pid: credentials.pid, uid: credentials.uid, gid: credentials.gid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_a_namespace_within_ours_has_more_numbers_than_one() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let descriptors = std::fs::File::open("/proc/self/fdinfo").unwrap();
        assert!(is_in_namespace(&ours, &descriptors).unwrap());
        assert_eq!(numbers_in("pos:\t0\nPid:\t41\nNSpid:\t41\t7\n"), 2);
        assert_eq!(numbers_in("pos:\t0\nPid:\t-1\nNSpid:\t-1\n"), 0);
    }
}
