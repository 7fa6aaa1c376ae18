//! `whatif fork`: new sandboxes that begin where another one is, sharing every layer with it.

use whatif_types::sandbox::Position;
use whatif_types::{EventKind, MadeBy, Sandbox, Snapshot, name};

use crate::EngineError;
use crate::history::History;
use crate::history::snapshot::{Disturbed, Named, origin};
use crate::lifecycle::create::with_a_name;
use crate::lifecycle::plant::Plot;
use crate::lifecycle::shift::Live;
use crate::owner::Owner;

/// So many are made at once; each holds a lock until it is recorded.
const MOST_AT_ONCE: usize = 64;

/// What to make from what.
#[derive(Clone, Debug)]
pub struct Fork<'a> {
    /// A sandbox, or a snapshot.
    pub source: &'a str,
    pub name: Option<&'a str>,
    pub count: usize,
    /// What to show although it is masked; what was shown to the source is not, unless it is named here.
    pub expose: &'a [String],
    pub live: Live,
}

/// Forks that were made.
#[derive(Debug)]
pub struct Forked {
    pub from: Snapshot,
    pub parent: Sandbox,
    pub sandboxes: Vec<Sandbox>,
    pub disturbed: Option<Disturbed>,
}

impl History {
    pub fn fork(&self, fork: &Fork<'_>) -> Result<Forked, EngineError> {
        if let Some(given) = fork.name {
            name::validate(given)?;
        }
        let helper = self.lifecycle.helper_ahead(Some(fork.source), false);
        self.ground.check_room()?;
        let mut forks = Forks { history: self, fork, plots: Vec::new(), made: Vec::new(), failed: None };
        let Named { sandbox: parent, snapshot: from, disturbed } =
            self.position_called(fork.source, MadeBy::Fork, fork.live, helper, Some(&mut forks))?;
        forks.settle()?;
        if forks.made.len() < fork.count {
            self.ground.require_layers(&Owner::Snapshot(format!("{}@{}", parent.name, from.label)), &from.details.stack)?;
        }
        while forks.made.len() < fork.count {
            forks.make_room()?;
            self.ground.state.flush_begun()?;
            forks.record(&parent, &from);
            self.ground.store.flush()?;
            forks.settle()?;
        }
        let sandboxes = forks.made;
        self.ground.squash_if_due(&parent);
        for sandbox in &sandboxes {
            let source = format!("{}@{}", parent.name, from.label);
            self.ground.tell(EventKind::SandboxCreated, sandbox, vec![("forked_from", source.into())]);
        }
        Ok(Forked { from, parent, sandboxes, disturbed })
    }
}

/// Forks on their way. If a snapshot is taken for them, both become durable together: their directories with its layer, and then
/// their records with its own.
pub(crate) struct Forks<'a> {
    history: &'a History,
    fork: &'a Fork<'a>,
    /// For the next ones.
    plots: Vec<Plot>,
    made: Vec<Sandbox>,
    failed: Option<EngineError>,
}

impl Forks<'_> {
    /// Makes the directories of the next ones. They must be on the disk before there are records of them.
    pub(crate) fn make_room(&mut self) -> Result<(), EngineError> {
        let wanted = (self.fork.count - self.made.len()).min(MOST_AT_ONCE);
        self.plots = (0..wanted).map(|_| self.history.lifecycle.new_plot()).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Records those that there is room for. What they come from has been recorded, so a failure is told later.
    pub(crate) fn record(&mut self, parent: &Sandbox, from: &Snapshot) {
        let position = Position {
            stack: from.details.stack.clone(),
            at: Some(from.id.clone()),
            began_at: Some(parent.details.position.began_at.unwrap_or(parent.created_at)),
            arrived_at: parent.details.position.arrived_at,
            made_from: Some(format!("{}@{}", parent.name, from.label)),
            ..Position::default()
        };
        for plot in &mut self.plots {
            let given = match self.fork.name {
                Some(name) if self.fork.count > 1 => Some(format!("{name}-{}", self.made.len() + 1)),
                other => other.map(str::to_owned),
            };
            let planted = with_a_name(given.as_deref(), |name| {
                self.history.lifecycle.plant(plot, parent, name, position.clone(), self.fork.expose, Some(&origin(from)))
            });
            match planted {
                Ok(sandbox) => self.made.push(sandbox),
                Err(error) => {
                    self.failed = Some(error);
                    return;
                }
            }
        }
    }

    /// Their records are on the disk. A power cut can only take back that they were moved to their place, which is done again.
    fn settle(&mut self) -> Result<(), EngineError> {
        for plot in self.plots.drain(..) {
            plot.settle()?;
        }
        self.failed.take().map_or(Ok(()), Err)
    }
}
