//! `whatif rebase`: moves a sandbox onto reality as it is now.
//!
//! What the sandbox did not touch follows reality by itself. Where both changed a file, the sandbox's version becomes the merge
//! of both; where they collide, it gets conflict markers, as git writes them, for whoever works in the sandbox to settle.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use whatif_diff::base::{Made, NewBase};
use whatif_diff::{Change, Kind, Node, State, Unreadable, content};
use whatif_layers::copy;
use whatif_patch::Merge;
use whatif_types::sandbox::StopReason;
use whatif_types::{Sandbox, Status};

use crate::{Engine, EngineError, now, private_file};

#[derive(Debug)]
pub struct Rebased {
    pub sandbox: Sandbox,
    /// Both sides are in the sandbox now.
    pub merged: Vec<PathBuf>,
    /// Both sides are in the sandbox, between markers.
    pub marked: Vec<PathBuf>,
    /// Nothing could be done; an apply will still say so.
    pub open: Vec<(PathBuf, &'static str)>,
}

enum Outcome {
    Merged(Vec<u8>),
    Marked(Vec<u8>),
    Open(&'static str),
}

impl Engine {
    pub fn rebase(&self, name: Option<&str>) -> Result<Rebased, EngineError> {
        let sandbox = self.resolve(name)?;
        let _lock = self.lock(&sandbox)?;
        let mut sandbox = self.refresh(&sandbox)?;
        self.rest(&mut sandbox)?;
        let directory = self.directory(&sandbox)?;
        let found = self.look(&sandbox)?.complete()?;
        let mut rebased = Rebased { sandbox: sandbox.clone(), merged: Vec::new(), marked: Vec::new(), open: Vec::new() };
        let mut bases = Vec::new();
        for change in found.changes.iter().filter(|c| c.has_drifted()) {
            let (bytes, list) = match outcome(change)? {
                Outcome::Merged(bytes) => (bytes, &mut rebased.merged),
                Outcome::Marked(bytes) => (bytes, &mut rebased.marked),
                Outcome::Open(why) => {
                    rebased.open.push((change.path.clone(), why));
                    continue;
                }
            };
            if let (Some(after), Some(node)) = (&change.after, Node::of(&change.path)?) {
                let file = in_head(&sandbox, &directory, change, &after.at)?;
                rewrite(&directory, &after.at, &file, &bytes).map_err(|e| EngineError::io("rewrite", &change.path, e))?;
                bases.push(NewBase::Identity { path: change.path.clone(), node, equal_to: None, made: Made::Nothing });
                list.push(change.path.clone());
            }
        }
        self.bases(&sandbox)?.replace(bases).map_err(|e| EngineError::io("write", &directory.join("base"), e))?;
        sandbox.details.based_at = Some(now());
        sandbox.updated_at = now();
        self.store.update(&mut sandbox)?;
        // What is relative to reality now is kept before reality moves on.
        self.look(&sandbox)?;
        Ok(Rebased { sandbox, ..rebased })
    }

    /// Heads are rewritten only while nothing is mounted over them. A sandbox in which nothing runs is stopped for it and starts
    /// again by itself.
    pub(crate) fn rest(&self, sandbox: &mut Sandbox) -> Result<(), EngineError> {
        if sandbox.status != Status::Active {
            return Ok(());
        }
        // What its own file systems are served by is no matter.
        if !self.connect_to_hold(sandbox)?.freeze()?.is_empty() {
            return Err(EngineError::StillRunning { name: sandbox.name.clone() });
        }
        self.put_to_rest(sandbox)
    }

