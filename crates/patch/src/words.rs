//! Which words of a changed line differ.

use std::ops::Range;

use imara_diff::{Algorithm, Diff, InternedInput};

/// Longer lines are not made by people, and nobody reads their highlights.
const LONGEST: usize = 4096;

/// The least share of a line, in percent, that must be common for highlights to help.
const LEAST_COMMON: usize = 30;

/// The byte ranges of each line that the other does not have, word by word. Both are empty if the lines are equal, if one is
/// longer than 4 KiB, or if they share so little that nearly all would be highlighted.
pub fn words(before_line: &[u8], after_line: &[u8]) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
    let nothing = (Vec::new(), Vec::new());
    if before_line.len().max(after_line.len()) > LONGEST || before_line == after_line {
        return nothing;
    }
    let (before, after) = (tokens(before_line), tokens(after_line));
    let mut input = InternedInput::default();
    input.update_before(before.iter().copied());
    input.update_after(after.iter().copied());
    let mut diff = Diff::compute(Algorithm::Myers, &input);
    diff.postprocess_no_heuristic(&input);

    let removed = ranges(&before, |index| diff.is_removed(index));
    let added = ranges(&after, |index| diff.is_added(index));
    let common = weight(&before, |index| !diff.is_removed(index));
    let larger = weight(&before, |_| true).max(weight(&after, |_| true));
    if common * 100 < larger * LEAST_COMMON {
        return nothing;
    }
    (removed, added)
}

/// Runs of letters and digits, runs of blanks, and every other character by itself. The newline is no part of the line here.
fn tokens(line: &[u8]) -> Vec<&[u8]> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let mut tokens = Vec::new();
    let (mut start, mut at) = (0, 0);
    let mut previous = Class::Single;
    for chunk in line.utf8_chunks() {
        for character in chunk.valid().chars() {
            let class = Class::of(character);
            if at > start && (class != previous || class == Class::Single) {
                tokens.push(&line[start..at]);
                start = at;
            }
            previous = class;
            at += character.len_utf8();
        }
        if !chunk.invalid().is_empty() {
            if at > start {
                tokens.push(&line[start..at]);
            }
            start = at;
            at += chunk.invalid().len();
            previous = Class::Single;
        }
    }
    if at > start {
        tokens.push(&line[start..at]);
    }
    tokens
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Word,
    Blank,
    Single,
}

impl Class {
    fn of(character: char) -> Self {
        match character {
            ' ' | '\t' => Self::Blank,
            '_' => Self::Word,
            // From here on scripts that put no blanks between words: there a character is the better unit.
            '\u{2e80}'.. => Self::Single,
            _ if character.is_alphanumeric() => Self::Word,
            _ => Self::Single,
        }
    }
}

fn ranges(tokens: &[&[u8]], differs: impl Fn(u32) -> bool) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    for (index, token) in (0..).zip(tokens) {
        let end = at + token.len();
        if differs(index) {
            match ranges.last_mut().filter(|range| range.end == at) {
                Some(range) => range.end = end,
                None => ranges.push(at..end),
            }
        }
        at = end;
    }
    ranges
}

/// The bytes of the tokens that count, blanks left out: lines that share only their indentation share nothing.
fn weight(tokens: &[&[u8]], counts: impl Fn(u32) -> bool) -> usize {
    let blank = |token: &[u8]| matches!(token.first(), Some(b' ' | b'\t'));
    (0..).zip(tokens).filter(|(index, token)| counts(*index) && !blank(token)).map(|(_, token)| token.len()).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces<'a>(before: &'a str, after: &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
        let (removed, added) = words(before.as_bytes(), after.as_bytes());
        (removed.into_iter().map(|range| &before[range]).collect(), added.into_iter().map(|range| &after[range]).collect())
    }

    #[test]
    fn a_changed_word_is_found() {
        assert_eq!(pieces("let total = sum(a, b);\n", "let count = sum(a, b);\n"), (vec!["total"], vec!["count"]));
        assert_eq!(pieces("f(a)\n", "f(a, b)\n"), (vec![], vec![", b"]));
        assert_eq!(pieces("größe ist 1", "größe ist 2"), (vec!["1"], vec!["2"]));
        assert_eq!(pieces("変更前の行", "変更後の行"), (vec!["前"], vec!["後"]));
    }

    #[test]
    fn lines_with_little_in_common_have_no_highlights() {
        assert_eq!(pieces("    return one;\n", "    while something_else() {\n"), (vec![], vec![]));
        assert_eq!(pieces("same\n", "same\n"), (vec![], vec![]));
        assert_eq!(pieces("", "word"), (vec![], vec![]));
    }

    #[test]
    fn indentation_and_line_ends() {
        assert_eq!(pieces("  call();\n", "    call();\n"), (vec!["  "], vec!["    "]));
        assert_eq!(pieces("call();\n", "call();\r\n"), (vec![], vec!["\r"]));
        assert_eq!(pieces("call();\n", "call();"), (vec![], vec![]));
    }

    #[test]
    fn long_lines_are_given_up() {
        let long = "word ".repeat(1000);
        assert_eq!(pieces(&long, &format!("{long}x")), (vec![], vec![]));
    }

    proptest! {
        #[test]
        fn what_is_not_highlighted_is_equal(before in "[ab ,é\u{5909}]{0,40}", after in "[ab ,é\u{5909}]{0,40}") {
            let (removed, added) = words(before.as_bytes(), after.as_bytes());
            if !removed.is_empty() || !added.is_empty() {
                prop_assert_eq!(without(&before, &removed), without(&after, &added));
            }
        }

        #[test]
        fn any_bytes_will_do(before: Vec<u8>, after: Vec<u8>) {
            let (removed, added) = words(&before, &after);
            prop_assert!(removed.iter().all(|range| range.end <= before.len()));
            prop_assert!(added.iter().all(|range| range.end <= after.len()));
            prop_assert_eq!(tokens(&before).concat(), before.strip_suffix(b"\n").unwrap_or(&before));
        }
    }

    fn without(line: &str, ranges: &[Range<usize>]) -> String {
        line.char_indices().filter(|(at, _)| !ranges.iter().any(|range| range.contains(at))).map(|(_, c)| c).collect()
    }
}
