//! Work that several threads share, each making more of it as it goes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub(super) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    wake: Condvar,
    /// Somebody waits and there is nothing for them. Looked at often, so not behind the lock.
    short: AtomicBool,
}

struct Inner<T> {
    items: Vec<T>,
    waiting: usize,
    threads: usize,
}

/// Fewer are not worth handing over.
const FEWEST_GIVEN: usize = 2;

impl<T> Queue<T> {
    pub(super) fn new(items: Vec<T>, threads: usize) -> Self {
        Self { inner: Mutex::new(Inner { items, waiting: 0, threads }), wake: Condvar::new(), short: AtomicBool::new(false) }
    }

    /// A share of what there is. `None` when all threads are out of work: then there will be no more.
    pub(super) fn take(&self) -> Option<Vec<T>> {
        let mut inner = self.lock();
        loop {
            if !inner.items.is_empty() {
                let keep = inner.items.len() / 2;
                return Some(inner.items.split_off(keep));
            }
            inner.waiting += 1;
            if inner.waiting == inner.threads {
                self.wake.notify_all();
                return None;
            }
            self.short.store(true, Ordering::Relaxed);
            inner = self.wake.wait(inner).unwrap_or_else(PoisonError::into_inner);
            if inner.waiting == inner.threads {
                return None;
            }
            inner.waiting -= 1;
        }
    }

    /// One thread less works on it than was said, and has not begun.
    pub(super) fn without_one(&self) {
        self.lock().threads -= 1;
    }

    pub(super) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// Hands half of one's own work to whoever waits.
    pub(super) fn give(&self, own: &mut Vec<T>) {
        if own.len() < FEWEST_GIVEN {
            return;
        }
        let mut inner = self.lock();
        // The first ones are the oldest, and lead to the most.
        let keep = own.split_off(own.len() / 2);
        inner.items.append(own);
        *own = keep;
        self.short.store(false, Ordering::Relaxed);
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn everything_is_done_once_however_many_work_on_it() {
        // Each item makes more until it is zero: 2^12 leaves.
        let queue = Queue::new(vec![12_u32], 3);
        let leaves = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while let Some(mut own) = queue.take() {
                        while let Some(n) = own.pop() {
                            if n == 0 {
                                leaves.fetch_add(1, Ordering::Relaxed);
                            } else {
                                own.extend([n - 1, n - 1]);
                            }
                            if queue.is_short() {
                                queue.give(&mut own);
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(leaves.into_inner(), 1 << 12);
    }
}
