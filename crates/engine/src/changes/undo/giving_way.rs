//! Logs, caches and other files that programs write all the time. That they changed since an apply is no reason not to undo the rest
//! of it: they stay as they are, and are named.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use whatif_apply::Changed;
use whatif_diff::ignored::Rules;
use whatif_diff::noise::is_noise;

use crate::EngineError;
use crate::changes::Changes;
use crate::changes::history::Page;

pub(super) struct GivingWay<'a> {
    project: &'a Path,
    /// By the project's rules as they are in reality, with what the user ignores.
    ignore: Vec<String>,
    tracked: HashSet<PathBuf>,
    /// Files in which all that the apply left is still at their beginning.
    grown: &'a HashSet<PathBuf>,
}

impl<'a> GivingWay<'a> {
    pub(super) fn of(changes: &Changes, page: &'a Page, grown: &'a HashSet<PathBuf>) -> Result<Self, EngineError> {
        // An undo may be what brings back a project's file that can be read. Until then only its other rules count.
        let ignore = changes.ground.caller.config_for(&page.project).map(|config| config.diff.ignore).unwrap_or_default();
        Ok(Self { project: &page.project, ignore, tracked: changes.ground.tracked(&page.project)?, grown })
    }

    /// Those that may stay as they are. What was asked for by its name is wanted.
    pub(super) fn all(&self, changed: &[Changed], is_named: &dyn Fn(&Path) -> bool) -> Vec<Changed> {
        let mut rules = Rules::new(self.project, &[], &self.ignore);
        let mut known: HashMap<PathBuf, bool> = HashMap::new();
        let mut gives_way = |path: &Path| {
            let found = *known.entry(path.to_owned()).or_insert_with(|| {
                let is_ignored = rules.is_ignored(path, false) && !self.tracked.contains(path) && !is_in_git(path);
                is_noise(path, self.project) || is_ignored || self.grown.contains(path) && is_log(path)
            });
            found && !is_named(path)
        };
        changed.iter().filter(|one| gives_way(&one.path)).cloned().collect()
    }
}

/// Branches and what else git keeps are no caches.
fn is_in_git(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == ".git")
}

/// Written at its end by programs, by what it is called.
fn is_log(path: &Path) -> bool {
    let name = path.file_name().map(OsStr::to_string_lossy).unwrap_or_default().to_lowercase();
    let lies_in = |directory: &str| path.parent().is_some_and(|p| p.components().any(|part| part.as_os_str() == directory));
    let is_history = name.starts_with('.') && name.ends_with("_history");
    name.ends_with(".log") || name.contains(".log.") || name == "nohup.out" || is_history || lies_in("log") || lies_in("logs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_known_by_their_names() {
        for log in ["/p/app.log", "/p/app.log.1", "/var/log/messages", "/p/logs/today", "/home/u/.bash_history", "/p/nohup.out"] {
            assert!(is_log(Path::new(log)), "{log}");
        }
        for other in ["/p/main.rs", "/p/catalog", "/p/log", "/p/blog/post", "/p/history"] {
            assert!(!is_log(Path::new(other)), "{other}");
        }
    }
}
