//! The providers there are, and what they can do here.

use std::path::Path;

use serde::Serialize;
use whatif_provider::{Capabilities, Provider};
use whatif_sys::absence;

use super::Probe;

/// What one of them can do on this machine.
#[derive(Clone, Debug, Serialize)]
pub struct ProviderStanding {
    pub name: &'static str,
    /// Of what it is made with.
    pub version: String,
    /// Whether nothing is in the way as far as one can see. Only a sandbox that stands is a proof.
    pub is_usable: bool,
    /// Snapshots can be taken while something runs.
    pub live_snapshots: bool,
    /// Everything in a sandbox can be held still.
    pub pause: bool,
    /// Processes can be saved as they are, and go on in another sandbox.
    pub checkpoint: bool,
    /// What was tested, as `doctor` says it.
    pub probes: Vec<Probe>,
}

/// All providers, the usual one first.
#[must_use]
pub fn standings(uid: u32) -> Vec<ProviderStanding> {
    whatif_provider::ALL.iter().map(|provider| standing(*provider, uid)).collect()
}

fn standing(provider: &dyn Provider, uid: u32) -> ProviderStanding {
    let found = provider.probe(uid);
    let Capabilities { restack, pause, checkpoint } = provider.capabilities();
    ProviderStanding {
        name: provider.name(),
        is_usable: found.is_available(),
        version: found.version,
        live_snapshots: restack,
        pause,
        checkpoint,
        probes: found.findings,
    }
}

/// One line for all of them, and what other programs of this machine could become one.
pub(super) fn probe(uid: u32) -> Probe {
    let known: Vec<String> = whatif_provider::ALL.iter().map(|provider| describe(*provider, uid)).collect();
    let found: Vec<&str> = [("docker", "docker"), ("gvisor", "runsc"), ("microvm", "qemu-system-x86_64")]
        .into_iter()
        .filter(|(_, program)| ["/usr/bin", "/usr/local/bin", "/usr/sbin"].iter().any(|d| has_program(d, program)))
        .map(|(name, _)| name)
        .collect();
    let others = if found.is_empty() {
        String::new()
    } else {
        format!("; also on this machine, not used by this version: {}", found.join(", "))
    };
    Probe::ok("providers", format!("{}{others}", known.join("; ")))
}

fn describe(provider: &dyn Provider, uid: u32) -> String {
    let found = standing(provider, uid);
    let version = if found.is_usable { found.version } else { format!("{}, not usable", found.version) };
    let ProviderStanding { live_snapshots, pause, checkpoint, .. } = found;
    let able = [(live_snapshots, "live snapshots"), (pause, "holding still"), (checkpoint, "checkpoints of processes")];
    let list = |wanted: bool| able.iter().filter(|(can, _)| *can == wanted).map(|(_, what)| *what).collect::<Vec<_>>().join(", ");
    let without = Some(list(false)).filter(|lacking| !lacking.is_empty()).map(|lacking| format!("; without {lacking}"));
    format!("{} ({version}): {}{}", provider.name(), list(true), without.unwrap_or_default())
}

/// Only for a remark, so what cannot be looked at is left out.
fn has_program(directory: &str, program: &str) -> bool {
    absence::leads_somewhere(&Path::new(directory).join(program)).unwrap_or(false)
}
