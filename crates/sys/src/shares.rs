//! What the kernel counts per user of the host, and the part of it that sandboxes may use.
//!
//! | counted | by | bounded by |
//! | --- | --- | --- |
//! | POSIX timers and queued signals, message queues, locked segments, processes | user namespace, and its owner in the one above | limits while the namespace is made: `Counted`; timers and signals of one sandbox: `bound_objects` |
//! | inotify instances and watches | the same | `/proc/sys/user` of the namespace: `bound_watching` |
//! | descriptors in flight over unix sockets | uid | the sender's RLIMIT_NOFILE: `bound_objects` |
//! | pages pinned by MSG_ZEROCOPY | uid | the sender's RLIMIT_MEMLOCK: `bound_objects` |
//! | pages of pipes, descriptors watched by epoll | uid | nothing |
//!
//! The first kind is checked against the sum of the owner, so its bound holds for all sandboxes together.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::sync::{PoisonError, RwLock};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A quarter stays with the host.
fn share(limit: u64) -> u64 {
    limit - limit / 4
}

/// Limits belong to the whole process: one thread changes them at a time, and nobody starts what would keep them.
static CHANGING: RwLock<()> = RwLock::new(());

/// Runs what must find the limits of this process as they are, not as another thread needs them for a moment.
pub(crate) fn undisturbed<T>(act: impl FnOnce() -> T) -> T {
    let _unchanged = CHANGING.read().unwrap_or_else(PoisonError::into_inner);
    act()
}

/// Counted for a namespace and for its owner. A new namespace takes its maxima from the soft limits of the process that makes it.
const COUNTED: [Resource; 4] = [Resource::Sigpending, Resource::Msgqueue, Resource::Memlock, Resource::Nproc];

/// The soft limits as they were before they were lowered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted([Option<Rlimit>; COUNTED.len()]);

impl Counted {
    /// Runs what makes a user namespace while the soft limits are those that all sandboxes may use up together. It gets the
    /// limits of before, for a child to restore.
    pub(crate) fn lowered<T>(make: impl FnOnce(&Self) -> T) -> T {
        let _changing = CHANGING.write().unwrap_or_else(PoisonError::into_inner);
        let before = Self(COUNTED.map(|resource| {
            let limit = getrlimit(resource);
            let current = limit.current.map(share)?;
            setrlimit(resource, Rlimit { current: Some(current), ..limit }).ok()?;
            Some(limit)
        }));
        let made = make(&before);
        before.restore();
        made
    }

    /// Makes system calls only, for a child that must not allocate.
    pub(crate) fn restore(&self) {
        for (resource, limit) in COUNTED.into_iter().zip(&self.0) {
            // Raising a soft limit to what it was is never refused.
            let _ = limit.map(|limit| setrlimit(resource, limit));
        }
    }
}

/// The host's maximum for one user, and the file that sets the one of the namespace of the process that opens it.
const WATCHING: [(&str, &str); 2] = [
    ("/proc/sys/fs/inotify/max_user_instances", "/proc/sys/user/max_inotify_instances"),
    ("/proc/sys/fs/inotify/max_user_watches", "/proc/sys/user/max_inotify_watches"),
];

/// For a process in the user namespace of one sandbox, while it has every right there: a quarter of what the user may have. The
/// kernel has no bound for all namespaces of a user together.
pub fn bound_watching() -> io::Result<()> {
    for (of_user, of_namespace) in WATCHING {
        let mut digits = [0; 32];
        let length = File::open(of_user)?.read(&mut digits)?;
        let most = std::str::from_utf8(&digits[..length]).ok().and_then(|text| text.trim().parse::<u64>().ok());
        let most = most.ok_or(io::ErrorKind::InvalidData)?.div_ceil(4);
        File::options().write(true).open(of_namespace)?.write_all(most.to_string().as_bytes())?;
    }
    Ok(())
}

/// The soft limit most processes of the host have: it must stay above what all sandboxes can put in flight.
const USUAL_DESCRIPTORS: u64 = 1024;

/// What most processes of the host may lock, in bytes.
const USUAL_LOCKED: u64 = 8 << 20;

/// For a command that shares its uid with the host. Makes system calls only.
pub(crate) fn bound_objects() -> Result<(), Errno> {
    // A process may put descriptors in flight as long as those of its uid are no more than its own limit on open files: the hard
    // limit inside stays below the soft one outside. The quarter is more than one message can carry.
    let descriptors = getrlimit(Resource::Nofile);
    if let Some(soft) = descriptors.current {
        bound(Resource::Nofile, descriptors, share(soft.max(USUAL_DESCRIPTORS)))?;
    }
    // The same with pages that are pinned while they are sent.
    let locked = getrlimit(Resource::Memlock);
    bound(Resource::Memlock, locked, share(locked.current.unwrap_or(USUAL_LOCKED)))?;
    // One sandbox does not use up what all of them have together.
    let signals = getrlimit(Resource::Sigpending);
    match signals.current {
        Some(soft) => bound(Resource::Sigpending, signals, soft.div_ceil(4)),
        None => Ok(()),
    }
}

fn bound(resource: Resource, limit: Rlimit, most: u64) -> Result<(), Errno> {
    let within = |limit: Option<u64>| Some(limit.map_or(most, |l| l.min(most)));
    setrlimit(resource, Rlimit { current: within(limit.current), maximum: within(limit.maximum) })
}

/// Sends descriptors although others of this uid have put as many in flight as the soft limit allows.
pub fn send_in_any_case<T>(mut send: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    match send() {
        Err(Errno::TOOMANYREFS) => {}
        done => return done,
    }
    let _changing = CHANGING.write().unwrap_or_else(PoisonError::into_inner);
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    let sent = send();
    // Lowering it to what it was is never refused.
    let _ = setrlimit(Resource::Nofile, limit);
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_as_before_once_the_namespace_is_made() {
        let look = || COUNTED.map(getrlimit);
        let before = undisturbed(look);
        let meanwhile = Counted::lowered(|_| look());
        for (lowered, limit) in meanwhile.iter().zip(&before) {
            assert_eq!(lowered.current, limit.current.map(share));
        }
        assert_eq!(undisturbed(look), before);
    }

    #[test]
    fn what_all_sandboxes_put_in_flight_leaves_the_host_room_for_a_whole_message() {
        const MOST_IN_A_MESSAGE: u64 = 253;
        assert!(share(USUAL_DESCRIPTORS) + MOST_IN_A_MESSAGE <= USUAL_DESCRIPTORS);
    }
}
