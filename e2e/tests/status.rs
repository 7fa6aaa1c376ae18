//! How far reality has moved since a sandbox was made, and moving the sandbox after it.

use whatif_e2e::{World, as_root_and_user, needs};

as_root_and_user!(
    a_deletion_that_left_no_trace_but_a_time_is_told,
    nothing_moved_is_said_plainly,
    changes_are_counted_as_diff_counts_them,
    drift_is_told_file_by_file,
    a_collision_is_told_apart_from_drift,
    what_reality_added_is_not_said_to_be_changed,
    what_an_apply_leaves_out_is_no_conflict_of_it,
    status_changes_nothing,
    a_rename_has_moved_where_reality_moved,
    what_the_sandbox_applied_is_no_news,
    an_undone_apply_leaves_nothing_moved,
    what_may_have_gone_before_is_said_to,
    a_project_that_is_gone_is_said_to_be,
    a_rebase_shows_reality_as_it_is_now,
    a_rebase_makes_the_diff_the_sandboxs_own_again,
    a_rebase_never_loses_the_sandboxs_work,
    a_rebase_of_a_living_sandbox_keeps_it_usable,
);

fn said(w: &World, arguments: &[&str]) -> String {
    w.whatif(["status"]).args(arguments).go().ok().stdout
}

fn nothing_moved_is_said_plainly(w: &World) {
    w.outside("echo f > f; echo g > g").ok();
    w.sandbox_with("s", "echo F > f");
    let said = said(w, &["s"]);
    assert!(said.contains('s') && !said.contains("collision"), "{said}");
    w.json(["status", "s"]);
}

fn changes_are_counted_as_diff_counts_them(w: &World) {
    w.outside("echo '*.o' > .gitignore; seq 60 > a; mkdir d; seq 20 > d/1; echo h > h; ln h h2").ok();
    w.sandbox_with("s", "sed s/^5$/five/ a > b; rm a; mv d e; echo H >> h; echo o > x.o; mkdir empty; echo out > ~/out");
    let diff = w.whatif(["diff", "s", "--stat"]).go().ok().stdout;
    assert!(diff.contains("s: 3 files changed"), "{diff}");
    let status = said(w, &["s"]);
    assert!(status.contains("holds 3 changes, 1 more that the project ignores, 1 more outside the project"), "{status}");
    let document = w.json(["status", "s"]);
    let counts = ["changes", "ignored", "outside"].map(|key| document[key].as_u64());
    assert_eq!(counts, [Some(5), Some(1), Some(1)], "{document}");
    // Directories count there, so it does not speak of files.
    let shown = w.whatif(["show", "s"]).go().ok().stdout;
    assert!(!shown.contains(" files, "), "{shown}");
}

fn drift_is_told_file_by_file(w: &World) {
    w.outside("echo f > changed-file; echo g > deleted-file; echo h > same-file; seq 20 > merging-file").ok();
    w.sandbox_with("s", "echo F > changed-file; echo G > deleted-file; echo H > same-file; sed -i s/^2$/two/ merging-file");
    w.outside("echo mine > changed-file; rm deleted-file; sed -i s/^19$/nineteen/ merging-file").ok();
    let said = said(w, &["s"]);
    for path in ["changed-file", "deleted-file", "merging-file"] {
        assert!(said.contains(path), "{path} is not told:\n{said}");
    }
    assert!(!said.contains("same-file"), "{said}");
    let document = w.json(["status", "s"]).to_string();
    assert!(document.contains("changed-file") && document.contains("deleted-file"), "{document}");
}

fn a_collision_is_told_apart_from_drift(w: &World) {
    w.outside("seq 20 > merging; seq 20 > colliding").ok();
    w.sandbox_with("s", "sed -i s/^2$/two/ merging; sed -i s/^2$/two/ colliding");
    w.outside("sed -i s/^19$/nineteen/ merging; sed -i s/^2$/zwei/ colliding").ok();
    let said = said(w, &["s"]);
    let line = |path: &str| said.lines().find(|l| l.contains(path)).unwrap_or_else(|| panic!("{path}:\n{said}")).replace(path, "");
    assert_ne!(line("merging").trim(), line("colliding").trim(), "{said}");
}

