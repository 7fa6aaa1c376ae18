//! Ids, drawn at random.

use std::path::Path;

use whatif_sys::random;
use whatif_types::{LayerId, SandboxId};

use crate::EngineError;

pub(crate) fn new_id() -> Result<SandboxId, EngineError> {
    let mut bytes = [0; 12];
    fill_random(&mut bytes)?;
    Ok(SandboxId::from_random(bytes))
}

pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), EngineError> {
    random::fill(bytes).map_err(no_randomness)
}

/// For the name of something that must be new.
pub(crate) fn random_word() -> Result<String, EngineError> {
    random::word::<8>().map_err(no_randomness)
}

fn no_randomness(error: std::io::Error) -> EngineError {
    EngineError::io("read randomness from", Path::new("the kernel"), error)
}

pub(crate) fn new_layer_id() -> Result<LayerId, EngineError> {
    // Drawn as those of sandboxes are.
    LayerId::parse(new_id()?.as_str())
        .ok_or_else(|| EngineError::io("name", Path::new("a layer"), std::io::ErrorKind::InvalidData.into()))
}
