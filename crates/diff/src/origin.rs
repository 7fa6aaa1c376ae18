//! Takes the names of reality's files off their copies.
//!
//! The mark that overlayfs puts on a copy names the file it was made of, and the kernel takes both for one. That is true only as long
//! as they have the same path: when reality renames its file, one of the two shows the other's content inside, or cannot be opened
//! (`ESTALE`). fuse-overlayfs, too, takes them for one: where reality's file has another name, either shows a mix of both after the
//! next start. An empty mark still says that a file was copied up, which is all that is asked once it is known what it started from.

use std::path::Path;

use whatif_sys::direct;

use crate::base::Bases;
use crate::change::State;
use crate::node::{Kind, Node};
use crate::scan::Found;

impl Found {
    /// Empties the marks of what was found for the first time in a head. The times of change that were found are those after it.
    pub fn forget_origins(&mut self, heads: &Path, bases: &Bases) {
        let changed = self.changes.iter_mut().map(|c| (&c.path, c.after.as_mut()));
        let unchanged = self.unchanged.iter_mut().map(|u| (&u.now.at, u.copy.as_mut()));
        for (path, state) in changed.chain(unchanged) {
            let Some(state) = state.filter(|s| s.node.kind != Kind::Directory) else { continue };
            if bases.get(path).is_none() && state.at.starts_with(heads) {
                forget(state);
            }
        }
    }
}

/// Where anything fails, the mark stays, and with it what the kernel makes of it.
fn forget(state: &mut State) {
    let format = state.marks();
    if !format.can_name_origins() {
        return;
    }
    // It is this file from here on, whatever its name leads to.
    let Ok(held) = direct::hold(&state.at) else { return };
    let Ok(names_a_file) = format.names_origin(&held) else { return };
    // Another name of the same file may have lost the mark a moment ago.
    if !names_a_file && state.node.nlink < 2 {
        return;
    }
    let look = || Node::at(&held, "").ok();
    let is_as_found = |now: &Node| (now.ino, now.size, now.mtime) == (state.node.ino, state.node.size, state.node.mtime);
    if names_a_file {
        // Written to since.
        if look().is_none_or(|now| now.ctime != state.node.ctime) {
            return;
        }
        if format.forget_name_of_origin(&held).is_err() {
            return;
        }
    }
    let changed_at = look().filter(is_as_found).map(|now| now.ctime);
    state.node.ctime = changed_at.unwrap_or(state.node.ctime);
}
