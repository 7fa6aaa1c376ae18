//! Limits of the process that whatif itself runs into: sizes of files, processes and threads. An error that says so, and nothing lost.

use whatif_e2e::{Outcome, World, as_root_and_user, as_user};

as_root_and_user!(
    a_file_larger_than_the_limit_is_an_error,
    commands_inside_get_the_signal_of_the_limit_on_file_sizes,
    a_stack_that_is_too_small_is_refused,
);
// Root may have as many processes as it likes.
as_user!(an_apply_needs_no_second_thread, a_process_that_cannot_be_started_is_no_riddle);

/// `whatif …` with limits as `prlimit` takes them.
#[track_caller]
fn limited(w: &World, limit: &str, arguments: &[&str]) -> Outcome {
    w.program("/usr/bin/prlimit").args([limit, "--"]).args([&w.bin]).args(arguments).go()
}

#[track_caller]
fn is_refused(outcome: Outcome, hint: &str) {
    assert!(outcome.code == 125 && outcome.stderr.contains(hint), "{outcome:?}");
}

fn a_file_larger_than_the_limit_is_an_error(w: &World) {
    w.outside("git init -q .; git config user.name n; git config user.email e; echo old > f; git add f; git commit -qm one").ok();
    w.whatif(["run", "-q", "--keep", "--name", "s", "--", "sh", "-c", "echo new > f; head -c 900000 /dev/urandom > large"])
        .go()
        .ok();
    w.whatif(["export", "s", "-o", "../s.whatif"]).go().ok();
    let limit = "--fsize=700000";
    for apply in [&["apply", "s", "--all", "--yes"][..], &["apply", "s", "--all", "--yes", "--commit", "-m", "two"]] {
        is_refused(limited(w, limit, apply), "ulimit -f");
        assert_eq!(w.outside("cat f; ls -A; git status --short; git log --format=%s").ok().stdout, "old\n.git\nf\none\n");
    }
    is_refused(limited(w, limit, &["import", "../s.whatif", "--name", "imported"]), "ulimit -f");
    assert_eq!(w.whatif(["ls", "-q"]).go().ok().stdout, "s\n");
    w.whatif(["apply", "s", "--all", "--yes", "--commit", "-m", "two"]).go().ok();
}

fn commands_inside_get_the_signal_of_the_limit_on_file_sizes(w: &World) {
    let script = "trap '' PIPE; dd if=/dev/zero of=large bs=1000 count=900; echo $?";
    let run = || limited(w, "--fsize=700000", &["run", "--rm", "-q", "--", "sh", "-c", script]);
    // The program of keepers is larger, and is put down by the first who needs it.
    is_refused(run(), "ulimit -f");
    w.inside("true").ok();
    let outcome = run();
    // 128 and the number of the signal.
    assert_eq!(outcome.stdout, "153\n", "{outcome:?}");
}

fn an_apply_needs_no_second_thread(w: &World) {
    let many = "for n in $(seq 200); do mkdir d$n; echo $n > d$n/f; done";
    w.whatif(["run", "-q", "--keep", "--name", "s", "--", "sh", "-c", many]).go().ok();
    assert_eq!(limited(w, "--nproc=1", &["diff", "s", "--name-only"]).ok().stdout.lines().count(), 200);
    limited(w, "--nproc=1", &["apply", "s", "--all", "--yes"]).ok();
    assert_eq!(w.outside("cat d*/f | wc -l").ok().text(), "200");
}

fn a_process_that_cannot_be_started_is_no_riddle(w: &World) {
    w.outside("git init -q .; git config user.name n; git config user.email e; echo old > f; git add f; git commit -qm one").ok();
    w.whatif(["run", "-q", "--keep", "--name", "s", "--", "sh", "-c", "echo new > f"]).go().ok();
    w.new_sandbox("living");
    w.exec("living", "echo made > made").ok();
    for command in [
        &["run", "--", "true"][..],
        &["exec", "s", "--", "true"],
        &["status", "s"],
        &["snapshot", "living"],
        &["apply", "s", "--all", "--yes", "--commit", "-m", "two"],
        &["race", "--count", "2", "--", "true"],
    ] {
        is_refused(limited(w, "--nproc=1", command), "ulimit -u");
    }
    assert_eq!(w.outside("cat f; git log --format=%s").ok().stdout, "old\none\n");
    w.whatif(["apply", "s", "--all", "--yes", "--commit", "-m", "two"]).go().ok();
}

fn a_stack_that_is_too_small_is_refused(w: &World) {
    w.new_sandbox("s");
    for arguments in [&["--version"][..], &["ls"], &["exec", "s", "--", "true"], &["apply", "s", "--yes"]] {
        is_refused(limited(w, "--stack=65536:8388608", arguments), "ulimit -s 8192");
    }
    let refused = limited(w, "--stack=65536:65536", &["--json", "ls"]);
    let error: serde_json::Value = serde_json::from_str(&refused.stderr).unwrap_or_else(|e| panic!("{e}: {refused:?}"));
    assert_eq!(error["error"]["code"], "stack_too_small", "{error}");
    // What is enough for whatif is what the command gets.
    let inside = limited(w, "--stack=1048576:1048576", &["exec", "s", "--", "/bin/sh", "-c", "ulimit -s"]).ok();
    assert_eq!(inside.text(), "1024");
}
