//! Gives memory back between times of work.

unsafe extern "C" {
    // Provided by the linker: the first byte of the program and the first after its code.
    static __executable_start: u8;
    static etext: u8;
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
