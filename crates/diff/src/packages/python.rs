//! Python packages, by the `RECORD` that an installer leaves next to each.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use whatif_types::mask::without_steps_up;

use super::{Changes, Claim, Manager, Members, Package, Packages, claims_others, sides};

/// A package in one place, with its versions.
#[derive(Default)]
struct Found {
    name: String,
    before: Option<String>,
    after: Option<String>,
    members: Members,
}

pub(super) fn find(changes: &Changes<'_>, known: &Packages) -> Vec<Claim> {
    let mut found: BTreeMap<(PathBuf, String), Found> = BTreeMap::new();
    let records = changes.all().filter(|change| change.path.file_name() == Some(OsStr::new("RECORD")));
    for record in records.filter(|record| known.around(&record.path).is_none()) {
        let Some((directory, place)) = record.path.parent().and_then(|d| Some((d, d.parent()?))) else { continue };
        if !is_library(place) {
            continue;
        }
        let described = directory.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_suffix(".dist-info"));
        let Some((name, version)) = described.and_then(|described| described.rsplit_once('-')) else { continue };
        let package = found.entry((place.to_owned(), normalized(name))).or_default();
        package.name = normalized(name);
        let (before, after) = sides(record);
        if before.is_some() {
            package.before = Some(version.to_owned());
        }
        if after.is_some() {
            package.after = Some(version.to_owned());
        }
        package.members.trees.push(directory.to_owned());
        package.members.owned.extend(before.is_some().then(|| record.path.clone()));
        package.members.owned.extend(before.iter().flat_map(|text| text.lines()).filter_map(|line| path_of(line, place)));
        package.members.paths.extend(after.iter().flat_map(|text| text.lines()).filter_map(|line| path_of(line, place)));
    }
    let claim = |((root, _), found): ((PathBuf, String), Found)| {
        let Found { name, before, after, members } = found;
        let is_change = before != after && !claims_others(&members.paths, &members.owned, changes);
        is_change.then(|| Claim { manager: Manager::Pip, root, packages: vec![Package { name, before, after }], members })
    };
    found.into_iter().filter_map(claim).collect()
}

/// Where installers put packages, and nobody puts anything else.
fn is_library(place: &Path) -> bool {
    place.ends_with("site-packages") || place.ends_with("dist-packages")
}

/// As the index compares names.
fn normalized(name: &str) -> String {
    name.to_lowercase().replace(['_', '.'], "-")
}

/// The path in a line of a record: the first of its fields. A package may put programs and data next to its library, not elsewhere.
fn path_of(line: &str, place: &Path) -> Option<PathBuf> {
    let path = match line.strip_prefix('"') {
        Some(quoted) => quoted.split("\",").next()?.replace("\"\"", "\""),
        None => line.split(',').next()?.to_owned(),
    };
    let path = without_steps_up(&place.join(path));
    let is_here = path.starts_with(place);
    let is_near = || prefix(place).is_some_and(|prefix| ["bin", "share", "include", "etc"].iter().any(|d| is_in(&path, prefix, d)));
    (is_here && path != place || is_near()).then_some(path)
}

fn is_in(path: &Path, prefix: &Path, directory: &str) -> bool {
    path.strip_prefix(prefix).is_ok_and(|inside| inside.starts_with(directory) && inside != Path::new(directory))
}

/// What a library of Python lies in, as in `prefix/lib/python3.11/site-packages`.
fn prefix(place: &Path) -> Option<&Path> {
    let python = place.parent().filter(|p| p.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"python")))?;
    python.parent().filter(|library| library.ends_with("lib") || library.ends_with("lib64"))?.parent()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_files_near_the_library_only() {
        let place = Path::new("/p/.venv/lib/python3.11/site-packages");
        let path = |line| path_of(line, place).map(|path| path.display().to_string());
        assert_eq!(path("tiny/__init__.py,sha256=x,12").unwrap(), "/p/.venv/lib/python3.11/site-packages/tiny/__init__.py");
        assert_eq!(path("\"a,b.py\",,").unwrap(), "/p/.venv/lib/python3.11/site-packages/a,b.py");
        assert_eq!(path("../../../bin/tiny,sha256=x,12").unwrap(), "/p/.venv/bin/tiny");
        for elsewhere in ["../../../../Makefile,,", "/home/u/.bashrc,,", "../../../../../x,,", ",,", "", "../../../bin,,", "../x,,"]
        {
            assert_eq!(path(elsewhere), None, "{elsewhere}");
        }
        assert_eq!(path_of("../../bin/x,,", Path::new("/opt/target")), None);
    }
}
