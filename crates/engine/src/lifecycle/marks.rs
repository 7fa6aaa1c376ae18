//! What layers say about renamed directories, after those became real.
//!
//! A renamed directory carries a mark that leads to the directory of reality it was. Once an apply has moved that one too, the mark
//! leads nowhere, and the sandbox would see an empty directory. Without its mark it is one with reality's directory at its own place.
//! An undo puts the mark back.
//!
//! The kernel goes by what it read when it looked a directory up. So a mark is taken away only while nothing is mounted; until then
//! it is noted in the sandbox's `repairs`. It is put back at once: what the kernel does not know of it, it overwrites. Frozen layers
//! do not change: the sandbox gets a copy of such a layer, in which files are links.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};
use whatif_diff::{Renamed, base};
use whatif_layers::state_dir::AliveLock;
use whatif_layers::{remove, squash};
use whatif_overlay as overlay;
use whatif_overlay::{Format, Redirect, Said, Way};
use whatif_sys::absence::{self, OrAbsent};
use whatif_sys::direct;
use whatif_types::text::{self, Text};
use whatif_types::{Backend, LayerId, Sandbox, SandboxId};

use crate::EngineError;
use crate::ids::{new_id, new_layer_id};
use crate::lifecycle::Lifecycle;
use crate::roots::in_tree;

const FILE: &str = "repairs";
/// Only overlays mounted by root have renamed directories.
const FORMAT: Format = Format::Trusted;

/// A mark of one directory of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    tree: usize,
    #[serde(with = "text::path")]
    path: PathBuf,
    says: Says,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Says {
    /// What was here at this place of the tree shows through.
    CameFrom(Text),
    /// Nothing shows through.
    Opaque,
}

/// The head or a layer.
struct Place {
    layer: Option<LayerId>,
    root: PathBuf,
}

impl Lifecycle {
    /// The marks that are of no use any more once the directories are real that will be.
    pub(crate) fn marks_to_drop(
        &self,
        sandbox: &Sandbox,
        renamed: &[Renamed],
        will_be_real: &dyn Fn(&Path) -> bool,
    ) -> Result<Vec<Mark>, EngineError> {
        let mut marks: Vec<Mark> = Vec::new();
        if !has_marks(sandbox) || renamed.is_empty() {
            return Ok(marks);
        }
        let places = self.places(sandbox)?;
        for one in renamed {
            let Some((tree, path)) = in_tree(sandbox, &one.path) else { continue };
            // All the way down to it has to lead through reality.
            let way = path.ancestors().filter(|a| !a.as_os_str().is_empty());
            let wanted = way.map(|directory| mark_at(&places, tree, directory, renamed, sandbox, will_be_real));
            let wanted = wanted.collect::<Result<Vec<_>, _>>()?.into_iter().collect::<Option<Vec<_>>>();
            for mark in wanted.into_iter().flatten().flatten() {
                if !marks.contains(&mark) {
                    marks.push(mark);
                }
            }
        }
        Ok(marks)
    }

    /// Writes down which marks are to go.
    pub(crate) fn note_marks(&self, id: &SandboxId, marks: &[Mark]) -> Result<(), EngineError> {
        let Some(directory) = self.ground.state.find(id)? else { return Ok(()) };
        let mut noted = noted(&directory)?;
        noted.retain(|m| !marks.contains(m));
        noted.extend(marks.iter().cloned());
        write(&directory, &noted)
    }

    /// Puts them back.
    pub(crate) fn restore_marks(&self, id: &SandboxId, marks: &[Mark]) -> Result<(), EngineError> {
        let Some(directory) = self.ground.state.find(id)? else { return Ok(()) };
        let mut noted = noted(&directory)?;
        noted.retain(|m| !marks.contains(m));
        write(&directory, &noted)?;
        match self.ground.store.get(id)? {
            Some(mut sandbox) => self.change_marks(&mut sandbox, marks, Wanted::Set),
            None => Ok(()),
        }
    }

    /// Takes the noted marks away, those of the head if nothing is mounted. The caller holds the sandbox's lock.
    pub(crate) fn drop_marks(&self, sandbox: &mut Sandbox) -> Result<(), EngineError> {
        let directory = self.ground.directory(sandbox)?;
        let noted = noted(&directory)?;
        if noted.is_empty() {
            return Ok(());
        }
        let nothing_is_mounted = AliveLock::take(&directory)?;
        let head = directory.join("head");
        let (mut later, mut now) = (Vec::new(), Vec::new());
        for mark in noted {
            let has_to_wait = nothing_is_mounted.is_none() && mark.is_in(&head)?;
            if has_to_wait { &mut later } else { &mut now }.push(mark);
        }
        self.change_marks(sandbox, &now, Wanted::Gone)?;
        write(&directory, &later)
    }

