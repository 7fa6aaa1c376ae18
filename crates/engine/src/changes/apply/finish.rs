//! What is written down after a transaction: what the sandbox starts from now, and a page in the history.
//!
//! Everything here can be done again: a crash in between is made good by the next command, from the journal.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use whatif_apply::{Applied, Change as Act, Expected, Hash, Identity, Operation, Plan, Source};
use whatif_diff::attributes::{self, Attributes};
use whatif_diff::base::{Made, NewBase, Record};
use whatif_diff::{Bases, Kind, Node, Time, content};
use whatif_overlay::Format;
use whatif_types::{EventKind, Explain, Sandbox, SandboxId, Status};

use super::{About, BaseAfter, Settled, SettledState};
use crate::changes::Changes;
use crate::changes::commit::Note;
use crate::changes::history::Page;
use crate::merge::Looks;
use crate::trees::lies_in_copy;
use crate::{EngineError, now};

/// So many files are kept with their bytes after an apply.
const MOST_KEPT: usize = 500;
const LONGEST_KEPT: u64 = 256 << 10;
/// How often another command may change the sandbox's row meanwhile.
const TRIES: usize = 10;

/// How much of a sandbox is not real after a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    Known(u64),
    /// Nobody has counted, so the sandbox is looked at.
    Look,
}

/// What an operation of a transaction left behind.
pub(crate) struct After {
    pub identity: Option<Identity>,
    pub hash: Option<Hash>,
}

impl After {
    /// By operation.
    pub(crate) fn of(applied: Applied) -> Vec<Self> {
        let Applied { after, hashes, .. } = applied;
        after.into_iter().enumerate().map(|(n, identity)| Self { identity, hash: hashes.get(&n).copied() }).collect()
    }
}

/// What an operation left at a path.
pub(crate) struct Written {
    path: PathBuf,
    is_removed: bool,
    /// What it put there; `None` if it put nothing there.
    after: Option<Identity>,
    /// What the content of that can be recognized by.
    hash: Option<[u8; 32]>,
    /// The head's file it was copied from.
    from: Option<PathBuf>,
}

impl Written {
    fn of(operation: &Operation, path: &Path, after: &After) -> Self {
        let from = match &operation.change {
            Act::Put { source: Source::File(from), .. } => Some(from.clone()),
            Act::Put { source: Source::Approved(approved), .. } => Some(approved.path.clone()),
            _ => None,
        };
        let (after, hash) = (after.identity.clone(), after.hash.map(|hash| hash.0));
        Self { path: path.to_owned(), is_removed: matches!(operation.change, Act::Remove), after, hash, from }
    }

    fn nothing(path: &Path) -> Self {
        Self { path: path.to_owned(), is_removed: false, after: None, hash: None, from: None }
    }

    /// Whether what is there now is still what was put there. What somebody else made of it since is not what the sandbox starts
    /// from, and neither is what recovery could not put there.
    fn is_there(&self, now: Option<&Node>) -> bool {
        match (&self.after, now) {
            (None, now) => self.is_removed && now.is_none(),
            (Some(after), Some(now)) => {
                let is_file = now.kind != Kind::Directory;
                after.ino == now.ino && (!is_file || (after.size, after.mtime, after.ctime) == (now.size, now.mtime, now.ctime))
            }
            (Some(_), None) => false,
        }
    }

    fn equal_to(&self) -> Result<Option<(u64, Time)>, EngineError> {
        let Some(from) = &self.from else { return Ok(None) };
        Ok(Node::of(from)?.map(|node| (node.ino, node.ctime)))
    }
}

impl Settled {
    /// The record is of what the sandbox has: should it touch that again, reality is known to be something else. What a directory
    /// looks like is compared with reality's, if that has one.
    fn base(&self, directory: Option<Node>) -> NewBase {
        let (path, made) = (self.path.clone(), Made::Nothing);
        let Some(SettledState { node, looks, bytes }) = &self.left else { return NewBase::Absent { path } };
        let node = directory.filter(|_| node.kind == Kind::Directory).unwrap_or_else(|| node.clone());
        let equal_to = Some((node.ino, node.ctime)).filter(|_| node.kind != Kind::Directory);
        let (node, attributes) = with_looks(node, None, Some(looks));
        match bytes.as_ref().map(|bytes| bytes.as_bytes().to_vec()) {
            Some(bytes) => {
                let node = Node { size: bytes.len() as u64, ..node };
                NewBase::Content { path, node, attributes, bytes, reconciled: true, made }
            }
            None => NewBase::Identity { path, node, attributes, hash: None, reconciled: true, equal_to, made },
        }
    }
}

