//! `whatif review`, driven by keys on a real terminal.

use std::time::Duration;

use serde_json::{Value, json};
use whatif_e2e::{Terminal, World, as_root_and_user, eventually, needs, wait_for};

as_root_and_user!(
    decisions_are_stored,
    a_decision_is_on_the_disk_before_the_next,
    hunks_are_chosen,
    all_that_is_safe_at_once,
    a_search_goes_to_the_file,
    a_decision_lapses_with_the_content,
    a_rejection_outlives_the_content,
    a_rejected_file_is_not_taken_under_another_name,
    an_approval_whose_content_changed_is_open,
    an_approved_rename_deletes_no_other_file,
    hunks_are_taken_once,
    a_rejected_hunk_outlives_the_apply_of_the_others,
    a_rejected_hunk_that_moved_is_still_rejected,
    a_rejected_hunk_that_changed_is_an_open_question,
    a_yes_to_a_directory_takes_nothing_rejected,
    what_was_carried_out_is_no_open_question,
    what_nobody_decided_about_stays_open,
    who_takes_what_was_rejected_is_told,
    what_comes_next_is_what_would_help,
    an_undo_brings_the_approval_back,
    decisions_that_cannot_be_read_stop_an_apply,
    the_terminal_is_given_back_after_a_signal,
    a_small_and_a_changing_terminal,
    without_a_terminal_there_is_a_hint,
    nothing_changed_is_nothing_to_review,
    a_conflict_is_shown_as_one,
);

/// Opens the review and waits for its first screen.
fn review(w: &World, name: &str) -> Terminal {
    let mut terminal = Terminal::with_whatif(w, &["review", name]);
    terminal.expect("undecided");
    terminal
}

/// What was decided about a path.
#[track_caller]
fn verdict(document: &Value, path: &str) -> Value {
    let decisions = document["decisions"].as_array().unwrap_or_else(|| panic!("no decisions: {document}"));
    decisions.iter().find(|d| d["path"] == path).map_or(Value::Null, |d| d["verdict"].clone())
}

fn decisions_are_stored(w: &World) {
    w.outside("echo a > a; echo b > b; echo c > c").ok();
    w.sandbox_with("s", "echo A > a; echo B > b; echo C > c; mkdir d; echo x > d/x");
    let mut terminal = review(w, "s");
    terminal.type_in("axq");
    terminal.expect("1 accepted, 1 rejected");
    terminal.expect("whatif apply s");
    assert_eq!(terminal.ends(), 0);
    let stored = w.json(["review", "s"]);
    assert_eq!((verdict(&stored, "a"), verdict(&stored, "b")), (json!("accepted"), json!("rejected")), "{stored}");
    assert_eq!((verdict(&stored, "c"), verdict(&stored, "d/x")), (Value::Null, Value::Null), "{stored}");
    assert_eq!(stored["sandbox"]["name"], "s");
    // The next review goes on from there, and a new directory follows what is in it.
    let mut terminal = review(w, "s");
    terminal.type_in("nnaq");
    terminal.expect("2 accepted, 1 rejected");
    assert_eq!(terminal.ends(), 0);
    let stored = w.json(["review", "s"]);
    assert_eq!((verdict(&stored, "d/x"), verdict(&stored, "d")), (json!("accepted"), json!("accepted")), "{stored}");
    assert_eq!(w.read("a"), "a\n", "nothing is applied yet");
}

fn a_decision_is_on_the_disk_before_the_next(w: &World) {
    needs!(w, "strace");
    w.outside("echo a > a; echo b > b").ok();
    w.sandbox_with("s", "echo A > a; echo B > b");
    let (bin, trace) = (w.bin.to_str().expect("plain"), w.home.join("trace"));
    let calls = "trace=?rename,?renameat,?renameat2,?fsync,?fdatasync,?syncfs";
    let mut terminal =
        Terminal::with(w, &["/usr/bin/strace", "-f", "-e", calls, "-o", trace.to_str().expect("plain"), bin, "review", "s"]);
    terminal.expect("undecided");
    terminal.type_in("xq");
    terminal.expect("1 rejected");
    assert_eq!(terminal.ends(), 0);
    let trace = w.read(&trace);
    let calls: Vec<&str> = trace.lines().filter(|line| line.ends_with(" = 0")).collect();
    let named = calls.iter().position(|call| call.contains("review.json\"")).unwrap_or_else(|| panic!("{trace}"));
    assert!(calls[..named].iter().any(|call| call.contains("sync(")), "its bytes first: {trace}");
    assert!(calls[named..].iter().any(|call| call.contains("sync")), "then its name: {trace}");
}

