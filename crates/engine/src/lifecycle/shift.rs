//! Moves a sandbox from one stack of layers to another: the common part of `snapshot` and `rollback`.
//!
//! Its head becomes a layer, it gets an empty one, and if it runs, its mounts are changed under it. The records decide: until
//! they are written everything can be taken back, and from then on a crash leaves a stopped sandbox with nothing missing.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use whatif_keeper::Client;
use whatif_keeper::client::ClientError;
use whatif_keeper::protocol::Process;
use whatif_layers::allotment::Mounted;
use whatif_layers::shift::{NextHead, Note, Shift};
use whatif_layers::state_dir::SandboxLock;
use whatif_provider::{Finishing, Paused, Restacker, Restacking};
use whatif_sys::absence;
use whatif_types::boot::{Boot, Masks};
use whatif_types::sandbox::StopReason;
use whatif_types::{Handle, LayerId, Plan, Sandbox, Status};

use crate::ground::GroundError;
use crate::ground::intact::heads_of;
use crate::ground::limits::Lease;
use crate::ground::unfinished::take_back::take_back;
use crate::ground::viewed::viewed_now;
use crate::ids::new_layer_id;
use crate::lifecycle::boot::{Heads, Wish};
use crate::lifecycle::recut::Cut;
use crate::lifecycle::{Lifecycle, LifecycleError, Recut};
use crate::owner::Owner;
use crate::trees::copied_trees;
use crate::{EngineError, roots, secrets};

/// What becomes of processes that are alive. Their layers cannot be changed under them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Live {
    /// They go on undisturbed, and the layer is a copy of the head.
    #[default]
    Copy,
    /// Nothing is done.
    Refuse,
    /// They are killed.
    Stop,
}

/// How the head became a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// There was nothing in it.
    Nothing,
    /// It was taken as it is.
    Frozen,
    /// It was copied, because of whoever works in it.
    Copied { because: String },
}

/// A move that was made.
#[derive(Debug)]
pub(crate) struct Moved {
    pub how: How,
    /// Processes that were killed for it.
    pub ended: Vec<Process>,
    /// Why the sandbox was stopped for it, if it was. It starts again by itself.
    pub stopped: Option<Stopped>,
    /// Whoever puts the sandbox on its new layers. The move has happened all the same, so nobody needs to wait for that but who goes on
    /// with the lock.
    pub finishing: Option<Finishing>,
}

/// Why a sandbox cannot go on with its processes on other layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Its layers cannot be changed while it runs.
    FixedLayers,
    /// Something went wrong between the records and the mounts.
    HalfWay,
}

impl Moved {
    fn at_once(how: How) -> Self {
        Self { how, ended: Vec::new(), stopped: None, finishing: None }
    }
}

/// Where to go, once it is known what became of the head.
pub(crate) trait Destination {
    /// The layers to stand on. `layer` is what the head became, if there was anything in it.
    fn stack(&self, sandbox: &Sandbox, layer: Option<&LayerId>) -> Vec<LayerId>;
    /// Writes it down, with the sandbox's new position in it.
    fn record(&mut self, sandbox: &mut Sandbox, layer: Option<&LayerId>) -> Result<(), EngineError>;
    /// Whether the sandbox has to be put on other layers even if nothing was in its head.
    fn leaves_its_stack(&self) -> bool;
}

impl Lifecycle {
    /// Moves the sandbox. The caller has taken its lock and looked at its record since.
    pub(crate) fn shift(
        &self,
        sandbox: &mut Sandbox,
        lock: &SandboxLock,
        live: Live,
        helper: Option<Restacker>,
        to: &mut dyn Destination,
    ) -> Result<Moved, EngineError> {
        let directory = self.ground.directory(sandbox)?;
        let is_active = sandbox.status == Status::Active;
        let index = directory.join("base").join("index");
        let has_bases = || absence::leads_somewhere(&index).map_err(|e| EngineError::io("examine", &index, e));
        let has_layer = !self.ground.heads_are_empty(sandbox)? || has_bases()?;
        if !has_layer && !to.leaves_its_stack() {
            to.record(sandbox, None)?;
            self.ground.store.flush()?;
            if is_active {
                self.ground.publish(sandbox);
            }
            return Ok(Moved::at_once(How::Nothing));
        }
        if is_active
            && !can_restack(sandbox)?
            && let Some(ended) = self.rest_if_idle(sandbox, live)?
        {
            let moved = self.shift(sandbox, lock, live, None, to)?;
            return Ok(Moved { ended, stopped: Some(Stopped::FixedLayers), ..moved });
        }
        // It loads while everything else is looked at, if it was not started before.
        let helper = match helper {
            None if is_active => Some(self.restacker_for(sandbox)?),
            started => started.filter(|_| is_active),
        };
        let layer = if has_layer { Some(new_layer_id()?) } else { None };
        let mut moving = Moving { lifecycle: self, directory: &directory, lock, layer: layer.as_ref(), to };
        let moved = match helper {
            None => {
                let moved = moving.at_rest(sandbox)?;
                // It stands where it stands, counted or not.
                let _ = self.recount(sandbox).and_then(|()| Ok(self.ground.store.update(sandbox)?));
                moved
            }
            Some(helper) => moving.alive(sandbox, helper, live)?,
        };
        if matches!(moved.how, How::Copied { .. }) {
            self.ground.publish(sandbox);
        }
        if let Some(layer) = layer.filter(|_| moved.how == How::Frozen) {
            // What an apply copies into it is nothing that the sandbox wrote.
            self.ground.release_layer(&sandbox.details.limits, &layer);
        }
        Ok(moved)
    }

