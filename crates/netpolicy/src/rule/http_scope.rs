//! The part of a rule that is about plain HTTP: which methods, below which path.

use crate::path::PathPrefix;

const MOST_METHODS: usize = 16;
const LONGEST_METHOD: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpScope {
    /// In upper case, sorted, without doubles; empty means every method.
    methods: Vec<String>,
    prefix: PathPrefix,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("methods are written like http+get+head://…, in lower case, at most {MOST_METHODS}")]
pub struct MethodError;

impl HttpScope {
    /// `methods` as they stand in the scheme: in lower case, `get`, `head`.
    ///
    /// # Errors
    /// If one of them is not a word.
    pub fn new<'a>(methods: impl Iterator<Item = &'a str>, prefix: PathPrefix) -> Result<Self, MethodError> {
        let mut upper = Vec::new();
        for method in methods {
            let is_word = (1..=LONGEST_METHOD).contains(&method.len()) && method.bytes().all(|byte| byte.is_ascii_lowercase());
            if !is_word || upper.len() == MOST_METHODS {
                return Err(MethodError);
            }
            upper.push(method.to_ascii_uppercase());
        }
        upper.sort();
        upper.dedup();
        Ok(Self { methods: upper, prefix })
    }

    /// `path` is without its query. Methods are compared as they are sent: `get` is not `GET`.
    #[must_use]
    pub fn permits(&self, method: &str, path: &str) -> bool {
        (self.methods.is_empty() || self.methods.iter().any(|known| known == method)) && self.prefix.covers(path)
    }

    #[must_use]
    pub fn methods(&self) -> &[String] {
        &self.methods
    }

    #[must_use]
    pub fn prefix(&self) -> &PathPrefix {
        &self.prefix
    }
}
