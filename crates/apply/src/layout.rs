//! Decides where everything is staged and in which order it is done. Also refuses plans that contradict themselves. Pure, so
//! recovery comes to the same layout from what is in the journal.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::plan::{Change, Kind, Operation, Plan, Source};

/// Where the new versions for one directory are staged, and where its earlier ones go first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Staging {
    /// In the directory itself, as `.whatif-<id>-<n>`. All that version 1 of the journal knows; now only where nothing else works.
    #[default]
    Beside,
    /// In `.whatif-<id>/` in the directory, which hides itself from git.
    Near,
    /// As `old/<n>.new` of the store, out of sight. Needs the same mount.
    Store,
}

/// Keeps git from seeing what is staged near its target.
pub(crate) const IGNORE: (&str, &[u8]) = (".gitignore", b"*\n");

/// A name in a directory of a root. The root after the last one of the plan is the `old/` of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub root: usize,
    pub directory: PathBuf,
    pub name: OsString,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Staged at its temporary name, then given its own.
    Publish,
    /// Part of a new directory that is published as a whole.
    Nested {
        top: usize,
    },
    Remove,
    Set,
}

/// What is to be done for one operation.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub role: Role,
    pub target: Spot,
    /// Where the new version is staged and where the old one goes first.
    pub temporary: Spot,
    /// That place is a directory of ours, which goes when all is done.
    pub is_apart: bool,
    /// The directory that stays in which it happens: that of the target, or the one around it if that goes too.
    pub anchor: PathBuf,
    /// For messages.
    pub path: PathBuf,
}

/// Indices of operations, in the order in which they are done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub steps: Vec<Step>,
    /// Directories of staged trees, outer first.
    pub stage_directories: Vec<usize>,
    /// All other things to be staged, hard links last.
    pub stage_entries: Vec<usize>,
    /// New ones, and those that replace anything but a directory.
    pub publish: Vec<usize>,
    /// Inner first.
    pub remove: Vec<usize>,
    /// Those that replace a directory, which is empty by then.
    pub publish_over_directories: Vec<usize>,
    pub set_files: Vec<usize>,
    /// Inner first, so that no directory is closed before what is in it is done.
    pub set_directories: Vec<usize>,
    /// What is in each staged tree, outer first.
    pub nested: BTreeMap<usize, Vec<usize>>,
    /// Existing directories in which names come and go.
    pub parents: Vec<(usize, PathBuf)>,
    /// The staging directories that are made near their targets, by root and path.
    pub near: BTreeSet<(usize, PathBuf)>,
}

impl Layout {
    /// `id` makes the temporary names unique.
    pub(crate) fn of(plan: &Plan, id: &str) -> Result<Self, Vec<Problem>> {
        let problems = refuse_bad_paths(plan);
        if !problems.is_empty() {
            return Err(problems);
        }
        let paths: Vec<PathBuf> = plan.operations.iter().map(|o| o.absolute(&plan.roots)).collect();
        let index: HashMap<&Path, usize> = paths.iter().enumerate().map(|(n, p)| (p.as_path(), n)).collect();
        let problems = refuse_contradictions(plan, &paths, &index);
        if !problems.is_empty() {
            return Err(problems);
        }

        let mut layout = Self::default();
        let mut outer_first: Vec<usize> = (0..paths.len()).collect();
        outer_first.sort_by(|a, b| paths[*a].cmp(&paths[*b]));
        let mut steps: Vec<Option<Step>> = vec![None; paths.len()];
        for n in &outer_first {
            let operation = &plan.operations[*n];
            let parent = paths[*n].parent().and_then(|p| index.get(p)).copied().filter(|p| is_new_directory(&plan.operations[*p]));
            let target = spot(operation);
            let (role, temporary) = match (parent.and_then(|p| steps[p].as_ref().map(|s| (p, s))), role_of(operation)) {
                (Some((parent, step)), Role::Publish) => {
                    let top = if let Role::Nested { top } = step.role { top } else { parent };
                    let directory = step.temporary.directory.join(&step.temporary.name);
                    (Role::Nested { top }, Spot { root: operation.root, directory, name: target.name.clone() })
                }
                (_, role) => {
                    let name = OsString::from(format!(".whatif-{id}-{n}"));
                    // What goes together with its directory must not keep that directory from being empty.
                    let outside = going_parent(plan, &paths[*n], &index).and_then(|p| steps[p].as_ref()).map(|s| &s.temporary);
                    let directory = outside.map_or_else(|| target.directory.clone(), |spot| spot.directory.clone());
                    (role, Spot { root: operation.root, directory, name })
                }
            };
            let anchor = temporary.directory.clone();
            steps[*n] = Some(Step { role, target, temporary, is_apart: false, anchor, path: paths[*n].clone() });
        }
        layout.steps = steps.into_iter().flatten().collect();
        layout.sort(plan, &outer_first);
        Ok(layout)
    }

