//! The layers of a stack: how large they are, which of them nobody needs, and merging them when there are many.

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use whatif_diff::base;
use whatif_layers::shift::{self, LayerOrigin};
use whatif_layers::state_dir::{SandboxLock, Unsettled};
use whatif_layers::{PathError, additions, measure, parts, remove, squash};
use whatif_sys::{absence, patience};
use whatif_types::{Backend, LayerFacts, LayerId, Sandbox, SandboxId, Selector};

use crate::EngineError;
use crate::ground::changed::marks_of;
use crate::ground::{Ground, GroundError};
use crate::ids::{new_id, new_layer_id};
use crate::owner::Owner;

/// The kernel takes five hundred layers, reality and its mask among them; this leaves room for a few snapshots more.
const DEEPEST: usize = 480;
/// A merge holds directories of all its layers open.
const MOST_AT_ONCE: usize = 200;
/// How long another merge is waited for, and how often it is looked.
const PATIENCE: Duration = Duration::from_secs(60);

/// What becomes of layers that no record ever knew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unknown {
    #[default]
    Keep,
    Delete,
}

/// A squash that was done.
#[derive(Debug, Default)]
pub struct Squashed {
    /// How many layers there were, and how many there are.
    pub before: usize,
    pub after: usize,
}

impl Ground {
    /// Number of files and bytes on the disk. A layer never changes, so it is measured once.
    pub(crate) fn layer_size(&self, layer: &LayerId) -> Result<(u64, u64), EngineError> {
        let facts = self.store.layer_facts(std::slice::from_ref(layer))?.pop().unwrap_or_default();
        if let (Some(files), Some(bytes)) = (facts.files, facts.bytes) {
            return Ok((files, bytes));
        }
        let measured = measure::tree(&self.state.layer_path(layer))?;
        // Looking must be possible where writing is not.
        let _ = self.store.note_layer(layer, &LayerFacts { files: Some(measured.files), bytes: Some(measured.bytes), ..facts });
        Ok((measured.files, measured.bytes))
    }

    /// Whether layers should be merged before they slow the sandbox down.
    pub fn wants_squashing(&self, sandbox: &Sandbox) -> Result<bool, EngineError> {
        Ok(can_squash(sandbox) && self.due(&sandbox.details.position.stack)?.is_some())
    }

    fn due(&self, stack: &[LayerId]) -> Result<Option<std::ops::Range<usize>>, EngineError> {
        let tiers: Vec<u8> = self.store.layer_facts(stack)?.iter().map(|f| f.tier).collect();
        Ok(squash::policy::due(&tiers))
    }

    /// Before a snapshot adds a layer that the kernel would not mount any more.
    pub(crate) fn make_room_on_stack(&self, sandbox: &mut Sandbox) -> Result<(), EngineError> {
        if sandbox.details.position.stack.len() >= DEEPEST && can_squash(sandbox) {
            self.squash_run(sandbox, |stack| Ok((stack.len() >= MOST_AT_ONCE).then_some(0..MOST_AT_ONCE)), true)?;
        }
        Ok(())
    }

    /// Merges what is due, until nothing is. Content does not change; a sandbox that runs uses the result from its next
    /// snapshot, rollback or start on.
    pub fn squash_due(&self, which: &Selector) -> Result<Squashed, EngineError> {
        let mut sandbox = self.resolve(which)?;
        self.clear_old_work(&sandbox)?;
        let mut squashed = Squashed { before: sandbox.details.position.stack.len(), after: 0 };
        while can_squash(&sandbox) && self.squash_run(&mut sandbox, |stack| self.due(stack), false)? {}
        squashed.after = sandbox.details.position.stack.len();
        Ok(squashed)
    }

