//! Records in SQLite, in write-ahead mode: readers never wait, and a commit costs no disk flush. `flush` makes them durable.

mod glance;
mod migrations;
mod opening;
mod room;
mod session;

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::StoreError;
use crate::sql::{Connection, Database, Mode, SqlStore};

use self::session::Session;

/// A command that is the only one reads the whole log when it opens the records.
const LONGEST_LOG: u64 = 96 << 10;
/// As many stay open for those who come next.
const MOST_IDLE: usize = 8;

/// The records of a state directory.
pub type SqliteStore = SqlStore<Sqlite>;

impl SqliteStore {
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self::over(Sqlite { path, idle: Mutex::default() })
    }
}

/// A database file. It is opened when it is first needed: many commands have better things to do first. Each thread that is at work has
/// a connection of its own.
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    idle: Mutex<Vec<rusqlite::Connection>>,
}

impl Database for Sqlite {
    fn run(&self, mode: Mode, work: &mut dyn FnMut(&mut dyn Connection) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let connection = self.connection()?;
        let done = match attempt(&connection, mode, work) {
            // The whole is done again, never a part of a transaction: SQLite has taken back what was done before it.
            Err(error) if mode != Mode::Once && room::is_short(&error) => {
                room::give_up_reserve(&self.path);
                attempt(&connection, mode, work)
            }
            other => other,
        };
        let mut idle = self.idle();
        if idle.len() < MOST_IDLE {
            idle.push(connection);
        }
        done
    }

    fn is_at_ease(&self) -> bool {
        // Where this process has opened some, these have answered, or will.
        glance::at_ease(&self.path).unwrap_or_else(|| !self.idle().is_empty())
    }

    fn wants_tidying(&self) -> bool {
        std::fs::metadata(self.log()).is_ok_and(|m| m.len() > LONGEST_LOG)
    }

    fn tidy(&self) -> Result<(), StoreError> {
        // Its row says whether other connections were in the way; then the next command will try again.
        self.run(Mode::Single, &mut |connection| connection.query("PRAGMA wal_checkpoint(TRUNCATE)", &[]).map(|_| ()))?;
        // Whoever writes to an empty log waits for the disk twice. Better here, where nobody waits. Nothing reads this number.
        self.run(Mode::Single, &mut |connection| connection.query("PRAGMA application_id = 0", &[]).map(|_| ()))
    }

    fn flush(&self) -> Result<(), StoreError> {
        // A commit is in the log until it is moved to the database, and what is moved is flushed on both sides by SQLite. Not
        // through a connection: this must work in a forked child too.
        let log = self.log();
        match File::open(&log).and_then(|file| file.sync_data()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(|source| StoreError::NotFlushed { path: log.display().to_string(), source }),
        }
    }
}

impl Sqlite {
    fn connection(&self) -> Result<rusqlite::Connection, StoreError> {
        let idle = self.idle().pop();
        idle.map_or_else(|| opening::open(&self.path), Ok)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<rusqlite::Connection>> {
        // Whoever panicked with it left connections that nobody was using.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> PathBuf {
        let mut log = self.path.as_os_str().to_owned();
        log.push("-wal");
        PathBuf::from(log)
    }
}

/// With a transaction, nobody else can write meanwhile, and an error takes all of it back.
fn attempt(
    connection: &rusqlite::Connection,
    mode: Mode,
    work: &mut dyn FnMut(&mut dyn Connection) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    if mode == Mode::Single {
        return work(&mut Session(connection));
    }
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let done = work(&mut Session(connection)).and_then(|()| Ok(connection.execute_batch("COMMIT")?));
    if done.is_err() {
        let _ = connection.execute_batch("ROLLBACK");
    }
    done
}
