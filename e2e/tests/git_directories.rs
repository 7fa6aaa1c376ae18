//! What an apply and its undo do to a repository's own directory, be it `.git`, a bare one or one kept elsewhere: afterwards every
//! branch of reality stands on objects that are there, and git is not disturbed at work.

use whatif_e2e::{World, as_root_and_user, needs};

as_root_and_user!(
    objects_that_the_sandbox_pruned_stay_for_branches_of_reality,
    a_repository_that_the_sandbox_deleted_goes_with_its_objects,
    objects_that_git_only_freshened_are_put_back,
    a_branch_that_stands_on_a_missing_object_is_a_conflict,
    nothing_is_written_while_git_is_at_work,
    a_lock_of_the_sandbox_is_never_applied,
    an_undo_does_not_take_the_branch_that_is_checked_out,
    an_undo_leaves_objects_wherever_they_are_kept,
    an_undo_brings_no_branch_back_that_has_lost_its_objects,
    a_rebase_writes_no_markers_wherever_branches_are_kept,
    a_branch_that_was_packed_is_not_lost_with_what_it_is_packed_in,
    a_branch_that_reality_checked_out_is_not_deleted,
    a_reference_of_any_length_is_not_read,
);

const SET_UP: &str = "git init -q -b main .; git config user.name Tester; git config user.email tester@localhost; \
    echo a > a; git add a; git commit -qm first";

/// A commit that nothing refers to, and its id in `lost`.
const LOSE_A_COMMIT: &str = "git commit -q --allow-empty -m lost; git rev-parse HEAD > ../lost; git reset -q --hard HEAD^; \
    git reflog expire --expire=now --all; rm -f .git/ORIG_HEAD";

const PRUNE: &str = "git reflog expire --expire=now --all && git gc -q --prune=now";

fn objects_that_the_sandbox_pruned_stay_for_branches_of_reality(w: &World) {
    needs!(w, "git");
    w.outside(&format!("{SET_UP}; {LOSE_A_COMMIT}")).ok();
    w.sandbox_with("s", &format!("{PRUNE}; echo inside > a; git commit -qam inside"));
    w.outside("git branch found $(cat ../lost)").ok();
    w.apply(&["s", "--all"]).ok().says("git's objects");
    assert_eq!(w.outside("git log --format=%s found; git log --format=%s main").ok().text(), "lost\nfirst\ninside\nfirst");
    w.outside("git fsck --strict").ok();
    // They are nothing that the sandbox still has to say.
    assert_eq!(w.json(["diff", "s", "--all"])["changes"].as_array().map(Vec::len), Some(0));
}

fn a_repository_that_the_sandbox_deleted_goes_with_its_objects(w: &World) {
    needs!(w, "git");
    w.outside(&format!(
        "for r in one two bare.git; do mkdir $r; done; cd one; {SET_UP}; cd ../two; {SET_UP}; cd ..; git init -q --bare bare.git"
    ))
    .ok();
    w.sandbox_with("s", "rm -rf one two bare.git");
    w.outside("git -C two branch since").ok();
    w.apply(&["s", "--all"]).exits(1).says("two/.git/refs/heads/since");
    w.apply(&["s", "--all", "--ours=two"]).ok().says("two/.git");
    assert_eq!(w.outside("ls; git -C two log --format=%s since").ok().text(), "two\nfirst");
}

fn objects_that_git_only_freshened_are_put_back(w: &World) {
    needs!(w, "git");
    for backend in ["overlay", "copy"] {
        w.outside("rm -rf .git *").ok();
        w.outside(&format!("{SET_UP}; echo lost | git hash-object -w --stdin")).ok();
        w.whatif(["new", backend, "--backend", backend]).go().ok();
        w.exec(backend, "echo lost > lost; git add lost; git commit -qm inside").ok();
        w.outside("git -c gc.packRefs=false gc -q --prune=now").ok();
        w.apply(&[backend, "--all"]).ok();
        assert_eq!(w.outside("git status --porcelain; git log --format=%s").ok().text(), "inside\nfirst", "{backend}");
        w.outside("git fsck --strict").ok();
        // What reality has in a pack by now is not needed a second time.
        assert_eq!(w.outside("git prune-packed -n").ok().text(), "", "{backend}");
    }
}

