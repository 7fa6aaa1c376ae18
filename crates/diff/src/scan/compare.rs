//! Compares the sides of one path and keeps what differs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use whatif_overlay::Format;

use super::Unchanged;
use super::cut_short::earlier;
use super::walk::{Finding, Walk};
use crate::attributes::Attributes;
use crate::change::{Base, Blocked, Change, ChangeKind, State, difference};
use crate::copied::Copied;
use crate::links::Twin;
use crate::node::{Kind, LONG_AGO, Node, Time};
use crate::seen::{MadeInside, Place, Touched};
use crate::unreadable::Unreadable;

/// The least that two times differ by.
const LEAST: Duration = Duration::from_nanos(1);

impl Walk<'_> {
    /// A directory that both sides have.
    pub(super) fn note_directory(
        &self,
        full: PathBuf,
        node: Node,
        mut after: State,
        xattrs: Attributes,
        touched: Option<Time>,
        finding: &mut Finding,
    ) {
        if self.is_as_copied(&full, Some(&node), Some(&after), finding) {
            return;
        }
        let owners_matter = self.scope.as_root;
        if !owners_matter {
            (after.node.uid, after.node.gid) = (node.uid, node.gid);
        }
        let mut now = State::new(node, full.clone(), Format::None);
        now.set_attributes(xattrs);
        // What cannot be compared is told below.
        let differs = !matches!(difference(Some(&now), Some(&after), owners_matter), Ok(None));
        // A directory gets the attributes of the one below when it is copied up. So as long as reality's has not changed since, or
        // both are the same, it is known what the sandbox started from.
        let is_known = match &self.copied {
            // What the inventory says stays true when reality and the sandbox come to look the same.
            Some(copied) => !differs && copied.original(self.inside(&full)).is_none(),
            None => !differs || now.node.ctime <= self.seen_until(&full, Some(&now), Some(&after), touched),
        };
        if is_known && self.scope.bases.get(&full).is_none() && !self.scope.bases.was_absent(&full) {
            finding.found.unchanged.push(Unchanged { now: now.clone(), copy: None, is_in_copy: self.tree.copied });
        }
        // Nearly all of them are only on the way to something.
        if differs {
            self.compare(full, Some(now), Some(after), touched, false, finding);
        } else if !is_known || self.scope.bases.get(&full).is_some() {
            self.note_agreed_directory(full, now, after, touched, finding);
        }
    }

    /// Both sides may have made the same of a directory.
    fn note_agreed_directory(&self, full: PathBuf, now: State, after: State, touched: Option<Time>, finding: &mut Finding) {
        match self.start(&full, Some(&now), Some(&after), touched) {
            Ok((_, Base::Reality)) => {}
            Ok(_) => finding.found.agreed.push(Unchanged { now, copy: None, is_in_copy: self.tree.copied }),
            Err(unreadable) => finding.unreadable(&full, unreadable.cause),
        }
    }

    /// What the sandbox started from at a path.
    fn start(
        &self,
        full: &Path,
        now: Option<&State>,
        after: Option<&State>,
        touched: Option<Time>,
    ) -> Result<(Option<State>, Base), Unreadable> {
        // What the sandbox put in the place of a directory is younger than what it has not seen in there.
        let touched = touched.map(|touched| self.scope.bases.covered_since(full).map_or(touched, |seen| touched.min(seen)));
        match &self.copied {
            Some(copied) => self.scope.bases.start_of_copied(copied, full, self.inside(full), now, after),
            None => self.scope.bases.start_of(full, now, after, self.seen_until(full, now, after, touched)),
        }
    }

    /// A directory that was renamed from a place that reality does not have any more. Which files came along with it is not known,
    /// so that they are missing is said of the directory.
    pub(super) fn note_lost(&self, full: PathBuf, source: PathBuf, now: Option<Node>, after: State, finding: &mut Finding) {
        let change = |path, kind, after, reality| Change { base: Base::Lost, reality, ..Change::new(path, kind, None, after) };
        let deletion = Some(Box::new(change(source, ChangeKind::Delete, None, None)));
        finding.found.changes.push(Change { deletion, ..change(full, ChangeKind::Rename, Some(after), now) });
    }

    /// The same for what may not be a directory. False if the sandbox has it as it was.
    pub(super) fn note(
        &self,
        full: PathBuf,
        known: Option<Node>,
        after: Option<State>,
        touched: Option<Time>,
        masked_over_something: bool,
        finding: &mut Finding,
    ) -> bool {
        if self.is_as_copied(&full, known.as_ref(), after.as_ref(), finding) {
            return false;
        }
        let now = known.map(|node| State::new(node, full.clone(), Format::None));
        self.compare(full, now, after, touched, masked_over_something, finding)
    }

    /// Compares the sides of one path and keeps what differs. False if the sandbox did nothing there.
    fn compare(
        &self,
        full: PathBuf,
        now: Option<State>,
        after: Option<State>,
        touched: Option<Time>,
        masked_over_something: bool,
        finding: &mut Finding,
    ) -> bool {
        let (before, base) = match self.start(&full, now.as_ref(), after.as_ref(), touched) {
            Ok(start) => start,
            Err(unreadable) => {
                finding.unreadable(&full, unreadable.cause);
                (now.clone(), Base::Lost)
            }
        };
        // An ordinary user cannot give a file away; but what is on the way to a home belongs to others, and its copy to the user.
        let owners_matter = self.scope.as_root;
        let kind = match difference(before.as_ref(), after.as_ref(), owners_matter) {
            Ok(kind) => kind,
            // It may have changed, so it counts as changed, and is said not to be known.
            Err(unreadable) => {
                // One side went while it was read.
                if unreadable.cause != Errno::NOENT {
                    finding.unreadable(&full, unreadable.cause);
                }
                Some(ChangeKind::Modify)
            }
        };
        // Reality got there by itself.
        if base != Base::Reality && matches!(difference(now.as_ref(), after.as_ref(), owners_matter), Ok(None)) {
            if !masked_over_something {
                self.note_twin(&full, now.as_ref(), after.as_ref(), false, finding);
                self.note_same(&full, base, now, after, finding);
            }
            return true;
        }
        // A directory that reality has no more is made again with what the sandbox changed in it, though it did not change the directory.
        let is_gone_directory = now.is_none() && after.as_ref().is_some_and(|a| a.node.kind == Kind::Directory);
        if kind.is_none() && is_gone_directory && base == Base::Lost {
            finding.missed.push(Change { base, ..Change::new(full, ChangeKind::Add, None, after) });
            return true;
        }
        let Some(kind) = kind else {
            if !masked_over_something {
                self.note_twin(&full, now.as_ref(), after.as_ref(), base != Base::Reality, finding);
                self.note_unchanged(full, now, before, base, after, finding);
            }
            return false;
        };
        let reality = now.map(|n| n.node);
        let is_known = base != Base::Reality || self.saw(&full, reality.as_ref(), after.as_ref(), touched);
        let base = if is_known { base } else { Base::Unknown };
        let blocked = if kind == ChangeKind::Special {
            Some(Blocked::Special)
        } else if masked_over_something || self.scope.rewritten.contains(&full) {
            Some(Blocked::Masked)
        } else {
            None
        };
        finding.found.changes.push(Change { base, reality, blocked, ..Change::new(full, kind, before, after) });
        true
    }

    /// It may be what another name is a hard link to. What the sandbox was shown otherwise than it is, is no file of reality; and
    /// where reality's version was kept or merged, another name would get bytes that nobody was shown.
    fn note_twin(&self, full: &Path, now: Option<&State>, after: Option<&State>, is_behind: bool, finding: &mut Finding) {
        let (Some(now), Some(after)) = (now, after) else { return };
        if self.scope.bases.get(full).is_some_and(|record| record.reconciled) {
            return;
        }
        if after.node.kind == Kind::File && after.node.nlink > 1 && !self.scope.rewritten.iter().any(|path| path == full) {
            finding.found.twins.push(Twin::of(full.to_owned(), &now.node, &after.node, is_behind));
        }
    }

    /// Whatever the sandbox started from, both have the same now, and what either does next is relative to that.
    fn note_same(&self, full: &Path, base: Base, now: Option<State>, after: Option<State>, finding: &mut Finding) {
        let (Some(now), Some(after)) = (now, after) else { return };
        let is_unknown = base == Base::Lost && self.scope.bases.get(full).is_none();
        let is_new = is_unknown && now.node.kind != Kind::Directory && !self.has_replaced(full, &after);
        let list = if is_new { &mut finding.found.unchanged } else { &mut finding.found.agreed };
        list.push(Unchanged { now, copy: Some(after), is_in_copy: self.tree.copied });
    }

    /// Whether the sandbox certainly made something else of what was copied, although the bytes of that are not known any more. Should
    /// reality take its own back, as an undo does, this is a change again.
    fn has_replaced(&self, full: &Path, after: &State) -> bool {
        let original = self.copied.as_ref().and_then(|copied| copied.original(self.inside(full)));
        original.is_some_and(|original| (original.kind, original.size) != (after.node.kind, after.node.size))
    }

    /// The sandbox did nothing here. It may hide what reality does, all the same.
    fn note_unchanged(
        &self,
        full: PathBuf,
        now: Option<State>,
        before: Option<State>,
        base: Base,
        after: Option<State>,
        finding: &mut Finding,
    ) {
        match (base, now, after) {
            (Base::Kept, now, Some(after)) => {
                let reality = now.map(|n| n.node);
                finding.found.behind.push(Change { base, reality, ..Change::new(full, ChangeKind::Modify, before, Some(after)) });
            }
            (Base::Reality, Some(now), Some(after)) if self.scope.bases.get(&full).is_none() => {
                finding.found.unchanged.push(Unchanged { now, copy: Some(after), is_in_copy: self.tree.copied });
            }
            _ => {}
        }
    }

    /// When the sandbox decided about something, as far as it is known.
    fn since(&self, touched: Option<Time>) -> Time {
        let is_older = |than: Time| touched.is_none_or(|t| t <= than);
        match self.scope.arrived_at {
            Some(arrived) if is_older(arrived) => LONG_AGO,
            _ => touched.map(|t| self.just_before(t)).filter(|t| *t > self.scope.made_at).unwrap_or(self.scope.made_at),
        }
    }

    /// What reality has had since before that, the sandbox saw when it touched this.
    fn seen_until(&self, full: &Path, now: Option<&State>, after: Option<&State>, touched: Option<Time>) -> Time {
        let since = self.since(touched);
        match (now, after) {
            // What a record tells needs no times.
            (Some(now), Some(after)) if self.scope.bases.get(full).is_none() && self.may_be_cut_short(now, after, touched) => {
                since.min(earlier(now.node.ctime, LEAST))
            }
            _ => since,
        }
    }

    /// The clock of files stands still for some milliseconds. What reality got in the moment in which the sandbox touched something,
    /// it got before or after that; unless it is older than the present view, it is not known to have been seen.
    pub(super) fn just_before(&self, touched: Time) -> Time {
        let is_through_present_view = self.scope.seen.is_some_and(|seen| touched > seen.fresh_at);
        if is_through_present_view { earlier(touched, LEAST) } else { touched }
    }

    /// Whether nothing is to be said here: the sandbox did nothing but have its copy, whatever reality did since, or what it did
    /// cannot be told.
    fn is_as_copied(&self, full: &Path, known: Option<&Node>, after: Option<&State>, finding: &mut Finding) -> bool {
        let (Some(copied), Some(after)) = (&self.copied, after) else { return false };
        match copied.is_untouched(self.inside(full), after) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(unreadable) => {
                finding.unreadable(full, unreadable.cause);
                return true;
            }
        }
        // If something in it was changed, it is missed.
        if after.node.kind == Kind::Directory && known.is_none_or(|n| n.kind != Kind::Directory) {
            finding.miss(full.to_owned(), known.cloned(), after.clone());
        } else if after.node.kind == Kind::Directory {
            self.note_behind(copied, full, known, after, finding);
        }
        true
    }

    /// Reality may have given the original of a copied directory other looks.
    fn note_behind(&self, copied: &Copied, full: &Path, known: Option<&Node>, after: &State, finding: &mut Finding) {
        let inside = self.inside(full);
        let (Some(known), Some(original)) = (known, copied.original(inside)) else { return };
        if known.ctime == original.ctime {
            return;
        }
        let now = State::new(known.clone(), full.to_owned(), Format::None);
        match self.scope.bases.start_of_copied(copied, full, inside, Some(&now), Some(after)) {
            Ok((before, base)) => {
                let is_behind = !matches!(difference(Some(&now), Some(after), self.scope.as_root), Ok(None));
                if is_behind && base == Base::Kept {
                    self.note_unchanged(full.to_owned(), Some(now), before, base, Some(after.clone()), finding);
                }
            }
            Err(unreadable) => finding.unreadable(full, unreadable.cause),
        }
    }

    /// Whether reality is what the sandbox saw, where nothing was kept that tells. A copy was made from reality itself.
    fn saw(&self, path: &Path, now: Option<&Node>, after: Option<&State>, at: Option<Time>) -> bool {
        let Some(seen) = self.scope.seen else { return true };
        if self.tree.copied || self.scope.bases.get(path).is_some() {
            return true;
        }
        let after = after.map(|state| (&state.node, state.at.as_path()));
        let place = Place { tree: self.tree, bases: self.scope.bases };
        match (now, after) {
            (Some(now), after) => seen.shows(place, &Touched { path, now, after, at }),
            (None, Some((node, copy))) => {
                let is_hidden = |p: &Path| self.scope.masked.iter().chain(self.scope.rewritten).any(|hidden| hidden == p);
                let made = MadeInside { path, node, copy, at, is_hidden: &is_hidden };
                self.scope.bases.was_absent(path) || !seen.outlived_reality(place, &made)
            }
            (None, None) => true,
        }
    }

    /// The path within the tree.
    fn inside<'p>(&self, full: &'p Path) -> &'p Path {
        full.strip_prefix(&self.tree.path).unwrap_or(full)
    }
}

/// Root does not take over a tree by editing it: what it makes there belongs to whom the rest belongs to. What the sandbox only
/// changed came with its owner, so there root is an owner that was given on purpose.
pub(super) fn belong_to(
    state: &mut State,
    before: Option<&Node>,
    owner: Option<(u32, u32)>,
    is_made_inside: impl Fn(&State) -> Result<bool, Errno>,
) -> Result<(), Errno> {
    if (state.node.uid, state.node.gid) != (0, 0) {
        return Ok(());
    }
    let heir = match before {
        Some(before) if before.uid != 0 && is_made_inside(state)? => Some((before.uid, before.gid)),
        Some(_) => None,
        // What was renamed inside keeps its owner.
        None if owner.is_some() && is_made_inside(state)? => owner,
        None => None,
    };
    if let Some((uid, gid)) = heir {
        (state.node.uid, state.node.gid) = (uid, gid);
    }
    Ok(())
}