    /// Stops a sandbox in which nothing runs (any more), so that it can be mounted on something else. It starts again by itself.
    /// `None`: something runs and is to go on.
    pub(crate) fn rest_if_idle(&self, sandbox: &mut Sandbox, live: Live) -> Result<Option<Vec<Process>>, EngineError> {
        let mut paused = self.ground.pause(sandbox)?.complete()?;
        let mut ended = Vec::new();
        match (paused.running.is_empty(), live) {
            (true, _) => {}
            (false, Live::Stop) => ended = paused.keeper().end_all()?,
            (false, _) => return Ok(None),
        }
        // Until then nothing can be started.
        self.put_to_rest(sandbox)?;
        drop(paused);
        Ok(Some(ended))
    }

    /// Starts a helper before the records are even opened, if a sandbox by this name runs and has something to freeze.
    pub(crate) fn helper_ahead(&self, name: Option<&str>, always: bool) -> Option<Restacker> {
        let (_, sandbox) = self.ground.published(name?)?;
        if always || !self.ground.heads_are_empty(&sandbox).ok()? { self.restacker_for(&sandbox).ok() } else { None }
    }
}

struct Moving<'a> {
    lifecycle: &'a Lifecycle,
    directory: &'a Path,
    lock: &'a SandboxLock,
    layer: Option<&'a LayerId>,
    to: &'a mut dyn Destination,
}

