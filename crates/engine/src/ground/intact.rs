//! Whether everything that a sandbox, a snapshot or a template consists of is there.
//!
//! A directory that is missing is never taken for an empty one: a tmp cleaner would turn work into deletions. Which directories
//! must be there is recorded: the heads with the sandbox, the parts of a layer in the layer itself. What was deleted inside of
//! them cannot be told from what the sandbox deleted.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use whatif_layers::parts;
use whatif_sys::patience;
use whatif_types::sandbox::StopReason;
use whatif_types::{Backend, LayerId, Plan, Sandbox, Status};

use crate::EngineError;
use crate::ground::{Ground, GroundError};
use crate::missing::{Missing, Part};
use crate::owner::Owner;

/// How long a sandbox may be on its way from one stack to another.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it may be found on its way by a command that looks at it.
const MOST_MOVES: usize = 20;

/// A sandbox, snapshot or template of which something is missing.
#[derive(Clone, Debug, Serialize)]
pub struct Incomplete {
    pub owner: Owner,
    pub missing: Vec<Missing>,
}

/// What was found out about layers, for all that stand on them.
pub(crate) type Known = HashMap<LayerId, Vec<Missing>>;

impl Ground {
    /// Everything recorded that is not all there.
    pub(crate) fn incomplete(&self) -> Result<Vec<Incomplete>, EngineError> {
        let lineage = self.lineage()?;
        let mut known = Known::new();
        let mut found = Vec::new();
        for (sandbox, snapshots) in &lineage.sandboxes {
            // Its maker is at work on it.
            if sandbox.status == Status::Creating {
                continue;
            }
            found.push((Owner::Sandbox(sandbox.name.clone()), self.missing_of(sandbox, &mut known)?));
            for snapshot in snapshots {
                let owner = Owner::Snapshot(format!("{}@{}", sandbox.name, snapshot.label));
                found.push((owner, self.missing_layers(&snapshot.details.stack, &mut known)?));
            }
        }
        for template in &lineage.templates {
            let missing = self.missing_layers(&template.details.position.stack, &mut known)?;
            found.push((Owner::Template(template.name.clone()), missing));
        }
        let incomplete = found.into_iter().filter(|(_, missing)| !missing.is_empty());
        Ok(incomplete.map(|(owner, missing)| Incomplete { owner, missing }).collect())
    }

    /// What is missing of a sandbox.
    pub(crate) fn missing_of(&self, sandbox: &Sandbox, known: &mut Known) -> Result<Vec<Missing>, EngineError> {
        let mut missing = self.missing_heads(sandbox)?;
        missing.extend(self.missing_layers(&sandbox.details.position.stack, known)?);
        Ok(missing)
    }

    fn missing_heads(&self, sandbox: &Sandbox) -> Result<Vec<Missing>, EngineError> {
        let Some(directory) = self.state.find(&sandbox.id)? else {
            let path = self.state.sandboxes().join(sandbox.id.as_str());
            return Ok(vec![Missing { what: Part::Directory, path }]);
        };
        let head = directory.join("head");
        let expected = expected_heads(sandbox);
        let mut missing = Vec::new();
        for path in expected.iter().map(|number| head.join(number.to_string())) {
            if !is_directory(&path)? {
                missing.push(Missing { what: Part::Head, path });
            }
        }
        // Whatever is in it is missing with it.
        if missing.len() == expected.len() && !is_directory(&head)? {
            return Ok(vec![Missing { what: Part::Head, path: head }]);
        }
        Ok(missing)
    }

    pub(crate) fn missing_layers(&self, stack: &[LayerId], known: &mut Known) -> Result<Vec<Missing>, EngineError> {
        let mut missing = Vec::new();
        for layer in stack {
            if !known.contains_key(layer) {
                known.insert(layer.clone(), self.missing_in_layer(layer)?);
            }
            missing.extend(known.get(layer).into_iter().flatten().cloned());
        }
        Ok(missing)
    }

    fn missing_in_layer(&self, layer: &LayerId) -> Result<Vec<Missing>, EngineError> {
        let directory = self.state.layer_path(layer);
        if !is_directory(&directory)? {
            return Ok(vec![Missing { what: Part::Layer, path: directory }]);
        }
        let sealed = match parts::sealed(&directory) {
            Err(error) if is_absence(&error.source) => return Ok(vec![Missing { what: Part::Layer, path: directory }]),
            other => other?,
        };
        let Some(sealed) = sealed else {
            // Made by an earlier version. It never was empty.
            let is_empty = parts::present(&directory)?.is_empty();
            return Ok(is_empty.then_some(Missing { what: Part::Layer, path: directory }).into_iter().collect());
        };
        let mut missing = Vec::new();
        for part in sealed {
            let path = directory.join(part);
            if !is_directory(&path)? {
                missing.push(Missing { what: Part::LayerPart, path });
            }
        }
        Ok(missing)
    }

    /// Whether what its overlays marked can be read: as root of a machine and as anybody else, overlayfs writes marks of two kinds.
    /// Containers with different options that share a volume are both.
    pub(crate) fn require_same_rights(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        let with = sandbox.details.identity.started_by_root();
        if sandbox.details.backend != Backend::Overlay || with == self.caller.works_as_root() {
            return Ok(());
        }
        Err(GroundError::OtherRights { name: sandbox.name.clone(), with }.into())
    }

    /// Whether all of a sandbox is there.
    pub(crate) fn require_whole(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        self.require_same_rights(sandbox)?;
        self.require_current(sandbox)?;
        let missing = self.missing_of(sandbox, &mut Known::new())?;
        self.complain(&Owner::Sandbox(sandbox.name.clone()), missing)?;
        self.require_no_stray_heads(sandbox)
    }

