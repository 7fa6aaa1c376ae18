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
use std::path::PathBuf;
use std::rc::Rc;

use rustix::fs::{AtFlags, FileType, OFlags, RawDir, Stat, statat};
use rustix::io::Errno;

use super::Format;
use super::attributes::At;
use super::marks::{Mark, Redirect};
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
    /// As it is written there, which for a whiteout need not be the name it takes away.
    pub(super) name: OsString,
    pub(super) stat: Stat,
}

/// What one layer has at a name.
enum Seen<'a> {
    Nothing,
    Whiteout(Leaf<'a>),
    Other(Leaf<'a>),
    Directory(Mark),
}

impl<'a> Run<'a> {
    pub(super) fn open(layers: &'a [PathBuf], format: Format) -> Result<Self, PathError> {
        let open = |layer: &PathBuf| Tree::new(layer).map_err(on("open", layer));
        let trees = layers.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { format, layers, trees })
    }

    /// The root of the tree. The kernel does not ask its directories what they say about themselves. fuse-overlayfs does, and
    /// lets anybody mark them.
    pub(super) fn top(&self) -> Result<Place, PathError> {
        let mut top = self.top_from(0);
        if self.format == Format::Fuse {
            for (position, held) in self.hold(&top)?.iter().enumerate() {
                let mark = self.format.read(&held.directory);
                if matches!(mark.map_err(|error| on("examine", &self.path(&held.part))(error))?, Mark::Opaque) {
                    top.parts.truncate(position + 1);
                    top.below = Below::Nothing;
                    break;
                }
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

    /// Lists the parts of a place. Returns all names that anything is said about.
    pub(super) fn list(&self, place: &mut [Held]) -> Result<BTreeSet<OsString>, PathError> {
        let mut subjects = BTreeSet::new();
        for held in place {
            let names = names(&held.directory).map_err(|error| on("list", &self.path(&held.part))(error))?;
            subjects.extend(names.iter().filter_map(|name| self.format.subject(name)).map(OsStr::to_owned));
            held.names = Some(names);
        }
        Ok(subjects)
    }

    /// What is shown at a name in a place with this below it.
    pub(super) fn find<'h>(&self, place: &'h [Held], below: &Below, name: &OsStr) -> Result<Entry<'h>, PathError> {
        let mut name = name.to_owned();
        let mut parts: Vec<Part> = Vec::new();
        for held in place {
            let mark = match self.look(held, &name)? {
                Seen::Nothing => continue,
                Seen::Whiteout(leaf) if parts.is_empty() => return Ok(Entry::Whiteout(leaf)),
                Seen::Other(leaf) if parts.is_empty() => return Ok(Entry::Other(leaf)),
                Seen::Whiteout(_) | Seen::Other(_) => return Ok(Entry::Directory(Place { parts, below: Below::Nothing })),
                Seen::Directory(mark) => mark,
            };
            let layer = held.part.layer;
            parts.push(Part { layer, trail: held.part.trail.join(&name) });
            match mark {
                Mark::None => {}
                Mark::Opaque => return Ok(Entry::Directory(Place { parts, below: Below::Nothing })),
                Mark::Redirect(Redirect::Name(other)) => name = other,
                Mark::Redirect(Redirect::Path(path)) => {
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
                    let is_copy = self.format.is_copy(At::new(&*held.directory, &older.name));
                    if !is_copy.map_err(|error| self.unseen(held, &older.name, error))? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// The directory at a path in the layers from this one on. It ends: each redirect on the way leads to fewer layers.
    fn resolve(&self, path: &Trail, from: usize) -> Result<Place, PathError> {
        let mut place = self.top_from(from);
        for name in path.to_path().iter() {
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
        let leaf = |name: OsString, stat| Leaf { held, name, stat };
        if let Some(whiteout) = self.format.whiteout_name(name)
            && let Some(stat) = self.stat(held, &whiteout)?
        {
            return Ok(Seen::Whiteout(leaf(whiteout, stat)));
        }
        let Some(stat) = self.stat(held, name)? else { return Ok(Seen::Nothing) };
        if FileType::from_raw_mode(stat.st_mode).is_dir() {
            let mark = open_leg(&*held.directory, name, OFlags::RDONLY)
                .map_err(io::Error::from)
                .and_then(|directory| self.format.read(&directory))
                .map_err(|error| self.unseen(held, name, error))?;
            return Ok(Seen::Directory(mark));
        }
        let is_whiteout = self.format.is_whiteout(At::new(&*held.directory, name), &stat);
        let is_whiteout = is_whiteout.map_err(|error| self.unseen(held, name, error))?;
        let leaf = leaf(name.to_owned(), stat);
        Ok(if is_whiteout { Seen::Whiteout(leaf) } else { Seen::Other(leaf) })
    }

    fn stat(&self, held: &Held, name: &OsStr) -> Result<Option<Stat>, PathError> {
        if held.names.as_ref().is_some_and(|names| !names.contains(name)) {
            return Ok(None);
        }
        match statat(&*held.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT | Errno::NAMETOOLONG) => Ok(None),
            Err(errno) => Err(self.unseen(held, name, errno.into())),
        }
    }

    fn unseen(&self, held: &Held, name: &OsStr, error: io::Error) -> PathError {
        on("examine", &self.path(&held.part).join(name))(error)
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
    pub(super) fn mark(&self, name: &OsStr, above: &Self) -> Mark {
        match (self, above) {
            (Self::Nothing, Self::Nothing) => Mark::None,
            (Self::Nothing, Self::At(_)) => Mark::Opaque,
            (Self::At(trail), Self::At(directory)) if trail.split().is_some_and(|(parent, _)| parent.is(directory)) => {
                match trail.split() {
                    // A path can be longer than an attribute, a name cannot.
                    Some((_, other)) if other != name => Mark::Redirect(Redirect::Name(other.to_owned())),
                    _ => Mark::None,
                }
            }
            (Self::At(trail), _) => Mark::Redirect(Redirect::Path(trail.clone())),
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
