//! Tests everything a sandbox needs, by doing it, and says how to fix what is missing.

pub mod fix;
mod providers;
mod sandboxes;
mod storage;
mod trial;

use std::sync::Arc;

pub use self::providers::{ProviderStanding, standings};
use crate::ground::chores::Chores;
use crate::{Caller, Engine, StatePlace};

/// One thing that was tested.
pub use whatif_provider::Finding as Probe;
pub use whatif_provider::Verdict;

/// All probes. The engine is opened here, because a state directory that cannot be used is one of the things to report.
#[must_use]
pub fn examine(place: &StatePlace, caller: Caller, chores: Arc<dyn Chores>) -> Vec<Probe> {
    let state_dir = &place.path;
    let uid = caller.uid;
    let provider = whatif_provider::usual();
    let found = provider.probe(uid);
    let is_available = found.is_available();
    let mut probes = found.findings;
    probes.extend(provider.try_limits(caller.identity()));
    probes.push(provider.try_pause());
    probes.extend(storage::probes(place));
    match Engine::open(state_dir, caller, chores).and_then(|engine| engine.upkeep.recover().map(drop).map(|()| engine)) {
        Ok(engine) => {
            // What fails of that cause would only hide it.
            if is_available {
                let (tried, way) = trial::probes(&engine);
                probes.extend(tried);
                probes.extend(trial::network(&engine, way));
            }
            probes.extend(sandboxes::probes(&engine));
        }
        Err(error) => probes.push(Probe::fail(
            "state directory",
            whatif_types::explain::whole_message(&error),
            "set WHATIF_HOME to a directory you can write, on ext4, xfs, btrfs or tmpfs",
        )),
    }
    probes.push(providers::probe(uid));
    probes
}
