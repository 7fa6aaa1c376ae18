//! Mounts a plan and moves into it. Runs inside the keeper, in mount and PID namespaces of its own, before any untrusted code.
//! (`view` mounts one and moves nowhere.)
//!
//! It reads as numbered steps. Everything outside that is needed later is opened before the first mount changes the view.

mod devices;
mod fuse;
mod kernel_views;
mod mask_layers;
mod mounts;
mod overlay;
pub mod restack;
mod trees;
mod verify;
pub mod view;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode};
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
use whatif_sys::mount::Reach;
use whatif_sys::overlay::Overlay;
use whatif_types::boot::{Boot, Protection};
use whatif_types::{Backend, Identity, PlaceKind};

pub use self::kernel_views::NewProc;
use self::mounts::{Clones, attach, attach_on, clone_at, clone_of, detached_tmpfs, make_read_only};

/// The step that failed, in words, and why.
#[derive(Debug, thiserror::Error)]
#[error("failed to {step}")]
pub struct AssembleError {
    pub step: String,
    pub cause: Cause,
    #[source]
    pub source: io::Error,
}

/// What kind of thing failed, for whoever could try another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The file system or kernel cannot map owners.
    IdMapping,
    /// The layers could not be mounted over each other.
    Layers,
    Other,
}

/// Names the step in an error: `.map_err(step("mount /proc"))`.
fn step<E: Into<io::Error>>(name: impl Into<String>) -> impl FnOnce(E) -> AssembleError {
    step_of(Cause::Other, name)
}

fn step_of<E: Into<io::Error>>(cause: Cause, name: impl Into<String>) -> impl FnOnce(E) -> AssembleError {
    let step = name.into();
    move |error| AssembleError { step, cause, source: error.into() }
}

/// Where the new root is put together, relative to the stage or to the underlay.
///
/// Like the other names in the underlay, none that the path of a state directory could begin with.
const ROOT: &str = ".root";
const UNDERLAY: &str = "underlay";
/// An empty directory of the underlay.
const NOTHING: &str = ".nothing";
const STATE: &str = "state";
const LAYERS: &str = "layers";
const MASKS: &str = "masks";

/// What came of mounting the places of a plan.
#[derive(Debug, Default)]
struct Mounted {
    protection: Protection,
    overlays: Vec<Overlay>,
    /// So many real directories were to be shown through overlays.
    shown: usize,
}

/// A sandbox's view that stands.
#[derive(Debug)]
pub struct Assembled {
    pub protection: Protection,
    /// Those that remember what was looked up in reality. Some lie beneath others, and nothing leads to them.
    pub overlays: Vec<Overlay>,
    /// A file system with nothing but a place for the root in it. The next root will be mounted at the same place (see `restack`):
    /// whoever is confined to what lies beneath this is confined to the sandbox, whatever its root is by then.
    pub underlay: OwnedFd,
    /// The project, if it is copy-on-write.
    pub project: Option<OwnedFd>,
    /// The sandbox's directory, read-only, for whoever measures its head. Nothing above it can be reached from there.
    pub head: Option<OwnedFd>,
}

