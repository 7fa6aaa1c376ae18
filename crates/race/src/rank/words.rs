//! Why each stands where it stands, as a person would say it.

use whatif_types::LimitHit;
use whatif_types::experiment::{Changes, CheckOutcome, Ended, Judged, Outcome, Verdict};

use super::class::Reach;
use super::criterion::{self, Criterion};
use super::{Class, Contender, Placed};

/// One sentence: why the first one.
pub fn because(order: &[Placed], judged: &[Judged]) -> String {
    one_line(&sentence(order, judged))
}

fn sentence(order: &[Placed], judged: &[Judged]) -> String {
    let Some(first) = order.first().map(|first| first.contender) else {
        return "no attempt has ended".to_owned();
    };
    let name = first.name;
    match first.class {
        Class::Passed if order.len() == 1 => format!("'{name}' {}", passes(first.outcome)),
        Class::Passed if Reach::of(&first.outcome.changes) == Reach::Elsewhere => {
            format!("{}; what '{name}' changed is not in the project", lead(first, order, judged))
        }
        Class::Passed => lead(first, order, judged),
        Class::ChangedNothing => format!("'{name}' passes, but it changed nothing, so there is nothing to apply"),
        _ if order.len() == 1 => format!("'{name}' does not pass: {}", trouble(first)),
        Class::FailedChecks => format!("none of {} attempts passes; '{name}' comes closest: {}", order.len(), trouble(first)),
        _ => format!("none of {} attempts passes", order.len()),
    }
}

/// What sets the first apart from the others.
fn lead(first: &Contender, order: &[Placed], judged: &[Judged]) -> String {
    match &order[1] {
        second if !second.contender.class.has_passed() => only(first, order),
        second if second.apart.is_none() => level(first, order, judged),
        second => ahead(first, second, order, judged),
    }
}

/// What is to be added about metrics that were found nowhere.
pub fn not_found(metrics: &[&str]) -> String {
    match metrics {
        [] => String::new(),
        [one] => format!("; metric '{one}' was found in no output"),
        [first, others @ ..] => format!("; metric '{first}' and {} were found in no output", counted(others.len() as u64, "other")),
    }
}

/// Those that were cancelled might have passed.
fn only(first: &Contender, order: &[Placed]) -> String {
    let name = first.name;
    let cancelled = order.iter().filter(|placed| placed.contender.class == Class::Cancelled).count();
    match (order.len() - cancelled, cancelled) {
        (1, 1) => format!("'{name}' passes; the other one was cancelled"),
        (1, _) => format!("'{name}' passes; the {cancelled} others were cancelled"),
        (2, 0) => format!("'{name}' passes and '{}' does not", order[1].contender.name),
        (tried, 0) => format!("'{name}' is the only one of {tried} that passes"),
        (tried, 1) => format!("'{name}' is the only one of {tried} that passes; one more was cancelled"),
        (tried, _) => format!("'{name}' is the only one of {tried} that passes; {cancelled} more were cancelled"),
    }
}

/// Nothing sets the first ones apart.
fn level(first: &Contender, order: &[Placed], judged: &[Judged]) -> String {
    let level = 1 + order.iter().skip(1).take_while(|placed| placed.apart.is_none()).count();
    let (name, second) = (first.name, order[1].contender);
    let apart = match (passing(order) > level, level) {
        (false, _) => " and nothing sets them apart".to_owned(),
        (true, 2) => format!("; nothing sets '{name}' and '{}' apart", second.name),
        (true, _) => format!("; nothing sets the first {level} apart"),
    };
    format!("{}{apart}; '{name}' is listed first{}", all_pass(order), no_answer(first, second, judged))
}

fn passing(order: &[Placed]) -> usize {
    order.iter().filter(|placed| placed.contender.class.has_passed()).count()
}

/// Two by name, more by number: whoever is not named might be thought to fail.
fn all_pass(order: &[Placed]) -> String {
    match passing(order) {
        2 => format!("'{}' and '{}' pass", order[0].contender.name, order[1].contender.name),
        passing => format!("{passing} attempts pass"),
    }
}

