//! Names that become one file in reality, because they are one in the sandbox.
//!
//! One of them is put, or is there already, and the others become further names of it. That is so only where all of them come to
//! the same: a name that is left out, taken in part, or merged with something that reality did to it alone stays a file of its own.

use std::collections::HashMap;
use std::path::PathBuf;

use whatif_diff::{Kind, Linked, Node, State};
use whatif_overlay::Format;

use super::decide::Decided;
use crate::EngineError;
use crate::merge::{Looks, Result3};

/// What a decision has to do with other names of its file.
#[derive(Debug)]
pub(super) enum Share {
    /// Others become further names of what it puts.
    First,
    /// It becomes a further name of what is put at this path. `is_same`: and that is what the sandbox has.
    Of { path: PathBuf, is_same: bool },
    /// It becomes a further name of what is in reality.
    Existing { now: Box<State>, is_same: bool },
}

pub(super) type Shares = HashMap<PathBuf, Share>;

/// What reality has already and the names of a file can be names of.
struct Anchor {
    now: State,
    looks: Looks,
    /// Reality has what the sandbox has.
    is_same: bool,
}

/// Decides for each file with several names, by path. `uid`: the user who applies. Only root may
/// give further names to another user's file.
pub(super) fn share(decided: &[Decided<'_>], uid: u32) -> Result<Shares, EngineError> {
    let mut groups: HashMap<(u64, u64), Vec<usize>> = HashMap::new();
    for (n, one) in decided.iter().enumerate() {
        let several = one.change.after.as_ref().filter(|a| a.node.kind == Kind::File && a.node.nlink > 1);
        if let Some(after) = several.filter(|_| !one.is_part && becomes_real(&one.result)) {
            groups.entry((after.node.dev, after.node.ino)).or_default().push(n);
        }
    }
    let mut shares = Shares::new();
    for members in groups.values() {
        match anchor(decided, members, uid)? {
            Some(anchor) => to_existing(decided, members, &anchor, &mut shares),
            None => to_first(decided, members, &mut shares)?,
        }
    }
    Ok(shares)
}

fn becomes_real(result: &Result3) -> bool {
    matches!(result, Result3::Take { .. } | Result3::Bytes { .. } | Result3::Looks { .. }) || is_real(result)
}

fn is_real(result: &Result3) -> bool {
    matches!(result, Result3::Nothing | Result3::Already { .. })
}

/// A name that the sandbox did not change, or at which reality has come to the same already.
fn anchor(decided: &[Decided<'_>], members: &[usize], uid: u32) -> Result<Option<Anchor>, EngineError> {
    let is_allowed = |node: &Node| node.kind == Kind::File && (uid == 0 || node.uid == uid);
    for one in members.iter().map(|n| &decided[*n]) {
        let (now, is_behind) = match (&one.change.linked, &one.result, &one.now) {
            (Some(Linked::Unchanged(twin)), ..) => {
                (State::new(twin.reality.clone(), twin.path.clone(), Format::None), twin.is_behind)
            }
            (_, result, Some(now)) if is_real(result) => (now.clone(), true),
            _ => continue,
        };
        let Some(after) = one.change.after.as_ref().filter(|_| is_allowed(&now.node)) else { continue };
        let looks = Looks::of(&now)?;
        let is_same = !is_behind && looks == Looks::of(after)?;
        return Ok(Some(Anchor { now, looks, is_same }));
    }
    Ok(None)
}

fn to_existing(decided: &[Decided<'_>], members: &[usize], anchor: &Anchor, shares: &mut Shares) {
    for n in members {
        let follows = match &decided[*n].result {
            Result3::Take { looks, .. } => decided[*n].now.is_none() || *looks == anchor.looks,
            _ => false,
        };
        if follows {
            let share = Share::Existing { now: Box::new(anchor.now.clone()), is_same: anchor.is_same };
            shares.insert(decided[*n].change.path.clone(), share);
        }
    }
}

/// The first is the one that reality has: what reality did to it is merged into it, and has to be in all of them.
fn to_first(decided: &[Decided<'_>], members: &[usize], shares: &mut Shares) -> Result<(), EngineError> {
    let is_put = |n: &&usize| !is_real(&decided[**n].result);
    let is_there = |n: &&usize| decided[**n].now.as_ref().is_some_and(|now| now.node.kind == Kind::File);
    let Some(first) = members.iter().filter(is_put).find(is_there).or_else(|| members.iter().find(is_put)) else { return Ok(()) };
    let is_same = match (&decided[*first].result, &decided[*first].change.after) {
        (Result3::Take { looks, .. }, Some(after)) => *looks == Looks::of(after)?,
        _ => false,
    };
    for n in members.iter().filter(|n| *n != first) {
        let is_new = decided[*n].now.is_none() && matches!(decided[*n].result, Result3::Take { .. });
        if is_new || comes_to_the_same(&decided[*first].result, &decided[*n].result) {
            let path = decided[*first].change.path.clone();
            shares.insert(path.clone(), Share::First);
            shares.insert(decided[*n].change.path.clone(), Share::Of { path, is_same });
        }
    }
    Ok(())
}

fn comes_to_the_same(one: &Result3, other: &Result3) -> bool {
    match (one, other) {
        (Result3::Take { looks: a, .. }, Result3::Take { looks: b, .. }) => a == b,
        (Result3::Bytes { bytes: a, looks: c, .. }, Result3::Bytes { bytes: b, looks: d, .. }) => a == b && c == d,
        _ => false,
    }
}
