//! Whose tools will run what an apply makes real.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use whatif_diff::Account;
use whatif_sys::absence::OrAbsent;

use crate::git::home_of;
use crate::{Caller, EngineError};

/// The caller's account, and where root works in somebody else's project, theirs too.
pub(crate) fn of(caller: &Caller, project: &Path) -> Result<Account, EngineError> {
    let variable = |name: &str| caller.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let metadata = std::fs::metadata(project).or_absent().map_err(|e| EngineError::io("examine", project, e))?;
    let owner = metadata.map(|m| m.uid()).filter(|uid| caller.is_root() && *uid != 0).and_then(home_of);
    let configured = |home: &PathBuf| [home.join(".gitconfig"), home.join(".config/git/config")];
    let mut git_settings: Vec<PathBuf> = match variable("GIT_CONFIG_SYSTEM") {
        Some(file) => vec![file.into()],
        None => vec!["/etc/gitconfig".into(), "/usr/local/etc/gitconfig".into()],
    };
    match variable("GIT_CONFIG_GLOBAL") {
        Some(file) => git_settings.push(file.into()),
        None => git_settings.extend(configured(&caller.home)),
    }
    if let Some(directory) = variable("XDG_CONFIG_HOME").filter(|_| variable("GIT_CONFIG_GLOBAL").is_none()) {
        git_settings.push(Path::new(directory).join("git/config"));
    }
    git_settings.extend(owner.iter().flat_map(configured));
    // Where a relative one is depends on where git is called.
    git_settings.retain(|file| file.is_absolute());
    let search_path = variable("PATH").map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
    Ok(Account { homes: [caller.home.clone()].into_iter().chain(owner).collect(), git_settings, search_path })
}
