//! Inside the keeper: into the namespaces of the sandbox.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Gid, Uid};
use rustix::thread::{
    LinkNameSpaceType, UnshareFlags, move_into_link_name_space, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use whatif_sys::namespaces;
use whatif_types::{Identity, NetMode};

/// Descriptors of namespaces made beforehand; empty for an ordinary user, whose keeper makes its own.
#[derive(Debug, Default)]
pub struct Joined {
    pub user: Option<OwnedFd>,
    pub ipc: Option<OwnedFd>,
    pub uts: Option<OwnedFd>,
    pub net: Option<OwnedFd>,
}

/// Enters everything but the user namespace, which root enters last: until then its layers are put together with real rights.
pub fn join(prepared: &Joined, identity: Identity, net: NetMode) -> io::Result<()> {
    if identity.started_by_root() {
        let kinds = [
            (&prepared.ipc, LinkNameSpaceType::InterProcessCommunication),
            (&prepared.uts, LinkNameSpaceType::HostNameAndNISDomainName),
            (&prepared.net, LinkNameSpaceType::Network),
        ];
        for (namespace, kind) in kinds {
            if let Some(namespace) = namespace {
                move_into_link_name_space(namespace.as_fd(), Some(kind))?;
            }
        }
        namespaces::unshare(UnshareFlags::NEWCGROUP)?;
    } else {
        let mut flags = UnshareFlags::NEWIPC | UnshareFlags::NEWUTS | UnshareFlags::NEWCGROUP;
        if net == NetMode::None {
            flags |= UnshareFlags::NEWNET;
        }
        namespaces::unshare(flags)?;
    }
    if net == NetMode::None {
        whatif_sys::loopback::bring_up()?;
    }
    Ok(())
}

/// Root's last step into the sandbox: from here on it is root inside and nobody outside.
pub fn join_user_namespace(prepared: &Joined) -> io::Result<()> {
    let Some(user) = &prepared.user else { return Ok(()) };
    move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
    set_thread_groups(&[])?;
    set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
    set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?;
    Ok(())
}
