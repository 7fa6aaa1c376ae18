//! When two outputs are the same to a reader: what differs from run to run is taken out of both.

use std::sync::LazyLock;

use regex_lite::{Captures, Regex};

use super::page::Leave;

/// What differs, and what stands in its place. In this order.
static VARYING: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let patterns = [
        (r"\b[0-9a-hjkmnp-tv-z]{12}\b", "<id>"),
        (r"\b[0-9a-f]{8,64}\b", "<hash>"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\dZ?", "<time>"),
        (r"\b\d+(\.\d+)? ?([KMGT]iB|B)\b", "<size>"),
        (r"\b\d+(\.\d+)? ?(ms|s)\b", "<time>"),
        (r"\b(\d+[dhm])+(\d+s)?\b", "<time>"),
        (r"\bprocess \d+", "process <number>"),
        // Who it was is not always known: it may be gone.
        (r"\b[a-z]+ \(\d+\) ", "- "),
        (r"(logs [a-z]+) \d+", "$1 <number>"),
        (r"127\.0\.0\.1:[1-6]\d{4}\b", "127.0.0.1:<port>"),
        (r"\b0\.\d+ / (\d+)\b", "<share> / $1"),
        (r"\bfd[0-9a-f]{2}:[0-9a-f:]+", "<address>"),
        (r"/sys/fs/cgroup/\S+", "<group>"),
        (r"[ \t]+", " "),
    ];
    patterns.into_iter().map(|(pattern, instead)| (Regex::new(pattern).expect("it is a pattern"), instead)).collect()
});
static GENERATED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b[a-z]{4,6}-[a-z]{3,8}(-\d{1,4})?\b").expect("it is a pattern"));
static NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\d+(\.\d+)?").expect("it is a pattern"));

pub(super) fn alike(expected: &[&str], came: &[&str], leave: Leave) -> bool {
    plain(expected, leave) == plain(came, leave)
}

fn plain(lines: &[&str], leave: Leave) -> Vec<String> {
    // Said only by what takes long, which depends on the machine.
    let said_anyway = lines.iter().filter(|line| !(line.starts_with("  used ") && line.contains("of CPU time")));
    let mut lines: Vec<String> = said_anyway.map(|line| without_varying(line, leave)).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    if leave == Leave::Order {
        lines.sort();
    }
    // Attempts of a race are reported in the order in which they end.
    for reports in lines.chunk_by_mut(|one, other| is_report(one) && is_report(other)) {
        reports.sort();
    }
    lines
}

fn is_report(line: &str) -> bool {
    line.starts_with("whatif: ✔ ") || line.starts_with("whatif: ✘ ")
}

fn without_varying(line: &str, leave: Leave) -> String {
    // How much of the last column has a place depends on the others.
    let line = line.strip_suffix('…').and_then(|line| line.rsplit_once("  ")).map_or(line, |(others, _)| others);
    let mut line = GENERATED.replace_all(line, without_generated).into_owned();
    for (pattern, instead) in VARYING.iter() {
        line = pattern.replace_all(&line, *instead).into_owned();
    }
    if leave == Leave::Numbers {
        line = NUMBER.replace_all(&line, "<number>").into_owned();
    }
    line
}

fn without_generated(found: &Captures) -> String {
    if whatif_types::name::is_generated(&found[0]) { "<name>".to_owned() } else { found[0].to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_alike() {
        for (one, other) in [
            ("✓ 1 change applied from bye as k8ak02svvf2x", "✓ 1 change applied from bye as ykcnbxknzrbb"),
            ("5 paths changed (52.0 KiB); Kept as silver-lantern", "5 paths changed (0 B); Kept as calm-moss"),
            ("fix    active  0s   1        36.0 KiB  0", "fix  active  12s   1   4.0 MiB  0"),
            ("small  0.99 / 1  1h59m", "small  0.42 / 1  2h"),
        ] {
            assert!(alike(&[one], &[other], Leave::Nothing), "{one}\n{other}\n{}", without_varying(one, Leave::Nothing));
        }
    }

    #[test]
    fn what_a_reader_would_notice_is_not() {
        for (one, other) in
            [("5 paths changed", "6 paths changed"), ("M  app.py", "A  app.py"), ("kept as well-made", "kept as half-made")]
        {
            assert!(!alike(&[one], &[other], Leave::Nothing), "{one}\n{other}");
        }
        assert!(!alike(&["one"], &["one", "two"], Leave::Nothing));
    }
}
