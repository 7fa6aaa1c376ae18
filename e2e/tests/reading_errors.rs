//! A call by which a command looks at something fails: the command says so, or its result is right. Nothing is taken for absent.
//!
//! By default a few points of each command are tried; `WHATIF_SWEEP=full` tries every one.

use whatif_e2e::{Detail, Fault, Tree, World, as_root_and_user, needs, on_other_backends, sample};

as_root_and_user!(
    a_sandbox_that_could_not_be_looked_at_is_kept,
    looking_commands_tell_the_truth_or_fail,
    an_apply_takes_all_or_nothing,
    a_copy_that_cannot_be_read_deletes_nothing,
    too_few_descriptors_lose_nothing,
    too_few_descriptors_are_named_as_the_cause,
    deep_and_wide_trees_need_few_descriptors,
    a_snapshot_that_fails_leaves_the_sandbox_as_it_was,
    a_report_that_cannot_be_written_says_what_was_done,
    a_socket_over_a_directory_travels_as_its_deletion,
);

on_other_backends!(a_socket_over_a_directory_travels_as_its_deletion);

const ERRORS: [&str; 4] = ["EIO", "EMFILE", "EACCES", "ENOMEM"];
const BASE: &str = "mkdir -p d/e; for n in 1 2 3; do echo $n > d/f$n; done; echo b > b; ln -s b l; setfattr -n user.x -v 1 b";
const WORK: &str = "echo new > n; echo B > b; rm d/f1; echo deep > d/e/deep; ln -sfn n l; setfattr -n user.x -v 2 b";
const CHANGED: [&str; 5] = ["b", "d/e/deep", "d/f1", "l", "n"];
/// So many points of each command.
const WANTED: usize = 8;

fn names(w: &World, sandbox: &str) -> Vec<String> {
    let shown = w.whatif(["diff", sandbox, "--name-only"]).go().ok().stdout;
    shown.lines().map(str::to_owned).collect()
}

fn a_sandbox_that_could_not_be_looked_at_is_kept(w: &World) {
    needs!(w, "strace");
    let run = |name: &'static str| ["run", "--name", name, "--", "/bin/sh", "-c", "echo made > made"];
    let points = w.points_of_reading(&w.project, &run("first"));
    // What comes late is the look at the result.
    let late = &points[points.len() / 2..];
    for (number, point) in sample(late, WANTED, 0).iter().enumerate() {
        let error = ERRORS[number % ERRORS.len()];
        let outcome = w.with_fault_alone(point, Fault::Error(error), &run("kept")).go();
        let is_listed = w.json(["ls"]).as_array().is_some_and(|all| all.iter().any(|s| s["name"] == "kept"));
        // The fault may hit the command itself, which then wrote nothing.
        let is_denied = outcome.stderr.contains("nothing changed") && !outcome.stderr.contains("the command failed");
        assert!(outcome.code != 134 && !is_denied, "{error} at {point:?}: {outcome:?}");
        if is_listed {
            assert_eq!(names(w, "kept"), ["made"], "{error} at {point:?}: {outcome:?}");
            w.whatif(["rm", "kept"]).go().ok();
        } else {
            assert_ne!(outcome.code, 0, "{error} at {point:?}: {outcome:?}");
        }
    }
}

fn looking_commands_tell_the_truth_or_fail(w: &World) {
    needs!(w, "strace");
    w.outside(BASE).ok();
    w.sandbox_with("s", WORK);
    let before = Tree::of(&w.project, Detail::Times);
    let verbs: [&[&str]; 4] = [&["diff", "s", "--name-only"], &["status", "s"], &["export", "s", "-o", "-"], &["gc"]];
    for (turn, verb) in verbs.iter().enumerate() {
        let is_diff = verb[0] == "diff";
        w.whatif(verb.iter().copied()).go().ok();
        for (number, point) in sample(&w.points_of_reading(&w.project, verb), WANTED / 2, turn).iter().enumerate() {
            let error = ERRORS[number % ERRORS.len()];
            let outcome = w.with_fault(point, Fault::Error(error), verb).go();
            assert_ne!(outcome.code, 134, "{error} at {point:?}: {outcome:?}");
            if is_diff && outcome.code == 0 && !outcome.stderr.contains("could not be read") {
                let shown: Vec<&str> = outcome.stdout.lines().collect();
                assert_eq!(shown, CHANGED, "{error} at {point:?}: {outcome:?}");
            }
            Tree::of(&w.project, Detail::Times).assert_is(&before, "only an apply writes");
        }
    }
    assert_eq!(names(w, "s"), CHANGED);
}

