//! A stack shows the same after some of its layers were merged: real mounts, random histories, everything compared.
//!
//! Each test that mounts has a mount namespace of its own, which needs root; otherwise it is skipped.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stdout, reason = "a skip says why")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps, XattrFlags, lgetxattr, llistxattr, lsetxattr, mkdirat,
    mknodat, openat, renameat_with, setxattr, statat, utimensat,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount, mount_change, move_mount, unmount,
};
use rustix::thread::UnshareFlags;
use whatif_layers::remove;
use whatif_layers::squash::{Merged, merge, policy};
use whatif_overlay::Format;

/// Enough to meet every rule of the look-up many times; a handful of seconds.
const HISTORIES: u64 = 40;

#[test]
fn any_run_of_roots_layers_can_be_merged() {
    for seed in 0..histories(HISTORIES) {
        random_history(Format::Trusted, seed);
    }
}

#[test]
fn any_run_of_a_users_layers_can_be_merged() {
    for seed in 0..histories(HISTORIES) {
        random_history(Format::User, seed);
    }
}

#[test]
fn any_run_of_fuse_layers_can_be_merged() {
    if Command::new("fuse-overlayfs").arg("--version").output().is_err() || !Path::new("/dev/fuse").exists() {
        println!("skipped: there is no fuse-overlayfs here");
        return;
    }
    // Of some stacks fuse-overlayfs itself cannot list all directories; nothing can be learnt from these.
    let histories = histories(HISTORIES / 4);
    let looked_at = (0..histories).filter(|seed| random_history(Format::Fuse, *seed)).count() as u64;
    assert!(looked_at * 2 > histories || !rustix::process::geteuid().is_root(), "only {looked_at} of {histories}");
}

