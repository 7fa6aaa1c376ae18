//! Copies up what sandboxes show of reality through directories that they renamed, before a transaction takes it away.
//!
//! A renamed directory holds only what was changed in it; the rest is in reality, at the old place, to which a mark leads (`marks`).
//! When a transaction removes or replaces that, it would vanish from every sandbox, snapshot and template that shows it. So it is
//! copied first to where the mark is: into the layer, or into the head. A head that is mounted is left to the kernel, which copies
//! up by itself when a file is touched. A copy shows what was shown before, so a crash or a failed transaction does no harm.
//!
//! A directory that loses its source as a whole stands on its own afterwards: nothing that reality gets at the old place later is
//! part of it, and its whiteouts, which hide nothing any more, are not shown.
//!
//! A mount goes on listing the directories of reality that it has looked up, and those are gone then. So a living sandbox is mounted
//! anew afterwards, and one in which something runs, where that is impossible, stops the transaction.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Timespec, Timestamps};
use whatif_apply::{Change as Act, Expected, Operation, Plan, Source};
use whatif_diff::{Found, Renamed, Through};
use whatif_layers::state_dir::SandboxLock;
use whatif_layers::{additions, allotment, copy, remove, survey};
use whatif_sys::absence::OrAbsent;
use whatif_types::config::UserConfig;
use whatif_types::mountinfo::aliases_of;
use whatif_types::{LayerId, Sandbox, SandboxId, Status};

use super::About;
use crate::EngineError;
use crate::caller::PROJECT_CONFIG;
use crate::changes::{Changes, ChangesError};
use crate::ground::still::Still;
use crate::ids::new_id;
use crate::lifecycle::marks::{cut_off, has_marks, is_renamed};
use crate::roots::in_tree;

/// A sandbox that stays as it is while reality changes under it.
struct Held {
    sandbox: Sandbox,
    /// None of the sandbox that is applied, whose lock the caller has.
    lock: Option<SandboxLock>,
    still: Option<Still>,
    /// Its mounts show directories that will be gone.
    is_outdated: bool,
}

/// All of them, until the transaction is over.
#[derive(Default)]
pub(super) struct AllHeld(Vec<Held>);

impl AllHeld {
    /// Lets the sandboxes go on, with mounts that show what reality has now. Whether the one that is applied needs that, too, is for
    /// the caller to see to.
    pub(super) fn release(self, changes: &Changes) -> bool {
        let mut is_own_outdated = false;
        for Held { mut sandbox, lock, still, is_outdated } in self.0 {
            drop(still);
            match lock.filter(|_| is_outdated) {
                // At worst it sees it from its next start on.
                Some(lock) => _ = changes.mount_anew(&mut sandbox, &lock),
                None => is_own_outdated |= is_outdated,
            }
        }
        is_own_outdated
    }
}

/// What goes from reality, and on whose behalf.
struct Leaving {
    paths: HashSet<PathBuf>,
    about: About,
    /// Project files that an undo puts back, and where they lie until then; nothing of one that goes.
    restored: HashMap<PathBuf, Option<PathBuf>>,
}

/// One path that would vanish.
struct Carried<'f> {
    shown: &'f Through,
    renamed: &'f Renamed,
    /// Where a copy of it belongs.
    target: PathBuf,
}

impl Changes {
    /// Only overlays mounted by root have renamed directories. The sandboxes are held until the result is dropped.
    pub(super) fn copy_up_renamed(&self, plan: &Plan) -> Result<AllHeld, EngineError> {
        let mut paths: HashSet<PathBuf> =
            plan.operations.iter().filter(|o| takes_away(o)).map(|o| o.absolute(&plan.roots)).collect();
        let about = serde_json::from_value::<About>(plan.about.clone());
        let (true, false, Ok(about)) = (self.ground.caller.is_root(), paths.is_empty(), about) else {
            return Ok(AllHeld::default());
        };
        // A bind mount gives it other names, under which others show it.
        let mounts = survey::mounts()?;
        let aliases: Vec<PathBuf> = paths.iter().flat_map(|path| aliases_of(&mounts, path)).collect();
        paths.extend(aliases);
        let leaving = Leaving { paths, about, restored: restored(plan) };
        let mut copying = CopyUp {
            changes: self,
            leaving,
            marked: HashMap::new(),
            seen: HashSet::new(),
            place: None,
            alone: Vec::new(),
            has_copied: false,
        };
        let held = copying.everywhere()?;
        copying.finish()?;
        Ok(AllHeld(held))
    }
}

