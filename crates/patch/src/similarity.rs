//! How alike two files are.

use imara_diff::Interner;
use imara_diff::sources::byte_lines;

/// Longer lines are compared in pieces of this size, as git does, so that files without lines can be alike too.
const PIECE: usize = 64;

/// How alike two files are, in percent: the bytes of the lines they share, in any order, of the larger one's bytes.
/// 100 only if they are equal.
pub fn similarity(before: &[u8], after: &[u8]) -> u8 {
    if before == after {
        return 100;
    }
    let (smaller, larger) = if before.len() <= after.len() { (before, after) } else { (after, before) };
    if smaller.is_empty() {
        return 0;
    }
    let mut known = Interner::new(0);
    let mut unmatched: Vec<u32> = Vec::new();
    for piece in pieces(smaller) {
        let index = known.intern(piece).0 as usize;
        match unmatched.get_mut(index) {
            Some(count) => *count += 1,
            None => unmatched.push(1),
        }
    }
    let distinct = unmatched.len();
    let mut common = 0;
    for piece in pieces(larger) {
        let index = known.intern(piece).0 as usize;
        if let Some(count) = unmatched[..distinct].get_mut(index).filter(|count| **count > 0) {
            *count -= 1;
            common += piece.len() as u64;
        }
    }
    // Reordered lines are all common, and yet not the same file.
    (common * 100 / larger.len() as u64).min(99) as u8
}

fn pieces(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    byte_lines(bytes).flat_map(|line| line.chunks(PIECE))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_empty_and_different() {
        assert_eq!(similarity(b"", b""), 100);
        assert_eq!(similarity(b"a\n", b"a\n"), 100);
        assert_eq!(similarity(b"", b"a\n"), 0);
        assert_eq!(similarity(b"a\n", b"b\n"), 0);
    }

    #[test]
    fn the_share_of_the_larger_side_counts() {
        assert_eq!(similarity(b"a\nb\n", b"a\nb\nc\nd\n"), 50);
        assert_eq!(similarity(b"a\nb\nc\nd\n", b"a\nx\nc\nd\n"), 75);
        assert_eq!(similarity(b"a\na\na\na\n", b"a\nb\nc\nd\n"), 25);
    }

    #[test]
    fn reordered_lines_are_not_the_same_file() {
        assert_eq!(similarity(b"a\nb\n", b"b\na\n"), 99);
    }

    #[test]
    fn files_without_lines_can_be_alike() {
        let before: Vec<u8> = (0..1000u32).flat_map(|n| n.to_be_bytes()).filter(|&byte| byte != b'\n').collect();
        let mut after = before.clone();
        after[5] ^= 0x80;
        assert!(similarity(&before, &after) > 90);
    }

    proptest! {
        #[test]
        fn both_ways_are_the_same(before in "(a\n|b\n|c){0,20}", after in "(a\n|b\n|c){0,20}") {
            let there = similarity(before.as_bytes(), after.as_bytes());
            prop_assert_eq!(there, similarity(after.as_bytes(), before.as_bytes()));
            prop_assert_eq!(there == 100, before == after);
        }
    }
}
