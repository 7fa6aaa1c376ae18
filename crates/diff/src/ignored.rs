//! Which changes are build output, by the project's own `.gitignore` files and the user's `[diff] ignore`.
//!
//! Ignored changes are shown as one counted line for each directory, never hidden: the rules may have been written by whatever
//! ran in the sandbox.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::change::Change;
use crate::content;

const RULES: &str = ".gitignore";

/// The rules of one project.
pub struct Rules<'a> {
    project: &'a Path,
    /// Files with rules that the sandbox changed, and where they lie.
    changed: HashMap<PathBuf, Option<PathBuf>>,
    extra: Gitignore,
    directories: HashMap<PathBuf, Option<Gitignore>>,
    verdicts: HashMap<PathBuf, bool>,
}

impl std::fmt::Debug for Rules<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rules").field("project", &self.project).finish_non_exhaustive()
    }
}

impl<'a> Rules<'a> {
    /// The rules as the sandbox sees them, and the user's own. A pattern that is none is left out.
    #[must_use]
    pub fn new(project: &'a Path, changes: &[Change], extra: &[String]) -> Self {
        let changed = changes
            .iter()
            .filter(|c| c.path.file_name().is_some_and(|n| n == RULES))
            .map(|c| (c.path.clone(), c.after.as_ref().map(|a| a.at.clone())))
            .collect();
        let mut builder = GitignoreBuilder::new(project);
        if let Ok(excluded) = content::read(&project.join(".git/info/exclude")) {
            add_lines(&mut builder, &excluded);
        }
        for pattern in extra {
            let _ = builder.add_line(None, pattern);
        }
        let extra = builder.build().unwrap_or_else(|_| Gitignore::empty());
        Self { project, changed, extra, directories: HashMap::new(), verdicts: HashMap::new() }
    }

    #[must_use]
    pub fn is_ignored(&mut self, path: &Path, is_directory: bool) -> bool {
        if path == self.project || !path.starts_with(self.project) {
            return false;
        }
        if let Some(verdict) = self.verdicts.get(path) {
            return *verdict;
        }
        let verdict = is_repository_data(path, self.project)
            || path.parent().is_some_and(|parent| self.is_ignored(parent, true))
            || self.matches(path, is_directory);
        if is_directory {
            self.verdicts.insert(path.to_owned(), verdict);
        }
        verdict
    }

    /// The deepest file with an opinion decides.
    fn matches(&mut self, path: &Path, is_directory: bool) -> bool {
        let ancestors: Vec<PathBuf> =
            path.ancestors().skip(1).take_while(|a| a.starts_with(self.project)).map(Path::to_owned).collect();
        for directory in ancestors {
            match self.rules_in(&directory).map_or(Match::None, |rules| rules.matched(path, is_directory)) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        self.extra.matched(path, is_directory).is_ignore()
    }

    fn rules_in(&mut self, directory: &Path) -> Option<&Gitignore> {
        if !self.directories.contains_key(directory) {
            let file = directory.join(RULES);
            let at = self.changed.get(&file).cloned().unwrap_or(Some(file));
            let rules = at.and_then(|at| content::read(&at).ok()).and_then(|bytes| {
                let mut builder = GitignoreBuilder::new(directory);
                add_lines(&mut builder, &bytes);
                builder.build().ok()
            });
            self.directories.insert(directory.to_owned(), rules);
        }
        self.directories.get(directory).and_then(Option::as_ref)
    }
}

fn add_lines(builder: &mut GitignoreBuilder, bytes: &[u8]) {
    for line in String::from_utf8_lossy(bytes).lines() {
        let _ = builder.add_line(None, line);
    }
}

/// Git's own bookkeeping is rewritten by most git commands and has nothing to show. What host tools execute of it is flagged.
fn is_repository_data(path: &Path, project: &Path) -> bool {
    path.strip_prefix(project).is_ok_and(|r| r.components().any(|c| c.as_os_str() == ".git"))
}

/// The topmost ignored directory around a path, for the line that counts it.
#[must_use]
pub fn group<'p>(rules: &mut Rules<'_>, path: &'p Path) -> &'p Path {
    let mut top = path;
    for ancestor in path.ancestors().skip(1) {
        if !rules.is_ignored(ancestor, true) {
            break;
        }
        top = ancestor;
    }
    top
}