    /// Takes the noted marks out of what has just become a layer, on top of the sandbox's others: whoever else stands on it, as a fork
    /// or a snapshot, knows of no note.
    pub(crate) fn drop_marks_in(&self, sandbox: &Sandbox, layer: &LayerId) -> Result<(), EngineError> {
        let top = Place { layer: Some(layer.clone()), root: self.ground.state.layer_path(layer) };
        let below = self.places(sandbox)?.into_iter().filter(|place| place.layer.as_ref().is_some_and(|below| below != layer));
        let places: Vec<Place> = std::iter::once(top).chain(below).collect();
        let noted = noted(&self.ground.directory(sandbox)?)?;
        let mut here = Vec::new();
        for mark in &noted {
            if mark.oldest(&places)?.is_some_and(|place| place.root == places[0].root)
                && mark.fits(&places[0].root, Wanted::Gone)?
            {
                here.push(mark);
            }
        }
        change(&places[0].root, &here, Wanted::Gone)
    }

    fn change_marks(&self, sandbox: &mut Sandbox, marks: &[Mark], wanted: Wanted) -> Result<(), EngineError> {
        let places = self.places(sandbox)?;
        for place in places.iter().rev() {
            let mut here = Vec::new();
            for mark in marks {
                if mark.oldest(&places)?.is_some_and(|p| p.root == place.root) && mark.fits(&place.root, wanted)? {
                    here.push(mark);
                }
            }
            match &place.layer {
                _ if here.is_empty() => {}
                None => change(&place.root, &here, wanted)?,
                Some(layer) => self.change_in_copy(sandbox, layer, &here, wanted)?,
            }
        }
        Ok(())
    }

    /// Puts the sandbox on a copy of one of its layers.
    fn change_in_copy(&self, sandbox: &mut Sandbox, layer: &LayerId, marks: &[&Mark], wanted: Wanted) -> Result<(), EngineError> {
        let id = new_layer_id()?;
        let from = self.ground.state.layer_path(layer);
        // Not where the sandbox's layers are merged: a merge under way is not waited for. Its layers are not in the stack any more then.
        let (place, _lock) = self.ground.state.begin_squash(&new_id()?)?;
        let copied = copy(&from, &place.join(id.as_str()), sandbox.details.trees.len())
            .and_then(|()| change(&place.join(id.as_str()), marks, wanted));
        let recorded = copied.and_then(|()| {
            let facts = self.ground.store.layer_facts(std::slice::from_ref(layer))?.pop().unwrap_or_default();
            self.ground.store.note_layer(&id, &facts)?;
            self.ground.announce_layers(&place, std::slice::from_ref(&id))?;
            self.ground.state.keep_layer(&place, &id)?;
            for one in sandbox.details.position.stack.iter_mut().filter(|l| *l == layer) {
                *one = id.clone();
            }
            Ok(self.ground.store.update(sandbox)?)
        });
        remove::tree(&place)?;
        recorded
    }

    /// Newest first.
    fn places(&self, sandbox: &Sandbox) -> Result<Vec<Place>, EngineError> {
        let head = Place { layer: None, root: self.ground.directory(sandbox)?.join("head") };
        let layers = sandbox.details.position.stack.iter().rev();
        let layers = layers.map(|l| Place { layer: Some(l.clone()), root: self.ground.state.layer_path(l) });
        Ok(std::iter::once(head).chain(layers).collect())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Set,
    Gone,
}

impl Mark {
    pub(crate) fn is_at(&self, tree: usize, path: &Path) -> bool {
        self.tree == tree && self.path == path
    }

    fn at(&self, root: &Path) -> PathBuf {
        root.join(self.tree.to_string()).join(&self.path)
    }

    fn is_in(&self, root: &Path) -> Result<bool, EngineError> {
        let at = self.at(root);
        absence::exists(&at).map_err(|e| EngineError::io("examine", &at, e))
    }

