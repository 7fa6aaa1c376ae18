//! The record of a sandbox as it is kept beside the sandbox, for those who come by its directory: `exec`, and whoever repairs what a
//! crash left. The records themselves are flat, which takes several times as long to read.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Details, Sandbox};
use crate::{SandboxId, Status, text};

#[derive(Serialize, Deserialize)]
#[serde(remote = "Sandbox")]
struct Nested {
    id: SandboxId,
    name: String,
    status: Status,
    version: u64,
    created_at: u64,
    updated_at: u64,
    #[serde(with = "text::path")]
    project: PathBuf,
    provider: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    details: Details,
}

pub fn write(sandbox: &Sandbox) -> serde_json::Result<Vec<u8>> {
    let mut note = Vec::with_capacity(2048);
    Nested::serialize(sandbox, &mut serde_json::Serializer::new(&mut note))?;
    Ok(note)
}

/// `None` if it is no note, or half of one.
#[must_use]
pub fn read(note: &[u8]) -> Option<Sandbox> {
    let mut reader = serde_json::Deserializer::from_slice(note);
    let sandbox = Nested::deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    Some(sandbox)
}