/// One line: what sets it apart from the one before; of the first, what it has.
pub fn why(placed: &Placed, before: Option<&Contender>, judged: &[Judged]) -> String {
    one_line(&line(placed, before, judged))
}

fn line(placed: &Placed, before: Option<&Contender>, judged: &[Judged]) -> String {
    let this = placed.contender;
    let Some(before) = before else {
        return if this.class.has_passed() { passes(this.outcome) } else { trouble(this) };
    };
    match (placed.apart, this.class.has_passed()) {
        (None, true) => format!("level with '{}'; listed later", before.name),
        (None, false) if this.class == Class::FailedChecks => {
            format!("{}; level with '{}', listed later", trouble(this), before.name)
        }
        (None, false) => trouble(this),
        (Some(Criterion::Class), true) => format!("behind '{}': passes, but changed nothing", before.name),
        (Some(Criterion::Class), false) => trouble(this),
        (Some(criterion), true) => format!("behind '{}': {}", before.name, less(criterion, this, before, judged)),
        (Some(criterion), false) => {
            format!("{}; behind '{}': {}", trouble(this), before.name, less(criterion, this, before, judged))
        }
    }
}

/// What a criterion says about the one that comes after.
fn less(criterion: Criterion, this: &Contender, before: &Contender, judged: &[Judged]) -> String {
    let (own, other) = (this.outcome, before.outcome);
    match criterion {
        Criterion::Class => "does not come as far".to_owned(),
        Criterion::Required => {
            format!("fewer checks passed ({} against {})", criterion::required(own).0, criterion::required(other).0)
        }
        Criterion::FailedTests => match (criterion::failed_tests(own), criterion::failed_tests(other)) {
            (Some(own), Some(other)) => format!("more tests fail ({own} against {other})"),
            (_, other) => format!("its tests were not counted (those of '{}': {} failed)", before.name, other.unwrap_or(0)),
        },
        Criterion::Optional => {
            format!("fewer optional checks passed ({} against {})", criterion::optional(own).0, criterion::optional(other).0)
        }
        Criterion::Score => lower_score(this, before),
        Criterion::PassedTests => {
            format!("fewer tests passed ({} against {})", criterion::passed_tests(own), criterion::passed_tests(other))
        }
        Criterion::Judge => format!("the judge prefers '{}'{}", before.name, reasons(before, this, judged)),
        Criterion::Changed if own.changes.is_empty() => "changed nothing".to_owned(),
        Criterion::Changed => "changed nothing in the project".to_owned(),
        Criterion::Lines => format!("larger change ({} against {})", lines(own), criterion::lines(other)),
        Criterion::Files => format!("change in more files ({} against {})", own.changes.files, other.changes.files),
    }
}

/// The same about the one that comes first, for the one sentence.
fn ahead(first: &Contender, second: &Placed, order: &[Placed], judged: &[Judged]) -> String {
    let (name, behind) = (first.name, second.contender);
    let (own, other) = (first.outcome, behind.outcome);
    let pass = all_pass(order);
    // Of two it is clear which one is meant.
    let than = if passing(order) > 2 { format!(" than '{}'", behind.name) } else { String::new() };
    let article = if than.is_empty() { "the" } else { "a" };
    match second.apart {
        Some(Criterion::Class) if than.is_empty() => {
            format!("'{name}' passes and changes something; '{}' passes without a change", behind.name)
        }
        Some(Criterion::Class) => format!("{pass}; only '{name}' changes something"),
        Some(Criterion::Changed) => format!("{pass}; only '{name}' changes the project"),
        Some(Criterion::Optional) => format!(
            "{pass}; '{name}' passes more optional checks{than} ({} against {})",
            criterion::optional(own).0,
            criterion::optional(other).0
        ),
        Some(Criterion::Score) => format!("{pass}; '{name}' has {article} higher score{than} ({})", score_numbers(first, behind)),
        Some(Criterion::PassedTests) => format!(
            "{pass}; '{name}' passes more tests{than} ({} against {})",
            criterion::passed_tests(own),
            criterion::passed_tests(other)
        ),
        Some(Criterion::Judge) => format!("{pass}; the judge prefers '{name}'{}", reasons(first, behind, judged)),
        Some(Criterion::Files) => {
            let numbers = format!("({} against {})", own.changes.files, other.changes.files);
            format!("{pass}; '{name}' changes fewer files{than} {numbers}{}", no_answer(first, behind, judged))
        }
        Some(Criterion::Lines | Criterion::Required | Criterion::FailedTests) | None => {
            let numbers = format!("({} against {})", lines(own), criterion::lines(other));
            format!("{pass}; '{name}' is {article} smaller change{than} {numbers}{}", no_answer(first, behind, judged))
        }
    }
}

