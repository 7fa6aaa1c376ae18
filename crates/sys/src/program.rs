//! How our programs begin: with what they need of what Rust does before `main`, and without the rest.
//!
//! Rust looks for the end of the stack in the memory map of the process, to be able to tell of an overflow. That takes longer than
//! most of what a small command does afterwards, and a keeper has nobody to tell.

use std::io::Write;

use crate::signals;

/// Makes a function the `main` of a program. It returns the exit code.
///
/// `memory` is how many bytes come from an arena; `at_once` how much of that, and of the stack, is going to be needed in any case.
#[macro_export]
macro_rules! program {
    ($main:path, memory: $memory:expr, at_once: $at_once:expr) => {
        #[cfg(not(test))]
        #[global_allocator]
        static MEMORY: $crate::arena::Arena<{ $memory }> = $crate::arena::Arena::new();

        #[cfg(not(test))]
        #[unsafe(no_mangle)]
        extern "C" fn main(_count: i32, _words: *const *const std::ffi::c_char) -> i32 {
            $crate::memory::populate(MEMORY.range($at_once.arena), $at_once.stack);
            $crate::program::run($main)
        }
    };
}

/// Bytes that a program touches whatever it does.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce {
    pub arena: usize,
    pub stack: usize,
}

/// Called once, by `main`.
pub fn run(main: fn() -> u8) -> i32 {
    have_standard_streams();
    // Whoever writes to what nobody reads any more is told by an error, not killed.
    signals::ignore_sigpipe();
    let code = main();
    let _ = std::io::stdout().flush();
    code.into()
}

/// What is opened next must not become a standard stream because that was closed: what is printed would go there.
fn have_standard_streams() {
    for number in 0..=2 {
        // SAFETY: asks about a number, and opens what is lowest and free: that one.
        unsafe {
            if libc::fcntl(number, libc::F_GETFD) == -1 {
                libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            }
        }
    }
}
