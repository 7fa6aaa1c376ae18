//! Which changes are build output, by the project's own `.gitignore` files and the user's `[diff] ignore`.
//!
//! Ignored changes are shown as one counted line for each directory, never hidden: the rules may have been written by whatever
//! ran in the sandbox.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::change::Change;
use crate::content;

const RULES: &str = ".gitignore";
const REPOSITORY: &str = ".git";

/// The rules of one project.
pub struct Rules<'a> {
    project: &'a Path,
    /// Files with rules that the sandbox changed, and where they lie.
    changed: HashMap<PathBuf, Option<PathBuf>>,
    extra: Gitignore,
    directories: HashMap<OsString, Rc<Directory>>,
}

/// What is known about a directory.
struct Directory {
    is_ignored: bool,
    /// The rules in it and above it, the nearest first.
    rules: Vec<Rc<Gitignore>>,
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
        // Reality's own: `.git` may be a link there.
        if let Ok(excluded) = std::fs::read(project.join(".git/info/exclude")) {
            add_lines(&mut builder, &excluded);
        }
        for pattern in extra {
            let _ = builder.add_line(None, pattern);
        }
        let extra = builder.build().unwrap_or_else(|_| Gitignore::empty());
        Self { project, changed, extra, directories: HashMap::new() }
    }

    #[must_use]
    pub fn is_ignored(&mut self, path: &Path, is_directory: bool) -> bool {
        let Some(parent) = path.parent().filter(|p| is_within(p, self.project)) else { return false };
        let around = self.directory(parent);
        around.is_ignored || path.file_name().is_some_and(|n| n == REPOSITORY) || self.matches(&around, path, is_directory)
    }

    /// The nearest file with an opinion decides.
    fn matches(&self, around: &Directory, path: &Path, is_directory: bool) -> bool {
        for rules in &around.rules {
            match rules.matched(path, is_directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        !self.extra.is_empty() && self.extra.matched(path, is_directory).is_ignore()
    }

    /// Looked at once. The project itself is never ignored.
    fn directory(&mut self, path: &Path) -> Rc<Directory> {
        if let Some(known) = self.directories.get(path.as_os_str()) {
            return Rc::clone(known);
        }
        let above = path.parent().filter(|p| path != self.project && is_within(p, self.project)).map(|p| self.directory(p));
        let (is_ignored, mut rules) = match &above {
            None => (false, Vec::new()),
            // Git's own bookkeeping is rewritten by most git commands and has nothing to show. What host tools execute of it is
            // flagged.
            Some(above) => {
                let is_repository = path.file_name().is_some_and(|n| n == REPOSITORY);
                (above.is_ignored || is_repository || self.matches(above, path, true), above.rules.clone())
            }
        };
        if !is_ignored && let Some(own) = self.rules_in(path) {
            rules.insert(0, Rc::new(own));
        }
        let directory = Rc::new(Directory { is_ignored, rules });
        self.directories.insert(path.as_os_str().to_owned(), Rc::clone(&directory));
        directory
    }

    fn rules_in(&self, directory: &Path) -> Option<Gitignore> {
        let file = directory.join(RULES);
        let at = if self.changed.is_empty() { Some(file) } else { self.changed.get(&file).cloned().unwrap_or(Some(file)) };
        let bytes = content::read(&at?).ok()?;
        let mut builder = GitignoreBuilder::new(directory);
        add_lines(&mut builder, &bytes);
        builder.build().ok()
    }
}

/// Like `starts_with`, by bytes: both are absolute and plain.
fn is_within(path: &Path, directory: &Path) -> bool {
    let (path, directory) = (path.as_os_str().as_bytes(), directory.as_os_str().as_bytes());
    let rest = path.strip_prefix(directory);
    rest.is_some_and(|r| r.is_empty() || r[0] == b'/' || directory == b"/")
}

fn add_lines(builder: &mut GitignoreBuilder, bytes: &[u8]) {
    for line in String::from_utf8_lossy(bytes).lines() {
        let _ = builder.add_line(None, line);
    }
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
