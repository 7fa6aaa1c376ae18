//! The commands started by `exec`: starting them, watching them, reporting their end.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal};
use whatif_cgroup::Freezer;
use whatif_sys::command::{self, Bounds, Command, Starting};
use whatif_sys::wait::{self, Ended};
use whatif_types::{CommandId, LimitHit, Usage};

use super::connections::Connections;
use super::group::{Counted, Group};
use super::kept::Kept;
use super::log::{Log, Parts};
use super::running::{Running, describe, has_input, line_of};
use super::strings;
use super::typed::Typed;
use super::watch::Watch;
use super::{left_in_tmp, missed_network, processes, terminal};
use crate::log::LARGEST_FILE;
use crate::protocol::{Exec, Exited, Failed, Reason, Reply, Settings, Stdio};

const MOST_ENDED_REMEMBERED: usize = 256;
/// So many processes are counted while they run; more only when a command has ended.
const MOST_COUNTED: u64 = 1024;
/// The exit code of what a signal killed at once.
const KILLED: i32 = 128 + 9;

pub(super) struct Commands {
    environment: Vec<(String, String)>,
    bounds: OwnBounds,
    group: Option<Group>,
    pub(super) watch: Watch,
    pub(super) running: Vec<Running>,
    /// What could not be started, until its process is gone.
    failed: Vec<Starting>,
    /// Of commands that ended and left processes that may still write.
    pub(super) open_logs: Vec<Log>,
    /// The output of those whose clients passed no files for it.
    pub(super) kept: Vec<Kept>,
    /// The latest that ended, for clients that ask later.
    ended: Vec<Exited>,
}

/// The bounds of every command that are not those of a control group.
#[derive(Clone, Copy, Default)]
pub(super) struct OwnBounds {
    pub processes: Option<u64>,
    pub data: Option<u64>,
    pub processors: Option<usize>,
    pub file_size: Option<u64>,
    pub shares_uid: bool,
}

/// Where the output of a detached command goes.
pub(super) struct LogFiles {
    pub files: [File; 2],
    /// Of one with an id.
    pub record: Option<File>,
    /// For its standard error, if that is kept apart.
    pub errors: Option<[File; 2]>,
    /// The most that each of the two may hold.
    pub largest: u64,
}

