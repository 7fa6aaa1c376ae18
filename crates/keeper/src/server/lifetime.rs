//! How long the sandbox lives: until its time is up, or as long as somebody uses it.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use whatif_types::boot::KeeperLimits;

use crate::protocol::Farewell;
use crate::since_boot_ms;

/// The kernel could not be asked to wake us; so we look.
const WITHOUT_TIMER: Duration = Duration::from_millis(200);

pub(super) struct Lifetime {
    /// In milliseconds since the machine was started, sleep included.
    ends_at_ms: Option<u64>,
    /// Wakes us then, whether the machine slept or not.
    timer: Option<OwnedFd>,
    idle_after: Option<Duration>,
    last_used: Instant,
    farewell: Option<File>,
}

impl Lifetime {
    pub(super) fn new(limits: &KeeperLimits, farewell: Option<OwnedFd>) -> Self {
        let mut lifetime = Self {
            ends_at_ms: None,
            timer: None,
            idle_after: limits.idle_ms.map(Duration::from_millis),
            last_used: Instant::now(),
            farewell: farewell.map(File::from),
        };
        lifetime.renew(limits.ends_at_ms);
        lifetime
    }

    pub(super) fn renew(&mut self, ends_at_ms: Option<u64>) {
        self.ends_at_ms = ends_at_ms;
        self.timer = ends_at_ms.and_then(|at| timer_at(at).ok());
    }

    pub(super) fn timer(&self) -> Option<&OwnedFd> {
        self.timer.as_ref()
    }

    pub(super) fn was_used(&mut self) {
        self.last_used = Instant::now();
    }

    pub(super) fn next_deadline(&self, is_busy: bool) -> Option<Instant> {
        let look = (self.ends_at_ms.is_some() && self.timer.is_none()).then(|| Instant::now() + WITHOUT_TIMER);
        let idle = self.idle_after.filter(|_| !is_busy).map(|after| self.last_used + after);
        [look, idle].into_iter().flatten().min()
    }

    /// Whether it is over, and why.
    pub(super) fn is_over(&self, is_busy: bool) -> Option<Farewell> {
        if self.ends_at_ms.is_some_and(|at| since_boot_ms() >= at) {
            return Some(Farewell::Expired);
        }
        self.idle_after.filter(|after| !is_busy && self.last_used.elapsed() >= *after).map(|_| Farewell::Idle)
    }

    /// Said only once.
    pub(super) fn say(&mut self, why: Farewell) {
        // Once it is over, nothing shall wake us for it any more.
        (self.ends_at_ms, self.timer, self.idle_after) = (None, None, None);
        if let (Some(mut file), Ok(text)) = (self.farewell.take(), serde_json::to_vec(&why)) {
            let _ = file.write_all(&text);
        }
    }
}

fn timer_at(at_ms: u64) -> rustix::io::Result<OwnedFd> {
    let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
    // Zero would switch it off.
    let at_ms = at_ms.max(1);
    let value = Timespec { tv_sec: (at_ms / 1000) as i64, tv_nsec: ((at_ms % 1000) * 1_000_000) as i64 };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &once)?;
    Ok(timer)
}
