//! Applying where something is in the way: nobody to ask, somebody else at work, a place that cannot be written.

use std::process::Stdio;

use whatif_e2e::{Detail, Terminal, Tree, World, as_root, as_root_and_user, as_user, needs};

as_root_and_user!(
    without_a_terminal_yes_must_be_said,
    on_a_terminal_it_asks,
    a_digest_pins_what_was_reviewed,
    a_success_says_how_to_undo_it,
    the_json_document_says_what_became_of_each_change,
    a_conflict_is_a_json_document_too,
    a_conflict_is_told_once,
    what_cannot_be_merged_is_said_to_be_the_reason,
    two_sandboxes_applied_at_once_both_arrive,
    one_sandbox_applied_twice_at_once_arrives_once,
    a_busy_sandbox_is_applied_as_it_was_at_one_moment,
    open_files_and_working_directories_survive,
    an_open_database_is_not_exchanged,
    what_cannot_be_read_is_not_applied,
);

as_root!(an_immutable_file_stops_everything_before_it_begins, owners_stay_what_they_are);

as_user!(a_directory_that_cannot_be_written_stops_everything, somebody_elses_file_stops_everything);

/// What was written to it last is in its journal, and would end up in the sandbox's version of it.
fn an_open_database_is_not_exchanged(w: &World) {
    needs!(w, "python3");
    let write = |row: &str| {
        format!("import sqlite3\ndb = sqlite3.connect('db')\ndb.execute('INSERT INTO t VALUES (\"{row}\")')\ndb.commit()\n")
    };
    let inside = |name: &str, program: &str| w.whatif(["exec", name, "--", "python3", "-c", program]).go().ok();
    let begin =
        "import sqlite3\ndb = sqlite3.connect('db')\ndb.execute('PRAGMA journal_mode=wal')\ndb.execute('CREATE TABLE t (x)')\n";
    w.program("/usr/bin/python3").args(["-c", begin]).go().ok();
    w.new_sandbox("s");
    inside("s", &write("sandbox"));
    w.new_sandbox("deletes");
    w.exec("deletes", "rm db").ok();

    let hold = format!("{}print('held', flush=True)\nimport sys\nsys.stdin.read()", write("reality"));
    let call = w.program("/usr/bin/python3").args(["-c", &hold]);
    let mut holder = call.streams(Stdio::piped(), Stdio::piped(), Stdio::null()).spawn();
    let mut word = [0; 5];
    std::io::Read::read_exact(holder.stdout.as_mut().expect("it is piped"), &mut word).expect("it writes");
    let before = Tree::of(&w.project, Detail::Content);
    for name in ["s", "deletes"] {
        w.apply(&[name]).exits(1).says("journal");
    }
    Tree::of(&w.project, Detail::Content).assert_is(&before, "nothing is written in a conflict");
    drop(holder.stdin.take());
    holder.wait().expect("it is our child");

    // With its journal, a database is whole.
    w.outside("rm db*").ok();
    w.program("/usr/bin/python3").args(["-c", begin]).go().ok();
    w.new_sandbox("killed");
    let killed = format!("{}import os\nos.kill(os.getpid(), 9)", write("sandbox"));
    w.whatif(["exec", "killed", "--", "python3", "-c", &killed]).go().exits(137);
    w.apply(&["killed"]).ok();
    let rows = "import sqlite3\nprint(*sqlite3.connect('db').execute('SELECT x FROM t').fetchone())";
    assert_eq!(w.program("/usr/bin/python3").args(["-c", rows]).go().ok().stdout, "sandbox\n");
}

fn without_a_terminal_yes_must_be_said(w: &World) {
    w.outside("echo f > f").ok();
    w.sandbox_with("s", "echo F > f");
    w.whatif(["apply", "s"]).go().fails_with_hint(2).says("--yes");
    w.whatif(["--json", "apply", "s"]).go().exits(2);
    w.whatif(["apply", "s"]).input(b"y\n").go().exits(2);
    assert_eq!(w.read("f"), "f\n");
    w.whatif(["apply", "s", "--dry-run"]).go().ok();
    assert_eq!(w.read("f"), "f\n");
}

