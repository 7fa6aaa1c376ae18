//! One sandbox's group: a directory in every hierarchy that is needed for what is wanted, made before anything runs in it.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::Pid;

use crate::error::on;
use crate::file::Dir;
use crate::found::{Found, Legacy, Resource};
use crate::meter::{self, Meter};
use crate::remove::remove_all;
use crate::tables::Place;
use crate::unified::Unified;
use crate::{CgroupError, Version, Wanted, limits, name};

/// Dropping it leaves the group as it is.
#[derive(Debug, Default)]
pub struct Group {
    places: Vec<PathBuf>,
    entrances: Vec<OwnedFd>,
    meters: Vec<(Meter, OwnedFd)>,
}

impl Group {
    /// Makes the directories and sets the limits. Touches only the hierarchies that `wanted` needs; on error nothing is left.
    pub fn make(found: &Found, name: &str, wanted: &Wanted) -> Result<Group, CgroupError> {
        name::check(name)?;
        let mut group = Group::default();
        for part in parts(found, wanted)? {
            if let Err(error) = group.add(&part, name, wanted) {
                // The directories are empty: that they go is as sure as it can be, and the first error is the one to report.
                let _ = group.remove();
                return Err(error);
            }
        }
        Ok(group)
    }

    /// A group for many sandboxes, which nobody removes: the one of this name, made or completed if need be. Its processes are no
    /// whole, so one that is killed takes no other with it.
    pub fn shared(found: &Found, name: &str, wanted: &Wanted) -> Result<Group, CgroupError> {
        name::check(name)?;
        let mut group = Group::default();
        for part in parts(found, wanted)? {
            group.join(&part, name, wanted)?;
        }
        Ok(group)
    }

    /// Moves a process and all its threads into it, from outside. In cgroup2, where it takes the kernel as long for a process that
    /// enters by itself.
    pub fn take(&self, pid: Pid) -> Result<(), CgroupError> {
        for (place, entrance) in self.places.iter().zip(&self.entrances) {
            rustix::io::write(entrance, pid.as_raw_nonzero().to_string().as_bytes()).map_err(on("move a process to", place))?;
        }
        Ok(())
    }

    /// Files to each of which a process with a single thread writes `0` to enter, before it becomes something else.
    #[must_use]
    pub fn entrances(&self) -> &[OwnedFd] {
        &self.entrances
    }

    /// Files to read the group with from where it cannot be opened, see [`crate::Meters`].
    #[must_use]
    pub fn meters(&self) -> &[(Meter, OwnedFd)] {
        &self.meters
    }

    /// Kills what is left in the group and removes it. For when nothing runs in it this is the quick way, because the
    /// directories are known.
    pub fn remove(&self) -> Result<(), CgroupError> {
        remove_all(&self.places)
    }

    fn join(&mut self, part: &Part<'_>, name: &str, wanted: &Wanted) -> Result<(), CgroupError> {
        let (version, resources) = part.limited();
        let (path, top) = match part {
            Part::V1 { place, .. } => (place.own.join(name), place.mount_point.clone()),
            Part::V2 { unified, .. } => (unified.parent().join(name), unified.parent()),
        };
        let dir = match Dir::open(path.clone()) {
            Err(error) if error.is_absence() => {
                // Another process may make it at the same moment.
                let made = match part {
                    Part::V1 { .. } => make_directory(&path),
                    Part::V2 { unified, .. } => unified.make(name).map(drop),
                };
                made.or_else(|error| if matches!(error, CgroupError::Exists { .. }) { Ok(()) } else { Err(error) })?;
                Dir::open(path.clone())?
            }
            opened => opened?,
        };
        if let Part::V2 { unified, .. } = part {
            unified.switch_on()?;
            // Within their directory groups are only weighed against each other.
            let (above, weight) = (Dir::open(unified.parent())?, Wanted { cpu_weight: wanted.cpu_weight, ..Wanted::default() });
            if weight.limits(Resource::Cpu) && !limits::is_set(&above, version, Resource::Cpu, &weight) {
                limits::set(&above, version, Resource::Cpu, &weight, &top)?;
            }
        }
        for resource in resources {
            if !limits::is_set(&dir, version, *resource, wanted) {
                limits::set(&dir, version, *resource, wanted, &top)?;
                if version == Version::V2 && *resource == Resource::Memory {
                    dir.write_if_there("memory.oom.group", "0")?;
                }
            }
        }
        let entrance = if version == Version::V1 { "tasks" } else { "cgroup.procs" };
        self.entrances.push(dir.file(entrance, OFlags::WRONLY)?);
        if resources.contains(&Resource::Memory) {
            self.meters.extend(meter::open_events(&dir, version));
        }
        self.places.push(path);
        Ok(())
    }

