//! Directories that a sandbox renamed, and what of them is in reality only. Whatever an apply or an undo takes away there, no
//! sandbox, snapshot or template loses what it shows.

use std::path::PathBuf;

use whatif_e2e::{Fault, Outcome, Point, Stopped, World, as_root_and_user, needs, sample};

/// Makes three tests of each function: as root, as an ordinary user, and as root with directories that an earlier version renamed.
/// Those had redirects: they show unchanged files through from where reality has them.
macro_rules! now_and_before {
    ($($name:ident),+; only before: $($earlier:ident),+ $(,)?) => {
        as_root_and_user!($($name),+);
        mod before {
            now_and_before!(@before $($name),+, $($earlier),+);
        }
    };
    (@before $($name:ident),+) => {
        $(#[test]
        fn $name() {
            whatif_e2e::World::with(whatif_e2e::Who::Root, |w| {
                w.mkdir(&super::earlier(w));
                super::$name(w);
            });
        })+
    };
}

now_and_before!(
    a_destination_that_is_left_out_keeps_its_files,
    a_living_sandbox_keeps_them_too,
    a_partly_applied_directory_keeps_its_files,
    an_ignored_file_in_it_loses_nothing,
    an_ignored_file_beside_others_deep_in_it_is_no_conflict,
    two_renames_across_a_snapshot_are_both_there,
    another_sandbox_keeps_what_it_renamed,
    another_living_sandbox_keeps_what_it_renamed,
    a_snapshot_keeps_what_was_renamed_before_it,
    a_fork_and_a_template_keep_what_was_renamed,
    copies_of_one_in_use_have_what_became_real,
    an_undo_takes_nothing_from_another_sandbox,
    what_replaces_the_source_does_not_change_the_destination,
    what_was_deleted_in_it_is_not_listed,
    what_reality_has_in_both_places_is_kept,
    what_comes_to_the_old_place_is_not_in_the_new_one,
    an_empty_one_is_an_ordinary_directory,
    pipes_and_sockets_in_it_stay_where_they_are;
    only before:
    where_something_runs_nothing_is_taken_away,
    who_applies_from_under_a_running_command_is_told,
    what_is_copied_into_layers_that_are_being_merged_is_not_lost,
    nor_when_the_apply_was_killed_and_is_done_again,
    a_sandbox_starts_while_its_layers_are_merged,
    a_rename_is_taken_back_while_layers_are_merged,
);

/// Says that sandboxes are those of an earlier version.
fn earlier(w: &World) -> PathBuf {
    w.dir.join("earlier")
}

const SRC: &str = "mkdir -p src/deep/empty; echo one > src/one; echo two > src/deep/two; ln -s one src/link; chmod 750 src/deep";
/// What `src` is, wherever it went.
const SHOWN: &str = "deep deep/empty deep/two link one";

/// The kernel refuses to rename a directory of reality (EXDEV), and `mv` copies.
const RENAME: &str = "mv src lib";

/// An earlier version noted what was in reality while its command ran. Ours may find out too late to be sure.
fn apply(w: &World, arguments: &[&str]) -> Outcome {
    let sure: &[&str] = if earlier(w).exists() { &["--theirs", "*"] } else { &[] };
    w.apply(&[arguments, sure].concat())
}

/// Works in a sandbox that lives.
#[track_caller]
fn work(w: &World, sandbox: &str, script: &str) {
    if !earlier(w).exists() {
        w.exec(sandbox, script).ok();
        return;
    }
    w.whatif(["stop", sandbox]).go().ok();
    w.exec_with_redirects(sandbox, script);
    w.whatif(["start", sandbox]).go().ok();
}

/// Works in one that is made for it and at rest afterwards.
#[track_caller]
fn sandbox_with(w: &World, name: &str, script: &str) {
    if earlier(w).exists() {
        w.new_sandbox(name);
        work(w, name, script);
        w.whatif(["stop", name]).go().ok();
    } else {
        w.sandbox_with(name, script);
    }
}

fn shown(w: &World, sandbox: &str, directory: &str) -> String {
    w.exec(sandbox, &format!("cd {directory} && find . -mindepth 1 | sed s,^./,, | sort | tr '\\n' ' '"))
        .ok()
        .text()
        .trim()
        .to_owned()
}

#[track_caller]
fn has_src_at(w: &World, sandbox: &str, directory: &str) {
    assert_eq!(shown(w, sandbox, directory), SHOWN, "{directory} in {sandbox}");
    let script = format!("cd {directory} && cat one deep/two link && stat -c %a deep");
    assert_eq!(w.exec(sandbox, &script).ok().text(), "one\ntwo\none\n750", "{directory} in {sandbox}");
}

