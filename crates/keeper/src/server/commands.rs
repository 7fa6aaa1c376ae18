//! The commands started by `exec`: starting them, watching them, reporting their end.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use whatif_sys::command::{self, Command, Failure};

use super::connections::Connections;
use super::{Server, network, processes};
use crate::protocol::{Exec, Exited, Failed, Reason, Reply, Request, Stdio};

/// Between asking a command to end and killing it, when its time is up or its client is gone.
const PATIENCE: Duration = Duration::from_secs(2);
/// A log stops growing here; what comes after is read and dropped, so that the command never blocks on it.
const LARGEST_LOG: u64 = 64 << 20;
const MOST_ENDED_REMEMBERED: usize = 256;

pub(super) struct Commands {
    environment: Vec<(String, String)>,
    running: Vec<Running>,
    /// The latest that ended, for clients that ask later.
    ended: Vec<Exited>,
}

struct Running {
    pid: i32,
    /// Who is told about its end.
    waiting: Vec<u64>,
    /// Whose leaving ends it.
    owner: Option<u64>,
    /// Held until the command is known to run; afterwards its end of file has been seen.
    outcome: Option<OwnedFd>,
    program: String,
    /// Handed to the client once the command runs, and kept for resizing.
    terminal: Option<OwnedFd>,
    log: Option<Log>,
    deadline: Option<Instant>,
    timed_out: bool,
    kill_at: Option<Instant>,
    status: Option<WaitStatus>,
}

/// The output of a detached command on its way to the log file.
struct Log {
    from: OwnedFd,
    to: File,
    written: u64,
}

impl Server {
    pub(super) fn answer(&mut self, client: u64, request: Request) {
        // What is looked at must stay as it is, so whoever wants to change it waits, and so does the next one who wants to look.
        let waits = matches!(request, Request::Exec(_) | Request::Open { .. } | Request::MakeDirectory { .. } | Request::Freeze);
        if waits && self.frozen.as_ref().is_some_and(|f| f.by != client) {
            self.deferred.push((client, request));
            return;
        }
        let reply = match request {
            Request::Exec(exec) => match self.start(client, &exec) {
                Ok(()) => return,
                Err(failed) => Reply::Failed(failed),
            },
            Request::Signal { pid, signal } => self.commands.signal(pid, signal),
            Request::Resize { pid, columns, rows } => self.commands.resize(pid, columns, rows),
            Request::Wait { pid } => match self.commands.wait(client, pid) {
                Some(reply) => reply,
                None => return,
            },
            Request::List => Reply::Processes(processes::list(|pid| self.commands.is_exec(pid))),
            Request::Stats => Reply::Stats(processes::stats(self.began.elapsed())),
            Request::Open { path, access } => match super::files::open(&path.to_path(), access) {
                Ok((file, reply)) => return self.connections.send(client, &reply, &[file.as_fd()]),
                Err(error) => super::files::failed(&path.to_path(), &error),
            },
            Request::Directory { path } => super::files::directory(&path.to_path()),
            Request::MakeDirectory { path, mode } => super::files::make_directory(&path.to_path(), mode),
            Request::Examine { path } => super::files::examine(&path.to_path()),
            Request::Freeze => self.freeze(client),
            Request::Thaw => {
                self.thaw(client);
                Reply::Done
            }
            Request::EndAll => self.end_all(),
            Request::Stop { grace_ms } => return self.begin_stop(client, Duration::from_millis(grace_ms)),
            Request::Boot { .. } => {
                Reply::Failed(Failed { reason: Reason::Refused, message: "this keeper has booted".into(), errno: 0 })
            }
        };
        self.connections.send(client, &reply, &[]);
    }

    fn start(&mut self, client: u64, exec: &Exec) -> Result<(), Failed> {
        let mut passed = Vec::new();
        for _ in exec.stdio.iter().filter(|s| **s == Stdio::Passed) {
            passed.push(self.connections.take_descriptor(client).ok_or_else(|| refused("a descriptor is missing"))?);
        }
        let log = if exec.detached {
            Some(File::from(self.connections.take_descriptor(client).ok_or_else(|| refused("the log is missing"))?))
        } else {
            None
        };
        let running = self.commands.spawn(exec, &passed, log).map_err(|e| Failed {
            reason: Reason::CannotExecute,
            message: format!("failed to start a process: {e}"),
            errno: e.raw_os_error().unwrap_or(0),
        })?;
        let owner = (!exec.detached).then_some(client);
        self.commands.running.push(Running { owner, waiting: vec![client], ..running });
        Ok(())
    }
}

fn refused(message: &str) -> Failed {
    Failed { reason: Reason::Refused, message: message.to_owned(), errno: 0 }
}

impl Commands {
    pub(super) fn new(environment: Vec<(String, String)>) -> Self {
        Self { environment, running: Vec::new(), ended: Vec::new() }
    }

