//! What this machine offers this user, and if something is missing, why and what would help.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};

use crate::tables::{self, Hierarchy, Place};
use crate::unified::Unified;
use crate::{Scope, Version, freezer};

/// What a control group can limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    Memory,
    Pids,
    Cpu,
}

impl Resource {
    pub(crate) const ALL: [Resource; 3] = [Resource::Memory, Resource::Pids, Resource::Cpu];

    pub(crate) fn controller(self) -> &'static str {
        match self {
            Resource::Memory => "memory",
            Resource::Pids => "pids",
            Resource::Cpu => "cpu",
        }
    }

    fn is_in(self, controllers: &[String]) -> bool {
        controllers.iter().any(|c| c == self.controller())
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Resource::Memory => "memory",
            Resource::Pids => "the number of processes",
            Resource::Cpu => "processor time",
        })
    }
}

/// Why something is not there, and what would change that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    pub reason: String,
    pub fix: Option<String>,
}

impl Why {
    pub(crate) fn new(reason: impl Into<String>) -> Why {
        Why { reason: reason.into(), fix: None }
    }

    pub(crate) fn fix(self, fix: impl Into<String>) -> Why {
        Why { fix: Some(fix.into()), ..self }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// The control groups that can be used. Looking changes nothing.
#[derive(Debug)]
pub struct Found {
    v1: Vec<Legacy>,
    v2: Result<Unified, Why>,
    scope: Option<Scope>,
    /// Mount points below which groups of ours may be, also those made from elsewhere.
    pub(crate) searched: Vec<PathBuf>,
}

/// A v1 hierarchy with some of the controllers there is a use for.
#[derive(Debug)]
pub(crate) struct Legacy {
    pub controllers: Vec<String>,
    pub place: Result<Place, Why>,
}

impl Found {
    #[must_use]
    pub fn look() -> Found {
        let tables = fs::read("/proc/self/mountinfo").and_then(|mounts| Ok((mounts, fs::read("/proc/self/cgroup")?)));
        match tables {
            Ok((mountinfo, membership)) => Found::from_tables(&mountinfo, &membership),
            Err(error) => {
                let why = Why::new(format!("the kernel's tables of control groups cannot be read: {error}"));
                Found::nothing(why.fix("mount proc at /proc"))
            }
        }
    }

    fn from_tables(mountinfo: &[u8], membership: &[u8]) -> Found {
        match tables::hierarchies(mountinfo, membership) {
            Ok(hierarchies) => Found::from_hierarchies(hierarchies),
            Err(error) => Found::nothing(Why::new(error.to_string())),
        }
    }

    fn from_hierarchies(hierarchies: Vec<Hierarchy>) -> Found {
        let mut found = Found::nothing(Why::new("the kernel has no control groups").fix("use a kernel that has cgroup2"));
        // A controller is in one hierarchy at most. If v1 has them all, cgroup2 need not be looked at.
        let in_v1 = |resource: Resource| hierarchies.iter().any(|h| resource.is_in(&h.controllers));
        let freezes = |h: &Hierarchy| h.controllers.iter().any(|c| c == freezer::CONTROLLER);
        let all_in_v1 = Resource::ALL.into_iter().all(in_v1) && hierarchies.iter().any(freezes);
        for hierarchy in hierarchies {
            match hierarchy.version {
                Version::V1 if Resource::ALL.iter().any(|resource| resource.is_in(&hierarchy.controllers)) => {
                    found.searched.extend(hierarchy.place.iter().map(|place| place.mount_point.clone()));
                    let place = hierarchy.place.and_then(|place| writable(place, Version::V1, &hierarchy.controllers));
                    found.v1.push(Legacy { controllers: hierarchy.controllers, place });
                }
                Version::V1 if freezes(&hierarchy) => {
                    found.searched.extend(hierarchy.place.iter().map(|place| place.mount_point.clone()));
                }
                Version::V2 if !all_in_v1 => {
                    found.searched.extend(hierarchy.place.iter().map(|place| place.mount_point.clone()));
                    (found.v2, found.scope) = unified(hierarchy.place);
                }
                _ => {}
            }
        }
        found
    }

    fn nothing(why: Why) -> Found {
        Found { v1: Vec::new(), v2: Err(why), scope: None, searched: Vec::new() }
    }

    pub fn memory(&self) -> Result<Version, &Why> {
        self.of(Resource::Memory)
    }

    pub fn pids(&self) -> Result<Version, &Why> {
        self.of(Resource::Pids)
    }

    pub fn cpu(&self) -> Result<Version, &Why> {
        self.of(Resource::Cpu)
    }

    pub(crate) fn of(&self, resource: Resource) -> Result<Version, &Why> {
        match self.v1_with(resource) {
            Some(legacy) => legacy.place.as_ref().map(|_| Version::V1),
            None => self.v2.as_ref().and_then(|unified| unified.offers(resource)).map(|()| Version::V2),
        }
    }

    /// A way for an ordinary user to get control groups when this process may not have them as it is.
    #[must_use]
    pub fn scope(&self) -> Option<&Scope> {
        self.scope.as_ref()
    }

    pub(crate) fn v1_with(&self, resource: Resource) -> Option<&Legacy> {
        self.v1.iter().find(|legacy| resource.is_in(&legacy.controllers))
    }

    pub(crate) fn v2(&self) -> Option<&Unified> {
        self.v2.as_ref().ok().filter(|unified| unified.offers_any())
    }
}

/// Groups are made below the one this process is in, so that limits set from outside hold for them, too.
pub(crate) fn writable(place: Place, version: Version, controllers: &[String]) -> Result<Place, Why> {
    if !is_control_groups(&place.own) {
        return Err(hidden(&place));
    }
    if version == Version::V2 && !(may_write(&place.own) && may_write(&place.own.join("cgroup.procs"))) {
        let reason = format!("the control group {} is not delegated to this user", place.own.display());
        return Err(Why::new(reason).fix("run whatif as root, or in a control group that is delegated to this user"));
    }
    if !may_write(&place.own) {
        let reason = format!("cgroup v1 ({}) is for root only: {} cannot be written", controllers.join(","), place.own.display());
        return Err(Why::new(reason).fix("run whatif as root, or boot with cgroup2 (systemd.unified_cgroup_hierarchy=1)"));
    }
    Ok(place)
}

/// What cgroup2 offers; if that is not everything, perhaps it would in a scope.
fn unified(place: Result<Place, Why>) -> (Result<Unified, Why>, Option<Scope>) {
    let place = match place {
        Ok(place) if is_control_groups(&place.own) => place,
        Ok(place) => return (Err(hidden(&place)), None),
        Err(why) => return (Err(why), None),
    };
    let found = Unified::find(&place);
    let scope = if found.as_ref().is_ok_and(Unified::offers_all) { None } else { Scope::look(&place) };
    (found.map_err(|why| scope.as_ref().map_or(why.clone(), |scope| why.fix(scope.command_line()))), scope)
}

fn hidden(place: &Place) -> Why {
    Why::new(format!("the control group {} is hidden by another mount", place.own.display())).fix("unmount what lies over it")
}

/// Whether control groups are really what is seen at a path: a mount may lie over another.
pub(crate) fn is_control_groups(path: &Path) -> bool {
    version_at(path).is_some()
}

/// Whether cgroup2 is all there is on this machine. One look, for those to whom it would be a disappointment.
#[must_use]
pub fn is_unified() -> bool {
    version_at(Path::new("/sys/fs/cgroup")) == Some(Version::V2)
}

fn version_at(path: &Path) -> Option<Version> {
    match rustix::fs::statfs(path).ok()?.f_type.into() {
        0x0027_e0eb_i128 => Some(Version::V1),
        0x6367_7270_i128 => Some(Version::V2),
        _ => None,
    }
}

/// Asks with the effective identity, which is what counts later.
pub(crate) fn may_write(path: &Path) -> bool {
    rustix::fs::accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}
