//! The keeper's loop: one thread, one `poll`, everything it holds in one place.
//!
//! It ends with its sandbox; when it ends, the kernel ends every process of the PID namespace.

mod answer;
mod attached;
mod commands;
mod connections;
mod files;
mod freeze;
mod freezer;
mod group;
mod kept;
mod left_in_tmp;
mod lifetime;
mod log;
mod missed_network;
mod network;
mod numbering;
mod processes;
mod running;
mod strings;
mod terminal;
mod typed;
mod watch;
mod who;

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use whatif_cgroup::Freezer;
use whatif_sys::overlay::Overlay;
use whatif_types::LimitHit;
use whatif_types::boot::KeeperLimits;
use whatif_types::network::Role;

use self::answer::unlisted;
use self::commands::{Commands, OwnBounds};
use self::connections::{BIRTH, Connections};
use self::files::Files;
use self::freeze::Frozen;
pub use self::group::Group;
use self::lifetime::Lifetime;
use self::network::Network;
pub use self::watch::Census;
use self::watch::{Head, Watch};
use crate::channel::Channel;
use crate::protocol::{Failed, Farewell, Process, Reason, Reply, Request, Stats};
use crate::transport::Transport;

/// How long killed processes may take to be gone.
const LAST_MOMENTS: Duration = Duration::from_secs(5);
/// Between asking everything to end and killing it, when the sandbox's time is up.
const EXPIRY_GRACE: Duration = Duration::from_secs(2);
/// One process may reserve more memory than the sandbox may fill: stacks of threads, and what is never touched.
const RESERVED_PART: u64 = 4;
const RESERVED_LEAST: u64 = 1 << 30;
/// One call can take all there is before anybody looks. Files in memory and files with holes may be larger than a small limit.
const LARGEST_UNSEEN: u64 = 256 << 20;
/// Idle for this long, memory is given back.
const REST_AFTER: Duration = Duration::from_millis(50);

/// What the keeper is given once the sandbox stands around it.
#[derive(Debug)]
pub struct Parts {
    pub transport: Box<dyn Transport>,
    /// The socket it was born with, if it was; its other end is the first client.
    pub birth: Option<Channel>,
    /// Reports ended children.
    pub child_signals: OwnedFd,
    /// Variables every command gets unless it sets them itself.
    pub environment: Vec<(String, String)>,
    pub limits: KeeperLimits,
    /// Whether the host has processes of the sandbox's uid.
    pub shares_uid: bool,
    pub group: Option<Group>,
    /// Any directory in the file system of the head.
    pub near_head: OwnedFd,
    /// The sandbox's directory, if the room in it is limited.
    pub head: Option<OwnedFd>,
    /// Tells what lies in sockets, if the sandbox has limits and a network of its own.
    pub sockets: Option<Census>,
    /// Where a keeper that ends by itself says why.
    pub farewell: Option<OwnedFd>,
    /// What a supervisor of the sandbox's network needs.
    pub network: Vec<(Role, OwnedFd)>,
    /// What the sandbox consists of.
    pub overlays: Vec<Overlay>,
    /// Our `fdinfo` in it, if `/proc` is that of a process namespace around the sandbox's.
    pub foreign_proc: Option<OwnedFd>,
}

struct Server {
    transport: Box<dyn Transport>,
    child_signals: OwnedFd,
    connections: Connections,
    commands: Commands,
    files: Files,
    lifetime: Lifetime,
    network: Network,
    overlays: Vec<Overlay>,
    stopping: Option<Stopping>,
    frozen: Option<Frozen>,
    /// To hold with, if somebody lent one.
    freezer: Option<Rc<Freezer>>,
    /// Requests that wait until nobody is frozen.
    deferred: Vec<(u64, Request)>,
    /// Processes that the sandbox itself stands on, as a file system in user space does.
    helpers: Vec<i32>,
    began: Instant,
    /// When to give back the memory of what was just done.
    rest_at: Option<Instant>,
}

/// What there is to do.
#[derive(Default)]
struct Woken {
    /// Somebody is at the door.
    knocks: bool,
    /// A process has ended.
    children: bool,
    /// Somebody inside wants the network.
    network: bool,
}

/// The number no client has: ourselves.
const OURS: u64 = u64::MAX;

