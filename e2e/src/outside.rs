//! An internet of the test's own: a network namespace whose loopback has outside addresses, with servers and a name server.
//!
//! Each test is started again in a process of its own, in there, so all its children are in there, too, and nothing it tries
//! can reach anything real. Tests do not see each other: ports and what was recorded belong to one test alone.

mod authority;
mod clients;
mod decisions;
mod names;
mod servers;
mod witness;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

pub use authority::Authority;
pub use clients::{Answer, PRELUDE};
use names::NameServer;
pub use servers::{PythonServer, Server};
pub use witness::Witness;

use rustix::process::{Pid, Signal, kill_process};

use crate::{Who, World, eventually, skip};

/// Public as far as rules can tell, and announced by nobody. Only these may be where names lead.
pub const PUBLIC: &str = "25.64.113.5";
pub const PUBLIC_2: &str = "25.64.113.6";
pub const PUBLIC_V6: &str = "2d00::5";
/// Kept for documentation.
pub const DOCUMENTED: &str = "203.0.113.5";
pub const DOCUMENTED_2: &str = "203.0.113.6";
pub const DOCUMENTED_V6: &str = "2001:db8::5";
pub const METADATA: &str = "169.254.169.254";
pub const METADATA_V6: &str = "fd00:ec2::254";
pub const PRIVATE: &str = "10.1.2.3";
const ADDRESSES: [&str; 13] = [
    PUBLIC,
    PUBLIC_2,
    PUBLIC_V6,
    DOCUMENTED,
    DOCUMENTED_2,
    DOCUMENTED_V6,
    METADATA,
    METADATA_V6,
    PRIVATE,
    "198.51.100.7",
    "100.100.100.200",
    "192.168.7.7",
    "64:ff9b::a9fe:a9fe",
];

/// Says to a test that it is in there, and where its files are.
const MARK: &str = "WHATIF_E2E_OUTSIDE";

const ENTER: &str = r#"
set -e
ip -batch "$WHATIF_E2E_OUTSIDE/addresses"
mount --bind "$WHATIF_E2E_OUTSIDE/resolv.conf" /etc/resolv.conf
mount --bind "$WHATIF_E2E_OUTSIDE/hosts" /etc/hosts
exec "$@"
"#;

type Test = fn(&World, &Outside);

/// What a test has of it.
#[derive(Debug)]
pub struct Outside {
    dir: PathBuf,
    bin: PathBuf,
    names: NameServer,
    python: Mutex<Vec<PythonServer>>,
}

/// Runs a test in an outside of its own. `path` is that of the module the test is in, and tells its name.
pub fn with(who: Who, path: &str, test: Test) {
    enter(who, None, path, test);
}

/// The same with this backend.
pub fn with_backend(who: Who, backend: &str, path: &str, test: Test) {
    enter(who, Some(backend), path, test);
}

fn enter(who: Who, backend: Option<&str>, path: &str, test: Test) {
    if std::env::var_os(MARK).is_some() {
        within(who, test);
        return;
    }
    if !rustix::process::geteuid().is_root() {
        skip("only root can give a network namespace addresses of the outside");
        return;
    }
    let half = if who == Who::Root { "as_root" } else { "as_user" };
    let (_, name) = path.split_once("::").expect("a test is in a module");
    match backend {
        Some(backend) => again(&format!("{name}::{backend}_{half}"), Some(backend)),
        None => again(&format!("{name}::{half}"), None),
    }
}

/// Starts this program once more, for one test, in the namespaces it needs.
fn again(test: &str, backend: Option<&str>) {
    let dir = std::env::temp_dir().join(format!("whatif-outside-{}-{}", std::process::id(), test.replace("::", "-")));
    prepare(&dir);
    let program = std::env::current_exe().expect("we know what we are");
    let mut command = Command::new("/usr/bin/unshare");
    command.args(["--net", "--mount", "--propagation", "private", "--", "/bin/sh", "-c", ENTER, "outside"]);
    command.arg(program).args([test, "--exact", "--nocapture", "--test-threads=1"]).env(MARK, &dir);
    command.envs(backend.map(|backend| (crate::backend::VARIABLE, backend)));
    let ended = command.output();
    let _ = fs::remove_dir_all(&dir);
    let ended = ended.expect("unshare is installed");
    let said = [String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr)].concat();
    // A name that is not found would be a success without this.
    assert!(ended.status.success() && said.contains("1 passed"), "{said}");
    for line in said.lines().filter(|line| line.starts_with("SKIPPED")) {
        skip(line);
    }
}

fn prepare(dir: &Path) {
    fs::create_dir(dir).expect("a fresh name in a writable directory");
    let write = |name: &str, content: &str| fs::write(dir.join(name), content).expect("it is ours");
    // Otherwise an IPv6 address can be used only a moment later.
    let at_once = |address: &str| if address.contains(':') { "nodad" } else { "" };
    let lines = ADDRESSES.iter().map(|address| format!("address add {address} dev lo {}\n", at_once(address)));
    write("addresses", &["link set lo up\n".to_owned()].into_iter().chain(lines).collect::<String>());
    write("resolv.conf", &format!("nameserver {}\n", names::ADDRESS));
    write("hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost\n");
}