fn on_a_terminal_it_asks(w: &World) {
    w.outside("echo f > f").ok();
    w.sandbox_with("s", "echo F > f");
    let mut terminal = Terminal::with_whatif(w, &["apply", "s"]);
    terminal.expect("[y/N]");
    terminal.type_in("n\n");
    assert_ne!(terminal.ends(), 125);
    assert_eq!(w.read("f"), "f\n");
    let mut terminal = Terminal::with_whatif(w, &["apply", "s"]);
    terminal.expect("[y/N]");
    terminal.type_in("y\n");
    assert_eq!(terminal.ends(), 0);
    assert_eq!(w.read("f"), "F\n");
}

fn a_digest_pins_what_was_reviewed(w: &World) {
    w.outside("echo f > f").ok();
    w.sandbox_with("s", "echo F > f");
    let digest = w.json(["diff", "s"])["digest"].as_str().expect("there is one").to_owned();
    assert_eq!(w.json(["diff", "s"])["digest"], digest.as_str(), "looking again changes nothing");
    w.exec("s", "echo sneaky >> f").ok();
    let refused = w.apply(&["s", "--digest", &digest]);
    assert!(refused.code != 0 && w.read("f") == "f\n", "{refused:?}");
    let digest = w.json(["diff", "s"])["digest"].as_str().expect("there is one").to_owned();
    w.apply(&["s", "--digest", &digest]).ok();
    assert_eq!(w.read("f"), "F\nsneaky\n");
}

fn a_conflict_is_told_once(w: &World) {
    w.outside("for i in $(seq 12); do seq 9 > f$i; done").ok();
    w.sandbox_with("s", "sed -i s/^5$/sandbox/ f*");
    w.outside("sed -i s/^5$/reality/ f*").ok();
    let said = w.apply(&["s"]).fails_with_hint(1).stderr;
    assert_eq!(said.matches("both changed the same lines").count(), 12, "{said}");
    assert!(said.contains("12 paths are in conflict with reality") && said.contains("and 7 more"), "{said}");
}

/// Rather than that its start was not kept, which nobody can change.
fn what_cannot_be_merged_is_said_to_be_the_reason(w: &World) {
    w.outside("head -c 5M /dev/zero | tr '\\0' a > long; printf 'bin\\0' > binary").ok();
    w.sandbox_with("s", "echo sandbox >> long; echo sandbox >> binary");
    w.outside("echo reality >> long; echo reality >> binary").ok();
    let said = w.apply(&["s"]).exits(1).stderr;
    let why = |path: &str| said.lines().find(|l| l.starts_with("conflict:") && l.contains(path)).unwrap_or_default().to_owned();
    assert!(why("long").ends_with("it is too large to be merged") && why("binary").ends_with("it is not text"), "{said}");
}

fn a_success_says_how_to_undo_it(w: &World) {
    w.sandbox_with("s", "echo x > f; echo y > g");
    let outcome = w.apply(&["s"]).ok();
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    let id = w.json(["history"])[0]["id"].as_str().expect("it is listed").to_owned();
    assert!(said.contains("whatif undo") && said.contains(&id) && said.contains('2'), "{said}");
}

fn the_json_document_says_what_became_of_each_change(w: &World) {
    w.outside("echo f > f; seq 20 > merged; echo c > conflicting").ok();
    w.sandbox_with("s", "echo F > f; sed -i s/^2$/two/ merged; echo C > conflicting; echo x > .envrc; mkfifo pipe");
    w.outside("sed -i s/^19$/nineteen/ merged; echo mine > conflicting").ok();
    let document = w.json(["apply", "s", "--yes", "--ours", "conflicting"]);
    let listed = |key: &str, path: &str| document[key].to_string().contains(&format!("\"{path}\""));
    assert!(listed("applied", "f") && listed("merged", "merged") && !listed("applied", "conflicting"), "{document:#}");
    assert!(listed("left_out", ".envrc") && listed("left_out", "pipe"), "{document:#}");
    assert!(document["apply"]["id"].is_string(), "{document:#}");
}

