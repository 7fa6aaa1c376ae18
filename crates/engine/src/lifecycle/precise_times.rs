//! File systems that tell what changed, and when.

use std::path::Path;

use whatif_diff::Node;

use crate::EngineError;
use crate::lifecycle::LifecycleError;

/// Whether a file was changed is told by its time of change. Some file systems keep whole seconds (ext4 with small inodes, ext3):
/// what two wrote within one would be one change, and that of a person could get lost.
pub(super) fn require(path: &Path) -> Result<(), EngineError> {
    let node = Node::of(path)?;
    // They do not tell either when a file was made, as those with precise times do, or their times have fractions.
    match node.is_some_and(|node| node.btime.is_none() && node.ctime.1 == 0) {
        true => Err(LifecycleError::CoarseTimes { path: path.to_owned() }.into()),
        false => Ok(()),
    }
}
