//! What a database is asked for.

use crate::StoreError;

pub trait Database: Send + Sync + std::fmt::Debug {
    /// Does some work on a connection. It is done again where that helps, as when a transaction came second or room was made for it;
    /// so it must have no effects beyond the records, except with `Mode::Once`.
    fn run(&self, mode: Mode, work: &mut dyn FnMut(&mut dyn Connection) -> Result<(), StoreError>) -> Result<(), StoreError>;
    fn is_at_ease(&self) -> bool;
    fn wants_tidying(&self) -> bool;
    fn tidy(&self) -> Result<(), StoreError>;
    fn flush(&self) -> Result<(), StoreError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One statement that changes something, or some that only look.
    Single,
    /// All of it or nothing.
    Together,
    /// All of it or nothing, and never again.
    Once,
}

pub trait Connection {
    /// Returns how many rows it concerned. Parameters are `?1`, `?2` …
    fn execute(&mut self, sql: &str, parameters: &[Value<'_>]) -> Result<u64, StoreError>;
    fn query(&mut self, sql: &str, parameters: &[Value<'_>]) -> Result<Vec<Row>, StoreError>;
    /// Until the end of the transaction nobody else writes these tables.
    fn lock(&mut self, tables: &[&str]) -> Result<(), StoreError>;
}

#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    Null,
    Number(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Value<'_> {
    /// No count or time of ours comes near the limit.
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

#[derive(Clone, Debug)]
pub enum Cell {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

#[derive(Clone, Debug)]
pub struct Row(pub Vec<Cell>);

impl Row {
    pub(super) fn number(&mut self, column: usize) -> Result<u64, StoreError> {
        match self.take(column) {
            Some(Cell::Number(number)) => Ok(number.unsigned_abs()),
            other => Err(unexpected(column, &other)),
        }
    }

    pub(super) fn text(&mut self, column: usize) -> Result<String, StoreError> {
        match self.take(column) {
            Some(Cell::Text(text)) => Ok(text),
            other => Err(unexpected(column, &other)),
        }
    }

    pub(super) fn text_or_none(&mut self, column: usize) -> Result<Option<String>, StoreError> {
        match self.take(column) {
            Some(Cell::Null) => Ok(None),
            Some(Cell::Text(text)) => Ok(Some(text)),
            other => Err(unexpected(column, &other)),
        }
    }

    pub(super) fn bytes(&mut self, column: usize) -> Result<Vec<u8>, StoreError> {
        match self.take(column) {
            Some(Cell::Bytes(bytes)) => Ok(bytes),
            other => Err(unexpected(column, &other)),
        }
    }

    /// Each cell is read once.
    fn take(&mut self, column: usize) -> Option<Cell> {
        self.0.get_mut(column).map(|cell| std::mem::replace(cell, Cell::Null))
    }
}

fn unexpected(column: usize, found: &Option<Cell>) -> StoreError {
    StoreError::Malformed(format!("column {column} holds {found:?}"))
}
