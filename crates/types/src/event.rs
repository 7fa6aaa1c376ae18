//! What can happen to sandboxes and to reality, as event streams name it.

use std::fmt;

/// The names are part of the API: clients filter by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    SandboxCreated,
    SandboxChanged,
    SandboxStarted,
    SandboxStopped,
    SandboxRolledBack,
    SandboxRebased,
    SandboxRejected,
    SandboxRemoved,
    SnapshotTaken,
    SnapshotRemoved,
    TemplateSaved,
    TemplateRemoved,
    CommandStarted,
    CommandEnded,
    ReviewSaved,
    ApplyMade,
    ApplyUndone,
    NetworkChanged,
    RaceStarted,
    RaceEnded,
}

impl EventKind {
    pub const ALL: [Self; 20] = [
        Self::SandboxCreated,
        Self::SandboxChanged,
        Self::SandboxStarted,
        Self::SandboxStopped,
        Self::SandboxRolledBack,
        Self::SandboxRebased,
        Self::SandboxRejected,
        Self::SandboxRemoved,
        Self::SnapshotTaken,
        Self::SnapshotRemoved,
        Self::TemplateSaved,
        Self::TemplateRemoved,
        Self::CommandStarted,
        Self::CommandEnded,
        Self::ReviewSaved,
        Self::ApplyMade,
        Self::ApplyUndone,
        Self::NetworkChanged,
        Self::RaceStarted,
        Self::RaceEnded,
    ];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SandboxCreated => "sandbox.created",
            Self::SandboxChanged => "sandbox.changed",
            Self::SandboxStarted => "sandbox.started",
            Self::SandboxStopped => "sandbox.stopped",
            Self::SandboxRolledBack => "sandbox.rolled_back",
            Self::SandboxRebased => "sandbox.rebased",
            Self::SandboxRejected => "sandbox.rejected",
            Self::SandboxRemoved => "sandbox.removed",
            Self::SnapshotTaken => "snapshot.taken",
            Self::SnapshotRemoved => "snapshot.removed",
            Self::TemplateSaved => "template.saved",
            Self::TemplateRemoved => "template.removed",
            Self::CommandStarted => "command.started",
            Self::CommandEnded => "command.ended",
            Self::ReviewSaved => "review.saved",
            Self::ApplyMade => "apply.made",
            Self::ApplyUndone => "apply.undone",
            Self::NetworkChanged => "network.changed",
            Self::RaceStarted => "race.started",
            Self::RaceEnded => "race.ended",
        }
    }

    /// Whether the audit log has it as well: it changes reality, decides what may, or cannot be taken back.
    #[must_use]
    pub fn is_audited(self) -> bool {
        matches!(
            self,
            Self::SandboxRejected
                | Self::SandboxRemoved
                | Self::ReviewSaved
                | Self::ApplyMade
                | Self::ApplyUndone
                | Self::NetworkChanged
        )
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_name_of_its_own() {
        let mut names: Vec<_> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), EventKind::ALL.len());
    }
}
