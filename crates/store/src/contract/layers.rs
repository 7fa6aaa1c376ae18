//! What is known about layers.

use std::collections::HashSet;

use whatif_types::{LayerFacts, LayerId};

use crate::StoreError;

pub trait LayerRecords {
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

/// What the records say about layers. One that they never knew belongs to records that were lost: whether it is needed cannot be
/// told from these.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    /// Those that some record names.
    pub needed: HashSet<LayerId>,
    /// Those that some record names or has named.
    pub known: HashSet<LayerId>,
}
