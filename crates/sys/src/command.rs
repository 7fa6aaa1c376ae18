//! Starts a command inside a sandbox. Called by the keeper.
//!
//! The child shares the keeper's memory until it executes the command: to copy what the keeper has, and to fault it in again page by
//! page, would take as long as the rest of it. The keeper goes on meanwhile, since a child may be held up anywhere (a directory on a
//! file system that does not answer). So the child makes system calls and touches nothing but its own stack and what was laid out for
//! it, and that stays as it is until it is known to be done with.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;

use rustix::process::Pid;

use crate::settings::Settings;
use crate::{check, children, raw, shares};

/// What to run, fully resolved.
#[derive(Debug)]
pub struct Command<'a> {
    pub strings: Strings,
    pub stdio: [BorrowedFd<'a>; 3],
    /// The command gets a session of its own; with a terminal on its standard input, that becomes its controlling one.
    pub terminal: bool,
    pub bounds: Bounds<'a>,
    /// Those of whoever asked for it, if they are not the keeper's own.
    pub settings: Option<Settings>,
}

#[derive(Debug)]
pub struct Strings {
    /// Tried in order, as a shell tries the directories of `PATH`.
    pub candidates: Vec<CString>,
    pub arguments: Vec<CString>,
    pub environment: Vec<CString>,
    pub directory: CString,
}

/// What the command is put into before it runs; inherited by everything it starts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds<'a> {
    /// Files of control groups: whoever writes "0" to one is in its group.
    pub entrances: &'a [OwnedFd],
    /// Such a file of the group that the sandbox is held with. Whoever is not in it then is taken in later.
    pub freezer: Option<BorrowedFd<'a>>,
    /// The most processes and threads of its user, in its user namespace.
    pub processes: Option<u64>,
    /// The most private memory of one process.
    pub data: Option<u64>,
    /// The most one file may become.
    pub file_size: Option<u64>,
    /// How many of the processors at hand it is put on.
    pub processors: Option<usize>,
    /// Whether the host has processes of its uid.
    pub shares_uid: bool,
}

/// Why a command could not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    Directory(i32),
    Execute(i32),
    /// It could not be put within its bounds.
    Bounds(i32),
    Setup(i32),
}

impl Failure {
    /// Reads what the child left in the pipe; `None` when it got as far as running.
    fn from_pipe(bytes: &[u8]) -> Option<Self> {
        let (kind, errno) = (*bytes.first()?, i32::from_ne_bytes(bytes.get(1..5)?.try_into().ok()?));
        Some(match kind {
            1 => Self::Directory(errno),
            2 => Self::Execute(errno),
            4 => Self::Bounds(errno),
            _ => Self::Setup(errno),
        })
    }

    fn to_pipe(self) -> [u8; 5] {
        let (kind, errno) = match self {
            Self::Directory(errno) => (1, errno),
            Self::Execute(errno) => (2, errno),
            Self::Setup(errno) => (3, errno),
            Self::Bounds(errno) => (4, errno),
        };
        let e = errno.to_ne_bytes();
        [kind, e[0], e[1], e[2], e[3]]
    }
}

/// A child that exists, and may not have executed its command yet.
#[derive(Debug)]
pub struct Starting {
    pub pid: i32,
    /// At end of file the command runs; otherwise it holds one `Failure`.
    outcome: OwnedFd,
    /// What the child may still look at.
    laid_out: Option<Box<LaidOut>>,
}

impl Starting {
    /// To be called when there is something to read, and reads once: a child that has reported a failure may be held still before it
    /// lets go of its end, and whoever waited for that would never let it go on. A child that has failed is still somewhere on its
    /// stack: it is to be kept until that is gone.
    pub fn outcome(self) -> Result<(), (Failure, Self)> {
        let mut bytes = [0; 16];
        let length = rustix::io::retry_on_intr(|| rustix::io::read(&self.outcome, &mut bytes)).unwrap_or(0);
        match Failure::from_pipe(&bytes[..length]) {
            Some(failure) => Err((failure, self)),
            None => {
                self.is_done_with();
                Ok(())
            }
        }
    }

    /// Its child is gone, or has become what it was started for.
    pub fn is_done_with(mut self) {
        drop(self.laid_out.take());
    }
}

impl AsFd for Starting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.outcome.as_fd()
    }
}

impl Drop for Starting {
    /// What a child may be using is never used for anything else.
    fn drop(&mut self) {
        std::mem::forget(self.laid_out.take());
    }
}

