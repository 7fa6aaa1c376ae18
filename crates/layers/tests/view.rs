//! What a sandbox sees can be mounted from outside: no keeper, nothing entered.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;
use whatif_layers::assemble::view::View;
use whatif_sys::holder::Holder;
use whatif_types::boot::{COMMON_IDS, Masks, OWN_IDS, PROTOCOL_VERSION, Work};
use whatif_types::{Backend, Boot, Identity, NetMode, Place, PlaceKind, Plan, SandboxId};

/// Ids that nobody has.
const BASE: u32 = 0x6000_0000;
const COUNT: u32 = 0x0F00_0000;
const IDENTITY: Identity = Identity::Mapped { base: BASE, count: COUNT };
/// An ordinary user of reality.
const SOMEBODY: u32 = 1000;

#[test]
fn a_view_is_mounted_from_outside_with_the_owners_that_its_sandbox_knows() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root mounts views for others");
        return;
    }
    let world = World::new();
    // Mounts of a thread end with it.
    std::thread::scope(|scope| scope.spawn(|| world.look_from_outside()).join()).expect("it is as it should be");
    let made = fs::symlink_metadata(world.directory.join("head/0/made")).expect("it is in the head");
    assert_eq!((made.uid(), made.gid()), (0, 0), "what root inside made is root's on the disk");
    assert!(!world.project.join("made").exists() && world.project.join("theirs").exists(), "reality has none of it");
}

struct World {
    top: PathBuf,
    project: PathBuf,
    directory: PathBuf,
}

impl World {
    fn new() -> Self {
        // Not in /tmp: the view has one of its own.
        let top = PathBuf::from(format!("/var/tmp/whatif-view-{}", std::process::id()));
        let (project, directory) = (top.join("project"), top.join("state/sandbox"));
        for made in [&project, &top.join("seen"), &directory.join("head/0"), &directory.join("work/0")] {
            fs::create_dir_all(made).expect("the scratch directory is writable");
        }
        fs::write(project.join("mine"), "real\n").expect("it is writable");
        fs::write(project.join("theirs"), "real\n").expect("it is writable");
        chown(project.join("theirs"), Some(SOMEBODY), Some(SOMEBODY)).expect("we are root");
        Self { top, project, directory }
    }

    fn look_from_outside(&self) {
        let map = format!("0 {BASE} {OWN_IDS}\n{OWN_IDS} {} {}\n", COMMON_IDS + OWN_IDS, COUNT - OWN_IDS);
        let holder = Holder::start(&map, BASE).expect("namespaces can be made");
        whatif_sys::namespaces::unshare(UnshareFlags::NEWNS).expect("we are root");
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).expect("we are root");
        let before = mounts();
        let view = View::mount(&self.boot(), Some(holder.user_namespace().as_fd())).expect("it can be mounted");
        assert_eq!(mounts(), before, "nothing shows before it is attached");
        let seen = self.top.join("seen");
        view.attach(&seen).expect("it can be attached");

        let project = seen.join(self.project.strip_prefix("/").expect("it is absolute"));
        let owner = |name: &str| fs::symlink_metadata(project.join(name)).expect("it is seen").uid();
        assert_eq!(Some(owner("mine")), IDENTITY.outer(0), "root's is that of root inside");
        assert_eq!(Some(owner("theirs")), IDENTITY.outer(SOMEBODY), "and others' are theirs");
        assert_eq!(fs::read_to_string(project.join("mine")).expect("it is seen"), "real\n");
        let state = seen.join(self.top.strip_prefix("/").expect("it is absolute")).join("state");
        assert_eq!(fs::read_dir(state).expect("it is covered").count(), 0, "what is hidden is hidden");
        assert!(fs::write(seen.join("etc/made"), "").is_err(), "the rest is read-only");

        // As root inside.
        whatif_sys::filesystem_ids::assume(BASE, BASE).expect("we are root");
        fs::write(project.join("made"), "inside\n").expect("the project is writable");
        fs::remove_file(project.join("theirs")).expect("root inside may");
        assert_eq!(Some(owner("made")), IDENTITY.outer(0));
    }

    fn boot(&self) -> Boot {
        let place = |path: &Path, kind| Place { path: path.to_owned(), kind };
        let places = vec![
            place(Path::new("/"), PlaceKind::ReadOnly),
            place(&self.project, PlaceKind::Writable { tree: 0 }),
            place(&self.top.join("state"), PlaceKind::Hidden),
        ];
        Boot {
            version: PROTOCOL_VERSION,
            id: SandboxId::from_random([5; 12]),
            directory: self.directory.clone(),
            work: Work::default(),
            project: self.project.clone(),
            layers: self.top.join("layers"),
            stack: Vec::new(),
            masks: Masks::default(),
            plan: Plan { backend: Backend::Overlay, places, run_links: Vec::new() },
            identity: IDENTITY,
            net: NetMode::None,
            reach: Vec::new(),
            environment: Vec::new(),
            runtime_dir: None,
            measures_head: false,
            devices: Vec::new(),
            allows_userns: false,
            has_allotment: false,
            counts_sockets: false,
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.top);
    }
}

fn mounts() -> String {
    fs::read_to_string("/proc/thread-self/mountinfo").expect("there is a /proc")
}
