//! `whatif du`: what takes how much room, and what could go.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use whatif_diff::{ChangeSet, Depth, Found};
use whatif_layers::measure;
use whatif_types::{LayerId, Sandbox, Selector};

use crate::EngineError;
use crate::ground::lineage::{LayerUse, Lineage, sizes};
use crate::ground::still::Binding;
use crate::ground::{Ground, GroundError};
use crate::owner::Owner;

/// A directory that holds at least this share of a sandbox's changes is worth a word.
const REMARKABLE_PERCENT: u64 = 50;
/// Nobody minds a large share of little.
const REMARKABLE_BYTES: u64 = 1 << 20;

const MEASURED_EVERY: Duration = Duration::from_secs(60);

/// All there is.
#[derive(Clone, Debug, Serialize)]
pub struct Usage {
    pub sandboxes: Vec<SandboxUsage>,
    pub templates: Vec<TemplateUsage>,
    /// Layers of all of them, each counted once.
    pub layers_bytes: u64,
    /// What undo and history keep.
    pub applies_bytes: u64,
    /// Everything in the state directory, as it is on the disk.
    pub total_bytes: u64,
    /// Free in its file system.
    pub free_bytes: u64,
    /// What the configuration says about that, if it says anything.
    pub alert: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct SandboxUsage {
    pub name: String,
    /// Changed since the last snapshot.
    pub head_bytes: u64,
    pub head_files: u64,
    /// The layers it stands on, shared ones too.
    pub layers_bytes: u64,
    /// What removing it, with its snapshots, would free.
    pub own_bytes: u64,
    pub snapshots: Vec<SnapshotUsage>,
    pub hint: Option<Hint>,
}

#[derive(Clone, Debug, Serialize)]
pub struct SnapshotUsage {
    pub label: String,
    /// What changed from the one before to this.
    pub layer_bytes: u64,
    /// What removing it alone would free.
    pub own_bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct TemplateUsage {
    pub name: String,
    pub layers_bytes: u64,
    pub own_bytes: u64,
}

/// Where most of it is.
#[derive(Clone, Debug, Serialize)]
pub struct Hint {
    #[serde(with = "whatif_types::text::path")]
    pub directory: PathBuf,
    pub percent: u64,
    pub bytes: u64,
    /// The project ignores it, so it can be made again.
    pub is_ignored: bool,
    /// A snapshot has it: it stays on the disk although it is deleted inside.
    pub is_in_layers: bool,
}

impl Ground {
    /// Of all sandboxes, or of one.
    pub fn usage(&self, one: Option<&Selector>) -> Result<Usage, EngineError> {
        let lineage = self.lineage()?;
        let uses = self.layers_in_use(&lineage)?;
        let bytes_of = sizes(&uses);
        let sum = |layers: &[LayerId]| layers.iter().filter_map(|l| bytes_of.get(l)).sum::<u64>();
        let only = |owner: &Owner| lineage.only_needed_by(owner).filter_map(|l| bytes_of.get(l)).sum::<u64>();
        let wanted = one.map(|which| self.resolve(which)).transpose()?;
        let mut sandboxes = Vec::new();
        for (sandbox, snapshots) in &lineage.sandboxes {
            if wanted.as_ref().is_some_and(|w| w.id != sandbox.id) {
                continue;
            }
            let Some(directory) = self.state.find(&sandbox.id)? else { continue };
            let head = measure::tree(&directory.join("head"))?;
            let rest = measure::tree(&directory)?;
            let snapshots = snapshots.iter().map(|s| SnapshotUsage {
                label: s.label.clone(),
                layer_bytes: s.details.stack.last().and_then(|l| bytes_of.get(l)).copied().unwrap_or(0),
                own_bytes: only(&Owner::Snapshot(format!("{}@{}", sandbox.name, s.label))),
            });
            let hint = match self.heaviest(sandbox, &own_layers(&lineage, sandbox)) {
                // It went meanwhile.
                Err(EngineError::Ground(GroundError::NoSuchSandbox { .. })) => continue,
                // Another command may be replacing its head. If it is really missing, `ls` and `doctor` say so.
                Err(EngineError::Ground(GroundError::Incomplete { .. })) => None,
                other => other?,
            };
            sandboxes.push(SandboxUsage {
                name: sandbox.name.clone(),
                head_bytes: head.bytes,
                head_files: head.files,
                layers_bytes: sum(&sandbox.details.position.stack),
                own_bytes: rest.bytes + only(&Owner::Sandbox(sandbox.name.clone())),
                snapshots: snapshots.collect(),
                hint,
            });
        }
        let templates = lineage.templates.iter().map(|t| TemplateUsage {
            name: t.name.clone(),
            layers_bytes: sum(&t.details.position.stack),
            own_bytes: only(&Owner::Template(t.name.clone())),
        });
        let total_bytes = measure::tree(self.state.root())?.bytes;
        let free_bytes = self.free_bytes()?;
        Ok(Usage {
            sandboxes,
            templates: templates.collect(),
            layers_bytes: layers_once(&uses),
            applies_bytes: measure::tree(&self.state.root().join("applies"))?.bytes,
            total_bytes,
            free_bytes,
            alert: self.caller.config.disk.alert(total_bytes, free_bytes),
        })
    }