    fn spawn(&self, exec: &Exec, passed: &[OwnedFd], log: Option<File>) -> io::Result<Running> {
        let mut passed = passed.iter();
        // Opened anew each time: the one of before a snapshot belongs to a root that is gone.
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let mut stdio: [BorrowedFd<'_>; 3] = [null.as_fd(); 3];
        for (place, kind) in stdio.iter_mut().zip(exec.stdio) {
            if kind == Stdio::Passed {
                *place = passed.next().map_or(null.as_fd(), AsFd::as_fd);
            }
        }
        let terminal = exec.terminal.map(open_terminal).transpose()?;
        let pipe = log.is_some().then(|| rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)).transpose()?;
        if let Some((_, side)) = &terminal {
            stdio = [side.as_fd(); 3];
        } else if let Some((_, write)) = &pipe {
            stdio[1..].fill(write.as_fd());
        }
        let strings = Strings::of(exec, &self.environment)?;
        let started = command::start(&Command {
            candidates: &strings.candidates,
            arguments: &strings.arguments,
            environment: &strings.environment,
            directory: &strings.directory,
            stdio,
            terminal: terminal.is_some(),
        })?;
        let log = match (log, pipe) {
            (Some(to), Some((from, _))) => {
                rustix::io::ioctl_fionbio(&from, true)?;
                Some(Log { from, to, written: 0 })
            }
            _ => None,
        };
        Ok(Running {
            pid: started.pid,
            waiting: Vec::new(),
            owner: None,
            outcome: Some(started.outcome),
            program: exec.arguments.first().map(|a| a.to_os().to_string_lossy().into_owned()).unwrap_or_default(),
            terminal: terminal.map(|(master, _)| master),
            log,
            deadline: exec.timeout_ms.map(|ms| Instant::now() + Duration::from_millis(ms)),
            timed_out: false,
            kill_at: None,
            status: None,
        })
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    pub(super) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let outcomes = self.running.iter().filter_map(|r| r.outcome.as_ref());
        let logs = self.running.iter().filter_map(|r| r.log.as_ref().map(|l| &l.from));
        outcomes.chain(logs).map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN))
    }

    /// Moves output into logs and learns which commands got as far as running.
    pub(super) fn pump(&mut self, connections: &mut Connections) {
        let mut failed = Vec::new();
        for running in &mut self.running {
            if running.outcome.as_ref().is_some_and(has_input) {
                match running.outcome.take().and_then(read_outcome) {
                    None => running.announce(connections),
                    Some(failure) => failed.push((running.pid, failure)),
                }
            }
            if running.log.as_mut().is_some_and(|log| !log.pump()) {
                running.log = None;
            }
        }
        for (pid, failure) in failed {
            if let Some(index) = self.running.iter().position(|r| r.pid == pid) {
                let running = self.running.swap_remove(index);
                if running.status.is_none() {
                    // Its end will be reaped like that of any orphan.
                    let _ = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::NOHANG);
                }
                let reply = Reply::Failed(describe(failure, &running.program));
                for client in running.waiting {
                    connections.send(client, &reply, &[]);
                }
            }
        }
        self.report_ended(connections);
    }

    /// Collects every child that ended, ours and the orphans that became ours.
    pub(super) fn reap(&mut self, connections: &mut Connections) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if let Some(running) = self.running.iter_mut().find(|r| r.pid == pid.as_raw_nonzero().get()) {
                running.status = Some(status);
            }
        }
        self.pump(connections);
    }

    fn report_ended(&mut self, connections: &mut Connections) {
        let mut index = 0;
        while index < self.running.len() {
            let running = &self.running[index];
            let Some(status) = running.status.filter(|_| running.outcome.is_none()) else {
                index += 1;
                continue;
            };
            let mut running = self.running.swap_remove(index);
            if let Some(log) = &mut running.log {
                log.pump();
            }
            let code = status.exit_status().or_else(|| status.terminating_signal().map(|s| 128 + s)).unwrap_or(255);
            let exited = Exited {
                pid: running.pid,
                code,
                missed_network: code != 0 && network::was_missed(),
                signal: status.terminating_signal(),
                timed_out: running.timed_out,
                others_alive: processes::others_alive(),
            };
            for client in &running.waiting {
                connections.send(*client, &Reply::Exited(exited.clone()), &[]);
            }
            if self.ended.len() == MOST_ENDED_REMEMBERED {
                self.ended.remove(0);
            }
            self.ended.push(exited);
        }
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
        for running in &mut self.running {
            running.waiting.retain(|w| *w != client);
            if running.owner == Some(client) {
                running.owner = None;
                running.end_gently(Signal::HUP);
            }
        }
    }

    pub(super) fn is_exec(&self, pid: i32) -> bool {
        self.running.iter().any(|r| r.pid == pid)
    }

    fn signal(&self, pid: i32, signal: i32) -> Reply {
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

    fn resize(&self, pid: i32, columns: u16, rows: u16) -> Reply {
        let terminal = self.running.iter().find(|r| r.pid == pid).and_then(|r| r.terminal.as_ref());
        match terminal.map(|t| rustix::termios::tcsetwinsize(t, size(columns, rows))) {
            Some(Ok(())) => Reply::Done,
            _ => no_such_process(pid),
        }
    }

    fn wait(&mut self, client: u64, pid: i32) -> Option<Reply> {
        if let Some(running) = self.running.iter_mut().find(|r| r.pid == pid) {
            running.waiting.push(client);
            return None;
        }
        let ended = self.ended.iter().rev().find(|e| e.pid == pid);
        Some(ended.map_or_else(|| no_such_process(pid), |e| Reply::Exited(e.clone())))
    }
}

