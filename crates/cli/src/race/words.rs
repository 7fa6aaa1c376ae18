//! What came of an attempt, in a few words.

use whatif_types::LimitHit;
use whatif_types::experiment::{Changes, CheckOutcome, Ended, Measured, Outcome, TestCounts, Verdict};

use super::line::Line;
use crate::output::{Style, bytes, counted};

pub const PASSED: &str = "✔";
pub const FAILED: &str = "✘";
pub const NEITHER: &str = "–";
pub const WAITING: &str = "·";

/// A mark, its colour, and words.
#[derive(Clone, Debug)]
pub struct Result {
    pub mark: &'static str,
    pub style: Style,
    pub words: String,
}

#[must_use]
pub fn result(outcome: &Outcome) -> Result {
    let of = |mark, style, words: String| Result { mark, style, words: words + &also_denied(outcome) };
    match &outcome.verdict {
        Verdict::Passed if outcome.changes.is_empty() => of(NEITHER, Style::Yellow, "changed nothing".into()),
        Verdict::Passed => of(PASSED, Style::Green, "passed".into()),
        Verdict::FailedChecks => of(FAILED, Style::Red, failed_checks(&outcome.checks)),
        Verdict::Failed => of(FAILED, Style::Red, own_failure(outcome)),
        Verdict::Forbidden(paths) => of(FAILED, Style::Red, format!("forbidden: {paths}")),
        Verdict::Cancelled(because) => of(NEITHER, Style::Dim, because_of("cancelled", because)),
        Verdict::Broken(because) => of(FAILED, Style::Yellow, because_of("could not be run", because)),
    }
}

fn because_of(what: &str, because: &str) -> String {
    if because.is_empty() { what.to_owned() } else { format!("{what}: {because}") }
}

/// The first required check that is not passed, and how.
fn failed_checks(checks: &[CheckOutcome]) -> String {
    let mut failed = checks.iter().filter(|c| c.required && !c.has_passed());
    let Some(first) = failed.next() else { return "fails its checks".to_owned() };
    let more = match failed.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("fails {} ({}){more}", first.name, how_it_failed(first))
}

/// How a check failed; how often, if not every time.
#[must_use]
pub fn how_it_failed(check: &CheckOutcome) -> String {
    let failed: Vec<&Ended> = check.runs.iter().filter(|run| !run.is_success()).collect();
    let Some(first) = failed.first() else { return "not run".to_owned() };
    if failed.len() < check.runs.len() {
        return format!("{} of {} runs", failed.len(), check.runs.len());
    }
    ending(first)
}

fn own_failure(outcome: &Outcome) -> String {
    match &outcome.ended {
        _ if failed_because_denied(outcome) => denied(&outcome.denied),
        Some(ended) if is_cut_short(ended) => ending(ended),
        Some(ended) => format!("failed ({})", ending(ended)),
        None => "failed".to_owned(),
    }
}

/// Most likely.
fn failed_because_denied(outcome: &Outcome) -> bool {
    outcome.verdict == Verdict::Failed && !outcome.denied.is_empty() && !outcome.ended.as_ref().is_some_and(is_cut_short)
}

fn is_cut_short(ended: &Ended) -> bool {
    ended.timed_out || ended.limit_hit.is_some()
}

/// Whatever became of it: that it tried is worth knowing.
fn also_denied(outcome: &Outcome) -> String {
    let is_said = outcome.denied.is_empty() || failed_because_denied(outcome);
    if is_said { String::new() } else { format!(", {}", denied(&outcome.denied)) }
}

/// The first host, and how many more.
fn denied(hosts: &[String]) -> String {
    match hosts {
        [] => String::new(),
        [host] => format!("denied {host}"),
        [first, more @ ..] => format!("denied {first} +{}", more.len()),
    }
}

/// How a command ended.
#[must_use]
pub fn ending(ended: &Ended) -> String {
    match ended.limit_hit {
        Some(LimitHit::Memory) => "out of memory".to_owned(),
        Some(LimitHit::Disk) => "out of disk space".to_owned(),
        Some(LimitHit::Inodes) => "too many files".to_owned(),
        Some(LimitHit::Reserve) => "the disk is nearly full".to_owned(),
        Some(LimitHit::Ttl) => "its time was up".to_owned(),
        None if ended.timed_out => "timed out".to_owned(),
        None => format!("exit {}", ended.exit_code),
    }
}

