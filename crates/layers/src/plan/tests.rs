use super::*;
use proptest::prelude::*;

fn mount(point: &str, fs_type: &str, read_only: bool) -> Mount {
    Mount { device: format!("1:{}", point.len()), root: "/".into(), mount_point: point.into(), read_only, fs_type: fs_type.into() }
}

fn nothing(_: &Path) -> Vec<PathBuf> {
    Vec::new()
}

struct Machine {
    mounts: Vec<Mount>,
    private: Vec<(PathBuf, u32)>,
    writable: Vec<PathBuf>,
}

impl Machine {
    fn new(extra: &[Mount]) -> Self {
        let mut mounts = vec![
            mount("/", "ext4", false),
            mount("/proc", "proc", false),
            mount("/sys", "sysfs", false),
            mount("/dev", "devtmpfs", false),
        ];
        mounts.extend_from_slice(extra);
        Self {
            mounts,
            private: vec![("/tmp".into(), 0o1777), ("/run".into(), 0o755)],
            writable: vec!["/home/ann".into(), "/var/tmp".into(), "/home/ann/src/p".into()],
        }
    }

    fn inputs(&self, as_root: bool) -> Inputs<'_> {
        Inputs {
            mounts: &self.mounts,
            file_mounts: &[],
            as_root,
            backend: Backend::Overlay,
            home: Path::new("/home/ann"),
            project: Path::new("/home/ann/src/p"),
            writable: &self.writable,
            private: &self.private,
            state_dir: Path::new("/home/ann/.local/state/whatif"),
            secrets: &[],
            known_trees: &[],
            subdirectories: &nothing,
            is_closed: &never,
            run_links: &[],
        }
    }
}

fn never(_: &Path) -> bool {
    false
}

fn kind(plan: &Plan, path: &str) -> PlaceKind {
    plan.place_of(Path::new(path)).unwrap().kind.clone()
}

#[test]
fn root_gets_everything_copy_on_write_and_pseudo_file_systems_are_left_out() {
    let machine = Machine::new(&[mount("/home", "xfs", false), mount("/boot", "ext4", true), mount("/dev/shm", "tmpfs", false)]);
    let plan = plan(&machine.inputs(true));
    assert_eq!(plan.places[0].path, Path::new("/"));
    assert_eq!(kind(&plan, "/etc/passwd"), PlaceKind::Writable { tree: 0 });
    assert_eq!(kind(&plan, "/home/ann/x"), PlaceKind::Writable { tree: 1 });
    assert_eq!(kind(&plan, "/boot/vmlinuz"), PlaceKind::ReadOnly);
    assert_eq!(kind(&plan, "/tmp/x"), PlaceKind::Private { mode: 0o1777 });
    assert!(!plan.places.iter().any(|p| p.path.starts_with("/dev")));
}

#[test]
fn a_user_gets_the_writable_trees_and_the_rest_read_only() {
    let machine = Machine::new(&[]);
    let plan = plan(&machine.inputs(false));
    assert_eq!(kind(&plan, "/etc/passwd"), PlaceKind::ReadOnly);
    assert_eq!(kind(&plan, "/home/bob/x"), PlaceKind::ReadOnly);
    assert!(matches!(kind(&plan, "/home/ann/src/p/x"), PlaceKind::Writable { .. }));
    assert!(matches!(kind(&plan, "/var/tmp/x"), PlaceKind::Writable { .. }));
    assert_eq!(plan.trees().count(), 2, "a project within the home needs no tree of its own");
}

#[test]
fn a_home_within_another_writable_tree_is_a_tree_of_its_own() {
    let mut machine = Machine::new(&[]);
    machine.writable = vec!["/var/tmp".into(), "/var/tmp/x/home".into()];
    let home = Path::new("/var/tmp/x/home");
    let plan = plan(&Inputs { home, project: home, ..machine.inputs(false) });
    let trees: Vec<&Path> = plan.trees().map(|(_, path)| path).collect();
    assert_eq!(trees, [Path::new("/var/tmp"), home]);
}

#[test]
fn what_is_hidden_does_not_become_a_tree_of_a_skeleton() {
    let machine = Machine::new(&[mount("/home/ann/mnt", "ext4", false)]);
    let children = |_: &Path| -> Vec<PathBuf> { vec!["/home/ann/mnt".into(), "/home/ann/.ssh".into(), "/home/ann/src".into()] };
    let secrets = [PathBuf::from("/home/ann/.ssh")];
    let plan = plan(&Inputs { subdirectories: &children, secrets: &secrets, ..machine.inputs(false) });
    assert!(matches!(kind(&plan, "/home/ann/.ssh/id"), PlaceKind::Skeleton { .. }), "absent from the copy of the level");
    assert!(matches!(kind(&plan, "/home/ann/src/x"), PlaceKind::Writable { .. }));
}

