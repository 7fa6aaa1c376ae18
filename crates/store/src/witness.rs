//! Somebody who is told.

use whatif_types::{Sandbox, Snapshot, Template};

/// Told of what was recorded, once it is. It must not fail: the records are what counts.
pub trait Witness: Send + Sync + std::fmt::Debug {
    fn sandbox(&self, sandbox: &Sandbox);
    fn snapshot(&self, snapshot: &Snapshot);
    fn snapshot_removed(&self, snapshot: &Snapshot);
    fn template(&self, template: &Template);
    fn template_removed(&self, name: &str);
}
