//! cgroup2: which ancestor of this process can carry the groups of sandboxes.
//!
//! A group that holds processes cannot share resources out among groups below it, so ours cannot be below the one this process
//! is in. And who moves a process must be allowed to write `cgroup.procs` of the nearest group above both ends. Both lead to the
//! same place: the highest ancestor that this user may write. There, one directory holds the groups of all sandboxes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::CgroupError;
use crate::error::on;
use crate::file::{Dir, peek};
use crate::found::{Resource, Why, may_write};
use crate::tables::Place;

/// The directory that holds the groups of all sandboxes.
const PARENT: &str = "whatif";

/// How often that directory may be taken away while a group is made in it.
const ATTEMPTS: usize = 100;

#[derive(Debug)]
pub(crate) struct Unified {
    base: PathBuf,
    memory: Result<(), Why>,
    pids: Result<(), Why>,
    cpu: Result<(), Why>,
}

impl Unified {
    pub fn find(place: &Place) -> Result<Unified, Why> {
        let candidates = ancestors(place).into_iter().filter(|group| may_carry(group)).map(Unified::at);
        // Of those that offer the same, the last wins, and they come from the bottom to the top.
        candidates.max_by_key(Unified::offered).ok_or_else(|| not_delegated(place))
    }

    pub fn offers(&self, resource: Resource) -> Result<(), &Why> {
        let offer = match resource {
            Resource::Memory => &self.memory,
            Resource::Pids => &self.pids,
            Resource::Cpu => &self.cpu,
        };
        offer.as_ref().copied()
    }

    pub fn offers_all(&self) -> bool {
        self.offered() == Resource::ALL.len()
    }

    pub fn offers_any(&self) -> bool {
        self.offered() > 0
    }

    /// Makes a group, and the directory for all of them if that is not there or goes at this moment because it is empty.
    pub fn make(&self, name: &str) -> Result<PathBuf, CgroupError> {
        let path = self.parent().join(name);
        let mut attempts = 0;
        loop {
            attempts += 1;
            match fs::create_dir(&path) {
                Ok(()) => return Ok(path),
                Err(error) if attempts < ATTEMPTS && is_gone(&error) => self.make_parent()?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(CgroupError::Exists { path }),
                Err(error) => return Err(on("make", &path)(error)),
            }
        }
    }

    /// Switches on, for all groups, the controllers that there are. To be done when a group is there, because then the directory
    /// cannot go any more.
    pub fn switch_on(&self) -> Result<(), CgroupError> {
        if self.is_on(&self.parent()) {
            return Ok(());
        }
        let controllers: Vec<String> = self.controllers_offered().map(|c| format!("+{c}")).collect();
        let controllers = controllers.join(" ");
        if !self.is_on(&self.base) {
            Dir::open(self.base.clone())?.write("cgroup.subtree_control", &controllers)?;
        }
        Dir::open(self.parent())?.write("cgroup.subtree_control", &controllers)
    }

    pub fn parent(&self) -> PathBuf {
        self.base.join(PARENT)
    }

    /// The controllers a group can hand on.
    pub fn controllers(group: &Path) -> Vec<String> {
        words(group, "cgroup.controllers")
    }

    fn at(group: PathBuf) -> Unified {
        let here = Unified::controllers(&group);
        let on = words(&group, "cgroup.subtree_control");
        let blocked = blocked(&group);
        let offer = |resource: Resource| {
            let is = |c: &String| c == resource.controller();
            match (here.iter().any(is), on.iter().any(is), &blocked) {
                (false, ..) => Err(missing(resource.controller(), &group)),
                (_, false, Some(why)) => Err(why.clone()),
                _ => Ok(()),
            }
        };
        let (memory, pids, cpu) = (offer(Resource::Memory), offer(Resource::Pids), offer(Resource::Cpu));
        Unified { base: group, memory, pids, cpu }
    }

    fn make_parent(&self) -> Result<(), CgroupError> {
        match fs::create_dir(self.parent()) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(on("make", &self.parent())(error)),
            _ => Ok(()),
        }
    }

    fn offered(&self) -> usize {
        self.controllers_offered().count()
    }

    fn controllers_offered(&self) -> impl Iterator<Item = &'static str> {
        Resource::ALL.into_iter().filter(|resource| self.offers(*resource).is_ok()).map(Resource::controller)
    }

    fn is_on(&self, group: &Path) -> bool {
        let on = words(group, "cgroup.subtree_control");
        self.controllers_offered().all(|wanted| on.iter().any(|c| c == wanted))
    }
}

/// From the group this process is in up to the mount point.
fn ancestors(place: &Place) -> Vec<PathBuf> {
    place.own.ancestors().take_while(|group| group.starts_with(&place.mount_point)).map(Path::to_owned).collect()
}

/// Making groups in it, moving processes between those below it, and switching controllers on takes write access to these.
fn may_carry(group: &Path) -> bool {
    may_write(group) && may_write(&group.join("cgroup.procs")) && may_write(&group.join("cgroup.subtree_control"))
}

/// Why no more controllers can be switched on in a group. The root, which alone has no type, is exempt from the rules.
fn blocked(group: &Path) -> Option<Why> {
    let kind = peek(group, "cgroup.type")?;
    if kind.trim() != "domain" {
        let why = Why::new(format!("the control group {} is a threaded one", group.display()));
        return Some(why.fix("run whatif in a control group without threaded ones above it"));
    }
    let procs = group.join("cgroup.procs");
    let holds_processes = peek(group, "cgroup.procs").is_none_or(|processes| !processes.is_empty());
    holds_processes.then(|| {
        Why::new(format!("the control group {} holds processes, so it cannot share resources out", group.display())).fix(format!(
            "move them down: mkdir {0}/init; for p in $(cat {1}); do echo $p > {0}/init/cgroup.procs; done",
            group.display(),
            procs.display()
        ))
    })
}

fn missing(controller: &str, group: &Path) -> Why {
    Why::new(format!("the {controller} controller is not available in the control group {}", group.display())).fix(format!(
        "switch it on in cgroup.subtree_control of the groups above (systemd: Delegate={controller} for user@.service), or enable it in the kernel (cgroup_enable={controller})"
    ))
}

fn not_delegated(place: &Place) -> Why {
    Why::new(format!(
        "no control group from {} up to {} is delegated to this user",
        place.own.display(),
        place.mount_point.display()
    ))
    .fix("run whatif as root, or in a control group that is delegated to this user")
}

/// What is being removed is not there any more, or not alive.
fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NODEV))
}

fn words(group: &Path, file: &str) -> Vec<String> {
    peek(group, file).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}
