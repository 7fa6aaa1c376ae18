//! Who asks, from where, with what environment. Built once at the edge; the engine reads nothing of it by itself.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use whatif_sys::absence;
use whatif_types::config::UserConfig;
use whatif_types::{Identity, Principal, Selector, mask};

use crate::config_file::ConfigError;
use crate::git::first_with;
use crate::{EngineError, config_file};

/// The kernel ends the name of a directory with this that was deleted.
pub const LOST: &str = " (deleted)";

#[derive(Clone, Debug)]
pub struct Caller {
    /// Who is named as the one who did it.
    pub principal: Principal,
    /// By which client: events and the audit log name it.
    pub via: &'static str,
    /// Whose rights are used.
    pub uid: u32,
    pub gid: u32,
    pub home: PathBuf,
    pub cwd: PathBuf,
    pub runtime_dir: Option<PathBuf>,
    pub environment: Vec<(String, String)>,
    pub config: UserConfig,
}

impl Caller {
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Whether its sandboxes are made with root's rights: they show everything as copy-on-write, and owners as they are. Root of a
    /// container often lacks these rights, and works as an ordinary user does.
    #[must_use]
    pub fn works_as_root(&self) -> bool {
        self.identity().started_by_root()
    }

    /// The identity a new sandbox of this caller has, if nothing forbids the better one.
    #[must_use]
    pub(crate) fn identity(&self) -> Identity {
        whatif_provider::usual().identity_of(self.uid, self.gid)
    }

    /// The sandbox that this is the inside of, where nothing can be done. Only its own variable tells.
    #[must_use]
    pub(crate) fn nesting(&self) -> Option<String> {
        let (_, outer) = self.environment.iter().find(|(name, _)| name == "WHATIF_SANDBOX")?;
        Some(outer.clone())
    }

    /// The directory whose changes a sandbox is about: the repository around `directory`, or else itself.
    pub fn project_of(&self, directory: &Path) -> Result<PathBuf, EngineError> {
        self.require_directory(directory)?;
        Ok(first_with(directory, &[".git", PROJECT_CONFIG])?.unwrap_or(directory).to_owned())
    }

    /// Refuses the caller's directory where that was deleted: nothing lies in it, and no path leads there.
    pub(crate) fn require_directory(&self, directory: &Path) -> Result<(), EngineError> {
        match directory == self.cwd && self.has_lost_directory()? {
            true => Err(EngineError::no_current_directory()),
            false => Ok(()),
        }
    }

    /// Whether the caller's directory was deleted.
    pub(crate) fn has_lost_directory(&self) -> Result<bool, EngineError> {
        let is_named_so = self.cwd.as_os_str().as_bytes().ends_with(LOST.as_bytes());
        let leads_somewhere = || absence::leads_somewhere(&self.cwd).map_err(|e| EngineError::io("examine", &self.cwd, e));
        Ok(is_named_so && !leads_somewhere()?)
    }

    /// The sandbox that is meant here by a word; without one, the latest of the project around the caller.
    pub fn selector(&self, word: Option<&str>) -> Result<Selector, EngineError> {
        match word {
            Some(word) => Ok(word.into()),
            None => Ok(Selector::LatestOf(self.project_of(&self.cwd)?)),
        }
    }

    /// The user's configuration as this project tightens it.
    pub(crate) fn config_for(&self, project: &Path) -> Result<UserConfig, EngineError> {
        self.config_by(project, &project.join(PROJECT_CONFIG))
    }

    /// The same with a file that lies elsewhere.
    pub(crate) fn config_by(&self, project: &Path, file: &Path) -> Result<UserConfig, EngineError> {
        let path = project.join(PROJECT_CONFIG);
        let Some(text) = config_file::read(file).map_err(|source| EngineError::io("read", file, source))? else {
            return Ok(self.config.clone());
        };
        let told = |message| EngineError::from(ConfigError { path: path.clone(), message });
        let mut tightening = config_file::of_project(&text).map_err(told)?;
        for entry in &mut tightening.files.mask {
            *entry = mask::in_project(entry, project).map_err(told)?;
        }
        self.config.clone().tightened_by(&tightening).map_err(|e| ConfigError { path, message: e.to_string() }.into())
    }
}

/// The file in which a project may ask for more caution.
pub const PROJECT_CONFIG: &str = ".whatif.toml";
