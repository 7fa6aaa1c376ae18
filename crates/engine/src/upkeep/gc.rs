//! Reconciles the records with what is really there, and removes what nothing needs and what the rules do not keep.

mod allotments;
mod groups;
pub(crate) mod in_passing;
mod keepers;
mod mounts;
mod names;
pub(crate) mod policy;
mod races;
mod sandboxes;
mod sockets;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use whatif_layers::measure;
use whatif_layers::state_dir::{SandboxLock, Unsettled};
use whatif_sys::absence;
use whatif_types::config::{GcRules, Size};
use whatif_types::text::Text;
use whatif_types::{LayerId, MadeBy, SnapshotId, Span, Status};

pub use self::in_passing::InPassing;
pub use self::policy::RemovedSandbox;
use crate::choice::Choice;
use crate::ground::GroundError;
use crate::ground::intact::Incomplete;
use crate::ground::lineage::{LayerUse, Lineage, sizes};
use crate::ground::stack::Unknown;
use crate::owner::Owner;
use crate::upkeep::Upkeep;
use crate::{EngineError, now};

/// What was asked for; the rest is in the configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collect {
    pub dry_run: bool,
    pub older_than: Option<Span>,
    pub max_total: Option<Size>,
    pub unknown_layers: Unknown,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Collected {
    /// Sandboxes that were recorded as running and are not.
    pub found_stopped: Vec<String>,
    /// Records whose directory is gone, and that had nothing else.
    pub forgotten: Vec<String>,
    /// Sandboxes, snapshots and templates of which something is missing on the disk. They stay as they are.
    pub incomplete: Vec<Incomplete>,
    /// Directories no record knows. They may hold work, so they are named, not deleted.
    #[serde(with = "whatif_types::text::paths")]
    pub unknown: Vec<PathBuf>,
    /// Those of them that say what they were: `gc --adopt` records them again.
    #[serde(with = "whatif_types::text::paths")]
    pub adoptable: Vec<PathBuf>,
    /// Things of the running system that belong to no sandbox.
    pub orphans: Vec<Orphan>,
    /// Sandboxes that the rules remove.
    pub sandboxes: Vec<RemovedSandbox>,
    /// Sandboxes that the rules would remove, if nobody were at work on them and nothing were mounted in them.
    pub busy: Vec<String>,
    /// Races that ended long ago and of which nothing but the record is left.
    pub races: Vec<String>,
    /// Automatic snapshots that outlived their use.
    pub snapshots: Vec<Removal>,
    /// Layers that nothing needs (any more).
    pub layers: Vec<LayerUse>,
    /// Layers that no record ever knew, as after a lost or restored database. As long as there are any, no layer is deleted.
    pub unknown_layers: Vec<LayerUse>,
    /// What all of that frees.
    pub freed_bytes: u64,
    /// The layers that stay, and why. Only in a dry run.
    pub kept: Vec<LayerUse>,
    /// What removing each sandbox, snapshot or template would free. Only in a dry run.
    pub would_free: Vec<Removal>,
    pub dry_run: bool,
}

/// Something that can be removed, and what only it needs.
#[derive(Clone, Debug, Serialize)]
pub struct Removal {
    pub owner: Owner,
    pub bytes: u64,
}

/// Something that nobody owns.
#[derive(Clone, Debug, Serialize)]
pub struct Orphan {
    pub kind: OrphanKind,
    pub what: Text,
    pub action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OrphanKind {
    /// A keeper, with everything in its sandbox.
    Process,
    Mount,
    /// The name of a running sandbox that leads nowhere.
    Name,
    Socket,
    Group,
    /// A limit of the file system on a project without files.
    Quota,
}

/// What becomes of it; in a dry run, what would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Ended,
    Unmounted,
    Removed,
    /// Not certainly ours, or it resisted: for a person to look at.
    Left,
}

impl fmt::Display for OrphanKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "process",
            Self::Mount => "mount",
            Self::Name => "name",
            Self::Socket => "socket",
            Self::Group => "control group",
            Self::Quota => "project quota",
        })
    }
}

impl Collected {
    fn orphan(&mut self, kind: OrphanKind, what: impl Into<Text>, action: Action) {
        self.orphans.push(Orphan { kind, what: what.into(), action });
    }

