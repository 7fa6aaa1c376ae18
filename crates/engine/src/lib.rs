//! Use cases, one file a verb. Knows no terminal and no network API; clients are the CLI and, later, the daemon.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod account;
mod adopt;
pub mod apply;
pub mod attach;
mod boot;
mod captured;
mod changes;
pub mod checks;
mod choice;
pub mod chores;
mod command_lines;
pub mod commit;
pub mod config_file;
pub mod context;
pub mod copy;
mod create;
pub mod diff;
mod do_chore;
pub mod doctor;
mod ended;
pub mod error;
mod exec;
pub mod export;
pub mod fork;
mod freezer;
pub mod gate;
mod gc;
mod git;
mod git_directory;
mod git_identity;
pub mod history;
mod ids;
pub mod import;
pub mod inside;
pub mod intact;
mod keepers;
mod label;
mod ledger;
mod lifetime;
pub mod limits;
pub mod lineage;
mod list;
pub mod logs;
mod marks;
mod merge;
pub mod missing;
mod mounts;
pub mod network;
pub mod owner;
mod package_settings;
mod plant;
pub mod pool;
mod pool_claim;
mod private_file;
pub mod race;
mod reach;
pub mod rebase;
mod recover;
mod recut;
mod reject;
mod remove;
mod removed;
mod resolve;
pub mod review;
pub mod rollback;
mod roots;
mod run;
mod secrets;
pub mod shift;
mod show;
pub mod snapshot;
pub mod snapshots;
pub mod stack;
mod start;
mod stats;
pub mod status;
mod still;
mod stop;
mod stray_heads;
pub mod template;
mod trees;
mod trial;
mod trouble;
mod turn;
pub mod undo;
mod unfinished;
pub mod usage;
mod user_names;
mod view;
mod viewed;
mod written_down;

use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use whatif_layers::StateDir;
use whatif_store::Store;
use whatif_store::sqlite::SqliteStore;

use self::chores::Chores;
use self::ledger::Ledger;

pub use self::adopt::{Adopted, Left};
pub use self::context::Context;
pub use self::create::NewSandbox;
pub use self::error::EngineError;
pub use self::exec::{CommandSpec, Detached, Entered, Foreground, Running};
pub use self::gc::{Action, Collect, Collected};
pub use self::list::Listed;
pub use self::run::{Finished, Keep, Run};
pub use self::show::Shown;
pub use self::stats::Used;
pub use self::stop::DEFAULT_GRACE;
pub use self::trouble::Trouble;
pub use whatif_diff::granted;
pub use whatif_diff::text::Content;
pub use whatif_diff::{
    Base, Blocked, Change, ChangeKind, ChangeSet, Collapsed, Depth, Flag, Kind, Moved, Node, State, Summary, Unreadable, shown_path,
};
pub use whatif_keeper::client::News;
pub use whatif_keeper::protocol::{Exited, Process, Stdio};
pub use whatif_store::StoreError;
pub use whatif_types::Sandbox;

/// Everything a command needs: where things are, who asks, and what is recorded. Many threads may share one.
#[derive(Debug)]
pub struct Engine {
    pub context: Context,
    state: StateDir,
    store: Box<dyn Store>,
    chores: Arc<dyn Chores>,
    /// What recovery found.
    troubles: OnceLock<Vec<Trouble>>,
}

impl Engine {
    /// Opens the state directory. What a crash left there is repaired by `recover`, which is for whoever opens it first.
    pub fn open(context: Context, chores: Arc<dyn Chores>) -> Result<Self, EngineError> {
        // A state directory made inside a sandbox would be one more change to review, and of no use: nothing can be started in it.
        if let Some(nested) = context.nesting().filter(|_| !matches!(StateDir::is_made(&context.state_dir), Ok(true))) {
            return Err(nested);
        }
        let state = StateDir::open(&context.state_dir)?;
        let store = Box::new(SqliteStore::at(state.database()).watched_by(Box::new(Ledger::of(&state))));
        Ok(Self { context, state, store, chores, troubles: OnceLock::new() })
    }

    /// Another one of the same state, for a thread that outlives whoever has this one.
    pub fn another(&self) -> Result<Self, EngineError> {
        Self::open(self.context.clone(), Arc::clone(&self.chores))
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
