//! The tools, and what they print.

use super::tool::{List, Meaning, Step, Tool, Where};

pub const NODE: &str = "node";

pub const TOOLS: &[Tool] = &[
    Tool {
        name: "unittest",
        counts: List {
            between: ", ",
            items: &[
                "failures={failed}",
                "errors={failed}",
                "unexpected successes={failed}",
                "skipped={skipped}",
                "expected failures={skipped}",
            ],
        },
        summary: &[
            Step::Tests(&["Ran {ran} tests in {time}", "Ran {ran} test in {time}"]),
            Step::Tests(&["OK", "OK ({counts})", "FAILED", "FAILED ({counts})", "NO TESTS RAN", "NO TESTS RAN ({counts})"]),
        ],
        names_stand: Where::RightAfter("======================================================================"),
        names: &[("FAIL: {name}", Meaning::Test), ("ERROR: {name}", Meaning::Test)],
    },
    // `node --test`, in both of its reports.
    Tool {
        name: NODE,
        counts: List::NONE,
        summary: &[
            Step::Tests(&["# tests {number}", "ℹ tests {number}"]),
            // Older versions do not have it.
            Step::Perhaps(&["# suites {number}", "ℹ suites {number}"]),
            Step::Tests(&["# pass {passed}", "ℹ pass {passed}"]),
            Step::Tests(&["# fail {failed}", "ℹ fail {failed}"]),
            Step::Tests(&["# cancelled {failed}", "ℹ cancelled {failed}"]),
            Step::Tests(&["# skipped {skipped}", "ℹ skipped {skipped}"]),
            Step::Tests(&["# todo {skipped}", "ℹ todo {skipped}"]),
        ],
        names_stand: Where::After("✖ failing tests:"),
        names: &[("✖ {name} # TODO", Meaning::Nothing), ("✖ {name} ({time})", Meaning::Test), ("✖ {name}", Meaning::Test)],
    },
    Tool {
        name: "jest",
        counts: List {
            between: ", ",
            items: &["{passed} passed", "{failed} failed", "{skipped} skipped", "{skipped} todo", "{skipped} pending"],
        },
        summary: &[
            Step::Files(&["Test Suites: {spaces}{counts}, {total} total", "Test Suites: {spaces}{total} total"]),
            Step::Tests(&["Tests: {spaces}{counts}, {total} total", "Tests: {spaces}{total} total"]),
        ],
        names_stand: Where::Anywhere,
        names: &[
            ("FAIL {name}", Meaning::File),
            (" FAIL {name}", Meaning::File),
            ("  ● Test suite failed to run", Meaning::BrokenFile),
            ("  ● Console", Meaning::Nothing),
            ("  ● {name}", Meaning::Test),
        ],
    },
    Tool {
        name: "vitest",
        counts: List {
            between: " | ",
            items: &["{passed} passed", "{failed} failed", "{skipped} skipped", "{skipped} todo", "{skipped} expected fail"],
        },
        summary: &[
            Step::Files(&["{spaces}Test Files  {counts} ({total})"]),
            Step::Tests(&["{spaces}Tests  {counts} ({total})", "{spaces}Tests  no tests"]),
        ],
        names_stand: Where::Anywhere,
        names: &[(" FAIL  {name}", Meaning::Test)],
    },
    Tool {
        name: "mocha",
        counts: List::NONE,
        summary: &[
            Step::Tests(&["  {passed} passing ({time})"]),
            Step::Perhaps(&["  {skipped} pending"]),
            Step::Perhaps(&["  {failed} failing"]),
        ],
        names_stand: Where::AfterSummary,
        names: &[("  {number}) {name}", Meaning::Title)],
    },
];