fn restarted(w: &World, sandbox: &str) {
    w.whatif(["stop", sandbox]).go().ok();
    w.whatif(["start", sandbox]).go().ok();
}

fn a_destination_that_is_left_out_keeps_its_files(w: &World) {
    w.outside(SRC).ok();
    sandbox_with(w, "s", RENAME);
    apply(w, &["s", "--files", "src"]).ok();
    assert!(!w.project.join("src").exists() && !w.project.join("lib").exists());
    w.whatif(["start", "s"]).go().ok();
    has_src_at(w, "s", "lib");
    apply(w, &["s"]).ok();
    assert_eq!((w.read("lib/one"), w.read("lib/deep/two")), ("one\n".into(), "two\n".into()));
    assert!(w.project.join("lib/deep/empty").is_dir());
    has_src_at(w, "s", "lib");
    w.whatif(["undo", "--yes"]).go().ok();
    w.whatif(["undo", "--yes"]).go().ok();
    assert_eq!(w.read("src/deep/two"), "two\n");
    restarted(w, "s");
    has_src_at(w, "s", "lib");
}

fn a_living_sandbox_keeps_them_too(w: &World) {
    w.outside(SRC).ok();
    w.new_sandbox("s");
    work(w, "s", RENAME);
    apply(w, &["s", "--files", "src"]).ok();
    assert!(!w.project.join("src").exists());
    has_src_at(w, "s", "lib");
    w.exec("s", "echo more >> lib/one && rm lib/deep/two && mv lib/one lib/other").ok();
    restarted(w, "s");
    assert_eq!(shown(w, "s", "lib"), "deep deep/empty link other");
    assert_eq!(w.exec("s", "cat lib/other").ok().text(), "one\nmore");
}

fn a_partly_applied_directory_keeps_its_files(w: &World) {
    w.outside(SRC).ok();
    w.new_sandbox("s");
    work(w, "s", RENAME);
    apply(w, &["s", "--exclude", "lib/one"]).ok();
    has_src_at(w, "s", "lib");
    restarted(w, "s");
    has_src_at(w, "s", "lib");
    apply(w, &["s"]).ok();
    assert_eq!((w.read("lib/one"), w.read("lib/deep/two")), ("one\n".into(), "two\n".into()));
    has_src_at(w, "s", "lib");
}

fn an_ignored_file_in_it_loses_nothing(w: &World) {
    w.outside(SRC).ok();
    w.outside("echo out > .gitignore; mkdir src/out; echo built > src/out/built").ok();
    sandbox_with(w, "s", RENAME);
    apply(w, &["s"]).ok();
    assert_eq!((w.read("lib/one"), w.read("src/out/built")), ("one\n".into(), "built\n".into()));
    w.whatif(["start", "s"]).go().ok();
    let all = "deep deep/empty deep/two link one out out/built";
    assert_eq!(shown(w, "s", "lib"), all);
    // What was ignored is still ignored, and there is nothing else left to take.
    apply(w, &["s"]).ok();
    assert_eq!(w.read("lib/one"), "one\n");
    apply(w, &["s", "--ignored"]).ok();
    assert_eq!(w.read("lib/out/built"), "built\n");
    assert!(!w.project.join("src").exists());
    restarted(w, "s");
    assert_eq!(shown(w, "s", "lib"), all);
}

fn an_ignored_file_beside_others_deep_in_it_is_no_conflict(w: &World) {
    w.outside(SRC).ok();
    w.outside("echo '*.log' > .gitignore; echo a > src/a.log; echo b > src/deep/b.log").ok();
    sandbox_with(w, "s", RENAME);
    apply(w, &["s"]).ok();
    // The apply took the other files out of 'src/deep'. Nobody else did anything there.
    if !earlier(w).exists() {
        let status = w.whatif(["status", "s"]).go().ok().stdout;
        assert!(status.contains("has not moved"), "{status}");
        assert_eq!(w.json(["diff", "s"])["drift"], serde_json::json!([]));
    }
    apply(w, &["s", "--ignored"]).ok();
    assert_eq!(w.read("lib/a.log") + &w.read("lib/deep/b.log"), "a\nb\n");
    assert!(!w.project.join("src").exists());
}

