//! The [table](super::table) in a form that is quick to ask: a change set may have a hundred thousand paths.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::super::folded::{has_short_form, is_short_for};
use super::table;

#[derive(Debug)]
pub(super) struct Rules {
    all: Vec<Rule>,
    /// Which begin with this part, written out.
    plain: HashMap<&'static str, Vec<usize>>,
    /// Those that begin with a wildcard.
    wild: Vec<usize>,
}

#[derive(Debug)]
struct Rule {
    parts: Vec<&'static str>,
    /// About everything in the directory.
    is_directory: bool,
}

impl Rules {
    pub(super) fn obeyed() -> &'static Self {
        static RULES: OnceLock<Rules> = OnceLock::new();
        RULES.get_or_init(|| Self::of(table::OBEYED))
    }

    pub(super) fn started() -> &'static Self {
        static RULES: OnceLock<Rules> = OnceLock::new();
        RULES.get_or_init(|| Self::of(table::STARTED))
    }

    fn of(table: &[&[&'static str]]) -> Self {
        let mut rules = Self { all: Vec::new(), plain: HashMap::new(), wild: Vec::new() };
        for written in table.iter().copied().flatten() {
            let number = rules.all.len();
            let parts: Vec<&'static str> = written.split('/').filter(|part| !part.is_empty()).collect();
            match parts.first() {
                Some(first) if !first.contains('*') => rules.plain.entry(first).or_default().push(number),
                _ => rules.wild.push(number),
            }
            rules.all.push(Rule { parts, is_directory: written.ends_with('/') });
        }
        rules
    }

    /// Whether one of them is about this file.
    pub(super) fn name(&self, path: &[String]) -> bool {
        let is_harmless = path.last().is_some_and(|name| table::HARMLESS.contains(&name.as_str()));
        let mut fitting = (0..path.len()).flat_map(|at| self.beginning(&path[at]).map(move |rule| (at, rule)));
        fitting.any(|(at, rule)| {
            let rest = &path[at..];
            let has_length = if rule.is_directory { rest.len() > rule.parts.len() } else { rest.len() == rule.parts.len() };
            has_length && (rule.is_directory || !is_harmless) && rule.fits(rest)
        })
    }

    /// Whether a file would be named for lying somewhere in this directory.
    pub(super) fn lead_through(&self, path: &[String]) -> bool {
        let mut fitting = (0..path.len()).flat_map(|at| self.beginning(&path[at]).map(move |rule| (at, rule)));
        fitting.any(|(at, rule)| {
            let rest = &path[at..];
            let is_above = rest.len() < rule.parts.len() || rule.is_directory && rest.len() == rule.parts.len();
            is_above && rule.fits(rest)
        })
    }

    fn beginning<'s>(&'s self, part: &'s str) -> impl Iterator<Item = &'s Rule> {
        let written = self.plain.get(part).into_iter().flatten().chain(&self.wild).filter_map(|number| self.all.get(*number));
        let short = self.all.iter().filter(move |_| has_short_form(part));
        written.chain(short)
    }
}

impl Rule {
    /// Its parts, or as many as there are.
    fn fits(&self, path: &[String]) -> bool {
        self.parts.iter().zip(path).all(|(pattern, part)| fits(pattern, part))
    }
}

fn fits(pattern: &str, part: &str) -> bool {
    match pattern.split_once('*') {
        None => part == pattern || is_short_for(part, pattern),
        Some((start, end)) => part.len() >= start.len() + end.len() && part.starts_with(start) && part.ends_with(end),
    }
}
