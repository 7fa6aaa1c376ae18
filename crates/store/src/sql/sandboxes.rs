//! The rows of sandboxes.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use whatif_types::{Sandbox, SandboxId, Status};

use super::json::to_json;
use super::{Connection, Database, Mode, Row, SqlStore, Value};
use crate::{Cursor, Found, Inserted, Lease, Origin, Page, SandboxFilter, Sandboxes, StoreError};

const COLUMNS: &str = "id, name, status, version, created_at, updated_at, project, provider, owner, node, details";

impl<D: Database> Sandboxes for SqlStore<D> {
    fn insert(&self, sandbox: &Sandbox, idempotency_key: Option<&str>) -> Result<Inserted, StoreError> {
        let inserted = self.run(Mode::Single, |connection| insert(connection, sandbox, idempotency_key))?;
        if matches!(inserted, Inserted::New) {
            self.tell(|w| w.sandbox(sandbox));
        }
        Ok(inserted)
    }

    fn insert_from(&self, sandbox: &Sandbox, origin: &Origin<'_>) -> Result<(), StoreError> {
        self.run(Mode::Together, |connection| {
            require(connection, origin)?;
            insert(connection, sandbox, None).map(|_| ())
        })?;
        self.tell(|w| w.sandbox(sandbox));
        Ok(())
    }

    fn get(&self, id: &SandboxId) -> Result<Option<Sandbox>, StoreError> {
        self.run(Mode::Single, |connection| one(connection, "id = ?1", id.as_str()))
    }

    fn find_by_key(&self, key: &str) -> Result<Option<Sandbox>, StoreError> {
        self.run(Mode::Single, |connection| one(connection, "idempotency_key = ?1", key))
    }

    fn find(&self, name_or_prefix: &str) -> Result<Found, StoreError> {
        self.run(Mode::Single, |connection| {
            if let Some(sandbox) = one(connection, "name = ?1", name_or_prefix)? {
                return Ok(Found::One(Box::new(sandbox)));
            }
            let mut found = select(connection, "substr(id, 1, length(?1)) = ?1 LIMIT 6", &[name_or_prefix.into()])?;
            match (found.pop(), found.is_empty()) {
                (Some(only), true) if !name_or_prefix.is_empty() => Ok(Found::One(Box::new(only))),
                (Some(last), _) => Ok(Found::Several(found.into_iter().chain([last]).map(|s| s.name).collect())),
                (None, _) => Ok(Found::None),
            }
        })
    }

    fn list(&self) -> Result<Vec<Sandbox>, StoreError> {
        self.run(Mode::Single, |connection| list(connection))
    }

    fn page(&self, filter: &SandboxFilter, after: Option<&Cursor>, limit: usize) -> Result<Page<Sandbox>, StoreError> {
        self.run(Mode::Single, |connection| page(connection, filter, after, limit))
    }

    fn update(&self, sandbox: &mut Sandbox) -> Result<(), StoreError> {
        self.run(Mode::Single, |connection| update(connection, sandbox))?;
        sandbox.version += 1;
        self.tell(|w| w.sandbox(sandbox));
        Ok(())
    }

    fn update_under(&self, sandbox: &mut Sandbox, lease: &Lease, now: u64) -> Result<(), StoreError> {
        self.run(Mode::Together, |connection| {
            super::leases::require(connection, lease, now)?;
            update(connection, sandbox)
        })?;
        sandbox.version += 1;
        self.tell(|w| w.sandbox(sandbox));
        Ok(())
    }

    fn transition(&self, id: &SandboxId, from: Status, to: Status, now: u64) -> Result<Sandbox, StoreError> {
        let (sandbox, is_new) = self.run(Mode::Together, |connection| {
            let Some(mut sandbox) = one(connection, "id = ?1", id.as_str())? else {
                return Err(StoreError::NoSuchSandbox { id: id.to_string() });
            };
            if sandbox.status == to {
                return Ok((sandbox, false));
            }
            if sandbox.status != from {
                return Err(StoreError::Conflict { name: sandbox.name });
            }
            (sandbox.status, sandbox.updated_at) = (to, now);
            update(connection, &sandbox)?;
            sandbox.version += 1;
            Ok((sandbox, true))
        })?;
        if is_new {
            self.tell(|w| w.sandbox(&sandbox));
        }
        Ok(sandbox)
    }

