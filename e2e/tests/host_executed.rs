//! What tools on the host execute or obey is flagged under every name it can be found by.

use whatif_e2e::{World, as_root_and_user, change};

as_root_and_user!(
    every_spelling_needs_its_own_approval,
    manifests_are_judged_by_what_they_run,
    what_a_merge_brings_back_needs_its_own_approval,
    a_bare_repository_is_one_by_what_is_in_it,
    a_part_of_a_bare_repository_completes_it,
    the_own_repository_is_no_nested_one,
    what_the_repository_is_configured_to_run_needs_its_own_approval,
    what_the_user_has_git_run_needs_its_own_approval,
    submodules_and_work_trees_are_asked_for_themselves,
    programs_in_the_search_path_need_their_own_approval,
    sessions_and_version_managers_are_known_in_a_home,
);

const OBEYED: [&str; 43] = [
    "rakefile.rb",
    "x.nimble",
    "project/Build.scala",
    "project/build.properties",
    "Directory.Packages.props",
    "Directory.Build.rsp",
    ".local/state/whatif/transient/apply-x/journal",
    ".config/whatif/config.toml",
    ".GIT/hooks/pre-commit",
    "sub/.Git/config",
    "GIT~1/hooks/post-checkout",
    ".git./config",
    "PACKAGE.JSON",
    "MAKEFILE",
    ".pnp.cjs",
    ".yarn/releases/yarn.cjs",
    ".yarn/plugins/x.cjs",
    ".yarnrc.yml",
    "CLAUDE.md",
    "docs/AGENTS.md",
    "GEMINI.md",
    ".cursorrules",
    ".cursor/rules/a.mdc",
    ".github/copilot-instructions.md",
    ".GITHUB/workflows/ci.yml",
    ".mcp.json",
    ".Claude/settings.json",
    ".env",
    ".env.local",
    ".ENVRC",
    ".aider.conf.yml",
    "setup.cfg",
    "sub/Setup.py",
    "build.rs",
    ".cargo/Config.toml",
    "conftest.py",
    "CMakeLists.txt",
    "pom.xml",
    "Gemfile",
    ".gdbinit",
    ".windsurfrules",
    "binding.gyp",
    ".VSCODE/tasks.json",
];

fn flags(document: &serde_json::Value, path: &str) -> Vec<String> {
    let flags = change(document, path)["flags"].as_array().cloned().unwrap_or_default();
    flags.iter().filter_map(|flag| flag.as_str().map(str::to_owned)).collect()
}

fn every_spelling_needs_its_own_approval(w: &World) {
    let make = OBEYED.map(|path| format!("mkdir -p \"$(dirname '{path}')\"; echo '{{\"scripts\":{{\"x\":\"y\"}}}}' > '{path}'"));
    let harmless = "mkdir -p .g; echo x > .env.example; echo x > plain; echo x > src.rs; printf x > \"$(printf '.vscode\\377')\"";
    // A character that HFS+ skips, and a name that is no text.
    let hidden = "d=$(printf '.g\\342\\200\\214it'); mkdir -p \"$d/hooks\"; echo x > \"$d/hooks/pre-push\"; \
                  mkdir .idea; echo x > \"$(printf '.idea/\\377')\"";
    w.sandbox_with("s", &format!("{}; {harmless}; {hidden}", make.join("; ")));
    let document = w.json(["diff", "s"]);
    for path in OBEYED {
        assert!(flags(&document, path).contains(&"host_executed".to_owned()), "{path}: {document}");
    }
    for path in [".env.example", "plain", "src.rs"] {
        assert!(!flags(&document, path).contains(&"host_executed".to_owned()), "{path}");
    }
    w.apply(&["s"]).ok();
    let made = w.outside("find . -type f | sort").ok().stdout;
    let plain: Vec<&str> = made.lines().filter(|line| !line.starts_with("./.vscode")).collect();
    assert_eq!(plain, ["./.env.example", "./plain", "./src.rs"], "{made}");
}