/// Everything a child needs, in one place that does not move.
struct LaidOut {
    strings: Strings,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    /// The standard streams, and where to report a failure.
    streams: [RawFd; 4],
    terminal: bool,
    entrances: Vec<RawFd>,
    freezer: Option<RawFd>,
    limits: [Option<(u32, u64)>; 3],
    processors: Option<usize>,
    shares_uid: bool,
    settings: Option<Settings>,
    stack: Stack,
}

impl std::fmt::Debug for LaidOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaidOut").field("strings", &self.strings).finish_non_exhaustive()
    }
}

/// Several times what the child uses.
#[repr(C, align(16))]
struct Stack([MaybeUninit<u8>; 16 << 10]);

/// Starts a child that executes the command. Returns as soon as it exists.
pub fn start(command: Command<'_>) -> io::Result<Starting> {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let Command { strings, stdio, terminal, bounds, settings } = command;
    let (outcome, report) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let [input, output, errors] = stdio.map(|stream| stream.as_raw_fd());
    let mut laid_out = Box::new(LaidOut {
        argv: pointers(&strings.arguments),
        envp: pointers(&strings.environment),
        strings,
        streams: [input, output, errors, report.as_raw_fd()],
        terminal,
        entrances: bounds.entrances.iter().map(AsRawFd::as_raw_fd).collect(),
        freezer: bounds.freezer.map(|freezer| freezer.as_raw_fd()),
        limits: [
            bounds.processes.map(|most| (libc::RLIMIT_NPROC, most)),
            bounds.data.map(|most| (libc::RLIMIT_DATA, most)),
            bounds.file_size.map(|most| (libc::RLIMIT_FSIZE, most)),
        ],
        processors: bounds.processors,
        shares_uid: bounds.shares_uid,
        settings,
        stack: Stack([MaybeUninit::uninit(); _]),
    });
    // SAFETY: one past the end of the stack, which is aligned as a stack must be.
    let top = unsafe { laid_out.stack.0.as_mut_ptr().add(laid_out.stack.0.len()) };
    // SAFETY: the child has a stack of its own and descriptors, signals and directories of its own; it only reads what was laid out,
    // which stays where it is until the child has executed something or for ever, and calls nothing that keeps anything in memory.
    let pid = check(
        unsafe { libc::clone(child, top.cast(), libc::CLONE_VM | libc::SIGCHLD, (&raw const *laid_out).cast_mut().cast()) }.into(),
    )?;
    drop(report);
    Ok(Starting { pid: pid as i32, outcome, laid_out: Some(laid_out) })
}

extern "C" fn child(laid_out: *mut libc::c_void) -> libc::c_int {
    // SAFETY: it is what `start` laid out, and nobody changes it.
    let laid_out = unsafe { &*laid_out.cast_const().cast::<LaidOut>() };
    let mut report = laid_out.streams[3];
    let Err(failure) = laid_out.execute(&mut report);
    let _ = raw::write(report, &failure.to_pipe());
    raw::exit(127)
}

/// Where the way to report a failure is, once the standard streams are in place.
const REPORT: RawFd = 3;

impl LaidOut {
    /// The child's part; returns only when something failed.
    fn execute(&self, report: &mut RawFd) -> Result<std::convert::Infallible, Failure> {
        // First of all: nothing of the command, not even its start, is outside.
        self.enter_bounds().map_err(Failure::Bounds)?;
        self.set_up(report).map_err(Failure::Setup)?;
        raw::chdir(&self.strings.directory).map_err(Failure::Directory)?;
        // Last: a small limit on open files would be in the way of what was done before.
        if let Some(settings) = &self.settings {
            settings.assume();
        }
        if self.shares_uid {
            shares::bound_objects().map_err(|errno| Failure::Bounds(errno.raw_os_error()))?;
        }
        // As `execvp` does: "not found" gives way to the more telling "permission denied" of an earlier candidate.
        let mut failure = libc::ENOENT;
        for candidate in &self.strings.candidates {
            let arguments = [candidate.as_ptr().addr(), self.argv.as_ptr().addr(), self.envp.as_ptr().addr(), 0, 0];
            // SAFETY: all of it is laid out, and both lists end with a null pointer.
            match unsafe { raw::call(libc::SYS_execve, arguments) } {
                Ok(_) | Err(libc::ENOENT | libc::ENOTDIR) => {}
                Err(libc::EACCES) => failure = libc::EACCES,
                Err(other) => return Err(Failure::Execute(other)),
            }
        }
        Err(Failure::Execute(failure))
    }

