//! What a process says when a signal ends it.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::check;

type Words = Vec<(i32, Vec<u8>)>;

/// What is said now. Never freed: a handler may be at it.
static WORDS: AtomicPtr<Words> = AtomicPtr::new(ptr::null_mut());

/// For as long as it lives, these signals do not end the process without a word. They still end it, and at once.
#[derive(Debug)]
pub struct LastWords {
    signals: Vec<i32>,
}

impl LastWords {
    /// What to write to standard error, by signal. One that is ignored stays so.
    pub fn prepare(words: Words) -> io::Result<Self> {
        let signals: Vec<i32> = words.iter().map(|(signal, _)| *signal).collect();
        WORDS.store(Box::into_raw(Box::new(words)), Ordering::Release);
        let mut prepared = Self { signals: Vec::new() };
        for signal in signals {
            if action_of(signal)? == libc::SIG_DFL {
                prepared.signals.push(signal);
                set_action(signal, speak as *const () as libc::sighandler_t)?;
            }
        }
        Ok(prepared)
    }
}

impl Drop for LastWords {
    fn drop(&mut self) {
        for signal in &self.signals {
            let _ = set_action(*signal, libc::SIG_DFL);
        }
    }
}

fn action_of(signal: i32) -> io::Result<libc::sighandler_t> {
    // SAFETY: without a new action the kernel only fills in the old one, which may be all zeroes before.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        check(libc::sigaction(signal, ptr::null(), &raw mut now).into())?;
        Ok(now.sa_sigaction)
    }
}

fn set_action(signal: i32, action: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: the action is the default one or `speak`, which calls nothing that is not safe in a handler. Its mask is empty.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = action;
        // It is the default one again as soon as the handler begins.
        new.sa_flags = libc::SA_RESETHAND;
        check(libc::sigaction(signal, &raw const new, ptr::null_mut()).into())?;
    }
    Ok(())
}

extern "C" fn speak(signal: i32) {
    // SAFETY: the pointer is null or leads to words that are never changed or freed. `write` and `raise` are safe in a handler.
    unsafe {
        if let Some(words) = WORDS.load(Ordering::Acquire).as_ref() {
            for (_, text) in words.iter().filter(|(of, _)| *of == signal) {
                libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
            }
        }
        // Blocked until the handler returns; then it ends the process as if nobody had said anything.
        libc::raise(signal);
    }
}
