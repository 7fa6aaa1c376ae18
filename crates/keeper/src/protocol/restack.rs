//! What is said between whoever puts a sandbox on other layers and the helper that does it.

use serde::{Deserialize, Serialize};
use whatif_types::Boot;
use whatif_types::boot::Protection;

use super::{Failed, Text};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Enter the instance. The way in comes along as descriptors.
    Enter { boot: Box<Boot> },
    /// See to it that nobody can write to its trees any more.
    Guard,
    /// Put the new root together and make it the root; then the instance may go on. Whatever holds it still and keeps others away
    /// comes along as descriptors, the connection to its keeper first.
    Finish {
        /// What the sandbox is known to have.
        protection: Protection,
    },
    /// Leave everything as it was.
    GiveUp,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Guarded,
    /// Nothing was changed, because somebody writes to this tree.
    Busy(Text),
    /// Everything is as it was.
    GivenUp,
    Failed(Failed),
}
