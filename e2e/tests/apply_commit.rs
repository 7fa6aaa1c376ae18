//! `whatif apply --commit`: the right content, the right name, and nothing of the repository's own is run.

use std::path::{Path, PathBuf};

use whatif_e2e::{World, as_root_and_user, needs};

as_root_and_user!(
    a_commit_has_what_was_applied_and_nothing_else,
    a_commit_carries_the_users_name_and_says_where_it_comes_from,
    nothing_the_repository_names_is_run,
    hooks_run_on_request,
    work_in_progress_stays_in_progress,
    an_edit_as_young_as_the_index_is_not_forgotten,
    uncommitted_edits_of_the_same_file_stay_uncommitted,
    what_cannot_be_told_apart_is_not_applied,
    what_the_last_commit_has_is_not_committed_again,
    a_change_among_the_users_own_edits_stays_uncommitted,
    marks_of_the_index_stay,
    a_linked_worktree_gets_the_commit,
    a_subdirectory_and_a_first_commit_are_fine,
    without_git_nothing_is_written,
    without_a_name_nothing_is_half_done,
    without_commit_git_is_left_alone,
    a_submodule_stays_a_submodule,
    a_nested_repository_is_its_own,
    nothing_is_read_through_a_link,
    a_mode_alone_is_committed,
    a_directory_becomes_a_file_and_a_file_a_directory,
    a_locked_index_stops_everything,
    a_failed_hook_leaves_everything_as_it_was,
    a_branch_that_cannot_move_leaves_everything_as_it_was,
    a_commit_is_signed_as_the_user_wants_it,
    a_commit_that_cannot_be_signed_is_none,
);

/// Git without anybody's configuration but the repository's harmless part.
fn git(w: &World, directory: &Path, arguments: &str) -> String {
    let script = format!("exec git -c core.hooksPath=/dev/null -c core.fsmonitor= -c commit.gpgsign=false {arguments}");
    w.program("/bin/sh").args(["-c", &script]).cwd(directory).go().ok().text().to_owned()
}

fn repository(w: &World) {
    w.write(w.home.join(".gitconfig"), "[user]\n\tname = Ann Example\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n");
    w.outside("git init -q .; echo f > f; echo gone > gone; seq 20 > old; echo other > other; git add .; git commit -qm first")
        .ok();
}

const CHANGES: &str = "echo F > f; rm gone; mv old new; mkdir d; echo x > d/x; chmod 755 d/x; ln -s f link";

fn a_commit_has_what_was_applied_and_nothing_else(w: &World) {
    needs!(w, "git");
    repository(w);
    w.sandbox_with("s", CHANGES);
    w.apply(&["s", "--commit", "-m", "Change things"]).ok();
    let listed = git(w, &w.project, "show --no-renames --name-status --format=%s HEAD");
    assert_eq!(listed, "Change things\n\nA\td/x\nM\tf\nD\tgone\nA\tlink\nA\tnew\nD\told");
    assert_eq!(git(w, &w.project, "ls-tree HEAD d/x link").lines().map(|l| &l[..6]).collect::<Vec<_>>(), ["100755", "120000"]);
    assert_eq!(git(w, &w.project, "status --porcelain"), "", "the index says so, too");
    assert_eq!(git(w, &w.project, "fsck --strict 2>&1"), "");
    // An undo leaves the commit, and says how to record the reverse without anything else.
    w.write("other", "mine");
    let undone = w.whatif(["undo", "--yes"]).go().ok().stdout;
    let next = undone.lines().find_map(|line| line.split_once("stays in git; to commit its reverse: ")).expect("it is said").1;
    w.outside(next).ok();
    assert_eq!(git(w, &w.project, "diff --stat HEAD~2 HEAD"), "");
    assert_eq!(git(w, &w.project, "status --porcelain").trim(), "M other");
}

