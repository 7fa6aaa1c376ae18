//! What can go wrong with records.

use std::error::Error;

use whatif_types::Explain;
use whatif_types::explain::DISK_FULL;
use whatif_types::state::IllegalTransition;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("there already is a sandbox called '{name}'")]
    NameTaken { name: String },
    #[error("there already is a snapshot called '{label}'")]
    LabelTaken { label: String },
    #[error("there already is a template called '{name}'")]
    TemplateTaken { name: String },
    #[error("there already is a race called '{name}'")]
    ExperimentTaken { name: String },
    #[error("race '{name}' was changed by another command meanwhile")]
    ExperimentConflict { name: String },
    #[error("what it was to start from has just been removed")]
    OriginGone,
    #[error("sandbox '{name}' was changed by another command meanwhile")]
    Conflict { name: String },
    #[error("there is no sandbox {id}")]
    NoSuchSandbox { id: String },
    #[error("'{resource}' is held by {holder}")]
    Held { resource: String, holder: String },
    #[error("the lease of '{resource}' is over")]
    LeaseOver { resource: String },
    #[error("'{path}' is reserved by {holder}")]
    Reserved { path: String, holder: String },
    #[error("the key '{key}' was used for another request")]
    KeyReused { key: String },
    #[error("events before number {oldest} are no longer kept")]
    EventsGone { oldest: u64 },
    #[error("entry {number} of the audit log is not as it was written")]
    AuditBroken { number: u64 },
    #[error("'{text}' is no place in a list")]
    NoSuchCursor { text: String },
    #[error("the records in {path} were written by a newer whatif (format {found}, this one knows {known})")]
    TooNew { path: String, found: i64, known: i64 },
    #[error("a record cannot be understood: {0}")]
    Malformed(String),
    #[error(transparent)]
    Transition(#[from] IllegalTransition),
    #[error("failed to flush the records in {path} to the disk")]
    NotFlushed {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("nothing can be recorded: the disk of the state directory is full")]
    Full,
    #[error("failed to use the records")]
    Database {
        trouble: Trouble,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

/// What kind of failure of a database it is, as far as anybody acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A row of that name or number is there already.
    Taken,
    /// Somebody else was faster; the same transaction may succeed now.
    Busy,
    /// It can be read, and not written.
    ReadOnly,
    /// It cannot be opened or reached.
    CannotOpen,
    /// The system refused to read or write.
    Io,
    /// What is there is no database, or not all of it can be read.
    Damaged,
    Other,
}

impl StoreError {
    #[must_use]
    pub fn database(trouble: Trouble, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Database { trouble, source: source.into() }
    }

    #[must_use]
    pub fn trouble(&self) -> Option<Trouble> {
        match self {
            Self::Database { trouble, .. } => Some(*trouble),
            _ => None,
        }
    }

    /// Whether what is at the place of the records is none, or not all of it can be read.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        self.trouble() == Some(Trouble::Damaged)
    }
}

impl Explain for StoreError {
    fn code(&self) -> &'static str {
        match self {
            Self::NameTaken { .. } => "name_taken",
            Self::LabelTaken { .. } => "label_taken",
            Self::TemplateTaken { .. } => "template_taken",
            Self::ExperimentTaken { .. } => "race_taken",
            Self::OriginGone => "origin_gone",
            Self::Conflict { .. } | Self::ExperimentConflict { .. } => "conflict",
            Self::NoSuchSandbox { .. } => "not_found",
            Self::Held { .. } => "held",
            Self::LeaseOver { .. } => "lease_over",
            Self::Reserved { .. } => "reserved",
            Self::KeyReused { .. } => "key_reused",
            Self::EventsGone { .. } => "events_gone",
            Self::AuditBroken { .. } => "audit_broken",
            Self::NoSuchCursor { .. } => "no_such_cursor",
            Self::TooNew { .. } => "records_too_new",
            Self::Malformed(_) => "records_malformed",
            Self::Transition(_) => "illegal_transition",
            Self::Full | Self::Database { .. } | Self::NotFlushed { .. } => "records_failed",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NameTaken { name } => vec![format!("choose another name, or remove it: whatif rm {name}")],
            Self::LabelTaken { label } => vec![format!("choose another label, or remove it: whatif snapshot rm {label}")],
            Self::TemplateTaken { name } => {
                vec![format!(
                    "choose another name ('import': --template NAME), replace it ('template save': --replace), or remove it: whatif template rm {name}"
                )]
            }
            Self::ExperimentTaken { name } => vec![format!("choose another name, or remove it: whatif race rm {name}")],
            Self::OriginGone => vec!["'whatif snapshots' shows what there is".to_owned()],
            Self::Conflict { .. } | Self::ExperimentConflict { .. } => vec!["run the command again".to_owned()],
            Self::TooNew { .. } => vec!["use the newer whatif, or another state directory: WHATIF_HOME=…".to_owned()],
            Self::Full => vec![DISK_FULL.to_owned()],
            Self::Database { trouble: Trouble::Damaged, .. } => {
                vec!["the sandboxes are still there; put it aside and rebuild the records from them: whatif gc --adopt".to_owned()]
            }
            Self::Database { trouble: Trouble::CannotOpen, .. } => vec![
                "may enough files be open? 'ulimit -n' says how many, 'ulimit -n 4096' raises it".to_owned(),
                "'whatif doctor' checks the state directory and its free space".to_owned(),
            ],
            Self::Database { .. } | Self::Malformed(_) | Self::NotFlushed { .. } => {
                vec!["'whatif doctor' checks the state directory and its free space".to_owned()]
            }
            _ => Vec::new(),
        }
    }

    fn retryable(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::ExperimentConflict { .. } | Self::Held { .. } | Self::Reserved { .. })
    }
}