/// A stop in progress: who asked, and when patience ends.
struct Stopping {
    deadline: Instant,
    asked_by: Vec<u64>,
}

/// Serves until the sandbox is told to stop.
pub fn serve(parts: Parts) -> io::Result<()> {
    if let Some(descriptors) = parts.foreign_proc {
        numbering::translate_by(descriptors);
    }
    let watch = Watch::new(&parts.limits, Head { near: parts.near_head, directory: parts.head }, parts.sockets);
    let mut server = Server {
        transport: parts.transport,
        child_signals: parts.child_signals,
        connections: Connections::new(parts.birth),
        commands: Commands::new(parts.environment, own_bounds(&parts.limits, parts.shares_uid), parts.group, watch),
        files: Files::new(),
        lifetime: Lifetime::new(&parts.limits, parts.farewell),
        network: Network::new(parts.network),
        overlays: parts.overlays,
        stopping: None,
        frozen: None,
        freezer: None,
        deferred: Vec::new(),
        // Nobody's command has run yet.
        helpers: if processes::others_alive() { processes::list(|_| None)?.iter().map(|p| p.pid).collect() } else { Vec::new() },
        began: Instant::now(),
        // What set the sandbox up is not needed again.
        rest_at: Some(Instant::now()),
    };
    // The birth channel may already hold the first command.
    server.answer_all();
    while !server.is_finished() {
        server.wait_and_work()?;
    }
    server.say_goodbye();
    Ok(())
}

fn own_bounds(limits: &KeeperLimits, shares_uid: bool) -> OwnBounds {
    let reserved = |limit: u64| limit.saturating_mul(RESERVED_PART).max(limit.saturating_add(RESERVED_LEAST));
    // The keeper is one of its user's processes too.
    OwnBounds {
        processes: limits.pids.map(|p| p.saturating_add(1)),
        data: limits.memory.map(reserved),
        processors: limits.processors,
        file_size: limits.room.bytes.filter(|_| limits.room.is_watched()).map(|limit| limit.max(LARGEST_UNSEEN)),
        shares_uid,
    }
}

impl Server {
    fn wait_and_work(&mut self) -> io::Result<()> {
        let timeout = self.next_deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let Woken { knocks, children, network } = self.wait(timeout)?;
        if knocks {
            self.transport.work();
        }
        if children {
            whatif_sys::signals::take(&self.child_signals);
            self.commands.reap(&mut self.connections);
            self.lifetime.was_used();
        }
        self.commands.pump(&mut self.connections);
        self.connections.read_and_write();
        if knocks {
            while self.connections.accept(self.transport.as_mut()) && self.transport.has_more() {}
        }
        self.answer_all();
        self.work_on_files();
        for gone in self.connections.take_gone() {
            // It was made for somebody who comes only now; that may have taken longer than it may be idle.
            if gone == BIRTH {
                self.lifetime.was_used();
            }
            self.commands.client_left(gone);
            self.files.jobs.client_left(gone);
            self.files.watches.client_left(gone);
            self.holder_left(gone);
            self.network.client_left(gone);
        }
        self.see_to_network(network);
        self.commands.enforce_deadlines();
        self.enforce_limits();
        self.end_when_over();
        self.rest_when_idle(knocks || children);
        Ok(())
    }

    /// Looks whether too much is used, and ends everything if it is.
    fn enforce_limits(&mut self) {
        if self.frozen.is_some() || !self.commands.watch.is_due() {
            return;
        }
        if self.commands.is_idle() && self.files.jobs.is_empty() && !processes::others_alive() {
            return self.commands.watch.rest();
        }
        self.commands.note_crowding();
        let helpers = self.helpers.clone();
        let mut held = None;
        let mut hold = |still: bool| match still {
            // A look at what moves is less exact, no more.
            true => held = Frozen::begin(OURS, &helpers, None).unwrap_or_default(),
            false => {
                if let Some(frozen) = held.take() {
                    frozen.end();
                }
            }
        };
        if let Some(hit) = self.commands.watch.look(&mut hold) {
            self.end_for(hit);
        }
    }

    fn end_for(&mut self, hit: LimitHit) {
        self.commands.blame(hit);
        self.end_all();
        self.files.jobs.give_up_writing(&mut self.connections);
        self.commands.watch.rest();
    }