fn two_renames_across_a_snapshot_are_both_there(w: &World) {
    w.outside("mkdir a p; echo a > a/a; echo p > p/p").ok();
    w.new_sandbox("s");
    work(w, "s", "mv a q");
    w.snapshot("s", "between");
    work(w, "s", "mv p a");
    apply(w, &["s"]).ok();
    assert_eq!((w.read("q/a"), w.read("a/p")), ("a\n".into(), "p\n".into()));
    for _ in 0..2 {
        assert_eq!((shown(w, "s", "a"), shown(w, "s", "q")), ("p".into(), "a".into()));
        restarted(w, "s");
    }
    apply(w, &["s"]).ok();
    assert_eq!((w.read("q/a"), w.read("a/p")), ("a\n".into(), "p\n".into()), "nothing is left to apply");
}

fn another_sandbox_keeps_what_it_renamed(w: &World) {
    w.outside(SRC).ok();
    sandbox_with(w, "other", RENAME);
    w.sandbox_with("s", "rm -r src; echo x > x");
    apply(w, &["s"]).ok();
    assert!(!w.project.join("src").exists());
    w.whatif(["start", "other"]).go().ok();
    has_src_at(w, "other", "lib");
}

fn another_living_sandbox_keeps_what_it_renamed(w: &World) {
    w.outside(SRC).ok();
    w.new_sandbox("other");
    work(w, "other", RENAME);
    w.sandbox_with("s", "rm -r src/deep; rm src/one");
    apply(w, &["s"]).ok();
    has_src_at(w, "other", "lib");
    restarted(w, "other");
    has_src_at(w, "other", "lib");
}

fn a_snapshot_keeps_what_was_renamed_before_it(w: &World) {
    w.outside(SRC).ok();
    w.new_sandbox("other");
    work(w, "other", RENAME);
    w.snapshot("other", "renamed");
    w.exec("other", "rm -r lib").ok();
    w.sandbox_with("s", "rm -r src");
    apply(w, &["s"]).ok();
    w.whatif(["rollback", "other", "renamed"]).go().ok();
    has_src_at(w, "other", "lib");
}

fn a_fork_and_a_template_keep_what_was_renamed(w: &World) {
    w.outside(SRC).ok();
    w.new_sandbox("first");
    work(w, "first", RENAME);
    w.fork("first", "fork");
    w.json(["template", "save", "first", "start"]);
    w.whatif(["rm", "--yes", "first"]).go().ok();
    w.sandbox_with("s", "rm -r src");
    apply(w, &["s"]).ok();
    has_src_at(w, "fork", "lib");
    w.json(["new", "made", "--template", "start"]);
    has_src_at(w, "made", "lib");
}

fn copies_of_one_in_use_have_what_became_real(w: &World) {
    w.outside(SRC).ok();
    w.new_sandbox("s");
    work(w, "s", RENAME);
    w.whatif(["exec", "s", "-d", "--", "sleep", "1000"]).go().ok();
    apply(w, &["s", "--all"]).ok();
    w.whatif(["snapshot", "s", "point"]).go().ok();
    for (from, name) in [("s", "of-head"), ("s@point", "of-snapshot")] {
        w.whatif(["fork", from, name]).go().ok();
        assert_eq!(shown(w, name, "lib"), SHOWN, "{name}");
    }
    w.whatif(["stop", "s"]).go().ok();
    w.whatif(["start", "s"]).go().ok();
    assert_eq!(shown(w, "s", "lib"), SHOWN);
}

fn an_undo_takes_nothing_from_another_sandbox(w: &World) {
    w.sandbox_with("s", SRC);
    apply(w, &["s"]).ok();
    w.new_sandbox("other");
    work(w, "other", RENAME);
    w.whatif(["undo", "--yes"]).go().ok();
    assert!(!w.project.join("src").exists());
    has_src_at(w, "other", "lib");
    restarted(w, "other");
    has_src_at(w, "other", "lib");
}

fn what_replaces_the_source_does_not_change_the_destination(w: &World) {
    w.outside(SRC).ok();
    sandbox_with(w, "s", "mv src lib; mkdir src; echo new > src/one");
    apply(w, &["s", "--skip", "lib"]).ok();
    assert_eq!(w.read("src/one"), "new\n");
    w.whatif(["start", "s"]).go().ok();
    has_src_at(w, "s", "lib");
}

fn what_was_deleted_in_it_is_not_listed(w: &World) {
    w.outside(SRC).ok();
    w.new_sandbox("other");
    work(w, "other", "rm src/one src/deep/two; mv src lib");
    w.fork("other", "fork");
    work(w, "fork", "mv lib/deep lib/further");
    w.sandbox_with("s", "rm -r src");
    apply(w, &["s"]).ok();
    for _ in 0..2 {
        assert_eq!(shown(w, "other", "lib"), "deep deep/empty link");
        assert_eq!(shown(w, "fork", "lib"), "further further/empty link");
        restarted(w, "other");
        restarted(w, "fork");
    }
}

