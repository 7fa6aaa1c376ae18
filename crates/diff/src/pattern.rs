//! Patterns over paths, written as in `.gitignore`: a path, a name, or wildcards.
//!
//! Two kinds read them alike, but for a bare name. Where patterns choose what is taken (`Patterns::new`), a name without wildcards is
//! a path, and nothing of the same name elsewhere comes along. Where they protect (`Patterns::protecting`), it fits at any depth.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Several patterns, any of which is enough.
#[derive(Clone, Debug)]
pub struct Patterns {
    /// Taken literally first: names may hold the characters of wildcards.
    literal: Vec<PathBuf>,
    /// Names that fit at any depth beneath a directory.
    anywhere: Vec<(PathBuf, OsString)>,
    /// Each beneath the directory it starts from.
    wild: Vec<(PathBuf, Gitignore)>,
}

#[derive(Debug, thiserror::Error)]
#[error("'{pattern}' is not a pattern: {message}")]
pub struct BadPattern {
    pattern: String,
    message: String,
}

impl Patterns {
    /// Patterns that choose. Relative ones are looked up from each of `roots`, with a leading `./` or `../` from the last of them, where
    /// the user stands; a leading slash leads to the first of them, the project,
    /// or to the root of the file system. Without a slash a wildcard fits at any depth. An empty pattern is a mistake: it would lead to
    /// each root itself, and so fit everything.
    pub fn new(patterns: &[String], roots: &[&Path]) -> Result<Self, BadPattern> {
        Self::looked_up(patterns, roots, |pattern| {
            let is_from_here = pattern.starts_with("./") || pattern.starts_with("../");
            if is_from_here { &roots[roots.len().saturating_sub(1)..] } else { roots }
        })
    }