    /// Deletes the work directories of mounts that are gone. Deleting a directory can take longer than a whole snapshot, so that
    /// is not done when one is taken.
    fn clear_old_work(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        let directory = self.directory(sandbox)?;
        let (work, old) = (directory.join("work"), directory.join("work-old"));
        let failed = |path: &Path, e: std::io::Error| EngineError::io("clear", path, e);
        std::fs::create_dir_all(&old).map_err(|e| failed(&old, e))?;
        {
            // Nobody is kept waiting for more than a few renames.
            let _lock = self.lock(sandbox)?;
            let sandbox = self.refresh(sandbox)?;
            let used: Vec<String> = (0..sandbox.details.trees.len()).map(|tree| sandbox.details.position.work.name(tree)).collect();
            for entry in std::fs::read_dir(&work).map_err(|e| failed(&work, e))?.filter_map(Result::ok) {
                if !used.iter().any(|name| entry.file_name() == name.as_str()) {
                    let _ = std::fs::rename(entry.path(), old.join(entry.file_name()));
                }
            }
        }
        Ok(remove::tree(&old)?)
    }

    /// `whatif squash`: all layers of the sandbox become one.
    pub fn squash(&self, which: &Selector) -> Result<(Sandbox, Squashed), EngineError> {
        let mut sandbox = self.resolve(which)?;
        let before = sandbox.details.position.stack.len();
        if !can_squash(&sandbox) {
            return Err(GroundError::SquashOverFuse.into());
        }
        let all = |stack: &[LayerId]| Ok((stack.len() > 1).then(|| 0..stack.len().min(MOST_AT_ONCE)));
        while self.squash_run(&mut sandbox, all, false)? {}
        let after = sandbox.details.position.stack.len();
        Ok((sandbox, Squashed { before, after }))
    }

    /// Merges one run, if `choose` finds one. What layers show does not change, so that needs no lock; only the record does.
    fn squash_run(
        &self,
        sandbox: &mut Sandbox,
        choose: impl Fn(&[LayerId]) -> Result<Option<Range<usize>>, EngineError>,
        is_locked: bool,
    ) -> Result<bool, EngineError> {
        if choose(&sandbox.details.position.stack)?.is_none() {
            return Ok(false);
        }
        let (place, _lock) = self.await_squash(sandbox, is_locked)?;
        let squashed = self.squash_run_in(&place, sandbox, choose, is_locked);
        remove::tree(&place)?;
        squashed
    }

    fn squash_run_in(
        &self,
        place: &Path,
        sandbox: &mut Sandbox,
        choose: impl Fn(&[LayerId]) -> Result<Option<Range<usize>>, EngineError>,
        is_locked: bool,
    ) -> Result<bool, EngineError> {
        // Another one may have come first, and its layers are not these any more.
        if !is_locked {
            *sandbox = self.reread(sandbox)?;
        }
        let Some(run) = choose(&sandbox.details.position.stack)? else { return Ok(false) };
        let layers = sandbox.details.position.stack[run].to_vec();
        // A caller that goes on with the sandbox's namespaces cannot have that.
        if !is_locked {
            self.own_everything();
        }
        let additions = self.additions_to(&layers)?;
        let id = self.merge(sandbox, &layers, place)?;
        let tiers: Vec<u8> = self.store.layer_facts(&layers)?.iter().map(|f| f.tier).collect();
        self.store.note_layer(&id, &LayerFacts { tier: squash::policy::merged(&tiers), ..LayerFacts::default() })?;
        let _lock = if is_locked { None } else { Some(self.lock(sandbox)?) };
        let mut fresh = self.refresh(sandbox)?;
        let _layers_lock = self.lock_layers(SandboxLock::share, &fresh.name)?;
        let is_whole = self.additions_to(&layers)? == additions;
        let stack = &mut fresh.details.position.stack;
        // It may have been rolled back meanwhile, or something was added to a layer; then the result is of no use.
        if let Some(start) = stack.windows(layers.len()).position(|w| w == layers).filter(|_| is_whole) {
            let below = start.checked_sub(1).and_then(|at| stack.get(at)).cloned();
            LayerOrigin { sandbox: Some(fresh.id.clone()), below }.mark(&place.join(id.as_str()));
            self.announce_layers(place, std::slice::from_ref(&id))?;
            self.state.keep_layer(place, &id)?;
            // The layers that it takes the place of may be deleted as soon as the record says so.
            self.state.flush_all()?;
            stack.splice(start..start + layers.len(), [id]);
            self.store.update(&mut fresh)?;
            self.store.flush()?;
        }
        *sandbox = fresh;
        Ok(true)
    }

