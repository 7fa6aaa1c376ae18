//! What the rows of all tables have in common.

use rusqlite::ErrorCode;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::StoreError;

pub(super) fn to_json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|e| StoreError::Malformed(e.to_string()))
}

pub(super) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|e| StoreError::Malformed(e.to_string()))
}

/// The name of a row must be free.
pub(super) fn taken(inserted: rusqlite::Result<usize>, error: impl FnOnce() -> StoreError) -> Result<(), StoreError> {
    match inserted {
        Err(e) if e.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => Err(error()),
        other => Ok(other.map(|_| ())?),
    }
}
