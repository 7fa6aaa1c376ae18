//! Use cases, one file a verb. Knows no terminal and no network API; clients are the CLI and, later, the daemon.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod account;
mod adopt;
pub mod apply;
mod boot;
mod captured;
mod changes;
pub mod checks;
mod choice;
mod command_lines;
pub mod commit;
pub mod config_file;
pub mod context;
pub mod copy;
mod create;
pub mod diff;
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
pub mod import;
pub mod inside;
pub mod intact;
mod label;
mod ledger;
mod lifetime;
pub mod limits;
pub mod lineage;
mod list;
pub mod logs;
mod merge;
pub mod network;
mod package_settings;
mod plant;
pub mod pool;
mod private_file;
pub mod race;
pub mod rebase;
mod recover;
mod recut;
mod reject;
mod remove;
mod removed;
mod resolve;
pub mod review;
pub mod rollback;
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
mod trial;
mod turn;
pub mod undo;
pub mod usage;
mod user_names;
mod view;

use std::time::{SystemTime, UNIX_EPOCH};

use whatif_layers::StateDir;
use whatif_store::Store;
use whatif_store::sqlite::SqliteStore;

use self::ledger::Ledger;
use self::removed::Subject;

pub use self::adopt::{Adopted, Left};
pub use self::context::Context;
pub use self::create::NewSandbox;
pub use self::error::EngineError;
pub use self::exec::{CommandSpec, Entered, Foreground, Running};
pub use self::gc::{Action, Collect, Collected};
pub use self::list::Listed;
pub use self::recover::Trouble;
pub use self::run::{Finished, Keep, Run};
pub use self::show::Shown;
pub use self::stats::Used;
pub use self::stop::DEFAULT_GRACE;
pub use whatif_diff::granted;
pub use whatif_diff::text::Content;
pub use whatif_diff::{
    Base, Blocked, Change, ChangeKind, ChangeSet, Collapsed, Depth, Flag, Kind, Moved, Node, State, Summary, Unreadable, shown_path,
};
pub use whatif_keeper::client::News;
pub use whatif_keeper::protocol::{Exited, Process, Stdio};
pub use whatif_store::StoreError;
pub use whatif_types::Sandbox;

/// Everything a command needs: where things are, who asks, and what is recorded.
#[derive(Debug)]
pub struct Engine {
    pub context: Context,
    state: StateDir,
    store: Box<dyn Store>,
    /// What recovery has to tell.
    pub troubles: Vec<Trouble>,
    subject: Subject,
}

impl Engine {
    /// Opens the state directory and repairs what a crash left there.
    pub fn open(context: Context) -> Result<Self, EngineError> {
        // A state directory made inside a sandbox would be one more change to review, and of no use: nothing can be started in it.
        if let Some(nested) = context.nesting().filter(|_| !matches!(StateDir::is_made(&context.state_dir), Ok(true))) {
            return Err(nested);
        }
        let state = StateDir::open(&context.state_dir)?;
        let store = Box::new(SqliteStore::at(state.database()).watched_by(Box::new(Ledger::of(&state))));
        let mut engine = Self { context, state, store, troubles: Vec::new(), subject: Subject::default() };
        engine.troubles = engine.recover()?;
        Ok(engine)
    }

    /// Whether somebody should call `tidy` in the background.
    #[must_use]
    pub fn wants_tidying(&self) -> bool {
        self.store.wants_tidying()
    }

    /// Does what can wait.
    pub fn tidy(&self) -> Result<(), EngineError> {
        Ok(self.store.tidy()?)
    }
}

/// Milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}
