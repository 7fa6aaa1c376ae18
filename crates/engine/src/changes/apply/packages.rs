//! What an apply makes of packages: each is to be taken or left as a whole.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use whatif_diff::{ChangeSet, PackageGroup};

use super::{LeftOut, Step, What};
use crate::merge::Reason;

/// Packages of which an apply takes something.
#[derive(Clone, Debug)]
pub struct TakenPackages {
    pub group: PackageGroup,
    /// Files of it that become real, or are already.
    pub taken: usize,
    /// Files of it that are left out.
    pub left_out: usize,
    /// What becomes real, directories as well.
    pub paths: HashSet<PathBuf>,
}

impl TakenPackages {
    /// A part of them would become real: what is installed then is not what the package manager says.
    #[must_use]
    pub fn is_split(&self) -> bool {
        self.left_out > 0
    }
}

/// The packages of which something becomes real, as `manager:name`.
pub(super) fn touched(set: &ChangeSet, steps: &[Step]) -> Vec<String> {
    let groups: BTreeSet<usize> = steps.iter().filter_map(|step| set.packages.around(&step.path)).collect();
    let groups = groups.into_iter().filter_map(|number| set.packages.groups().get(number));
    let names = |group: &PackageGroup| -> Vec<String> {
        group.packages.iter().map(|package| format!("{}:{}", group.manager.name(), package.name)).collect()
    };
    groups.flat_map(names).collect()
}

pub(super) fn taken(set: &ChangeSet, steps: &[Step], real: &[&[PathBuf]], left_out: &[LeftOut]) -> Vec<TakenPackages> {
    let steps: HashMap<&Path, What> = steps.iter().map(|step| (step.path.as_path(), step.what)).collect();
    let real: HashSet<&Path> = real.iter().copied().flatten().map(PathBuf::as_path).collect();
    // What an earlier apply settled, or this one, is decided.
    let left: HashSet<&Path> = left_out.iter().filter(|l| l.reason != Reason::KeptReality).map(|l| l.path.as_path()).collect();
    let groups = set.packages.groups().iter();
    let none = |group: &PackageGroup| TakenPackages { group: group.clone(), taken: 0, left_out: 0, paths: HashSet::new() };
    let mut all: Vec<TakenPackages> = groups.map(none).collect();
    for change in set.changes.iter().flat_map(|c| [Some(c), c.deletion.as_deref()]).flatten() {
        let Some(packages) = set.packages.around(&change.path).and_then(|number| all.get_mut(number)) else { continue };
        let is_file = usize::from(!change.is_directory());
        let path = change.path.as_path();
        let is_step = steps.contains_key(path);
        if is_step {
            packages.paths.insert(path.to_owned());
        }
        if left.contains(path) || steps.get(path) == Some(&What::Part) {
            packages.left_out += is_file;
        } else if is_step || real.contains(path) {
            packages.taken += is_file;
        }
    }
    all.retain(|packages| !packages.paths.is_empty());
    all
}
