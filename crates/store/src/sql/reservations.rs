//! The rows of reserved paths. There are few at a time, so they are compared here, as paths.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::{Connection, Database, Mode, Row, SqlStore};
use crate::{Reservation, Reservations, StoreError};

impl<D: Database> Reservations for SqlStore<D> {
    fn reserve(&self, holder: &str, paths: &[&Path], now: u64, until: u64) -> Result<(), StoreError> {
        let sql = "INSERT INTO reservations (holder, path, expires_at) VALUES (?1, ?2, ?3) \
                   ON CONFLICT (holder, path) DO UPDATE SET expires_at = excluded.expires_at";
        self.run(Mode::Together, |connection| {
            connection.lock(&["reservations"])?;
            connection.execute("DELETE FROM reservations WHERE expires_at <= ?1", &[now.into()])?;
            let others: Vec<Reservation> = select(connection, now)?.into_iter().filter(|other| other.holder != holder).collect();
            for path in paths {
                let in_the_way = others.iter().find(|other| other.path.starts_with(path) || path.starts_with(&other.path));
                if let Some(other) = in_the_way {
                    return Err(StoreError::Reserved { path: other.path.display().to_string(), holder: other.holder.clone() });
                }
                connection.execute(sql, &[holder.into(), path.as_os_str().as_bytes().into(), until.into()])?;
            }
            Ok(())
        })
    }

    fn give_back(&self, holder: &str) -> Result<(), StoreError> {
        let sql = "DELETE FROM reservations WHERE holder = ?1";
        self.run(Mode::Single, |connection| connection.execute(sql, &[holder.into()])).map(|_| ())
    }

    fn reservations(&self, now: u64) -> Result<Vec<Reservation>, StoreError> {
        self.run(Mode::Single, |connection| select(connection, now))
    }
}

fn select(connection: &mut dyn Connection, now: u64) -> Result<Vec<Reservation>, StoreError> {
    let sql = "SELECT holder, path, expires_at FROM reservations WHERE expires_at > ?1 ORDER BY path, holder";
    connection.query(sql, &[now.into()])?.into_iter().map(read).collect()
}

fn read(mut row: Row) -> Result<Reservation, StoreError> {
    Ok(Reservation { holder: row.text(0)?, path: OsString::from_vec(row.bytes(1)?).into(), until: row.number(2)? })
}