fn hunks_are_chosen(w: &World) {
    w.outside("seq 60 > f").ok();
    w.sandbox_with("s", "sed -i 's/^5$/five/; s/^30$/thirty/; s/^55$/fiftyfive/' f");
    let mut terminal = review(w, "s");
    // To the hunks; the first accepted, the second not, the third accepted.
    terminal.type_in("\raxaq");
    terminal.expect("0 accepted, 0 rejected, 1 in part");
    assert_eq!(terminal.ends(), 0);
    let stored = w.json(["review", "s"]);
    assert_eq!(stored["decisions"], json!([{"path": "f", "verdict": "hunks", "hunks": [1, 3]}]), "{stored}");
}

fn all_that_is_safe_at_once(w: &World) {
    w.outside("git init -q . 2>/dev/null || true; echo 'out/' > .gitignore; echo f > f").ok();
    w.sandbox_with(
        "s",
        "echo F > f; mkdir out; echo o > out/o; mkdir -p .git/hooks; echo '#!/bin/sh' > .git/hooks/pre-commit; mkfifo pipe",
    );
    let mut terminal = review(w, "s");
    terminal.type_in("Aq");
    terminal.expect("1 accepted, 0 rejected, ");
    assert_eq!(terminal.ends(), 0);
    let stored = w.json(["review", "s"]);
    assert_eq!(verdict(&stored, "f"), "accepted", "{stored}");
    for path in ["out/o", ".git/hooks/pre-commit", "pipe"] {
        assert_eq!(verdict(&stored, path), Value::Null, "{path}: {stored}");
    }
}

fn a_search_goes_to_the_file(w: &World) {
    w.sandbox_with("s", "echo one > a; echo needle > b; echo three > c");
    let mut terminal = review(w, "s");
    terminal.type_in("/needle\raq");
    terminal.expect("1 accepted");
    assert_eq!(terminal.ends(), 0);
    assert_eq!(verdict(&w.json(["review", "s"]), "b"), "accepted");
}

fn a_decision_lapses_with_the_content(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo one > a; echo two > b").ok();
    let mut terminal = review(w, "s");
    terminal.type_in("aa");
    let both = |w: &World| w.json(["review", "s"])["decisions"].as_array().map_or(0, Vec::len) == 2;
    assert!(wait_for(Duration::from_secs(60), || both(w).then_some(())).is_some(), "stored as they are made");
    w.exec("s", "echo changed > b").ok();
    let stored = w.json(["review", "s"]);
    assert_eq!((verdict(&stored, "a"), &stored["lapsed"]), (json!("accepted"), &json!(["b"])), "{stored}");
    terminal.type_in("r");
    terminal.expect("1 decision lapsed");
    terminal.type_in("q");
    terminal.expect("1 accepted, 0 rejected");
    assert_eq!(terminal.ends(), 0);
}

/// Types keys into a review and waits for its end.
fn decide(w: &World, keys: &str, tally: &str) {
    let mut terminal = review(w, "s");
    terminal.type_in(keys);
    terminal.expect(tally);
    assert_eq!(terminal.ends(), 0);
}

/// Why a path was left out of an apply.
#[track_caller]
fn left_out(document: &Value, path: &str) -> Value {
    let all = document["left_out"].as_array().unwrap_or_else(|| panic!("nothing left out: {document}"));
    all.iter().find(|l| l["path"] == path).map_or(Value::Null, |l| l["reason"].clone())
}

fn a_rejection_outlives_the_content(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo evil > evil.sh; echo good > good").ok();
    decide(w, "xq", "0 accepted, 1 rejected");
    w.exec("s", "echo worse >> evil.sh").ok();
    let stored = w.json(["review", "s"]);
    assert_eq!(stored["decisions"], json!([{"path": "evil.sh", "verdict": "rejected", "lapsed": true}]), "{stored}");
    assert_eq!(stored["lapsed"], json!(["evil.sh"]));
    let applied = w.json(["apply", "s", "--yes"]);
    assert_eq!((left_out(&applied, "evil.sh"), left_out(&applied, "good")), (json!("rejected"), json!("undecided")), "{applied}");
    assert_eq!(applied["lapsed"], json!(["evil.sh"]));
    w.apply(&["s"]).ok().says("changed since they were rejected: evil.sh");
    // Taken away and made again, it is still the rejected file.
    w.exec("s", "rm evil.sh").ok();
    w.apply(&["s"]).ok();
    w.exec("s", "echo evil > evil.sh").ok();
    w.apply(&["s"]).ok();
    assert!(!w.project.join("evil.sh").exists() && !w.project.join("good").exists(), "nobody approved anything");
    decide(w, "aq", "1 accepted, 0 rejected");
    w.apply(&["s"]).ok();
    assert_eq!(w.read("evil.sh"), "evil\n", "a person can change their mind");
}

