//! Which lines differ.

use std::ops::Range;

use imara_diff::sources::byte_lines;
use imara_diff::{Algorithm, Diff, InternedInput};

use crate::cuts::{Cut, PIECE, cuts};
use crate::text::Text;

/// Common lines kept around the part that differs. The placement of an edit looks at the lines around it, git's at no
/// more than 100.
const MARGIN: usize = 100;

/// Room reserved for lines up front; a guess from the size alone would let a large file without lines take gigabytes.
const MOST_RESERVED: usize = 1 << 16;

/// A run of lines that was replaced by another: 0-based line ranges of which at most one is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub before: Range<usize>,
    pub after: Range<usize>,
}

/// Where an edit goes that could as well start some lines earlier or later.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Placement {
    /// Where people expect it, judged by indentation and blank lines, as git diff does.
    Readable,
    /// As far down as it goes, as git merge does.
    Last,
}

/// The edits that turn `before` into `after`, in order, with at least one common line between any two.
pub fn edits(before: &[u8], after: &[u8]) -> Vec<Edit> {
    placed_edits(before, after, Placement::Readable)
}

/// How many lines were added and how many deleted.
pub fn counts(before: &[u8], after: &[u8]) -> (usize, usize) {
    // Where an edit is placed never changes its size.
    let edits = placed_edits(before, after, Placement::Last);
    edits.iter().fold((0, 0), |(added, deleted), edit| (added + edit.after.len(), deleted + edit.before.len()))
}

pub(crate) fn placed_edits(before: &[u8], after: &[u8], placement: Placement) -> Vec<Edit> {
    if before == after {
        return Vec::new();
    }
    let (head, tail) = common_ends(before, after);
    let skipped = byte_lines(&before[..head]).count();
    let before = &before[head..before.len() - tail];
    let after = &after[head..after.len() - tail];
    if before.len().max(after.len()) >= i32::MAX as usize {
        // More than the algorithm can number, if every line were empty.
        return vec![whole(before, after, skipped)];
    }
    let input = intern(before, after);
    let mut edits = Vec::new();
    if input.before.len().max(input.after.len()) <= PIECE {
        append(&mut edits, &input, (skipped, skipped), placement);
    } else {
        let cuts = cuts(&input.before, &input.after, input.interner.num_tokens());
        drop(input);
        append_pieces(&mut edits, (&Text::new(before), &Text::new(after)), &cuts, skipped, placement);
    }
    edits
}

fn append_pieces(edits: &mut Vec<Edit>, (old, new): (&Text, &Text), cuts: &[Cut], skipped: usize, placement: Placement) {
    let mut at = (0, 0);
    for &cut in cuts {
        let (before, after) = (old.cut(at.0..cut.0), new.cut(at.1..cut.1));
        if before != after {
            append(edits, &intern(before, after), (at.0 + skipped, at.1 + skipped), placement);
        }
        at = cut;
    }
}

/// Appends the edits of a piece that starts at these lines.
fn append(edits: &mut Vec<Edit>, input: &InternedInput<&[u8]>, at: Cut, placement: Placement) {
    let mut diff = Diff::compute(Algorithm::Histogram, input);
    match placement {
        Placement::Readable => diff.postprocess_lines(input),
        Placement::Last => diff.postprocess_no_heuristic(input),
    }
    let shifted = |range: Range<u32>, by| range.start as usize + by..range.end as usize + by;
    for hunk in diff.hunks() {
        let edit = Edit { before: shifted(hunk.before, at.0), after: shifted(hunk.after, at.1) };
        match edits.last_mut() {
            // The pieces were cut inside of an edit.
            Some(last) if last.before.end == edit.before.start && last.after.end == edit.after.start => {
                last.before.end = edit.before.end;
                last.after.end = edit.after.end;
            }
            _ => edits.push(edit),
        }
    }
}

fn whole(before: &[u8], after: &[u8], skipped: usize) -> Edit {
    let all = |text| skipped..skipped + byte_lines(text).count();
    Edit { before: all(before), after: all(after) }
}

fn intern<'a>(before: &'a [u8], after: &'a [u8]) -> InternedInput<&'a [u8]> {
    let room = |text: &[u8]| (text.len() / 32).min(MOST_RESERVED) as u32;
    let mut input = InternedInput::default();
    input.reserve(room(before), room(after));
    input.update_before(byte_lines(before));
    input.update_after(byte_lines(after));
    input
}

/// How many bytes at the start and at the end are whole common lines and far enough from any difference to be left out.
/// Comparing memory is far cheaper than hashing lines, and most edits are small.
fn common_ends(before: &[u8], after: &[u8]) -> (usize, usize) {
    let same = common_prefix(before, after);
    let head = step_back(&before[..same]);
    let tail = common_suffix(&before[same..], &after[same..]);
    let tail = step_on(&before[before.len() - tail..]);
    (head, tail)
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    const BLOCK: usize = 256;
    let whole = a.chunks_exact(BLOCK).zip(b.chunks_exact(BLOCK)).take_while(|(a, b)| a == b).count() * BLOCK;
    whole + a[whole..].iter().zip(&b[whole..]).take_while(|(a, b)| a == b).count()
}

fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    const BLOCK: usize = 256;
    let whole = a.rchunks_exact(BLOCK).zip(b.rchunks_exact(BLOCK)).take_while(|(a, b)| a == b).count() * BLOCK;
    let rest = a[..a.len() - whole].iter().rev().zip(b[..b.len() - whole].iter().rev());
    whole + rest.take_while(|(a, b)| a == b).count()
}

