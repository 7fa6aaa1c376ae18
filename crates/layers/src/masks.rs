//! Mask layers: what hides credentials, between the base and the head of each tree.
//!
//! A whiteout in a layer of its own makes a path absent inside, under whatever name the sandbox moves its parents to, and keeps
//! the head free of anything the sandbox did not do itself. The layer is described here and made in memory by `assemble`: it
//! cannot lie in the state directory, because overlayfs refuses a lower layer that lies within another one.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use whatif_sys::absence::MeansAbsent;
use whatif_types::boot::{Attributes, MaskDirectory, MaskFile, Masks, TreeMask};
use whatif_types::mountinfo::{Mount, aliases_of};
use whatif_types::{Place, PlaceKind, Plan};

use crate::{PathError, on};

/// A file that is shown with other content, and who makes that content.
#[derive(Clone, Debug)]
pub struct Rewrite {
    pub path: PathBuf,
    pub content: fn(&Path, &Path) -> io::Result<String>,
}

/// Describes the mask layers for a plan. `cache` is a directory in which a rewrite may remember what was costly to find out.
pub fn describe(plan: &Plan, mounts: &[Mount], hidden: &[PathBuf], rewrites: &[Rewrite], cache: &Path) -> Result<Masks, PathError> {
    let mut masks = Described { plan, trees: BTreeMap::new(), files: Vec::new() };
    for path in hidden {
        masks.hide(path)?;
        // A link to the secret must not leave the secret itself in the open.
        if reachable(fs::symlink_metadata(path), path)?.is_some_and(|m| m.is_symlink())
            && let Some(real) = reachable(fs::canonicalize(path), path)?
        {
            masks.hide(&real)?;
        }
        for alias in aliases_of(mounts, path) {
            masks.hide(&alias)?;
        }
    }
    for rewrite in rewrites {
        // Under its real name: a file that a link leads to is as much in the open as any other.
        let Some(real) = reachable(fs::canonicalize(&rewrite.path), &rewrite.path)? else { continue };
        let Some(metadata) = reachable(fs::symlink_metadata(&real), &real)? else { continue };
        if metadata.is_file() {
            let content = (rewrite.content)(&rewrite.path, cache).map_err(on("read", &rewrite.path))?;
            for alias in aliases_of(mounts, &real) {
                masks.rewrite(&alias, content.clone(), &metadata)?;
            }
            masks.rewrite(&real, content, &metadata)?;
        }
    }
    let trees = masks.trees.into_iter().map(|(tree, mask)| TreeMask { tree, ..mask.into_mask() }).collect();
    Ok(Masks { trees, files: masks.files })
}

/// What this user cannot reach is not reached inside either, and needs no mask. After any other error a secret might be left in
/// the open.
fn reachable<T>(looked: io::Result<T>, path: &Path) -> Result<Option<T>, PathError> {
    match looked {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied || leads_nowhere(&error) => Ok(None),
        other => other.map(Some).map_err(on("examine", path)),
    }
}

fn leads_nowhere(error: &io::Error) -> bool {
    error.means_absent() || Errno::from_io_error(error) == Some(Errno::LOOP)
}

struct Described<'a> {
    plan: &'a Plan,
    trees: BTreeMap<usize, OneTree>,
    files: Vec<MaskFile>,
}

#[derive(Default)]
struct OneTree {
    /// Sorted, so that parents come before children. `None`: not a directory in reality.
    directories: BTreeMap<PathBuf, Option<Attributes>>,
    hidden: Vec<PathBuf>,
    rewritten: Vec<MaskFile>,
}

