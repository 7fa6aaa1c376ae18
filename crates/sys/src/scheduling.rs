//! Who is run when.

use rustix::process::Pid;

/// A process that is woken takes the processor from whoever woke it. One that is killed has a whole sandbox to take down, which
/// nobody should wait for; as a batch process it begins with that when it is its turn.
pub(crate) fn do_not_preempt(pid: Pid) {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters outlive the call. Where this is not allowed, it merely ends at once.
    unsafe { libc::sched_setscheduler(pid.as_raw_nonzero().get(), libc::SCHED_BATCH, &raw const parameters) };
}

/// This process, for work that nobody waits for: it runs when nothing else wants to.
pub fn yield_to_all_others() {
    const THIS_PROCESS: libc::c_int = 1;
    const IDLE_CLASS: libc::c_int = 3 << 13;
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters outlive the call, and the others are numbers. What is not allowed leaves it as it was.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters);
        libc::syscall(libc::SYS_ioprio_set, THIS_PROCESS, 0, IDLE_CLASS);
    }
}
