//! An instance in which everything is held still.
//!
//! The keeper owns the hold. It lets everything go on when the connection that asked for it is closed, so a holder that is killed
//! leaves nothing paused.

use whatif_keeper::Client;
use whatif_keeper::client::ClientError;
use whatif_keeper::protocol::Process;

/// A pause that was begun. Processes still run.
#[derive(Debug)]
#[must_use]
pub struct Pausing {
    keeper: Client,
}

impl Pausing {
    pub(crate) fn over(keeper: Client) -> Self {
        Self { keeper }
    }

    /// Waits until everything stands still. From here on nothing is started either.
    pub fn complete(mut self) -> Result<Paused, ClientError> {
        let running = self.keeper.freeze()?;
        Ok(Paused { keeper: self.keeper, running })
    }
}

/// Until it is resumed or dropped.
#[derive(Debug)]
#[must_use]
pub struct Paused {
    keeper: Client,
    /// What is held.
    pub running: Vec<Process>,
}

impl Paused {
    /// The connection that holds it, for what is to be done meanwhile.
    pub fn keeper(&mut self) -> &mut Client {
        &mut self.keeper
    }

    /// Lets everything go on, and says whether that was possible.
    pub fn resume(mut self) -> Result<(), ClientError> {
        self.keeper.thaw()
    }
}
