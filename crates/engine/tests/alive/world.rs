//! A directory for everything of one identity, and the process that lives in it.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use whatif_engine::ground::chores::{Chore, Chores};
use whatif_engine::{Caller, Engine};
use whatif_sys::patience;
use whatif_types::Principal;
use whatif_types::config::UserConfig;

use crate::Subject;
use crate::left_over::{groups, mounts, processes};

/// The user that root becomes for the ordinary half.
const ORDINARY: u32 = 65534;
/// Of a machine that is busy with much else.
const DEADLINE: Duration = Duration::from_secs(120);
/// Of deletions that go on when everything else has ended.
const LAST_MOMENTS: Duration = Duration::from_secs(20);
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Before the subject and the directory in the arguments of the process that lives there.
const LIVE: &str = "live-in";
const PROGRAM: &str = "alive";

#[derive(Clone, Copy, Debug)]
pub enum Who {
    Root,
    User,
}

impl Who {
    /// Those that this process can become.
    pub fn all() -> Vec<Self> {
        if rustix::process::geteuid().is_root() { vec![Self::Root, Self::User] } else { vec![Self::User] }
    }
}

pub struct World {
    subject: &'static Subject,
    who: Who,
    directory: PathBuf,
}

impl World {
    pub fn new(subject: &'static Subject, who: Who) -> Self {
        // Not in /tmp: a sandbox has a /tmp of its own.
        let directory = PathBuf::from(format!("/var/tmp/whatif-{}-{who:?}-{}", subject.name, std::process::id()));
        let uid = if rustix::process::geteuid().is_root() && matches!(who, Who::User) { Some(ORDINARY) } else { None };
        for part in ["", "home", "home/project", "state"].map(|part| directory.join(part)) {
            fs::create_dir(&part).expect("the scratch directory is writable");
            chown(&part, uid, uid).expect("it is ours to give away");
        }
        // An ordinary user may not be let in to where we were built.
        fs::copy(std::env::current_exe().expect("there is one"), directory.join(PROGRAM)).expect("it can be copied");
        Self { subject, who, directory }
    }

    /// What this process is to try, and the directory that it is to live in.
    pub fn given() -> Option<(String, PathBuf)> {
        let mut arguments = std::env::args().skip(1);
        (arguments.next()? == LIVE).then(|| Some((arguments.next()?, PathBuf::from(arguments.next()?))))?
    }

    /// Lets a process live there, and looks at what it leaves.
    pub fn passes(&self) -> bool {
        let began = Instant::now();
        let state = fs::metadata(self.directory.join("state")).expect("we made it");
        let mut child =
            self.command().env_clear().args([LIVE, self.subject.name]).arg(&self.directory).spawn().expect("it can be started");
        let mut trouble = Vec::new();
        if !has_succeeded(&mut child) {
            trouble.push(format!("failed after {:?}", began.elapsed()));
        }
        // What was removed is deleted in the background.
        patience::until(LAST_MOMENTS, || processes(&self.directory).is_empty().then_some(()));
        trouble.extend(processes(&self.directory).into_iter().map(|(_, line)| format!("left running: {line}")));
        trouble.extend(mounts(&self.directory));
        trouble.extend(groups(&state));
        let outcome = if trouble.is_empty() { format!("ok, {:?}", began.elapsed()) } else { trouble.join("\n  ") };
        let _ = writeln!(std::io::stdout(), "{} as {:?}: {outcome}", self.subject.name, self.who);
        trouble.is_empty()
    }

    fn command(&self) -> Command {
        let program = self.directory.join(PROGRAM);
        if !matches!(self.who, Who::User) || !rustix::process::geteuid().is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("/usr/bin/setpriv");
        command.args([format!("--reuid={ORDINARY}"), format!("--regid={ORDINARY}"), "--clear-groups".to_owned(), "--".to_owned()]);
        command.arg(program);
        command
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // What names this directory in its command line is ours, and must not outlive the test.
        for (pid, _) in processes(&self.directory) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn has_succeeded(child: &mut Child) -> bool {
    let ended = patience::until(DEADLINE, || child.try_wait().expect("it is our child"));
    if ended.is_none() {
        child.kill().expect("it is our child");
        child.wait().expect("it is our child");
    }
    ended.is_some_and(|status| status.success())
}

/// What is due is due again: nothing that is tried here needs it.
#[derive(Debug)]
struct NoChores;

impl Chores for NoChores {
    fn start(&self, _: Chore) {}
}

/// An engine for the identity of this process, in a directory that was made for it.
pub fn open(directory: &Path) -> Engine {
    let uid = rustix::process::geteuid().as_raw();
    let caller = Caller {
        principal: Principal::User { uid, name: None },
        via: "test",
        uid,
        gid: rustix::process::getegid().as_raw(),
        home: directory.join("home"),
        cwd: directory.join("home/project"),
        runtime_dir: None,
        environment: vec![("PATH".to_owned(), SEARCH_PATH.to_owned())],
        config: UserConfig::default(),
    };
    Engine::open(&directory.join("state"), caller, Arc::new(NoChores)).expect("there is a state directory")
}
