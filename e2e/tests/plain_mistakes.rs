//! What cannot have been meant is refused with a next step, and what needs no directory does without one.

use whatif_e2e::{World, as_root_and_user};

as_root_and_user!(
    a_relative_home_is_refused,
    a_variable_without_a_name_is_refused,
    what_is_no_pattern_is_refused,
    a_memory_limit_without_a_unit_is_refused,
    a_path_is_settled_one_way,
    a_deleted_directory_keeps_nobody_from_looking,
    a_limit_of_no_time_is_answered_with_times,
    a_word_that_is_nothing_is_told_so,
    a_side_of_a_diff_may_be_a_sandbox_or_a_snapshot,
    a_missing_program_is_hinted_at_in_its_sandbox,
    manual_pages_make_their_directory,
);

#[track_caller]
fn refused(outcome: &whatif_e2e::Outcome, words: &[&str]) {
    assert!(outcome.code != 0 && outcome.stdout.is_empty(), "{outcome:?}");
    for word in words {
        assert!(outcome.stderr.contains(word), "{word}: {outcome:?}");
    }
}

fn a_relative_home_is_refused(w: &World) {
    for arguments in [&["ls"][..], &["run", "--", "true"], &["doctor"]] {
        let outcome = w.whatif(arguments.iter().copied()).env("WHATIF_HOME", "state").go();
        refused(&outcome, &["WHATIF_HOME", "relative", "export WHATIF_HOME=/"]);
    }
    assert!(!w.project.join("state").exists());
}

fn a_variable_without_a_name_is_refused(w: &World) {
    w.new_sandbox("s");
    for variable in ["=x", "A B=1", ""] {
        for start in [&["run"][..], &["new", "n"], &["exec"]] {
            let end: &[&str] = match start[0] {
                "run" => &["--", "true"],
                "exec" => &["s", "--", "true"],
                _ => &[],
            };
            let outcome = w.whatif(start.iter().copied()).args(["--env", variable]).args(end).go();
            refused(&outcome, &["--env"]);
        }
    }
    assert_eq!(w.whatif(["exec", "--env", "A=b c", "s", "--", "sh", "-c", "echo $A"]).go().ok().text(), "b c");
}

fn what_is_no_pattern_is_refused(w: &World) {
    w.whatif(["run", "--keep", "--name", "s", "-q", "--", "sh", "-c", "echo a > a; echo b > b"]).go().ok();
    for option in ["--files", "--exclude", "--skip", "--ours", "--theirs"] {
        let outcome = w.whatif(["apply", "s", "--yes", option, "["]).go();
        refused(&outcome, &["'['", "not a pattern", "hint:"]);
    }
    assert!(!w.project.join("a").exists());
}

fn a_memory_limit_without_a_unit_is_refused(w: &World) {
    for size in ["1", "512", "0"] {
        refused(&w.whatif(["run", "--memory", size, "--", "true"]).go(), &["memory"]);
    }
}

fn a_path_is_settled_one_way(w: &World) {
    w.write("f", "one\n");
    w.whatif(["run", "--keep", "--name", "s", "-q", "--", "sh", "-c", "echo inside > f; echo g > g"]).go().ok();
    w.write("f", "outside\n");
    let both = w.whatif(["apply", "s", "--yes", "--ours", "*", "--theirs", "*"]).go();
    refused(&both, &["both ways", "--theirs"]);
    refused(&w.whatif(["apply", "s", "--yes", "--ours", "f", "--theirs", "f"]).go(), &["both ways"]);
    assert_eq!(w.read("f"), "outside\n");
    // A name is more than a wildcard.
    w.whatif(["apply", "s", "--yes", "--ours", "*", "--theirs", "f"]).go().ok();
    assert_eq!(w.read("f"), "inside\n");
}

fn a_deleted_directory_keeps_nobody_from_looking(w: &World) {
    w.new_sandbox("s");
    let whatif = w.bin.display().to_string();
    let there = |command: &str| w.outside(&format!("mkdir -p gone && cd gone && rmdir ../gone && {whatif} {command}"));
    assert!(there("ls").ok().stdout.contains('s'));
    assert!(there("doctor").stdout.contains("default limits"));
    there("show s").ok();
    there("exec s -- true").ok();
    there("diff s").ok();
    there("gc").ok();
    for command in ["run -- true", "diff", "ls --here", "new"] {
        refused(&there(command), &["hint: go to a directory that exists"]);
    }
    there("rm s").ok();
}

fn a_limit_of_no_time_is_answered_with_times(w: &World) {
    for option in ["--timeout", "--ttl", "--idle"] {
        let outcome = w.whatif(["new", "s", option, "0"]).go();
        refused(&outcome, &["30s, 5m, 2h"]);
        assert!(!outcome.stderr.contains("512M"), "{outcome:?}");
    }
}

fn a_word_that_is_nothing_is_told_so(w: &World) {
    refused(&w.whatif(["nosuchprog", "-x"]).go(), &["no program 'nosuchprog' was found", "whatif PROGRAM"]);
    refused(&w.whatif(["rnu"]).go(), &["'run'"]);
    let outcome = w.whatif(["--json", "dif"]).go();
    refused(&outcome, &["similar: 'diff'", "unknown_command"]);
}

fn a_side_of_a_diff_may_be_a_sandbox_or_a_snapshot(w: &World) {
    refused(&w.whatif(["diff", "a..b"]).go(), &["no sandbox or snapshot is called 'a'", "whatif ls"]);
}

fn a_missing_program_is_hinted_at_in_its_sandbox(w: &World) {
    w.new_sandbox("fix");
    let outcome = w.whatif(["exec", "fix", "--", "nosuchprog"]).go();
    refused(&outcome, &["whatif exec fix -- sh -c"]);
    assert_eq!(outcome.code, 127);
    refused(&w.whatif(["run", "--", "nosuchprog"]).go(), &["whatif run -- sh -c"]);
}

fn manual_pages_make_their_directory(w: &World) {
    w.whatif(["man", "new/man1"]).go().ok();
    assert!(w.project.join("new/man1/whatif-run.1").exists());
}