#[test]
fn a_home_with_a_mount_beneath_it_becomes_a_skeleton() {
    let machine = Machine::new(&[mount("/home/ann/mnt/disk", "ext4", false)]);
    let children = |path: &Path| -> Vec<PathBuf> {
        match path.to_str() {
            Some("/home/ann") => vec!["/home/ann/src".into(), "/home/ann/mnt".into()],
            Some("/home/ann/mnt") => vec!["/home/ann/mnt/disk".into(), "/home/ann/mnt/other".into()],
            Some("/") => Vec::new(),
            _ => panic!("asked for {path:?}, which has no mount beneath it"),
        }
    };
    let plan = plan(&Inputs { subdirectories: &children, ..machine.inputs(false) });
    assert!(matches!(kind(&plan, "/home/ann"), PlaceKind::Skeleton { .. }));
    assert!(matches!(kind(&plan, "/home/ann/mnt"), PlaceKind::Skeleton { .. }));
    for tree in ["/home/ann/src/p", "/home/ann/mnt/disk/x", "/home/ann/mnt/other"] {
        assert!(matches!(kind(&plan, tree), PlaceKind::Writable { .. }), "{tree}");
    }
}

/// Beside another mount, in a directory that all may write to.
#[test]
fn what_is_closed_to_the_user_is_no_tree() {
    let machine = Machine::new(&[mount("/var/tmp/disk", "ext4", false)]);
    let children = |_: &Path| -> Vec<PathBuf> { vec!["/var/tmp/disk".into(), "/var/tmp/mine".into(), "/var/tmp/private".into()] };
    let is_closed = |path: &Path| path.ends_with("private");
    let plan = plan(&Inputs { subdirectories: &children, is_closed: &is_closed, ..machine.inputs(false) });
    assert!(matches!(kind(&plan, "/var/tmp/mine"), PlaceKind::Writable { .. }));
    assert_eq!(kind(&plan, "/var/tmp/private"), PlaceKind::ReadOnly);
}

#[test]
fn a_project_in_tmp_is_put_back_on_top_of_the_private_tmp() {
    let machine = Machine::new(&[]);
    for as_root in [true, false] {
        let plan = plan(&Inputs { project: Path::new("/tmp/demo"), ..machine.inputs(as_root) });
        assert!(matches!(kind(&plan, "/tmp/demo/file"), PlaceKind::Writable { .. }));
        assert!(matches!(kind(&plan, "/tmp/other"), PlaceKind::Private { .. }));
    }
}

#[test]
fn what_lies_on_a_read_only_place_is_hidden_under_every_name() {
    let mut machine = Machine::new(&[]);
    machine.writable.clear();
    machine.mounts.push(Mount { root: "/home".into(), mount_point: "/mnt/alias".into(), ..machine.mounts[0].clone() });
    let secrets = [PathBuf::from("/home/ann/.ssh")];
    let plan = plan(&Inputs { secrets: &secrets, ..machine.inputs(false) });
    for path in ["/home/ann/.ssh", "/mnt/alias/ann/.ssh", "/mnt/alias/ann/.local/state/whatif", "/home/ann/.local/state/whatif"] {
        assert_eq!(kind(&plan, path), PlaceKind::Hidden, "{path}");
    }
}

#[test]
fn a_mount_of_the_secret_itself_is_hidden_too() {
    for as_root in [true, false] {
        let mut machine = Machine::new(&[]);
        machine.mounts.push(Mount { root: "/home/ann/.ssh".into(), mount_point: "/srv/keys".into(), ..machine.mounts[0].clone() });
        machine.writable.push("/srv/keys".into());
        let secrets = [PathBuf::from("/home/ann/.ssh")];
        let plan = plan(&Inputs { secrets: &secrets, ..machine.inputs(as_root) });
        assert_eq!(kind(&plan, "/srv/keys/id"), PlaceKind::Hidden, "as root: {as_root}");
    }
}

fn read_only_places(plan: &Plan) -> Vec<&str> {
    plan.places.iter().filter(|p| p.kind == PlaceKind::ReadOnly).filter_map(|p| p.path.to_str()).collect()
}

#[test]
fn directories_that_a_user_can_overlay_are_read_only_places_of_their_own() {
    let machine = Machine::new(&[mount("/srv", "xfs", false), mount("/var/lib/images/1", "ext4", true)]);
    let children = |path: &Path| -> Vec<PathBuf> {
        let names: &[&str] = match path.to_str() {
            Some("/") => &["dev", "etc", "home", "proc", "root", "srv", "tmp", "usr", "var"],
            Some("/var") => &["var/lib", "var/spool", "var/tmp"],
            _ => panic!("asked for {path:?}, which has no mount beneath it"),
        };
        names.iter().map(|name| Path::new("/").join(name)).collect()
    };
    let is_closed = |path: &Path| path == Path::new("/root");
    let plan = plan(&Inputs { subdirectories: &children, is_closed: &is_closed, ..machine.inputs(false) });
    assert_eq!(read_only_places(&plan), ["/", "/etc", "/home", "/srv", "/var/spool", "/var/lib/images/1"]);
}

