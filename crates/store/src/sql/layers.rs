//! The rows of layers, and what other rows say about them.

use std::collections::{HashMap, HashSet};

use whatif_types::{LayerFacts, LayerId};

use super::json::{from_json, to_json};
use super::{Connection, Database, Mode, SqlStore, Value, sandboxes, snapshots, templates};
use crate::{LayerRecords, Layers, StoreError};

/// In one statement, so that each layer does not wait for a lock of its own; every database can take as many parameters.
const AT_ONCE: usize = 500;

impl<D: Database> LayerRecords for SqlStore<D> {
    fn layer_facts(&self, layers: &[LayerId]) -> Result<Vec<LayerFacts>, StoreError> {
        let known = self.run(Mode::Single, |connection| facts(connection, layers))?;
        Ok(layers.iter().map(|layer| known.get(layer.as_str()).copied().unwrap_or_default()).collect())
    }

    fn note_layer(&self, layer: &LayerId, facts: &LayerFacts) -> Result<(), StoreError> {
        let sql = "INSERT INTO layers (id, facts) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET facts = excluded.facts";
        self.run(Mode::Single, |connection| connection.execute(sql, &[layer.as_str().into(), (&to_json(facts)?).into()]))?;
        Ok(())
    }

    fn expect_layers(&self, layers: &[LayerId]) -> Result<(), StoreError> {
        self.run(Mode::Together, |connection| {
            for layer in layers {
                connection.execute("INSERT INTO known_layers (id) VALUES (?1) ON CONFLICT DO NOTHING", &[layer.as_str().into()])?;
            }
            Ok(())
        })
    }

    fn known_layers(&self) -> Result<HashSet<LayerId>, StoreError> {
        self.run(Mode::Single, |connection| known(connection))
    }

    fn with_layers(&self, work: &mut dyn FnMut(&Layers) -> Vec<LayerId>) -> Result<(), StoreError> {
        self.run(Mode::Once, |connection| {
            connection.lock(&["sandboxes", "snapshots", "templates"])?;
            let gone = work(&Layers { needed: needed(connection)?, known: known(connection)? });
            for layer in &gone {
                connection.execute("DELETE FROM layers WHERE id = ?1", &[layer.as_str().into()])?;
                connection.execute("DELETE FROM known_layers WHERE id = ?1", &[layer.as_str().into()])?;
            }
            Ok(())
        })
    }
}

fn facts(connection: &mut dyn Connection, layers: &[LayerId]) -> Result<HashMap<String, LayerFacts>, StoreError> {
    let mut found = HashMap::new();
    for some in layers.chunks(AT_ONCE) {
        let places: Vec<String> = (1..=some.len()).map(|number| format!("?{number}")).collect();
        let parameters: Vec<Value<'_>> = some.iter().map(|layer| layer.as_str().into()).collect();
        let sql = format!("SELECT id, facts FROM layers WHERE id IN ({})", places.join(", "));
        for mut row in connection.query(&sql, &parameters)? {
            found.insert(row.text(0)?, from_json(&row.text(1)?)?);
        }
    }
    Ok(found)
}

fn needed(connection: &mut dyn Connection) -> Result<HashSet<LayerId>, StoreError> {
    let mut needed = HashSet::new();
    for sandbox in sandboxes::list(connection)? {
        needed.extend(sandbox.details.position.stack);
        needed.extend(sandbox.details.position.mounted);
    }
    for template in templates::list(connection)? {
        needed.extend(template.details.position.stack);
    }
    for snapshot in snapshots::select(connection, "1 = 1", &[])? {
        needed.extend(snapshot.details.stack);
    }
    Ok(needed)
}

fn known(connection: &mut dyn Connection) -> Result<HashSet<LayerId>, StoreError> {
    let mut known = HashSet::new();
    for mut row in connection.query("SELECT id FROM known_layers", &[])? {
        known.extend(LayerId::parse(&row.text(0)?));
    }
    Ok(known)
}
