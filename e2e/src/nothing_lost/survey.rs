//! The information in a tree, as reality or as a sandbox shows it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// Prints a survey of its working directory.
pub(super) const PROGRAM: &str = include_str!("survey.py");

/// A word that one edit put somewhere, and no other edit ever puts anywhere.
pub(super) type Token = String;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Entry {
    pub kind: String,
    pub mode: u32,
    pub owner: (u32, u32),
    pub tokens: BTreeSet<Token>,
    hash: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Survey(BTreeMap<String, Entry>);

impl Survey {
    #[track_caller]
    pub fn parse(printed: &str) -> Self {
        serde_json::from_str(printed).unwrap_or_else(|e| panic!("not a survey ({e}): {printed}"))
    }

    pub fn tokens(&self) -> BTreeSet<Token> {
        self.0.values().flat_map(|entry| entry.tokens.iter().cloned()).collect()
    }

    /// The paths that have an entry of the same kind in both, with both entries.
    pub fn common<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (&'a str, &'a Entry, &'a Entry)> {
        let both = self.0.iter().filter_map(|(path, entry)| Some((path.as_str(), entry, other.0.get(path)?)));
        both.filter(|(_, ours, theirs)| ours.kind == theirs.kind)
    }

    /// The paths whose mode is another one, or that are not in both.
    pub fn other_modes(&self, other: &Self) -> BTreeSet<String> {
        let looks = |survey: &Self, path: &String| survey.0.get(path).map(|e| (e.kind.clone(), e.mode));
        let paths: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        paths.into_iter().filter(|path| looks(self, path) != looks(other, path)).cloned().collect()
    }

    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.0.get(path)
    }

    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Where a token is, for a report.
    pub fn places(&self, token: &str) -> Vec<&str> {
        self.0.iter().filter(|(_, e)| e.tokens.contains(token)).map(|(path, _)| path.as_str()).collect()
    }

    pub fn differences(&self, other: &Self) -> Vec<String> {
        let paths: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        let differing = paths.into_iter().filter(|path| self.0.get(*path) != other.0.get(*path));
        differing.map(|path| format!("{path}\n    is {:?}\n    not {:?}", self.0.get(path), other.0.get(path))).collect()
    }
}