fn an_apply_takes_all_or_nothing(w: &World) {
    needs!(w, "strace");
    w.outside(BASE).ok();
    w.sandbox_with("s", WORK);
    sweep_apply(w, &["apply", "s", "--all", "--yes"]);
}

/// Each sandbox is forked from the same one; what became real is undone.
fn sweep_apply(w: &World, apply: &[&str]) {
    let before = Tree::of(&w.project, Detail::Content);
    let points = w.points_of_reading(&w.project, apply);
    let after = Tree::of(&w.project, Detail::Content);
    w.whatif(["undo", "--yes"]).go().ok();
    for (number, point) in sample(&points, WANTED, 1).iter().enumerate() {
        let error = ERRORS[number % ERRORS.len()];
        let outcome = w.with_fault(point, Fault::Error(error), apply).go();
        // Whatever was interrupted is finished by the next command.
        w.whatif(["ls"]).go().ok();
        let now = Tree::of(&w.project, Detail::Content);
        let (is_before, is_after) = (now.differences(&before).is_empty(), now.differences(&after).is_empty());
        assert!(is_before || is_after, "{error} at {point:?}: {outcome:?}\n{:?}", now.differences(&after));
        assert!(outcome.code != 0 || is_after, "{error} at {point:?}: {outcome:?}");
        if is_after {
            w.whatif(["undo", "--yes"]).go().ok();
        } else {
            assert_eq!(names(w, "s"), CHANGED, "{error} at {point:?}: {outcome:?}");
        }
    }
}

fn a_copy_that_cannot_be_read_deletes_nothing(w: &World) {
    needs!(w, "strace");
    w.outside(BASE).ok();
    w.whatif(["run", "--keep", "-q", "--backend", "copy", "--name", "s", "--", "/bin/sh", "-euc", WORK]).go().ok();
    sweep_apply(w, &["apply", "s", "--all", "--yes"]);
}

fn too_few_descriptors_lose_nothing(w: &World) {
    w.outside(BASE).ok();
    w.sandbox_with("s", WORK);
    let before = Tree::of(&w.project, Detail::Times);
    let bin = w.bin.display();
    for descriptors in [5, 6, 7, 8, 9, 10, 12] {
        let outcome = w.outside(&format!("ulimit -n {descriptors}; {bin} diff s --name-only"));
        assert!(outcome.code != 0 || outcome.stdout.lines().eq(CHANGED), "{descriptors}: {outcome:?}");
        assert_ne!(outcome.code, 134, "{descriptors}: {outcome:?}");
        w.outside(&format!("ulimit -n {descriptors}; {bin} run --name r{descriptors} -- sh -c 'echo made > made'"));
        Tree::of(&w.project, Detail::Times).assert_is(&before, "only an apply writes");
    }
    assert_eq!(names(w, "s"), CHANGED);
}

/// Any other advice than this leads nowhere.
fn too_few_descriptors_are_named_as_the_cause(w: &World) {
    w.outside(BASE).ok();
    w.sandbox_with("s", WORK);
    let bin = w.bin.display();
    let all = |descriptors: u32| {
        let commands =
            ["ls".to_owned(), "diff s".to_owned(), "show s".to_owned(), "run --rm -q -- true".to_owned(), "snapshot s".to_owned()];
        let forks = [format!("fork s f{descriptors}"), "exec s -- true".to_owned(), "stop s".to_owned(), "start s".to_owned()];
        for command in commands.into_iter().chain(forks) {
            let outcome = w.outside(&format!("ulimit -n {descriptors}; {bin} {command}"));
            let is_clear = outcome.code == 125 && outcome.stderr.contains("ulimit -n 4096");
            assert!(outcome.code == 0 || is_clear, "{command} with {descriptors}: {outcome:?}");
            assert!(descriptors < 64 || outcome.code == 0, "{command} with {descriptors}: {outcome:?}");
        }
    };
    for descriptors in [5, 6, 9, 16, 20, 64] {
        w.whatif(["start", "s"]).go().ok();
        all(descriptors);
    }
}

