//! `whatif apply --commit` in repositories that are not in the simplest of states: it is right, or nothing is applied.

use whatif_e2e::{World, as_root_and_user, needs};

as_root_and_user!(
    what_is_staged_where_the_sandbox_makes_something_else_stays_staged,
    deletions_of_the_users_own_do_not_get_into_the_commit,
    a_sparse_index_stays_right,
    every_kind_of_repository_gets_the_commit,
    an_operation_in_progress_is_not_mixed_with_a_commit,
);

fn git(w: &World, arguments: &str) -> String {
    w.outside(&format!("git {arguments}")).ok().text().to_owned()
}

/// Files `a`, `b`, `d/x`, `e/q` and `e/y` in a commit.
fn repository(w: &World, options: &str) {
    w.write(
        w.home.join(".gitconfig"),
        "[user]\n\tname = Ann Example\n\temail = ann@example.org\n[advice]\n\tsparseIndexExpanded = false\n",
    );
    w.outside(&format!(
        "find . -mindepth 1 -delete; git init -q -b main {options} .; seq 9 > a; cp a b; mkdir d e; cp a d/x; cp a e/y; echo q > e/q
         git add .; git commit -qm first"
    ))
    .ok();
}

/// What must not differ after a commit that was refused.
fn everything(w: &World) -> String {
    let state =
        git(w, "rev-parse HEAD; git ls-files -s -v; git for-each-ref; git status --porcelain; ls .git/*.lock 2>/dev/null; true");
    state + &w.outside("find . -path ./.git -prune -o -print | sort").ok().stdout
}

fn refused(w: &World, changes: &str, why: &str) {
    let before = everything(w);
    w.sandbox_with("s", changes);
    w.apply(&["s", "--commit", "--dry-run"]).fails_with_hint(125).says(why);
    w.apply(&["s", "--all", "--commit"]).fails_with_hint(125).says("nothing was applied").says(why);
    assert_eq!(everything(w), before, "{changes}");
    w.whatif(["rm", "s"]).go().ok();
}

fn what_is_staged_where_the_sandbox_makes_something_else_stays_staged(w: &World) {
    needs!(w, "git");
    repository(w, "");
    w.outside("echo mine >> e/y; git add e/y; rm -r e").ok();
    refused(w, "echo file > e", "cannot be in one commit with e/");
    repository(w, "");
    w.outside("echo mine >> b; git add b; rm b").ok();
    refused(w, "mkdir b; echo file > b/x", "cannot be in one commit with b,");
    repository(w, "");
    w.outside("echo mine > n; git add n; rm n").ok();
    refused(w, "mkdir n; echo file > n/x", "cannot be in one commit with n,");
    // Also where the sandbox deletes the file itself: only the index has it as a version of git's.
    repository(w, "");
    w.outside("echo mine > e/n; git add e/n").ok();
    refused(w, "rm -r e; echo file > e", "cannot be in one commit with e/n,");
    assert_eq!(git(w, "show :e/n"), "mine");
}

fn deletions_of_the_users_own_do_not_get_into_the_commit(w: &World) {
    needs!(w, "git");
    repository(w, "");
    w.outside("rm -r e").ok();
    refused(w, "echo file > e", "cannot be in one commit with e/");
    w.outside("git add -A").ok();
    refused(w, "echo file > e", "cannot be in one commit with e/");
    // Committed, it is nobody's work in progress any more.
    w.outside("git commit -qm e").ok();
    w.sandbox_with("s", "echo file > e");
    w.apply(&["s", "--commit", "-m", "File"]).ok();
    assert_eq!(git(w, "show --name-only --format= HEAD"), "e");
    assert_eq!(git(w, "status --porcelain"), "");
}

fn a_sparse_index_stays_right(w: &World) {
    needs!(w, "git");
    repository(w, "");
    w.outside("git sparse-checkout set --cone --sparse-index d").ok();
    assert!(git(w, "ls-files --sparse").contains("e/\n") || git(w, "ls-files --sparse").ends_with("e/"));
    refused(w, "mkdir e; echo other > e/y", "outside your sparse checkout");
    refused(w, "echo file > e", "cannot be in one commit with e/");
    w.sandbox_with("s", "mkdir e; echo z > e/z; echo D > d/x");
    w.apply(&["s", "--commit", "-m", "Sparse"]).ok();
    assert_eq!(git(w, "show --name-only --format= HEAD"), "d/x\ne/z");
    assert_eq!(git(w, "ls-tree -r --name-only HEAD | paste -sd ' '"), "a b d/x e/q e/y e/z");
    assert_eq!(git(w, "status --porcelain"), "");
    assert_eq!(git(w, "fsck --strict --no-dangling 2>&1"), "");
    assert_eq!(git(w, "ls-files -t | paste -sd ' '"), "H a H b H d/x S e/q S e/y H e/z");
}

fn every_kind_of_repository_gets_the_commit(w: &World) {
    needs!(w, "git");
    let kinds = [
        ("--object-format=sha256", "true"),
        ("", "git config index.skipHash true; git update-index --index-version 4 --untracked-cache --force-write-index"),
        ("", "git update-index --split-index; echo more > more; git add more; git commit -qm more"),
        ("", "git checkout -q --detach"),
        ("", "git sparse-checkout set --cone --no-sparse-index d e"),
    ];
    for (options, prepare) in kinds {
        repository(w, options);
        w.outside(&format!("{prepare}; echo staged > staged; git add staged; echo untracked > d/untracked; git status")).ok();
        w.sandbox_with("s", "echo sandbox >> a; rm -r e; echo k > k");
        w.apply(&["s", "--commit", "-m", "Here too"]).ok();
        let context = format!("{options} {prepare}");
        assert_eq!(
            git(w, "show --no-renames --name-status --format=%s HEAD"),
            "Here too\n\nM\ta\nD\te/q\nD\te/y\nA\tk",
            "{context}"
        );
        assert_eq!(git(w, "status --porcelain"), "A  staged\n?? d/untracked", "{context}");
        assert_eq!(git(w, "fsck --strict --no-dangling 2>&1"), "", "{context}");
        w.whatif(["rm", "s"]).go().ok();
    }
}

fn an_operation_in_progress_is_not_mixed_with_a_commit(w: &World) {
    needs!(w, "git");
    let operations = [
        ("git merge -q --no-commit side", "a merge is in progress"),
        ("git cherry-pick side || true", "a cherry-pick is in progress"),
        ("git revert HEAD~1 || true", "a revert is in progress"),
        ("git rebase side || true", "a rebase is in progress"),
    ];
    for (operation, why) in operations {
        repository(w, "");
        let both = if operation.contains("merge") { "" } else { "echo side > a;" };
        w.outside(&format!(
            "git checkout -q -b side; {both} echo side > side; git add .; git commit -qm side; git checkout -q main"
        ))
        .ok();
        w.outside("echo second > a; git commit -qam second; echo third > a; git commit -qam third").ok();
        w.outside(&format!("{{ {operation}; }} > /dev/null 2>&1")).ok();
        refused(w, "echo sandbox > b", why);
    }
}
