//! Decides what stands at which path of a sandbox. Pure: everything it knows about reality is in its arguments.

mod read_only;

use std::path::{Path, PathBuf};

use whatif_types::mountinfo::{Mount, aliases_of, is_within, mount_of};
use whatif_types::paths::{self, is_same};
use whatif_types::{Backend, Place, PlaceKind, Plan};

/// Trees that are made anew inside, whatever reality has there.
pub const MADE_ANEW: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Everything the decision depends on.
#[derive(Clone)]
#[allow(missing_debug_implementations, reason = "holds a function")]
pub struct Inputs<'a> {
    pub mounts: &'a [Mount],
    /// Mount points that are files, not directories; they can only be bound.
    pub file_mounts: &'a [PathBuf],
    pub as_root: bool,
    pub backend: Backend,
    pub home: &'a Path,
    pub project: &'a Path,
    /// For an ordinary user: trees the user can write.
    pub writable: &'a [PathBuf],
    /// Paths that get a private file system in memory, with their modes.
    pub private: &'a [(PathBuf, u32)],
    /// Never visible inside, under any name.
    pub state_dir: &'a Path,
    /// Paths whose content must not be seen where no mask layer can hide them.
    pub secrets: &'a [PathBuf],
    /// Numbers already given to trees, by position.
    pub known_trees: &'a [PathBuf],
    /// The subdirectories of a directory; asked only about `/` and directories with mounts beneath them.
    pub subdirectories: &'a dyn Fn(&Path) -> Vec<PathBuf>,
    /// Whether a directory cannot even be entered by this user; asked about the same.
    pub is_closed: &'a dyn Fn(&Path) -> bool,
    pub run_links: &'a [(PathBuf, PathBuf)],
}

/// Computes the plan.
#[must_use]
pub fn plan(inputs: &Inputs<'_>) -> Plan {
    let mut planner = Planner { inputs, places: Vec::new() };
    if inputs.as_root && inputs.backend == Backend::Overlay {
        planner.everything_writable();
    } else {
        planner.some_writable();
    }
    planner.private_places();
    planner.trees_within_private_places();
    planner.hide_what_masks_cannot();
    planner.finish()
}

/// What becomes of the files of a directory that cannot be overlaid as a whole.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Worth a copy: home and project.
    Copied,
    /// Left as the read-only root shows them; a shared directory may hold any amount of data.
    ReadOnly,
}

struct Planner<'a> {
    inputs: &'a Inputs<'a>,
    places: Vec<Place>,
}

/// What a tree has for a number until all places are known. A place may be dropped again, and a number that went with it would be
/// missing from the records, which count the trees that stayed.
const NOT_NUMBERED: usize = usize::MAX;