    /// Moves what would be staged beside its target to where its directory is to be staged.
    pub(crate) fn stage_in(&mut self, plan: &Plan, id: &str, staging: impl Fn(usize, &Path) -> Staging) {
        let store = plan.roots.len();
        let inside = |spot: &Spot| spot.directory.join(&spot.name);
        for n in 0..self.steps.len() {
            let step = &mut self.steps[n];
            if !matches!(step.role, Role::Publish | Role::Remove) {
                continue;
            }
            // In either place, so that a name is never given for two things.
            let (beside, name) = (step.temporary.clone(), OsString::from(format!("{n}.new")));
            step.temporary = match staging(beside.root, &beside.directory) {
                Staging::Beside => continue,
                Staging::Near => {
                    let directory = beside.directory.join(format!(".whatif-{id}"));
                    self.near.insert((beside.root, directory.clone()));
                    Spot { root: beside.root, directory, name }
                }
                Staging::Store => Spot { root: store, directory: PathBuf::new(), name },
            };
            step.is_apart = true;
            let (root, from, to) = (step.temporary.root, inside(&beside), inside(&step.temporary));
            for inner in self.nested.get(&n).into_iter().flatten() {
                let spot = &mut self.steps[*inner].temporary;
                let below = spot.directory.strip_prefix(&from).map(Path::to_owned).unwrap_or_default();
                spot.directory = if below.as_os_str().is_empty() { to.clone() } else { to.join(below) };
                spot.root = root;
            }
        }
    }

    fn sort(&mut self, plan: &Plan, outer_first: &[usize]) {
        let mut parents = BTreeSet::new();
        let mut hard_links = Vec::new();
        for &n in outer_first {
            let (operation, step) = (&plan.operations[n], &self.steps[n]);
            match step.role {
                Role::Publish if operation.before_kind() == Some(Kind::Directory) => self.publish_over_directories.push(n),
                Role::Publish => self.publish.push(n),
                Role::Remove => self.remove.push(n),
                Role::Set if operation.before_kind() == Some(Kind::Directory) => self.set_directories.push(n),
                Role::Set => self.set_files.push(n),
                Role::Nested { top } => self.nested.entry(top).or_default().push(n),
            }
            if matches!(step.role, Role::Publish | Role::Remove) {
                parents.insert((operation.root, step.target.directory.clone()));
            }
            if matches!(step.role, Role::Publish | Role::Nested { .. }) {
                match operation.source() {
                    Some(Source::Directory) => self.stage_directories.push(n),
                    Some(Source::HardLink(_)) => hard_links.push(n),
                    _ => self.stage_entries.push(n),
                }
            }
        }
        self.stage_entries.append(&mut hard_links);
        // A path sorts before everything in it.
        self.remove.reverse();
        self.set_directories.reverse();
        self.parents = parents.into_iter().collect();
    }

    /// Root and path of everything that is removed.
    pub(crate) fn removed(&self) -> HashSet<(usize, PathBuf)> {
        let spots = self.remove.iter().map(|n| &self.steps[*n].target);
        spots.map(|spot| (spot.root, spot.directory.join(&spot.name))).collect()
    }

    /// Everything that gets an inode of its own.
    pub(crate) fn staged(&self) -> impl Iterator<Item = usize> + '_ {
        self.stage_directories.iter().chain(&self.stage_entries).copied()
    }

    /// Everything whose own name is swapped, in that order.
    pub(crate) fn published(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.publish.iter().chain(&self.publish_over_directories).copied()
    }
}

/// The operation whose inode a chain of hard links leads to.
pub(crate) fn link_base(plan: &Plan, mut n: usize) -> Option<usize> {
    for _ in 0..=plan.operations.len() {
        match plan.operations.get(n)?.source()? {
            Source::HardLink(next) => n = *next,
            Source::File(_)
            | Source::Approved(_)
            | Source::Bytes(_)
            | Source::Link(_)
            | Source::Original(_)
            | Source::Existing(_) => return Some(n),
            Source::Directory => return None,
        }
    }
    None
}

fn role_of(operation: &Operation) -> Role {
    match &operation.change {
        Change::Put { source: Source::Directory, .. } if operation.before_kind() == Some(Kind::Directory) => Role::Set,
        Change::Put { .. } => Role::Publish,
        Change::Remove => Role::Remove,
        Change::Set { .. } => Role::Set,
    }
}

/// The directory around it, if that goes.
fn going_parent(plan: &Plan, path: &Path, index: &HashMap<&Path, usize>) -> Option<usize> {
    let parent = path.parent().and_then(|p| index.get(p)).copied()?;
    let operation = &plan.operations[parent];
    (operation.before_kind() == Some(Kind::Directory) && role_of(operation) != Role::Set).then_some(parent)
}

fn is_new_directory(operation: &Operation) -> bool {
    operation.source() == Some(&Source::Directory) && operation.before_kind() != Some(Kind::Directory)
}

pub(crate) fn spot(operation: &Operation) -> Spot {
    let directory = operation.path.parent().map(Path::to_owned).unwrap_or_default();
    Spot { root: operation.root, directory, name: operation.path.file_name().map(ToOwned::to_owned).unwrap_or_default() }
}

