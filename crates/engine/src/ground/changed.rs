//! What a sandbox changed: its heads, seen at one moment, against what it started from.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use whatif_diff::set::Options;
use whatif_diff::watch::LastLook;
use whatif_diff::{
    Bases, ChangeSet, Depth, Found, LONG_AGO, Reach, Scope, Seen, Summary, Tree, between, overlaps, scan, summarize,
};
use whatif_layers::state_dir::SandboxLock;
use whatif_overlay::Format;
use whatif_sys::absence;
use whatif_types::boot::PROTOCOL_VERSION;
use whatif_types::config::UserConfig;
use whatif_types::sandbox::{Details, is_given_up};
use whatif_types::{Backend, LayerId, Sandbox, Snapshot};

use crate::git::Git;
use crate::ground::intact::{expected_heads, is_directory};
use crate::ground::still::Binding;
use crate::ground::{Ground, GroundError, unmarked, viewed};
use crate::merge::written;
use crate::owner::Owner;
use crate::secrets::{Secrets, Unshown};
use crate::{EngineError, account, roots, secrets};

const UNDONE: &str = "undone";

impl Ground {
    /// The typed change set of a sandbox. One that runs is held still while it is looked at.
    pub fn change_set(&self, sandbox: &Sandbox, depth: Depth) -> Result<ChangeSet, EngineError> {
        let still = self.hold_still(sandbox)?;
        let found = self.look(sandbox)?;
        self.sort_out(sandbox, found, depth, still.binding(None))
    }

    /// What raw changes mean for the sandbox's project.
    pub(crate) fn sort_out(
        &self,
        sandbox: &Sandbox,
        found: Found,
        depth: Depth,
        binding: Binding,
    ) -> Result<ChangeSet, EngineError> {
        let config = self.caller.config_for(&sandbox.project)?;
        // Whoever ran in the sandbox may have written the rules that ignore a file, but not reality's index.
        let failed = RefCell::new(None);
        let tracked = || {
            self.tracked(&sandbox.project).unwrap_or_else(|error| {
                failed.borrow_mut().get_or_insert(error);
                HashSet::new()
            })
        };
        let hidden = || {
            let unshown = || Ok(self.secrets_of(&sandbox.project, &sandbox.details)?.unshown()?);
            let mut hidden = unshown().map(|unshown| unshown.all()).unwrap_or_else(|error: EngineError| {
                failed.borrow_mut().get_or_insert(error);
                Vec::new()
            });
            hidden.push(self.state.root().to_owned());
            hidden
        };
        let (project, trees) = (&sandbox.project, &sandbox.details.trees);
        let (ignore, Binding { form, seals }) = (&config.diff.ignore, binding);
        let account = &account::of(&self.caller, project)?;
        let options =
            Options { project, trees, ignore, account, depth, form, seals, tracked: &tracked, hidden: &hidden, written: &written };
        let set = ChangeSet::of(found, &options);
        failed.into_inner().map_or(Ok(set), Err)
    }

    /// How much the sandbox has changed so far. One that runs goes on meanwhile.
    pub fn summarize(&self, sandbox: &Sandbox) -> Result<Summary, EngineError> {
        if self.is_unchanged(sandbox)? {
            return Ok(Summary::default());
        }
        let found = self.look(sandbox)?;
        // Only a shortcut: without it the next command looks again.
        if found.unreadable.is_empty() {
            let _ = self.remember(sandbox, &found);
        }
        Ok(summarize(&found, &sandbox.project))
    }

    /// How much was changed since the sandbox began: without what the template brought that it was made from.
    pub(crate) fn summarize_own(&self, sandbox: &Sandbox) -> Result<Summary, EngineError> {
        if sandbox.details.position.stack.is_empty() {
            return self.summarize(sandbox);
        }
        if self.is_as_it_began(sandbox)? {
            return Ok(Summary::default());
        }
        // Where nothing of the template was touched, what differs from reality is all there is. That is told quickly.
        if !self.touches_layers(sandbox)? {
            return Ok(summarize(&self.look_at(sandbox, View::Head)?, &sandbox.project));
        }
        let before = self.changes_in(sandbox, &sandbox.details.position.stack)?;
        let now = self.look(sandbox)?;
        let own = between(&before, &now, self.caller.works_as_root());
        let own = Found { changes: own.changes, unreadable: own.unreadable, ..now };
        Ok(summarize(&own, &sandbox.project))
    }

