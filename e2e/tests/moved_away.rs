//! What a sandbox moves to where an apply leaves it out stays in reality, too: with the deletion alone, only the sandbox would have
//! it. Copies of what was deleted are no moves, and a deletion that is named is wanted.

use serde_json::{Value, json};
use whatif_e2e::{Terminal, World, as_root_and_user, needs};

as_root_and_user!(
    what_was_moved_out_of_sight_stays,
    what_was_moved_out_of_sight_stays_over_fuse,
    what_was_moved_out_of_sight_stays_over_a_copy,
    what_was_moved_to_a_path_that_is_refused_stays,
    a_wildcard_does_not_take_one_end_of_a_move,
    a_review_does_not_take_one_end_of_a_move,
    a_deletion_that_is_named_is_taken,
    a_copy_of_what_was_deleted_is_no_move,
);

fn what_was_moved_out_of_sight_stays(w: &World) {
    nothing_goes(w, "overlay");
}

fn what_was_moved_out_of_sight_stays_over_fuse(w: &World) {
    needs!(w, "fuse-overlayfs");
    // Not everybody may have file systems of their own; `backends` tests what is said then.
    if w.outside("exec 3<>/dev/fuse").code == 0 {
        nothing_goes(w, "fuse");
    }
}

fn what_was_moved_out_of_sight_stays_over_a_copy(w: &World) {
    nothing_goes(w, "copy");
}

/// What the project has, with the content of each file.
fn content(w: &World) -> String {
    w.outside("for f in $(find . -type f | sort); do echo == $f; cat $f; done; readlink l").ok().text().to_owned()
}

fn left_out<'a>(document: &'a Value, path: &str) -> &'a Value {
    let all = document["left_out"].as_array().unwrap_or_else(|| panic!("nothing about what is left out: {document}"));
    all.iter().find(|l| l["path"] == path).unwrap_or(&Value::Null)
}

fn nothing_goes(w: &World, backend: &str) {
    let outside = w.home.join("elsewhere");
    w.mkdir(&outside);
    w.outside("printf 'build/\\n*.log\\n' > .gitignore; mkdir d e; for f in ignored named outside linked d/x d/y e/z other; do echo $f > $f; done")
        .ok();
    w.outside("ln -s nowhere l").ok();
    let before = content(w);
    w.whatif(["new", "s", "--backend", backend]).go().ok();
    let to = if backend == "copy" { "build" } else { "$HOME/elsewhere" };
    let moves = format!(
        "mkdir build; mv ignored build/; mv named named.log; mv outside {to}/; mv l build/; mv d build/d; \
         mv linked build/; ln -s build/linked linked; mv e build/e; ln -s build/e e; echo more >> other"
    );
    w.exec("s", &moves).ok();
    let shown = w.whatif(["diff", "s"]).go().ok().stdout;
    for place in ["build/ignored", "named.log", "build/d/x"] {
        assert!(shown.contains(&format!("moved to {place}\n")), "{shown}");
    }
    let changes = w.json(["diff", "s"]);
    let ignored = changes["changes"].as_array().and_then(|all| all.iter().find(|c| c["path"] == "ignored"));
    assert_eq!(ignored.map(|c| &c["moved_to"]), Some(&json!("build/ignored")), "{changes}");
    let plan = w.json(["apply", "s", "--dry-run"]);
    for (old, new) in
        [("ignored", "build/ignored"), ("named", "named.log"), ("d/x", "build/d/x"), ("linked", "build/linked"), ("l", "build/l")]
    {
        assert_eq!(left_out(&plan, old), &json!({ "path": old, "reason": "moved", "moved_to": new }), "{plan}");
    }
    assert_eq!(left_out(&plan, "outside")["reason"], "moved", "{plan}");
    w.apply(&["s"]).ok().says("moved to a path that is left out").says("d/x → build/d/x").says("--files");
    assert_eq!(content(w), before.replace("./other\nother\n", "./other\nother\nmore\n"));
    // Both ends together are a move like any other.
    w.apply(&["s", "--ignored", "--outside"]).ok();
    let moved = "cat build/ignored named.log build/d/x build/d/y linked e/z; readlink build/l; ls";
    assert_eq!(w.outside(moved).ok().text(), "ignored\nnamed\nd/x\nd/y\nlinked\ne/z\nnowhere\nbuild\ne\nlinked\nnamed.log\nother");
    assert!(w.outside(&format!("cat {to}/outside")).ok().text() == "outside");
    assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().text(), "");
}