impl Planner<'_> {
    /// As root: `/` and every real mount, copy-on-write; what is read-only in reality stays so.
    fn everything_writable(&mut self) {
        self.put_tree(Path::new("/"));
        for mount in self.visible_mounts() {
            if mount.read_only || self.inputs.file_mounts.contains(&mount.mount_point) {
                self.put(&mount.mount_point, PlaceKind::ReadOnly);
            } else {
                self.put_tree(&mount.mount_point);
            }
        }
    }

    /// As a user, and with the backends that work on a few trees only: everything read-only but these.
    fn some_writable(&mut self) {
        self.put(Path::new("/"), PlaceKind::ReadOnly);
        // Home and project are trees of their own even within another: a directory of somebody else on the way to them could
        // not be copied up by the user, and with it nothing beneath it.
        let (own, others): (Vec<_>, Vec<_>) =
            self.candidates().into_iter().partition(|t| t == self.inputs.home || t == self.inputs.project);
        let own = outermost(&own);
        let others: Vec<PathBuf> = outermost(&others).into_iter().filter(|t| !own.iter().any(|o| t.starts_with(o))).collect();
        self.put_read_only_places(&[own.as_slice(), &others].concat());
        for tree in &others {
            self.put_tree_around_mounts(tree, Level::ReadOnly);
        }
        for tree in &own {
            self.put_tree_around_mounts(tree, Level::Copied);
        }
    }

    fn candidates(&self) -> Vec<PathBuf> {
        let inputs = self.inputs;
        let wanted: Vec<PathBuf> = match inputs.backend {
            Backend::Copy => vec![inputs.project.to_owned()],
            Backend::Fuse => vec![inputs.home.to_owned(), inputs.project.to_owned()],
            Backend::Overlay => inputs.writable.to_vec(),
        };
        wanted
            .into_iter()
            .filter(|t| t.parent().is_some() && !is_made_anew(t) && !self.is_within_private(t))
            .filter(|t| mount_of(inputs.mounts, t).is_some_and(|m| !m.read_only && !m.is_pseudo()))
            .collect()
    }

    /// An ordinary user may not overlay a directory with mounts beneath it; the directories around the mounts become trees.
    fn put_tree_around_mounts(&mut self, tree: &Path, level: Level) {
        if self.inputs.backend == Backend::Copy || !self.has_mounts_beneath(tree) {
            self.put_whole_tree(tree);
            return;
        }
        if level == Level::Copied {
            self.put(tree, PlaceKind::Skeleton { tree: NOT_NUMBERED });
        }
        for child in (self.inputs.subdirectories)(tree) {
            // The copy of this level leaves out what is hidden, so there is nothing to mount on.
            if self.is_hidden(&child) {
                continue;
            }
            // Somebody else's: the read-only root shows it as closed as it is.
            if level == Level::ReadOnly && (self.inputs.is_closed)(&child) {
                continue;
            }
            let usable = mount_of(self.inputs.mounts, &child).is_some_and(|m| !m.read_only && !m.is_pseudo());
            if usable {
                self.put_tree_around_mounts(&child, level);
            } else if level == Level::Copied {
                self.put(&child, PlaceKind::ReadOnly);
            }
        }
    }

    fn put_whole_tree(&mut self, tree: &Path) {
        self.put_tree(tree);
        if self.inputs.backend == Backend::Copy {
            self.put_mounts_within_copy(tree);
        }
    }

    /// A copy has nothing of what is mounted in it. That is shown as it is, and cannot be written: it would be written to the directory
    /// beneath, and be applied there once the mount is gone. What cannot be shown by itself is covered.
    fn put_mounts_within_copy(&mut self, tree: &Path) {
        let inputs = self.inputs;
        let mut points: Vec<&Path> = inputs.mounts.iter().map(|m| m.mount_point.as_path()).collect();
        points.retain(|point| *point != tree && point.starts_with(tree));
        points.sort_unstable();
        points.dedup();
        let mut covered: Option<&Path> = None;
        for point in points {
            let seen = mount_of(inputs.mounts, point).filter(|mount| mount.mount_point == point);
            let Some(mount) = seen.filter(|_| !covered.is_some_and(|above| point.starts_with(above))) else { continue };
            // An ordinary user must not look under what is mounted in it.
            if mount.is_pseudo() || (!inputs.as_root && self.has_mounts_beneath(point)) {
                covered = Some(point);
                self.put(point, PlaceKind::Hidden);
            } else {
                self.put(point, PlaceKind::ReadOnly);
            }
        }
    }

    fn private_places(&mut self) {
        for (path, mode) in self.inputs.private {
            self.places.retain(|p| !is_within(&p.path, path) || is_same(&p.path, Path::new("/")));
            self.put(path, PlaceKind::Private { mode: *mode });
        }
    }

    /// A project or home in `/tmp` would vanish behind the private one; it is put back on top.
    fn trees_within_private_places(&mut self) {
        let inputs = self.inputs;
        let wanted = match inputs.backend {
            Backend::Copy => vec![inputs.project.to_owned()],
            _ => vec![inputs.home.to_owned(), inputs.project.to_owned()],
        };
        let vanished = wanted.into_iter().filter(|tree| self.is_within_private(tree) && !is_absent_inside(tree, inputs.private));
        for tree in outermost(&vanished.collect::<Vec<_>>()) {
            if mount_of(inputs.mounts, &tree).is_some_and(|m| !m.read_only) {
                self.put_whole_tree(&tree);
            }
        }
        // Without a copy of it, what is written to a home is refused there as elsewhere, instead of being lost.
        let is_vanished_home = self.is_within_private(inputs.home) && !is_absent_inside(inputs.home, inputs.private);
        if inputs.backend == Backend::Copy && is_vanished_home && !inputs.home.starts_with(inputs.project) {
            self.put(inputs.home, PlaceKind::ReadOnly);
        }
    }

    /// Mask layers hide things within copy-on-write trees; what is a place of its own, or lies on a read-only one, must be
    /// hidden by an empty mount, and what is mounted within something hidden must not be mounted at all.
    fn hide_what_masks_cannot(&mut self) {
        let secrets = self.inputs.secrets.iter().map(PathBuf::as_path).chain([self.inputs.state_dir]);
        let names = secrets.flat_map(|p| aliases_of(self.inputs.mounts, p).into_iter().chain([p.to_owned()]));
        let out_of_reach: Vec<PathBuf> = names
            .filter(|name| !is_made_anew(name) && name.parent().is_some())
            .filter(|name| {
                let in_plain_sight = self.deepest_place(name).is_some_and(|place| matches!(place.kind, PlaceKind::ReadOnly));
                in_plain_sight || self.places.iter().any(|place| is_within(&place.path, name))
            })
            .collect();
        for path in outermost(&out_of_reach) {
            self.places.retain(|p| !is_within(&p.path, &path));
            self.put(&path, PlaceKind::Hidden);
        }
    }

    fn finish(mut self) -> Plan {
        self.places.sort_by(|a, b| (a.path.components().count(), &a.path).cmp(&(b.path.components().count(), &b.path)));
        self.places.dedup_by(|a, b| a.path == b.path);
        number_trees(&mut self.places, self.inputs.known_trees);
        Plan { backend: self.inputs.backend, places: self.places, run_links: self.inputs.run_links.to_vec() }
    }

    /// The storage mounts that can be seen in reality: not covered by a later mount, not below what is made anew.
    fn visible_mounts(&self) -> Vec<Mount> {
        let mut visible: Vec<Mount> = Vec::new();
        for mount in self.inputs.mounts {
            visible.retain(|m| !is_within(&m.mount_point, &mount.mount_point));
            visible.push(mount.clone());
        }
        visible.retain(|m| !m.is_pseudo() && !is_made_anew(&m.mount_point) && m.mount_point != Path::new("/"));
        visible
    }

    /// Whatever is mounted there: a file system of the kernel's is in the way just as well.
    fn has_mounts_beneath(&self, path: &Path) -> bool {
        self.inputs.mounts.iter().any(|m| !is_same(&m.mount_point, path) && is_within(&m.mount_point, path))
    }

    fn is_within_private(&self, path: &Path) -> bool {
        self.inputs.private.iter().any(|(p, _)| is_within(path, p))
    }

    fn is_hidden(&self, path: &Path) -> bool {
        path == self.inputs.state_dir || self.inputs.secrets.iter().any(|s| s == path)
    }

    fn deepest_place(&self, path: &Path) -> Option<&Place> {
        self.places.iter().filter(|p| is_within(path, &p.path)).max_by_key(|p| p.path.as_os_str().len())
    }

    fn put_tree(&mut self, path: &Path) {
        self.put(path, PlaceKind::Writable { tree: NOT_NUMBERED });
    }

    fn put(&mut self, path: &Path, kind: PlaceKind) {
        self.places.retain(|p| !is_same(&p.path, path));
        self.places.push(Place { path: path.to_owned(), kind });
    }
}

/// Gives each tree the number that the records have for it, and those without one the next, without gaps.
fn number_trees(places: &mut [Place], known: &[PathBuf]) {
    let mut next = known.len();
    for place in places {
        if let PlaceKind::Writable { tree } | PlaceKind::Skeleton { tree } = &mut place.kind {
            *tree = known.iter().position(|path| *path == place.path).unwrap_or_else(|| {
                next += 1;
                next - 1
            });
        }
    }
}

/// Whether a sandbox has something of its own in place of a directory, so that a project there could be neither seen nor changed.
#[must_use]
pub fn is_absent_inside(directory: &Path, private: &[(PathBuf, u32)]) -> bool {
    is_made_anew(directory) || private.iter().any(|(path, _)| path == directory)
}

fn is_made_anew(path: &Path) -> bool {
    MADE_ANEW.iter().any(|p| is_within(path, Path::new(p)))
}

/// Drops every path that lies within another one of the list.
fn outermost(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut sorted = paths.to_vec();
    paths::sort(&mut sorted);
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in sorted {
        // Sorted, whatever lies within a path follows it directly.
        if !kept.last().is_some_and(|k| is_within(&path, k)) {
            kept.push(path);
        }
    }
    kept
}

#[cfg(test)]
mod tests;
