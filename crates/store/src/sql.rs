//! Records in a database that speaks SQL: one set of statements, of the kind that SQLite and PostgreSQL both understand. What they do
//! not have in common (tables, transactions, errors) is behind `Database`.

mod audit;
mod database;
mod events;
mod experiments;
mod json;
mod keys;
mod layers;
mod leases;
mod reservations;
mod sandboxes;
mod snapshots;
mod templates;

pub use self::database::{Cell, Connection, Database, Mode, Row, Value};

use crate::{Store, StoreError, Upkeep, Witness};

#[derive(Debug)]
pub struct SqlStore<D> {
    pub(crate) database: D,
    witness: Option<Box<dyn Witness>>,
}

impl<D: Database> SqlStore<D> {
    #[must_use]
    pub fn over(database: D) -> Self {
        Self { database, witness: None }
    }

    /// Somebody is told of each sandbox, snapshot and template that is recorded or removed.
    #[must_use]
    pub fn watched_by(self, witness: Box<dyn Witness>) -> Self {
        Self { witness: Some(witness), ..self }
    }

    fn tell(&self, what: impl Fn(&dyn Witness)) {
        if let Some(witness) = &self.witness {
            what(&**witness);
        }
    }

    fn run<T>(&self, mode: Mode, mut work: impl FnMut(&mut dyn Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut done = None;
        self.database.run(mode, &mut |connection| {
            done = Some(work(connection)?);
            Ok(())
        })?;
        done.ok_or_else(|| StoreError::Malformed("nothing was asked of the records".to_owned()))
    }
}

impl<D: Database> Store for SqlStore<D> {}

impl<D: Database> Upkeep for SqlStore<D> {
    fn is_at_ease(&self) -> bool {
        self.database.is_at_ease()
    }

    fn wants_tidying(&self) -> bool {
        self.database.wants_tidying()
    }

    fn tidy(&self) -> Result<(), StoreError> {
        self.database.tidy()
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.database.flush()
    }
}
