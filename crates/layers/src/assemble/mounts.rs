//! The few mount operations everything else is made of.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, DirEntry, Mode, OFlags, ResolveFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen, move_mount, open_tree,
};
use whatif_sys::absence::MeansAbsent;
use whatif_sys::mount::{self, Reach};
use whatif_types::boot::Boot;
use whatif_types::{Backend, Identity, LayerId, Place, PlaceKind};

use super::{AssembleError, Cause, step, step_of};

pub(super) const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Detached clones of real trees, by their path outside.
#[derive(Debug)]
pub(super) struct Clones {
    pub state: OwnedFd,
    /// All frozen layers, if the sandbox stands on any.
    pub layers: Option<OwnedFd>,
    trees: Vec<(PathBuf, OwnedFd)>,
    /// Places that reality removed after the plan was made, or that cannot be had apart from what lies around them.
    gone: Vec<PathBuf>,
    /// Read-only places that are among those, with the reason.
    pub shared: Vec<(PathBuf, String)>,
    /// Whether the clone of `/` has everything in it that is mounted in reality.
    pub root_is_whole: bool,
}

impl Clones {
    pub(super) fn open(boot: &Boot, user_namespace: Option<BorrowedFd<'_>>) -> Result<Self, AssembleError> {
        let mapped = matches!(boot.identity, Identity::Mapped { .. });
        let open = |path: &Path, recursive: bool, map: bool| -> Result<OwnedFd, AssembleError> {
            let clone = clone_real(path, recursive).map_err(step(format!("clone {}", path.display())))?;
            if let (true, Some(namespace)) = (map, user_namespace) {
                mount::map_ids(&clone, namespace)
                    .map_err(step_of(Cause::IdMapping, format!("map the owners of {}", path.display())))?;
            }
            Ok(clone)
        };
        let layers = if boot.stack.is_empty() { None } else { Some(open(&boot.layers, false, mapped)?) };
        if let Some(layers) = &layers {
            // Whatever happens above them, nothing may ever be written to them.
            make_read_only(layers, Reach::One).map_err(step("make the layers read-only"))?;
        }
        let state = open(&boot.directory, false, mapped)?;
        let mut clones = Self { state, layers, trees: Vec::new(), gone: Vec::new(), shared: Vec::new(), root_is_whole: false };
        for place in &boot.plan.places {
            let clone = match place.kind {
                // Nothing real is in a copy.
                PlaceKind::Writable { .. } if boot.plan.backend == Backend::Copy => continue,
                PlaceKind::Writable { .. } => open(&place.path, false, mapped),
                PlaceKind::ReadOnly if place.path == Path::new("/") => {
                    clones.root_is_whole = !boot.identity.started_by_root();
                    match open(&place.path, clones.root_is_whole, false) {
                        Err(error) if is_refusal(&error.source) => {
                            clones.root_is_whole = true;
                            clones.shared.push((place.path.clone(), error.source.to_string()));
                            open(&place.path, true, false)
                        }
                        other => other,
                    }
                }
                PlaceKind::ReadOnly if is_shown_by_root(boot, place) => open(&place.path, false, false),
                // A file system that cannot be idmapped is still worth reading.
                PlaceKind::ReadOnly => open(&place.path, false, mapped).or_else(|_| open(&place.path, false, false)),
                PlaceKind::Skeleton { .. } | PlaceKind::Private { .. } | PlaceKind::Hidden => continue,
            };
            match clone {
                Ok(clone) => clones.trees.push((place.path.clone(), clone)),
                Err(error) if error.source.means_absent() && clones.can_do_without(boot, place) => {
                    clones.gone.push(place.path.clone());
                }
                // Something may be mounted in it that an ordinary user must not look under.
                Err(error) if clones.root_is_whole && is_shown_by_root(boot, place) && is_refusal(&error.source) => {
                    clones.gone.push(place.path.clone());
                    clones.shared.push((place.path.clone(), error.source.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(clones)
    }

    /// Whether reality has removed what lay at a place of the plan that the sandbox can do without. What is mounted on a directory
    /// that is removed goes with it, at any moment.
    pub(super) fn lost(&self, boot: &Boot, place: &Place) -> bool {
        let is_removed = |clone: &OwnedFd| rustix::fs::fstat(clone).is_ok_and(|meta| meta.st_nlink == 0);
        self.gone.contains(&place.path) || (self.tree(&place.path).is_ok_and(is_removed) && self.can_do_without(boot, place))
    }

    /// Neither the project is in it, nor anything that the sandbox did.
    fn can_do_without(&self, boot: &Boot, place: &Place) -> bool {
        let holds_nothing = match place.kind {
            PlaceKind::ReadOnly => true,
            PlaceKind::Writable { tree } => {
                let part = tree.to_string();
                let layer = |id: &LayerId| self.layers.as_ref().is_some_and(|l| is_empty(l, &Path::new(id.as_str()).join(&part)));
                is_empty(&self.state, &Path::new("head").join(&part)) && boot.stack.iter().all(layer)
            }
            _ => false,
        };
        holds_nothing && !boot.project.starts_with(&place.path)
    }

    pub(super) fn tree(&self, path: &Path) -> io::Result<&OwnedFd> {
        self.trees.iter().find(|(p, _)| p == path).map(|(_, fd)| fd).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Whether a place is a part of the read-only `/` that could be shown with it.
fn is_shown_by_root(boot: &Boot, place: &Place) -> bool {
    let around = |path: &Path| boot.plan.place_of(path).is_some_and(|place| place.kind == PlaceKind::ReadOnly);
    place.kind == PlaceKind::ReadOnly && place.path.parent().is_some_and(|parent| parent.ancestors().all(around))
}

/// Whether the kernel will not do it, rather than being short of something: then a sandbox must not start with less protection.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let short_of = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOSPC, Errno::INTR];
    Errno::from_io_error(error).is_some_and(|errno| !short_of.contains(&errno))
}

/// What cannot be looked at may hold anything.
fn is_empty(at: &OwnedFd, path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::openat(at, path, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => return true,
        other => other.and_then(Dir::read_from),
    };
    let is_own = |entry: &DirEntry| matches!(entry.file_name().to_bytes(), b"." | b"..");
    directory.is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(|entry| is_own(&entry))))
}

fn clone_real(path: &Path, recursive: bool) -> rustix::io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    open_tree(CWD, path, flags)
}

/// A clone of an opened mount, without what is mounted beneath it.
pub(super) fn clone_of(mount: impl AsFd) -> rustix::io::Result<OwnedFd> {
    open_tree(mount, "", OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH)
}

/// A clone of something already inside the new root.
pub(super) fn clone_at(at: impl AsFd, path: &Path, reach: Reach) -> rustix::io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    if reach == Reach::Recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    open_tree(at, path, flags)
}

/// Mounts a detached tree on a path.
pub(super) fn attach(tree: &OwnedFd, at: impl AsFd, path: &Path) -> rustix::io::Result<()> {
    move_mount(tree, "", at, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// Mounts a detached tree on what an opened descriptor stands for.
pub(super) fn attach_on(tree: &OwnedFd, target: &OwnedFd) -> rustix::io::Result<()> {
    move_mount(tree, "", target, "", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH)
}

/// Opens a path of the new root to mount on. No link is followed: a head can contain any link its sandbox liked to make.
pub(super) fn target(root: impl AsFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Where the stage has an empty directory and an empty file to cover things with.
const COVERS: &str = "covers";

/// An empty directory or file that nobody can write, to be attached over something. Taken from the stage, on which we stand: before
/// Linux 6.15 only what is mounted somewhere can be cloned.
pub(super) fn cover(is_directory: bool) -> io::Result<OwnedFd> {
    match rustix::fs::mkdir(COVERS, Mode::RWXU) {
        Ok(()) => {
            let empty = detached_tmpfs("mode=0555,size=4k", 0)?;
            rustix::fs::mkdirat(&empty, "directory", Mode::from_raw_mode(0o555))?;
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(&empty, "file", flags, Mode::from_raw_mode(0o444))?;
            make_read_only(&empty, Reach::One)?;
            attach(&empty, CWD, Path::new(COVERS))?;
        }
        Err(rustix::io::Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let kind = if is_directory { "directory" } else { "file" };
    Ok(clone_at(CWD, &Path::new(COVERS).join(kind), Reach::One)?)
}

/// A file system in memory, not yet mounted anywhere. `options` are those of tmpfs, comma-separated.
pub(super) fn detached_tmpfs(options: &str, attributes: u32) -> rustix::io::Result<OwnedFd> {
    detached("tmpfs", options, MountAttrFlags::from_bits_retain(attributes) | MountAttrFlags::MOUNT_ATTR_NOSUID)
}

/// A file system of any kind, not yet mounted anywhere.
pub(super) fn detached(kind: &str, options: &str, attributes: MountAttrFlags) -> rustix::io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for option in options.split(',').filter(|o| !o.is_empty()) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        fsconfig_set_string(&context, key, value)?;
    }
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Makes the directories of a path that are missing.
pub(super) fn make_directories(root: BorrowedFd<'_>, path: &Path, mode: u32) -> rustix::io::Result<()> {
    let mut so_far = PathBuf::new();
    for part in path.components() {
        so_far.push(part);
        match rustix::fs::mkdirat(root, &so_far, Mode::from_raw_mode(mode)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

pub(super) fn make_read_only(tree: &OwnedFd, reach: Reach) -> io::Result<()> {
    mount::add_attributes(tree, mount::READ_ONLY | mount::NO_SUID | mount::NO_DEV, reach)
}