fn deep_and_wide_trees_need_few_descriptors(w: &World) {
    w.new_sandbox("s");
    let deep = "d=.; for n in $(seq 60); do d=$d/deep; mkdir $d; echo $n > $d/f; done";
    w.exec("s", &format!("{deep}; for n in $(seq 300); do mkdir -p wide/$n; echo $n > wide/$n/f; done")).ok();
    for layer in ["one", "two", "three"] {
        w.whatif(["snapshot", "s", layer]).go().ok();
        w.exec("s", &format!("for n in $(seq 300); do echo {layer} > wide/$n/{layer}; done")).ok();
    }
    let all = names(w, "s");
    assert_eq!(all.len(), 60 + 4 * 300);
    let bin = w.bin.display();
    for descriptors in 8..=32 {
        for command in ["diff s --name-only", "status s"] {
            let outcome = w.outside(&format!("exec > ../shown; ulimit -n {descriptors}; {bin} {command}"));
            let is_clear = outcome.code == 125 && outcome.stderr.to_lowercase().contains("too many open files");
            assert!(outcome.code == 0 || is_clear, "{command} with {descriptors}: {outcome:?}");
            if outcome.code == 0 && command.starts_with("diff") {
                let shown = w.read("../shown");
                assert!(shown.lines().eq(&all), "{command} with {descriptors}: {}", shown.lines().count());
            }
        }
    }
    w.outside(&format!("ulimit -n 32; {bin} diff s --name-only")).ok();
}

fn a_snapshot_that_fails_leaves_the_sandbox_as_it_was(w: &World) {
    needs!(w, "strace");
    w.outside(BASE).ok();
    w.new_sandbox("s");
    w.exec("s", WORK).ok();
    let points = w.points_of_reading(&w.project, &["snapshot", "s", "first"]);
    w.exec("s", "echo more > more").ok();
    for (number, point) in sample(&points, WANTED, 2).iter().enumerate() {
        let error = ERRORS[number % ERRORS.len()];
        let label = format!("l{number}");
        let outcome = w.with_fault(point, Fault::Error(error), &["snapshot", "s", &label]).go();
        assert_ne!(outcome.code, 134, "{error} at {point:?}: {outcome:?}");
        let seen = w.exec("s", "cat n more d/e/deep; test ! -e d/f1; echo $?").ok();
        assert_eq!(seen.text(), "new\nmore\ndeep\n0", "{error} at {point:?}: {outcome:?}");
    }
}

fn a_report_that_cannot_be_written_says_what_was_done(w: &World) {
    w.outside("echo a > a").ok();
    w.sandbox_with("s", "echo A > a");
    let bin = w.bin.display();
    w.outside(&format!("{bin} apply s --yes > /dev/full")).exits(125).says("applied as");
    assert_eq!(w.read("a"), "A\n");
    w.outside(&format!("{bin} undo --yes > /dev/full")).exits(125).says("undone by");
    assert_eq!(w.read("a"), "a\n");
    for command in ["diff nothing-of-that-name", "--json diff nothing-of-that-name", "ls"] {
        let code = w.outside(&format!("{bin} {command} > /dev/full 2> /dev/full")).code;
        assert_eq!(code, 125, "{command}");
    }
    assert_eq!(w.outside(&format!("{bin} completions bash > /dev/full")).code, 125);
}

fn a_socket_over_a_directory_travels_as_its_deletion(w: &World) {
    needs!(w, "python3");
    w.outside("mkdir d; echo x > d/x").ok();
    w.new_sandbox("s");
    w.exec("s", "rm -r d; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"d\")'").ok();
    w.json(["export", "s", "-o", "../s.whatif"]);
    w.json(["import", "../s.whatif", "--name", "t"]);
    assert_eq!(w.exec("t", "ls").ok().text(), "", "what the socket replaced must not come back");
}
