//! What reality did at a path where it moved under a sandbox, as far as that can be known.

use crate::change::{Base, Change};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    Changed,
    Added,
    /// Whether it was there before is not written anywhere.
    AddedOrChanged,
    Deleted,
}

impl Moved {
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Added => "added",
            Self::AddedOrChanged => "added or changed",
            Self::Deleted => "deleted",
        }
    }

    /// For programs, which learn by `is_perhaps_added` where it is not known.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::AddedOrChanged => Self::Changed.in_words(),
            known => known.in_words(),
        }
    }

    #[must_use]
    pub fn is_perhaps_added(self) -> bool {
        self == Self::AddedOrChanged
    }
}

impl Change {
    /// What reality did at one of the paths of this change.
    #[must_use]
    pub fn drift_at(&self, part: &Self) -> Moved {
        match part.drift() {
            // What the sandbox renamed, it had.
            Moved::AddedOrChanged if self.deletion.is_some() && part.after.is_none() => Moved::Changed,
            moved => moved,
        }
    }

    /// What reality did here since, by this part alone.
    #[must_use]
    pub fn drift(&self) -> Moved {
        // What a rename started from was at its old path.
        let had_none = self.before.is_none() || self.deletion.is_some();
        match (&self.reality, &self.after, self.base) {
            (None, ..) => Moved::Deleted,
            // It may be a file that came into a directory after the sandbox deleted that, and the sandbox never had it.
            (Some(_), None, Base::Lost) => Moved::AddedOrChanged,
            (Some(_), Some(_), Base::Kept) if had_none => Moved::Added,
            (Some(_), Some(_), _) if had_none => Moved::AddedOrChanged,
            (Some(_), ..) => Moved::Changed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use whatif_overlay::Format;

    use super::*;
    use crate::change::{ChangeKind, State};
    use crate::node::Node;

    /// Anything that is there.
    fn state() -> State {
        let node = Node::of(Path::new("/")).expect("it can be looked at").expect("it is there");
        State::new(node, PathBuf::from("/"), Format::None)
    }

    fn moved(before: bool, after: bool, base: Base) -> Moved {
        let side = |is_there: bool| is_there.then(state);
        let mut change = Change::new(PathBuf::from("/p"), ChangeKind::Modify, side(before), side(after));
        (change.base, change.reality) = (base, Some(state().node));
        change.drift()
    }

    #[test]
    fn what_reality_has_where_the_sandbox_started_with_nothing_was_added() {
        assert_eq!(moved(false, true, Base::Kept), Moved::Added);
        assert_eq!(moved(true, true, Base::Kept), Moved::Changed);
        assert_eq!(moved(true, false, Base::Kept), Moved::Changed);
    }

    #[test]
    fn nothing_is_claimed_of_what_the_sandbox_may_never_have_had() {
        assert_eq!(moved(true, false, Base::Lost), Moved::AddedOrChanged);
        assert_eq!((Moved::AddedOrChanged.kind(), Moved::AddedOrChanged.is_perhaps_added()), ("changed", true));
    }
}
