//! Parts of several attempts, put together into one more that is judged like the others.

use serde_json::Value;
use whatif_e2e::{Detail, Tree, World, as_root_and_user, eventually};

as_root_and_user!(
    parts_of_two_attempts_are_merged,
    a_merge_that_conflicts_is_told_and_nothing_is_written,
    what_one_removed_and_another_filled_is_a_conflict,
    what_was_set_up_is_there_in_a_merge,
    a_merge_has_time_of_its_own,
    a_merge_can_be_wrong_in_many_ways,
);

/// Two attempts that change different files and one that changes nothing good.
fn race(w: &World, name: &str) {
    w.outside("seq 20 > f; echo g > g").ok();
    let attempts =
        ["--attempt=one=sed -i s/^2$/two/ f", "--attempt=two=sed -i s/^19$/nineteen/ f; echo G > g", "--attempt=bad=exit 1"];
    w.race([&["--check", "test -e f", "--name", name], attempts.as_slice()].concat()).exits(0);
}

fn parts_of_two_attempts_are_merged(w: &World) {
    race(w, "r");
    let before = Tree::of(&w.project, Detail::Times);
    let merged = w.whatif(["--json", "race", "merge", "one", "two"]).go().ok();
    Tree::of(&w.project, Detail::Times).assert_is(&before, "a merge is an attempt, too");
    assert!(merged.stdout.contains("attempt_ended") || merged.stdout.contains("merge"), "{}", merged.stdout);
    let name = merge_name(w, "r");
    let patch = w.whatif(["race", "diff", "--patch", &name]).go().ok().stdout;
    assert!(patch.contains("+two") && patch.contains("+nineteen") && patch.contains("+G"), "{patch}");
    w.whatif(["race", "apply", &name, "--yes"]).go().ok();
    assert!(w.read("f").contains("\ntwo\n") && w.read("f").contains("\nnineteen\n") && w.read("g") == "G\n");

    race(w, "again");
    w.whatif(["race", "merge", "one", "two", "--files", "one=f", "--files", "two=g"]).go().ok();
    w.whatif(["race", "apply", &merge_name(w, "again"), "--yes"]).go().ok();
    assert!(w.read("f").contains("\ntwo\n") && !w.read("f").contains("nineteen") && w.read("g") == "G\n", "only those");
    w.whatif(["race", "merge", "one", "nobody"]).go().fails_with_hint(125);
}

/// What the attempt is called that a merge made.
#[track_caller]
fn merge_name(w: &World, race: &str) -> String {
    let shown = w.json(["race", "show", race]);
    let attempts = shown["attempts"].as_array().unwrap_or_else(|| panic!("no attempts: {shown:#}"));
    let merge = attempts.iter().find(|attempt| attempt["kind"] == "merge").unwrap_or_else(|| panic!("no merge: {shown:#}"));
    assert_eq!(merge["outcome"]["verdict"]["is"], "passed", "it is checked like any other: {merge:#}");
    merge["name"].as_str().expect("it has a name").to_owned()
}

fn a_merge_that_conflicts_is_told_and_nothing_is_written(w: &World) {
    w.outside("seq 5 > f").ok();
    let attempts = [
        "--attempt=one=sed -i s/^2$/two/ f; echo 1 > new",
        "--attempt=two=sed -i s/^2$/zwei/ f; echo 1 > new",
        "--attempt=three=rm f",
    ];
    w.race([&["--check", "true"], attempts.as_slice()].concat()).exits(0);
    eventually("nothing runs", || w.own_process_ids().is_empty());
    let (before, there) = (Tree::of(&w.project, Detail::Times), w.inventory());
    for other in ["two", "three"] {
        let refused = w.whatif(["race", "merge", "one", other]).go().exits(1);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(said.contains('f') && said.contains("one") && said.contains(other), "{said}");
        assert!(!said.contains("new"), "what both made alike is no conflict: {said}");
        let error = w.whatif(["--json", "race", "merge", "one", other]).go().exits(1);
        let document: Value = serde_json::from_str(&error.stderr).unwrap_or_else(|e| panic!("{e}: {}", error.stderr));
        assert_eq!(document["error"]["code"], "conflict", "{document:#}");
    }
    Tree::of(&w.project, Detail::Times).assert_is(&before, "nothing is written");
    w.assert_inventory_is(&there, "no half of a merge stays");
}

/// Neither may be dropped without a word.
fn what_one_removed_and_another_filled_is_a_conflict(w: &World) {
    w.outside("mkdir d e; echo x > d/x; echo x > e/x").ok();
    let attempts =
        ["--attempt=fills=echo y > d/y; echo X > e/x", "--attempt=removes=rm -r d", "--attempt=replaces=rm -r e; echo e > e"];
    w.race([&["--check=true"], attempts.as_slice()].concat()).exits(0);
    for (one, other, path) in
        [("fills", "removes", "d"), ("removes", "fills", "d"), ("fills", "replaces", "e"), ("replaces", "fills", "e")]
    {
        let refused = w.whatif(["race", "merge", one, other]).go().exits(1);
        assert!(refused.stderr.contains(&format!("{path}/")), "{one} and {other}: {}", refused.stderr);
    }
    w.whatif(["race", "merge", "removes", "replaces"]).go().ok();
}

fn what_was_set_up_is_there_in_a_merge(w: &World) {
    let attempts = ["--attempt=one=echo a > a; echo more > more", "--attempt=two=echo b > b"];
    w.race([&["--check=test -e ready", "--setup=echo ready > ready"], attempts.as_slice()].concat()).exits(0);
    w.whatif(["race", "merge", "one", "two", "--files", "one=a", "--files", "two=b", "--as", "both"]).go().ok();
    let patch = w.whatif(["race", "diff", "--name-only", "both"]).go().ok().stdout;
    assert!(patch.contains('a') && patch.contains('b') && !patch.contains("more"), "{patch}");
    w.whatif(["race", "apply", "both", "--yes"]).go().ok();
    assert_eq!((w.read("a"), w.read("b"), w.read("ready")), ("a\n".to_owned(), "b\n".to_owned(), "ready\n".to_owned()));
}

/// The budget was for the race.
fn a_merge_has_time_of_its_own(w: &World) {
    let attempts = ["--attempt=one=echo a > a", "--attempt=two=echo b > b", "--attempt=slow=sleep 1000"];
    let race = w.race([&["--check=true", "--budget=10s", "--jobs=1"], attempts.as_slice()].concat()).exits(0);
    assert_eq!(race.verdict("slow"), "cancelled");
    w.whatif(["race", "merge", "one", "two"]).go().ok();
}

fn a_merge_can_be_wrong_in_many_ways(w: &World) {
    race(w, "r");
    let wrong: [&[&str]; 5] = [
        &["one", "one"],
        &["one", "two", "--files", "nobody=f"],
        &["one", "two", "--files", "one=nothing"],
        &["one", "two", "--as", "one"],
        &["one"],
    ];
    for arguments in wrong {
        let refused = w.whatif(["race", "merge"]).args(arguments).go().exits(2);
        assert!(refused.stderr.contains("hint:") || refused.stderr.contains("--help"), "{arguments:?}: {}", refused.stderr);
    }
    assert_eq!(w.json(["race", "show"])["attempts"].as_array().map(Vec::len), Some(3), "none was made");
}
