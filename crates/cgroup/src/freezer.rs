//! The kernel's freezer: what is in a frozen group runs no instruction until it is thawed, whatever signals arrive.
//!
//! The group is made outside, where its files can be opened; the keeper inside gets them and holds with them ([`Freezer`]). It takes
//! processes in by their numbers as it sees them itself. Thawing from outside is for what a killed keeper left ([`thaw`]).

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::error::on;
use crate::file::{Dir, read_at_start, write_at_start};
use crate::found::{is_control_groups, writable};
use crate::tables::{self, Hierarchy, Place};
use crate::{CgroupError, Found, Version, Why, name, search};

pub(crate) const CONTROLLER: &str = "freezer";

/// Where a group can be made that freezes. Looking changes nothing.
#[derive(Debug)]
pub struct Site {
    version: Version,
    /// The group that ours will be in.
    above: PathBuf,
}

impl Site {
    /// Below the group that a process is in: what holds for that group goes on holding for what is taken into ours.
    pub fn look(beside: Pid) -> Result<Site, Why> {
        let read = |path: &str| fs::read(path).map_err(|e| Why::new(format!("{path} cannot be read: {e}")));
        let mountinfo = read("/proc/self/mountinfo")?;
        let membership = read(&format!("/proc/{}/cgroup", beside.as_raw_nonzero()))?;
        let hierarchies = tables::hierarchies(&mountinfo, &membership).map_err(|e| Why::new(e.to_string()))?;
        let (version, place, controllers) = choose(hierarchies)?;
        let above = writable(place, version, &controllers)?.own;
        Ok(Site { version, above })
    }

    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.above.join(name)
    }

    /// One of that name that is there already is used.
    pub fn make(&self, name: &str) -> Result<Freezer, CgroupError> {
        name::check(name)?;
        let path = self.path(name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(on("make", &path)(error)),
            _ => {}
        }
        Freezer::open(self.version, path, name)
    }
}

/// A controller is in one hierarchy at most; in cgroup2 every group can freeze.
fn choose(hierarchies: Vec<Hierarchy>) -> Result<(Version, Place, Vec<String>), Why> {
    let (old, new): (Vec<_>, Vec<_>) = hierarchies.into_iter().partition(|h| h.version == Version::V1);
    let chosen = old.into_iter().find(|h| h.controllers.iter().any(|c| c == CONTROLLER)).or_else(|| new.into_iter().next());
    let Hierarchy { version, controllers, place } = chosen.ok_or_else(|| Why::new("the kernel has no freezer"))?;
    Ok((version, place?, controllers))
}

/// The files of a group that freezes.
#[derive(Debug)]
pub struct Freezer {
    about: About,
    /// Takes processes in.
    entrance: OwnedFd,
    /// Lets a process with a single thread in by itself, at once: in v1 that spares the whole machine a lock.
    gate: Option<OwnedFd>,
    /// Freezes and thaws.
    switch: OwnedFd,
    /// Tells whether everything is frozen, if the switch does not.
    events: Option<OwnedFd>,
}

/// What has to be known about the files to use them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    version: Version,
    name: String,
}

impl Freezer {
    /// The group that limits a sandbox in cgroup2: everything that runs in the sandbox is in there anyway.
    pub fn of_group(found: &Found, name: &str) -> Result<(PathBuf, Freezer), CgroupError> {
        let can_freeze = |path: &PathBuf| fs::exists(path.join("cgroup.freeze")).unwrap_or(false);
        let path = search::named(found, name)?.into_iter().find(can_freeze);
        let path = path.ok_or_else(|| on("find", Path::new(name))(Errno::NOENT))?;
        Ok((path.clone(), Freezer::open(Version::V2, path, name)?))
    }

    fn open(version: Version, path: PathBuf, name: &str) -> Result<Freezer, CgroupError> {
        let dir = Dir::open(path)?;
        let entrance = dir.file("cgroup.procs", OFlags::WRONLY)?;
        let (switch, gate, events) = match version {
            Version::V1 => (dir.file("freezer.state", OFlags::RDWR)?, Some(dir.file("tasks", OFlags::WRONLY)?), None),
            Version::V2 => (dir.file("cgroup.freeze", OFlags::WRONLY)?, None, Some(dir.file("cgroup.events", OFlags::RDONLY)?)),
        };
        Ok(Freezer { about: About { version, name: name.to_owned() }, entrance, gate, switch, events })
    }

    /// As it was handed over.
    pub fn from_parts(about: About, descriptor: &mut dyn FnMut() -> Option<OwnedFd>) -> Option<Freezer> {
        let (entrance, switch, third) = (descriptor()?, descriptor()?, descriptor()?);
        let (gate, events) = match about.version {
            Version::V1 => (Some(third), None),
            Version::V2 => (None, Some(third)),
        };
        Some(Freezer { about, entrance, gate, switch, events })
    }

    #[must_use]
    pub fn about(&self) -> &About {
        &self.about
    }

