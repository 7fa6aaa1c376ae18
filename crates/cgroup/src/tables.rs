//! The kernel's two tables about control groups, read as text: where hierarchies are mounted, and where this process is in them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use whatif_types::mountinfo::{self, MalformedMountInfo, Mount};

use crate::{Version, Why};

/// One hierarchy this process is in. cgroup2 is a hierarchy whose controllers are not named in the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    pub version: Version,
    pub controllers: Vec<String>,
    pub place: Result<Place, Why>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub mount_point: PathBuf,
    /// The directory of the group that this process is in, at or below the mount point.
    pub own: PathBuf,
}

/// A mount of control groups, with the options of its file system: for v1 the controllers are among them.
struct Mounted {
    mount: Mount,
    options: Vec<String>,
}

/// Joins `/proc/self/mountinfo` with `/proc/self/cgroup`.
pub(crate) fn hierarchies(mountinfo: &[u8], membership: &[u8]) -> Result<Vec<Hierarchy>, MalformedMountInfo> {
    let mounted = mounted(mountinfo)?;
    Ok(membership.split(|b| *b == b'\n').filter_map(|line| hierarchy(line, &mounted)).collect())
}

fn mounted(mountinfo: &[u8]) -> Result<Vec<Mounted>, MalformedMountInfo> {
    let lines = mountinfo.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    let mounts: Vec<(Mount, &[u8])> = mountinfo::parse(mountinfo)?.into_iter().zip(lines).collect();
    let on_top = |at: usize| !mounts[at + 1..].iter().any(|(later, _)| later.mount_point == mounts[at].0.mount_point);
    Ok((0..mounts.len())
        .filter(|at| matches!(mounts[*at].0.fs_type.as_str(), "cgroup" | "cgroup2") && on_top(*at))
        .map(|at| Mounted { mount: mounts[at].0.clone(), options: file_system_options(mounts[at].1) })
        .collect())
}

/// The last field of a line of mountinfo.
fn file_system_options(line: &[u8]) -> Vec<String> {
    let last = line.rsplit(|b| *b == b' ').next().unwrap_or_default();
    String::from_utf8_lossy(last).split(',').map(str::to_owned).collect()
}

/// Reads `id:controllers:path`. The path is not escaped and may have colons in it.
fn hierarchy(line: &[u8], mounted: &[Mounted]) -> Option<Hierarchy> {
    let mut fields = line.splitn(3, |b| *b == b':').skip(1);
    let controllers = String::from_utf8_lossy(fields.next()?).into_owned();
    let path = Path::new(OsStr::from_bytes(fields.next()?));
    let controllers: Vec<String> = controllers.split(',').filter(|c| !c.is_empty()).map(str::to_owned).collect();
    let version = if controllers.is_empty() { Version::V2 } else { Version::V1 };
    let of_it: Vec<&Mount> = mounted
        .iter()
        .filter(|m| match version {
            Version::V1 => m.mount.fs_type == "cgroup" && controllers.iter().all(|c| m.options.contains(c)),
            Version::V2 => m.mount.fs_type == "cgroup2",
        })
        .map(|m| &m.mount)
        .collect();
    let place = place(&of_it, path, &controllers);
    Some(Hierarchy { version, controllers, place })
}

/// Where the group at `path` of a hierarchy can be seen, preferably for writing.
fn place(mounts: &[&Mount], path: &Path, controllers: &[String]) -> Result<Place, Why> {
    let called = if controllers.is_empty() { "cgroup2".to_owned() } else { format!("the {} controller", controllers.join(",")) };
    if mounts.is_empty() {
        return Err(
            Why::new(format!("{called} is not mounted")).fix("mount it where this process can see it, below /sys/fs/cgroup")
        );
    }
    let visible: Vec<(&Mount, PathBuf)> = mounts.iter().filter_map(|m| own_directory(m, path).map(|own| (*m, own))).collect();
    match visible.iter().find(|(mount, _)| !mount.read_only) {
        Some((mount, own)) => Ok(Place { mount_point: mount.mount_point.clone(), own: own.clone() }),
        None if visible.is_empty() => Err(Why::new(format!("{called} is mounted without the group that this process is in"))
            .fix("mount it again from within this cgroup namespace")),
        None => Err(Why::new(format!("{called} is mounted read-only"))
            .fix("let the container write its control groups, or run whatif outside of it")),
    }
}