impl Moving<'_> {
    /// Nothing is mounted, so there is nobody to mind.
    fn at_rest(&mut self, sandbox: &mut Sandbox) -> Result<Moved, EngineError> {
        self.keep_last_bases(sandbox)?;
        let shift = self.begin(sandbox)?;
        let frozen = shift.freeze(NextHead::Bare).map_err(EngineError::from).and_then(|()| self.drop_marks(sandbox));
        let frozen = frozen.and_then(|()| Ok(shift.flush()?));
        let done = frozen.and_then(|()| self.record(sandbox, Vec::new()));
        self.settle(sandbox, shift, done)?;
        Ok(Moved::at_once(self.frozen()))
    }

    fn alive(&mut self, sandbox: &mut Sandbox, helper: Restacker, live: Live) -> Result<Moved, EngineError> {
        let pausing = match self.lifecycle.ground.pause(sandbox) {
            // It ended since somebody looked.
            Err(EngineError::Ground(GroundError::Keeper(ClientError::NotRunning))) => {
                if !crate::ground::keepers::await_end(self.directory) {
                    return Err(GroundError::Keeper(ClientError::NotRunning).into());
                }
                *sandbox = self.lifecycle.ground.refresh(sandbox)?;
                return self.at_rest(sandbox);
            }
            other => other?,
        };
        // It finds its way in while everything else is looked at.
        let stack = self.to.stack(sandbox, self.layer);
        let (boot, trees) = self.lifecycle.boot_on(sandbox, self.directory, &stack)?;
        self.lifecycle.ground.state.make_layers()?;
        let mut restacking = self.lifecycle.ground.instance(sandbox)?.restack(helper, &boot)?;
        // From here on nothing is started either.
        let mut paused = pausing.complete()?;
        let mut ended = Vec::new();
        if live == Live::Stop && !paused.running.is_empty() {
            ended = paused.keeper().end_all()?;
            paused.running.clear();
        }
        self.keep_last_bases(sandbox)?;
        // From here on a crash is noticed, and leads to a sandbox that is stopped.
        let mut shift = self.begin(sandbox)?;
        let in_the_way = match paused.running.is_empty() {
            false => Ok(Some(explain(&paused.running))),
            true => {
                let changing = paused.keeper().change_layers().map_err(EngineError::from);
                let guarded = changing.and_then(|()| Ok(restacking.guard()?.map(explain_writer)));
                // By now the helper holds what it mounts; what it found may be what lay beneath a mount that went.
                match gone_from(sandbox, &boot.plan) {
                    Some(tree) => {
                        let owner = Owner::Sandbox(sandbox.name.clone());
                        Err(LifecycleError::MountsChanged { owner, how: Recut::Going { tree } }.into())
                    }
                    None => guarded,
                }
            }
        };
        match in_the_way {
            Ok(None) => {}
            Err(error) => {
                self.leave_as_it_was(sandbox, shift, &mut restacking, paused)?;
                return Err(error);
            }
            Ok(Some(because)) if live != Live::Copy || self.to.leaves_its_stack() => {
                take_back(shift)?;
                paused.resume()?;
                return Err(LifecycleError::InUse { name: sandbox.name.clone(), because }.into());
            }
            Ok(Some(because)) => {
                self.lifecycle.ground.own_everything();
                let copied = shift.freeze_copy(whatif_diff::base::copy).map_err(EngineError::from);
                let done = copied.and_then(|()| self.drop_marks(sandbox)).and_then(|()| Ok(shift.flush()?));
                let done = done.and_then(|()| self.record_copy(sandbox));
                let settled = self.settle(sandbox, shift, done);
                paused.resume()?;
                settled?;
                return Ok(Moved { ended, ..Moved::at_once(How::Copied { because }) });
            }
        }
        Ok(Moved { ended, ..self.in_place(sandbox, restacking, paused, shift, &boot, trees)? })
    }

    /// Nobody is alive, and nobody can write: the head itself becomes a layer.
    fn in_place(
        &mut self,
        sandbox: &mut Sandbox,
        mut restacking: Restacking,
        mut paused: Paused,
        shift: Shift,
        boot: &Boot,
        trees: Vec<PathBuf>,
    ) -> Result<Moved, EngineError> {
        let stack = self.to.stack(sandbox, self.layer);
        let frozen = shift.freeze(NextHead::Laid).map_err(EngineError::from).and_then(|()| self.drop_marks(sandbox));
        let prepared = frozen.and_then(|()| self.lifecycle.prepare_heads(sandbox, boot, &stack));
        let prepared = prepared.and_then(|()| Ok(shift.flush()?));
        let done = prepared.and_then(|()| {
            let before = sandbox.clone();
            sandbox.details.trees = trees;
            sandbox.details.copied_trees = copied_trees(&boot.plan);
            sandbox.details.position.work = boot.work;
            self.record(sandbox, heads_of(&boot.plan)).inspect_err(|_| *sandbox = before)
        });
        if let Err(error) = done {
            self.leave_as_it_was(sandbox, shift, &mut restacking, paused)?;
            return Err(error);
        }
        // It has happened. From here on whatever fails leaves a stopped sandbox, which stands on its new layers when it starts.
        if let Err(error) = self.lifecycle.ground.store.flush() {
            self.lifecycle.stop_after_failure(sandbox)?;
            return Err(error.into());
        }
        self.lifecycle.ground.publish(sandbox);
        let told = self.tell_of_room(sandbox, paused.keeper());
        let shift = shift.hand_over()?;
        let moved = Moved::at_once(self.frozen());
        let [transient, at, note] = shift.descriptors();
        let held = [self.lock.as_fd(), transient, at, note];
        match told.ok().and_then(|()| restacking.finish(&sandbox.details.protection, paused.keeper(), &held)) {
            Some(finishing) => Ok(Moved { finishing: Some(finishing), ..moved }),
            None => {
                self.lifecycle.stop_after_failure(sandbox)?;
                shift.end(&sandbox.id).map_err(|e| EngineError::io("end", self.directory, e))?;
                Ok(Moved { stopped: Some(Stopped::HalfWay), ..moved })
            }
        }
    }

    /// The callers kept what the files of the head started from, but commands went on until now. What one of them made since then
    /// would be frozen unseen, and nobody could tell later whether reality ever had it.
    fn keep_last_bases(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        self.lifecycle.ground.keep_bases_locked(sandbox).map(|_| ())
    }

    /// Marks of renamed directories that are real by now lead nowhere, and wait in the head to be taken away.
    fn drop_marks(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        self.layer.map_or(Ok(()), |layer| self.lifecycle.drop_marks_in(sandbox, layer))
    }

    /// What is in layers now counts as much as it did in the head.
    fn tell_of_room(&self, sandbox: &Sandbox, client: &mut Client) -> Result<(), EngineError> {
        if sandbox.details.limits.limits_room() {
            let room = self.lifecycle.ground.room_of(&sandbox.details.limits, Some(sandbox))?;
            client.layers_changed(room.frozen_bytes, room.frozen_files)?;
            self.lifecycle.ground.limit_room(self.directory, &room, |trees| Mounted::With { trees })?;
        }
        Ok(())
    }

    fn begin(&self, sandbox: &Sandbox) -> Result<Shift, EngineError> {
        let below = sandbox.details.position.stack.last().cloned();
        let note = Note { sandbox: sandbox.id.clone(), layer: self.layer.cloned(), is_copy: false, below };
        Ok(Shift::begin(&self.lifecycle.ground.state, self.directory, note)?)
    }

    /// Nothing has happened. If the helper is lost, the sandbox cannot go on with what it has mounted.
    fn leave_as_it_was(
        &self,
        sandbox: &mut Sandbox,
        shift: Shift,
        helper: &mut Restacking,
        paused: Paused,
    ) -> Result<(), EngineError> {
        let is_as_it_was = helper.give_up();
        if !is_as_it_was {
            self.lifecycle.stop_after_failure(sandbox)?;
        }
        take_back(shift)?;
        if is_as_it_was { Ok(paused.resume()?) } else { Ok(()) }
    }

    fn frozen(&self) -> How {
        if self.layer.is_some() { How::Frozen } else { How::Nothing }
    }

    /// With the trees that the new head has.
    fn record(&mut self, sandbox: &mut Sandbox, heads: Vec<usize>) -> Result<(), EngineError> {
        let before = sandbox.clone();
        // What is mounted is mounted after this.
        let mounted = heads.iter().filter_map(|number| Some((*number, before.details.trees.get(*number)?.as_path())));
        let viewed = viewed_now(&before.project, mounted);
        // One that rests has nothing mounted afterwards, but what it changed stays a change of what was.
        let before_this = before.details.position.viewed.iter().flat_map(|viewed| roots::mounts(&viewed.roots));
        sandbox.details.mounted_trees.extend(before_this.filter(|tree| !before.details.mounted_trees.contains(tree)));
        let position = &mut sandbox.details.position;
        position.heads = Some(heads);
        position.stack = self.to.stack(&before, self.layer);
        position.mounted = position.stack.clone();
        position.viewed = Some(viewed);
        self.to.record(sandbox, self.layer).inspect_err(|_| *sandbox = before)
    }

    /// The sandbox stays where it is; only the copy has a new place.
    fn record_copy(&mut self, sandbox: &mut Sandbox) -> Result<(), EngineError> {
        let before = sandbox.clone();
        self.to.record(sandbox, self.layer).inspect_err(|_| *sandbox = before)
    }

    fn settle(&self, sandbox: &mut Sandbox, shift: Shift, done: Result<(), EngineError>) -> Result<(), EngineError> {
        match done {
            Ok(()) => {
                // The note goes when the record is on the disk. If that fails, it stays, and the next command asks the records.
                self.lifecycle.ground.store.flush()?;
                Ok(shift.go_on()?)
            }
            Err(error) => {
                // If that cannot be recorded, the note stays, and the next command goes back.
                if self.lifecycle.ground.expect_no_heads(sandbox, &shift).is_ok() {
                    take_back(shift)?;
                }
                Err(error)
            }
        }
    }
}

