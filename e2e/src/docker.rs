//! A Docker daemon of the tests' own: its data, sockets, processes and control groups lie where no other daemon has any, it gives
//! containers no network, and nothing of it is left when the last test that uses it has ended.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::world::{binary, fresh_directory};
use crate::{Call, Outcome, Who, wait_for};

const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const IMAGE: &str = "whatif-test";
/// The ordinary user of the image.
const USER: u32 = 1000;
const STARTED_WITHIN: Duration = Duration::from_secs(120);
const ENDED_WITHIN: Duration = Duration::from_secs(20);
/// The best first; the other one works everywhere, but its containers have no overlay for a root directory.
const STORAGE: [&str; 2] = ["overlay2", "vfs"];

#[derive(Debug)]
pub struct Docker {
    directory: PathBuf,
    daemon: Mutex<Child>,
    /// Whether the root directory of a container is an overlay, as it is nearly everywhere.
    pub has_overlay: bool,
}

/// What a container is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    Usual,
    /// User namespaces and mounts are not forbidden.
    NoSeccomp,
    /// Nor is anything in `/proc` and `/sys` covered.
    WholePaths,
    Privileged,
}

impl Security {
    fn options(self) -> Vec<String> {
        let own = |options: &[&str]| options.iter().map(|o| (*o).to_owned()).collect::<Vec<_>>();
        match self {
            Self::Usual => Vec::new(),
            Self::NoSeccomp => own(&["--security-opt=seccomp=unconfined"]),
            Self::WholePaths => own(&["--security-opt=seccomp=unconfined", "--security-opt=systempaths=unconfined"]),
            Self::Privileged => match lacking_capabilities() {
                lacking if lacking.is_empty() => own(&["--privileged"]),
                // A machine that lacks a capability itself can give no container all of them.
                lacking => {
                    let mut options = Self::WholePaths.options();
                    options.push("--cap-add=ALL".to_owned());
                    options.extend(lacking.iter().map(|name| format!("--cap-drop={name}")));
                    options
                }
            },
        }
    }
}

impl Docker {
    /// The one that all tests of this process use at the same time. `Err` says why there is none.
    pub fn shared() -> Result<Arc<Self>, String> {
        static SHARED: Mutex<Weak<Docker>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(docker) = shared.upgrade() {
            return Ok(docker);
        }
        let docker = Arc::new(Self::start()?);
        *shared = Arc::downgrade(&docker);
        Ok(docker)
    }

    fn start() -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root can start a Docker daemon".to_owned());
        }
        for program in ["dockerd", "docker", "containerd", "runc", "busybox"] {
            if find(program).is_none() {
                return Err(format!("{program} is not installed"));
            }
        }
        let mut said = String::new();
        for storage in STORAGE {
            let parent = std::env::var_os("WHATIF_TEST_DIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
            let directory = fresh_directory(&parent);
            let daemon = Mutex::new(start_daemon(&directory, storage).map_err(|e| format!("dockerd cannot be started: {e}"))?);
            let docker = Self { directory, daemon, has_overlay: storage == "overlay2" };
            if docker.is_up() {
                docker.import_image();
                return Ok(docker);
            }
            said = fs::read_to_string(docker.directory.join("log")).unwrap_or_default();
        }
        Err(format!("dockerd does not start: {}", said.lines().next_back().unwrap_or_default()))
    }

    fn is_up(&self) -> bool {
        let answers = || self.docker(["version"]).go().code == 0;
        let has_ended = || self.daemon.lock().unwrap_or_else(PoisonError::into_inner).try_wait().ok().flatten().is_some();
        wait_for(STARTED_WITHIN, || if answers() { Some(true) } else { has_ended().then_some(false) }).unwrap_or(false)
    }

    fn docker<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Call {
        let mut command = Command::new(find("docker").expect("it was looked for"));
        command.env_clear().env("PATH", SEARCH_PATH).env("HOME", &self.directory).env("DOCKER_CONFIG", &self.directory);
        command.arg("--host").arg(socket_of(&self.directory));
        Call::new(command).args(arguments)
    }

    /// A script in a container of its own, in the home of whoever runs it, in an empty project. `options` are for `docker run`.
    #[track_caller]
    pub fn run(&self, who: Who, security: Security, options: &[&str], script: &str) -> Outcome {
        let (id, home) = match who {
            Who::Root => (0, "/root"),
            Who::User => (USER, "/home/user"),
        };
        let user = format!("--user={id}:{id}");
        let (home_variable, project) = (format!("--env=HOME={home}"), format!("--workdir={home}/project"));
        let fixed = ["run", "--rm", "--network=none", user.as_str(), home_variable.as_str(), project.as_str()];
        let secure = security.options();
        let call = self.docker(fixed).args(&secure).args(options).args([IMAGE, "/bin/sh", "-c", script]);
        call.go()
    }

    fn import_image(&self) {
        let archive = make_image(&self.directory);
        self.docker(["import", archive.to_str().expect("text"), IMAGE]).go().ok();
    }

    /// Ends the daemon with all its helpers. What had to be ended or taken away by force is told.
    fn end(&self) -> Vec<String> {
        let mut left = Vec::new();
        let mut daemon = self.daemon.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = Pid::from_child(&daemon);
        let _ = kill_process(pid, Signal::TERM);
        if wait_for(ENDED_WITHIN, || daemon.try_wait().ok().flatten()).is_none() {
            left.push("dockerd".to_owned());
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let is_empty = || processes_of(&self.directory).is_empty().then_some(());
        if wait_for(ENDED_WITHIN, is_empty).is_none() {
            for pid in processes_of(&self.directory) {
                left.push(format!("process {pid}"));
                let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
            }
        }
        remove_groups(&group_of(&self.directory));
        left
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        let left = self.end();
        let removed = if left.is_empty() { fs::remove_dir_all(&self.directory) } else { Ok(()) };
        if !std::thread::panicking() {
            assert_eq!(left, Vec::<String>::new(), "left of the Docker daemon");
            removed.expect("its directory is ours");
        }
    }
}