fn a_branch_that_stands_on_a_missing_object_is_a_conflict(w: &World) {
    needs!(w, "git");
    w.outside(&format!("{SET_UP}; {LOSE_A_COMMIT}")).ok();
    w.sandbox_with("s", "git branch found $(cat ../lost); git checkout -qb further found; echo inside > a; git commit -qam inside");
    w.outside(PRUNE).ok();
    let before = w.outside("git for-each-ref; git status --porcelain").ok().stdout;
    w.apply(&["s", "--all"]).exits(1).says(".git/refs/heads/found").says(".git/refs/heads/further");
    w.apply(&["s", "--all", "--theirs=.git"]).exits(1).says(".git/refs/heads/found");
    // Nor does a part of the sandbox's own work stand on its own.
    w.apply(&["s", "--files", ".git/refs/heads/further"]).exits(1).says("stands on objects");
    assert_eq!(w.outside("git for-each-ref; git status --porcelain").ok().stdout, before);
    w.outside("git fsck --strict").ok();
}

fn nothing_is_written_while_git_is_at_work(w: &World) {
    needs!(w, "git");
    w.outside(SET_UP).ok();
    w.sandbox_with("s", "echo inside > a; git commit -qam inside");
    for lock in ["index.lock", "HEAD.lock", "packed-refs.lock", "config.lock", "refs/heads/main.lock"] {
        w.outside(&format!(": > .git/{lock}")).ok();
        let error = w.whatif(["--json", "apply", "s", "--all", "--yes"]).go().exits(125).stderr;
        assert!(error.contains("git_at_work") && error.contains(lock), "{error}");
        w.outside(&format!("rm .git/{lock}")).ok();
    }
    // A collection of garbage that runs, and one that was killed.
    w.outside("echo \"$PPID $(uname -n)\" > .git/gc.pid").ok();
    w.apply(&["s", "--all"]).exits(125).says("gc.pid");
    w.outside("echo \"2147483647 $(uname -n)\" > .git/gc.pid").ok();
    // Files of the work tree are not git's.
    w.outside("rm .git/gc.pid; : > .git/index.lock").ok();
    w.apply(&["s", "--files", "a"]).ok();
    w.outside("rm .git/index.lock").ok();
    w.apply(&["s", "--all"]).ok();
    assert_eq!(w.outside("git status --porcelain; git log --format=%s").ok().text(), "inside\nfirst");
    w.outside(": > .git/index.lock").ok();
    w.whatif(["undo", "--yes"]).go().exits(125).says("index.lock");
}

fn a_lock_of_the_sandbox_is_never_applied(w: &World) {
    needs!(w, "git");
    w.outside(&format!("{SET_UP}; git init -q --bare bare.git")).ok();
    w.sandbox_with(
        "s",
        "echo inside > a; git commit -qam inside; : > .git/index.lock; : > .git/refs/heads/x.lock; : > bare.git/HEAD.lock",
    );
    w.apply(&["s", "--all"]).ok().says("a lock of git's").says("index.lock");
    assert_eq!(w.outside("find . -name '*.lock'; git log --format=%s").ok().text(), "inside\nfirst");
}

/// A repository in `.git`, a bare one, and one that is kept away from its work tree, each with what calls a git for it.
const PLACES: [(&str, &str); 3] = [
    ("git init -q -b main work", "git -C work"),
    ("git init -q -b main --bare bare; mkdir work", "git --git-dir=bare --work-tree=work"),
    ("git init -q -b main --separate-git-dir kept work", "git -C work"),
];

/// In each of them with a first commit.
fn everywhere(w: &World, test: impl Fn(&str)) {
    for (set_up, git) in PLACES {
        let git = format!("{git} -c user.name=t -c user.email=t@t");
        w.outside(&format!("rm -rf *; {set_up}; echo a > work/a; {git} add -A; {git} commit -qm first")).ok();
        test(&git);
        w.outside(&format!("{git} fsck --strict")).ok();
        w.whatif(["rm", "-y", "s"]).go().ok();
    }
}

