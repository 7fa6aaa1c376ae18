//! The two sides of a change as something that can be shown.

use std::borrow::Cow;
use std::io;
use std::os::unix::ffi::OsStringExt;

use crate::change::{Change, ChangeKind, State};
use crate::content::LONGEST_TEXT;
use crate::node::Kind;

/// What there is to show.
#[derive(Debug)]
pub enum Content {
    /// Lines, and for a link its target. The side that does not exist is empty.
    Text {
        before: Vec<u8>,
        after: Vec<u8>,
    },
    Binary,
    /// Text or not, too much of it.
    Large,
    /// It is closed to whoever asks.
    Unreadable,
    /// A directory, a special file, or a change of attributes only.
    Nothing,
}

impl Change {
    /// Reads both sides.
    #[must_use]
    pub fn content(&self) -> Content {
        let has_content = |s: &Option<State>| s.as_ref().is_some_and(|s| matches!(s.node.kind, Kind::File | Kind::Link));
        let attributes_only = matches!(self.kind, ChangeKind::Mode | ChangeKind::Owner | ChangeKind::Xattr);
        if attributes_only || !(has_content(&self.before) || has_content(&self.after)) {
            return Content::Nothing;
        }
        let is_large = |s: &Option<State>| s.as_ref().is_some_and(|s| s.node.kind == Kind::File && s.node.size > LONGEST_TEXT);
        if is_large(&self.before) || is_large(&self.after) {
            return Content::Large;
        }
        let (Ok(before), Ok(after)) = (bytes(self.before.as_ref()), bytes(self.after.as_ref())) else { return Content::Unreadable };
        if whatif_patch::is_binary(&before) || whatif_patch::is_binary(&after) {
            return Content::Binary;
        }
        if whatif_patch::is_too_long(&before) || whatif_patch::is_too_long(&after) {
            return Content::Large;
        }
        Content::Text { before, after }
    }

    /// Lines added and deleted; `None` where lines say nothing.
    #[must_use]
    pub fn counts(&self) -> Option<(usize, usize)> {
        match self.content() {
            Content::Text { before, after } => Some(whatif_patch::counts(&before, &after)),
            _ => None,
        }
    }
}

/// The content of a file, the target of a link.
fn bytes(state: Option<&State>) -> io::Result<Vec<u8>> {
    let Some(state) = state else { return Ok(Vec::new()) };
    match state.node.kind {
        Kind::File => state.bytes().map(Cow::into_owned),
        Kind::Link => Ok(state.target()?.into_os_string().into_vec()),
        _ => Ok(Vec::new()),
    }
}
