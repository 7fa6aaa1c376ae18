//! Flags look through links: those of reality, which give a file other names, and those that the sandbox makes.

use whatif_e2e::{World, as_root_and_user, change};

as_root_and_user!(
    what_a_linked_place_of_git_leads_to_needs_its_own_approval,
    every_flagged_place_may_be_a_link,
    a_home_may_link_into_the_project,
    a_sandbox_cannot_distract_from_links,
    a_search_path_may_lead_through_links,
    a_link_is_judged_by_where_it_leads_in_the_end,
    nobody_is_spared_the_question_by_a_detour,
);

fn flags(document: &serde_json::Value, path: &str) -> Vec<String> {
    let flags = change(document, path)["flags"].as_array().cloned().unwrap_or_default();
    flags.iter().filter_map(|flag| flag.as_str().map(str::to_owned)).collect()
}

#[track_caller]
fn expect_flag(document: &serde_json::Value, flag: &str, paths: &[&str]) {
    for path in paths {
        assert!(flags(document, path).contains(&flag.to_owned()), "{path} is not {flag}: {document}");
    }
}

#[track_caller]
fn expect_none(document: &serde_json::Value, flag: &str, paths: &[&str]) {
    for path in paths {
        assert!(!flags(document, path).contains(&flag.to_owned()), "{path} is {flag}: {document}");
    }
}

/// The attacker of these needs nothing but a plain apply and the user's next command of git.
fn what_a_linked_place_of_git_leads_to_needs_its_own_approval(w: &World) {
    w.outside("git init -q .; mkdir githooks info sub; rm -r .git/hooks .git/info; ln -s ../githooks .git/hooks").ok();
    w.outside("mv .git/config gitconf; ln -s ../gitconf .git/config; ln -s ../info .git/info; echo x > githooks/pre-commit").ok();
    // A whole repository behind a link, with one more link in it that leads to nothing yet.
    w.outside("git init -q sub; mv sub/.git real; rm -r real/hooks; ln -s ../real sub/.git; ln -s ../later/hooks real/hooks").ok();
    w.sandbox_with(
        "s",
        "echo evil > githooks/pre-commit; echo '[core]' >> gitconf; echo '* filter=x' > info/attributes; echo x > info/other; \
         mkdir -p later/hooks; echo evil > later/hooks/pre-push; echo x > later/plain; echo x > plain",
    );
    let document = w.json(["diff", "s"]);
    expect_flag(&document, "host_executed", &["githooks/pre-commit", "gitconf", "info/attributes", "later/hooks/pre-push"]);
    expect_none(&document, "host_executed", &["info/other", "later/plain", "plain"]);
    w.apply(&["s"]).ok();
    assert_eq!((w.read("githooks/pre-commit").as_str(), w.read("plain").as_str()), ("x\n", "x\n"));
    // A link in the place of a directory on the way brings hooks of its own, and so does another name for what is run.
    w.sandbox_with("l", "mv githooks away; mkdir evil; ln -s evil githooks; ln -s later/hooks/post-merge other");
    expect_flag(&w.json(["diff", "l"]), "host_executed", &["githooks", "other"]);
}

fn every_flagged_place_may_be_a_link(w: &World) {
    w.outside("mkdir -p mk gh/flows editor husky pkg deep/er; echo all: > mk/main; ln -s mk/main Makefile").ok();
    w.outside("ln -s gh .github; ln -s flows gh/workflows; ln -s editor .vscode; ln -s first .husky; ln -s husky first").ok();
    w.outside("ln -s ../../mk/deep deep/er/Makefile; echo '{\"version\":\"1\"}' > pkg/it; ln -s pkg/it package.json").ok();
    w.sandbox_with(
        "s",
        "echo evil >> mk/main; echo x > mk/other; echo x > gh/flows/ci.yml; echo x > gh/plain; echo x > editor/tasks.json; \
         echo x > husky/pre-commit; echo x > mk/deep; echo '{\"version\":\"2\"}' > pkg/it",
    );
    let document = w.json(["diff", "s"]);
    let executed = ["mk/main", "gh/flows/ci.yml", "editor/tasks.json", "husky/pre-commit", "mk/deep"];
    expect_flag(&document, "host_executed", &executed);
    // What is in a manifest tells, whatever it is called.
    expect_none(&document, "host_executed", &["mk/other", "gh/plain", "pkg/it"]);
    w.sandbox_with(
        "m",
        "echo '{\"version\":\"1\",\"scripts\":{\"install\":\"evil\"}}' > pkg/it; rm first; mkdir first; echo x > first/x",
    );
    expect_flag(&w.json(["diff", "m"]), "host_executed", &["pkg/it", "first/x"]);
}