/// What lies on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Top {
    Head,
    Nothing,
}

/// The work, and what was found out on the way.
struct CopyUp<'e> {
    changes: &'e Changes,
    leaving: Leaving,
    /// Whether a layer says anything about renamed directories.
    marked: HashMap<LayerId, bool>,
    /// The stacks that were looked at, and whose they are.
    seen: HashSet<(SandboxId, Top, Vec<LayerId>)>,
    /// Where copies are made, before they get their names.
    place: Option<(PathBuf, SandboxLock)>,
    /// Directories that stand on their own from now on, and whose they are. Only when everything was copied: another snapshot may
    /// show more of them than one that was looked at before.
    alone: Vec<(Sandbox, Renamed)>,
    has_copied: bool,
}

impl CopyUp<'_> {
    /// Until there is no stack that was not looked at: what came meanwhile may be of layers that were merged before all was copied.
    fn everywhere(&mut self) -> Result<Vec<Held>, EngineError> {
        let mut held = Vec::new();
        loop {
            let has_new_layers = self.in_new_stacks(&mut held)?;
            let alone = std::mem::take(&mut self.alone);
            // Before as well: the marks by which the next one would know, if this one is killed, go here.
            if has_new_layers && !alone.is_empty() {
                self.tell_of_additions()?;
            }
            for (sandbox, renamed) in &alone {
                cut_off(&renamed.at).map_err(|e| cannot(sandbox, &renamed.path, e))?;
                self.has_copied = true;
            }
            if !has_new_layers {
                return Ok(held);
            }
            self.tell_of_additions()?;
        }
    }

    /// Whether there were any that have layers with renamed directories.
    fn in_new_stacks(&mut self, held: &mut Vec<Held>) -> Result<bool, EngineError> {
        let changes = self.changes;
        let sandboxes: Vec<Sandbox> = changes.ground.store.list()?.into_iter().filter(|s| self.leaving.concerns(s)).collect();
        let mut has_new_layers = false;
        for sandbox in &sandboxes {
            let stack = &sandbox.details.position.stack;
            let is_held = held.iter().any(|held| held.sandbox.id == sandbox.id);
            if !is_held && self.seen.insert((sandbox.id.clone(), Top::Head, stack.clone())) {
                held.extend(self.in_head(sandbox)?);
            }
            has_new_layers |= self.in_layers(sandbox, stack)?;
            for snapshot in changes.ground.store.list_snapshots(&sandbox.id)? {
                has_new_layers |= self.in_layers(sandbox, &snapshot.details.stack)?;
            }
        }
        for template in changes.ground.store.list_templates()? {
            let details = &template.details;
            // Its layers are looked at as those of a sandbox, and it has none; any with the same trees will do.
            if let Some(like) = sandboxes.iter().find(|s| s.details.trees == details.trees) {
                has_new_layers |= self.in_layers(like, &details.position.stack)?;
            }
        }
        Ok(has_new_layers)
    }

    /// A merge under way, which may have read a layer before something was copied into it, starts over. What was copied before an
    /// apply was killed counts as well.
    fn tell_of_additions(&self) -> Result<(), EngineError> {
        let _lock = self.changes.ground.lock_layers(SandboxLock::take, &self.leaving.about.sandbox)?;
        let name = new_id()?;
        for (layer, _) in self.marked.iter().filter(|(_, is_marked)| **is_marked) {
            additions::announce(&self.changes.ground.state.layer_path(layer), name.as_str())?;
        }
        Ok(())
    }

    /// Copies have to outlive what they were made from, a power cut included.
    fn finish(self) -> Result<(), EngineError> {
        let root = self.changes.ground.state.root();
        if self.has_copied {
            let directory = fs::File::open(root).map_err(|e| EngineError::io("open", root, e))?;
            rustix::fs::syncfs(&directory).map_err(|e| EngineError::io("sync", root, e.into()))?;
        }
        match &self.place {
            Some((place, _lock)) => Ok(remove::tree(place)?),
            None => Ok(()),
        }
    }

    /// What the layers of a snapshot or a template show. Whether they are new and have renamed directories.
    fn in_layers(&mut self, sandbox: &Sandbox, stack: &[LayerId]) -> Result<bool, EngineError> {
        let is_new = self.seen.insert((sandbox.id.clone(), Top::Nothing, stack.to_vec()));
        if !is_new || !self.is_marked(stack)? {
            return Ok(false);
        }
        let found = self.changes.ground.changes_in_by(sandbox, stack, &self.config(sandbox)?)?;
        let carried = self.leaving.carried(&found, |_| true);
        for one in &carried {
            self.copy(sandbox, &found, one)?;
        }
        let alone = self.leaving.alone(sandbox, &found, |_| true);
        self.alone.extend(alone.cloned().map(|renamed| (sandbox.clone(), renamed)));
        Ok(true)
    }

    /// What the sandbox shows now.
    fn in_head(&mut self, sandbox: &Sandbox) -> Result<Option<Held>, EngineError> {
        let changes = self.changes;
        let is_own = self.leaving.about.sandbox_id == sandbox.id.to_string() && self.leaving.about.undo_of.is_none();
        // One that is being removed needs nothing.
        let Some(head) = changes.ground.state.find(&sandbox.id)?.map(|directory| directory.join("head")) else { return Ok(None) };
        let is_marked = self.is_marked(&sandbox.details.position.stack)? || has_marks_in(&head)?;
        // Only those that have something to lose are locked: two applies at once would wait for each other's sandboxes.
        if !is_marked {
            return Ok(None);
        }
        let config = self.config(sandbox)?;
        if !self.leaving.takes_from(sandbox, &changes.ground.look_by(sandbox, &config)?) {
            return Ok(None);
        }
        // An apply has locked and stopped its own sandbox itself.
        let lock = if is_own { None } else { Some(changes.ground.lock(sandbox)?) };
        let sandbox = &if is_own { sandbox.clone() } else { changes.ground.refresh(sandbox)? };
        let still = if is_own { None } else { Some(changes.ground.hold_still(sandbox)?) };
        let mut held = Held { sandbox: sandbox.clone(), lock, still, is_outdated: false };
        let found = changes.ground.look_by(sandbox, &config)?;
        // What becomes real as a whole is shown by reality itself afterwards.
        let stays = |renamed: &Renamed| !is_own || !self.leaving.drops(sandbox, renamed);
        let carried = self.leaving.carried(&found, stays);
        let alone: Vec<Renamed> = self.leaving.alone(sandbox, &found, stays).cloned().collect();
        let mut view = None;
        if sandbox.status == Status::Active && (!carried.is_empty() || !alone.is_empty()) {
            let is_busy = !changes.ground.connect(sandbox)?.list()?.is_empty();
            if let Some(first) = carried.first().filter(|_| is_busy) {
                let busy = io::Error::new(io::ErrorKind::ResourceBusy, "something runs in it");
                return Err(cannot(sandbox, &first.shown.path, busy));
            }
            // It has all there is to see already.
            if is_busy {
                return Ok(Some(held));
            }
            held.is_outdated = true;
            let root = changes.ground.instance(sandbox)?.view();
            view = Some(root.map_err(|e| cannot(sandbox, &sandbox.project, e))?);
        }
        for one in &carried {
            match &view {
                Some(view) if one.target.starts_with(&head) => {
                    touch(view, &one.shown.path).map_err(|e| cannot(sandbox, &one.shown.path, e))?;
                    self.has_copied = true;
                }
                _ => self.copy(sandbox, &found, one)?,
            }
        }
        self.alone.extend(alone.into_iter().map(|renamed| (sandbox.clone(), renamed)));
        Ok(Some(held))
    }

    /// The project's file may be what is wrong with the apply that is taken back. Then the one that comes back counts.
    fn config(&self, sandbox: &Sandbox) -> Result<UserConfig, EngineError> {
        let (caller, project) = (&self.changes.ground.caller, &sandbox.project);
        match (caller.config_for(project), self.leaving.restored.get(&project.join(PROJECT_CONFIG))) {
            (Err(_), Some(Some(restored))) => caller.config_by(project, restored),
            (Err(_), Some(None)) => Ok(caller.config.clone()),
            (config, _) => config,
        }
    }

    /// Copies to where nothing is mounted for writing. A name appears with everything it stands for, or not at all.
    fn copy(&mut self, sandbox: &Sandbox, found: &Found, carried: &Carried<'_>) -> Result<(), EngineError> {
        let failed = |e: io::Error| cannot(sandbox, &carried.shown.path, e);
        let making = self.place()?.join("copy");
        let depth = carried.target.strip_prefix(&carried.renamed.at).map_or(0, |rest| rest.components().count());
        let mut levels: Vec<(&Path, &Path)> = carried.target.ancestors().zip(carried.shown.path.ancestors()).take(depth).collect();
        levels.reverse();
        for (target, path) in levels {
            if target.symlink_metadata().is_ok() {
                continue;
            }
            let Some(from) = shown_at(found, path, carried) else { continue };
            // What is made in a project can be moved into it.
            if let (Some(place), Some(parent)) = (making.parent(), target.parent()) {
                allotment::join_like(place, parent)?;
            }
            copy::alone(&from, &making).map_err(|e| failed(e.source))?;
            fs::rename(&making, target).map_err(failed)?;
            self.has_copied = true;
        }
        Ok(())
    }

    fn place(&mut self) -> Result<&Path, EngineError> {
        let begun = match self.place.take() {
            Some(begun) => begun,
            None => self.changes.ground.state.begin_squash(&new_id()?)?,
        };
        Ok(&self.place.insert(begun).0)
    }

    fn is_marked(&mut self, stack: &[LayerId]) -> Result<bool, EngineError> {
        let mut is_any_marked = false;
        for layer in stack {
            let is_marked = match self.marked.get(layer) {
                Some(known) => *known,
                None => has_marks_in(&self.changes.ground.state.layer_path(layer))?,
            };
            self.marked.insert(layer.clone(), is_marked);
            is_any_marked |= is_marked;
        }
        Ok(is_any_marked)
    }
}

