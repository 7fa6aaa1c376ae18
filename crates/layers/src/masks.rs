//! Mask layers: what hides credentials, between the base and the head of each tree, and above what is shown read-only.
//!
//! A whiteout in a layer of its own makes a path absent inside, under whatever name the sandbox moves its parents to, also if it
//! is made only later in reality, and keeps the head free of anything the sandbox did not do itself. The layer is described here and made in memory by `assemble`: it
//! cannot lie in the state directory, because overlayfs refuses a lower layer that lies within another one.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use whatif_sys::absence::MeansAbsent;
use whatif_types::boot::{Attributes, MaskDirectory, MaskFile, MaskLayer, Masks};
use whatif_types::mountinfo::{Mount, aliases_of};
use whatif_types::paths::{self, is_same, is_within};
use whatif_types::{Identity, PlaceKind, Plan};

use crate::{PathError, on};

/// A file that is shown with other content, and who makes that content.
#[derive(Clone, Debug)]
pub struct Rewrite {
    pub path: PathBuf,
    pub content: fn(&Path, &Path) -> io::Result<String>,
}

/// Describes the mask layers for a plan. `hidden` are real paths (see `links`): no directory on the way to them is a link. `cache` is a directory in which a rewrite may remember what was costly to find out.
pub fn describe(
    plan: &Plan,
    mounts: &[Mount],
    identity: Identity,
    hidden: &[PathBuf],
    rewrites: &[Rewrite],
    cache: &Path,
) -> Result<Masks, PathError> {
    let mut masks = Described { plan, identity, layers: BTreeMap::new(), files: Vec::new() };
    for path in hidden {
        masks.hide(path)?;
        for alias in aliases_of(mounts, path) {
            masks.hide(&alias)?;
        }
    }
    for rewrite in rewrites {
        // Under its real name: a file that a link leads to is as much in the open as any other.
        let Some(real) = reachable(fs::canonicalize(&rewrite.path), &rewrite.path)? else {
            // If it is made later, it is made with what should not be seen.
            masks.hide(&rewrite.path)?;
            continue;
        };
        let Some(metadata) = reachable(fs::symlink_metadata(&real), &real)? else { continue };
        if metadata.is_file() {
            let content = (rewrite.content)(&rewrite.path, cache).map_err(on("read", &rewrite.path))?;
            for alias in aliases_of(mounts, &real) {
                masks.rewrite(&alias, content.clone(), &metadata)?;
            }
            masks.rewrite(&real, content, &metadata)?;
        }
    }
    let layers = masks.layers.into_iter().map(|(place, mask)| MaskLayer { place: place.into(), ..mask.into_mask() });
    let layers = layers.filter(|mask| !mask.hidden.is_empty() || !mask.rewritten.is_empty()).collect();
    Ok(Masks { layers, files: masks.files })
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
    identity: Identity,
    /// By their places' paths.
    layers: BTreeMap<OsString, OnePlace>,
    files: Vec<MaskFile>,
}

#[derive(Default)]
struct OnePlace {
    /// Sorted, so that parents come before children.
    directories: BTreeMap<OsString, Attributes>,
    hidden: Vec<PathBuf>,
    rewritten: Vec<MaskFile>,
}

