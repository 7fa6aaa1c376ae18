//! Patterns that choose paths: a path, a directory, or wildcards as in `.gitignore`.

use std::path::{Component, Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Several patterns, any of which is enough.
#[derive(Clone, Debug)]
pub struct Patterns {
    /// Taken literally first: names may hold the characters of wildcards.
    literal: Vec<PathBuf>,
    wild: Vec<Gitignore>,
}

#[derive(Debug, thiserror::Error)]
#[error("'{pattern}' is not a pattern: {message}")]
pub struct BadPattern {
    pattern: String,
    message: String,
}

impl Patterns {
    /// Relative ones are looked up from each of `roots`. Without a slash a wildcard fits at any depth. An empty pattern is a mistake:
    /// it would lead to each root itself, and so fit everything.
    pub fn new(patterns: &[String], roots: &[&Path]) -> Result<Self, BadPattern> {
        if patterns.iter().any(String::is_empty) {
            return Err(BadPattern { pattern: String::new(), message: "it is empty".to_owned() });
        }
        let mut literal = Vec::new();
        let mut wild = Vec::new();
        for root in roots {
            let mut builder = GitignoreBuilder::new("/");
            for pattern in patterns {
                let plain = pattern.strip_prefix("./").unwrap_or(pattern);
                literal.push(resolved(&root.join(plain)));
                if !plain.contains(['*', '?', '[']) {
                    continue;
                }
                let failed = |e: ignore::Error| BadPattern { pattern: pattern.clone(), message: e.to_string() };
                builder.add_line(None, &anchored(plain, root)).map_err(failed)?;
            }
            wild.push(builder.build().map_err(|e| BadPattern { pattern: patterns.join(" "), message: e.to_string() })?);
        }
        Ok(Self { literal, wild })
    }

    #[must_use]
    pub fn matches(&self, path: &Path) -> bool {
        self.literal.iter().any(|l| path.starts_with(l))
            || self.wild.iter().any(|w| w.num_ignores() > 0 && w.matched_path_or_any_parents(path, false).is_ignore())
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.literal.is_empty()
    }

    /// Whether a path or a directory around it was named, not by a wildcard.
    #[must_use]
    pub fn matches_literally(&self, path: &Path) -> bool {
        self.literal.iter().any(|l| path.starts_with(l))
    }

    /// Whether a path was named itself, not by a wildcard or a directory.
    #[must_use]
    pub fn names(&self, path: &Path) -> bool {
        self.literal.iter().any(|l| l == path)
    }
}

/// Without `.` and `..`: changes are known by plain paths.
fn resolved(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// The pattern from the root of the file system.
fn anchored(pattern: &str, root: &Path) -> String {
    if pattern.starts_with('/') {
        return pattern.to_owned();
    }
    let root: String =
        root.to_string_lossy().chars().flat_map(|c| if "*?[]!\\#".contains(c) { vec!['\\', c] } else { vec![c] }).collect();
    let root = root.trim_end_matches('/');
    if pattern.trim_end_matches('/').contains('/') { format!("{root}/{pattern}") } else { format!("{root}/**/{pattern}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, path: &str) -> bool {
        Patterns::new(&[pattern.to_owned()], &[Path::new("/p")]).unwrap().matches(Path::new(path))
    }

    #[test]
    fn a_path_fits_itself_and_what_is_in_it() {
        assert!(fits("src", "/p/src/a.rs"));
        assert!(fits("./src/a.rs", "/p/src/a.rs"));
        assert!(!fits("src", "/p/lib/src"));
        assert!(fits("a[1].txt", "/p/a[1].txt"));
    }

    #[test]
    fn an_empty_pattern_is_refused() {
        for patterns in [vec![String::new()], vec!["src".to_owned(), String::new()]] {
            assert!(Patterns::new(&patterns, &[Path::new("/p")]).is_err());
        }
    }

    #[test]
    fn a_path_is_resolved_before_it_is_compared() {
        assert!(fits(".", "/p/src/a.rs"));
        assert!(!fits(".", "/elsewhere"));
        assert!(fits("/", "/elsewhere"));
        assert!(fits("../q/./a", "/q/a"));
        assert!(!fits("src/..", "/q"));
        assert!(fits("src/../lib/", "/p/lib/b"));
    }

    #[test]
    fn wildcards_fit_at_any_depth_unless_they_have_a_slash() {
        assert!(fits("*.rs", "/p/src/deep/a.rs"));
        assert!(fits("src/*.rs", "/p/src/a.rs"));
        assert!(!fits("src/*.rs", "/p/x/src/a.rs"));
        assert!(fits("src/**", "/p/src/x/y"));
        assert!(!fits("*.rs", "/elsewhere/a.rs"));
        assert!(fits("/etc/*", "/etc/hosts"));
    }
}