fn a_commit_carries_the_users_name_and_says_where_it_comes_from(w: &World) {
    needs!(w, "git");
    repository(w);
    w.sandbox_with("origin", CHANGES);
    let document = w.json(["apply", "origin", "--yes", "--commit"]);
    assert_eq!(
        git(w, &w.project, "log -1 '--format=%an <%ae> %cn <%ce>'"),
        "Ann Example <ann@example.org> Ann Example <ann@example.org>"
    );
    let trailers = git(w, &w.project, "log -1 '--format=%(trailers)'");
    assert!(trailers.contains("origin"), "the sandbox is named: {trailers}");
    let head = git(w, &w.project, "rev-parse HEAD");
    assert!(document["commit"].to_string().contains(&head), "{document}");
    assert!(w.json(["history"])[0].to_string().contains(&head), "the history knows it");
}

/// Settings and hooks that would leave a mark.
fn trap(w: &World) -> PathBuf {
    let mark = w.dir.join("mark");
    let evil = w.write(w.dir.join("evil"), format!("#!/bin/sh\necho \"$0 $*\" >> {}\ncat 2>/dev/null\nexit 0\n", mark.display()));
    let script = format!(
        "chmod 755 {e}; echo '* filter=evil diff=evil merge=evil text' > .gitattributes
         for h in applypatch-msg pre-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit post-checkout \
                  post-index-change post-rewrite reference-transaction fsmonitor-watchman; do cp {e} .git/hooks/$h; done
         for k in core.fsmonitor core.editor core.pager core.sshCommand core.askPass diff.external diff.evil.textconv diff.evil.command \
                  merge.evil.driver filter.evil.clean filter.evil.smudge filter.evil.process gpg.program gpg.ssh.program sequence.editor \
                  credential.helper trailer.evil.command interactive.diffFilter; do git config $k {e}; done
         git config commit.gpgsign true; git config user.signingkey x; git config alias.commit '!{e}'; git config alias.add '!{e}'
         git config core.hooksPath .git/hooks; git config trailer.evil.ifmissing add; git config commit.template {e}
         # Files younger than the index are hashed again, through the filters, whenever git writes it.
         touch -d 2001-01-01 .git/index",
        e = evil.display()
    );
    w.outside(&script).ok();
    let _ = std::fs::remove_file(&mark);
    mark
}

fn nothing_the_repository_names_is_run(w: &World) {
    needs!(w, "git");
    repository(w);
    w.sandbox_with("s", CHANGES);
    let mark = trap(w);
    w.whatif(["diff", "s"]).go().ok();
    w.whatif(["apply", "s", "--dry-run", "--commit"]).go().ok();
    w.whatif(["status", "s"]).go().ok();
    w.apply(&["s", "--commit", "-m", "Quietly"]).ok();
    w.whatif(["history"]).go().ok();
    w.whatif(["undo", "--yes"]).go().ok();
    assert!(!mark.exists(), "these were run:\n{}", std::fs::read_to_string(&mark).unwrap_or_default());
    assert_eq!(w.read("f"), "f\n");
}

fn hooks_run_on_request(w: &World) {
    needs!(w, "git");
    repository(w);
    let mark = w.dir.join("mark");
    w.outside(&format!(
        "printf '#!/bin/sh\\necho ran > {}\\n' > .git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit",
        mark.display()
    ))
    .ok();
    w.sandbox_with("s", CHANGES);
    w.apply(&["s", "--files", "f", "--commit"]).ok();
    assert!(!mark.exists());
    w.apply(&["s", "--commit", "--hooks"]).ok();
    assert!(mark.exists());
}

fn work_in_progress_stays_in_progress(w: &World) {
    needs!(w, "git");
    repository(w);
    w.outside("echo staged > staged; git add staged; echo edited >> other; echo untracked > untracked").ok();
    let in_progress = git(w, &w.project, "status --porcelain");
    w.sandbox_with("s", "echo F > f");
    w.apply(&["s", "--commit", "-m", "Only f"]).ok();
    assert_eq!(git(w, &w.project, "show --name-only --format= HEAD"), "f");
    assert_eq!(git(w, &w.project, "status --porcelain"), in_progress);
}

/// `b`, with an edit that is not staged, and `c`, half of whose edits are staged. The sandbox has edits of its own in both.
fn with_edits_of_both(w: &World) {
    repository(w);
    w.outside("seq 40 > b; seq 40 > c; git add .; git commit -qm second").ok();
    w.outside("echo my-wip >> b; chmod 755 b; echo staged >> c; git add c; sed -i s/^20$/unstaged/ c").ok();
    w.sandbox_with("s", "sed -i s/^5$/sandbox/ b c");
}

