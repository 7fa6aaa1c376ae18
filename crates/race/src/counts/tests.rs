use super::*;

fn count(text: &str) -> Option<TestCounts> {
    let mut counter = Counter::new();
    counter.feed(text.as_bytes());
    counter.finish()
}

/// Format, passed, failed, skipped.
fn brief(text: &str) -> Option<(String, u64, u64, u64)> {
    count(text).map(|counts| (counts.format, counts.passed, counts.failed, counts.skipped))
}

#[track_caller]
fn assert_brief(text: &str, (format, passed, failed, skipped): (&str, u64, u64, u64)) {
    assert_eq!(brief(text), Some((format.to_owned(), passed, failed, skipped)), "{text}");
}

#[test]
fn what_only_looks_like_a_result_is_not_counted() {
    let prose = [
        "",
        "3 passed",
        "test result: ok.",
        "test result: ok. 3 passed; 0 failed",
        "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; and more",
        "test result: fine. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        "test result: ok. three passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        "  test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        "I read: test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        "test result: ok. 99999999999999999999 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        "Summary [   0.2s] 4 tests run: 4 passed",
        "     Summary [ soon ] 4 tests run: 4 passed",
        "     Summary [   0.2s] 4 tests run: 4 wonderful",
        "3 passed in a row in 0.2s",
        "3 passed in no time",
        "=== 3 passed ===",
        "=== 3 cats in 0.2s ===",
        "2 warnings in 0.1s",
        "Ran 3 tests in 0.001s",
        "Ran 3 tests in 0.001s\nand then\nOK",
        "Ran 3 tests in 0.001s\n\nOK then",
        "OK",
        "--- PASS: TestX",
        "--- PASS: all of it (0.00s)",
        "--- FINE: TestX (0.00s)",
        "ok  \texample.com/a\tsoon",
        "ok example.com/a 0.003s",
        "FAIL\t",
        "{\"Action\":\"pass\"}",
        "{\"Action\":\"pass\",\"Test\":\"TestX\"}",
        "{\"Action\":[],\"Package\":\"p\"}",
        "ok",
        "ok 1",
        "ok 1 - adds\nok 2 - more",
        "1..3",
        "1..3\nok, so be it\nokay 1",
        "1..2\nok 4 - out of order\nok 9 - even more",
        "TAP version thirteen\nok 1",
        "# tests 3\n# pass 3\n# fail 0",
        "# tests 3\nsomething else\n# suites 0\n# pass 3\n# fail 0\n# cancelled 0\n# skipped 0\n# todo 0",
        "Tests: 3 passed, 3 total",
        "Test Suites: 1 passed, 1 total\nTests: 3 passed, 4 total",
        "Test Suites: 1 passed, 1 total\nsomething\nTests: 3 passed, 3 total",
        " Tests  3 passed (3)",
        " Test Files  1 passed (1)\n Tests  3 passed (4)",
        "3 passing (5ms)",
        "  3 passing",
        "  3 passing (soon)",
        "  1 failing",
    ];
    for text in prose {
        assert_eq!(brief(text), None, "{text}");
    }
}

#[test]
fn a_result_that_a_test_prints_is_not_the_one_of_the_run() {
    let ok = "test result: ok. 100 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
    let real = "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n";
    assert_brief(&format!("running 2 tests\n{ok}{real}{ok}"), ("cargo", 1, 1, 0));
    // Of a harness that counts differently, the last one is believed.
    assert_brief(&format!("running 7 tests\n{ok}{real}"), ("cargo", 1, 1, 0));
    // Without the beginning, as after a filter, all of them.
    assert_brief(&format!("{real}{real}"), ("cargo", 2, 2, 0));

    let session = "==== test session starts ====\n== 100 passed in 0.10s ==\n== 1 failed, 1 passed in 0.10s ==\n";
    assert_brief(session, ("pytest", 1, 1, 0));
}

#[test]
fn nextest_tells_more_than_passed_and_failed() {
    let summary = "     Summary [   1.234s] 9/12 tests run: 4 passed (1 slow, 1 flaky), 2 failed (1 due to being leaky), 1 exec failed, 2 timed out, 3 skipped";
    assert_brief(summary, ("nextest", 4, 5, 3));
    assert_brief("     Summary [  61.000s] 1 test run: 1 passed, 0 skipped", ("nextest", 1, 0, 0));
}

#[test]
fn forms_of_pytest() {
    assert_brief("5 passed in 75.31s (0:01:15)", ("pytest", 5, 0, 0));
    assert_brief("=== 5 passed, 2 warnings in 0.12 seconds ===", ("pytest", 5, 0, 0));
    assert_brief("=== no tests ran in 0.01s ===", ("pytest", 0, 0, 0));
    assert_brief("2 errors in 0.50s", ("pytest", 0, 2, 0));
    assert_brief("1 passed, 1 rerun in 0.50s", ("pytest", 1, 0, 0));
    assert_brief("3 passed in 0.1s\n4 passed, 1 skipped in 0.1s", ("pytest", 7, 0, 1));
}

