//! What `diff` and `status` show a person first, and that they say the same as an apply.

use whatif_e2e::{World, as_root_and_user, change, needs, schema};

as_root_and_user!(
    a_new_directory_with_many_files_is_one_line,
    downloads_of_package_managers_are_counted,
    what_was_applied_as_a_whole_is_said_to_be,
    what_must_not_be_overlooked_is_never_folded,
    hunks_have_the_numbers_that_an_apply_takes,
    status_and_apply_say_the_same,
    an_index_that_git_refreshed_is_promised_no_merge,
    a_file_that_reality_renamed_is_no_drift,
);

const MANY: &str = "mkdir -p dist/deep; for n in $(seq 30); do echo $n > dist/f$n; echo $n > dist/deep/g$n; done";

fn a_new_directory_with_many_files_is_one_line(w: &World) {
    w.outside("echo 1 > main").ok();
    w.sandbox_with("s", &format!("echo 2 > main; {MANY}; mkdir few; echo 1 > few/a"));
    let listed = w.whatif(["diff", "s"]).go().ok().stdout;
    assert!(listed.contains("A  dist/  60 files") && listed.contains("few/a") && listed.contains("M  main"), "{listed}");
    assert!(!listed.contains("dist/f1") && !listed.contains("deep"), "{listed}");
    assert!(listed.starts_with("s: 62 files changed, +2 -1 in the 2 listed\n"), "{listed}");
    assert!(w.whatif(["diff", "s", "--all"]).go().ok().stdout.contains("dist/deep/g30"));
    assert!(w.whatif(["diff", "s", "dist"]).go().ok().stdout.contains("dist/deep/g30"));
    // Programs get every file.
    let _ = change(&w.json(["diff", "s"]), "dist/deep/g30");
    assert!(w.whatif(["diff", "s", "--patch"]).go().ok().stdout.contains("dist/deep/g30"));
}

fn what_was_applied_as_a_whole_is_said_to_be(w: &World) {
    w.sandbox_with("s", "echo 1 > a; echo 1 > b");
    let first = w.json(["apply", "s", "--yes", "--files", "a"])["apply"]["id"].as_str().expect("an id").to_owned();
    let second = w.json(["apply", "s", "--yes"])["apply"]["id"].as_str().expect("an id").to_owned();
    let said = format!("was applied, as {first}, {second}");
    for command in [&["diff", "s"][..], &["status", "s"], &["apply", "s", "--yes"]] {
        let told = w.whatif(command.iter().copied()).go().ok().stdout;
        assert!(told.contains(&said), "{command:?}: {told}");
    }
    // What was taken back is a change again, and what never was one is none.
    w.whatif(["undo", &second, "--yes"]).go().ok();
    assert!(w.whatif(["diff", "s"]).go().ok().stdout.contains("1 file changed"));
    w.new_sandbox("idle");
    assert_eq!(w.whatif(["diff", "idle"]).go().ok().text(), "idle changed nothing");
}

fn downloads_of_package_managers_are_counted(w: &World) {
    w.sandbox_with(
        "s",
        "mkdir -p ~/.cache/pip/http ~/.npm/_cacache; for n in $(seq 9); do echo x > ~/.cache/pip/http/a$n; done; \
        echo x > ~/.npm/_cacache/b; echo x > ~/other; echo x > mine",
    );
    let listed = w.whatif(["diff", "s"]).go().ok().stdout;
    assert!(listed.contains("package caches: 10 files") && listed.contains("1 change outside the project"), "{listed}");
    assert!(!listed.contains("http/a1"), "{listed}");
    let outside = w.whatif(["diff", "s", "--outside"]).go().ok().stdout;
    assert!(!outside.contains("http/a1") && outside.contains("/other"), "{outside}");
    assert!(w.whatif(["diff", "s", "--outside", "--all"]).go().ok().stdout.contains("http/a1"));
    let document = w.json(["diff", "s"]);
    assert_eq!(document["package_caches"]["files"], 10, "{document}");
    assert!(!document["changes"].to_string().contains("http/a1"), "{document}");
    assert!(w.json(["diff", "s", "--all"])["changes"].to_string().contains("http/a1"));
}

fn what_must_not_be_overlooked_is_never_folded(w: &World) {
    w.sandbox_with(
        "s",
        &format!("{MANY}; echo all: > dist/Makefile; mkdir -p ~/.cargo/registry; ln -s /proc/self ~/.cargo/registry/x"),
    );
    let listed = w.whatif(["diff", "s"]).go().ok().stdout;
    assert!(listed.contains("dist/Makefile") && listed.contains("dist/  60 files"), "{listed}");
    assert!(listed.contains(".cargo/registry/x"), "{listed}");
}

