//! What a process passes on to those it starts besides descriptors and variables: its umask, resource limits and priorities.
//!
//! A keeper that was made beforehand has those of whoever made it; a command shall have those of whoever asked for it.

use std::sync::OnceLock;

use crate::raw;
use crate::shares::undisturbed;

/// The resources that Linux has limits for.
const RESOURCES: u32 = 16;
/// `ioprio_get` and `ioprio_set` about one process.
const ONE_PROCESS: libc::c_int = 1;

/// The umask that this process was started with, where it has looked.
static GIVEN: OnceLock<u32> = OnceLock::new();
/// What it takes away from the owner of a file. This process does not let it.
const FROM_OWNER: u32 = 0o700;

/// Lets this process use the files it makes, whatever its umask takes away from their owner. Commands still get the umask that it
/// was started with. Before there are other threads.
pub fn keep_own_files_usable() {
    // SAFETY: both only set a number of this process. In between, what is made is closed to others, never open to them.
    let given = unsafe {
        let given = libc::umask(0o077);
        libc::umask(given & !FROM_OWNER);
        given
    };
    GIVEN.get_or_init(|| given);
}

/// Takes the umask back that this process was started with, for a program that it becomes.
pub fn restore_umask() {
    if let Some(given) = GIVEN.get() {
        // SAFETY: it only sets a number of this process.
        unsafe { libc::umask(*given) };
    }
}

/// The settings of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub umask: u32,
    pub nice: i32,
    /// As the kernel writes it: class and level in one number.
    pub io_priority: i32,
    /// Number of a resource, soft and hard limit.
    pub limits: Vec<(u32, u64, u64)>,
}

impl Settings {
    /// Those of this process, looked at once.
    #[must_use]
    pub fn own() -> &'static Self {
        static OWN: OnceLock<Settings> = OnceLock::new();
        OWN.get_or_init(Self::look)
    }

    /// Those of this process, if a child would not inherit all of them.
    #[must_use]
    pub fn not_inherited() -> Option<&'static Self> {
        GIVEN.get().filter(|given| *given & FROM_OWNER != 0).map(|_| Self::own())
    }

    fn look() -> Self {
        let umask = GIVEN.get().copied().unwrap_or_else(umask);
        // SAFETY: both only ask about this process.
        let (nice, io_priority) =
            unsafe { (libc::getpriority(libc::PRIO_PROCESS, 0), libc::syscall(libc::SYS_ioprio_get, ONE_PROCESS, 0) as i32) };
        let limits = (0..RESOURCES).filter_map(|resource| {
            let limit = limit_of(resource)?;
            Some((resource, limit.rlim_cur, limit.rlim_max))
        });
        Self { umask, nice, io_priority, limits: undisturbed(|| limits.collect()) }
    }

    /// Takes these over, as far as this process may: nothing is raised beyond its own hard limits or its own priority. What the
    /// kernel refuses stays as it is. For a child that shares its memory.
    pub(crate) fn assume(&self) {
        for (resource, soft, hard) in &self.limits {
            let Ok(present) = raw::limit(*resource, None) else { continue };
            let limit = libc::rlimit64 { rlim_cur: (*soft).min(present.rlim_max), rlim_max: (*hard).min(present.rlim_max) };
            if (limit.rlim_cur, limit.rlim_max) != (present.rlim_cur, present.rlim_max) {
                let _ = raw::limit(*resource, Some(limit));
            }
        }
        // SAFETY: all of it are numbers, and about this process alone.
        unsafe {
            let _ = raw::call(libc::SYS_setpriority, [libc::PRIO_PROCESS as usize, 0, self.nice as usize, 0, 0]);
            if self.io_priority > 0 {
                let _ = raw::call(libc::SYS_ioprio_set, [ONE_PROCESS as usize, 0, self.io_priority as usize, 0, 0]);
            }
            let _ = raw::call(libc::SYS_umask, [self.umask as usize, 0, 0, 0, 0]);
        }
    }
}

/// The umask of this process. The call for it changes it as well, also for what other threads make or start meanwhile, so that is
/// only for where nothing else tells.
fn umask() -> u32 {
    let told = std::fs::read_to_string("/proc/thread-self/status").ok();
    let line = told.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("Umask:")));
    line.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok()).unwrap_or_else(|| {
        // SAFETY: both only set a number of this process. In between, what is made is closed to others, never open to them.
        unsafe {
            let umask = libc::umask(0o077);
            libc::umask(umask);
            umask
        }
    })
}

fn limit_of(resource: u32) -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is ours and outlives the call.
    (unsafe { libc::getrlimit(resource, &raw mut limit) } == 0).then_some(limit)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::shares::Counted;

    /// What is seen while another thread does something over and over.
    fn seen_beside<T>(other: impl Fn() + Sync, look: impl Fn() -> T) -> Vec<T> {
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    other();
                }
            });
            let seen = (0..2000).map(|_| look()).collect();
            is_done.store(true, Ordering::Relaxed);
            seen
        })
    }

    #[test]
    fn looking_does_not_change_what_other_threads_make() {
        let path = std::env::temp_dir().join(format!("whatif-settings-{}", std::process::id()));
        let make = || {
            let made = std::fs::File::create(&path).expect("a file").metadata().expect("it is ours");
            std::fs::remove_file(&path).expect("it is ours");
            made.permissions().mode()
        };
        let usual = make();
        let seen = seen_beside(|| drop(Settings::look()), make);
        assert_eq!(seen.iter().filter(|mode| **mode != usual).count(), 0);
    }

    #[test]
    fn limits_that_another_thread_has_lowered_for_a_moment_are_not_taken_for_ours() {
        let usual = Settings::look();
        let seen = seen_beside(|| Counted::lowered(|_| std::thread::yield_now()), Settings::look);
        assert_eq!(seen.iter().filter(|settings| **settings != usual).count(), 0);
    }

    #[test]
    fn looking_changes_nothing() {
        let before = Settings::look();
        assert_eq!(Settings::look(), before);
        assert_eq!(before.limits.len(), RESOURCES as usize);
    }
}