/// `1 file +1 −1, 2 outside, 3 ignored`; with less room than that, `1 file +1 −1, 5 elsewhere`.
#[must_use]
pub fn change(changes: &Changes, room: usize) -> Line {
    if changes.is_empty() {
        return Line::painted(Style::Dim, "nothing");
    }
    let lines = line_counts(changes.added_lines, changes.deleted_lines);
    let files = match changes.files {
        0 => Line::default(),
        files => Line::plain(counted(files, "file")).plus(if lines.is_empty() { "" } else { " " }).then(lines),
    };
    let with = |places: &[(u64, &str)]| {
        places.iter().filter(|(paths, _)| *paths > 0).fold(files.clone(), |line, (paths, place)| {
            let gap = if line.is_empty() { "" } else { ", " };
            line.with(Style::Dim, format!("{gap}{paths} {place}"))
        })
    };
    let whole = with(&[(changes.outside, "outside"), (changes.ignored, "ignored")]);
    if whole.width() <= room || changes.outside == 0 || changes.ignored == 0 {
        return whole;
    }
    // Not cut: a number without its end is another one.
    with(&[(changes.outside.saturating_add(changes.ignored), "elsewhere")])
}

/// Of a table that wide, for what was changed.
#[must_use]
pub fn room_for_change(table: usize) -> usize {
    table / 4
}

/// `+1 −1`; nothing where no lines are counted.
#[must_use]
pub fn line_counts(added: u64, deleted: u64) -> Line {
    match (added, deleted) {
        (0, 0) => Line::default(),
        (added, 0) => Line::painted(Style::Green, format!("+{added}")),
        (0, deleted) => Line::painted(Style::Red, format!("−{deleted}")),
        _ => Line::painted(Style::Green, format!("+{added}")).plus(" ").with(Style::Red, format!("−{deleted}")),
    }
}

/// `5/6`: passed, of those that were run.
#[must_use]
pub fn tests<'a>(counts: impl IntoIterator<Item = &'a TestCounts>) -> Line {
    let mut counts = counts.into_iter().peekable();
    if counts.peek().is_none() {
        return Line::default();
    }
    let (passed, failed) = counts.fold((0, 0), |(passed, failed), c| (passed + c.passed, failed + c.failed));
    let text = format!("{passed}/{}", passed + failed);
    if failed > 0 { Line::painted(Style::Red, text) } else { Line::plain(text) }
}