/// Git tells an edit of the same second and size only by the time of its index.
fn an_edit_as_young_as_the_index_is_not_forgotten(w: &World) {
    needs!(w, "git", "python3");
    repository(w);
    w.outside(
        "python3 -c 'import time; time.sleep(1.02 - time.time() % 1)'
         printf 111 > other; git commit -qam second; printf 222 > other; sleep 1.1",
    )
    .ok();
    let unstaged = || w.outside("GIT_OPTIONAL_LOCKS=0 git status --porcelain").ok().text().to_owned();
    assert_eq!(unstaged(), " M other");
    w.sandbox_with("s", "echo new > z");
    w.apply(&["s", "--commit"]).ok();
    assert_eq!(unstaged(), " M other");
    assert_ne!(w.outside("git checkout -q -b elsewhere HEAD~2").code, 0, "git overwrote it");
    assert_eq!(w.read("other"), "222");
}

fn uncommitted_edits_of_the_same_file_stay_uncommitted(w: &World) {
    needs!(w, "git");
    with_edits_of_both(w);
    w.apply(&["s", "--commit", "-m", "Only the sandbox"]).ok().says("your own edits in: b, c");
    let added = |what: &str| git(w, &w.project, &format!("{what} | grep '^[+-][a-z0-9]' | sort | paste -sd ' '"));
    assert_eq!(added("show HEAD"), "+sandbox +sandbox -5 -5");
    assert_eq!(added("diff --cached"), "+staged");
    assert_eq!(added("diff"), "+my-wip +unstaged -20");
    assert_eq!(git(w, &w.project, "ls-tree HEAD b").get(..6), Some("100644"), "nor the mode");
    assert!(w.read("b").contains("my-wip") && w.read("c").contains("unstaged") && w.read("c").contains("sandbox"));
    assert_eq!(git(w, &w.project, "fsck --strict --no-dangling 2>&1"), "");
    w.sandbox_with("t", "echo F > f; rm gone");
    let plan = w.apply(&["t", "--commit", "--dry-run"]).ok().stdout;
    assert!(plan.contains("to be committed: 2 files"), "{plan}");
}

fn what_cannot_be_told_apart_is_not_applied(w: &World) {
    needs!(w, "git");
    with_edits_of_both(w);
    w.outside("sed -i s/^5$/mine/ b; echo new > untracked").ok();
    w.sandbox_with("edits", "sed -i s/^mine$/sandbox/ b");
    w.sandbox_with("untracked", "echo more >> untracked");
    w.sandbox_with("staged", "sed -i s/^unstaged$/sandbox/ c; sed -i s/^staged$/other/ c");
    w.sandbox_with("deleted", "rm c");
    let before = (everything(w), w.read("b"), w.read("c"), w.read("untracked"));
    for sandbox in ["edits", "untracked", "staged", "deleted"] {
        w.apply(&[sandbox, "--commit", "--dry-run"]).fails_with_hint(125);
        w.apply(&[sandbox, "--commit"]).fails_with_hint(125).says("nothing was applied").says("Commit or stash");
        assert_eq!((everything(w), w.read("b"), w.read("c"), w.read("untracked")), before, "{sandbox}");
    }
    w.apply(&["edits"]).ok();
}

fn what_the_last_commit_has_is_not_committed_again(w: &World) {
    needs!(w, "git");
    repository(w);
    w.sandbox_with("s", CHANGES);
    w.apply(&["s", "--commit"]).ok();
    let head = git(w, &w.project, "rev-parse HEAD");
    w.whatif(["undo", "--yes"]).go().ok();
    w.apply(&["s", "--commit"]).ok().says("nothing was committed");
    assert_eq!(git(w, &w.project, "rev-parse HEAD"), head, "no empty commit");
    assert_eq!(git(w, &w.project, "status --porcelain"), "");
}

