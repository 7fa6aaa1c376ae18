//! Three sides of one path: what the sandbox started from, what reality has, what the sandbox has. The same for an apply, which
//! brings the result to reality, and a rebase, which brings it to the sandbox.

pub(crate) mod damage;
mod give;
mod left_out;
mod looks;
mod three_way;
mod written;

use whatif_diff::base::LONGEST_KEPT;
use whatif_diff::content::LONGEST_TEXT;
use whatif_diff::{Kind, State, git_index};
use whatif_patch::{Merge, Region};

pub(crate) use self::give::{chown, flush, give, settle};
pub use self::left_out::Reason;
pub(crate) use self::looks::{Looks, Prefer};
pub(crate) use self::three_way::{
    BOTH_ADDED, DELETED_THERE, MARKERS, NOT_SEEN, NewBase, Result3, can_be_marked, deleted_here, now, taken, three_way,
};
pub use self::three_way::{Conflict, OtherName, Outlook, Side, outlook};
pub(crate) use self::written::written;
use crate::EngineError;

/// Lines around a hunk, everywhere.
pub const CONTEXT_LINES: usize = 3;

/// What both sides come to.
#[derive(Debug)]
pub(crate) struct Merged {
    pub content: Content,
    pub looks: Looks,
}

/// Whose content it is. A directory has none, and is reality's.
#[derive(Debug)]
pub(crate) enum Content {
    Reality,
    Sandbox,
    Both { bytes: Vec<u8>, sandbox: Vec<u8> },
}

/// Why there is no result.
#[derive(Debug)]
pub(crate) struct Collision {
    pub why: &'static str,
    /// Where text collides.
    pub regions: Vec<Region>,
    /// Both sides with markers between them, if that is all that collides.
    pub marked: Option<Marked>,
}

#[derive(Debug)]
pub(crate) struct Marked {
    pub bytes: Vec<u8>,
    pub looks: Looks,
}

/// The names of the two sides at the markers.
pub(crate) const REALITY: &str = "reality";
pub(crate) const SANDBOX: &str = "sandbox";

impl Collision {
    fn because(why: &'static str) -> Self {
        Self { why, regions: Vec::new(), marked: None }
    }
}

/// Merges three states of the same kind. With `hunks`, only these hunks of the sandbox's text and nothing else of it. Without a
/// known start, everything that differs may have been changed by both.
pub(crate) fn merge(
    before: Option<&State>,
    now: &State,
    after: &State,
    hunks: Option<&[usize]>,
) -> Result<Result<Merged, Collision>, EngineError> {
    let is_same_kind = before.is_none_or(|b| b.node.kind == now.node.kind) && now.node.kind == after.node.kind;
    if !is_same_kind || now.node.kind.is_special() {
        return Ok(Err(Collision::because("both changed it, and it cannot be merged")));
    }
    let start = before.map(Looks::of).transpose()?;
    let looks = match hunks {
        Some(_) => Ok(Looks::of(now)?),
        None => Looks::merge(start.as_ref(), &Looks::of(now)?, &Looks::of(after)?, Prefer::Neither),
    };
    let looks = match looks {
        Ok(looks) => looks,
        Err(why) => return Ok(Err(Collision::because(why))),
    };
    Ok(match content(before, now, after, hunks)? {
        Ok(content) => Ok(Merged { content, looks }),
        Err(Clash { why, regions, marked }) => Err(Collision { why, regions, marked: marked.map(|bytes| Marked { bytes, looks }) }),
    })
}

struct Clash {
    why: &'static str,
    regions: Vec<Region>,
    marked: Option<Vec<u8>>,
}