fn a_home_may_link_into_the_project(w: &World) {
    w.outside("mkdir -p dots/nvim ~/.config; ln -s ~/project/dots/bash ~/.bashrc; ln -s ~/project/dots/nvim ~/.config/nvim").ok();
    w.sandbox_with("s", "for f in dots/bash dots/nvim/init.lua dots/other; do echo x > $f; done");
    let document = w.json(["diff", "s"]);
    expect_flag(&document, "host_executed", &["dots/bash", "dots/nvim/init.lua"]);
    expect_none(&document, "host_executed", &["dots/other"]);
}

/// The search for links is bounded, and what a sandbox touches must not use it up.
fn a_sandbox_cannot_distract_from_links(w: &World) {
    w.outside("mkdir -p dots gh .github; ln -s ~/project/dots/bash ~/.bashrc; ln -s ../gh .github/workflows").ok();
    w.outside("for d in + a b c; do mkdir $d; (cd $d; seq 2000 | xargs touch); done").ok();
    w.sandbox_with("s", "for d in + a b c; do echo x > $d/1; done; echo x > .github/x; echo x > dots/bash; echo x > gh/ci.yml");
    expect_flag(&w.json(["diff", "s"]), "host_executed", &["dots/bash", "gh/ci.yml"]);
}

fn a_search_path_may_lead_through_links(w: &World) {
    w.outside("mkdir tools more scripts ~/progs; ln -s ~/project/tools ~/bin; ln -s ~/project ~/proj").ok();
    w.outside("ln -s ~/project/scripts/one.sh ~/progs/one").ok();
    w.sandbox_with("s", "for f in tools/x more/x scripts/one.sh scripts/two.sh plain; do echo x > $f; done");
    let at_home = |path: &str| w.home.join(path).display().to_string();
    let path = format!("{}:{}:{}:/usr/bin:/bin", at_home("bin"), at_home("proj/more"), at_home("progs"));
    let document = w.whatif(["diff", "s", "--json"]).env("PATH", path).go().ok().json();
    expect_flag(&document, "host_executed", &["tools/x", "more/x", "scripts/one.sh"]);
    expect_none(&document, "host_executed", &["scripts/two.sh", "plain"]);
}

fn a_link_is_judged_by_where_it_leads_in_the_end(w: &World) {
    w.outside("git init -q .; mkdir -p t/1/2/3 u/1/2; echo x > file; ln -s ../../.. u/1/2/top; echo secret > ~/private").ok();
    w.sandbox_with(
        "s",
        "ln -s ../../../.. t/1/2/3/top; ln -s t/1/2/3/top/../private by-new; ln -s u/1/2/top/../private by-real; \
         ln -s by-real second; ln -s t/1/2/3/top/file inside; ln -s u/1/2/../2/top/file within; ln -s nothing/yet later; \
         ln -s round about; ln -s about round; ln -s t/1/2/3/top/.git/hooks/pre-push hook",
    );
    let document = w.json(["diff", "s"]);
    expect_flag(&document, "link_outside", &["by-new", "by-real", "second"]);
    expect_none(&document, "link_outside", &["t/1/2/3/top", "inside", "within", "later", "about", "round"]);
    expect_flag(&document, "host_executed", &["hook"]);
    w.apply(&["s"]).ok();
    assert_eq!(w.outside("ls -d by-* second hook inside 2>/dev/null").stdout, "inside\n");
    // What reality has counts as well as what the sandbox put in its place: it may be that only the link is taken.
    w.outside("ln -s ~ away").ok();
    w.sandbox_with("r", "rm away; mkdir away; ln -s away/private kept; echo x > away/private");
    expect_flag(&w.json(["diff", "r"]), "link_outside", &["kept"]);
}

fn nobody_is_spared_the_question_by_a_detour(w: &World) {
    w.outside("mkdir -p docs ~/.config/whatif; echo secret > ~/private").ok();
    let policy = "[policy.auto_approve]\nmax_files = 5\nmax_lines = 20\npaths = [\"docs\"]\n";
    w.write(w.home.join(".config/whatif/config.toml"), policy);
    w.sandbox_with("s", "cd docs; mkdir -p 1/2/3; ln -s ../../../.. 1/2/3/top; ln -s 1/2/3/top/../private n.md");
    let _ = w.whatif(["apply", "s"]).go();
    assert_eq!(w.outside("readlink docs/n.md").stdout, "");
}
