//! The information in a tree, as reality or as a sandbox shows it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// Prints a survey of its working directory.
pub(super) const PROGRAM: &str = include_str!("survey.py");

/// A word that one edit put somewhere, and no other edit ever puts anywhere.
pub(super) type Token = String;

/// User and group.
pub(super) type Owner = (u32, u32);

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Entry {
    pub kind: String,
    pub mode: u32,
    pub owner: Owner,
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

    /// The paths that something of another place came to, as far as it brought another owner along.
    pub fn brought_owners(&self, after: &Self) -> BTreeSet<(String, Owner)> {
        let is_of_another = |path: &String, entry: &Entry| self.0.get(path).is_none_or(|old| old.owner != entry.owner);
        let is_brought = |path: &String, entry: &Entry| {
            let sources =
                self.0.iter().filter(|(source, old)| *source != path && (&old.kind, old.owner) == (&entry.kind, entry.owner));
            sources.into_iter().any(|(_, old)| old.hash == entry.hash || !old.tokens.is_disjoint(&entry.tokens))
        };
        let brought = after.0.iter().filter(|(path, entry)| is_of_another(path, entry) && is_brought(path, entry));
        brought.map(|(path, entry)| (path.clone(), entry.owner)).collect()
    }

    /// The files that went from one path and came to another one, unchanged and under the same name.
    pub fn renamed(&self, after: &Self) -> BTreeSet<(String, String)> {
        let is_file = |(_, entry): &(&String, &Entry)| entry.kind == "file";
        let gone = || self.0.iter().filter(|(path, _)| !after.0.contains_key(*path)).filter(is_file);
        let come = after.0.iter().filter(|(path, _)| !self.0.contains_key(*path)).filter(is_file);
        let name = |path: &str| path.rsplit('/').next().map(str::to_owned);
        let is_same = |(one, old): (&String, &Entry), (two, new): (&String, &Entry)| old.hash == new.hash && name(one) == name(two);
        let pairs =
            come.flat_map(|new| gone().filter(move |old| is_same(*old, new)).map(move |old| (old.0.clone(), new.0.clone())));
        pairs.collect()
    }

    pub fn is_directory(&self, path: &str) -> bool {
        self.get(path).is_some_and(|entry| entry.kind == "directory")
    }

    /// What lies in a directory. Paths are written as Python writes bytes.
    pub fn below(&self, directory: &str) -> impl Iterator<Item = (&str, &Entry)> {
        let start = format!("{}/", directory.trim_end_matches(['\'', '"']));
        self.0.iter().filter(move |(path, _)| path.starts_with(&start)).map(|(path, entry)| (path.as_str(), entry))
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