fn within(who: Who, test: Test) {
    // What a world is made for cannot carry anything with it. This process is for one test, so it can be kept here.
    static TEST: OnceLock<Test> = OnceLock::new();
    TEST.get_or_init(|| test);
    World::with(who, |w| {
        let outside = Outside::open(w);
        TEST.get().expect("it was kept just now")(w, &outside);
        w.whatif(["rm", "--all", "--yes"]).go().ok();
        eventually("no supervisor outlives its sandbox", || outside.supervisors().is_empty());
    });
}

impl Outside {
    fn open(w: &World) -> Self {
        // Had the namespace failed, the addresses above would be those of real machines.
        assert_eq!(witness::interfaces(), ["lo"], "this is not a namespace of our own");
        let dir = PathBuf::from(std::env::var_os(MARK).expect("asked before"));
        Self { dir, bin: w.bin.clone(), names: NameServer::start(), python: Mutex::new(Vec::new()) }
    }

    /// A name leads to these addresses from now on.
    pub fn name(&self, name: &str, addresses: &[&str]) {
        self.names.set(name, &[addresses]);
    }

    /// The first answer, the second one, and so on; the last one stays.
    pub fn changing_name(&self, name: &str, answers: &[&[&str]]) {
        self.names.set(name, answers);
    }

    /// What was asked at the name server, as `A example.test`, in order.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.names.asked()
    }

    /// Whether any name with this in it left the machine.
    #[must_use]
    pub fn was_asked(&self, part: &str) -> bool {
        self.asked().iter().any(|question| question.contains(part))
    }

    /// Another name server instead of ours, as in `resolv.conf`.
    pub fn use_name_server(&self, address: &str) {
        fs::write(self.dir.join("resolv.conf"), format!("nameserver {address}\n")).expect("it is ours");
    }

    /// Processes of this world's binary that supervise a network.
    #[must_use]
    pub fn supervisors(&self) -> Vec<i32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        let is_ours = |path: &Path| {
            let exe = fs::read_link(path.join("exe")).unwrap_or_default();
            exe.as_os_str().to_string_lossy().trim_end_matches(" (deleted)") == self.bin.to_string_lossy()
        };
        let supervises =
            |path: &Path| fs::read(path.join("cmdline")).is_ok_and(|line| line.split(|b| *b == 0).nth(1) == Some(b"supervisor"));
        let found = entries.filter(|e| is_ours(&e.path()) && supervises(&e.path()));
        found.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
    }
}

impl Drop for Outside {
    /// After a failure there may be some, even ones that are held still, and they must not outlive the test.
    fn drop(&mut self) {
        for pid in self.supervisors().into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Makes two tests of each function: one as root, one as an ordinary user, each with an outside of its own.
#[macro_export]
macro_rules! outside_as_root_and_user {
    ($($name:ident),+ $(,)?) => {
        $(mod $name {
            #[test]
            fn as_root() {
                $crate::outside::with($crate::Who::Root, module_path!(), super::$name);
            }
            #[test]
            fn as_user() {
                $crate::outside::with($crate::Who::User, module_path!(), super::$name);
            }
        })+
    };
}

/// Makes four further tests of each function: as root and as an ordinary user, on each backend that is not the default one.
#[macro_export]
macro_rules! outside_on_other_backends {
    ($($name:ident),+ $(,)?) => {
        mod on_other_backends {
            $(mod $name {
                #[test]
                fn fuse_as_root() {
                    $crate::outside::with_backend($crate::Who::Root, "fuse", module_path!(), super::super::$name);
                }
                #[test]
                fn fuse_as_user() {
                    $crate::outside::with_backend($crate::Who::User, "fuse", module_path!(), super::super::$name);
                }
                #[test]
                fn copy_as_root() {
                    $crate::outside::with_backend($crate::Who::Root, "copy", module_path!(), super::super::$name);
                }
                #[test]
                fn copy_as_user() {
                    $crate::outside::with_backend($crate::Who::User, "copy", module_path!(), super::super::$name);
                }
            })+
        }
    };
}

/// The same for what only root can try.
#[macro_export]
macro_rules! outside_as_root {
    ($($name:ident),+ $(,)?) => {
        $(mod $name {
            #[test]
            fn as_root() {
                $crate::outside::with($crate::Who::Root, module_path!(), super::$name);
            }
        })+
    };
}

/// The same for what is about an ordinary user.
#[macro_export]
macro_rules! outside_as_user {
    ($($name:ident),+ $(,)?) => {
        $(mod $name {
            #[test]
            fn as_user() {
                $crate::outside::with($crate::Who::User, module_path!(), super::$name);
            }
        })+
    };
}
