//! Which threads share one table of open files. Those of a process usually do, but each can have its own.

use std::cmp::Ordering;
use std::io;

use crate::check;

/// The kind of `kcmp` that compares tables; the filter of every sandbox lets only this one through.
pub(crate) const TABLES: u32 = 2;

/// The order of the tables of two threads: an arbitrary one, but the same until one of them gets another table.
pub fn compare_tables(one: i32, other: i32) -> io::Result<Ordering> {
    // SAFETY: only asks about two threads by their numbers; the last two arguments are not used for tables.
    match check(unsafe { libc::syscall(libc::SYS_kcmp, one, other, TABLES, 0, 0) })? {
        0 => Ok(Ordering::Equal),
        1 => Ok(Ordering::Less),
        2 => Ok(Ordering::Greater),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_a_table_until_one_takes_its_own() {
        let own = || rustix::thread::gettid().as_raw_nonzero().get();
        let parent = own();
        let compare = |unshare: bool| {
            let look = move || {
                if unshare {
                    // SAFETY: this thread ends at once, and uses no descriptor afterwards.
                    check(unsafe { libc::unshare(libc::CLONE_FILES) }.into()).expect("it may");
                }
                compare_tables(parent, own()).expect("both are ours")
            };
            std::thread::spawn(look).join().expect("it ends")
        };
        assert_eq!(compare(false), Ordering::Equal);
        assert_ne!(compare(true), Ordering::Equal);
    }
}
