//! Opening the records, making or upgrading them if needed.

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::migrations::MIGRATIONS;
use super::{glance, room};
use crate::{StoreError, Trouble};

/// Longer than any of our transactions; two commands at once take turns.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than there are statements.
const STATEMENTS: usize = 64;

pub(super) fn open(path: &Path) -> Result<Connection, StoreError> {
    glance::forbid();
    let opened = match open_in_turn(path) {
        // Looking must be possible where writing is not.
        Err(error) if matches!(error.trouble(), Some(Trouble::ReadOnly | Trouble::CannotOpen)) => open_for_reading(path)?,
        other => other?,
    };
    opened.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(opened)
}

/// Two who are the first take turns: SQLite itself does not wait when the way of writing is to be changed.
fn open_in_turn(path: &Path) -> Result<Connection, StoreError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match open_once(path) {
            Err(error) if error.trouble() == Some(Trouble::Busy) && Instant::now() < deadline => {
                std::thread::sleep(PATIENCE / 2000)
            }
            other => return other,
        }
    }
}

fn open_once(path: &Path) -> Result<Connection, StoreError> {
    // Before SQLite makes it with the modes of the umask. What it cannot be made for, SQLite will say.
    let fresh = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).is_ok();
    room::require_room_for_index(path)?;
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(PATIENCE)?;
    // Flushing and removing the log when the last connection closes would put two disk flushes at the end of every command.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    migrate(&mut connection, path)?;
    room::keep_reserve(path);
    if fresh {
        for suffix in ["", "-wal", "-shm"] {
            let mut file = path.as_os_str().to_owned();
            file.push(suffix);
            let _ = std::fs::set_permissions(file, Permissions::from_mode(0o600));
        }
    }
    Ok(connection)
}

fn open_for_reading(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let known = MIGRATIONS.len() as i64;
    let found: i64 = connection.pragma_query_value(None, "user_version", |r| r.get(0))?;
    if found > known {
        return Err(StoreError::TooNew { path: path.display().to_string(), found, known });
    }
    if found == known {
        return Ok(());
    }
    // Rows are small; so are the pages, and with them the log that the next command has to read through.
    connection.pragma_update(None, "page_size", 1024)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another command may have done it while we waited.
    let found: i64 = transaction.pragma_query_value(None, "user_version", |r| r.get(0))?;
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.execute_batch(migration)?;
    }
    transaction.commit()?;
    Ok(())
}
