//! Which files tools on the host execute, or obey, without being asked.

mod rules;
mod table;

use std::path::{Path, PathBuf};

use self::rules::Rules;
use super::folded::{self, is_short_for};
use super::manifest::Manifest;
use super::names::Names;
use crate::change::Change;
use crate::node::Kind;
use crate::unreadable::Unreadable;

/// Tools on the host run it, or obey it, without being asked, under any of its names. A link counts as what it stands for and as what
/// it leads to: writing to it is writing there.
pub(super) fn is_host_executed(change: &Change, targets: &[PathBuf], project: &Path, names: &Names) -> Result<bool, Unreadable> {
    if change.is_directory() {
        return Ok(false);
    }
    let is_link = change.after.as_ref().is_some_and(|after| after.node.kind == Kind::Link);
    for path in names.of_path(&change.path).iter().chain([&change.path]) {
        let place = Place::of(path, project);
        let is_in_place = match place.manifest() {
            _ if is_link => place.is_executed() || place.holds_executed(),
            Some(manifest) => place.is_executed_by_name() || manifest.has_other_commands(change)?,
            None => place.is_executed(),
        };
        if is_in_place {
            return Ok(true);
        }
    }
    let is_executed = |path: &PathBuf| {
        let place = Place::of(path, project);
        place.is_executed() || place.holds_executed()
    };
    let leads_to = || targets.iter().any(|target| is_executed(target) || names.of_path(target).iter().any(is_executed));
    Ok(is_link && names.lead_through(&change.path) || leads_to())
}

/// Whether what is at a path, or something in it, can be executed for being called so.
pub(super) fn could_be_executed(path: &Path, project: &Path) -> bool {
    let place = Place::of(path, project);
    // What enters a virtual environment is in it.
    place.is_executed() || place.holds_executed() || place.parts.last().is_some_and(|name| name == "bin")
}

/// What git itself executes or obeys in a repository's own directory, which holds these.
pub(super) fn is_executed_by_git(parts: &[String]) -> bool {
    let Some((name, directories)) = parts.split_last() else { return false };
    let is = |part: Option<&String>, meant: &str| part.is_some_and(|part| part == meant || is_short_for(part, meant));
    let has_hooks = || directories.iter().any(|d| is(Some(d), "hooks"));
    let is_sample = || Path::new(name).extension().is_some_and(|e| e == "sample");
    let is_configuration = || name.starts_with("config");
    // What is left of a rebase goes on with commands of its own.
    let is_in_rebase = is(directories.last(), "rebase-merge") || is(directories.last(), "rebase-apply");
    if is_in_rebase && (is(Some(name), "git-rebase-todo") || is(Some(name), "author-script")) {
        return true;
    }
    match directories.first() {
        None => is_configuration() || is(Some(name), "commondir") || is(Some(name), "gitdir"),
        first if is(first, "hooks") => !is_sample(),
        // Submodules and worktrees have configurations and hooks of their own.
        first if is(first, "modules") || is(first, "worktrees") => {
            has_hooks() && !is_sample() || is_configuration() || is(Some(name), "commondir") || is(Some(name), "gitdir")
        }
        first if is(first, "info") => is(Some(name), "attributes"),
        first if is(first, "objects") => is(directories.get(1), "info") && is(Some(name), "alternates"),
        Some(_) => false,
    }
}

/// A path as the rules see it.
struct Place {
    /// Within the project, if it is in it.
    parts: Vec<String>,
    is_system: bool,
}

impl Place {
    fn of(path: &Path, project: &Path) -> Self {
        let relative = path.strip_prefix(project).ok();
        let is_system = relative.is_none() || project == Path::new("/");
        Self { parts: folded::parts(relative.unwrap_or(path)), is_system }
    }

    fn is_executed(&self) -> bool {
        match self.in_git() {
            Some(within) => is_executed_by_git(within),
            None => self.manifest().is_some() || self.is_executed_by_name(),
        }
    }

    /// Whatever is in it.
    fn is_executed_by_name(&self) -> bool {
        self.rules().any(|rules| rules.name(&self.parts)) || self.enters_virtual_environment()
    }

    /// One of Python may have any name. Its `bin` is in the table where that is a usual one; what it is entered by tells elsewhere.
    fn enters_virtual_environment(&self) -> bool {
        let [.., directory, name] = &self.parts[..] else { return false };
        directory == "bin" && (name.starts_with("activate") || name.starts_with("python"))
    }

    /// Whether a file could be obeyed because it is in this directory.
    fn holds_executed(&self) -> bool {
        match self.in_git() {
            Some(within) => is_obeyed_directory_of_git(within),
            None => self.parts.last().is_some_and(|p| p == ".git") || self.rules().any(|rules| rules.lead_through(&self.parts)),
        }
    }

    fn rules(&self) -> impl Iterator<Item = &'static Rules> {
        let started = self.is_system.then(Rules::started);
        [Some(Rules::obeyed()), started].into_iter().flatten()
    }

    /// A file whose content tells, and where that counts.
    fn manifest(&self) -> Option<Manifest> {
        let name = self.parts.last().filter(|_| self.in_git().is_none())?;
        Manifest::called(name)
    }

    /// What lies beneath the first `.git`.
    fn in_git(&self) -> Option<&[String]> {
        let at = self.parts.iter().position(|part| part == ".git" || is_short_for(part, ".git"))?;
        self.parts.get(at + 1..).filter(|within| !within.is_empty())
    }
}

fn is_obeyed_directory_of_git(within: &[String]) -> bool {
    let names: Vec<&str> = within.iter().map(String::as_str).collect();
    matches!(
        names[..],
        ["hooks" | "modules" | "worktrees", ..] | ["info" | "objects" | "rebase-merge" | "rebase-apply"] | ["objects", "info"]
    )
}

#[cfg(test)]
#[path = "executed/tests.rs"]
mod tests;
