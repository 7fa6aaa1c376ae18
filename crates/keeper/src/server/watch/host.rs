//! The memory of the machine, where no control group keeps a sandbox from taking all of it.
//!
//! The kernel says at once how much of it is left. Only if that is so little that the sandbox may be the reason, its processes are added
//! up. So this costs next to nothing as long as there is enough.

use std::io;
use std::time::Duration;

use whatif_types::boot::HostMemory;

use super::memory;

/// Faster than this no memory is filled.
const BYTES_PER_SECOND: f64 = 8e9;
const OFTEN: Duration = Duration::from_millis(2);
const NOW_AND_THEN: Duration = Duration::from_millis(100);
/// Short commands are over before that.
const FIRST: Duration = Duration::from_millis(20);
/// When less is left of what the host keeps, a sandbox that uses as much is ended.
const LAST_PART: u64 = 4;

pub(super) struct HostWatch {
    bounds: HostMemory,
}

/// What the kernel says of the whole machine, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Machine {
    total: u64,
    available: u64,
    swap_total: u64,
    swap_free: u64,
}

impl HostWatch {
    pub(super) fn new(bounds: HostMemory) -> Self {
        Self { bounds }
    }

    /// Says when to look first.
    pub(super) fn begin() -> Duration {
        FIRST
    }

    /// How long until the next look is due; nothing if it is too much. The kernel is asked again where it does not answer: nobody
    /// asked for this limit.
    pub(super) fn look(&self) -> Option<Duration> {
        let Some(machine) = Machine::now() else { return Some(NOW_AND_THEN) };
        if !self.is_suspicious(machine) {
            return Some(self.pause(machine));
        }
        match self.used() {
            Ok(used) if self.is_too_much(machine, used) => None,
            _ => Some(OFTEN.max(self.pause(machine))),
        }
    }

    /// Whether this sandbox may be what takes so much.
    fn is_suspicious(&self, machine: Machine) -> bool {
        machine.taken() >= self.bounds.limit || machine.left() < self.last()
    }

    fn is_too_much(&self, machine: Machine, used: u64) -> bool {
        used > self.bounds.limit || (machine.left() < self.last() && used > self.last())
    }

    fn last(&self) -> u64 {
        self.bounds.kept / LAST_PART
    }

    fn used(&self) -> io::Result<u64> {
        memory::in_processes_and_files()
    }

    fn pause(&self, machine: Machine) -> Duration {
        let until_limit = self.bounds.limit.saturating_sub(machine.taken());
        let until_last = machine.left().saturating_sub(self.last());
        let nearest = if until_limit == 0 { until_last } else { until_limit.min(until_last) };
        Duration::from_secs_f64(nearest as f64 / BYTES_PER_SECOND).clamp(OFTEN, NOW_AND_THEN)
    }
}

impl Machine {
    fn now() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        let of = |name| memory::kib(&text, name);
        Some(Self {
            total: of("MemTotal:")?,
            available: of("MemAvailable:")?,
            swap_total: of("SwapTotal:").unwrap_or(0),
            swap_free: of("SwapFree:").unwrap_or(0),
        })
    }

    /// Nothing that runs on the machine uses more than this.
    fn taken(self) -> u64 {
        self.total.saturating_sub(self.available) + self.swap_total.saturating_sub(self.swap_free)
    }

    fn left(self) -> u64 {
        self.available + self.swap_free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn machine(available: u64) -> Machine {
        Machine { total: 16 * GIB, available, swap_total: 0, swap_free: 0 }
    }

    #[test]
    fn a_sandbox_is_looked_at_only_where_it_may_be_the_reason() {
        let watch = HostWatch::new(HostMemory { limit: 14 * GIB, kept: 2 * GIB });
        assert!(!watch.is_suspicious(machine(8 * GIB)));
        assert!(!watch.is_suspicious(machine(3 * GIB)));
        assert!(watch.is_suspicious(machine(2 * GIB)));
        // Others may have filled it: a small one goes on.
        assert!(!watch.is_too_much(machine(GIB / 4), GIB / 4));
        assert!(watch.is_too_much(machine(GIB / 4), GIB));
        assert!(!watch.is_too_much(machine(GIB), GIB));
        assert!(watch.is_too_much(machine(GIB), 15 * GIB));
    }

    #[test]
    fn looks_become_frequent_towards_the_limit() {
        let watch = HostWatch::new(HostMemory { limit: 14 * GIB, kept: 2 * GIB });
        assert_eq!(watch.pause(machine(12 * GIB)), NOW_AND_THEN);
        assert_eq!(watch.pause(machine(2 * GIB + (1 << 20))), OFTEN);
        // Beyond the limit of one, because of many: what is left decides.
        assert_eq!(watch.pause(machine(2 * GIB)), NOW_AND_THEN);
    }
}