/// The length of a common prefix without the line it ends in and the margin before that.
fn step_back(prefix: &[u8]) -> usize {
    let mut end = prefix.len();
    for _ in 0..=MARGIN {
        match prefix[..end].iter().rposition(|&byte| byte == b'\n') {
            Some(at) => end = at,
            None => return 0,
        }
    }
    end + 1
}

/// The length of a common suffix without the line it starts in and the margin after that.
fn step_on(suffix: &[u8]) -> usize {
    byte_lines(suffix).take(MARGIN + 1).fold(suffix.len(), |left, line| left - line.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit(before: Range<usize>, after: Range<usize>) -> Edit {
        Edit { before, after }
    }

    #[test]
    fn edits_are_line_ranges() {
        assert_eq!(edits(b"", b""), []);
        assert_eq!(edits(b"", b"a\n"), [edit(0..0, 0..1)]);
        assert_eq!(edits(b"a\n", b""), [edit(0..1, 0..0)]);
        assert_eq!(edits(b"a\nb\nc\n", b"a\nx\nc\n"), [edit(1..2, 1..2)]);
        assert_eq!(edits(b"a\nb", b"a\nb\n"), [edit(1..2, 1..2)]);
        assert_eq!(edits(b"a\n", b"a\r\n"), [edit(0..1, 0..1)]);
    }

    #[test]
    fn an_added_function_is_one_readable_edit() {
        let before = b"fn a() {\n    1\n}\n\nfn c() {\n    3\n}\n";
        let after = b"fn a() {\n    1\n}\n\nfn b() {\n    2\n}\n\nfn c() {\n    3\n}\n";
        assert_eq!(edits(before, after), [edit(4..4, 4..8)]);
    }

    #[test]
    fn counts_added_and_deleted_lines() {
        assert_eq!(counts(b"a\nb\nc\n", b"a\nx\ny\nc\n"), (2, 1));
        assert_eq!(counts(b"a\n", b"a\n"), (0, 0));
    }

    #[test]
    fn a_small_edit_in_a_large_file_has_its_true_line_numbers() {
        let before: Vec<u8> = (0..5000).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        let after = String::from_utf8(before.clone()).unwrap().replace("line 2500\n", "one\ntwo\n").into_bytes();
        assert_eq!(edits(&before, &after), [edit(2500..2501, 2500..2502)]);
    }

    #[test]
    fn ends_are_left_out_at_line_starts_only() {
        let (head, tail) = common_ends(b"ab\n", b"aab\n");
        assert_eq!((head, tail), (0, 0));
        let same = b"x\n".repeat(300);
        let (before, after) = ([&same[..], b"abc\n", &same[..]].concat(), [&same[..], b"axc\n", &same[..]].concat());
        assert_eq!(common_ends(&before, &after), (400, 400));
    }

    proptest! {
        #[test]
        fn edits_are_a_true_and_separated_description(
            before in "([abc \n]|a\n|b\n|\t\n){0,400}",
            after in "([abc \n]|a\n|b\n|\t\n){0,400}",
        ) {
            check(before.as_bytes(), after.as_bytes());
        }

        #[test]
        fn so_they_are_with_long_common_ends(
            head in "(a\n|b\n){0,400}", before in "(a\n|b\n|c){0,9}", after in "(a\n|b\n|c){0,9}", tail in "(a\n|b\n){0,400}",
        ) {
            check(format!("{head}{before}{tail}").as_bytes(), format!("{head}{after}{tail}").as_bytes());
        }
    }

    #[test]
    fn long_texts_are_compared_in_pieces() {
        let line = |n: usize| if n.is_multiple_of(5) { "}\n".to_owned() } else { format!("line {n}\n") };
        let before: Vec<String> = (0..30_000).map(line).collect();
        let mut after = before.clone();
        after.splice(12_000..12_000, (0..9000).map(|n| format!("new {n}\n")));
        after.remove(0);
        after.push("end".into());
        let (before, after) = (before.concat(), after.concat());
        let wanted = [edit(0..1, 0..0), edit(12_000..12_000, 11_999..20_999), edit(30_000..30_000, 38_999..39_000)];
        assert_eq!(edits(before.as_bytes(), after.as_bytes()), wanted);
        check(before.as_bytes(), after.as_bytes());
        check(after.as_bytes(), before.as_bytes());
    }

    #[test]
    fn long_repetitive_texts_take_bounded_time() {
        let text = |seed: u32| -> Vec<u8> {
            (0..40_000u32).flat_map(|n| if (n ^ seed).wrapping_mul(2_654_435_761) >> 31 == 0 { *b"a\n" } else { *b"b\n" }).collect()
        };
        check(&text(1), &text(77_777));
    }

    fn check(before: &[u8], after: &[u8]) {
        for placement in [Placement::Readable, Placement::Last] {
            let edits = placed_edits(before, after, placement);
            let (old, new) = (Text::new(before), Text::new(after));
            let (mut at, mut to) = (0, 0);
            for (index, edit) in edits.iter().enumerate() {
                assert!(!edit.before.is_empty() || !edit.after.is_empty());
                assert!(index == 0 || edit.before.start > at);
                assert_eq!(old.cut(at..edit.before.start), new.cut(to..edit.after.start));
                (at, to) = (edit.before.end, edit.after.end);
            }
            assert_eq!(old.cut(at..old.len()), new.cut(to..new.len()));
        }
    }
}
