//! The rows of idempotency keys. A claim is known by the time at which it is given up: whoever took it over has a later one.

use super::{Connection, Database, Mode, SqlStore};
use crate::{Claim, Key, Keys, StoreError};

impl<D: Database> Keys for SqlStore<D> {
    fn claim(&self, key: &Key<'_>, now: u64) -> Result<Claim, StoreError> {
        self.run(Mode::Together, |connection| {
            forget(connection, key, now)?;
            let sql =
                "INSERT INTO keys (scope, word, verb, request, expires_at) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING";
            let parameters = [key.scope.into(), key.key.into(), key.verb.into(), key.request.into(), key.until.into()];
            if connection.execute(sql, &parameters)? > 0 {
                return Ok(Claim::Fresh);
            }
            let sql = "SELECT verb, request, outcome FROM keys WHERE scope = ?1 AND word = ?2";
            // Given up in this very moment: whoever asks again will get it.
            let Some(mut row) = connection.query(sql, &[key.scope.into(), key.key.into()])?.pop() else {
                return Ok(Claim::Running);
            };
            if (row.text(0)?.as_str(), row.text(1)?.as_str()) != (key.verb, key.request) {
                return Err(StoreError::KeyReused { key: key.key.to_owned() });
            }
            Ok(row.text_or_none(2)?.map_or(Claim::Running, Claim::Done))
        })
    }

    fn settle(&self, key: &Key<'_>, outcome: &str, expires_at: u64) -> Result<(), StoreError> {
        let sql =
            "UPDATE keys SET outcome = ?1, expires_at = ?2 WHERE scope = ?3 AND word = ?4 AND expires_at = ?5 AND outcome IS NULL";
        let parameters = [outcome.into(), expires_at.into(), key.scope.into(), key.key.into(), key.until.into()];
        match self.run(Mode::Single, |connection| connection.execute(sql, &parameters))? {
            0 => Err(StoreError::LeaseOver { resource: key.key.to_owned() }),
            _ => Ok(()),
        }
    }

    fn give_up(&self, key: &Key<'_>) -> Result<(), StoreError> {
        let sql = "DELETE FROM keys WHERE scope = ?1 AND word = ?2 AND expires_at = ?3 AND outcome IS NULL";
        let parameters = [key.scope.into(), key.key.into(), key.until.into()];
        self.run(Mode::Single, |connection| connection.execute(sql, &parameters)).map(|_| ())
    }

    fn forget_expired(&self, now: u64) -> Result<u64, StoreError> {
        self.run(Mode::Single, |connection| connection.execute("DELETE FROM keys WHERE expires_at <= ?1", &[now.into()]))
    }
}

fn forget(connection: &mut dyn Connection, key: &Key<'_>, now: u64) -> Result<(), StoreError> {
    let sql = "DELETE FROM keys WHERE scope = ?1 AND word = ?2 AND expires_at <= ?3";
    connection.execute(sql, &[key.scope.into(), key.key.into(), now.into()]).map(|_| ())
}
