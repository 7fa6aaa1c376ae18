//! Compares the sides of one path and keeps what differs.

use std::path::PathBuf;

use rustix::io::Errno;

use super::walk::{Finding, Walk};
use crate::attributes::Attributes;
use crate::change::{Base, Blocked, Change, ChangeKind, State, difference};
use crate::marks::Marks;
use crate::node::{Kind, Node, Time};

impl Walk<'_> {
    pub(super) fn note_directory(
        &self,
        full: PathBuf,
        node: Node,
        after: State,
        xattrs: Attributes,
        touched: Option<Time>,
        finding: &mut Finding,
    ) {
        let mut now = State::new(node.clone(), full.clone(), Marks::None);
        now.set_attributes(xattrs);
        let owners_matter = self.scope.as_root;
        // Nearly all of them are only on the way to something. What cannot be compared is told there.
        if !matches!(difference(Some(&now), Some(&after), owners_matter), Ok(None)) {
            self.note(full, Some(node), Some(after), touched, false, finding);
        }
    }

    /// A directory that was renamed from a place that reality does not have any more. Which files came along with it is not known,
    /// so that they are missing is said of the directory.
    pub(super) fn note_lost(&self, full: PathBuf, source: PathBuf, now: Option<Node>, after: State, finding: &mut Finding) {
        let change = |path, kind, after, reality| Change { base: Base::Lost, reality, ..Change::new(path, kind, None, after) };
        let deletion = Some(Box::new(change(source, ChangeKind::Delete, None, None)));
        finding.found.changes.push(Change { deletion, ..change(full, ChangeKind::Rename, Some(after), now) });
    }

    /// Compares the sides of one path and keeps what differs.
    pub(super) fn note(
        &self,
        full: PathBuf,
        known: Option<Node>,
        after: Option<State>,
        touched: Option<Time>,
        masked_over_something: bool,
        finding: &mut Finding,
    ) {
        // A copy was finished before the sandbox was made: what was not touched since is the sandbox's no more than reality's news.
        // A directory that was moved takes untouched files along, so everything above them must be untouched too.
        if self.tree.copied {
            let is_old = |n: &Node| n.ctime < earlier(self.scope.made_at) && !finding.is_stirred;
            let is_new = |n: &Node| n.btime.is_some_and(|b| b > self.scope.made_at);
            let is_unasked = match (&after, &known) {
                (Some(after), _) => after.node.kind != Kind::Directory && is_old(&after.node),
                (None, Some(known)) => is_new(known),
                (None, None) => true,
            };
            if is_unasked {
                return;
            }
        }
        let now = known.clone().map(|node| State::new(node, full.clone(), Marks::None));
        let since = touched.filter(|t| *t > self.scope.made_at && !self.tree.copied).unwrap_or(self.scope.made_at);
        let (before, base) = match self.scope.bases.start_of(&full, now.as_ref(), after.as_ref(), since) {
            Ok(start) => start,
            Err(unreadable) => {
                finding.unreadable(&full, unreadable.cause);
                (now.clone(), Base::Lost)
            }
        };
        // An ordinary user cannot give a file away; but what is on the way to a home belongs to others, and its copy to the user.
        let owners_matter = self.scope.as_root;
        // Reality may have moved under a sandbox that did nothing here.
        let kind = match difference(before.as_ref(), after.as_ref(), owners_matter) {
            Ok(Some(kind)) => kind,
            Ok(None) => return,
            // It may have changed, so it counts as changed, and is said not to be known.
            Err(unreadable) => {
                // One side went while it was read.
                if unreadable.cause != Errno::NOENT {
                    finding.unreadable(&full, unreadable.cause);
                }
                ChangeKind::Modify
            }
        };
        // Reality got there by itself.
        if base != Base::Reality && matches!(difference(now.as_ref(), after.as_ref(), owners_matter), Ok(None)) {
            return;
        }
        let blocked = if kind == ChangeKind::Special {
            Some(Blocked::Special)
        } else if masked_over_something || self.scope.rewritten.contains(&full) {
            Some(Blocked::Masked)
        } else {
            None
        };
        finding.found.changes.push(Change { base, reality: known, blocked, ..Change::new(full, kind, before, after) });
    }
}

/// Times in file systems move in ticks; what happened within one of them cannot be told apart.
fn earlier((seconds, nanoseconds): Time) -> Time {
    const TICK: u32 = 20_000_000;
    match nanoseconds.checked_sub(TICK) {
        Some(rest) => (seconds, rest),
        None => (seconds.saturating_sub(1), nanoseconds + 1_000_000_000 - TICK),
    }
}

/// Root does not take over a tree by editing it: what it makes there belongs to whom the rest belongs to.
pub(super) fn belong_to(node: &mut Node, before: Option<&Node>, owner: Option<(u32, u32)>, as_root: bool) {
    if as_root && (node.uid, node.gid) == (0, 0) {
        let heir = match before {
            // The same file, given to root on purpose, keeps its birth; one that was written anew does not.
            Some(before) if before.uid != 0 && (before.size, before.mtime) != (node.size, node.mtime) => {
                Some((before.uid, before.gid))
            }
            Some(_) => None,
            None => owner,
        };
        if let Some((uid, gid)) = heir {
            (node.uid, node.gid) = (uid, gid);
        }
    }
}