impl Commands {
    pub(super) fn new(environment: Vec<(String, String)>, bounds: OwnBounds, group: Option<Group>, watch: Watch) -> Self {
        Self {
            environment,
            bounds,
            group,
            watch,
            running: Vec::new(),
            failed: Vec::new(),
            open_logs: Vec::new(),
            kept: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Whoever asked for it is told about its start and its end.
    pub(super) fn start(
        &mut self,
        client: u64,
        exec: &Exec,
        passed: &[OwnedFd],
        log: Option<LogFiles>,
        freezer: Option<&Freezer>,
    ) -> io::Result<()> {
        let owner = (!exec.detached).then_some(client);
        let running = self.spawn(exec, passed, log, freezer)?;
        self.running.push(Running { owner, waiting: vec![client], ..running });
        Ok(())
    }

    fn spawn(&mut self, exec: &Exec, passed: &[OwnedFd], log: Option<LogFiles>, freezer: Option<&Freezer>) -> io::Result<Running> {
        let mut passed = passed.iter();
        // Opened anew each time: the one of before a snapshot belongs to a root that is gone.
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let mut stdio: [BorrowedFd<'_>; 3] = [null.as_fd(); 3];
        for (place, kind) in stdio.iter_mut().zip(exec.stdio) {
            if kind == Stdio::Passed {
                *place = passed.next().map_or(null.as_fd(), AsFd::as_fd);
            }
        }
        let terminal = exec.terminal.map(terminal::open).transpose()?;
        let has_pipe = log.is_some() && terminal.is_none();
        let pipe = has_pipe.then(|| pipe_with(PipeFlags::CLOEXEC)).transpose()?;
        let has_errors = has_pipe && log.as_ref().is_some_and(|log| log.errors.is_some());
        let errors = has_errors.then(|| pipe_with(PipeFlags::CLOEXEC)).transpose()?;
        let has_input = has_pipe && exec.stdio[0] == Stdio::Kept;
        let input = has_input.then(|| pipe_with(PipeFlags::CLOEXEC)).transpose()?;
        if let Some((_, side)) = &terminal {
            stdio = [side.as_fd(); 3];
        } else if let Some((_, write)) = &pipe {
            stdio[1..].fill(write.as_fd());
        }
        if let Some((_, write)) = &errors {
            stdio[2] = write.as_fd();
        }
        if let Some((read, _)) = &input {
            stdio[0] = read.as_fd();
        }
        let strings = strings::of(exec, &self.environment)?;
        let settings = exec.settings.as_ref().map(Settings::to_assume);
        let (is_alone, counted) = self.prepare_to_count();
        self.watch.begin();
        let starting = command::start(Command {
            strings,
            stdio,
            terminal: terminal.is_some(),
            bounds: Bounds {
                entrances: self.group.as_ref().map_or(&[], |g| &g.entrances),
                freezer: freezer.and_then(Freezer::gate),
                processes: self.bounds.processes,
                data: self.bounds.data,
                processors: self.bounds.processors,
                file_size: self.bounds.file_size,
                shares_uid: self.bounds.shares_uid,
            },
            settings,
        })?;
        let (terminal, side) = terminal.unzip();
        let (log, error_files) = match log {
            Some(LogFiles { files, record, errors, largest }) => (Some((files, record, largest)), errors),
            None => (None, None),
        };
        let errors = errors
            .zip(error_files)
            .map(|((from, _), files)| Log::new(Parts { id: None, from, side: None, files, record: None, largest: LARGEST_FILE }));
        let errors = errors.transpose()?;
        let log = log.map(|(files, record, largest)| {
            let (from, side) = match (&terminal, pipe) {
                (Some(master), _) => (master.try_clone()?, side),
                (None, Some((from, _))) => (from, None),
                (None, None) => return Err(io::Error::from(rustix::io::Errno::BADF)),
            };
            Log::new(Parts { id: exec.id, from, side, files, record, largest })
        });
        let log = log.transpose()?;
        let typed = terminal.as_ref().filter(|_| exec.keeps_output && log.is_some()).map(Typed::new).transpose()?;
        Ok(Running {
            pid: starting.pid,
            waiting: Vec::new(),
            owner: None,
            starting: Some(starting),
            program: exec.arguments.first().map(|a| a.to_os().to_string_lossy().into_owned()).unwrap_or_default(),
            directory: exec.directory.to_os().to_string_lossy().into_owned(),
            command: line_of(exec),
            is_alone,
            terminal,
            input: input.map(|(_, write)| write),
            typed,
            log,
            errors,
            deadline: exec.timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms)),
            timed_out: false,
            kill_at: None,
            began: Instant::now(),
            counted,
            was_crowded: false,
            hit: None,
            ended: None,
        })
    }

    /// The peak is that of the command only if nobody else is there.
    fn prepare_to_count(&mut self) -> (bool, Counted) {
        let Some(group) = &self.group else { return (false, Counted::default()) };
        let is_alone = !group.is_shared && self.running.is_empty() && !processes::others_alive();
        if is_alone {
            group.meters.reset_peak();
        }
        self.running.iter_mut().for_each(|r| r.is_alone = false);
        (is_alone, group.count())
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// The clients whose commands run; they know that by now, so nothing else is awaited by them.
    pub(super) fn in_foreground(&self) -> Vec<u64> {
        self.running.iter().filter(|r| r.starting.is_none()).filter_map(|r| r.owner).collect()
    }

    pub(super) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let starting = self.running.iter().filter_map(|r| r.starting.as_ref().map(AsFd::as_fd));
        let logs = self.running.iter().flat_map(|r| r.log.iter().chain(&r.errors)).chain(&self.open_logs).filter_map(Log::source);
        let typed = self.running.iter().filter_map(|r| r.typed.as_ref()).map(Typed::poll_fd);
        starting.chain(logs).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).chain(typed)
    }

