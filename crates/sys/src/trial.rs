//! Whether the kernel lets this process have what a sandbox begins with, by doing it in a child that is gone at once.

use std::ffi::CStr;
use std::io;

use rustix::process::{Pid, WaitOptions, waitpid};

use crate::check;

/// What was refused.
#[derive(Debug)]
pub enum Refused {
    /// A user namespace, or the others in it.
    Namespaces(io::Error),
    /// To mount something in them.
    Mounts(io::Error),
}

const NAMESPACES: i32 = 0;
const MOUNTS: i32 = 0x80;
const ERRNO: i32 = 0x7F;

/// Makes namespaces as an ordinary user does, and mounts in them.
pub fn of_namespaces() -> Result<(), Refused> {
    // SAFETY: the child makes system calls only, and ends without returning.
    let forked = check(unsafe { libc::fork() }.into()).map_err(Refused::Namespaces)?;
    if forked == 0 {
        // SAFETY: ends only this child.
        unsafe { libc::_exit(attempt()) }
    }
    let child = Pid::from_raw(forked as i32).ok_or_else(|| Refused::Namespaces(io::ErrorKind::InvalidData.into()))?;
    let ended = rustix::io::retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()));
    let ended = ended.map_err(|errno| Refused::Namespaces(errno.into()))?;
    // One that a filter killed has no code.
    let code = ended.and_then(|(_, status)| status.exit_status()).unwrap_or(NAMESPACES | libc::EPERM);
    let error = io::Error::from_raw_os_error(code & ERRNO);
    match code {
        0 => Ok(()),
        code if code & MOUNTS == 0 => Err(Refused::Namespaces(error)),
        _ => Err(Refused::Mounts(error)),
    }
}

/// The step and the error in one number, or 0.
fn attempt() -> i32 {
    const TMPFS: &CStr = c"tmpfs";
    let failed = |step: i32| step | (io::Error::last_os_error().raw_os_error().unwrap_or(libc::EPERM) & ERRNO);
    // SAFETY: plain system calls on constants; what they make goes with this child.
    unsafe {
        if libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID) == -1 {
            return failed(NAMESPACES);
        }
        let flags = libc::MS_REC | libc::MS_PRIVATE;
        if libc::mount(std::ptr::null(), c"/".as_ptr(), std::ptr::null(), flags, std::ptr::null()) == -1 {
            return failed(MOUNTS);
        }
        if libc::syscall(libc::SYS_fsopen, TMPFS.as_ptr(), 0) == -1 {
            return failed(MOUNTS);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_can_do_by_itself_can_be_tried() {
        // Whether it is allowed depends on the machine; util-linux is asked for the same.
        let mut asked = std::process::Command::new("unshare");
        asked.args(["--user", "--mount", "--pid", "--fork", "--propagation", "private", "true"]);
        let Ok(output) = asked.stderr(std::process::Stdio::null()).output() else { return };
        assert_eq!(of_namespaces().is_ok(), output.status.success());
    }
}
