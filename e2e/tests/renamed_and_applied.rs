//! What a sandbox shows of the directories that it renamed after they became real: what it had, and nothing that is elsewhere.

use serde_json::Value;
use whatif_e2e::{Fault, World, as_root, as_root_and_user, needs, sample};

as_root_and_user!(
    a_killed_apply_leaves_no_stale_view,
    nor_does_one_while_something_runs,
    what_comes_to_the_old_place_does_not_show_at_the_new_one,
    two_swapped_across_a_snapshot_show_nothing_twice,
    a_snapshot_is_what_it_was_after_an_apply_and_its_undo,
    what_the_sandbox_wrote_stays_when_another_deletes_it,
);

as_root!(what_root_made_in_the_tree_of_another_stays_theirs);

/// All files of the project with their content, as somebody sees them.
const FILES: &str = "find . -type f | sort | xargs grep '' | tr '\\n' ' '";

fn inside(w: &World) -> String {
    w.exec("s", FILES).ok().text().trim().to_owned()
}

fn outside(w: &World) -> String {
    w.outside(FILES).ok().text().trim().to_owned()
}

/// Renames a directory and makes another one in its place.
fn replaced(w: &World) {
    w.outside("rm -rf -- *; mkdir a; echo important > a/f1; echo 2 > a/f2").ok();
    w.new_sandbox("s");
    w.exec("s", "mv a b; mkdir a; echo new > a/f3").ok();
}

#[track_caller]
fn goes_on_where_it_is_real(w: &World, context: &str) {
    assert_eq!(w.exec("s", "ls b").ok().text(), "f1\nf2", "{context}");
    w.exec("s", "echo appended >> b/f1").ok();
    w.apply(&["s", "--all"]).ok();
    assert_eq!(w.read("b/f1"), "important\nappended\n", "{context}");
}

fn a_killed_apply_leaves_no_stale_view(w: &World) {
    needs!(w, "/usr/bin/strace");
    replaced(w);
    let points = w.points_of(&w.project, &["apply", "s", "--all", "--yes"]);
    let end = || w.whatif(["rm", "--yes", "s"]).go().ok();
    end();
    for point in sample(&points, 12, 0) {
        replaced(w);
        w.with_fault(&point, Fault::Kill, &["apply", "s", "--all", "--yes"]).cwd(&w.project).go();
        w.whatif(["ls"]).go().ok();
        if !w.project.join("b").exists() {
            w.apply(&["s", "--all"]).ok();
        }
        goes_on_where_it_is_real(w, &format!("killed at {point:?}"));
        end();
    }
}

fn nor_does_one_while_something_runs(w: &World) {
    replaced(w);
    w.whatif(["exec", "-d", "s", "--", "sleep", "1000"]).go().ok();
    w.apply(&["s", "--all"]).ok();
    goes_on_where_it_is_real(w, "something runs");
}

fn what_comes_to_the_old_place_does_not_show_at_the_new_one(w: &World) {
    w.outside("mkdir c; echo 1 > c/f1").ok();
    w.new_sandbox("s");
    w.exec("s", "mv c n; mkdir c; echo new > c/f3; echo own > n/own").ok();
    w.outside("mv c person").ok();
    w.apply(&["s", "--all", "--theirs", "*"]).ok();
    w.whatif(["stop", "s"]).go().ok();
    w.whatif(["start", "s"]).go().ok();
    let all = "./c/f3:new ./n/f1:1 ./n/own:own ./person/f1:1";
    assert_eq!((inside(w).as_str(), outside(w).as_str()), (all, all));
}

