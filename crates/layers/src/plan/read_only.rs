//! Which directories outside the trees are places of their own.
//!
//! A read-only mount keeps files from being written, but a pipe, a socket or a lock in it is the host's: whoever is inside could talk
//! to programs outside, take what was meant for them, or make them wait. A place of its own is shown through an overlay, in which all
//! of these are the sandbox's. An ordinary user cannot have `/` that way, because of what is mounted in it, but what lies in there.

use std::path::{Path, PathBuf};

use whatif_types::PlaceKind;
use whatif_types::mountinfo::mount_of;

use super::{Planner, is_made_anew, outermost};

/// Programs, and directories for mounts, which are places by themselves. Nothing is alive in there, and each place takes some 40 µs at
/// a start and 20 µs before each command.
const NOTHING_ALIVE: [&str; 10] =
    ["/bin", "/boot", "/gnu/store", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/sbin", "/usr"];
const FOR_MOUNTS: [&str; 3] = ["/media", "/mnt", "/snap"];

impl Planner<'_> {
    /// `trees` are what will be copy-on-write; that goes by other rules.
    pub(super) fn put_read_only_places(&mut self, trees: &[PathBuf]) {
        let places = if self.inputs.as_root { self.mount_points() } else { self.what_a_user_can_overlay() };
        for path in places.iter().filter(|path| !trees.iter().any(|tree| path.starts_with(tree))) {
            self.put(path, PlaceKind::ReadOnly);
        }
    }

    fn mount_points(&self) -> Vec<PathBuf> {
        self.visible_mounts().into_iter().map(|mount| mount.mount_point).collect()
    }

    /// In a directory that has mounts beneath it, its subdirectories: one level, because each place takes its time.
    fn what_a_user_can_overlay(&self) -> Vec<PathBuf> {
        let mut places = self.what_is_open((self.inputs.subdirectories)(Path::new("/")).into_iter().chain(self.mount_points()));
        let divided: Vec<PathBuf> = places.extract_if(.., |place| self.has_mounts_beneath(place)).collect();
        let within = self.what_is_open(divided.iter().flat_map(|place| (self.inputs.subdirectories)(place)));
        places.extend(within.into_iter().filter(|place| !self.has_mounts_beneath(place)));
        // With the backends for a few trees only, what the user's own programs may use, wherever that is.
        let own = outermost(self.inputs.writable).into_iter().filter(|tree| {
            let is_elsewhere = is_made_anew(tree) || self.is_within_private(tree) || self.has_mounts_beneath(tree);
            !is_elsewhere && !places.iter().any(|place| tree.starts_with(place))
        });
        let own: Vec<PathBuf> = own.collect();
        places.extend(own);
        // A mask layer can hide what is in it, also what is made there later, only if all of it is the user's own.
        let home = self.inputs.home.to_owned();
        places.extend(self.what_is_open([home].into_iter()).into_iter().filter(|home| !self.has_mounts_beneath(home)));
        places
    }

    /// What the user cannot enter needs no view.
    fn what_is_open(&self, directories: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
        let inputs = self.inputs;
        let is_meant = |path: &PathBuf| {
            !is_made_anew(path)
                && !self.is_within_private(path)
                && !NOTHING_ALIVE.iter().any(|programs| path.starts_with(programs))
                && !FOR_MOUNTS.iter().any(|directory| path == Path::new(directory))
                && !inputs.file_mounts.contains(path)
                && mount_of(inputs.mounts, path).is_some_and(|mount| !mount.is_pseudo())
                && !(inputs.is_closed)(path)
        };
        directories.filter(is_meant).collect()
    }
}