/// By an option, a policy, or because of a link above it that is.
fn what_was_moved_to_a_path_that_is_refused_stays(w: &World) {
    let ways = [
        ("skipped", "mv a new", "--skip=new"),
        ("skipped-and-edited", "mv a new; echo more >> new", "--skip=new"),
        ("excluded", "mv a new", "--exclude=new"),
        ("over-another", "mv -f a b", "--skip=b"),
        ("denied", "mv a denied", "--all"),
        ("risky", "mkdir .git/hooks; mv a .git/hooks/pre-commit", "--ignored"),
        ("all-but-outside", "mv a ~/a", "--all"),
        ("by-a-wildcard", "mv a ~/a", "--files=*"),
        ("the-project", "mv a ~/a", "--files=."),
    ];
    for (name, inside, option) in ways {
        w.outside("rm -rf * .git; mkdir .git; seq 20 > a; echo b > b; echo other > other").ok();
        w.outside(r#"printf '[policy]\ndeny = ["denied"]\n' > .whatif.toml"#).ok();
        w.sandbox_with(name, &format!("{inside}; echo more >> other"));
        w.apply(&[name, option]).ok().says("moved to a path that is left out");
        assert_eq!(
            w.outside("cat a b other").ok().text(),
            w.outside("seq 20; echo b; echo other; echo more").ok().text(),
            "{name}"
        );
        w.whatif(["rm", name, "--yes"]).go().ok();
    }
}

/// What a pattern fits is asked for, but nobody has named the only copy of a file to be deleted.
fn a_wildcard_does_not_take_one_end_of_a_move(w: &World) {
    let ways = [
        ("file", "mv d/b bb", "d/b → bb"),
        ("over-another", "mv d/b other", "d/b → other"),
        ("directory", "mv d e", "d/b → e/b"),
        ("within-another", "mkdir e; mv d e/f", "d/b → e/f/b"),
    ];
    for backend in ["overlay", "copy"] {
        for (case, inside, moved) in ways {
            let name = format!("{case}-{backend}");
            w.outside("rm -rf *; mkdir -p d/in; seq 20 > d/b; echo x > d/in/x; echo other > other; echo d > d2").ok();
            let before = w.outside("cat d/b d/in/x other").ok();
            w.whatif(["new", &name, "--backend", backend]).go().ok();
            w.exec(&name, &format!("{inside}; echo more >> d2")).ok();
            w.apply(&[&name, "--files", "d*"]).ok().says("moved to a path that is left out").says(moved);
            assert_eq!(w.outside("cat d/b d/in/x other").ok().text(), before.text(), "{name}");
            assert_eq!(w.read("d2"), "d\nmore\n", "{name}: the rest of what was asked for is taken");
            // Both ends together are a move like any other, and the old one alone goes where it is named.
            w.apply(&[&name, "--files", "d/b"]).ok();
            assert!(!w.project.join("d/b").exists(), "{name}");
            w.apply(&[&name]).ok();
            assert_eq!(w.whatif(["diff", &name, "--name-only"]).go().ok().text(), "", "{name}");
            w.whatif(["rm", &name, "--yes"]).go().ok();
        }
    }
}

fn a_review_does_not_take_one_end_of_a_move(w: &World) {
    w.outside("echo build/ > .gitignore; seq 20 > a; echo other > other").ok();
    w.sandbox_with("s", "mkdir build; mv a build/a; echo more >> other");
    let mut terminal = Terminal::with_whatif(w, &["review", "s"]);
    terminal.expect("moved to build/a");
    terminal.type_in("aaq");
    terminal.expect("2 accepted, 0 rejected");
    assert_eq!(terminal.ends(), 0);
    let applied = w.json(["apply", "s", "--yes"]);
    assert_eq!(left_out(&applied, "a")["reason"], "moved", "{applied}");
    assert_eq!(w.outside("cat a other").ok().text(), w.outside("seq 20; echo other; echo more").ok().text());
}

fn a_deletion_that_is_named_is_taken(w: &World) {
    for (name, files) in [("file", "--files=d/a"), ("directory", "--files=d")] {
        w.outside("rm -rf *; echo build/ > .gitignore; mkdir d; echo a > d/a").ok();
        w.sandbox_with(name, "mkdir build; mv d/a build/a");
        w.apply(&[name, files]).ok();
        assert_eq!(w.outside("find . -type f").ok().text(), "./.gitignore", "{name}");
    }
}

fn a_copy_of_what_was_deleted_is_no_move(w: &World) {
    w.outside("echo build/ > .gitignore; echo source > source; touch empty; echo kept > kept").ok();
    w.sandbox_with("s", "mkdir build; cp source build/; rm source; mv empty build/; mv kept new; cp -p new build/kept");
    w.apply(&["s"]).ok();
    assert_eq!(w.outside("find . -type f | sort").ok().text(), "./.gitignore\n./new");
}
