//! Room for records on a full disk: a reserve that is given up when there is none, so that what frees space needs none.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use super::SqliteStore;
use crate::StoreError;

/// Enough for the log, its index and a few rows.
const RESERVE: usize = 512 << 10;

impl SqliteStore {
    /// Does the work, and once more with the reserve released if the disk is full.
    ///
    /// A part of a transaction is not repeated: SQLite has taken back what was done before it, so that part alone would be
    /// recorded. The transaction as a whole is.
    pub(super) fn with_room<T>(&self, mut work: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let is_part = self.connection.get().is_some_and(|connection| !connection.is_autocommit());
        match work() {
            Err(error) if !is_part && is_full(&error) => {
                // If there is none, another command may have released it since.
                let _ = std::fs::remove_file(reserve_of(&self.path));
                work()
            }
            other => other,
        }
    }
}

fn reserve_of(path: &Path) -> PathBuf {
    path.with_file_name("reserve")
}

/// One that cannot be made now is made by a later command. It never takes the room that was released for another one.
pub(super) fn keep_reserve(path: &Path) {
    let reserve = reserve_of(path);
    let has_room = |room: rustix::fs::StatVfs| room.f_bavail.saturating_mul(room.f_frsize) > 4 * RESERVE as u64;
    if let Ok(mut file) = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&reserve)
        && (!rustix::fs::fstatvfs(&file).is_ok_and(has_room) || file.write_all(&vec![0; RESERVE]).is_err())
    {
        let _ = std::fs::remove_file(&reserve);
    }
}

fn is_full(error: &StoreError) -> bool {
    match error {
        StoreError::Full => true,
        // Without room even for its index, SQLite cannot open the log.
        StoreError::Database(error) => error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_transaction_that_was_taken_back_is_not_repeated() {
        let directory = std::env::temp_dir().join(format!("whatif-room-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        let store = SqliteStore::at(directory.join("state.db"));
        let full = || StoreError::from(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(13), None));

        let mut times = 0;
        let done = store.in_transaction(|connection| {
            store.with_room(|| {
                times += 1;
                // As SQLite does when there is no room in the middle of one.
                connection.execute_batch("ROLLBACK")?;
                Err::<(), _>(full())
            })
        });
        assert!(done.is_err_and(|error| is_full(&error)));
        assert_eq!(times, 1, "outside of its transaction it would be recorded by itself");

        let mut times = 0;
        let whole = store.with_room(|| {
            times += 1;
            if times == 1 { Err(full()) } else { Ok(()) }
        });
        assert!(whole.is_ok() && times == 2, "the whole is done again, with the reserve released");
        assert!(!reserve_of(&store.path).exists());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
