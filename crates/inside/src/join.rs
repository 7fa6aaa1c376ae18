//! Inside the keeper: into the namespaces of the sandbox.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Gid, Uid};
use rustix::thread::{
    LinkNameSpaceType, ThreadNameSpaceType, UnshareFlags, move_into_link_name_space, move_into_thread_name_spaces,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use whatif_layers::assemble::NewProc;
use whatif_sys::namespaces;
use whatif_sys::seccomp::OnlyIds;
use whatif_types::Identity;

/// Namespaces made beforehand, when root starts a sandbox. An ordinary user's keeper makes its own.
#[derive(Debug)]
pub struct Prepared {
    pub user: OwnedFd,
    /// The process that holds them all.
    pub holder: OwnedFd,
}

/// The least, the usual and the most of a connection in one direction.
const TCP_BUFFERS: &str = "4096 65536 1048576";

/// A network namespace of its own, with loopback. When root starts a sandbox, this one stays root's of the host: whoever is root
/// inside has no say in it, but may use every port, as everybody may.
pub fn make_network(proc: &NewProc) -> io::Result<()> {
    namespaces::unshare(UnshareFlags::NEWNET)?;
    // Where this cannot be written, low ports are closed inside.
    let _ = proc.set("net/ipv4/ip_unprivileged_port_start", "0");
    // All a sandbox talks to is on its loopback, where more is of no use; and what its sockets hold is taken from all of the
    // host's.
    for buffers in ["tcp_rmem", "tcp_wmem"] {
        let _ = proc.set(&format!("net/ipv4/{buffers}"), TCP_BUFFERS);
    }
    whatif_sys::loopback::bring_up()
}

/// An ordinary user's keeper is in its user namespace from birth. What is watched inside is taken from what the user has outside.
pub fn bound_own_namespace() {
    // Root's keeper still is in the host's.
    if !rustix::process::getuid().is_root() {
        // Where these settings are closed to us, in a container for example, the user's own maximum holds.
        let _ = whatif_sys::shares::bound_watching();
    }
}

/// The ids of an ordinary user, whose namespace maps no others. They are mapped before the keeper's program starts.
#[must_use]
pub fn only_ids() -> Option<OnlyIds> {
    let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
    // Root's keeper still is in the host's namespace.
    if uid.is_root() { None } else { Some(OnlyIds { uid: uid.as_raw(), gid: gid.as_raw() }) }
}

/// Enters everything but the user namespace, which root enters last: until then its layers are put together with real rights.
/// A network of its own has been made already.
pub fn join(prepared: Option<&Prepared>) -> io::Result<()> {
    let Some(prepared) = prepared else {
        return Ok(namespaces::unshare(UnshareFlags::NEWIPC | UnshareFlags::NEWUTS | UnshareFlags::NEWCGROUP)?);
    };
    let kinds = ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME;
    move_into_thread_name_spaces(prepared.holder.as_fd(), kinds)?;
    Ok(namespaces::unshare(UnshareFlags::NEWCGROUP)?)
}

/// Root's last step into the sandbox: from here on it is root inside and nobody outside.
pub fn join_user_namespace(prepared: Option<&Prepared>, identity: Identity) -> io::Result<()> {
    match prepared {
        Some(prepared) => {
            move_into_link_name_space(prepared.user.as_fd(), Some(LinkNameSpaceType::User))?;
            set_thread_groups(&[])?;
            set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)?;
            set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?;
            Ok(())
        }
        // Without one, root would stay root of the host.
        None if identity.started_by_root() => Err(io::Error::other("no user namespace was prepared")),
        None => Ok(()),
    }
}