impl Running {
    fn announce(&self, connections: &mut Connections) {
        let master = self.terminal.as_ref().map(AsFd::as_fd);
        for client in &self.waiting {
            connections.send(*client, &Reply::Started { pid: self.pid }, master.as_slice());
        }
    }

    fn end_gently(&mut self, signal: Signal) {
        self.signal(signal.as_raw());
        self.kill_at = Some(Instant::now() + PATIENCE);
    }

    /// To the whole group: what the command started and did not put in a group of its own.
    fn signal(&self, signal: i32) {
        if self.status.is_none() {
            let _ = whatif_sys::signals::send_to_group(self.pid, signal);
        }
    }
}

impl Log {
    /// Moves what has arrived; false at the end of the output.
    fn pump(&mut self) -> bool {
        let mut buffer = [0_u8; 16 << 10];
        loop {
            match rustix::io::read(&self.from, &mut buffer) {
                Ok(0) => return false,
                Ok(length) => {
                    if self.written < LARGEST_LOG && self.to.write_all(&buffer[..length]).is_ok() {
                        self.written += length as u64;
                        if self.written >= LARGEST_LOG {
                            let _ = self.to.write_all(b"\n[whatif: the log is full; further output is dropped]\n");
                        }
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return true,
                Err(_) => return false,
            }
        }
    }
}

/// The strings of a command in the form the kernel takes.
struct Strings {
    candidates: Vec<CString>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    directory: CString,
}

impl Strings {
    fn of(exec: &Exec, defaults: &[(String, String)]) -> io::Result<Self> {
        let c_string = |bytes: &[u8]| CString::new(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        let program = exec.arguments.first().ok_or(io::ErrorKind::InvalidInput)?.as_bytes();
        let search = exec
            .environment
            .iter()
            .find(|(name, _)| name.as_bytes() == b"PATH")
            .map_or(&b"/usr/bin:/bin"[..], |(_, v)| v.as_bytes());
        let candidates = if program.contains(&b'/') {
            vec![c_string(program)?]
        } else {
            let directories = search.split(|b| *b == b':').map(|d| if d.is_empty() { &b"."[..] } else { d });
            directories
                .map(|d| c_string(Path::new(OsStr::from_bytes(d)).join(OsStr::from_bytes(program)).as_os_str().as_bytes()))
                .collect::<io::Result<_>>()?
        };
        let own = exec.environment.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes()));
        let is_set = |name: &str| exec.environment.iter().any(|(n, _)| n.as_bytes() == name.as_bytes());
        let missing = defaults.iter().filter(|(n, _)| !is_set(n)).map(|(n, v)| (n.as_bytes(), v.as_bytes()));
        Ok(Self {
            candidates,
            arguments: exec.arguments.iter().map(|a| c_string(a.as_bytes())).collect::<io::Result<_>>()?,
            environment: own.chain(missing).map(|(n, v)| c_string(&[n, b"=", v].concat())).collect::<io::Result<_>>()?,
            directory: c_string(exec.directory.as_bytes())?,
        })
    }
}

/// A pair of terminal ends from the sandbox's own `/dev/pts`: the master for the client, the other for the command.
fn open_terminal((columns, rows): (u16, u16)) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::unlockpt(&master)?;
    let side = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    rustix::termios::tcsetwinsize(&master, size(columns, rows))?;
    Ok((master, side))
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn has_input(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0)
}

fn read_outcome(pipe: OwnedFd) -> Option<Failure> {
    let mut bytes = Vec::new();
    File::from(pipe).read_to_end(&mut bytes).ok()?;
    Failure::from_pipe(&bytes)
}

fn describe(failure: Failure, program: &str) -> Failed {
    let (reason, errno, what) = match failure {
        Failure::Directory(errno) => (Reason::Directory, errno, "enter the working directory".to_owned()),
        Failure::Execute(errno) if errno == rustix::io::Errno::NOENT.raw_os_error() => {
            return Failed { reason: Reason::NotFound, message: format!("{program}: not found in the sandbox"), errno };
        }
        Failure::Execute(errno) => (Reason::CannotExecute, errno, format!("execute {program}")),
        Failure::Setup(errno) => (Reason::CannotExecute, errno, "set up the command".to_owned()),
    };
    Failed { reason, message: format!("failed to {what}: {}", io::Error::from_raw_os_error(errno)), errno }
}

fn no_such_process(pid: i32) -> Reply {
    Reply::Failed(Failed { reason: Reason::NoSuchProcess, message: format!("there is no process {pid} in the sandbox"), errno: 3 })
}