impl Described<'_> {
    fn hide(&mut self, path: &Path) -> Result<(), PathError> {
        if let Some((place, relative)) = self.locate(path)? {
            self.layers.entry(place.into()).or_default().hidden.push(relative);
        }
        Ok(())
    }

    fn rewrite(&mut self, path: &Path, content: String, metadata: &Metadata) -> Result<(), PathError> {
        let attributes = attributes(metadata);
        if self.plan.place_of(path).is_some_and(|place| place.kind == PlaceKind::ReadOnly && place.path != path) {
            self.files.push(MaskFile { path: path.to_owned(), content, attributes });
        } else if let Some((place, path)) = self.locate(path)? {
            let file = MaskFile { path, content, attributes };
            self.layers.entry(place.into()).or_default().rewritten.push(file);
        }
        Ok(())
    }

    /// The place a path lies in, and where in it. Of a path whose parent is absent, the first directory that is absent: if it is
    /// made later, what is hidden may be made with it.
    fn locate(&mut self, path: &Path) -> Result<Option<(PathBuf, PathBuf)>, PathError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
        let Some(place) = self.place_with_layer(path) else { return Ok(None) };
        let known = self.layers.get(place.as_os_str());
        let is_known = known.is_some_and(|known| known.directories.contains_key(relative_to(&place, parent).as_os_str()));
        if !is_known {
            match fs::symlink_metadata(parent) {
                Err(error) if error.means_absent() => return self.locate(parent),
                found => match reachable(found, parent)? {
                    Some(metadata) if metadata.is_dir() => {}
                    // Resolved, the path may lie in another place.
                    Some(metadata) if metadata.is_symlink() => {
                        let Some(parent) = reachable(fs::canonicalize(parent), parent)? else { return Ok(None) };
                        let real = parent.join(name);
                        return if is_same(&real, path) { Ok(None) } else { self.locate(&real) };
                    }
                    _ => return Ok(None),
                },
            }
        }
        if !self.remember_directories(&place, parent)? {
            return Ok(None);
        }
        let relative = relative_to(&place, path).to_owned();
        Ok(Some((place, relative)))
    }

    /// What is hidden on a read-only place is a place, too: it is covered where no layer can be had.
    fn place_with_layer(&self, path: &Path) -> Option<PathBuf> {
        let shown = self.plan.places.iter().filter(|place| place.kind != PlaceKind::Hidden && is_within(path, &place.path));
        let place = shown.max_by_key(|place| place.path.as_os_str().len()).filter(|place| !is_same(&place.path, path))?;
        matches!(place.kind, PlaceKind::Writable { .. } | PlaceKind::ReadOnly).then(|| place.path.clone())
    }

    /// The directories on the way to what is masked, if they can be shown as they are.
    fn remember_directories(&mut self, place: &Path, parent: &Path) -> Result<bool, PathError> {
        let is_tree = self.plan.place_of(place).is_some_and(|p| matches!(p.kind, PlaceKind::Writable { .. }));
        let directories = &mut self.layers.entry(place.into()).or_default().directories;
        let mut found = Vec::new();
        for directory in parent.ancestors().take_while(|a| is_within(a, place)) {
            let relative = relative_to(place, directory).as_os_str();
            if directories.contains_key(relative) {
                break;
            }
            let Some(metadata) = reachable(fs::symlink_metadata(directory), directory)? else { return Ok(false) };
            // Somebody else's directory would seem to be the user's own.
            if !is_tree && !self.identity.can_own(metadata.uid()) {
                return Ok(false);
            }
            found.push((relative.to_owned(), attributes(&metadata)));
        }
        directories.extend(found);
        Ok(true)
    }
}

impl OnePlace {
    fn into_mask(mut self) -> MaskLayer {
        // What is rewritten is shown, and what lies within something hidden needs no mark of its own.
        self.hidden.sort_by(|one, other| paths::compare(one, other));
        let mut hidden: Vec<PathBuf> = Vec::with_capacity(self.hidden.len());
        for path in self.hidden {
            let covered = hidden.last().is_some_and(|last| is_within(&path, last));
            if !covered && !self.rewritten.iter().any(|r| is_same(&r.path, &path)) {
                hidden.push(path);
            }
        }
        let is_covered = |path: &Path| path.ancestors().any(|a| hidden.binary_search_by(|h| paths::compare(h, a)).is_ok());
        let directories = self.directories.into_iter().map(|(path, attributes)| MaskDirectory { path: path.into(), attributes });
        let place = PathBuf::new();
        MaskLayer { place, directories: directories.filter(|d| !is_covered(&d.path)).collect(), rewritten: self.rewritten, hidden }
    }
}

/// Of a path that lies in a place, or is it.
fn relative_to<'a>(place: &Path, path: &'a Path) -> &'a Path {
    let length = place.as_os_str().len();
    let rest = path.as_os_str().as_bytes().get(length..).unwrap_or_default();
    Path::new(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest)))
}

fn attributes(metadata: &Metadata) -> Attributes {
    Attributes {
        mode: metadata.mode() & 0o7777,
        uid: metadata.uid(),
        gid: metadata.gid(),
        mtime: (metadata.mtime(), metadata.mtime_nsec()),
    }
}
