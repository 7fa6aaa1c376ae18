//! What is kept beside the searchable columns.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::StoreError;

pub(super) fn to_json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|e| StoreError::Malformed(e.to_string()))
}

pub(super) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|e| StoreError::Malformed(e.to_string()))
}
