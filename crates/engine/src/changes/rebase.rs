//! `whatif rebase`: moves a sandbox onto reality as it is now.
//!
//! What the sandbox did not touch follows reality by itself; in a copy it is brought up to date (`copies.rs`). Where reality changed
//! something that the sandbox has a version of, that version becomes the merge of both, by the same rules as in an apply; where text
//! collides, it gets conflict markers, as git writes them, to be settled inside. Everything else that collides stays as it is and
//! is listed as open. Where an apply left reality's version by choice, the sandbox keeps its own: nobody else may have it.
//!
//! The head's version is replaced and on the disk before the record says that it stands on reality, and what it will say is written
//! down before that (`ground/unfinished/intent.rs`). So a rebase that is cut short leaves each version with what it starts from.

mod copies;
mod document;
mod head;
mod names;
mod reality;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use whatif_diff::base::{Made, NewBase, Record, hash_of};
use whatif_diff::{Base, Change, Kind, Moved, State, Time, Unchanged, Unreadable, content, git_index};
use whatif_layers::state_dir::SandboxLock;
use whatif_sys::{absence, direct};
use whatif_types::{EventKind, Sandbox, Selector, Status};

use self::head::{Head, New};
use self::names::Following;
use self::reality::{Found, Tree};
use crate::changes::{Changes, database};
use crate::git_directory::is_gits_own;
use crate::lifecycle::start::Why;
use crate::merge::{BOTH_ADDED, Collision, Content, DELETED_THERE, Looks, Merged, REALITY, SANDBOX, deleted_here, merge};
use crate::trees::{lies_in_copy, tree_of};
use crate::{EngineError, now};

const SETTLED: &str = "reality's version was chosen, the sandbox still has its own";
/// Whatever reality has there, none of it may be seen inside, and nothing of the sandbox's is ever applied there.
const UNSHOWN: &str = "reality's version is masked or shown rewritten, the sandbox has its own";

const JOURNAL: &str = "reality changed the database, and what the sandbox wrote to it last is in a journal";