fn a_conflict_is_a_json_document_too(w: &World) {
    w.outside("echo f > f").ok();
    w.sandbox_with("s", "echo F > f");
    w.outside("echo mine > f").ok();
    let outcome = w.whatif(["--json", "apply", "s", "--yes"]).go().exits(1);
    let document: serde_json::Value = serde_json::from_str(&outcome.stderr).expect("one JSON document");
    assert_eq!(document["error"]["code"], "conflict", "{document}");
    let path = document["error"]["details"][0]["path"].as_str().unwrap_or_default();
    assert!(path == "f" || path.ends_with("/f"), "{document}");
    let shown = w.apply(&["s"]).exits(1);
    for option in ["--ours", "--theirs", "--skip"] {
        assert!(format!("{}{}", shown.stdout, shown.stderr).contains(option), "{shown:?}");
    }
}

/// The second waits, or is told to come again; either way no update is lost.
fn two_sandboxes_applied_at_once_both_arrive(w: &World) {
    for round in 0..5 {
        w.outside("seq 40 > f; rm -f a b").ok();
        let names = [format!("a{round}"), format!("b{round}")];
        w.sandbox_with(&names[0], "sed -i s/^2$/two/ f; echo a > a");
        w.sandbox_with(&names[1], "sed -i s/^39$/thirty-nine/ f; echo b > b");
        let outcomes = std::thread::scope(|scope| names.each_ref().map(|name| scope.spawn(|| w.apply(&[name]))).map(|t| t.join()));
        for (name, outcome) in names.iter().zip(outcomes) {
            let outcome = outcome.expect("it ends");
            if outcome.code != 0 {
                assert!(outcome.stderr.contains("another apply"), "{outcome:?}");
                w.apply(&[name]).ok();
            }
        }
        let f = w.read("f");
        assert!(f.contains("\ntwo\n") && f.contains("\nthirty-nine\n") && f.lines().count() == 40, "an update is lost: {f}");
        assert_eq!((w.read("a"), w.read("b")), ("a\n".into(), "b\n".into()));
    }
}

fn one_sandbox_applied_twice_at_once_arrives_once(w: &World) {
    for round in 0..5 {
        w.outside("rm -rf *; echo f > f; mkdir d; echo x > d/x").ok();
        let name = format!("s{round}");
        w.sandbox_with(&name, "echo F > f; rm -r d; mkdir e; for n in $(seq 30); do echo $n > e/$n; done");
        let both = [0, 1].map(|_| w.whatif(["apply", &name, "--yes"]).streams(Stdio::null(), Stdio::null(), Stdio::null()).spawn());
        let codes = both.map(|mut child| child.wait().expect("it is our child").code());
        assert!(codes.contains(&Some(0)), "{codes:?}");
        assert_eq!(w.read("f"), "F\n");
        assert_eq!(w.outside("ls e | wc -l; ls").ok().stdout, "30\ne\nf\n");
    }
}

/// Content that changes while it is read would be content nobody ever saw.
fn a_busy_sandbox_is_applied_as_it_was_at_one_moment(w: &World) {
    w.outside("echo 0 > f").ok();
    let name = w.new_sandbox("busy");
    let script = "n=1; while :; do seq $n $((n+2000)) > t; mv t f; n=$((n+1)); done";
    w.whatif(["exec", &name, "-d", "--", "/bin/sh", "-c", script]).go().ok();
    w.exec(&name, "while [ \"$(wc -l < f)\" -lt 2000 ]; do sleep 0.01; done").ok();
    for _ in 0..5 {
        let outcome = w.apply(&[&name, "--files", "f"]);
        if outcome.code == 0 {
            let content = w.read("f");
            assert_eq!(content.lines().count(), 2001, "torn");
        } else {
            assert!(!outcome.stderr.is_empty(), "{outcome:?}");
        }
    }
}

