//! Lines, hunks, three-way merges and patches. Pure: bytes in, bytes out.
//!
//! Everything works on bytes, because a file need not be UTF-8. Where a choice is open, git's answer is taken: what is
//! binary, how hunks are grouped, which merges conflict, how a patch is spelled.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod blob;
mod conflict;
mod cuts;
mod edits;
mod hunks;
mod literal;
mod merge;
mod patch;
mod quote;
mod similarity;
mod text;
mod visible;
mod words;

pub use blob::blob_id;
pub use conflict::{Conflicted, Region};
pub use edits::{Edit, counts, edits};
pub use hunks::{Hunk, HunkLine, LineKind, hunks, take_hunks};
pub use merge::{Merge, merge};
pub use patch::{Side, write_patch};
pub use similarity::similarity;
pub use text::{is_binary, is_too_long, lines};
pub use visible::{escape, hidden_characters, is_misleading};
pub use words::words;
