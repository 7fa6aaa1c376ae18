//! The directories of reality that a sandbox's trees are mounted over.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, makedev, statx};
use rustix::io::Errno;
use whatif_sys::absence::OrAbsent;
use whatif_sys::direct;
use whatif_types::Sandbox;
use whatif_types::sandbox::{Root, is_given_up};

use crate::EngineError;
use crate::trees::tree_of;

/// Those that reality has now. One that cannot be looked at is not among them.
pub(crate) fn of<'a>(trees: impl Iterator<Item = (usize, &'a Path)>) -> Vec<Root> {
    trees.filter_map(|(tree, path)| now(tree, path).ok().flatten()).collect()
}

/// Those that were mounted, with their paths.
pub(crate) fn mounted(sandbox: &Sandbox) -> impl Iterator<Item = (&PathBuf, &Root)> {
    let roots = sandbox.details.position.viewed.iter().flat_map(|viewed| &viewed.roots);
    roots.filter_map(|root| Some((sandbox.details.trees.get(root.tree)?, root)))
}

/// Whether reality has another directory in the place of one that is mounted. One that is only gone is no other, and where a file
/// system was mounted or unmounted the sandbox would be cut differently. One that cannot be looked at any more may be another.
pub(crate) fn any_replaced(sandbox: &Sandbox) -> bool {
    let is_other = |now: Root, root: &Root| now.id != root.id && now.is_mount == root.is_mount;
    mounted(sandbox).any(|(path, root)| now(root.tree, path).map_or(true, |now| now.is_some_and(|now| is_other(now, root))))
}

/// The numbers of those at which a file system is mounted.
pub(crate) fn mounts(roots: &[Root]) -> impl Iterator<Item = usize> {
    roots.iter().filter(|root| root.is_mount).map(|root| root.tree)
}

/// The trees at which a file system is mounted, and others.
pub(crate) fn mounts_and(roots: &[Root], others: &[usize]) -> Vec<usize> {
    let numbers: BTreeSet<usize> = mounts(roots).chain(others.iter().copied()).collect();
    numbers.into_iter().collect()
}

/// The file systems that were mounted and are not any more.
pub(crate) fn unmounted(sandbox: &Sandbox) -> impl Iterator<Item = &PathBuf> {
    let roots = sandbox.details.position.viewed.as_ref().map_or(&[][..], |viewed| &viewed.roots);
    let was_mount = |number: usize| sandbox.details.mounted_trees.contains(&number) || mounts(roots).any(|tree| tree == number);
    let is_mount = |number: usize, path: &Path| matches!(now(number, path), Ok(Some(now)) if now.is_mount);
    let trees = sandbox.details.trees.iter().enumerate().filter(|(_, tree)| !is_given_up(tree));
    trees.filter(move |(number, path)| was_mount(*number) && !is_mount(*number, path)).map(|(_, path)| path)
}

/// The first place, within the trees of a sandbox, at which reality has something mounted over one of these paths. The sandbox had
/// what is beneath it.
pub(crate) fn mounted_over<'a>(sandbox: &Sandbox, paths: impl Iterator<Item = &'a Path>) -> Result<Option<&'a Path>, EngineError> {
    let mut looked_at: HashSet<&Path> = HashSet::new();
    for path in paths {
        let Some((_, tree)) = tree_of(sandbox, path) else { continue };
        for place in path.ancestors().take_while(|place| *place != tree) {
            if !looked_at.insert(place) {
                break;
            }
            match is_mount(place) {
                Ok(true) => return Ok(Some(place)),
                // Nothing is mounted by a name that the kernel does not take.
                Ok(false) | Err(Errno::NAMETOOLONG) => {}
                Err(errno) => return Err(EngineError::io("examine", place, errno.into())),
            }
        }
    }
    Ok(None)
}

/// Where reality has a link in the place of a directory of the sandbox's, what that leads to is somewhere else.
fn is_mount(path: &Path) -> Result<bool, Errno> {
    let Some(held) = direct::find(path)? else { return Ok(false) };
    let found = statx(held, "", AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT, StatxFlags::INO)?;
    Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

fn now(tree: usize, path: &Path) -> Result<Option<Root>, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let Some(found) = statx(CWD, path, flags, StatxFlags::INO).or_absent()? else { return Ok(None) };
    let is_mount = found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    Ok(Some(Root { tree, id: (makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino), is_mount }))
}

/// The number of the tree that a path lies in, and where in it.
pub(crate) fn in_tree<'p>(sandbox: &Sandbox, path: &'p Path) -> Option<(usize, &'p Path)> {
    let trees = sandbox.details.trees.iter().enumerate().filter(|(_, tree)| path.starts_with(tree));
    let (number, tree) = trees.max_by_key(|(_, tree)| tree.as_os_str().len())?;
    Some((number, path.strip_prefix(tree).ok()?))
}
