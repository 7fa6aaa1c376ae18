//! How many connections there may be at once. What exceeds the places is turned away and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Debug)]
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    most: usize,
    turned_away: AtomicU64,
}

impl Slots {
    pub(crate) fn new(most: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(most)), most, turned_away: AtomicU64::new(0) }
    }

    /// A place for one more, for as long as the answer lives.
    pub(crate) fn take(&self) -> Option<OwnedSemaphorePermit> {
        let slot = Arc::clone(&self.free).try_acquire_owned().ok();
        if slot.is_none() {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
        }
        slot
    }

    pub(crate) fn taken(&self) -> usize {
        self.most - self.free.available_permits()
    }

    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }
}
