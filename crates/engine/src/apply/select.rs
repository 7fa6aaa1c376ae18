//! Which changes are wanted, and what is left out and why.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use whatif_diff::pattern::{Patterns, Scope};
use whatif_diff::{Blocked, Change, ChangeSet, Flag};
use whatif_types::config::PolicyRules;
use whatif_types::text;

use super::ApplyRequest;
use crate::EngineError;
use crate::review::{Review, Verdict};

/// Hunks of one file, numbered from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkChoice {
    pub path: String,
    pub numbers: Vec<usize>,
}

#[derive(Clone, Debug, Serialize)]
pub struct LeftOut {
    #[serde(with = "text::path")]
    pub path: PathBuf,
    pub reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A pipe, socket or device.
    Special,
    /// Reality has something here that was hidden from the sandbox.
    Masked,
    DeniedByPolicy,
    /// Needs its own approval.
    Risky,
    Outside,
    Ignored,
    Excluded,
    /// In a review.
    Rejected,
    /// In a review that did not get to it.
    Undecided,
    /// Approved in a review, and changed since.
    Lapsed,
    /// Not asked for.
    NotChosen,
    /// Not asked for either, of a rename whose other half is taken.
    OtherHalf,
    Skipped,
    /// In a conflict, on request.
    KeptReality,
    /// A directory that still has something in it.
    NotEmpty,
}

/// A wanted change, and which of its hunks; `None` means all of it. The two halves of a rename are chosen one by one: the change
/// itself stands for the addition only.
#[derive(Debug)]
pub(super) struct Chosen<'a> {
    pub change: &'a Change,
    pub hunks: Option<Vec<usize>>,
}

#[derive(Debug, Default)]
pub(super) struct Selection<'a> {
    pub chosen: Vec<Chosen<'a>>,
    pub left_out: Vec<LeftOut>,
}

impl<'a> Selection<'a> {
    fn add(&mut self, change: &'a Change, verdict: Result<Option<Vec<usize>>, Reason>) {
        match verdict {
            Ok(hunks) => self.chosen.push(Chosen { change, hunks }),
            Err(reason) => self.left_out.push(LeftOut { path: change.path.clone(), reason }),
        }
    }

    /// Lines added and deleted.
    pub(super) fn lines(&self) -> usize {
        let taken: HashSet<&Path> = self.chosen.iter().map(|c| c.change.path.as_path()).collect();
        let moved: HashSet<&Path> = self.chosen.iter().filter_map(|c| c.change.old_path()).collect();
        let counts = |c: &Chosen<'_>| match c.change.old_path() {
            // Without the file that goes, every line of the one that comes is new.
            Some(old) if !taken.contains(old) => c.change.addition().counts(),
            _ => c.change.counts(),
        };
        let counted = self.chosen.iter().filter(|c| !moved.contains(c.change.path.as_path())).filter_map(counts);
        counted.map(|(added, deleted)| added + deleted).sum()
    }
}

struct Rules<'a> {
    request: &'a ApplyRequest,
    review: &'a Review,
    files: Patterns,
    exclude: Patterns,
    deny: Patterns,
    ask: Patterns,
    hunks: Vec<(Patterns, &'a [usize])>,
}

pub(super) fn select<'a>(
    set: &'a ChangeSet,
    request: &'a ApplyRequest,
    review: &'a Review,
    policy: &PolicyRules,
    scope: Scope<'_>,
) -> Result<Selection<'a>, EngineError> {
    let patterns = |list: &[String]| Patterns::new(list, scope).map_err(EngineError::from);
    let rules = |list: &[String]| Patterns::protecting(list, scope.as_rules()).map_err(EngineError::from);
    let rules = Rules {
        request,
        review,
        files: patterns(&request.files)?,
        exclude: Patterns::protecting(&request.exclude, scope)?,
        deny: rules(&policy.deny)?,
        ask: rules(&policy.ask)?,
        hunks: request
            .hunks
            .iter()
            .map(|h| Ok((patterns(std::slice::from_ref(&h.path))?, h.numbers.as_slice())))
            .collect::<Result<_, EngineError>>()?,
    };
    rules.check_hunks(set)?;
    let mut selection = Selection::default();
    for change in &set.changes {
        rules.choose(change, &mut selection);
    }
    Ok(selection)
}