/// What the judge said about the one it prefers.
fn reasons(better: &Contender, other: &Contender, judged: &[Judged]) -> String {
    said(judged, better, other, Some(better.name)).map_or_else(String::new, |said| format!(" ({said})"))
}

/// A judge that was asked and did not say which.
fn no_answer(one: &Contender, other: &Contender, judged: &[Judged]) -> String {
    match said(judged, one, other, None) {
        Some("") => "; the judge gave no answer".to_owned(),
        Some(said) => format!("; the judge gave no answer: {said}"),
        None => String::new(),
    }
}

/// The first line of what was said about these two.
fn said<'j>(judged: &'j [Judged], one: &Contender, other: &Contender, better: Option<&str>) -> Option<&'j str> {
    /// What one line has room for, in characters.
    const LONGEST: usize = 100;
    let is_among = |word: &Judged, of: &Contender| word.among.iter().any(|name| name == of.name);
    let word = judged.iter().rev().find(|word| is_among(word, one) && is_among(word, other) && word.better.as_deref() == better)?;
    let line = word.because.lines().map(str::trim).find(|line| !line.is_empty());
    match (line, better) {
        (Some(line), _) => Some(line.char_indices().nth(LONGEST).map_or(line, |(end, _)| &line[..end])),
        (None, Some(_)) => None,
        (None, None) => Some(""),
    }
}

fn lower_score(this: &Contender, before: &Contender) -> String {
    format!("lower score ({})", score_numbers(this, before))
}

/// Both totals, and both values of the metric that made the most of the difference.
fn score_numbers(this: &Contender, other: &Contender) -> String {
    let (Some(own), Some(others)) = (&this.score, &other.score) else {
        return "none against one".to_owned();
    };
    let totals = format!("{:.1} against {:.1}", own.total(), others.total());
    let is_less = own.total() < others.total();
    let most = if is_less { own.lost_most(others) } else { others.lost_most(own).map(|(theirs, ours)| (ours, theirs)) };
    match most {
        Some((own, others)) => {
            format!("{totals}; {} {} against {}", own.metric, amount(own.metric, own.value), amount(own.metric, others.value))
        }
        None => totals,
    }
}

/// A number in the unit that is known of its metric.
fn amount(metric: &str, value: Option<f64>) -> String {
    let Some(value) = value else {
        return "none".to_owned();
    };
    match metric {
        "duration" | "cpu" | "attempt_duration" => format!("{} s", number(value)),
        "memory" | "bytes" if value >= 0.0 => whatif_types::Size(value as u64).to_string(),
        _ => number(value),
    }
}

/// With as many digits as tell it from its neighbours.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    match value.abs() {
        0.001..100.0 => format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned(),
        100.0..1e15 => format!("{value:.1}"),
        _ => format!("{value:e}"),
    }
}

/// Reasons come from elsewhere, and a table has one line for each.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// What it has.
fn passes(outcome: &Outcome) -> String {
    let (required, optional) = (criterion::required(outcome), criterion::optional(outcome));
    let mut parts = vec![match (required.0 + optional.0, required.1 + optional.1) {
        (_, 0) => "succeeds".to_owned(),
        (passed, all) => format!("passes {passed} of {}", counted(all as u64, "check")),
    }];
    match criterion::passed_tests(outcome) {
        0 => {}
        tests => parts.push(counted(tests, "test")),
    }
    let Changes { files, added_lines, deleted_lines, ignored, outside, .. } = outcome.changes;
    match Reach::of(&outcome.changes) {
        Reach::Nowhere => parts.push("but changed nothing".to_owned()),
        Reach::Elsewhere => parts.push("but changed nothing in the project".to_owned()),
        Reach::Project => parts.push(format!("+{added_lines} −{deleted_lines} in {}", counted(files, "file"))),
    }
    let elsewhere = [(outside, "outside"), (ignored, "ignored")];
    parts.extend(elsewhere.iter().filter(|(paths, _)| *paths > 0).map(|(paths, place)| format!("{paths} {place}")));
    parts.join(", ")
}