    fn delete(&self, id: &SandboxId) -> Result<(), StoreError> {
        self.run(Mode::Together, |connection| {
            connection.execute("DELETE FROM sandboxes WHERE id = ?1", &[id.as_str().into()])?;
            connection.execute("DELETE FROM snapshots WHERE sandbox = ?1", &[id.as_str().into()])?;
            Ok(())
        })
    }
}

/// Fails unless the origin is recorded, which it then stays until the end of the transaction.
pub(super) fn require(connection: &mut dyn Connection, origin: &Origin<'_>) -> Result<(), StoreError> {
    let (table, column, key) = match origin {
        Origin::Sandbox(id) => ("sandboxes", "id", id.as_str()),
        Origin::Snapshot(id) => ("snapshots", "id", id.as_str()),
        Origin::Template(name) => ("templates", "name", *name),
    };
    connection.lock(&[table])?;
    let found = connection.query(&format!("SELECT {column} FROM {table} WHERE {column} = ?1"), &[key.into()])?;
    if found.is_empty() { Err(StoreError::OriginGone) } else { Ok(()) }
}

fn insert(connection: &mut dyn Connection, sandbox: &Sandbox, idempotency_key: Option<&str>) -> Result<Inserted, StoreError> {
    let inserted = connection.execute(
        &format!(
            "INSERT INTO sandboxes ({COLUMNS}, idempotency_key) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) \
             ON CONFLICT DO NOTHING"
        ),
        &[
            sandbox.id.as_str().into(),
            (&sandbox.name).into(),
            sandbox.status.as_str().into(),
            sandbox.version.into(),
            sandbox.created_at.into(),
            sandbox.updated_at.into(),
            sandbox.project.as_os_str().as_bytes().into(),
            (&sandbox.provider).into(),
            sandbox.owner.as_ref().into(),
            sandbox.node.as_ref().into(),
            (&to_json(&sandbox.details)?).into(),
            idempotency_key.into(),
        ],
    )?;
    if inserted > 0 {
        return Ok(Inserted::New);
    }
    // The key was used before, or the name is taken.
    match idempotency_key.map(|key| one(connection, "idempotency_key = ?1", key)).transpose()?.flatten() {
        Some(existing) => Ok(Inserted::Existing(Box::new(existing))),
        None => Err(StoreError::NameTaken { name: sandbox.name.clone() }),
    }
}

/// Only what is as it was when it was read is written, and only a legal change of its state.
pub(super) fn update(connection: &mut dyn Connection, sandbox: &Sandbox) -> Result<(), StoreError> {
    let legal: Vec<String> = sandbox.status.before().map(|status| format!("'{status}'")).collect();
    let changed = connection.execute(
        &format!(
            "UPDATE sandboxes SET name = ?1, status = ?2, version = version + 1, updated_at = ?3, node = ?4, details = ?5 \
             WHERE id = ?6 AND version = ?7 AND status IN ({})",
            legal.join(", ")
        ),
        &[
            (&sandbox.name).into(),
            sandbox.status.as_str().into(),
            sandbox.updated_at.into(),
            sandbox.node.as_ref().into(),
            (&to_json(&sandbox.details)?).into(),
            sandbox.id.as_str().into(),
            sandbox.version.into(),
        ],
    )?;
    if changed > 0 {
        return Ok(());
    }
    if let Some(there) = one(connection, "id = ?1", sandbox.id.as_str())?.filter(|there| there.version == sandbox.version) {
        there.status.check_move_to(sandbox.status)?;
    }
    Err(StoreError::Conflict { name: sandbox.name.clone() })
}

