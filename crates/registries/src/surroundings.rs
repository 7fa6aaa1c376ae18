//! Where tools are looked for and what they are told, without anything that leads into the project.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use whatif_sys::programs::Programs;

use crate::Asker;
use crate::ask::PATIENCE;

/// What the tools go by. The rest of a user's environment is no concern of theirs, and some of it makes a tool run other
/// code (`NODE_OPTIONS`, `PYTHONSTARTUP`, `GIT_EXTERNAL_DIFF`).
const VARIABLES: [&str; 21] = [
    "LANG",
    "LC_ALL",
    "XDG_CONFIG_HOME",
    "XDG_CONFIG_DIRS",
    "APT_CONFIG",
    "CARGO_HOME",
    "GOPROXY",
    "GOSUMDB",
    "GOENV",
    "GOFLAGS",
    "GOROOT",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "NVM_DIR",
    "PNPM_HOME",
    "VOLTA_HOME",
    "YARN_REGISTRY",
    "YARN_NPM_REGISTRY_SERVER",
];
const FAMILIES: [&str; 6] = ["PIP_", "UV_", "NPM_CONFIG_", "npm_config_", "CARGO_REGISTRIES_", "RUSTUP_"];

#[derive(Debug)]
pub(crate) struct Surroundings<'a> {
    pub(crate) home: &'a Path,
    pub(crate) project: &'a Path,
    pub(crate) variables: Vec<(&'a str, &'a str)>,
    /// When the last answer must be there.
    pub(crate) deadline: Instant,
    programs: Programs,
}

impl<'a> Surroundings<'a> {
    pub(crate) fn new(asker: &Asker<'a>) -> Self {
        let mut surroundings = Self {
            home: asker.home,
            project: asker.project,
            variables: Vec::new(),
            deadline: Instant::now() + PATIENCE,
            programs: Programs::new(asker.path, asker.home, asker.project),
        };
        let is_ours = |name: &str| VARIABLES.contains(&name) || FAMILIES.iter().any(|family| name.starts_with(family));
        let variables = asker.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let variables = variables.filter(|(name, value)| is_ours(name) && !name.contains('=') && !value.contains('\0'));
        surroundings.variables = variables.filter(|(_, value)| surroundings.is_open_list(value)).collect();
        surroundings
    }

    /// Whether the path does not lead into the project.
    pub(crate) fn is_open(&self, path: &Path) -> bool {
        self.programs.is_open(path)
    }

    fn is_open_list(&self, value: &str) -> bool {
        // Relative names are looked up where the tool is asked, and that is not in the project.
        value.split(':').map(Path::new).filter(|part| part.is_absolute()).all(|part| self.is_open(part))
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&'a str> {
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).filter(|value| !value.is_empty())
    }

    /// The value as a directory, or one below the home.
    pub(crate) fn directory(&self, variable: &str, below_home: &str) -> PathBuf {
        let named = self.variable(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        named.unwrap_or_else(|| self.home.join(below_home))
    }

    /// The program a shell would run, unless it lies in the project.
    pub(crate) fn program(&self, name: &str) -> Option<PathBuf> {
        self.programs.find(name)
    }

    pub(crate) fn search_path(&self) -> OsString {
        self.programs.search_path()
    }
}
