//! Which files tools on the host execute, or obey, without being asked.

use std::path::Path;

use crate::change::{Change, State};
use crate::content;
use crate::node::Kind;

/// Anywhere in a project.
const EXECUTED_NAMES: [&str; 44] = [
    ".gitattributes",
    ".gitmodules",
    ".gitconfig",
    ".envrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".gitlab-ci.yml",
    ".travis.yml",
    ".drone.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "Jenkinsfile",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "justfile",
    "Justfile",
    "Rakefile",
    "Taskfile.yml",
    ".mcp.json",
    ".mise.toml",
    "mise.toml",
    ".tool-versions",
    ".exrc",
    ".nvim.lua",
    ".whatif.toml",
    "build.rs",
    "setup.py",
    "conftest.py",
    "sitecustomize.py",
    "usercustomize.py",
    "pyvenv.cfg",
    "gradlew",
    "mvnw",
    "build.gradle",
    "build.gradle.kts",
    "CMakePresets.json",
    "CMakeUserPresets.json",
    "rust-toolchain.toml",
    "rust-toolchain",
];
/// Whose scripts are run.
const MANIFEST: &str = "package.json";
/// Directories all of whose files are obeyed.
const EXECUTED_DIRECTORIES: [&str; 15] = [
    ".husky",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".circleci",
    ".buildkite",
    ".claude",
    ".codex",
    ".gemini",
    ".cursor",
    ".windsurf",
    ".aider",
    ".zed",
    ".direnv",
    ".mvn",
];
/// In a home or in the system: what shells, sessions and services start with.
const STARTED_NAMES: [&str; 20] = [
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".inputrc",
    ".vimrc",
    ".emacs",
    ".xprofile",
    ".xinitrc",
    ".pam_environment",
];
const STARTED_DIRECTORIES: [&str; 17] = [
    "fish",
    "autostart",
    "environment.d",
    "systemd",
    "nvim",
    "cron.d",
    "cron.daily",
    "cron.hourly",
    "cron.weekly",
    "cron.monthly",
    "profile.d",
    "init.d",
    "sudoers.d",
    "ld.so.conf.d",
    "pam.d",
    "apt.conf.d",
    ".cargo",
];

/// Files that are obeyed in some directory, and nowhere else.
const OBEYED_SOMEWHERE: [&str; 12] = [
    "file",
    "bin/file",
    "config",
    "workflows/file",
    "hooks/file",
    "some/hooks/file",
    "some/config",
    "attributes",
    "info/attributes",
    "alternates",
    "info/alternates",
    "systemd/file",
];

/// Tools on the host run it, or obey it, without being asked. A link counts as what it stands for and as what it leads to: writing to
/// it is writing there.
pub(super) fn is_host_executed(change: &Change, project: &Path) -> bool {
    if change.is_directory() {
        return false;
    }
    let link = change.after.as_ref().filter(|after| after.node.kind == Kind::Link);
    let place = Place::of(&change.path, project);
    let is_in_place = match link {
        Some(_) => place.is_executed() || place.holds_executed(),
        None if change.path.file_name().is_some_and(|name| name == MANIFEST) && !place.is_in_git() => has_other_scripts(change),
        None => place.is_executed(),
    };
    let target = match link {
        Some(link) => super::target_of(change, link),
        None => change.linked.as_ref().map(|linked| linked.path().to_owned()),
    };
    let leads_to = target.as_deref().map(|target| Place::of(target, project));
    is_in_place || leads_to.is_some_and(|place| place.is_executed() || place.holds_executed())
}

/// A path as the rules see it.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// Within the project, if it is in it.
    path: &'a Path,
    is_system: bool,
}

impl<'a> Place<'a> {
    fn of(path: &'a Path, project: &Path) -> Self {
        let relative = path.strip_prefix(project).ok();
        Self { path: relative.unwrap_or(path), is_system: relative.is_none() || project == Path::new("/") }
    }

    fn is_executed(&self) -> bool {
        is_executed(self.path, self.is_system)
    }