    /// Fails if the configuration says that nothing new may be made.
    pub(crate) fn check_room(&self) -> Result<(), EngineError> {
        let rules = &self.caller.config.disk;
        if rules.limit.is_none() && rules.keep_free.is_none() {
            return Ok(());
        }
        let (total, free) = (self.total_bytes(rules.limit.is_some())?, self.free_bytes()?);
        match rules.alert(total, free) {
            Some(why) if rules.forbids(total, free) => Err(GroundError::NoRoom { why }.into()),
            _ => Ok(()),
        }
    }

    /// What the configuration wants to be said about the room that is taken, if anything.
    pub fn disk_alert(&self) -> Option<String> {
        let rules = &self.caller.config.disk;
        rules.warn?;
        rules.alert(self.total_bytes(true).ok()?, self.free_bytes().ok()?)
    }

    /// Everything in the state directory, as of a minute ago at most: it takes a while to measure.
    fn total_bytes(&self, wanted: bool) -> Result<u64, EngineError> {
        let path = self.state.cache().join("disk-use");
        let is_fresh = |m: fs::Metadata| m.modified().ok()?.elapsed().ok().map(|age| age < MEASURED_EVERY);
        let known = fs::metadata(&path).ok().and_then(is_fresh).unwrap_or(false);
        match fs::read_to_string(&path).ok().and_then(|text| text.parse().ok()).filter(|_| known || !wanted) {
            Some(total) => Ok(total),
            None if !wanted => Ok(0),
            None => {
                let total = measure::tree(self.state.root())?.bytes;
                let _ = fs::write(&path, total.to_string());
                Ok(total)
            }
        }
    }

    /// Something was removed: what was measured is not true any more.
    pub(crate) fn forget_size(&self) {
        let _ = fs::remove_file(self.state.cache().join("disk-use"));
    }

    pub(crate) fn free_bytes(&self) -> Result<u64, EngineError> {
        let root = self.state.root();
        let found = rustix::fs::statvfs(root).map_err(|e| EngineError::io("examine", root, e.into()))?;
        Ok(found.f_bavail * found.f_frsize)
    }

    /// The directory of the project that holds most of what a sandbox changed since its last snapshot, or else of what it has in
    /// layers of its own.
    fn heaviest(&self, sandbox: &Sandbox, own_layers: &[LayerId]) -> Result<Option<Hint>, EngineError> {
        if !self.heads_are_empty(sandbox)?
            && let Some(hint) = self.heaviest_of(sandbox, self.touched(sandbox)?)?
        {
            return Ok(Some(hint));
        }
        if own_layers.is_empty() {
            return Ok(None);
        }
        let hint = self.heaviest_of(sandbox, self.changes_in(sandbox, own_layers)?)?;
        Ok(hint.map(|hint| Hint { is_in_layers: true, ..hint }))
    }

    fn heaviest_of(&self, sandbox: &Sandbox, found: Found) -> Result<Option<Hint>, EngineError> {
        let set = self.sort_out(sandbox, found, Depth::Names, Binding::LOOSE)?;
        Ok(heaviest_directory(&set, &sandbox.project))
    }
}

/// Those it stands on and nobody else needs, bottom first.
fn own_layers(lineage: &Lineage, sandbox: &Sandbox) -> Vec<LayerId> {
    let owner = Owner::Sandbox(sandbox.name.clone());
    let own: HashSet<&LayerId> = lineage.only_needed_by(&owner).collect();
    sandbox.details.position.stack.iter().filter(|layer| own.contains(layer)).cloned().collect()
}

fn heaviest_directory(set: &ChangeSet, project: &Path) -> Option<Hint> {
    let mut directories: BTreeMap<&Path, (u64, bool)> = BTreeMap::new();
    let mut total = 0;
    for change in &set.changes {
        let Some(bytes) = change.after.as_ref().map(|a| a.node.blocks * 512) else { continue };
        total += bytes;
        let inside = change.path.strip_prefix(project).ok();
        let mut components = inside.into_iter().flat_map(Path::components);
        let Some(first) = components.next().map(|c| Path::new(c.as_os_str())) else { continue };
        if components.next().is_none() {
            continue;
        }
        let entry = directories.entry(first).or_insert((0, true));
        entry.0 += bytes;
        entry.1 &= change.ignored;
    }
    let (directory, (bytes, is_ignored)) = directories.into_iter().max_by_key(|(_, (bytes, _))| *bytes)?;
    let percent = bytes * 100 / total.max(1);
    let is_worth_it = percent >= REMARKABLE_PERCENT && bytes >= REMARKABLE_BYTES;
    is_worth_it.then(|| Hint { directory: directory.to_owned(), percent, bytes, is_ignored, is_in_layers: false })
}

fn layers_once(uses: &[LayerUse]) -> u64 {
    uses.iter().map(|u| u.bytes).sum()
}
