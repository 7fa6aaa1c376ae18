//! What was exposed to one sandbox is hidden again from what is made of it, unless it is exposed again (XF-06). What was masked
//! stays so.

use whatif_e2e::{World, as_root_and_user};

as_root_and_user!(what_was_exposed_is_hidden_again, what_is_hidden_again_is_no_change, what_was_masked_stays_masked);

const LOOK: &str = "cat secret ~/.ssh/id_ed25519 2> /dev/null; echo; cat f";

/// Those that work here.
fn backends(w: &World) -> Vec<&'static str> {
    let has_fuse = w.has("fuse-overlayfs") && w.outside("exec 3<>/dev/fuse").code == 0;
    if has_fuse { vec!["overlay", "fuse", "copy"] } else { vec!["overlay", "copy"] }
}

/// A sandbox that has written to what was exposed to it, so that its layers hold it.
fn expose(w: &World, name: &str, backend: &str) -> String {
    let secret = w.write("secret", "very-secret\n").display().to_string();
    w.write(w.home.join(".ssh/id_ed25519"), "very-secret\n");
    let config = format!("[files]\nmask = [\"{secret}\"]\n[layers]\nbackend = \"{backend}\"\n");
    w.configure(config);
    w.whatif(["new", name, "--expose", &secret, "--expose", "~/.ssh"]).go().ok();
    let script = "set -e; echo mine > f; echo more >> secret; echo more >> ~/.ssh/id_ed25519 || true";
    w.exec(name, script).ok();
    assert!(w.exec(name, LOOK).ok().stdout.contains("very-secret"));
    secret
}

fn what_was_exposed_is_hidden_again(w: &World) {
    for backend in backends(w) {
        let secret = expose(w, "s", backend);
        w.whatif(["snapshot", "s", "one"]).go().ok();
        w.whatif(["fork", "s", "fork"]).go().ok();
        w.whatif(["fork", "fork", "fork-of-fork"]).go().ok();
        w.whatif(["fork", "s@one", "of-snapshot"]).go().ok();
        w.whatif(["template", "save", "s", "template", "--replace"]).go().ok();
        w.whatif(["new", "of-template", "--template", "template"]).go().ok();
        w.whatif(["template", "save", "fork", "of-a-fork", "--replace"]).go().ok();
        w.whatif(["new", "of-its-template", "--template", "of-a-fork"]).go().ok();
        w.whatif(["export", "s", "-o", "../s.whatif"]).go().ok();
        w.whatif(["import", "../s.whatif", "--name", "import"]).go().ok();
        w.whatif(["fork", "import", "fork-of-import"]).go().ok();
        let made = ["fork", "fork-of-fork", "of-snapshot", "of-template", "of-its-template", "import", "fork-of-import"];
        for name in made {
            assert_eq!(w.exec(name, LOOK).ok().stdout, "\nmine\n", "{backend}: {name}");
        }
        w.whatif(["stop", "import"]).go().ok();
        w.whatif(["start", "import"]).go().ok();
        assert_eq!(w.exec("import", LOOK).ok().stdout, "\nmine\n", "{backend}: started again");
        // What it puts there itself stays.
        w.exec("fork", "echo own > secret").ok();
        w.whatif(["snapshot", "fork"]).go().ok();
        w.whatif(["stop", "fork"]).go().ok();
        w.whatif(["start", "fork"]).go().ok();
        assert_eq!(w.exec("fork", LOOK).ok().stdout, "own\n\nmine\n", "{backend}");
        w.whatif(["fork", "s", "again", "--expose", &secret]).go().ok();
        assert_eq!(w.exec("again", LOOK).ok().stdout, "very-secret\nmore\n\nmine\n", "{backend}");
        assert!(w.exec("s", LOOK).ok().stdout.starts_with("very-secret\nmore\n"), "{backend}: the source keeps it");
        w.whatif(["rm", "--all", "--yes"]).go().ok();
        w.outside("rm ../s.whatif").ok();
    }
}

fn what_is_hidden_again_is_no_change(w: &World) {
    for backend in backends(w) {
        expose(w, "s", backend);
        w.whatif(["fork", "s", "fork"]).go().ok();
        w.exec("fork", "echo 2 > g").ok();
        let diff = w.whatif(["diff", "fork"]).go().ok().stdout;
        assert!(!diff.contains("secret") && !diff.contains(".ssh"), "{backend}: {diff}");
        w.whatif(["apply", "fork", "--all", "--yes"]).go().ok();
        assert_eq!(w.outside("cat secret ~/.ssh/id_ed25519 f g").ok().stdout, "very-secret\nvery-secret\nmine\n2\n", "{backend}");
        w.whatif(["undo", "--yes"]).go().ok();
        w.whatif(["rm", "--all", "--yes"]).go().ok();
    }
}

fn what_was_masked_stays_masked(w: &World) {
    w.write("secret", "very-secret\n");
    w.write("f", "real\n");
    w.whatif(["new", "s", "--mask", "secret"]).go().ok();
    w.whatif(["template", "save", "s", "template"]).go().ok();
    w.whatif(["fork", "s", "fork"]).go().ok();
    w.whatif(["new", "of-template", "--template", "template"]).go().ok();
    w.whatif(["template", "save", "of-template", "second"]).go().ok();
    w.whatif(["new", "of-second", "--template", "second"]).go().ok();
    w.whatif(["export", "s", "-o", "../s.whatif"]).go().ok();
    let imported = w.whatif(["import", "../s.whatif", "--name", "import"]).go().ok();
    assert!(!imported.stderr.contains("secret"), "{}", imported.stderr);
    w.whatif(["export", "--template", "template", "-o", "../t.whatif"]).go().ok();
    w.whatif(["import", "../t.whatif", "--template", "imported"]).go().ok();
    w.whatif(["new", "of-imported", "--template", "imported"]).go().ok();
    for name in ["s", "fork", "of-template", "of-second", "import", "of-imported"] {
        assert_eq!(w.exec(name, "cat secret 2> /dev/null; cat f").ok().stdout, "real\n", "{name}");
    }
    let secret = w.project.join("secret").display().to_string();
    w.whatif(["new", "shown", "--template", "template", "--expose", &secret]).go().ok();
    w.whatif(["fork", "s", "shown-fork", "--expose", &secret]).go().ok();
    // It was left out of a copy, and what is made of that cannot have it.
    let shown = if w.backend() == "copy" { "" } else { "very-secret\n" };
    for name in ["shown", "shown-fork"] {
        assert_eq!(w.exec(name, "cat secret").stdout, shown, "{name}");
    }
}
