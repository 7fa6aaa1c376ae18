//! Who needs which layer.
//!
//! Nothing is counted up or down: whatever a record names is needed, and nothing else is.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use whatif_types::{LayerId, Sandbox, Snapshot, Status, Template};

use crate::EngineError;
use crate::ground::Ground;
use crate::owner::Owner;

/// Everything recorded that names layers.
#[derive(Debug, Default)]
pub(crate) struct Lineage {
    pub sandboxes: Vec<(Sandbox, Vec<Snapshot>)>,
    pub templates: Vec<Template>,
    needed_by: HashMap<LayerId, Vec<Owner>>,
}

impl Lineage {
    fn add(&mut self, owner: &Owner, layers: &[LayerId]) {
        for layer in layers {
            let owners = self.needed_by.entry(layer.clone()).or_default();
            if !owners.contains(owner) {
                owners.push(owner.clone());
            }
        }
    }

    pub(crate) fn owners(&self, layer: &LayerId) -> &[Owner] {
        self.needed_by.get(layer).map_or(&[], Vec::as_slice)
    }

    /// The layers that would go if this one alone were removed. A sandbox takes its snapshots along.
    pub(crate) fn only_needed_by<'a>(&'a self, owner: &'a Owner) -> impl Iterator<Item = &'a LayerId> + 'a {
        let is_own = move |other: &Owner| match (owner, other) {
            (Owner::Sandbox(name), Owner::Snapshot(snapshot)) => snapshot.split_once('@').is_some_and(|(n, _)| n == name),
            _ => owner == other,
        };
        self.needed_by.iter().filter(move |(_, owners)| owners.iter().all(&is_own)).map(|(layer, _)| layer)
    }
}

impl Ground {
    pub(crate) fn lineage(&self) -> Result<Lineage, EngineError> {
        let mut lineage = Lineage::default();
        for sandbox in self.store.list()? {
            let owner = Owner::Sandbox(sandbox.name.clone());
            lineage.add(&owner, &sandbox.details.position.stack);
            if sandbox.status == Status::Active {
                lineage.add(&owner, &sandbox.details.position.mounted);
            }
            let snapshots = self.store.list_snapshots(&sandbox.id)?;
            for snapshot in &snapshots {
                lineage.add(&Owner::Snapshot(format!("{}@{}", sandbox.name, snapshot.label)), &snapshot.details.stack);
            }
            lineage.sandboxes.push((sandbox, snapshots));
        }
        for template in self.store.list_templates()? {
            lineage.add(&Owner::Template(template.name.clone()), &template.details.position.stack);
            lineage.templates.push(template);
        }
        Ok(lineage)
    }

    /// The layers with their sizes and who needs them.
    pub(crate) fn layers_in_use(&self, lineage: &Lineage) -> Result<Vec<LayerUse>, EngineError> {
        let mut uses = Vec::new();
        for layer in self.state.list_layers()? {
            let (files, bytes) = self.layer_size(&layer)?;
            uses.push(LayerUse { needed_by: lineage.owners(&layer).to_vec(), layer, files, bytes });
        }
        uses.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.layer.cmp(&b.layer)));
        Ok(uses)
    }
}

/// A layer and why it is kept.
#[derive(Clone, Debug, Serialize)]
pub struct LayerUse {
    pub layer: LayerId,
    pub files: u64,
    pub bytes: u64,
    pub needed_by: Vec<Owner>,
}

/// Bytes by layer.
pub(crate) fn sizes(uses: &[LayerUse]) -> BTreeMap<&LayerId, u64> {
    uses.iter().map(|u| (&u.layer, u.bytes)).collect()
}
