use proptest::prelude::*;

use super::*;

fn numbers(count: usize) -> Vec<String> {
    (1..=count).map(|n| format!("{n}\n")).collect()
}

/// Two versions of twenty lines in which these lines, counted from 1, differ.
fn changed_at(places: &[usize]) -> (Vec<u8>, Vec<u8>) {
    let before = numbers(20);
    let mut after = before.clone();
    places.iter().for_each(|&n| after[n - 1] = format!("{n}!\n"));
    (before.concat().into_bytes(), after.concat().into_bytes())
}

fn shape(hunk: &Hunk) -> (usize, usize, usize, usize) {
    (hunk.before_start, hunk.before_lines, hunk.after_start, hunk.after_lines)
}

#[test]
fn a_hunk_has_context_and_counts_from_one() {
    let (before, after) = changed_at(&[10]);
    let hunks = hunks(&before, &after, 3);
    assert_eq!(hunks.len(), 1);
    assert_eq!(shape(&hunks[0]), (7, 7, 7, 7));
    let kinds: String = hunks[0]
        .lines
        .iter()
        .map(|line| match line.kind {
            LineKind::Context => ' ',
            LineKind::Added => '+',
            LineKind::Removed => '-',
        })
        .collect();
    assert_eq!(kinds, "   -+   ");
    assert_eq!(hunks[0].lines[3].text, b"10\n");
    assert_eq!(hunks[0].lines[4].text, b"10!\n");
}

#[test]
fn edits_share_a_hunk_up_to_twice_the_context() {
    let (before, after) = changed_at(&[5, 12]);
    assert_eq!(hunks(&before, &after, 3).len(), 1);
    let (before, after) = changed_at(&[5, 13]);
    assert_eq!(hunks(&before, &after, 3).len(), 2);
    assert_eq!(hunks(&before, &after, usize::MAX).len(), 1);
}

#[test]
fn a_side_without_lines_starts_at_the_line_before() {
    assert_eq!(shape(&hunks(b"", b"a\nb\n", 3)[0]), (0, 0, 1, 2));
    assert_eq!(shape(&hunks(b"a\n", b"", 3)[0]), (1, 1, 0, 0));
    assert_eq!(shape(&hunks(b"1\n2\n", b"1\nx\n2\n", 0)[0]), (1, 0, 2, 1));
    assert!(hunks(b"a\n", b"a\n", 3).is_empty());
}

#[test]
fn chosen_hunks_are_applied_and_others_not() {
    let (before, after) = changed_at(&[2, 18]);
    assert_eq!(take_hunks(&before, &after, 3, &|index| index == 0), changed_at(&[2]).1);
    assert_eq!(take_hunks(&before, &after, 3, &|index| index == 1), changed_at(&[18]).1);
}

#[test]
fn a_missing_newline_never_ends_up_inside() {
    let before = b"1\n2\n3\n4\n5\n6\n7\n8\n9";
    let after = b"x\n2\n3\n4\n5\n6\n7\n8\n9\n10";
    assert_eq!(take_hunks(before, after, 3, &|index| index == 0), b"x\n2\n3\n4\n5\n6\n7\n8\n9");
    assert_eq!(take_hunks(before, after, 3, &|index| index == 1), b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10");
}

/// Applies hunks as a reader of a unified diff would, by their numbers, and checks what they claim of `before`.
fn apply(before: &[u8], hunks: &[Hunk]) -> Vec<u8> {
    let old = Text::new(before);
    let mut out = Vec::new();
    let (mut at, mut line) = (0, 0);
    for hunk in hunks {
        let start = hunk.before_start - usize::from(hunk.before_lines > 0);
        out.extend_from_slice(old.cut(at..start));
        line += start - at;
        assert_eq!(hunk.after_start - usize::from(hunk.after_lines > 0), line);
        at = start;
        for piece in &hunk.lines {
            if piece.kind != LineKind::Added {
                assert_eq!(old.line(at), piece.text);
                at += 1;
            }
            if piece.kind != LineKind::Removed {
                out.extend_from_slice(&piece.text);
                line += 1;
            }
        }
        assert_eq!(at, start + hunk.before_lines);
    }
    out.extend_from_slice(old.cut(at..old.len()));
    out
}

proptest! {
    #[test]
    fn hunks_are_the_difference(before in text(), after in text(), context in 0usize..5) {
        let hunks = hunks(before.as_bytes(), after.as_bytes(), context);
        prop_assert_eq!(apply(before.as_bytes(), &hunks), after.as_bytes());
    }

    #[test]
    fn all_hunks_are_after_and_none_are_before(before in text(), after in text(), context in 0usize..5) {
        let (before, after) = (before.as_bytes(), after.as_bytes());
        prop_assert_eq!(take_hunks(before, after, context, &|_| true), after);
        prop_assert_eq!(take_hunks(before, after, context, &|_| false), before);
    }

    #[test]
    fn some_hunks_are_what_applying_them_gives(before in text(), after in text(), context in 0usize..3, choice: u64) {
        let (before, after) = (before.as_bytes(), after.as_bytes());
        let chosen = |index: usize| choice >> (index % 64) & 1 == 1;
        let taken = take_hunks(before, after, context, &chosen);
        let mut shift = 0isize;
        let mut some = Vec::new();
        for (index, mut hunk) in hunks(before, after, context).into_iter().enumerate() {
            let growth = hunk.after_lines as isize - hunk.before_lines as isize;
            if chosen(index) {
                hunk.after_start = hunk.after_start.strict_add_signed(-shift);
                some.push(hunk);
            } else {
                shift += growth;
            }
        }
        prop_assert_eq!(apply(before, &some), taken);
    }
}

fn text() -> impl Strategy<Value = String> {
    "(a\n|b\n|c\r\n|\n|  d\n){0,30}(end)?"
}
