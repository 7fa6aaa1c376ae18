//! What a sandbox did to the project's own repository: git has to go on working on both sides.

use whatif_e2e::{World, as_root_and_user, needs};

as_root_and_user!(
    an_undo_leaves_objects_that_reality_stands_on,
    an_undo_takes_back_all_of_a_repository_that_nobody_used,
    a_rebase_writes_no_markers_into_a_repository,
);

const SET_UP: &str = "git init -q -b main .; git config user.name Tester; git config user.email tester@localhost; \
    echo a > a; echo b > b; git add .; git commit -qm first";

fn an_undo_leaves_objects_that_reality_stands_on(w: &World) {
    needs!(w, "git");
    w.outside(SET_UP).ok();
    w.sandbox_with("s", "echo inside >> a; git commit -qam inside");
    w.apply(&["s", "--ignored"]).ok();
    w.outside("git branch kept").ok();
    let said = w.whatif(["undo", "--yes"]).go().ok().stdout;
    assert!(said.contains("of git's objects"), "{said}");
    assert_eq!(w.outside("git log --format=%s main").ok().text(), "first");
    assert_eq!(w.outside("git log --format=%s kept").ok().text(), "inside\nfirst");
    w.outside("git fsck --strict").ok();
    // And forward again.
    let redo = said.lines().last().and_then(|line| line.split_whitespace().last()).expect("it says how");
    w.whatif(["undo", "--yes", redo]).go().ok();
    assert_eq!(w.outside("git log --format=%s main; cat a").ok().text(), "inside\nfirst\na\ninside");
    w.outside("git fsck --strict").ok();
}

fn an_undo_takes_back_all_of_a_repository_that_nobody_used(w: &World) {
    needs!(w, "git");
    w.outside(SET_UP).ok();
    let files = || w.outside("find . -type f | sort").ok().stdout;
    let before = files();
    w.sandbox_with("s", "echo inside >> a; git commit -qam inside; git init -q new; cd new; echo x > x; git add x");
    w.apply(&["s", "--all"]).ok();
    assert_ne!(files(), before);
    w.whatif(["undo", "--yes"]).go().ok();
    assert_eq!(files(), before);
}

fn a_rebase_writes_no_markers_into_a_repository(w: &World) {
    needs!(w, "git");
    w.outside(SET_UP).ok();
    w.sandbox_with("s", "echo inside >> a; git commit -qam inside");
    w.outside("echo outside >> b; git commit -qam outside").ok();
    let document = w.whatif(["--json", "rebase", "s"]).go().json();
    assert!(document.to_string().contains(".git/refs/heads/main"), "{document}");
    assert_eq!(w.exec("s", "git log --format=%s").ok().text(), "inside\nfirst");
    assert_eq!(w.exec("s", "grep -rl '<<<<<<<' . || true").ok().text(), "");
}