fn a_rejected_file_is_not_taken_under_another_name(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo evil > evil.sh").ok();
    decide(w, "xq", "0 accepted, 1 rejected");
    w.exec("s", "mv evil.sh innocent.sh; mkdir d; cp innocent.sh d").ok();
    let applied = w.json(["apply", "s", "--yes"]);
    assert_eq!(left_out(&applied, "innocent.sh"), "undecided", "{applied}");
    assert!(!w.project.join("innocent.sh").exists() && !w.project.join("d").exists());
    w.apply(&["s", "--files", "innocent.sh"]).ok();
    assert_eq!(w.read("innocent.sh"), "evil\n", "unless it is named");
}

fn an_approval_whose_content_changed_is_open(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo one > a; echo two > b").ok();
    decide(w, "aq", "1 accepted, 0 rejected");
    w.exec("s", "echo changed > a").ok();
    let planned = w.json(["apply", "s", "--dry-run"]);
    assert_eq!((left_out(&planned, "a"), left_out(&planned, "b")), (json!("lapsed"), json!("undecided")), "{planned}");
    assert_eq!(planned["lapsed"], json!(["a"]));
    w.apply(&["s"]).ok().says("changed since it was approved: a");
    // Nor does it help to take the approved change back.
    w.exec("s", "rm a").ok();
    w.apply(&["s"]).ok();
    assert!(!w.project.join("a").exists() && !w.project.join("b").exists());
}

fn an_approved_rename_deletes_no_other_file(w: &World) {
    w.outside("seq 50 > a; seq 51 > b").ok();
    w.new_sandbox("s");
    w.exec("s", "mv a new").ok();
    decide(w, "aq", "1 accepted, 0 rejected");
    w.exec("s", "cp new a; rm b").ok();
    w.apply(&["s"]).ok();
    assert!(w.project.join("b").exists(), "the deletion of b was not approved");
}

fn hunks_are_taken_once(w: &World) {
    w.outside("seq 60 > f").ok();
    w.sandbox_with("s", "sed -i 's/^5$/five/; s/^55$/fiftyfive/' f");
    decide(w, "\raq", "0 accepted, 0 rejected, 1 in part");
    w.apply(&["s"]).ok();
    assert!(w.read("f").contains("five\n") && !w.read("f").contains("fiftyfive"));
    let again = w.json(["apply", "s", "--yes"]);
    assert_eq!(left_out(&again, "f"), "lapsed", "{again}");
    assert!(!w.read("f").contains("fiftyfive"), "what is now the first hunk is not the approved one");
}

fn a_rejected_hunk_outlives_the_apply_of_the_others(w: &World) {
    w.outside("seq 90 > f; echo o > other").ok();
    w.sandbox_with("s", "sed -i 's/^5$/five\\nand more/; s/^40$/forty/; s/^80$/eighty/' f; echo O > other");
    decide(w, "\raxaq", "1 in part");
    w.apply(&["s"]).ok();
    let has = |text: &str| w.read("f").contains(text);
    assert!(has("and more\n") && has("eighty\n") && !has("forty"), "{}", w.read("f"));
    let again = w.json(["apply", "s", "--yes"]);
    assert_eq!((left_out(&again, "f"), &again["lapsed"]), (json!("rejected"), &json!([])), "{again}");
    assert_eq!(verdict(&w.json(["review", "s"]), "f"), "rejected");
    // Nor does a yes to everything mean it.
    decide(w, "Aq", "1 accepted, 1 rejected");
    w.apply(&["s"]).ok();
    assert!(w.read("other") == "O\n" && !has("forty"));
    w.apply(&["s", "--all", "--dry-run"]).ok().says("rejected, and taken all the same: f");
    // After an undo, what was approved is approved again, and what was rejected is not.
    w.whatif(["undo", "--yes"]).go().ok();
    w.whatif(["undo", "--yes"]).go().ok();
    assert!(!has("eighty"));
    w.apply(&["s"]).ok();
    assert!(has("eighty") && !has("forty"));
    // A person can change their mind.
    decide(w, "aq", "accepted, 0 rejected");
    w.apply(&["s"]).ok();
    assert!(has("forty\n"));
}