/// Whether what a record was made of is there again: its times of change and, where it had to be made again, its inode are others.
fn is_as_known(record: &Record, node: &Node) -> bool {
    let known = &record.node;
    let is_same = (known.kind, known.mode, known.uid, known.gid) == (node.kind, node.mode, node.uid, node.gid);
    let is_same_file = node.kind == Kind::Directory || (known.size, known.mtime) == (node.size, node.mtime);
    !record.absent && !record.unknown && is_same && is_same_file
}

/// What is there again, for a record of it. Where the attributes are others it must not pass for untouched: they would not be
/// compared then.
fn there_again(record: &Record, node: Node, attributes: Option<&Attributes>) -> Node {
    let has_same = record.attributes.is_none() || record.attributes.as_ref() == attributes;
    let ctime = if has_same { node.ctime } else { (0, 0) };
    Node { ctime, ..node }
}

/// What is there, with the attributes that the sandbox starts from.
fn with_looks(node: Node, attributes: Option<Attributes>, looks: Option<&Looks>) -> (Node, Option<Attributes>) {
    match looks {
        Some(looks) => (Node { mode: looks.mode, uid: looks.uid, gid: looks.gid, ..node }, Some(looks.xattrs())),
        None => (node, attributes),
    }
}

fn text(path: &Path, node: &Node) -> Option<Vec<u8>> {
    let sensible = node.kind == Kind::File && node.size <= LONGEST_KEPT;
    sensible.then(|| content::read(path).ok()).flatten().filter(|bytes| !whatif_patch::is_binary(bytes))
}

impl Changes {
    /// Files the record of a transaction that is done.
    /// `after` is what it put where, by operation.
    pub(crate) fn finish_apply(
        &self,
        directory: &Path,
        plan: &Plan,
        after: &[After],
        left: Left,
    ) -> Result<Option<Sandbox>, EngineError> {
        let about: About = serde_json::from_value(plan.about.clone()).map_err(|e| EngineError::io("read", directory, e.into()))?;
        let paths: Vec<PathBuf> = plan.operations.iter().map(|o| o.absolute(&plan.roots)).collect();
        let only_times: HashSet<&PathBuf> = about.only_times.iter().collect();
        let operations = plan.operations.iter().zip(&paths).zip(after).filter(|((_, path), _)| !only_times.contains(path));
        let written: Vec<Written> = operations.map(|((o, path), after)| Written::of(o, path, after)).collect();
        // First: what is restored then is said on top of what counts without it.
        if let Some(undone) = &about.undo_of {
            self.note_undone(undone, &about.skipped)?;
        }
        self.set_bases(&about, &written)?;
        self.note_touched(&about, plan)?;
        if let Some(id) = SandboxId::parse(&about.sandbox_id).filter(|_| !about.marks.is_empty()) {
            if about.takes_back {
                self.lifecycle.restore_marks(&id, &about.marks)?
            } else {
                self.lifecycle.note_marks(&id, &about.marks)?
            }
        }
        let undone = about.undo_of.as_ref().map(|id| Page::read(&self.ground.state.apply_path(id))).transpose()?.flatten();
        // In doubt it is told.
        let is_told = |o: &Operation, path: &Path| undone.as_ref().is_none_or(|page| page.is_told_of_undo(o, path));
        let told = plan.operations.iter().zip(paths).filter(|(o, path)| is_told(o, path)).map(|(_, path)| path);
        let commit = Note::read(directory)?.and_then(|note| note.commit);
        let page = Page::new(&about, told.collect(), commit);
        page.write(directory)?;
        if let Some(undone) = &about.undo_of {
            self.mark_undone(undone, &about)?;
        }
        // Before it is filed: an interruption here is made good, whereas a sandbox that is wrongly said to be real as a whole
        // would be removed by the next clean-up.
        let sandbox = self.settle_sandbox(&about, left)?;
        // Whoever is killed before it is filed is told of twice rather than never.
        self.tell_transaction(&page, sandbox.as_ref());
        self.ground.state.file_apply(&about.id)?;
        self.forget_old_applies(&about.id);
        Ok(sandbox)
    }

