use super::tool::{List, Meaning, Where};
use super::*;

/// A tool that nobody wrote a reader for.
const BUNNY: Tool = Tool {
    name: "bunny",
    counts: List { between: ", ", items: &["{passed} fine", "{failed} bad"] },
    summary: &[
        Step::Files(&["Burrows: {counts}"]),
        Step::Perhaps(&["Asleep: {skipped}"]),
        Step::Tests(&["Bunnies: {counts} of {total}", "Bunnies: none"]),
    ],
    names_stand: Where::After("Bad ones:"),
    names: &[("- {name} ({time})", Meaning::Test)],
};

fn read(tool: &'static Tool, text: &str) -> Option<TestCounts> {
    let mut patterns = Box::new(Patterns::of(tool));
    text.lines().for_each(|line| patterns.line(line));
    patterns.finish()
}

/// Passed, failed, skipped, names.
#[track_caller]
fn assert_read(tool: &'static Tool, text: &str, (passed, failed, skipped, names): (u64, u64, u64, &[&str])) {
    let failures = names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(read(tool, text), Some(TestCounts { format: tool.name.to_owned(), passed, failed, skipped, failures }), "{text}");
}

fn tool(name: &str) -> &'static Tool {
    TOOLS.iter().find(|tool| tool.name == name).unwrap()
}

#[test]
fn a_tool_is_an_entry_of_data() {
    assert_read(&BUNNY, "Burrows: 1 fine\nBunnies: 2 fine of 2", (2, 0, 0, &[]));
    assert_read(&BUNNY, "Burrows: 1 fine\n \nAsleep: 3\n\nBunnies: 2 fine of 2  \n", (2, 0, 3, &[]));
    assert_read(&BUNNY, "Burrows: 4 bad\nBunnies: none", (0, 4, 0, &[]));
    assert_read(&BUNNY, "Burrows: 1 bad\nBunnies: 1 bad, 2 fine, 3 bad of 6", (2, 4, 0, &[]));
    let named = "- early (1s)\nBad ones:\n- late (1s) (2ms)\n- without a time\nBurrows: 1 bad\nBunnies: 1 bad of 1";
    assert_read(&BUNNY, named, (0, 1, 0, &["late (1s)"]));
}

#[test]
fn a_summary_counts_only_if_it_is_whole() {
    for text in [
        "Bunnies: 2 fine of 2",
        "Burrows: 1 fine\nAsleep: 3",
        "Burrows: 1 fine\nhop\nBunnies: 2 fine of 2",
        "Burrows: 1 fine\nBunnies: 2 fine of 2 or so",
        "Bunnies: 2 fine of 2\nBurrows: 1 fine",
    ] {
        assert_eq!(read(&BUNNY, text), None, "{text}");
    }
    assert_read(&BUNNY, "Burrows: 1 fine\nBunnies: 2 fine of 2\nBunnies: 3 fine of 3", (2, 0, 0, &[]));
    // The first line begins it again, and what came before is forgotten.
    assert_read(&BUNNY, "Burrows: 1 bad\nAsleep: 3\nBurrows: 1 fine\nBunnies: 2 fine of 2", (2, 0, 0, &[]));
}

#[test]
fn lines_are_read_as_a_whole() {
    let list = &List { between: ", ", items: &["{passed} fine", "{failed}x", "{skipped} asleep"] };
    let said = |pattern, line| {
        language::read(pattern, list, line).map(|said| (said.passed, said.failed, said.skipped, said.ran, said.name))
    };
    for (pattern, line, expected) in [
        ("a {passed} b", "a 7 b", Some((7, 0, 0, None, ""))),
        ("a {passed} b", "a 7 b ", None),
        ("a {passed} b", "a +7 b", None),
        ("a {passed} b", "a  b", None),
        ("{passed}", "18446744073709551616", None),
        ("{ran} in {time}", "7 in 0.5s", Some((0, 0, 0, Some(7), ""))),
        ("{ran} in {time}", "7 in s", None),
        ("{passed}{spaces}!", "7!", Some((7, 0, 0, None, ""))),
        ("{passed}{spaces}!", "7 \t !", Some((7, 0, 0, None, ""))),
        ("{counts}, {total} all", "1 fine, 2x, 3 asleep, 6 all", Some((1, 2, 3, None, ""))),
        ("{counts}, {total} all", "1 fine, 2x, 3 asleep, 7 all", None),
        ("{counts}, {total} all", "1 fine, 2 lost, 3 all", None),
        ("{counts}, {total} all", "0 all", None),
        ("({name}) {number}", "(a) 1) 2", Some((0, 0, 0, None, "a) 1"))),
        ("({name}) {number}", "(a)", None),
        ("- {name}", "- ", Some((0, 0, 0, None, ""))),
        ("{unknown}", "7", None),
        ("{passed", "7", None),
    ] {
        assert_eq!(said(pattern, line), expected, "{pattern}: {line}");
    }
}

