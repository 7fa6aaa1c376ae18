//! Ids, drawn at random.

use std::path::Path;

use whatif_types::{LayerId, SandboxId};

use crate::EngineError;

pub(crate) fn new_id() -> Result<SandboxId, EngineError> {
    let mut bytes = [0; 12];
    fill_random(&mut bytes)?;
    Ok(SandboxId::from_random(bytes))
}

pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), EngineError> {
    rustix::rand::getrandom(bytes, rustix::rand::GetRandomFlags::empty())
        .map(|_| ())
        .map_err(|e| EngineError::io("read randomness from", Path::new("the kernel"), e.into()))
}

pub(crate) fn new_layer_id() -> Result<LayerId, EngineError> {
    // Drawn as those of sandboxes are.
    LayerId::parse(new_id()?.as_str())
        .ok_or_else(|| EngineError::io("name", Path::new("a layer"), std::io::ErrorKind::InvalidData.into()))
}