pub(super) fn list(connection: &mut dyn Connection) -> Result<Vec<Sandbox>, StoreError> {
    select(connection, "1 = 1 ORDER BY created_at DESC, id", &[])
}

fn page(
    connection: &mut dyn Connection,
    filter: &SandboxFilter,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Page<Sandbox>, StoreError> {
    let limit = limit.max(1);
    let mut after = after.cloned();
    let mut rows = Vec::new();
    loop {
        // One more than wanted says whether there are others.
        let wanted = limit - rows.len();
        let found = some(connection, filter, after.as_ref(), wanted + 1)?;
        let is_end = found.len() <= wanted;
        for sandbox in found.into_iter().take(wanted) {
            after = Some(Cursor { created_at: sandbox.created_at, id: sandbox.id.to_string() });
            // Labels are no column of their own.
            if filter.label.as_ref().is_none_or(|(label, value)| sandbox.details.labels.get(label) == Some(value)) {
                rows.push(sandbox);
            }
        }
        if is_end || rows.len() == limit {
            return Ok(Page { rows, next: after.filter(|_| !is_end) });
        }
    }
}

/// The next ones in order that the columns let through.
fn some(
    connection: &mut dyn Connection,
    filter: &SandboxFilter,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Vec<Sandbox>, StoreError> {
    let project = filter.project.as_ref().map(|path| path.as_os_str().as_bytes());
    let mut conditions = vec!["1 = 1".to_owned()];
    let mut parameters: Vec<Value<'_>> = Vec::new();
    for (column, value) in [
        ("project", Value::from(project)),
        ("owner", filter.owner.as_ref().into()),
        ("node", filter.node.as_ref().into()),
        ("provider", filter.provider.as_ref().into()),
    ] {
        if !matches!(value, Value::Null) {
            parameters.push(value);
            conditions.push(format!("{column} = ?{}", parameters.len()));
        }
    }
    if !filter.statuses.is_empty() {
        let statuses: Vec<String> = filter.statuses.iter().map(|status| format!("'{status}'")).collect();
        conditions.push(format!("status IN ({})", statuses.join(", ")));
    }
    if let Some(after) = after {
        parameters.extend([Value::from(after.created_at), Value::from(&after.id)]);
        let (at, id) = (parameters.len() - 1, parameters.len());
        conditions.push(format!("(created_at < ?{at} OR (created_at = ?{at} AND id > ?{id}))"));
    }
    let condition = format!("{} ORDER BY created_at DESC, id LIMIT {limit}", conditions.join(" AND "));
    select(connection, &condition, &parameters)
}

fn one(connection: &mut dyn Connection, condition: &str, parameter: &str) -> Result<Option<Sandbox>, StoreError> {
    Ok(select(connection, condition, &[parameter.into()])?.pop())
}

fn select(connection: &mut dyn Connection, condition: &str, parameters: &[Value<'_>]) -> Result<Vec<Sandbox>, StoreError> {
    let rows = connection.query(&format!("SELECT {COLUMNS} FROM sandboxes WHERE {condition}"), parameters)?;
    rows.into_iter().map(read).collect()
}

fn read(mut row: Row) -> Result<Sandbox, StoreError> {
    let id = row.text(0)?;
    let malformed = |what: &dyn std::fmt::Display| StoreError::Malformed(format!("sandbox {id}: {what}"));
    Ok(Sandbox {
        id: SandboxId::parse(&id).ok_or_else(|| malformed(&"its id"))?,
        name: row.text(1)?,
        status: row.text(2)?.parse().map_err(|e: whatif_types::state::UnknownStatus| malformed(&e))?,
        version: row.number(3)?,
        created_at: row.number(4)?,
        updated_at: row.number(5)?,
        project: PathBuf::from(OsString::from_vec(row.bytes(6)?)),
        provider: row.text(7)?,
        owner: row.text_or_none(8)?,
        node: row.text_or_none(9)?,
        details: serde_json::from_str(&row.text(10)?).map_err(|e| malformed(&e))?,
    })
}
