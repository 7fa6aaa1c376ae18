use serde::Serialize;

use super::{Choice, Value};
use crate::text::Text;

/// Something that whatif can be asked for. The engine does most of them in a method of such a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum Call {
    // The life of sandboxes.
    List,
    Show {
        name: Value,
    },
    New {
        choices: Vec<Choice>,
    },
    Run {
        command: Value,
    },
    /// A command that a shell takes apart.
    RunScript,
    Start {
        name: Value,
        ttl: Option<String>,
    },
    Stop {
        name: Value,
    },
    Remove {
        name: Value,
    },
    Fork {
        from: Value,
    },

    // What runs inside.
    Exec {
        name: Value,
    },
    /// The same of a command that a shell takes apart.
    ExecScript {
        name: Value,
    },
    /// In the background.
    ExecDetached,
    Shell {
        name: Value,
        /// It was stopped on request, so it does not start by itself.
        is_stopped: bool,
    },
    Processes {
        name: Value,
    },
    /// The output of a command in the background.
    Logs {
        name: Value,
        command: String,
    },

    // What it changed.
    Diff {
        name: Value,
    },
    /// Both sides to be filled in.
    Compare,
    Patch {
        name: Value,
    },
    /// All paths that a sandbox changed, those that are ignored and those outside of the project as well.
    ChangedPaths {
        name: Value,
    },
    /// The numbers of the hunks of a file.
    Hunks {
        name: Value,
        path: Text,
    },
    HunksAsData {
        name: Value,
        path: Text,
    },
    Status,
    Review {
        name: Value,
    },
    /// After the file that all decisions are in was removed.
    ReviewAgain {
        name: Value,
        decisions: Text,
    },
    Apply {
        name: Value,
        exclude: Option<Text>,
    },
    Rebase {
        name: Value,
    },
    Undo {
        id: Value,
        skip: Value,
    },
    /// Only tells what would be undone.
    UndoPlan {
        id: Value,
    },
    /// Without being asked.
    UndoApproved {
        id: Value,
    },
    History,
    /// With the paths of each apply.
    HistoryAsData,

    // Snapshots, templates, archives.
    Snapshots {
        name: Value,
    },
    RemoveSnapshot {
        label: Value,
    },
    Squash {
        name: Value,
    },
    Templates,
    SaveTemplate {
        sandbox: Value,
        template: Value,
        replace: bool,
    },
    RemoveTemplate {
        name: Value,
    },
    Export {
        name: Value,
    },
    Import {
        choices: Vec<Choice>,
    },
    /// Only tells what is in an archive.
    ImportList,

    // The network.
    Network {
        name: Value,
    },
    Ports {
        name: Value,
    },

    // Races.
    Race {
        choices: Vec<Choice>,
        commands: Vec<String>,
    },
    /// One command, tried in several ways.
    RaceOne {
        choices: Vec<Choice>,
        command: String,
    },
    /// Everything to be filled in.
    RaceAny,
    Races,
    RaceShow,
    RaceResume,
    RaceRerun {
        attempt: Value,
    },
    RaceApply {
        attempt: Value,
    },
    RaceDiff {
        attempt: Value,
    },
    /// Of two attempts to be filled in.
    RaceMerge,
    RaceRemove {
        name: Value,
    },

    // Upkeep.
    DiskUsage,
    /// Only tells what could go.
    CollectPreview,
    /// Records are made again of what lies on the disk.
    Adopt,
    Doctor,
}

impl Call {
    #[must_use]
    pub fn start(name: impl Into<Value>) -> Self {
        Self::Start { name: name.into(), ttl: None }
    }

    #[must_use]
    pub fn stop(name: impl Into<Value>) -> Self {
        Self::Stop { name: name.into() }
    }

    #[must_use]
    pub fn remove(name: impl Into<Value>) -> Self {
        Self::Remove { name: name.into() }
    }

    #[must_use]
    pub fn show(name: impl Into<Value>) -> Self {
        Self::Show { name: name.into() }
    }

    #[must_use]
    pub fn fork(from: impl Into<Value>) -> Self {
        Self::Fork { from: from.into() }
    }

    #[must_use]
    pub fn diff(name: impl Into<Value>) -> Self {
        Self::Diff { name: name.into() }
    }

    #[must_use]
    pub fn patch(name: impl Into<Value>) -> Self {
        Self::Patch { name: name.into() }
    }

    #[must_use]
    pub fn export(name: impl Into<Value>) -> Self {
        Self::Export { name: name.into() }
    }

    #[must_use]
    pub fn apply(name: impl Into<Value>) -> Self {
        Self::Apply { name: name.into(), exclude: None }
    }

    #[must_use]
    pub fn undo(id: impl Into<Value>) -> Self {
        Self::Undo { id: id.into(), skip: Value::Unsaid }
    }

    #[must_use]
    pub fn snapshots(name: impl Into<Value>) -> Self {
        Self::Snapshots { name: name.into() }
    }
}
