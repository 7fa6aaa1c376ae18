//! The providers there are, and what they can do here.

use std::path::Path;

use whatif_provider::{Capabilities, Provider};
use whatif_sys::absence;

use super::Probe;

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
    let found = provider.probe(uid);
    let standing = if found.is_available() { found.version } else { format!("{}, not usable", found.version) };
    let Capabilities { restack, pause, checkpoint } = provider.capabilities();
    let able = [(restack, "live snapshots"), (pause, "holding still"), (checkpoint, "checkpoints of processes")];
    let list = |wanted: bool| able.iter().filter(|(can, _)| *can == wanted).map(|(_, what)| *what).collect::<Vec<_>>().join(", ");
    let without = Some(list(false)).filter(|lacking| !lacking.is_empty()).map(|lacking| format!("; without {lacking}"));
    format!("{} ({standing}): {}{}", provider.name(), list(true), without.unwrap_or_default())
}

/// Only for a remark, so what cannot be looked at is left out.
fn has_program(directory: &str, program: &str) -> bool {
    absence::leads_somewhere(&Path::new(directory).join(program)).unwrap_or(false)
}