    /// Whether this one goes with a sandbox that the rules remove.
    fn goes(&self, owner: &Owner) -> bool {
        policy::sandbox_of(owner).is_some_and(|name| self.sandboxes.iter().any(|s| s.name == name))
    }

    /// Does something about an orphan, or in a dry run nothing. What fails leaves it where it is.
    fn treat(&mut self, kind: OrphanKind, what: &Path, action: Action, treatment: impl FnOnce() -> bool) {
        let is_done = self.dry_run || treatment();
        self.orphan(kind, what, if is_done { action } else { Action::Left });
    }
}

impl Upkeep {
    /// `whatif gc`. (What crashes left is repaired before any command, so here it is done already.)
    pub fn collect(&self, asked: &Collect) -> Result<Collected, EngineError> {
        let mut collected = Collected { dry_run: asked.dry_run, ..Collected::default() };
        if !asked.dry_run {
            self.lifecycle.recycle_spent(&|| true);
        }
        self.reconcile(&mut collected)?;
        self.reconcile_keepers(&mut collected)?;
        self.reconcile_mounts(&mut collected)?;
        self.reconcile_names(&mut collected)?;
        self.reconcile_sockets(&mut collected)?;
        self.reconcile_groups(&mut collected)?;
        self.reconcile_allotments(&mut collected)?;
        let configured = &self.ground.caller.config.gc;
        let rules = GcRules {
            max_age: asked.older_than.or(configured.max_age),
            max_total: asked.max_total.or(configured.max_total),
            ..configured.clone()
        };
        self.remove_by_rules(&rules, &mut collected)?;
        self.collect_races(&mut collected)?;
        self.collect_layers(asked.unknown_layers, &mut collected)?;
        if !collected.dry_run {
            // A better way may work by now.
            Choice::forget(self.ground.state.root());
        }
        Ok(collected)
    }

    fn reconcile(&self, collected: &mut Collected) -> Result<(), EngineError> {
        let settled: BTreeSet<_> = self.ground.state.settled()?.into_iter().collect();
        let mut known = BTreeSet::new();
        for sandbox in self.ground.store.list()? {
            let was_active = sandbox.status == Status::Active;
            let sandbox = match if collected.dry_run { Ok(sandbox) } else { self.ground.refreshed(sandbox) } {
                // It went meanwhile.
                Err(EngineError::Ground(GroundError::NoSuchSandbox { .. })) => continue,
                other => other?,
            };
            if was_active && sandbox.status == Status::Stopped {
                collected.found_stopped.push(sandbox.name.clone());
            }
            if self.ground.state.find(&sandbox.id)?.is_none() {
                // Somebody has just removed it.
                if self.ground.store.get(&sandbox.id)?.is_none() {
                    continue;
                }
                // Its snapshots may be all there, and would go with its record.
                if !sandbox.details.position.stack.is_empty() || !self.ground.store.list_snapshots(&sandbox.id)?.is_empty() {
                    continue;
                }
                collected.forgotten.push(sandbox.name.clone());
                if !collected.dry_run {
                    self.ground.store.delete(&sandbox.id)?;
                }
                continue;
            }
            known.insert(sandbox.id);
        }
        // Recovery has run already; what is still here and not being worked on resisted it.
        for unsettled in self.ground.state.unsettled()? {
            let (path, lock) = match unsettled {
                // On a full disk it stays there, with all of its work.
                Unsettled::Sandbox(id) if self.ground.store.get(&id)?.is_some() => continue,
                Unsettled::Sandbox(id) => (self.ground.state.transient().join(id.as_str()), self.ground.state.inherit(&id)?),
                Unsettled::Apply(path) | Unsettled::Shift { note: path, .. } | Unsettled::Layers(path) => {
                    (path.clone(), SandboxLock::take(&path)?)
                }
            };
            if lock.is_some() {
                collected.unknown.push(path);
            }
        }
        for id in settled.difference(&known) {
            let path = self.ground.state.sandboxes().join(id.as_str());
            // One that went meanwhile was known.
            if absence::is_dir(&path).map_err(|e| EngineError::io("examine", &path, e))? {
                collected.adoptable.extend(self.is_adoptable(id)?.then(|| path.clone()));
                collected.unknown.push(path);
            }
        }
        collected.incomplete = self.ground.incomplete()?;
        collected.incomplete.retain(|one| !collected.forgotten.iter().any(|name| one.owner == Owner::Sandbox(name.clone())));
        Ok(())
    }

