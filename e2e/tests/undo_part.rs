//! Taking back a part of an apply, and what keeps nobody from taking back the rest.

use serde_json::Value;
use whatif_e2e::{Detail, Tree, World, as_root_and_user, needs, schema};

as_root_and_user!(
    a_second_undo_takes_the_rest,
    a_part_of_an_undo_is_done_again,
    directories_come_and_go_with_what_is_chosen,
    attributes_of_a_directory_are_none_of_its_files,
    what_fits_nothing_is_a_mistake,
    what_is_left_is_said,
    logs_and_caches_do_not_block_an_undo,
    an_edited_file_still_does,
    long_lists_are_cut_short,
    a_sandbox_has_again_what_was_taken_back,
);

fn tree(w: &World) -> Tree {
    Tree::of(&w.project, Detail::Times)
}

fn apply(w: &World, sandbox: &str) -> String {
    let document = w.apply(&[sandbox, "--all", "--json"]).ok().json();
    document["apply"]["id"].as_str().unwrap_or_else(|| panic!("no id: {document}")).to_owned()
}

fn undo(w: &World, arguments: &[&str]) -> Value {
    let document = w.whatif(["undo", "--yes", "--json"]).args(arguments).go().ok().json();
    schema::expect("undo", &document);
    document
}

fn history(w: &World, id: &str) -> Value {
    let pages = w.json(["history"]);
    let found = pages.as_array().and_then(|pages| pages.iter().find(|page| page["id"] == id)).cloned();
    found.unwrap_or_else(|| panic!("{id} is not in {pages}"))
}

fn a_second_undo_takes_the_rest(w: &World) {
    w.outside("echo 1 > a; echo 1 > b; mkdir d; echo 1 > d/c; echo 1 > gone").ok();
    let before = tree(w);
    w.sandbox_with("s", "echo 2 > a; echo 2 > b; echo 2 > d/c; rm gone; mkdir -p n/m; echo 2 > n/m/x; echo 2 > n/y");
    let id = apply(w, "s");
    let first = undo(w, &["--files", "a", "d"]);
    assert_eq!((first["in_part"].as_bool(), first["restored"].to_string()), (Some(true), "[\"a\",\"d/c\"]".to_owned()), "{first}");
    assert_eq!(w.outside("cat a b d/c n/m/x; ls gone 2>/dev/null").stdout, "1\n2\n1\n2\n");
    assert_eq!(history(w, &id)["undone_in_part_by"][0], first["undo"]);
    let said = w.whatif(["history"]).go().ok().stdout;
    assert!(said.contains("undone in part by"), "{said}");
    // The latest apply is the same one, as long as there is something left of it.
    let second = undo(w, &["--files", "n/y"]);
    assert_eq!(second["apply"], first["apply"]);
    assert_eq!(w.outside("ls n").ok().text(), "m");
    let third = undo(w, &[]);
    assert_eq!((third["apply"] == first["apply"], third["in_part"].as_bool()), (true, Some(false)), "{third}");
    tree(w).assert_is(&before, "all three together");
    w.whatif(["undo", &id, "--yes"]).go().fails_with_hint(125).says("was undone already");
}

fn a_part_of_an_undo_is_done_again(w: &World) {
    w.outside("echo 1 > a; echo 1 > b").ok();
    let before = tree(w);
    w.sandbox_with("s", "echo 2 > a; echo 2 > b; echo 2 > c");
    let id = apply(w, "s");
    let applied = tree(w);
    let first = undo(w, &["--files", "a", "c"]);
    let undo_id = first["undo"].as_str().expect("it has an id").to_owned();
    let again = undo(w, &[&undo_id]);
    tree(w).assert_is(&applied, "done again");
    assert_eq!(w.json(["diff", "s"])["stats"]["files"], 0);
    // What was done again belongs to that, and the rest to the apply still.
    undo(w, &[&id]);
    assert_eq!(w.outside("cat a b c").ok().text(), "2\n1\n2");
    undo(w, &[again["undo"].as_str().expect("it has an id")]);
    tree(w).assert_is(&before, "nothing of it is left");
}

fn directories_come_and_go_with_what_is_chosen(w: &World) {
    w.outside("mkdir -p old/in; echo 1 > old/in/x; echo 1 > old/y").ok();
    let before = tree(w);
    w.sandbox_with("s", "rm -r old; mkdir -p new/in; echo 2 > new/in/x; echo 2 > new/y");
    apply(w, "s");
    undo(w, &["--files", "old/in/x", "new/in/x"]);
    assert_eq!(w.outside("find . -mindepth 1 | sort").ok().text(), "./new\n./new/y\n./old\n./old/in\n./old/in/x");
    undo(w, &[]);
    tree(w).assert_is(&before, "both parts");
}

fn attributes_of_a_directory_are_none_of_its_files(w: &World) {
    w.outside("mkdir d; chmod 755 d; echo 1 > d/x; echo 1 > d/y").ok();
    let before = tree(w);
    w.sandbox_with("s", "chmod 700 d; echo 2 > d/x; rm d/y");
    apply(w, "s");
    undo(w, &["--files", "d/x", "d/y"]);
    assert_eq!(w.outside("stat -c %a d; cat d/x d/y").ok().text(), "700\n1\n1");
    undo(w, &[]);
    tree(w).assert_is(&before, "the mode as well");
}

