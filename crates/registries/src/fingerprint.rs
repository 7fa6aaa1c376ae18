//! What the answers depend on, in one number: looked at on every start, so nothing is run or read for it.

use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::surroundings::Surroundings;
use crate::{cargo, files, git, uv};

const TOOLS: [&str; 12] = ["apt-config", "npm", "node", "yarn", "yarnpkg", "pnpm", "pip3", "pip", "python3", "uv", "cargo", "go"];
/// Variables that name a file to go by.
const FILE_VARIABLES: [&str; 8] = [
    "APT_CONFIG",
    "PIP_CONFIG_FILE",
    "NPM_CONFIG_USERCONFIG",
    "npm_config_userconfig",
    "NPM_CONFIG_GLOBALCONFIG",
    "npm_config_globalconfig",
    "GOENV",
    "UV_CONFIG_FILE",
];
const SYSTEM_FILES: [&str; 9] = [
    "/etc/apt/sources.list",
    "/etc/apt/apt.conf",
    "/etc/pip.conf",
    "/etc/xdg/pip/pip.conf",
    "/etc/npmrc",
    "/usr/etc/npmrc",
    "/usr/local/etc/npmrc",
    "/etc/yarnrc",
    "/usr/local/go/go.env",
];
const HOME_FILES: [&str; 4] = [".npmrc", ".yarnrc", ".yarnrc.yml", ".pip/pip.conf"];
const CONFIG_FILES: [&str; 3] = ["pip/pip.conf", "go/env", "pnpm/rc"];

pub(crate) fn of_tools(surroundings: &Surroundings<'_>) -> String {
    let mut mark = Mark::new("tools", surroundings);
    for tool in TOOLS.into_iter().chain(["rustup"]) {
        match surroundings.program(tool) {
            Some(path) => mark.file(&path),
            None => mark.text(tool),
        }
    }
    // An npm that is not the system's has a system-wide file of its own.
    let beside_npm = surroundings.program("npm").and_then(|path| Some(path.parent()?.parent()?.join("etc/npmrc")));
    beside_npm.into_iter().for_each(|path| mark.file(&path));
    SYSTEM_FILES.iter().for_each(|path| mark.file(Path::new(path)));
    ["/etc/apt/sources.list.d", "/etc/apt/apt.conf.d"].iter().for_each(|path| mark.directory(Path::new(path)));
    FILE_VARIABLES.iter().filter_map(|name| surroundings.variable(name)).for_each(|path| mark.file(&surroundings.home.join(path)));
    HOME_FILES.iter().for_each(|path| mark.file(&surroundings.home.join(path)));
    let config = surroundings.directory("XDG_CONFIG_HOME", ".config");
    CONFIG_FILES.iter().for_each(|path| mark.file(&config.join(path)));
    uv::configuration(surroundings).iter().for_each(|path| mark.file(path));
    let cargo_home = surroundings.directory("CARGO_HOME", ".cargo");
    cargo::configuration(&cargo_home).iter().for_each(|path| mark.file(path));
    for index in files::list(&cargo_home.join("registry/index")) {
        mark.file(&index.join("config.json"));
    }
    mark.file(&surroundings.directory("RUSTUP_HOME", ".rustup").join("toolchains"));
    mark.finish()
}

pub(crate) fn of_project(surroundings: &Surroundings<'_>) -> String {
    let mut mark = Mark::new("project", surroundings);
    surroundings.program("git").into_iter().for_each(|path| mark.file(&path));
    mark.file(&git::configuration(surroundings.project).unwrap_or_default());
    // Whose project it is decides whether a repository above it is believed.
    mark.text(&format!("{:?}", std::fs::metadata(surroundings.project).map(|m| m.uid()).ok()));
    mark.file(&surroundings.home.join(".gitconfig"));
    mark.file(&surroundings.directory("XDG_CONFIG_HOME", ".config").join("git/config"));
    ["/etc/gitconfig", "/usr/local/etc/gitconfig"].iter().for_each(|path| mark.file(Path::new(path)));
    ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"]
        .iter()
        .filter_map(|name| surroundings.variable(name))
        .for_each(|path| mark.file(Path::new(path)));
    mark.finish()
}

struct Mark(String);

impl Mark {
    fn new(kind: &str, surroundings: &Surroundings<'_>) -> Self {
        let mut mark = Self(kind.to_owned());
        mark.path(surroundings.home);
        mark.path(Path::new(&surroundings.search_path()));
        let mut variables = surroundings.variables.clone();
        variables.sort_unstable();
        variables.iter().for_each(|(name, value)| mark.text(&format!("{name}={value}")));
        mark
    }

    /// A text with its length, so that no two lists look the same.
    fn text(&mut self, text: &str) {
        let _ = write!(self.0, "\n{}:{text}", text.len());
    }

    fn path(&mut self, path: &Path) {
        self.text(&format!("{path:?}"));
    }

    fn file(&mut self, path: &Path) {
        self.path(path);
        let state =
            std::fs::metadata(path).map(|m| (m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()));
        let _ = write!(self.0, "{:?}", state.ok());
    }

    fn directory(&mut self, path: &Path) {
        let paths: Vec<PathBuf> = files::list(path);
        self.text(&paths.len().to_string());
        paths.iter().for_each(|path| self.file(path));
    }

    fn finish(self) -> String {
        Sha256::digest(self.0).iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}
