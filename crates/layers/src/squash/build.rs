//! Writes down what a run shows, directory by directory.
//!
//! A directory is finished before those in it are begun: they exist by then, so nothing moves its times any more. No more than
//! one place is open at a time, however deep it lies.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, fstat, mkdirat, removexattr};
use rustix::io::Errno;
use whatif_overlay::{Format, Mark, Way, whiteout};

use super::Merged;
use super::attributes::{self, At};
use super::leaf;
use super::lookup::{Below, Entry, Held, Leaf, Place, Run};
use super::trail::{Trail, Tree};
use crate::{PathError, on};

/// Fills the new directory `into`.
pub(super) fn build(run: &Run<'_>, into: &Path) -> Result<Merged, PathError> {
    forget_inherited(into)?;
    let tree = Tree::new(into).map_err(on("open", into))?;
    let mut build = Build { run, into, tree, merged: Merged::default(), pending: Vec::new() };
    let place = run.top()?;
    let way = if matches!(place.below, Below::Nothing) { Way::Opaque } else { Way::Down };
    build.pending.push(Visit { place, to: Trail::default(), way });
    while let Some(visit) = build.pending.pop() {
        build.visit(&visit)?;
    }
    Ok(build.merged)
}

/// Access lists that the directory above hands down were nobody's in the layers.
fn forget_inherited(directory: &Path) -> Result<(), PathError> {
    for list in ["system.posix_acl_default", "system.posix_acl_access"] {
        match removexattr(directory, list) {
            Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => {}
            Err(errno) => return Err(on("take the access lists of", directory)(errno)),
        }
    }
    Ok(())
}

struct Build<'a> {
    run: &'a Run<'a>,
    into: &'a Path,
    tree: Tree,
    merged: Merged,
    pending: Vec<Visit>,
}

/// A directory that exists and is to be filled.
struct Visit {
    place: Place,
    to: Trail,
    /// What it has to say.
    way: Way,
}

impl Build<'_> {
    fn visit(&mut self, visit: &Visit) -> Result<(), PathError> {
        let mut held = self.run.hold(&visit.place)?;
        let to = self.tree.open(&visit.to).map_err(|errno| on("open", &self.path(visit))(errno))?;
        let mut has_whiteouts = false;
        for name in self.run.list(&mut held)? {
            match self.run.find(&held, &visit.place.below, &name)? {
                Entry::Nothing => {}
                // Where nothing shows through there is nothing to take away.
                Entry::Whiteout(_) if matches!(visit.place.below, Below::Nothing) => {}
                Entry::Whiteout(leaf) => {
                    self.bring_whiteout(&leaf, &to, visit)?;
                    has_whiteouts = true;
                }
                Entry::Other(leaf) => {
                    self.bring(&leaf, &to)?;
                    if self.run.is_of_the_run(&held, &leaf)? {
                        let made = self.forget_origin(At::new(&*to, &name));
                        made.map_err(|errno| on("mark", &self.path(visit).join(&name))(errno))?;
                    }
                }
                Entry::Directory(place) => {
                    let made = mkdirat(&*to, &name, Mode::RWXU);
                    made.map_err(|errno| on("create", &self.path(visit).join(&name))(errno))?;
                    let way = place.below.way(&name, &visit.place.below);
                    self.pending.push(Visit { place, to: visit.to.join(&name), way });
                }
            }
        }
        self.finish(visit, &held, &to, has_whiteouts)
    }

    fn bring(&mut self, leaf: &Leaf<'_>, to: &OwnedFd) -> Result<(), PathError> {
        let from = At::new(&*leaf.held.directory, &leaf.name);
        let brought = leaf::bring(from, &leaf.stat, At::new(to, &leaf.name), &mut self.merged);
        brought.map_err(|error| on("merge", &self.run.path_of(leaf.held).join(&leaf.name))(error))
    }

    /// A whiteout in the form of a marked file would need a mark on its directory too; a device speaks for itself.
    fn bring_whiteout(&mut self, leaf: &Leaf<'_>, to: &OwnedFd, visit: &Visit) -> Result<(), PathError> {
        if !FileType::from_raw_mode(leaf.stat.st_mode).is_file() {
            return self.bring(leaf, to);
        }
        let made = whiteout::make(to, &leaf.name);
        made.map_err(|errno| on("create", &self.path(visit).join(&leaf.name))(errno))?;
        self.merged.files += 1;
        self.merged.copied += 1;
        Ok(())
    }

    /// What it was copied up from is not below any more: from here on it counts as made where it lies. Other layers that have the
    /// same file have what it was copied up from, too. Where that cannot be said it stays in doubt.
    fn forget_origin(&self, entry: At<'_>) -> Result<(), Errno> {
        match self.run.format.remove(&entry.hold()?, Mark::Origin) {
            Err(Errno::PERM | Errno::ACCESS) => Ok(()),
            other => other,
        }
    }

    /// Gives a directory what the newest of its parts has, and the mark it needs.
    fn finish(&self, visit: &Visit, held: &[Held], to: &OwnedFd, has_whiteouts: bool) -> Result<(), PathError> {
        let format = self.run.format;
        let (Some(newest), Some(oldest)) = (held.first(), held.last()) else { return Ok(()) };
        let inner = || -> io::Result<()> {
            format.write(to, &visit.way)?;
            // The oldest part knows whether anything was there below the run; newer ones only know of the run itself.
            let origin = if matches!(visit.place.below, Below::At(_)) { format.origin(&*oldest.directory)? } else { None };
            match origin {
                Some(origin) => format.set_origin(to, &origin)?,
                None if has_whiteouts && format != Format::Fuse && !visit.to.is_root() => format.set_origin(to, b"")?,
                None => {}
            }
            let stat = fstat(&*newest.directory)?;
            attributes::copy(At::itself(&*newest.directory), &stat, At::itself(to), |name| format.mark(name.as_bytes()).is_none())
        };
        inner().map_err(|error| on("copy the attributes of", &self.run.path_of(newest))(error))
    }

    fn path(&self, visit: &Visit) -> PathBuf {
        self.into.join(visit.to.to_path())
    }
}
