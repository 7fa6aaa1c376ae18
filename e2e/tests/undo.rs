//! Taking an apply back, and the list of all of them.

use serde_json::Value;
use whatif_e2e::{Detail, Terminal, Tree, World, as_root, as_root_and_user, needs};

as_root!(a_directory_comes_back_with_what_no_sandbox_has_a_say_about);
as_root_and_user!(
    an_open_database_is_not_put_back,
    undo_restores_every_detail,
    a_project_file_that_cannot_be_used_is_taken_back,
    undo_needs_no_sandbox,
    an_apply_is_undone_by_its_id,
    an_earlier_apply_can_be_undone_if_nothing_depends_on_it,
    an_apply_cannot_be_undone_twice,
    an_undo_can_be_undone,
    a_dry_run_of_undo_writes_nothing,
    undo_without_a_terminal_needs_yes,
    undo_on_a_terminal_asks,
    undo_refuses_with_the_list_of_what_changed_since,
    a_directory_in_which_others_put_something_stays,
    undo_stays_in_its_project,
    above_projects_they_are_named,
    what_wrote_nothing_has_no_id,
    history_lists_the_newest_first,
    history_counts_what_an_undo_says_it_restored,
    history_is_empty_at_first,
    history_knows_who_without_being_told,
);

fn tree(w: &World) -> Tree {
    Tree::of(&w.project, Detail::Times)
}

fn id_of(document: &Value) -> String {
    document["apply"]["id"].as_str().unwrap_or_else(|| panic!("no id: {document}")).to_owned()
}

/// A file's are on the inode that was kept; of a directory there is none.
fn a_directory_comes_back_with_what_no_sandbox_has_a_say_about(w: &World) {
    needs!(w, "setfattr", "getfattr", "chattr", "lsattr");
    let cases = [("removed", "rm -r o"), ("emptied", "rm -r o/in"), ("replaced", "rm -r o; echo file > o")];
    for (name, inside) in cases {
        w.outside("rm -rf *; mkdir -p o/in; echo 2 > o/in/y; echo x > o/x").ok();
        w.outside("for d in o o/in; do setfattr -n trusted.foo -v bar $d; setfattr -n security.sx -v v $d; done").ok();
        w.outside("chattr +dA o; chattr +d o/in").ok();
        let look =
            || w.outside("getfattr -d -m 'trusted|security' o o/in; lsattr -d o o/in; stat -c '%n %Y %a' o o/in").ok().stdout;
        let before = look();
        assert!(before.contains("trusted.foo=\"bar\"") && before.contains("security.sx=\"v\""), "{before}");
        w.sandbox_with(name, inside);
        w.apply(&[name]).ok();
        w.whatif(["undo", "--yes"]).go().ok();
        assert_eq!(look(), before, "{name}");
        // Once more, from what the undo made.
        w.apply(&[name]).ok();
        w.whatif(["undo", "--yes"]).go().ok();
        assert_eq!(look(), before, "{name}, again");
        w.whatif(["rm", name, "--yes"]).go().ok();
    }
}

