//! Starts a command inside a sandbox. Called by the keeper, which is single-threaded and small, so a plain `fork` is right.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;

use rustix::process::Pid;

use crate::settings::Settings;
use crate::{check, children, shares, signals};

/// What to run, fully resolved: after the fork nothing may allocate.
#[derive(Debug)]
pub struct Command<'a> {
    /// Tried in order, as a shell tries the directories of `PATH`.
    pub candidates: &'a [CString],
    pub arguments: &'a [CString],
    pub environment: &'a [CString],
    pub directory: &'a CString,
    pub stdio: [BorrowedFd<'a>; 3],
    /// The command gets a session of its own; with a terminal on its standard input, that becomes its controlling one.
    pub terminal: bool,
    pub bounds: Bounds<'a>,
    /// Those of whoever asked for it, if they are not the keeper's own.
    pub settings: Option<&'a Settings>,
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

#[derive(Debug)]
pub struct Started {
    pub pid: i32,
    /// At end of file the command runs; otherwise it holds one `Failure`.
    pub outcome: OwnedFd,
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
    #[must_use]
    pub fn from_pipe(bytes: &[u8]) -> Option<Self> {
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

/// Forks and executes. Returns as soon as the child exists.
pub fn start(command: &Command<'_>) -> io::Result<Started> {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(command.arguments), pointers(command.environment));
    let (outcome, report) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: the process is single-threaded; the child makes only async-signal-safe calls before it executes or exits.
    match check(unsafe { libc::fork() }.into())? {
        0 => {
            let failure = execute(command, &argv, &envp, report.as_raw_fd());
            // SAFETY: writes a few owned bytes and ends this child only.
            unsafe {
                let bytes = failure.to_pipe();
                libc::write(failure_pipe(&report), bytes.as_ptr().cast(), bytes.len());
                libc::_exit(127)
            }
        }
        pid => Ok(Started { pid: pid as i32, outcome }),
    }
}

const REPORT: RawFd = 3;

/// The report pipe is moved to descriptor 3 once the standard ones are in place; before that it is where it was made.
fn failure_pipe(report: &OwnedFd) -> RawFd {
    // SAFETY: asks only for flags.
    if unsafe { libc::fcntl(report.as_raw_fd(), libc::F_GETFD) } == -1 { REPORT } else { report.as_raw_fd() }
}

/// The child's part; returns only when something failed.
fn execute(command: &Command<'_>, argv: &[*const libc::c_char], envp: &[*const libc::c_char], report: RawFd) -> Failure {
    let setup = || Failure::Setup(errno());
    // First of all: nothing of the command, not even its start, is outside.
    if command.bounds.enter().is_err() {
        return Failure::Bounds(errno());
    }
    // SAFETY: system calls on this child's own descriptors, session and memory; all strings outlive them.
    unsafe {
        libc::setsid();
        // Park everything above the final places first, so that no final place overwrites a descriptor still needed.
        let mut parked = [0; 4];
        let sources = [command.stdio[0].as_raw_fd(), command.stdio[1].as_raw_fd(), command.stdio[2].as_raw_fd(), report];
        for (slot, source) in parked.iter_mut().zip(sources) {
            *slot = libc::fcntl(source, libc::F_DUPFD_CLOEXEC, 16);
            if *slot == -1 {
                return setup();
            }
        }
        for (place, fd) in parked.into_iter().enumerate() {
            if libc::dup2(fd, place as RawFd) == -1 {
                return setup();
            }
        }
        libc::fcntl(REPORT, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::syscall(libc::SYS_close_range, REPORT + 1, libc::c_uint::MAX, 0);
        if command.terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) == -1 {
            return setup();
        }
        let none = signals::set_of(&[]);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
        if libc::chdir(command.directory.as_ptr()) == -1 {
            return Failure::Directory(errno());
        }
        // Last: a small limit on open files would be in the way of what was done before.
        if let Some(settings) = command.settings {
            settings.assume();
        }
        if command.bounds.shares_uid && shares::bound_objects().is_err() {
            return Failure::Bounds(errno());
        }
        // As `execvp` does: "not found" gives way to the more telling "permission denied" of an earlier candidate.
        let mut failure = libc::ENOENT;
        for candidate in command.candidates {
            libc::execve(candidate.as_ptr(), argv.as_ptr(), envp.as_ptr());
            match errno() {
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => failure = libc::EACCES,
                other => return Failure::Execute(other),
            }
        }
        Failure::Execute(failure)
    }
}

impl Bounds<'_> {
    /// In the child; leaves the reason in `errno`.
    fn enter(&self) -> Result<(), ()> {
        let done = |result: libc::c_long| if result == -1 { Err(()) } else { Ok(()) };
        for entrance in self.entrances {
            // SAFETY: writes one byte of a constant to a descriptor that outlives the call.
            done(unsafe { libc::write(entrance.as_raw_fd(), b"0".as_ptr().cast(), 1) } as libc::c_long)?;
        }
        if let Some(freezer) = self.freezer {
            // SAFETY: as above.
            let _ = unsafe { libc::write(freezer.as_raw_fd(), b"0".as_ptr().cast(), 1) };
        }
        for (resource, limit) in
            [(libc::RLIMIT_NPROC, self.processes), (libc::RLIMIT_DATA, self.data), (libc::RLIMIT_FSIZE, self.file_size)]
        {
            let Some(limit) = limit else { continue };
            let mut present = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: the structure is ours and outlives the call.
            done(unsafe { libc::getrlimit(resource, &raw mut present) }.into())?;
            // Nobody may raise what is stricter already.
            let limit = limit.min(present.rlim_max);
            let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
            // SAFETY: the structure outlives the call.
            done(unsafe { libc::setrlimit(resource, &raw const limit) }.into())?;
        }
        if let Some(most) = self.processors {
            // SAFETY: both sets are our own, of the size given, and a zeroed set is an empty one.
            unsafe {
                let (mut allowed, mut chosen): (libc::cpu_set_t, libc::cpu_set_t) = std::mem::zeroed();
                done(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut allowed).into())?;
                let at_hand = (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &allowed));
                at_hand.take(most).for_each(|cpu| libc::CPU_SET(cpu, &mut chosen));
                done(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const chosen).into())?;
            }
        }
        Ok(())
    }
}

fn errno() -> i32 {
    // SAFETY: reads this thread's own errno.
    unsafe { *libc::__errno_location() }
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