impl Lifecycle {
    /// What a keeper of this sandbox would be told to become over these layers, and its trees by number: with the view of reality
    /// that it has now.
    fn boot_on(&self, sandbox: &Sandbox, directory: &Path, stack: &[LayerId]) -> Result<(Boot, Vec<PathBuf>), EngineError> {
        self.with_wish(sandbox, directory, stack, |wish| {
            // Where a file system went, what it was mounted on must not be taken for it.
            let is_current = |view: &View| gone_from(sandbox, &view.plan).is_none();
            let seen = match View::of(sandbox, directory).filter(is_current) {
                Some(view) => view,
                None => {
                    let Cut { plan, masks, trees } = self.cut(wish, sandbox.details.backend)?;
                    let view = View { keeper: sandbox.details.handle, plan, masks, trees };
                    view.keep(directory);
                    view
                }
            };
            let work = sandbox.details.position.work.next();
            Ok((self.describe_boot(wish, seen.plan, seen.masks, sandbox.details.identity, work), seen.trees))
        })
    }

    fn prepare_heads(&self, sandbox: &Sandbox, boot: &Boot, stack: &[LayerId]) -> Result<(), EngineError> {
        self.with_wish(sandbox, &boot.directory, stack, |wish| self.make_heads(wish, &boot.plan, boot.work, Heads::AreNew))
    }