    /// What a recovery finished is told by that, and who began it is in the facts.
    fn tell_transaction(&self, page: &Page, sandbox: Option<&Sandbox>) {
        let mut facts = vec![
            ("sandbox", page.sandbox_id.as_str().into()),
            ("project", page.project.to_string_lossy().into()),
            ("paths", page.files.into()),
            ("who", page.who.as_str().into()),
        ];
        let kind = match &page.undo_of {
            Some(undone) => {
                facts.extend([("apply", undone.as_str().into()), ("undo", page.id.as_str().into())]);
                facts.push(("in_part", (!page.skipped.is_empty()).into()));
                EventKind::ApplyUndone
            }
            None => {
                facts.push(("apply", page.id.as_str().into()));
                facts.extend(page.commit.as_deref().map(|commit| ("commit", commit.into())));
                EventKind::ApplyMade
            }
        };
        self.ground.tell_of(kind, &page.sandbox, sandbox.and_then(|sandbox| sandbox.owner.as_deref()), facts);
    }

    /// Brings the row of a transaction's sandbox up to date. `None` if there is no such sandbox any more.
    pub(crate) fn settle_sandbox(&self, about: &About, left: Left) -> Result<Option<Sandbox>, EngineError> {
        let Some(id) = SandboxId::parse(&about.sandbox_id) else { return Ok(None) };
        if self.ground.state.find(&id)?.is_none() {
            return Ok(None);
        }
        let Some(sandbox) = self.ground.store.get(&id)? else { return Ok(None) };
        let left = match left {
            Left::Known(left) => left,
            // What cannot be looked at may be somebody's work.
            Left::Look => self.ground.summarize(&sandbox).map_or(sandbox.details.changed_files.max(1), |s| s.changed_files),
        };
        let mut tries = 0;
        loop {
            match self.after_apply(&sandbox, left) {
                Err(error) if error.retryable() && tries < TRIES => tries += 1,
                other => return other.map(Some),
            }
        }
    }