#[derive(Debug)]
pub struct Rebased {
    pub sandbox: Sandbox,
    /// Both sides are in the sandbox now.
    pub merged: Vec<PathBuf>,
    /// Both sides are in the sandbox, between markers.
    pub marked: Vec<PathBuf>,
    /// The sandbox has its own version still, though reality's was chosen in an apply, or may not be seen inside.
    pub kept: Vec<(PathBuf, &'static str)>,
    /// Nothing could be done; an apply will still say so.
    pub open: Vec<(PathBuf, &'static str)>,
}

/// What becomes of one path.
enum Outcome {
    Merged {
        content: Content,
        looks: Looks,
        now: State,
    },
    Marked {
        bytes: Vec<u8>,
        looks: Looks,
        now: State,
    },
    /// Reality has it no more, and the sandbox did nothing to it.
    Gone,
    /// Reality made a directory of it, and the sandbox did nothing to it.
    MadeDirectory,
    Open(&'static str),
}

impl Changes {
    pub fn rebase(&self, which: &Selector) -> Result<Rebased, EngineError> {
        let sandbox = self.ground.resolve_to_use(which)?;
        self.ground.require_project(&sandbox)?;
        let (_lock, mut sandbox) = self.lock_with_heads(sandbox)?;
        self.lifecycle.rest(&mut sandbox)?;
        let directory = self.ground.directory(&sandbox)?;
        let held_back = self.refresh_copies(&sandbox, &directory)?;
        let found = self.ground.look(&sandbox)?.complete(&sandbox.project)?;
        let looked_at = found.changes.iter().chain(&found.behind).map(|c| &c.path);
        let looked_at = looked_at.chain(found.agreed.iter().map(|same| &same.now.at)).chain(&found.gone);
        self.ground.require_same_mounts(&sandbox, looked_at.map(PathBuf::as_path))?;
        // Before the first marker is written: an apply looks for them only where there was a rebase.
        let was_rebased = sandbox.details.based_at.replace(now()).is_some();
        self.ground.store.update(&mut sandbox)?;
        let known = self.ground.bases(&sandbox)?;
        let is_settled = |change: &&Change| known.get(&change.path).is_some_and(Record::is_settled);
        let (settled, behind): (Vec<&Change>, Vec<&Change>) = found.behind.iter().partition(is_settled);
        let unshown = self.ground.secrets_of(&sandbox.project, &sandbox.details)?.unshown()?.all();
        let is_unshown = |path: &Path| unshown.iter().any(|above| path.starts_with(above));
        let drifted = found.changes.iter().filter(|c| c.has_drifted()).chain(behind);
        let (hidden, drifted): (Vec<&Change>, Vec<&Change>) = drifted.partition(|change| is_unshown(&change.path));
        let because = |why: &'static str| move |change: &Change| (change.path.clone(), why);
        let settled = settled.into_iter().map(because(SETTLED));
        let mut kept: Vec<(PathBuf, &'static str)> = settled.chain(hidden.into_iter().map(because(UNSHOWN))).collect();
        kept.sort();
        let mut rebased = Rebased { sandbox: sandbox.clone(), merged: Vec::new(), marked: Vec::new(), kept, open: Vec::new() };
        rebased.open.extend(held_back.into_iter().map(|database| (database, JOURNAL)));
        let mut trees: HashMap<PathBuf, Tree> = HashMap::new();
        let layers = sandbox.details.position.stack.iter().rev().map(|id| self.ground.state.layer_path(id)).collect();
        let mut head = Head { sandbox: &sandbox, directory: &directory, layers, versions: HashMap::new() };
        let (mut bases, following) = (Vec::new(), Following::of(&found.changes));
        let with_journals = database::of_journals(&found.changes);
        for change in drifted {
            let outcome = match hold(&mut trees, &sandbox, &change.path)? {
                Some(_) if with_journals.contains(&change.path) && is_database(change)? => Outcome::Open(JOURNAL),
                Some(tree) => outcome(change, tree)?,
                None => Outcome::Open("it lies outside what the sandbox shows"),
            };
            let following =
                if matches!(outcome, Outcome::Gone | Outcome::MadeDirectory) { &[] } else { following.after(&change.path) };
            let names = [change].into_iter().chain(following.iter().copied()).map(|c| c.path.clone());
            match carry_out(&mut head, change, outcome, following)? {
                Done::Merged(base) => {
                    bases.extend(base.map(|base| *base));
                    rebased.merged.extend(names);
                }
                Done::Marked => rebased.marked.extend(names),
                Done::Open(why) => rebased.open.push((change.path.clone(), why)),
            }
        }
        for same in found.agreed.iter().filter(|same| !is_unshown(&same.now.at)) {
            if let Some(tree) = hold(&mut trees, &sandbox, &same.now.at)? {
                bases.extend(agreed(same, tree)?);
            }
        }
        bases.extend(self.gone_for_both(&sandbox, &found.gone)?);
        // Those of an earlier rebase are to be settled still, although reality did not move.
        if was_rebased {
            for change in found.changes.iter().filter(|c| !c.has_drifted()) {
                if has_markers(change)? {
                    rebased.marked.push(change.path.clone());
                }
            }
        }
        // Whatever reality did there, nothing of it was taken over.
        rebased
            .open
            .extend(found.unreadable.iter().map(|closed| (closed.path.clone(), "it cannot be read, so it was not looked at")));
        self.ground.bases(&sandbox)?.replace(bases, None).map_err(|e| EngineError::io("write", directory.join("base"), e))?;
        sandbox.details.based_at = Some(now());
        sandbox.updated_at = now();
        // This also keeps what is relative to reality now before reality moves on.
        self.lifecycle.recount(&mut sandbox)?;
        self.ground.store.update(&mut sandbox)?;
        self.ground.tell(EventKind::SandboxRebased, &sandbox, vec![("merged", rebased.merged.len().into())]);
        Ok(Rebased { sandbox, ..rebased })
    }

    /// Should reality get again what both sides deleted, the sandbox goes on without it, and that is no change of its own. What an
    /// apply took away is known, and a copy's inventory forgets what neither has.
    fn gone_for_both(&self, sandbox: &Sandbox, gone: &[PathBuf]) -> Result<Vec<NewBase>, EngineError> {
        let (known, mut absent) = (self.ground.bases(sandbox)?, HashSet::new());
        for path in gone.iter().filter(|path| !known.was_absent(path) && !lies_in_copy(sandbox, path)) {
            // What is mounted there, or came a moment ago, was not looked at.
            if direct::look(path).map_err(|e| EngineError::io("examine", path, e))?.is_none() {
                absent.insert(path.as_path());
            }
        }
        let is_below = |path: &&Path| path.ancestors().skip(1).any(|above| absent.contains(above));
        let below: Vec<NewBase> = known.paths().filter(is_below).map(|path| NewBase::Forget { path: path.to_owned() }).collect();
        Ok(below.into_iter().chain(absent.into_iter().map(|path| NewBase::Absent { path: path.to_owned() })).collect())
    }

    /// A sandbox whose layers changed while it was stopped has no heads until it starts, and nothing can be put into one before.
    fn lock_with_heads(&self, mut sandbox: Sandbox) -> Result<(SandboxLock, Sandbox), EngineError> {
        loop {
            if !self.has_heads(&sandbox)? {
                sandbox = self.lifecycle.start_stopped(sandbox, Why::Asked)?;
            }
            let lock = self.ground.lock(&sandbox)?;
            sandbox = self.ground.refresh(&sandbox)?;
            // Before we had the lock, another command may have stopped it and changed its layers.
            if self.has_heads(&sandbox)? {
                return Ok((lock, sandbox));
            }
        }
    }

    fn has_heads(&self, sandbox: &Sandbox) -> Result<bool, EngineError> {
        if sandbox.status == Status::Active || sandbox.details.position.stack.is_empty() {
            return Ok(true);
        }
        let head = self.ground.directory(sandbox)?.join("head");
        for number in 0..sandbox.details.trees.len() {
            let tree = head.join(number.to_string());
            if !absence::is_dir(&tree).map_err(|e| EngineError::io("examine", &tree, e))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn hold<'t>(trees: &'t mut HashMap<PathBuf, Tree>, sandbox: &Sandbox, path: &Path) -> Result<Option<&'t Tree>, EngineError> {
    let Some((_, tree)) = tree_of(sandbox, path) else { return Ok(None) };
    if !trees.contains_key(tree) {
        trees.insert(tree.to_owned(), Tree::hold(tree).map_err(|e| EngineError::io("open", tree, e))?);
    }
    Ok(trees.get(tree))
}

fn is_database(change: &Change) -> Result<bool, EngineError> {
    let inside = change.after.as_ref().map_or(Ok(false), database::is_one);
    inside.map_err(|e| EngineError::io("read", &change.path, e))
}

fn outcome(change: &Change, tree: &Tree) -> Result<Outcome, EngineError> {
    if change.has_lost_its_source() {
        return Ok(Outcome::Open("it was renamed, and reality deleted what it was before"));
    }
    let Some(after) = &change.after else { return Ok(Outcome::Open(deleted_here(change))) };
    let found = tree.read(&change.path).map_err(|e| EngineError::io("read", &change.path, e))?;
    let now = match (found, &change.reality) {
        (Found::Nothing, None) if is_as_it_was(change)? => return Ok(Outcome::Gone),
        (Found::Nothing, None) => return Ok(Outcome::Open(DELETED_THERE)),
        (Found::TooLong, _) => return Ok(Outcome::Open("both changed it, and it is too large to be merged")),
        // What the sandbox started from was found out for the version that was there then.
        (Found::There(now), Some(seen)) if is_same_version(&now, seen) => *now,
        _ => return Ok(Outcome::Open("it is being changed in reality; rebase once more")),
    };
    if now.node.kind == Kind::Directory && after.node.kind != Kind::Directory && is_as_it_was(change)? {
        return Ok(Outcome::MadeDirectory);
    }
    if now.node.kind != Kind::Directory && after.node.kind == Kind::Directory && change.base == Base::Lost {
        return Ok(Outcome::Open("reality has something else in the place of the directory"));
    }
    let before = change.before.as_ref().filter(|_| change.base == Base::Kept).map(|before| steady(before, &now)).transpose()?;
    Ok(match merge(before.as_ref(), &now, after, None)? {
        Ok(Merged { content, looks }) => Outcome::Merged { content, looks, now },
        // Git could not read a branch with markers in it.
        Err(Collision { marked: Some(_), .. }) if is_gits_own(&change.path) => Outcome::Open(
            "both changed it, and it is git's own; settle it with git, or choose a side with apply --ours or --theirs",
        ),
        Err(Collision { marked: Some(marked), .. }) => Outcome::Marked { bytes: marked.bytes, looks: marked.looks, now },
        Err(_) if change.drift() == Moved::Added => Outcome::Open(BOTH_ADDED),
        Err(Collision { why, .. }) => Outcome::Open(why),
    })
}

/// Where both sides have the same by now, what either does next is relative to that: reality may go back to what it was.
fn agreed(same: &Unchanged, tree: &Tree) -> Result<Option<NewBase>, EngineError> {
    let path = &same.now.at;
    match tree.read(path).map_err(|e| EngineError::io("read", path, e))? {
        Found::There(now) if is_same_version(&now, &same.now.node) => base(path.clone(), &now, same.equal_to()).map(Some),
        _ => Ok(None),
    }
}

/// The sandbox has what it started from.
fn is_as_it_was(change: &Change) -> Result<bool, EngineError> {
    let differs = whatif_diff::change::difference(change.before.as_ref(), change.after.as_ref(), true)?;
    Ok(change.base == Base::Kept && differs.is_none())
}

fn is_same_version(now: &State, seen: &whatif_diff::Node) -> bool {
    match now.node.kind {
        Kind::Directory => seen.kind == Kind::Directory && now.node.ino == seen.ino,
        _ => now.node.is_untouched_since(seen),
    }
}

/// A start whose bytes are reality's, with the bytes that were read: reality may have others by now.
fn steady(before: &State, now: &State) -> Result<State, EngineError> {
    if before.at != now.at || now.node.kind != Kind::File {
        return Ok(before.clone());
    }
    let bytes = now.bytes().map_err(|e| EngineError::io("read", &now.at, e))?;
    Ok(State::read_once(before.node.clone(), before.at.clone(), before.attributes()?.clone(), bytes.into_owned()))
}

enum Done {
    /// With what it starts from, if that is not written down.
    Merged(Option<Box<NewBase>>),
    Marked,
    Open(&'static str),
}

/// Brings the head up to date, and says what it starts from then.
fn carry_out(head: &mut Head<'_>, change: &Change, outcome: Outcome, following: &[&Change]) -> Result<Done, EngineError> {
    let path = change.path.clone();
    match (outcome, &change.after) {
        (Outcome::Open(why), _) => Ok(Done::Open(why)),
        (Outcome::Gone, Some(after)) => {
            if !head.remove(after)? {
                return Ok(Done::Open(DELETED_THERE));
            }
            // Nothing of reality shows through a copy: should reality get it again, the sandbox has not deleted it.
            let is_copied = lies_in_copy(head.sandbox, &path);
            Ok(Done::Merged(Some(Box::new(if is_copied { NewBase::Absent { path } } else { NewBase::Forget { path } }))))
        }
        (Outcome::MadeDirectory, Some(after)) => {
            // Without it, reality's directory shows. Nothing does through a copy.
            if lies_in_copy(head.sandbox, &path) || !head.remove(after)? {
                return Ok(Done::Open("reality made a directory of it, and the sandbox has what it was"));
            }
            Ok(Done::Merged(Some(Box::new(NewBase::Forget { path }))))
        }
        (Outcome::Merged { content, looks, now }, Some(after)) => {
            let is_there = match &content {
                Content::Reality => now.node.kind == Kind::Directory || now.has_same_content(after)?,
                Content::Sandbox => true,
                Content::Both { .. } => false,
            };
            if !is_there || looks != Looks::of(after)? {
                let (bytes, target);
                let new = match &content {
                    Content::Both { bytes, .. } => New::Bytes(bytes),
                    Content::Reality if now.node.kind == Kind::Link => {
                        target = now.target()?;
                        New::Link(&target)
                    }
                    Content::Reality if now.node.kind == Kind::File => {
                        bytes = now.bytes().map_err(|e| EngineError::io("read", &path, e))?;
                        New::Bytes(&bytes)
                    }
                    _ => New::Same,
                };
                head.rewrite(change, after, &new, &looks, base(path, &now, None)?, following)?;
                return Ok(Done::Merged(None));
            }
            Ok(Done::Merged(Some(Box::new(base(path, &now, None)?))))
        }
        (Outcome::Marked { bytes, looks, now }, Some(after)) => {
            head.rewrite(change, after, &New::Bytes(&bytes), &looks, base(path, &now, None)?, following)?;
            Ok(Done::Marked)
        }
        (_, None) => Ok(Done::Open(deleted_here(change))),
    }
}

/// Reality is what the sandbox starts from: the version that was read, with its bytes if they are text. `equal_to`: the head's inode and
/// its time of change, if that is the same.
fn base(path: PathBuf, now: &State, equal_to: Option<(u64, Time)>) -> Result<NewBase, EngineError> {
    let (node, attributes) = (now.node.clone(), Some(now.attributes()?.clone()));
    let mut hash = None;
    if node.kind == Kind::File {
        let bytes = now.bytes().map_err(|e| EngineError::io("read", &path, e))?;
        if git_index::is_one(&path) || !whatif_patch::is_binary(&bytes) {
            let bytes = bytes.into_owned();
            return Ok(NewBase::Content { path, node, attributes, bytes, reconciled: false, made: Made::Nothing });
        }
        hash = Some(hash_of(&bytes));
    }
    Ok(NewBase::Identity { path, node, attributes, hash, reconciled: false, equal_to, made: Made::Nothing })
}

/// Whether a collision that a rebase marked has not been settled.
pub(crate) fn has_markers(change: &Change) -> Result<bool, Unreadable> {
    let is_text = |s: &&State| s.node.kind == Kind::File && s.node.size <= content::LONGEST_TEXT;
    let Some(after) = change.after.as_ref().filter(is_text) else { return Ok(false) };
    let bytes = after.bytes().map_err(|error| Unreadable::of(&change.path, &error))?;
    let begins = |marker: &str, side: &str| {
        let line = format!("{marker} {side}");
        bytes.split(|b| *b == b'\n').any(|l| l.strip_suffix(b"\r").unwrap_or(l) == line.as_bytes())
    };
    Ok(begins("<<<<<<<", REALITY) && begins(">>>>>>>", SANDBOX))
}
