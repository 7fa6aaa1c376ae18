//! How long a sandbox lives, as seen from outside: the keeper sees to it by itself.

use std::path::Path;

use whatif_keeper::protocol::Farewell;
use whatif_layers::state_dir::FAREWELL;
use whatif_types::limits::{Clock, Expiry};
use whatif_types::sandbox::StopReason;
use whatif_types::{Limits, Sandbox};

use crate::ground::Ground;
use crate::{EngineError, now};

impl Ground {
    /// When a sandbox that is made now will end.
    pub(crate) fn expiry(&self, limits: &Limits) -> Result<Option<Expiry>, EngineError> {
        limits.ttl.map(|ttl| Ok(Expiry::after(ttl, &clock()?))).transpose()
    }

    /// How long until a sandbox's time is up.
    pub(crate) fn remaining_ms(&self, sandbox: &Sandbox) -> Result<Option<u64>, EngineError> {
        sandbox.details.expiry.as_ref().map(|e| Ok(e.remaining_ms(&clock()?))).transpose()
    }
}

/// Whether a sandbox's time is up.
pub(crate) fn is_expired(sandbox: &Sandbox) -> Result<bool, EngineError> {
    match &sandbox.details.expiry {
        Some(expiry) => Ok(expiry.is_past(&clock()?)),
        None => Ok(false),
    }
}

/// Why a keeper that is gone has ended.
pub(crate) fn last_words(directory: &Path) -> StopReason {
    let text = std::fs::read(directory.join(FAREWELL)).unwrap_or_default();
    match serde_json::from_slice(&text) {
        Ok(Farewell::Expired) => StopReason::Expired,
        Ok(Farewell::Idle) => StopReason::Idle,
        Err(_) => StopReason::Lost,
    }
}

pub(crate) fn clock() -> Result<Clock, EngineError> {
    const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
    let boot_id = std::fs::read_to_string(BOOT_ID).map_err(|e| EngineError::io("read", Path::new(BOOT_ID), e))?;
    Ok(Clock { boot_id: boot_id.trim().to_owned(), since_boot_ms: whatif_keeper::since_boot_ms(), wall_ms: now() })
}