    /// Tells the sandbox that what is in reality now is what its changes are relative to.
    pub(super) fn set_bases(&self, about: &About, written: &[Written]) -> Result<(), EngineError> {
        let Some(id) = SandboxId::parse(&about.sandbox_id) else { return Ok(()) };
        let Some(directory) = self.ground.state.find(&id)? else { return Ok(()) };
        let base = directory.join("base");
        let failed = |e| EngineError::io("write", &base, e);
        let mut special: HashMap<PathBuf, &BaseAfter> = HashMap::new();
        for after in &about.bases {
            let path = match after {
                BaseAfter::Content { path, .. } | BaseAfter::Looks { path, .. } => path.to_path(),
                BaseAfter::Settled(settled) => settled.path.clone(),
                BaseAfter::Again(record) | BaseAfter::Restored(record) => record.path.clone(),
            };
            special.insert(path, after);
        }
        let paths: HashSet<&PathBuf> = written.iter().map(|w| &w.path).collect();
        let in_place: HashMap<&PathBuf, &PathBuf> = about.in_place.iter().map(|r| (&r.path, &r.source)).collect();
        let others: HashSet<&PathBuf> = special.keys().chain(in_place.keys().copied()).filter(|p| !paths.contains(p)).collect();
        let settled: Vec<Written> = others.into_iter().map(|p| Written::nothing(p)).collect();
        let made = if about.takes_back { Made::Nothing } else { Made::Real };
        // The bytes of a few files cost little to keep, and let both sides go on; of thousands it is enough to know them.
        let keeps_bytes = written.len() <= MOST_KEPT;
        let removed: HashSet<&Path> = written.iter().filter(|w| w.is_removed).map(|w| w.path.as_path()).collect();
        let is_in_removed = |path: &Path| path.parent().is_some_and(|parent| removed.contains(parent));
        let (mut new, mut for_good) = (Vec::with_capacity(written.len()), Vec::new());
        let is_base = |one: &Written, node: Option<&Node>| match special.get(&one.path) {
            // Known without looking at reality.
            Some(BaseAfter::Again(_) | BaseAfter::Restored(_) | BaseAfter::Settled(_)) => true,
            Some(BaseAfter::Content { .. }) => one.after.is_some(),
            Some(BaseAfter::Looks { .. }) | None => one.is_there(node),
        };
        let sandbox = self.ground.store.get(&id)?;
        let is_copied = |path: &Path| sandbox.as_ref().is_some_and(|sandbox| lies_in_copy(sandbox, path));
        // What it started from before may have been kept in a layer that it stands on now.
        let mut bases = match &sandbox {
            Some(sandbox) => self.ground.bases(sandbox)?,
            None => Bases::load(&base).map_err(failed)?,
        };
        for one in written.iter().chain(&settled) {
            let (path, node) = (one.path.clone(), Node::of(&one.path)?);
            if paths.contains(&path) && !is_base(one, node.as_ref()) {
                continue;
            }
            let attributes = if node.is_some() { Some(attributes::of(&one.path, Format::None)?) } else { None };
            let list = if paths.contains(&path) || in_place.contains_key(&path) { &mut new } else { &mut for_good };
            let node = match special.get(&one.path) {
                Some(BaseAfter::Content { there: Some(there), .. }) => Some(there.clone()),
                _ => node,
            };
            list.push(match (special.get(&one.path), node) {
                (Some(BaseAfter::Restored(record)), node) => {
                    let there = node.filter(|node| one.is_there(Some(node)) && is_as_known(record, node));
                    let there = there.map(|node| there_again(record, node, attributes.as_ref()));
                    NewBase::Again { record: record.clone(), there }
                }
                (Some(BaseAfter::Again(record)), _) => NewBase::Again { record: record.clone(), there: None },
                (Some(BaseAfter::Settled(settled)), node) => settled.base(node.filter(|n| n.kind == Kind::Directory)),
                // The sandbox does not have it, so if reality gets it again, that is no conflict with what the sandbox did.
                (_, None) if one.is_removed && !about.takes_back && !is_in_removed(&path) => NewBase::Absent { path },
                (_, None) => NewBase::Forget { path },
                _ if one.is_removed => NewBase::Forget { path },
                (None, Some(node)) if in_place.contains_key(&path) => match in_place.get(&path).filter(|_| !about.takes_back) {
                    Some(source) => NewBase::InPlace { path, node, attributes, source: source.to_path_buf() },
                    None => NewBase::Forget { path },
                },
                // What was copied is known without a record, and reality may have been something else already.
                (None, _) if about.takes_back && is_copied(&path) => NewBase::Forget { path },
                // The sandbox made the directory that this lies in, and what reality has there again is not what it started from.
                (None, _) if about.takes_back && bases.was_absent(&path) => NewBase::Forget { path },
                (Some(BaseAfter::Content { bytes, reconciled, looks, .. }), Some(node)) => {
                    let bytes = bytes.as_bytes().to_vec();
                    // The base is these bytes, whatever reality's are.
                    let node = Node { size: bytes.len() as u64, ..node };
                    let (node, attributes) = with_looks(node, attributes, looks.as_ref());
                    NewBase::Content { path, node, attributes, bytes, reconciled: *reconciled, made }
                }
                (Some(BaseAfter::Looks { looks, reconciled, equal_to, .. }), Some(node)) => {
                    // What was copied from the head is the sandbox's own, byte by byte.
                    let bytes = one.from.as_ref().and_then(|_| text(&one.path, &node)).filter(|_| keeps_bytes);
                    let (node, attributes) = with_looks(node, attributes, Some(looks));
                    let (reconciled, equal_to) = (*reconciled, *equal_to);
                    match bytes {
                        Some(bytes) => NewBase::Content { path, node, attributes, bytes, reconciled, made },
                        None => NewBase::Identity { path, node, attributes, hash: one.hash, reconciled, equal_to, made },
                    }
                }
                (None, Some(node)) => match text(&one.path, &node).filter(|_| keeps_bytes) {
                    Some(bytes) => NewBase::Content { path, node, attributes, bytes, reconciled: false, made },
                    None => {
                        let (hash, equal_to) = (one.hash, one.equal_to()?);
                        NewBase::Identity { path, node, attributes, hash, reconciled: false, equal_to, made }
                    }
                },
            });
        }
        // What was settled without being written stays so, also when the transaction is undone.
        match bases.replace(for_good, None).and_then(|()| bases.replace(new, Some(&about.id))) {
            // The sandbox is being removed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(failed),
        }
    }

