//! Room for records on a full disk: a reserve that is given up when there is none, so that what frees space needs none.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::{StoreError, Trouble};

/// Enough for the log, its index and a few rows.
const RESERVE: usize = 512 << 10;
/// The index of a log, unless that has grown very long.
const INDEX: u64 = 32 << 10;
/// What SQLite writes to new records before it makes the index.
const BEFORE_INDEX: u64 = 32 << 10;

/// Whether there was no room. Without any even for its index, SQLite cannot open the log.
pub(super) fn is_short(error: &StoreError) -> bool {
    matches!(error, StoreError::Full) || error.trouble() == Some(Trouble::Io)
}

/// If there is none, another command may have given it up since.
pub(super) fn give_up_reserve(path: &Path) {
    let _ = std::fs::remove_file(reserve_of(path));
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

/// Refuses to open records whose index finds no room. SQLite writes to it in memory, and the kernel ends a process by SIGBUS that
/// writes where the disk has no block. SQLite itself makes sure of the last block of each page only, and a block may be smaller.
pub(super) fn require_room_for_index(path: &Path) -> Result<(), StoreError> {
    let mut index = path.as_os_str().to_owned();
    index.push("-shm");
    // What cannot be looked at here, SQLite will say. The first to open an index gives its room back before taking it again.
    let held = std::fs::metadata(index).map_or(0, |index| index.blocks() * 512);
    if held >= INDEX {
        return Ok(());
    }
    let nameless = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let Some(Ok(probe)) = path.parent().map(|directory| rustix::fs::open(directory, nameless, Mode::RUSR | Mode::WUSR)) else {
        return Ok(());
    };
    match rustix::fs::fallocate(probe, FallocateFlags::empty(), 0, INDEX + BEFORE_INDEX - held) {
        Err(Errno::NOSPC | Errno::DQUOT) => Err(StoreError::Full),
        // A file system that cannot tell it in this way.
        _ => Ok(()),
    }
}

fn reserve_of(path: &Path) -> PathBuf {
    path.with_file_name("reserve")
}

#[cfg(test)]
mod tests {
    use crate::sql::{Database, Mode};
    use crate::sqlite::SqliteStore;

    use super::*;

    #[test]
    fn a_transaction_that_found_no_room_is_done_again_as_a_whole() {
        let directory = std::env::temp_dir().join(format!("whatif-room-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        let path = directory.join("state.db");
        let database = SqliteStore::at(path.clone()).database;
        for (mode, expected) in [(Mode::Together, 2), (Mode::Once, 1)] {
            let mut times = 0;
            let done = database.run(mode, &mut |connection| {
                times += 1;
                connection.execute("INSERT INTO layers (id, facts) VALUES (?1, '{}')", &["a".into()])?;
                if times == 1 { Err(StoreError::Full) } else { Ok(()) }
            });
            assert_eq!((done.is_ok(), times), (expected == 2, expected));
            assert!(!reserve_of(&path).exists());
            let clear = |connection: &mut dyn crate::sql::Connection| connection.execute("DELETE FROM layers", &[]);
            let mut left = 0;
            database.run(Mode::Single, &mut |connection| clear(connection).map(|rows| left = rows)).unwrap();
            assert_eq!(left, u64::from(expected == 2), "what failed left nothing");
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