fn what_reality_has_in_both_places_is_kept(w: &World) {
    w.outside(&format!("{SRC}; cp -a src lib")).ok();
    w.new_sandbox("other");
    work(w, "other", "rm -r lib; mv src lib");
    w.snapshot("other", "renamed");
    w.fork("other", "fork");
    work(w, "other", "mv lib/deep lib/further; rm lib/one");
    w.sandbox_with("s", "rm -r src");
    apply(w, &["s"]).ok();
    assert_eq!(shown(w, "other", "lib"), "further further/empty further/two link");
    has_src_at(w, "fork", "lib");
    w.whatif(["rollback", "other", "renamed"]).go().ok();
    has_src_at(w, "other", "lib");
}

fn what_comes_to_the_old_place_is_not_in_the_new_one(w: &World) {
    w.outside(SRC).ok();
    w.new_sandbox("other");
    work(w, "other", "rm src/one; echo mine > src/deep/two; mv src lib");
    w.sandbox_with("s", "rm -r src");
    apply(w, &["s"]).ok();
    w.outside("mkdir -p src/deep; echo new > src/new; echo again > src/one; echo new > src/deep/new").ok();
    restarted(w, "other");
    assert_eq!(shown(w, "other", "lib"), "deep deep/empty deep/two link");
    apply(w, &["other", "--skip", "src"]).ok();
    assert_eq!((w.read("lib/deep/two"), w.read("src/new")), ("mine\n".into(), "new\n".into()));
    assert!(!w.project.join("lib/new").exists() && !w.project.join("lib/one").exists());
}

fn an_empty_one_is_an_ordinary_directory(w: &World) {
    w.outside("mkdir src").ok();
    w.new_sandbox("other");
    work(w, "other", RENAME);
    w.sandbox_with("s", "rmdir src");
    apply(w, &["s"]).ok();
    w.exec("other", "echo one > lib/one").ok();
    assert_eq!(shown(w, "other", "lib"), "one");
    apply(w, &["other"]).ok();
    assert_eq!(w.read("lib/one"), "one\n");
}

/// They are not made elsewhere, so they must not go from where they are.
fn pipes_and_sockets_in_it_stay_where_they_are(w: &World) {
    w.outside("mkdir src; echo one > src/one; mkfifo src/pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"src/sock\")'")
        .ok();
    sandbox_with(w, "s", RENAME);
    let report = apply(w, &["s"]);
    w.outside("test -p src/pipe && test -S src/sock && test ! -e src/one && test -f lib/one && test ! -e lib/pipe").ok();
    assert!(report.stdout.contains("src/pipe") || report.stderr.contains("src/pipe"), "{report:?}");
    w.sandbox_with("t", "rm src/pipe");
    apply(w, &["t"]).ok();
    w.outside("test ! -e src/pipe && test -S src/sock").ok();
}

/// What its mounts show would go.
fn where_something_runs_nothing_is_taken_away(w: &World) {
    w.outside(SRC).ok();
    w.new_sandbox("other");
    work(w, "other", RENAME);
    w.exec("other", "sleep 100 > /dev/null 2>&1 &").ok();
    w.sandbox_with("s", "rm -r src");
    apply(w, &["s"]).fails_with_hint(125).says("'other'");
    assert_eq!(w.read("src/one"), "one\n");
    w.whatif(["stop", "other"]).go().ok();
    apply(w, &["s"]).ok();
    assert!(!w.project.join("src").exists());
    restarted(w, "other");
    has_src_at(w, "other", "lib");
}

/// Its mounts cannot be changed then, and would list nothing where reality has nothing any more.
fn who_applies_from_under_a_running_command_is_told(w: &World) {
    w.outside(SRC).ok();
    w.whatif(["new", "s"]).go().ok();
    work(w, "s", RENAME);
    w.whatif(["exec", "-d", "s", "--", "sleep", "1000"]).go().ok();
    apply(w, &["s"]).ok().says("until it is restarted");
    assert_eq!(w.read("lib/one"), "one\n");
    restarted(w, "s");
    has_src_at(w, "s", "lib");
    w.whatif(["exec", "-d", "s", "--", "sleep", "1000"]).go().ok();
    let undone = w.json(["undo", "--yes"]);
    assert!(undone["notes"].to_string().contains("until it is restarted"), "{undone}");
    restarted(w, "s");
    has_src_at(w, "s", "lib");
}