fn a_change_among_the_users_own_edits_stays_uncommitted(w: &World) {
    needs!(w, "git");
    repository(w);
    w.sandbox_with("s", "sed -i s/^5$/five/ old");
    w.sandbox_with("t", "sed -i s/^5$/five/ old; echo F > f");
    w.outside("sed -i 's/^5$/five/; s/^15$/fifteen/' old").ok();
    let before = (git(w, &w.project, "rev-parse HEAD"), git(w, &w.project, "diff"));
    let said = w.apply(&["s", "--commit"]).ok().says("not committed, among uncommitted edits of yours already: old");
    assert!(!said.stderr.contains("the last commit has it"), "{}", said.stderr);
    assert_eq!((git(w, &w.project, "rev-parse HEAD"), git(w, &w.project, "diff")), before);
    w.apply(&["t", "--commit"]).ok().says("not committed, among uncommitted edits of yours already: old");
    assert_eq!(git(w, &w.project, "show --name-only --format= HEAD"), "f");
    assert_eq!(git(w, &w.project, "diff"), before.1);
    // Once they are committed, that is what there is to say.
    w.sandbox_with("u", "sed -i s/^10$/ten/ old");
    w.outside("sed -i 's/^10$/ten/; s/^1$/one/' old; git commit -qam all").ok();
    w.apply(&["u", "--commit"]).ok().says("nothing was committed: the last commit has it all already");
}

fn marks_of_the_index_stay(w: &World) {
    needs!(w, "git");
    repository(w);
    w.outside("git update-index --skip-worktree f; git update-index --assume-unchanged other").ok();
    w.sandbox_with("s", "echo F > f; echo OTHER > other; echo G > gone");
    w.apply(&["s", "--commit"]).ok();
    assert_eq!(git(w, &w.project, "ls-files -v"), "S f\nH gone\nH old\nh other");
    assert_eq!(git(w, &w.project, "show HEAD:f HEAD:other"), "F\nOTHER");
}

fn a_linked_worktree_gets_the_commit(w: &World) {
    needs!(w, "git");
    repository(w);
    let tree = w.home.join("tree");
    w.outside("git worktree add -q ../tree -b side").ok();
    w.sandbox_in(&tree, "s", "echo F > f");
    w.whatif(["apply", "s", "--yes", "--commit", "-m", "In the worktree"]).cwd(&tree).go().ok();
    assert_eq!(git(w, &w.project, "log -1 --format=%s side"), "In the worktree");
    assert_eq!(git(w, &w.project, "log -1 --format=%s main"), "first");
    assert_eq!((git(w, &tree, "status --porcelain"), git(w, &w.project, "status --porcelain")), (String::new(), String::new()));
    assert_eq!(w.read("f"), "f\n");
}

fn a_subdirectory_and_a_first_commit_are_fine(w: &World) {
    needs!(w, "git");
    w.write(w.home.join(".gitconfig"), "[user]\n\tname = Ann Example\n\temail = ann@example.org\n");
    w.outside("git init -q .; mkdir sub").ok();
    let sub = w.project.join("sub");
    w.sandbox_in(&sub, "s", "echo x > x; echo y > ../y");
    w.whatif(["apply", "s", "--yes", "--commit", "-m", "First"]).cwd(&sub).go().ok();
    assert_eq!(git(w, &w.project, "show --name-only --format=%s HEAD"), "First\n\nsub/x\ny");
}

fn without_git_nothing_is_written(w: &World) {
    w.outside("echo f > f").ok();
    w.sandbox_with("s", "echo F > f");
    let outcome = w.apply(&["s", "--commit"]);
    assert!(outcome.code != 0 && outcome.stderr.contains("git"), "{outcome:?}");
    assert_eq!(w.read("f"), "f\n");
}

fn without_a_name_nothing_is_half_done(w: &World) {
    needs!(w, "git");
    w.outside("git init -q .; echo f > f; git add .; git -c user.name=x -c user.email=x@y commit -qm first").ok();
    w.sandbox_with("s", "echo F > f");
    let outcome = w.apply(&["s", "--commit"]);
    match outcome.code {
        0 => assert_eq!(git(w, &w.project, "show --name-only --format= HEAD"), "f"),
        _ => assert_eq!((w.read("f"), git(w, &w.project, "log --format=%s")), ("f\n".into(), "first".into()), "{outcome:?}"),
    }
}