fn a_rejected_hunk_that_moved_is_still_rejected(w: &World) {
    w.outside("seq 90 > f").ok();
    w.new_sandbox("s");
    w.exec("s", "sed -i 's/^40$/forty/; s/^80$/eighty/' f").ok();
    decide(w, "\rxaq", "1 in part");
    w.exec("s", "sed -i '1i zero' f").ok();
    let planned = w.json(["apply", "s", "--dry-run"]);
    assert_eq!(left_out(&planned, "f"), "lapsed", "the first line is a question: {planned}");
    decide(w, "Aq", "1 in part");
    w.apply(&["s"]).ok();
    let now = w.read("f");
    assert!(now.starts_with("zero\n") && now.contains("eighty\n") && !now.contains("forty"), "{now}");
}

fn a_rejected_hunk_that_changed_is_an_open_question(w: &World) {
    w.outside("seq 90 > f").ok();
    w.new_sandbox("s");
    w.exec("s", "sed -i 's/^40$/forty/; s/^80$/eighty/' f").ok();
    decide(w, "\rxaq", "1 in part");
    w.apply(&["s"]).ok();
    w.exec("s", "sed -i 's/^forty$/FORTY/' f").ok();
    let applied = w.json(["apply", "s", "--yes"]);
    assert_eq!((left_out(&applied, "f"), &applied["lapsed"]), (json!("lapsed"), &json!(["f"])), "{applied}");
    assert!(!w.read("f").contains("FORTY"), "never a yes");
    decide(w, "Aq", "1 accepted, 0 rejected");
}

fn a_yes_to_a_directory_takes_nothing_rejected(w: &World) {
    w.outside("mkdir d; echo a > d/a; echo b > d/b").ok();
    w.sandbox_with("s", "echo A > d/a; echo B > d/b");
    decide(w, "xq", "0 accepted, 1 rejected");
    // From the first file up to its directory.
    decide(w, "kaq", "1 accepted, 1 rejected");
    w.apply(&["s"]).ok();
    assert_eq!((w.read("d/a"), w.read("d/b")), ("a\n".into(), "B\n".into()));
}

fn what_was_carried_out_is_no_open_question(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo one > a").ok();
    decide(w, "aq", "1 accepted, 0 rejected");
    w.apply(&["s"]).ok();
    w.exec("s", "echo two > a; echo b > b").ok();
    w.apply(&["s"]).ok();
    assert_eq!((w.read("a"), w.read("b")), ("two\n".into(), "b\n".into()), "the review is over");
}

fn an_undo_brings_the_approval_back(w: &World) {
    w.sandbox_with("s", "echo a > a; echo b > b");
    decide(w, "axq", "1 accepted, 1 rejected");
    w.apply(&["s"]).ok();
    w.whatif(["undo", "--yes"]).go().ok();
    assert!(!w.project.join("a").exists());
    w.apply(&["s"]).ok();
    assert!(w.project.join("a").exists() && !w.project.join("b").exists());
}

fn decisions_that_cannot_be_read_stop_an_apply(w: &World) {
    w.sandbox_with("s", "echo evil > evil.sh");
    decide(w, "xq", "0 accepted, 1 rejected");
    let id = w.json(["show", "s"])["id"].as_str().expect("an id").to_owned();
    w.outside(&format!("truncate -s 20 {}/sandboxes/{id}/review.json", w.state.display())).ok();
    w.apply(&["s"]).fails_with_hint(125).says("review.json");
    assert!(!w.project.join("evil.sh").exists());
}

fn the_terminal_is_given_back_after_a_signal(w: &World) {
    w.sandbox_with("s", "echo a > a");
    let mut terminal = review(w, "s");
    terminal.type_in("a");
    let stored = || w.json(["review", "s"])["decisions"] == json!([{"path": "a", "verdict": "accepted"}]);
    assert!(wait_for(Duration::from_secs(60), || stored().then_some(())).is_some(), "stored at once");
    terminal.signal(rustix::process::Signal::TERM);
    terminal.expect("\u{1b}[?1049l");
    terminal.expect("1 accepted");
    assert_eq!(terminal.ends(), 128 + 15);
}

fn a_small_and_a_changing_terminal(w: &World) {
    w.sandbox_with("s", "seq 100 > numbers; mkdir d; seq 3 > d/x");
    let mut terminal = review(w, "s");
    for (rows, columns) in [(50, 200), (10, 40), (3, 8), (1, 1), (24, 80)] {
        terminal.resize(rows, columns);
        terminal.type_in("jk\tjjGg\t?j");
    }
    // The first one may only close the help, and a busy machine draws late.
    let is_left = (0..4).any(|_| {
        terminal.type_in("q");
        wait_for(Duration::from_secs(10), || terminal.screen().contains("0 accepted, 0 rejected").then_some(())).is_some()
    });
    assert!(is_left, "{}", terminal.screen());
    assert_eq!(terminal.ends(), 0);
}

