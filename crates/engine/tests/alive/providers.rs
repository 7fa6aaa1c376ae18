//! The contract of providers as tests, for each of them. Nothing here knows which one is tried.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Mode, OFlags};
use whatif_engine::history::snapshot::Take;
use whatif_engine::lifecycle::shift::{How, Live};
use whatif_engine::{CommandSpec, Engine, NewSandbox, Stdio};
use whatif_keeper::Client;
use whatif_keeper::client::ClientError;
use whatif_keeper::protocol::Access;
use whatif_provider::{
    Binding, Capabilities, Finding, Instance, Launch, Paused, Pausing, Provider, Recorded, Verdict, Whereabouts,
};
use whatif_types::boot::{Boot, Masks, PROTOCOL_VERSION};
use whatif_types::limits::Resource;
use whatif_types::{Explain as _, Handle, Identity, Kind, Limits, MadeBy, NetMode, Plan, Sandbox, SandboxId, Size};

use crate::world::open;

const MOST_PROCESSES: u64 = 10;
const PATIENCE: Duration = Duration::from_secs(30);

/// Where a provider is tried.
struct Ground<'a> {
    provider: &'static dyn Provider,
    engine: &'a Engine,
    state: &'a Path,
    project: &'a Path,
}

pub fn live(directory: &Path) {
    let (engine, state, project) = (open(directory), directory.join("state"), directory.join("home/project"));
    for provider in whatif_provider::ALL {
        check(&Ground { provider, engine: &engine, state: &state, project: &project });
    }
}

