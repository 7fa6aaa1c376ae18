//! What is hidden from a sandbox: whose credentials, and which files are shown rewritten.

use std::cell::LazyCell;
use std::path::{Path, PathBuf};

use whatif_layers::masks::Rewrite;
use whatif_types::config::UserConfig;
use whatif_types::credentials;

use crate::{Context, git_identity, package_settings};

/// The paths and rewrites for one sandbox.
#[derive(Debug)]
pub(crate) struct Secrets {
    pub hidden: Vec<PathBuf>,
    pub rewrites: Vec<Rewrite>,
}

/// Shown without credentials, or installing packages would fail where the user has a mirror.
const PACKAGE_SETTINGS: [(&str, Content); 3] = [
    (".npmrc", package_settings::of_npm),
    (".config/pip/pip.conf", package_settings::of_pip),
    (".pip/pip.conf", package_settings::of_pip),
];
type Content = fn(&Path, &Path) -> std::io::Result<String>;

/// Found out when they are first needed: that takes longer than many a thing that does not need them.
pub(crate) type Lazy<'a> = LazyCell<Secrets, Box<dyn FnOnce() -> Secrets + 'a>>;

pub(crate) fn lazily<'a>(context: &'a Context, config: &'a UserConfig, mask: &'a [String], expose: &'a [String]) -> Lazy<'a> {
    LazyCell::new(Box::new(move || of(context, config, mask, expose)))
}

pub(crate) fn of(context: &Context, config: &UserConfig, mask: &[String], expose: &[String]) -> Secrets {
    let homes = homes(context);
    let masked: Vec<String> = config.files.mask.iter().chain(mask).cloned().collect();
    // What is masked by name on the command line wins over what the configuration exposes in general.
    let exposed: Vec<String> = config.files.expose.iter().chain(expose).filter(|e| !mask.contains(e)).cloned().collect();
    let exposed = credentials::resolve_all(&homes, &exposed);
    let is_exposed = |path: &Path| exposed.iter().any(|e| path.starts_with(e));

    let git_config = context.home.join(credentials::GIT_CONFIG);
    let mut hidden = Vec::new();
    for home in &homes {
        let own = *home == context.home;
        hidden.extend(credentials::in_home(home, own, &listing(home)));
        if !own {
            hidden.push(home.join(credentials::GIT_CONFIG));
        }
    }
    let mut rewrites = vec![Rewrite { path: git_config, content: git_identity::only_identity }];
    for (name, content) in PACKAGE_SETTINGS {
        let path = context.home.join(name);
        hidden.retain(|hidden| *hidden != path);
        rewrites.push(Rewrite { path, content });
    }
    if context.is_root() {
        hidden.extend(credentials::SYSTEM.iter().map(PathBuf::from).filter(|p| p.symlink_metadata().is_ok()));
        rewrites.extend(credentials::PASSWORD_FILES.iter().map(|f| Rewrite { path: f.into(), content: without_passwords }));
    }
    hidden.extend(credentials::resolve_all(&homes, &masked));
    hidden.retain(|p| !is_exposed(p));
    hidden.extend(credentials::resolve_all(&homes, &config.files.masked_by_project));
    hidden.sort();
    hidden.dedup();
    rewrites.retain(|r| !is_exposed(&r.path) && !hidden.contains(&r.path));
    Secrets { hidden, rewrites }
}

fn listing(directory: &Path) -> Vec<std::ffi::OsString> {
    std::fs::read_dir(directory).into_iter().flatten().filter_map(|e| Some(e.ok()?.file_name())).collect()
}

/// Root can read every home, so every home's credentials are root's to hide.
fn homes(context: &Context) -> Vec<PathBuf> {
    let mut homes = vec![context.home.clone()];
    if context.is_root() {
        homes.push(PathBuf::from("/root"));
        homes.extend(whatif_layers::survey::subdirectories(Path::new("/home")));
        homes.extend(homes_of_people(&std::fs::read_to_string("/etc/passwd").unwrap_or_default()));
    }
    homes.sort();
    homes.dedup();
    homes
}

/// Homes of accounts that can log in, wherever they are.
fn homes_of_people(passwd: &str) -> Vec<PathBuf> {
    let people = passwd.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let (home, shell) = (fields.get(5)?, fields.get(6)?);
        let logs_in = !["nologin", "false", "sync", ""].iter().any(|s| shell.rsplit('/').next() == Some(s));
        (logs_in && home.len() > 1 && home.starts_with('/')).then(|| PathBuf::from(home))
    });
    people.filter(|home| home.is_dir()).collect()
}

fn without_passwords(path: &Path, _cache: &Path) -> std::io::Result<String> {
    Ok(credentials::without_password_hashes(&std::fs::read_to_string(path)?))
}