fn manifests_are_judged_by_what_they_run(w: &World) {
    w.outside(
        "printf '[project]\\nversion = \"1\"\\n[build-system]\\nbuild-backend = \"a\"\\n' | tee data.toml > pyproject.toml; \
         mkdir c d e; printf '[package]\\nname = \"c\"\\n' | tee c/Cargo.toml > d/Cargo.toml; \
         printf '{\"version\":\"1\"}' | tee c/package.json | tee d/package.json > e/package.json",
    )
    .ok();
    w.sandbox_with(
        "s",
        "mkdir p; sed -i s/1/2/ pyproject.toml; sed 's/\"a\"/\"evil\"/' data.toml > p/pyproject.toml; \
         echo 'version = \"2\"' >> c/Cargo.toml; echo 'build = \"x.rs\"' >> d/Cargo.toml; \
         printf '{\"version\":\"2\"}' > c/package.json; printf '\\357\\273\\277{\"scripts\":{\"a\":\"b\"}}' > d/package.json; \
         printf '{\"packageManager\":\"yarn@https://x/y.js\"}' > e/package.json",
    );
    let document = w.json(["diff", "s"]);
    for path in ["p/pyproject.toml", "d/Cargo.toml", "d/package.json", "e/package.json"] {
        assert!(flags(&document, path).contains(&"host_executed".to_owned()), "{path}: {document}");
    }
    for path in ["pyproject.toml", "c/Cargo.toml", "c/package.json"] {
        assert!(!flags(&document, path).contains(&"host_executed".to_owned()), "{path}: {document}");
    }
}

/// The sandbox moves a script within the file, which changes nothing; reality drops it meanwhile.
fn what_a_merge_brings_back_needs_its_own_approval(w: &World) {
    let script = r#""scripts": {"postinstall": "node old.js"}"#;
    let middle: String = (10..30).map(|i| format!("  \"k{i}\": {i},\n")).collect();
    w.write("package.json", format!("{{\n  {script},\n{middle}  \"version\": \"1\"\n}}\n"));
    w.write("moved", format!("{{\n{middle}  \"version\": \"1\",\n  {script}\n}}\n"));
    w.sandbox_with("s", "cat moved > package.json");
    assert_eq!(flags(&w.json(["diff", "s"]), "package.json"), Vec::<String>::new());
    w.outside("sed -i /postinstall/d package.json").ok();
    let document = w.json(["diff", "s"]);
    assert!(flags(&document, "package.json").contains(&"host_executed".to_owned()), "{document}");
    w.apply(&["s"]).ok();
    assert_eq!(w.outside("grep -c postinstall package.json").text(), "0");
    w.apply(&["s", "--risky"]).ok();
    assert_eq!(w.outside("grep -c postinstall package.json").text(), "1");
}

fn a_bare_repository_is_one_by_what_is_in_it(w: &World) {
    w.sandbox_with(
        "s",
        "mkdir -p fixtures/data/objects fixtures/data/refs fixtures/data/hooks other/objects; cd fixtures/data; \
         echo 'ref: refs/heads/main' > HEAD; printf '[core]\\n\\tbare = true\\n\\tfsmonitor = evil\\n' > config; echo x > hooks/pre-commit; \
         echo x > ../../other/config",
    );
    let document = w.json(["diff", "s"]);
    for path in ["fixtures/data/config", "fixtures/data/hooks/pre-commit"] {
        assert_eq!(flags(&document, path)[..2], ["host_executed", "nested_repository"], "{path}");
    }
    assert!(flags(&document, "fixtures/data/HEAD").contains(&"nested_repository".to_owned()), "{document}");
    assert_eq!(flags(&document, "other/config"), [""; 0]);
    w.apply(&["s"]).ok();
    assert!(!w.project.join("fixtures/data/HEAD").exists() && w.project.join("other/config").exists());
}

fn a_part_of_a_bare_repository_completes_it(w: &World) {
    w.outside("mkdir -p r/objects r/refs w; echo 'ref: refs/heads/main' > w/HEAD; echo x > r/config").ok();
    w.sandbox_with("s", "echo 'ref: refs/heads/main' > r/HEAD; echo y > r/config; echo ../r > w/commondir; echo y > w/config");
    let document = w.json(["diff", "s"]);
    for path in ["r/config", "w/config", "w/commondir"] {
        assert!(flags(&document, path).contains(&"host_executed".to_owned()), "{path}: {document}");
    }
}