impl Leaving {
    fn concerns(&self, sandbox: &Sandbox) -> bool {
        has_marks(sandbox) && self.paths.iter().any(|path| in_tree(sandbox, path).is_some())
    }

    /// Whether the mark of a directory goes, because the directory is real then.
    fn drops(&self, sandbox: &Sandbox, renamed: &Renamed) -> bool {
        let place = in_tree(sandbox, &renamed.path);
        place.is_some_and(|(tree, path)| self.about.marks.iter().any(|mark| mark.is_at(tree, path)))
    }

    fn takes_from(&self, sandbox: &Sandbox, found: &Found) -> bool {
        !self.carried(found, |_| true).is_empty() || self.alone(sandbox, found, |_| true).next().is_some()
    }

    /// What is shown at another place than reality has it, and goes from there.
    fn carried<'f>(&self, found: &'f Found, stays: impl Fn(&Renamed) -> bool) -> Vec<Carried<'f>> {
        let of = |shown: &'f Through| {
            let around = found.renamed.iter().filter(|r| shown.path.starts_with(&r.path));
            let renamed = around.max_by_key(|r| r.path.as_os_str().len()).filter(|r| stays(r))?;
            let rest = shown.path.strip_prefix(&renamed.path).ok()?;
            Some(Carried { shown, renamed, target: renamed.at.join(rest) })
        };
        found.through.iter().filter(|shown| self.paths.contains(&shown.at)).filter_map(of).collect()
    }

    /// The directories whose source goes as a whole, and that nothing but reality is part of.
    fn alone<'f>(
        &self,
        sandbox: &Sandbox,
        found: &'f Found,
        stays: impl Fn(&Renamed) -> bool,
    ) -> impl Iterator<Item = &'f Renamed> {
        let goes = move |renamed: &&Renamed| {
            let tree = in_tree(sandbox, &renamed.path).and_then(|(tree, _)| sandbox.details.trees.get(tree));
            tree.is_some_and(|tree| self.paths.contains(&tree.join(&renamed.source)))
        };
        found.renamed.iter().filter(|renamed| renamed.is_lowest).filter(goes).filter(move |renamed| stays(renamed))
    }
}

