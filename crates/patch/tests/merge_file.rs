//! Merges against `git merge-file`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod scratch;

use std::fs;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use scratch::Scratch;
use whatif_patch::{Merge, merge};

/// What git makes of three versions: the text, and whether it is clean. `style` is how conflicts are written.
fn git_merge(dir: &Scratch, versions: [&str; 3], style: &[&str]) -> (Vec<u8>, bool) {
    for (name, text) in ["base", "ours", "theirs"].into_iter().zip(versions) {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let labels = ["-L", "ours", "-L", "base", "-L", "theirs"];
    let names = ["ours", "base", "theirs"];
    let mut git = dir.git();
    let output = git.args(["merge-file", "-p", "-q"]).args(style).args(labels).args(names).output().unwrap();
    assert!(matches!(output.status.code(), Some(0..=127)), "{output:?}");
    (output.stdout, output.status.success())
}

/// Without the base that the diff3 styles add to a conflict.
fn without_base(text: &[u8]) -> Vec<u8> {
    let mut inside = false;
    let mut out = Vec::new();
    for line in whatif_patch::lines(text) {
        inside = (inside || line.starts_with(b"|||||||")) && !line.starts_with(b"=======");
        if !inside {
            out.extend_from_slice(line);
        }
    }
    out
}

/// One edit of a side: at a line, so many lines go, so many come.
type Change = (usize, usize, usize);

/// Distinct lines with changes made to them; what `who` writes is no line of anybody else.
fn changed(base: &[String], changes: &[Change], who: &str, newline: &str) -> Vec<String> {
    let mut lines: Vec<String> = base.to_vec();
    for &(at, gone, come) in changes {
        let at = at % (lines.len() + 1);
        let end = (at + gone).min(lines.len());
        lines.splice(at..end, (0..come).map(|n| format!("{who} {n} for {at}{newline}")));
    }
    lines
}

fn joined(lines: &[String], ended: bool) -> String {
    let text = lines.concat();
    if ended { text } else { text.trim_end_matches(['\r', '\n']).to_owned() }
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec((0usize..16, 0usize..3, 0usize..3), 0..4)
}

fn versions() -> impl Strategy<Value = [String; 3]> {
    let ends = (any::<bool>(), any::<bool>(), any::<bool>());
    (0usize..14, any::<bool>(), changes(), changes(), changes(), ends).prop_map(|(count, crlf, both, left, right, ends)| {
        let newline = if crlf { "\r\n" } else { "\n" };
        let base: Vec<String> = (0..count).map(|n| format!("line {n}{newline}")).collect();
        // Some changes are made by both sides.
        let common = changed(&base, &both, "both", newline);
        let ours = changed(&common, &left, "we", newline);
        let theirs = changed(&common, &right, "they", newline);
        [joined(&base, ends.0), joined(&ours, ends.1), joined(&theirs, ends.2)]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    /// With distinct lines there is only one good alignment, so git must agree in every respect.
    #[test]
    fn git_agrees([base, ours, theirs] in versions()) {
        let dir = Scratch::new();
        let mine = merge(base.as_bytes(), ours.as_bytes(), theirs.as_bytes());
        let (text, is_clean) = git_merge(&dir, [&base, &ours, &theirs], &["--diff-algorithm=histogram"]);
        match mine {
            Merge::Clean(merged) => {
                prop_assert!(is_clean, "git has a conflict, here is none: {:?}", merged);
                prop_assert_eq!(merged, text);
            }
            Merge::Conflicted(found) => {
                prop_assert!(!is_clean, "git has no conflict, here is {:?}", found);
                let (text, _) = git_merge(&dir, [&base, &ours, &theirs], &["--diff-algorithm=histogram", "--zdiff3"]);
                let (marked, wanted) = (found.marked("ours", "theirs"), without_base(&text));
                prop_assert_eq!(String::from_utf8_lossy(&marked), String::from_utf8_lossy(&wanted));
            }
        }
    }
}

/// Where lines repeat, a change can be read in several ways, and git reads it with another algorithm. Then one may see a
/// conflict where the other does not, rarely; but never are there two clean results that differ. The cases are the same in
/// every run, because rare is a matter of luck.
#[test]
fn git_nearly_always_agrees_on_repeated_lines() {
    const CASES: usize = 400;
    let lines = "(a\n|b\n|c\n|d\n|\n){0,12}";
    let changes = || prop::collection::vec((0usize..12, 0usize..2, "(a\n|b\n|x\n){0,2}"), 0..3);
    let strategy = (lines, changes(), changes());
    let mut runner = TestRunner::deterministic();
    let dir = Scratch::new();
    let mut unlike = 0;
    for _ in 0..CASES {
        let (base, left, right) = strategy.new_tree(&mut runner).unwrap().current();
        let (ours, theirs) = (spliced(&base, &left), spliced(&base, &right));
        let (text, is_clean) = git_merge(&dir, [&base, &ours, &theirs], &[]);
        match merge(base.as_bytes(), ours.as_bytes(), theirs.as_bytes()) {
            Merge::Clean(merged) if is_clean => assert_eq!(merged, text, "{base:?} {ours:?} {theirs:?}"),
            Merge::Conflicted(_) if !is_clean => {}
            _ => unlike += 1,
        }
    }
    assert!(unlike * 100 <= CASES, "{unlike} of {CASES}");
}

fn spliced(base: &str, changes: &[(usize, usize, String)]) -> String {
    let mut lines: Vec<&str> = base.split_inclusive('\n').collect();
    for (at, gone, come) in changes {
        let at = at % (lines.len() + 1);
        let end = (at + gone).min(lines.len());
        lines.splice(at..end, come.split_inclusive('\n'));
    }
    lines.concat()
}