    fn add(&mut self, part: &Part<'_>, name: &str, wanted: &Wanted) -> Result<(), CgroupError> {
        let (path, top, controllers) = match part {
            Part::V1 { place, controllers, .. } => {
                let path = place.own.join(name);
                make_directory(&path)?;
                (path, place.mount_point.clone(), controllers.iter().map(String::as_str).collect())
            }
            Part::V2 { unified, .. } => {
                let path = unified.make(name)?;
                (path.clone(), path, Vec::new())
            }
        };
        self.places.push(path.clone());
        if let Part::V2 { unified, .. } = part {
            unified.switch_on()?;
        }
        let dir = Dir::open(path)?;
        let (version, resources) = part.limited();
        for resource in resources {
            limits::set(&dir, version, *resource, wanted, &top)?;
        }
        // In v1, a thread that enters by itself through `tasks` spares the whole machine a lock.
        let entrance = if version == Version::V1 { "tasks" } else { "cgroup.procs" };
        self.entrances.push(dir.file(entrance, OFlags::WRONLY)?);
        self.meters.extend(meter::open(&dir, version, &controllers));
        Ok(())
    }
}

/// What is needed of one hierarchy.
enum Part<'a> {
    V1 { place: &'a Place, controllers: &'a [String], resources: Vec<Resource> },
    V2 { unified: &'a Unified, resources: Vec<Resource> },
}

impl Part<'_> {
    fn limited(&self) -> (Version, &[Resource]) {
        match self {
            Part::V1 { resources, .. } => (Version::V1, resources),
            Part::V2 { resources, .. } => (Version::V2, resources),
        }
    }
}

fn parts<'a>(found: &'a Found, wanted: &Wanted) -> Result<Vec<Part<'a>>, CgroupError> {
    let mut parts = Vec::new();
    for resource in Resource::ALL.into_iter().filter(|resource| wanted.limits(*resource)) {
        match found.of(resource) {
            Ok(Version::V1) => need_v1(&mut parts, found, resource),
            Ok(Version::V2) => need_v2(&mut parts, found, resource),
            Err(why) => return Err(CgroupError::Unavailable { resource, why: why.clone() }),
        }
    }
    Ok(parts)
}

fn need_v1<'a>(parts: &mut Vec<Part<'a>>, found: &'a Found, resource: Resource) {
    let Some(Legacy { controllers, place: Ok(needed) }) = found.v1_with(resource) else { return };
    for part in parts.iter_mut() {
        if let Part::V1 { place, resources, .. } = part
            && *place == needed
        {
            resources.push(resource);
            return;
        }
    }
    parts.push(Part::V1 { place: needed, controllers, resources: vec![resource] });
}

fn need_v2<'a>(parts: &mut Vec<Part<'a>>, found: &'a Found, resource: Resource) {
    let Some(unified) = found.v2() else { return };
    for part in parts.iter_mut() {
        if let Part::V2 { resources, .. } = part {
            resources.push(resource);
            return;
        }
    }
    parts.push(Part::V2 { unified, resources: vec![resource] });
}

fn make_directory(path: &Path) -> Result<(), CgroupError> {
    fs::create_dir(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => CgroupError::Exists { path: path.to_owned() },
        _ => on("make", path)(error),
    })
}
