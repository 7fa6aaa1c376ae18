//! The network of an instance as it is served from outside: what it sends, and the way to its ports.

use std::io;
use std::net::TcpStream;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use whatif_keeper::Client;
use whatif_keeper::client::ClientError;
use whatif_keeper::protocol::Reason;
use whatif_types::network::Role;

/// Who has this serves the network of an instance, and nobody else does until it is dropped.
#[derive(Debug)]
pub struct Ports {
    keeper: Client,
    listeners: Vec<(Role, OwnedFd)>,
}

impl Ports {
    pub(crate) fn claim(mut keeper: Client) -> Result<Option<Self>, ClientError> {
        match keeper.supervise() {
            Err(ClientError::Failed(failed)) if failed.reason == Reason::Supervised => Ok(None),
            listeners => Ok(Some(Self { listeners: listeners?, keeper })),
        }
    }

    /// A connection to whoever listens at this port of the loopback inside.
    pub fn dial(&mut self, port: u16, patience: Duration) -> io::Result<TcpStream> {
        let mut refused = io::Error::from(io::ErrorKind::NotConnected);
        for (socket, address) in self.keeper.sockets().map_err(io::Error::other)?.toward(port) {
            set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
            rustix::io::ioctl_fionbio(&socket, false)?;
            match rustix::net::connect(&socket, &address) {
                Ok(()) => return Ok(socket.into()),
                Err(errno) => refused = errno.into(),
            }
        }
        Err(refused)
    }

    /// At which everything arrives that is sent inside.
    pub fn listeners(&self) -> impl Iterator<Item = &OwnedFd> {
        self.listeners.iter().map(|(_, listener)| listener)
    }

    /// Says nothing by itself, and closes when the instance is gone.
    #[must_use]
    pub fn end(&self) -> BorrowedFd<'_> {
        self.keeper.as_fd()
    }

    /// For another process that is to serve it instead.
    #[must_use]
    pub fn into_descriptors(self) -> Vec<(Role, OwnedFd)> {
        let mut all = vec![(Role::Keeper, self.keeper.into_socket())];
        all.extend(self.listeners);
        all
    }
}
