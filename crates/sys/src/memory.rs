//! Takes memory before it is needed, and gives it back between times of work.

use std::ops::Range;

/// Where pages are larger, nothing is populated.
const PAGE: usize = 4096;

unsafe extern "C" {
    // Provided by the linker: the first byte of the program and the first after its code.
    static __executable_start: u8;
    static etext: u8;
}

/// Takes a part of the arena and the next pages of the stack, all at once: page by page, as they are touched, takes twice as long.
pub fn populate(arena: Range<usize>, stack: usize) {
    let here = 0_u8;
    let top = (&raw const here).addr() & !(PAGE - 1);
    for range in [arena, top.saturating_sub(stack)..top] {
        // SAFETY: these pages are ours, and what they hold stays. Where that cannot be done, they come when they are touched.
        unsafe { libc::madvise(range.start as *mut libc::c_void, range.len(), libc::MADV_POPULATE_WRITE) };
    }
}

/// Unmaps the pages of our own program; those still in use come back one by one from the page cache. Most of
/// a keeper's life is waiting, and what it ran last it may not run again for hours.
pub fn release_code() {
    let page = rustix::param::page_size();
    // SAFETY: only the addresses of these symbols are taken. The range is mapped from a file, read-only and never written, so
    // dropping its pages loses nothing; they are read again when touched.
    unsafe {
        let start = (&raw const __executable_start).addr() & !(page - 1);
        let end = (&raw const etext).addr() & !(page - 1);
        if end > start {
            libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED);
        }
        libc::malloc_trim(0);
    }
}