fn without_a_terminal_there_is_a_hint(w: &World) {
    w.sandbox_with("s", "echo a > a");
    w.whatif(["review", "s"]).go().fails_with_hint(2).says("--files");
    assert_eq!(w.json(["review", "s"])["decisions"], json!([]));
}

fn nothing_changed_is_nothing_to_review(w: &World) {
    w.new_sandbox("s");
    let mut terminal = Terminal::with_whatif(w, &["review", "s"]);
    terminal.expect("changed nothing");
    assert_eq!(terminal.ends(), 0);
}

fn a_conflict_is_shown_as_one(w: &World) {
    w.outside("echo 1 > a; seq 20 > b").ok();
    w.sandbox_with("s", "echo 2 > a; sed -i s/^2$/two/ b");
    w.outside("echo 3 > a; sed -i s/^19$/nineteen/ b").ok();
    let mut terminal = review(w, "s");
    terminal.type_in("jk");
    let is_told = |terminal: &Terminal, text: &str| terminal.screen().contains(text);
    eventually("it is told", || is_told(&terminal, "conflict: both changed the same lines"));
    assert!(is_told(&terminal, "--theirs PATH") && !is_told(&terminal, "reality changed here too"), "{}", terminal.screen());
    terminal.type_in("j");
    eventually("what can be merged is told", || is_told(&terminal, "reality changed here too"));
    terminal.type_in("q");
    terminal.expect("1 path in conflict with reality; to see which: whatif status s");
    assert_eq!(terminal.ends(), 0);
}

fn what_comes_next_is_what_would_help(w: &World) {
    w.outside("echo a > a").ok();
    w.sandbox_with("s", "echo A > a; echo B > b; echo x > ../beyond");
    let mut terminal = review(w, "s");
    // The help closes with any key.
    terminal.type_in("?");
    terminal.expect("any key closes this");
    terminal.type_in("qxq");
    terminal.expect("0 accepted, 1 rejected");
    terminal.expect("next: ");
    terminal.expect("whatif review s");
    assert_eq!(terminal.ends(), 0);
    // An option alone does not take what the review has not accepted.
    w.whatif(["apply", "s", "--dry-run"]).go().ok().says("beyond; to take: accept it in 'whatif review', then --outside");
}

fn what_nobody_decided_about_stays_open(w: &World) {
    w.sandbox_with("s", "echo a > aa; echo b > bb; echo c > cc");
    let mut terminal = review(w, "s");
    terminal.type_in("aq");
    terminal.expect("1 accepted");
    assert_eq!(terminal.ends(), 0);
    w.apply(&["s"]).ok();
    w.whatif(["start", "s"]).go().ok();
    // The same once more is not the answer to a question that was left open, nor is another content.
    w.exec("s", "echo other > bb; echo later > dd").ok();
    let again = w.json(["apply", "s", "--yes"]);
    assert_eq!((left_out(&again, "bb"), left_out(&again, "cc")), (json!("undecided"), json!("undecided")), "{again}");
    assert_eq!(w.outside("ls").ok().text(), "aa\ndd", "what came later was never asked about");
    let mut terminal = review(w, "s");
    terminal.type_in("aq");
    terminal.expect("1 accepted");
    assert_eq!(terminal.ends(), 0);
    w.apply(&["s"]).ok();
    assert_eq!(w.outside("ls").ok().text(), "aa\nbb\ndd");
    w.apply(&["s", "--files", "cc"]).ok();
    assert_eq!(w.outside("ls").ok().text(), "aa\nbb\ncc\ndd");
}

fn who_takes_what_was_rejected_is_told(w: &World) {
    for (how, take) in [("all", vec!["--all"]), ("files", vec!["--files", "*"])] {
        w.outside("rm -f -- *").ok();
        w.sandbox_with(how, "echo a > aa; echo b > bb");
        let mut terminal = review(w, how);
        terminal.type_in("xq");
        terminal.expect("1 rejected");
        assert_eq!(terminal.ends(), 0);
        let request = [&[how], take.as_slice()].concat();
        w.apply(&[request.as_slice(), &["--dry-run"]].concat()).ok().says("rejected, and taken all the same: aa");
        w.apply(&request).ok().says("rejected, and taken all the same: aa");
    }
}