fn without_commit_git_is_left_alone(w: &World) {
    needs!(w, "git");
    repository(w);
    w.sandbox_with("s", CHANGES);
    let before = whatif_e2e::canary(&[&w.project.join(".git")]);
    w.apply(&["s"]).ok();
    whatif_e2e::assert_same(&before, &whatif_e2e::canary(&[&w.project.join(".git")]));
}

fn a_submodule_stays_a_submodule(w: &World) {
    needs!(w, "git");
    repository(w);
    w.outside("cp -r . ../library; git -c protocol.file.allow=always submodule -q add ../library sub; git commit -qam sub").ok();
    let link = git(w, &w.project, "ls-tree HEAD sub");
    assert!(link.starts_with("160000 "), "{link}");
    w.sandbox_with("s", "echo F > f; echo changed > sub/f; echo new > sub/new");
    w.apply(&["s", "--commit", "-m", "Both"]).ok().says("part of another repository: sub/f, sub/new");
    assert_eq!(git(w, &w.project, "ls-tree HEAD sub"), link);
    assert_eq!(git(w, &w.project, "show --name-only --format=%s HEAD"), "Both\n\nf");
    assert_eq!(w.read("sub/f"), "changed\n");
    assert_eq!(git(w, &w.project.join("sub"), "status --porcelain"), " M f\n?? new");
}

fn a_nested_repository_is_its_own(w: &World) {
    needs!(w, "git");
    repository(w);
    w.outside("git init -q nested; echo old > nested/old").ok();
    w.sandbox_with("s", "echo F > f; echo new > nested/old; git init -q made; echo made > made/file");
    w.apply(&["s", "--risky", "--commit", "-m", "Mine"]).ok().says("nested/old");
    assert_eq!(git(w, &w.project, "show --name-only --format=%s HEAD"), "Mine\n\nf");
    assert_eq!((w.read("nested/old"), w.read("made/file")), ("new\n".into(), "made\n".into()));
}

/// A deleted path leads somewhere else once a link has taken the place of its directory.
fn nothing_is_read_through_a_link(w: &World) {
    needs!(w, "git");
    repository(w);
    w.outside("mkdir conf; echo harmless > conf/config; git add .; git commit -qm conf; git config remote.x.url https://token-7@x.invalid")
        .ok();
    w.sandbox_with("s", "rm -r conf; ln -s .git conf");
    w.apply(&["s", "--risky", "--commit", "-m", "Link"]).ok();
    let listed = git(w, &w.project, "ls-tree -r HEAD conf");
    assert!(listed.starts_with("120000 ") && listed.lines().count() == 1, "{listed}");
    assert!(!git(w, &w.project, "log -p --all").contains("token-7"));
    assert_eq!(git(w, &w.project, "status --porcelain"), "");
}

fn a_mode_alone_is_committed(w: &World) {
    needs!(w, "git");
    repository(w);
    w.sandbox_with("s", "chmod 755 f");
    w.apply(&["s", "--commit", "-m", "Mode"]).ok();
    let listed = git(w, &w.project, "ls-tree HEAD f");
    assert!(listed.starts_with("100755 "), "{listed}");
    assert_eq!((git(w, &w.project, "show HEAD:f"), git(w, &w.project, "status --porcelain")), ("f".into(), String::new()));
}

fn a_directory_becomes_a_file_and_a_file_a_directory(w: &World) {
    needs!(w, "git");
    repository(w);
    w.outside("mkdir d; echo x > d/x; git add .; git commit -qm d").ok();
    w.sandbox_with("s", "rm -r d; echo d > d; rm f; mkdir f; echo y > f/y; ln other twin");
    w.apply(&["s", "--commit", "-m", "Types"]).ok();
    assert_eq!(git(w, &w.project, "ls-tree -r --name-only HEAD").replace('\n', " "), "d f/y gone old other twin");
    assert_eq!(git(w, &w.project, "status --porcelain"), "");
}

