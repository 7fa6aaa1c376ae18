//! Statements and rows of SQLite.

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{ErrorCode, params_from_iter};

use crate::sql::{Cell, Connection, Row, Value};
use crate::{StoreError, Trouble};

pub(super) struct Session<'a>(pub &'a rusqlite::Connection);

impl Connection for Session<'_> {
    fn execute(&mut self, sql: &str, parameters: &[Value<'_>]) -> Result<u64, StoreError> {
        Ok(self.0.prepare_cached(sql)?.execute(params_from_iter(parameters))? as u64)
    }

    fn query(&mut self, sql: &str, parameters: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        let mut statement = self.0.prepare_cached(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query(params_from_iter(parameters))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(Row((0..columns).map(|column| cell(row.get_ref(column)?)).collect::<Result<_, _>>()?));
        }
        Ok(found)
    }

    fn lock(&mut self, _: &[&str]) -> Result<(), StoreError> {
        // Who has begun a transaction is the only one who writes.
        Ok(())
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Number(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn cell(value: ValueRef<'_>) -> Result<Cell, StoreError> {
    Ok(match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Number(number),
        ValueRef::Text(text) => {
            Cell::Text(String::from_utf8(text.to_vec()).map_err(|_| StoreError::Malformed("a text that is none".to_owned()))?)
        }
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
        ValueRef::Real(number) => return Err(StoreError::Malformed(format!("the number {number}"))),
    })
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let trouble = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => return Self::Full,
            Some(ErrorCode::ConstraintViolation) => Trouble::Taken,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Trouble::Busy,
            Some(ErrorCode::ReadOnly) => Trouble::ReadOnly,
            Some(ErrorCode::CannotOpen) => Trouble::CannotOpen,
            Some(ErrorCode::SystemIoFailure) => Trouble::Io,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Trouble::Damaged,
            _ => Trouble::Other,
        };
        Self::database(trouble, error)
    }
}
