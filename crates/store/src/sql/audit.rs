//! The rows of the audit log.

use super::events::{last_number, next_number};
use super::json::to_json;
use super::{Connection, Database, Mode, Row, SqlStore};
use crate::{Audit, AuditEntry, Deed, StoreError};

/// What the first entry follows.
const BEGINNING: [u8; 32] = [0; 32];
const AT_ONCE: usize = 500;

impl<D: Database> Audit for SqlStore<D> {
    fn append_deed(&self, deed: &Deed<'_>, now: u64) -> Result<AuditEntry, StoreError> {
        self.run(Mode::Together, |connection| append_deed(connection, deed, now))
    }

    fn deeds_after(&self, number: u64, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.run(Mode::Single, |connection| some(connection, number, limit))
    }

    fn verify_deeds(&self) -> Result<Option<AuditEntry>, StoreError> {
        // In one transaction, so that the number of the last one belongs to what is read.
        self.run(Mode::Together, |connection| {
            let count = last_number(connection, "audit")?;
            let (mut last, mut previous): (Option<AuditEntry>, _) = (None, BEGINNING);
            loop {
                let number = last.as_ref().map_or(0, |entry| entry.number);
                let entries = some(connection, number, AT_ONCE)?;
                if entries.is_empty() {
                    break;
                }
                for entry in entries {
                    let expected = last.as_ref().map_or(1, |last| last.number + 1);
                    if entry.number != expected || entry.hash != entry.hash_after(&previous) {
                        return Err(StoreError::AuditBroken { number: expected });
                    }
                    previous = entry.hash;
                    last = Some(entry);
                }
            }
            match last.as_ref().map_or(0, |entry| entry.number) {
                number if number < count => Err(StoreError::AuditBroken { number: number + 1 }),
                _ => Ok(last),
            }
        })
    }
}

pub(super) fn append_deed(connection: &mut dyn Connection, deed: &Deed<'_>, now: u64) -> Result<AuditEntry, StoreError> {
    let number = next_number(connection, "audit")?;
    let previous = match number {
        1 => BEGINNING,
        _ => some(connection, number - 2, 1)?.pop().ok_or(StoreError::AuditBroken { number: number - 1 })?.hash,
    };
    let mut entry = AuditEntry {
        number,
        at: now,
        principal: deed.principal.to_owned(),
        action: deed.action.to_owned(),
        subject: deed.subject.to_owned(),
        body: to_json(deed.body)?,
        hash: BEGINNING,
    };
    entry.hash = entry.hash_after(&previous);
    insert(connection, &entry)?;
    Ok(entry)
}

fn insert(connection: &mut dyn Connection, entry: &AuditEntry) -> Result<(), StoreError> {
    connection.execute(
        "INSERT INTO audit (number, at, principal, action, subject, body, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        &[
            entry.number.into(),
            entry.at.into(),
            (&entry.principal).into(),
            (&entry.action).into(),
            (&entry.subject).into(),
            (&entry.body).into(),
            entry.hash.as_slice().into(),
        ],
    )?;
    Ok(())
}

fn some(connection: &mut dyn Connection, after: u64, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
    let sql = format!(
        "SELECT number, at, principal, action, subject, body, hash FROM audit WHERE number > ?1 ORDER BY number LIMIT {limit}"
    );
    connection.query(&sql, &[after.into()])?.into_iter().map(read).collect()
}

fn read(mut row: Row) -> Result<AuditEntry, StoreError> {
    let number = row.number(0)?;
    Ok(AuditEntry {
        number,
        at: row.number(1)?,
        principal: row.text(2)?,
        action: row.text(3)?,
        subject: row.text(4)?,
        body: row.text(5)?,
        hash: row.bytes(6)?.try_into().map_err(|_| StoreError::AuditBroken { number })?,
    })
}
