//! Tests everything a sandbox needs, by doing it, and says how to fix what is missing.

mod providers;
mod sandboxes;
mod storage;
mod trial;

use std::path::Path;
use std::sync::Arc;

use crate::ground::chores::Chores;
use crate::{Caller, Engine};

/// One thing that was tested.
pub use whatif_provider::Finding as Probe;
pub use whatif_provider::Verdict;

/// All probes. The engine is opened here, because a state directory that cannot be used is one of the things to report.
#[must_use]
pub fn examine(state_dir: &Path, caller: Caller, chores: Arc<dyn Chores>) -> Vec<Probe> {
    let uid = caller.uid;
    let provider = whatif_provider::usual();
    let mut probes = provider.probe(uid).findings;
    probes.extend(provider.try_limits());
    probes.push(provider.try_pause());
    probes.extend(storage::probes(state_dir));
    match Engine::open(state_dir, caller, chores).and_then(|engine| engine.upkeep.recover().map(drop).map(|()| engine)) {
        Ok(engine) => {
            probes.extend(trial::probes(&engine));
            probes.push(trial::network(&engine));
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
