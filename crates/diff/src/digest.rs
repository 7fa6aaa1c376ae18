//! A change set in one number. Any write to a changed file changes it.
//!
//! The time of the last change of an inode cannot be set, so it stands for the bytes and spares reading them; but a store into a page
//! that is mapped and dirty moves no time. So that is enough only where nothing is alive that could have such a mapping ([`Form`]).

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use sha2::{Digest, Sha256};

use crate::change::{Change, State};
use crate::content::LONGEST_TEXT;
use crate::node::Kind;

/// What a digest, or what a decision is bound to, was made of. It tells so itself, and is compared only with another one of its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Inodes and their times of change: nothing was alive, so whoever writes later moves them.
    Times,
    /// The bytes.
    Content,
}

/// How something of the form `Content` begins.
const CONTENT: &str = "c-";

impl Form {
    /// Of a digest, or of what a decision is bound to.
    #[must_use]
    pub fn of(digest: &str) -> Self {
        if digest.starts_with(CONTENT) { Self::Content } else { Self::Times }
    }

    fn name(self, hash: &[u8]) -> String {
        let prefix = if self == Self::Content { CONTENT } else { "" };
        format!("{prefix}{}", hex(hash))
    }
}

/// Over everything a sandbox changed, in order.
#[must_use]
pub fn of(changes: &[Change], form: Form) -> String {
    let mut hash = Sha256::new();
    let mut bytes = Vec::new();
    for change in changes {
        describe(change, form, &mut bytes);
        hash.update(&bytes);
        bytes.clear();
        // Of a file that was applied in part, less is left, and what it has become is the same.
        if let Some(start) = start(change) {
            hash.update(Sha256::digest(start));
        }
    }
    form.name(&hash.finalize()[..16])
}

/// What a change of a text is relative to, if some of it may be real. What cannot be read is reported by those who show it.
fn start(change: &Change) -> Option<Cow<'_, [u8]>> {
    if !change.was_applied {
        return None;
    }
    let is_text = |state: &&State| state.node.kind == Kind::File && state.node.size <= LONGEST_TEXT;
    change.after.as_ref().filter(is_text)?;
    change.before.as_ref().filter(is_text)?.bytes().ok()
}

/// Of one change: what a decision about it is bound to.
#[must_use]
pub fn stamp(change: &Change, form: Form) -> String {
    let mut bytes = Vec::new();
    describe(change, form, &mut bytes);
    form.name(&Sha256::digest(bytes))
}

/// Everything that makes a change what it is. Lengths come first, so that no two changes read the same.
fn describe(change: &Change, form: Form, bytes: &mut Vec<u8>) {
    let mut text = |text: &[u8]| add(bytes, text);
    text(change.path.as_os_str().as_bytes());
    let target = change.after.as_ref().filter(|a| a.node.kind == Kind::Link).and_then(|a| a.target().ok());
    text(target.as_ref().map_or(&[], |t| t.as_os_str().as_bytes()));
    // A rename deletes, too: the same file with another origin is another change.
    text(change.old_path().map_or(&[], |old| old.as_os_str().as_bytes()));
    bytes.push(change.kind as u8);
    let Some(after) = &change.after else { return };
    let node = &after.node;
    bytes.push(node.kind as u8);
    for number in [u64::from(node.mode), u64::from(node.uid), u64::from(node.gid), node.rdev] {
        bytes.extend(number.to_le_bytes());
    }
    match (node.kind, form) {
        // What happens beneath a directory is told by the changes there, so its ctime says too much; its attributes are read by now.
        (Kind::Directory, _) => add_attributes(after, bytes),
        // Whatever is done to a file, its bytes, mode, owner or attributes, moves its ctime.
        (_, Form::Times) => {
            for number in [node.size, node.ino, node.ctime.0.cast_unsigned(), u64::from(node.ctime.1)] {
                bytes.extend(number.to_le_bytes());
            }
        }
        (_, Form::Content) => {
            for number in [node.size, node.mtime.0.cast_unsigned(), u64::from(node.mtime.1)] {
                bytes.extend(number.to_le_bytes());
            }
            if node.kind == Kind::File {
                add_attributes(after, bytes);
                // What cannot be read is told to those who asked, who do not go on then.
                add(bytes, after.hash().ok().as_ref().map_or(&[], |hash| &hash[..]));
            }
        }
    }
}

fn add_attributes(state: &State, bytes: &mut Vec<u8>) {
    for (name, value) in state.attributes().ok().into_iter().flatten() {
        add(bytes, name.as_bytes());
        add(bytes, value);
    }
}

fn add(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text);
}

/// Eight digits that name a path.
#[must_use]
pub fn short(path: &OsStr) -> String {
    hex(&Sha256::digest(path.as_bytes())[..4])
}

/// SHA-256 of some bytes, in hexadecimal.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|b| [b >> 4, b & 15]).map(|d| DIGITS[usize::from(d)] as char).collect()
}
