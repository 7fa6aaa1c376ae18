//! Where tools are looked for and what they are told, without anything that leads into the project.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

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
    directories: Vec<PathBuf>,
    /// The project, as it was named and as it is; empty if it holds the user's own home: what is set up there is the user's.
    closed: Vec<PathBuf>,
}

impl<'a> Surroundings<'a> {
    pub(crate) fn new(asker: &Asker<'a>) -> Self {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (home, project) = (real(asker.home), real(asker.project));
        let closed = if home.starts_with(&project) { Vec::new() } else { vec![project, asker.project.to_owned()] };
        let mut surroundings = Self {
            home: asker.home,
            project: asker.project,
            variables: Vec::new(),
            deadline: Instant::now() + PATIENCE,
            directories: Vec::new(),
            closed,
        };
        // A name relative to wherever one is would be looked up in the project.
        let directories = std::env::split_paths(asker.path).filter(|directory| directory.is_absolute());
        surroundings.directories = directories.filter(|directory| surroundings.is_open(directory)).collect();
        let is_ours = |name: &str| VARIABLES.contains(&name) || FAMILIES.iter().any(|family| name.starts_with(family));
        let variables = asker.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let variables = variables.filter(|(name, value)| is_ours(name) && !name.contains('=') && !value.contains('\0'));
        surroundings.variables = variables.filter(|(_, value)| surroundings.is_open_list(value)).collect();
        surroundings
    }

    /// Whether the path does not lead into the project.
    pub(crate) fn is_open(&self, path: &Path) -> bool {
        let real = path.canonicalize().unwrap_or_else(|_| lexically_normal(path));
        !self.closed.iter().any(|closed| real.starts_with(closed) || path.starts_with(closed))
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
        self.directories.iter().map(|directory| directory.join(name)).find(|path| {
            let metadata = std::fs::metadata(path);
            metadata.is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0) && self.is_open(path)
        })
    }

    pub(crate) fn search_path(&self) -> OsString {
        std::env::join_paths(&self.directories).unwrap_or_default()
    }
}

/// For what does not exist.
fn lexically_normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut normal, component| {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
        normal
    })
}