    /// A further name moves the change time of its file, and so does taking it away. For the sandbox that is no news of reality.
    fn note_touched(&self, about: &About, plan: &Plan) -> Result<(), EngineError> {
        let touched = |o: &Operation| match (&o.change, &o.expected) {
            (Act::Put { source: Source::Existing(existing), .. }, _) => Some(existing.absolute(&plan.roots)),
            (_, Expected::FurtherName(name)) => Some(name.of.absolute(&plan.roots)),
            _ => None,
        };
        let paths: HashSet<PathBuf> = plan.operations.iter().filter_map(touched).collect();
        let Some(id) = SandboxId::parse(&about.sandbox_id).filter(|_| !paths.is_empty()) else { return Ok(()) };
        if self.ground.state.find(&id)?.is_none() {
            return Ok(());
        }
        let Some(sandbox) = self.ground.store.get(&id)? else { return Ok(()) };
        let mut bases = self.ground.bases(&sandbox)?;
        let mut new = Vec::new();
        for path in &paths {
            let Some(record) = bases.get(path).filter(|r| !r.has_content()) else { continue };
            if let Some(now) = Node::of(path)?.filter(|now| now.has_same_content_stamp(&record.node)) {
                let attributes = attributes::of(path, Format::None)?;
                let node = Node { ctime: now.ctime, nlink: now.nlink, ..record.node.clone() };
                let there = there_again(record, node, Some(&attributes));
                new.push(NewBase::Again { record: record.clone(), there: Some(there) });
            }
        }
        // Whatever becomes of this transaction, the record is that of the one that made it.
        match bases.replace(new, None) {
            // The sandbox is being removed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(|e| EngineError::io("write what was kept of", &sandbox.project, e)),
        }
    }

    /// A transaction was taken back: what is in reality is what was there, but moving it there and back shows in its times.
    pub(crate) fn bases_after_rollback(&self, plan: &Plan) -> Result<(), EngineError> {
        let Ok(about) = serde_json::from_value::<About>(plan.about.clone()) else { return Ok(()) };
        let Some(id) = SandboxId::parse(&about.sandbox_id) else { return Ok(()) };
        if self.ground.state.find(&id)?.is_none() {
            return Ok(());
        }
        let Some(sandbox) = self.ground.store.get(&id)? else { return Ok(()) };
        let mut bases = self.ground.bases(&sandbox)?;
        let restored = plan.operations.iter().filter_map(|operation| {
            let path = operation.absolute(&plan.roots);
            // What cannot be looked at counts as moved later, which is a conflict at worst.
            let node = Node::of(&path).ok().flatten()?;
            let was = operation.expected.identity()?;
            let is_same = (was.ino, was.size, was.mtime) == (node.ino, node.size, node.mtime) && node.kind != Kind::Directory;
            let known = bases.get(&path);
            // What reality had made of it before is still not what the sandbox started from.
            let stamp = |n: &Node| (n.ino, n.size, n.mtime);
            if !is_same || known.is_some_and(|r| r.has_content() || stamp(&r.node) != stamp(&node)) {
                return None;
            }
            Some(match known {
                Some(record) => {
                    let Node { mode, uid, gid, .. } = record.node;
                    let attributes = attributes::of(&path, Format::None).ok();
                    let there = there_again(record, Node { mode, uid, gid, ..node }, attributes.as_ref());
                    NewBase::Again { record: record.clone(), there: Some(there) }
                }
                // What is in a directory that the sandbox made is known without a record, too.
                None if lies_in_copy(&sandbox, &path) || bases.was_absent(&path) => return None,
                None => {
                    let (attributes, made) = (attributes::of(&path, Format::None).ok(), Made::Nothing);
                    NewBase::Identity { path, node, attributes, hash: None, reconciled: false, equal_to: None, made }
                }
            })
        });
        let restored = restored.collect();
        bases.replace(restored, None).map_err(|e| EngineError::io("write what was kept of", &sandbox.project, e))
    }

    /// Brings the sandbox's row up to date: so much of it is not real.
    pub(crate) fn after_apply(&self, sandbox: &Sandbox, left: u64) -> Result<Sandbox, EngineError> {
        let mut sandbox = self.ground.refresh(sandbox)?;
        sandbox.details.changed_files = left;
        let settled = match (sandbox.status, left) {
            // It was taken all the same, by name or with --all.
            (Status::Stopped | Status::Rejected, 0) => Status::Approved,
            (Status::Approved, 1..) => Status::Stopped,
            (status, _) => status,
        };
        sandbox.status.check_move_to(settled).map_err(whatif_store::StoreError::from)?;
        sandbox.status = settled;
        sandbox.updated_at = now();
        self.ground.store.update(&mut sandbox)?;
        Ok(sandbox)
    }
}
