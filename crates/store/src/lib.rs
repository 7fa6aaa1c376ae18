//! Records of sandboxes.
//!
//! `Store` is the contract; `sqlite` keeps it in the state directory. The same conformance tests run over every implementation.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod sqlite;

use std::collections::HashSet;
use std::path::Path;

use whatif_types::experiment::Attempt;
use whatif_types::explain::DISK_FULL;
use whatif_types::state::IllegalTransition;
use whatif_types::{Experiment, ExperimentId, Explain, LayerFacts, LayerId, Sandbox, SandboxId, Snapshot, SnapshotId, Template};

/// What the records say about layers. One that they never knew belongs to records that were lost: whether it is needed cannot be
/// told from these.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    /// Those that some record names.
    pub needed: HashSet<LayerId>,
    /// Those that some record names or has named.
    pub known: HashSet<LayerId>,
}

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
    /// Returns once everything committed so far survives a power cut. Commits alone are durable only some time later; nothing may be
    /// reported, or deleted because of one, before this.
    fn flush(&self) -> Result<(), StoreError>;
    /// Removes the row and those of its snapshots. One that is gone already is a success.
    fn delete(&self, id: &SandboxId) -> Result<(), StoreError>;

    /// Reserves the row of a sandbox that starts from something recorded, if that is still there: with its last record, layers go.
    fn insert_from(&self, sandbox: &Sandbox, origin: &Origin<'_>) -> Result<(), StoreError>;
    /// Records a new snapshot and where its sandbox stands now, both or neither.
    fn insert_snapshot(&self, snapshot: &Snapshot, sandbox: &mut Sandbox) -> Result<(), StoreError>;
    /// Records that a sandbox stands at something recorded, if that is still there, and under a new snapshot, if there is one, what
    /// it was before.
    fn move_to(&self, sandbox: &mut Sandbox, origin: &Origin<'_>, before: Option<&Snapshot>) -> Result<(), StoreError>;
    fn get_snapshot(&self, id: &SnapshotId) -> Result<Option<Snapshot>, StoreError>;
    fn find_snapshot(&self, sandbox: &SandboxId, label: &str) -> Result<Option<Snapshot>, StoreError>;
    /// The snapshots of this label, of all sandboxes.
    fn find_label(&self, label: &str) -> Result<Vec<Snapshot>, StoreError>;
    /// Oldest first.
    fn list_snapshots(&self, sandbox: &SandboxId) -> Result<Vec<Snapshot>, StoreError>;
    fn delete_snapshots(&self, ids: &[SnapshotId]) -> Result<(), StoreError>;

    /// Records a template that was made from something recorded, if that is still there. One of the same name goes if it may.
    fn insert_template(&self, template: &Template, origin: Option<&Origin<'_>>, replace: bool) -> Result<(), StoreError>;
    fn get_template(&self, name: &str) -> Result<Option<Template>, StoreError>;
    /// Newest first.
    fn list_templates(&self) -> Result<Vec<Template>, StoreError>;
    fn delete_template(&self, name: &str) -> Result<(), StoreError>;

    /// Records an experiment and all of its attempts.
    fn insert_experiment(&self, experiment: &Experiment) -> Result<(), StoreError>;
    /// By name or id.
    fn find_experiment(&self, name: &str) -> Result<Option<Experiment>, StoreError>;
    /// The newest of a project.
    fn latest_experiment(&self, project: &Path) -> Result<Option<Experiment>, StoreError>;
    /// Newest first. Those that cannot be read are left out.
    fn list_experiments(&self) -> Result<Vec<Experiment>, StoreError>;
    /// Writes all but its attempts, if its version is still the one given; the new version is stored in it.
    fn update_experiment(&self, experiment: &mut Experiment) -> Result<(), StoreError>;
    /// Writes one attempt, by its number in the plan, if the experiment is still there.
    fn put_attempt(&self, id: &ExperimentId, number: usize, attempt: &Attempt) -> Result<(), StoreError>;
    fn delete_experiment(&self, id: &ExperimentId) -> Result<(), StoreError>;
    /// The same by name or id, also of one that cannot be read.
    fn delete_experiment_named(&self, name: &str) -> Result<(), StoreError>;

    /// What is known about these layers.
    fn layer_facts(&self, layers: &[LayerId]) -> Result<Vec<LayerFacts>, StoreError>;
    fn note_layer(&self, layer: &LayerId, facts: &LayerFacts) -> Result<(), StoreError>;
    /// Layers that are about to exist and to be recorded. If that fails, they are known to be needless.
    fn expect_layers(&self, layers: &[LayerId]) -> Result<(), StoreError>;
    /// The layers that some record names or has named.
    fn known_layers(&self) -> Result<HashSet<LayerId>, StoreError>;
    /// Calls `work` with what the records say about layers. No record can be written meanwhile. The layers that `work` returns are
    /// gone: nothing is known about them any more.
    fn with_layers(&self, work: &mut dyn FnMut(&Layers) -> Vec<LayerId>) -> Result<(), StoreError>;
}

/// Told of what was recorded. It must not fail: the records are what counts.
pub trait Witness: Send + std::fmt::Debug {
    fn sandbox(&self, sandbox: &Sandbox);
    fn snapshot(&self, snapshot: &Snapshot);
    fn snapshot_removed(&self, snapshot: &Snapshot);
    fn template(&self, template: &Template);
    fn template_removed(&self, name: &str);
}

/// What something new starts from.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    Sandbox(&'a SandboxId),
    Snapshot(&'a SnapshotId),
    Template(&'a str),
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
    Database(#[source] rusqlite::Error),
}

impl StoreError {
    /// Whether what is at the place of the records is none, or not all of it can be read.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        matches!(self, Self::Database(error) if matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase)))
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
            Self::TooNew { .. } => "records_too_new",
            Self::Malformed(_) => "records_malformed",
            Self::Transition(_) => "illegal_transition",
            Self::Full | Self::Database(_) | Self::NotFlushed { .. } => "records_failed",
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
            Self::Database(_) if self.is_damage() => {
                vec!["the sandboxes are still there; put it aside and rebuild the records from them: whatif gc --adopt".to_owned()]
            }
            Self::Database(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::CannotOpen) => vec![
                "may enough files be open? 'ulimit -n' says how many, 'ulimit -n 4096' raises it".to_owned(),
                "'whatif doctor' checks the state directory and its free space".to_owned(),
            ],
            Self::Database(_) | Self::Malformed(_) | Self::NotFlushed { .. } => {
                vec!["'whatif doctor' checks the state directory and its free space".to_owned()]
            }
            Self::Transition(_) => Vec::new(),
        }
    }

    fn retryable(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::ExperimentConflict { .. })
    }
}
