//! Signals as file descriptors.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use crate::check;

/// Undoes what whoever started us may have blocked.
pub fn unblock_all() {
    let set = set_of(&[]);
    // SAFETY: `set` is an initialised signal set; a null old-set pointer is allowed.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) };
}

/// Keeps these signals from ending the calling thread's process, and from what it starts, unless that unblocks them.
pub fn block(signals: &[i32]) -> io::Result<()> {
    let set = set_of(signals);
    // SAFETY: `set` is an initialised signal set; a null old-set pointer is allowed. The mask is that of the thread.
    check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) }.into())?;
    Ok(())
}

/// Lets these signals through again.
pub fn unblock(signals: &[i32]) {
    let set = set_of(signals);
    // SAFETY: `set` is an initialised signal set; a null old-set pointer is allowed. The mask is that of the thread.
    unsafe { libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) };
}

/// Blocks these signals for the calling thread and returns a descriptor they can be read from.
pub fn as_descriptor(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = set_of(signals);
    block(signals)?;
    // SAFETY: -1 asks for a new descriptor, which nobody else owns.
    let fd = check(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) }.into())?;
    // SAFETY: the kernel just returned this descriptor to us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Reads the numbers of all signals that are waiting.
pub fn take(descriptor: &OwnedFd) -> Vec<i32> {
    let mut numbers = Vec::new();
    let mut buffer = [0_u8; size_of::<libc::signalfd_siginfo>()];
    while rustix::io::read(descriptor, &mut buffer).is_ok_and(|n| n == buffer.len()) {
        // `ssi_signo` is the first field.
        numbers.push(i32::from_ne_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]));
    }
    numbers
}

/// Lets writing to what nobody reads any more be an error like others.
pub(crate) fn ignore_sigpipe() {
    // SAFETY: ignoring a signal installs no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Ends the process at once when the reader of its output is gone, as other programs do.
pub fn restore_default_sigpipe() {
    // SAFETY: setting a signal to its default action installs no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Lets every signal do what it does by default. Whoever started us may have had some ignored, as a shell has for what it runs in
/// the background, and what ignores a signal hands that down.
pub(crate) fn restore_all_defaults() {
    /// Handler, flags, restorer and mask as the kernel has them.
    const DEFAULT: [u64; 4] = [0; 4];
    // Those that cannot be changed are refused, and are at their defaults. The C library keeps two for itself.
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: setting a signal to its default action installs no handler; the kernel reads what is there to be read.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, DEFAULT.as_ptr(), std::ptr::null_mut::<u8>(), size_of::<u64>()) };
    }
}

/// Makes a write beyond the limit on file sizes an error, rather than the end of the process in the middle of something. What we
/// start has it too, except commands in sandboxes.
pub fn ignore_file_size_signal() {
    // SAFETY: ignoring a signal installs no handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

pub(crate) fn set_of(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: sigemptyset initialises the set it is given; sigaddset only changes it.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        set
    }
}

/// Signals every process the caller may signal, except itself; 0 only asks whether there is one.
pub fn send_to_all(signal: i32) -> io::Result<()> {
    // SAFETY: kill takes plain integers.
    check(unsafe { libc::kill(-1, signal) }.into())?;
    Ok(())
}

/// Signals a process group by the id of its leader.
pub fn send_to_group(leader: i32, signal: i32) -> io::Result<()> {
    if leader <= 1 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: kill takes plain integers; the leader is checked not to mean "everybody".
    check(unsafe { libc::kill(-leader, signal) }.into())?;
    Ok(())
}
