//! The rows of experiments.

use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rusqlite::{Connection, Params, Row, params};
use whatif_types::experiment::Attempt;
use whatif_types::{Experiment, ExperimentId};

use super::json::{from_json, taken, to_json};
use crate::StoreError;

pub(super) fn insert(connection: &Connection, experiment: &Experiment) -> Result<(), StoreError> {
    let sql = "INSERT INTO experiments (id, name, version, created_at, project, details) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let inserted = connection.prepare_cached(sql)?.execute(params![
        experiment.id.as_str(),
        experiment.name,
        experiment.version as i64,
        experiment.created_at as i64,
        experiment.project.as_os_str().as_bytes(),
        to_json(&experiment.details)?,
    ]);
    taken(inserted, || StoreError::ExperimentTaken { name: experiment.name.clone() })?;
    for (number, record) in experiment.records.iter().enumerate() {
        put_attempt(connection, &experiment.id, number, record)?;
    }
    Ok(())
}

pub(super) fn put_attempt(connection: &Connection, id: &ExperimentId, number: usize, attempt: &Attempt) -> Result<(), StoreError> {
    // One of a race that is gone would be nobody's.
    let sql = "INSERT OR REPLACE INTO attempts (experiment, number, details) \
               SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM experiments WHERE id = ?1)";
    connection.prepare_cached(sql)?.execute(params![id.as_str(), number as i64, to_json(attempt)?])?;
    Ok(())
}

pub(super) fn delete(connection: &Connection, id: &ExperimentId) -> Result<(), StoreError> {
    for sql in ["DELETE FROM attempts WHERE experiment = ?1", "DELETE FROM experiments WHERE id = ?1"] {
        connection.prepare_cached(sql)?.execute([id.as_str()])?;
    }
    Ok(())
}

/// False if it is not what it was any more.
pub(super) fn update(connection: &Connection, experiment: &Experiment) -> Result<bool, StoreError> {
    let sql = "UPDATE experiments SET version = version + 1, details = ?1 WHERE id = ?2 AND version = ?3";
    let parameters = params![to_json(&experiment.details)?, experiment.id.as_str(), experiment.version as i64];
    Ok(connection.prepare_cached(sql)?.execute(parameters)? > 0)
}

/// Those of another version may not be readable; they must not keep anybody from the others.
pub(super) fn select_readable(connection: &Connection, rest: &str) -> Result<Vec<Experiment>, StoreError> {
    let mut select_names = connection.prepare_cached(&format!("SELECT id FROM experiments {rest}"))?;
    let ids = select_names.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        match select(connection, "WHERE id = ?1", [&id]) {
            Ok(one) => found.extend(one),
            Err(StoreError::Malformed(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Whatever is in it.
pub(super) fn delete_named(connection: &Connection, name: &str) -> Result<(), StoreError> {
    let mut select = connection.prepare_cached("SELECT id FROM experiments WHERE name = ?1 OR id = ?1")?;
    let ids = select.query_map([name], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    ids.iter().filter_map(|id| ExperimentId::parse(id)).try_for_each(|id| delete(connection, &id))
}

pub(super) fn select(connection: &Connection, rest: &str, parameters: impl Params) -> Result<Vec<Experiment>, StoreError> {
    let sql = format!("SELECT id, name, version, created_at, project, details FROM experiments {rest}");
    let mut found: Vec<Experiment> =
        connection.prepare_cached(&sql)?.query_map(parameters, read)?.map(|row| row?).collect::<Result<_, StoreError>>()?;
    let mut select = connection.prepare_cached("SELECT details FROM attempts WHERE experiment = ?1 ORDER BY number")?;
    for experiment in &mut found {
        let rows = select.query_map([experiment.id.as_str()], |row| row.get::<_, String>(0))?;
        experiment.records = rows.map(|text| from_json(&text?)).collect::<Result<_, StoreError>>()?;
        // One that was added just now may not be written yet.
        experiment.records.resize(experiment.details.plan.attempts.len(), Attempt::waiting());
    }
    Ok(found)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Result<Experiment, StoreError>> {
    let (id, name): (String, String) = (row.get(0)?, row.get(1)?);
    let numbers: [i64; 2] = [row.get(2)?, row.get(3)?];
    let [version, created_at] = numbers.map(i64::unsigned_abs);
    let (project, details): (Vec<u8>, String) = (row.get(4)?, row.get(5)?);
    Ok(ExperimentId::parse(&id).ok_or_else(|| StoreError::Malformed(format!("experiment '{id}'"))).and_then(|id| {
        let project = std::ffi::OsString::from_vec(project).into();
        Ok(Experiment { id, name, version, created_at, project, details: from_json(&details)?, records: Vec::new() })
    }))
}