/// `SQUASH_HISTORIES=1000` for a night's work.
fn histories(usual: u64) -> u64 {
    std::env::var("SQUASH_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Makes layers by working on real mounts, merges runs of them, and looks at every stack from all sides. Returns whether it
/// could.
fn random_history(format: Format, seed: u64) -> bool {
    let Some(mut world) = World::new(&format!("{format:?}-{seed}"), format) else { return false };
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
    // fuse-overlayfs takes a file for another one if an older layer has a link to both.
    let steps = if format == Format::Fuse { WITHOUT_HARD_LINKS } else { WITH_HARD_LINKS };
    work(&world.path("base"), 25, steps, &mut random);
    for _ in 0..2 + random.below(7) {
        world.add_layer(|root| {
            work(root, 12, steps, &mut random);
        });
    }

    let mut merged = world.stack.clone();
    let original = world.stack.clone();
    if format == Format::Fuse && !world.with_mount(&original, |root, _| can_be_listed(root)) {
        return false;
    }
    // Merged layers are merged again.
    for round in 0..2 {
        if merged.len() < 2 {
            break;
        }
        let start = random.below(merged.len() - 1);
        let run = start..start + 2 + random.below(merged.len() - start - 1);
        let what = format!("{format:?}, seed {seed}, round {round}: {run:?} of {}", merged.len());
        let (into, counts) = world.merge(&merged[run.clone()]);
        assert_eq!((counts.copied, counts.bytes), (0, 0), "{what}: everything can be linked here");
        merged.splice(run, [into]);

        let shows = |stack: &[PathBuf]| {
            let mut shown = world.with_mount(stack, |root, _| view(root));
            if format == Format::Fuse {
                // It numbers a file after the oldest layer that has something of that name, hidden or not.
                shown.values_mut().for_each(|node| node.inode = 0);
            }
            shown
        };
        assert_same(&shows(&original), &shows(&merged), &format!("{what}: as it is"));

        // A new head over it, with everything that renames, copies up and takes away.
        let next = random.clone();
        let after = |stack: &[PathBuf]| {
            let (outcomes, head) = world.with_mount(stack, |root, head| {
                let outcomes = if format == Format::Fuse { work_plainly(root) } else { work(root, 30, steps, &mut next.clone()) };
                (outcomes, head.to_owned())
            });
            (outcomes, without_times(shows(&[stack, &[head]].concat())))
        };
        let ((expected, before), (outcomes, now)) = (after(&original), after(&merged));
        assert_eq!(expected, outcomes, "{what}: the same calls succeed");
        assert_same(&before, &now, &format!("{what}: written to"));

        // Reality goes on, and what of it shows must not depend on the merge. fuse-overlayfs fails to list some such stacks.
        if format == Format::Fuse {
            continue;
        }
        work(&world.path("base"), 6, steps, &mut random);
        assert_same(&shows(&original), &shows(&merged), &format!("{what}: reality has changed"));
    }
    true
}

#[test]
fn five_hundred_layers_become_a_few() {
    let Some(mut world) = World::new("500", Format::Trusted) else { return };
    fs::write(world.path("base/kept"), "kept").unwrap();
    let mut tiers: Vec<u8> = Vec::new();
    let mut merged: Vec<PathBuf> = Vec::new();
    // The base is one of the 500 that the kernel takes.
    for number in 0..499 {
        let layer = world.path(&number.to_string());
        fs::create_dir_all(layer.join("directory")).unwrap();
        fs::write(layer.join("everywhere"), number.to_string()).unwrap();
        fs::write(layer.join("directory").join(number.to_string()), "").unwrap();
        if number > 0 {
            mknodat(CWD, layer.join("directory").join((number - 1).to_string()), FileType::CharacterDevice, Mode::empty(), 0)
                .unwrap();
        }
        world.stack.push(layer.clone());
        merged.push(layer);
        tiers.push(0);
        if let Some(run) = policy::due(&tiers) {
            let (into, _) = world.merge(&merged[run.clone()]);
            tiers.splice(run.clone(), [policy::merged(&tiers[run.clone()])]);
            merged.splice(run, [into]);
        }
    }
    assert!(merged.len() < 24, "{tiers:?}");
    let shows = |stack: &[PathBuf]| world.with_mount(stack, |root, _| view(root));
    let all = shows(&world.stack);
    assert_eq!(all[Path::new("everywhere")].content, b"498");
    assert_eq!(all.keys().filter(|path| path.starts_with("directory")).count(), 2, "the directory and the last file in it");
    assert_same(&all, &shows(&merged), "500 layers");
}

#[test]
fn renames_are_followed_through_the_run_and_out_of_it() {
    let Some(mut world) = World::new("renames", Format::Trusted) else { return };
    fs::create_dir_all(world.path("base/a/deep")).unwrap();
    fs::write(world.path("base/a/deep/real"), "from reality").unwrap();
    world.add_layer(|root| fs::write(root.join("a/one"), "1").unwrap());
    world.add_layer(|root| fs::rename(root.join("a"), root.join("b")).unwrap());
    world.add_layer(|root| {
        fs::create_dir(root.join("c")).unwrap();
        fs::rename(root.join("b/deep"), root.join("c/moved")).unwrap();
    });
    world.add_layer(|root| fs::rename(root.join("b"), root.join("a")).unwrap());
    let (into, _) = world.merge(&world.stack);
    let mark = |path: &str| attribute(&into.join(path), "trusted.overlay.redirect").map(|value| String::from_utf8(value).unwrap());
    assert_eq!(mark("c/moved").as_deref(), Some("/a/deep"), "it ends in reality, where nothing was renamed");
    assert_eq!(mark("a"), None, "back at its own name");
    let shown = world.with_mount(&[into], |root, _| view(root));
    assert_eq!(shown[Path::new("c/moved/real")].content, b"from reality");
    assert_eq!(shown[Path::new("a/one")].content, b"1");
    assert!(!shown.contains_key(Path::new("a/deep")) && !shown.contains_key(Path::new("b")));
}

#[test]
fn what_cannot_be_linked_is_copied_with_all_it_has() {
    let Some(world) = World::new("copied", Format::Trusted) else { return };
    let memory = world.path("memory");
    fs::create_dir(&memory).unwrap();
    mount("tmpfs", &memory, "tmpfs", MountFlags::empty(), None).unwrap();
    let layer = memory.join("layer");
    fs::create_dir_all(layer.join("directory")).unwrap();
    let file = layer.join("directory/file");
    let mut sparse = fs::File::create(&file).unwrap();
    sparse.write_all(b"begin").unwrap();
    sparse.set_len(64 << 20).unwrap();
    setxattr(&file, "trusted.mine", b"kept", XattrFlags::empty()).unwrap();
    lchown(&file, Some(1000), Some(1001)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4750)).unwrap();
    symlink("nowhere", layer.join("link")).unwrap();
    for (name, kind, device) in [
        ("pipe", FileType::Fifo, 0),
        ("socket", FileType::Socket, 0),
        ("null", FileType::CharacterDevice, 0x103),
        ("gone", FileType::CharacterDevice, 0),
    ] {
        mknodat(CWD, layer.join(name), kind, Mode::RUSR, device).unwrap();
    }
    let past = Timespec { tv_sec: 1_000_000_000, tv_nsec: 123 };
    for path in ["directory/file", "directory", "link", "pipe"] {
        let times = Timestamps { last_access: past, last_modification: past };
        utimensat(CWD, layer.join(path), &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }

    let into = world.path("merged");
    let counts = merge(std::slice::from_ref(&layer), &into, Format::Trusted).unwrap();
    assert_eq!((counts.files, counts.linked, counts.copied), (6, 0, 6));
    assert!(counts.bytes < 1 << 20, "holes are not written: {}", counts.bytes);
    let forget_inodes = |mut view: View| {
        view.values_mut().for_each(|node| node.inode = 0);
        view
    };
    assert_same(&forget_inodes(view(&layer)), &forget_inodes(view(&into)), "copied");
    assert!(fs::metadata(into.join("directory/file")).unwrap().blocks() < 2048, "still sparse");
    unmount(&memory, UnmountFlags::DETACH).unwrap();
}

#[test]
fn a_merge_is_whole_or_not_there() {
    let dir = directory("whole");
    let (layer, into, part) = (dir.join("layer"), dir.join("into"), dir.join("into.part"));
    fs::create_dir_all(layer.join("a")).unwrap();
    fs::write(layer.join("a/file"), "").unwrap();
    let layers = [layer.clone()];

    fs::create_dir_all(part.join("left by a crash")).unwrap();
    assert_eq!(merge(&layers, &into, Format::User).unwrap(), Merged { files: 1, linked: 1, copied: 0, bytes: 0 });
    assert!(!part.exists() && !into.join("left by a crash").exists() && into.join("a/file").exists());

    let error = merge(&layers, &into, Format::User).unwrap_err();
    assert_eq!(error.source.kind(), std::io::ErrorKind::AlreadyExists);

    fs::remove_dir_all(&into).unwrap();
    let error = merge(&[layer.clone(), dir.join("missing")], &into, Format::User).unwrap_err();
    assert!(error.to_string().ends_with("missing"), "{error}");

    setxattr(layer.join("a"), "user.overlay.redirect", b"../outside", XattrFlags::empty()).unwrap();
    let error = merge(&layers, &into, Format::User).unwrap_err();
    assert_eq!(error.path, layer.join("a"));
    assert!(!part.exists() && !into.exists());
    fs::remove_dir_all(&dir).unwrap();
}

/// fuse-overlayfs would take all of these for marks, and is not mounted over them for that. What they hide is still the sandbox's.
#[test]
fn what_a_program_can_make_is_no_mark_of_fuse() {
    let dir = directory("fuse-forged");
    let (newer, older, into) = (dir.join("newer"), dir.join("older"), dir.join("into"));
    for (path, content) in [
        ("older/d/low", "1"),
        ("older/e/low", "2"),
        ("older/g/low", "3"),
        ("older/f", "4"),
        ("newer/.wh.d", "5"),
        ("newer/d/high", "6"),
        ("newer/e/high", "7"),
        ("newer/g/.wh..wh..opq", ""),
        ("newer/empty", ""),
    ] {
        fs::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
        fs::write(dir.join(path), content).unwrap();
    }
    setxattr(newer.join("e"), "user.overlay.opaque", b"y", XattrFlags::empty()).unwrap();
    setxattr(newer.join("empty"), "user.overlay.whiteout", b"y", XattrFlags::empty()).unwrap();
    merge(&[newer, older], &into, Format::Fuse).unwrap();
    let files = view(&into).into_iter().filter(|(_, node)| node.mode & 0o170_000 == 0o100_000);
    let files: Vec<(String, Vec<u8>)> = files.map(|(path, node)| (path.display().to_string(), node.content)).collect();
    let all = [".wh.d", "d/high", "d/low", "e/high", "e/low", "empty", "f", "g/.wh..wh..opq", "g/low"];
    assert_eq!(files.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), all);
    assert_eq!(files.iter().flat_map(|(_, content)| content.clone()).collect::<Vec<u8>>(), b"5617243");
    for (path, name) in [("e", "user.overlay.opaque"), ("empty", "user.overlay.whiteout")] {
        assert_eq!(lgetxattr(into.join(path), name, &mut [0_u8; 8][..]), Ok(1), "{path}");
    }
    remove::tree(&dir).unwrap();
}

#[test]
fn no_depth_and_no_name_is_too_much() {
    const DEPTH: usize = 10_000;
    // In memory where there is some: deleting so many directories can take a disk minutes.
    let memory = PathBuf::from("/dev/shm");
    let dir = directory_in(&if memory.is_dir() { memory } else { std::env::temp_dir() }, "deep");
    let layers = [dir.join("newer"), dir.join("older")];
    for layer in &layers {
        fs::create_dir_all(layer).unwrap();
        let mut at = hold(CWD, layer.as_os_str().as_bytes());
        for _ in 0..DEPTH {
            mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = hold(&at, b"d");
        }
        let name = [b"\xff\n ", layer.file_name().unwrap().as_bytes()].concat();
        openat(&at, name, OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
    }
    let into = dir.join("into");
    assert_eq!(merge(&layers, &into, Format::User).unwrap().files, 2);
    let mut at = hold(CWD, into.as_os_str().as_bytes());
    for _ in 0..DEPTH {
        at = hold(&at, b"d");
    }
    for name in [&b"\xff\n newer"[..], b"\xff\n older"] {
        statat(&at, name, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
    remove::tree(&dir).unwrap();
}

fn hold(at: impl std::os::fd::AsFd, name: &[u8]) -> OwnedFd {
    openat(at, name, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()
}

fn directory(name: &str) -> PathBuf {
    directory_in(&std::env::temp_dir(), name)
}

fn directory_in(place: &Path, name: &str) -> PathBuf {
    let dir = place.join(format!("whatif-squash-{}-{name}", std::process::id()));
    let _ = remove::tree(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// A base and layers over it, bottom first, in a mount namespace of its own.
struct World {
    dir: PathBuf,
    format: Format,
    stack: Vec<PathBuf>,
    made: std::cell::Cell<usize>,
}

impl World {
    fn new(name: &str, format: Format) -> Option<Self> {
        if whatif_sys::namespaces::unshare(UnshareFlags::NEWNS).is_err() {
            println!("skipped: no mount namespace can be made here");
            return None;
        }
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        let world = Self { dir: directory(name), format, stack: Vec::new(), made: std::cell::Cell::new(0) };
        fs::create_dir(world.path("base")).unwrap();
        Some(world)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn fresh(&self, kind: &str) -> PathBuf {
        self.made.set(self.made.get() + 1);
        self.path(&format!("{kind}-{}", self.made.get()))
    }

    /// A new head, worked on and frozen.
    fn add_layer(&mut self, work: impl FnOnce(&Path)) {
        let head = self.with_mount(&self.stack, |root, head| {
            work(root);
            head.to_owned()
        });
        self.stack.push(head);
    }

    fn merge(&self, run: &[PathBuf]) -> (PathBuf, Merged) {
        let newest_first: Vec<PathBuf> = run.iter().rev().cloned().collect();
        let into = self.fresh("merged");
        let merged = merge(&newest_first, &into, self.format).unwrap();
        assert_eq!(merged.files, merged.linked + merged.copied);
        (into, merged)
    }

    /// Mounts a stack with an empty head.
    fn with_mount<T>(&self, stack: &[PathBuf], look: impl FnOnce(&Path, &Path) -> T) -> T {
        let (root, head, work) = (self.fresh("root"), self.fresh("head"), self.fresh("work"));
        for directory in [&root, &head, &work] {
            fs::create_dir(directory).unwrap();
        }
        let lowers: Vec<PathBuf> = stack.iter().rev().cloned().chain([self.path("base")]).collect();
        match self.format {
            Format::Fuse => mount_fuse(&lowers, &head, &work, &root),
            _ => mount_kernel(&lowers, &head, &work, &root, self.format),
        }
        let result = look(&root, &head);
        unmount_idle(&root);
        result
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            remove::tree(&self.dir).unwrap();
        }
    }
}

/// Not at once: what another test starts holds all our descriptors for a moment.
fn unmount_idle(root: &Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Err(errno) = unmount(root, UnmountFlags::empty()) {
        assert!(errno == Errno::BUSY && Instant::now() < deadline, "{} stays mounted: {errno}", root.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn mount_kernel(lowers: &[PathBuf], head: &Path, work: &Path, root: &Path, format: Format) {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).unwrap();
    let set = |key: &str, value: &Path| fsconfig_set_string(&context, key, value.to_str().unwrap()).unwrap();
    lowers.iter().for_each(|lower| set("lowerdir+", lower));
    set("upperdir", head);
    set("workdir", work);
    set("index", Path::new("off"));
    set("metacopy", Path::new("off"));
    match format {
        Format::User => fsconfig_set_flag(&context, "userxattr").unwrap(),
        _ => set("redirect_dir", Path::new("on")),
    }
    fsconfig_set_flag(&context, "volatile").unwrap();
    fsconfig_create(&context).unwrap();
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).unwrap();
    move_mount(&mount, "", CWD, root, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).unwrap();
}

fn mount_fuse(lowers: &[PathBuf], head: &Path, work: &Path, root: &Path) {
    let lowers: Vec<&str> = lowers.iter().map(|lower| lower.to_str().unwrap()).collect();
    let options = format!("lowerdir={},upperdir={},workdir={}", lowers.join(":"), head.display(), work.display());
    assert!(Command::new("fuse-overlayfs").arg("-o").arg(options).arg(root).status().unwrap().success());
}

/// Everything a program can see.
type View = BTreeMap<PathBuf, Node>;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    mode: u32,
    owner: (u32, u32),
    device: u64,
    /// Of files; directories that layers share have one of the mount's own.
    inode: u64,
    modified: (i64, i64),
    content: Vec<u8>,
    attributes: BTreeMap<OsString, Vec<u8>>,
}

fn view(root: &Path) -> View {
    let mut view = View::new();
    let mut pending = vec![root.to_owned()];
    while let Some(path) = pending.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap_or_else(|error| panic!("{} is listed: {error}", path.display()));
        let is_directory = metadata.is_dir();
        if is_directory {
            pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let content = match metadata.file_type() {
            kind if kind.is_symlink() => fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec(),
            kind if kind.is_file() => fs::read(&path).unwrap(),
            _ => Vec::new(),
        };
        let node = Node {
            mode: metadata.mode(),
            owner: (metadata.uid(), metadata.gid()),
            device: if metadata.file_type().is_char_device() { metadata.rdev() } else { 0 },
            inode: if is_directory { 0 } else { metadata.ino() },
            // The root has the time of the empty head that it is mounted with.
            modified: if path == root { (0, 0) } else { (metadata.mtime(), metadata.mtime_nsec()) },
            content,
            attributes: attributes(&path),
        };
        view.insert(path.strip_prefix(root).unwrap().to_owned(), node);
    }
    view
}

fn without_times(mut view: View) -> View {
    for node in view.values_mut() {
        (node.modified, node.inode) = ((0, 0), 0);
    }
    view
}

fn attributes(path: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let mut names = vec![0_u8; 4096];
    let length = llistxattr(path, &mut names[..]).unwrap();
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names
        .map(|name| (std::ffi::OsStr::from_bytes(name).to_owned(), attribute(path, std::str::from_utf8(name).unwrap()).unwrap()))
        .collect()
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0_u8; 4096];
    let length = lgetxattr(path, name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

fn assert_same(expected: &View, shown: &View, what: &str) {
    for path in expected.keys().chain(shown.keys()) {
        assert_eq!(expected.get(path), shown.get(path), "{what}: {}", path.display());
    }
}

/// A small generator with a seed, so that a failure can be had again.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Does random things to a tree with few names, so that they meet again and again. Returns what succeeded.
fn work(root: &Path, count: usize, steps: usize, random: &mut Random) -> Vec<Option<i32>> {
    (0..count).map(|_| step(root, steps, random).err().map(|error| error.raw_os_error().unwrap_or(-1))).collect()
}

/// Something new in each directory, something more or nothing more in each file. What more is asked of fuse-overlayfs 1.10
/// while it is mounted depends on its mood: it leaves out new files at names that an opaque directory hides further down.
fn work_plainly(root: &Path) -> Vec<Option<i32>> {
    let change = |(number, path): (usize, &PathBuf)| match number % 3 {
        _ if is_directory(path) => write(&path.join("new"), number),
        0 => fs::remove_file(path),
        _ => write(path, number),
    };
    paths(root).iter().enumerate().map(change).map(|result| result.err().and_then(|error| error.raw_os_error())).collect()
}

/// How many kinds of steps there are.
const WITHOUT_HARD_LINKS: usize = 20;
const WITH_HARD_LINKS: usize = 21;

fn step(root: &Path, steps: usize, random: &mut Random) -> std::io::Result<()> {
    let all: Vec<PathBuf> = paths(root);
    let directories: Vec<PathBuf> = all.iter().filter(|path| is_directory(path)).cloned().collect();
    let below_root: Vec<PathBuf> = directories.iter().filter(|path| *path != root).cloned().collect();
    let name = *random.pick(&["a", "b", "c", "d", ".wh", "\u{e4}\n"]);
    let place = random.pick(&directories).join(name);
    let any = random.pick(&all).clone();
    let moved = if below_root.is_empty() || random.below(3) == 0 { any.clone() } else { random.pick(&below_root).clone() };
    match random.below(steps) {
        0..=2 => write(&place, random.below(1000)),
        3 | 4 => fs::create_dir(&place),
        5 => fs::create_dir_all(place.join("a/b")).and_then(|()| write(&place.join("a/b/c"), 7)),
        6..=9 if moved != root => fs::rename(&moved, &place),
        10 if any != root => remove_any(&any),
        11 if moved != root => remove_any(&moved),
        12 if any != root => {
            // Something of another kind at the same name.
            let was_directory = is_directory(&any);
            remove_any(&any)?;
            if was_directory { write(&any, 1) } else { fs::create_dir(&any) }
        }
        13 if moved != root => remove_any(&moved).and_then(|()| fs::create_dir(&moved)).and_then(|()| write(&moved.join("a"), 3)),
        14 if moved != root && any != root => Ok(renameat_with(CWD, &moved, CWD, &any, RenameFlags::EXCHANGE)?),
        15 => {
            let mode = 0o700 + random.below(64) as u32;
            if any.is_symlink() { Ok(()) } else { fs::set_permissions(&any, fs::Permissions::from_mode(mode)) }
        }
        16 => lchown(&any, Some(random.below(5) as u32), Some(random.below(5) as u32)),
        17 => {
            // fuse-overlayfs takes this one for a mark when it is mounted again, so a sandbox is not mounted over it.
            let forged = if steps == WITHOUT_HARD_LINKS { "user.overlay.mine" } else { "user.overlay.opaque" };
            let names = ["user.mine", "trusted.mine", forged, "trusted.overlay.opaque", "trusted.overlay.redirect"];
            Ok(lsetxattr(&any, *random.pick(&names), b"y", XattrFlags::empty())?)
        }
        18 if random.below(2) == 0 => symlink(name, &place),
        18 => Ok(mknodat(CWD, &place, FileType::Fifo, Mode::RUSR, 0)?),
        20 => fs::hard_link(&any, &place),
        _ => {
            let time = Timespec { tv_sec: 1_000_000_000 + random.below(1000) as i64, tv_nsec: 0 };
            Ok(utimensat(CWD, &any, &Timestamps { last_access: time, last_modification: time }, AtFlags::SYMLINK_NOFOLLOW)?)
        }
    }
}

fn write(path: &Path, content: usize) -> std::io::Result<()> {
    // Neither through links, which could lead out, nor into pipes, which nobody reads.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    write!(OpenOptions::new().append(true).create(true).custom_flags(flags).open(path)?, "{content} ")
}

fn remove_any(path: &Path) -> std::io::Result<()> {
    if is_directory(path) { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

fn is_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

fn can_be_listed(root: &Path) -> bool {
    let is_listed = |path: &PathBuf| fs::read_dir(path).is_ok_and(|mut entries| entries.all(|entry| entry.is_ok()));
    paths(root).iter().filter(|path| is_directory(path)).all(is_listed)
}

/// Sorted, so that the same tree is worked on in the same way wherever it is mounted.
fn paths(root: &Path) -> Vec<PathBuf> {
    let mut paths = vec![root.to_owned()];
    let mut at = 0;
    while at < paths.len() {
        if is_directory(&paths[at]) {
            // fuse-overlayfs cannot always list what it was made to do a moment ago.
            let entries = fs::read_dir(&paths[at]).into_iter().flatten().map_while(Result::ok);
            let mut names: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            names.sort();
            paths.extend(names);
        }
        at += 1;
    }
    paths
}
