//! `whatif snapshots`: the tree of a sandbox's snapshots.

use std::collections::HashMap;

use serde::Serialize;
use whatif_types::{Sandbox, Snapshot, SnapshotId};

use crate::{Engine, EngineError};

/// A snapshot in the tree.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    #[serde(flatten)]
    pub snapshot: Snapshot,
    /// The label of the one it came from.
    pub parent_label: Option<String>,
    /// How many come before it on the way from the root.
    pub depth: usize,
    /// The sandbox stands here, whatever it changed since.
    pub is_current: bool,
    /// What the layer on top of it holds: what was changed since the one before.
    pub bytes: u64,
    pub files: u64,
}

impl Engine {
    /// Each after the one it came from, oldest first among equals.
    pub fn snapshots(&self, name: Option<&str>) -> Result<(Sandbox, Vec<Listed>), EngineError> {
        let sandbox = self.resolve(name)?;
        let all = self.store.list_snapshots(&sandbox.id)?;
        let labels: HashMap<SnapshotId, String> = all.iter().map(|s| (s.id.clone(), s.label.clone())).collect();
        let mut children: HashMap<Option<SnapshotId>, Vec<Snapshot>> = HashMap::new();
        for snapshot in all {
            // One whose parent was removed, or belongs to another sandbox, is a root here.
            let parent = snapshot.details.parent.clone().filter(|p| labels.contains_key(p));
            children.entry(parent).or_default().push(snapshot);
        }
        let mut listed = Vec::new();
        let mut pending: Vec<(Snapshot, usize)> =
            children.remove(&None).unwrap_or_default().into_iter().rev().map(|s| (s, 0)).collect();
        while let Some((snapshot, depth)) = pending.pop() {
            let size = match snapshot.details.stack.last() {
                Some(layer) => self.layer_size(layer)?,
                None => (0, 0),
            };
            let below = children.remove(&Some(snapshot.id.clone())).unwrap_or_default();
            pending.extend(below.into_iter().rev().map(|s| (s, depth + 1)));
            listed.push(Listed {
                parent_label: snapshot.details.parent.as_ref().and_then(|p| labels.get(p).cloned()),
                depth,
                is_current: sandbox.details.position.at.as_ref() == Some(&snapshot.id),
                files: size.0,
                bytes: size.1,
                snapshot,
            });
        }
        Ok((sandbox, listed))
    }
}
