//! Lines added and deleted, counted when a file comes into view and there is time.

use whatif_engine::{Change, ChangeKind, Content};

use super::document::{LONGEST_UNASKED, Reader, size};
use crate::output::bytes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Count {
    Lines(usize, usize),
    /// What is there instead of lines.
    Words(String),
}

#[derive(Debug)]
pub struct Counts {
    known: Vec<Option<Count>>,
}

impl Counts {
    #[must_use]
    pub fn new(changes: usize) -> Self {
        Self { known: vec![None; changes] }
    }

    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Count> {
        self.known[index].as_ref()
    }

    pub fn learn(&mut self, index: usize, change: &Change, read: Reader) {
        if self.known[index].is_none() {
            self.known[index] = Some(count(change, read));
        }
    }
}

fn count(change: &Change, read: Reader) -> Count {
    let words = match change.kind {
        ChangeKind::Mode => "mode",
        ChangeKind::Owner => "owner",
        ChangeKind::Xattr => "attributes",
        ChangeKind::Special => "special",
        _ if change.is_directory() => "",
        _ if size(change) > LONGEST_UNASKED => return Count::Words(bytes(size(change))),
        _ => match read(change) {
            Content::Text { before, after } => {
                let (added, deleted) = whatif_patch::counts(&before, &after);
                return Count::Lines(added, deleted);
            }
            Content::Binary | Content::Large => "binary",
            Content::Unreadable => "unreadable",
            Content::Nothing => "",
        },
    };
    Count::Words(words.to_owned())
}