/// What must not differ after a commit that failed.
fn everything(w: &World) -> (String, String, String, bool) {
    let state = git(w, &w.project, "rev-parse HEAD; git ls-files -s; git for-each-ref");
    (state, git(w, &w.project, "status --porcelain"), w.read("f"), w.project.join(".git/index.lock").exists())
}

fn a_locked_index_stops_everything(w: &World) {
    needs!(w, "git");
    repository(w);
    w.sandbox_with("s", CHANGES);
    let before = everything(w);
    w.outside(": > .git/index.lock").ok();
    w.apply(&["s", "--commit"]).fails_with_hint(125).says("index.lock");
    w.outside("rm .git/index.lock").ok();
    assert_eq!(everything(w), before);
    w.apply(&["s", "--commit"]).ok();
    assert_eq!(git(w, &w.project, "status --porcelain"), "");
}

fn a_failed_hook_leaves_everything_as_it_was(w: &World) {
    needs!(w, "git");
    repository(w);
    w.outside("printf '#!/bin/sh\\nexit 1\\n' > .git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit").ok();
    w.sandbox_with("s", CHANGES);
    let before = everything(w);
    w.apply(&["s", "--commit", "--hooks"]).fails_with_hint(125).says("undone");
    assert_eq!(everything(w), before);
    w.apply(&["s", "--commit"]).ok();
    assert_eq!(git(w, &w.project, "show --no-renames --name-only --format= HEAD").lines().count(), 6);
}

fn a_branch_that_cannot_move_leaves_everything_as_it_was(w: &World) {
    needs!(w, "git");
    repository(w);
    w.sandbox_with("s", CHANGES);
    let before = everything(w);
    w.outside(": > .git/refs/heads/main.lock").ok();
    w.apply(&["s", "--commit"]).fails_with_hint(125).says("undone");
    w.outside("rm .git/refs/heads/main.lock").ok();
    assert_eq!(everything(w), before);
}

/// A program that signs as gpg does, as far as git can tell.
fn signer(w: &World, name: &str, script: &str) -> String {
    let path = w.write(w.home.join(name), format!("#!/bin/sh\n{script}\n"));
    w.outside(&format!("chmod 755 {}", path.display())).ok();
    path.display().to_string()
}

fn a_commit_is_signed_as_the_user_wants_it(w: &World) {
    needs!(w, "git");
    repository(w);
    let mine = "cat > /dev/null; printf '%s\\n' '-----BEGIN PGP SIGNATURE-----' mine '-----END PGP SIGNATURE-----'; printf '\\n[GNUPG:] SIG_CREATED \\n' >&2";
    let mine = signer(w, "mine", mine);
    let evil = signer(w, "evil", &format!("echo ran > {}/ran; exit 1", w.dir.display()));
    w.outside(&format!("git config gpg.program {evil}; git config gpg.openpgp.program {evil}; git config gpg.format ssh; git config gpg.ssh.program {evil}")).ok();
    w.outside(&format!("git config --global commit.gpgsign true; git config --global gpg.program {mine}")).ok();
    w.sandbox_with("s", CHANGES);
    w.apply(&["s", "--commit", "-m", "Signed"]).ok();
    let commit = git(w, &w.project, "cat-file commit HEAD");
    assert!(commit.contains("gpgsig -----BEGIN PGP SIGNATURE-----\n mine"), "{commit}");
    assert_eq!(git(w, &w.project, "log -1 '--format=%s %an <%ae>'"), "Signed Ann Example <ann@example.org>");
    assert_eq!(git(w, &w.project, "status --porcelain"), "");
    assert!(!w.dir.join("ran").exists(), "what the repository names is not run");
}

fn a_commit_that_cannot_be_signed_is_none(w: &World) {
    needs!(w, "git");
    repository(w);
    let broken = signer(w, "broken", "echo no key >&2; exit 1");
    w.outside(&format!("git config --global commit.gpgsign true; git config --global gpg.program {broken}")).ok();
    w.sandbox_with("s", CHANGES);
    let before = everything(w);
    w.apply(&["s", "--commit"]).fails_with_hint(125).says("sign");
    assert_eq!(everything(w), before);
}
