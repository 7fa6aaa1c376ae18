//! How attempts get their names: as given, by their values, or numbered.

use std::collections::BTreeSet;

use whatif_types::experiment::AttemptPlan;
use whatif_types::name;

use super::{AttemptsError, Draft, MOST_ATTEMPTS};

#[derive(Clone, Debug)]
pub(crate) enum Name {
    /// Must be a good one, and the only one.
    Given(String),
    /// Out of these parts, whatever is in them.
    Derived(Vec<String>),
    /// By its place among all.
    Numbered,
}

/// `race apply best` is the winner.
const WINNER: &str = "best";
/// That, and what a race has sandboxes of its own for.
pub const RESERVED: [&str; 3] = [WINNER, "setup", "judge"];
/// What is left for a number that tells it from others.
const LONGEST: usize = 56;

impl Name {
    /// The one that was given, or else out of these parts.
    pub(crate) fn given_or(name: Option<String>, parts: impl IntoIterator<Item = String>) -> Self {
        name.map_or_else(|| Self::Derived(parts.into_iter().collect()), Self::Given)
    }
}

impl From<Option<String>> for Name {
    fn from(name: Option<String>) -> Self {
        name.map_or(Self::Numbered, Self::Given)
    }
}

/// Given names come first, so that no number takes one of them away.
pub(crate) fn name_all(drafts: Vec<Draft>) -> Result<Vec<AttemptPlan>, AttemptsError> {
    if drafts.len() > MOST_ATTEMPTS {
        return Err(AttemptsError::TooMany { count: drafts.len() });
    }
    let mut taken = BTreeSet::from(RESERVED.map(str::to_owned));
    for draft in &drafts {
        if let Name::Given(given) = &draft.name {
            check(given)?;
            if !taken.insert(given.clone()) {
                return Err(AttemptsError::Duplicate { name: given.clone() });
            }
        }
    }
    let mut plans = Vec::new();
    for (index, draft) in drafts.into_iter().enumerate() {
        let name = match &draft.name {
            Name::Given(given) => given.clone(),
            Name::Derived(parts) => free(&derived(parts).unwrap_or_else(|| (index + 1).to_string()), &mut taken),
            Name::Numbered => numbered(index + 1, &mut taken),
        };
        plans.push(draft.called(name)?);
    }
    Ok(plans)
}

fn check(given: &str) -> Result<(), AttemptsError> {
    name::validate(given)?;
    if given == WINNER {
        return Err(AttemptsError::Reserved { name: given.to_owned() });
    }
    Ok(())
}

fn numbered(place: usize, taken: &mut BTreeSet<String>) -> String {
    let free = (place..).map(|number| number.to_string()).find(|name| !taken.contains(name)).unwrap_or_default();
    taken.insert(free.clone());
    free
}

/// The name itself, or with a number behind it.
fn free(wanted: &str, taken: &mut BTreeSet<String>) -> String {
    let others = (2..).map(|number| format!("{wanted}-{number}"));
    let free = std::iter::once(wanted.to_owned()).chain(others).find(|name| !taken.contains(name)).unwrap_or_default();
    taken.insert(free.clone());
    free
}

/// Values can be anything, names cannot: everything else becomes a dash.
fn derived(parts: &[String]) -> Option<String> {
    let joined = parts.join("-");
    let mut name = String::new();
    for c in joined.chars() {
        let plain = if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
        let is_repeated = matches!(plain, '-' | '.') && name.ends_with(plain);
        let is_first = name.is_empty() && !plain.is_ascii_alphanumeric();
        if !is_repeated && !is_first && name.len() < LONGEST {
            name.push(plain);
        }
    }
    name.truncate(name.trim_end_matches(['-', '.', '_']).len());
    (!name.is_empty()).then_some(name)
}