impl Rules<'_> {
    fn choose<'a>(&self, change: &'a Change, selection: &mut Selection<'a>) {
        let verdict = self.verdict(change, &change.path);
        let Some(deletion) = change.deletion.as_deref() else { return selection.add(change, verdict) };
        // A rename is a guess, made for reading. What was not asked for does not come along because of it.
        let (old, new) = match (self.verdict(change, &deletion.path), verdict) {
            (Ok(_), Err(Reason::NotChosen | Reason::Excluded)) => (Ok(None), Err(Reason::OtherHalf)),
            (Err(Reason::NotChosen | Reason::Excluded), Ok(hunks)) => (Err(Reason::OtherHalf), Ok(hunks)),
            (Err(old), Err(new)) if old == new => return selection.add(change, Err(new)),
            other => other,
        };
        selection.add(deletion, old.map(|_| None));
        selection.add(change, new);
    }

    /// Which hunks to take (`None`: everything), or why the change is left out. `path` is that of the change, or of a rename the old
    /// one: patterns fit one of the two, everything else is about both.
    fn verdict(&self, change: &Change, path: &Path) -> Result<Option<Vec<usize>>, Reason> {
        match change.blocked {
            Some(Blocked::Special) => return Err(Reason::Special),
            Some(Blocked::Masked) => return Err(Reason::Masked),
            None => {}
        }
        if self.deny.matches(path) {
            return Err(Reason::DeniedByPolicy);
        }
        if self.exclude.matches(path) {
            return Err(Reason::Excluded);
        }
        if let Some((_, numbers)) = self.hunks.iter().find(|(patterns, _)| patterns.names(path)) {
            return Ok(Some(numbers.to_vec()));
        }
        let has_asked_for_some = !self.files.is_empty() || !self.hunks.is_empty();
        if self.files.matches(path) {
            let is_named = self.files.names(path);
            if change.outside && !is_named && !self.request.outside {
                return Err(Reason::Outside);
            }
            // Who chooses what lies in a directory, or a pattern, has not approved another mode of the directory around it all.
            let is_top = change.flags.contains(&Flag::TopDirectory);
            return if is_top && !is_named && !self.request.risky { Err(Reason::Risky) } else { Ok(None) };
        }
        if has_asked_for_some {
            return Err(Reason::NotChosen);
        }
        if change.outside && !self.request.outside {
            return Err(Reason::Outside);
        }
        if self.request.all {
            return Ok(None);
        }
        if !self.review.is_empty() {
            return match self.review.verdict(path).or_else(|| self.review.verdict(&change.path)) {
                Some(Verdict::Accepted) => Ok(None),
                Some(Verdict::Hunks(numbers)) => Ok(Some(numbers.clone())),
                Some(Verdict::Rejected) => Err(Reason::Rejected),
                None if self.review.lapsed.contains(&change.path) => Err(Reason::Lapsed),
                None => Err(Reason::Undecided),
            };
        }
        let is_asked_about = self.ask.matches(&change.path) || change.old_path().is_some_and(|old| self.ask.matches(old));
        let is_risky = is_asked_about || change.flags.iter().any(|f| f.needs_approval() && *f != Flag::Outside);
        if is_risky && !self.request.risky {
            return Err(Reason::Risky);
        }
        if change.ignored && !self.request.ignored && !is_risky {
            return Err(Reason::Ignored);
        }
        Ok(None)
    }

    fn check_hunks(&self, set: &ChangeSet) -> Result<(), EngineError> {
        for (choice, (patterns, _)) in self.request.hunks.iter().zip(&self.hunks) {
            let change = set.changes.iter().find(|c| patterns.names(&c.path)).ok_or_else(|| unknown(&choice.path))?;
            let whatif_diff::text::Content::Text { before, after } = change.content() else {
                return Err(EngineError::Usage {
                    message: format!("'{}' has no hunks to choose from", choice.path),
                    hint: "take it as a whole with --files".to_owned(),
                });
            };
            let count = whatif_patch::hunks(&before, &after, crate::diff::CONTEXT_LINES).len();
            if let Some(number) = choice.numbers.iter().find(|n| **n == 0 || **n > count) {
                return Err(EngineError::Usage {
                    message: format!(
                        "'{}' has {count} hunk{}, there is no hunk {number}",
                        choice.path,
                        if count == 1 { "" } else { "s" }
                    ),
                    hint: "'whatif diff' numbers them on a terminal, 'whatif diff --json --patch' everywhere".to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// A pattern that fits nothing is a mistake, not an empty wish: of those that choose, something would be missing, of those that
/// protect, something may be taken that was not to be. To protect what the sandbox did not change is no mistake; and a wildcard that
/// protects is a rule for whatever may come.
pub(super) fn check_that_all_mean_something(request: &ApplyRequest, paths: &[&Path], scope: Scope<'_>) -> Result<(), EngineError> {
    for pattern in &request.files {
        let patterns = Patterns::new(std::slice::from_ref(pattern), scope)?;
        if !paths.iter().any(|path| patterns.matches(path)) {
            return Err(unknown(pattern));
        }
    }
    // Where nothing changed, there is nothing to protect from.
    for pattern in request.exclude.iter().chain(&request.skip).filter(|_| !paths.is_empty()) {
        let patterns = Patterns::protecting(std::slice::from_ref(pattern), scope)?;
        let is_about_something = patterns.has_wildcards() || patterns.name_something();
        if !is_about_something && !paths.iter().any(|path| patterns.matches(path)) {
            return Err(unknown(pattern));
        }
    }
    Ok(())
}

fn unknown(pattern: &str) -> EngineError {
    EngineError::Usage {
        message: format!("the sandbox changed nothing that fits '{pattern}'"),
        hint: "'whatif diff --name-only' lists what it changed".to_owned(),
    }
}