/// Whether an operation takes away what is there now.
fn takes_away(operation: &Operation) -> bool {
    operation.expected != Expected::Absent && !matches!(operation.change, Act::Set { .. })
}

/// The files of projects that a plan puts back or removes.
fn restored(plan: &Plan) -> HashMap<PathBuf, Option<PathBuf>> {
    let of = |operation: &Operation| {
        let path = operation.absolute(&plan.roots);
        let from = match &operation.change {
            Act::Put { source: Source::Original(from), .. } => Some(from.clone()),
            Act::Remove => None,
            _ => return None,
        };
        path.ends_with(PROJECT_CONFIG).then_some((path, from))
    };
    plan.operations.iter().filter_map(of).collect()
}

/// Whether any directory in a head or a layer was renamed.
fn has_marks_in(root: &Path) -> Result<bool, EngineError> {
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        if is_renamed(&directory)? {
            return Ok(true);
        }
        // A head that nobody has stopped changes meanwhile: a directory that is a file now has no marks.
        let entries = fs::read_dir(&directory).or_absent().map_err(|e| EngineError::io("list", &directory, e))?;
        for entry in entries.into_iter().flatten() {
            let entry = entry.map_err(|e| EngineError::io("list", &directory, e))?;
            let kind = entry.file_type().or_absent().map_err(|e| EngineError::io("examine", entry.path(), e))?;
            if kind.is_some_and(|kind| kind.is_dir()) {
                pending.push(entry.path());
            }
        }
    }
    Ok(false)
}

