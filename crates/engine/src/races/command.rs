//! A command that a race runs in a sandbox of its own, and how it ended.

use whatif_keeper::protocol::{Exited, Failed, Reason};
use whatif_store::StoreError;
use whatif_types::experiment::{AttemptPlan, Ended};
use whatif_types::text::Text;

use super::output::Tail;
use super::run::Racing;
use super::setup::Begin;
use crate::EngineError;
use crate::ground::GroundError;
use crate::lifecycle::captured::{Heard, Pipes};
use crate::lifecycle::create::NewSandbox;
use crate::lifecycle::exec::CommandSpec;
use crate::lifecycle::run::Run;
use crate::races::Races;

/// What is run, and how.
pub(super) struct Command {
    /// The name of the sandbox.
    pub sandbox: String,
    pub arguments: Vec<Text>,
    /// What people read instead, if that is a script of our own.
    pub called: Option<String>,
    pub input: Option<Text>,
    pub variables: Vec<String>,
    pub heard: Heard,
}

impl Races {
    /// Runs a command in a new sandbox of the race until it ends. `None` if it was stopped; then nothing is left of it.
    pub(super) fn run_in_race(
        &self,
        racing: &Racing,
        command: &Command,
        began: &mut dyn FnMut(&str),
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<(Run, Exited)>, EngineError> {
        let mut new = NewSandbox { name: Some(command.sandbox.clone()), ..racing.wish.clone() };
        if let Some(begin) = &racing.begin {
            new = begin.fitting(new);
        }
        let pipes = Pipes::new(command.input.as_ref().map(Text::as_bytes), command.heard)?;
        let spec = CommandSpec {
            arguments: command.arguments.iter().map(Text::to_os).collect(),
            env: command.variables.clone(),
            cwd: None,
            stdio: pipes.stdio(),
            terminal: None,
            timeout: None,
            called: command.called.clone(),
        };
        let start = racing.begin.as_ref().map(Begin::start);
        let mut run = match self.lifecycle.run_from(start.as_ref(), &new, &spec, &pipes.descriptors()) {
            // Somebody has a sandbox of that name; any other will do.
            Err(EngineError::Ground(GroundError::Store(StoreError::NameTaken { .. }) | GroundError::Name(_))) => {
                self.lifecycle.run_from(start.as_ref(), &NewSandbox { name: None, ..new }, &spec, &pipes.descriptors())
            }
            other => other,
        }?;
        began(&run.running.sandbox.name);
        let stop = racing.stop.as_fd();
        let watched = {
            let (sandbox, client) = run.running.parts();
            self.lifecycle.watch(sandbox, client, pipes, Some(stop), sink)
        };
        match watched {
            Ok(Some(exited)) => Ok(Some((run, exited))),
            Ok(None) => self.lifecycle.abandon(run).map(|()| None),
            Err(error) => {
                self.lifecycle.abandon(run)?;
                Err(error)
            }
        }
    }
}

/// A command that could not be started, with the exit code that `env` and its kind have for that.
pub(super) fn never_begun(failed: &Failed) -> Ended {
    let exit_code = match failed.reason {
        Reason::NotFound => 127,
        Reason::CannotExecute => 126,
        _ => 125,
    };
    Ended { exit_code, tail: failed.message.clone(), ..Ended::default() }
}

pub(super) fn how_it_ended(exited: &Exited, tail: &Tail) -> Ended {
    Ended {
        exit_code: exited.code,
        timed_out: exited.timed_out,
        limit_hit: exited.limit_hit,
        usage: exited.usage,
        tail: tail.text(),
    }
}

/// Variables of every command of an attempt.
pub(super) fn variables(racing: &Racing, plan: &AttemptPlan) -> Vec<String> {
    let own = [("WHATIF_RACE", &racing.name), ("WHATIF_ATTEMPT", &plan.name)].map(|(name, value)| format!("{name}={value}"));
    own.into_iter().chain(plan.parameters.iter().map(|(name, value)| format!("{name}={value}"))).collect()
}
