//! What the sandbox moved to where reality's version stays.
//!
//! It goes from where it was, is not put where the sandbox has it, and no diff shows it any more: only the sandbox would have it. So
//! it has to stay in its old place, too. Renames alone do not tell: what was moved over a file, swapped with one, or merged by a
//! rebase with what reality has at the new name is not shown as one. What counts is whose content it is. Of a file that is closed to
//! this user only the size is known.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use whatif_apply::{Change as Act, Source};
use whatif_diff::{Change, ChangeSet, Kind, State, content};

use super::plan::Planned;
use crate::EngineError;
use crate::merge::now;

/// Longer files are told by their bytes as a whole only.
const LONGEST_TEXT: u64 = 1 << 20;
const PIECE: usize = 64 << 10;

/// The paths that a plan changes and that have to stay as they are.
pub(super) fn to_keep(set: &ChangeSet, planned: &Planned) -> Result<Vec<PathBuf>, EngineError> {
    let settled: HashSet<&Path> = planned.settled.iter().map(PathBuf::as_path).collect();
    let mut inside = OnlyInside::default();
    for change in set.changes.iter().filter(|c| settled.contains(c.path.as_path())) {
        inside.add(change)?;
    }
    if inside.is_empty() {
        return Ok(Vec::new());
    }
    let mut going = going(set, planned, &inside.keys)?;
    let mut kept = Vec::new();
    loop {
        let mut rest = Vec::new();
        let known = kept.len();
        for one in going {
            if inside.has(&one)? {
                // What was to come here stays inside as well.
                inside.add(one.change)?;
                kept.push(one.change.path.clone());
            } else {
                rest.push(one);
            }
        }
        if kept.len() == known {
            return Ok(kept);
        }
        going = rest;
    }
}

/// What reality has at a path and the plan takes from there.
struct Going<'a> {
    change: &'a Change,
    now: State,
    /// The lines that the path does not have any more afterwards.
    lost: Vec<Line>,
    /// The length of all that it has now.
    length: usize,
    /// The plan puts just this in another place.
    is_put_elsewhere: bool,
    digest: OnceCell<Option<u64>>,
}

#[derive(Clone, Copy)]
struct Line {
    key: u64,
    length: usize,
}

fn going<'a>(set: &'a ChangeSet, planned: &Planned, keys: &RandomState) -> Result<Vec<Going<'a>>, EngineError> {
    let puts: HashSet<&Path> = planned.paths.iter().map(PathBuf::as_path).collect();
    let renames = set.changes.iter().filter_map(|c| Some((c.old_path()?, c)));
    let renames: HashMap<&Path, &Change> = renames.collect();
    let mut going = Vec::new();
    for (path, operation) in planned.paths.iter().zip(&planned.plan.operations) {
        let rename = renames.get(path.as_path());
        let Some(change) = set.find(path).or(rename.and_then(|c| c.deletion.as_deref())) else { continue };
        let Some(now) = now(change) else { continue };
        let Some(coming) = coming(change, &now, &operation.change)? else { continue };
        let lines = lines(keys, &text(&now)?);
        let length = lines.iter().map(|line| line.length).sum();
        let coming: HashSet<u64> = self::lines(keys, &coming).into_iter().map(|line| line.key).collect();
        let lost = lines.into_iter().filter(|line| !coming.contains(&line.key)).collect();
        let is_put_elsewhere = rename.is_some_and(|c| c.similarity == Some(100) && puts.contains(c.path.as_path()));
        going.push(Going { change, now, lost, length, is_put_elsewhere, digest: OnceCell::new() });
    }
    Ok(going)
}

/// The text that takes the place of what reality has. `None` if its content stays.
fn coming(change: &Change, now: &State, act: &Act) -> Result<Option<Vec<u8>>, EngineError> {
    let source = match act {
        Act::Remove => return Ok(Some(Vec::new())),
        Act::Put { source, .. } => source,
        _ => return Ok(None),
    };
    match source {
        Source::Bytes(bytes) => Ok(Some(bytes.clone())),
        Source::File(at) if *at == now.at => Ok(None),
        _ => match &change.after {
            Some(after) if !is_same(now, after)? => Ok(Some(text(after)?)),
            _ => Ok(None),
        },
    }
}

/// Everything that only the sandbox has, because reality's version stays in its place.
#[derive(Default)]
struct OnlyInside<'a> {
    old_names: HashSet<&'a Path>,
    /// Digests of files and links by their sizes; `None` for one that is closed.
    contents: HashMap<(Kind, u64), HashSet<Option<u64>>>,
    lines: HashSet<u64>,
    /// Of directories.
    attributes: HashSet<u64>,
    keys: RandomState,
}

