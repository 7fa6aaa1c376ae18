//! Looks after the limits that nothing else enforces, while somebody is there to run into them.

mod host;
mod memory;
mod nameless;
mod room;
mod sockets;
mod system_v;
mod walk;

use std::time::{Duration, Instant};

use whatif_types::LimitHit;
use whatif_types::boot::KeeperLimits;

use self::host::HostWatch;
use self::memory::Memory;
pub(super) use self::room::Head;
use self::room::RoomWatch;
pub use self::sockets::Census;

/// Nothing that is watched is looked at less often.
const SELDOM: Duration = Duration::from_secs(1);

pub(super) struct Watch {
    memory: Option<Memory>,
    host: Option<HostWatch>,
    room: RoomWatch,
    next: Option<Instant>,
}

impl Watch {
    pub(super) fn new(limits: &KeeperLimits, head: Head, sockets: Option<Census>) -> Self {
        Self {
            memory: limits.memory.map(|limit| Memory::new(limit, sockets)),
            host: limits.host_memory.map(HostWatch::new),
            room: RoomWatch::new(limits, head),
            next: None,
        }
    }

    /// Somebody is about to run.
    pub(super) fn begin(&mut self) {
        if self.next.is_none() {
            let first = self.room.begin();
            let first = self.memory.as_mut().map_or(first, |m| first.min(m.begin()));
            let first = self.host.as_ref().map_or(first, |_| first.min(HostWatch::begin()));
            self.next = Some(Instant::now() + first);
        }
    }

    /// Nobody is left.
    pub(super) fn rest(&mut self) {
        self.next = None;
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.next
    }

    pub(super) fn is_due(&self) -> bool {
        self.next.is_some_and(|at| at <= Instant::now())
    }

    /// Looks at everything that is watched. `hold` keeps everybody still while a look takes long.
    pub(super) fn look(&mut self, hold: &mut dyn FnMut(bool)) -> Option<LimitHit> {
        let mut pause = SELDOM;
        if let Some(memory) = &mut self.memory {
            match memory.look() {
                Some(until_next) => pause = pause.min(until_next),
                None => return Some(LimitHit::Memory),
            }
        }
        if let Some(host) = &self.host {
            match host.look() {
                Some(until_next) => pause = pause.min(until_next),
                None => return Some(LimitHit::Memory),
            }
        }
        match self.room.look(hold) {
            Ok(until_next) => pause = pause.min(until_next),
            Err(hit) => return Some(hit),
        }
        self.next = Some(Instant::now() + pause);
        None
    }

    /// A last look when a command has ended: it may have been quicker than we.
    pub(super) fn look_at_the_end(&mut self) -> Option<LimitHit> {
        self.room.look_closely()
    }

    /// The limit on room that may have kept something from being written.
    pub(super) fn refuses(&self) -> Option<LimitHit> {
        self.room.refuses()
    }

    /// Other layers lie under the head now.
    pub(super) fn layers_changed(&mut self, bytes: u64, files: u64) {
        self.room.layers_changed(bytes, files);
    }

    /// What files in memory take, where nobody else counts that.
    pub(super) fn files_in_memory() -> u64 {
        memory::in_files()
    }

    /// What the sandbox's changes take, as far as it is known.
    pub(super) fn changes_bytes(&self) -> Option<u64> {
        self.room.known_bytes()
    }
}
