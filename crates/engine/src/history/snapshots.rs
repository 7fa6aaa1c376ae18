//! `whatif snapshots`: the tree of a sandbox's snapshots.

use std::collections::HashMap;

use serde::Serialize;
use whatif_types::timestamp::rfc3339;
use whatif_types::{LayerId, MadeBy, Sandbox, Selector, Snapshot, SnapshotId};

use crate::EngineError;
use crate::history::History;

/// A snapshot as programs read it.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    pub id: SnapshotId,
    /// The name of its sandbox.
    pub sandbox: String,
    pub label: String,
    pub created_at: String,
    pub made_by: MadeBy,
    pub message: Option<String>,
    pub durable: bool,
    /// The layers it stands on, bottom first.
    pub stack: Vec<LayerId>,
}

impl Document {
    #[must_use]
    pub fn of(snapshot: &Snapshot, sandbox: &Sandbox) -> Self {
        let details = snapshot.details.clone();
        Self {
            id: snapshot.id.clone(),
            sandbox: sandbox.name.clone(),
            label: snapshot.label.clone(),
            created_at: rfc3339(snapshot.created_at),
            made_by: details.made_by,
            message: details.message,
            durable: details.durable,
            stack: details.stack,
        }
    }
}

/// A snapshot in the tree.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    #[serde(flatten)]
    pub document: Document,
    /// The label of the one it came from.
    pub parent_label: Option<String>,
    /// How many come before it on the way from the root.
    pub depth: usize,
    /// The sandbox stands here, whatever it changed since.
    pub is_current: bool,
    /// What the layer on top of it holds: what was changed since the one before.
    pub bytes: u64,
    pub files: u64,
    #[serde(skip)]
    pub created_ms: u64,
}

/// A snapshot of another sandbox, at which one stands.
#[derive(Clone, Debug)]
pub struct Elsewhere {
    pub sandbox: String,
    pub label: String,
    /// The other sandbox is the one it was made from, and not further up its line.
    pub is_origin: bool,
}

impl Elsewhere {
    /// As `NAME@LABEL`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}@{}", self.sandbox, self.label)
    }
}

impl History {
    /// A sandbox, and how many snapshots of its own it has.
    pub fn with_snapshots(&self, which: &Selector) -> Result<(Sandbox, usize), EngineError> {
        let sandbox = self.ground.resolve(which)?;
        let snapshots = self.ground.store.list_snapshots(&sandbox.id)?.len();
        Ok((sandbox, snapshots))
    }

    /// Where a fork stands that has taken no snapshot yet, or went back to before its own.
    pub fn stands_at_another(&self, sandbox: &Sandbox) -> Result<Option<Elsewhere>, EngineError> {
        let position = &sandbox.details.position;
        let Some(at) = &position.at else { return Ok(None) };
        let Some(snapshot) = self.ground.store.get_snapshot(at)?.filter(|s| s.sandbox != sandbox.id) else { return Ok(None) };
        let Some(other) = self.ground.store.get(&snapshot.sandbox)? else { return Ok(None) };
        let origin = position.made_from.as_deref().and_then(|from| from.split_once('@'));
        let is_origin = origin.is_some_and(|(name, _)| name == other.name);
        Ok(Some(Elsewhere { sandbox: other.name, label: snapshot.label, is_origin }))
    }

    /// Each after the one it came from, oldest first among equals.
    pub fn snapshots(&self, which: &Selector) -> Result<(Sandbox, Vec<Listed>), EngineError> {
        let sandbox = self.ground.resolve(which)?;
        let all = self.ground.store.list_snapshots(&sandbox.id)?;
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
                Some(layer) => self.ground.layer_size(layer)?,
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
                created_ms: snapshot.created_at,
                document: Document::of(&snapshot, &sandbox),
            });
        }
        Ok((sandbox, listed))
    }
}
