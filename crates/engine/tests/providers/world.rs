//! A directory for everything of one identity, and the process that tries the providers in it.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use whatif_engine::ground::chores::{Chore, Chores};
use whatif_engine::{Caller, Engine};
use whatif_types::Principal;
use whatif_types::config::UserConfig;

use crate::conformance::{self, Ground};

/// The user that root becomes for the ordinary half.
const ORDINARY: u32 = 65534;
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Before the directory in the arguments of the process that lives there.
const LIVE: &str = "live-in";

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
    who: Who,
    directory: PathBuf,
}

impl World {
    pub fn new(who: Who) -> Self {
        // Not in /tmp: a sandbox has a /tmp of its own.
        let directory = PathBuf::from(format!("/var/tmp/whatif-providers-{who:?}-{}", std::process::id()));
        let uid = if rustix::process::geteuid().is_root() && matches!(who, Who::User) { Some(ORDINARY) } else { None };
        for part in ["", "home", "home/project", "state"].map(|part| directory.join(part)) {
            fs::create_dir(&part).expect("the scratch directory is writable");
            chown(&part, uid, uid).expect("it is ours to give away");
        }
        // An ordinary user may not be let in to where we were built.
        fs::copy(std::env::current_exe().expect("there is one"), directory.join("providers")).expect("it can be copied");
        Self { who, directory }
    }

    /// The directory that this process is to live in.
    pub fn given() -> Option<PathBuf> {
        let mut arguments = std::env::args().skip(1);
        (arguments.next()? == LIVE).then(|| arguments.next().map(PathBuf::from))?
    }

    pub fn passes(&self) -> bool {
        let status = self.command().env_clear().arg(LIVE).arg(&self.directory).status().expect("it can be started");
        let _ = writeln!(std::io::stdout(), "providers as {:?}: {status}", self.who);
        status.success()
    }

    fn command(&self) -> Command {
        let program = self.directory.join("providers");
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
        // What a failed test left running must not outlive it.
        for provider in whatif_provider::ALL {
            provider.orphans(&self.directory.join("state")).for_each(|orphan| orphan.instance.kill());
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[derive(Debug)]
struct NoChores;

impl Chores for NoChores {
    fn start(&self, _: Chore) {}
}

/// In a process of its own, with the identity that is tried.
pub fn live(directory: &Path) {
    let project = directory.join("home/project");
    let uid = rustix::process::geteuid().as_raw();
    let caller = Caller {
        principal: Principal::User { uid, name: None },
        uid,
        gid: rustix::process::getegid().as_raw(),
        home: directory.join("home"),
        cwd: project.clone(),
        runtime_dir: None,
        environment: vec![("PATH".to_owned(), SEARCH_PATH.to_owned())],
        config: UserConfig::default(),
    };
    let state = directory.join("state");
    let engine = Engine::open(&state, caller, Arc::new(NoChores)).expect("there is a state directory");
    for provider in whatif_provider::ALL {
        conformance::check(&Ground { provider, engine: &engine, state: &state, project: &project });
    }
}