fn the_own_repository_is_no_nested_one(w: &World) {
    w.outside("git init -q .; git config user.email a@b; git config user.name n").ok();
    w.sandbox_with("s", "echo a > a; git add a; git commit -qm a");
    let document = w.whatif(["diff", "s", "--json", "--all"]).go().ok().json();
    let nested = document["changes"].as_array().expect("a list").iter().filter(|c| c["flags"].to_string().contains("nested"));
    assert_eq!(nested.count(), 0, "{document}");
}

const SETTINGS: &str = r#"
[core]
    hooksPath = tools/hooks
    fsmonitor = tools/fsm
    attributesFile = attrs
    sshCommand = ssh -F tools/ssh.cfg
    editor = "python3 edit.py"
    pager = "sh -c 'cd pager; ./page'"
[include]
    path = ../team.cfg
[includeIf "gitdir:/nowhere/"]
    path = branchless/config
[filter "f"]
    clean = ./tools/clean.sh %f
    smudge = \"tools/with space.sh\" \
        --rules=tools/rules.txt
    process = $(git rev-parse --show-toplevel)/tools/process
[diff "d"] textconv = ./tools/textconv # a comment
[merge "m"]
    driver = tools/merge %O %A %B
[alias]
    st = "!f() { ./tools/st; }; f"
    lg = log -- docs
[credential]
    helper = !gh auth git-credential
[user]
    name = Ada of docs/team
[init]
    defaultBranch = main
"#;

/// The attacker of these needs nothing but a plain apply and the user's next commit.
fn what_the_repository_is_configured_to_run_needs_its_own_approval(w: &World) {
    w.outside("git init -q .; mkdir tools shared .git/branchless; ln -s ../shared/hook.sh tools/linked; echo x > shared/hook.sh")
        .ok();
    w.outside("mkdir tools/hooks; ln -s ../../shared/hook.sh tools/hooks/pre-push; ln -s ../../shared/old.sh .git/hooks/pre-push")
        .ok();
    w.outside("echo x > shared/old.sh; printf '[core]\\n\\teditor = tools/of-team\\n' > team.cfg").ok();
    let config = w.project.join(".git/config");
    let before = w.read(&config);
    w.write(&config, format!("{before}{SETTINGS}"));
    let named = [
        "tools/hooks/pre-commit",
        "tools/hooks/lib/part.sh",
        "Tools/Hooks/pre-merge-commit",
        "tools/fsm",
        "attrs",
        "tools/ssh.cfg",
        "edit.py",
        "pager/page",
        "team.cfg",
        ".git/branchless/config",
        "tools/clean.sh",
        "tools/with space.sh",
        "tools/rules.txt",
        "tools/process",
        "tools/textconv",
        "tools/merge",
        "tools/st",
        "tools/of-team",
        "shared/hook.sh",
        "shared/old.sh",
    ];
    let others = ["tools/README", "docs/team", "auth/login.go", "main", "log", "shared/other", "ssh", "python3"];
    let make = |path: &&str| format!("mkdir -p \"$(dirname '{path}')\"; echo y > '{path}'; ");
    w.sandbox_with("s", &named.iter().chain(&others).map(make).collect::<String>());
    let document = w.whatif(["diff", "s", "--json", "--all"]).go().ok().json();
    for path in named {
        assert!(flags(&document, path).contains(&"host_executed".to_owned()), "{path}: {document}");
    }
    for path in others {
        assert_eq!(flags(&document, path), [""; 0], "{path}");
    }
    w.apply(&["s"]).ok();
    let made = w.outside("find . -path ./.git -prune -o -type f -newer .git/config -print | sort").ok().stdout;
    assert_eq!(made.lines().count(), others.len(), "{made}");
    w.apply(&["s", "--risky"]).ok();
    assert_eq!(w.read("tools/hooks/pre-commit"), "y\n");
    // A link in the place of a directory on the way brings hooks of its own.
    w.sandbox_with("l", "mkdir evil; mv tools evil/tools; ln -s evil/tools tools; ln -s tools/hooks other");
    let document = w.json(["diff", "l"]);
    for path in ["tools", "other"] {
        assert!(flags(&document, path).contains(&"host_executed".to_owned()), "{path}: {document}");
    }
}

