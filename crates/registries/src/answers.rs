//! What the tools say, gathered.

use crate::place::{Place, PlaceError};
use crate::{Found, Source};

/// No set-up of a person has more; a tool that says more is not taken at its word.
const MOST: usize = 200;

#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    pub(crate) sources: Vec<Source>,
    pub(crate) troubles: Vec<String>,
    /// Some tool did not answer: ask again before long.
    pub(crate) is_partial: bool,
}

impl Answers {
    /// A URL that `tool` goes by, as `said` says.
    pub(crate) fn url(&mut self, tool: &str, url: &str, said: &str) {
        self.place(tool, Place::of_url(url), said);
    }

    pub(crate) fn place(&mut self, tool: &str, place: Result<Option<Place>, PlaceError>, said: &str) {
        match place {
            Ok(None) => {}
            Ok(Some(place)) => self.push(Source { tool: tool.to_owned(), place: place.to_string(), said: said.to_owned() }),
            Err(error) => self.trouble(format!("{tool}: what {said} says {error}")),
        }
    }

    fn push(&mut self, source: Source) {
        let is_known = self.sources.iter().any(|known| known.tool == source.tool && known.place == source.place);
        if !is_known && self.sources.len() < MOST {
            self.sources.push(source);
        }
    }

    pub(crate) fn trouble(&mut self, text: String) {
        if !self.troubles.contains(&text) && self.troubles.len() < MOST {
            self.troubles.push(text);
        }
    }

    /// A tool that could not be asked.
    pub(crate) fn unanswered(&mut self, text: String) {
        self.is_partial = true;
        self.trouble(text);
    }

    pub(crate) fn names(&self, tool: &str) -> bool {
        self.sources.iter().any(|source| source.tool == tool)
    }

    pub(crate) fn add(&mut self, other: Self) {
        other.sources.into_iter().for_each(|source| self.push(source));
        other.troubles.into_iter().for_each(|trouble| self.trouble(trouble));
        self.is_partial |= other.is_partial;
    }

    pub(crate) fn into_found(self) -> Found {
        let mut rules = Vec::new();
        for rule in self.sources.iter().filter_map(|source| Place::of_host(&source.place).ok()?.rule()) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        Found { rules, sources: self.sources, troubles: self.troubles }
    }
}
