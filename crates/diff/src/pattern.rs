//! Patterns over paths, written as in `.gitignore`: a path, a name, or wildcards.
//!
//! Two kinds read them alike, but for a bare name. Where patterns choose what is taken (`Patterns::new`), a name without wildcards is
//! a path, and nothing of the same name elsewhere comes along. Where they protect (`Patterns::protecting`), it fits at any depth.
//!
//! Names may hold the characters of wildcards. Where a pattern of a command line chooses and names something that is there, it is that
//! name and nothing else. Where it protects, it keeps its wildcards: a sandbox can make a file of any name.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

const WILDCARDS: [char; 4] = ['*', '?', '[', '\\'];

/// Where patterns are looked up.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The project, then where the user stands.
    roots: &'a [&'a Path],
    /// What names of a command line can mean, besides what reality has.
    known: Option<&'a [&'a Path]>,
}

impl<'a> Scope<'a> {
    /// For rules, which mean the same whatever is there.
    #[must_use]
    pub fn of_rules(roots: &'a [&'a Path]) -> Self {
        Self { roots, known: None }
    }

    /// For a command about the paths in `known`.
    #[must_use]
    pub fn of_command(roots: &'a [&'a Path], known: &'a [&'a Path]) -> Self {
        Self { roots, known: Some(known) }
    }

    /// For rules that hold in the same place.
    #[must_use]
    pub fn as_rules(self) -> Self {
        Self { known: None, ..self }
    }

    fn has_any(&self, names: &[PathBuf]) -> bool {
        let Some(known) = self.known else { return false };
        names.iter().any(|name| known.iter().any(|path| path.starts_with(name))) || may_be_there(names)
    }
}

/// What a pattern is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Choose,
    Protect,
    /// A line of `.gitignore`.
    Ignore,
}

/// Several patterns, any of which is enough.
#[derive(Clone, Debug)]
pub struct Patterns {
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

/// Whether it is a pattern at all.
pub fn check(pattern: &str, used_to: Use) -> Result<(), BadPattern> {
    if pattern.is_empty() {
        return Err(bad(pattern, "it is empty"));
    }
    if used_to == Use::Protect && pattern.starts_with('!') {
        return Err(bad(pattern, "exceptions ('!') are not supported; for a file of that name write './' before it"));
    }
    match used_to {
        Use::Ignore => Wild { base: PathBuf::from("/"), line: pattern.to_owned(), pattern }.parse().map(drop),
        _ if pattern.contains(WILDCARDS) => Wild::beneath(Path::new("/"), pattern)?.parse().map(drop),
        _ => Ok(()),
    }
}

impl Patterns {
    /// Patterns that choose. Relative ones are looked up from each root of the scope, with a leading `./` or `../` from the last of
    /// them, where the user stands; a leading slash leads to the first of them, the project,
    /// or to the root of the file system. Without a slash a wildcard fits at any depth. An empty pattern is a mistake: it would lead to
    /// each root itself, and so fit everything.
    pub fn new(patterns: &[String], scope: Scope<'_>) -> Result<Self, BadPattern> {
        Self::looked_up(patterns, scope, Use::Choose)
    }

    /// Patterns that protect.
    pub fn protecting(patterns: &[String], scope: Scope<'_>) -> Result<Self, BadPattern> {
        let mut all = Self::looked_up(patterns, scope, Use::Protect)?;
        for name in patterns.iter().map(|p| p.trim_end_matches('/')) {
            if !name.is_empty() && !name.contains('/') && name != "." && name != ".." {
                all.anywhere.extend(scope.roots.iter().map(|root| (root.to_path_buf(), OsString::from(name))));
            }
        }
        Ok(all)
    }

