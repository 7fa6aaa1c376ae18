//! A lock on one byte of a file that belongs to an open file, and goes with the last descriptor of it.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::check;

/// Fails with `WouldBlock` if another open file has it.
pub fn take(file: impl AsFd, byte: i64) -> io::Result<()> {
    // SAFETY: a zeroed `flock` is a valid one.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = byte;
    lock.l_len = 1;
    // SAFETY: the structure outlives the call, which only reads it.
    check(unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) }.into())?;
    Ok(())
}
