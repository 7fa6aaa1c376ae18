//! The list of what tools on the host execute or obey without being asked. One line a tool; add yours where it belongs.
//!
//! | written | means |
//! | --- | --- |
//! | `name` | a file called so, anywhere |
//! | `dir/` | everything in a directory called so |
//! | `dir/name`, `dir/sub/` | the same, with what is right above it |
//! | `name*`, `*.ending` | at the beginning or end of a part, anything |
//!
//! All in lower case: names are compared as [`folded`](super::super::folded) says.

/// Anywhere in a project, whatever is in them.
pub(super) const OBEYED: &[&[&str]] = &[
    // git. What is in `.git` itself is in `executed.rs`.
    &[".git", ".gitattributes", ".gitmodules", ".gitconfig", ".lfsconfig", ".config/git/"],
    // Mercurial, Jujutsu, Sapling.
    &[".hg/hgrc*", ".hgrc", ".jj/repo/config.toml", ".jj/workspace-config.toml", ".jjconfig.toml", ".sl/config", ".sl/hgrc*"],
    // Programs that install git hooks.
    &[".husky/", ".githooks/", ".pre-commit-config.yaml", ".pre-commit-config.yml", ".pre-commit-hooks.yaml"],
    &["lefthook.yml", "lefthook.yaml", "lefthook.toml", ".lefthook*", "lefthook-local.*", ".overcommit.yml"],
    &[".lintstagedrc*", "lint-staged.config.*", "commitlint.config.*", ".simple-git-hooks.*", "simple-git-hooks.*"],
    // npm, yarn, pnpm, bun. `package.json` is in `manifest.rs`.
    &[".npmrc", "node_modules/.bin/", "node_modules/.hooks/", "binding.gyp", "bunfig.toml"],
    &[".yarnrc", ".yarnrc.yml", ".yarn/releases/", ".yarn/plugins/", ".yarn/sdks/", ".pnp.cjs", ".pnp.js", ".pnp.loader.mjs"],
    &[".pnpmfile.cjs", ".pnpmfile.mjs", "pnpm-workspace.yaml", "gulpfile.*", "gruntfile.*"],
    // What editors run to check and format.
    &[
        ".eslintrc.js",
        ".eslintrc.cjs",
        "eslint.config.*",
        ".prettierrc.js",
        ".prettierrc.cjs",
        ".prettierrc.mjs",
        "prettier.config.*",
    ],
    &[".luacheckrc"],
    // Python. `pyproject.toml` is in `manifest.rs`.
    &["setup.py", "setup.cfg", "conftest.py", "noxfile.py", "tox.ini", "hatch_build.py", "fabfile.py", "dodo.py"],
    &[
        "sitecustomize.py",
        "usercustomize.py",
        "sitecustomize/__init__.py",
        "usercustomize/__init__.py",
        "jupyter_notebook_config.py",
        ".pdbrc",
        ".pylintrc",
        "pylintrc",
        "*.pth",
        "pyvenv.cfg",
        ".venv*/bin/",
        "venv/bin/",
        "env/bin/",
        ".venv*/scripts/",
        "venv/scripts/",
    ],
    // Rust. `Cargo.toml` is in `manifest.rs`.
    &["build.rs", ".cargo/config*", "rust-toolchain", "rust-toolchain.toml"],
    // make and its like.
    &["makefile", "gnumakefile", "makefile.am", "makefile.in", "*.mk", "*.mak", "justfile", ".justfile", "*.just", "rakefile"],
    &["bsdmakefile", "build.ninja", "rakefile.rb"],
    &["taskfile.yml", "taskfile.yaml", "taskfile.dist.yml", "taskfile.dist.yaml", "magefile.go", "build.zig"],
    &[
        "cmakelists.txt",
        "*.cmake",
        "cmakepresets.json",
        "cmakeuserpresets.json",
        "meson.build",
        "sconstruct",
        "sconscript",
        "wscript",
    ],
    &["build", "workspace", "tools/bazel"],
    &["build.bazel", "workspace.bazel", "module.bazel", ".bazelrc", "*.bzl", ".buckconfig", "configure", "configure.ac"],
    // Java, .NET, Ruby, Elixir, Haskell, Nix.
    &["gradlew", "gradlew.bat", "*.gradle", "*.gradle.kts", "gradle.properties", "gradle/wrapper/", "buildsrc/"],
    &["mvnw", "mvnw.cmd", ".mvn/", "pom.xml", "*.sbt", "build.xml", ".jvmopts", ".sbtopts", "project.clj"],
    &["project/*.scala", "project/build.properties"],
    &[
        "directory.build.*",
        "directory.packages.props",
        "directory.solution.*",
        "*.targets",
        "*.csproj",
        "*.fsproj",
        "*.vbproj",
        "*.vcxproj",
        "nuget.config",
    ],
    &[
        "gemfile",
        "*.gemspec",
        ".rspec",
        ".irbrc",
        ".pryrc",
        "podfile",
        "vagrantfile",
        "guardfile",
        "fastfile",
        "mix.exs",
        "setup.hs",
        "setup.lhs",
    ],
    &[".bundle/config", "package.swift", "config.nims", "*.nims", "*.nimble", "ansible.cfg"],
    &["build.sc", "build.mill", ".bsp/", "deps.edn", "rebar.config", "rebar.config.script", "makefile.pl", "build.pl", "hie.yaml"],
    // What interpreters and typesetters read where they are started.
    &[".ocamlinit", ".iex.exs", ".proverc", ".perldb"],
    &[".ghci", ".rprofile", "rprofile.site", ".renviron", ".latexmkrc", "latexmkrc"],
    &["flake.nix", "default.nix", "shell.nix", "devenv.nix", "devbox.json"],
    // Variables and versions, loaded on entering a directory or by the program itself. Not `.env.example`, see `HARMLESS`.
    &[".env", ".env.*", ".flaskenv", ".envrc", ".envrc.local", ".direnv/", ".autoenv*", ".tool-versions", ".sdkmanrc"],
    &[".mise.toml", ".mise.*.toml", "mise.toml", "mise.*.toml", ".mise/", "mise/config*", ".config/mise*", ".rtx.toml"],
    &[".config/mise/", "mise-tasks/", ".mise-tasks/", "mise/shims/", ".asdf/shims/", ".asdf/bin/", ".asdf/asdf.*"],
    &[".pyenv/shims/", ".rbenv/shims/", ".nvm/nvm.sh", ".nvm/bash_completion"],
    // Editors and debuggers.
    &[".vscode/", "*.code-workspace", ".idea/", ".devcontainer/", ".devcontainer.json", ".zed/", ".fleet/", ".vs/", ".theia/"],
    &[".exrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".vim/", ".dir-locals.el", ".dir-locals-2.el", ".helix/", ".clangd"],
    &[".ycm_extra_conf.py", ".gdbinit", ".lldbinit"],
    // Agents: settings and instructions.
    &["claude.md", "claude.local.md", ".claude/", ".claude.json", ".mcp.json", "mcp.json"],
    &[
        "agents.md",
        "agents.override.md",
        "agent.md",
        ".agents/",
        "codex.md",
        ".codex/",
        "gemini.md",
        ".gemini/",
        "qwen.md",
        ".qwen/",
    ],
    &[".cursor/", ".cursorrules", ".windsurf/", ".windsurfrules", ".codeium/", ".clinerules", ".clinerules/", ".cline/"],
    &[
        ".roo/",
        ".roorules*",
        ".roomodes",
        ".kilocode/",
        ".kiro/",
        ".continue/",
        ".continuerules",
        ".aider.conf*",
        ".aider.model*",
        ".aider/",
    ],
    &[".github/copilot-*", ".github/instructions/", ".github/prompts/", ".github/chatmodes/", ".github/agents/", ".github/skills/"],
    &[".goosehints", ".goose/", ".junie/", ".augment/", ".augment-guidelines", ".trae/", ".amazonq/", ".factory/", ".openhands/"],
    &[
        "opencode.json",
        "opencode.jsonc",
        ".opencode/",
        "crush.json",
        ".crush.json",
        "crush.md",
        ".crush/",
        "warp.md",
        ".rules",
        ".replit",
    ],
    // Build servers.
    &[".github/workflows/", ".github/actions/", ".gitlab-ci.yml", ".gitlab/", ".forgejo/", ".gitea/", ".circleci/", ".buildkite/"],
    &[".travis.yml", ".drone.yml", ".drone.yaml", ".drone.star", ".woodpecker.yml", ".woodpecker/", ".cirrus.yml", ".cirrus.star"],
    &["azure-pipelines.yml", "azure-pipelines.yaml", "bitbucket-pipelines.yml", "jenkinsfile", "appveyor.yml", ".appveyor.yml"],
    &[".semaphore/", ".teamcity/", "buildspec.yml", "cloudbuild.yaml", "dangerfile"],
    // Ours.
    &[".whatif.toml", ".config/whatif/", ".local/state/whatif/"],
    // What shells, sessions and desktops start with: a project may be a home, or hold what a home links to.
    &[".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc", ".kshrc", ".cshrc"],
    &[".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".tcshrc", ".login", ".vimrc", ".emacs", ".emacs.d/", ".tmux.conf"],
    &[".xprofile", ".xinitrc", ".xsession", ".xsessionrc", ".pam_environment", ".ssh/", ".local/bin/", "*.desktop"],
    &[".bash_completion", ".oh-my-zsh/", ".p10k.zsh", ".fzf.bash", ".fzf.zsh", ".mkshrc"],
    &[".config/openbox/", ".config/plasma-workspace/env/", ".config/i3/", ".config/sway/", ".config/hypr/"],
    &[".config/fish/", ".config/autostart/", ".config/environment.d/", ".config/systemd/", ".config/nvim/"],
];

/// Of these, examples that nothing reads.
pub(super) const HARMLESS: &[&str] = &[".env.example", ".env.sample", ".env.template", ".env.dist"];

/// Outside the project, or with `/` as the project: what the system starts.
pub(super) const STARTED: &[&[&str]] = &[
    &["lib/whatif/", "state/whatif/", "fish/", "autostart/", "environment.d/", "systemd/", "nvim/", ".cargo/"],
    &["cron.d/", "cron.daily/", "cron.hourly/", "cron.weekly/", "cron.monthly/", "crontab", "crontabs/", "at.allow"],
    &["profile", "profile.d/", "bash.bashrc", "environment", "init.d/", "rc.local", "udev/", "xinetd.d/"],
    &["sudoers", "sudoers.d/", "pam.d/", "ld.so.preload", "ld.so.conf", "ld.so.conf.d/", "apt.conf.d/", "modprobe.d/"],
];
