//! A hermetic world for one test: its own home, project and state directory, an empty environment, and one identity.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

use crate::{Call, Outcome, eventually, wait_for};

/// Whoever root becomes for the ordinary half of the tests.
const ORDINARY: u32 = 65534;
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// As whom the binary runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Root,
    User,
}

/// Removed with everything in it when dropped, after a check that nothing was left running or mounted.
#[derive(Debug)]
pub struct World {
    pub who: Who,
    pub dir: PathBuf,
    pub home: PathBuf,
    pub project: PathBuf,
    /// `WHATIF_HOME`.
    pub state: PathBuf,
    pub bin: PathBuf,
    /// The one named in its configuration.
    pub(crate) backend: Option<String>,
    uid: u32,
}

impl World {
    #[must_use]
    pub(crate) fn new(who: Who) -> Self {
        raise_descriptor_limit();
        // Not in /tmp: a sandbox has a /tmp of its own.
        let dir = fresh_directory(&std::env::var_os("WHATIF_TEST_DIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from));
        let we = rustix::process::geteuid();
        let uid = if who == Who::User && we.is_root() { ORDINARY } else { we.as_raw() };
        let home = dir.join("home");
        let world = Self {
            who,
            project: home.join("project"),
            state: dir.join("state"),
            bin: dir.join("whatif"),
            home,
            dir,
            backend: None,
            uid,
        };
        provide_binary(&world.bin);
        chown(&world.dir, Some(uid), Some(uid)).expect("it is ours to give away");
        for directory in [&world.home, &world.project, &world.state] {
            world.mkdir(directory);
        }
        world
    }

    /// The same world with its state directory elsewhere. The caller removes that.
    #[must_use]
    pub fn with_state(&self, state: PathBuf) -> std::mem::ManuallyDrop<Self> {
        let Self { who, dir, home, project, bin, backend, uid, .. } = self;
        let (dir, home, project, bin, backend) = (dir.clone(), home.clone(), project.clone(), bin.clone(), backend.clone());
        // The first one tidies up.
        std::mem::ManuallyDrop::new(Self { who: *who, dir, home, project, state, bin, backend, uid: *uid })
    }

    /// The uid things of this world belong to.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Any program, outside every sandbox, as this identity.
    pub fn program(&self, program: impl AsRef<Path>) -> Call {
        Call::new(self.prepared(program.as_ref()))
    }

    /// A shell script outside every sandbox, as this identity.
    #[track_caller]
    pub fn outside(&self, script: &str) -> Outcome {
        self.program("/bin/sh").args(["-c", script]).go()
    }

    /// `whatif …`.
    pub fn whatif<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Call {
        self.program(&self.bin).args(arguments)
    }

    /// `whatif --json …`, which must succeed.
    #[track_caller]
    pub fn json<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Value {
        self.whatif(["--json"]).args(arguments).go().ok().json()
    }

    /// A shell script in a sandbox of its own that is thrown away afterwards.
    #[track_caller]
    pub fn inside(&self, script: &str) -> Outcome {
        self.whatif(["run", "--rm", "--quiet", "--", "/bin/sh", "-c", script]).go()
    }

    /// A python program in a sandbox of its own; it prints one JSON document.
    #[track_caller]
    pub fn python_inside(&self, program: &str) -> Value {
        self.whatif(["run", "--rm", "--quiet", "--", "/usr/bin/python3", "-c", program]).go().ok().json()
    }

    /// Makes a sandbox that stays, and returns its name.
    #[track_caller]
    pub fn new_sandbox(&self, name: &str) -> String {
        let made = self.json(["new", name]);
        made["name"].as_str().expect("a sandbox has a name").to_owned()
    }

    /// A shell script in a living sandbox.
    #[track_caller]
    pub fn exec(&self, sandbox: &str, script: &str) -> Outcome {
        self.whatif(["exec", sandbox, "--", "/bin/sh", "-c", script]).go()
    }

    /// A file of this identity, with the directories above it.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.project.join(path);
        if let Some(parent) = path.parent() {
            self.mkdir(parent);
        }
        fs::write(&path, content).expect("the scratch directory is writable");
        chown(&path, Some(self.uid), Some(self.uid)).expect("a file of ours can be given away");
        path
    }

    /// A directory of this identity, with those above it.
    pub fn mkdir(&self, path: &Path) {
        if path.is_dir() {
            return;
        }
        if let Some(parent) = path.parent() {
            self.mkdir(parent);
        }
        fs::create_dir(path).expect("the scratch directory is writable");
        chown(path, Some(self.uid), Some(self.uid)).expect("a directory of ours can be given away");
    }

    /// The content of a file of reality.
    #[track_caller]
    #[must_use]
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.project.join(path);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Whether this identity can run a program.
    #[must_use]
    pub fn has(&self, program: &str) -> bool {
        self.program("/bin/sh").args(["-c", "command -v \"$0\" >/dev/null", program]).go().code == 0
    }

    #[must_use]
    pub fn is_root(&self) -> bool {
        self.who == Who::Root
    }

    /// Processes that mention this world in their command line, apart from programs the test itself started.
    #[must_use]
    pub fn processes(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let needle = self.dir.to_string_lossy().into_owned();
        entries
            .filter_map(Result::ok)
            .filter(|e| e.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit()))
            .filter_map(|e| Some((e.file_name(), fs::read(e.path().join("cmdline")).ok()?)))
            .map(|(pid, line)| format!("{} {}", pid.to_string_lossy(), String::from_utf8_lossy(&line).replace('\0', " ")))
            .filter(|line| line.contains(&needle))
            .collect()
    }

