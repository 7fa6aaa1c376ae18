//! Templates: a prepared start is what the sandbox was, for every sandbox made from it, however long that one is gone.

use serde_json::json;
use whatif_e2e::{World, as_root_and_user, assert_same, eventually};

as_root_and_user!(
    a_template_is_a_start,
    a_template_outlives_its_sandbox,
    a_template_can_be_replaced_and_removed,
    a_lockfile_that_moved_is_told,
    what_a_template_changed_can_be_applied,
    a_template_of_a_busy_sandbox_is_whole,
    a_template_follows_reality_otherwise,
    a_template_is_told_as_such_where_room_is_counted,
);

fn a_template_is_a_start(w: &World) {
    w.outside("echo reality > f; echo kept > kept").ok();
    w.new_sandbox("s");
    w.exec("s", "mkdir -p deps; echo dep > deps/one; echo prepared > f").ok();
    let prepared = w.listing("s");
    w.json(["template", "save", "s", "deps", "-m", "all installed"]);
    let layers = w.frozen();
    w.exec("s", "rm -r deps; echo later > f").ok();
    w.json(["new", "a", "--template", "deps"]);
    w.listing("a").assert_is(&prepared, "new");
    let ran = w
        .whatif(["run", "--rm", "--quiet", "--template", "deps", "--", "/bin/sh", "-c", "cat deps/one f; echo x > deps/one"])
        .go()
        .ok();
    assert_eq!(ran.stdout, "dep\nprepared\n");
    w.exec("a", "echo a > deps/one").ok();
    w.json(["new", "b", "--template", "deps"]);
    w.listing("b").assert_is(&prepared, "another");
    assert_same(&layers, &w.frozen());
    w.snapshot("a", "own");
    assert_eq!(w.exec("a", "cat deps/one").ok().text(), "a");
    let listed = w.json(["template", "ls"]);
    assert_eq!((&listed[0]["name"], &listed[0]["message"]), (&json!("deps"), &json!("all installed")), "{listed}");
    assert_eq!(w.read("f"), "reality\n");
}

fn a_template_outlives_its_sandbox(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo dep > dep").ok();
    w.json(["template", "save", "s", "deps"]);
    w.whatif(["rm", "s"]).go().ok();
    w.whatif(["gc"]).go().ok();
    w.json(["new", "a", "--template", "deps"]);
    assert_eq!(w.exec("a", "cat dep").ok().text(), "dep");
    w.whatif(["template", "rm", "deps"]).go().ok();
    w.whatif(["gc"]).go().ok();
    assert_eq!(w.exec("a", "cat dep").ok().text(), "dep", "sandboxes made from it stay");
    w.whatif(["stop", "a"]).go().ok();
    w.whatif(["start", "a"]).go().ok();
    assert_eq!(w.exec("a", "cat dep").ok().text(), "dep");
    w.whatif(["rm", "a"]).go().ok();
    w.whatif(["gc"]).go().ok();
    eventually("no layer is left", || std::fs::read_dir(w.layers()).map_or(0, Iterator::count) == 0);
}

fn a_template_can_be_replaced_and_removed(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo one > f").ok();
    w.json(["template", "save", "s", "t", "-m", "what it is about"]);
    w.json(["new", "a", "--template", "t"]);
    w.exec("s", "echo two > f").ok();
    w.whatif(["template", "save", "s", "t"]).go().fails_with_hint(125);
    let replaced = w.json(["template", "save", "s", "t", "--replace"]);
    assert_eq!(replaced["message"], "what it is about", "nobody said anything else: {replaced}");
    w.json(["new", "b", "--template", "t"]);
    assert_eq!((w.exec("a", "cat f").ok().text(), w.exec("b", "cat f").ok().text()), ("one", "two"));
    w.whatif(["template", "rm", "t"]).go().ok();
    w.whatif(["new", "c", "--template", "t"]).go().fails_with_hint(125);
    assert_eq!(w.json(["template", "ls"]), json!([]));
}

fn a_lockfile_that_moved_is_told(w: &World) {
    w.write("package-lock.json", "{\"version\": 1}");
    w.write("part/Cargo.lock", "# one");
    w.new_sandbox("s");
    w.exec("s", "mkdir node_modules; echo dep > node_modules/dep").ok();
    w.json(["template", "save", "s", "t"]);
    assert_eq!(w.json(["template", "ls"])[0]["moved"], json!([]));
    let quiet = w.whatif(["new", "a", "--template", "t"]).go().ok();
    assert!(!quiet.stderr.contains("package-lock.json"), "{}", quiet.stderr);
    w.write("package-lock.json", "{\"version\": 2}");
    w.outside("rm part/Cargo.lock").ok();
    assert_eq!(w.json(["template", "ls"])[0]["moved"], json!(["package-lock.json", "part/Cargo.lock"]));
    w.whatif(["new", "b", "--template", "t"]).go().ok().says("package-lock.json");
}

fn what_a_template_changed_can_be_applied(w: &World) {
    w.outside("seq 20 > f").ok();
    w.new_sandbox("s");
    w.exec("s", "sed -i s/^2$/two/ f; echo dep > dep").ok();
    w.json(["template", "save", "s", "t"]);
    w.json(["new", "a", "--template", "t"]);
    w.exec("a", "sed -i s/^19$/nineteen/ f").ok();
    w.outside("sed -i s/^10$/ten/ f").ok();
    w.apply(&["a", "--all"]).ok();
    let f = w.read("f");
    assert!(["two", "ten", "nineteen"].iter().all(|word| f.contains(word)), "{f}");
    assert_eq!(w.read("dep"), "dep\n");
}

fn a_template_of_a_busy_sandbox_is_whole(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo dep > dep").ok();
    w.whatif(["exec", "s", "-d", "--", "sleep", "1000"]).go().ok();
    w.json(["template", "save", "s", "t"]);
    assert!(w.whatif(["ps", "s"]).go().ok().stdout.contains("sleep 1000"));
    w.exec("s", "echo later > dep").ok();
    w.json(["new", "a", "--template", "t"]);
    assert_eq!(w.exec("a", "cat dep; ls").ok().stdout, "dep\ndep\n");
    let refused = w.whatif(["--json", "template", "save", "s", "u", "--live", "refuse"]).go().exits(125);
    assert!(refused.stderr.contains("in_use"), "{}", refused.stderr);
}

/// Only what was changed is prepared; the rest is reality as it is when the sandbox is made.
fn a_template_follows_reality_otherwise(w: &World) {
    w.outside("echo old > f; echo old > g").ok();
    w.new_sandbox("s");
    w.exec("s", "echo prepared > f").ok();
    w.json(["template", "save", "s", "t"]);
    w.outside("echo new > g; echo later > later").ok();
    w.write(w.home.join(".ssh/id_ed25519"), "secret");
    w.json(["new", "a", "--template", "t"]);
    assert_eq!(w.exec("a", "cat f g later; cat ~/.ssh/id_ed25519 2>/dev/null").stdout, "prepared\nnew\nlater\n");
}

fn a_template_is_told_as_such_where_room_is_counted(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo dep > dep").ok();
    w.json(["template", "save", "s", "deps"]);
    w.whatif(["rm", "s"]).go().ok();
    let told = w.whatif(["gc", "--dry-run"]).go().ok().stdout;
    assert!(told.contains("removing deps (template) would free "), "{told}");
    let needing = told.lines().filter(|line| line.ends_with("  deps (template)")).count();
    assert_eq!(needing, 1, "{told}");
}
