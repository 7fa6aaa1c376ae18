//! The rows of leases. One that was given back stays, without a holder, so that its number goes on growing.

use super::{Connection, Database, Mode, Row, SqlStore};
use crate::{Lease, Leases, StoreError};

impl<D: Database> Leases for SqlStore<D> {
    fn acquire(&self, resource: &str, holder: &str, node: &str, now: u64, seconds: u64) -> Result<Lease, StoreError> {
        let sql = "INSERT INTO leases (resource, holder, node, fence, expires_at) VALUES (?1, ?2, ?3, 1, ?4) \
                   ON CONFLICT (resource) DO UPDATE SET holder = excluded.holder, node = excluded.node, \
                   fence = leases.fence + 1, expires_at = excluded.expires_at \
                   WHERE leases.holder IS NULL OR leases.holder = excluded.holder OR leases.expires_at <= ?5 \
                   RETURNING resource, holder, node, fence, expires_at";
        let expires_at = now.saturating_add(seconds);
        self.run(Mode::Together, |connection| {
            let parameters = [resource.into(), holder.into(), node.into(), expires_at.into(), now.into()];
            match connection.query(sql, &parameters)?.pop() {
                Some(row) => read(row),
                None => {
                    let other = one(connection, resource, now)?.map_or_else(|| "another one".to_owned(), |lease| lease.holder);
                    Err(StoreError::Held { resource: resource.to_owned(), holder: other })
                }
            }
        })
    }

    fn renew(&self, lease: &Lease, now: u64, seconds: u64) -> Result<Lease, StoreError> {
        let expires_at = now.saturating_add(seconds);
        self.run(Mode::Together, |connection| {
            require(connection, lease, now)?;
            connection
                .execute("UPDATE leases SET expires_at = ?1 WHERE resource = ?2", &[expires_at.into(), (&lease.resource).into()])
        })?;
        Ok(Lease { expires_at, ..lease.clone() })
    }

    fn release(&self, lease: &Lease) -> Result<(), StoreError> {
        let sql = "UPDATE leases SET holder = NULL WHERE resource = ?1 AND fence = ?2";
        self.run(Mode::Single, |connection| connection.execute(sql, &[(&lease.resource).into(), lease.fence.into()]))?;
        Ok(())
    }

    fn lease_of(&self, resource: &str, now: u64) -> Result<Option<Lease>, StoreError> {
        self.run(Mode::Single, |connection| one(connection, resource, now))
    }
}

/// Fails unless it is held, which it then is until the end of the transaction: whoever wants it waits for the row.
pub(super) fn require(connection: &mut dyn Connection, lease: &Lease, now: u64) -> Result<(), StoreError> {
    let sql = "UPDATE leases SET fence = fence WHERE resource = ?1 AND fence = ?2 AND holder IS NOT NULL AND expires_at > ?3";
    match connection.execute(sql, &[(&lease.resource).into(), lease.fence.into(), now.into()])? {
        0 => Err(StoreError::LeaseOver { resource: lease.resource.clone() }),
        _ => Ok(()),
    }
}

fn one(connection: &mut dyn Connection, resource: &str, now: u64) -> Result<Option<Lease>, StoreError> {
    let sql = "SELECT resource, holder, node, fence, expires_at FROM leases WHERE resource = ?1 AND holder IS NOT NULL AND expires_at > ?2";
    connection.query(sql, &[resource.into(), now.into()])?.pop().map(read).transpose()
}

fn read(mut row: Row) -> Result<Lease, StoreError> {
    Ok(Lease {
        resource: row.text(0)?,
        holder: row.text(1)?,
        node: row.text(2)?,
        fence: row.number(3)?,
        expires_at: row.number(4)?,
    })
}
