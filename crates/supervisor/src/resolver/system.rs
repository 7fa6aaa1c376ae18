//! The host's two files, read again when they have changed.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::Files;
use super::hosts::Hosts;
use super::resolv_conf::Servers;

/// Block lists make for long files, but not for longer ones.
const LONGEST_FILE: u64 = 32 << 20;

#[derive(Debug)]
pub(super) struct System {
    files: Files,
    known: Mutex<Option<(Stamps, Arc<Known>)>>,
}

#[derive(Debug)]
pub(super) struct Known {
    pub(super) hosts: Hosts,
    pub(super) servers: Servers,
}

type Stamps = [Option<Stamp>; 2];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl System {
    pub(super) fn new(files: Files) -> Self {
        Self { files, known: Mutex::new(None) }
    }

    /// What the files say, and whether that is other than the last time.
    pub(super) fn read(&self) -> (Arc<Known>, bool) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Before they are read: a change meanwhile shows the next time.
        let stamps = [stamp(&self.files.hosts), stamp(&self.files.resolv_conf)];
        if let Some((old, known)) = known.as_ref()
            && *old == stamps
        {
            return (Arc::clone(known), false);
        }
        let hosts = Hosts::parse(&contents(&self.files.hosts));
        let servers = Servers::parse(&contents(&self.files.resolv_conf), interface_number);
        let fresh = Arc::new(Known { hosts, servers });
        *known = Some((stamps, Arc::clone(&fresh)));
        (fresh, true)
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    })
}

/// A file that cannot be read says nothing.
fn contents(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|file| file.take(LONGEST_FILE).read_to_end(&mut bytes)) {
        Ok(_) => bytes,
        Err(_) => Vec::new(),
    }
}

fn interface_number(name: &str) -> Option<u32> {
    let is_plain = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
    let text = is_plain.then(|| std::fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).ok())??;
    text.trim().parse().ok()
}