#[test]
fn what_a_user_can_write_is_a_place_if_it_is_no_tree() {
    let mut machine = Machine::new(&[]);
    machine.writable.push("/usr/local".into());
    let children = |_: &Path| -> Vec<PathBuf> { vec!["/home".into(), "/usr".into()] };
    let plan = plan(&Inputs { backend: Backend::Copy, subdirectories: &children, ..machine.inputs(false) });
    assert_eq!(read_only_places(&plan), ["/", "/home", "/home/ann", "/usr/local", "/var/tmp"]);
}

#[test]
fn root_without_overlays_has_each_mount_as_a_place() {
    let machine = Machine::new(&[mount("/srv", "xfs", false), mount("/home/ann/src/p/data", "ext4", false)]);
    let plan = plan(&Inputs { backend: Backend::Copy, ..machine.inputs(true) });
    assert_eq!(read_only_places(&plan), ["/", "/srv", "/home/ann/src/p/data"]);
}

#[test]
fn what_is_mounted_in_a_copy_can_be_written_nowhere() {
    let machine = Machine::new(&[
        mount("/home/ann/src/p/data", "ext4", false),
        mount("/home/ann/src/p/data/deep", "xfs", false),
        mount("/home/ann/src/p/proc", "proc", false),
    ]);
    for (as_root, data) in [(true, PlaceKind::ReadOnly), (false, PlaceKind::Hidden)] {
        let plan = plan(&Inputs { backend: Backend::Copy, ..machine.inputs(as_root) });
        assert!(matches!(kind(&plan, "/home/ann/src/p/file"), PlaceKind::Writable { .. }));
        for path in ["/home/ann/src/p/data/x", "/home/ann/src/p/data/deep/x"] {
            assert_eq!(kind(&plan, path), data, "as root: {as_root}, {path}");
        }
        assert_eq!(kind(&plan, "/home/ann/src/p/proc"), PlaceKind::Hidden);
    }
}

#[test]
fn trees_keep_their_numbers_when_the_plan_is_made_again() {
    let machine = Machine::new(&[mount("/home", "xfs", false)]);
    let known = [PathBuf::from("/gone"), PathBuf::from("/home"), PathBuf::from("/")];
    let plan = plan(&Inputs { known_trees: &known, ..machine.inputs(true) });
    assert_eq!(kind(&plan, "/home/ann"), PlaceKind::Writable { tree: 1 });
    assert_eq!(kind(&plan, "/etc"), PlaceKind::Writable { tree: 2 });
}

#[test]
fn a_mount_behind_a_private_place_takes_no_number() {
    let machine =
        Machine::new(&[mount("/tmp", "tmpfs", false), mount("/run/user/0", "tmpfs", false), mount("/home", "xfs", false)]);
    let plan = plan(&machine.inputs(true));
    assert_eq!(plan.trees().collect::<Vec<_>>(), [(0, Path::new("/")), (1, Path::new("/home"))]);
}

fn any_path() -> impl Strategy<Value = PathBuf> {
    proptest::collection::vec("[a-c]", 1..4).prop_map(|parts| PathBuf::from(format!("/{}", parts.join("/"))))
}

proptest! {
    #[test]
    fn every_plan_is_ordered_unique_and_hides_the_state(
        points in proptest::collection::vec((any_path(), any::<bool>()), 0..6),
        writable in proptest::collection::vec(any_path(), 0..5),
        home in any_path(),
        project in any_path(),
        state in any_path(),
        as_root: bool,
    ) {
        let mut machine = Machine::new(&[]);
        for (index, (point, read_only)) in points.iter().enumerate() {
            machine.mounts.push(Mount { device: format!("9:{index}"), ..mount(point.to_str().unwrap(), "ext4", *read_only) });
        }
        machine.writable = writable;
        let children = |path: &Path| vec![path.join("a"), path.join("b"), path.join("c")];
        let inputs = Inputs { home: &home, project: &project, state_dir: &state, subdirectories: &children, ..machine.inputs(as_root) };
        let plan = plan(&inputs);

        prop_assert_eq!(&plan.places[0].path, Path::new("/"));
        for (index, place) in plan.places.iter().enumerate() {
            for later in &plan.places[index + 1..] {
                prop_assert_ne!(&place.path, &later.path);
                prop_assert!(!place.path.starts_with(&later.path), "{:?} comes before its parent {:?}", place.path, later.path);
            }
            prop_assert!(!MADE_ANEW.iter().any(|p| place.path.starts_with(p)));
            if let PlaceKind::Writable { .. } = place.kind {
                let real = mount_of(&machine.mounts, &place.path).unwrap();
                prop_assert!(!real.read_only || place.path == Path::new("/"), "{:?} is read-only in reality", place.path);
            }
        }
        let mut numbers: Vec<usize> = plan.trees().map(|(n, _)| n).collect();
        numbers.sort_unstable();
        numbers.dedup();
        prop_assert_eq!(numbers, (0..plan.trees().count()).collect::<Vec<_>>(), "the records count the trees that a plan has");
        // Never plainly visible: hidden, private, or within a tree whose mask layer holds a whiteout for it.
        prop_assert!(!matches!(plan.place_of(&state).unwrap().kind, PlaceKind::ReadOnly));
    }
}