impl<'a> OnlyInside<'a> {
    fn is_empty(&self) -> bool {
        self.old_names.is_empty() && self.contents.is_empty() && self.attributes.is_empty()
    }

    fn add(&mut self, change: &'a Change) -> Result<(), EngineError> {
        self.old_names.extend(change.old_path());
        let Some(after) = &change.after else { return Ok(()) };
        let now = now(change);
        let same_kind = now.as_ref().filter(|now| now.node.kind == after.node.kind);
        match after.node.kind {
            Kind::Directory => {
                let known = same_kind.map(|now| attributes(&self.keys, now)).transpose()?.unwrap_or_default();
                self.attributes.extend(attributes(&self.keys, after)?.difference(&known));
            }
            Kind::File | Kind::Link if after.node.size > 0 => {
                if same_kind.map(|now| is_same(now, after)).transpose()? == Some(true) {
                    return Ok(());
                }
                let digest = digest(&self.keys, after)?;
                self.contents.entry((after.node.kind, after.node.size)).or_default().insert(digest);
                let known = same_kind.map(text).transpose()?.unwrap_or_default();
                let known: HashSet<u64> = lines(&self.keys, &known).into_iter().map(|line| line.key).collect();
                let new = lines(&self.keys, &text(after)?).into_iter().map(|line| line.key);
                self.lines.extend(new.filter(|key| !known.contains(key)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether what goes from a path is to be found here: at least half of its text, as with renames.
    fn has(&self, going: &Going<'_>) -> Result<bool, EngineError> {
        let node = &going.now.node;
        if node.kind == Kind::Directory {
            return Ok(!self.attributes.is_empty() && !attributes(&self.keys, &going.now)?.is_disjoint(&self.attributes));
        }
        if self.old_names.contains(going.change.path.as_path()) {
            return Ok(true);
        }
        if going.is_put_elsewhere {
            return Ok(false);
        }
        let here: usize = going.lost.iter().filter(|line| self.lines.contains(&line.key)).map(|line| line.length).sum();
        if here > 0 && here * 2 >= going.length {
            return Ok(true);
        }
        let Some(digests) = self.contents.get(&(node.kind, node.size)) else { return Ok(false) };
        let digest = match going.digest.get() {
            Some(known) => *known,
            None => {
                let read = digest(&self.keys, &going.now)?;
                *going.digest.get_or_init(|| read)
            }
        };
        Ok(digest.is_none() || digests.contains(&None) || digests.contains(&digest))
    }
}

fn is_same(one: &State, two: &State) -> Result<bool, EngineError> {
    match one.has_same_content(two) {
        Err(unreadable) if unreadable.is_closed() => Ok(false),
        other => Ok(other?),
    }
}

/// Of a file that is too long or closed, nothing. One that is not a text may have been one before it was moved.
fn text(state: &State) -> Result<Vec<u8>, EngineError> {
    if state.node.kind != Kind::File || state.node.size > LONGEST_TEXT {
        return Ok(Vec::new());
    }
    let bytes = state.bytes().map(Cow::into_owned).or_else(|e| if is_closed(&e) { Ok(Vec::new()) } else { Err(e) });
    bytes.map_err(|e| EngineError::io("read", &state.at, e))
}

/// Without blank ones, which are everywhere.
fn lines(keys: &RandomState, text: &[u8]) -> Vec<Line> {
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    lines.map(|line| Line { key: keys.hash_one(line), length: line.len() }).collect()
}

fn attributes(keys: &RandomState, directory: &State) -> Result<HashSet<u64>, EngineError> {
    match directory.attributes() {
        Err(unreadable) if unreadable.is_closed() => Ok(HashSet::new()),
        read => Ok(read?.iter().map(|attribute| keys.hash_one(attribute)).collect()),
    }
}

/// `None` for a file that is closed.
fn digest(keys: &RandomState, state: &State) -> Result<Option<u64>, EngineError> {
    if state.node.kind == Kind::Link {
        return Ok(Some(keys.hash_one(state.target()?)));
    }
    match digest_of_file(keys, &state.at) {
        Err(error) if is_closed(&error) => Ok(None),
        read => Ok(Some(read.map_err(|e| EngineError::io("read", &state.at, e))?)),
    }
}

fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn digest_of_file(keys: &RandomState, path: &Path) -> io::Result<u64> {
    let (mut file, mut piece, mut hasher) = (content::open(path)?, vec![0; PIECE], keys.build_hasher());
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hasher.finish()),
            length => hasher.write(&piece[..length]),
        }
    }
}
