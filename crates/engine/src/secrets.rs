//! What is hidden from a sandbox: whose credentials, and which files are shown rewritten.

use std::cell::LazyCell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;
use whatif_diff::Unreadable;
use whatif_layers::links::{Links, Real};
use whatif_layers::masks::Rewrite;
use whatif_layers::survey;
use whatif_sys::absence::{self, MeansAbsent, OrAbsent};
use whatif_types::config::UserConfig;
use whatif_types::credentials;
use whatif_types::mountinfo::aliases_of;
use whatif_types::paths::{self, is_same};

use crate::{Caller, EngineError, git_identity, package_settings};

/// The paths and rewrites for one sandbox.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    /// Where they really lie: a name is in the directory that holds it, and what a link leads to is there as well.
    pub hidden: Vec<PathBuf>,
    /// Those of them that are not links.
    pub targets: Vec<PathBuf>,
    /// Other names by which they are known, across links.
    pub nicknames: Vec<PathBuf>,
    pub rewrites: Vec<Rewrite>,
    /// Every name of what is shown rewritten.
    pub rewritten: Vec<PathBuf>,
}

impl Secrets {
    /// What is masked, under all its names.
    pub(crate) fn masked(&self) -> Vec<PathBuf> {
        [self.hidden.as_slice(), &self.nicknames].concat()
    }

    pub(crate) fn unshown(&self) -> Result<Unshown, Unreadable> {
        let mounts = survey::mounts().map_err(|error| Unreadable::of(&error.path, &error.source))?;
        let all_names = |names: &[PathBuf]| names.iter().flat_map(|name| aliases_of(&mounts, name)).chain(names.to_vec()).collect();
        Ok(Unshown { masked: all_names(&self.masked()), rewritten: all_names(&self.rewritten) })
    }
}

/// What a sandbox is not shown as it is, under every name that it has, those that bind mounts give it as well: masks hold at all of
/// them.
#[derive(Debug)]
pub(crate) struct Unshown {
    pub masked: Vec<PathBuf>,
    pub rewritten: Vec<PathBuf>,
}

impl Unshown {
    pub(crate) fn all(&self) -> Vec<PathBuf> {
        [self.masked.as_slice(), &self.rewritten].concat()
    }
}

/// Shown without credentials, or installing packages would fail where the user has a mirror.
const PACKAGE_SETTINGS: [(&str, Content); 3] = [
    (".npmrc", package_settings::of_npm),
    (".config/pip/pip.conf", package_settings::of_pip),
    (".pip/pip.conf", package_settings::of_pip),
];
type Content = fn(&Path, &Path) -> std::io::Result<String>;

/// Found out when they are first needed: that takes longer than many a thing that does not need them.
pub(crate) struct Lazy<'a>(LazyCell<Found, Box<dyn FnOnce() -> Found + 'a>>);
type Found = Result<Secrets, Unreadable>;

/// A trait, because what is found out later is found out with borrowed things.
pub(crate) trait Known {
    fn get(&self) -> Result<&Secrets, EngineError>;
}

impl<'a> Lazy<'a> {
    pub(crate) fn new(find: impl FnOnce() -> Found + 'a) -> Self {
        Self(LazyCell::new(Box::new(find)))
    }
}

impl Known for Lazy<'_> {
    fn get(&self) -> Result<&Secrets, EngineError> {
        self.0.as_ref().map_err(|unreadable| unreadable.clone().into())
    }
}

pub(crate) fn lazily<'a>(caller: &'a Caller, config: &'a UserConfig, mask: &'a [String], expose: &'a [String]) -> Lazy<'a> {
    Lazy::new(move || of(caller, config, mask, expose))
}

/// An error means that a credential may have been overlooked.
pub(crate) fn of(caller: &Caller, config: &UserConfig, mask: &[String], expose: &[String]) -> Found {
    let homes = homes(caller)?;
    let masked: Vec<String> = config.files.mask.iter().chain(mask).cloned().collect();
    // What is masked by name on the command line wins over what the configuration exposes in general.
    let exposed: Vec<String> = config.files.expose.iter().chain(expose).filter(|e| !mask.contains(e)).cloned().collect();
    let exposed = credentials::resolve_all(&homes, &exposed);
    let is_exposed = |path: &Path| exposed.iter().any(|e| path.starts_with(e));

    let git_config = caller.home.join(credentials::GIT_CONFIG);
    let mut hidden = Vec::new();
    let mut links = Links::default();
    for home in &homes {
        let own = is_same(home, &caller.home);
        let names = listing(home)?;
        hidden.extend(credentials::in_home(home, own, names.as_deref().unwrap_or_default()));
        // Most of what may be in these is not there.
        let settings = home.join(credentials::SETTINGS);
        let listed = [(&settings, listing(&settings)?), (home, names)];
        for (directory, names) in listed {
            let noted = names.map_or(Ok(()), |names| links.list(directory, names));
            noted.map_err(|error| Unreadable::of(&error.path, &error.source))?;
        }
        if !own {
            hidden.push(home.join(credentials::GIT_CONFIG));
        }
    }
    let mut rewrites = vec![Rewrite { path: git_config, content: git_identity::only_identity }];
    for (name, content) in PACKAGE_SETTINGS {
        let path = caller.home.join(name);
        // What cannot be read cannot be shown without its credentials either, and is hidden like them.
        if is_closed(&path) {
            hidden.push(path);
            continue;
        }
        hidden.retain(|hidden| !is_same(hidden, &path));
        rewrites.push(Rewrite { path, content });
    }
    if caller.is_root() {
        for path in credentials::SYSTEM.iter().map(PathBuf::from) {
            if exists(&path)? {
                hidden.push(path);
            }
        }
        rewrites.extend(credentials::PASSWORD_FILES.iter().map(|f| Rewrite { path: f.into(), content: without_passwords }));
    }
    hidden.extend(credentials::resolve_all(&homes, &masked));
    hidden.retain(|p| !is_exposed(p));
    hidden.extend(credentials::resolve_all(&homes, &config.files.masked_by_project));
    hidden.extend(config.files.own_credentials.iter().map(PathBuf::from));
    rewrites.retain(|r| !is_exposed(&r.path));
    Secrets::at_their_places(hidden, rewrites, links)
}