    /// Whether the head has anything to say about what is in a layer below it.
    fn touches_layers(&self, sandbox: &Sandbox) -> Result<bool, EngineError> {
        let directory = self.directory(sandbox)?;
        let trees = self.look_while_it_moves(sandbox, |now| self.trees(now, &directory, View::Whole))?;
        Ok(trees.iter().any(overlaps))
    }

    /// What was touched since the last snapshot.
    pub(crate) fn touched(&self, sandbox: &Sandbox) -> Result<Found, EngineError> {
        self.scan(sandbox, View::Head).map(|(found, _)| found)
    }

    /// The raw changes, at one moment.
    pub(crate) fn find_changes(&self, sandbox: &Sandbox) -> Result<Found, EngineError> {
        let _still = self.hold_still(sandbox)?;
        self.look(sandbox)
    }

    /// One of an older version may not be able to.
    pub(crate) fn require_our_keeper(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        match sandbox.details.keeper_version == PROTOCOL_VERSION {
            true => Ok(()),
            false => Err(GroundError::OtherKeeper { name: sandbox.name.clone() }.into()),
        }
    }

    /// Looks at everything the sandbox changed, and keeps what the changed files started from.
    pub(crate) fn look(&self, sandbox: &Sandbox) -> Result<Found, EngineError> {
        self.look_at(sandbox, View::Whole)
    }

    /// The same for what is to become real: reality's bytes are compared where something of them is kept, whatever its times say.
    pub(crate) fn look_closely(&self, sandbox: &Sandbox) -> Result<Found, EngineError> {
        let mut found = self.look(sandbox)?;
        self.bases(sandbox)?.compare_closely(&mut found.changes)?;
        Ok(found)
    }

