//! The contract of providers as tests. Nothing here knows which provider is tried.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Mode, OFlags};
use whatif_engine::{CommandSpec, Engine, NewSandbox, Stdio};
use whatif_keeper::client::ClientError;
use whatif_keeper::protocol::Access;
use whatif_provider::{Capabilities, Finding, Instance, Launch, Paused, Pausing, Provider, Recorded, Verdict, Whereabouts};
use whatif_types::{Handle, NetMode, Sandbox, SandboxId};

const PATIENCE: Duration = Duration::from_secs(30);

/// Where a provider is tried.
pub struct Ground<'a> {
    pub provider: &'static dyn Provider,
    pub engine: &'a Engine,
    pub state: &'a Path,
    pub project: &'a Path,
}

pub fn check(ground: &Ground<'_>) {
    ground.it_says_that_it_can_be_used_here();
    ground.what_is_launched_waits_and_can_be_ended();
    ground.what_cannot_be_launched_leaves_nothing();
    ground.a_record_leads_to_the_instance_and_dropping_it_ends_nothing();
    ground.another_handle_or_another_id_leads_nowhere();
    ground.the_view_is_that_of_the_inside();
    ground.processes_are_told_with_their_command_lines();
    ground.what_runs_is_counted_and_measured();
    ground.it_can_what_it_says();
    ground.what_is_paused_stands_still_until_it_is_resumed_or_dropped();
    ground.what_is_killed_while_it_is_paused_is_seen_off();
    ground.all_of_a_state_directory_are_listed();
    ground.what_is_killed_is_gone_with_everything();
}