    /// What was last added to each of these layers.
    fn additions_to(&self, layers: &[LayerId]) -> Result<Vec<Option<Vec<u8>>>, PathError> {
        layers.iter().map(|layer| additions::last(&self.state.layer_path(layer))).collect()
    }

    /// Merged layers take the place of others only while nobody says that something was added to those. Whoever has said so finds
    /// in the records what came before, and all others know of it. Nobody has the lock for long.
    pub(crate) fn lock_layers(
        &self,
        take: fn(&Path) -> Result<Option<SandboxLock>, PathError>,
        name: &str,
    ) -> Result<SandboxLock, EngineError> {
        let layers = self.state.layers();
        patience::try_until(PATIENCE, || take(&layers))?.ok_or_else(|| GroundError::Busy { name: name.to_owned() }.into())
    }

    /// A place for merged layers of this sandbox. Whoever merges some of them already has it until it is done, for which it needs the
    /// sandbox's lock.
    fn await_squash(&self, sandbox: &Sandbox, is_locked: bool) -> Result<(PathBuf, SandboxLock), EngineError> {
        let patience = if is_locked { Duration::ZERO } else { PATIENCE };
        let begin = || match self.state.begin_squash(&sandbox.id) {
            Err(error) if is_taken(&error.source) => Ok(None),
            begun => begun.map(Some),
        };
        patience::try_until(patience, begin)?.ok_or_else(|| GroundError::Busy { name: sandbox.name.clone() }.into())
    }

    fn merge(&self, sandbox: &Sandbox, layers: &[LayerId], place: &Path) -> Result<LayerId, EngineError> {
        self.require_layers(&Owner::Sandbox(sandbox.name.clone()), layers)?;
        let id = new_layer_id()?;
        let into = place.join(id.as_str());
        std::fs::create_dir(&into).map_err(|e| EngineError::io("create", &into, e))?;
        for tree in 0..sandbox.details.trees.len() {
            let part = tree.to_string();
            let mut newest_first = self.state.parts_of(layers, &part)?;
            newest_first.reverse();
            let is_copy = sandbox.details.copied_trees.contains(&tree);
            match newest_first.as_slice() {
                [] => {}
                // A copied tree is whole in every layer. It is copied rather than linked: a new link moves the times by which
                // an inventory tells what was touched.
                [newest, ..] if is_copy => {
                    let to = into.join(&part);
                    std::fs::create_dir(&to).map_err(|e| EngineError::io("create", &to, e))?;
                    if let Some(copied) = whatif_layers::copy::copied_layer(newest, &to)? {
                        copied.write(&to)?;
                    }
                }
                all => {
                    squash::merge(all, &into.join(&part), marks_of(sandbox, tree))?;
                }
            }
        }
        let bases = self.state.parts_of(layers, "base")?;
        if !bases.is_empty() {
            let bases: Vec<&Path> = bases.iter().map(PathBuf::as_path).collect();
            base::join(&bases, &into.join("base")).map_err(|e| EngineError::io("merge", &into, e))?;
        }
        parts::seal(&into)?;
        Ok(id)
    }

    /// Names layers that are about to lie with the others and to be recorded. Until they are, nothing else keeps `gc` from them;
    /// and if they never are, only this says that they may go.
    pub(crate) fn announce_layers(&self, place: &Path, layers: &[LayerId]) -> Result<(), EngineError> {
        self.state.note_import(place, layers)?;
        Ok(self.store.expect_layers(layers)?)
    }