    /// The directory beneath a mount is not the one that the sandbox changed, and neither is one that was mounted over it: nothing is
    /// written there.
    pub(crate) fn require_same_mounts<'a>(
        &self,
        sandbox: &Sandbox,
        paths: impl Iterator<Item = &'a Path> + Clone,
    ) -> Result<(), EngineError> {
        let gone: Vec<&PathBuf> = roots::unmounted(sandbox).collect();
        if let Some(tree) = paths.clone().find_map(|path| gone.iter().find(|tree| path.starts_with(tree))) {
            return Err(GroundError::Unmounted { name: sandbox.name.clone(), tree: tree.to_path_buf() }.into());
        }
        match roots::mounted_over(sandbox, paths)? {
            Some(place) => Err(GroundError::MountedOver { name: sandbox.name.clone(), place: place.to_owned() }.into()),
            None => Ok(()),
        }
    }

    /// The raw changes of a sandbox as it was at a snapshot.
    pub(crate) fn changes_at(&self, sandbox: &Sandbox, snapshot: &Snapshot) -> Result<Found, EngineError> {
        self.changes_in(sandbox, &snapshot.details.stack)
    }

    /// The raw changes that layers under a sandbox make.
    pub(crate) fn changes_in(&self, sandbox: &Sandbox, stack: &[LayerId]) -> Result<Found, EngineError> {
        self.scan(sandbox, View::Past(stack)).map(|(found, _)| found)
    }

    /// The same by the configuration that a project is about to have.
    pub(crate) fn changes_in_by(&self, sandbox: &Sandbox, stack: &[LayerId], config: &UserConfig) -> Result<Found, EngineError> {
        self.scan_by(sandbox, View::Past(stack), config).map(|(found, _)| found)
    }

    /// Looks at everything by that.
    pub(crate) fn look_by(&self, sandbox: &Sandbox, config: &UserConfig) -> Result<Found, EngineError> {
        self.look_at_by(sandbox, View::Whole, config)
    }

    fn look_at(&self, sandbox: &Sandbox, view: View<'_>) -> Result<Found, EngineError> {
        self.look_at_by(sandbox, view, &self.caller.config_for(&sandbox.project)?)
    }

    fn look_at_by(&self, sandbox: &Sandbox, view: View<'_>, config: &UserConfig) -> Result<Found, EngineError> {
        let (mut found, mut bases) = self.scan_by(sandbox, view, config)?;
        found.forget_origins(&self.directory(sandbox)?.join("head"), &bases);
        // Without room for it, a later merge has no base; what is to be shown now is not affected.
        let _ = bases.keep(&found.changes);
        let _ = bases.keep_unchanged(&found.unchanged);
        let _ = bases.keep_covered(&found.covered, &found.changes);
        if !found.unmarked.is_empty() {
            unmarked::note(&self.directory(sandbox)?);
        }
        Ok(found)
    }

    fn scan(&self, sandbox: &Sandbox, view: View<'_>) -> Result<(Found, Bases), EngineError> {
        self.scan_by(sandbox, view, &self.caller.config_for(&sandbox.project)?)
    }

    fn scan_by(&self, sandbox: &Sandbox, view: View<'_>, config: &UserConfig) -> Result<(Found, Bases), EngineError> {
        self.look_while_it_moves(sandbox, |now| self.scan_as_recorded(now, view, config))
    }

    fn scan_as_recorded(&self, sandbox: &Sandbox, view: View<'_>, config: &UserConfig) -> Result<(Found, Bases), EngineError> {
        self.require_same_rights(sandbox)?;
        let directory = self.directory(sandbox)?;
        self.recover_rebase_if_free(sandbox, &directory)?;
        let mut bases = self.bases_of(sandbox, view)?;
        let secrets = secrets::of(&self.caller, config, &sandbox.details.masked, &sandbox.details.exposed)?;
        let unshown = secrets.unshown()?;
        // It counts in frozen layers: what is kept must not be what fills the sandbox.
        bases.keep_at_most(sandbox.details.limits.disk.map(|disk| disk.0 / 2));
        bases.keep_no_bytes_of(unshown.all());
        let Unshown { mut masked, rewritten } = unshown;
        masked.push(self.state.root().to_owned());
        let trees = self.trees(sandbox, &directory, view)?;
        let made_at = seconds(sandbox.details.position.began_at.unwrap_or(sandbox.created_at));
        let arrived_at = sandbox.details.position.arrived_at.map(seconds);
        let viewed = viewed::viewed(sandbox, &directory);
        let enter = || viewed::enter(sandbox, &directory);
        let project = viewed.as_ref().and_then(|v| v.project).map(|known| (sandbox.project.as_path(), known));
        let roots: Vec<(&Path, (u64, u64))> = roots::mounted(sandbox).map(|(path, root)| (path.as_path(), root.id)).collect();
        let fresh_at = viewed.as_ref().map(|v| v.since);
        let seen = Seen::new(fresh_at, arrived_at.map_or(made_at, |_| LONG_AGO), project, &roots, &enter);
        let last_look = matches!(view, View::News).then(|| LastLook::remembered(&directory.join("base")));
        let reach = match (view, &last_look) {
            (_, Some(last_look)) => Reach::News(last_look),
            (View::Head, None) => Reach::Heads,
            _ => Reach::Whole,
        };
        let found = scan(&Scope {
            trees: &trees,
            masked: &masked,
            rewritten: &rewritten,
            bases: &bases,
            seen: Some(&seen),
            reach,
            made_at,
            arrived_at,
            as_root: self.caller.works_as_root(),
        });
        Ok((found, bases))
    }

    /// The quick answer for the usual case of a command that wrote nothing.
    pub(crate) fn is_unchanged(&self, sandbox: &Sandbox) -> Result<bool, EngineError> {
        self.look_while_it_moves(sandbox, |now| Ok(now.details.position.stack.is_empty() && self.is_as_it_began(now)?))
    }

    /// Whether nothing was changed since the last snapshot.
    pub(crate) fn heads_are_empty(&self, sandbox: &Sandbox) -> Result<bool, EngineError> {
        let directory = self.directory(sandbox)?;
        let expected = expected_heads(sandbox);
        let mut are_empty = sandbox.details.copied_trees.is_empty();
        for (number, _) in sandbox.details.trees.iter().enumerate().filter(|(_, tree)| !is_given_up(tree)) {
            let head = directory.join("head").join(number.to_string());
            match absence::is_empty_dir(&head) {
                Ok(is_empty) => are_empty &= is_empty,
                // What cannot be looked into may hold work.
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => are_empty = false,
                // What is missing is not empty, unless nothing was ever mounted on it.
                Err(_) if expected.contains(&number) => self.require_heads(sandbox)?,
                Err(_) => {}
            }
        }
        self.require_no_stray_heads(sandbox)?;
        Ok(are_empty)
    }

    /// Keeps what newly changed files started from, if there are any. Called after each command, and now and then during it.
    /// False if somebody else is at it.
    pub(crate) fn keep_bases(&self, sandbox: &Sandbox) -> Result<bool, EngineError> {
        let has_news = match self.has_news(sandbox) {
            // While a sandbox moves to other layers, its head is gone for a moment. What was in it is seen to by that command.
            Err(EngineError::Ground(GroundError::Incomplete { .. })) => match self.record_after_move(sandbox)? {
                Some(_) => return Ok(false),
                None => self.has_news(sandbox)?,
            },
            other => other?,
        };
        if !has_news {
            return Ok(true);
        }
        // Whoever is changing the sandbox sees to it. Afterwards it may stand somewhere else.
        let Some(_lock) = SandboxLock::take(&self.directory(sandbox)?)? else { return Ok(false) };
        let published = self.published(&sandbox.name).map(|(_, sandbox)| sandbox);
        match published.filter(|now| now.id == sandbox.id) {
            Some(now) => self.keep_bases_locked(&now),
            None => self.keep_bases_locked(&self.refresh(sandbox)?),
        }
    }

    /// The same for a caller that has the lock, and looked at the record since.
    pub(crate) fn keep_bases_locked(&self, sandbox: &Sandbox) -> Result<bool, EngineError> {
        if !self.has_news(sandbox)? {
            return Ok(true);
        }
        // What only the layers touched was kept when it was in the head.
        let found = self.look_at(sandbox, View::News)?;
        // What could not be looked at is not remembered as seen.
        let is_whole = found.unreadable.is_empty();
        if is_whole {
            self.remember(sandbox, &found)?;
        }
        Ok(is_whole)
    }

    /// Whether the head may have got something since the last look.
    fn has_news(&self, sandbox: &Sandbox) -> Result<bool, EngineError> {
        if self.heads_are_empty(sandbox)? {
            return Ok(false);
        }
        let directory = self.directory(sandbox)?;
        let head = directory.join("head");
        let heads: Vec<PathBuf> = (0..sandbox.details.trees.len()).map(|number| head.join(number.to_string())).collect();
        // What is written in a copy shows in no directory.
        Ok(!sandbox.details.copied_trees.is_empty() || whatif_diff::watch::has_news(&directory.join("base"), &heads))
    }

    /// Writes down where the heads were looked at, so that the next look is needed only when there is something new.
    fn remember(&self, sandbox: &Sandbox, found: &Found) -> Result<(), EngineError> {
        let base = self.directory(sandbox)?.join("base");
        whatif_diff::watch::remember(&base, &found.directories).map_err(|e| EngineError::io("write", &base, e))
    }

    /// What git follows in a project.
    pub(crate) fn tracked(&self, project: &Path) -> Result<HashSet<PathBuf>, EngineError> {
        let git = Git::around(project, &self.caller.home, self.caller.is_root())?;
        Ok(git.map(|git| git.list(&[])).transpose()?.unwrap_or_default())
    }

    /// What a sandbox does not see of reality.
    pub(crate) fn masked_paths(&self, sandbox: &Sandbox) -> Result<Vec<PathBuf>, EngineError> {
        Ok(self.secrets_of(&sandbox.project, &sandbox.details)?.masked())
    }

    /// What is masked and what is shown rewritten in the sandboxes of a project that have these details.
    pub(crate) fn secrets_of(&self, project: &Path, details: &Details) -> Result<Secrets, EngineError> {
        let config = self.caller.config_for(project)?;
        Ok(secrets::of(&self.caller, &config, &details.masked, &details.exposed)?)
    }
}

