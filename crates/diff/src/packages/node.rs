//! npm's packages, by the `package.json` of each directory in `node_modules`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use whatif_types::mask::without_steps_up;

use super::{Changes, Claim, Manager, Members, Package, Packages, compare, sides};
use crate::node::Kind;

#[derive(Default)]
struct Found {
    before: BTreeMap<String, String>,
    after: BTreeMap<String, String>,
    /// The directory of each package.
    places: BTreeMap<String, PathBuf>,
}

/// What managers of packages write down right in `node_modules`.
const LISTS: [&str; 4] = [".package-lock.json", ".yarn-integrity", ".yarn-state.yml", ".modules.yaml"];

pub(super) fn find(changes: &Changes<'_>, known: &Packages) -> Vec<Claim> {
    let mut found: BTreeMap<PathBuf, Found> = BTreeMap::new();
    let manifests = changes.all().filter(|change| change.path.file_name() == Some(OsStr::new("package.json")));
    for manifest in manifests.filter(|manifest| known.around(&manifest.path).is_none()) {
        let Some((root, name)) = manifest.path.parent().and_then(installed) else { continue };
        let group = match is_global(&root) {
            // Each stands for itself: no file is about all of them.
            true => root.join(name.rsplit(" in ").next().unwrap_or(&name)),
            false => root,
        };
        let found = found.entry(group).or_default();
        found.places.extend(manifest.path.parent().map(|place| (name.clone(), place.to_owned())));
        let (before, after) = sides(manifest);
        let version = |text: Option<String>| {
            let manifest: serde_json::Value = serde_json::from_str(&text?).ok()?;
            manifest["version"].as_str().map(str::to_owned)
        };
        found.before.extend(version(before).map(|version| (name.clone(), version)));
        found.after.extend(version(after).map(|version| (name, version)));
    }
    found.into_iter().filter_map(|(root, found)| claim(changes, root, &found)).collect()
}

fn claim(changes: &Changes<'_>, root: PathBuf, found: &Found) -> Option<Claim> {
    let packages: Vec<Package> = compare(&found.before, &found.after);
    if packages.is_empty() {
        return None;
    }
    let places = packages.iter().filter_map(|package| found.places.get(&package.name));
    let whole = places.cloned().chain(LISTS.map(|list| root.join(list))).collect();
    let mut members = Members { trees: vec![root.clone()], whole, ..Members::default() };
    // Programs of what is installed for all projects: `prefix/bin/x -> ../lib/node_modules/x/x.js`.
    let library = root.ancestors().find(|above| above.file_name() == Some(OsStr::new("node_modules")));
    if let Some(programs) = library.filter(|library| is_global(library)).and_then(|library| library.ancestors().nth(2)) {
        let programs = programs.join("bin");
        for link in changes.all().filter(|c| c.shown_kind() == Kind::Link && c.path.parent() == Some(&programs)) {
            let target = link.shown().and_then(|state| state.target().ok()).unwrap_or_default();
            if without_steps_up(&programs.join(target)).starts_with(&root) {
                members.paths.insert(link.path.clone());
            }
        }
    }
    Some(Claim { manager: Manager::Npm, root, packages, members })
}

/// Whether this is a package's own directory.
pub(super) fn is_package(directory: &Path) -> bool {
    installed(directory).is_some()
}

/// The outermost `node_modules` around the directory of a package, and the package's name. One within another says so.
fn installed(directory: &Path) -> Option<(PathBuf, String)> {
    let parts: Vec<&OsStr> = directory.components().map(Component::as_os_str).collect();
    let first = parts.iter().position(|part| *part == "node_modules")?;
    let root: PathBuf = parts[..=first].iter().collect();
    let mut names: Vec<String> = Vec::new();
    for inside in parts[first + 1..].split(|part| *part == "node_modules") {
        let is_package = match inside {
            [name] => !name.as_encoded_bytes().starts_with(b".") && !name.as_encoded_bytes().starts_with(b"@"),
            [scope, _] => scope.as_encoded_bytes().starts_with(b"@"),
            _ => false,
        };
        if !is_package {
            return None;
        }
        names.push(inside.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/"));
    }
    names.reverse();
    Some((root, names.join(" in ")))
}

/// `prefix/lib/node_modules` holds what `npm install --global` installs.
fn is_global(root: &Path) -> bool {
    root.parent().is_some_and(|library| library.ends_with("lib"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_directories_right_in_node_modules() {
        let found = |path: &str| installed(Path::new(path)).map(|(root, name)| (root.display().to_string(), name));
        let is = |path: &str, name: &str| assert_eq!(found(path), Some(("/p/node_modules".to_owned(), name.to_owned())));
        is("/p/node_modules/left", "left");
        is("/p/node_modules/@scope/left", "@scope/left");
        is("/p/node_modules/left/node_modules/right", "right in left");
        for none in ["/p/left", "/p/node_modules", "/p/node_modules/.cache", "/p/node_modules/@scope", "/p/node_modules/a/test"] {
            assert_eq!(found(none), None, "{none}");
        }
    }
}
