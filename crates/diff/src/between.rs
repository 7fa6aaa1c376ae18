//! What leads from one position to another: two stacks over the same reality, compared.

use std::cmp::Ordering;
use std::os::unix::ffi::OsStrExt;

use whatif_overlay::Format;

use crate::change::{Blocked, Change, ChangeKind, State, difference};
use crate::scan::Found;
use crate::unreadable::Unreadable;

/// The changes that make the second of the first. Where one of them changed nothing, it is as reality. `before` of the results is
/// what the first has, so that nothing here has drifted: reality plays no part in it. What either does not know is not known here.
#[must_use]
pub fn between(before: &Found, after: &Found, owners_matter: bool) -> Found {
    let (mut old, mut new) = (before.changes.iter().peekable(), after.changes.iter().peekable());
    let unreadable = [before.unreadable.as_slice(), after.unreadable.as_slice()].concat();
    let mut found = Found { unreadable, ..Found::default() };
    loop {
        let order = match (old.peek(), new.peek()) {
            (Some(old), Some(new)) => old.path.as_os_str().as_bytes().cmp(new.path.as_os_str().as_bytes()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return found,
        };
        let old = if order.is_le() { old.next() } else { None };
        let new = if order.is_ge() { new.next() } else { None };
        match step(old, new, owners_matter) {
            Ok(change) => found.changes.extend(change),
            Err(unreadable) => found.unreadable.push(unreadable),
        }
    }
}

/// The change at one path, of which at least one side is given.
fn step(old: Option<&Change>, new: Option<&Change>, owners_matter: bool) -> Result<Option<Change>, Unreadable> {
    let Some(either) = new.or(old) else { return Ok(None) };
    // Taken from the scan that looked: what it was not shown is not there for it.
    let untouched = || either.reality.clone().map(|node| State::new(node, either.path.clone(), Format::None));
    let side = |change: Option<&Change>| change.map_or_else(untouched, |c| c.after.clone());
    let (before, after) = (side(old), side(new));
    if is_same_file(before.as_ref(), after.as_ref()) {
        return Ok(None);
    }
    let compared = difference(before.as_ref(), after.as_ref(), owners_matter);
    let named = |unreadable: Unreadable| Unreadable { path: either.path.clone(), ..unreadable };
    let Some(kind) = compared.map_err(named)? else { return Ok(None) };
    let is_masked = [old, new].into_iter().flatten().any(|c| c.blocked == Some(Blocked::Masked));
    let blocked = match kind {
        ChangeKind::Special => Some(Blocked::Special),
        _ => is_masked.then_some(Blocked::Masked),
    };
    let (reality, linked) = (either.reality.clone(), new.and_then(|c| c.linked.clone()));
    Ok(Some(Change { reality, blocked, linked, ..Change::new(either.path.clone(), kind, before, after) }))
}

/// Both stacks hold the same layer: there is nothing to read.
fn is_same_file(before: Option<&State>, after: Option<&State>) -> bool {
    before.zip(after).is_some_and(|(b, a)| b.at.as_os_str() == a.at.as_os_str() && b.node == a.node)
}
