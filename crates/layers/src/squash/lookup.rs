//! Finds what a run of layers shows at a place, and where the layers below it go on.
//!
//! A directory is looked up as overlayfs does: name by name, in the directories that make up the one above it, newest first. The
//! first that is found counts, and directories go on in older layers until a whiteout, something else, or an opaque directory.
//! Only a redirect leads elsewhere: the layers below the one that has it go on at another name, or at a path from their roots.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{AtFlags, FileType, OFlags, RawDir, Stat, statat};
use rustix::io::Errno;
use whatif_overlay::{Format, Mark, Redirect, Way};

use super::attributes::At;
use super::trail::{Trail, Tree, open_leg};
use crate::{PathError, on};

/// The layers to merge, newest first.
pub(super) struct Run<'a> {
    pub(super) format: Format,
    layers: &'a [PathBuf],
    trees: Vec<Tree>,
}

/// A directory as the run shows it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The directories it is made of, newest first.
    pub(super) parts: Vec<Part>,
    pub(super) below: Below,
}

#[derive(Clone, Debug)]
pub(super) struct Part {
    layer: usize,
    trail: Trail,
}

/// What shows through a directory from below the run.
#[derive(Clone, Debug)]
pub(super) enum Below {
    Nothing,
    At(Trail),
}

/// A part of a place, opened.
pub(super) struct Held {
    pub(super) directory: Rc<OwnedFd>,
    part: Part,
    /// What is in it, if that is known.
    names: Option<HashSet<OsString>>,
}

/// What the run has at a name.
pub(super) enum Entry<'a> {
    Nothing,
    Whiteout(Leaf<'a>),
    Other(Leaf<'a>),
    Directory(Place),
}

/// An entry of one layer that is not a directory.
pub(super) struct Leaf<'a> {
    pub(super) held: &'a Held,
    pub(super) name: OsString,
    pub(super) stat: Stat,
}

