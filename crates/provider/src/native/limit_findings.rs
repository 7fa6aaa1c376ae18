//! Which limits this machine can enforce for this user, tried out where that is possible.

use whatif_cgroup::{Found, Group, Version, Wanted};

use whatif_types::{Identity, Limits};

use super::guarding;
use crate::Finding;

pub(super) fn all(identity: Identity) -> Vec<Finding> {
    let found = Found::look();
    let kinds = [
        ("limit on memory", found.memory(), Wanted { memory: Some(64 << 20), ..Wanted::default() }, MEMORY),
        ("limit on processes", found.pids(), Wanted { pids: Some(64), ..Wanted::default() }, PIDS),
        ("limit on CPU time", found.cpu(), Wanted { cpus_milli: Some(1000), ..Wanted::default() }, CPUS),
    ];
    let mut findings: Vec<Finding> = kinds
        .into_iter()
        .map(|(name, offered, wanted, otherwise)| match offered {
            Ok(version) => tried(name, version, &found, &wanted, otherwise),
            Err(why) => without(name, &why.reason, why.fix.as_deref(), otherwise),
        })
        .collect();
    findings.push(by_default(&found, identity));
    findings
}

/// Those that nobody has to ask for.
fn by_default(found: &Found, identity: Identity) -> Finding {
    const NAME: &str = "default limits";
    match guarding::planned(found, &Limits::none(), identity, None) {
        Some((planned, _)) if planned.missing.is_empty() => Finding::ok(NAME, planned.to_string()),
        Some((planned, _)) => {
            let without = planned.missing.join("; ");
            Finding::warn(
                NAME,
                format!("{planned}; without {without}"),
                "run where control groups are delegated to you, or as root",
            )
        }
        None => Finding::warn(NAME, "the size of this machine cannot be read", "mount proc at /proc"),
    }
}

/// What happens without a control group, and whether that is as good.
struct Otherwise {
    by: &'static str,
    is_weak: bool,
}

const MEMORY: Otherwise = Otherwise { by: "the keeper adds up the processes and ends them when it is too much", is_weak: true };
const PIDS: Otherwise = Otherwise { by: "RLIMIT_NPROC, which counts per sandbox", is_weak: false };
const CPUS: Otherwise = Otherwise { by: "affinity, which a process inside can undo", is_weak: true };

fn tried(name: &'static str, version: Version, found: &Found, wanted: &Wanted, otherwise: Otherwise) -> Finding {
    let group = format!("whatif-doctor-{}", rustix::process::getpid().as_raw_nonzero());
    match Group::make(found, &group, wanted).and_then(|made| made.remove()) {
        Ok(()) if version == Version::V2 => Finding::ok(name, "cgroup v2"),
        Ok(()) => Finding::ok(name, "cgroup v1"),
        Err(error) => without(name, &error.to_string(), None, otherwise),
    }
}

fn without(name: &'static str, reason: &str, fix: Option<&str>, otherwise: Otherwise) -> Finding {
    let detail = format!("{}; no control group: {reason}", otherwise.by);
    if otherwise.is_weak {
        Finding::warn(name, detail, fix.unwrap_or("run where control groups are delegated to you, or as root"))
    } else {
        Finding::ok(name, detail)
    }
}
