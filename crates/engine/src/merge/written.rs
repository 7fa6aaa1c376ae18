//! What an apply would write where reality moved: flags and words are about that, too, not only about what the sandbox did.

use whatif_diff::{Change, State};

use super::{Looks, Result3, now, three_way};

/// What would be at a path afterwards; `None` if nothing is written there. Of a conflict it is the sandbox's version, which may be
/// chosen, and so it is where the result cannot be told.
pub(crate) fn written(change: &Change) -> Option<State> {
    let now = now(change);
    let after = change.after.as_ref()?;
    match three_way(change, now.as_ref(), None) {
        Ok(Result3::Take { looks, .. }) => Some(with(after.clone(), &looks)),
        Ok(Result3::Looks { looks, .. }) => now.map(|now| with(now, &looks)),
        Ok(Result3::Bytes { bytes, looks, .. }) => {
            let mut node = after.node.clone();
            node.size = bytes.len() as u64;
            Some(with(State::read_once(node, after.at.clone(), looks.xattrs(), bytes), &looks))
        }
        Ok(Result3::Conflict(_)) | Err(_) => Some(after.clone()),
        Ok(Result3::Remove | Result3::Nothing | Result3::Already { .. } | Result3::LeaveOut(_) | Result3::KeepReality) => None,
    }
}

fn with(mut state: State, looks: &Looks) -> State {
    (state.node.mode, state.node.uid, state.node.gid) = (looks.mode, looks.uid, looks.gid);
    state.set_attributes(looks.xattrs());
    state
}
