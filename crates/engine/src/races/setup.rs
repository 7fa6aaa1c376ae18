//! What all attempts begin over: reality alone, or what was set up in it once.

use whatif_types::experiment::{Ended, Event, Experiment, StartState};
use whatif_types::sandbox::{Details, Position};
use whatif_types::text::Text;
use whatif_types::{LayerId, MadeBy, Sandbox, Snapshot};

use super::command::{Command, how_it_ended};
use super::output::Tail;
use super::run::{Racing, Tell};
use crate::EngineError;
use crate::history::snapshot::Named;
use crate::lifecycle::captured::Heard;
use crate::lifecycle::create::{NewSandbox, Start};
use crate::lifecycle::recut::Beneath;
use crate::lifecycle::run::Keep;
use crate::lifecycle::shift::Live;
use crate::owner::Owner;
use crate::races::{RaceError, Races};

/// A frozen state to begin over.
pub(super) struct Begin {
    pub sandbox: Sandbox,
    pub snapshot: Snapshot,
}

impl Begin {
    pub fn start(&self) -> Start<'_> {
        let Self { sandbox, snapshot } = self;
        let stack = snapshot.details.stack.clone();
        let position = Position {
            mounted: stack.clone(),
            stack,
            at: Some(snapshot.id.clone()),
            began_at: Some(sandbox.details.position.began_at.unwrap_or(sandbox.created_at)),
            arrived_at: sandbox.details.position.arrived_at,
            made_from: Some(format!("{}@{}", sandbox.name, snapshot.label)),
            ..Position::default()
        };
        let Details { trees, copied_trees, mounted_trees, based_at, .. } = &sandbox.details;
        let beneath = Some(Beneath { owner: Owner::Sandbox(sandbox.name.clone()), copied_trees, mounted_trees });
        Start { trees, position, beneath, is_rebased: based_at.is_some(), fill: None }
    }

    /// Layers are read by what wrote them.
    pub fn fitting(&self, new: NewSandbox) -> NewSandbox {
        NewSandbox { backend: Some(self.sandbox.details.backend), template: None, ..new }
    }
}

impl Races {
    /// Runs the set-up once, or finds what an earlier one left.
    pub(super) fn set_up(
        &self,
        experiment: &mut Experiment,
        racing: &Racing,
        tell: &mut Tell<'_>,
    ) -> Result<Option<Begin>, EngineError> {
        let Some(script) = racing.plan.setup.clone() else { return Ok(None) };
        if let Some(begin) = self.recorded_start(experiment)? {
            return Ok(Some(begin));
        }
        tell(Some(&Event::SetupBegan));
        let made = self.beside(racing, tell, |races, say| races.run_setup(racing, &script, say))?;
        let Some((sandbox, snapshot)) = made else { return Ok(None) };
        experiment.details.start = Some(StartState { sandbox: sandbox.id.clone(), label: snapshot.label.clone() });
        self.ground.store.update_experiment(experiment)?;
        Ok(Some(Begin { sandbox, snapshot }))
    }

    /// What an attempt has under it before it does anything.
    pub(super) fn layers_under(&self, racing: &Racing) -> Result<Vec<LayerId>, EngineError> {
        if let Some(begin) = &racing.begin {
            return Ok(begin.snapshot.details.stack.clone());
        }
        match &racing.wish.template {
            Some(name) => Ok(self.ground.template(name)?.details.position.stack),
            None => Ok(Vec::new()),
        }
    }

    /// What was set up before, while that is there.
    pub(super) fn recorded_start(&self, experiment: &Experiment) -> Result<Option<Begin>, EngineError> {
        let Some(start) = &experiment.details.start else { return Ok(None) };
        let Some(sandbox) = self.ground.store.get(&start.sandbox)? else { return Ok(None) };
        let snapshot = self.ground.store.find_snapshot(&sandbox.id, &start.label)?;
        Ok(snapshot.map(|snapshot| Begin { sandbox, snapshot }))
    }

    /// `None` if it was stopped.
    fn run_setup(&self, racing: &Racing, script: &str, say: &dyn Fn(Event)) -> Result<Option<(Sandbox, Snapshot)>, EngineError> {
        let command = Command {
            sandbox: format!("{}.setup", racing.name),
            arguments: ["/bin/sh", "-c", script].map(Text::from).to_vec(),
            called: None,
            input: None,
            variables: Vec::new(),
            heard: Heard::Both,
        };
        let mut tail = Tail::default();
        let ran = self.run_in_race(racing, &command, &mut |_| {}, &mut |piece| tail.feed(piece))?;
        let Some((run, exited)) = ran else { return Ok(None) };
        let ended = how_it_ended(&exited, &tail);
        say(Event::SetupEnded { ended: ended.clone() });
        if !ended.is_success() {
            self.lifecycle.abandon(run)?;
            return Err(RaceError::SetupFailed { how: failure(&ended), tail: ended.tail }.into());
        }
        let finished = self.lifecycle.finish(run, &exited, Keep::Stopped)?;
        let Named { sandbox, snapshot, .. } =
            self.history.named_position(&finished.sandbox, MadeBy::Fork, Live::Refuse, None, None)?;
        Ok(Some((sandbox, snapshot)))
    }
}

fn failure(ended: &Ended) -> String {
    if ended.timed_out { "timed out".to_owned() } else { format!("exit code {}", ended.exit_code) }
}
