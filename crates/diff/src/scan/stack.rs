//! Where the parts of one directory lie in a stack: the look-up of overlayfs, layer by layer.
//!
//! A name is looked up in every layer that is part of the directory above, newest first. A redirect changes what is looked up in
//! the older ones, and in reality. A relative redirect is another name in the same directories. An absolute one starts again at
//! the roots of all older layers, part of the directory above or not, and each name on its way may be hidden or redirected again.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::Tree;
use super::directory::{beneath, hold};
use crate::marks::{Marks, Seen};

/// The root of one layer, opened.
pub(super) struct Layer {
    pub path: PathBuf,
    pub root: OwnedFd,
    /// The only one that is still written.
    pub is_head: bool,
}

impl Layer {
    /// The layers of a tree that count. One that is missing is an error, never an empty one.
    pub(super) fn open_all(tree: &Tree) -> Result<Vec<Self>, Errno> {
        // A copy is complete: nothing shows through it.
        let most = if tree.copied || tree.marks == Marks::None { 1 } else { tree.layers.len() };
        let mut layers = Vec::with_capacity(most);
        for (number, path) in tree.layers.iter().enumerate() {
            match hold(path) {
                Ok(root) => layers.push(Self { path: path.clone(), root, is_head: number == 0 }),
                // A head that nothing was mounted on. Whether it has to be there is known to the caller.
                Err(Errno::NOENT) if number == 0 => {}
                Err(errno) => return Err(errno),
            }
            if layers.len() == most {
                break;
            }
        }
        Ok(layers)
    }
}

/// What one layer has of a directory.
pub(super) struct Part {
    pub layer: usize,
    /// Relative to the layer.
    pub path: PathBuf,
    pub directory: OwnedFd,
}

/// The look-up of one directory, on its way down.
pub(super) struct LookUp<'w> {
    layers: &'w [Layer],
    marks: Marks,
    /// The layers that were not asked yet, and what each is asked for.
    rest: std::vec::IntoIter<(usize, PathBuf)>,
    /// What is looked up in reality in the end.
    pub lower: Option<PathBuf>,
    pub is_redirected: bool,
    /// An absolute redirect was met: all names on the way count from here on, not only the last one.
    is_from_root: bool,
}

/// What a layer has at a path.
enum Opened {
    Directory(OwnedFd, Seen),
    Missing,
    /// A whiteout or a file: what lies below does not show.
    Covered,
}

impl<'w> LookUp<'w> {
    pub(super) fn new(layers: &'w [Layer], marks: Marks, places: Vec<(usize, PathBuf)>, lower: Option<PathBuf>) -> Self {
        Self { layers, marks, rest: places.into_iter(), lower, is_redirected: false, is_from_root: false }
    }

    /// The next older part, and what it says about itself. `lower` is final when there is none.
    pub(super) fn next(&mut self) -> Result<Option<(Part, Seen)>, Errno> {
        while let Some((layer, path)) = self.rest.next() {
            let opened = if self.is_from_root { self.descend(layer, &path)? } else { self.step(layer, &path)? };
            if let Some((directory, seen)) = opened {
                return Ok(Some((Part { layer, path, directory }, seen)));
            }
        }
        Ok(None)
    }

    /// Looks at the last name only: the directories before it are parts of the directory above.
    fn step(&mut self, layer: usize, path: &Path) -> Result<Option<(OwnedFd, Seen)>, Errno> {
        match self.open(&self.layers[layer].root, path)? {
            Opened::Missing => Ok(None),
            Opened::Covered => {
                self.stop();
                Ok(None)
            }
            Opened::Directory(directory, seen) => {
                match Way::after(&seen) {
                    Way::Down => {}
                    Way::Nowhere => self.stop(),
                    Way::Beside(name) => self.go_beside(name),
                    Way::FromRoot(path) => self.go_from_root(layer, path),
                }
                Ok(Some((directory, seen)))
            }
        }
    }

    /// Looks at every name from the root of a layer, and finds out what the older layers call the same place.
    fn descend(&mut self, layer: usize, path: &Path) -> Result<Option<(OwnedFd, Seen)>, Errno> {
        let mut below = PathBuf::new();
        let mut is_covered = false;
        let mut found: Option<(OwnedFd, Seen)> = None;
        let mut names = path.iter();
        for name in names.by_ref() {
            let directory = found.as_ref().map_or(&self.layers[layer].root, |(directory, _)| directory);
            match self.open(directory, Path::new(name))? {
                Opened::Directory(directory, seen) => {
                    match Way::after(&seen) {
                        Way::Down => below.push(name),
                        Way::Nowhere => is_covered = true,
                        Way::Beside(other) => below.push(other),
                        // This one came from a place of its own, whatever hides the directories it was moved to.
                        Way::FromRoot(path) => {
                            below = path.to_owned();
                            is_covered = false;
                        }
                    }
                    found = Some((directory, seen));
                }
                Opened::Missing => {
                    below.push(name);
                    found = None;
                    break;
                }
                Opened::Covered => {
                    is_covered = true;
                    found = None;
                    break;
                }
            }
        }
        if is_covered {
            self.stop();
        } else {
            below.extend(names);
            self.go_from_root(layer, &below);
        }
        Ok(found)
    }

    fn open(&self, directory: &OwnedFd, path: &Path) -> Result<Opened, Errno> {
        match beneath(directory, path) {
            Ok(directory) => {
                let seen = self.marks.look(&directory)?;
                Ok(Opened::Directory(directory, seen))
            }
            Err(Errno::NOENT) => Ok(Opened::Missing),
            Err(Errno::NOTDIR | Errno::LOOP) => Ok(Opened::Covered),
            Err(errno) => Err(errno),
        }
    }

    fn stop(&mut self) {
        self.rest = Vec::new().into_iter();
        self.lower = None;
    }

    fn go_beside(&mut self, name: &OsStr) {
        self.is_redirected = true;
        for (_, path) in self.rest.as_mut_slice() {
            path.set_file_name(name);
        }
        if let Some(lower) = &mut self.lower {
            lower.set_file_name(name);
        }
    }

    fn go_from_root(&mut self, layer: usize, path: &Path) {
        self.is_redirected = true;
        self.is_from_root = true;
        let older: Vec<(usize, PathBuf)> = (layer + 1..self.layers.len()).map(|l| (l, path.to_owned())).collect();
        self.rest = older.into_iter();
        self.lower = Some(path.to_owned());
    }
}

/// Where to go on below a directory.
enum Way<'s> {
    Down,
    Nowhere,
    Beside(&'s OsStr),
    FromRoot(&'s Path),
}

impl<'s> Way<'s> {
    fn after(seen: &'s Seen) -> Self {
        if seen.is_opaque {
            return Self::Nowhere;
        }
        let Some(redirect) = &seen.redirect else { return Self::Down };
        let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..");
        match redirect.as_bytes().strip_prefix(b"/") {
            Some(path) if path.split(|b| *b == b'/').all(is_name) => Self::FromRoot(Path::new(OsStr::from_bytes(path))),
            None if is_name(redirect.as_bytes()) && !redirect.as_bytes().contains(&b'/') => Self::Beside(redirect),
            // Overlayfs follows no other either.
            _ => Self::Nowhere,
        }
    }
}
