//! What is done about a state directory as a whole: recovery, collecting what nobody needs, adopting what no record knows, the pool.

pub(crate) mod adopt;
pub(crate) mod do_chore;
pub(crate) mod gc;
pub mod pool;
pub(crate) mod recover;

use std::sync::Arc;

use crate::changes::Changes;
use crate::ground::Ground;
use crate::lifecycle::Lifecycle;
use crate::network::Network;
use crate::races::Races;

#[derive(Debug)]
pub struct Upkeep {
    pub(crate) ground: Arc<Ground>,
    pub(crate) network: Arc<Network>,
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) changes: Arc<Changes>,
    pub(crate) races: Arc<Races>,
}