    /// First the snapshots that nobody will return to, then the layers that nobody needs without them.
    fn collect_layers(&self, unknown: Unknown, collected: &mut Collected) -> Result<(), EngineError> {
        let strange = self.ground.unknown_layers()?;
        let lineage = self.ground.lineage()?;
        let uses = self.ground.layers_in_use(&lineage)?;
        let bytes_of = sizes(&uses);
        let frees = |owner: &Owner| lineage.only_needed_by(owner).filter_map(|l| bytes_of.get(l)).sum();
        let old = self.outlived(&lineage);
        let mut ids: Vec<SnapshotId> = Vec::new();
        for (owner, id) in &old {
            collected.snapshots.push(Removal { owner: owner.clone(), bytes: frees(owner) });
            ids.push(id.clone());
        }
        let all_stay = self.ground.has_unrecorded()? || unknown == Unknown::Keep && !strange.is_empty();
        let goes = |layer: &LayerId| {
            !all_stay && lineage.owners(layer).iter().all(|o| old.iter().any(|(gone, _)| gone == o) || collected.goes(o))
        };
        let (gone, kept): (Vec<LayerUse>, Vec<LayerUse>) = uses.iter().cloned().partition(|u| goes(&u.layer));
        if collected.dry_run {
            let sandboxes = lineage.sandboxes.iter().map(|(s, _)| Owner::Sandbox(s.name.clone()));
            let snapshots = lineage
                .sandboxes
                .iter()
                .flat_map(|(s, all)| all.iter().map(move |l| Owner::Snapshot(format!("{}@{}", s.name, l.label))));
            let templates = lineage.templates.iter().map(|t| Owner::Template(t.name.clone()));
            let mut directories: BTreeMap<&str, PathBuf> = BTreeMap::new();
            for (sandbox, _) in &lineage.sandboxes {
                directories.extend(self.ground.state.find(&sandbox.id)?.map(|directory| (sandbox.name.as_str(), directory)));
            }
            let stays = |owner: &Owner| !collected.goes(owner) && !old.iter().any(|(gone, _)| gone == owner);
            let staying: Vec<Owner> = sandboxes.chain(snapshots).chain(templates).filter(stays).collect();
            for owner in staying {
                let own = match &owner {
                    Owner::Sandbox(name) => {
                        directories.get(name.as_str()).map(|d| measure::tree(d)).transpose()?.unwrap_or_default()
                    }
                    _ => measure::Measured::default(),
                };
                collected.would_free.push(Removal { bytes: own.bytes + frees(&owner), owner });
            }
            collected.would_free.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.owner.cmp(&b.owner)));
            collected.kept = kept;
            collected.layers = gone;
        } else {
            self.ground.store.delete_snapshots(&ids)?;
            let removed = self.ground.remove_unneeded_layers(unknown)?;
            collected.layers = uses.iter().filter(|u| removed.contains(&u.layer)).cloned().collect();
        }
        let is_left = |u: &&LayerUse| strange.contains(&u.layer) && !collected.layers.iter().any(|gone| gone.layer == u.layer);
        collected.unknown_layers = uses.iter().filter(is_left).cloned().collect();
        collected.freed_bytes += collected.layers.iter().map(|l| l.bytes).sum::<u64>();
        Ok(())
    }

    /// Automatic snapshots that are older than the configuration keeps them, unless a sandbox stands on one.
    fn outlived(&self, lineage: &Lineage) -> Vec<(Owner, SnapshotId)> {
        let oldest = now().saturating_sub(self.ground.caller.config.snapshots.keep_days.saturating_mul(86_400_000));
        let stood_on: BTreeSet<&SnapshotId> =
            lineage.sandboxes.iter().filter_map(|(s, _)| s.details.position.at.as_ref()).collect();
        let all = lineage.sandboxes.iter().flat_map(|(sandbox, snapshots)| snapshots.iter().map(move |s| (sandbox, s)));
        all.filter(|(_, s)| s.details.made_by != MadeBy::Request && s.created_at <= oldest && !stood_on.contains(&s.id))
            .map(|(sandbox, s)| (Owner::Snapshot(format!("{}@{}", sandbox.name, s.label)), s.id.clone()))
            .collect()
    }
}