    /// Deletes the layers that the records know and that none of them needs any more. Returns them.
    ///
    /// As long as anything on the disk is in no record, as after a lost or restored database, nothing is: what that stands on is
    /// not known either.
    pub fn remove_unneeded_layers(&self, unknown: Unknown) -> Result<Vec<LayerId>, EngineError> {
        // In this order: what becomes a layer from here on is not in the list, and what is in flight is named by its note.
        let existing = self.state.list_layers()?;
        if existing.is_empty() || self.has_unrecorded()? {
            return Ok(Vec::new());
        }
        let in_flight = self.layers_in_flight()?;
        let written_down = if unknown == Unknown::Delete { self.layers_written_down()? } else { HashSet::new() };
        let mut unneeded = Vec::new();
        let mut condemned: Result<_, EngineError> = Ok(None);
        let id = new_id()?;
        self.store.with_layers(&mut |layers| {
            let (known, strange): (Vec<_>, Vec<_>) =
                existing.iter().filter(|l| !in_flight.contains(l)).cloned().partition(|l| layers.known.contains(l));
            unneeded = match unknown {
                Unknown::Delete => strange.into_iter().filter(|l| !written_down.contains(l)).chain(known).collect(),
                Unknown::Keep if strange.is_empty() => known,
                Unknown::Keep => Vec::new(),
            };
            unneeded.retain(|l| !layers.needed.contains(l));
            // What the records do not name any more, they may name again after a power cut.
            let flushed = self.store.flush().map_err(EngineError::from);
            condemned = flushed.and_then(|()| Ok(self.state.condemn_layers(id.as_str(), &unneeded)?));
            if condemned.is_ok() { unneeded.clone() } else { Vec::new() }
        })?;
        if let Some((directory, _lock)) = condemned? {
            remove::tree(&directory)?;
            self.forget_size();
        }
        Ok(unneeded)
    }

    #[must_use]
    pub fn layers_directory(&self) -> PathBuf {
        self.state.layers()
    }

    /// Layers that no record names or ever named, and that no command is about to record.
    pub fn unknown_layers(&self) -> Result<Vec<LayerId>, EngineError> {
        // In this order: what is recorded from here on is in flight or known.
        let existing = self.state.list_layers()?;
        if existing.is_empty() {
            return Ok(Vec::new());
        }
        let in_flight = self.layers_in_flight()?;
        let known = self.store.known_layers()?;
        let mut unknown = Vec::new();
        for layer in existing.into_iter().filter(|l| !known.contains(l) && !in_flight.contains(l)) {
            let path = self.state.layer_path(&layer);
            // One that has just been deleted was known.
            if absence::is_dir(&path).map_err(|e| EngineError::io("examine", &path, e))? {
                unknown.push(layer);
            }
        }
        Ok(unknown)
    }

    /// Whether there are sandboxes that no record knows.
    pub(crate) fn has_unrecorded(&self) -> Result<bool, EngineError> {
        let settled = self.state.settled()?;
        let known: HashSet<SandboxId> = self.store.list()?.into_iter().map(|s| s.id).collect();
        Ok(settled.iter().any(|id| !known.contains(id)))
    }

    /// Layers that some command has made and not yet recorded.
    fn layers_in_flight(&self) -> Result<Vec<LayerId>, EngineError> {
        let mut layers = Vec::new();
        for unsettled in self.state.unsettled()? {
            match unsettled {
                Unsettled::Shift { note, .. } => match shift::read_note(&note) {
                    Ok(note) => layers.extend(note.layer),
                    // It has come to its end meanwhile.
                    Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => {}
                    // It may speak of any layer.
                    Err(error) => return Err(error.into()),
                },
                Unsettled::Layers(path) => layers.extend(self.state.coming(&path)?),
                Unsettled::Sandbox(_) | Unsettled::Apply(_) => {}
            }
        }
        Ok(layers)
    }
}

/// fuse-overlayfs goes by inode numbers, and hard links give one to several files.
fn can_squash(sandbox: &Sandbox) -> bool {
    sandbox.details.backend != Backend::Fuse
}

/// Whether a place belongs to another user.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists | io::ErrorKind::WouldBlock)
}