impl Secrets {
    fn at_their_places(named: Vec<PathBuf>, rewrites: Vec<Rewrite>, mut links: Links) -> Found {
        let mut secrets = Self::default();
        for name in named {
            let real = follow(&mut links, &name)?;
            if !is_same(&name, &real.entry) {
                secrets.nicknames.push(name);
            }
            secrets.targets.extend(real.target.clone());
            secrets.hidden.extend(real.places());
        }
        for paths in [&mut secrets.hidden, &mut secrets.targets, &mut secrets.nicknames] {
            paths::sort(paths);
        }
        // What is hidden is not shown in another form.
        for rewrite in rewrites {
            let real = follow(&mut links, &rewrite.path)?;
            let places: Vec<PathBuf> = real.places().collect();
            let is_hidden = |place: &PathBuf| secrets.hidden.binary_search_by(|hidden| paths::compare(hidden, place)).is_ok();
            if !places.iter().any(is_hidden) {
                secrets.rewritten.extend(places.into_iter().chain([rewrite.path.clone()]));
                secrets.rewrites.push(rewrite);
            }
        }
        Ok(secrets)
    }
}

fn follow(links: &mut Links, path: &Path) -> Result<Real, Unreadable> {
    links.follow(path).map_err(|error| Unreadable::of(&error.path, &error.source))
}

/// The paths that options such as `--expose` name, and where these really lie.
pub(crate) fn resolved(caller: &Caller, entries: &[String]) -> Result<Vec<PathBuf>, Unreadable> {
    let mut links = Links::default();
    let mut paths = Vec::new();
    for named in credentials::resolve_all(&homes(caller)?, entries) {
        let real = follow(&mut links, &named)?;
        paths.extend(real.places().chain([named]));
    }
    Ok(paths)
}

fn is_closed(path: &Path) -> bool {
    rustix::fs::accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS) == Err(Errno::ACCESS)
}

fn exists(path: &Path) -> Result<bool, Unreadable> {
    absence::exists(path).map_err(|error| Unreadable::of(path, &error))
}

/// The names in a directory, sorted; none if this user cannot list it, which says nothing about what is in there.
fn listing(directory: &Path) -> Result<Option<Vec<OsString>>, Unreadable> {
    let listed = std::fs::read_dir(directory).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    match listed {
        Ok(entries) => {
            let mut names: Vec<OsString> = entries.into_iter().map(|e| e.file_name()).collect();
            names.sort_unstable();
            Ok(Some(names))
        }
        Err(error) if error.means_absent() => Ok(None),
        Err(error) => Some(Unreadable::of(directory, &error)).filter(|u| !u.is_closed()).map_or(Ok(None), Err),
    }
}

/// Root can read every home, so every home's credentials are root's to hide.
fn homes(caller: &Caller) -> Result<Vec<PathBuf>, Unreadable> {
    let mut homes = vec![caller.home.clone()];
    if caller.is_root() {
        homes.push(PathBuf::from("/root"));
        let all = survey::subdirectories(Path::new("/home"));
        homes.extend(all.map_err(|error| Unreadable::of(&error.path, &error.source))?);
        let passwd = Path::new("/etc/passwd");
        let text = std::fs::read(passwd).or_absent().map_err(|error| Unreadable::of(passwd, &error))?;
        homes.extend(homes_of_people(&String::from_utf8_lossy(&text.unwrap_or_default()))?);
    }
    paths::sort(&mut homes);
    Ok(homes)
}

/// Homes of accounts that can log in, wherever they are.
fn homes_of_people(passwd: &str) -> Result<Vec<PathBuf>, Unreadable> {
    let people = passwd.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let (home, shell) = (fields.get(5)?, fields.get(6)?);
        let logs_in = !["nologin", "false", "sync", ""].iter().any(|s| shell.rsplit('/').next() == Some(s));
        (logs_in && home.len() > 1 && home.starts_with('/')).then(|| PathBuf::from(home))
    });
    let mut homes = Vec::new();
    for home in people {
        if absence::is_dir(&home).map_err(|error| Unreadable::of(&home, &error))? {
            homes.push(home);
        }
    }
    Ok(homes)
}

fn without_passwords(path: &Path, _cache: &Path) -> std::io::Result<String> {
    Ok(credentials::without_password_hashes(&std::fs::read_to_string(path)?))
}
