//! Where the parts of one directory lie in a stack: the look-up of overlayfs, layer by layer.
//!
//! A name is looked up in every layer that is part of the directory above, newest first. A redirect changes what is looked up in
//! the older ones, and in reality. A relative redirect is another name in the same directories. An absolute one starts again at
//! the roots of all older layers, part of the directory above or not, and each name on its way may be hidden or redirected again.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use whatif_overlay::{Format, Redirect, Way};

use super::Tree;
use super::directory::{beneath, hold};
use crate::said::Directory;

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
        let most = if tree.copied || tree.marks == Format::None { 1 } else { tree.layers.len() };
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
    marks: Format,
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
    Directory(OwnedFd, Directory),
    Missing,
    /// A whiteout or a file: what lies below does not show.
    Covered,
}

impl<'w> LookUp<'w> {
    pub(super) fn new(layers: &'w [Layer], marks: Format, places: Vec<(usize, PathBuf)>, lower: Option<PathBuf>) -> Self {
        Self { layers, marks, rest: places.into_iter(), lower, is_redirected: false, is_from_root: false }
    }

    /// The next older part, and what it says about itself. `lower` is final when there is none.
    pub(super) fn next(&mut self) -> Result<Option<(Part, Directory)>, Errno> {
        while let Some((layer, path)) = self.rest.next() {
            let opened = if self.is_from_root { self.descend(layer, &path)? } else { self.step(layer, &path)? };
            if let Some((directory, seen)) = opened {
                return Ok(Some((Part { layer, path, directory }, seen)));
            }
        }
        Ok(None)
    }

    /// Looks at the last name only: the directories before it are parts of the directory above.
    fn step(&mut self, layer: usize, path: &Path) -> Result<Option<(OwnedFd, Directory)>, Errno> {
        match self.open(&self.layers[layer].root, path)? {
            Opened::Missing => Ok(None),
            Opened::Covered => {
                self.stop();
                Ok(None)
            }
            Opened::Directory(directory, seen) => {
                match &seen.way {
                    Way::Down => {}
                    Way::Opaque => self.stop(),
                    Way::Redirect(Redirect::Beside(name)) => self.go_beside(name),
                    Way::Redirect(Redirect::FromRoot(path)) => self.go_from_root(layer, path),
                }
                Ok(Some((directory, seen)))
            }
        }
    }

    /// Looks at every name from the root of a layer, and finds out what the older layers call the same place.
    fn descend(&mut self, layer: usize, path: &Path) -> Result<Option<(OwnedFd, Directory)>, Errno> {
        let mut below = PathBuf::new();
        let mut is_covered = false;
        let mut found: Option<(OwnedFd, Directory)> = None;
        let mut names = path.iter();
        for name in names.by_ref() {
            let directory = found.as_ref().map_or(&self.layers[layer].root, |(directory, _)| directory);
            match self.open(directory, Path::new(name))? {
                Opened::Directory(directory, seen) => {
                    match &seen.way {
                        Way::Down => below.push(name),
                        Way::Opaque => is_covered = true,
                        Way::Redirect(Redirect::Beside(other)) => below.push(other),
                        // This one came from a place of its own, whatever hides the directories it was moved to.
                        Way::Redirect(Redirect::FromRoot(path)) => {
                            below = path.clone();
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
                let is_root = path.as_os_str().is_empty();
                let read = if is_root { Directory::read_root } else { Directory::read };
                let seen = read(self.marks, &directory)?;
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
