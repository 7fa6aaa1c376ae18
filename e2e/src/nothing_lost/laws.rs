//! When information was lost, brought back or made up. Pure: surveys in, complaints out.

use std::collections::BTreeSet;

use super::survey::{Entry, Owner, Survey, Token};

/// What a sandbox did so far: all that an apply of it may do to reality.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    /// Every token that its edits put somewhere in its view, moved ones among them, or took out of it.
    pub added: BTreeSet<Token>,
    pub removed: BTreeSet<Token>,
    /// Those that were somewhere else before.
    pub moved: BTreeSet<Token>,
    /// Put there, still there, and not yet real.
    pub pending: BTreeSet<Token>,
    /// Paths that it made, deleted, or gave another mode, and that were not applied since.
    pub looks: BTreeSet<String>,
    /// Owners that it brought to paths by moving or copying something there, and that were not applied since.
    pub owners: BTreeSet<(String, Owner)>,
    /// Where files were before it renamed them unchanged, and where they are.
    renamed: BTreeSet<(String, String)>,
    /// Where directories were before it renamed them.
    renamed_directories: BTreeSet<String>,
}

impl Work {
    /// One command of the sandbox, with what it showed before and afterwards, and what it may have written. What it shows of reality
    /// since is not its own, and neither is what was deleted and comes back: fuse-overlayfs shows what is below a directory again once
    /// the one that was made in its place is renamed.
    pub fn note(&mut self, before: &Survey, after: &Survey, real: &Survey, written: &BTreeSet<Token>) {
        let (old, new) = (before.tokens(), after.tokens());
        let gained: BTreeSet<Token> = new.difference(&old).cloned().collect();
        self.removed.extend(old.difference(&new).cloned());
        self.pending.retain(|token| new.contains(token));
        let real = real.tokens();
        self.pending.extend(gained.iter().filter(|token| written.contains(*token) && !real.contains(*token)).cloned());
        self.added.extend(gained);
        // Where reality replaced a directory under a live view, a file can be written that no listing shows.
        self.added.extend(written.iter().cloned());
        let moved: BTreeSet<Token> = new.into_iter().filter(|token| before.places(token) != after.places(token)).collect();
        self.added.extend(moved.iter().cloned());
        self.moved.extend(moved);
        self.looks.extend(before.other_modes(after));
        self.owners.extend(before.brought_owners(after));
        let renamed = before.renamed(after);
        self.renamed_directories
            .extend(renamed.iter().filter_map(|(old, new)| renamed_directory(old, new)).filter(|d| !after.is_directory(d)));
        for (old, new) in renamed {
            let first: Vec<String> = self.renamed.iter().filter(|(_, last)| *last == old).map(|(first, _)| first.clone()).collect();
            self.renamed.extend(first.into_iter().chain([old]).map(|first| (first, new.clone())));
        }
    }

    /// A transaction in reality. A renamed directory shows what reality has in its old place, what came later too; what is taken
    /// from there is copied into the sandbox first, and is its own from then on.
    pub fn take_copies(&mut self, before: &Survey, after: &Survey) {
        let tokens = |survey: &Survey, path: &str| survey.get(path).map(|entry| entry.tokens.clone()).unwrap_or_default();
        let taken = self.renamed.iter().flat_map(|(old, _)| &tokens(before, old) - &tokens(after, old));
        let tokens_below = |survey: &Survey, directory: &str| -> BTreeSet<Token> {
            survey.below(directory).flat_map(|(_, entry)| entry.tokens.clone()).collect()
        };
        let taken_below = self.renamed_directories.iter().flat_map(|old| &tokens_below(before, old) - &tokens_below(after, old));
        let taken: BTreeSet<Token> = taken.chain(taken_below).collect();
        self.added.extend(taken);
    }

    /// Either of two may have happened.
    pub fn or(mut self, other: &Self) -> Self {
        self.added.extend(other.added.iter().cloned());
        self.removed.extend(other.removed.iter().cloned());
        self.moved.extend(other.moved.iter().cloned());
        self.looks.extend(other.looks.iter().cloned());
        self.owners.extend(other.owners.iter().cloned());
        self.renamed.extend(other.renamed.iter().cloned());
        self.renamed_directories.extend(other.renamed_directories.iter().cloned());
        self.pending.retain(|token| other.pending.contains(token));
        self
    }

    /// All of it is real.
    pub fn settle_attributes(&mut self) {
        self.looks.clear();
        self.owners.clear();
    }

    /// The apply of this was undone.
    pub fn regain_attributes(&mut self, undone: &Self) {
        self.looks.extend(undone.looks.iter().cloned());
        self.owners.extend(undone.owners.iter().cloned());
    }
}

