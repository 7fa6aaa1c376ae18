//! How many connections secrets are put into at once, and how fast one follows another. Each costs two handshakes, and memory
//! for as long as it lasts. A program inside can ask for thousands a second by sending the same hello again and again.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::slots::Slots;

/// In the long run there is one handshake in this time.
const EVERY: Duration = Duration::from_millis(10);
/// More come without a pause if there were none for a while: tools open their connections all at once.
const AT_ONCE: u32 = 128;
/// For one of those that are open to end.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Turns {
    /// With those that wait. More would take up the places of connections without secrets.
    admitted: Slots,
    open: Arc<Semaphore>,
    most: usize,
    pace: Mutex<Pace>,
}

/// Lasts as long as the connection.
#[derive(Debug)]
pub(crate) struct Turn {
    _admitted: OwnedSemaphorePermit,
    _open: OwnedSemaphorePermit,
}

impl Turns {
    pub(crate) fn new(most: usize) -> Self {
        let pace = Mutex::new(Pace { next: Instant::now() });
        Self { admitted: Slots::new(2 * most), open: Arc::new(Semaphore::new(most)), most, pace }
    }

    pub(crate) async fn next(&self) -> io::Result<Turn> {
        let too_many = || io::Error::other(format!("no more than {} connections at once can carry secrets", self.most));
        let admitted = self.admitted.take().ok_or_else(too_many)?;
        let open =
            timeout(PATIENCE, Arc::clone(&self.open).acquire_owned()).await.map_err(|_| too_many())?.map_err(io::Error::other)?;
        let wait = self.pace.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(Turn { _admitted: admitted, _open: open })
    }
}

#[derive(Debug)]
struct Pace {
    /// When the next one would come if all came at the same distance.
    next: Instant,
}

impl Pace {
    /// How long the caller, whose turn this is now, has to wait for it.
    fn take(&mut self, now: Instant) -> Duration {
        let saved = EVERY * AT_ONCE;
        self.next = self.next.max(now) + EVERY;
        self.next.saturating_duration_since(now).saturating_sub(saved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_come_at_once_and_then_one_after_the_other() {
        let start = Instant::now();
        let mut pace = Pace { next: start };
        assert!((0..AT_ONCE).all(|_| pace.take(start).is_zero()));
        assert_eq!([pace.take(start), pace.take(start)], [EVERY, 2 * EVERY]);
        assert_eq!(pace.take(start + 3 * EVERY), Duration::ZERO, "what was waited for is over");
        let later = start + Duration::from_secs(3600);
        assert!((0..AT_ONCE).all(|_| pace.take(later).is_zero()));
        assert_eq!(pace.take(later), EVERY, "no more is saved up than that");
    }
}
