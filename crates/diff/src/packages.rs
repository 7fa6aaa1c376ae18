//! Packages that a package manager installed, upgraded or removed in a sandbox: what a person asked for, where the changes are the
//! files that this took. Part of a package is of no use, so its files are shown and taken together.
//!
//! Everything here is read from files that processes inside wrote. It groups changes and names them; it approves nothing. What is
//! flagged in a package keeps its flags, and a package can claim only what lies where its manager installs. What existed before the
//! package did is its own only if reality's list says so, and never if it is one of the project's files that git does not ignore:
//! otherwise a list could hide an edit or a deletion of anything. A list that claims what was there before is not believed at all, for
//! it would be reality's list of the next change.

mod cargo;
mod dpkg;
mod index;
mod node;
mod python;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::Serialize;
use whatif_sys::absence::MeansAbsent;

use self::index::Index;
use crate::change::Change;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Manager {
    Apt,
    Pip,
    Npm,
    Cargo,
}

impl Manager {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Apt => "apt",
            Self::Pip => "pip",
            Self::Npm => "npm",
            Self::Cargo => "cargo",
        }
    }
}

/// What became of one package. Without a version before, it is new; without one after, it was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Package {
    pub name: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

/// Packages that can only be taken together, as they share a database or a directory.
#[derive(Clone, Debug, Serialize)]
pub struct PackageGroup {
    pub manager: Manager,
    /// Where they are installed: the root of a system, `site-packages`, `node_modules`, cargo's home.
    #[serde(with = "whatif_types::text::path")]
    pub root: PathBuf,
    /// In the order of their names.
    pub packages: Vec<Package>,
    /// Changes to files and links.
    pub files: usize,
}

/// How many packages came, went, and changed their version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub added: usize,
    pub removed: usize,
    pub changed: usize,
}

impl Counts {
    #[must_use]
    pub fn of<'a>(packages: impl IntoIterator<Item = &'a Package>) -> Self {
        let mut counts = Self::default();
        for package in packages {
            match (&package.before, &package.after) {
                (None, _) => counts.added += 1,
                (Some(_), None) => counts.removed += 1,
                (Some(_), Some(_)) => counts.changed += 1,
            }
        }
        counts
    }

    /// `+2 packages`, `+1 -1 packages, 3 upgraded`.
    #[must_use]
    pub fn in_words(self) -> String {
        let signed = |sign, count| (count > 0).then(|| format!("{sign}{count}"));
        let came_and_went: Vec<String> = [signed('+', self.added), signed('-', self.removed)].into_iter().flatten().collect();
        let noun = if self.added + self.removed == 1 { "package" } else { "packages" };
        let named = (!came_and_went.is_empty()).then(|| format!("{} {noun}", came_and_went.join(" ")));
        let other = match (self.changed, &named) {
            (0, _) => None,
            (1, None) => Some("1 package in another version".to_owned()),
            (some, None) => Some(format!("{some} packages in another version")),
            (some, Some(_)) => Some(format!("{some} in another version")),
        };
        [named, other].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl PackageGroup {
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts::of(&self.packages)
    }

    /// Whether a word means it: the manager, one of its packages, or `manager:package`.
    #[must_use]
    pub fn is_called(&self, word: &str) -> bool {
        const ALL: [Manager; 4] = [Manager::Apt, Manager::Pip, Manager::Npm, Manager::Cargo];
        // The name of a manager means that manager, whatever a package is called.
        let manager = |word: &str| ALL.into_iter().find(|manager| manager.name() == word);
        let name = match word.split_once(':') {
            None if manager(word).is_some() => return manager(word) == Some(self.manager),
            Some((before, name)) if manager(before).is_some() => match manager(before) == Some(self.manager) {
                true => name,
                false => return false,
            },
            _ => word,
        };
        self.packages.iter().any(|package| package.name == name)
    }
}

/// The packages of a change set, and which change belongs to which.
#[derive(Debug, Default)]
pub struct Packages {
    groups: Vec<PackageGroup>,
    of: HashMap<PathBuf, usize>,
}

/// One manager's packages, and what they could consist of.
struct Claim {
    manager: Manager,
    root: PathBuf,
    packages: Vec<Package>,
    members: Members,
}

/// Paths that belong to a group.
#[derive(Default)]
struct Members {
    /// As lists inside name them: only new files can belong to it by these.
    paths: HashSet<PathBuf>,
    /// As reality's lists name them.
    owned: HashSet<PathBuf>,
    /// With what is new beneath them.
    trees: Vec<PathBuf>,
    /// With everything beneath them: directories of packages that came, went or have another version.
    whole: Vec<PathBuf>,
}

