//! The sandboxes that are there, and whether their keepers are well.

use whatif_types::explain::whole_message;
use whatif_types::{Sandbox, Status};

use super::Probe;
use crate::Engine;
use crate::ground::intact::Incomplete;
use crate::missing::in_words;

pub(super) fn probes(engine: &Engine) -> Vec<Probe> {
    const NAME: &str = "sandboxes";
    let listed = match engine.ground.store.list() {
        Ok(listed) => listed,
        Err(error) => {
            return vec![Probe::fail(
                "records",
                error.to_string(),
                "whatif gc --adopt puts damaged records aside and rebuilds them from the sandboxes",
            )];
        }
    };
    let active: Vec<_> = listed.iter().filter(|s| s.status == Status::Active).collect();
    let mut probes = vec![Probe::ok(NAME, format!("{} kept, {} of them running", listed.len(), active.len()))];
    probes.extend(incomplete(engine, &listed));
    if let Ok(unrecorded) = engine.upkeep.unrecorded()
        && let Some(first) = unrecorded.first()
    {
        let detail = format!("{} of {} are not in the records", unrecorded.len(), first.parent().unwrap_or(first).display());
        probes.push(Probe::fail("records", detail, "whatif gc --adopt"));
    }
    if let Ok(unknown) = engine.ground.unknown_layers()
        && !unknown.is_empty()
    {
        let detail = format!("{} of {} are in no record", unknown.len(), engine.ground.layers_directory().display());
        probes.push(Probe::fail("layers", detail, "whatif gc --dry-run names them and what to do"));
    }
    for sandbox in active {
        if !engine.ground.is_alive(sandbox).unwrap_or(false) {
            probes.push(Probe::warn(NAME, format!("{} is recorded as running, but its keeper is gone", sandbox.name), "whatif gc"));
            continue;
        }
        // A keeper serves the version it was started with until it is stopped.
        if engine.ground.instance(sandbox).is_ok_and(|instance| instance.is_outdated(&engine.ground.state.cache())) {
            let fix = format!("whatif stop {0} && whatif start {0}", sandbox.name);
            probes.push(Probe::warn("old keeper", format!("{} still runs an earlier whatif", sandbox.name), fix));
        }
    }
    probes
}

/// Sandboxes, snapshots and templates of which something is missing on the disk.
fn incomplete(engine: &Engine, listed: &[Sandbox]) -> Vec<Probe> {
    const NAME: &str = "completeness";
    let found = match engine.ground.incomplete() {
        Ok(found) => found,
        Err(error) => return vec![Probe::fail(NAME, whole_message(&error), "see what keeps whatif from reading it")],
    };
    if found.is_empty() && !listed.is_empty() {
        return vec![Probe::ok(NAME, "nothing is missing of any of them")];
    }
    let fix =
        "if it was moved or deleted by mistake, put it back or restore it from a backup; 'whatif rm NAME' gives up what is left";
    let told = |one: &Incomplete| Probe::fail(NAME, format!("{}: {}", one.owner.described(), in_words(&one.missing)), fix);
    found.iter().map(told).collect()
}