    /// Each pattern that does not begin with a slash from each of the roots that `from` says.
    fn looked_up<'a>(
        patterns: &[String],
        roots: &'a [&'a Path],
        from: impl Fn(&str) -> &'a [&'a Path],
    ) -> Result<Self, BadPattern> {
        let mut all = Self { literal: Vec::new(), anywhere: Vec::new(), wild: Vec::new() };
        for pattern in patterns {
            if pattern.is_empty() {
                return Err(bad(pattern, "it is empty"));
            }
            let bases: Vec<&Path> = match pattern.starts_with('/') {
                true => roots.first().copied().into_iter().chain([Path::new("/")]).collect(),
                false => from(pattern).to_vec(),
            };
            for base in bases {
                all.literal.push(resolved(&base.join(pattern.trim_start_matches('/'))));
                if pattern.contains(['*', '?', '[', '\\']) {
                    all.wild.push(wild(pattern, base)?);
                }
            }
        }
        Ok(all)
    }

    /// Patterns that protect.
    pub fn protecting(patterns: &[String], roots: &[&Path]) -> Result<Self, BadPattern> {
        if let Some(exception) = patterns.iter().find(|p| p.starts_with('!')) {
            return Err(bad(exception, "exceptions ('!') are not supported; for a file of that name write './' before it"));
        }
        let mut all = Self::looked_up(patterns, roots, |_| roots)?;
        for name in patterns.iter().map(|p| p.trim_end_matches('/')) {
            if !name.is_empty() && !name.contains('/') && name != "." && name != ".." {
                all.anywhere.extend(roots.iter().map(|root| (root.to_path_buf(), OsString::from(name))));
            }
        }
        Ok(all)
    }

    #[must_use]
    pub fn matches(&self, path: &Path) -> bool {
        let has_name = |(root, name): &(PathBuf, OsString)| {
            path.strip_prefix(root).is_ok_and(|within| within.components().any(|c| c.as_os_str() == name))
        };
        let fits = |(base, wild): &(PathBuf, Gitignore)| {
            path.starts_with(base) && wild.matched_path_or_any_parents(path, false).is_ignore()
        };
        self.matches_literally(path) || self.anywhere.iter().any(has_name) || self.wild.iter().any(fits)
    }

    #[must_use]
    pub fn has_wildcards(&self) -> bool {
        !self.wild.is_empty()
    }

    /// Whether anything that is named, not by a wildcard, is there. What cannot be looked at may be.
    #[must_use]
    pub fn name_something(&self) -> bool {
        let is_absent = |e: std::io::Error| matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
        self.literal.iter().any(|path| !path.symlink_metadata().is_err_and(is_absent))
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

/// A pattern with wildcards, beneath the directory that `..` at its beginning leads to.
fn wild(pattern: &str, base: &Path) -> Result<(PathBuf, Gitignore), BadPattern> {
    let mut base = base.to_owned();
    // A slash in the middle ties it to the base, even where only `./` or `..` comes before it.
    let is_tied = pattern.trim_end_matches('/').contains('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in pattern.split('/').filter(|p| !p.is_empty() && *p != ".") {
        match (part, parts.last()) {
            ("..", None) => {
                base.pop();
            }
            ("..", Some(last)) if last.contains(['*', '?', '[', '\\']) => {
                return Err(bad(pattern, "'..' cannot follow a wildcard"));
            }
            ("..", Some(_)) => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    let slash = if is_tied && !pattern.starts_with("./") { "/" } else { "" };
    // At the beginning of a line these two would mean something else.
    let escape = if slash.is_empty() && parts.first().is_some_and(|p| p.starts_with(['#', '!'])) { "\\" } else { "" };
    let line = format!("{slash}{escape}{}", parts.join("/"));
    let failed = |e: ignore::Error| bad(pattern, &e.to_string());
    let mut builder = GitignoreBuilder::new(&base);
    builder.add_line(None, &line).map_err(failed)?;
    Ok((base, builder.build().map_err(failed)?))
}

fn bad(pattern: &str, message: &str) -> BadPattern {
    BadPattern { pattern: pattern.to_owned(), message: message.to_owned() }
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

    fn protects(pattern: &str, path: &str) -> bool {
        Patterns::protecting(&[pattern.to_owned()], &[Path::new("/p")]).unwrap().matches(Path::new(path))
    }

    #[test]
    fn a_leading_slash_is_the_top_of_the_project_or_of_everything() {
        for fits in [fits, protects] {
            assert!(fits("/s", "/p/s") && fits("/s", "/s") && fits("/s/", "/p/s/in"));
            assert!(!fits("/s", "/p/d/s") && !fits("/s*", "/p/d/s1"));
            assert!(fits("/s*", "/p/s1") && fits("/p/src", "/p/src/a") && fits("/p/*.rs", "/p/a.rs"));
            assert!(fits("/etc/*", "/etc/hosts") && !fits("/etc/*", "/x/etc/hosts"));
        }
    }

    #[test]
    fn a_name_that_protects_fits_at_any_depth() {
        assert!(protects("keep", "/p/keep") && protects("keep", "/p/d/s/keep/x") && protects("keep/", "/p/d/keep"));
        assert!(!protects("keep", "/p/keeper") && !protects("keep", "/q/keep") && !protects("d/keep", "/p/x/d/keep"));
        assert!(protects("\\!x", "/p/d/!x") && protects("./!x", "/p/!x"));
        assert!(Patterns::protecting(&["!x".to_owned()], &[Path::new("/p")]).is_err());
    }

    #[test]
    fn wildcards_are_resolved_like_paths() {
        assert!(fits("#*", "/p/d/#x") && fits("!*", "/p/!x") && !fits("!*", "/p/x"));
        assert!(fits("../*.rs", "/a.rs") && fits("./x/../*.rs", "/p/a.rs") && fits("src/./*.rs", "/p/src/a.rs"));
        assert!(Patterns::new(&["**/../x".to_owned()], &[Path::new("/p")]).is_err());
        let odd = Patterns::new(&["*.rs".to_owned()], &[Path::new("/home/{a,b}/[x]")]).unwrap();
        assert!(odd.matches(Path::new("/home/{a,b}/[x]/deep/a.rs")));
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
