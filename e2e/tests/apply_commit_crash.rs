//! An `apply --commit` that is killed anywhere: after the next command branch, index and files are all as before or all as after,
//! and nothing of ours is left in `.git`.
//!
//! The moments that matter are tried with a git that kills its caller. `WHATIF_SWEEP=full` tries every system call.

use std::path::PathBuf;
use std::time::Duration;

use whatif_e2e::{Call, Fault, World, as_root_and_user, eventually, needs, sample, wait_for};

as_root_and_user!(
    a_commit_killed_around_a_git_happened_or_did_not,
    a_commit_killed_at_a_system_call_happened_or_did_not,
    a_commit_with_a_failing_system_call_happened_or_did_not,
    a_commit_on_a_disk_that_is_full_happened_or_did_not,
    a_killed_recovery_is_repeated,
    a_git_that_outlives_its_apply_is_waited_for,
    locks_of_a_killed_git_are_removed_and_those_of_others_are_not,
    a_branch_that_somebody_moves_meanwhile_stays_where_it_is,
    a_branch_that_the_sandbox_moved_is_not_moved_twice,
    what_others_put_into_a_new_directory_stays_when_that_is_taken_back,
);

const REPOSITORY: &str = "git init -q .; echo 0 > f; echo gone > gone; echo other > other; git add .; git commit -qm first";
const CHANGES: &str = "echo 1 > f; rm gone; mkdir d; echo x > d/x";

fn repository(w: &World) {
    w.write(w.home.join(".gitconfig"), "[user]\n\tname = Ann Example\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n");
    start_over(w);
}

fn start_over(w: &World) {
    w.outside(&format!("find . -mindepth 1 -delete; {REPOSITORY}; echo mine > other; echo staged > staged; git add staged")).ok();
    w.whatif(["run", "--quiet", "--name", "s", "--", "/bin/sh", "-c", CHANGES]).go().ok();
}

/// What a git that goes on may take.
const PATIENCE: Duration = Duration::from_secs(60);

const COMMIT: [&str; 5] = ["apply", "s", "--yes", "--commit", "-msecond"];

/// Branch, index, files.
fn everything(w: &World) -> String {
    w.outside("git log --format=%s; git ls-files -s; git status --porcelain; cat f; find . -path ./.git -prune -o -print | sort")
        .ok()
        .stdout
}

/// Before and after.
fn ends(w: &World) -> [String; 2] {
    let before = everything(w);
    w.whatif(COMMIT).go().ok();
    let after = everything(w);
    assert_ne!(before, after);
    again(w);
    [before, after]
}

fn again(w: &World) {
    w.whatif(["rm", "s"]).go().ok();
    start_over(w);
}

/// Recovers, and says whether it is committed.
#[track_caller]
fn settled(w: &World, [before, after]: &[String; 2], context: &str) -> bool {
    // A git that takes no lock may be at work as well. And what was removed before is deleted by and by.
    let _ = wait_for(PATIENCE, || {
        w.whatif(["ls"]).go().ok();
        (left(w).is_empty() && w.transient().is_empty()).then_some(())
    });
    let now = everything(w);
    assert!(now == *before || now == *after, "{context}: neither before nor after, but\n{now}");
    assert_eq!(left(w), "", "{context}");
    assert_eq!(w.transient(), Vec::<PathBuf>::new(), "{context}");
    now == *after
}

/// A git that was at work when we were killed goes on to its end; until then nothing is decided. In the end this is what is left.
fn recovered(w: &World, wanted: &str) {
    let _ = wait_for(PATIENCE, || {
        w.whatif(["ls"]).go().ok();
        (left(w) == wanted).then_some(())
    });
}

fn left(w: &World) -> String {
    w.outside("find .git -name '*.lock' -o -name '*whatif*' | sort").ok().stdout
}

/// The crash is forgotten.
fn assert_usable(w: &World, is_committed: bool, [_, after]: &[String; 2], context: &str) {
    if is_committed {
        let head = w.outside("git rev-parse HEAD").ok().text().to_owned();
        assert!(w.json(["history"])[0].to_string().contains(&head), "{context}: the history knows the commit");
        w.whatif(["undo", "--yes"]).go().ok();
        assert_eq!(w.read("f"), "0\n", "{context}");
    } else {
        w.whatif(COMMIT).go().ok();
        assert_eq!(everything(w), *after, "{context}");
    }
}