/// `45ms`, `1.2s`, `2m05s`, `1h02m`.
#[must_use]
pub fn time(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match milliseconds {
        0..100 => format!("{milliseconds}ms"),
        100..59_950 => format!("{:.1}s", milliseconds as f64 / 1000.0),
        59_950..3_600_000 => format!("{}m{:02}s", seconds.max(60) / 60, seconds.max(60) % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// Whether there is anything to say about what it did; one that was put together from others has no command of its own.
#[must_use]
pub fn was_run(outcome: &Outcome) -> bool {
    outcome.ended.is_some() || !outcome.checks.is_empty() || !outcome.changes.is_empty()
}

/// What all commands of an attempt used together: time and CPU time in milliseconds, and the most memory.
#[must_use]
pub fn used(outcome: &Outcome) -> (u64, u64, u64) {
    let all = outcome.ended.iter().chain(outcome.checks.iter().flat_map(|c| &c.runs));
    all.map(|ended| &ended.usage)
        .fold((0, 0, 0), |(wall, cpu, memory), u| (wall + u.wall_ms, cpu + u.cpu_ms, memory.max(u.peak_memory_bytes)))
}

/// A metric in its unit, with how far its measurements lie apart: `1.2s ±0.1`.
#[must_use]
pub fn measured(metric: &str, measured: &Measured) -> String {
    let spread = (measured.high - measured.low).abs() / 2.0;
    let is_spread = measured.runs > 1 && spread > 0.0;
    let (value, spread) = match metric {
        "duration" | "cpu" | "attempt_duration" if measured.value < 59.95 => {
            (format!("{:.2}s", measured.value), format!("{spread:.2}"))
        }
        "duration" | "cpu" | "attempt_duration" => (time((measured.value * 1000.0) as u64), time((spread * 1000.0) as u64)),
        "memory" | "bytes" => (bytes(measured.value as u64), bytes(spread as u64)),
        _ => (number(measured.value), number(spread)),
    };
    if is_spread { format!("{value} ±{spread}") } else { value }
}

/// With as many digits as one reads.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 1000.0 || v.fract() == 0.0 && v < 1e15 => 0,
        v if v >= 100.0 => 1,
        v if v >= 1.0 => 2,
        v if v >= 0.01 => 3,
        _ => return format!("{value:.1e}"),
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn who_was_denied_a_host_says_so_whatever_became_of_it() {
        let said = |attempt: &str, hosts: &[&str]| {
            let denied = hosts.iter().map(|host| host.to_string()).collect();
            result(&Outcome { denied, ..sample::outcome(attempt) }).words
        };
        assert_eq!(said("good", &["blocked.test:80"]), "passed, denied blocked.test:80");
        assert_eq!(said("good", &["a.test:80", "b.test:80", "c.test:80"]), "passed, denied a.test:80 +2");
        assert_eq!(said("idle", &["a.test:80"]), "changed nothing, denied a.test:80");
        assert_eq!(said("bad", &["a.test:80"]), "fails test (exit 1), denied a.test:80");
        assert_eq!(said("slow", &["a.test:80"]), "timed out, denied a.test:80");
        assert_eq!(said("wrong", &["a.test:80", "b.test:80"]), "denied a.test:80 +1");
        assert_eq!(said("good", &[]), "passed");
    }

    #[test]
    fn what_was_changed_elsewhere_stands_beside_the_files() {
        let said = |files, deleted_lines, outside, ignored| {
            change(&Changes { files, deleted_lines, outside, ignored, ..Changes::default() }, 32).text()
        };
        assert_eq!(said(1, 9, 0, 0), "1 file −9");
        assert_eq!(said(1, 9, 2, 0), "1 file −9, 2 outside");
        assert_eq!(said(2, 0, 0, 3), "2 files, 3 ignored");
        assert_eq!(said(1, 9, 2, 52), "1 file −9, 2 outside, 52 ignored");
        assert_eq!(said(3, 30, 449, 52), "3 files −30, 501 elsewhere");
        assert_eq!(said(3000, 123_456, 4_490_000, 0), "3000 files −123456, 4490000 outside");
        assert_eq!(said(0, 0, 2, 3), "2 outside, 3 ignored");
        assert_eq!(said(0, 0, 0, 0), "nothing");
    }

    #[test]
    fn times() {
        let shown = [
            (0, "0ms"),
            (99, "99ms"),
            (100, "0.1s"),
            (59_949, "59.9s"),
            (59_951, "1m00s"),
            (125_000, "2m05s"),
            (3_720_000, "1h02m"),
        ];
        for (milliseconds, text) in shown {
            assert_eq!(time(milliseconds), text);
        }
    }

    #[test]
    fn measurements_with_their_spread() {
        let of = |metric: &str, value, low, high, runs| measured(metric, &Measured { value, low, high, runs });
        assert_eq!(of("duration", 1.234, 1.2, 1.3, 3), "1.23s ±0.05");
        assert_eq!(of("duration", 1.234, 1.234, 1.234, 1), "1.23s");
        assert_eq!(of("duration", 90.0, 80.0, 100.0, 3), "1m30s ±10.0s");
        assert_eq!(of("memory", 20971520.0, 20971520.0, 20971520.0, 3), "20.0 MiB");
        assert_eq!(of("speed", 12345.6, 12000.0, 12500.0, 3), "12346 ±250");
        assert_eq!(of("speed", 12.5, 12.5, 12.5, 3), "12.5");
        assert_eq!(of("loss", 0.000123, 0.0001, 0.0002, 2), "1.2e-4 ±5.0e-5");
        assert_eq!(of("loss", 0.0, 0.0, 0.0, 2), "0");
        assert_eq!(of("odd", f64::NAN, 0.0, 0.0, 1), "NaN");
    }
}
