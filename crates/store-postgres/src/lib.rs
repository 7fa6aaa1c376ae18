//! Records in PostgreSQL, for several machines or many who share them. Statements are those of every SQL database (`whatif_store::sql`);
//! here are the tables, the transactions and what goes wrong. The CLI does not link this.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod session;
mod tables;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postgres::{Client, Config, IsolationLevel, NoTls};
use whatif_store::sql::{Connection, Database, Mode, SqlStore};
use whatif_store::{StoreError, Trouble};

use self::session::{Session, failed};

/// As many stay open for those who come next.
const MOST_IDLE: usize = 16;
/// How often a transaction that came second is tried again, before somebody is told.
const MOST_TRIES: u32 = 20;

/// Records in a database of a PostgreSQL server.
pub type PostgresStore = SqlStore<Postgres>;

/// Opens the records at an address (`host=… dbname=… user=…`, or a `postgresql://` one), making or upgrading its tables if needed.
pub fn open(address: &str) -> Result<PostgresStore, StoreError> {
    let config: Config = address.parse().map_err(|e| StoreError::database(Trouble::CannotOpen, e))?;
    let mut client = config.connect(NoTls).map_err(unreachable)?;
    tables::make(&mut client)?;
    Ok(SqlStore::over(Postgres { config, idle: Mutex::new(vec![client]) }))
}

pub struct Postgres {
    config: Config,
    idle: Mutex<Vec<Client>>,
}

/// Without its address, which may hold a password.
impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").finish_non_exhaustive()
    }
}

impl Database for Postgres {
    fn run(&self, mode: Mode, work: &mut dyn FnMut(&mut dyn Connection) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let mut client = self.client()?;
        let mut tries = 1;
        let done = loop {
            match attempt(&mut client, mode, work) {
                Err(error) if error.trouble() == Some(Trouble::Busy) && mode != Mode::Once && tries < MOST_TRIES => {
                    std::thread::sleep(Duration::from_millis(u64::from(tries)));
                    tries += 1;
                }
                other => break other,
            }
        };
        let mut idle = self.idle();
        if !client.is_closed() && idle.len() < MOST_IDLE {
            idle.push(client);
        }
        done
    }

    fn is_at_ease(&self) -> bool {
        // Only asking the server would tell.
        false
    }

    fn wants_tidying(&self) -> bool {
        // The server does that by itself.
        false
    }

    fn tidy(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        // A commit is durable when the server answers, as long as nobody has told the server otherwise.
        self.run(Mode::Single, &mut |connection| {
            let is_durable = connection
                .query("SELECT name FROM pg_settings WHERE name IN ('synchronous_commit', 'fsync') AND setting = 'off'", &[])?;
            if is_durable.is_empty() {
                return Ok(());
            }
            Err(StoreError::database(
                Trouble::Other,
                "the server does not flush what is committed (synchronous_commit or fsync is off)",
            ))
        })
    }
}

impl Postgres {
    fn client(&self) -> Result<Client, StoreError> {
        // One that the server has closed meanwhile is no use.
        while let Some(client) = { self.idle().pop() } {
            if !client.is_closed() {
                return Ok(client);
            }
        }
        self.config.connect(NoTls).map_err(unreachable)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Client>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unreachable(error: postgres::Error) -> StoreError {
    StoreError::database(Trouble::CannotOpen, error)
}

fn attempt(
    client: &mut Client,
    mode: Mode,
    work: &mut dyn FnMut(&mut dyn Connection) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    if mode == Mode::Single {
        return work(&mut Session(client));
    }
    // What is dropped without being committed is taken back.
    let mut transaction = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start().map_err(failed)?;
    work(&mut Session(&mut transaction))?;
    transaction.commit().map_err(failed)
}