/// A root or path with `..` lies outside of this cgroup namespace: the names on the way to it are not known.
fn own_directory(mount: &Mount, path: &Path) -> Option<PathBuf> {
    let climbs = |p: &Path| p.components().any(|c| c == Component::ParentDir);
    if climbs(&mount.root) || climbs(path) {
        return None;
    }
    let below = path.strip_prefix(&mount.root).ok()?;
    Some(mount.mount_point.components().chain(below.components()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEMD_V2: &str = "\
        22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
        35 22 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";

    const HYBRID: &str = "\
        31 22 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
        33 31 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
        34 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw shared:12 master:3 - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    const HYBRID_MEMBERSHIP: &str = "9:memory:/user.slice/a:b\n8:cpu,cpuacct:/user.slice\n1:name=systemd:/user.slice/session-1.scope\n0::/user.slice/session-1.scope\n";

    fn read(mountinfo: &str, membership: &str) -> Vec<Hierarchy> {
        hierarchies(mountinfo.as_bytes(), membership.as_bytes()).unwrap()
    }

    fn with<'a>(hierarchies: &'a [Hierarchy], controller: &str) -> &'a Hierarchy {
        hierarchies.iter().find(|h| h.controllers.iter().any(|c| c == controller)).unwrap()
    }

    fn at(mount_point: &str, own: &str) -> Result<Place, Why> {
        Ok(Place { mount_point: mount_point.into(), own: own.into() })
    }

    fn reason(hierarchy: &Hierarchy) -> &str {
        &hierarchy.place.as_ref().unwrap_err().reason
    }

    #[test]
    fn pure_cgroup2() {
        let read = read(SYSTEMD_V2, "0::/user.slice/user-1000.slice/session-3.scope\n");
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].version, Version::V2);
        assert_eq!(read[0].place, at("/sys/fs/cgroup", "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope"));
    }

    #[test]
    fn a_process_in_the_root_has_the_mount_point_itself() {
        assert_eq!(read(SYSTEMD_V2, "0::/\n")[0].place, at("/sys/fs/cgroup", "/sys/fs/cgroup"));
    }

    #[test]
    fn both_versions_at_once_with_joined_controllers() {
        let read = read(HYBRID, HYBRID_MEMBERSHIP);
        let cpu = with(&read, "cpu");
        assert_eq!((cpu.version, cpu), (Version::V1, with(&read, "cpuacct")));
        assert_eq!(cpu.place, at("/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/user.slice"));
        assert_eq!(with(&read, "memory").place, at("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/user.slice/a:b"));
        assert_eq!(with(&read, "name=systemd").place.as_ref().unwrap().mount_point, Path::new("/sys/fs/cgroup/systemd"));
        let v2 = read.iter().find(|h| h.version == Version::V2).unwrap();
        assert_eq!(v2.place, at("/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/user.slice/session-1.scope"));
    }

    #[test]
    fn in_a_container_the_mount_is_a_part_of_the_hierarchy() {
        let mountinfo = "40 39 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        assert_eq!(read(mountinfo, "4:memory:/docker/abc\n")[0].place, at("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory"));
        assert_eq!(read(mountinfo, "4:memory:/docker/abc/x\n")[0].place, at("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/x"));
        for elsewhere in ["4:memory:/docker/abcd\n", "4:memory:/docker\n", "4:memory:/\n", "4:memory:/../other\n"] {
            assert!(reason(&read(mountinfo, elsewhere)[0]).contains("without the group"), "{elsewhere}");
        }
    }

    #[test]
    fn a_mount_from_outside_of_the_namespace_is_of_no_use() {
        let mountinfo = "40 39 0:32 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert!(reason(&read(mountinfo, "0::/\n")[0]).contains("without the group"));
    }

    #[test]
    fn of_several_mounts_the_one_that_shows_the_group_for_writing_is_taken() {
        let mountinfo = "\
            40 39 0:32 / /ro ro - cgroup2 cgroup2 rw\n\
            41 39 0:32 /other /part rw - cgroup2 cgroup2 rw\n\
            42 39 0:32 / /rw rw - cgroup2 cgroup2 rw\n";
        assert_eq!(read(mountinfo, "0::/me\n")[0].place, at("/rw", "/rw/me"));
        let read_only = mountinfo.lines().next().unwrap();
        assert!(reason(&read(read_only, "0::/me\n")[0]).contains("read-only"));
    }

    #[test]
    fn what_lies_under_another_mount_is_not_taken() {
        let mountinfo = "40 39 0:32 / /cg rw - cgroup2 cgroup2 rw\n41 40 0:33 / /cg rw - tmpfs tmpfs rw\n";
        assert!(reason(&read(mountinfo, "0::/\n")[0]).contains("not mounted"));
    }

    #[test]
    fn a_controller_that_is_mounted_nowhere_says_so() {
        let read = read(SYSTEMD_V2, "3:memory:/\n0::/\n");
        assert!(reason(with(&read, "memory")).contains("the memory controller is not mounted"));
        assert!(with(&read, "memory").place.as_ref().unwrap_err().fix.is_some());
    }

    #[test]
    fn no_control_groups_at_all() {
        assert!(read("22 1 254:1 / / rw - ext4 /dev/vda1 rw\n", "").is_empty());
    }

    #[test]
    fn names_are_unescaped_in_one_table_and_plain_in_the_other() {
        let mountinfo = "40 39 0:32 /a\\134x2db\\040c /my\\040groups rw - cgroup2 cgroup2 rw\n";
        assert_eq!(read(mountinfo, "0::/a\\x2db c/d e\n")[0].place, at("/my groups", "/my groups/d e"));
    }

    #[test]
    fn a_controller_is_not_taken_for_another_whose_name_it_begins() {
        let mountinfo = "40 39 0:32 / /cg rw - cgroup cgroup rw,cpuset\n41 39 0:33 / /cg2 rw - cgroup cgroup rw,cpuacct\n";
        assert!(reason(&read(mountinfo, "3:cpu:/\n")[0]).contains("not mounted"));
    }
}
