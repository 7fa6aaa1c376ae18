//! Programs that `cargo install` installed, by cargo's own list of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Changes, Claim, Manager, Members, Packages, claims_others, compare, sides};

const LISTS: [&str; 2] = [".crates.toml", ".crates2.json"];

pub(super) fn find(changes: &Changes<'_>, _: &Packages) -> Vec<Claim> {
    let lists = changes.0.iter().filter(|change| change.path.ends_with(LISTS[0]));
    let in_home = lists.filter(|list| list.path.parent().is_some_and(|home| home.ends_with(".cargo")));
    in_home.filter_map(|list| claim(changes, list.path.parent()?, sides(list))).collect()
}

fn claim(changes: &Changes<'_>, root: &Path, (before, after): (Option<String>, Option<String>)) -> Option<Claim> {
    let (before, after) = (installed(before.as_deref()), installed(after.as_deref()));
    let versions = |of: &Installed| of.iter().map(|(name, (version, _))| (name.clone(), version.clone())).collect();
    let packages = compare(&versions(&before), &versions(&after));
    if packages.is_empty() {
        return None;
    }
    let is_changed = |name: &String| packages.iter().any(|package| package.name == *name);
    let is_name = |name: &&String| Path::new(name).components().count() == 1 && Path::new(name).file_name().is_some();
    let programs = |of: &Installed| -> std::collections::HashSet<PathBuf> {
        let programs = of.iter().filter(|(name, _)| is_changed(name)).flat_map(|(_, (_, programs))| programs);
        programs.filter(is_name).map(|program| root.join("bin").join(program)).collect()
    };
    let (owned, paths) = (programs(&before), programs(&after));
    if claims_others(&paths, &owned, changes) {
        return None;
    }
    let whole = LISTS.iter().map(|list| root.join(list)).collect();
    let members = Members { paths, owned, whole, ..Members::default() };
    Some(Claim { manager: Manager::Cargo, root: PathBuf::from(root), packages, members })
}

/// The version of each package, and its programs.
type Installed = BTreeMap<String, (String, Vec<String>)>;

fn installed(list: Option<&str>) -> Installed {
    let table = list.and_then(|list| list.parse::<toml::Table>().ok()).unwrap_or_default();
    let mut all = Installed::new();
    for (described, programs) in table.get("v1").and_then(toml::Value::as_table).into_iter().flatten() {
        let mut words = described.splitn(3, ' ');
        let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
        let programs = programs.as_array().into_iter().flatten().filter_map(|p| p.as_str().map(str::to_owned)).collect();
        all.insert(name.to_owned(), (version.to_owned(), programs));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_those_that_changed() {
        let before = "[v1]\n\"old 1.0.0 (registry+x)\" = [\"old\"]\n\"same 1.0.0 (path+file:///x)\" = [\"same\"]\n";
        let after =
            "[v1]\n\"same 1.0.0 (path+file:///x)\" = [\"same\"]\n\"new 0.2.0 (path+file:///y)\" = [\"new\", \"../../x\", \"..\"]\n";
        let claim = claim(&Changes(&[]), Path::new("/c"), (Some(before.to_owned()), Some(after.to_owned()))).unwrap();
        let named: Vec<&str> = claim.packages.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(named, ["new", "old"]);
        let Members { paths, owned, .. } = claim.members;
        assert_eq!((paths, owned), (["/c/bin/new".into()].into(), ["/c/bin/old".into()].into()));
        assert!(super::claim(&Changes(&[]), Path::new("/c"), (None, Some("no toml".to_owned()))).is_none());
    }
}