fn what_the_user_has_git_run_needs_its_own_approval(w: &World) {
    w.outside("git init -q .; mkdir ~/kept ~/.config; git config --global core.hooksPath own-hooks").ok();
    w.outside("git config --global include.path ~/kept/more; git config --file ~/kept/more gpg.program ~/project/sign").ok();
    w.outside("mkdir ~/.config/git; git config --file ~/.config/git/config core.pager './page | less'").ok();
    w.sandbox_with("s", "mkdir own-hooks; for f in own-hooks/pre-commit sign page plain ~/kept/more; do echo x > $f; done");
    let document = w.whatif(["diff", "s", "--json", "--outside"]).go().ok().json();
    let more = w.home.join("kept/more").display().to_string();
    for path in ["own-hooks/pre-commit", "sign", "page", &more] {
        assert!(flags(&document, path).contains(&"host_executed".to_owned()), "{path}: {document}");
    }
    assert_eq!(flags(&document, "plain"), [""; 0]);
    w.write(w.home.join("elsewhere"), "[core]\n\thooksPath = plain\n");
    let elsewhere = w.whatif(["diff", "s", "--json"]).env("GIT_CONFIG_GLOBAL", w.home.join("elsewhere")).go().ok().json();
    assert!(flags(&elsewhere, "plain").contains(&"host_executed".to_owned()), "{elsewhere}");
    assert_eq!(flags(&elsewhere, "page"), [""; 0], "git reads none of the usual files then");
}

fn submodules_and_work_trees_are_asked_for_themselves(w: &World) {
    w.outside(
        "git init -q .; git config user.email a@b; git config user.name n; git commit -q --allow-empty -m x; \
         git worktree add -q wt; git config extensions.worktreeConfig true; git -C wt config --worktree core.fsmonitor ./watch; \
         mkdir sub .git/modules; git init -q --separate-git-dir=.git/modules/sub sub; git -C sub config core.hooksPath checks",
    )
    .ok();
    w.sandbox_with(
        "s",
        "mkdir sub/checks checks; for f in sub/checks/pre-commit checks/plain wt/watch watch; do echo x > $f; done",
    );
    let document = w.json(["diff", "s"]);
    for path in ["sub/checks/pre-commit", "wt/watch"] {
        assert!(flags(&document, path).contains(&"host_executed".to_owned()), "{path}: {document}");
    }
    for path in ["checks/plain", "watch"] {
        assert_eq!(flags(&document, path), [""; 0], "{path}");
    }
}

fn programs_in_the_search_path_need_their_own_approval(w: &World) {
    w.outside("mkdir ~/bin ~/tools").ok();
    w.sandbox_with("s", "mkdir here ~/tools/lib; for f in ~/bin/x ~/tools/x ~/tools/lib/x here/x x; do echo x > $f; done");
    let path = format!("{}:here:/usr/bin:/bin:.", w.home.join("tools").display());
    let document = w.whatif(["diff", "s", "--json", "--outside"]).env("PATH", path).go().ok().json();
    let at_home = |path: &str| w.home.join(path).display().to_string();
    for path in [&at_home("bin/x"), &at_home("tools/x"), "here/x"] {
        assert!(flags(&document, path).contains(&"host_executed".to_owned()), "{path}: {document}");
    }
    assert_eq!(flags(&document, "x"), [""; 0]);
    assert_eq!(flags(&document, &at_home("tools/lib/x")), ["outside"]);
}

fn sessions_and_version_managers_are_known_in_a_home(w: &World) {
    let names = [
        ".pyenv/shims/python",
        ".asdf/shims/node",
        ".asdf/asdf.sh",
        ".local/share/mise/shims/node",
        ".nvm/nvm.sh",
        ".oh-my-zsh/custom/a.zsh",
        ".bash_completion",
        ".config/openbox/autostart",
        ".config/plasma-workspace/env/x.sh",
        ".config/i3/config",
        ".config/sway/config",
        ".config/hypr/hyprland.conf",
    ];
    let make = |path: &&str| format!("mkdir -p \"$(dirname '{path}')\"; echo y > '{path}'; ");
    w.sandbox_with("s", &format!("cd; {}", names.iter().map(make).collect::<String>()));
    let document = w.whatif(["diff", "s", "--json", "--outside"]).go().ok().json();
    for path in names.map(|name| w.home.join(name).display().to_string()) {
        assert!(flags(&document, &path).contains(&"host_executed".to_owned()), "{path}: {document}");
    }
}