/// The sandbox shows reality's files in a directory that it renamed, and what it shows of them is up to the project's file.
fn a_project_file_that_cannot_be_used_is_taken_back(w: &World) {
    let cases = [("modified", "echo oops >> .whatif.toml"), ("added", "echo oops > .whatif.toml")];
    for (name, inside) in cases {
        w.outside("rm -rf * .whatif.toml; mkdir d; echo x > d/x; echo y > d/y").ok();
        if name != "added" {
            w.outside(r#"printf '[policy]\ndeny = ["x"]\n' > .whatif.toml"#).ok();
        }
        let before = tree(w);
        w.sandbox_with(name, &format!("mv d e; {inside}"));
        w.apply(&[name, "--files", ".whatif.toml"]).ok();
        w.whatif(["diff", name]).go().exits(125).says(".whatif.toml");
        w.whatif(["undo", "--yes"]).go().ok();
        tree(w).assert_is(&before, name);
        assert_eq!(w.exec(name, "cat e/x e/y").ok().text(), "x\ny", "{name}");
        w.whatif(["rm", name, "--yes"]).go().ok();
    }
}

fn history_counts_what_an_undo_says_it_restored(w: &World) {
    w.outside("mkdir -p d/e; echo f > f; echo x > d/e/x").ok();
    w.sandbox_with("s", "chmod 700 d; chmod 600 f; echo y > d/e/y");
    w.apply(&["s"]).ok();
    let undone = w.json(["undo", "--yes"]);
    let restored = undone["restored"].as_array().expect("a list").len();
    let history = w.json(["history"]);
    assert_eq!((restored, &history[0]["files"], &history[1]["files"]), (3, &3.into(), &3.into()), "{history:#}");
}

fn undo_restores_every_detail(w: &World) {
    needs!(w, "setfattr");
    w.outside(
        "mkdir -p d/e; echo f > f; chmod 640 f; touch -d 2001-02-03T04:05:06.789 f; setfattr -n user.note -v old f; echo x > d/e/x; \
         chmod 700 d; ln -s a link; printf 'a\\0b' > binary; truncate -s 1M sparse; echo t > t; mkdir empty",
    )
    .ok();
    let before = tree(w);
    w.sandbox_with(
        "s",
        "echo F > f; chmod 755 f; setfattr -n user.note -v new f; rm -r d empty; ln -sfn b link; printf 'a\\0c' > binary; \
         echo x >> sparse; rm t; mkdir t; echo in > t/in; mkdir -p new/deep; echo n > new/deep/n",
    );
    w.apply(&["s", "--all"]).ok();
    assert_ne!(tree(w), before);
    w.whatif(["undo", "--yes"]).go().ok();
    tree(w).assert_is(&before, "undone");
}

fn undo_needs_no_sandbox(w: &World) {
    w.outside("echo f > f; echo gone > gone").ok();
    let before = tree(w);
    w.sandbox_with("s", "echo F > f; rm gone; echo new > new");
    w.apply(&["s"]).ok();
    w.whatif(["rm", "s"]).go().ok();
    w.whatif(["gc"]).go().ok();
    w.whatif(["undo", "--yes"]).go().ok();
    tree(w).assert_is(&before, "undone after the sandbox was thrown away");
}

fn an_apply_is_undone_by_its_id(w: &World) {
    w.outside("echo f > f").ok();
    w.sandbox_with("s", "echo F > f");
    let id = id_of(&w.json(["apply", "s", "--yes"]));
    w.whatif(["undo", "no-such-apply", "--yes"]).go().fails_with_hint(125);
    w.whatif(["undo", &id, "--yes"]).go().ok();
    assert_eq!(w.read("f"), "f\n");
}

fn an_earlier_apply_can_be_undone_if_nothing_depends_on_it(w: &World) {
    w.outside("echo f > f; echo g > g").ok();
    w.sandbox_with("s", "echo F > f; echo G > g");
    let first = id_of(&w.json(["apply", "s", "--files", "f", "--yes"]));
    w.json(["apply", "s", "--files", "g", "--yes"]);
    w.whatif(["undo", &first, "--yes"]).go().ok();
    assert_eq!((w.read("f"), w.read("g")), ("f\n".into(), "G\n".into()));
}

fn an_apply_cannot_be_undone_twice(w: &World) {
    w.outside("echo f > f").ok();
    w.sandbox_with("s", "echo F > f");
    let id = id_of(&w.json(["apply", "s", "--yes"]));
    w.whatif(["undo", &id, "--yes"]).go().ok();
    let again = w.whatif(["undo", &id, "--yes"]).go();
    assert!(again.code != 0 && !again.stderr.is_empty(), "{again:?}");
    assert_eq!(w.read("f"), "f\n");
}

fn an_undo_can_be_undone(w: &World) {
    w.outside("echo f > f; mkdir d; echo gone > d/gone").ok();
    w.sandbox_with("s", "echo F > f; rm -r d; echo new > new");
    w.apply(&["s"]).ok();
    let applied = tree(w);
    w.whatif(["undo", "--yes"]).go().ok();
    let undo = w.json(["history"])[0]["id"].as_str().expect("it is listed").to_owned();
    w.whatif(["undo", &undo, "--yes"]).go().ok();
    tree(w).assert_is(&applied, "the undo undone");
    assert_eq!(w.json(["history"]).as_array().map(Vec::len), Some(3), "each of them is listed");
}

fn a_dry_run_of_undo_writes_nothing(w: &World) {
    w.outside("echo f > f").ok();
    w.sandbox_with("s", "echo F > f; echo new > new");
    w.apply(&["s"]).ok();
    let applied = tree(w);
    let shown = w.whatif(["undo", "--dry-run"]).go().ok().stdout;
    assert!(shown.contains('f') && shown.contains("new"), "{shown}");
    tree(w).assert_is(&applied, "after a dry run");
    assert_eq!(w.json(["history"]).as_array().map(Vec::len), Some(1));
}

fn undo_without_a_terminal_needs_yes(w: &World) {
    w.outside("echo f > f").ok();
    w.sandbox_with("s", "echo F > f");
    let first = id_of(&w.json(["apply", "s", "--yes"]));
    w.exec("s", "echo g > g").ok();
    let last = id_of(&w.json(["apply", "s", "--yes"]));
    w.whatif(["undo", &first]).go().fails_with_hint(2).says(&format!("whatif undo {first} --yes"));
    w.whatif(["undo"]).go().fails_with_hint(2).says(&format!("whatif undo {last} --dry-run"));
    assert_eq!(w.read("f"), "F\n");
}

fn undo_on_a_terminal_asks(w: &World) {
    w.outside("echo f > f").ok();
    w.sandbox_with("s", "echo F > f");
    w.apply(&["s"]).ok();
    let mut terminal = Terminal::with_whatif(w, &["undo"]);
    terminal.expect("[y/N]");
    terminal.type_in("n\n");
    terminal.ends();
    assert_eq!(w.read("f"), "F\n");
    let mut terminal = Terminal::with_whatif(w, &["undo"]);
    terminal.expect("[y/N]");
    terminal.type_in("y\n");
    assert_eq!(terminal.ends(), 0);
    assert_eq!(w.read("f"), "f\n");
}

fn undo_refuses_with_the_list_of_what_changed_since(w: &World) {
    w.outside("echo f > f; echo g > g; echo h > h; echo gone > gone").ok();
    w.sandbox_with("s", "echo F > f; echo G > g; echo H > h; rm gone; mkdir d; echo x > d/x");
    let id = id_of(&w.json(["apply", "s", "--yes"]));
    w.outside("echo mine > f; rm g; echo mine > gone; echo mine > d/mine").ok();
    let edited = tree(w);
    let outcome = w.whatif(["undo", "--yes"]).go().exits(1).says(&format!("whatif undo {id} --skip PATH"));
    for path in ["f", "g", "gone", "d"] {
        let named = outcome.stderr.lines().any(|line| line.split([' ', ':', ',', '/']).any(|word| word == path));
        assert!(named, "{path} is not named:\n{}", outcome.stderr);
    }
    assert!(!outcome.stderr.lines().any(|line| line.trim() == "h"), "{}", outcome.stderr);
    tree(w).assert_is(&edited, "nothing at all is written");
}

fn a_directory_in_which_others_put_something_stays(w: &World) {
    w.sandbox_with("s", "mkdir -p pkg/sub empty; echo x > pkg/one; echo y > pkg/sub/two; echo z > z");
    w.apply(&["s"]).ok();
    w.outside("mkdir pkg/sub/__pycache__; echo cache > pkg/sub/__pycache__/one.pyc").ok();
    assert_eq!(w.json(["undo", "--dry-run"])["skipped"], serde_json::json!(["pkg", "pkg/sub"]));
    let undone = w.whatif(["undo", "--yes"]).go().ok().stderr;
    assert!(undone.contains("pkg/sub stays: it holds '__pycache__', put there since"), "{undone}");
    assert_eq!(
        w.outside("find . -mindepth 1 | sort").ok().text(),
        "./pkg\n./pkg/sub\n./pkg/sub/__pycache__\n./pkg/sub/__pycache__/one.pyc"
    );
    // The sandbox has all of it still.
    w.apply(&["s"]).ok();
    assert_eq!(w.outside("cat pkg/one pkg/sub/two z pkg/sub/__pycache__/one.pyc").ok().text(), "x\ny\nz\ncache");
    // Nothing else is to be undone here.
    w.sandbox_with("t", "mkdir only");
    w.apply(&["t"]).ok();
    w.outside("echo mine > only/mine").ok();
    w.whatif(["undo", "--yes"]).go().fails_with_hint(1).says("only holds 'mine', put there since");
}

fn undo_stays_in_its_project(w: &World) {
    let other = w.home.join("other");
    w.mkdir(&other);
    w.outside("echo f > f").ok();
    w.sandbox_with("s", "echo F > f");
    w.apply(&["s"]).ok();
    let elsewhere = w.whatif(["undo", "--yes"]).cwd(&other).go();
    assert_ne!(elsewhere.code, 0, "there is nothing to undo here");
    assert_eq!(w.read("f"), "F\n");
}

fn above_projects_they_are_named(w: &World) {
    let other = w.home.join("other");
    w.mkdir(&other);
    w.whatif(["run", "-q", "--keep", "--name", "o", "--", "sh", "-c", "echo o > o"]).cwd(&other).go().ok();
    w.sandbox_with("s", "echo f > f");
    w.apply(&["s"]).ok();
    w.apply(&["o"]).ok();
    let projects = [w.project.display().to_string(), other.display().to_string()];
    w.whatif(["undo", "--yes"]).cwd(&w.home).go().fails_with_hint(125).says(&projects[0]).says(&projects[1]);
    let history = w.whatif(["history"]).cwd(&w.home).go().ok().stdout;
    assert!(projects.iter().all(|project| history.contains(project)), "{history}");
    assert!(w.project.join("f").exists() && other.join("o").exists());
    // Where there is only one project, it need not be named.
    let here = w.whatif(["history"]).go().ok();
    assert!(!here.stdout.contains(&projects[0]), "{}", here.stdout);
}

fn what_wrote_nothing_has_no_id(w: &World) {
    w.outside("echo f > f").ok();
    w.sandbox_with("s", "echo sandbox > f");
    w.outside("echo reality > f").ok();
    let document = w.json(["apply", "s", "--yes", "--ours", "f"]);
    assert_eq!((&document["apply"]["id"], &document["apply"]["sandbox"]), (&Value::Null, &Value::from("s")), "{document}");
    assert_eq!(w.json(["history"]), Value::Array(Vec::new()));
}

fn history_lists_the_newest_first(w: &World) {
    w.outside("echo f > f; echo g > g").ok();
    w.sandbox_with("first", "echo F > f");
    w.sandbox_with("second", "echo G > g; echo new > new");
    let ids = ["first", "second"].map(|name| id_of(&w.json(["apply", name, "--yes"])));
    let history = w.json(["history"]);
    let listed = history.as_array().expect("a list");
    assert_eq!(listed.iter().map(|entry| entry["id"].as_str().unwrap_or_default()).collect::<Vec<_>>(), [&ids[1], &ids[0]]);
    assert!(listed[0].to_string().contains("second") && listed[1].to_string().contains("first"), "{history:#}");
    let shown = w.whatif(["history"]).go().ok().stdout;
    let at = |text: &str| shown.find(text).unwrap_or_else(|| panic!("{text} is not shown:\n{shown}"));
    assert!(at(&ids[1]) < at(&ids[0]), "{shown}");
}

fn history_is_empty_at_first(w: &World) {
    assert_eq!(w.json(["history"]), serde_json::json!([]));
    w.whatif(["history"]).go().ok();
    assert_ne!(w.whatif(["undo", "--yes"]).go().code, 0);
}

/// A job of cron and a container have no $USER.
fn history_knows_who_without_being_told(w: &World) {
    w.sandbox_with("s", "echo x > f");
    w.whatif(["apply", "s", "--yes"]).env("USER", "").go().ok();
    let passwd = w.outside("id -un").ok();
    assert_eq!(w.json(["history"])[0]["who"], passwd.text());
}

/// What the journal holds would be brought into the earlier version.
fn an_open_database_is_not_put_back(w: &World) {
    w.outside(r"printf 'SQLite format 3\0' > db; truncate -s 512 db").ok();
    w.sandbox_with("s", "printf x | dd of=db bs=1 seek=100 conv=notrunc status=none");
    w.apply(&["s"]).ok();
    w.outside("echo journal > db-wal").ok();
    w.whatif(["undo", "--yes"]).go().exits(1).says("close it first");
    w.outside("test $(tr -d '\\0' < db | wc -c) = 16").ok();
    w.outside("rm db-wal").ok();
    w.whatif(["undo", "--yes"]).go().ok();
}
