//! The rows of snapshots, templates and layers.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, Params, Row, params};
use whatif_types::{LayerFacts, LayerId, SandboxId, Snapshot, SnapshotId, Template};

use super::json::{from_json, taken, to_json};
use crate::{Origin, StoreError};

/// Fails unless the origin is still recorded.
pub(super) fn require(connection: &Connection, origin: &Origin<'_>) -> Result<(), StoreError> {
    let (sql, key) = match origin {
        Origin::Sandbox(id) => ("SELECT 1 FROM sandboxes WHERE id = ?1", id.as_str()),
        Origin::Snapshot(id) => ("SELECT 1 FROM snapshots WHERE id = ?1", id.as_str()),
        Origin::Template(name) => ("SELECT 1 FROM templates WHERE name = ?1", *name),
    };
    if connection.prepare_cached(sql)?.exists([key])? { Ok(()) } else { Err(StoreError::OriginGone) }
}

pub(super) fn insert(connection: &Connection, snapshot: &Snapshot) -> Result<(), StoreError> {
    let mut insert =
        connection.prepare_cached("INSERT INTO snapshots (id, sandbox, label, created_at, details) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let details = to_json(&snapshot.details)?;
    let (id, sandbox) = (snapshot.id.as_str(), snapshot.sandbox.as_str());
    let inserted = insert.execute(params![id, sandbox, snapshot.label, snapshot.created_at as i64, details]);
    taken(inserted, || StoreError::LabelTaken { label: snapshot.label.clone() })
}

pub(super) fn insert_template(connection: &Connection, template: &Template) -> Result<(), StoreError> {
    let mut insert = connection.prepare_cached("INSERT INTO templates (name, created_at, details) VALUES (?1, ?2, ?3)")?;
    let inserted = insert.execute(params![template.name, template.created_at as i64, to_json(template)?]);
    taken(inserted, || StoreError::TemplateTaken { name: template.name.clone() })
}

pub(super) fn select(connection: &Connection, condition: &str, parameters: impl Params) -> Result<Vec<Snapshot>, StoreError> {
    let sql = format!("SELECT id, sandbox, label, created_at, details FROM snapshots WHERE {condition}");
    connection.prepare_cached(&sql)?.query_map(parameters, read)?.map(|row| row?).collect()
}

fn read(row: &Row<'_>) -> rusqlite::Result<Result<Snapshot, StoreError>> {
    let (id, sandbox): (String, String) = (row.get(0)?, row.get(1)?);
    let (label, created_at): (String, i64) = (row.get(2)?, row.get(3)?);
    let details: String = row.get(4)?;
    Ok(SnapshotId::parse(&id)
        .zip(SandboxId::parse(&sandbox))
        .ok_or_else(|| StoreError::Malformed(format!("snapshot '{id}'")))
        .and_then(|(id, sandbox)| {
            Ok(Snapshot { id, sandbox, label, created_at: created_at as u64, details: from_json(&details)? })
        }))
}

/// What came from it comes from what it came from.
pub(super) fn delete(connection: &Connection, id: &SnapshotId) -> Result<(), StoreError> {
    let id = id.as_str();
    for sql in [
        "UPDATE snapshots SET details = json_set(details, '$.parent', (SELECT details ->> '$.parent' FROM snapshots WHERE id = ?1)) \
         WHERE details ->> '$.parent' = ?1",
        "UPDATE sandboxes SET details = json_set(details, '$.position.at', (SELECT details ->> '$.parent' FROM snapshots WHERE id = ?1)) \
         WHERE details ->> '$.position.at' = ?1",
        "DELETE FROM snapshots WHERE id = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([id])?;
    }
    Ok(())
}

pub(super) fn templates(connection: &Connection, rest: &str, parameters: impl Params) -> Result<Vec<Template>, StoreError> {
    let mut select = connection.prepare_cached(&format!("SELECT details FROM templates {rest}"))?;
    let rows = select.query_map(parameters, |row| row.get::<_, String>(0))?;
    rows.map(|text| from_json(&text?)).collect()
}

pub(super) fn facts(connection: &Connection, layers: &[LayerId]) -> Result<Vec<LayerFacts>, StoreError> {
    // One statement for all of them: each would wait for its own lock.
    let mut select = connection.prepare_cached("SELECT id, facts FROM layers WHERE id IN (SELECT value FROM json_each(?1))")?;
    let mut known: HashMap<String, LayerFacts> = HashMap::new();
    let mut rows = select.query([to_json(&layers)?])?;
    while let Some(row) = rows.next()? {
        known.insert(row.get(0)?, from_json(&row.get::<_, String>(1)?)?);
    }
    Ok(layers.iter().map(|layer| known.get(layer.as_str()).copied().unwrap_or_default()).collect())
}

pub(super) fn note(connection: &Connection, layer: &LayerId, facts: &LayerFacts) -> Result<(), StoreError> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO layers (id, facts) VALUES (?1, ?2)")?
        .execute(params![layer.as_str(), to_json(facts)?])?;
    Ok(())
}

pub(super) fn known(connection: &Connection) -> Result<HashSet<LayerId>, StoreError> {
    let mut select = connection.prepare_cached("SELECT id FROM known_layers")?;
    let ids = select.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    Ok(ids.iter().filter_map(|id| LayerId::parse(id)).collect())
}

pub(super) fn expect(connection: &Connection, layers: &[LayerId]) -> Result<(), StoreError> {
    let sql = "INSERT OR IGNORE INTO known_layers SELECT value FROM json_each(?1)";
    connection.prepare_cached(sql)?.execute([to_json(&layers)?])?;
    Ok(())
}

pub(super) fn forget(connection: &Connection, layers: &[LayerId]) -> Result<(), StoreError> {
    for sql in ["DELETE FROM layers WHERE id = ?1", "DELETE FROM known_layers WHERE id = ?1"] {
        let mut delete = connection.prepare_cached(sql)?;
        for layer in layers {
            delete.execute([layer.as_str()])?;
        }
    }
    Ok(())
}
