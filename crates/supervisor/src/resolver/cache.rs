//! What was found, for a while; and who asks for the same at the same time waits for one answer.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;
use whatif_netpolicy::HostName;
use whatif_netpolicy::dns::Family;

use super::ResolveError;

const MOST_ENTRIES: usize = 4096;
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);
/// That there is nothing. A service that somebody is just setting up is found soon after.
const NOTHING: Duration = Duration::from_secs(5);
/// That nobody could say. Long enough for those who ask again at once.
const FAILURE: Duration = Duration::from_secs(1);

pub(super) type Outcome = Result<Vec<IpAddr>, ResolveError>;
type Cell = Arc<OnceCell<Entry>>;

#[derive(Debug, Default)]
pub(super) struct Cache {
    cells: Mutex<HashMap<(HostName, Family), Cell>>,
}

#[derive(Debug)]
struct Entry {
    outcome: Outcome,
    until: Instant,
}

impl Cache {
    /// What is known, or what `ask` says, with the seconds for which it holds. If who asks gives up, the next who waits asks.
    pub(super) async fn get_or_ask<F, Asked>(&self, name: &HostName, family: Family, ask: F) -> Outcome
    where
        F: FnOnce() -> Asked,
        Asked: Future<Output = (Outcome, u32)>,
    {
        let cell = self.cell(name, family, Instant::now());
        let entry = cell.get_or_init(|| async {
            let (outcome, ttl) = ask().await;
            let until = Instant::now() + lifetime(&outcome, ttl);
            Entry { outcome, until }
        });
        entry.await.outcome.clone()
    }

    pub(super) fn clear(&self) {
        self.cells().clear();
    }

    fn cell(&self, name: &HostName, family: Family, now: Instant) -> Cell {
        let key = (name.clone(), family);
        let mut cells = self.cells();
        if let Some(cell) = cells.get(&key).filter(|cell| is_of_use(cell, now)) {
            return Arc::clone(cell);
        }
        if cells.len() >= MOST_ENTRIES {
            make_room(&mut cells, now);
        }
        let cell = Cell::default();
        cells.insert(key, Arc::clone(&cell));
        cell
    }

    fn cells(&self) -> MutexGuard<'_, HashMap<(HostName, Family), Cell>> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An empty cell is being filled, or whoever was about to has given up; then the next one does.
fn is_of_use(cell: &Cell, now: Instant) -> bool {
    cell.get().is_none_or(|entry| entry.until > now)
}

/// Drops what is over and what nobody waits for; if that is not enough, what would be over first. What is being asked for stays:
/// there is a bound on that elsewhere.
fn make_room(cells: &mut HashMap<(HostName, Family), Cell>, now: Instant) {
    cells.retain(|_, cell| is_of_use(cell, now) && (cell.initialized() || Arc::strong_count(cell) > 1));
    while cells.len() >= MOST_ENTRIES {
        let filled = cells.iter().filter_map(|(key, cell)| cell.get().map(|entry| (entry.until, key)));
        let Some(soonest) = filled.min_by_key(|(until, _)| *until).map(|(_, key)| key.clone()) else { return };
        cells.remove(&soonest);
    }
}

fn lifetime(outcome: &Outcome, ttl: u32) -> Duration {
    match outcome {
        Ok(addresses) if !addresses.is_empty() => Duration::from_secs(ttl.into()).clamp(SHORTEST, LONGEST),
        Ok(_) | Err(ResolveError::NoSuchName | ResolveError::NoAddress | ResolveError::Loopback) => NOTHING,
        Err(ResolveError::NoAnswer | ResolveError::Unhelpful | ResolveError::TooMany) => FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn name(number: usize) -> HostName {
        format!("n{number}.example").parse().unwrap()
    }

    fn one() -> Outcome {
        Ok(vec!["192.0.2.1".parse().unwrap()])
    }

    #[test]
    fn what_is_found_is_kept_for_its_time_within_bounds() {
        for (outcome, ttl, seconds) in [
            (one(), 0, 1),
            (one(), 1, 1),
            (one(), 60, 60),
            (one(), u32::MAX, 300),
            (Ok(Vec::new()), 1000, 5),
            (Err(ResolveError::NoSuchName), 0, 5),
            (Err(ResolveError::NoAnswer), 0, 1),
        ] {
            assert_eq!(lifetime(&outcome, ttl), Duration::from_secs(seconds), "{outcome:?} for {ttl} s");
        }
    }

    #[tokio::test]
    async fn an_entry_is_used_until_its_time_is_over() {
        let cache = Cache::default();
        let before = Instant::now();
        cache.get_or_ask(&name(1), Family::V4, || async { (one(), 60) }).await.unwrap();
        assert!(cache.cell(&name(1), Family::V4, before + Duration::from_secs(60)).initialized());
        let after = Instant::now() + Duration::from_secs(60);
        assert!(!cache.cell(&name(1), Family::V4, after).initialized());
        assert!(!cache.cell(&name(1), Family::V4, before).initialized(), "it is forgotten then");
    }

    #[tokio::test]
    async fn those_who_ask_at_once_share_one_answer_even_if_the_first_gives_up() {
        let cache = Arc::new(Cache::default());
        let times = Arc::new(AtomicUsize::new(0));
        let wanted = || {
            let (cache, times) = (Arc::clone(&cache), Arc::clone(&times));
            tokio::spawn(async move {
                let ask = || async {
                    times.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    (one(), 60)
                };
                cache.get_or_ask(&name(1), Family::V4, ask).await
            })
        };
        let first = wanted();
        tokio::task::yield_now().await;
        let others = [wanted(), wanted(), wanted()];
        tokio::task::yield_now().await;
        first.abort();
        for other in others {
            assert_eq!(other.await.unwrap(), one());
        }
        assert_eq!(times.load(Ordering::Relaxed), 2, "the one who gave up, and one of the others");
    }

    #[tokio::test]
    async fn the_number_of_entries_is_bounded_and_families_are_kept_apart() {
        let cache = Cache::default();
        for number in 0..MOST_ENTRIES + 100 {
            let ttl = if number == 0 { 50 } else { 100 };
            assert_eq!(cache.get_or_ask(&name(number), Family::V4, || async { (one(), ttl) }).await, one());
        }
        assert_eq!(cache.cells().len(), MOST_ENTRIES);
        assert!(!cache.cells().contains_key(&(name(0), Family::V4)), "what would be over first goes first");
        let other = name(MOST_ENTRIES);
        assert_eq!(cache.get_or_ask(&other, Family::V6, || async { (Ok(Vec::new()), 0) }).await, Ok(Vec::new()));
        assert_eq!(cache.get_or_ask(&other, Family::V4, || async { (Ok(Vec::new()), 0) }).await, one());
        let later = Instant::now() + Duration::from_secs(101);
        cache.cell(&name(MOST_ENTRIES + 1), Family::V6, later);
        assert_eq!(cache.cells().len(), 1, "what is over goes when room is needed");
    }

    #[test]
    fn cells_that_nobody_fills_any_more_go_before_those_that_somebody_waits_for() {
        let cache = Cache::default();
        let now = Instant::now();
        let waiting = cache.cell(&name(0), Family::V4, now);
        for number in 1..MOST_ENTRIES + 10 {
            cache.cell(&name(number), Family::V4, now);
        }
        assert!(Arc::ptr_eq(&waiting, &cache.cell(&name(0), Family::V4, now)));
    }
}