/// Puts together what the sandbox sees and makes it the root of this mount namespace.
///
/// `user_namespace` is the one the sandbox will live in, when root starts it: layers are idmapped with it.
pub fn assemble(boot: &Boot, user_namespace: Option<BorrowedFd<'_>>, proc: &NewProc) -> Result<Assembled, AssembleError> {
    // 1. Nothing mounted from here on may show outside, nor the other way round.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(step("make mounts private"))?;

    // 2. Detached clones of everything real that is needed, while the real paths still mean what they say.
    let clones = Clones::open(boot, user_namespace)?;

    // 3. A stage over the sandbox's own directory, which nothing else needs by its path, and on it the place for the root.
    set_stage(&raise_stage(&boot.directory)?, &clones)?;
    let underlay = lay_underlay(boot.plan.backend).map_err(step("make an underlay"))?;

    // 4. The places of the plan, and what the kernel shows of itself.
    assume_ids(boot)?;
    mask_layers::make(&boot.masks, boot.identity)?;
    let (root, Mounted { mut protection, overlays, .. }) = put_together(boot, &clones, &Path::new(UNDERLAY).join(ROOT), &[])?;
    link_run(boot, &root);
    make_runtime_dir(boot, &root)?;
    devices::mount(boot, &root)?;
    protection.borrowed.extend(kernel_views::mount_proc(proc, &root, boot.identity)?);
    protection.borrowed.extend(kernel_views::mount_sys(&root, boot.net.is_own())?);

    if boot.plan.backend == Backend::Fuse {
        // Who serves the file systems in user space will find itself at the underlay, and works by way of /proc and by paths.
        let proc = clone_at(&root, Path::new("proc"), Reach::Recursive).map_err(step("clone /proc"))?;
        attach(&proc, CWD, &Path::new(UNDERLAY).join("proc")).map_err(step("mount a /proc for fuse-overlayfs"))?;
        fuse::keep_paths(&underlay).map_err(step("keep the head where fuse-overlayfs finds it"))?;
    }

    let head = if boot.measures_head { Some(head_to_look_at().map_err(step("open the head"))?) } else { None };

    // 5. The underlay takes the place of the old root, which is gone for good, and we enter the new one in it.
    rustix::process::fchdir(&underlay).map_err(step("enter the underlay"))?;
    rustix::process::pivot_root(".", ".").map_err(step("change the root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(step("detach the old root"))?;
    if boot.allows_userns {
        // Only who has the root of the whole mount namespace may make a user namespace.
        attach_on(&root, &underlay).map_err(step("put the new root over the underlay"))?;
    } else if boot.identity.started_by_root() || boot.plan.backend == Backend::Fuse {
        cover(&underlay).map_err(step("cover the underlay"))?;
    }
    rustix::process::fchdir(&root).map_err(step("enter the new root"))?;
    rustix::process::chroot(".").map_err(step("enter the new root"))?;

    // 6. Mounting "succeeds" in more ways than working.
    verify::plan(boot, &clones, &protection)?;
    let project = open_project(boot, &root, &protection);
    Ok(Assembled { protection, overlays, underlay, project, head })
}

fn open_project(boot: &Boot, root: &OwnedFd, protection: &Protection) -> Option<OwnedFd> {
    let place = boot.plan.place_of(&boot.project)?;
    let is_overlay = boot.plan.backend == Backend::Overlay
        && matches!(place.kind, PlaceKind::Writable { .. })
        && protection.read_only.iter().all(|(path, _)| *path != place.path);
    if is_overlay { mounts::target(root, relative(&boot.project)).ok() } else { None }
}

/// Mounted on the stage; the new root is mounted in it.
fn lay_underlay(backend: Backend) -> io::Result<OwnedFd> {
    let underlay = detached_tmpfs("mode=0755,size=4k", 0)?;
    for directory in [ROOT, "proc", NOTHING] {
        rustix::fs::mkdirat(&underlay, directory, Mode::from_raw_mode(0o755))?;
    }
    if backend == Backend::Fuse {
        fuse::make_room(&underlay)?;
    }
    make_read_only(&underlay, Reach::One)?;
    rustix::fs::mkdir(UNDERLAY, Mode::RWXU)?;
    attach(&underlay, CWD, Path::new(UNDERLAY))?;
    Ok(underlay)
}

fn head_to_look_at() -> io::Result<OwnedFd> {
    let state = rustix::fs::open(STATE, mounts::DIRECTORY, Mode::empty())?;
    let clone = clone_of(&state)?;
    make_read_only(&clone, Reach::One)?;
    Ok(clone)
}

/// Root inside may call chroot, and so can leave the root that it has. What lies behind it is an empty directory that cannot be
/// written: no other view of the sandbox, in which places and masks would be missing, and nothing of reality.
fn cover(underlay: &OwnedFd) -> io::Result<()> {
    let nothing = clone_at(underlay, Path::new(NOTHING), Reach::One)?;
    Ok(attach_on(&nothing, underlay)?)
}

/// A file system in memory on which everything is laid out.
fn raise_stage(at: &Path) -> Result<OwnedFd, AssembleError> {
    let stage = detached_tmpfs("mode=0700", 0).map_err(step("make a stage"))?;
    attach(&stage, CWD, at).map_err(step("mount the stage"))?;
    Ok(stage)
}

/// Enters the stage and brings in what comes from outside.
fn set_stage(stage: &OwnedFd, clones: &Clones) -> Result<(), AssembleError> {
    rustix::process::fchdir(stage).map_err(step("enter the stage"))?;
    for directory in [STATE, LAYERS] {
        rustix::fs::mkdir(directory, Mode::RWXU).map_err(step("fill the stage"))?;
    }
    attach(&clones.state, CWD, Path::new(STATE)).map_err(step("attach the head"))?;
    if let Some(layers) = &clones.layers {
        attach(layers, CWD, Path::new(LAYERS)).map_err(step("attach the layers"))?;
    }
    Ok(())
}

/// Overlays keep the credentials of who mounts them; over idmapped layers those must be ids the mapping knows.
fn assume_ids(boot: &Boot) -> Result<(), AssembleError> {
    let Identity::Mapped { base, .. } = boot.identity else { return Ok(()) };
    whatif_sys::filesystem_ids::assume(base, base).map_err(step("assume the sandbox's file ids"))
}

/// Mounts the places of the plan, parents first, after `assume_ids`. What lives in memory only may be `carried` over from another root.
fn put_together(
    boot: &Boot,
    clones: &Clones,
    at: &Path,
    carried: &[(PathBuf, OwnedFd)],
) -> Result<(OwnedFd, Mounted), AssembleError> {
    let mut mounted = Mounted::default();
    mounted.protection.shared.clone_from(&clones.shared);
    trees::mount_root(boot, clones, &boot.plan.places[0].kind, at, &mut mounted)?;
    let root = rustix::fs::open(at, mounts::DIRECTORY, Mode::empty()).map_err(step("open the new root"))?;
    for place in &boot.plan.places[1..] {
        match restack::carried(carried, &place.path) {
            Some(clone) => {
                let target = mounts::target(&root, relative(&place.path)).map_err(step("open a private place"))?;
                attach_on(clone, &target).map_err(step("carry over a private place"))?;
            }
            None => match trees::mount_place(boot, clones, (&root, at), place, &mut mounted) {
                // Reality has not waited for us.
                Err(_) if clones.lost(boot, place) => {}
                other => other?,
            },
        }
    }
    mask_layers::cover_files(&boot.masks, &root)?;
    Ok((root, mounted))
}

fn link_run(boot: &Boot, root: &OwnedFd) {
    for (link, target) in &boot.plan.run_links {
        let _ = rustix::fs::symlinkat(target, root, relative(link));
    }
}

fn make_runtime_dir(boot: &Boot, root: &OwnedFd) -> Result<(), AssembleError> {
    let Some(directory) = &boot.runtime_dir else { return Ok(()) };
    let in_memory = boot.plan.place_of(directory).is_some_and(|p| matches!(p.kind, PlaceKind::Private { .. }));
    if in_memory {
        mounts::make_directories(root.as_fd(), relative(directory), 0o755).map_err(step("make the runtime directory"))?;
        let own = (rustix::fs::Uid::from_raw(boot.identity.outer_uid()), rustix::fs::Gid::from_raw(boot.identity.outer_gid()));
        rustix::fs::chmodat(root, relative(directory), Mode::RWXU, rustix::fs::AtFlags::empty())
            .map_err(step("make the runtime directory"))?;
        rustix::fs::chownat(root, relative(directory), Some(own.0), Some(own.1), rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
            .map_err(step("make the runtime directory"))?;
    }
    Ok(())
}

/// A path of the sandbox, relative to its root.
fn relative(path: &Path) -> &Path {
    let stripped = path.strip_prefix("/").unwrap_or(path);
    if stripped.as_os_str().is_empty() { Path::new(".") } else { stripped }
}

/// The directory of a tree in the head, relative to the stage.
fn head_of(tree: usize) -> PathBuf {
    Path::new(STATE).join("head").join(tree.to_string())
}
