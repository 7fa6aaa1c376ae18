//! A task that does nothing but hold fresh namespaces open until somebody has joined them.
//!
//! When root starts a sandbox, its user namespace must exist before the keeper enters it: the layers are idmapped with it
//! while the keeper still is real root. A sleeping task that shares our memory is the cheapest owner such namespaces can have.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::check;

const STACK_SIZE: usize = 16 * 1024;

#[derive(Debug)]
pub struct Holder {
    pid: Pid,
    pidfd: OwnedFd,
    user_namespace: OwnedFd,
    /// The task runs on this; it must not be freed before the task is gone.
    _stack: Box<[u8]>,
}

impl Holder {
    /// Starts the task and gives its user namespace the maps `0 → base` for `count` ids.
    pub fn start(base: u32, count: u32) -> io::Result<Self> {
        let mut stack = vec![0_u8; STACK_SIZE].into_boxed_slice();
        let flags =
            libc::CLONE_VM | libc::CLONE_PIDFD | libc::CLONE_NEWUSER | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | libc::SIGCHLD;
        let mut pidfd: RawFd = -1;
        let parent = rustix::process::getpid().as_raw_nonzero().get() as usize;
        // SAFETY: the stack grows down from the end of an owned buffer that lives as long as the task (see `drop`); the
        // task only ever sleeps, so sharing memory with it cannot race. CLONE_PIDFD stores a descriptor in `pidfd`.
        let (pid, pidfd) = unsafe {
            let top = stack.as_mut_ptr().add(STACK_SIZE & !15).cast();
            let pid =
                check(libc::clone(sleep_for_ever, top, flags, std::ptr::without_provenance_mut(parent), &raw mut pidfd).into())?;
            (pid, OwnedFd::from_raw_fd(pidfd))
        };
        let pid = Pid::from_raw(pid as i32).ok_or(io::ErrorKind::InvalidData)?;
        let user_namespace = File::open(format!("/proc/{}/ns/user", pid.as_raw_nonzero()));
        let holder = Self { pid, pidfd, user_namespace: user_namespace?.into(), _stack: stack };
        let map = format!("0 {base} {count}\n");
        holder.write("uid_map", &map)?;
        holder.write("gid_map", &map)?;
        Ok(holder)
    }

    /// Stands for all its namespaces at once.
    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    #[must_use]
    pub fn user_namespace(&self) -> BorrowedFd<'_> {
        self.user_namespace.as_fd()
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        File::options().write(true).open(format!("/proc/{}/{file}", self.pid.as_raw_nonzero()))?.write_all(text.as_bytes())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It is our own unreaped child, so the pid cannot have been reused.
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

extern "C" fn sleep_for_ever(parent: *mut libc::c_void) -> libc::c_int {
    // SAFETY: system calls on this task alone; none touches memory.
    unsafe {
        // Nobody would end it if we were killed. The second look covers a death before the first call.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() as usize != parent.addr() {
            libc::_exit(0);
        }
        loop {
            libc::pause();
        }
    }
}
