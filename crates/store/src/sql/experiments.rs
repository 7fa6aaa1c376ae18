//! The rows of experiments.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use whatif_types::experiment::Attempt;
use whatif_types::{Experiment, ExperimentId};

use super::json::{from_json, to_json};
use super::{Connection, Database, Mode, Row, SqlStore, Value};
use crate::{Experiments, StoreError};

const NEWEST_FIRST: &str = "ORDER BY created_at DESC, id";

impl<D: Database> Experiments for SqlStore<D> {
    fn insert_experiment(&self, experiment: &Experiment) -> Result<(), StoreError> {
        self.run(Mode::Together, |connection| insert(connection, experiment))
    }

    fn find_experiment(&self, name: &str) -> Result<Option<Experiment>, StoreError> {
        self.run(Mode::Single, |connection| Ok(select(connection, "WHERE name = ?1 OR id = ?1", &[name.into()])?.pop()))
    }

    fn latest_experiment(&self, project: &Path) -> Result<Option<Experiment>, StoreError> {
        let rest = format!("WHERE project = ?1 {NEWEST_FIRST} LIMIT 1");
        let project = project.as_os_str().as_bytes();
        self.run(Mode::Single, |connection| Ok(select(connection, &rest, &[project.into()])?.pop()))
    }

    fn list_experiments(&self) -> Result<Vec<Experiment>, StoreError> {
        self.run(Mode::Single, |connection| readable(connection))
    }

    fn update_experiment(&self, experiment: &mut Experiment) -> Result<(), StoreError> {
        let sql = "UPDATE experiments SET version = version + 1, details = ?1 WHERE id = ?2 AND version = ?3";
        let details = to_json(&experiment.details)?;
        let parameters = [Value::from(&details), experiment.id.as_str().into(), experiment.version.into()];
        if self.run(Mode::Single, |connection| connection.execute(sql, &parameters))? == 0 {
            return Err(StoreError::ExperimentConflict { name: experiment.name.clone() });
        }
        experiment.version += 1;
        Ok(())
    }

    fn put_attempt(&self, id: &ExperimentId, number: usize, attempt: &Attempt) -> Result<(), StoreError> {
        self.run(Mode::Single, |connection| put_attempt(connection, id, number, attempt))
    }

    fn delete_experiment(&self, id: &ExperimentId) -> Result<(), StoreError> {
        self.run(Mode::Together, |connection| delete(connection, id.as_str()))
    }

    fn delete_experiment_named(&self, name: &str) -> Result<(), StoreError> {
        self.run(Mode::Together, |connection| {
            for mut row in connection.query("SELECT id FROM experiments WHERE name = ?1 OR id = ?1", &[name.into()])? {
                delete(connection, &row.text(0)?)?;
            }
            Ok(())
        })
    }
}

fn insert(connection: &mut dyn Connection, experiment: &Experiment) -> Result<(), StoreError> {
    let inserted = connection.execute(
        "INSERT INTO experiments (id, name, version, created_at, project, details) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
         ON CONFLICT DO NOTHING",
        &[
            experiment.id.as_str().into(),
            (&experiment.name).into(),
            experiment.version.into(),
            experiment.created_at.into(),
            experiment.project.as_os_str().as_bytes().into(),
            (&to_json(&experiment.details)?).into(),
        ],
    )?;
    if inserted == 0 {
        return Err(StoreError::ExperimentTaken { name: experiment.name.clone() });
    }
    for (number, record) in experiment.records.iter().enumerate() {
        put_attempt(connection, &experiment.id, number, record)?;
    }
    Ok(())
}

/// One of a race that is gone would be nobody's.
fn put_attempt(connection: &mut dyn Connection, id: &ExperimentId, number: usize, attempt: &Attempt) -> Result<(), StoreError> {
    let sql = "INSERT INTO attempts (experiment, number, details) SELECT id, ?2, ?3 FROM experiments WHERE id = ?1 \
               ON CONFLICT (experiment, number) DO UPDATE SET details = excluded.details";
    connection.execute(sql, &[id.as_str().into(), (number as u64).into(), (&to_json(attempt)?).into()])?;
    Ok(())
}

fn delete(connection: &mut dyn Connection, id: &str) -> Result<(), StoreError> {
    for sql in ["DELETE FROM attempts WHERE experiment = ?1", "DELETE FROM experiments WHERE id = ?1"] {
        connection.execute(sql, &[id.into()])?;
    }
    Ok(())
}

/// Those of another version may not be readable; they must not keep anybody from the others.
fn readable(connection: &mut dyn Connection) -> Result<Vec<Experiment>, StoreError> {
    let mut found = Vec::new();
    for mut row in connection.query(&format!("SELECT id FROM experiments {NEWEST_FIRST}"), &[])? {
        match select(connection, "WHERE id = ?1", &[(&row.text(0)?).into()]) {
            Ok(one) => found.extend(one),
            Err(StoreError::Malformed(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn select(connection: &mut dyn Connection, rest: &str, parameters: &[Value<'_>]) -> Result<Vec<Experiment>, StoreError> {
    let sql = format!("SELECT id, name, version, created_at, project, details FROM experiments {rest}");
    let mut found: Vec<Experiment> = connection.query(&sql, parameters)?.into_iter().map(read).collect::<Result<_, _>>()?;
    for experiment in &mut found {
        let sql = "SELECT details FROM attempts WHERE experiment = ?1 ORDER BY number";
        let rows = connection.query(sql, &[experiment.id.as_str().into()])?;
        experiment.records = rows.into_iter().map(|mut row| from_json(&row.text(0)?)).collect::<Result<_, StoreError>>()?;
        // One that was added just now may not be written yet.
        experiment.records.resize(experiment.details.plan.attempts.len(), Attempt::waiting());
    }
    Ok(found)
}

fn read(mut row: Row) -> Result<Experiment, StoreError> {
    let id = row.text(0)?;
    Ok(Experiment {
        id: ExperimentId::parse(&id).ok_or_else(|| StoreError::Malformed(format!("experiment '{id}'")))?,
        name: row.text(1)?,
        version: row.number(2)?,
        created_at: row.number(3)?,
        project: OsString::from_vec(row.bytes(4)?).into(),
        details: from_json(&row.text(5)?)?,
        records: Vec::new(),
    })
}
