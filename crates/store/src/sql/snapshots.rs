//! The rows of snapshots.

use serde_json::Value as Json;
use whatif_types::{Sandbox, SandboxId, Snapshot, SnapshotId};

use super::json::{from_json, to_json};
use super::sandboxes::{require, update};
use super::{Connection, Database, Mode, Row, SqlStore, Value};
use crate::{Origin, Snapshots, StoreError};

impl<D: Database> Snapshots for SqlStore<D> {
    fn insert_snapshot(&self, snapshot: &Snapshot, sandbox: &mut Sandbox) -> Result<(), StoreError> {
        self.place(sandbox, None, Some(snapshot))
    }

    fn move_to(&self, sandbox: &mut Sandbox, origin: &Origin<'_>, before: Option<&Snapshot>) -> Result<(), StoreError> {
        self.place(sandbox, Some(origin), before)
    }

    fn get_snapshot(&self, id: &SnapshotId) -> Result<Option<Snapshot>, StoreError> {
        self.run(Mode::Single, |connection| one(connection, id))
    }

    fn find_snapshot(&self, sandbox: &SandboxId, label: &str) -> Result<Option<Snapshot>, StoreError> {
        let condition = "sandbox = ?1 AND label = ?2";
        self.run(Mode::Single, |connection| Ok(select(connection, condition, &[sandbox.as_str().into(), label.into()])?.pop()))
    }

    fn find_label(&self, label: &str) -> Result<Vec<Snapshot>, StoreError> {
        self.run(Mode::Single, |connection| select(connection, "label = ?1", &[label.into()]))
    }

    fn list_snapshots(&self, sandbox: &SandboxId) -> Result<Vec<Snapshot>, StoreError> {
        let condition = "sandbox = ?1 ORDER BY created_at, id";
        self.run(Mode::Single, |connection| select(connection, condition, &[sandbox.as_str().into()]))
    }

    fn delete_snapshots(&self, ids: &[SnapshotId]) -> Result<(), StoreError> {
        let removed = self.run(Mode::Together, |connection| {
            connection.lock(&["sandboxes", "snapshots"])?;
            let mut removed = Vec::new();
            for id in ids {
                if let Some(snapshot) = one(connection, id)? {
                    delete(connection, &snapshot)?;
                    removed.push(snapshot);
                }
            }
            Ok(removed)
        })?;
        removed.iter().for_each(|snapshot| self.tell(|w| w.snapshot_removed(snapshot)));
        Ok(())
    }
}

impl<D: Database> SqlStore<D> {
    /// Where a sandbox stands now: on what must still be recorded, and with a snapshot of what it is or was.
    fn place(&self, sandbox: &mut Sandbox, origin: Option<&Origin<'_>>, snapshot: Option<&Snapshot>) -> Result<(), StoreError> {
        self.run(Mode::Together, |connection| {
            origin.map_or(Ok(()), |origin| require(connection, origin))?;
            snapshot.map_or(Ok(()), |snapshot| insert(connection, snapshot))?;
            update(connection, sandbox)
        })?;
        sandbox.version += 1;
        self.tell(|w| w.sandbox(sandbox));
        if let Some(snapshot) = snapshot {
            self.tell(|w| w.snapshot(snapshot));
        }
        Ok(())
    }
}

fn insert(connection: &mut dyn Connection, snapshot: &Snapshot) -> Result<(), StoreError> {
    let inserted = connection.execute(
        "INSERT INTO snapshots (id, sandbox, label, created_at, details) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
        &[
            snapshot.id.as_str().into(),
            snapshot.sandbox.as_str().into(),
            (&snapshot.label).into(),
            snapshot.created_at.into(),
            (&to_json(&snapshot.details)?).into(),
        ],
    )?;
    if inserted == 0 { Err(StoreError::LabelTaken { label: snapshot.label.clone() }) } else { Ok(()) }
}

/// What came from it comes from what it came from.
fn delete(connection: &mut dyn Connection, snapshot: &Snapshot) -> Result<(), StoreError> {
    let id = snapshot.id.as_str();
    let parent = snapshot.details.parent.as_ref().map_or(Json::Null, |parent| Json::from(parent.as_str()));
    inherit(connection, "snapshots", "details ->> 'parent' = ?1", id, |details| details["parent"] = parent.clone())?;
    inherit(connection, "sandboxes", "details -> 'position' ->> 'at' = ?1", id, |details| {
        details["position"]["at"] = parent.clone()
    })?;
    connection.execute("DELETE FROM snapshots WHERE id = ?1", &[id.into()])?;
    Ok(())
}

/// Edits what is kept beside the columns, as it is: not all of it may be known here.
fn inherit(
    connection: &mut dyn Connection,
    table: &str,
    condition: &str,
    id: &str,
    edit: impl Fn(&mut Json),
) -> Result<(), StoreError> {
    for mut row in connection.query(&format!("SELECT id, details FROM {table} WHERE {condition}"), &[id.into()])? {
        let (id, mut details) = (row.text(0)?, from_json(&row.text(1)?)?);
        edit(&mut details);
        connection
            .execute(&format!("UPDATE {table} SET details = ?1 WHERE id = ?2"), &[(&to_json(&details)?).into(), (&id).into()])?;
    }
    Ok(())
}

fn one(connection: &mut dyn Connection, id: &SnapshotId) -> Result<Option<Snapshot>, StoreError> {
    Ok(select(connection, "id = ?1", &[id.as_str().into()])?.pop())
}

pub(super) fn select(
    connection: &mut dyn Connection,
    condition: &str,
    parameters: &[Value<'_>],
) -> Result<Vec<Snapshot>, StoreError> {
    let sql = format!("SELECT id, sandbox, label, created_at, details FROM snapshots WHERE {condition}");
    connection.query(&sql, parameters)?.into_iter().map(read).collect()
}

fn read(mut row: Row) -> Result<Snapshot, StoreError> {
    let (id, sandbox) = (row.text(0)?, row.text(1)?);
    let ids = SnapshotId::parse(&id).zip(SandboxId::parse(&sandbox));
    let (id, sandbox) = ids.ok_or_else(|| StoreError::Malformed(format!("snapshot '{id}'")))?;
    Ok(Snapshot { id, sandbox, label: row.text(2)?, created_at: row.number(3)?, details: from_json(&row.text(4)?)? })
}
