//! The trees of reality that a sandbox has heads for, by number.

use std::path::{Path, PathBuf};

use whatif_types::paths::is_within;
use whatif_types::{Backend, PlaceKind, Plan, Sandbox};

/// The tree that a path lies in, and its number.
pub(crate) fn tree_of<'s>(sandbox: &'s Sandbox, path: &Path) -> Option<(usize, &'s Path)> {
    let trees = sandbox.details.trees.iter().enumerate().filter(|(_, tree)| is_within(path, tree));
    trees.max_by_key(|(_, tree)| tree.as_os_str().len()).map(|(number, tree)| (number, tree.as_path()))
}

/// Whether the sandbox has a copy of what reality had at this path.
pub(crate) fn lies_in_copy(sandbox: &Sandbox, path: &Path) -> bool {
    tree_of(sandbox, path).is_some_and(|(number, _)| sandbox.details.copied_trees.contains(&number))
}

pub(crate) fn copied_trees(plan: &Plan) -> Vec<usize> {
    let copies_all = plan.backend == Backend::Copy;
    let copied = plan.places.iter().filter_map(|place| match place.kind {
        PlaceKind::Skeleton { tree } => Some(tree),
        PlaceKind::Writable { tree } if copies_all => Some(tree),
        _ => None,
    });
    copied.collect()
}

/// Those that have a number, and the new ones of a plan. A number that was given once is never given to another tree, even while
/// its mount or directory is absent.
pub(crate) fn trees_by_number(known: &[PathBuf], plan: &Plan) -> Vec<PathBuf> {
    let mut new: Vec<(usize, &Path)> = plan.trees().filter(|(number, _)| *number >= known.len()).collect();
    new.sort();
    known.iter().cloned().chain(new.into_iter().map(|(_, path)| path.to_owned())).collect()
}