fn check(ground: &Ground<'_>) {
    ground.it_says_that_it_can_be_used_here();
    ground.what_is_launched_waits_and_can_be_ended();
    ground.what_cannot_be_launched_leaves_nothing();
    ground.a_record_leads_to_the_instance_and_dropping_it_ends_nothing();
    ground.another_handle_or_another_id_leads_nowhere();
    ground.the_view_is_that_of_the_inside();
    ground.processes_are_told_with_their_command_lines();
    ground.what_runs_is_counted_and_measured();
    ground.it_can_what_it_says();
    ground.its_ports_are_reached_by_who_serves_its_network();
    ground.limits_are_bound_before_anything_runs_and_cleared_afterwards();
    ground.what_is_limited_stays_within_its_limits();
    ground.it_is_put_on_other_layers_while_it_lives();
    ground.what_is_guarded_can_be_left_as_it_was();
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
        let launching = self.provider.launch(&self.launch(&id, &self.programs())).expect("a keeper can be started");
        assert_eq!(*launching.id(), id);
        let launched = launching.settle(&directory, alive.as_fd()).expect("there is a place for it");
        // Others may find it a moment later: its program is just being loaded.
        let find = || self.provider.find(&Whereabouts { id: &id, directory: &directory, handle: Some(launched.handle) });
        let found = until("what was launched is found", || Some(find()).filter(|found| found.hold()));
        assert!(!launched.instance.wait(Some(Duration::ZERO)), "it waits to be told what to become");
        let listed = [(id.to_string(), Some(directory.clone()))];
        until("it is listed before any record knows of it", || (self.running() == listed).then_some(()));
        launched.instance.kill();
        assert!(launched.instance.wait(None) && found.wait(Some(Duration::ZERO)), "both are the same");
        let mut birth = launched.birth;
        assert!(birth.reply().is_err(), "whoever waits for an answer notices");
    }

    fn what_cannot_be_launched_leaves_nothing(&self) {
        let (id, directory, alive) = self.bare_directory();
        fs::remove_dir_all(&directory).expect("it is ours");
        let launch = || self.provider.launch(&self.launch(&id, &self.programs())).expect("a keeper can be started");
        assert!(launch().settle(&directory, alive.as_fd()).is_err(), "there is nowhere to listen");
        drop(launch());
        assert_eq!(self.running(), Vec::new());
        let is_there = || whatif_sys::process::Process::all("keeper").any(|(_, found)| found == id.as_str());
        until("what has no place ends", || (!is_there()).then_some(()));
    }

    fn a_record_leads_to_the_instance_and_dropping_it_ends_nothing(&self) {
        let sandbox = self.create("found");
        let instance = self.instance(&sandbox);
        assert!(instance.hold() && !instance.wait(Some(Duration::ZERO)) && !instance.is_outdated(&self.programs()));
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
            assert!(
                stranger.view().is_err() && !self.can_be_entered(&*stranger, &sandbox) && !stranger.is_outdated(&self.programs())
            );
        }
        assert!(!self.instance(&sandbox).wait(Some(Duration::from_millis(200))), "nobody has ended it");
        self.remove(&sandbox);
    }

    fn the_view_is_that_of_the_inside(&self) {
        let sandbox = self.create("seen");
        let instance = self.instance(&sandbox);
        self.write_inside(&*instance, "made-inside", b"from inside\n");
        assert_eq!(self.read_inside(&*instance, "made-inside"), "from inside\n");
        assert!(!self.project.join("made-inside").exists(), "reality has none of it");
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
        assert_eq!(self.can_be_entered(&*instance, &sandbox), restack);
        assert_eq!(instance.pause(&self.recorded(&sandbox)).and_then(Pausing::complete).is_ok(), pause);
        assert!(instance.connect().expect("it goes on when the first has left").list().is_ok());
        self.start(&sandbox, "sleep 1000");
        let into = self.state.join("checkpoint");
        fs::create_dir(&into).expect("the state directory is writable");
        match instance.checkpoint(&into) {
            Ok(()) => assert!(checkpoint, "it can what it does not say"),
            Err(error) => {
                assert!(!checkpoint, "{error}");
                assert_eq!((error.code(), error.kind()), ("unsupported", Kind::Unavailable), "it says so");
                assert!(!error.remedies().is_empty(), "and what can be done instead");
                assert_eq!(fs::read_dir(&into).expect("it is there").count(), 0, "nothing is left of the attempt");
                assert_ne!(instance.stats().expect("it answers").processes, 0, "what runs goes on");
            }
        }
        fs::remove_dir_all(&into).expect("it is ours");
        self.remove(&sandbox);
    }

    fn its_ports_are_reached_by_who_serves_its_network(&self) {
        let sandbox = self.create("served");
        let instance = self.instance(&sandbox);
        let mut ports = instance.ports().expect("it listens").expect("nobody serves it yet");
        assert!(instance.ports().expect("it listens").is_none(), "only one serves it");
        let (server, port) = listener_inside(&mut instance.connect().expect("it listens"));
        let mut client = ports.dial(port, PATIENCE).expect("somebody listens there");
        client.write_all(b"from outside").expect("it is connected");
        drop(client);
        let (mut served, _) = server.accept().expect("it was dialled");
        let mut heard = String::new();
        served.read_to_string(&mut heard).expect("it can be read");
        assert_eq!(heard, "from outside");
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err(), "it is no port of the host");
        drop((server, served));
        assert!(ports.dial(port, PATIENCE).is_err(), "nobody listens any more");
        drop(ports);
        until("another may serve it", || instance.ports().expect("it listens"));
        self.remove(&sandbox);
        assert!(matches!(instance.ports(), Err(ClientError::NotRunning)), "what is gone has no ports");
    }

    fn limits_are_bound_before_anything_runs_and_cleared_afterwards(&self) {
        let findings = self.provider.try_limits(self.identity());
        assert!(!findings.is_empty() && findings.iter().all(|f| f.verdict == Verdict::Ok || f.fix.is_some()), "{findings:?}");
        let (id, directory, _) = self.bare_directory();
        let limits =
            Limits { memory: Some(Size(64 << 20)), pids: Some(MOST_PROCESSES), disk: Some(Size(1 << 30)), ..Limits::none() };
        let identity = self.identity();
        let weak = self.provider.enforcement(&limits, identity).weak;
        let (guards, keep_memory, keeper) = (false, None, Handle::new(0));
        let binding =
            Binding { id: &id, state: self.state, limits: &limits, identity, can_move: false, guards, keep_memory, keeper };
        // One that was left behind is not in the way.
        for _ in 0..2 {
            let bound = self.provider.bind(&binding).expect("limits can be had");
            let enforced: Vec<Resource> = bound.enforced.iter().map(|e| e.resource).collect();
            assert_eq!(enforced, limits.resources().map(|(resource, _)| resource).collect::<Vec<_>>(), "all of them, and no other");
            let first_weak = bound.enforced.iter().find(|e| e.by.is_weak_for(e.resource)).map(|e| (e.resource, e.by));
            assert_eq!(weak.as_ref().map(|w| (w.resource, w.by)), first_weak, "it is bound as it was said to be");
            let by_keeper = [bound.keeper.memory, bound.keeper.pids].iter().flatten().count();
            assert_eq!(bound.passed().is_some(), by_keeper < 2, "what the keeper does not enforce, a group does");
            assert_eq!(bound.descriptors().count() > 0, bound.passed().is_some());
            let left = self.provider.remains(self.state).expect("they can be listed");
            assert_eq!(left.iter().filter(|left| left.id.as_ref() == Some(&id)).count() > 0, bound.passed().is_some());
        }
        for left in self.provider.remains(self.state).expect("they can be listed") {
            assert!(self.provider.remove(&left), "{left:?}");
        }
        assert_eq!(self.provider.remains(self.state).expect("they can be listed"), Vec::new());
        let bound = self.provider.bind(&binding).expect("limits can be had again");
        self.provider.clear(&id, Some(&directory), &Recorded { state: self.state, enforced: &bound.enforced });
        assert_eq!(self.provider.remains(self.state).expect("they can be listed"), Vec::new(), "clearing is as good");
        self.provider.tidy();
    }

    fn what_is_limited_stays_within_its_limits(&self) {
        let limits = Limits { pids: Some(MOST_PROCESSES), ..Limits::none() };
        let sandbox = self.create_with("limited", limits);
        assert_eq!(sandbox.details.enforced.iter().map(|e| e.resource).collect::<Vec<_>>(), [Resource::Pids]);
        self.start(&sandbox, "for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 1000 & done; wait");
        let instance = self.instance(&sandbox);
        let count = || instance.stats().expect("it answers").processes as u64;
        // Its keeper may count as one.
        until("it has as many as it may", || (count() + 1 >= MOST_PROCESSES).then_some(()));
        // Its shell tries for a while.
        std::thread::sleep(Duration::from_millis(200));
        assert!(count() <= MOST_PROCESSES, "no more can be had");
        self.remove(&sandbox);
        let remains = || self.provider.remains(self.state).expect("they can be listed");
        until("nothing limits what is gone", || remains().is_empty().then_some(()));
    }

    fn it_is_put_on_other_layers_while_it_lives(&self) {
        let sandbox = self.create("restacked");
        let instance = self.instance(&sandbox);
        assert!(instance.hold());
        self.write_inside(&*instance, "kept", b"early");
        let take = Take { label: Some("early".to_owned()), ..Take::automatic(MadeBy::Request, Live::Refuse) };
        let taken = self.engine.history.snapshot(&(&sandbox).into(), &take).expect("a snapshot can be taken");
        assert_eq!((taken.disturbed.how, taken.disturbed.stopped), (How::Frozen, None), "its head is taken as it is");
        self.write_inside(&*instance, "kept", b"later");
        self.write_inside(&*instance, "added", b"later");
        let back = self.engine.history.roll_back(&(&sandbox).into(), "early", Live::Refuse).expect("it can go back");
        assert_eq!(back.stopped, None);
        until("it stands on its earlier layers", || (self.size_inside(&*instance, "added") == 0).then_some(()));
        assert_eq!(self.read_inside(&*instance, "kept"), "early");
        assert!(!instance.wait(Some(Duration::ZERO)), "it is still the same");
        self.write_inside(&*instance, "kept", b"and goes on");
        self.remove(&sandbox);
    }

    fn what_is_guarded_can_be_left_as_it_was(&self) {
        let sandbox = self.create("guarded");
        let instance = self.instance(&sandbox);
        self.write_inside(&*instance, "frozen", b"early");
        let take = Take::automatic(MadeBy::Request, Live::Refuse);
        let frozen = self.engine.history.snapshot(&(&sandbox).into(), &take).expect("it can be taken").sandbox;
        let writer = self.write_inside(&*instance, "open", b"still ");
        let begin = || {
            let boot = self.same_again(&frozen);
            instance.restack(self.provider.restacker(&self.programs()).expect("it can be started"), &boot).expect("it lives")
        };
        let busy = begin().guard().expect("it is there");
        assert!(busy.is_some_and(|tree| self.project.starts_with(tree)), "somebody writes");
        drop(writer);
        let mut restacking = begin();
        assert_eq!(restacking.guard().expect("it is there"), None, "nobody writes any more");
        let mut keeper = instance.connect().expect("it listens");
        let refused = keeper.open(&self.project.join("open"), Access::Replace { mode: 0o644 });
        assert!(refused.is_err(), "nobody can write");
        assert!(restacking.give_up());
        self.write_inside(&*instance, "open", b"written");
        assert_eq!(self.read_inside(&*instance, "frozen"), "early");
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
            let before = ticks();
            // It writes all the time: so long, it would have.
            std::thread::sleep(Duration::from_millis(100));
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
        assert!(instance.view().is_err() && !self.can_be_entered(&*instance, &sandbox));
        assert!(!self.instance(&sandbox).hold(), "nobody finds it any more");
        assert_eq!(self.running(), Vec::new());
        instance.kill();
        assert!(instance.wait(Some(Duration::ZERO)), "once more makes no difference");
        self.remove(&sandbox);
    }

    fn create(&self, name: &str) -> Sandbox {
        self.create_with(name, Limits::none())
    }

    fn create_with(&self, name: &str, limits: Limits) -> Sandbox {
        let provider = Some(self.provider.name().to_owned());
        let new = NewSandbox { name: Some(name.to_owned()), provider, limits, ..NewSandbox::default() };
        self.engine.lifecycle.create(&new).expect("a sandbox can be made")
    }

    fn can_be_entered(&self, instance: &dyn Instance, sandbox: &Sandbox) -> bool {
        let restacker = self.provider.restacker(&self.programs()).expect("it can be started");
        let mut guarded = instance.restack(restacker, &self.bare_boot(sandbox));
        guarded.as_mut().is_ok_and(|restacking| restacking.guard().is_ok_and(|busy| busy.is_none()) && restacking.give_up())
    }

    /// A view without any place of its own is enough to come in.
    fn bare_boot(&self, sandbox: &Sandbox) -> Boot {
        Boot {
            version: PROTOCOL_VERSION,
            id: sandbox.id.clone(),
            directory: self.directory(sandbox),
            work: sandbox.details.position.work.next(),
            project: self.project.to_owned(),
            layers: self.state.join("layers"),
            stack: Vec::new(),
            masks: Masks::default(),
            plan: Plan { backend: sandbox.details.backend, places: Vec::new(), run_links: Vec::new() },
            identity: sandbox.details.identity,
            devices: Vec::new(),
            allows_userns: false,
            net: sandbox.details.net,
            reach: Vec::new(),
            environment: Vec::new(),
            runtime_dir: None,
            measures_head: false,
            has_allotment: false,
            counts_sockets: false,
        }
    }

    /// What it sees, as a snapshot has noted it.
    fn same_again(&self, sandbox: &Sandbox) -> Boot {
        #[derive(serde::Deserialize)]
        struct View {
            plan: Plan,
            masks: Masks,
        }
        let noted = fs::read(self.directory(sandbox).join("view.json")).expect("a snapshot was taken");
        let View { plan, masks } = serde_json::from_slice(&noted).expect("it is JSON");
        let stack = sandbox.details.position.stack.iter().rev().cloned().collect();
        Boot { plan, masks, stack, ..self.bare_boot(sandbox) }
    }

    /// The file is still open for writing.
    fn write_inside(&self, instance: &dyn Instance, name: &str, text: &[u8]) -> File {
        let mut keeper = instance.connect().expect("it listens");
        let opened = keeper.open(&self.project.join(name), Access::Replace { mode: 0o644 });
        let (mut file, _) = opened.expect("the project is writable");
        file.write_all(text).expect("there is room");
        file
    }

    fn read_inside(&self, instance: &dyn Instance, name: &str) -> String {
        let (view, path) = (instance.view().expect("it lives"), self.project.join(name));
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let seen = rustix::fs::openat(&view, path.strip_prefix("/").expect("it is absolute"), flags, Mode::empty());
        let mut text = String::new();
        File::from(seen.expect("it is there")).read_to_string(&mut text).expect("it can be read");
        text
    }

    /// Starts a command that goes on.
    fn start(&self, sandbox: &Sandbox, script: &str) {
        let entered = self.engine.lifecycle.enter(&sandbox.name.as_str().into()).expect("it runs");
        let arguments = ["sh", "-c", script].map(Into::into).to_vec();
        let stdio = [Stdio::Null; 3];
        let spec = CommandSpec { arguments, env: Vec::new(), cwd: None, stdio, terminal: None, timeout: None, called: None };
        self.engine.lifecycle.exec_detached(entered, &spec, whatif_engine::Kept::Together).expect("a command can be started");
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
        self.engine.lifecycle.remove(&sandbox.into(), false).expect("it can be removed");
        assert!(instance.wait(Some(PATIENCE)), "it ends with its sandbox");
    }

    fn directory(&self, sandbox: &Sandbox) -> PathBuf {
        self.engine.lifecycle.show(&sandbox.into()).expect("it is recorded").directory
    }

    fn instance(&self, sandbox: &Sandbox) -> Box<dyn Instance> {
        let directory = self.directory(sandbox);
        self.provider.find(&Whereabouts { id: &sandbox.id, directory: &directory, handle: sandbox.details.handle })
    }

    /// What the provider knows of, in order.
    fn running(&self) -> Vec<(String, Option<PathBuf>)> {
        let mut all: Vec<_> = self.provider.orphans(self.state).map(|o| (o.id.to_string(), o.directory)).collect();
        all.sort();
        all
    }

    /// Enough of a sandbox for a keeper that is never told what to become.
    fn bare_directory(&self) -> (SandboxId, PathBuf, File) {
        let id = SandboxId::from_random([3; 12]);
        let directory = self.state.join(id.as_str());
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).expect("the state directory is writable");
        let work = directory.join("work");
        fs::create_dir(&work).expect("the state directory is writable");
        let alive = File::open(&work).expect("it is there");
        (id, directory, alive)
    }

    /// Where the engine has them kept.
    fn programs(&self) -> PathBuf {
        self.state.join("cache")
    }

    fn identity(&self) -> Identity {
        self.provider.identity_of(rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
    }

    fn launch<'a>(&self, id: &'a SandboxId, programs: &'a Path) -> Launch<'a> {
        Launch { id, identity: self.identity(), net: NetMode::None, is_expendable: false, programs }
    }
}

/// At any port of the loopback inside.
fn listener_inside(keeper: &mut Client) -> (TcpListener, u16) {
    let (socket, address) = keeper.sockets().expect("it has a network").toward(0).next().expect("there is IPv4");
    rustix::net::bind(&socket, &address).expect("a port is free");
    rustix::net::listen(&socket, 1).expect("it is bound");
    let listener = TcpListener::from(socket);
    listener.set_nonblocking(false).expect("it is ours");
    let port = listener.local_addr().expect("it is bound").port();
    (listener, port)
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
