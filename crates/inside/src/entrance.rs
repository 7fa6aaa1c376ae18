//! Inside the helper that puts a sandbox on other layers: the way to the mounts of its keeper.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use whatif_keeper::{Channel, ChannelError};
use whatif_types::Identity;

#[derive(Debug)]
pub struct Entrance {
    user: OwnedFd,
    mount: OwnedFd,
    /// The keeper's root directory.
    root: OwnedFd,
}

impl Entrance {
    /// It came along with the first order.
    pub fn take(channel: &mut Channel) -> Result<Self, ChannelError> {
        let mut descriptor = || channel.take_descriptor().ok_or(ChannelError::Closed);
        Ok(Self { user: descriptor()?, mount: descriptor()?, root: descriptor()? })
    }

    /// The user namespace of the sandbox, with which its layers are idmapped.
    #[must_use]
    pub fn user_namespace(&self) -> BorrowedFd<'_> {
        self.user.as_fd()
    }

    /// An ordinary user owns the user namespaces of its sandboxes, and has every right in them. Root stays what it is.
    pub fn gain_rights(&self, identity: Identity) -> io::Result<()> {
        if identity.started_by_root() {
            return Ok(());
        }
        Ok(move_into_link_name_space(self.user.as_fd(), Some(LinkNameSpaceType::User))?)
    }

    /// Into the sandbox's mount namespace, and there to the root its keeper has. The calling process is not of much use afterwards.
    pub fn enter(&self) -> Result<(), (&'static str, io::Error)> {
        let at = |step: &'static str| move |errno: rustix::io::Errno| (step, errno.into());
        move_into_link_name_space(self.mount.as_fd(), Some(LinkNameSpaceType::Mount))
            .map_err(at("enter the sandbox's mount namespace"))?;
        rustix::process::fchdir(&self.root).map_err(at("enter the sandbox's root"))?;
        rustix::process::chroot(".").map_err(at("enter the sandbox's root"))
    }
}
