//! The sandboxes that are there, and whether their keepers are well.

use whatif_types::Status;

use super::Probe;
use crate::Engine;

pub(super) fn probes(engine: &Engine) -> Vec<Probe> {
    const NAME: &str = "sandboxes";
    let listed = match engine.store.list() {
        Ok(listed) => listed,
        Err(error) => {
            return vec![Probe::fail("records", error.to_string(), "move state.db away to begin anew; heads stay in sandboxes/")];
        }
    };
    let active: Vec<_> = listed.iter().filter(|s| s.status == Status::Active).collect();
    let mut probes = vec![Probe::ok(NAME, format!("{} kept, {} of them running", listed.len(), active.len()))];
    for sandbox in active {
        if !engine.is_alive(sandbox).unwrap_or(false) {
            probes.push(Probe::warn(NAME, format!("{} is recorded as running, but its keeper is gone", sandbox.name), "whatif gc"));
            continue;
        }
        // A keeper serves the version it was started with until it is stopped.
        let executable = sandbox.details.keeper_pid.and_then(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).ok());
        if executable.is_some_and(|path| path.to_string_lossy().ends_with(" (deleted)")) {
            let fix = format!("whatif stop {0} && whatif start {0}", sandbox.name);
            probes.push(Probe::warn("old keeper", format!("{} still runs an earlier whatif", sandbox.name), fix));
        }
    }
    probes
}
