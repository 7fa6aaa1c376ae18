//! The network of a sandbox, seen from outside: what was asked for, who supervises it, what was decided.

pub mod changes;
mod control;
pub mod decisions;
mod error;
mod misuse;
pub mod permits;
mod ports;
mod rules;
pub mod secrets;
mod supervise;
pub mod supervisor;
mod wish;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use whatif_supervisor::control::Answering;
pub use whatif_supervisor::control::protocol::{Ask, Asked};

pub use self::decisions::{Decision, Decisions, Denied, Troubles};
pub use self::error::NetworkError;
pub use self::misuse::NetworkMisuse;
pub(crate) use self::ports::Published;
pub(crate) use self::supervise::{end as end_supervisor, forget as forget_supervisor};
pub(crate) use self::wish::{Wanted, usual};
use crate::ground::Ground;

/// What belongs to the network, in a sandbox's directory.
fn directory(sandbox: &Path) -> PathBuf {
    sandbox.join("network")
}

/// What the supervisor goes by.
const RULES: &str = "network.json";
/// What it decided.
const LOG: &str = "network.jsonl";
/// Where it can be talked to.
const CONTROL: &str = "control.sock";
/// Its process.
const PID: &str = "supervisor.pid";
/// How long it may take to write down how connections ended.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct Network {
    pub(crate) ground: Arc<Ground>,
}