    fn looked_up(patterns: &[String], scope: Scope<'_>, used_to: Use) -> Result<Self, BadPattern> {
        let mut all = Self { literal: Vec::new(), anywhere: Vec::new(), wild: Vec::new() };
        for pattern in patterns {
            let bases = bases(pattern, scope.roots, used_to);
            let names: Vec<PathBuf> = bases.iter().map(|base| resolved(&base.join(pattern.trim_start_matches('/')))).collect();
            let is_name = pattern.contains(WILDCARDS) && scope.has_any(&names);
            match check(pattern, used_to) {
                // It is the name of something, odd as that is. What leads elsewhere is none.
                Err(_) if is_name && !pattern.split('/').any(|part| part == "..") => {}
                Err(bad) => return Err(bad),
                Ok(()) if (is_name && used_to == Use::Choose) || !pattern.contains(WILDCARDS) => {}
                Ok(()) => {
                    for base in bases {
                        all.wild.push(Wild::beneath(base, pattern)?.build()?);
                    }
                }
            }
            all.literal.extend(names);
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
        may_be_there(&self.literal)
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

/// The directories that a pattern is looked up from.
fn bases<'a>(pattern: &str, roots: &[&'a Path], used_to: Use) -> Vec<&'a Path> {
    let is_from_here = pattern.starts_with("./") || pattern.starts_with("../");
    match (pattern.starts_with('/'), used_to) {
        (true, _) => roots.first().copied().into_iter().chain([Path::new("/")]).collect(),
        (false, Use::Choose) if is_from_here => roots[roots.len().saturating_sub(1)..].to_vec(),
        (false, _) => roots.to_vec(),
    }
}

/// What cannot be looked at may be there.
fn may_be_there(paths: &[PathBuf]) -> bool {
    let is_absent = |e: std::io::Error| matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    paths.iter().any(|path| !path.symlink_metadata().is_err_and(is_absent))
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
struct Wild<'a> {
    base: PathBuf,
    line: String,
    pattern: &'a str,
}

impl<'a> Wild<'a> {
    fn beneath(base: &Path, pattern: &'a str) -> Result<Self, BadPattern> {
        let mut base = base.to_owned();
        // A slash in the middle ties it to the base, even where only `./` or `..` comes before it.
        let is_tied = pattern.trim_end_matches('/').contains('/');
        let mut parts: Vec<&str> = Vec::new();
        for part in pattern.split('/').filter(|p| !p.is_empty() && *p != ".") {
            match (part, parts.last()) {
                ("..", None) => {
                    base.pop();
                }
                ("..", Some(last)) if last.contains(WILDCARDS) => {
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
        Ok(Self { line: format!("{slash}{escape}{}", parts.join("/")), base, pattern })
    }

    fn parse(&self) -> Result<GitignoreBuilder, BadPattern> {
        let mut builder = GitignoreBuilder::new(&self.base);
        // Git takes such a line for one that fits nothing.
        builder.allow_unclosed_class(false);
        builder.add_line(None, &self.line).map_err(|e| self.failed(&e))?;
        Ok(builder)
    }

    fn build(self) -> Result<(PathBuf, Gitignore), BadPattern> {
        let built = self.parse()?.build().map_err(|e| self.failed(&e))?;
        Ok((self.base, built))
    }

    fn failed(&self, error: &ignore::Error) -> BadPattern {
        let message = match error {
            ignore::Error::Glob { err, .. } => err.clone(),
            other => other.to_string(),
        };
        bad(self.pattern, &message)
    }
}

fn bad(pattern: &str, message: &str) -> BadPattern {
    BadPattern { pattern: pattern.to_owned(), message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    static ROOTS: LazyLock<[&Path; 1]> = LazyLock::new(|| [Path::new("/p")]);

    fn rules() -> Scope<'static> {
        Scope::of_rules(&*ROOTS)
    }

    fn fits(pattern: &str, path: &str) -> bool {
        Patterns::new(&[pattern.to_owned()], rules()).unwrap().matches(Path::new(path))
    }

    #[test]
    fn a_path_fits_itself_and_what_is_in_it() {
        assert!(fits("src", "/p/src/a.rs"));
        assert!(fits("./src/a.rs", "/p/src/a.rs"));
        assert!(!fits("src", "/p/lib/src"));
        assert!(fits("a[1].txt", "/p/a[1].txt"));
    }

    fn protects(pattern: &str, path: &str) -> bool {
        Patterns::protecting(&[pattern.to_owned()], rules()).unwrap().matches(Path::new(path))
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
        assert!(Patterns::protecting(&["!x".to_owned()], rules()).is_err());
    }

    #[test]
    fn wildcards_are_resolved_like_paths() {
        assert!(fits("#*", "/p/d/#x") && fits("!*", "/p/!x") && !fits("!*", "/p/x"));
        assert!(fits("../*.rs", "/a.rs") && fits("./x/../*.rs", "/p/a.rs") && fits("src/./*.rs", "/p/src/a.rs"));
        assert!(Patterns::new(&["**/../x".to_owned()], rules()).is_err());
        let odd = Patterns::new(&["*.rs".to_owned()], Scope::of_rules(&[Path::new("/home/{a,b}/[x]")])).unwrap();
        assert!(odd.matches(Path::new("/home/{a,b}/[x]/deep/a.rs")));
    }

    #[test]
    fn what_chooses_and_names_something_is_that_name() {
        let known = [Path::new("/p/a[1].txt"), Path::new("/p/a1.txt"), Path::new("/p/[b/c"), Path::new("/p/x\\")];
        let scope = Scope::of_command(&*ROOTS, &known);
        let fit = |built: Result<Patterns, BadPattern>| {
            let built = built.unwrap();
            known.map(|path| built.matches(path))
        };
        let choosing = |pattern: &str| fit(Patterns::new(&[pattern.to_owned()], scope));
        assert_eq!(choosing("a[1].txt"), [true, false, false, false]);
        assert_eq!(choosing("a[0-9].txt"), [false, true, false, false]);
        assert_eq!(choosing("[b"), [false, false, true, false]);
        assert_eq!(choosing("x\\"), [false, false, false, true]);
        // What protects never means less because of a name that something has.
        let protecting = |pattern: &str| fit(Patterns::protecting(&[pattern.to_owned()], scope));
        assert_eq!(protecting("a[1].txt"), [true, true, false, false]);
        assert_eq!(protecting("[b"), [false, false, true, false]);
    }

    #[test]
    fn what_is_neither_a_pattern_nor_a_name_is_refused() {
        let known = [Path::new("/p/a")];
        for pattern in ["[a", "d/[a", "[z-a]", "x\\", "*/..", "[a*"] {
            for scope in [rules(), Scope::of_command(&*ROOTS, &known)] {
                assert!(Patterns::new(&[pattern.to_owned()], scope).is_err(), "{pattern}");
                assert!(Patterns::protecting(&[pattern.to_owned()], scope).is_err(), "{pattern}");
            }
            assert!(check(pattern, Use::Ignore).is_err() || pattern == "*/..", "{pattern}");
        }
        assert!(check("!keep", Use::Ignore).is_ok() && check("!keep", Use::Protect).is_err());
    }

    #[test]
    fn an_empty_pattern_is_refused() {
        for patterns in [vec![String::new()], vec!["src".to_owned(), String::new()]] {
            assert!(Patterns::new(&patterns, rules()).is_err());
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