fn an_undo_does_not_take_the_branch_that_is_checked_out(w: &World) {
    needs!(w, "git");
    everywhere(w, |git| {
        w.sandbox_with("s", &format!("{git} branch inside"));
        w.apply(&["s", "--all"]).ok();
        w.outside(&format!("{git} checkout -q inside")).ok();
        w.whatif(["undo", "--yes"]).go().exits(1).says("refs/heads/inside").says("checked out");
        assert_eq!(w.outside(&format!("{git} log --format=%s; {git} symbolic-ref HEAD")).ok().text(), "first\nrefs/heads/inside");
        w.outside(&format!("{git} checkout -q main")).ok();
        w.whatif(["undo", "--yes"]).go().ok();
        assert_eq!(w.outside(&format!("{git} for-each-ref --format='%(refname)'")).ok().text(), "refs/heads/main");
    });
}

fn an_undo_leaves_objects_wherever_they_are_kept(w: &World) {
    needs!(w, "git");
    everywhere(w, |git| {
        w.sandbox_with("s", &format!("echo inside > work/a; {git} commit -qam inside"));
        w.apply(&["s", "--all"]).ok();
        w.outside(&format!("{git} branch kept")).ok();
        let said = w.whatif(["undo", "--yes"]).go().ok().stdout;
        assert!(said.contains("of git's objects"), "{said}");
        assert_eq!(
            w.outside(&format!("{git} log --format=%s main; {git} log --format=%s kept")).ok().text(),
            "first\ninside\nfirst"
        );
    });
}

fn an_undo_brings_no_branch_back_that_has_lost_its_objects(w: &World) {
    needs!(w, "git");
    w.outside(&format!("{SET_UP}; git config core.logAllRefUpdates false; rm -r .git/logs")).ok();
    w.sandbox_with("s", "git commit -q --amend -m amended");
    w.apply(&["s", "--all"]).ok();
    w.outside("git prune --expire=now").ok();
    w.whatif(["undo", "--yes"]).go().exits(1).says("refs/heads/main").says("objects");
    w.outside("git fsck --strict").ok();
}

fn a_rebase_writes_no_markers_wherever_branches_are_kept(w: &World) {
    needs!(w, "git");
    everywhere(w, |git| {
        w.sandbox_with("s", &format!("echo inside > work/b; {git} add -A; {git} commit -qm inside"));
        w.outside(&format!("echo outside > work/c; {git} add -A; {git} commit -qm outside")).ok();
        let said = w.whatif(["rebase", "s"]).go().exits(1).stdout;
        assert!(said.contains("refs/heads/main"), "{said}");
        assert_eq!(w.exec("s", &format!("{git} log --format=%s; grep -rl '<<<<<<<' . || true")).ok().text(), "inside\nfirst");
    });
}

fn a_branch_that_was_packed_is_not_lost_with_what_it_is_packed_in(w: &World) {
    needs!(w, "git");
    w.outside(SET_UP).ok();
    w.sandbox_with("s", "git branch other; git pack-refs --all; git branch another");
    w.apply(&["s", "--all", "--skip=.git/packed-refs"]).exits(1).says("refs/heads/main");
    assert_eq!(w.outside("git log --format=%s").ok().text(), "first");
    w.apply(&["s", "--all"]).ok();
    assert_eq!(w.outside("git for-each-ref --format='%(refname:short)'").ok().text(), "another\nmain\nother");
}

fn a_branch_that_reality_checked_out_is_not_deleted(w: &World) {
    needs!(w, "git");
    everywhere(w, |git| {
        w.outside(&format!("{git} branch topic")).ok();
        w.sandbox_with("s", &format!("{git} branch -q -D topic"));
        w.outside(&format!("{git} checkout -q topic")).ok();
        w.apply(&["s", "--all"]).exits(1).says("refs/heads/topic").says("checked out");
        w.outside(&format!("{git} checkout -q main")).ok();
        w.apply(&["s", "--all"]).ok();
        assert_eq!(w.outside(&format!("{git} for-each-ref --format='%(refname)'")).ok().text(), "refs/heads/main");
    });
}

/// It takes no space to make one.
fn a_reference_of_any_length_is_not_read(w: &World) {
    needs!(w, "git");
    w.outside(SET_UP).ok();
    w.sandbox_with("s", "truncate -s 129M .git/refs/heads/long");
    w.apply(&["s", "--all"]).exits(125).says("refs/heads/long").says("128 MiB");
    assert_eq!(w.outside("git for-each-ref --format='%(refname)'").ok().text(), "refs/heads/main");
}
