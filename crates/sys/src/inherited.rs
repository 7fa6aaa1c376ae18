//! The descriptors that a process was started with.

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// They belong to nobody until somebody adopts them.
#[derive(Debug)]
pub struct Inherited(());

impl Inherited {
    /// # Safety
    /// Only once, and before anything in the process owns a descriptor.
    #[must_use]
    pub unsafe fn of_this_process() -> Self {
        Self(())
    }

    /// Closes everything but the standard streams: whoever started us may wait for the end of something that we would hold open.
    #[must_use]
    pub fn only_standard(self) -> Self {
        // SAFETY: nobody owns them. What cannot be closed is not there.
        unsafe {
            libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
        }
        self
    }

    /// As many as are wanted, by their numbers. `None` if one of them is not there: then this process was started by hand.
    #[must_use]
    pub fn adopt<const COUNT: usize>(self, first: RawFd) -> Option<[OwnedFd; COUNT]> {
        let numbers: [RawFd; COUNT] = std::array::from_fn(|n| first + n as RawFd);
        // SAFETY: only asks whether it is there.
        let is_there = |number: &RawFd| rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(*number) }).is_ok();
        // SAFETY: they are there, nobody owns them, and nobody else can adopt them.
        numbers.iter().all(is_there).then(|| numbers.map(|number| unsafe { OwnedFd::from_raw_fd(number) }))
    }
}
