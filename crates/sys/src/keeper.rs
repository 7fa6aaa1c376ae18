//! Starts a keeper: its program, executed as PID 1 of new namespaces.
//!
//! The child between `clone` and `execveat` shares our memory while we are suspended (as in `posix_spawn`), so a caller with
//! a large heap pays nothing for it. It makes system calls only.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::process::{Pid, WaitOptions, waitpid};

use crate::shares::{Counted, undisturbed};
use crate::{check, signals};

const STACK_SIZE: usize = 64 * 1024;
/// More descriptors are never passed.
const MOST_PASSED: usize = 16;
const LAST_CAPABILITY: libc::c_ulong = 63;

/// Adds so many thousandths of the machine's memory to what a process uses when the kernel chooses which one to kill.
const EXPENDABLE: &CStr = c"300";

/// The first of the passed descriptors has this number in the keeper, the others follow.
pub const FIRST_PASSED: RawFd = 3;

/// What the keeper starts as.
#[derive(Debug)]
pub struct Start<'a> {
    pub program: Program<'a>,
    /// With the name that the process goes by.
    pub arguments: &'a [CString],
    /// Given to the keeper as descriptors 3, 4, …, and after them what it is executed from; all others are closed.
    pub passed: &'a [BorrowedFd<'a>],
    /// For an ordinary user: the lines for `uid_map` and `gid_map` of a new user namespace.
    pub own_user_namespace: Option<(&'a CStr, &'a CStr)>,
    /// What it runs goes before the rest of the machine if that runs out of memory.
    pub is_expendable: bool,
}

/// The file to execute.
#[derive(Clone, Copy, Debug)]
pub enum Program<'a> {
    /// Its path in the caller's mount namespace.
    Named(&'a CStr),
    /// One that has no name, and that nobody can write to.
    Held(BorrowedFd<'a>),
}

#[derive(Debug)]
pub struct Started {
    pub pid: Pid,
    pub pidfd: OwnedFd,
}

/// The step at which the child stopped, for the error message.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
enum Step {
    MapIds = 1,
    ProtectExecutable,
    PassDescriptors,
    KeepCapabilities,
    Execute,
}

impl Step {
    fn describe(step: i32) -> &'static str {
        match step {
            s if s == Self::MapIds as i32 => "map the user's ids into the new user namespace",
            s if s == Self::ProtectExecutable as i32 => "make a read-only view of its program",
            s if s == Self::PassDescriptors as i32 => "pass descriptors to the keeper",
            s if s == Self::KeepCapabilities as i32 => "keep capabilities over the execution of the keeper",
            s if s == Self::Execute as i32 => "execute the keeper",
            _ => "start the keeper",
        }
    }
}

/// Shared with the child, which runs in our memory while we wait.
struct Shared<'a> {
    start: &'a Start<'a>,
    argv: *const *const libc::c_char,
    dev_null: RawFd,
    /// The limits of the caller, while those for a new user namespace are in force.
    limits: Option<Counted>,
    failed_step: i32,
    errno: i32,
}

/// Clones and executes. The error says which step failed.
pub fn start(start: &Start<'_>) -> Result<Started, StartError> {
    let argv: Vec<*const libc::c_char> = start.arguments.iter().map(|a| a.as_ptr()).chain([std::ptr::null()]).collect();
    let dev_null = std::fs::File::options().read(true).write(true).open("/dev/null").map_err(|e| StartError::new(0, e))?;
    let mut shared = Shared { start, argv: argv.as_ptr(), dev_null: dev_null.as_raw_fd(), limits: None, failed_step: 0, errno: 0 };
    // Most of it is never touched.
    let mut stack = Box::<[u8]>::new_uninit_slice(STACK_SIZE);
    let mut flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::SIGCHLD;
    if start.own_user_namespace.is_some() {
        flags |= libc::CLONE_NEWUSER;
    }
    let mut pidfd: RawFd = -1;
    let mut clone = |shared: &mut Shared<'_>| {
        // SAFETY: CLONE_VFORK suspends us until the child has executed or exited, so the stack and `shared` outlive its use of
        // them and nothing races; the child function only makes system calls and never returns into our frames.
        let pid = unsafe {
            let top = stack.as_mut_ptr().add(STACK_SIZE & !15).cast();
            libc::clone(child, top, flags, std::ptr::from_mut(shared).cast(), &raw mut pidfd)
        };
        check(pid.into())
    };
    let pid = if start.own_user_namespace.is_some() {
        Counted::lowered(|before| {
            shared.limits = Some(*before);
            clone(&mut shared)
        })
    } else {
        undisturbed(|| clone(&mut shared))
    };
    let pid = pid.and_then(|pid| Pid::from_raw(pid as i32).ok_or(io::ErrorKind::InvalidData.into()));
    let pid = pid.map_err(|e| StartError::new(0, e))?;
    // SAFETY: CLONE_PIDFD stored a new descriptor there.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    if shared.errno != 0 {
        let _ = waitpid(Some(pid), WaitOptions::empty());
        return Err(StartError::new(shared.failed_step, io::Error::from_raw_os_error(shared.errno)));
    }
    Ok(Started { pid, pidfd })
}