fn what_reality_added_is_not_said_to_be_changed(w: &World) {
    needs!(w, "git");
    w.outside("git init -q .; mkdir k; echo 1 > k/1; echo e > e; echo c > c; git add .").ok();
    w.sandbox_with("s", "rm -r k; echo s > both");
    w.outside("echo 4 > k/4; echo r > both; echo x > new; git add new; git mv e e2; echo C >> c").ok();
    let document = w.json(["status", "s"]);
    let told = |path: &str| {
        let found = document["drift"].as_array().and_then(|all| all.iter().find(|d| d["path"] == path)).expect("it moved");
        (found["kind"].as_str().expect("a word"), found["perhaps_added"] == true)
    };
    assert_eq!(["both", "k/4", "new", "e2"].map(told), [("added", false), ("changed", true), ("changed", true), ("changed", true)]);
    let diff = w.whatif(["diff", "s"]).go().ok().stdout;
    assert!(diff.contains("reality added it too") && diff.contains("reality added or changed it since"), "{diff}");
    let refused = w.apply(&["s"]).exits(1);
    for words in ["both: both added it", "k/4: the sandbox deleted it or its directory, and reality added", "whatif rebase s"] {
        assert!(refused.stderr.contains(words), "{words}: {}", refused.stderr);
    }
}

/// Neither of what is said to be in conflict, nor of what is listed.
fn what_an_apply_leaves_out_is_no_conflict_of_it(w: &World) {
    needs!(w, "git");
    w.outside("git init -q .; echo '*.o' > .gitignore; echo 1 > a; echo o > x.o; git add .").ok();
    w.sandbox_with("s", "echo 2 >> a; git add a; echo s > x.o");
    w.outside("echo new > new; git add new; echo r > x.o").ok();
    let status = w.json(["status", "s"]);
    assert_eq!((&status["conflicts"], &status["collisions"]), (&0.into(), &0.into()), "{status:#}");
    let left_out: Vec<&str> = status["drift"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|d| d["left_out"] == true)
        .filter_map(|d| d["path"].as_str())
        .collect();
    assert_eq!(left_out, [".git/index", "x.o"]);
    assert!(!said(w, &["s"]).contains("may not apply"));
    for arguments in [&["diff", "s"][..], &["diff", "s", "a"], &["diff", "s", "x.o"]] {
        let diff = w.whatif(arguments.iter().copied()).go().ok().stdout;
        assert!(!diff.contains("reality moved"), "{diff}");
    }
    w.apply(&["s"]).ok();
}

fn status_changes_nothing(w: &World) {
    w.outside("seq 20 > f").ok();
    w.sandbox_with("s", "sed -i s/^2$/two/ f");
    w.outside("sed -i s/^2$/zwei/ f").ok();
    let (before, first) = (whatif_e2e::canary(&[&w.project]), w.json(["diff", "s"]));
    said(w, &["s"]);
    whatif_e2e::assert_same(&before, &whatif_e2e::canary(&[&w.project]));
    assert_eq!(w.json(["diff", "s"])["changes"], first["changes"]);
}

