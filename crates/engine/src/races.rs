//! `whatif race`: several attempts that begin with the same, side by side, judged by the same checks.
//!
//! `new` records what is raced and `run` runs it: `setup` prepares what all begin over, `schedule` says who runs when,
//! `attempt` runs one, `measure` says what it changed, `trial` judges it in a fork of its own, and `judge` asks about those
//! that are level. `merge` puts parts of several together; `records` finds, forgets and cleans up. The rules by which
//! attempts are ranked, and everything that is read from what they print, are in the crate `race`.

mod attempt;
mod beside;
pub mod changed_files;
mod command;
mod document;
mod error;
mod judge;
mod measure;
mod merge;
mod moves;
mod new;
mod output;
mod records;
mod room;
mod run;
mod schedule;
mod seal;
mod setup;
mod shown;
mod stop;
mod trial;

use std::sync::Arc;

pub use whatif_race::plan::PlanError;
pub use whatif_race::{attempts, file, metric};
pub use whatif_types::experiment::{Event, Experiment, ExperimentPlan, Ranking};

pub use self::error::{Clash, RaceError};
pub use self::merge::{Merged, Part};
pub use self::new::{NewRace, RaceName};
pub use self::records::{Claimed, Settled, Standing};
pub use self::run::{Flow, Raced};
pub use self::shown::{PlacedAttempt, Shown};
use crate::changes::Changes;
use crate::ground::Ground;
use crate::history::History;
use crate::lifecycle::Lifecycle;
use crate::network::Network;

#[derive(Debug)]
pub struct Races {
    pub(crate) ground: Arc<Ground>,
    pub(crate) network: Arc<Network>,
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) history: Arc<History>,
    pub(crate) changes: Arc<Changes>,
}