/// Why it does not pass.
fn trouble(this: &Contender) -> String {
    let outcome = this.outcome;
    match &outcome.verdict {
        Verdict::Forbidden(paths) if paths.is_empty() => "changed what it must not".to_owned(),
        Verdict::Forbidden(paths) => format!("changed what it must not: {paths}"),
        Verdict::Cancelled(because) if because.is_empty() => "cancelled".to_owned(),
        Verdict::Cancelled(because) => format!("cancelled: {because}"),
        Verdict::Broken(because) if because.is_empty() => "could not be run".to_owned(),
        Verdict::Broken(because) => format!("could not be run: {because}"),
        Verdict::Failed => outcome.ended.as_ref().map_or_else(|| "its command failed".to_owned(), command_trouble),
        Verdict::Passed | Verdict::FailedChecks => check_trouble(outcome),
    }
}

fn command_trouble(ended: &Ended) -> String {
    if ended.timed_out || ended.limit_hit.is_some() {
        return how(ended);
    }
    format!("its command failed ({})", how(ended))
}

/// The required checks that fail.
fn check_trouble(outcome: &Outcome) -> String {
    let failing: Vec<&CheckOutcome> =
        outcome.checks.iter().filter(|check| check.required && !check.runs.is_empty() && !check.has_passed()).collect();
    match failing.as_slice() {
        [] => "not every required check was run".to_owned(),
        [one] => format!("fails {}", failing_check(one)),
        [one, other] => format!("fails {} and {}", failing_check(one), failing_check(other)),
        [first, ..] => {
            format!("fails {} of {} checks, first {}", failing.len(), criterion::required(outcome).1, failing_check(first))
        }
    }
}

fn failing_check(check: &CheckOutcome) -> String {
    let failed: Vec<&Ended> = check.runs.iter().filter(|run| !run.is_success()).collect();
    let mut details = Vec::new();
    if failed.len() < check.runs.len() {
        details.push(format!("{} of {} runs", failed.len(), check.runs.len()));
    }
    details.extend(failed.first().map(|run| how(run)));
    if let Some(tests) = check.tests.as_ref().filter(|tests| tests.failed > 0) {
        details.push(format!("{} of {} fail", tests.failed, counted(tests.passed.saturating_add(tests.failed), "test")));
    }
    format!("'{}' ({})", check.name, details.join(", "))
}

/// How a command that did not succeed ended.
fn how(ended: &Ended) -> String {
    if ended.timed_out {
        return format!("timed out after {}", time(ended.usage.wall_ms));
    }
    match ended.limit_hit {
        Some(LimitHit::Memory) => "stopped by the memory limit".to_owned(),
        Some(LimitHit::Disk) => "stopped by the disk limit".to_owned(),
        Some(LimitHit::Inodes) => "stopped by the limit on files".to_owned(),
        Some(LimitHit::Reserve) => "stopped because the disk was nearly full".to_owned(),
        Some(LimitHit::Ttl) => "stopped because the sandbox's time was up".to_owned(),
        None => format!("exit code {}", ended.exit_code),
    }
}

fn time(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0 => format!("{milliseconds} ms"),
        1..60 => format!("{seconds} s"),
        60..3600 if seconds.is_multiple_of(60) => format!("{} m", seconds / 60),
        60..3600 => format!("{} m {} s", seconds / 60, seconds % 60),
        _ if (seconds / 60).is_multiple_of(60) => format!("{} h", seconds / 3600),
        _ => format!("{} h {} m", seconds / 3600, seconds / 60 % 60),
    }
}

fn lines(outcome: &Outcome) -> String {
    counted(criterion::lines(outcome), "line")
}

fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