/// On a thread that lasts as long as this process: the daemon is told to end when that thread does, whatever ends it.
fn start_daemon(directory: &Path, storage: &str) -> io::Result<Child> {
    fs::write(directory.join("daemon.json"), "{}")?;
    let log = fs::File::create(directory.join("log"))?;
    let group = group_of(directory);
    let mut command = Command::new("setpriv");
    // What it mounts would be in the way of other tests, and goes with it.
    command
        .args(["--pdeathsig=TERM", "unshare", "--mount", "--propagation=private", "dockerd"])
        .env_clear()
        .env("PATH", SEARCH_PATH);
    for (option, name) in [("--data-root", "data"), ("--exec-root", "exec"), ("--pidfile", "pid"), ("--config-file", "daemon.json")]
    {
        command.arg(option).arg(directory.join(name));
    }
    command.arg("--host").arg(socket_of(directory)).arg("--storage-driver").arg(storage);
    // Should the machine run a containerd, it is used, and must not mix ours with others.
    command
        .arg("--containerd-namespace")
        .arg(&group[1..])
        .arg("--containerd-plugins-namespace")
        .arg(format!("{}-plugins", &group[1..]));
    command.arg("--cgroup-parent").arg(&group).args(["--exec-opt", "native.cgroupdriver=cgroupfs", "--bridge=none"]);
    command.args(["--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false", "--userland-proxy=false"]);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let (sender, started) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(command.spawn());
        loop {
            std::thread::park();
        }
    });
    started.recv().map_err(io::Error::other)?
}

fn socket_of(directory: &Path) -> String {
    format!("unix://{}/socket", directory.display())
}

/// The control group of all its containers.
fn group_of(directory: &Path) -> String {
    format!("/{}", directory.file_name().unwrap_or_default().to_string_lossy())
}

fn remove_groups(group: &str) {
    let Ok(hierarchies) = fs::read_dir("/sys/fs/cgroup") else { return };
    let places = hierarchies.flatten().map(|entry| entry.path()).chain([PathBuf::from("/sys/fs/cgroup")]);
    for place in places {
        let _ = fs::remove_dir(place.join(&group[1..]));
    }
}

/// Whose command line has the directory in it.
fn processes_of(directory: &Path) -> Vec<i32> {
    let wanted = directory.to_string_lossy().into_owned();
    let pids = fs::read_dir("/proc").expect("it is there").flatten().filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&wanted)
    })
    .collect()
}