impl Ground {
    /// What the sandbox started from, layer by layer.
    pub(crate) fn bases(&self, sandbox: &Sandbox) -> Result<Bases, EngineError> {
        self.bases_of(sandbox, View::Whole)
    }

    fn bases_of(&self, sandbox: &Sandbox, view: View<'_>) -> Result<Bases, EngineError> {
        let own = self.directory(sandbox)?.join("base");
        let (stack, last) = match view {
            View::Past(stack) => (stack, None),
            _ => (sandbox.details.position.stack.as_slice(), Some(own.clone())),
        };
        let chain: Vec<PathBuf> = stack.iter().map(|l| self.state.layer_path(l).join("base")).chain(last).collect();
        let chain: Vec<&Path> = chain.iter().map(PathBuf::as_path).collect();
        Bases::load_chain(&chain, Some(&self.undone_file())).map_err(|e| EngineError::io("use", &own, e))
    }

    /// The directories that reality gave other looks since they were copied for the sandbox.
    pub(crate) fn directories_changed_since_copied(&self, sandbox: &Sandbox) -> Result<Vec<PathBuf>, EngineError> {
        if sandbox.details.copied_trees.is_empty() {
            return Ok(Vec::new());
        }
        let directory = self.directory(sandbox)?;
        let mut changed = Vec::new();
        let trees = self.look_while_it_moves(sandbox, |now| self.trees(now, &directory, View::Whole))?;
        for tree in trees.iter().filter(|tree| tree.copied) {
            if let Some(copy) = tree.layers.first() {
                let found = whatif_diff::copied::changed_directories(copy, &tree.path);
                changed.extend(found.map_err(|e| EngineError::io("read", copy, e))?);
            }
        }
        Ok(changed)
    }

