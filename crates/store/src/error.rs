//! What can go wrong with records.

use std::error::Error;

use whatif_types::explain::{disk_full, kind_of};
use whatif_types::remedy::{Call, Choice, Mention, Value};
use whatif_types::state::IllegalTransition;
use whatif_types::{Explain, Kind, Remedy, remedy};

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

    fn kind(&self) -> Kind {
        match self {
            Self::NameTaken { .. } | Self::LabelTaken { .. } | Self::TemplateTaken { .. } | Self::ExperimentTaken { .. } => {
                Kind::Conflict
            }
            Self::Conflict { .. } | Self::ExperimentConflict { .. } | Self::Transition(_) | Self::KeyReused { .. } => {
                Kind::Conflict
            }
            Self::Held { .. } | Self::LeaseOver { .. } | Self::Reserved { .. } => Kind::Conflict,
            Self::OriginGone | Self::NoSuchSandbox { .. } | Self::EventsGone { .. } => Kind::NotFound,
            Self::NoSuchCursor { .. } => Kind::Invalid,
            Self::Full => Kind::Exhausted,
            Self::TooNew { .. } => Kind::Unavailable,
            Self::NotFlushed { source, .. } => kind_of(source),
            Self::Database { trouble: Trouble::ReadOnly, .. } => Kind::Forbidden,
            Self::Database { trouble: Trouble::Busy | Trouble::CannotOpen, .. } => Kind::Unavailable,
            Self::AuditBroken { .. } | Self::Malformed(_) | Self::Database { .. } => Kind::Internal,
        }
    }

    fn remedies(&self) -> Vec<Remedy> {
        let check = || remedy![Mention(Call::Doctor), " checks the state directory and its free space"];
        match self {
            Self::NameTaken { name } => vec![remedy!["choose another name, or remove it: ", Call::remove(name)]],
            Self::LabelTaken { label } => {
                vec![remedy!["choose another label, or remove it: ", Call::RemoveSnapshot { label: label.into() }]]
            }
            Self::TemplateTaken { name } => vec![remedy![
                "choose another name ('import': ",
                Choice::TemplateName(Value::Blank),
                "), replace it ('template save': ",
                Choice::Replace,
                "), or remove it: ",
                Call::RemoveTemplate { name: name.into() }
            ]],
            Self::ExperimentTaken { name } => {
                vec![remedy!["choose another name, or remove it: ", Call::RaceRemove { name: name.into() }]]
            }
            Self::OriginGone => vec![remedy![Mention(Call::snapshots(Value::Unsaid)), " shows what there is"]],
            Self::Conflict { .. } | Self::ExperimentConflict { .. } => vec!["run the command again".into()],
            Self::TooNew { .. } => vec!["use the newer whatif, or another state directory: WHATIF_HOME=…".into()],
            Self::Full => vec![disk_full()],
            Self::Database { trouble: Trouble::Damaged, .. } => {
                vec![remedy!["the sandboxes are still there; put it aside and rebuild the records from them: ", Call::Adopt]]
            }
            Self::Database { trouble: Trouble::CannotOpen, .. } => {
                vec!["may enough files be open? 'ulimit -n' says how many, 'ulimit -n 4096' raises it".into(), check()]
            }
            Self::Database { .. } | Self::Malformed(_) | Self::NotFlushed { .. } => vec![check()],
            _ => Vec::new(),
        }
    }

    fn retryable(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::ExperimentConflict { .. } | Self::Held { .. } | Self::Reserved { .. })
    }
}
