//! Use cases, one file a verb, in parts that stand on one another. Knows no terminal and no network API; clients are the CLI and, later,
//! the daemon.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod account;
mod at_once;
pub mod caller;
pub mod changes;
mod choice;
pub mod config_file;
pub mod devices;
pub mod doctor;
pub mod error;
mod git;
mod git_directory;
mod git_identity;
pub mod ground;
pub mod history;
mod ids;
pub mod lifecycle;
mod merge;
pub mod missing;
mod mounts;
pub mod network;
pub mod owner;
mod package_settings;
mod private_file;
pub mod races;
pub mod role;
mod roots;
mod secrets;
pub mod state_place;
mod trees;
mod trouble;
pub mod upkeep;

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub use whatif_diff::text::Content;
pub use whatif_diff::{
    Base, Blocked, Change, ChangeKind, ChangeSet, Collapsed, Counts, Depth, Flag, Kind, Moved, Node, Package, PackageGroup,
    Packages, State, Summary, Unreadable, granted, shown_path,
};
pub use whatif_keeper::client::News;
pub use whatif_keeper::protocol::{Exited, Process, Stdio};
pub use whatif_store::StoreError;
pub use whatif_types::Sandbox;

pub use self::caller::Caller;
use self::changes::Changes;
pub use self::error::EngineError;
pub use self::git::GitError;
use self::ground::Ground;
use self::ground::chores::Chores;
use self::history::History;
use self::lifecycle::Lifecycle;
pub use self::lifecycle::create::{Made, NewSandbox};
pub use self::lifecycle::exec::{CommandSpec, Detached, Entered, Kept, Running};
pub use self::lifecycle::list::Listed;
pub use self::lifecycle::run::{Finished, Keep, Run};
pub use self::lifecycle::show::Shown;
pub use self::lifecycle::stats::Used;
pub use self::lifecycle::stop::DEFAULT_GRACE;
use self::network::Network;
use self::races::Races;
pub use self::state_place::StatePlace;
pub use self::trouble::Trouble;
use self::upkeep::Upkeep;
pub use self::upkeep::adopt::{Adopted, Left};
pub use self::upkeep::gc::{Action, Collect, Collected, InPassing};

/// The facade: it builds the parts, each on those below it. Many threads may share one.
///
/// ```text
/// upkeep → races → changes → history → lifecycle → network → ground
/// ```
#[derive(Debug)]
pub struct Engine {
    pub ground: Arc<Ground>,
    pub network: Arc<Network>,
    pub lifecycle: Arc<Lifecycle>,
    pub history: Arc<History>,
    pub changes: Arc<Changes>,
    pub races: Arc<Races>,
    pub upkeep: Upkeep,
}

impl Engine {
    /// Opens the state directory. What a crash left there is repaired by `upkeep.recover`, which is for whoever opens it first.
    pub fn open(state_dir: &Path, caller: Caller, chores: Arc<dyn Chores>) -> Result<Self, EngineError> {
        Ok(Self::on(Arc::new(Ground::open(state_dir, caller, chores)?)))
    }

    /// The same engine for another call, of whoever makes that. Costs next to nothing: records and state directory are shared.
    #[must_use]
    pub fn asked_by(&self, caller: Caller) -> Self {
        Self::on(Arc::new(self.ground.asked_by(caller)))
    }

    /// Who asks.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.ground.caller
    }

    fn on(ground: Arc<Ground>) -> Self {
        let network = Arc::new(Network { ground: ground.clone() });
        let lifecycle = Arc::new(Lifecycle { ground: ground.clone(), network: network.clone() });
        let history = Arc::new(History { ground: ground.clone(), lifecycle: lifecycle.clone() });
        let changes = Arc::new(Changes { ground: ground.clone(), lifecycle: lifecycle.clone() });
        let races = Arc::new(Races {
            ground: ground.clone(),
            network: network.clone(),
            lifecycle: lifecycle.clone(),
            history: history.clone(),
            changes: changes.clone(),
        });
        let upkeep = Upkeep {
            ground: ground.clone(),
            network: network.clone(),
            lifecycle: lifecycle.clone(),
            changes: changes.clone(),
            races: races.clone(),
        };
        Self { ground, network, lifecycle, history, changes, races, upkeep }
    }
}

/// One serves many threads.
const _: fn() = || {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Engine>();
};

/// Milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}
