//! The file as it is written, before it is known whether its parts fit together.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path};

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use toml::Spanned;
use whatif_types::experiment::{Better, CheckPlan};
use whatif_types::limits::{Cpus, Limits};
use whatif_types::text::Text;
use whatif_types::{Size, Span};

use super::{FileError, Problem};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Written {
    pub name: Option<String>,
    pub setup: Option<String>,
    pub judge: Option<String>,
    pub protect: Vec<String>,
    pub repeats: Option<u32>,
    pub jobs: Option<u32>,
    pub budget: Option<Span>,
    pub first_success: bool,
    pub cancel_losers: bool,
    pub check_timeout: Option<Span>,
    pub timeout: Option<Span>,
    pub net: Networks,
    pub agent: Option<Command>,
    pub limits: Room,
    pub attempt: Vec<Spanned<Attempt>>,
    pub check: Vec<Spanned<Check>>,
    pub metric: Vec<Spanned<Metric>>,
    pub weights: BTreeMap<String, f64>,
}

impl Written {
    pub fn parse(text: &str) -> Result<Self, FileError> {
        toml::from_str(text).map_err(|error| {
            let message = error.message().split('\n').map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
            FileError { line: error.span().map(|span| line_of(text, span.start)), problem: Problem::Toml { message } }
        })
    }
}

/// Something, and the line it begins in.
#[derive(Clone, Debug)]
pub struct Placed<T> {
    pub line: usize,
    pub value: T,
}

pub fn placed<T>(values: Vec<Spanned<T>>, text: &str) -> Vec<Placed<T>> {
    values.into_iter().map(|value| Placed { line: line_of(text, value.span().start), value: value.into_inner() }).collect()
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    pub name: Option<String>,
    pub run: Option<Command>,
    pub patch: Option<String>,
    pub revert: Option<String>,
    pub prompt: Option<String>,
    #[serde(default)]
    matrix: BTreeMap<String, Spanned<Vec<Value>>>,
}

impl Attempt {
    /// The matrix in the order in which it is written.
    pub fn rows(&self) -> Vec<(&str, Vec<String>)> {
        let mut rows: Vec<_> = self.matrix.iter().collect();
        rows.sort_by_key(|(_, values)| values.span().start);
        rows.into_iter()
            .map(|(name, values)| (name.as_str(), values.get_ref().iter().map(|value| value.0.clone()).collect()))
            .collect()
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    name: Option<String>,
    run: String,
    #[serde(default = "yes")]
    required: bool,
    timeout: Option<Span>,
    report: Option<String>,
}

fn yes() -> bool {
    true
}

impl Check {
    pub fn plan(&self, timeout: Option<Span>) -> Result<CheckPlan, Problem> {
        let name = self.name.as_deref().unwrap_or(&self.run).trim();
        if self.run.trim().is_empty() || name.is_empty() {
            return Err(Problem::EmptyCheck);
        }
        if self.timeout.is_some_and(|span| span.as_millis() == 0) {
            return Err(Problem::Zero { key: "timeout" });
        }
        let is_inside = |path: &str| {
            !path.is_empty() && Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        };
        if let Some(path) = self.report.as_ref().filter(|path| !is_inside(path)) {
            return Err(Problem::Report { path: path.escape_debug().to_string() });
        }
        Ok(CheckPlan {
            name: name.to_owned(),
            run: self.run.clone(),
            required: self.required,
            timeout: self.timeout.or(timeout),
            report: self.report.clone(),
        })
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    pub name: String,
    pub regex: Option<String>,
    pub json: Option<String>,
    #[serde(default)]
    pub better: Better,
    pub weight: Option<f64>,
    pub check: Option<String>,
}

/// The limits of `run` that can be written in a file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Room {
    memory: Option<Size>,
    cpus: Option<Cpus>,
    pids: Option<u64>,
    disk: Option<Size>,
    inodes: Option<u64>,
}

impl From<Room> for Limits {
    fn from(room: Room) -> Self {
        let Room { memory, cpus, pids, disk, inodes } = room;
        Self { memory, cpus, pids, disk, inodes, ..Self::none() }
    }
}

/// A string for the shell, or a program and its arguments.
#[derive(Clone, Debug)]
pub enum Command {
    Script(String),
    Program(Vec<String>),
}

impl Command {
    pub fn to_texts(&self) -> Vec<Text> {
        match self {
            Self::Script(script) => vec![Text::from(script.as_str())],
            Self::Program(arguments) => arguments.iter().map(|argument| Text::from(argument.as_str())).collect(),
        }
    }
}

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let either = OneOrMany("a string for the shell, or a list of a program and its arguments");
        deserializer.deserialize_any(either).map(|words| match words {
            Either::One(script) => Self::Script(script),
            Either::Many(arguments) => Self::Program(arguments),
        })
    }
}

/// One or several values of `--net`.
#[derive(Debug, Default)]
pub struct Networks(Vec<String>);

impl Networks {
    pub fn into_list(self) -> Vec<String> {
        self.0
    }
}

impl<'de> Deserialize<'de> for Networks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMany("a network, or a list of them")).map(|words| match words {
            Either::One(network) => Self(vec![network]),
            Either::Many(networks) => Self(networks),
        })
    }
}

enum Either {
    One(String),
    Many(Vec<String>),
}

/// With what is expected. An untagged enum would only say that nothing fits.
struct OneOrMany(&'static str);

impl<'de> Visitor<'de> for OneOrMany {
    type Value = Either;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Either, E> {
        Ok(Either::One(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Either, A::Error> {
        let mut words = Vec::new();
        while let Some(word) = list.next_element()? {
            words.push(word);
        }
        Ok(Either::Many(words))
    }
}

/// A value of a matrix, as text.
#[derive(Clone, Debug)]
struct Value(String);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl Visitor<'_> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a whole number or a boolean")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value(text.to_owned()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value(number.to_string()))
    }

    fn visit_bool<E: Error>(self, is: bool) -> Result<Value, E> {
        Ok(Value(is.to_string()))
    }

    /// 1.10 would become 1.1.
    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Err(E::custom(format!("{number} may be a version; put it in quotes")))
    }
}
