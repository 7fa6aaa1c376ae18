//! What is hidden from a sandbox: whose credentials, and which files are shown rewritten.

use std::path::{Path, PathBuf};

use whatif_layers::masks::Rewrite;
use whatif_types::config::UserConfig;
use whatif_types::credentials;

use crate::{Context, git_identity};

/// The paths and rewrites for one sandbox.
#[derive(Debug)]
pub(crate) struct Secrets {
    pub hidden: Vec<PathBuf>,
    pub rewrites: Vec<Rewrite>,
}

pub(crate) fn of(context: &Context, config: &UserConfig, mask: &[String], expose: &[String]) -> Secrets {
    let homes = homes(context);
    let extra: Vec<String> = config.files.mask.iter().chain(mask).cloned().collect();
    // What is masked by name on the command line wins over what the configuration exposes in general.
    let exposed: Vec<String> = config.files.expose.iter().chain(expose).filter(|e| !mask.contains(e)).cloned().collect();
    let mut hidden = credentials::masked_paths(&homes, context.is_root(), &extra, &exposed);
    let mut rewrites = Vec::new();
    let is_exposed = |path: &Path| credentials::is_exposed(&homes, &exposed, path);
    let git_config = context.home.join(credentials::GIT_CONFIG);
    if !is_exposed(&git_config) {
        rewrites.push(Rewrite { path: git_config, content: git_identity::only_identity });
    }
    for home in homes.iter().filter(|h| **h != context.home) {
        hidden.push(home.join(credentials::GIT_CONFIG));
    }
    if context.is_root() {
        for file in credentials::PASSWORD_FILES.iter().map(PathBuf::from).filter(|f| !is_exposed(f)) {
            rewrites.push(Rewrite { path: file, content: without_passwords });
        }
    }
    Secrets { hidden, rewrites }
}

/// Root can read every home, so every home's credentials are root's to hide.
fn homes(context: &Context) -> Vec<PathBuf> {
    let mut homes = vec![context.home.clone()];
    if context.is_root() {
        homes.push(PathBuf::from("/root"));
        homes.extend(whatif_layers::survey::subdirectories(Path::new("/home")));
    }
    homes.sort();
    homes.dedup();
    homes
}

fn without_passwords(path: &Path, _cache: &Path) -> std::io::Result<String> {
    Ok(credentials::without_password_hashes(&std::fs::read_to_string(path)?))
}