fn what_fits_nothing_is_a_mistake(w: &World) {
    w.sandbox_with("s", "echo 1 > a; echo 1 > b");
    apply(w, "s");
    w.whatif(["undo", "--files", "c", "--yes"]).go().fails_with_hint(2).says("changed nothing that fits 'c'");
    w.whatif(["undo", "--files", "a", "--skip", "a", "--yes"]).go().fails_with_hint(2);
    undo(w, &["--files", "a"]);
    w.whatif(["undo", "--files", "a", "--yes"]).go().fails_with_hint(2).says("changed nothing that fits 'a'");
    assert_eq!(w.outside("ls").ok().text(), "b");
}

fn what_is_left_is_said(w: &World) {
    w.sandbox_with("s", "echo 1 > a; echo 1 > b");
    let id = apply(w, "s");
    let first = w.whatif(["undo", "--files", "a", "--yes"]).go().ok();
    assert!(first.stdout.contains(&format!("apply {id} is undone in part")), "{}", first.stdout);
    let rest = w.whatif(["undo", &id, "--yes"]).go().ok();
    assert!(rest.stdout.contains(&format!("apply {id} is undone\n")), "{}", rest.stdout);
}

fn logs_and_caches_do_not_block_an_undo(w: &World) {
    needs!(w, "git");
    w.outside("git init -q .; printf 'build/\\n' > .gitignore; mkdir build; echo 1 > main; echo 1 > build/out; echo 0 > app.log")
        .ok();
    w.sandbox_with("s", "echo 2 > main; echo 2 > build/out; echo 1 >> app.log; mkdir __pycache__; echo 1 > __pycache__/m.pyc");
    apply(w, "s");
    w.outside("echo 3 > build/out; echo 2 >> app.log; echo 2 > __pycache__/m.pyc").ok();
    let planned = w.whatif(["undo", "--dry-run"]).go().ok();
    assert!(planned.stderr.contains("logs and caches that changed since: __pycache__/m.pyc was modified, app.log"), "{planned:?}");
    let document = undo(w, &[]);
    let named: Vec<&str> = document["gave_way"].as_array().into_iter().flatten().filter_map(|one| one["path"].as_str()).collect();
    assert_eq!(named, ["__pycache__/m.pyc", "app.log", "build/out"], "{document}");
    assert_eq!(w.outside("cat main build/out app.log __pycache__/m.pyc").ok().text(), "1\n3\n0\n1\n2\n2");
    let redone = document["undo"].as_str().expect("it has an id").to_owned();
    undo(w, &[&redone]);
    assert_eq!(w.outside("cat main build/out app.log").ok().text(), "2\n3\n0\n1\n2");
}

fn an_edited_file_still_does(w: &World) {
    needs!(w, "git");
    w.outside("git init -q .; echo '*.gen' > .gitignore; echo 1 > main; echo 1 > a.log; echo 1 > kept.gen; git add -f .").ok();
    w.sandbox_with("s", "echo 2 > main; echo 2 > a.log; echo 2 > kept.gen");
    apply(w, "s");
    let applied = w.outside("echo more >> main; cat main a.log").ok().stdout;
    w.whatif(["undo", "--yes"]).go().fails_with_hint(1).says("main was modified");
    // A log that was not appended to was edited, and what git follows is no build output.
    w.outside("echo 2 > main; echo other > a.log").ok();
    w.whatif(["undo", "--yes"]).go().fails_with_hint(1).says("a.log was modified");
    w.outside("echo 2 > a.log; echo 3 > kept.gen").ok();
    w.whatif(["undo", "--yes"]).go().fails_with_hint(1).says("kept.gen was modified");
    assert_eq!(applied, "2\nmore\n2\n");
    // By its name it is wanted.
    w.outside("echo 2 > kept.gen; echo 3 >> a.log").ok();
    w.whatif(["undo", "--files", "a.log", "--yes"]).go().fails_with_hint(1).says("a.log was modified");
    undo(w, &[]);
    assert_eq!(w.outside("cat main a.log").ok().text(), "1\n2\n3");
}

fn long_lists_are_cut_short(w: &World) {
    w.sandbox_with("s", "for n in $(seq 1200); do echo > f$n; done");
    apply(w, "s");
    let short = w.whatif(["undo", "--dry-run"]).go().ok().stdout;
    assert!(short.lines().count() < 60 && short.contains("… and 1,150 more: --all lists them"), "{short}");
    assert_eq!(w.whatif(["undo", "--dry-run", "--all"]).go().ok().stdout.lines().count(), 1201);
}

fn a_sandbox_has_again_what_was_taken_back(w: &World) {
    w.outside("echo 1 > a; echo 1 > b").ok();
    w.sandbox_with("s", "echo 2 > a; echo 2 > b; echo 2 > c");
    apply(w, "s");
    let changed = || w.whatif(["diff", "s", "--name-only"]).go().ok().stdout;
    undo(w, &["--files", "a"]);
    assert_eq!(changed(), "a\n");
    undo(w, &["--files", "c"]);
    assert_eq!(changed(), "a\nc\n");
    undo(w, &[]);
    assert_eq!(changed(), "a\nb\nc\n");
    w.apply(&["s"]).ok();
    assert_eq!(w.outside("cat a b c").ok().text(), "2\n2\n2");
}
