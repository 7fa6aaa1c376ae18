//! Notices that a client gives up while something is decided about it.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::net::TcpStream;

use crate::keeper::Keeper;
use crate::original_destination::canonical;

/// Asked of the kernel this often. Waiting for tokio would take away the readiness that those who read later wait for.
const INTERVAL: Duration = Duration::from_millis(250);

/// Returns when no process inside has the connection any more.
pub(super) async fn is_gone(client: &TcpStream, keeper: &Keeper) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        let seen = look(client);
        if seen.intersects(PollFlags::ERR | PollFlags::HUP) {
            return;
        }
        // A client that only says that it will send no more looks the same from here, and still waits for an answer.
        if seen.contains(PollFlags::RDHUP) && has_no_owner(client, keeper).await {
            return;
        }
    }
}

fn look(client: &TcpStream) -> PollFlags {
    let mut fds = [PollFd::from_borrowed_fd(client.as_fd(), PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut fds, Some(&now)) {
        Ok(_) => fds[0].revents(),
        Err(_) => PollFlags::empty(),
    }
}

/// False also where the keeper has no time to tell; it is asked again.
async fn has_no_owner(client: &TcpStream, keeper: &Keeper) -> bool {
    let Ok(from) = client.peer_addr().map(canonical) else { return true };
    matches!(keeper.who(from).await, Ok(None))
}