fn refuse_bad_paths(plan: &Plan) -> Vec<Problem> {
    let mut problems = Vec::new();
    for root in &plan.roots {
        let plain = root.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)))
            && root.components().collect::<PathBuf>().as_os_str() == root.as_os_str();
        if !plain || !root.is_absolute() {
            problems.push(Problem::new(root, "is not an absolute, plain path and cannot be a root", ""));
        }
    }
    let existing = plan.operations.iter().filter_map(|o| o.existing().map(|e| (e.root, &e.path)));
    for (root, path) in existing {
        let is_plain = !path.as_os_str().is_empty() && path.components().all(|c| matches!(c, Component::Normal(_)));
        if root >= plan.roots.len() || !is_plain {
            problems.push(Problem::new(path, "cannot get a further name: it is not a plain path beneath a root", ""));
        }
    }
    for operation in &plan.operations {
        let path = &operation.path;
        let bytes = path.as_os_str().as_bytes();
        // `components` quietly drops `.`, double and trailing slashes; put together again they must be the same bytes.
        let normal = path.components().all(|c| matches!(c, Component::Normal(_)))
            && path.components().collect::<PathBuf>().as_os_str().as_bytes() == bytes
            && !bytes.contains(&0);
        let root_itself = bytes.is_empty();
        let what = if operation.root >= plan.roots.len() {
            "belongs to no root of the plan"
        } else if !normal {
            "is not a plain path beneath its root"
        } else if root_itself && !matches!(operation.change, Change::Set { .. }) {
            "is a root and can be neither replaced nor removed"
        } else if bytes.len() >= 4096 - 64 {
            "is too long"
        } else if path.components().any(|c| c.as_os_str().len() > 255) {
            "has a name that is too long"
        } else {
            continue;
        };
        problems.push(Problem::new(operation.absolute(&plan.roots), what, ""));
    }
    problems
}

fn refuse_contradictions(plan: &Plan, paths: &[PathBuf], index: &HashMap<&Path, usize>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (n, (operation, path)) in plan.operations.iter().zip(paths).enumerate() {
        let mut refuse = |what: &str| problems.push(Problem::new(path, what, ""));
        if index.get(path.as_path()) != Some(&n) {
            refuse("occurs twice in the plan");
        }
        if role_of(operation) != Role::Set && plan.roots.iter().any(|r| r.starts_with(path)) {
            refuse("holds the root of another tree");
        }
        match (&operation.change, operation.before_kind()) {
            (Change::Remove | Change::Set { .. }, None) => refuse("is to be changed, but is expected to be absent"),
            (Change::Set { .. }, Some(Kind::Link | Kind::Other)) => refuse("can only be replaced, not changed in place"),
            (Change::Put { source: Source::HardLink(_), .. }, _) if link_base(plan, n).is_none_or(|base| base == n) => {
                refuse("is to be a hard link to something the plan does not create");
            }
            (Change::Put { source: Source::Existing(existing), .. }, _) => {
                let first = existing.absolute(&plan.roots);
                if existing.identity.kind != Kind::File || index.contains_key(first.as_path()) {
                    refuse("cannot become a further name of something that the plan changes, or that is not a file");
                }
            }
            (Change::Put { source: Source::Link(target), attributes }, _) => {
                if target.is_empty() || target.len() >= 4096 || target.as_bytes().contains(&0) {
                    refuse("cannot lead there: the target of a link has 1 to 4095 bytes");
                }
                if !attributes.xattrs.is_empty() {
                    refuse("is a link and cannot have extended attributes");
                }
            }
            _ => {}
        }
        if let Some(what) = against_ancestors(plan, operation, path, index) {
            refuse(what);
        }
    }
    problems
}

/// What the nearest changed directory above has against an operation. Those further up are its own business.
fn against_ancestors(plan: &Plan, operation: &Operation, path: &Path, index: &HashMap<&Path, usize>) -> Option<&'static str> {
    let above = path.ancestors().skip(1).find_map(|p| index.get(p).map(|n| (p, &plan.operations[*n])));
    let (above_path, above) = above?;
    let removed = matches!(operation.change, Change::Remove);
    match &above.change {
        _ if above.before_kind().is_some_and(|k| k != Kind::Directory) && removed => {
            Some("cannot be there: a directory above is none")
        }
        Change::Set { .. } => {
            (above.before_kind() != Some(Kind::Directory)).then_some("would lie in something that is no directory")
        }
        Change::Remove => (!removed).then_some("would lie in a directory that is removed"),
        Change::Put { source: Source::Directory, .. } if !is_new_directory(above) => None,
        Change::Put { source: Source::Directory, .. } if removed => Some("cannot be there: the directory is new"),
        Change::Put { source: Source::Directory, .. } if path.parent() != Some(above_path) => {
            Some("would lie in a directory that does not exist")
        }
        Change::Put { source: Source::Directory, .. } => match operation.before_kind() {
            None => None,
            Some(_) => Some("cannot be there: the directory is new"),
        },
        Change::Put { source: Source::Link(_), .. } if !removed => Some("would be reached through a link that the plan makes"),
        Change::Put { .. } => (!removed).then_some("would lie in something that is no directory"),
    }
}