    /// The trees with the directories that make up each. All that should be there is.
    fn trees(&self, sandbox: &Sandbox, directory: &Path, view: View<'_>) -> Result<Vec<Tree>, EngineError> {
        let (has_head, stack) = match view {
            View::Whole | View::Head | View::News => (true, sandbox.details.position.stack.as_slice()),
            View::Past(stack) => (false, stack),
        };
        let owner = Owner::Sandbox(sandbox.name.clone());
        if has_head {
            self.require_heads(sandbox)?;
            self.require_no_stray_heads(sandbox)?;
        }
        self.require_layers(&owner, stack)?;
        let below: Vec<PathBuf> = stack.iter().rev().map(|l| self.state.layer_path(l)).collect();
        let mut trees = Vec::with_capacity(sandbox.details.trees.len());
        for (number, path) in sandbox.details.trees.iter().enumerate().filter(|(_, path)| !is_given_up(path)) {
            let copied = sandbox.details.copied_trees.contains(&number);
            let marks = marks_of(sandbox, number);
            let part = number.to_string();
            let mut layers: Vec<PathBuf> = has_head.then(|| directory.join("head").join(&part)).into_iter().collect();
            for layer in below.iter().map(|layer| layer.join(&part)) {
                // A tree that came later has no part in older layers.
                if is_directory(&layer)? {
                    layers.push(layer);
                }
            }
            trees.push(Tree { path: path.clone(), layers, marks, copied });
        }
        Ok(trees)
    }

    /// Where it is written down which applies are undone, for good: snapshots and exports outlive the pages of the history.
    pub(crate) fn undone_file(&self) -> PathBuf {
        self.state.root().join(UNDONE)
    }
}

/// Who writes the layers of one of a sandbox's trees.
pub(crate) fn marks_of(sandbox: &Sandbox, tree: usize) -> Format {
    match sandbox.details.backend {
        _ if sandbox.details.copied_trees.contains(&tree) => Format::None,
        Backend::Copy => Format::None,
        Backend::Fuse => Format::Fuse,
        Backend::Overlay if !sandbox.details.identity.started_by_root() => Format::User,
        Backend::Overlay => Format::Trusted,
    }
}

/// What of a sandbox to look at.
#[derive(Clone, Copy)]
enum View<'a> {
    /// Everything it changed.
    Whole,
    /// What it touched since the last snapshot: the paths, not what was done to them, as layers below may have them too.
    Head,
    /// The same, without what was there at the last look.
    News,
    /// What it had changed at a snapshot.
    Past(&'a [LayerId]),
}

/// From milliseconds since 1970.
pub(crate) fn seconds(milliseconds: u64) -> (i64, u32) {
    ((milliseconds / 1000) as i64, (milliseconds % 1000) as u32 * 1_000_000)
}
