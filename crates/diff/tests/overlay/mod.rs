//! A stack made by the kernel: each layer was once the upper directory of a real overlay.
#![allow(dead_code, reason = "not every test file needs all of it")]

pub mod acts;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::ProptestConfig;
use rustix::fs::lgetxattr;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use whatif_diff::base::Bases;
use whatif_diff::{Base, Change, Found, Kind, Node, Scope, State, Tree, scan};
use whatif_overlay::Format;

const APART: &str = "WHATIF_DIFF_APART";

/// Who mounts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Root,
    User,
}

/// Runs a test of this file again where its mounts are nobody else's.
pub fn apart(who: Who, child: &str) {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]);
        if who == Who::User {
            command.args(["--user", "--map-root-user"]);
        }
        command.arg("--");
        command
    };
    if !unshare().arg("true").output().is_ok_and(|o| o.status.success()) {
        return skip("no mount namespace can be made here");
    }
    let mut command = unshare();
    command.arg(std::env::current_exe().unwrap());
    command.args([child, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    let output = command.env(APART, "1").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("1 passed"), "{child} was not run: {told}");
}

pub fn is_apart() -> bool {
    std::env::var_os(APART).is_some()
}

pub fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none(), "would be skipped, which CI does not allow: {reason}");
    // Not `eprintln!`: the test runner would swallow it.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {reason}");
}

/// So many cases, or as many as somebody asks for.
pub fn cases(usual: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// What there is to see at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub kind: Kind,
    pub mode: u32,
    /// Of a file its bytes, of a link its target.
    pub content: Vec<u8>,
    pub note: Option<Vec<u8>>,
}

/// An attribute that anybody may set.
pub const NOTE: &str = "user.note";

/// Everything below a directory, by its path in it.
pub type View = BTreeMap<PathBuf, Shown>;

impl Shown {
    fn of(node: &Node, at: &Path) -> Self {
        let content = match node.kind {
            Kind::File => fs::read(at).unwrap(),
            Kind::Link => fs::read_link(at).unwrap().into_os_string().into_encoded_bytes(),
            _ => Vec::new(),
        };
        let mut value = [0; 16];
        let note = lgetxattr(at, NOTE, &mut value).ok().map(|length| value[..length].to_vec());
        Self { kind: node.kind, mode: if node.kind == Kind::Link { 0 } else { node.mode }, content, note }
    }
}

pub fn view(root: &Path) -> View {
    let mut view = View::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let node = Node::of(&path).unwrap().unwrap();
            if node.kind == Kind::Directory {
                pending.push(path.clone());
            }
            view.insert(path.strip_prefix(root).unwrap().to_owned(), Shown::of(&node, &path));
        }
    }
    view
}

/// One tree with its layers, and the overlay over them while it is mounted.
pub struct Stack {
    pub directory: PathBuf,
    marks: Format,
    /// Directories so far, the head among them.
    pub layers: usize,
}

impl Stack {
    /// In memory, where mounting and unmounting costs nothing.
    pub fn new(name: &str, marks: Format) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stack-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        mount("tmpfs", &directory, "tmpfs", MountFlags::empty(), None).unwrap();
        for name in ["base", "view"] {
            fs::create_dir(directory.join(name)).unwrap();
        }
        Self { directory, marks, layers: 0 }
    }

    pub fn base(&self) -> PathBuf {
        self.directory.join("base")
    }

    pub fn mounted(&self) -> PathBuf {
        self.directory.join("view")
    }

    fn layer(&self, number: usize) -> PathBuf {
        self.directory.join(format!("l{number}"))
    }

    /// Freezes the head, if there is one, and puts a new one over it.
    pub fn push_layer(&mut self) {
        self.unmount();
        self.layers += 1;
        let (head, work) = (self.layer(self.layers - 1), self.directory.join(format!("w{}", self.layers)));
        for directory in [&head, &work] {
            fs::create_dir(directory).unwrap();
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let older = (0..self.layers - 1).rev().map(|n| self.layer(n)).chain([self.base()]);
        let lower: Vec<String> = older.map(|l| l.display().to_string()).collect();
        let kind = if self.marks == Format::User { "userxattr" } else { "redirect_dir=on" };
        let options = format!(
            "lowerdir={},upperdir={},workdir={},index=off,metacopy=off,{kind}",
            lower.join(":"),
            head.display(),
            work.display()
        );
        let options = CString::new(options).unwrap();
        mount("overlay", self.mounted(), "overlay", MountFlags::empty(), options.as_c_str()).unwrap();
    }

    fn unmount(&self) {
        if self.layers > 0 {
            unmount(self.mounted(), UnmountFlags::empty()).unwrap();
        }
    }

    /// A scan of the oldest so many layers.
    pub fn scan(&self, layers: usize) -> Found {
        let layers: Vec<PathBuf> = (0..layers).rev().map(|n| self.layer(n)).collect();
        let trees = [Tree { path: self.base(), layers, marks: self.marks, copied: false }];
        let bases = Bases::default();
        let made_at = (i64::MAX, 0);
        scan(&Scope::whole(&trees, &bases, made_at))
    }

    /// What becomes of a view when changes are made to it. What they say about before and where things lie must be true, and nothing
    /// has drifted, because nobody touched reality.
    pub fn changed(&self, mut view: View, changes: &[Change]) -> View {
        let base = self.base();
        let shown = |state: &State| {
            assert_eq!(Node::of(&state.at).unwrap().as_ref(), Some(&state.node), "it lies where it is said to lie");
            Shown::of(&state.node, &state.at)
        };
        for change in changes {
            let path = change.path.strip_prefix(&base).unwrap().to_owned();
            assert_eq!(change.base, Base::Reality, "{}", path.display());
            assert_eq!(change.before.as_ref().map(shown), view.get(&path).cloned(), "{} before", path.display());
            match &change.after {
                Some(after) => view.insert(path, shown(after)),
                None => view.remove(&path),
            };
        }
        view
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if self.layers > 0 {
            let _ = unmount(self.mounted(), UnmountFlags::DETACH);
        }
        let _ = unmount(&self.directory, UnmountFlags::DETACH);
        let _ = fs::remove_dir(&self.directory);
    }
}