/// Where what a sandbox shows at a path really is.
fn shown_at(found: &Found, path: &Path, carried: &Carried<'_>) -> Option<PathBuf> {
    let at = found.changes.binary_search_by(|c| c.path.as_os_str().as_encoded_bytes().cmp(path.as_os_str().as_encoded_bytes()));
    let shown = at.ok().and_then(|at| found.changes[at].after.as_ref()).map(|after| after.at.clone());
    let steps = carried.shown.path.components().count() - path.components().count();
    shown.or_else(|| carried.shown.at.ancestors().nth(steps).map(Path::to_owned))
}

/// Gives a file the times that it has, for which the kernel copies it up. No link of the sandbox's making is followed.
fn touch(view: &OwnedFd, path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let parent = parent.strip_prefix("/").unwrap_or(parent);
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat2(view.as_fd(), parent, flags, Mode::empty(), how)?;
    let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let times = Timestamps {
        last_access: Timespec { tv_sec: stat.st_atime, tv_nsec: stat.st_atime_nsec as _ },
        last_modification: Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ },
    };
    Ok(rustix::fs::utimensat(&directory, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn cannot(sandbox: &Sandbox, path: &Path, source: io::Error) -> EngineError {
    ChangesError::Renamed { name: sandbox.name.clone(), path: path.to_owned(), source }.into()
}
