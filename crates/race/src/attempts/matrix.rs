//! Variables with several values, and all their combinations.

use std::collections::{BTreeMap, BTreeSet};

use super::AttemptsError;

#[derive(Debug)]
pub(crate) struct Matrix<'a> {
    rows: Vec<(&'a str, &'a [String])>,
}

/// One combination, in the order of the variables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values(Vec<(String, String)>);

impl<'a> Matrix<'a> {
    pub fn new(rows: impl Iterator<Item = (&'a str, &'a [String])>) -> Result<Self, AttemptsError> {
        let rows: Vec<_> = rows.collect();
        let mut names = BTreeSet::new();
        for (name, values) in &rows {
            if !is_variable(name) {
                return Err(AttemptsError::Variable { name: name.escape_debug().to_string() });
            }
            if !names.insert(name) {
                return Err(AttemptsError::DuplicateVariable { name: (*name).to_owned() });
            }
            if values.is_empty() {
                return Err(AttemptsError::NoValues { name: (*name).to_owned() });
            }
            let mut seen = BTreeSet::new();
            if let Some(value) = values.iter().find(|value| !seen.insert(*value)) {
                return Err(AttemptsError::DuplicateValue { name: (*name).to_owned(), value: value.escape_debug().to_string() });
            }
        }
        Ok(Self { rows })
    }

    pub fn variables(&self) -> impl Iterator<Item = &'a str> + Clone {
        self.rows.iter().map(|(name, _)| *name)
    }

    /// How many combinations there are: one, of nothing, without variables.
    pub fn len(&self) -> usize {
        self.rows.iter().fold(1_usize, |product, (_, values)| product.saturating_mul(values.len()))
    }

    /// The last variable changes the fastest. Ask for `len` first.
    pub fn combinations(&self) -> Vec<Values> {
        let mut all = vec![Values::default()];
        for (name, values) in &self.rows {
            let with = |before: &Values, value: &String| {
                let mut longer = before.clone();
                longer.0.push(((*name).to_owned(), value.clone()));
                longer
            };
            all = all.iter().flat_map(|before| values.iter().map(move |value| with(before, value))).collect();
        }
        all
    }
}

impl Values {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, value)| value.as_str())
    }

    pub fn to_parameters(&self) -> BTreeMap<String, String> {
        self.0.iter().cloned().collect()
    }
}

/// What a shell can have as a variable.
fn is_variable(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_plain) && name.starts_with(|c: char| !c.is_ascii_digit())
}