impl Ground<'_> {
    fn it_says_that_it_can_be_used_here(&self) {
        let probe = self.provider.probe(rustix::process::geteuid().as_raw());
        assert!(probe.is_available() && !probe.version.is_empty(), "{probe:?}");
        let is_explained = |finding: &Finding| finding.verdict == Verdict::Ok || finding.fix.is_some();
        assert!(probe.findings.iter().all(is_explained), "whatever is missing comes with what helps: {probe:?}");
    }

    fn what_is_launched_waits_and_can_be_ended(&self) {
        let (id, directory, alive) = self.bare_directory();
        let launched = self.provider.launch(&self.launch(&id, &directory, &alive)).expect("a keeper can be started");
        // Others may find it a moment later: its program is just being loaded.
        let find = || self.provider.find(&Whereabouts { id: &id, directory: &directory, handle: Some(launched.handle) });
        let found = until("what was launched is found", || Some(find()).filter(|found| found.hold()));
        assert!(!launched.instance.wait(Some(Duration::ZERO)), "it waits to be told what to become");
        assert_eq!(self.running(), [(id.to_string(), Some(directory.clone()))], "it is listed before any record knows of it");
        launched.instance.kill();
        assert!(launched.instance.wait(None) && found.wait(Some(Duration::ZERO)), "both are the same");
        let mut birth = launched.birth;
        assert!(birth.reply().is_err(), "whoever waits for an answer notices");
    }

    fn what_cannot_be_launched_leaves_nothing(&self) {
        let (id, directory, alive) = self.bare_directory();
        fs::remove_dir_all(&directory).expect("it is ours");
        assert!(self.provider.launch(&self.launch(&id, &directory, &alive)).is_err(), "there is nowhere to listen");
        assert_eq!(self.running(), Vec::new());
    }

    fn a_record_leads_to_the_instance_and_dropping_it_ends_nothing(&self) {
        let sandbox = self.create("found");
        let instance = self.instance(&sandbox);
        assert!(instance.hold() && !instance.wait(Some(Duration::ZERO)) && !instance.is_outdated());
        assert!(instance.connect().expect("it listens").list().expect("it answers").is_empty(), "nothing runs in it");
        drop(instance);
        assert!(self.instance(&sandbox).connect().is_ok(), "an instance belongs to nobody");
        self.remove(&sandbox);
    }

    fn another_handle_or_another_id_leads_nowhere(&self) {
        let sandbox = self.create("mistaken");
        let directory = self.directory(&sandbox);
        let other = SandboxId::from_random([7; 12]);
        let strangers = [
            Whereabouts { id: &other, directory: &directory, handle: sandbox.details.handle },
            // Were it taken for the instance, this process would be killed.
            Whereabouts { id: &sandbox.id, directory: &directory, handle: Some(Handle::new(std::process::id())) },
            Whereabouts { id: &sandbox.id, directory: &directory, handle: None },
        ];
        for stranger in strangers.map(|at| self.provider.find(&at)) {
            assert!(!stranger.hold(), "{stranger:?}");
            stranger.kill();
            assert!(stranger.wait(None), "nobody waits for what is not there");
            assert!(stranger.view().is_err() && stranger.entrance().is_err() && !stranger.is_outdated());
        }
        assert!(!self.instance(&sandbox).wait(Some(Duration::from_millis(200))), "nobody has ended it");
        self.remove(&sandbox);
    }

    fn the_view_is_that_of_the_inside(&self) {
        let sandbox = self.create("seen");
        let instance = self.instance(&sandbox);
        let path = self.project.join("made-inside");
        let (mut file, _) =
            instance.connect().expect("it listens").open(&path, Access::Replace { mode: 0o644 }).expect("the project is writable");
        file.write_all(b"from inside\n").expect("there is room");
        let view = instance.view().expect("it lives");
        let relative = path.strip_prefix("/").expect("it is absolute");
        let seen = rustix::fs::openat(&view, relative, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).expect("it is there");
        let mut text = String::new();
        File::from(seen).read_to_string(&mut text).expect("it can be read");
        assert_eq!(text, "from inside\n");
        assert!(!path.exists(), "reality has none of it");
        self.remove(&sandbox);
    }

    fn processes_are_told_with_their_command_lines(&self) {
        let sandbox = self.create("busy");
        self.start(&sandbox, "sleep 1000 & wait");
        let instance = self.instance(&sandbox);
        until("the whole command line is told", || {
            let mut processes = instance.connect().expect("it listens").list().expect("it answers");
            instance.complete(&mut processes);
            processes.iter().any(|process| process.command == "sleep 1000").then_some(())
        });
        self.remove(&sandbox);
    }

    fn what_runs_is_counted_and_measured(&self) {
        let sandbox = self.create("measured");
        let instance = self.instance(&sandbox);
        assert_eq!(instance.stats().expect("it answers").processes, 0, "nothing runs in it");
        self.start(&sandbox, "while :; do :; done");
        until("what it uses is told", || {
            let stats = instance.stats().expect("it answers");
            (stats.processes == 1 && stats.memory_bytes > 0 && stats.cpu_ms > 0).then_some(())
        });
        self.remove(&sandbox);
        assert!(matches!(instance.stats(), Err(ClientError::NotRunning)), "what is gone uses nothing");
    }

    fn it_can_what_it_says(&self) {
        let Capabilities { restack, pause, checkpoint } = self.provider.capabilities();
        let sandbox = self.create("able");
        let instance = self.instance(&sandbox);
        assert_eq!(instance.entrance().is_ok(), restack);
        assert_eq!(instance.pause(&self.recorded(&sandbox)).and_then(Pausing::complete).is_ok(), pause);
        assert!(instance.connect().expect("it goes on when the first has left").list().is_ok());
        assert!(!checkpoint, "the contract has no way to ask for one yet");
        self.remove(&sandbox);
    }

    fn what_is_paused_stands_still_until_it_is_resumed_or_dropped(&self) {
        let sandbox = self.create("paused");
        let instance = self.instance(&sandbox);
        self.start(&sandbox, "while :; do echo >> ticks; done");
        let ticks = || self.size_inside(&*instance, "ticks");
        let goes_on = |from: u64| until("it goes on", || Some(()).filter(|()| ticks() > from));
        goes_on(0);
        for prepare in [false, true] {
            if prepare {
                instance.prepare_pause(&self.recorded(&sandbox));
            }
            let paused = self.pause(&sandbox);
            assert!(!paused.running.is_empty(), "it tells what it holds");
            let (before, _) = (ticks(), std::thread::sleep(Duration::from_millis(100)));
            assert_eq!(ticks(), before, "nothing runs");
            paused.resume().expect("it can be let go");
            goes_on(before);
            let (paused, before) = (self.pause(&sandbox), ticks());
            drop(paused);
            goes_on(before);
        }
        self.remove(&sandbox);
    }

    fn what_is_killed_while_it_is_paused_is_seen_off(&self) {
        let sandbox = self.create("paused-and-killed");
        let (instance, directory) = (self.instance(&sandbox), self.directory(&sandbox));
        self.start(&sandbox, "sleep 1000");
        let _paused = self.pause(&sandbox);
        assert!(instance.hold());
        instance.kill();
        assert!(instance.see_off(&directory, PATIENCE), "what it held goes with it");
        self.provider.clear(&sandbox.id, Some(&directory), &self.recorded(&sandbox));
        assert!(!instance.was_prepared(&directory), "nothing is left of it");
        self.remove(&sandbox);
    }

    fn all_of_a_state_directory_are_listed(&self) {
        assert_eq!(self.running(), Vec::new());
        let both = [self.create("one"), self.create("two")];
        let mut expected: Vec<_> = both.iter().map(|s| (s.id.to_string(), Some(self.directory(s)))).collect();
        expected.sort();
        assert_eq!(self.running(), expected);
        assert_eq!(self.provider.orphans(self.project).count(), 0, "they are not of another directory");
        both.iter().for_each(|sandbox| self.remove(sandbox));
        assert_eq!(self.running(), Vec::new());
    }

    fn what_is_killed_is_gone_with_everything(&self) {
        let sandbox = self.create("killed");
        let instance = self.instance(&sandbox);
        assert!(instance.hold());
        instance.kill();
        assert!(instance.wait(Some(PATIENCE)), "it ends");
        assert!(matches!(instance.connect(), Err(ClientError::NotRunning)));
        assert!(instance.view().is_err() && instance.entrance().is_err());
        assert!(!self.instance(&sandbox).hold(), "nobody finds it any more");
        assert_eq!(self.running(), Vec::new());
        instance.kill();
        assert!(instance.wait(Some(Duration::ZERO)), "once more makes no difference");
        self.remove(&sandbox);
    }

    fn create(&self, name: &str) -> Sandbox {
        let provider = Some(self.provider.name().to_owned());
        let new = NewSandbox { name: Some(name.to_owned()), provider, ..NewSandbox::default() };
        self.engine.lifecycle.create(&new).expect("a sandbox can be made")
    }

    /// Starts a command that goes on.
    fn start(&self, sandbox: &Sandbox, script: &str) {
        let entered = self.engine.lifecycle.enter(Some(&sandbox.name)).expect("it runs");
        let arguments = ["sh", "-c", script].map(Into::into).to_vec();
        let stdio = [Stdio::Null; 3];
        let spec = CommandSpec { arguments, env: Vec::new(), cwd: None, stdio, terminal: None, timeout: None, called: None };
        self.engine.lifecycle.exec_detached(entered, &spec).expect("a command can be started");
    }

    fn pause(&self, sandbox: &Sandbox) -> Paused {
        let pausing = self.instance(sandbox).pause(&self.recorded(sandbox));
        pausing.and_then(Pausing::complete).expect("it can be held still")
    }

    fn recorded<'b>(&'b self, sandbox: &'b Sandbox) -> Recorded<'b> {
        Recorded { state: self.state, enforced: &sandbox.details.enforced }
    }

    /// How large a file of the project is inside. None there is as good as an empty one.
    fn size_inside(&self, instance: &dyn Instance, name: &str) -> u64 {
        let (view, path) = (instance.view().expect("it lives"), self.project.join(name));
        let found = rustix::fs::statat(&view, path.strip_prefix("/").expect("it is absolute"), AtFlags::empty());
        found.map_or(0, |found| found.st_size.unsigned_abs())
    }

    fn remove(&self, sandbox: &Sandbox) {
        let instance = self.instance(sandbox);
        instance.hold();
        self.engine.lifecycle.remove(Some(&sandbox.name), false).expect("it can be removed");
        assert!(instance.wait(Some(PATIENCE)), "it ends with its sandbox");
    }

    fn directory(&self, sandbox: &Sandbox) -> std::path::PathBuf {
        self.engine.lifecycle.show(Some(&sandbox.name)).expect("it is recorded").directory
    }

    fn instance(&self, sandbox: &Sandbox) -> Box<dyn Instance> {
        let directory = self.directory(sandbox);
        self.provider.find(&Whereabouts { id: &sandbox.id, directory: &directory, handle: sandbox.details.handle })
    }

    /// What the provider knows of, in order.
    fn running(&self) -> Vec<(String, Option<std::path::PathBuf>)> {
        let mut all: Vec<_> = self.provider.orphans(self.state).map(|o| (o.id.to_string(), o.directory)).collect();
        all.sort();
        all
    }

    /// Enough of a sandbox for a keeper that is never told what to become.
    fn bare_directory(&self) -> (SandboxId, std::path::PathBuf, File) {
        let id = SandboxId::from_random([3; 12]);
        let directory = self.state.join(id.as_str());
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).expect("the state directory is writable");
        let work = directory.join("work");
        fs::create_dir(&work).expect("the state directory is writable");
        let alive = File::open(&work).expect("it is there");
        (id, directory, alive)
    }

    fn launch<'a>(&self, id: &'a SandboxId, directory: &'a Path, alive: &'a File) -> Launch<'a> {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Launch { id, directory, identity: self.provider.identity_of(uid, gid), net: NetMode::None, alive: alive.as_fd() }
    }
}

fn until<T>(what: &str, mut happens: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = happens() {
            return found;
        }
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
