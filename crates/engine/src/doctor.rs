//! Tests everything a sandbox needs, by doing it, and says how to fix what is missing.

mod holding;
mod kernel;
mod limits;
mod sandboxes;
mod storage;
mod trial;

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::ground::chores::Chores;
use crate::{Caller, Engine};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    /// Works, but something is missing or weaker than it could be.
    Warn,
    Fail,
}

/// One thing that was tested.
#[derive(Clone, Debug, Serialize)]
pub struct Probe {
    pub name: &'static str,
    pub verdict: Verdict,
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Probe {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Ok, detail: detail.into(), fix: None }
    }

    fn warn(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Warn, detail: detail.into(), fix: Some(fix.into()) }
    }

    fn fail(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Fail, detail: detail.into(), fix: Some(fix.into()) }
    }
}

/// All probes. The engine is opened here, because a state directory that cannot be used is one of the things to report.
#[must_use]
pub fn examine(state_dir: &Path, caller: Caller, chores: Arc<dyn Chores>) -> Vec<Probe> {
    let is_root = caller.is_root();
    let mut probes = vec![kernel::version(), kernel::user_namespaces(is_root), kernel::seccomp(), kernel::landlock()];
    probes.extend(limits::probes());
    probes.push(holding::probe());
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
    probes.extend(kernel::providers());
    probes
}
