//! Scenes on disk, trees to compare, and an archive writer that shares nothing with the one that is tested.
#![allow(dead_code, reason = "every test file uses its own part")]

pub mod raw;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use whatif_archive::{ArchiveError, Extracted, Layer, Limits, Options, Written, read, write};
use whatif_overlay::Format;

/// A directory of its own, removed at the end.
pub struct Scene {
    pub base: PathBuf,
}

impl Scene {
    pub fn new() -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let base = std::env::temp_dir().join(format!("whatif-archive-{}-{number}", std::process::id()));
        fs::create_dir(&base).unwrap();
        Self { base }
    }

    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.base.join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::process::Command::new("chmod").args(["-R", "u+rwx"]).arg(&self.base).output();
        let _ = fs::remove_dir_all(&self.base);
    }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The marks that whoever runs the test can set.
pub fn own_marks() -> Format {
    if is_root() { Format::Trusted } else { Format::User }
}

pub fn options() -> Options {
    Options { marks: own_marks(), keep_owners: is_root(), limits: Limits::default() }
}

pub fn layer(id: &str, directory: &Path) -> Layer {
    Layer {
        id: id.to_owned(),
        directory: directory.to_owned(),
        marks: own_marks(),
        copied: Vec::new(),
        instead: Vec::new(),
        without: Vec::new(),
    }
}

pub fn packed(layers: &[Layer]) -> (Vec<u8>, Written) {
    let mut bytes = Vec::new();
    let written = write(&mut bytes, serde_json::json!({"made": "by a test"}), layers, &mut |_| {}).unwrap();
    (bytes, written)
}

pub fn unpacked(archive: &[u8], into: &Path, options: &Options) -> Result<Extracted, ArchiveError> {
    read(archive, into, options, |_| Ok(()), &mut |_| {}).map(|(extracted, ())| extracted)
}

/// Everything about an entry that can be compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    pub kind: char,
    pub mode: u32,
    pub owner: (u32, u32),
    pub mtime: (i64, i64),
    pub content: Vec<u8>,
    pub device: u64,
    pub attributes: BTreeMap<OsString, Vec<u8>>,
    /// The first path of the same file.
    pub first_name: PathBuf,
}

pub fn snapshot(root: &Path) -> BTreeMap<PathBuf, Shown> {
    let (mut shown, mut names) = (BTreeMap::new(), BTreeMap::new());
    look(root, Path::new(""), &mut shown, &mut names);
    shown
}

fn look(root: &Path, path: &Path, shown: &mut BTreeMap<PathBuf, Shown>, names: &mut BTreeMap<(u64, u64), PathBuf>) {
    let full = if path.as_os_str().is_empty() { root.to_owned() } else { root.join(path) };
    let metadata = fs::symlink_metadata(&full).unwrap();
    let kind = metadata.file_type();
    let (letter, content) = match kind {
        _ if kind.is_dir() => ('d', Vec::new()),
        _ if kind.is_file() => ('f', fs::read(&full).unwrap()),
        _ if kind.is_symlink() => ('l', fs::read_link(&full).unwrap().into_os_string().into_vec()),
        _ if kind.is_fifo() => ('p', Vec::new()),
        _ if kind.is_char_device() => ('c', Vec::new()),
        _ => ('?', Vec::new()),
    };
    let is_shared = letter == 'f' && metadata.nlink() > 1;
    let first_name = match is_shared {
        true => names.entry((metadata.dev(), metadata.ino())).or_insert_with(|| path.to_owned()).clone(),
        false => path.to_owned(),
    };
    let entry = Shown {
        kind: letter,
        mode: metadata.permissions().mode() & 0o7777,
        owner: (metadata.uid(), metadata.gid()),
        mtime: (metadata.mtime(), metadata.mtime_nsec()),
        content,
        device: metadata.rdev(),
        attributes: if letter == 'l' { BTreeMap::new() } else { attributes(&full) },
        first_name,
    };
    shown.insert(path.to_owned(), entry);
    if letter == 'd' {
        let mut children: Vec<OsString> = fs::read_dir(&full).unwrap().map(|e| e.unwrap().file_name()).collect();
        children.sort();
        for child in children {
            look(root, &path.join(child), shown, names);
        }
    }
}

fn attributes(path: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let mut list = vec![0; 65_536];
    let length = rustix::fs::llistxattr(path, &mut list[..]).unwrap();
    let names = list[..length].split(|b| *b == 0).filter(|n| !n.is_empty());
    let carried = names.filter(|n| !n.starts_with(b"security.") || *n == b"security.capability");
    carried
        .map(|name| {
            let mut value = vec![0; 65_536];
            let length = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
            (OsString::from_vec(name.to_vec()), value[..length].to_vec())
        })
        .collect()
}

pub fn set_attribute(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, rustix::fs::XattrFlags::empty()).unwrap_or_else(|e| panic!("{name}: {e}"));
}

pub fn whiteout(path: &Path) {
    let mode = rustix::fs::Mode::empty();
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::CharacterDevice, mode, 0).unwrap();
}

pub fn pipe(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o640);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

pub fn set_mtime(path: &Path, seconds: i64, nanoseconds: i64) {
    let time = rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

pub fn assert_same(found: &BTreeMap<PathBuf, Shown>, expected: &BTreeMap<PathBuf, Shown>) {
    for (path, shown) in expected {
        assert_eq!(found.get(path), Some(shown), "{}", path.display());
    }
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
}

/// A name that is not text.
pub fn odd_name() -> OsString {
    std::ffi::OsStr::from_bytes(b"odd \xff\xfe\n\x1b[31m=%name").to_owned()
}

/// Runs an ignored test of this file again as an ordinary user. Only root can, others run it as they are.
pub fn as_ordinary_user(child: &str) {
    let scene = Scene::new();
    fs::set_permissions(&scene.base, fs::Permissions::from_mode(0o755)).unwrap();
    // The build directory may be out of the user's reach. Copied by another process: while we have it open for writing, what another
    // thread starts has it, too, and then it cannot be executed.
    let program = scene.base.join("test");
    let copied = std::process::Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status().unwrap();
    assert!(copied.success());
    let mut command = if is_root() {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        command
    } else {
        std::process::Command::new(&program)
    };
    let output = command.args([child, "--exact", "--ignored", "--test-threads=1"]).current_dir("/").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{child} was not run: {said}");
}
