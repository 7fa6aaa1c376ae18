//! The native provider: Linux namespaces, capabilities, seccomp and Landlock. No root, container engine or daemon needed.
//!
//! A keeper is a process, the first of its PID namespace: when it ends, the kernel ends everything inside.

mod command_lines;
mod freezer;
mod groups;
mod guarding;
mod holding;
mod ids;
mod instance;
mod launch;
mod limit_findings;
mod limiting;
mod obstacle;
mod orphans;
mod powers;
mod probe;
mod program;
mod restacker;

use std::io;
use std::path::Path;

use whatif_cgroup::Found;
use whatif_types::boot::COMMON_IDS;
use whatif_types::{Identity, Limits, SandboxId};

pub use self::obstacle::{Obstacle, is_container};

use self::instance::Keeper;
use crate::{
    BindError, Binding, Bound, Capabilities, Enforcement, Finding, Instance, Launch, LaunchError, Launching, Orphan, Probe,
    Provider, Recorded, Remains, Restacker, Whereabouts,
};

const NAME: &str = "native";
/// What a sandbox of root is, before it has ids of its own.
const MAPPED: Identity = Identity::Mapped { base: COMMON_IDS, count: COUNT };
const COUNT: u32 = 0x0F00_0000;

#[derive(Debug)]
pub(crate) struct Native;

impl Provider for Native {
    fn name(&self) -> &'static str {
        NAME
    }

    fn probe(&self, uid: u32) -> Probe {
        probe::probe(uid == 0 && powers::are_roots())
    }

    fn try_pause(&self) -> Finding {
        holding::finding()
    }

    fn try_limits(&self, identity: Identity) -> Vec<Finding> {
        limit_findings::all(identity)
    }

    /// The kernel has nothing to save a running process with that could be relied on.
    fn capabilities(&self) -> Capabilities {
        Capabilities { restack: true, pause: true, checkpoint: false }
    }

    fn identity_of(&self, uid: u32, gid: u32) -> Identity {
        if uid == 0 && powers::are_roots() { MAPPED } else { Identity::Own { uid, gid } }
    }

    fn supervisor_uid(&self, identity: Identity, reserved_ids: Option<u32>) -> u32 {
        ids::of_supervisor(reserved_ids.unwrap_or_else(|| identity.outer_uid()))
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<Box<dyn Launching>, LaunchError> {
        Ok(Box::new(launch::launch(launch)?))
    }

    fn find(&self, at: &Whereabouts<'_>) -> Box<dyn Instance> {
        Box::new(Keeper::at(at))
    }

    fn restacker(&self, programs: &Path) -> io::Result<Restacker> {
        restacker::start(programs)
    }

    fn orphans<'a>(&self, state: &'a Path) -> Box<dyn Iterator<Item = Orphan> + 'a> {
        Box::new(orphans::all(state))
    }

    fn enforcement(&self, limits: &Limits, identity: Identity) -> Enforcement {
        limiting::enforcement(limits, identity)
    }

    fn bind(&self, binding: &Binding<'_>) -> Result<Bound, BindError> {
        limiting::bind(binding)
    }

    fn remains(&self, state: &Path) -> Result<Vec<Remains>, BindError> {
        limiting::remains(state)
    }

    fn remove(&self, remains: &Remains) -> bool {
        whatif_cgroup::remove(&Found::look(), &remains.name).is_ok()
    }

    fn tidy(&self) {
        whatif_cgroup::tidy(&Found::look());
    }

    fn clear(&self, id: &SandboxId, directory: Option<&Path>, recorded: &Recorded<'_>) {
        freezer::clear(id, directory, recorded);
    }
}