    /// Stops a sandbox in which nothing runs.
    pub(crate) fn put_to_rest(&self, sandbox: &mut Sandbox) -> Result<(), EngineError> {
        self.stop_processes(sandbox, std::time::Duration::ZERO)?;
        self.note_end(sandbox, StopReason::Finished)
    }
}

fn outcome(change: &Change) -> Result<Outcome, EngineError> {
    if change.has_lost_its_source() {
        return Ok(Outcome::Open("it was renamed, and reality deleted what it was before"));
    }
    let (Some(after), Some(now)) = (&change.after, whatif_diff::scan::reality(&change.path)?) else {
        return Ok(Outcome::Open(if change.after.is_none() {
            "the sandbox deleted it, reality changed it"
        } else {
            "reality deleted it"
        }));
    };
    if after.node.kind != Kind::File || now.node.kind != Kind::File {
        return Ok(Outcome::Open("both changed it, and it cannot be merged"));
    }
    let read = |state: &State| -> Result<Option<Vec<u8>>, EngineError> {
        if state.node.size > content::LONGEST_TEXT {
            return Ok(None);
        }
        let bytes = content::read(&state.at).map_err(|error| Unreadable::of(&change.path, &error))?;
        Ok(Some(bytes).filter(|bytes| !whatif_patch::is_binary(bytes)))
    };
    let (Some(ours), Some(theirs)) = (read(&now)?, read(after)?) else {
        return Ok(Outcome::Open("both changed it, and it is not text"));
    };
    // Without a base everything that differs collides, which is the honest answer.
    let is_known = change.base == whatif_diff::Base::Kept;
    let base = change.before.as_ref().filter(|_| is_known).map(read).transpose()?.flatten().unwrap_or_default();
    Ok(match whatif_patch::merge(&base, &ours, &theirs) {
        Merge::Clean(bytes) => Outcome::Merged(bytes),
        Merge::Conflicted(conflicted) => Outcome::Marked(conflicted.marked(REALITY, SANDBOX)),
    })
}

/// The names of the two sides at the markers.
const REALITY: &str = "reality";
const SANDBOX: &str = "sandbox";

/// Whether a collision that a rebase marked has not been settled.
pub(crate) fn has_markers(change: &Change) -> Result<bool, Unreadable> {
    let is_text = |s: &&State| s.node.kind == Kind::File && s.node.size <= content::LONGEST_TEXT;
    let Some(after) = change.after.as_ref().filter(is_text) else { return Ok(false) };
    let bytes = content::read(&after.at).map_err(|error| Unreadable::of(&change.path, &error))?;
    let begins = |marker: &str, side: &str| {
        let line = format!("{marker} {side}");
        bytes.split(|b| *b == b'\n').any(|l| l.strip_suffix(b"\r").unwrap_or(l) == line.as_bytes())
    };
    Ok(begins("<<<<<<<", REALITY) && begins(">>>>>>>", SANDBOX))
}

/// Where a changed file belongs in the head. One that lies in a frozen layer so far gets the directories it needs.
fn in_head(sandbox: &Sandbox, directory: &Path, change: &Change, at: &Path) -> Result<PathBuf, EngineError> {
    let head = directory.join("head");
    if at.starts_with(&head) {
        return Ok(at.to_owned());
    }
    let trees = sandbox.details.trees.iter().enumerate().filter(|(_, tree)| change.path.starts_with(tree));
    let Some((number, tree)) = trees.max_by_key(|(_, tree)| tree.as_os_str().len()) else { return Ok(at.to_owned()) };
    let inside = change.path.strip_prefix(tree).unwrap_or(&change.path);
    let root = head.join(number.to_string());
    let file = root.join(inside);
    let missing: Vec<(&Path, &Path)> =
        file.ancestors().skip(1).zip(at.ancestors().skip(1)).take_while(|(d, _)| *d != root && !d.is_dir()).collect();
    for (made, like) in missing.into_iter().rev() {
        let metadata = fs::symlink_metadata(like).map_err(|e| EngineError::io("examine", like, e))?;
        fs::create_dir(made).map_err(|e| EngineError::io("create", made, e))?;
        copy::copy_looks(like, made, &metadata)?;
    }
    Ok(file)
}

/// Replaces a file of a head, at once. It keeps the owner and mode it has `at` its present place.
fn rewrite(directory: &Path, at: &Path, file: &Path, bytes: &[u8]) -> io::Result<()> {
    let metadata = fs::symlink_metadata(at)?;
    let new = directory.join("rebase.new");
    private_file::write(&new, bytes)?;
    lchown(&new, Some(metadata.uid()), Some(metadata.gid()))?;
    fs::set_permissions(&new, fs::Permissions::from_mode(metadata.mode() & 0o7777))?;
    fs::rename(new, file)
}