    /// Moves output into logs and learns which commands got as far as running.
    pub(super) fn pump(&mut self, connections: &mut Connections) {
        let mut failed = Vec::new();
        for running in &mut self.running {
            if let Some(starting) = running.starting.take_if(|starting| has_input(starting)) {
                match starting.outcome() {
                    Ok(()) => running.announce(connections),
                    Err((failure, starting)) => {
                        self.failed.push(starting);
                        failed.push((running.pid, failure));
                    }
                }
            }
            if let Some(typed) = &mut running.typed {
                typed.work();
            }
            for log in running.log.iter_mut().chain(&mut running.errors) {
                log.work(connections);
            }
        }
        self.open_logs.retain_mut(|log| log.work(connections));
        for (pid, failure) in failed {
            if let Some(index) = self.running.iter().position(|r| r.pid == pid) {
                let running = self.running.swap_remove(index);
                self.keep_not(running.id());
                let reply = Reply::Failed(describe(failure, &running.program, &running.directory));
                for client in running.waiting {
                    connections.send(client, &reply, &[]);
                }
            }
        }
        self.report_ended(connections);
    }

    /// Collects every child that ended, ours and the orphans that became ours.
    pub(super) fn reap(&mut self, connections: &mut Connections) {
        while let Some(ended) = wait::next_ended() {
            if let Some(running) = self.running.iter_mut().find(|r| r.pid == ended.pid) {
                running.ended = Some(ended);
            } else if let Some(index) = self.failed.iter().position(|starting| starting.pid == ended.pid) {
                self.failed.swap_remove(index).is_done_with();
            }
        }
        self.pump(connections);
    }

    fn report_ended(&mut self, connections: &mut Connections) {
        let mut index = 0;
        while index < self.running.len() {
            let running = &self.running[index];
            let Some(ended) = running.ended.filter(|_| running.starting.is_none()) else {
                index += 1;
                continue;
            };
            let mut running = self.running.swap_remove(index);
            let exited = self.account(&running, &ended);
            // Whoever hears of the end by the log finds all that was said on standard error.
            for mut log in running.errors.take().into_iter().chain(running.log.take()) {
                log.has_ended(exited.clone());
                self.open_logs.extend(log.work(connections).then_some(log));
            }
            for client in &running.waiting {
                connections.send(*client, &Reply::Exited(exited.clone()), &[]);
            }
            if self.ended.len() == MOST_ENDED_REMEMBERED {
                self.ended.remove(0);
            }
            self.ended.push(exited);
        }
    }

    fn account(&mut self, running: &Running, ended: &Ended) -> Exited {
        let counted = self.group.as_ref().map(Group::count).unwrap_or_default();
        let out_of_memory = (counted.out_of_memory > running.counted.out_of_memory).then_some(LimitHit::Memory);
        let too_large = (ended.signal == Some(Signal::XFSZ.as_raw()) && self.bounds.file_size.is_some()).then_some(LimitHit::Disk);
        let limit_hit = running.hit.or(out_of_memory).or(too_large).or_else(|| self.watch.look_at_the_end());
        let code = match (ended.code, ended.signal) {
            (_, Some(_)) if too_large.is_some() => KILLED,
            // It was quicker than whoever would have killed it.
            (Some(0), _) if matches!(limit_hit, Some(LimitHit::Disk | LimitHit::Inodes)) => KILLED,
            (Some(code), _) => code,
            (None, signal) => 128 + signal.unwrap_or(127),
        };
        let together = self.group.as_ref().filter(|_| running.is_alone).and_then(|g| g.meters.memory_peak());
        Exited {
            pid: running.pid,
            id: running.id(),
            command: running.command.clone(),
            code,
            missed_network: code != 0 && missed_network::was_missed(),
            signal: ended.signal,
            timed_out: running.timed_out,
            others_alive: processes::others_alive(),
            limit_hit,
            room_refused: if code == 0 { None } else { self.watch.refuses() },
            pids_refused: counted.pids_refused > running.counted.pids_refused || running.was_crowded || self.is_crowded(1),
            left_in_tmp: left_in_tmp::names(),
            usage: Usage {
                wall_ms: running.began.elapsed().as_millis() as u64,
                cpu_ms: ended.used.cpu.as_millis() as u64,
                peak_memory_bytes: together.unwrap_or(0).max(ended.used.peak_memory_bytes),
                written_bytes: ended.used.written_bytes,
            },
        }
    }

