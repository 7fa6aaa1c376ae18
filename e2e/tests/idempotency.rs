//! The same command with the same key is done once, and gives the same answer.

use whatif_e2e::{Outcome, World, as_root_and_user};

as_root_and_user!(
    a_run_is_done_once,
    a_repeated_run_says_what_came_of_it,
    a_sandbox_is_made_once,
    a_fork_is_made_once,
    an_apply_is_made_once,
    a_key_is_for_one_request,
    what_failed_can_be_tried_again,
    two_at_once_do_it_once,
);

fn names(w: &World) -> Vec<String> {
    w.whatif(["ls", "-q"]).go().ok().stdout.lines().map(str::to_owned).collect()
}

const KEY: [&str; 2] = ["--idempotency-key", "k-1"];

fn a_run_is_done_once(w: &World) {
    let run =
        || -> Outcome { w.whatif(["--json", "run"]).args(KEY).args(["--", "sh", "-c", "date +%N > f; date +%N; exit 3"]).go() };
    let (first, second) = (run(), run());
    assert_eq!((first.code, second.code), (3, 3), "{second:?}");
    assert_eq!(first.json(), second.json());
    assert_eq!(names(w).len(), 1);
    // Without --json it is another form of the same.
    let told = w.whatif(["run"]).args(KEY).args(["--", "sh", "-c", "date +%N > f; date +%N; exit 3"]).go();
    assert!(told.code == 3 && told.stderr.contains("done before with the key 'k-1'"), "{told:?}");
    // Another key, another run.
    w.whatif(["run", "--idempotency-key", "k-2", "--", "sh", "-c", "echo > g"]).go().ok();
    assert_eq!(names(w).len(), 2);
}

fn a_repeated_run_says_what_came_of_it(w: &World) {
    let run = || w.whatif(["run"]).args(KEY).args(["--", "sh", "-c", "echo a > a; exit 3"]).go();
    let (first, second) = (run(), run());
    assert_eq!((first.code, second.code), (3, 3), "{second:?}");
    let (said, report) = second.stderr.split_once('\n').expect("two lines");
    assert!(said.contains("done before with the key 'k-1'; it was not done again"), "{second:?}");
    assert!(first.stderr == report && report.contains("the command failed with exit code 3") && report.contains("Kept as"));
    // Where nothing was said, there is still the exit code.
    let quiet = || w.whatif(["run", "-q", "--idempotency-key", "k-2", "--", "sh", "-c", "exit 4"]).go();
    quiet();
    let again = quiet();
    assert!(again.code == 4 && again.stderr.contains("with exit code 4; it was not done again"), "{again:?}");
}

fn a_sandbox_is_made_once(w: &World) {
    let new = |name: &str| w.whatif(["new", name]).args(KEY).go().ok();
    assert!(!new("first").stderr.contains("k-1"));
    let again = new("first");
    assert!(again.stdout == "first\n" && again.stderr.contains("first was made before with the key 'k-1'"), "{again:?}");
    let other = new("second");
    assert!(other.stdout == "first\n" && other.stderr.contains("no other sandbox was made, so no 'second'"), "{other:?}");
    assert_eq!(names(w), ["first"]);
}

fn a_fork_is_made_once(w: &World) {
    w.whatif(["run", "--keep", "--name", "s", "-q", "--", "sh", "-c", "echo a > a"]).go().ok();
    let fork = || w.whatif(["--json", "fork", "s", "--count", "2"]).args(KEY).go().ok().json();
    assert_eq!(fork(), fork());
    assert_eq!(names(w).len(), 3);
    let told = w.whatif(["fork", "s", "--count", "2"]).args(KEY).go().ok();
    assert!(told.stderr.contains("not done again"), "{told:?}");
    assert_eq!(names(w).len(), 3);
}

fn an_apply_is_made_once(w: &World) {
    w.whatif(["run", "--keep", "--name", "s", "-q", "--", "sh", "-c", "echo a > a"]).go().ok();
    let apply = || w.whatif(["--json", "apply", "s", "--yes"]).args(KEY).go().ok().json();
    let first = apply();
    // Reality has gone on; to apply it again would bring it back.
    w.outside("rm a").ok();
    assert_eq!(apply(), first);
    assert!(!w.project.join("a").exists());
    assert_eq!(w.json(["history"]).as_array().map(Vec::len), Some(1));
}

fn a_key_is_for_one_request(w: &World) {
    w.whatif(["run"]).args(KEY).args(["--", "sh", "-c", "echo a > a"]).go().ok();
    for other in [&["run", "--", "sh", "-c", "echo b > b"][..], &["run", "--keep", "--", "sh", "-c", "echo a > a"]] {
        let (verb, rest) = other.split_first().expect("a verb");
        let refused = w.whatif(["--json", verb]).args(KEY).args(rest).go();
        assert!(refused.code == 125 && refused.stderr.contains("\"key_reused\""), "{refused:?}");
    }
    let name = names(w).pop().expect("the first one");
    let refused = w.whatif(["--json", "fork", &name]).args(KEY).go();
    assert!(refused.code == 125 && refused.stderr.contains("\"key_reused\""), "{refused:?}");
    assert_eq!(names(w).len(), 1);
    assert!(w.whatif(["run", "--idempotency-key", "", "--", "true"]).go().code != 0);
}

fn what_failed_can_be_tried_again(w: &World) {
    let fork = || w.whatif(["fork", "later"]).args(KEY).go();
    assert_ne!(fork().code, 0);
    w.whatif(["run", "--keep", "--name", "later", "-q", "--", "sh", "-c", "echo a > a"]).go().ok();
    fork().ok();
    fork().ok();
    assert_eq!(names(w).len(), 2);
    // A conflict is no answer for good.
    w.write("a", "outside\n");
    let apply = |key: &str| w.whatif(["apply", "later", "--yes", "--idempotency-key", key]).go();
    assert_eq!(apply("k-3").code, 1);
    w.outside("rm a").ok();
    apply("k-3").ok();
    assert_eq!(w.read("a"), "a\n");
}

fn two_at_once_do_it_once(w: &World) {
    let answers: Vec<Outcome> = std::thread::scope(|scope| {
        let run = || w.whatif(["--json", "run"]).args(KEY).args(["--", "sh", "-c", "sleep 1; date +%N > f; date +%N"]).go();
        let running: Vec<_> = (0..3).map(|_| scope.spawn(run)).collect();
        running.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(answers.iter().all(|answer| answer.code == 0 && answer.stdout == answers[0].stdout), "{answers:?}");
    assert_eq!(names(w).len(), 1);
}
