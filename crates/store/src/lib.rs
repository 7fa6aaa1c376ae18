//! Records of sandboxes.
//!
//! `Store` is the contract; `sqlite` keeps it in the state directory. The same conformance tests run over every implementation.
#![forbid(unsafe_code)]

pub mod sqlite;

use whatif_types::state::IllegalTransition;
use whatif_types::{Explain, Sandbox, SandboxId};

/// Where records live. Every call is one transaction; a caller that dies in between leaves either the old or the new row.
pub trait Store: std::fmt::Debug {
    /// Reserves the row of a new sandbox. With an idempotency key that was used before, the existing sandbox is returned
    /// and nothing is inserted.
    fn insert(&self, sandbox: &Sandbox, idempotency_key: Option<&str>) -> Result<Inserted, StoreError>;
    fn get(&self, id: &SandboxId) -> Result<Option<Sandbox>, StoreError>;
    /// The sandbox that was made with this idempotency key.
    fn find_by_key(&self, key: &str) -> Result<Option<Sandbox>, StoreError>;
    /// By exact name, or by a prefix of the id that fits only one.
    fn find(&self, name_or_prefix: &str) -> Result<Found, StoreError>;
    /// Newest first.
    fn list(&self) -> Result<Vec<Sandbox>, StoreError>;
    /// Writes the row if its version is still the one in `sandbox`; the new version is stored in it.
    fn update(&self, sandbox: &mut Sandbox) -> Result<(), StoreError>;
    /// Whether `tidy` is worth its disk flushes now. Cheap.
    fn wants_tidying(&self) -> bool;
    /// Work that keeps later commands fast; better done in the background.
    fn tidy(&self) -> Result<(), StoreError>;
    /// Removes the row. One that is gone already is a success.
    fn delete(&self, id: &SandboxId) -> Result<(), StoreError>;
}

#[derive(Debug)]
pub enum Inserted {
    New,
    Existing(Box<Sandbox>),
}

#[derive(Debug)]
pub enum Found {
    One(Box<Sandbox>),
    None,
    Several(Vec<String>),
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("there already is a sandbox called '{name}'")]
    NameTaken { name: String },
    #[error("sandbox '{name}' was changed by another command meanwhile")]
    Conflict { name: String },
    #[error("the records in {path} were written by a newer whatif (format {found}, this one knows {known})")]
    TooNew { path: String, found: i64, known: i64 },
    #[error("a record cannot be understood: {0}")]
    Malformed(String),
    #[error(transparent)]
    Transition(#[from] IllegalTransition),
    #[error("failed to use the records")]
    Database(#[source] rusqlite::Error),
}

impl Explain for StoreError {
    fn code(&self) -> &'static str {
        match self {
            Self::NameTaken { .. } => "name_taken",
            Self::Conflict { .. } => "conflict",
            Self::TooNew { .. } => "records_too_new",
            Self::Malformed(_) => "records_malformed",
            Self::Transition(_) => "illegal_transition",
            Self::Database(_) => "records_failed",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NameTaken { name } => vec![format!("choose another --name, or remove it: whatif rm {name}")],
            Self::Conflict { .. } => vec!["run the command again".to_owned()],
            Self::TooNew { .. } => vec!["use the newer whatif, or another state directory: WHATIF_HOME=…".to_owned()],
            Self::Database(_) | Self::Malformed(_) => {
                vec!["'whatif doctor' checks the state directory and its free space".to_owned()]
            }
            Self::Transition(_) => Vec::new(),
        }
    }

    fn retryable(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }
}
