//! A task that does nothing but hold fresh namespaces open until somebody has joined them.
//!
//! When root starts a sandbox, its user namespace must exist before the keeper enters it: the layers are idmapped with it
//! while the keeper still is real root. A sleeping task that shares our memory is the cheapest owner such namespaces can have.

use std::fs::File;
use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::process::{Pid, Signal, Uid, WaitOptions, kill_process, waitpid};
use rustix::thread::{capabilities, set_capabilities, set_thread_res_uid};

use crate::check;
use crate::shares::Counted;

const STACK_SIZE: usize = 16 * 1024;

#[derive(Debug)]
pub struct Holder {
    pid: Pid,
    pidfd: OwnedFd,
    user_namespace: OwnedFd,
    /// The task runs on this; it must not be freed before the task is gone.
    _stack: Box<[MaybeUninit<u8>]>,
}

impl Holder {
    /// Starts the task and gives its user namespace this map, of uids and of gids. What is used up in the namespace is counted for
    /// `owner`, too.
    pub fn start(map: &str, owner: u32) -> io::Result<Self> {
        let mut stack = Box::<[u8]>::new_uninit_slice(STACK_SIZE);
        // It shares our table of descriptors: a copy would keep open what other threads close meanwhile, and their locks held.
        let flags = libc::CLONE_VM
            | libc::CLONE_FILES
            | libc::CLONE_PIDFD
            | libc::CLONE_NEWUSER
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS
            | libc::SIGCHLD;
        let mut pidfd: RawFd = -1;
        let parent = rustix::process::getpid().as_raw_nonzero().get() as usize;
        // SAFETY: the stack grows down from the end of an owned buffer that lives as long as the task (see `drop`); the
        // task only ever sleeps, so sharing memory with it cannot race. CLONE_PIDFD stores a descriptor in `pidfd`.
        let (pid, pidfd) = unsafe {
            let top = stack.as_mut_ptr().add(STACK_SIZE & !15).cast();
            let parent = std::ptr::without_provenance_mut(parent);
            let clone = || check(libc::clone(sleep_for_ever, top, flags, parent, &raw mut pidfd).into());
            let pid = Counted::lowered(|_| as_user(owner, clone))?;
            (pid, OwnedFd::from_raw_fd(pidfd))
        };
        let pid = Pid::from_raw(pid as i32).ok_or(io::ErrorKind::InvalidData)?;
        let user_namespace = File::open(format!("/proc/{}/ns/user", pid.as_raw_nonzero()));
        let holder = Self { pid, pidfd, user_namespace: user_namespace?.into(), _stack: stack };
        holder.write("uid_map", map)?;
        holder.write("gid_map", map)?;
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

/// Only this thread is another user meanwhile, and it has the same rights as before.
fn as_user<T>(uid: u32, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if uid == 0 {
        return act();
    }
    let before = capabilities(None)?;
    set_thread_res_uid(Uid::ROOT, Uid::from_raw(uid), Uid::ROOT)?;
    let done = set_capabilities(None, before).map_err(io::Error::from).and_then(|()| act());
    set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?;
    done
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

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    #[test]
    fn what_others_close_meanwhile_is_closed() {
        if !rustix::process::geteuid().is_root() {
            // Only root's sandboxes have such a task.
            return;
        }
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
        let _holder = Holder::start("0 0 1\n", 0).expect("root may");
        drop(writer);
        let mut awaited = [PollFd::new(&reader, PollFlags::IN)];
        poll(&mut awaited, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("it is ours");
        assert!(awaited[0].revents().contains(PollFlags::HUP), "the task holds the other end open");
    }
}