fn open_files_and_working_directories_survive(w: &World) {
    w.outside("mkdir d; echo x > d/x; seq 9 > log").ok();
    w.sandbox_with("s", "echo X > d/x; echo y > d/y; chmod 700 d");
    w.outside(&format!(
        "cd d; exec 3< x; {} apply s --all --yes >&2; test \"$(cat <&3)\" = x; test \"$(cat y)\" = y; ls .",
        w.bin.display()
    ))
    .ok();
}

/// Root can read everything; a user is told what is in the way.
fn what_cannot_be_read_is_not_applied(w: &World) {
    w.outside("echo f > f; echo g > g").ok();
    w.sandbox_with("s", "echo F > f; chmod 000 f; echo G > g");
    let outcome = w.apply(&["s"]);
    if w.is_root() {
        assert_eq!((w.read("f"), w.outside("stat -c %a f").ok().text()), ("F\n".into(), "0"));
    } else {
        assert!(outcome.code != 0 && outcome.stderr.contains("f: "), "{outcome:?}");
        assert_eq!((w.read("f"), w.read("g")), ("f\n".into(), "g\n".into()));
        w.apply(&["s", "--exclude", "f"]).ok();
        assert_eq!(w.read("g"), "G\n");
    }
}

fn an_immutable_file_stops_everything_before_it_begins(w: &World) {
    needs!(w, "chattr");
    w.outside("echo a > a; echo f > f; echo z > z").ok();
    w.sandbox_with("s", "echo A > a; echo F > f; echo Z > z; echo new > new");
    if w.outside("chattr +i f").code != 0 {
        whatif_e2e::skip("this file system knows no immutable files");
        return;
    }
    let before = Tree::of(&w.project, Detail::Times);
    let outcome = w.apply(&["s"]);
    let after = Tree::of(&w.project, Detail::Times);
    w.outside("chattr -i f").ok();
    assert!(outcome.code != 0 && outcome.stderr.contains('f'), "{outcome:?}");
    after.assert_is(&before, "nothing is written");
    w.apply(&["s"]).ok();
}

/// Root works on the files of somebody else, and they stay somebody else's.
fn owners_stay_what_they_are(w: &World) {
    w.outside("mkdir d; echo x > d/x; echo y > d/y; chown -R 4321:1234 d").ok();
    w.sandbox_with("s", "echo X > d/x; chmod 600 d/y; echo n > d/n; chown 4321:1234 d/n");
    w.apply(&["s", "--all"]).ok();
    assert_eq!(
        w.outside("stat -c %u:%g:%a d d/x d/y d/n").ok().text(),
        "4321:1234:755\n4321:1234:644\n4321:1234:600\n4321:1234:644"
    );
}

fn a_directory_that_cannot_be_written_stops_everything(w: &World) {
    w.outside("mkdir d; echo x > d/x; echo a > a; echo z > z").ok();
    w.sandbox_with("s", "echo X > d/x; echo n > d/n; echo A > a; echo Z > z");
    w.outside("chmod 555 d").ok();
    let before = Tree::of(&w.project, Detail::Times);
    let outcome = w.apply(&["s"]);
    assert!(outcome.code != 0 && outcome.stderr.contains('d'), "{outcome:?}");
    Tree::of(&w.project, Detail::Times).assert_is(&before, "nothing is written");
    w.outside("chmod 755 d").ok();
    w.apply(&["s"]).ok();
    assert_eq!(w.read("d/n"), "n\n");
}

/// A file that has become root's since: it cannot be read, so it cannot be kept for an undo.
fn somebody_elses_file_stops_everything(w: &World) {
    if !rustix::process::geteuid().is_root() {
        whatif_e2e::skip("only root can give a file away");
        return;
    }
    w.outside("echo f > f; echo g > g").ok();
    w.sandbox_with("s", "echo F > f; echo G > g");
    let taken = w.project.join("f");
    std::os::unix::fs::chown(&taken, Some(0), Some(0)).expect("we are root");
    std::fs::set_permissions(&taken, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("we are root");
    let outcome = w.apply(&["s"]);
    assert!(outcome.code != 0 && outcome.stderr.contains('f'), "{outcome:?}");
    assert_eq!((w.read("f"), w.read("g")), ("f\n".into(), "g\n".into()));
}