/// `whatif apply --commit` with a git that does something else at one of its commands.
fn with_git(w: &World, at: &str, instead: &str, arguments: &[&str]) -> Call {
    let script = format!("#!/bin/sh\nPATH=${{PATH#*:}}\ncase \" $* \" in *\" {at} \"*) {instead};; esac\nexec git \"$@\"\n");
    let git = w.write(w.dir.join("bin/git"), script);
    w.outside(&format!("chmod 755 {}", git.display())).ok();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", w.dir.join("bin").display());
    w.whatif(COMMIT).args(arguments).env("PATH", path)
}

fn a_commit_killed_around_a_git_happened_or_did_not(w: &World) {
    needs!(w, "git");
    repository(w);
    let ends = ends(w);
    w.outside("printf '#!/bin/sh\\n' > .git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit").ok();
    let moments = [
        ("fast-import", "kill -9 $PPID", false),
        ("hook run", "kill -9 $PPID", false),
        ("update-ref", "kill -9 $PPID; exit", false),
        ("update-ref", "git \"$@\"; kill -9 $PPID; exit", true),
        // Not we, but git was killed.
        ("update-ref", "kill -9 $$", false),
        ("update-ref", "git \"$@\"; kill -9 $$", true),
    ];
    for (index, (at, instead, is_committed)) in moments.into_iter().enumerate() {
        let context = format!("{instead} at {at}");
        let outcome = with_git(w, at, instead, if at == "hook run" { &["--hooks"] } else { &[] }).go();
        assert_eq!(outcome.code == 0, is_committed && !instead.contains("PPID"), "{context}: {}", outcome.stderr);
        assert_eq!(settled(w, &ends, &context), is_committed, "{context}");
        if [2, 3].contains(&index) {
            assert_usable(w, is_committed, &ends, &context);
        }
        again(w);
    }
}

fn a_commit_killed_at_a_system_call_happened_or_did_not(w: &World) {
    over_system_calls(w, Fault::Kill, 2);
}

fn a_commit_with_a_failing_system_call_happened_or_did_not(w: &World) {
    over_system_calls(w, Fault::Error("EIO"), 1);
}

fn a_commit_on_a_disk_that_is_full_happened_or_did_not(w: &World) {
    over_system_calls(w, Fault::ErrorFromThenOn("ENOSPC"), 1);
}

/// The faults strike git as well, and git goes on when we are killed.
fn over_system_calls(w: &World, fault: Fault, wanted: usize) {
    needs!(w, "git", "strace");
    repository(w);
    let before = everything(w);
    let points = w.points_of(&w.project, &COMMIT);
    let ends = [before, everything(w)];
    for (index, point) in sample(&points, wanted, 20 + 17 * usize::from(w.is_root())).iter().enumerate() {
        again(w);
        let context = format!("{fault:?} at {} {}", point.call, point.number);
        let outcome = w.with_fault(point, fault, &COMMIT).go();
        let is_committed = settled(w, &ends, &context);
        assert!(is_committed || outcome.code != 0, "{context}: it was acknowledged, and it is not there");
        if index % 4 == 0 {
            assert_usable(w, is_committed, &ends, &context);
        }
    }
}

fn a_killed_recovery_is_repeated(w: &World) {
    needs!(w, "git", "strace");
    repository(w);
    let ends = ends(w);
    for (instead, is_committed) in [("kill -9 $PPID; exit", false), ("git \"$@\"; kill -9 $PPID; exit", true)] {
        let crash = || with_git(w, "update-ref", instead, &[]).go();
        crash();
        let points = w.points_of(&w.project, &["ls"]);
        for point in sample(&points, 1, usize::from(w.is_root())) {
            again(w);
            crash();
            let context = format!("{instead}, and then killed at {} {} of the recovery", point.call, point.number);
            w.with_fault(&point, Fault::Kill, &["ls"]).go();
            assert_eq!(settled(w, &ends, &context), is_committed, "{context}");
        }
        again(w);
    }
}

/// Its branch would move after everything was put back.
fn a_git_that_outlives_its_apply_is_waited_for(w: &World) {
    needs!(w, "git");
    repository(w);
    let ends = ends(w);
    let go = w.dir.join("go");
    let wait = format!("kill -9 $PPID; while [ ! -e {} ]; do sleep 0.01; done; exec git \"$@\"", go.display());
    with_git(w, "update-ref", &wait, &[]).go();
    w.whatif(["ls"]).go().ok();
    assert_eq!(w.read("f"), "1\n", "nothing is decided while it lives");
    w.write(&go, "");
    eventually("the branch has moved", || everything(w).starts_with("second"));
    eventually("it is recovered", || {
        w.whatif(["ls"]).go().ok();
        w.transient().is_empty()
    });
    assert!(settled(w, &ends, "git went on"));
}