impl Described<'_> {
    fn hide(&mut self, path: &Path) -> Result<(), PathError> {
        if let Some((tree, relative)) = self.locate(path)? {
            self.trees.entry(tree).or_default().hidden.push(relative);
        }
        Ok(())
    }

    fn rewrite(&mut self, path: &Path, content: String, metadata: &Metadata) -> Result<(), PathError> {
        let attributes = attributes(metadata);
        if self.plan.place_of(path).is_some_and(|place| place.kind == PlaceKind::ReadOnly && place.path != path) {
            self.files.push(MaskFile { path: path.to_owned(), content, attributes });
        } else if let Some((tree, path)) = self.locate(path)? {
            let file = MaskFile { path, content, attributes };
            self.trees.entry(tree).or_default().rewritten.push(file);
        }
        Ok(())
    }

    /// The tree a path lies in and its place there, if its parent is a directory in reality.
    fn locate(&mut self, path: &Path) -> Result<Option<(usize, PathBuf)>, PathError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let Some((tree, root)) = self.tree_of(path) else { return Ok(None) };
        let known = |trees: &BTreeMap<usize, OneTree>| {
            trees.get(&tree).and_then(|t| t.directories.get(parent.strip_prefix(&root).ok()?)).copied()
        };
        let parent = match known(&self.trees) {
            Some(Some(_)) => parent.to_owned(),
            Some(None) => return Ok(None),
            None => match reachable(fs::symlink_metadata(parent), parent)? {
                Some(metadata) if metadata.is_dir() => parent.to_owned(),
                // Resolved, the path may lie in another tree.
                Some(metadata) if metadata.is_symlink() => {
                    let Some(parent) = reachable(fs::canonicalize(parent), parent)? else { return Ok(None) };
                    let real = parent.join(name);
                    return if real == path { Ok(None) } else { self.locate(&real) };
                }
                _ => {
                    if let Ok(relative) = parent.strip_prefix(&root) {
                        self.trees.entry(tree).or_default().directories.insert(relative.to_owned(), None);
                    }
                    return Ok(None);
                }
            },
        };
        self.remember_directories(tree, &root, &parent)?;
        let place = parent.join(name);
        Ok(place.strip_prefix(&root).ok().map(|relative| (tree, relative.to_owned())))
    }

    fn tree_of(&self, path: &Path) -> Option<(usize, PathBuf)> {
        match self.plan.place_of(path)? {
            Place { path: root, kind: PlaceKind::Writable { tree } } if *root != path => Some((*tree, root.clone())),
            _ => None,
        }
    }

    fn remember_directories(&mut self, tree: usize, root: &Path, parent: &Path) -> Result<(), PathError> {
        let directories = &mut self.trees.entry(tree).or_default().directories;
        for directory in parent.ancestors().take_while(|a| a.starts_with(root)) {
            let Ok(relative) = directory.strip_prefix(root) else { continue };
            if directories.contains_key(relative) {
                break;
            }
            let found = reachable(fs::symlink_metadata(directory), directory)?.map(|m| attributes(&m));
            directories.insert(relative.to_owned(), found);
        }
        Ok(())
    }
}

impl OneTree {
    fn into_mask(mut self) -> TreeMask {
        // What is rewritten is shown, and what lies within something hidden needs no mark of its own.
        self.hidden.sort();
        let mut hidden: Vec<PathBuf> = Vec::with_capacity(self.hidden.len());
        for path in self.hidden {
            let covered = hidden.last().is_some_and(|last| path.starts_with(last));
            if !covered && !self.rewritten.iter().any(|r| r.path == path) {
                hidden.push(path);
            }
        }
        let is_covered = |path: &Path| path.ancestors().any(|a| hidden.binary_search_by(|h| h.as_path().cmp(a)).is_ok());
        let directories =
            self.directories.into_iter().filter_map(|(path, attributes)| Some(MaskDirectory { path, attributes: attributes? }));
        TreeMask { tree: 0, directories: directories.filter(|d| !is_covered(&d.path)).collect(), rewritten: self.rewritten, hidden }
    }
}

fn attributes(metadata: &Metadata) -> Attributes {
    Attributes {
        mode: metadata.mode() & 0o7777,
        uid: metadata.uid(),
        gid: metadata.gid(),
        mtime: (metadata.mtime(), metadata.mtime_nsec()),
    }
}
