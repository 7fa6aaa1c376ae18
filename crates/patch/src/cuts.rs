//! Where two long texts can be cut into pairs of pieces that are compared by themselves.
//!
//! Comparing takes more than linear time in the number of edits, and quadratic time where lines repeat. A line that each text
//! has exactly once is a good place to cut: no edit could slide across it.

use imara_diff::Token;

/// The most lines of a piece, where there are lines to cut at.
pub(crate) const PIECE: usize = 4096;

/// The most lines of a piece where there are none. Cutting blindly may hide that lines are common, so it comes late.
const BLIND_PIECE: usize = 2 * PIECE;

/// Not a line number: a token without a line, and one with several.
const NOWHERE: u32 = u32::MAX;
const OFTEN: u32 = u32::MAX - 1;

/// A pair of lines, counted from 0.
pub(crate) type Cut = (usize, usize);

/// Cuts in order, the last one at the end of both texts. `distinct` is the number of tokens that there are.
pub(crate) fn cuts(before: &[Token], after: &[Token], distinct: u32) -> Vec<Cut> {
    let mut cuts = Vec::new();
    let mut last = (0, 0);
    let mut previous = last;
    for anchor in anchors(before, after, distinct).into_iter().chain([(before.len(), after.len())]) {
        if longer(last, anchor) > PIECE && previous != last {
            cuts.push(previous);
            last = previous;
        }
        if longer(last, anchor) > PIECE {
            cuts.extend(blind_cuts(last, anchor));
            cuts.push(anchor);
            last = anchor;
        }
        previous = anchor;
    }
    if previous != last {
        cuts.push(previous);
    }
    cuts
}

fn longer(from: Cut, to: Cut) -> usize {
    (to.0 - from.0).max(to.1 - from.1)
}

/// Even cuts inside a stretch that has no better ones.
fn blind_cuts(from: Cut, to: Cut) -> impl Iterator<Item = Cut> {
    let lengths = (to.0 - from.0, to.1 - from.1);
    // Where a side has no lines, there is nothing to compare.
    let pieces = if lengths.0 == 0 || lengths.1 == 0 { 1 } else { longer(from, to).div_ceil(BLIND_PIECE) };
    (1..pieces).map(move |piece| (from.0 + lengths.0 * piece / pieces, from.1 + lengths.1 * piece / pieces))
}

/// The longest run of lines, in the order of both texts, that each text has exactly once.
fn anchors(before: &[Token], after: &[Token], distinct: u32) -> Vec<Cut> {
    let (old, new) = (single_lines(before, distinct), single_lines(after, distinct));
    let both = before.iter().map(|token| (old[token.0 as usize], new[token.0 as usize]));
    let pairs: Vec<(u32, u32)> = both.filter(|&(old, new)| old < OFTEN && new < OFTEN).collect();
    rising(&pairs)
}

/// For each token its line, if it has exactly one.
fn single_lines(tokens: &[Token], distinct: u32) -> Vec<u32> {
    let mut lines = vec![NOWHERE; distinct as usize];
    for (line, token) in (0..).zip(tokens) {
        let place = &mut lines[token.0 as usize];
        *place = if *place == NOWHERE { line } else { OFTEN };
    }
    lines
}

/// The longest rising subsequence by the second number; by the first the pairs are sorted already.
fn rising(pairs: &[(u32, u32)]) -> Vec<Cut> {
    // For each length the pair that ends such a sequence lowest, and for each pair the one before it in its sequence.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (index, pair) in pairs.iter().enumerate() {
        let length = ends.partition_point(|&end| pairs[end].1 < pair.1);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        if length == ends.len() {
            ends.push(index);
        } else {
            ends[length] = index;
        }
    }
    let backwards = std::iter::successors(ends.last().copied(), |&index| before[index]);
    let mut run: Vec<Cut> = backwards.map(|index| (pairs[index].0 as usize, pairs[index].1 as usize)).collect();
    run.reverse();
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(numbers: impl IntoIterator<Item = u32>) -> Vec<Token> {
        numbers.into_iter().map(Token).collect()
    }

    #[test]
    fn anchors_are_single_and_in_order() {
        let before = tokens([0, 1, 2, 3, 4, 1, 5]);
        let after = tokens([5, 0, 1, 3, 2, 4]);
        assert_eq!(anchors(&before, &after, 6), [(0, 1), (3, 3), (4, 5)]);
        assert_eq!(anchors(&[], &after, 6), []);
    }

    #[test]
    fn short_texts_are_one_piece() {
        assert_eq!(cuts(&tokens(0..9), &tokens(0..7), 9), [(9, 7)]);
        assert_eq!(cuts(&[], &[], 0), []);
    }

    #[test]
    fn long_texts_are_cut_at_anchors() {
        let after: Vec<u32> = (0..5000).chain(100_000..100_500).chain(5000..20_000).collect();
        let cuts = cuts(&tokens(0..20_000), &tokens(after), 100_500);
        let mut last = (0, 0);
        for &cut in &cuts {
            assert!(longer(last, cut) <= PIECE);
            let shift = if cut.0 < 5000 { 0 } else { 500 };
            assert_eq!(cut.0 + shift, cut.1);
            last = cut;
        }
        assert_eq!(last, (20_000, 20_500));
    }

    #[test]
    fn repeated_lines_are_cut_blindly() {
        let cuts = cuts(&tokens((0..40_000).map(|n| n % 2)), &tokens((0..10_000).map(|n| n % 2)), 2);
        assert_eq!(cuts, [(8000, 2000), (16_000, 4000), (24_000, 6000), (32_000, 8000), (40_000, 10_000)]);
        assert_eq!(super::cuts(&tokens([0; 40_000]), &[], 1), [(40_000, 0)]);
    }
}