fn locks_of_a_killed_git_are_removed_and_those_of_others_are_not(w: &World) {
    needs!(w, "git");
    repository(w);
    let ends = ends(w);
    // As git leaves them: the one is empty, in the other is the commit.
    let leave = "for last; do :; done; : > .git/HEAD.lock; for a; do case $a in refs/heads/*) seen=1;; *) [ -z \"${seen-}\" ] || { echo $a > .git/refs/heads/main.lock; break; };; esac; done; kill -9 $PPID; exit";
    with_git(w, "update-ref", leave, &[]).go();
    assert_eq!(left(w).lines().filter(|l| l.ends_with("HEAD.lock") || l.ends_with("main.lock")).count(), 2);
    assert!(!settled(w, &ends, "git was killed with its locks"));
    let others = "rm .git/index.lock; echo other > .git/index.lock; : > .git/HEAD.lock; touch -d 2001-01-01 .git/HEAD.lock; kill -9 $PPID; exit";
    with_git(w, "update-ref", others, &[]).go();
    let theirs = ".git/HEAD.lock\n.git/index.lock\n";
    recovered(w, theirs);
    assert_eq!(left(w), theirs);
    w.outside("rm .git/index.lock .git/HEAD.lock").ok();
    assert!(!settled(w, &ends, "others have locks"));
}

fn a_branch_that_somebody_moves_meanwhile_stays_where_it_is(w: &World) {
    needs!(w, "git");
    repository(w);
    let before = everything(w);
    let theirs = "git update-ref HEAD $(git commit-tree -p HEAD -m theirs 'HEAD^{tree}')";
    with_git(w, "update-ref", &format!("{theirs}; kill -9 $PPID; exit"), &[]).go();
    recovered(w, "");
    assert_eq!(everything(w), format!("theirs\n{before}"), "files and index are as they were");
    assert_eq!(left(w), "");
    with_git(w, "update-ref", &theirs.replace("theirs", "again"), &[]).go().fails_with_hint(125).says("undone");
    assert_eq!(everything(w), format!("again\ntheirs\n{before}"));
    assert_eq!(left(w), "");
}

fn a_branch_that_the_sandbox_moved_is_not_moved_twice(w: &World) {
    needs!(w, "git");
    repository(w);
    let before = everything(w);
    w.sandbox_with("inside", "echo 2 > f; git commit -qam inside");
    w.apply(&["inside", "--all", "--ignored", "--risky", "--commit"]).fails_with_hint(125).says(".git");
    assert_eq!(everything(w), before);
    w.apply(&["inside", "--commit", "-msecond"]).ok();
    assert_eq!(w.outside("git log --format=%s").ok().stdout, "second\nfirst\n");
}

fn what_others_put_into_a_new_directory_stays_when_that_is_taken_back(w: &World) {
    needs!(w, "git");
    repository(w);
    w.whatif(["start", "s"]).go().ok();
    w.exec("s", "mkdir d/closed; echo y > d/closed/y; chmod 500 d/closed").ok();
    with_git(w, "update-ref", "kill -9 $PPID; exit", &[]).go();
    assert!(w.project.join("d/x").exists(), "it was killed when the files were in place");
    w.outside("mkdir d/sub; echo theirs > d/sub/mine; echo more >> d/x; echo more >> d/closed/y").ok();
    let mut said = String::new();
    eventually("it is taken back", || {
        said += &w.whatif(["ls"]).go().ok().stderr;
        w.read("f") == "0\n"
    });
    assert_eq!((w.read("d/sub/mine"), w.read("d/x")), ("theirs\n".into(), "x\nmore\n".into()));
    assert_eq!(w.outside("cat d/closed/y; stat -c %a d/closed").ok().text(), "y\nmore\n500");
    assert!(said.contains("/d: contains files added or changed since"), "{said}");
    // It is over.
    assert_eq!(w.whatif(["ls"]).go().ok().stderr, "");
    assert_eq!(w.transient(), Vec::<PathBuf>::new());
}