#[derive(Debug)]
pub struct StartError {
    pub step: &'static str,
    pub error: io::Error,
}

impl StartError {
    /// The program cannot be had.
    #[must_use]
    pub fn of_program(error: io::Error) -> Self {
        Self::new(Step::ProtectExecutable as i32, error)
    }

    /// The program was not where it was said to be.
    #[must_use]
    pub fn lacks_program(&self) -> bool {
        self.step == Step::describe(Step::ProtectExecutable as i32) && self.error.kind() == io::ErrorKind::NotFound
    }

    /// It was found, and must not or cannot be executed from there.
    #[must_use]
    pub fn refuses_program(&self) -> bool {
        self.step == Step::describe(Step::Execute as i32)
    }

    fn new(step: i32, error: io::Error) -> Self {
        Self { step: Step::describe(step), error }
    }
}

extern "C" fn child(argument: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the caller passed a `Shared` that it does not touch while we run.
    let shared = unsafe { &mut *argument.cast::<Shared<'_>>() };
    let Err((step, error)) = become_keeper(shared);
    shared.failed_step = step as i32;
    shared.errno = error.raw_os_error().unwrap_or(libc::EIO);
    // SAFETY: ends only this child.
    unsafe { libc::_exit(127) }
}

fn become_keeper(shared: &Shared<'_>) -> Result<std::convert::Infallible, (Step, io::Error)> {
    let at = |step: Step| move |error: io::Error| (step, error);

    // The namespace is made; what it was made with is not for those inside.
    if let Some(limits) = &shared.limits {
        limits.restore();
    }

    // 1. Exactly the passed descriptors, and nothing on the standard ones. First of all: until then we hold open what other threads
    //    of the caller may close, and their locks.
    let place = pass_descriptors(shared).map_err(at(Step::PassDescriptors))?;

    // 2. A user's own ids, before anything asks for them. `setgroups` must be denied first, or the kernel refuses the map.
    if let Some((uid_map, gid_map)) = shared.start.own_user_namespace {
        write_file(c"/proc/self/setgroups", c"deny").map_err(at(Step::MapIds))?;
        write_file(c"/proc/self/uid_map", uid_map).map_err(at(Step::MapIds))?;
        write_file(c"/proc/self/gid_map", gid_map).map_err(at(Step::MapIds))?;
    }

    // While its file is still ours to write. Where that is forbidden, the kernel chooses as it always does.
    if shared.start.is_expendable {
        let _ = write_file(c"/proc/self/oom_score_adj", EXPENDABLE);
    }

    // 3. Execute through a read-only mount of the program: whoever gets hold of `/proc/<pid>/exe` inside cannot write to it.
    if let Program::Named(path) = shared.start.program {
        read_only_view(path, place).map_err(at(Step::ProtectExecutable))?;
    }

    // 4. Executing as an ordinary uid would drop the capabilities over the new namespaces.
    if shared.start.own_user_namespace.is_some() {
        make_capabilities_ambient().map_err(at(Step::KeepCapabilities))?;
    }

    // 5. Its own session, so that no terminal signal of the caller reaches it; default signals, empty mask.
    signals::restore_all_defaults();
    let none = signals::set_of(&[]);
    // SAFETY: plain system calls on valid values; `argv` ends with a null pointer and its strings outlive the call.
    unsafe {
        libc::setsid();
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        let no_environment = [std::ptr::null::<libc::c_char>()];
        libc::syscall(libc::SYS_execveat, place, c"".as_ptr(), shared.argv, no_environment.as_ptr(), libc::AT_EMPTY_PATH);
    }
    Err((Step::Execute, io::Error::last_os_error()))
}

fn write_file(path: &CStr, text: &CStr) -> io::Result<()> {
    // SAFETY: both strings outlive the calls; the descriptor is closed by `execveat` or exit.
    unsafe {
        let fd = check(libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC).into())?;
        check(libc::write(fd as i32, text.as_ptr().cast(), text.count_bytes()) as libc::c_long)?;
    }
    Ok(())
}

