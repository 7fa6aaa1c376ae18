//! What a copy-up may have left out.
//!
//! The kernel takes size, mode and owner of what it copies up, and only then makes the copy, whose time tells when that was; the bytes
//! it reads afterwards. So what reality appended, or how it changed the looks, shortly before that time may be missing in the copy.

use std::time::Duration;

use super::walk::Walk;
use crate::change::State;
use crate::node::{Kind, Time};

/// Longer than that takes on a busy machine, with two steps of the clock of files (10 ms on slow ones). Seen here: 7 ms.
const LONGEST: Duration = Duration::from_millis(30);

impl Walk<'_> {
    /// Whether the copy may be without something that reality had got before. What is older than the present view was seen.
    pub(super) fn may_be_cut_short(&self, now: &State, copy: &State, touched: Option<Time>) -> bool {
        let (Some(seen), Some(touched)) = (self.scope.seen, touched) else { return false };
        let is_recent = now.node.ctime >= seen.fresh_at && now.node.ctime >= earlier(touched, LONGEST);
        touched > seen.fresh_at && is_recent && !has_all_of(copy, now, self.scope.as_root)
    }
}

/// Whether the copy has the looks of reality's, and its end. What cannot be read, or has no lines, proves nothing.
fn has_all_of(copy: &State, now: &State, owners_matter: bool) -> bool {
    let owner = |state: &State| owners_matter.then_some((state.node.uid, state.node.gid));
    if (copy.node.kind, copy.node.mode, owner(copy)) != (now.node.kind, now.node.mode, owner(now)) {
        return false;
    }
    match (now.node.kind, now.bytes(), copy.bytes()) {
        (Kind::File, Ok(now), Ok(copy)) => !whatif_patch::is_binary(&now) && has_end_of(&copy, &now),
        (Kind::File, ..) => false,
        _ => true,
    }
}

/// Whether the last line is there, as often as there: another one may look the same.
fn has_end_of(copy: &[u8], now: &[u8]) -> bool {
    let lines = |bytes| whatif_patch::lines(bytes);
    let Some(last) = lines(now).last().copied() else { return true };
    let count = |bytes| lines(bytes).iter().filter(|line| **line == last).count();
    count(copy) >= count(now)
}

pub(super) fn earlier((seconds, nanoseconds): Time, by: Duration) -> Time {
    match nanoseconds.checked_sub(by.subsec_nanos()) {
        Some(rest) => (seconds, rest),
        None => (seconds.saturating_sub(1), nanoseconds + 1_000_000_000 - by.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LONGEST, earlier, has_end_of};
    use crate::node::LONG_AGO;

    #[test]
    fn a_time_is_moved_back_over_the_second() {
        assert_eq!(earlier((7, 40_000_000), LONGEST), (7, 10_000_000));
        assert_eq!(earlier((7, 10_000_000), LONGEST), (6, 980_000_000));
        assert_eq!(earlier((7, 0), Duration::from_nanos(1)), (6, 999_999_999));
        assert!(earlier(LONG_AGO, LONGEST) < (0, 0));
    }

    #[test]
    fn the_end_is_told_by_the_last_line() {
        assert!(has_end_of(b"ONE\ntwo\nend\nmine\n", b"one\ntwo\nend\n"));
        assert!(has_end_of(b"mine\n", b""));
        assert!(!has_end_of(b"ONE\ntwo\n", b"one\ntwo\nend\n"));
        assert!(!has_end_of(b"}\n", b"}\nmore\n}\n"), "the first of them is no sign of the last");
        assert!(!has_end_of(b"one\nen", b"one\nend"));
    }
}
