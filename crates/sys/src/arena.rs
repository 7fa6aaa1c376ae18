//! Memory for programs that live for milliseconds.
//!
//! Half of what a short command does with the system's allocator is bookkeeping for memory that it never asks for again. Here the
//! first blocks come one after the other from a fixed space; what is freed there is reused only if it was the last one. When the
//! space is used up, or for large blocks, the system's allocator takes over, so a long life costs no more than that space.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Larger blocks would leave nothing for the many small ones.
const LARGEST_BLOCK: usize = 16 << 10;
const PAGE: usize = 4096;

#[repr(C, align(4096))]
struct Space<const SIZE: usize>(UnsafeCell<[MaybeUninit<u8>; SIZE]>);

/// An allocator whose first `SIZE` bytes come from a space of its own.
pub struct Arena<const SIZE: usize> {
    space: Space<SIZE>,
    used: AtomicUsize,
}

// SAFETY: each byte of the space belongs to one block at a time, and `used` is changed atomically.
unsafe impl<const SIZE: usize> Sync for Arena<SIZE> {}

impl<const SIZE: usize> std::fmt::Debug for Arena<SIZE> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arena").field("used", &self.used).finish_non_exhaustive()
    }
}

impl<const SIZE: usize> Arena<SIZE> {
    #[must_use]
    pub const fn new() -> Self {
        Self { space: Space(UnsafeCell::new([MaybeUninit::uninit(); SIZE])), used: AtomicUsize::new(0) }
    }

    /// The addresses of its first bytes, as many as these.
    pub fn range(&self, length: usize) -> Range<usize> {
        let start = self.start().addr();
        start..start + length.min(SIZE)
    }

    fn start(&self) -> *mut u8 {
        self.space.0.get().cast()
    }

    /// Where in the space a block begins; `None` if it is the system's.
    fn offset_of(&self, block: *mut u8) -> Option<usize> {
        let offset = block.addr().wrapping_sub(self.start().addr());
        (offset < SIZE).then_some(offset)
    }

    /// The next block; `None` if there is no room for it.
    fn next(&self, layout: Layout) -> Option<*mut u8> {
        if layout.size() > LARGEST_BLOCK || layout.align() > PAGE {
            return None;
        }
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let begin = used.next_multiple_of(layout.align());
            let end = begin.checked_add(layout.size()).filter(|end| *end <= SIZE)?;
            match self.used.compare_exchange_weak(used, end, Ordering::Relaxed, Ordering::Relaxed) {
                // SAFETY: `begin` is within the space, or at its end if nothing is asked for.
                Ok(_) => return Some(unsafe { self.start().add(begin) }),
                Err(now) => used = now,
            }
        }
    }

    /// Lets the last block end elsewhere. `false` if another one came after it, or there is no room.
    fn moved_end(&self, from: usize, to: usize) -> bool {
        to <= SIZE && self.used.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl<const SIZE: usize> Default for Arena<SIZE> {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: a block is either the system's and goes back to it, or a part of the space that no other block has until it is the last one
// and is freed.
unsafe impl<const SIZE: usize> GlobalAlloc for Arena<SIZE> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about the layout.
        self.next(layout).unwrap_or_else(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match self.next(layout) {
            Some(block) => {
                // It may have been another block's before.
                // SAFETY: it is as long as was asked for, and nobody else's.
                unsafe { ptr::write_bytes(block, 0, layout.size()) };
                block
            }
            // SAFETY: the caller's promise about the layout.
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match self.offset_of(block) {
            Some(begin) => {
                self.moved_end(begin + layout.size(), begin);
            }
            // SAFETY: it is not ours, so the system gave it.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(begin) = self.offset_of(block) else {
            // SAFETY: it is not ours, so the system gave it.
            return unsafe { System.realloc(block, layout, size) };
        };
        let grows_in_place = size <= LARGEST_BLOCK && self.moved_end(begin + layout.size(), begin + size);
        if grows_in_place || size <= layout.size() {
            return block;
        }
        // SAFETY: the caller's promise about the size; both blocks are as long as what is copied and do not overlap.
        unsafe {
            let larger = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !larger.is_null() {
                ptr::copy_nonoverlapping(block, larger, layout.size());
                self.dealloc(block, layout);
            }
            larger
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    #[test]
    fn blocks_lie_one_after_the_other_and_the_last_one_is_reused() {
        let arena = Arena::<4096>::new();
        // SAFETY: each block is used as long as it was asked for, and freed once.
        unsafe {
            let (first, second) = (arena.alloc(layout(24)), arena.alloc(layout(8)));
            assert_eq!(second.addr() - first.addr(), 24);
            arena.dealloc(second, layout(8));
            let third = arena.alloc_zeroed(layout(16));
            assert_eq!(third, second);
            assert_eq!(third.cast::<u64>().read(), 0);
            arena.dealloc(first, layout(24));
            assert_ne!(arena.alloc(layout(8)), first, "it is not the last one");
        }
    }

    #[test]
    fn the_last_block_grows_in_place_and_another_one_is_moved() {
        let arena = Arena::<4096>::new();
        // SAFETY: as above.
        unsafe {
            let first = arena.alloc(layout(8));
            first.cast::<u64>().write(7);
            assert_eq!(arena.realloc(first, layout(8), 64), first);
            let second = arena.alloc(layout(8));
            let moved = arena.realloc(first, layout(64), 128);
            assert!(moved != first && moved != second);
            assert_eq!(moved.cast::<u64>().read(), 7);
        }
    }

    #[test]
    fn what_does_not_fit_comes_from_the_system_and_goes_back_there() {
        let arena = Arena::<4096>::new();
        // SAFETY: as above.
        unsafe {
            let inside = arena.alloc(layout(4000));
            inside.write_bytes(1, 4000);
            let outside = arena.realloc(inside, layout(4000), 8000);
            assert!(arena.offset_of(inside).is_some() && arena.offset_of(outside).is_none());
            assert_eq!(outside.add(3999).read(), 1);
            arena.dealloc(outside, layout(8000));
            let large = arena.alloc(layout(LARGEST_BLOCK + 1));
            assert!(arena.offset_of(large).is_none());
            arena.dealloc(large, layout(LARGEST_BLOCK + 1));
        }
    }

    #[test]
    fn threads_never_share_a_block() {
        static SHARED: Arena<{ 1 << 20 }> = Arena::new();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                scope.spawn(move || {
                    for round in 0..2000_u64 {
                        // SAFETY: as above.
                        unsafe {
                            let block = SHARED.alloc(layout(16)).cast::<u64>();
                            block.write(thread << 32 | round);
                            std::thread::yield_now();
                            assert_eq!(block.read(), thread << 32 | round);
                            if round % 3 == 0 {
                                SHARED.dealloc(block.cast(), layout(16));
                            }
                        }
                    }
                });
            }
        });
    }
}
