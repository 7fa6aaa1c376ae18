//! What tools on the host execute or obey is flagged under every name it can be found by.

use whatif_e2e::{World, as_root_and_user, change};

as_root_and_user!(
    every_spelling_needs_its_own_approval,
    manifests_are_judged_by_what_they_run,
    what_a_merge_brings_back_needs_its_own_approval,
    a_bare_repository_is_one_by_what_is_in_it,
    a_part_of_a_bare_repository_completes_it,
    the_own_repository_is_no_nested_one,
);

const OBEYED: [&str; 37] = [
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
