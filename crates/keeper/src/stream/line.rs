//! The client's end of a stream: a unix socket in the sandbox's directory, as a keeper there would have it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::process::getuid;
use whatif_sys::peer;

use super::StreamError;
use super::mux::Side;
use super::relay::{Relay, Sharing};

/// Carries every connection to this socket over the stream, until the stream ends; says why it did. Only processes of the same user
/// are let in.
pub fn serve(listener: &OwnedFd, input: OwnedFd, output: OwnedFd) -> StreamError {
    match Relay::new(Side::Client, input, output, Sharing::Theirs) {
        Ok(mut relay) => {
            relay_all(listener, &mut relay).map_or_else(|errno| errno.into(), |()| relay.into_over().unwrap_or(StreamError::Closed))
        }
        Err(error) => error,
    }
}

fn relay_all(listener: &OwnedFd, relay: &mut Relay) -> rustix::io::Result<()> {
    while relay.over().is_none() || !relay.is_drained() {
        let mut fds = relay.poll_fds();
        let can_begin = relay.can_begin();
        if can_begin {
            fds.push(PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let knocks = can_begin && fds.last().is_some_and(|fd| !fd.revents().is_empty());
        if let Some(socket) = knocks.then(|| accept_with(listener, SocketFlags::CLOEXEC).ok()).flatten()
            && peer::of(&socket).is_ok_and(|peer| peer.uid == getuid().as_raw())
        {
            relay.begin(socket);
        }
        relay.work();
    }
    Ok(())
}
