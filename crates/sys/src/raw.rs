//! System calls that leave nothing in the memory of the process but their result: not even an error number, which belongs to the
//! thread that a child shares its memory with.

use std::ffi::CStr;
use std::os::fd::RawFd;

/// The error number.
pub(crate) type Result<T> = std::result::Result<T, i32>;

/// # Safety
/// As that of the call with this number.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn call(number: libc::c_long, arguments: [usize; 5]) -> Result<usize> {
    let [a, b, c, d, e] = arguments;
    let result: isize;
    // SAFETY: what the kernel changes is named; the rest is up to the caller.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    told(result)
}

/// # Safety
/// As that of the call with this number.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn call(number: libc::c_long, arguments: [usize; 5]) -> Result<usize> {
    let [a, b, c, d, e] = arguments;
    let result: isize;
    // SAFETY: what the kernel changes is named; the rest is up to the caller.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e,
            options(nostack),
        );
    }
    told(result)
}

/// The kernel's way to say that something failed.
fn told(result: isize) -> Result<usize> {
    if (-4095..0).contains(&result) { Err(-(result as i32)) } else { Ok(result as usize) }
}

pub(crate) fn write(fd: RawFd, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the bytes outlive the call, which only reads them.
    unsafe { call(libc::SYS_write, [fd as usize, bytes.as_ptr().addr(), bytes.len(), 0, 0]) }
}

pub(crate) fn chdir(path: &CStr) -> Result<usize> {
    // SAFETY: the path outlives the call, which only reads it.
    unsafe { call(libc::SYS_chdir, [path.as_ptr().addr(), 0, 0, 0, 0]) }
}

/// A copy of a descriptor, at this number or above, that is closed when something is executed.
pub(crate) fn copy_above(fd: RawFd, number: RawFd) -> Result<RawFd> {
    // SAFETY: touches descriptors only.
    unsafe { call(libc::SYS_fcntl, [fd as usize, libc::F_DUPFD_CLOEXEC as usize, number as usize, 0, 0]) }.map(|fd| fd as RawFd)
}

/// The same at exactly this number, in place of whatever is there.
pub(crate) fn copy_to(fd: RawFd, number: RawFd, flags: i32) -> Result<usize> {
    // SAFETY: touches descriptors only.
    unsafe { call(libc::SYS_dup3, [fd as usize, number as usize, flags as usize, 0, 0]) }
}

pub(crate) fn close_from(number: RawFd) -> Result<usize> {
    // SAFETY: touches descriptors only.
    unsafe { call(libc::SYS_close_range, [number as usize, u32::MAX as usize, 0, 0, 0]) }
}

/// The limit of this process, and another one in its place if there is one.
pub(crate) fn limit(resource: u32, new: Option<libc::rlimit64>) -> Result<libc::rlimit64> {
    let mut present = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    let new = new.as_ref().map_or(0, |new| std::ptr::from_ref(new).addr());
    // SAFETY: both structures outlive the call.
    unsafe { call(libc::SYS_prlimit64, [0, resource as usize, new, (&raw mut present).addr(), 0]) }?;
    Ok(present)
}

/// Ends the process without a word.
pub(crate) fn exit(code: i32) -> ! {
    loop {
        // SAFETY: ends this process.
        let _ = unsafe { call(libc::SYS_exit_group, [code as usize, 0, 0, 0, 0]) };
    }
}