fn hunks_have_the_numbers_that_an_apply_takes(w: &World) {
    w.outside("seq 40 > a").ok();
    w.sandbox_with("s", "sed -i 's/^5$/X/; s/^35$/Y/' a");
    let document = w.json(["diff", "s"]);
    let hunks = change(&document, "a")["hunks"].clone();
    let numbers: Vec<_> = hunks.as_array().into_iter().flatten().map(|hunk| hunk["number"].as_u64()).collect();
    assert_eq!(numbers, [Some(1), Some(2)], "{hunks}");
    assert!(hunks[0].get("lines").is_none() && hunks[1]["before_start"] == 32, "{hunks}");
    let with_lines = w.json(["diff", "s", "--patch"]);
    assert!(change(&with_lines, "a")["hunks"][0]["lines"].to_string().contains('X'), "{with_lines}");
    w.apply(&["s", "--hunks", "a:2"]).ok();
    assert_eq!(w.outside("grep -c '[XY]' a").ok().text(), "1");
}

fn status_and_apply_say_the_same(w: &World) {
    w.outside("seq 20 > merged; echo 1 > both; echo 1 > gone; echo 1 > same").ok();
    w.sandbox_with("s", "sed -i s/^2$/two/ merged; echo 2 > both; echo 2 > gone; echo 2 > same");
    w.outside("sed -i s/^19$/nineteen/ merged; echo 3 > both; rm gone; echo 2 > same").ok();
    let status = w.json(["status", "s"]);
    schema::expect("status", &status);
    let drift = |path: &str| {
        let all = status["drift"].as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|one| one["path"] == path).unwrap_or_default();
        (found["collides"].as_str().unwrap_or_default().to_owned(), found["why"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!((drift("merged").0.as_str(), drift("same").0.as_str()), ("merges", ""), "{status:#}");
    let refused = w.apply(&["s"]);
    let plain = w.whatif(["status", "s"]).go().ok().stdout;
    for path in ["both", "gone"] {
        let (verdict, why) = drift(path);
        assert_eq!(verdict, "conflict");
        assert!(refused.stderr.contains(&format!("conflict: {path}: {why}")), "{why}: {refused:?}");
        assert!(plain.contains(&format!("conflict: {why}")), "{why}: {plain}");
    }
    assert!(refused.stderr.contains("both, line 1 in reality:") && refused.stderr.contains("both in the sandbox:"), "{refused:?}");
    assert!(plain.contains("will be merged") && plain.contains("--theirs PATH"), "{plain}");
    // And so does a rebase.
    let rebased = w.whatif(["rebase", "s"]).go().exits(1).stdout;
    assert!(rebased.contains("merged    merged") && rebased.contains(&format!("conflict  gone: {}", drift("gone").1)), "{rebased}");
}

fn an_index_that_git_refreshed_is_promised_no_merge(w: &World) {
    needs!(w, "git");
    w.outside("git init -q .; echo 1 > a; echo 1 > b; git add .; git -c user.name=n -c user.email=n@e commit -qm one").ok();
    w.sandbox_with("s", "touch -d '2020-01-01' a; git status > /dev/null; echo 2 > b");
    w.outside("touch -d '2021-01-01' a; git status > /dev/null").ok();
    let status = w.json(["status", "s"]);
    let all = status["drift"].as_array().cloned().unwrap_or_default();
    assert!(all.iter().all(|one| one["path"] != ".git/index" || one["collides"] != "merges"), "{status:#}");
    let plain = w.whatif(["status", "s"]).go().ok().stdout;
    assert!(!plain.contains("will be merged"), "{plain}");
}

fn a_file_that_reality_renamed_is_no_drift(w: &World) {
    needs!(w, "git");
    w.outside("git init -q .; echo 1 > a; echo 1 > plain; git add a; sleep 0.05").ok();
    w.sandbox_with("s", "echo 2 > mine");
    w.outside("sleep 0.05; mv plain other; echo 3 > new").ok();
    let status = w.json(["status", "s"]);
    let paths: Vec<&str> = status["drift"].as_array().into_iter().flatten().filter_map(|one| one["path"].as_str()).collect();
    assert_eq!(paths, ["new"], "{status:#}");
    // An older file in the place of one that git knows is not what it was.
    w.outside("mv other a").ok();
    let status = w.json(["status", "s"]);
    assert!(status["drift"].to_string().contains("\"a\""), "{status:#}");
}
