use super::*;

fn is_executed(path: &str) -> bool {
    Place::of(&Path::new("/p").join(path), Path::new("/p")).is_executed()
}

/// Every line of the table with a file that it is about; the manifests stand for themselves.
#[test]
fn everything_in_the_table_is_flagged_in_any_spelling() {
    let mut checked = 0;
    for written in table::OBEYED.iter().copied().flatten() {
        let path = format!("{}{}", written.replace('*', ".x"), if written.ends_with('/') { "file" } else { "" });
        let upper = path.to_uppercase();
        for spelling in [&path, &upper, &format!("deep/er/{path}"), &format!("{path}. "), &format!("{path}::$DATA")] {
            assert!(is_executed(spelling), "{spelling}");
        }
        checked += 1;
    }
    assert!(checked > 200, "{checked}");
}

#[test]
fn hostile_spellings_are_flagged() {
    let flagged = [
        ".GIT/hooks/pre-commit",
        ".Git/Config",
        "sub/.GIT/HOOKS/post-checkout",
        ".git./hooks/x",
        ".g\u{200d}it/config",
        "GIT~1/hooks/x",
        "GIT~1/HOOKS~1/x",
        "PACKAGE.JSON",
        "PackAge.Json.",
        "PACKAG~1.JSO",
        "MAKEFILE",
        "GITMOD~1",
        "gi7eba~1",
        "CLAUDE~1.MD",
        ".Claude/settings.json",
        "AGENTS.MD",
        "docs/Claude.md",
        ".pnp.cjs",
        ".yarn/releases/yarn-4.1.0.cjs",
        ".yarn/plugins/@yarnpkg/plugin-x.cjs",
        ".yarnrc.yml",
        "node_modules/.bin/tsc",
        "node_modules/a/node_modules/.bin/tsc",
        "NODE_MODULES/.bin/x",
        ".env",
        ".env.local",
        ".ENV",
        ".envrc",
        ".aider.conf.yml",
        ".aider.model.settings.yml",
        ".cursorrules",
        ".cursor/rules/x.mdc",
        ".github/copilot-instructions.md",
        ".github/instructions/a.instructions.md",
        ".GitHub/Workflows/ci.yml",
        "GEMINI.md",
        ".mcp.json",
        "pyproject.toml",
        "setup.cfg",
        "Cargo.toml",
        ".cargo/config",
        "a\\.git\\hooks\\x",
        ".venv3/bin/python",
        ".git/rebase-merge/git-rebase-todo",
        ".git/REBASE-MERGE/Git-Rebase-Todo",
        ".hg/hgrc",
        ".jj/repo/config.toml",
        ".sl/config",
        ".ghci",
        ".Rprofile",
        ".latexmkrc",
        "WORKSPACE",
        "pkg/BUILD",
        "tools/bazel",
        "Setup.lhs",
        "project/metals.sbt",
        "gradle/libs.gradle",
        "buildSrc/src/main/kotlin/x.kt",
        "BSDmakefile",
        "build.ninja",
        "Directory.Build.rsp",
        "sitecustomize/__init__.py",
        ".pdbrc",
        ".pylintrc",
        "ansible.cfg",
        ".ocamlinit",
        ".iex.exs",
        "config.nims",
        "Package.swift",
        "project.clj",
        ".bundle/config",
        ".proverc",
        ".jvmopts",
        ".sbtopts",
        "tools-env/bin/activate.fish",
        "tools-env/bin/python3",
        "env/bin/pip",
        ".config/mise/conf.d/a.toml",
        "mise-tasks/build",
        "Makefile.PL",
        "Build.PL",
        "rebar.config.script",
        "build.sc",
        "deps.edn",
        ".bsp/mill.json",
        "hie.yaml",
        ".luacheckrc",
        ".perldb",
        "jupyter_notebook_config.py",
        ".envrc.local",
        ".pyenv/shims/python",
        ".asdf/shims/node",
        ".local/share/mise/shims/node",
        ".nvm/nvm.sh",
        ".oh-my-zsh/custom/a.zsh",
        ".bash_completion",
        ".config/openbox/autostart",
        ".config/plasma-workspace/env/a.sh",
        ".config/i3/config",
        ".config/sway/config",
        ".config/hypr/hyprland.conf",
    ];
    for path in flagged {
        assert!(is_executed(path), "{path}");
    }
}

#[test]
fn ordinary_files_are_not() {
    let plain = [
        "src/main.rs",
        "README.md",
        "docs/agents/intro.md",
        "hooks/pre-commit",
        "config",
        "env",
        "environment.ts",
        ".env.example",
        "sub/.ENV.Example",
        ".yarn/install-state.gz",
        ".yarn/cache/left-pad.zip",
        "node_modules/left-pad/index.js",
        ".gitignore",
        ".github/CODEOWNERS",
        ".github/images/x.png",
        ".git/refs/heads/Makefile",
        ".git/objects/ab/config",
        ".git/hooks/pre-commit.sample",
        ".git/rebase-merge/msgnum",
        ".hg/dirstate",
        ".jj/repo/store/type",
        "config.toml",
        "makefiles/a.c",
        "bin/x",
        "lib/venv.py",
        "a~1",
        "notes~12.txt",
        "\u{200c}",
    ];
    for path in plain {
        assert!(!is_executed(path), "{path}");
    }
}

#[test]
fn the_system_starts_more_outside_the_project() {
    let is_executed = |path: &str| Place::of(Path::new(path), Path::new("/home/u/p")).is_executed();
    for path in ["/etc/cron.d/x", "/etc/profile", "/home/u/.cargo/env", "/etc/ld.so.preload", "/home/u/.bashrc"] {
        assert!(is_executed(path), "{path}");
    }
    assert!(!is_executed("/home/u/notes") && !is_executed("/home/u/p/src/profile"));
}

#[test]
fn git_executes_hooks_and_obeys_its_configuration() {
    let by_git = |path: &str| is_executed_by_git(&folded::parts(Path::new(path)));
    for path in ["hooks/pre-commit", "config", "config.worktree", "modules/a/b/config", "modules/a/hooks/x", "worktrees/w/gitdir"] {
        assert!(by_git(path), "{path}");
    }
    for path in ["rebase-merge/git-rebase-todo", "rebase-apply/author-script", "worktrees/w/rebase-merge/git-rebase-todo"] {
        assert!(by_git(path), "{path}");
    }
    for path in ["rebase-merge/msgnum", "rebase-merge/done", "git-rebase-todo"] {
        assert!(!by_git(path), "{path}");
    }
    for path in ["hooks/pre-commit.sample", "objects/ab/config", "HEAD", "refs/heads/config", "modules/a/hooks/x.sample"] {
        assert!(!by_git(path), "{path}");
    }
}

#[test]
fn a_directory_is_known_by_what_it_could_hold() {
    let holds = |path: &str| Place::of(&Path::new("/p").join(path), Path::new("/p")).holds_executed();
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
        ".GIT",
        ".git/hooks",
        ".git/info",
        ".git/objects/info",
        ".git/modules",
        ".git/modules/sub",
        ".git/worktrees/one",
        "node_modules",
        ".yarn",
        ".yarn/Releases",
    ];
    for path in obeyed {
        assert!(holds(path), "{path}");
    }
    for path in ["src", "hooks", "workflows", "bin", "venv/lib64", ".git/refs", ".git/logs", ".github/images/x", ""] {
        assert!(!holds(path), "{path}");
    }
}
