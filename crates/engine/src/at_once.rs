//! The same work on many things, by several threads.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::thread::{Builder, available_parallelism};

/// With more the others wait for the same disk and the same records.
const MOST_THREADS: usize = 8;
/// For fewer things a thread costs more than it saves.
const WORTH_A_THREAD: usize = 8;

/// The results, in the order of the things. Where no thread can be had, this one does it all.
pub(crate) fn at_once<T: Send, R: Send>(things: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = available_parallelism().map_or(1, NonZeroUsize::get).clamp(1, MOST_THREADS).min(things.len() / WORTH_A_THREAD);
    if threads < 2 {
        return things.into_iter().map(work).collect();
    }
    let count = things.len();
    let (waiting, done) = (Mutex::new(things.into_iter().enumerate()), Mutex::new(Vec::with_capacity(count)));
    let next = || waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
    let help = || {
        while let Some((place, thing)) = next() {
            let result = work(thing);
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((place, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            let _ = Builder::new().spawn_scoped(scope, help);
        }
        help();
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::at_once;

    #[test]
    fn results_keep_the_order_of_the_things() {
        for count in [0, 1, 7, 100] {
            assert_eq!(at_once((0..count).collect(), |n: u32| n * 2), (0..count).map(|n| n * 2).collect::<Vec<_>>());
        }
    }
}