    /// Mounts of this machine that mention this world.
    #[must_use]
    pub fn mounts(&self) -> Vec<String> {
        let table = fs::read_to_string("/proc/self/mountinfo").expect("there is a mount table");
        let needle = self.dir.to_string_lossy().into_owned();
        table.lines().filter(|l| l.contains(&needle)).map(str::to_owned).collect()
    }

    /// What is half made or half deleted in the state directory.
    #[must_use]
    pub fn transient(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.state.join("transient"));
        entries.map(|all| all.filter_map(Result::ok).map(|e| e.path()).collect()).unwrap_or_default()
    }

    /// Waits for what commands have left to the background: layers that are removed or merged by processes of their own, which begin
    /// a moment later, and sandboxes that are being deleted.
    #[track_caller]
    pub fn settle(&self) {
        // In this order: what such a process begins is in `transient` until it is done.
        eventually("nothing is done in the background", || {
            !self.processes().iter().any(|line| line.contains("/whatif tidy ")) && self.transient().is_empty()
        });
    }

    /// Nothing of ours runs, is mounted, or is half done, or soon will not be.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        let left =
            || [self.processes(), self.mounts(), self.transient().iter().map(|p| p.display().to_string()).collect()].concat();
        let clean = wait_for(Duration::from_secs(180), || left().is_empty().then_some(()));
        assert!(clean.is_some(), "left over: {:#?}", left());
    }

    /// After a failure: what names this world in its command line is ours, and it must not outlive the test.
    fn kill_what_is_left(&self) {
        let pids = self.processes().into_iter().filter_map(|line| line.split(' ').next().and_then(|pid| pid.parse().ok()));
        for pid in pids.filter_map(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    fn prepared(&self, program: &Path) -> Command {
        let mut command = if self.uid == rustix::process::geteuid().as_raw() {
            Command::new(program)
        } else {
            let id = self.uid;
            let mut command = Command::new("/usr/bin/setpriv");
            command.args([format!("--reuid={id}"), format!("--regid={id}"), "--clear-groups".to_owned(), "--".to_owned()]);
            command.arg(program);
            command
        };
        command.env_clear().envs([("PATH", SEARCH_PATH), ("LANG", "C.UTF-8"), ("USER", "tester"), ("SHELL", "/bin/sh")]);
        command.env("HOME", &self.home).env("WHATIF_HOME", &self.state).current_dir(&self.project);
        command
    }
}

/// Another name of the binary where everybody may execute it, or a copy. It is large, and there are thousands of worlds.
fn provide_binary(place: &Path) {
    provide(&binary(), place);
}

/// The same of another program that was built.
pub(crate) fn provide(built: &Path, place: &Path) {
    let built = fs::canonicalize(built).unwrap_or_else(|error| panic!("{} is not built: {error}", built.display()));
    let is_for_all = fs::metadata(&built).is_ok_and(|found| found.mode() & 0o005 == 0o005);
    if is_for_all && fs::hard_link(&built, place).is_ok() {
        return;
    }
    // By another process: a file this one has open for writing could not be executed while a test beside us forks.
    let copied = Command::new("/usr/bin/install").args(["-m", "755"]).arg(&built).arg(place).status();
    assert!(copied.is_ok_and(|copied| copied.success()), "{} cannot be copied", built.display());
}

impl Drop for World {
    fn drop(&mut self) {
        let end = std::panic::catch_unwind(|| {
            let removed = self.whatif(["rm", "--all", "--yes"]).go();
            if !std::thread::panicking() {
                removed.ok();
                self.assert_nothing_left();
            }
        });
        self.kill_what_is_left();
        let _ = fs::remove_dir_all(&self.dir);
        // A test that has failed has said why; a second panic would end the whole process.
        if let (Err(panic), false) = (end, std::thread::panicking()) {
            std::panic::resume_unwind(panic);
        }
    }
}

/// An ordinary user's sandboxes get a part of the soft limit; tests that want a thousand connections inside need more than usual.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(20_000, |hard| hard.min(20_000));
    if limit.current.is_some_and(|soft| soft < most) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit });
    }
}

/// Like `mkdtemp`, but others may look inside.
pub(crate) fn fresh_directory(parent: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.subsec_nanos());
    let name = format!("whatif-e2e-{}-{}-{now:x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = parent.join(name);
    fs::create_dir(&path).expect("a fresh name in a writable directory");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    path
}

/// The binary under test: `$WHATIF_BIN`, or the release build of this workspace.
pub(crate) fn binary() -> PathBuf {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/whatif");
    std::env::var_os("WHATIF_BIN").map_or_else(built, PathBuf::from)
}
