//! What a sandbox started from, by a record and by what reality has now.

use whatif_overlay::Format;

use super::record::Record;
use super::{MOST_HASHED, writer};
use crate::change::{Base, State};
use crate::content;
use crate::node::{Kind, Node};
use crate::unreadable::Unreadable;

/// Whether reality has the bytes it had, if need be made again: an undo puts back the same with another inode.
fn has_same_content(record: &Record, now: &State, kept: Option<&State>) -> Result<bool, Unreadable> {
    if now.node.kind != record.node.kind {
        return Ok(false);
    }
    Ok(match (now.node.kind, kept) {
        // What is in it is looked at by itself.
        (Kind::Directory, _) => true,
        _ if now.node.is_untouched_since(&record.node) => true,
        _ if now.node.size != record.node.size => false,
        (Kind::Link, Some(kept)) => now.target()? == kept.target()?,
        (_, Some(kept)) => content::is_same(&now.at, &kept.at, now.node.size).map_err(|error| Unreadable::of(&now.at, &error))?,
        (Kind::File, None) if record.hash.is_some() => {
            writer::hash(now, u64::MAX).map_err(|error| Unreadable::of(&now.at, &error))? == record.hash
        }
        (Kind::File, None) if now.node.has_same_content_stamp(&record.node) => is_only_touched(record, now)?,
        (_, None) if now.node.has_same_content_stamp(&record.node) => true,
        // Small files that were written within one tick of the clock have the same time, whatever is in them.
        (_, None) => now.node.size > MOST_HASHED && now.node.has_same_fine_time(&record.node),
    })
}

/// Whether a file of which nothing was kept to compare has its bytes still. Whoever writes to it can put its size and modification
/// time back, but not its ctime. That moves as well with what it looks like and with its names, which can be seen.
fn is_only_touched(record: &Record, now: &State) -> Result<bool, Unreadable> {
    let is_known = record.node.ctime != (0, 0);
    Ok(!is_known
        || now.node.ctime == record.node.ctime
        || now.node.nlink != record.node.nlink
        || !has_same_looks(record, now, None)?)
}

fn has_recorded_bytes(record: &Record, after: &State) -> Result<bool, Unreadable> {
    let may_be = record.hash.is_some() && after.node.kind == Kind::File && after.node.size == record.node.size;
    Ok(may_be && writer::hash(after, u64::MAX).map_err(|error| Unreadable::of(&after.at, &error))? == record.hash)
}

/// Whether reality has the mode, owner and attributes that the record says.
fn has_same_looks(record: &Record, now: &State, kept: Option<&State>) -> Result<bool, Unreadable> {
    let plain = |n: &Node| (n.mode, n.uid, n.gid);
    if plain(&now.node) != plain(&record.node) {
        return Ok(false);
    }
    // Nothing was done to the file since. What a record says that is not reality's has to be compared.
    if !record.reconciled && now.node.is_untouched_since(&record.node) {
        return Ok(true);
    }
    Ok(match (&record.attributes, kept) {
        (Some(attributes), _) => attributes == now.attributes()?,
        // Earlier versions kept them only with the bytes.
        (None, Some(kept)) if now.node.kind == Kind::File => kept.attributes()? == now.attributes()?,
        (None, _) => true,
    })
}

/// Reality's bytes with the mode, owner and attributes of the record; of a directory, whichever is there.
fn with_looks(record: &Record, now: &State, kept: Option<&State>) -> Result<State, Unreadable> {
    let Node { mode, uid, gid, .. } = record.node;
    let mut before = State::new(Node { mode, uid, gid, ..now.node.clone() }, now.at.clone(), Format::None);
    before.set_attributes(match (&record.attributes, kept) {
        (Some(attributes), _) => attributes.clone(),
        (None, Some(kept)) if now.node.kind == Kind::File => kept.attributes()?.clone(),
        (None, _) => now.attributes()?.clone(),
    });
    Ok(before)
}

/// Whether a directory of reality does not look as it did, and is still one.
pub(super) fn looks_changed(record: &Record) -> Result<bool, Unreadable> {
    match Node::of(&record.path)?.filter(|n| n.kind == Kind::Directory) {
        Some(node) => Ok(!has_same_looks(record, &State::new(node, record.path.clone(), Format::None), None)?),
        None => Ok(false),
    }
}

/// What the sandbox started from according to what was written down then.
pub(super) fn start_from(
    record: &Record,
    kept: Option<State>,
    now: Option<&State>,
    after: Option<&State>,
) -> Result<(Option<State>, Base), Unreadable> {
    if record.unknown {
        return Ok((now.cloned(), if record.lost { Base::Lost } else { Base::Unknown }));
    }
    if record.absent {
        // Whatever reality has here came later.
        return Ok((None, if now.is_some() { Base::Kept } else { Base::Reality }));
    }
    // What became real is what the sandbox has, as long as it has not touched it since.
    let untouched = after.filter(|a| record.equal_to == Some((a.node.ino, a.node.ctime)));
    if record.reconciled
        && let Some(known) = kept.as_ref().or(untouched)
    {
        return Ok((Some(known.clone()), Base::Kept));
    }
    let is_directory = |s: &&State| s.node.kind == Kind::Directory;
    // Reality has something else in its place, or nothing, and that was settled. What is in it goes by itself.
    if record.reconciled
        && record.node.kind == Kind::Directory
        && now.filter(is_directory).is_none()
        && let Some(after) = after.filter(is_directory)
    {
        return Ok((Some(with_looks(record, after, None)?), Base::Kept));
    }
    if let Some(now) = now
        && has_same_content(record, now, kept.as_ref())?
    {
        return Ok(if has_same_looks(record, now, kept.as_ref())? {
            (Some(now.clone()), Base::Reality)
        } else {
            (Some(with_looks(record, now, kept.as_ref())?), Base::Kept)
        });
    }
    // Reality has nothing here any more. What the directory looked like tells whether the sandbox changed it.
    if record.node.kind == Kind::Directory
        && now.is_none()
        && let Some(after) = after.filter(is_directory)
    {
        return Ok((Some(with_looks(record, after, None)?), Base::Lost));
    }
    if let Some(known) = kept.as_ref().or(untouched) {
        return Ok((Some(known.clone()), Base::Kept));
    }
    // The sandbox has the very bytes that it started from.
    match after {
        Some(after) if has_recorded_bytes(record, after)? => Ok((Some(with_looks(record, after, None)?), Base::Kept)),
        _ => Ok((now.cloned(), Base::Lost)),
    }
}
