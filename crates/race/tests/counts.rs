//! What real tools print, with what they counted. `outputs/` was made by running them; only paths were replaced.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use whatif_race::counts::{Counter, junit};
use whatif_types::experiment::TestCounts;

fn output(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outputs").join(name)).unwrap()
}

fn count(bytes: &[u8]) -> Option<TestCounts> {
    let mut counter = Counter::new();
    counter.feed(bytes);
    counter.finish()
}

type Counted = (&'static str, u64, u64, u64, &'static [&'static str]);

/// File, who counted, passed, failed, skipped, the names of failures.
const REAL: [(&str, Counted); 25] = [
    ("cargo.txt", ("cargo", 3, 2, 1, &["tests::adds_wrong", "tests::panics"])),
    ("cargo-quiet.txt", ("cargo", 3, 2, 1, &["tests::adds_wrong", "tests::panics"])),
    ("cargo-colour.txt", ("cargo", 3, 2, 1, &["tests::adds_wrong", "tests::panics"])),
    ("nextest.txt", ("nextest", 2, 2, 1, &["calc tests::panics", "calc tests::adds_wrong"])),
    ("pytest.txt", ("pytest", 3, 5, 2, PYTEST)),
    ("pytest-quiet.txt", ("pytest", 3, 5, 2, PYTEST)),
    ("pytest-colour.txt", ("pytest", 3, 5, 2, PYTEST)),
    ("pytest-none.txt", ("pytest", 0, 0, 0, &[])),
    ("unittest.txt", ("unittest", 1, 4, 2, UNITTEST)),
    ("unittest-verbose.txt", ("unittest", 1, 4, 2, UNITTEST)),
    ("unittest-ok.txt", ("unittest", 1, 0, 1, &[])),
    ("go.txt", ("go", 1, 2, 0, &["TestTable/two", "example.com/calc/c"])),
    ("go-verbose.txt", ("go", 6, 2, 1, &["TestTable/two", "example.com/calc/c"])),
    ("go-json.txt", ("go", 6, 2, 1, &["TestTable/two", "example.com/calc/c"])),
    ("node-tap.txt", ("node", 5, 2, 2, &["is wrong", "inner bad # hard"])),
    ("node-spec.txt", ("node", 5, 2, 2, &["is wrong", "inner bad # hard"])),
    ("node-spec-colour.txt", ("node", 5, 2, 2, &["is wrong", "inner bad # hard"])),
    ("node-tap-lib.txt", ("tap", 1, 1, 2, &["bad"])),
    ("mocha-tap.txt", ("tap", 1, 3, 1, &["top wrong", "math is wrong", "math inner also wrong"])),
    ("perl-tap.txt", ("tap", 2, 1, 1, &["second"])),
    ("prove.txt", ("tap", 2, 1, 1, &["second"])),
    ("jest.txt", ("jest", 1, 3, 2, &["math › is wrong", "top", "j/b.test.js"])),
    ("jest-colour.txt", ("jest", 1, 3, 2, &["math › is wrong", "top", "j/b.test.js"])),
    ("jest-broken.txt", ("jest", 0, 1, 0, &["j/b.test.js"])),
    ("vitest.txt", ("vitest", 1, 1, 3, &["a.test.mjs > math > is wrong"])),
];
const PYTEST: &[&str] =
    &["test_calc.py::test_bad", "test_calc.py::test_many[2]", "test_calc.py::test_subs", "test_calc.py::test_error"];
const UNITTEST: &[&str] = &["test_c (test_u.T.test_c)", "test_b (test_u.T.test_b)", "test_g (test_u.T.test_g) (i=1)"];
const MOCHA: Counted = ("mocha", 1, 3, 1, &["top wrong", "math is wrong", "math inner also wrong"]);

#[track_caller]
fn assert_counted(counts: Option<&TestCounts>, (format, passed, failed, skipped, names): Counted, what: &str) {
    let counts = counts.unwrap_or_else(|| panic!("{what}: nothing was counted"));
    let seen = (counts.format.as_str(), counts.passed, counts.failed, counts.skipped);
    assert_eq!(seen, (format, passed, failed, skipped), "{what}");
    let mut seen = counts.failures.clone();
    let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    seen.sort();
    names.sort();
    assert_eq!(seen, names, "{what}");
}

#[test]
fn real_tools_are_understood() {
    for (file, expected) in REAL {
        assert_counted(count(&output(file)).as_ref(), expected, file);
    }
    for file in ["mocha.txt", "mocha-colour.txt"] {
        assert_counted(count(&output(file)).as_ref(), MOCHA, file);
    }
}

#[test]
fn line_ends_of_another_system_change_nothing() {
    for (file, expected) in REAL {
        let text = String::from_utf8(output(file)).unwrap().replace('\n', "\r\n");
        assert_counted(count(text.as_bytes()).as_ref(), expected, file);
    }
}

#[test]
fn several_tools_in_one_check_are_added_up() {
    let both = [output("cargo.txt"), output("pytest.txt"), output("mocha.txt")].concat();
    let counts = count(&both).unwrap();
    assert_eq!((counts.format.as_str(), counts.passed, counts.failed, counts.skipped), ("cargo+pytest+mocha", 7, 10, 4));
    assert_eq!(counts.failures.len(), 9);

    let twice = [output("pytest.txt"), output("pytest.txt")].concat();
    assert_eq!(count(&twice).map(|counts| (counts.passed, counts.failed)), Some((6, 10)));
}

#[test]
fn reports_of_junit_are_counted() {
    let expected: [(&str, Counted); 3] = [
        (
            "pytest.xml",
            ("junit", 3, 4, 2, &["test_calc.test_bad", "test_calc.test_many[2]", "test_calc.test_error", "test_calc.test_subs"]),
        ),
        ("node-junit.xml", ("junit", 4, 2, 2, &["test.is wrong", "test.inner bad # hard"])),
        ("vitest-junit.xml", ("junit", 2, 1, 2, &["a.test.mjs.math > is wrong"])),
    ];
    for (file, expected) in expected {
        assert_counted(junit::count(&output(file)).ok().as_ref(), expected, file);
    }
}

proptest! {
    #[test]
    fn chunks_never_change_what_is_counted(file in 0..REAL.len(), cuts in prop::collection::vec(1_usize..300, 1..20)) {
        let bytes = output(REAL[file].0);
        let mut counter = Counter::new();
        let mut rest = bytes.as_slice();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() { break; }
            let (chunk, after) = rest.split_at((*cut).min(rest.len()));
            counter.feed(chunk);
            rest = after;
        }
        prop_assert_eq!(counter.finish(), count(&bytes));
    }

    #[test]
    fn no_output_is_too_strange(lines in prop::collection::vec(strange_line(), 0..60)) {
        let bytes = lines.concat();
        let counts = count(&bytes);
        let mut counter = Counter::new();
        bytes.iter().for_each(|byte| counter.feed(&[*byte]));
        prop_assert_eq!(&counter.finish(), &counts);
        if let Some(counts) = counts {
            prop_assert!(!counts.format.is_empty());
            prop_assert!(counts.failures.len() <= 10);
            prop_assert!(counts.failures.iter().all(|name| name.chars().count() <= 200 && !name.contains(char::is_control)));
        }
    }

    #[test]
    fn no_report_is_too_strange(text in "(<testsuites?>|<testcase name=\"a&b;\"/?>|</testsuite>|</testcase>|<failure/>|<skipped/>|&x;|<!DOCTYPE a>|<!--|[a-z<>&\"' =/]{0,5}){0,30}") {
        let _ = junit::count(text.as_bytes());
    }
}

/// Lines of real outputs, cut, joined and with what does not belong there.
fn strange_line() -> impl Strategy<Value = Vec<u8>> {
    let lines: Vec<Vec<u8>> = REAL
        .iter()
        .flat_map(|(file, _)| output(file).split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>())
        .collect();
    let real = prop::sample::select(lines);
    prop_oneof![
        6 => real.clone(),
        1 => (real, any::<prop::sample::Index>()).prop_map(|(line, at)| line[..at.index(line.len().max(1)).min(line.len())].to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..30),
    ]
}