    /// Whether a file could be obeyed because it is in this directory.
    fn holds_executed(&self) -> bool {
        let Some(parent) = self.path.parent() else { return false };
        // In git's own directory the names of submodules say nothing.
        let without = if self.is_in_git() { Path::new("") } else { parent };
        let is_executed_in = |directory: &Path, file: &str| is_executed(&directory.join(file), self.is_system);
        OBEYED_SOMEWHERE.iter().any(|file| is_executed_in(self.path, file) && !is_executed_in(without, file))
    }

    fn is_in_git(&self) -> bool {
        self.path.components().any(|c| c.as_os_str() == ".git")
    }
}

fn is_executed(path: &Path, is_system: bool) -> bool {
    let names: Vec<&str> = path.components().filter_map(|c| c.as_os_str().to_str()).collect();
    let Some((name, directories)) = names.split_last() else { return false };
    let within = |directory: &str| directories.contains(&directory);
    let ends_with = |ending: &str| Path::new(name).extension().is_some_and(|e| e == ending);
    if let Some(at) = directories.iter().position(|d| *d == ".git") {
        return is_executed_by_git(&directories[at + 1..], name);
    }
    let mut executed = *name == MANIFEST || EXECUTED_NAMES.contains(name) || EXECUTED_DIRECTORIES.iter().any(|d| within(d));
    executed |= ["mk", "code-workspace", "pth", "desktop"].iter().any(|e| ends_with(e));
    executed |= *name == ".git";
    executed |= directories.iter().any(|d| d.starts_with(".venv") || *d == "venv") && within("bin");
    executed |= within(".github") && (within("workflows") || within("actions"));
    executed |= within(".cargo") && name.starts_with("config");
    // A project may be a home, or hold what a home links to.
    executed |= STARTED_NAMES.contains(name) || within(".ssh") || (within(".local") && within("bin"));
    executed |= within(".config") && STARTED_DIRECTORIES.iter().any(|d| within(d));
    if is_system {
        executed |= STARTED_DIRECTORIES.iter().any(|d| within(d));
        executed |=
            matches!(*name, "crontab" | "sudoers" | "ld.so.preload" | "rc.local" | "profile" | "bash.bashrc" | "environment");
    }
    executed
}

fn is_executed_by_git(directories: &[&str], name: &str) -> bool {
    match directories.first() {
        Some(&"hooks") => Path::new(name).extension().is_none_or(|e| e != "sample"),
        // Submodules and worktrees have configurations and hooks of their own.
        Some(&("modules" | "worktrees")) => directories.contains(&"hooks") || name.starts_with("config"),
        Some(&"info") => name == "attributes",
        Some(&"objects") => directories.get(1) == Some(&"info") && name == "alternates",
        Some(_) => false,
        None => name.starts_with("config") || matches!(name, "commondir" | "gitdir"),
    }
}

/// Package managers run the scripts of a manifest; its other parts are data.
fn has_other_scripts(change: &Change) -> bool {
    let scripts = |state: Option<&State>| {
        let bytes = state.and_then(|s| content::read(&s.at).ok())?;
        let manifest: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
        manifest.get("scripts").cloned()
    };
    scripts(change.before.as_ref()) != scripts(change.after.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_executes_hooks_and_obeys_its_configuration() {
        assert!(is_executed_by_git(&["hooks"], "pre-commit"));
        assert!(!is_executed_by_git(&["hooks"], "pre-commit.sample"));
        assert!(is_executed_by_git(&[], "config"));
        assert!(!is_executed_by_git(&["objects", "ab"], "config"));
    }

    #[test]
    fn a_directory_is_known_by_what_it_could_hold() {
        let holds = |path: &str| Place { path: Path::new(path), is_system: false }.holds_executed();
        let obeyed = [
            ".github",
            ".github/workflows",
            ".vscode",
            "sub/.husky",
            ".venv",
            "venv/bin",
            ".cargo",
            ".config",
            ".ssh",
            ".git",
            ".git/hooks",
            ".git/info",
            ".git/objects/info",
            ".git/modules",
            ".git/modules/sub",
            ".git/worktrees/one",
        ];
        for path in obeyed {
            assert!(holds(path), "{path}");
        }
        for path in ["src", "hooks", "workflows", "bin", "venv/lib64", ".git/refs", ".git/logs", ".github/images/x", ""] {
            assert!(!holds(path), "{path}");
        }
    }
}