/// A detached read-only clone of the mount the program lies on, rooted at the program itself.
///
/// The keeper holds it as long as it lives: to close it is to unmount it, for which the kernel waits until every processor has
/// taken notice, and the keeper would with it, before its first step.
fn read_only_view(path: &CStr, place: RawFd) -> io::Result<()> {
    const CLONE: libc::c_uint = 1;
    // SAFETY: plain system calls; the path outlives them and the attribute structure is given with its true size.
    unsafe {
        let tree = libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), CLONE | libc::O_CLOEXEC as libc::c_uint);
        let tree = check(tree)?;
        let attributes = libc::mount_attr {
            attr_set: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID,
            attr_clr: 0,
            propagation: 0,
            userns_fd: 0,
        };
        check(libc::syscall(
            libc::SYS_mount_setattr,
            tree,
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        ))?;
        let tree = tree as RawFd;
        // Whatever was opened on the way may have that number.
        check(if tree == place { libc::fcntl(tree, libc::F_SETFD, 0) } else { libc::dup2(tree, place) }.into())?;
    }
    Ok(())
}

/// Another number for a descriptor, above all final places. The kernel calls it invalid where so many are not allowed.
fn park(fd: RawFd) -> io::Result<RawFd> {
    const ABOVE: RawFd = FIRST_PASSED + MOST_PASSED as RawFd + 1;
    // SAFETY: duplicates a descriptor of this child only; its table is a copy.
    let parked = check(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, ABOVE) }.into());
    match parked {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(io::Error::from_raw_os_error(libc::EMFILE)),
        parked => parked.map(|fd| fd as RawFd),
    }
}

/// Returns the place of the program, after the passed ones. It is there already if it is held.
fn pass_descriptors(shared: &Shared<'_>) -> io::Result<RawFd> {
    let mut parked = [0 as RawFd; MOST_PASSED];
    let count = shared.start.passed.len().min(parked.len());
    let after = FIRST_PASSED + count as RawFd;
    // SAFETY: duplicates and closes descriptors of this child only; its table is a copy.
    unsafe {
        for (slot, fd) in parked.iter_mut().zip(shared.start.passed) {
            *slot = park(fd.as_raw_fd())?;
        }
        let held = match shared.start.program {
            Program::Held(fd) => Some(park(fd.as_raw_fd())?),
            Program::Named(_) => None,
        };
        for standard in 0..3 {
            check(libc::dup2(shared.dev_null, standard).into())?;
        }
        for (number, parked) in parked.iter().take(count).enumerate() {
            check(libc::dup2(*parked, FIRST_PASSED + number as RawFd).into())?;
        }
        let mut first_unwanted = after;
        if let Some(held) = held {
            check(libc::dup2(held, after).into())?;
            first_unwanted += 1;
        }
        check(libc::syscall(libc::SYS_close_range, first_unwanted, libc::c_uint::MAX, 0))?;
    }
    Ok(after)
}

/// Everything permitted becomes inheritable and ambient, so that it survives `execve` by a uid other than 0.
fn make_capabilities_ambient() -> io::Result<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Data {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let mut header = Header { version: VERSION_3, pid: 0 };
    let mut data = [Data { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: capget and capset take the documented pair of structures for version 3; prctl takes integers.
    unsafe {
        check(libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()))?;
        for half in &mut data {
            half.inheritable = half.permitted;
        }
        check(libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()))?;
        for capability in 0..=LAST_CAPABILITY {
            let half = data[(capability / 32) as usize];
            if half.permitted & (1 << (capability % 32)) != 0 {
                check(libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, capability, 0, 0).into())?;
            }
        }
    }
    Ok(())
}
