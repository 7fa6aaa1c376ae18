//! The commands of a sandbox that were started in the background, for clients that list them.

use whatif_keeper::protocol::Exited;
use whatif_types::timestamp::rfc3339;
use whatif_types::{Chosen, CommandId, Sandbox, Selector, Status};

use crate::EngineError;
use crate::lifecycle::{Lifecycle, LifecycleError};

/// One of them, as far as it is known.
#[derive(Clone, Debug)]
pub struct Background {
    pub id: CommandId,
    pub pid: i32,
    pub command: String,
    pub started_at: String,
    /// Its standard input is open, or it has a terminal.
    pub takes_input: bool,
    pub is_terminal: bool,
    pub state: State,
}

#[derive(Clone, Debug)]
pub enum State {
    Running,
    Ended(Box<Exited>),
    /// Its keeper was lost, and did not get to say how it ended.
    Lost,
}

impl Lifecycle {
    /// Those of which something is kept, in the order in which they started.
    pub fn background(&self, which: &Selector) -> Result<Vec<Background>, EngineError> {
        let sandbox = self.ground.resolve(which)?;
        self.backgrounds(&sandbox, None)
    }

    pub fn background_command(&self, which: &Selector, id: CommandId) -> Result<Background, EngineError> {
        let sandbox = self.ground.resolve(which)?;
        let found = self.backgrounds(&sandbox, Some(id))?.pop();
        found.ok_or_else(|| LifecycleError::NoLog { sandbox: sandbox.name, chosen: Some(Chosen::Id(id)) }.into())
    }

    fn backgrounds(&self, sandbox: &Sandbox, only: Option<CommandId>) -> Result<Vec<Background>, EngineError> {
        let found =
            self.commands(sandbox)?.into_iter().filter(|found| found.id.is_some() && only.is_none_or(|id| found.id == Some(id)));
        let found: Vec<_> = found.collect();
        // The keeper is asked first: what ends after that is recorded when the records are read.
        let is_asked = sandbox.status == Status::Active && !found.is_empty();
        let alive = if is_asked { self.ground.ask(sandbox, |mut client| client.list())?.unwrap_or_default() } else { Vec::new() };
        let mut all = Vec::with_capacity(found.len());
        for found in found {
            let (Some(id), Some(record)) = (found.id, self.record_of(sandbox, &found)?) else { continue };
            let state = match record.finished {
                Some(finished) => State::Ended(Box::new(finished.exited)),
                None if alive.iter().any(|process| process.id == Some(id)) => State::Running,
                None => State::Lost,
            };
            let takes_input = record.started.has_input && matches!(state, State::Running);
            all.push(Background {
                id,
                pid: record.started.pid,
                command: record.started.command,
                started_at: rfc3339(found.started_ms()),
                takes_input,
                is_terminal: record.started.is_terminal,
                state,
            });
        }
        Ok(all)
    }
}