    pub(crate) fn with_wish<T>(
        &self,
        sandbox: &Sandbox,
        directory: &Path,
        stack: &[LayerId],
        work: impl FnOnce(&Wish<'_>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let config = self.ground.caller.config_for(&sandbox.project)?;
        let provider = whatif_provider::by_name(&sandbox.provider)?;
        let secrets = secrets::lazily(&self.ground.caller, &config, &sandbox.details.masked, &sandbox.details.exposed);
        let reach = crate::lifecycle::create::reached(&sandbox.details.network);
        let environment = crate::network::secrets::environment(&sandbox.details.network);
        work(&Wish {
            id: &sandbox.id,
            directory,
            project: &sandbox.project,
            known_trees: Some(&sandbox.details.trees),
            mounted_before: Some(sandbox),
            stack,
            beneath: None,
            veiled: &sandbox.details.veiled,
            fill: None,
            net: sandbox.details.net,
            grants: &sandbox.details.grants,
            reach: &reach,
            environment: &environment,
            provider,
            // Its head was made for this one; another could not read it.
            backend: Some(sandbox.details.backend),
            config: &config,
            secrets: &secrets,
            lease: Lease { limits: &sandbox.details.limits, expiry: sandbox.details.expiry.as_ref(), sandbox: Some(sandbox) },
        })
    }

    /// The records say what the mounts do not: it may not go on.
    fn stop_after_failure(&self, sandbox: &mut Sandbox) -> Result<(), EngineError> {
        self.stop_processes(sandbox, Duration::ZERO)?;
        self.ground.note_end(sandbox, StopReason::Lost)
    }
}

/// What a running sandbox sees of reality. Looking anew at each snapshot would take as long as all the rest of it, and a sandbox
/// follows new mounts only when it starts anyway.
#[derive(Serialize, Deserialize)]
pub(crate) struct View {
    keeper: Option<Handle>,
    plan: Plan,
    masks: Masks,
    /// The trees by number.
    #[serde(with = "whatif_types::text::paths")]
    trees: Vec<PathBuf>,
}

impl View {
    const FILE: &str = "view.json";

    /// The one kept at an earlier snapshot, if it is of the same keeper.
    fn of(sandbox: &Sandbox, directory: &Path) -> Option<Self> {
        let view: Self = serde_json::from_slice(&fs::read(directory.join(Self::FILE)).ok()?).ok()?;
        (view.keeper.is_some() && view.keeper == sandbox.details.handle).then_some(view)
    }

    /// A sandbox that starts looks for itself.
    pub(crate) fn forget(directory: &Path) {
        let _ = fs::remove_file(directory.join(Self::FILE));
    }

    /// Only a shortcut: without it the next one looks again.
    fn keep(&self, directory: &Path) {
        if let Ok(text) = serde_json::to_vec(self) {
            let _ = fs::write(directory.join(Self::FILE), text);
        }
    }
}

/// While it runs: neither every backend nor every provider lets that happen.
fn can_restack(sandbox: &Sandbox) -> Result<bool, EngineError> {
    let provider = whatif_provider::by_name(&sandbox.provider)?;
    Ok(sandbox.details.backend.can_restack() && provider.capabilities().restack)
}

impl Lifecycle {
    fn restacker_for(&self, sandbox: &Sandbox) -> Result<Restacker, EngineError> {
        let provider = whatif_provider::by_name(&sandbox.provider)?;
        provider.restacker(&self.ground.state.cache()).map_err(|source| LifecycleError::Helper { source }.into())
    }
}

/// The first tree of a plan at which the sandbox has a file system mounted and reality has none any more.
fn gone_from(sandbox: &Sandbox, plan: &Plan) -> Option<PathBuf> {
    roots::unmounted(sandbox).find(|tree| plan.places.iter().any(|place| place.path == **tree)).cloned()
}

fn explain_writer(tree: PathBuf) -> String {
    format!("a file in {} is open for writing", tree.display())
}

fn explain(running: &[Process]) -> String {
    let first = running.first().map(|p| format!("'{}' (process {}) is running", p.command, p.pid)).unwrap_or_default();
    if running.len() > 1 { format!("{first}, and {} more", running.len() - 1) } else { first }
}