/// Its old path in conflict, and nothing about the new one, which reality never had; also after a rebase that leaves it open.
fn a_rename_has_moved_where_reality_moved(w: &World) {
    w.outside("seq 40 > h.txt").ok();
    w.sandbox_with("s", "mv h.txt h2.txt");
    w.outside("sed -i s/^2$/two/ h.txt").ok();
    let expected = |w: &World| {
        let standing = w.json(["status", "s"]);
        let paths: Vec<&str> = standing["drift"].as_array().expect("a list").iter().filter_map(|d| d["path"].as_str()).collect();
        assert_eq!((paths.as_slice(), &standing["conflicts"]), (&["h.txt"][..], &1.into()), "{standing:#}");
        assert!(!said(w, &["s"]).contains("h2.txt"));
    };
    expected(w);
    let drift = w.json(["diff", "s"])["drift"].clone();
    assert_eq!((&drift[0]["path"], &drift[0]["kind"], &drift[1]), (&"h.txt".into(), &"changed".into(), &serde_json::Value::Null));
    assert!(w.whatif(["diff", "s", "--stat"]).go().ok().stdout.contains("reality changed h.txt"));
    w.whatif(["rebase", "s"]).go().exits(1);
    expected(w);
    assert_eq!(w.apply(&["s"]).code, 1);
}

const REPOSITORY: &str = "git init -q .; git config user.email a@b; git config user.name n; git add -A; git commit -qm first";

fn what_the_sandbox_applied_is_no_news(w: &World) {
    w.outside(&format!("mkdir d; echo a > a; echo b > b; echo c > d/c; {REPOSITORY}")).ok();
    w.sandbox_with("s", "rm -r b d; echo more >> a");
    w.apply(&["s"]).ok();
    let standing = w.json(["status", "s"]);
    assert_eq!(standing["drift"], serde_json::json!([]), "{standing:#}");
}

fn an_undone_apply_leaves_nothing_moved(w: &World) {
    w.outside("seq 40 > c; echo d > d").ok();
    w.sandbox_with("s", "sed -i s/^7$/seven/ c; rm d");
    w.apply(&["s"]).ok();
    w.whatif(["undo", "--yes"]).go().ok();
    let standing = w.json(["status", "s"]);
    assert_eq!((&standing["drift"], &standing["changes"]), (&serde_json::json!([]), &2.into()), "{standing:#}");
}

/// Git misses both. Which of them went since the sandbox was made is written nowhere.
fn what_may_have_gone_before_is_said_to(w: &World) {
    w.outside(&format!("echo a > a; echo before > before; echo since > since; {REPOSITORY}; rm before")).ok();
    w.sandbox_with("s", "echo more >> a");
    w.outside("rm since").ok();
    let standing = w.json(["status", "s"]);
    for (number, path) in ["before", "since"].into_iter().enumerate() {
        let told = &standing["drift"][number];
        assert_eq!((&told["path"], &told["perhaps_before"]), (&path.into(), &true.into()), "{standing:#}");
    }
    assert!(said(w, &["s"]).contains("perhaps before the sandbox was made"));
}

fn a_project_that_is_gone_is_said_to_be(w: &World) {
    w.outside("echo f > f").ok();
    w.sandbox_with("s", "echo F > f");
    let status = |arguments: &[&str]| w.whatif(["status", "s"]).args(arguments).cwd(&w.home).go().ok();
    w.outside("mv ../project ../moved").ok();
    let (words, document) = (status(&[]).stdout, status(&["--json"]).json());
    w.program("/bin/mv").args(["moved", "project"]).cwd(&w.home).go().ok();
    assert!(words.contains("is not at") && !words.contains("deleted  ."), "{words}");
    assert_eq!((&document["project_missing"], &document["drift"]), (&true.into(), &serde_json::json!([])), "{document:#}");
}

fn a_rebase_shows_reality_as_it_is_now(w: &World) {
    w.outside("seq 20 > merged; echo old > untouched; echo old > own").ok();
    w.sandbox_with("s", "sed -i s/^2$/two/ merged; echo mine > own; echo added > added");
    w.outside("sed -i s/^19$/nineteen/ merged; echo new > untouched; echo later > later").ok();
    w.whatif(["rebase", "s"]).go().ok();
    let status = w.whatif(["status", "s"]).go().ok().stdout;
    assert!(status.contains(" old, was rebased "), "{status}");
    let inside = w.exec("s", "sed -n '2p;19p' merged; cat untouched own added later").ok().stdout;
    assert_eq!(inside, "two\nnineteen\nnew\nmine\nadded\nlater\n");
    assert_eq!(w.read("merged").lines().nth(1), Some("2"), "reality is not touched by it");
}