/// A pattern that is written wrong fits no line, not even its own.
#[test]
fn every_pattern_of_the_table_fits_a_line() {
    let filled = |pattern: &str| {
        let holes = ["passed", "failed", "skipped", "ran", "total", "number"];
        let line = holes.iter().fold(pattern.to_owned(), |line, hole| line.replace(&format!("{{{hole}}}"), "0"));
        line.replace("{time}", "0.5s").replace("{spaces}", "").replace("{name}", "adds")
    };
    for tool in TOOLS {
        for item in tool.counts.items {
            assert!(language::read(item, &List::NONE, &filled(item)).is_some(), "{item}");
            // A list of what takes no text would have no end.
            assert_eq!(language::read(item, &List::NONE, ""), None, "{item}");
        }
        for form in tool.summary.iter().flat_map(|step| step.forms()) {
            let line = filled(form).replace("{counts}", &filled(tool.counts.items.first().unwrap_or(&"no list")));
            assert!(language::read(form, &tool.counts, &line).is_some(), "{form}");
        }
        for (pattern, meaning) in tool.names {
            let line = filled(pattern);
            let said = language::read(pattern, &List::NONE, &line).unwrap();
            let needs_a_name = matches!(meaning, Meaning::Test | Meaning::Title | Meaning::File);
            assert!(!needs_a_name || said.name == "adds", "{pattern}");
        }
    }
}

#[test]
fn node_counts_suites_only_since_some_version() {
    let text = "# tests 4\n# pass 1\n# fail 1\n# cancelled 0\n# skipped 1\n# todo 1\n";
    assert_read(tool("node"), text, (1, 1, 2, &[]));
    assert_read(tool("node"), &text.repeat(2), (2, 2, 4, &[]));
}

#[test]
fn unittest_names_tests_right_below_a_rule() {
    let rule = "=".repeat(70);
    let text =
        format!("FAIL: one\n{rule}\nFAIL: two\nFAIL: three\n{rule}\n\nFAIL: four\nRan 2 tests in 1s\n\nFAILED (failures=1)\n");
    assert_read(tool("unittest"), &text, (1, 1, 0, &["two"]));
}

#[test]
fn jest_tells_of_a_broken_file_twice() {
    let file = "FAIL a.js\n  ● Test suite failed to run\n  ● Console\n";
    let text = format!("{file}Summary of all failing tests\n{file}Test Suites: 1 failed, 1 total\nTests: 1 passed, 1 total\n");
    assert_read(tool("jest"), &text, (1, 1, 0, &["a.js"]));
}

#[test]
fn mocha_names_tests_only_below_its_counts() {
    let begun = "  1) early:\n  2 passing (1s)\n  1 failing\n\n  1) math\n       inner\n";
    assert_read(tool("mocha"), &format!("{begun}         adds:\n     2) no title:\n"), (2, 1, 0, &["math inner adds"]));
    assert_read(tool("mocha"), &format!("{begun}  2) next:\n"), (2, 1, 0, &["next"]));
    let long = format!("       {}\n", "x".repeat(600)).repeat(2);
    assert_read(tool("mocha"), &format!("{begun}{long}       adds:\n  2) next:\n"), (2, 1, 0, &["next"]));
    assert_read(tool("mocha"), "  2 passing (1s)\n\n  1) late:\n", (2, 0, 0, &[]));
}
