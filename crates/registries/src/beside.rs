//! Work in a thread of its own, or at once where there can be no more threads: the standard library panics then.

use std::thread::{Builder, Scope, ScopedJoinHandle};

pub(crate) enum Beside<'s, T> {
    UnderWay(ScopedJoinHandle<'s, T>),
    Done(T),
}

impl<'s, T: Send + Default + 's> Beside<'s, T> {
    pub(crate) fn start(scope: &'s Scope<'s, '_>, work: impl Fn() -> T + Copy + Send + 's) -> Self {
        Builder::new().spawn_scoped(scope, work).map_or_else(|_| Self::Done(work()), Self::UnderWay)
    }

    pub(crate) fn end(self) -> T {
        match self {
            Self::UnderWay(thread) => thread.join().unwrap_or_default(),
            Self::Done(result) => result,
        }
    }
}