/// The directory that was renamed if a file went from one path to another with it. Paths are written as Python writes bytes.
fn renamed_directory(old: &str, new: &str) -> Option<String> {
    let (mut old, mut new) = (old, new);
    while let (Some((old_above, old_name)), Some((new_above, new_name))) = (old.rsplit_once('/'), new.rsplit_once('/')) {
        if old_name != new_name {
            break;
        }
        (old, new) = (old_above, new_above);
    }
    let quote = old.chars().nth(1)?;
    old.contains('/').then(|| format!("{old}{quote}"))
}

/// An apply that succeeded, or was carried forward after it was killed.
pub(super) fn of_apply(before: &Survey, after: &Survey, work: &Work) -> Vec<String> {
    let (old, new) = (before.tokens(), after.tokens());
    // Of what was moved perhaps only that it is gone from where it was becomes real. Then the sandbox alone has it.
    let may_go = |t: &Token| work.removed.contains(t) || work.moved.contains(t);
    let lost = old.difference(&new).filter(|t| !may_go(t));
    let lost = lost.map(|t| format!("reality lost {t}, which the sandbox never removed; it was in {:?}", before.places(t)));
    let made_up = new.difference(&old).filter(|t| !work.added.contains(*t));
    // A directory that reality deleted is made again as the sandbox has it, for what the sandbox put into it.
    let is_made_again = |path: &&str| {
        let is_new = after.is_directory(path) && !before.is_directory(path);
        let is_work = |(path, entry): (&str, &Entry)| work.looks.contains(path) || !work.added.is_disjoint(&entry.tokens);
        is_new && after.below(path).any(is_work)
    };
    let made_up = made_up.filter(|t| !after.places(t).iter().all(is_made_again));
    let made_up = made_up.map(|t| format!("reality got {t}, which the sandbox did not write, in {:?}", after.places(t)));
    let modes = before.common(after).filter(|(path, old, new)| old.mode != new.mode && !work.looks.contains(*path));
    let modes = modes.map(|(path, old, new)| format!("mode of {path} went from {:o} to {:o}", old.mode, new.mode));
    // What is renamed keeps its owner, also where it replaces something.
    let is_brought = |path: &str, owner: Owner| work.owners.contains(&(path.to_owned(), owner));
    let owners = before.common(after).filter(|(path, old, new)| old.owner != new.owner && !is_brought(path, new.owner));
    let owners = owners.map(|(path, old, new)| format!("owner of {path} went from {:?} to {:?}", old.owner, new.owner));
    lost.chain(made_up).chain(modes).chain(owners).chain(leftovers(after)).collect()
}

/// Everything that a sandbox had to give is real.
pub(super) fn of_whole_apply(after: &Survey, work: &Work) -> Vec<String> {
    let real = after.tokens();
    work.pending.difference(&real).map(|t| format!("{t} was applied and is not in reality")).collect()
}

/// An undo: what it takes back is what its apply did, and nothing that came since.
pub(super) fn of_undo(applied: (&Survey, &Survey), before: &Survey, after: &Survey) -> Vec<String> {
    if before == applied.1 {
        let differences = after.differences(applied.0);
        return differences.into_iter().map(|d| format!("an undo did not restore {d}")).collect();
    }
    let (was, is) = (applied.0.tokens(), applied.1.tokens());
    let (old, new) = (before.tokens(), after.tokens());
    // Of a token that was somewhere else too, an undo takes away or brings back the places that its apply brought or took away.
    let is_within = |survey: &Survey, t: &Token, some: &Survey, others: &Survey| {
        let (some, others) = (some.places(t), others.places(t));
        survey.places(t).iter().all(|place| some.contains(place) && !others.contains(place))
    };
    let lost = old.difference(&new).filter(|t| !is.contains(*t) || was.contains(*t));
    let lost = lost.filter(|t| !is_within(before, t, applied.1, applied.0));
    let lost = lost.map(|t| format!("an undo removed {t}, which its apply did not bring; it was in {:?}", before.places(t)));
    let made_up = new.difference(&old).filter(|t| !was.contains(*t) || is.contains(*t));
    let made_up = made_up.filter(|t| !is_within(after, t, applied.0, applied.1));
    let made_up = made_up.map(|t| format!("an undo brought {t} back, which its apply did not remove, in {:?}", after.places(t)));
    lost.chain(made_up).chain(leftovers(after)).collect()
}

/// Nothing but an apply and an undo writes reality.
pub(super) fn untouched(before: &Survey, after: &Survey) -> Vec<String> {
    after.differences(before).into_iter().map(|d| format!("reality changed: {d}")).collect()
}

/// What a sandbox wrote is there as long as it does not remove it.
pub(super) fn of_view(view: &Survey, work: &Work) -> Vec<String> {
    let tokens = view.tokens();
    work.pending.difference(&tokens).map(|t| format!("the sandbox lost {t}")).collect()
}

/// Our own files lie where nobody finds them.
fn leftovers(survey: &Survey) -> impl Iterator<Item = String> {
    survey.paths().filter(|path| path.contains(".whatif-")).map(|path| format!("left in reality: {path}"))
}
