//! The rows of templates.

use whatif_types::Template;

use super::json::{from_json, to_json};
use super::sandboxes::require;
use super::{Connection, Database, Mode, SqlStore, Value};
use crate::{Origin, StoreError, Templates};

impl<D: Database> Templates for SqlStore<D> {
    fn insert_template(&self, template: &Template, origin: Option<&Origin<'_>>, replace: bool) -> Result<(), StoreError> {
        self.run(Mode::Together, |connection| {
            origin.map_or(Ok(()), |origin| require(connection, origin))?;
            if replace {
                connection.execute("DELETE FROM templates WHERE name = ?1", &[(&template.name).into()])?;
            }
            let inserted = connection.execute(
                "INSERT INTO templates (name, created_at, details) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
                &[(&template.name).into(), template.created_at.into(), (&to_json(template)?).into()],
            )?;
            if inserted == 0 { Err(StoreError::TemplateTaken { name: template.name.clone() }) } else { Ok(()) }
        })?;
        self.tell(|w| w.template(template));
        Ok(())
    }

    fn get_template(&self, name: &str) -> Result<Option<Template>, StoreError> {
        self.run(Mode::Single, |connection| Ok(select(connection, "WHERE name = ?1", &[name.into()])?.pop()))
    }

    fn list_templates(&self) -> Result<Vec<Template>, StoreError> {
        self.run(Mode::Single, |connection| list(connection))
    }

    fn delete_template(&self, name: &str) -> Result<(), StoreError> {
        self.run(Mode::Single, |connection| connection.execute("DELETE FROM templates WHERE name = ?1", &[name.into()]))?;
        self.tell(|w| w.template_removed(name));
        Ok(())
    }
}

pub(super) fn list(connection: &mut dyn Connection) -> Result<Vec<Template>, StoreError> {
    select(connection, "ORDER BY created_at DESC, name", &[])
}

fn select(connection: &mut dyn Connection, rest: &str, parameters: &[Value<'_>]) -> Result<Vec<Template>, StoreError> {
    let rows = connection.query(&format!("SELECT details FROM templates {rest}"), parameters)?;
    rows.into_iter().map(|mut row| from_json(&row.text(0)?)).collect()
}
