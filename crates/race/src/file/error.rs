//! What is wrong with an experiment file, and where.

use std::fmt;

use whatif_types::name::InvalidName;
use whatif_types::{Explain, Kind, Remedy};

use crate::attempts::AttemptsError;
use crate::metric::MetricError;

#[derive(Debug)]
pub struct FileError {
    /// Counted from 1; none if it is about no line in particular.
    pub line: Option<usize>,
    pub problem: Problem,
}

#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// As the reader of TOML says it.
    #[error("{message}")]
    Toml { message: String },
    #[error(transparent)]
    Attempts(#[from] AttemptsError),
    #[error(transparent)]
    Metric(#[from] MetricError),
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error("{why}")]
    Limits { why: String },
    #[error("'{key}' is 0, which would leave nothing to run")]
    Zero { key: &'static str },

    #[error("an attempt has exactly one of 'run', 'patch', 'revert' and 'prompt'")]
    NotOneWay,
    #[error("an attempt with a prompt needs an agent")]
    NoAgent,
    #[error("an attempt with '{kind}' has nothing that a matrix could vary")]
    NoMatrix { kind: &'static str },
    #[error("failed to read the patch '{path}': {why}")]
    Patch { path: String, why: String },

    #[error("a check has nothing to run")]
    EmptyCheck,
    #[error("two checks are called '{name}'")]
    DuplicateCheck { name: String },
    #[error("the report '{path}' is not in the project")]
    Report { path: String },

    #[error("a metric has exactly one of 'regex' and 'json'")]
    NotOneSource,
    #[error("there is no check called '{name}'; known: {known}")]
    UnknownCheck { name: String, known: String },
    #[error("two metrics are called '{name}'")]
    DuplicateMetric { name: String },
    #[error("the weight of '{name}' must be a number of 0 or more")]
    Weight { name: String },
    #[error("'{name}' has two weights")]
    DuplicateWeight { name: String },
    #[error("there is no metric called '{name}' that could have a weight; known: {known}")]
    UnknownWeight { name: String, known: String },
}

impl Problem {
    pub(super) fn at(self, line: usize) -> FileError {
        FileError { line: Some(line), problem: self }
    }
}

impl<P: Into<Problem>> From<P> for FileError {
    fn from(problem: P) -> Self {
        Self { line: None, problem: problem.into() }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.problem),
            None => self.problem.fmt(f),
        }
    }
}

impl std::error::Error for FileError {}

impl Explain for FileError {
    fn code(&self) -> &'static str {
        match &self.problem {
            Problem::Attempts(error) => error.code(),
            Problem::Metric(error) => error.code(),
            _ => "invalid_experiment",
        }
    }

    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn remedies(&self) -> Vec<Remedy> {
        let words = match &self.problem {
            Problem::Attempts(error) => return in_a_file(error),
            Problem::Metric(error) => return in_a_file(error),
            Problem::NotOneWay => "for example run = \"npm i left-pad@2.0.0\"",
            Problem::NoAgent => "put agent = [\"my-agent\", \"-p\", \"{prompt}\"] at the top of the file",
            Problem::NoMatrix { .. } => "write one [[attempt]] for each",
            Problem::Patch { .. } => "paths of patches are relative to the file that names them",
            Problem::EmptyCheck => "for example run = \"npm test\"",
            Problem::DuplicateCheck { .. } | Problem::DuplicateMetric { .. } => "give one of them another name",
            Problem::Report { .. } => "give a path relative to the project, as in report = \"junit.xml\"",
            Problem::NotOneSource => "for example regex = \"([0-9.]+) req/s\" or json = \"$.requests.mean\"",
            Problem::DuplicateWeight { .. } => "leave it out of [weights]",
            Problem::Weight { .. } => "0 leaves it out, 2 counts twice as much as 1",
            Problem::Toml { .. }
            | Problem::Name(_)
            | Problem::Limits { .. }
            | Problem::Zero { .. }
            | Problem::UnknownCheck { .. }
            | Problem::UnknownWeight { .. } => return Vec::new(),
        };
        vec![words.into()]
    }
}

/// What can be called and chosen is no help in a file.
fn in_a_file(error: &dyn Explain) -> Vec<Remedy> {
    error.remedies().into_iter().filter(Remedy::is_plain).collect()
}
