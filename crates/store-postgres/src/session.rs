//! Statements and rows of PostgreSQL.

use std::error::Error;

use postgres::GenericClient;
use postgres::error::SqlState;
use postgres::types::private::BytesMut;
use postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use whatif_store::sql::{Cell, Connection, Row, Value};
use whatif_store::{StoreError, Trouble};

pub(crate) struct Session<'a, C>(pub &'a mut C);

impl<C: GenericClient> Connection for Session<'_, C> {
    fn execute(&mut self, sql: &str, parameters: &[Value<'_>]) -> Result<u64, StoreError> {
        let parameters: Vec<Parameter<'_>> = parameters.iter().map(|value| Parameter(*value)).collect();
        let parameters: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|p| p as _).collect();
        self.0.execute(&numbered(sql), &parameters).map_err(failed)
    }

    fn query(&mut self, sql: &str, parameters: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        let parameters: Vec<Parameter<'_>> = parameters.iter().map(|value| Parameter(*value)).collect();
        let parameters: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|p| p as _).collect();
        let rows = self.0.query(&numbered(sql), &parameters).map_err(failed)?;
        rows.iter()
            .map(|row| {
                let cells = (0..row.len()).map(|column| row.try_get::<_, Read>(column).map(|read| read.0));
                Ok(Row(cells.collect::<Result<_, _>>().map_err(failed)?))
            })
            .collect()
    }

    fn lock(&mut self, tables: &[&str]) -> Result<(), StoreError> {
        // Always in this order, so that two who want several do not wait for each other.
        let mut tables = tables.to_vec();
        tables.sort_unstable();
        self.0.batch_execute(&format!("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE", tables.join(", "))).map_err(failed)
    }
}

/// Our statements have no question mark but for parameters.
fn numbered(sql: &str) -> String {
    sql.replace('?', "$")
}

#[derive(Debug)]
struct Parameter<'a>(Value<'a>);

/// The server says which type a parameter has; ours fit by design of the tables, and it checks them.
impl ToSql for Parameter<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self.0 {
            Value::Null => Ok(IsNull::Yes),
            Value::Number(number) => number.to_sql(kind, out),
            Value::Text(text) => text.to_sql(kind, out),
            Value::Bytes(bytes) => bytes.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

struct Read(Cell);

impl<'a> FromSql<'a> for Read {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(match *kind {
            Type::INT8 => Cell::Number(i64::from_sql(kind, raw)?),
            Type::INT4 => Cell::Number(i32::from_sql(kind, raw)?.into()),
            Type::BYTEA => Cell::Bytes(raw.to_vec()),
            // The binary form of these is their text.
            _ => Cell::Text(String::from_utf8(raw.to_vec())?),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(Cell::Null))
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::INT8 | Type::INT4 | Type::BYTEA | Type::TEXT | Type::VARCHAR | Type::NAME | Type::JSON)
    }
}

pub(crate) fn failed(error: postgres::Error) -> StoreError {
    let Some(code) = error.code() else {
        let trouble = if error.is_closed() { Trouble::CannotOpen } else { Trouble::Other };
        return StoreError::database(trouble, error);
    };
    let trouble = match *code {
        SqlState::DISK_FULL => return StoreError::Full,
        SqlState::UNIQUE_VIOLATION => Trouble::Taken,
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED | SqlState::LOCK_NOT_AVAILABLE => Trouble::Busy,
        SqlState::READ_ONLY_SQL_TRANSACTION => Trouble::ReadOnly,
        SqlState::IO_ERROR => Trouble::Io,
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => Trouble::Damaged,
        SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN | SqlState::CANNOT_CONNECT_NOW | SqlState::TOO_MANY_CONNECTIONS => {
            Trouble::CannotOpen
        }
        _ => Trouble::Other,
    };
    StoreError::database(trouble, error)
}