/// What the tests need and nothing else, so that it is made in no time: a tree in an archive.
pub(crate) fn make_image(directory: &Path) -> PathBuf {
    let tree = directory.join("image");
    let ready = "a directory of ours can be filled";
    for directory in
        ["bin", "etc", "proc", "sys", "dev", "tmp", "run", "var/tmp", "var/lib", "var/cache", "root/project", "home/user/project"]
    {
        fs::create_dir_all(tree.join(directory)).expect(ready);
    }
    for directory in ["tmp", "var/tmp"] {
        fs::set_permissions(tree.join(directory), fs::Permissions::from_mode(0o1777)).expect(ready);
    }
    for directory in ["home/user", "home/user/project"] {
        chown(tree.join(directory), Some(USER), Some(USER)).expect(ready);
    }
    fs::write(tree.join("etc/passwd"), format!("root:x:0:0::/root:/bin/sh\nuser:x:{USER}:{USER}::/home/user:/bin/sh\n"))
        .expect(ready);
    fs::write(tree.join("etc/group"), format!("root:x:0:\nuser:x:{USER}:\n")).expect(ready);
    copy_program(&find("busybox").expect("it was looked for"), &tree, "busybox");
    let applets = Command::new(tree.join("bin/busybox")).arg("--list").output().expect("it can be started");
    for applet in String::from_utf8_lossy(&applets.stdout).lines().filter(|name| *name != "busybox") {
        symlink("busybox", tree.join("bin").join(applet)).expect(ready);
    }
    copy_program(&binary(), &tree, "whatif");
    let archive = directory.join("image.tar");
    let packed = Command::new("tar").arg("-C").arg(&tree).arg("-cf").arg(&archive).arg(".").status();
    assert!(packed.is_ok_and(|status| status.success()), "the image can be packed");
    archive
}

/// With the libraries that it is linked to, if it is.
fn copy_program(program: &Path, tree: &Path, name: &str) {
    let copied = "a program can be copied";
    fs::copy(program, tree.join("bin").join(name)).expect(copied);
    let linked = Command::new("ldd").arg(program).output().expect("it can be started");
    let linked = String::from_utf8_lossy(&linked.stdout).into_owned();
    for library in linked.split_whitespace().filter(|word| word.starts_with('/')).map(|word| word.trim_end_matches(':')) {
        let to = tree.join(library.trim_start_matches('/'));
        fs::create_dir_all(to.parent().expect("it has one")).expect(copied);
        fs::copy(library, to).expect(copied);
    }
}

pub(crate) fn find(program: &str) -> Option<PathBuf> {
    SEARCH_PATH.split(':').map(|directory| Path::new(directory).join(program)).find(|path| path.is_file())
}

/// By the names that Docker knows them by.
fn lacking_capabilities() -> Vec<&'static str> {
    const NAMES: [&str; 41] = [
        "CHOWN",
        "DAC_OVERRIDE",
        "DAC_READ_SEARCH",
        "FOWNER",
        "FSETID",
        "KILL",
        "SETGID",
        "SETUID",
        "SETPCAP",
        "LINUX_IMMUTABLE",
        "NET_BIND_SERVICE",
        "NET_BROADCAST",
        "NET_ADMIN",
        "NET_RAW",
        "IPC_LOCK",
        "IPC_OWNER",
        "SYS_MODULE",
        "SYS_RAWIO",
        "SYS_CHROOT",
        "SYS_PTRACE",
        "SYS_PACCT",
        "SYS_ADMIN",
        "SYS_BOOT",
        "SYS_NICE",
        "SYS_RESOURCE",
        "SYS_TIME",
        "SYS_TTY_CONFIG",
        "MKNOD",
        "LEASE",
        "AUDIT_WRITE",
        "AUDIT_CONTROL",
        "SETFCAP",
        "MAC_OVERRIDE",
        "MAC_ADMIN",
        "SYSLOG",
        "WAKE_ALARM",
        "BLOCK_SUSPEND",
        "AUDIT_READ",
        "PERFMON",
        "BPF",
        "CHECKPOINT_RESTORE",
    ];
    let status = fs::read_to_string("/proc/self/status").expect("it is there");
    let bound = status.lines().find_map(|line| line.strip_prefix("CapBnd:")).expect("it has such a line");
    let bound = u64::from_str_radix(bound.trim(), 16).expect("it is a number");
    NAMES.iter().enumerate().filter(|(bit, _)| bound & (1 << bit) == 0).map(|(_, name)| *name).collect()
}
