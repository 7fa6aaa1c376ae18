//! The top directories of a sandbox's trees: a head without an entry may look different from what shows through it.

use std::path::Path;

use whatif_diff::attributes;
use whatif_diff::{Node, Unreadable};
use whatif_overlay::Format;
use whatif_types::Sandbox;
use whatif_types::sandbox::is_given_up;

use crate::EngineError;
use crate::ground::Ground;
use crate::ground::changed::marks_of;

/// What an ordinary user's copy of somebody else's directory has of its mode. The kernel drops the rest.
const OF_OTHERS: u32 = 0o1777;

impl Ground {
    /// Whether nothing was changed since the last snapshot, attributes of top directories included. False where that takes a closer
    /// look.
    pub(crate) fn is_as_it_began(&self, sandbox: &Sandbox) -> Result<bool, EngineError> {
        if !self.heads_are_empty(sandbox)? {
            return Ok(false);
        }
        let directory = self.directory(sandbox)?;
        let is_roots = sandbox.details.identity.started_by_root();
        for (number, tree) in sandbox.details.trees.iter().enumerate().filter(|(_, tree)| !is_given_up(tree)) {
            let part = number.to_string();
            let layer = self.state.parts_of(&sandbox.details.position.stack, &part)?.pop();
            let marks = marks_of(sandbox, number);
            let shown = layer.as_deref().map_or((tree.as_path(), Format::None), |layer| (layer, marks));
            // Of what cannot be looked at here nothing is known.
            if !look_alike((&directory.join("head").join(&part), marks), shown, is_roots).unwrap_or(false) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn look_alike(head: (&Path, Format), shown: (&Path, Format), is_roots: bool) -> Result<bool, Unreadable> {
    let (Some(one), Some(other)) = (Node::of(head.0)?, Node::of(shown.0)?) else { return Ok(true) };
    let mask = if is_roots || one.gid == other.gid { 0o7777 } else { OF_OTHERS };
    let has_same_owner = !is_roots || (one.uid, one.gid) == (other.uid, other.gid);
    let has_same_mode = one.mode & mask == other.mode & mask;
    // What cannot be read of somebody else's directory was not copied either.
    let has_same_attributes = || Ok(attributes::of(head.0, head.1)? == attributes::of(shown.0, shown.1).unwrap_or_default());
    Ok(has_same_owner && has_same_mode && has_same_attributes()?)
}
