//! Debian packages, by dpkg's own database: which are installed, and the files of each.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Changes, Claim, Manager, Members, Package, Packages, claims_others, compare, sides};

const STATUS: &str = "var/lib/dpkg/status";

/// What installing changes besides the files that a package lists: the database, and what maintainer scripts and triggers make of
/// these files.
const MADE_BY_SCRIPTS: [&str; 12] = [
    "var/lib/dpkg/status",
    "var/lib/dpkg/status-old",
    "var/lib/dpkg/available",
    "var/lib/dpkg/lock",
    "var/lib/dpkg/lock-frontend",
    "var/lib/dpkg/triggers",
    "var/lib/apt/extended_states",
    "var/lib/ucf",
    "var/lib/systemd/deb-systemd-helper-enabled",
    "var/lib/systemd/deb-systemd-user-helper-enabled",
    "etc/ld.so.cache",
    "usr/share/info/dir",
];

/// Where scripts put something of its own for a package.
const NEW_BY_SCRIPTS: [&str; 2] = ["var/lib/dpkg/alternatives", "var/lib/dpkg/updates"];

const INFO: &str = "var/lib/dpkg/info";
/// Longer ones say nothing.
const LONGEST_LIST: u64 = 64 << 20;

/// Packages may list files in these, which are links to those in `/usr`.
const MERGED: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

pub(super) fn find(changes: &Changes<'_>, _: &Packages) -> Vec<Claim> {
    let database = changes.0.iter().filter(|change| change.path.ends_with(STATUS));
    // Of this system only: elsewhere it is a file that says so.
    let database = database.filter(|status| status.path == Path::new("/").join(STATUS));
    database.filter_map(|status| claim(changes, status.path.ancestors().nth(4)?, sides(status))).collect()
}

fn claim(changes: &Changes<'_>, root: &Path, (before, after): (Option<String>, Option<String>)) -> Option<Claim> {
    let packages = compare(&installed(&before.unwrap_or_default()), &installed(&after.unwrap_or_default()));
    if packages.is_empty() {
        return None;
    }
    let whole = MADE_BY_SCRIPTS.iter().map(|path| root.join(path)).collect();
    let trees = NEW_BY_SCRIPTS.iter().map(|path| root.join(path)).collect();
    let mut members = Members { whole, trees, ..Members::default() };
    let info = root.join(INFO);
    let mut believed = HashSet::new();
    for package in &packages {
        let (owned, listed) = files_of(changes, root, package);
        if !claims_others(&listed, &owned, changes) {
            members.owned.extend(owned);
            members.paths.extend(listed);
            believed.insert(package.name.as_str());
        }
    }
    // What the database holds of each: its list and its scripts, and nobody else's.
    for change in changes.all().filter(|change| change.path.parent() == Some(&info)) {
        if named(&change.path).is_some_and(|name| believed.contains(name)) {
            members.owned.insert(change.path.clone());
        }
    }
    // Links by which a unit is started.
    for link in changes.all().filter(|c| c.shown_kind() == crate::Kind::Link && c.path.starts_with(root)) {
        let target = link.shown().and_then(|state| state.target().ok()).unwrap_or_default();
        let target = target.strip_prefix("/").map_or_else(|_| target.clone(), |inside| root.join(inside));
        let is_start = link.path.starts_with(root.join("etc/systemd/system")) || link.path.starts_with(root.join("etc/init.d"));
        if is_start && members.is_listed(&target) {
            members.paths.insert(link.path.clone());
        }
    }
    Some(Claim { manager: Manager::Apt, root: root.to_owned(), packages, members })
}

/// Names and versions of what is there, whole or in part.
fn installed(status: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for stanza in status.split("\n\n") {
        let field = |name: &str| stanza.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
        let state = field("Status").and_then(|status| status.split(' ').next_back());
        let (Some(name), Some(version), Some(state)) = (field("Package"), field("Version"), state) else { continue };
        if matches!(state, "not-installed" | "config-files") || !is_name(name) {
            continue;
        }
        // Two architectures of one package may be installed next to each other.
        let known: &mut String = all.entry(name.to_owned()).or_default();
        if !known.is_empty() {
            known.push_str(", ");
        }
        known.push_str(version);
    }
    all
}