    /// Whoever waits for the network gets somebody to serve it, or is turned away.
    fn see_to_network(&mut self, is_ready: bool) {
        if self.network.has_waited_enough() {
            self.network.turn_away();
        } else if self.network.is_wanted(is_ready) {
            // A client that does not know yet that its command runs is told as soon as it does.
            let clients = self.commands.in_foreground();
            for client in &clients {
                self.connections.send(*client, &Reply::NetworkWanted, &[]);
            }
            self.network.await_supervisor(!clients.is_empty());
        }
    }

    fn is_in_use(&self) -> bool {
        !self.commands.is_idle() || !self.files.jobs.is_empty() || self.connections.awaits_the_first()
    }

    /// When the sandbox's time is up, or nobody can reach it any more, everything is asked to end, and then made to.
    fn end_when_over(&mut self) {
        // Whoever looks at it just now finishes first.
        if self.stopping.is_some() || self.frozen.is_some() {
            return;
        }
        if self.transport.is_over() {
            self.begin_stop(OURS, EXPIRY_GRACE);
        } else if let Some(why) = self.lifetime.is_over(self.is_in_use()) {
            self.lifetime.say(why);
            if why == Farewell::Expired {
                self.commands.blame(LimitHit::Ttl);
            }
            self.signal_others(Signal::TERM);
            self.stopping = Some(Stopping { deadline: Instant::now() + EXPIRY_GRACE, asked_by: Vec::new() });
        }
    }

    /// A keeper does a little work now and then, for hours; in between it need not hold the code it did it with.
    fn rest_when_idle(&mut self, worked: bool) {
        if worked {
            self.rest_at = Some(Instant::now() + REST_AFTER);
        } else if self.commands.is_idle() && self.rest_at.is_some_and(|at| at <= Instant::now()) {
            self.rest_at = None;
            whatif_sys::memory::release_code();
        }
    }

