//! A directory for everything of one identity, and the process that lives in it.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use whatif_engine::ground::GroundError;
use whatif_engine::ground::chores::{Chore, Chores};
use whatif_engine::{Caller, Engine, EngineError};
use whatif_types::Principal;
use whatif_types::config::UserConfig;

use crate::left_over::{Descriptors, children, entries, groups, mounts, processes};
use crate::one_thread::{SHARED, Thread, Usual};

const THREADS: usize = 200;
/// Whoever root becomes for the ordinary half.
const ORDINARY: u32 = 65534;
/// Of a machine that is busy with much else.
const DEADLINE: Duration = Duration::from_secs(120);
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
        let directory = PathBuf::from(format!("/var/tmp/whatif-threads-{who:?}-{}", std::process::id()));
        let uid = if rustix::process::geteuid().is_root() && matches!(who, Who::User) { Some(ORDINARY) } else { None };
        for part in ["", "home", "home/project", "state"].map(|part| directory.join(part)) {
            fs::create_dir(&part).expect("the scratch directory is writable");
            chown(&part, uid, uid).expect("it is ours to give away");
        }
        let shared = directory.join("home/project/shared");
        fs::write(&shared, SHARED).expect("the scratch directory is writable");
        chown(&shared, uid, uid).expect("it is ours to give away");
        // An ordinary user may not be let in to where we were built.
        fs::copy(std::env::current_exe().expect("there is one"), directory.join("threads")).expect("it can be copied");
        Self { who, directory }
    }

    /// The directory that this process is to live in.
    pub fn given() -> Option<PathBuf> {
        let mut arguments = std::env::args().skip(1);
        (arguments.next()? == LIVE).then(|| arguments.next().map(PathBuf::from))?
    }

    /// Lets a process live there, and looks at what it leaves.
    pub fn passes(&self) -> bool {
        let began = Instant::now();
        let state = fs::metadata(self.directory.join("state")).expect("we made it");
        let mut child = self.command().env_clear().args([LIVE]).arg(&self.directory).spawn().expect("it can be started");
        let mut trouble = Vec::new();
        if !has_succeeded(&mut child) {
            trouble.push(format!("failed after {:?}", began.elapsed()));
        }
        trouble.extend(processes(&self.directory).into_iter().map(|(_, line)| format!("left running: {line}")));
        trouble.extend(mounts(&self.directory));
        trouble.extend(groups(&state));
        let outcome = if trouble.is_empty() { format!("ok, {:?}", began.elapsed()) } else { trouble.join("\n  ") };
        let _ = writeln!(std::io::stdout(), "{THREADS} threads as {:?}: {outcome}", self.who);
        trouble.is_empty()
    }

    fn command(&self) -> Command {
        let program = self.directory.join("threads");
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
    let deadline = Instant::now() + DEADLINE;
    loop {
        match child.try_wait().expect("it is our child") {
            Some(status) => return status.success(),
            None if Instant::now() >= deadline => {
                child.kill().expect("it is our child");
                child.wait().expect("it is our child");
                return false;
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// What is due is due again: nothing that these threads do needs it.
#[derive(Debug)]
struct NoChores;

impl Chores for NoChores {
    fn start(&self, _: Chore) {}
}

/// In a process of its own: everything that the threads do, and a count of what they leave.
pub fn live(directory: &Path) {
    raise_descriptor_limit();
    let descriptors = Descriptors::now();
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
    let engine = Arc::new(Engine::open(&directory.join("state"), caller, Arc::new(NoChores)).expect("there is a state directory"));
    assert!(engine.upkeep.recover().expect("there is nothing to repair").is_empty());
    let usual = Usual::look(&engine);
    what_an_earlier_call_was_about_explains_no_error(&engine);
    let start = Barrier::new(THREADS);
    let threads: Vec<Thread> = (0..THREADS).map(Thread::new).collect();
    let results: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let (engine, start, usual) = (&engine, &start, &usual);
        let begin = |thread: &Thread| {
            let thread = *thread;
            scope.spawn(move || {
                start.wait();
                thread.live(engine, usual)
            })
        };
        let running: Vec<_> = threads.iter().map(begin).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("it panicked".to_owned()))).collect()
    });
    let failed: Vec<&String> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(failed.is_empty(), "{} of {THREADS} threads: {failed:#?}", failed.len());

    assert_eq!(engine.lifecycle.list().expect("the records can be read").len(), 0);
    for part in ["sandboxes", "transient", "names", "layers", "pool"] {
        assert_eq!(entries(&directory.join("state").join(part)), Vec::<String>::new(), "in {part}/");
    }
    let mut real: Vec<String> = threads.iter().filter(|thread| thread.applies()).map(Thread::own_file).collect();
    assert_eq!(entries(&directory.join("state/applies")).len(), real.len());
    real.push("shared".to_owned());
    real.sort();
    assert_eq!(entries(&project), real);
    assert_eq!(fs::read_to_string(project.join("shared")).expect("it is ours"), SHARED);
    assert_eq!(children(), Vec::<String>::new(), "nobody else collects them");
    drop(Arc::into_inner(engine).expect("no thread has it any more"));
    assert_eq!(Descriptors::now(), descriptors);
}

/// A thread that serves one client after the other is not to tell one of them what became of the sandbox of another.
fn what_an_earlier_call_was_about_explains_no_error(engine: &Engine) {
    let unrelated = || EngineError::io("read", "something", ErrorKind::NotFound.into());
    let told = engine.ground.call(|| Err::<(), _>(unrelated()));
    assert!(matches!(told, Err(EngineError::Ground(GroundError::Io { .. }))), "{told:?}");
}

/// Each thread has a handful.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(8192, |hard| hard.min(8192));
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit }).expect("it is within what we may have");
}