/// The package that a file of the database is about, as in `hello:amd64.postinst`.
fn named(path: &Path) -> Option<&str> {
    let (name, _) = path.file_name()?.to_str()?.rsplit_once('.')?;
    name.split(':').next()
}

/// As reality's list names them, and as the one inside does.
fn files_of(changes: &Changes<'_>, root: &Path, package: &Package) -> (HashSet<PathBuf>, HashSet<PathBuf>) {
    let info = root.join(INFO);
    let is_list = |path: &Path| {
        path.extension() == Some(OsStr::new("list")) && path.parent() == Some(&info) && named(path) == Some(&package.name)
    };
    let (mut owned, mut listed) = (Vec::new(), Vec::new());
    for change in changes.all().filter(|change| is_list(&change.path)) {
        let (before, after) = sides(change);
        owned.extend(before);
        listed.extend(after);
    }
    // A new version with the same files has the same list.
    if owned.is_empty() && listed.is_empty() && package.before.is_some() {
        owned.extend(real_list(&info.join(format!("{}.list", package.name))));
    }
    let names = |lists: &[String]| lists.iter().flat_map(|list| list.lines()).flat_map(|line| names_of(root, line)).collect();
    (names(&owned), names(&listed))
}

/// Of reality, where somebody may have put anything.
fn real_list(path: &Path) -> Option<String> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let found = file.metadata().ok().filter(|found| found.is_file() && found.len() <= LONGEST_LIST)?;
    let mut list = String::new();
    file.take(found.len()).read_to_string(&mut list).ok()?;
    Some(list)
}

/// As dpkg takes it: nothing that could be a path.
fn is_name(name: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte);
    name.len() >= 2 && name.bytes().all(is_usual) && name.as_bytes()[0].is_ascii_alphanumeric()
}

/// Where packages put files. Homes, projects and what administrators make are in none of them.
const PLACES: [&str; 12] = ["bin", "boot", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "usr", "var/cache", "var/lib"];

fn names_of(root: &Path, listed: &str) -> Vec<PathBuf> {
    let Some(inside) = listed.strip_prefix('/').filter(|path| !path.is_empty() && *path != ".") else { return Vec::new() };
    if Path::new(inside).components().any(|part| part == std::path::Component::ParentDir) {
        return Vec::new();
    }
    if !PLACES.iter().any(|place| Path::new(inside).starts_with(place)) {
        return Vec::new();
    }
    let first = inside.split('/').next().unwrap_or_default();
    let merged = (MERGED.contains(&first) && first != inside).then(|| root.join("usr").join(inside));
    // Packages list the directories around their files. Those that all of the system is in are nobody's.
    let own = inside.contains('/').then(|| root.join(inside));
    own.into_iter().chain(merged).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_installed_is_read_from_the_status() {
        let status = "Package: aa\nStatus: install ok installed\nVersion: 1\n\nPackage: bb\nStatus: deinstall ok config-files\n\
                      Version: 2\n\nPackage: cc\nStatus: install ok half-configured\nDescription: x\n Version: no\nVersion: 3-1\n";
        let all: Vec<(String, String)> = installed(status).into_iter().collect();
        assert_eq!(all, [("aa".to_owned(), "1".to_owned()), ("cc".to_owned(), "3-1".to_owned())]);
        assert!(installed("").is_empty() && installed("\u{fffd}\n\n\n\nPackage:").is_empty());
    }

    #[test]
    fn listed_paths_have_the_names_of_a_merged_usr_too() {
        let names = |listed| names_of(Path::new("/"), listed);
        assert_eq!(names("/bin/ls"), [PathBuf::from("/bin/ls"), "/usr/bin/ls".into()]);
        assert_eq!(names("/usr/share/doc"), [PathBuf::from("/usr/share/doc")]);
        assert!(
            ["/.", "/", "/usr", "/bin", "", "relative", "/usr/../home/u/.bashrc", "/home/u/.bashrc", "/root/x", "/var/www/x"]
                .into_iter()
                .all(|none| names(none).is_empty())
        );
    }
}