/// The last moment at which a squash of two layers can be overtaken: they are merged, and the sandbox does not stand on the result.
fn merged(w: &World) -> Point {
    layered(w, "twin", "true");
    let points = w.points_of(&w.project, &["squash", "twin"]);
    w.whatif(["rm", "--yes", "twin"]).go().ok();
    points.into_iter().rfind(|point| point.call == "renameat2").expect("merged layers get their names")
}

/// A sandbox on two layers, of which the lower one has what the script did.
fn layered(w: &World, name: &str, script: &str) {
    w.new_sandbox(name);
    work(w, name, &format!("{script}; echo 1 > a"));
    w.snapshot(name, "lower");
    w.exec(name, "echo 2 > b").ok();
    w.snapshot(name, "upper");
}

fn what_is_copied_into_layers_that_are_being_merged_is_not_lost(w: &World) {
    needs!(w, "/usr/bin/strace");
    w.outside(SRC).ok();
    let merged = merged(w);
    layered(w, "other", RENAME);
    w.fork("other", "fork");
    w.sandbox_with("s", "rm -r src");
    let squash = |name| (name, Stopped::at(w, &merged, &["squash", name]));
    let squashes = ["other", "fork"].map(squash);
    apply(w, &["s"]).ok();
    assert!(!w.project.join("src").exists());
    for (name, squash) in squashes {
        assert_eq!(squash.go_on(), Some(0));
        let stack = &w.json(["show", name])["details"]["position"]["stack"];
        assert_eq!(stack.as_array().map(Vec::len), Some(1), "they are merged after all");
        has_src_at(w, name, "lib");
        restarted(w, name);
        has_src_at(w, name, "lib");
    }
}

/// The second apply finds copied what the first one would have told of.
fn nor_when_the_apply_was_killed_and_is_done_again(w: &World) {
    needs!(w, "/usr/bin/strace");
    let merged = merged(w);
    let begin = || {
        w.outside(SRC).ok();
        layered(w, "other", RENAME);
        w.whatif(["stop", "other"]).go().ok();
        w.sandbox_with("s", "rm -r src");
    };
    let end = || w.whatif(["rm", "--yes", "s", "other"]).go().ok();
    begin();
    let points = w.points_of(&w.project, &["apply", "s", "--yes"]);
    end();
    // A directory to copy in is made first, and what was copied is flushed before anything else is done.
    let copying = points.into_iter().skip_while(|point| point.call != "mkdir").take_while(|point| point.call != "syncfs");
    let copying: Vec<Point> = copying.collect();
    assert!(!copying.is_empty());
    for point in sample(&copying, 12, 0) {
        begin();
        let squash = Stopped::at(w, &merged, &["squash", "other"]);
        let _ = w.with_fault(&point, Fault::Kill, &["apply", "s", "--yes"]).go();
        assert!(w.project.join("src").exists(), "{point:?} is too late");
        apply(w, &["s"]).ok();
        assert!(!w.project.join("src").exists(), "{point:?}");
        assert_eq!(squash.go_on(), Some(0), "{point:?}");
        w.whatif(["start", "other"]).go().ok();
        has_src_at(w, "other", "lib");
        end();
    }
}

/// A directory that the sandbox replaced hides reality's until it is real itself.
fn replaced(w: &World) {
    w.outside(&format!("mkdir d; echo old > d/old; {SRC}")).ok();
    layered(w, "s", "rm -r d; mkdir d; mv src d/lib");
}

fn a_sandbox_starts_while_its_layers_are_merged(w: &World) {
    needs!(w, "/usr/bin/strace");
    let merged = merged(w);
    replaced(w);
    let squash = Stopped::at(w, &merged, &["squash", "s"]);
    apply(w, &["s"]).ok();
    has_src_at(w, "s", "d/lib");
    restarted(w, "s");
    has_src_at(w, "s", "d/lib");
    assert_eq!(squash.go_on(), Some(0));
    restarted(w, "s");
    has_src_at(w, "s", "d/lib");
}

fn a_rename_is_taken_back_while_layers_are_merged(w: &World) {
    needs!(w, "/usr/bin/strace");
    let merged = merged(w);
    replaced(w);
    apply(w, &["s"]).ok();
    let squash = Stopped::at(w, &merged, &["squash", "s"]);
    w.whatif(["undo", "--yes"]).go().ok();
    assert!(w.project.join("src").exists() && !w.project.join("d/lib").exists());
    has_src_at(w, "s", "d/lib");
    assert_eq!(squash.go_on(), Some(0));
    restarted(w, "s");
    has_src_at(w, "s", "d/lib");
    assert_eq!(w.exec("s", "ls d").ok().text(), "lib");
}