    /// The place that says the last word about what shows through.
    fn oldest<'p>(&self, places: &'p [Place]) -> Result<Option<&'p Place>, EngineError> {
        for place in places.iter().rev() {
            if self.is_in(&place.root)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Whether the directory is still the one that the mark is about, as far as it can be told: the sandbox may have gone on.
    fn fits(&self, root: &Path, wanted: Wanted) -> Result<bool, EngineError> {
        let at = self.at(root);
        let found = absence::look(&at).map_err(|e| EngineError::io("examine", &at, e))?;
        if !found.is_some_and(|m| m.is_dir()) {
            return Ok(false);
        }
        let Some(said) = read(&at)? else { return Ok(false) };
        Ok(match (&self.says, wanted, &said.way) {
            (Says::CameFrom(source), Wanted::Gone, Way::Redirect(redirect)) => redirect.may_lead_to(&source.to_path()),
            (Says::CameFrom(_), Wanted::Set, Way::Down) => said.is_copied_up,
            (Says::Opaque, Wanted::Gone, way) => *way == Way::Opaque,
            (Says::Opaque, Wanted::Set, way) => *way == Way::Down,
            (Says::CameFrom(_), ..) => false,
        })
    }
}

/// The mark of one directory on the way to a renamed one, if it has any; nothing if it has to stay.
fn mark_at(
    places: &[Place],
    tree: usize,
    path: &Path,
    renamed: &[Renamed],
    sandbox: &Sandbox,
    will_be_real: &dyn Fn(&Path) -> bool,
) -> Result<Option<Option<Mark>>, EngineError> {
    let mark = |says| Mark { tree, path: path.to_owned(), says };
    let Some(full) = sandbox.details.trees.get(tree).map(|root| root.join(path)) else { return Ok(None) };
    let mut found = None;
    for place in places {
        let at = mark(Says::Opaque).at(&place.root);
        let says = match read(&at)?.map(|said| said.way) {
            Some(Way::Opaque) => Says::Opaque,
            Some(Way::Redirect(_)) => {
                let source = renamed.iter().find(|r| r.path == full && r.at == at).map(|r| &r.source);
                let Some(source) = source else { return Ok(None) };
                Says::CameFrom(Text::from(source))
            }
            Some(Way::Down) | None => continue,
        };
        // A mark below another one does not count as long as that one is there, and would afterwards.
        if found.replace(mark(says)).is_some() || mark(Says::Opaque).oldest(places)?.is_none_or(|p| p.root != place.root) {
            return Ok(None);
        }
    }
    let is_real = found.is_none() || will_be_real(&full);
    Ok(is_real.then_some(found))
}

pub(crate) fn has_marks(sandbox: &Sandbox) -> bool {
    sandbox.details.backend == Backend::Overlay && sandbox.details.identity.started_by_root()
}

/// What is said at a path that leads through no link, if anything is there.
fn read(path: &Path) -> Result<Option<Said>, EngineError> {
    let said = direct::hold(path).and_then(|held| FORMAT.read(&held)).or_absent();
    said.map_err(|errno| EngineError::io("examine", path, errno.into()))
}

/// Whether a directory of a head or layer was renamed.
pub(crate) fn is_renamed(directory: &Path) -> Result<bool, EngineError> {
    Ok(matches!(read(directory)?, Some(Said { way: Way::Redirect(_), .. })))
}

/// Nothing shows through a directory any more. That it was copied up is still said, which keeps the kernel from listing its whiteouts.
pub(crate) fn cut_off(directory: &Path) -> io::Result<()> {
    let held = direct::hold(directory)?;
    FORMAT.make_opaque(&held)?;
    Ok(FORMAT.remove(&held, overlay::Mark::Redirect)?)
}

fn change(root: &Path, marks: &[&Mark], wanted: Wanted) -> Result<(), EngineError> {
    for mark in marks {
        let at = mark.at(root);
        let changed = direct::hold(&at).and_then(|held| match (&mark.says, wanted) {
            (Says::CameFrom(source), Wanted::Set) => FORMAT.set_redirect(&held, &Redirect::FromRoot(source.to_path())),
            (Says::CameFrom(_), Wanted::Gone) => FORMAT.remove(&held, overlay::Mark::Redirect),
            (Says::Opaque, Wanted::Set) => FORMAT.make_opaque(&held),
            (Says::Opaque, Wanted::Gone) => FORMAT.remove(&held, overlay::Mark::Opaque),
        });
        changed.map_err(|e| EngineError::io("mark", &at, e.into()))?;
    }
    Ok(())
}

/// Copies a layer, its files as links.
fn copy(from: &Path, to: &Path, trees: usize) -> Result<(), EngineError> {
    fs::create_dir(to).map_err(|e| EngineError::io("create", to, e))?;
    for tree in (0..trees).map(|t| t.to_string()) {
        let part = from.join(&tree);
        if absence::is_dir(&part).map_err(|e| EngineError::io("examine", &part, e))? {
            squash::merge(&[part], &to.join(&tree), FORMAT)?;
        }
    }
    base::copy(&from.join("base"), &to.join("base")).map_err(|e| EngineError::io("copy", from, e))
}

fn noted(directory: &Path) -> Result<Vec<Mark>, EngineError> {
    let path = directory.join(FILE);
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| EngineError::io("read", &path, e.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(EngineError::io("read", &path, error)),
    }
}

/// Replaces what is noted, at once.
fn write(directory: &Path, marks: &[Mark]) -> Result<(), EngineError> {
    let (path, new) = (directory.join(FILE), directory.join("repairs.new"));
    let done = match marks {
        [] => match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        },
        marks => serde_json::to_vec(marks)
            .map_err(io::Error::from)
            .and_then(|b| fs::write(&new, b))
            .and_then(|()| fs::rename(&new, &path)),
    };
    done.map_err(|e| EngineError::io("write", &path, e))
}