#[test]
fn forms_of_unittest() {
    assert_brief("Ran 1 test in 0.000s\n\nOK", ("unittest", 1, 0, 0));
    assert_brief("Ran 0 tests in 0.000s\n\nNO TESTS RAN", ("unittest", 0, 0, 0));
    assert_brief("Ran 0 tests in 0.000s\n\nFAILED (errors=2)", ("unittest", 0, 2, 0));
}

#[test]
fn forms_of_go() {
    assert_brief("ok  \texample.com/a\t0.003s\nok  \texample.com/b\t(cached)\tcoverage: 80.0% of statements", ("go", 2, 0, 0));
    assert_brief("ok  \texample.com/a\t0.003s [no tests to run]\n?   \texample.com/d\t[no test files]", ("go", 0, 0, 0));
    // It ended before any test did.
    assert_brief("panic: no\nFAIL\texample.com/a\t0.003s", ("go", 0, 1, 0));
    assert_brief("--- FAIL: TestA (0.00s)\npanic: no\nFAIL\texample.com/a\t0.003s", ("go", 0, 1, 0));
    // Parts of a test that was never told of are something else.
    assert_brief("--- PASS: TestA (0.00s)\n        --- PASS: TestB/x (0.00s)\n    --- PASS: Other/x (0.00s)", ("go", 1, 0, 0));
    let broken = r#"{"ImportPath":"p","Action":"build-fail"}
{"Action":"start","Package":"p"}
{"Action":"fail","Package":"p","Elapsed":0,"FailedBuild":"p"}"#;
    assert_brief(broken, ("go", 0, 1, 0));
}

#[test]
fn forms_of_tap() {
    assert_brief("TAP version 14\n1..2\nok 1\nnot ok 2\n", ("tap", 1, 1, 0));
    assert_brief("1..3\nok 1 - a\nok 2 - b\n", ("tap", 2, 1, 0));
    assert_brief("ok 1 a\nnot ok 2 b # TODO later\nok 3 # skip no network\n1..3", ("tap", 1, 0, 2));
    assert_brief("1..3\nok 1\nBail out! Out of memory\n", ("tap", 1, 2, 0));
    assert_brief("TAP version 13\nok 1\nBail out!\n", ("tap", 1, 1, 0));
    assert_brief("TAP version 13\n1..0 # SKIP no network", ("tap", 0, 0, 0));
    assert_brief("1..1\nok 1\n1..2\nok 1\nok 2", ("tap", 3, 0, 0));
    assert_brief("ok 1\n1..1\nok 1\nok 2\n1..2", ("tap", 3, 0, 0));
    let nested = "TAP version 14\n# Subtest: a\n    ok 1 - x\n    not ok 2 - y\n    1..2\nnot ok 1 - a\n1..1\n";
    assert_brief(nested, ("tap", 0, 1, 0));
    assert_eq!(count(nested).unwrap().failures, ["y"]);
}

#[test]
fn forms_of_the_javascript_tools() {
    assert_brief("# tests 2\n# pass 1\n# fail 0\n# cancelled 1\n# skipped 0\n# todo 0\n", ("node", 1, 1, 0));
    assert_brief("Test Suites: 1 passed, 1 total\nTests:       2 passed, 2 total\n", ("jest", 2, 0, 0));
    assert_brief(" Test Files  1 failed (1)\n      Tests  no tests\n", ("vitest", 0, 1, 0));
    assert_brief(" Test Files  2 passed (2)\n      Tests  12 passed | 1 skipped (13)\n", ("vitest", 12, 0, 1));
    assert_brief("\n  3 passing (5ms)\n", ("mocha", 3, 0, 0));
    assert_brief("  0 passing (1m)\n  2 failing\n\n  1) a:\n     Error\n", ("mocha", 0, 2, 0));
}

#[test]
fn progress_bars_colours_and_bytes_that_are_no_text_do_not_hide_a_result() {
    let text = b"\xff\xfe 1/3\r 2/3\r\x1b[2K\x1b[32m3 passed\x1b[0m\x1b[32m in 0.10s\x1b[0m\r\n\xf0\x28".as_slice();
    let mut counter = Counter::new();
    counter.feed(text);
    assert_eq!(counter.finish().map(|counts| counts.passed), Some(3));
}

#[test]
fn only_the_first_failures_are_named_and_names_are_cut() {
    let mut text = "=== short test summary info ===\n".to_owned();
    for number in 0..50 {
        text += &format!("FAILED test.py::{number}{} - assert\n", "x".repeat(500));
    }
    text += "50 failed in 0.10s\n";
    let counts = count(&text).unwrap();
    assert_eq!((counts.failed, counts.failures.len()), (50, 10));
    assert!(counts.failures.iter().all(|name| name.len() == 200));
}

#[test]
fn a_line_without_an_end_takes_no_memory() {
    let mut counter = Counter::new();
    for _ in 0..2_000 {
        counter.feed(&[b'x'; 1 << 14]);
    }
    counter.feed(b"\n3 passed in 0.10s\n");
    assert_eq!(counter.finish().map(|counts| counts.passed), Some(3));
}

#[test]
fn numbers_that_are_too_large_to_add_up_are_not_wrong() {
    let most = format!("{} passed in 0.10s\n", u64::MAX);
    assert_eq!(count(&most.repeat(3)).map(|counts| counts.passed), Some(u64::MAX));
}