    /// Whether the head is there.
    pub(crate) fn require_heads(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        let missing = self.missing_heads(sandbox)?;
        self.complain(&Owner::Sandbox(sandbox.name.clone()), missing)
    }

    /// The same for a sandbox that runs: what its keeper has mounted.
    pub(crate) fn require_mounted(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        self.look_while_it_moves(sandbox, |now| self.check_mounted(now))
    }

    /// For a command without the sandbox's lock. While a sandbox moves to other layers, its head is gone for a moment, also after
    /// the move is recorded: what is missing is looked for again where the record has it by now.
    pub(crate) fn look_while_it_moves<T>(
        &self,
        sandbox: &Sandbox,
        look: impl Fn(&Sandbox) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let mut record = Cow::Borrowed(sandbox);
        for _ in 0..MOST_MOVES {
            match look(&record) {
                Err(EngineError::Ground(GroundError::Incomplete { .. })) => match self.record_after_move(&record)? {
                    Some(now) => record = Cow::Owned(now),
                    None => break,
                },
                other => return other,
            }
        }
        look(&record)
    }

    /// What is missing of a sandbox, for the same.
    pub(crate) fn missing_while_it_moves(&self, sandbox: &Sandbox, known: &mut Known) -> Result<Vec<Missing>, EngineError> {
        let missing = self.missing_of(sandbox, known)?;
        if missing.is_empty() {
            return Ok(missing);
        }
        // Of one that was removed meanwhile nothing is missing.
        let Some(now) = self.record_after_move(sandbox)?.map_or_else(|| self.store.get(&sandbox.id), |now| Ok(Some(now)))? else {
            return Ok(Vec::new());
        };
        self.missing_of(&now, &mut Known::new())
    }

    fn check_mounted(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        let mut missing = self.missing_heads(sandbox)?;
        for layer in &sandbox.details.position.mounted {
            let path = self.state.layer_path(layer);
            if !is_directory(&path)? {
                missing.push(Missing { what: Part::Layer, path });
            }
        }
        self.complain(&Owner::Sandbox(sandbox.name.clone()), missing)
    }

    /// Whether all layers of a snapshot or template are there.
    pub(crate) fn require_layers(&self, owner: &Owner, stack: &[LayerId]) -> Result<(), EngineError> {
        let missing = self.missing_layers(stack, &mut Known::new())?;
        self.complain(owner, missing)
    }

    fn complain(&self, owner: &Owner, missing: Vec<Missing>) -> Result<(), EngineError> {
        if missing.is_empty() {
            return Ok(());
        }
        let intact = self.intact_snapshots(owner).unwrap_or_default();
        Err(GroundError::Incomplete { owner: owner.clone(), missing, intact }.into())
    }

    /// The snapshots of a sandbox that are all there, as `NAME@LABEL`, newest first.
    fn intact_snapshots(&self, owner: &Owner) -> Result<Vec<String>, EngineError> {
        let name = owner.name().split('@').next().unwrap_or_default();
        let whatif_store::Found::One(sandbox) = self.store.find(name)? else { return Ok(Vec::new()) };
        let mut known = Known::new();
        let mut intact = Vec::new();
        for snapshot in self.store.list_snapshots(&sandbox.id)?.into_iter().rev() {
            if self.missing_layers(&snapshot.details.stack, &mut known)?.is_empty() {
                intact.push(format!("{name}@{}", snapshot.label));
            }
        }
        Ok(intact)
    }

    /// The record of a sandbox whose layers change, or changed since the record was read; `None` if they did not.
    pub(crate) fn record_after_move(&self, sandbox: &Sandbox) -> Result<Option<Sandbox>, EngineError> {
        let note = self.state.shift_note(&sandbox.id);
        patience::try_until(PATIENCE, || is_there(&note).map(|is_there| (!is_there).then_some(())))?;
        let now = self.store.get(&sandbox.id)?;
        Ok(now.filter(|now| now.details.position != sandbox.details.position))
    }
}

/// The trees that must have a directory in the head.
pub(crate) fn expected_heads(sandbox: &Sandbox) -> Vec<usize> {
    let position = &sandbox.details.position;
    match &position.heads {
        Some(heads) => heads.clone(),
        // An earlier version did not write them down; but the first head of a sandbox has all.
        None => {
            let is_first = position.stack.is_empty() && position.taken == 0;
            let was_made = sandbox.status != Status::Creating && sandbox.details.stop_reason != Some(StopReason::NotStarted);
            if is_first && was_made { (0..sandbox.details.trees.len()).collect() } else { Vec::new() }
        }
    }
}

/// The trees of a plan, by number: those that have a directory in the head once it is mounted.
pub(crate) fn heads_of(plan: &Plan) -> Vec<usize> {
    let mut numbers: Vec<usize> = plan.trees().map(|(number, _)| number).collect();
    numbers.sort_unstable();
    numbers
}

/// Those that the head of a sandbox has once a plan is mounted over it.
pub(crate) fn with_heads_of(sandbox: &Sandbox, plan: &Plan) -> Vec<usize> {
    let mut heads = heads_of(plan);
    heads.extend(expected_heads(sandbox));
    heads.sort_unstable();
    heads.dedup();
    heads
}

/// Only what is certainly not there is missing.
pub(crate) fn is_directory(path: &Path) -> Result<bool, EngineError> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(error) if is_absence(&error) => Ok(false),
        Err(error) => Err(EngineError::io("examine", path, error)),
    }
}

fn is_there(path: &Path) -> Result<bool, EngineError> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if is_absence(&error) => Ok(false),
        Err(error) => Err(EngineError::io("examine", path, error)),
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
