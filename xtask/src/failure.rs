//! How a task ends when it does not succeed.

use std::fmt::Display;
use std::path::Path;

#[derive(Debug)]
pub enum Failure {
    /// Asked for in a way that has no meaning: exit code 2 and the usage.
    Usage(String),
    Failed(String),
}

impl Failure {
    pub fn new(problem: impl Into<String>) -> Self {
        Self::Failed(problem.into())
    }
}

/// For `map_err`: names what was tried on which path.
pub fn on<E: Display>(action: &'static str, path: &Path) -> impl FnOnce(E) -> Failure {
    move |error| Failure::Failed(format!("failed to {action} {}: {error}", path.display()))
}