    /// In the order in which they are taken.
    #[must_use]
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        [&self.entrance, &self.switch].into_iter().chain(&self.gate).chain(&self.events).map(AsFd::as_fd).collect()
    }

    /// A file to which a process with a single thread writes `0` to enter. [`Freezer::take`] waits for some milliseconds instead.
    #[must_use]
    pub fn gate(&self) -> Option<BorrowedFd<'_>> {
        self.gate.as_ref().map(AsFd::as_fd)
    }

    /// From here on what is in it stops, and what comes into it.
    pub fn freeze(&self) -> io::Result<()> {
        Ok(write_at_start(&self.switch, orders(self.about.version).0)?)
    }

    pub fn thaw(&self) -> io::Result<()> {
        Ok(write_at_start(&self.switch, orders(self.about.version).1)?)
    }

    /// Whether nothing in it runs any more.
    pub fn is_frozen(&self) -> io::Result<bool> {
        let text = read_at_start(self.events.as_ref().unwrap_or(&self.switch))?;
        Ok(says_frozen(self.about.version, &text))
    }

    /// Whether the group was removed.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.is_frozen().is_err()
    }

    /// Takes a process in with all its threads, by its number in the PID namespace of the caller. One that has ended is none.
    pub fn take(&self, pid: i32) -> io::Result<()> {
        match rustix::io::write(&self.entrance, pid.to_string().as_bytes()) {
            Err(Errno::SRCH) => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }

    /// Whether a process or thread is in it, by what its `/proc/<pid>/cgroup` says.
    #[must_use]
    pub fn holds(&self, membership: &str) -> bool {
        membership.lines().any(|line| is_in(&self.about, line))
    }
}

/// Thaws a group from outside, if it is there and one of control groups.
pub fn thaw(group: &Path) {
    if let Ok(dir) = Dir::open(group.to_owned())
        && is_control_groups(group)
    {
        thaw_in(&dir);
    }
}

pub(crate) fn thaw_in(dir: &Dir) {
    for (version, file) in [(Version::V1, "freezer.state"), (Version::V2, "cgroup.freeze")] {
        let _ = dir.write_if_there(file, orders(version).1);
    }
}

/// What is written to freeze and to thaw.
fn orders(version: Version) -> (&'static str, &'static str) {
    match version {
        Version::V1 => ("FROZEN", "THAWED"),
        Version::V2 => ("1", "0"),
    }
}

/// In v1 the switch says `FREEZING` until everything is.
fn says_frozen(version: Version, text: &str) -> bool {
    match version {
        Version::V1 => text.trim() == "FROZEN",
        Version::V2 => text.lines().any(|line| line == "frozen 1"),
    }
}

/// Reads `id:controllers:path`. The path begins wherever the reader's cgroup namespace does; only its end is known.
fn is_in(about: &About, line: &str) -> bool {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { return false };
    let is_meant = match about.version {
        Version::V1 => controllers.split(',').any(|c| c == CONTROLLER),
        Version::V2 => controllers.is_empty(),
    };
    is_meant && path.rsplit('/').next() == Some(&about.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(version: Version) -> About {
        About { version, name: "whatif-1-2-abc".to_owned() }
    }

    #[test]
    fn frozen_is_only_what_says_so_altogether() {
        assert!(says_frozen(Version::V1, "FROZEN\n"));
        assert!(!says_frozen(Version::V1, "FREEZING\n"));
        assert!(!says_frozen(Version::V1, "THAWED\n"));
        assert!(says_frozen(Version::V2, "populated 1\nfrozen 1\n"));
        assert!(!says_frozen(Version::V2, "populated 1\nfrozen 0\n"));
        assert!(!says_frozen(Version::V2, "populated 1\n"));
    }

    #[test]
    fn a_member_is_told_by_the_end_of_its_path_in_the_right_hierarchy() {
        let old = about(Version::V1);
        assert!(is_in(&old, "6:freezer:/../a/whatif-1-2-abc"));
        assert!(is_in(&old, "6:cpu,freezer:/whatif-1-2-abc"));
        assert!(!is_in(&old, "4:memory:/whatif-1-2-abc"));
        assert!(!is_in(&old, "6:freezer:/whatif-1-2-abc (deleted)"));
        assert!(!is_in(&old, "6:freezer:/whatif-1-2-abc/inner"));
        assert!(!is_in(&old, "0::/whatif-1-2-abc"));
        let new = about(Version::V2);
        assert!(is_in(&new, "0::/user.slice/a:b/whatif-1-2-abc"));
        assert!(!is_in(&new, "6:freezer:/whatif-1-2-abc"));
        assert!(!is_in(&new, "0::/whatif-1-2-abcd"));
    }

    #[test]
    fn the_old_freezer_comes_before_cgroup2_which_needs_none() {
        let place = |at: &str| Ok(Place { mount_point: at.into(), own: at.into() });
        let of = |version, controllers: &[&str], at: &str| Hierarchy {
            version,
            controllers: controllers.iter().map(|c| (*c).to_owned()).collect(),
            place: place(at),
        };
        let memory = || of(Version::V1, &["memory"], "/m");
        let chosen = choose(vec![of(Version::V2, &[], "/u"), memory(), of(Version::V1, &["freezer"], "/f")]).unwrap();
        assert_eq!((chosen.0, chosen.1), (Version::V1, place("/f").unwrap()));
        let chosen = choose(vec![memory(), of(Version::V2, &[], "/u")]).unwrap();
        assert_eq!((chosen.0, chosen.1), (Version::V2, place("/u").unwrap()));
        assert!(choose(vec![memory()]).is_err());
    }

    #[test]
    fn it_is_handed_over_by_stable_names() {
        let text = serde_json::to_string(&about(Version::V2)).unwrap();
        assert_eq!(text, r#"{"version":"v2","name":"whatif-1-2-abc"}"#);
        assert_eq!(serde_json::from_str::<About>(&text).unwrap(), about(Version::V2));
    }
}
