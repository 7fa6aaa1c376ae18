//! A root with nothing in it but the keeper's program and what a test puts there, in namespaces of its own. The keeper is its init
//! and is spoken to over two pipes.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use whatif_keeper::Client;
use whatif_keeper::client::{self, Followed};
use whatif_keeper::protocol::{Exec, Text};
use whatif_keeper::stream::{StreamError, line};
use whatif_types::CommandId;

use crate::{World, wait_for};

#[derive(Debug)]
pub struct EmptyRoot {
    /// `unshare`, which ends with the init.
    process: Child,
    /// Where the client's end of the stream has its socket.
    pub directory: PathBuf,
    line: Option<JoinHandle<StreamError>>,
}

impl EmptyRoot {
    /// With `busybox` in it, which is all that is run there.
    #[must_use]
    pub fn start(w: &World) -> Self {
        let (mut process, input, output) = Self::start_bare(w);
        let directory = w.dir.join("line");
        fs::create_dir_all(&directory).expect("it is ours");
        let listener = client::listener(&directory).expect("a socket can be made");
        let served = std::thread::Builder::new().spawn(move || line::serve(&listener, output.into(), input.into()));
        let line = served.map_err(|_| process.kill()).expect("there can be threads");
        Self { process, directory, line: Some(line) }
    }

    /// Without a client: the init, what it reads and what it writes.
    #[must_use]
    pub fn start_bare(w: &World) -> (Child, ChildStdin, ChildStdout) {
        let root = w.dir.join("root");
        w.mkdir(&root);
        let program = keeper_program(w);
        install(&program, &root.join("init"));
        install(Path::new("/usr/bin/busybox"), &root.join("busybox"));
        for library in libraries(&program) {
            let inside = root.join(library.strip_prefix("/").unwrap_or(&library));
            fs::create_dir_all(inside.parent().expect("it has a directory")).expect("it is ours");
            install(&library, &inside);
        }
        // An ordinary user can make no devices.
        let devices = if w.is_root() { "" } else { "mkdir dev && touch dev/null && mount --bind /dev/null dev/null && " };
        let script = format!("{devices}exec /usr/sbin/chroot . /init");
        let identity: &[&str] = if w.is_root() { &[] } else { &["--user", "--map-root-user"] };
        let unshare = w.program("/usr/bin/unshare").args(identity).args(["--pid", "--fork", "--kill-child", "--mount", "--net"]);
        let call = unshare.args(["/bin/sh", "-c", &script]).cwd(&root);
        let mut process = call.streams(Stdio::piped(), Stdio::piped(), Stdio::inherit()).spawn();
        let (input, output) = (process.stdin.take(), process.stdout.take());
        (process, input.expect("it is piped"), output.expect("it is piped"))
    }

    #[must_use]
    pub fn connect(&self) -> Client {
        Client::connect(&self.directory).expect("the line takes everybody in")
    }

    #[must_use]
    pub fn follow(&self, id: CommandId, from: u64) -> Followed {
        Followed::new(self.connect(), self.connect(), id, from).expect("the keeper answers").expect("it knows the command")
    }

    /// What the keeper has in memory.
    #[must_use]
    pub fn keeper_kib(&self) -> u64 {
        let children = format!("/proc/{0}/task/{0}/children", self.process.id());
        let init = fs::read_to_string(children).expect("the kernel tells them");
        resident_kib(init.trim())
    }

    /// The exit code of the whole, once it has ended, and why the client's end says that the stream has.
    #[must_use]
    pub fn ends(mut self) -> (Option<i32>, StreamError) {
        let line = self.line.take().expect("it is there until the end");
        let ended = wait_for(std::time::Duration::from_secs(180), || self.process.try_wait().expect("it is our child"));
        (ended.expect("it ends").code(), line.join().expect("it does not panic"))
    }
}

impl Drop for EmptyRoot {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The program of keepers, as whatif puts it down for itself.
#[must_use]
pub fn keeper_program(w: &World) -> PathBuf {
    w.inside("true").ok();
    let kept = fs::read_dir(w.state.join("cache")).expect("a sandbox was made").filter_map(Result::ok).map(|entry| entry.path());
    let is_program = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("whatif-keeper-"));
    kept.into_iter().find(is_program).expect("a keeper was started")
}

/// What a process, or `self`, has in memory.
#[must_use]
pub fn resident_kib(process: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

/// A command of busybox that nobody gives or takes anything.
#[must_use]
pub fn busybox(arguments: &[&str]) -> Exec {
    let arguments: Vec<_> = ["/busybox"].iter().chain(arguments).map(Text::from).collect();
    serde_json::from_value(serde_json::json!({
        "arguments": arguments, "environment": [], "directory": "/", "stdio": ["null", "null", "null"],
        "terminal": null, "detached": false, "timeout_ms": null,
    }))
    .expect("it is a command")
}

/// What a program that is not static needs besides itself; where it can be, it is.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let told = Command::new("/usr/bin/ldd").arg(program).output().expect("it can be asked");
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}

fn install(from: &Path, to: &Path) {
    let copied = Command::new("/usr/bin/install").args(["-m", "755"]).arg(from).arg(to).status();
    assert!(copied.is_ok_and(|status| status.success()), "{} cannot be installed", from.display());
}

/// What the other ends of a command's streams are.
#[must_use]
pub fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("there can be pipes")
}