    /// Whether there are as many processes as there may be, these counted as well that have just gone. Where no control group counts,
    /// the kernel does not tell whom it refuses; that there was no room for one more is what can be seen.
    fn is_crowded(&self, gone: u64) -> bool {
        let Some(most) = self.bounds.processes.filter(|_| self.group.as_ref().is_none_or(|group| group.is_shared)) else {
            return false;
        };
        // The keeper is one of them.
        processes::others_alive() && processes::count_others().is_ok_and(|count| count + gone + 1 >= most)
    }

    /// Looks whether the limit on processes is reached, where nothing else tells.
    pub(super) fn note_crowding(&mut self) {
        // To count more of them time and again would take longer than it is worth.
        if self.bounds.processes.is_some_and(|most| most <= MOST_COUNTED) && self.is_crowded(0) {
            self.running.iter_mut().for_each(|running| running.was_crowded = true);
        }
    }

    /// Notes which limit ends everything that runs.
    pub(super) fn blame(&mut self, hit: LimitHit) {
        for running in &mut self.running {
            running.hit.get_or_insert(hit);
        }
    }

    pub(super) fn latest(&self) -> Vec<Exited> {
        self.ended.clone()
    }

    pub(super) fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.running.iter().flat_map(|r| [r.deadline, r.kill_at]).flatten().min()
    }

    pub(super) fn enforce_deadlines(&mut self) {
        let now = Instant::now();
        for running in &mut self.running {
            if running.deadline.is_some_and(|at| at <= now) {
                running.deadline = None;
                running.timed_out = true;
                running.end_gently(Signal::TERM);
            }
            if running.kill_at.is_some_and(|at| at <= now) {
                running.kill_at = None;
                running.signal(Signal::KILL.as_raw());
            }
        }
    }

    /// A command in the foreground of a client that is gone ends, as it would with its terminal.
    pub(super) fn client_left(&mut self, client: u64) {
        self.logs().for_each(|log| log.detach(client));
        for running in &mut self.running {
            running.waiting.retain(|w| *w != client);
            if running.owner == Some(client) {
                running.owner = None;
                running.end_gently(Signal::HUP);
            }
        }
    }

    /// The command line of a process that was started by `exec`, and its id if it has one.
    pub(super) fn line_of(&self, pid: i32) -> Option<(String, Option<CommandId>)> {
        self.running.iter().find(|r| r.pid == pid).map(|r| (r.command.clone(), r.id()))
    }

    pub(super) fn signal(&self, pid: i32, signal: i32) -> Reply {
        match self.running.iter().find(|r| r.pid == pid) {
            Some(running) => {
                running.signal(signal);
                Reply::Done
            }
            // Any process of the sandbox, by the number `ps` shows; never the keeper.
            None if pid > 1 => {
                match Pid::from_raw(pid).zip(Signal::from_named_raw(signal)).map(|(p, s)| rustix::process::kill_process(p, s)) {
                    Some(Ok(())) => Reply::Done,
                    _ => no_such_process(pid),
                }
            }
            None => no_such_process(pid),
        }
    }

    pub(super) fn resize(&self, pid: i32, columns: u16, rows: u16) -> Reply {
        let terminal = self.running.iter().find(|r| r.pid == pid).and_then(|r| r.terminal.as_ref());
        match terminal.map(|t| rustix::termios::tcsetwinsize(t, terminal::size(columns, rows))) {
            Some(Ok(())) => Reply::Done,
            _ => no_such_process(pid),
        }
    }

    pub(super) fn wait(&mut self, client: u64, pid: i32) -> Option<Reply> {
        if let Some(running) = self.running.iter_mut().find(|r| r.pid == pid) {
            running.waiting.push(client);
            return None;
        }
        let ended = self.ended.iter().rev().find(|e| e.pid == pid);
        Some(ended.map_or_else(|| no_such_process(pid), |e| Reply::Exited(e.clone())))
    }
}

fn no_such_process(pid: i32) -> Reply {
    Reply::Failed(Failed { reason: Reason::NoSuchProcess, message: format!("there is no process {pid} in the sandbox"), errno: 3 })
}
