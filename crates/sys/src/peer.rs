//! Who is at the other end of a unix socket. (rustix's type for it has no room for pid 0, which is what matters to us.)

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::check;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// 0 when the peer is not in our PID namespace.
    pub pid: i32,
    pub uid: u32,
    pub gid: u32,
}

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