fn a_rebase_makes_the_diff_the_sandboxs_own_again(w: &World) {
    w.outside("seq 20 > f").ok();
    w.sandbox_with("s", "sed -i s/^2$/two/ f");
    w.outside("sed -i s/^19$/nineteen/ f").ok();
    w.whatif(["rebase", "s"]).go().ok();
    let document = w.json(["diff", "s"]);
    assert_eq!(document["drift"], serde_json::json!([]), "{document:#}");
    let f = whatif_e2e::change(&document, "f");
    assert_eq!((&f["added_lines"], &f["deleted_lines"]), (&serde_json::json!(1), &serde_json::json!(1)), "{f}");
    w.apply(&["s"]).ok();
    assert!(w.read("f").contains("\ntwo\n") && w.read("f").contains("\nnineteen\n"));
}

/// Where both changed the same lines, both are there to choose from, inside. Reality gets nothing undecided.
fn a_rebase_never_loses_the_sandboxs_work(w: &World) {
    w.outside("seq 20 > f; echo g > g").ok();
    w.sandbox_with("s", "sed -i s/^2$/two/ f; echo G > g");
    w.outside("sed -i s/^2$/zwei/ f").ok();
    w.whatif(["rebase", "s"]).go().exits(1);
    let f = w.exec("s", "cat f").ok().stdout;
    assert!(f.contains("\ntwo\n") && f.contains("\nzwei\n"), "{f}");
    assert_eq!(w.exec("s", "cat g").ok().text(), "G");
    assert_ne!(w.apply(&["s"]).code, 0, "an unsettled file is not applied");
    assert_eq!((w.read("f").lines().nth(1), w.read("g")), (Some("zwei"), "g\n".into()));
    w.exec("s", "seq 20 | sed s/^2$/beide/ > f").ok();
    w.apply(&["s"]).ok();
    assert_eq!((w.read("f").lines().nth(1), w.read("g")), (Some("beide"), "G\n".into()));
}

fn a_rebase_of_a_living_sandbox_keeps_it_usable(w: &World) {
    w.outside("seq 20 > f").ok();
    let name = w.new_sandbox("alive");
    w.exec(&name, "sed -i s/^2$/two/ f").ok();
    w.outside("sed -i s/^19$/nineteen/ f").ok();
    let outcome = w.whatif(["rebase", &name]).go();
    assert!([0, 1, 125].contains(&outcome.code), "{outcome:?}");
    assert_eq!(w.exec(&name, "sed -n 2p f").ok().text(), "two");
}

/// Without git nothing says which file it was.
fn a_deletion_that_left_no_trace_but_a_time_is_told(w: &World) {
    w.outside("mkdir d; echo 1 > d/one; echo 2 > two; echo 3 > three").ok();
    w.new_sandbox("s");
    w.exec("s", "cat d/one two; rm three; mkdir new; echo n > new/n").ok();
    w.apply(&["s"]).ok();
    assert_eq!(w.json(["status", "s"])["lost_names"], serde_json::json!([]), "its own apply is no news");
    w.outside("rm d/one").ok();
    assert_eq!(w.json(["status", "s"])["lost_names"], serde_json::json!(["d"]));
    let said = w.whatif(["status", "s"]).go().ok().stdout;
    assert!(said.contains("something was deleted or renamed") && !said.contains("has not moved"), "{said}");
    w.new_sandbox("later");
    w.outside("rm two; touch d/written").ok();
    assert_eq!(w.json(["status", "later"])["lost_names"], serde_json::json!(["."]));
}