    /// Sleeps until something happens.
    fn wait(&self, timeout: Option<Duration>) -> io::Result<Woken> {
        let mut fds = vec![PollFd::from_borrowed_fd(self.child_signals.as_fd(), PollFlags::IN)];
        fds.extend(self.transport.poll_fds());
        let transport = 1..fds.len();
        fds.extend(self.connections.poll_fds());
        fds.extend(self.commands.poll_fds());
        let before = fds.len();
        fds.extend(self.network.poll_fds());
        let network = before..fds.len();
        fds.extend(self.files.jobs.poll_fds(self.frozen.is_some()));
        fds.extend(self.files.watches.poll_fds(&self.connections));
        // Whoever holds the sandbox still finishes first, so an end that has come is not to wake us until then.
        let timer = self.lifetime.timer().filter(|_| self.frozen.is_none());
        fds.extend(timer.map(|t| PollFd::from_borrowed_fd(t.as_fd(), PollFlags::IN)));
        let timeout = timeout.map(|t| {
            // Rounded up: waking a moment early would spin.
            let t = t + Duration::from_millis(1);
            Timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos().into() }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {
                let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
                let any = |range: Range<usize>| fds[range].iter().any(is_ready);
                Ok(Woken { knocks: any(transport), children: is_ready(&fds[0]), network: any(network) })
            }
            Err(rustix::io::Errno::INTR) => Ok(Woken::default()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        // While stopping, look often whether everybody is gone.
        let stop = self.stopping.as_ref().map(|s| s.deadline.min(Instant::now() + Duration::from_millis(20)));
        let rest = self.rest_at.filter(|_| self.commands.is_idle());
        // Nobody who is held still uses anything, nor may their time run out.
        let held = self.frozen.is_some();
        let lifetime = self.lifetime.next_deadline(self.is_in_use()).filter(|_| !held);
        let watch = self.commands.watch.next_deadline().filter(|_| !held);
        let others =
            [self.commands.next_deadline(), self.network.next_deadline(), self.files.jobs.next_deadline(self.frozen.is_some())];
        [stop, rest, lifetime, watch].into_iter().chain(others).flatten().min()
    }

    fn answer_all(&mut self) {
        while let Some((client, request)) = self.connections.next_request() {
            self.answer(client, request);
        }
    }

    fn is_finished(&mut self) -> bool {
        let Some(stopping) = &self.stopping else { return false };
        let is_over = Instant::now() >= stopping.deadline;
        // What cannot be listed may be somebody.
        if !processes::others_alive() || (!self.helpers.is_empty() && self.others().is_ok_and(|others| others.is_empty())) {
            return true;
        }
        if is_over && self.helpers.is_empty() {
            processes::signal_all(Signal::KILL);
            self.let_die();
        } else if is_over {
            // What they wrote last has to reach the helpers, who end with us.
            self.end_all();
        }
        is_over
    }

    /// Signals everything but the sandbox's own helpers, or all if it is not known who is who.
    fn signal_others(&self, signal: Signal) {
        let others = if self.helpers.is_empty() { None } else { self.others().ok() };
        match others {
            Some(others) => others.iter().for_each(|process| freeze::signal(process, signal)),
            None => processes::signal_all(signal),
        }
    }

    /// Holds every process until this client says otherwise or leaves.
    fn freeze(&mut self, client: u64) -> Reply {
        if self.frozen.is_none() {
            match Frozen::begin(client, &self.helpers, self.freezer.as_ref()) {
                Ok(frozen) => self.frozen = frozen,
                Err(error) => return Reply::Failed(unlisted(Reason::NotStill, &error)),
            }
        }
        match &self.frozen {
            Some(frozen) if frozen.by == client => match if processes::others_alive() { self.others() } else { Ok(Vec::new()) } {
                Ok(alive) => Reply::Processes(alive),
                Err(error) => {
                    self.thaw(client);
                    Reply::Failed(unlisted(Reason::NotStill, &error))
                }
            },
            _ => Reply::Failed(Failed {
                reason: Reason::NotStill,
                message: "the sandbox cannot be held still: a process does not stop".to_owned(),
                errno: 0,
            }),
        }
    }

    /// Whether something runs that could be held better.
    fn wants_freezer(&self) -> bool {
        self.freezer.as_ref().is_none_or(|freezer| freezer.is_gone()) && processes::others_alive()
    }

    /// Takes everything in at once, which is what takes time.
    fn take_freezer(&mut self, freezer: Freezer) {
        // Who could not be taken in now is tried again at each hold.
        let _ = freezer::gather(&freezer, &self.helpers);
        self.freezer = Some(Rc::new(freezer));
    }

    /// Sees to it that nothing is started until this client says otherwise or leaves, if nothing runs.
    fn hold_if_idle(&mut self, client: u64) -> bool {
        let is_idle = || match processes::others_alive() {
            true => self.others().is_ok_and(|others| others.iter().all(|p| p.state == 'Z')),
            false => true,
        };
        if self.frozen.is_none() && self.stopping.is_none() && self.files.jobs.is_empty() && is_idle() {
            self.frozen = Some(Frozen::nothing(client));
        }
        self.frozen.as_ref().is_some_and(|f| f.by == client)
    }

    /// Whoever left holds nothing still, and wants nothing any more.
    fn holder_left(&mut self, client: u64) {
        self.deferred.retain(|(by, _)| *by != client);
        if self.frozen.as_ref().is_some_and(|f| f.by == client && f.changes_layers) {
            self.begin_stop(client, Duration::ZERO);
        }
        self.thaw(client);
    }

    fn thaw(&mut self, client: u64) {
        if let Some(frozen) = self.frozen.take_if(|f| f.by == client) {
            frozen.end();
            self.files.watches.watch_again(&mut self.connections);
            for (client, request) in std::mem::take(&mut self.deferred) {
                self.answer(client, request);
            }
        }
    }

    fn stats(&self) -> io::Result<Stats> {
        let mut stats = processes::stats(&self.others_and_dead()?, self.began.elapsed());
        if let Some(group) = self.commands.group().filter(|group| !group.is_shared) {
            let meters = &group.meters;
            stats.memory_bytes = meters.memory_now().unwrap_or(stats.memory_bytes);
            stats.cpu_ms = meters.cpu_ms().unwrap_or(stats.cpu_ms);
            stats.processes = meters.pids_now().map_or(stats.processes, |n| n as usize);
            stats.peak_memory_bytes = meters.memory_peak();
        } else {
            stats.memory_bytes += Watch::files_in_memory();
        }
        stats.changes_bytes = self.commands.watch.changes_bytes();
        Ok(stats)
    }

    /// Everything alive but the sandbox's own helpers.
    fn others(&self) -> io::Result<Vec<Process>> {
        let mut others = self.others_and_dead()?;
        others.retain(|p| p.state != 'Z');
        Ok(others)
    }

    /// With those that ended and wait to be reaped.
    fn others_and_dead(&self) -> io::Result<Vec<Process>> {
        let mut others = processes::list(|pid| self.commands.line_of(pid))?;
        others.retain(|p| !self.helpers.contains(&p.pid));
        Ok(others)
    }

    /// Kills everything but the sandbox's own helpers.
    fn end_all(&mut self) -> Reply {
        let mut ended: Option<Vec<Process>> = None;
        let deadline = Instant::now() + LAST_MOMENTS;
        loop {
            freeze::stop_all_but(&self.helpers);
            let failed = match self.others_and_dead() {
                Ok(left) if left.is_empty() => return Reply::Processes(ended.unwrap_or_default()),
                Ok(left) => {
                    left.iter().for_each(|process| freeze::signal(process, Signal::KILL));
                    let message = format!("process {} does not end", left[0].pid);
                    ended.get_or_insert_with(|| left.into_iter().filter(|p| p.state != 'Z').collect());
                    self.let_die();
                    Failed { reason: Reason::NotStill, message, errno: 0 }
                }
                Err(error) => {
                    // Without helpers to spare it needs no list.
                    if self.helpers.is_empty() {
                        processes::signal_all(Signal::KILL);
                        self.let_die();
                    }
                    unlisted(Reason::NotStill, &error)
                }
            };
            if Instant::now() >= deadline {
                return Reply::Failed(failed);
            }
            std::thread::sleep(Duration::from_micros(200));
            self.commands.reap(&mut self.connections);
        }
    }

    fn let_die(&self) {
        if let Some(frozen) = &self.frozen {
            frozen.let_die();
        }
    }

    fn begin_stop(&mut self, client: u64, grace: Duration) {
        let deadline = Instant::now() + grace;
        match &mut self.stopping {
            Some(stopping) => {
                stopping.deadline = stopping.deadline.min(deadline);
                stopping.asked_by.push(client);
            }
            None => {
                self.signal_others(if grace.is_zero() { Signal::KILL } else { Signal::TERM });
                // What is held cannot end.
                if let Some(frozen) = self.frozen.take() {
                    frozen.end();
                }
                self.stopping = Some(Stopping { deadline, asked_by: vec![client] });
                // Those who wait until it goes on can know at once that it does not.
                for (client, _) in std::mem::take(&mut self.deferred) {
                    let message = "the sandbox ends".to_owned();
                    self.connections.send(client, &Reply::Failed(Failed { reason: Reason::Ending, message, errno: 0 }), &[]);
                }
            }
        }
    }

    fn say_goodbye(&mut self) {
        // Whoever waits for a command hears how it ended.
        let deadline = Instant::now() + LAST_MOMENTS;
        self.commands.reap(&mut self.connections);
        while !self.commands.is_idle() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
            self.commands.reap(&mut self.connections);
        }
        self.commands.close_logs(&mut self.connections);
        self.turn_away();
        for client in self.stopping.take().map(|s| s.asked_by).unwrap_or_default() {
            self.connections.send(client, &Reply::Done, &[]);
        }
        self.connections.leave();
        self.transport.finish();
    }

    /// Nobody is left to wonder whether a command was started: whoever comes now finds the door shut, and whoever came before hears
    /// that nothing is.
    fn turn_away(&mut self) {
        self.connections.close_door(self.transport.as_mut());
        let ended = Reply::Failed(Failed { reason: Reason::Ending, message: "the sandbox has ended".to_owned(), errno: 0 });
        let mut asked = std::mem::take(&mut self.deferred);
        asked.extend(std::iter::from_fn(|| self.connections.next_request()));
        for (client, request) in asked {
            let reply = if matches!(request, Request::Stop { .. }) { &Reply::Done } else { &ended };
            self.connections.send(client, reply, &[]);
        }
        self.connections.tell_the_idle(&ended);
    }
}