fn two_swapped_across_a_snapshot_show_nothing_twice(w: &World) {
    w.outside("mkdir -p c/t e; echo cx > c/t/x; echo ey > e/y").ok();
    w.new_sandbox("s");
    w.exec("s", "mv e n").ok();
    w.snapshot("s", "between");
    w.exec("s", "mv c swap; mv n c; mv swap n").ok();
    w.apply(&["s", "--all"]).ok();
    w.whatif(["stop", "s"]).go().ok();
    w.whatif(["start", "s"]).go().ok();
    let all = "./c/y:ey ./n/t/x:cx";
    assert_eq!((inside(w).as_str(), outside(w).as_str()), (all, all));
    // What a person makes there is theirs.
    w.write("n/y", "person\n");
    w.exec("s", "echo appended >> n/y").ok();
    w.apply(&["s", "--all"]);
    assert!(w.read("n/y").starts_with("person\n"), "{}", w.read("n/y"));
}

fn a_snapshot_is_what_it_was_after_an_apply_and_its_undo(w: &World) {
    w.outside("mkdir x y; echo x1 > x/1; echo y2 > y/2").ok();
    let before = outside(w);
    w.new_sandbox("s");
    w.exec("s", "mv x t; mv y x; mv t y; echo new > x/n").ok();
    w.snapshot("s", "swapped");
    let swapped = inside(w);
    w.apply(&["s", "--all"]).ok();
    w.whatif(["undo", "--yes"]).go().ok();
    assert_eq!((outside(w), inside(w)), (before, swapped.clone()));
    w.rollback("s", "swapped");
    assert_eq!(inside(w), swapped);
    w.apply(&["s", "--all"]).ok();
    assert_eq!(outside(w), swapped);
}

fn what_the_sandbox_wrote_stays_when_another_deletes_it(w: &World) {
    w.outside("mkdir b c; echo 1 > b/f1; echo c > c/f").ok();
    w.new_sandbox("s");
    w.exec("s", "echo own > b/f1; echo new > b/n").ok();
    w.snapshot("s", "written");
    w.exec("s", "mv b c/t").ok();
    w.apply(&["s", "--all"]).ok();
    w.sandbox_with("other", "rm -rf c/t");
    w.apply(&["other", "--all"]).ok();
    assert_eq!(inside(w), "./c/f:c ./c/t/f1:own ./c/t/n:new");
}

/// The kernel marks a directory that a sandbox made as a copy of reality's as soon as there is one.
fn what_root_made_in_the_tree_of_another_stays_theirs(w: &World) {
    w.outside("mkdir theirs; chown 1234:1234 . theirs").ok();
    w.new_sandbox("s");
    w.exec("s", "mkdir -p new/deep; echo 1 > new/deep/f; mkdir both").ok();
    w.outside("mkdir both; chown 1234:1234 both").ok();
    w.apply(&["s", "--all"]).ok();
    w.exec("s", "find . -type f -exec cat {} +; ls both; echo 2 >> new/deep/f").ok();
    let changed = w.whatif(["diff", "s", "--all", "--name-only"]).go().ok().stdout;
    assert_eq!(changed, "new/deep/f\n");
    w.apply(&["s", "--all"]).ok();
    let owners = w.outside("stat -c %u both new new/deep new/deep/f").ok();
    assert_eq!(owners.text(), "1234\n1234\n1234\n1234");
    // Also where its layers were written again, and in a sandbox that was carried elsewhere.
    w.snapshot("s", "one");
    w.exec("s", "echo 3 >> new/deep/f").ok();
    w.snapshot("s", "two");
    w.whatif(["squash", "s"]).go().ok();
    let archive = w.home.join("carried.whatif").display().to_string();
    w.whatif(["export", "s", "-o", &archive]).go().ok();
    w.whatif(["import", &archive, "--name", "carried"]).go().ok();
    for name in ["s", "carried"] {
        w.whatif(["start", name]).go().ok();
        w.exec(name, "find . -type f -exec cat {} +; ls both").ok();
        let owners: Vec<Value> = w.json(["diff", name, "--all"])["changes"].as_array().cloned().unwrap_or_default();
        assert!(!owners.iter().any(|change| change["kind"] == "owner"), "{name}: {owners:?}");
    }
    // What is given away on purpose is.
    w.exec("s", "chown 0:0 theirs").ok();
    w.apply(&["s", "--all"]).ok();
    assert_eq!(w.outside("stat -c %u theirs").ok().text(), "0");
}