fn content(
    before: Option<&State>,
    now: &State,
    after: &State,
    hunks: Option<&[usize]>,
) -> Result<Result<Content, Clash>, EngineError> {
    let clash_of = |why| Err(Clash { why, regions: Vec::new(), marked: None });
    let clash = |why| Ok(clash_of(why));
    let is_same = |a: Option<&State>, b: &State| a.map_or(Ok(false), |a| a.has_same_content(b));
    if now.node.kind == Kind::Directory {
        return Ok(Ok(Content::Reality));
    }
    if hunks.is_none() {
        if now.has_same_content(after)? || is_same(before, after)? {
            return Ok(Ok(Content::Reality));
        }
        if is_same(before, now)? {
            return Ok(Ok(Content::Sandbox));
        }
        if git_index::is_one(&now.at) {
            return Ok(index(before, now, after)?.map_or_else(|| clash_of(INDEX), Ok));
        }
    }
    if now.node.kind == Kind::Link {
        return clash("both changed where the link leads");
    }
    if [Some(now), Some(after), before].into_iter().flatten().any(|s| s.node.size > LONGEST_TEXT) {
        return clash(TOO_LARGE);
    }
    let (ours, theirs) = (bytes(now)?, bytes(after)?);
    // Without a start everything that differs collides.
    let base = before.map(bytes).transpose()?.unwrap_or_default();
    let theirs = match hunks {
        Some(numbers) => whatif_patch::take_hunks(&base, &theirs, CONTEXT_LINES, &|index| numbers.contains(&(index + 1))),
        None => theirs,
    };
    if base == theirs || ours == theirs {
        return Ok(Ok(Content::Reality));
    }
    if base == ours {
        return Ok(Ok(Content::Both { bytes: theirs.clone(), sandbox: theirs }));
    }
    if [&base[..], &ours[..], &theirs[..]].iter().any(|b| whatif_patch::is_binary(b)) {
        return clash(NOT_TEXT);
    }
    Ok(match whatif_patch::merge(&base, &ours, &theirs) {
        // Where nothing is known of the start, nothing fits by itself.
        Merge::Clean(bytes) if before.is_some() => Ok(Content::Both { bytes, sandbox: theirs }),
        Merge::Clean(_) => Err(Clash { why: UNKNOWN, regions: Vec::new(), marked: None }),
        Merge::Conflicted(conflicted) => {
            let why = if before.is_some() { "both changed the same lines" } else { UNKNOWN };
            let marked = Some(conflicted.marked(REALITY, SANDBOX));
            Err(Clash { why, regions: conflicted.regions, marked })
        }
    })
}

/// Whose index counts, if not both sides changed what is staged. A stale one would make the next commit take back what the other
/// side committed, so nothing is left to chance.
fn index(before: Option<&State>, now: &State, after: &State) -> Result<Option<Content>, EngineError> {
    let was_same = |side: &State| before.map_or(Ok(false), |before| stages_the_same(before, side));
    Ok(if stages_the_same(now, after)? || was_same(after)? {
        Some(Content::Reality)
    } else if was_same(now)? {
        Some(Content::Sandbox)
    } else {
        None
    })
}

/// Whether these are two versions of git's index that mean the same.
pub(crate) fn stages_the_same(one: &State, two: &State) -> Result<bool, EngineError> {
    let is_read = |state: &State| state.node.kind == Kind::File && state.node.size <= git_index::LONGEST;
    Ok(is_read(one) && is_read(two) && git_index::mean_the_same(&bytes(one)?, &bytes(two)?))
}

/// Why two files could not be merged whatever they started from, which is why that was not kept.
pub(crate) fn unmergeable(now: &State, after: &State) -> Result<Option<&'static str>, EngineError> {
    if now.node.kind != Kind::File || after.node.kind != Kind::File {
        return Ok(None);
    }
    if now.node.size.max(after.node.size) > LONGEST_KEPT {
        return Ok(Some(TOO_LARGE));
    }
    let is_binary = whatif_patch::is_binary(&bytes(now)?) || whatif_patch::is_binary(&bytes(after)?);
    Ok(is_binary.then_some(NOT_TEXT))
}

const TOO_LARGE: &str = "both changed it, and it is too large to be merged";
const INDEX: &str = "both changed what is staged in git's index; commit or unstage it on one side, or choose a side";
const NOT_TEXT: &str = "both changed it, and it is not text";
pub(crate) const UNKNOWN: &str = "both changed it, and what the sandbox started from is not known";

fn bytes(state: &State) -> Result<Vec<u8>, EngineError> {
    state.bytes().map(Into::into).map_err(|e| EngineError::io("read", &state.at, e))
}