impl Members {
    fn is_listed(&self, path: &Path) -> bool {
        self.paths.contains(path) || self.owned.contains(path)
    }
}

impl Packages {
    /// `changes` are in the order of their paths, byte by byte.
    #[must_use]
    pub fn among(changes: &[Change], project: &Path) -> Self {
        let changes = Changes(changes);
        let mut packages = Self::default();
        // The first that claims a path has it: what dpkg brought of Python's is dpkg's.
        for claims in [dpkg::find, cargo::find, node::find, python::find] {
            let mut found = claims(&changes, &packages);
            // No package is what a project lies in.
            found.retain(|claim| claim.manager == Manager::Apt || !project.starts_with(&claim.root));
            packages.add(found, &changes, project);
        }
        packages
    }

    fn add(&mut self, claims: Vec<Claim>, changes: &Changes<'_>, project: &Path) {
        let mut files = vec![0; claims.len()];
        let mut of = Vec::new();
        let index = Index::of(&claims, project);
        for change in changes.all().filter(|change| !self.of.contains_key(&change.path)) {
            if let Some(claim) = index.claim_of(change) {
                of.push((change.path.clone(), claim));
                files[claim] += usize::from(!change.is_directory());
            }
        }
        let mut numbers = Vec::with_capacity(claims.len());
        for (claim, files) in claims.into_iter().zip(files) {
            numbers.push((files > 0).then_some(self.groups.len()));
            if files > 0 {
                let Claim { manager, root, mut packages, .. } = claim;
                packages.sort_by(|a, b| a.name.cmp(&b.name));
                self.groups.push(PackageGroup { manager, root, packages, files });
            }
        }
        self.of.extend(of.into_iter().filter_map(|(path, claim)| Some((path, numbers[claim]?))));
    }

    #[must_use]
    pub fn groups(&self) -> &[PackageGroup] {
        &self.groups
    }

    #[must_use]
    pub fn into_groups(self) -> Vec<PackageGroup> {
        self.groups
    }

    /// The number of the group that a path belongs to.
    #[must_use]
    pub fn around(&self, path: &Path) -> Option<usize> {
        self.of.get(path).copied()
    }

    #[must_use]
    pub fn group_of(&self, path: &Path) -> Option<&PackageGroup> {
        self.groups.get(self.around(path)?)
    }
}

/// Changes, found by their paths.
struct Changes<'a>(&'a [Change]);

impl<'a> Changes<'a> {
    /// Deletions that became part of a rename as well.
    fn deleted(&self) -> impl Iterator<Item = &'a Change> + use<'a> {
        self.0.iter().filter_map(|change| change.deletion.as_deref())
    }

    fn all(&self) -> impl Iterator<Item = &'a Change> + use<'a> {
        self.0.iter().chain(self.deleted())
    }

    fn at(&self, path: &Path) -> Option<&'a Change> {
        let wanted = path.as_os_str().as_encoded_bytes();
        let at = self.0.binary_search_by(|change| change.path.as_os_str().as_encoded_bytes().cmp(wanted)).ok()?;
        self.0.get(at)
    }
}

/// Whether a list names something that was there before the package was, and is not its own.
fn claims_others(listed: &HashSet<PathBuf>, owned: &HashSet<PathBuf>, changes: &Changes<'_>) -> bool {
    let others = listed.iter().filter(|path| !owned.contains(*path));
    others.into_iter().any(|path| match changes.at(path) {
        Some(change) => change.before.is_some() && change.deletion.is_none() && !change.is_directory(),
        // What the sandbox did not change is there, or will be made by something later. Lists name directories too.
        None => std::fs::symlink_metadata(path).map_or_else(|e| !e.means_absent(), |found| !found.is_dir()),
    })
}

/// The two sides of a small text file; what cannot be read, or is too long, says nothing.
fn sides(change: &Change) -> (Option<String>, Option<String>) {
    let text = |state: &Option<crate::State>| {
        let bytes = state.as_ref().filter(|state| state.node.kind == crate::Kind::File)?.bytes().ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    // Of a rename, the old side is that of another path.
    (text(&change.before).filter(|_| change.deletion.is_none()), text(&change.after))
}

/// What two lists of names and versions differ in.
fn compare(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<Package> {
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let package =
        |name: &String| Package { name: name.clone(), before: before.get(name).cloned(), after: after.get(name).cloned() };
    names.into_iter().map(package).filter(|package| package.before != package.after).collect()
}

#[cfg(test)]
#[path = "packages/tests.rs"]
mod tests;