    fn set_up(&self, report: &mut RawFd) -> raw::Result<()> {
        // SAFETY: it has no arguments.
        let _ = unsafe { raw::call(libc::SYS_setsid, [0; 5]) };
        // Park everything above the final places first, so that no final place overwrites a descriptor still needed.
        let mut parked = [0; 4];
        for (slot, stream) in parked.iter_mut().zip(self.streams) {
            *slot = raw::copy_above(stream, 16)?;
        }
        for (place, fd) in (0..REPORT).zip(parked) {
            raw::copy_to(fd, place, 0)?;
        }
        raw::copy_to(parked[3], REPORT, libc::O_CLOEXEC)?;
        *report = REPORT;
        let _ = raw::close_from(REPORT + 1);
        if self.terminal {
            // SAFETY: the last argument is a number.
            unsafe { raw::call(libc::SYS_ioctl, [0, libc::TIOCSCTTY as usize, 0, 0, 0]) }?;
        }
        let nothing = 0_u64;
        let length = size_of_val(&nothing);
        let by_default = [0_u64; 4];
        // SAFETY: sets of signals of the kernel's own length, and actions that install no handler, which outlive the calls.
        unsafe {
            let _ = raw::call(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as usize, (&raw const nothing).addr(), 0, length, 0]);
            for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
                let _ = raw::call(libc::SYS_rt_sigaction, [signal as usize, by_default.as_ptr().addr(), 0, length, 0]);
            }
        }
        Ok(())
    }

    fn enter_bounds(&self) -> raw::Result<()> {
        for entrance in &self.entrances {
            raw::write(*entrance, b"0")?;
        }
        if let Some(freezer) = self.freezer {
            let _ = raw::write(freezer, b"0");
        }
        for (resource, limit) in self.limits.iter().flatten() {
            // Nobody may raise what is stricter already.
            let limit = (*limit).min(raw::limit(*resource, None)?.rlim_max);
            raw::limit(*resource, Some(libc::rlimit64 { rlim_cur: limit, rlim_max: limit }))?;
        }
        if let Some(most) = self.processors {
            // SAFETY: both sets are our own, of the size given, and a zeroed set is an empty one.
            unsafe {
                let (mut allowed, mut chosen): (libc::cpu_set_t, libc::cpu_set_t) = std::mem::zeroed();
                let length = size_of::<libc::cpu_set_t>();
                raw::call(libc::SYS_sched_getaffinity, [0, length, (&raw mut allowed).addr(), 0, 0])?;
                let at_hand = (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &allowed));
                at_hand.take(most).for_each(|cpu| libc::CPU_SET(cpu, &mut chosen));
                raw::call(libc::SYS_sched_setaffinity, [0, length, (&raw const chosen).addr(), 0, 0])?;
            }
        }
        Ok(())
    }
}

/// Splits off a child that carries on after we have exited, detached from the session and from standard input and output.
/// Returns true in the child.
///
/// Refused (`Unsupported`) where there are other threads. The copy would have what they were at in the middle of it, locked for ever,
/// and hold open whatever descriptors they have.
pub fn continue_in_background() -> io::Result<bool> {
    // Of this directory that is the number of threads, and two. Nobody but us could start another one meanwhile.
    if std::fs::metadata("/proc/self/task")?.nlink() != 3 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: the caller is single-threaded, so the child's copy of memory is consistent.
    let child = check(unsafe { libc::fork() }.into())?;
    if child != 0 {
        // Who stays collects it.
        if let Some(child) = Pid::from_raw(child as i32) {
            children::leave_alone_by_number(child);
        }
        return Ok(false);
    }
    // SAFETY: this child's own session and descriptors.
    unsafe {
        libc::setsid();
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if null != -1 {
            for standard in 0..3 {
                libc::dup2(null, standard);
            }
            if null > 2 {
                libc::close(null);
            }
        }
    }
    Ok(true)
}

/// Ends the process without running destructors: for a forked child whose copies of shared things are not its to close.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_known_before_its_child_is_gone() {
        let (outcome, report) = rustix::pipe::pipe().unwrap();
        let failed = Failure::Execute(libc::ENOENT);
        rustix::io::write(&report, &failed.to_pipe()).unwrap();
        let told = Starting { pid: 1, outcome, laid_out: None }.outcome();
        assert_eq!(told.map_err(|(failure, _)| failure), Err(failed));
        let (outcome, report) = rustix::pipe::pipe().unwrap();
        drop(report);
        assert!(Starting { pid: 1, outcome, laid_out: None }.outcome().is_ok(), "it runs");
    }

    #[test]
    fn a_process_with_other_threads_is_not_split() {
        let (going_on, awaited) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || awaited.recv());
        match continue_in_background() {
            Ok(true) => exit_now(0),
            Ok(false) => panic!("a copy of one thread goes on with what the others were at"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported),
        }
        drop(going_on);
        let _ = other.join();
    }
}
