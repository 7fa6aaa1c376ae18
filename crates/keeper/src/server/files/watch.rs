//! Tells clients what happens to files and directories, by the kernel's own queue.
//!
//! The queue is read only when the client has taken all that it was told. A client that is slow lets it fill up, and then the kernel
//! says so in it; that is passed on, so that nothing is ever missed without a word.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use super::place::{Trouble, open_path};
use super::text_of;
use crate::protocol::{FileReply, Happening, Reply, Text, What};
use crate::server::connections::Connections;

const MOST_CLIENTS: usize = 32;
const MOST_PATHS: usize = 1024;
/// Told at a time.
const MOST_TOLD: usize = 64;

const WATCHED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVE_SELF);

pub(in crate::server) struct Watches {
    watches: Vec<Watched>,
}

/// All that one client watches.
struct Watched {
    client: u64,
    queue: OwnedFd,
    /// With the number that the kernel has for it.
    paths: Vec<(i32, Text)>,
    /// The layers change, or have changed: what is watched is another file by now.
    is_outdated: bool,
}

impl Watches {
    pub(in crate::server) fn new() -> Self {
        Self { watches: Vec::new() }
    }

    pub(super) fn add(&mut self, client: u64, path: &Path) -> Result<(), Trouble> {
        let known = self.watches.iter().position(|watched| watched.client == client);
        let index = match known {
            Some(index) => index,
            None if self.watches.len() >= MOST_CLIENTS => return Err(Errno::MFILE.into()),
            None => {
                self.watches.push(Watched { client, queue: queue()?, paths: Vec::new(), is_outdated: false });
                self.watches.len() - 1
            }
        };
        let added = self.watches[index].add(path);
        if added.is_err() && known.is_none() {
            self.watches.remove(index);
        }
        added
    }

    pub(in crate::server) fn poll_fds<'a>(&'a self, connections: &'a Connections) -> impl Iterator<Item = PollFd<'a>> {
        let listening = self.watches.iter().filter(|watched| !watched.is_outdated && connections.has_taken_all(watched.client));
        listening.map(|watched| PollFd::from_borrowed_fd(watched.queue.as_fd(), PollFlags::IN))
    }

    pub(in crate::server) fn tell(&mut self, connections: &mut Connections) {
        for watched in &mut self.watches {
            if !watched.is_outdated && connections.has_taken_all(watched.client) {
                let happened = watched.take();
                if !happened.is_empty() {
                    connections.send(watched.client, &Reply::Files(FileReply::Happened(happened)), &[]);
                }
            }
        }
    }

    pub(in crate::server) fn client_left(&mut self, client: u64) {
        self.watches.retain(|watched| watched.client != client);
    }

    /// The layers change: nothing of the old ones is held.
    pub(in crate::server) fn let_go(&mut self) {
        for watched in &mut self.watches {
            watched.is_outdated = true;
            for (number, _) in &watched.paths {
                // The kernel may have let go of it already.
                let _ = inotify::remove_watch(&watched.queue, *number);
            }
        }
    }

    /// The layers have changed: the same paths are watched there.
    pub(in crate::server) fn watch_again(&mut self, connections: &mut Connections) {
        for watched in self.watches.iter_mut().filter(|watched| watched.is_outdated) {
            let mut happened = vec![Happening { path: None, name: None, what: What::Overflow, is_directory: false, cookie: None }];
            if let Ok(queue) = queue() {
                (watched.queue, watched.is_outdated) = (queue, false);
            }
            for (_, path) in std::mem::take(&mut watched.paths) {
                if watched.is_outdated || watched.add(&path.to_path()).is_err() {
                    happened.push(Happening { path: Some(path), name: None, what: What::Gone, is_directory: false, cookie: None });
                }
            }
            connections.send(watched.client, &Reply::Files(FileReply::Happened(happened)), &[]);
        }
    }
}

impl Watched {
    fn add(&mut self, path: &Path) -> Result<(), Trouble> {
        if self.paths.len() >= MOST_PATHS {
            return Err(Errno::NOSPC.into());
        }
        // The links of /proc are not followed, as far as they are there now; watching what one leads to harms nobody.
        drop(open_path(path, OFlags::empty())?);
        let number = inotify::add_watch(&self.queue, path, WATCHED)?;
        self.paths.push((number, Text::from(path)));
        Ok(())
    }

    fn take(&mut self) -> Vec<Happening> {
        let mut happened = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut queue = Reader::new(&self.queue, &mut buffer);
        // What was read with one call is taken whole.
        while happened.len() < MOST_TOLD || !queue.is_buffer_empty() {
            let Ok(event) = queue.next() else { break };
            let (flags, name) = (event.events(), event.file_name().map(text_of));
            let cookie = Some(event.cookie()).filter(|cookie| *cookie != 0);
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                happened.push(Happening { path: None, name: None, what: What::Overflow, is_directory: false, cookie: None });
                continue;
            }
            let number = event.wd();
            let what = [
                (ReadFlags::IGNORED, What::Gone),
                (ReadFlags::MOVE_SELF, What::MovedFrom),
                (ReadFlags::CREATE, What::Created),
                (ReadFlags::DELETE, What::Deleted),
                (ReadFlags::MODIFY, What::Modified),
                (ReadFlags::CLOSE_WRITE, What::Closed),
                (ReadFlags::ATTRIB, What::Attributes),
                (ReadFlags::MOVED_FROM, What::MovedFrom),
                (ReadFlags::MOVED_TO, What::MovedTo),
            ];
            // Of a deleted one, `Gone` follows.
            let Some((_, what)) = what.into_iter().find(|(flag, _)| flags.contains(*flag)) else { continue };
            let is_directory = flags.contains(ReadFlags::ISDIR);
            // The same file may be watched by several names.
            for (_, path) in self.paths.iter().filter(|(watched, _)| *watched == number) {
                let path = Some(path.clone());
                happened.push(Happening { path, name: name.clone(), what, is_directory, cookie });
            }
            if what == What::Gone {
                self.paths.retain(|(watched, _)| *watched != number);
            }
        }
        happened
    }
}

fn queue() -> rustix::io::Result<OwnedFd> {
    inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
}
