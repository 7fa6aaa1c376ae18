//! Numbers of the user's own, out of what a check printed.

mod path;

use regex_lite::Regex;
use serde_json::{Deserializer, Value};
use whatif_types::experiment::{Better, Extract, MetricPlan};
use whatif_types::remedy::Choice;
use whatif_types::{Explain, Kind, Remedy, remedy};

use self::path::Path;
use crate::lines::Lines;
use crate::rank::BUILT_IN;

/// As on the command line: `NAME=REGEX`, `NAME=$.path`; `NAME:higher` if more is better.
pub fn parse(text: &str) -> Result<MetricPlan, MetricError> {
    let (name, extract) = text.split_once('=').ok_or_else(|| MetricError::Form { text: text.escape_debug().to_string() })?;
    let (name, better) = match name.split_once(':') {
        None => (name, Better::Lower),
        Some((name, "lower")) => (name, Better::Lower),
        Some((name, "higher")) => (name, Better::Higher),
        Some((_, other)) => return Err(MetricError::Better { text: other.escape_debug().to_string() }),
    };
    let extract = if extract.starts_with("$.") || extract.starts_with("$[") || extract == "$" {
        Extract::Json(extract.to_owned())
    } else {
        Extract::Regex(extract.to_owned())
    };
    let plan = MetricPlan { name: name.to_owned(), extract, better, check: None };
    Extractor::new(&plan)?;
    Ok(plan)
}

#[derive(Debug, thiserror::Error)]
pub enum MetricError {
    #[error("'{text}' is not a metric; use NAME=REGEX or NAME=$.path")]
    Form { text: String },
    #[error("'{text}' is no direction; use higher or lower")]
    Better { text: String },
    #[error("'{name}' cannot be the name of a metric: use letters, digits, '-', '_' and '.', beginning with a letter")]
    Name { name: String },
    #[error("'{name}' is a built-in metric; choose another name")]
    BuiltIn { name: String },
    #[error("'{pattern}' is not a regular expression: {why}")]
    Regex { pattern: String, why: String },
    #[error("'{path}' is not a path: {why}")]
    Path { path: String, why: String },
}

impl Explain for MetricError {
    fn code(&self) -> &'static str {
        "invalid_metric"
    }

    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn remedies(&self) -> Vec<Remedy> {
        let example = match self {
            Self::Form { .. } | Self::Name { .. } | Self::Regex { .. } => "latency=p99: ([0-9.]+) ms",
            Self::Better { .. } => "speed:higher=([0-9.]+) req/s",
            Self::Path { .. } => "size=$.assets[0].bytes",
            Self::BuiltIn { name } => {
                return vec![remedy!["to let it count use ", Choice::Weight(format!("{name}=1").into())]];
            }
        };
        vec![remedy!["for example ", Choice::Metric(example.into())]]
    }
}

/// Reads one number out of a stream of output.
#[derive(Debug)]
pub struct Extractor {
    lines: Lines,
    found: Found,
}

#[derive(Debug)]
enum Found {
    Regex { regex: Regex, last: Option<f64> },
    Json(Json),
}

/// The number in the last line that has it, and all lines in case it is in none of them.
#[derive(Debug)]
struct Json {
    path: Path,
    in_a_line: Option<f64>,
    all: String,
    is_too_much: bool,
}

/// What one line can have. Documents are often one line; some expressions take long for long ones.
const LONGEST_LINE: usize = 64 << 10;
const LONGEST_JSON: usize = 1 << 20;
/// What a document over several lines can have.
const LARGEST_DOCUMENT: usize = 4 << 20;
/// After how many lines that look like the beginning of a document we stop looking.
const MOST_BEGINNINGS: usize = 64;

impl Extractor {
    pub fn new(plan: &MetricPlan) -> Result<Self, MetricError> {
        check_name(&plan.name)?;
        let found = match &plan.extract {
            Extract::Regex(pattern) => {
                let because = |why: String| MetricError::Regex { pattern: shown(pattern), why };
                if pattern.is_empty() {
                    return Err(because("it is empty".to_owned()));
                }
                Found::Regex { regex: Regex::new(pattern).map_err(|error| because(error.to_string()))?, last: None }
            }
            Extract::Json(path) => {
                let why = |why| MetricError::Path { path: shown(path), why };
                Found::Json(Json { path: path.parse().map_err(why)?, in_a_line: None, all: String::new(), is_too_much: false })
            }
        };
        let longest = match found {
            Found::Regex { .. } => LONGEST_LINE,
            Found::Json(_) => LONGEST_JSON,
        };
        Ok(Self { lines: Lines::up_to(longest), found })
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        let Self { lines, found } = self;
        lines.feed(bytes, &mut |line| found.line(line));
    }

    /// The last one there was.
    #[must_use]
    pub fn finish(self) -> Option<f64> {
        let Self { lines, mut found } = self;
        lines.finish(&mut |line| found.line(line));
        match found {
            Found::Regex { last, .. } => last,
            Found::Json(json) => json.in_a_line.or_else(|| json.in_a_document()),
        }
    }
}

impl Found {
    fn line(&mut self, line: &str) {
        match self {
            Self::Regex { regex, last } => {
                for captures in regex.captures_iter(line) {
                    let group = captures.iter().skip(1).flatten().next().or_else(|| captures.get(0));
                    *last = group.and_then(|group| number(group.as_str())).or(*last);
                }
            }
            Self::Json(json) => json.line(line),
        }
    }
}

impl Json {
    fn line(&mut self, line: &str) {
        // Most lines are no documents, and need not be read to know that.
        if line.trim_start().starts_with(['{', '[', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
            let value = serde_json::from_str::<Value>(line).ok();
            self.in_a_line = value.and_then(|value| self.path.number(&value)).or(self.in_a_line);
        }
        if self.all.len() + line.len() < LARGEST_DOCUMENT {
            self.all.push_str(line);
            self.all.push('\n');
        } else {
            self.is_too_much = true;
        }
    }

    /// All of the output, or the last document in it that has the number.
    fn in_a_document(&self) -> Option<f64> {
        if self.is_too_much {
            return None;
        }
        let mut beginnings = Vec::new();
        let mut at = 0;
        for line in self.all.split_inclusive('\n') {
            if line.starts_with(['{', '[']) {
                beginnings.push(at);
            }
            at += line.len();
        }
        let document = |at: usize| Deserializer::from_str(&self.all[at..]).into_iter::<Value>().next()?.ok();
        beginnings.into_iter().rev().take(MOST_BEGINNINGS).find_map(|at| self.path.number(&document(at)?))
    }
}

fn check_name(name: &str) -> Result<(), MetricError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(is_plain) || name.len() > 63 {
        return Err(MetricError::Name { name: name.escape_debug().to_string() });
    }
    if BUILT_IN.contains(&name) {
        return Err(MetricError::BuiltIn { name: name.to_owned() });
    }
    Ok(())
}

/// Without what a terminal would act on.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A finite number, with or without `,` between thousands.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let whole = text.trim_start_matches(['-', '+']).split('.').next().unwrap_or_default();
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let is_grouped = whole.contains(',');
    if is_grouped && !((1..=3).contains(&first.len()) && groups.all(|group| group.len() == 3)) {
        return None;
    }
    let plain = if is_grouped { text.replacen(',', "", whole.matches(',').count()) } else { text.to_owned() };
    plain.parse::<f64>().ok().filter(|number| number.is_finite())
}

#[cfg(test)]
mod tests;