/// What one layer has at a name.
enum Seen<'a> {
    Nothing,
    Whiteout(Leaf<'a>),
    Other(Leaf<'a>),
    Directory(Way),
}

impl<'a> Run<'a> {
    pub(super) fn open(layers: &'a [PathBuf], format: Format) -> Result<Self, PathError> {
        let open = |layer: &PathBuf| Tree::new(layer).map_err(on("open", layer));
        let trees = layers.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { format, layers, trees })
    }

    /// The root of the tree. The kernel does not ask its directories what they say about themselves; fuse-overlayfs does.
    pub(super) fn top(&self) -> Result<Place, PathError> {
        let mut top = self.top_from(0);
        for (position, held) in self.hold(&top)?.iter().enumerate() {
            let said = self.format.read_root(&*held.directory);
            if said.map_err(|errno| on("examine", &self.path(&held.part))(errno))?.way == Way::Opaque {
                top.parts.truncate(position + 1);
                top.below = Below::Nothing;
                break;
            }
        }
        Ok(top)
    }

    fn top_from(&self, layer: usize) -> Place {
        let parts = (layer..self.layers.len()).map(|layer| Part { layer, trail: Trail::default() }).collect();
        Place { parts, below: Below::At(Trail::default()) }
    }

    pub(super) fn hold(&self, place: &Place) -> Result<Vec<Held>, PathError> {
        let hold = |part: &Part| {
            let opened = self.trees[part.layer].open(&part.trail);
            let directory = opened.map_err(|errno| on("open", &self.path(part))(errno))?;
            Ok(Held { directory, part: part.clone(), names: None })
        };
        place.parts.iter().map(hold).collect()
    }

    /// Lists the parts of a place. Returns all names in them.
    pub(super) fn list(&self, place: &mut [Held]) -> Result<BTreeSet<OsString>, PathError> {
        let mut all = BTreeSet::new();
        for held in place {
            let names = names(&held.directory).map_err(|error| on("list", &self.path(&held.part))(error))?;
            all.extend(names.iter().cloned());
            held.names = Some(names);
        }
        Ok(all)
    }

    /// What is shown at a name in a place with this below it.
    pub(super) fn find<'h>(&self, place: &'h [Held], below: &Below, name: &OsStr) -> Result<Entry<'h>, PathError> {
        let mut name = name.to_owned();
        let mut parts: Vec<Part> = Vec::new();
        for held in place {
            let way = match self.look(held, &name)? {
                Seen::Nothing => continue,
                Seen::Whiteout(leaf) if parts.is_empty() => return Ok(Entry::Whiteout(leaf)),
                Seen::Other(leaf) if parts.is_empty() => return Ok(Entry::Other(leaf)),
                Seen::Whiteout(_) | Seen::Other(_) => return Ok(Entry::Directory(Place { parts, below: Below::Nothing })),
                Seen::Directory(way) => way,
            };
            let layer = held.part.layer;
            parts.push(Part { layer, trail: held.part.trail.join(&name) });
            match way {
                Way::Down => {}
                Way::Opaque => return Ok(Entry::Directory(Place { parts, below: Below::Nothing })),
                Way::Redirect(Redirect::Beside(other)) => name = other,
                Way::Redirect(Redirect::FromRoot(path)) => {
                    let rest = self.resolve(&path, layer + 1)?;
                    parts.extend(rest.parts);
                    return Ok(Entry::Directory(Place { parts, below: rest.below }));
                }
            }
        }
        Ok(if parts.is_empty() { Entry::Nothing } else { Entry::Directory(Place { parts, below: below.join(&name) }) })
    }

    /// Whether a leaf is a copy of what the run itself has made, further below.
    pub(super) fn is_of_the_run(&self, place: &[Held], leaf: &Leaf<'_>) -> Result<bool, PathError> {
        let older = place.iter().skip_while(|held| !std::ptr::eq(*held, leaf.held)).skip(1);
        for held in older {
            match self.look(held, &leaf.name)? {
                Seen::Nothing => {}
                Seen::Whiteout(_) | Seen::Directory(_) => return Ok(false),
                Seen::Other(older) => {
                    let entry = At::new(&*held.directory, &older.name).hold();
                    let is_copy = entry.and_then(|entry| self.format.has(&entry, Mark::Origin));
                    if !is_copy.map_err(|errno| self.unseen(held, &older.name, errno))? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// The directory at a path in the layers from this one on. It ends: each redirect on the way leads to fewer layers.
    fn resolve(&self, path: &Path, from: usize) -> Result<Place, PathError> {
        let mut place = self.top_from(from);
        for name in path {
            let held = self.hold(&place)?;
            place = match self.find(&held, &place.below, name)? {
                Entry::Nothing => Place { parts: Vec::new(), below: place.below.join(name) },
                Entry::Whiteout(_) | Entry::Other(_) => Place { parts: Vec::new(), below: Below::Nothing },
                Entry::Directory(place) => place,
            };
        }
        Ok(place)
    }

    fn look<'h>(&self, held: &'h Held, name: &OsStr) -> Result<Seen<'h>, PathError> {
        let Some(stat) = self.stat(held, name)? else { return Ok(Seen::Nothing) };
        if FileType::from_raw_mode(stat.st_mode).is_dir() {
            let said = open_leg(&*held.directory, name, OFlags::RDONLY)
                .and_then(|directory| self.format.read(&directory))
                .map_err(|errno| self.unseen(held, name, errno))?;
            return Ok(Seen::Directory(said.way));
        }
        let unseen = |errno| self.unseen(held, name, errno);
        if self.format.is_bookkeeping(&*held.directory, name, &stat).map_err(unseen)? {
            return Ok(Seen::Nothing);
        }
        let is_whiteout = self.format.is_whiteout(&*held.directory, name, &stat).map_err(unseen)?;
        let leaf = Leaf { held, name: name.to_owned(), stat };
        Ok(if is_whiteout { Seen::Whiteout(leaf) } else { Seen::Other(leaf) })
    }

    fn stat(&self, held: &Held, name: &OsStr) -> Result<Option<Stat>, PathError> {
        if held.names.as_ref().is_some_and(|names| !names.contains(name)) {
            return Ok(None);
        }
        match statat(&*held.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT | Errno::NAMETOOLONG) => Ok(None),
            Err(errno) => Err(self.unseen(held, name, errno)),
        }
    }

    fn unseen(&self, held: &Held, name: &OsStr, errno: Errno) -> PathError {
        on("examine", &self.path(&held.part).join(name))(errno)
    }

    pub(super) fn path_of(&self, held: &Held) -> PathBuf {
        self.path(&held.part)
    }

    fn path(&self, part: &Part) -> PathBuf {
        self.layers[part.layer].join(part.trail.to_path())
    }
}

impl Below {
    pub(super) fn join(&self, name: &OsStr) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::At(trail) => Self::At(trail.join(name)),
        }
    }

    /// What a directory of this name must say so that this shows through it, if `above` shows through the one above it.
    pub(super) fn way(&self, name: &OsStr, above: &Self) -> Way {
        match (self, above) {
            (Self::Nothing, Self::Nothing) => Way::Down,
            (Self::Nothing, Self::At(_)) => Way::Opaque,
            (Self::At(trail), Self::At(directory)) if trail.split().is_some_and(|(parent, _)| parent.is(directory)) => {
                match trail.split() {
                    // A path can be longer than an attribute, a name cannot.
                    Some((_, other)) if other != name => Way::Redirect(Redirect::Beside(other.to_owned())),
                    _ => Way::Down,
                }
            }
            (Self::At(trail), _) => Way::Redirect(Redirect::FromRoot(trail.to_path())),
        }
    }
}

/// Room for the names of one call; larger directories take several.
const ROOM: usize = 32 << 10;

fn names(directory: &OwnedFd) -> io::Result<HashSet<OsString>> {
    let mut room = Vec::with_capacity(ROOM);
    let mut entries = RawDir::new(directory, room.spare_capacity_mut());
    let mut names = HashSet::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.insert(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}
