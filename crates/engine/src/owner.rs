//! Who needs a layer.

use serde::Serialize;

/// Somebody who needs a layer: removing it takes away all it owns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "name")]
pub enum Owner {
    Sandbox(String),
    /// As `NAME@LABEL`.
    Snapshot(String),
    Template(String),
}

impl Owner {
    /// What it is and how it is called.
    #[must_use]
    pub fn described(&self) -> String {
        match self {
            Self::Sandbox(name) => format!("sandbox '{name}'"),
            Self::Snapshot(name) => format!("snapshot '{name}'"),
            Self::Template(name) => format!("template '{name}'"),
        }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Sandbox(name) | Self::Snapshot(name) | Self::Template(name) => name,
        }
    }
}
