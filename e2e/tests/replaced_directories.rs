//! Reality puts something into a directory that the sandbox has replaced. An older layer says so, and the head does not: what lies
//! in that directory was never seen, whatever the sandbox does there since.

use whatif_e2e::{World, as_root_and_user};

as_root_and_user!(
    what_reality_puts_into_a_directory_replaced_before_a_snapshot_is_not_lost,
    what_reality_puts_into_a_directory_replaced_before_a_fork_is_not_lost,
    what_reality_puts_into_a_directory_is_not_deleted_with_the_one_that_replaced_it,
    what_reality_puts_into_a_directory_renamed_over_is_not_lost,
    a_directory_with_ignored_files_can_be_replaced,
    what_was_deleted_with_a_directory_is_deleted_also_if_reality_made_it_again,
    what_reality_made_otherwise_of_a_replaced_directory_is_a_conflict,
    directories_that_both_sides_made_are_no_deletions,
    in_a_directory_that_reality_made_of_an_unchanged_file_nothing_is_deleted,
    what_was_never_seen_is_not_deleted_and_the_hint_says_so,
    the_version_over_an_empty_directory_is_proposed_and_can_be_chosen,
    a_directory_that_was_only_on_the_way_is_not_put_in_the_place_of_what_reality_has,
    a_directory_on_the_way_is_known_without_a_record,
    what_the_sandbox_did_to_a_directory_that_reality_replaced_is_a_conflict,
);

fn what_reality_puts_into_a_directory_replaced_before_a_snapshot_is_not_lost(w: &World) {
    w.outside("mkdir d; echo old > d/old").ok();
    w.new_sandbox("s");
    w.exec("s", "mv d aside && cp -a aside d && rm -rf aside").ok();
    w.whatif(["snapshot", "s", "one"]).go().ok();
    meets_theirs(w, "s", "echo mine > d/both");
}

fn what_reality_puts_into_a_directory_replaced_before_a_fork_is_not_lost(w: &World) {
    w.outside("mkdir d; echo old > d/old").ok();
    w.new_sandbox("s");
    w.exec("s", "rm -rf d && mkdir d && echo new > d/new").ok();
    w.whatif(["fork", "s", "f"]).go().ok();
    meets_theirs(w, "f", "echo mine > d/both");
}

fn what_reality_puts_into_a_directory_is_not_deleted_with_the_one_that_replaced_it(w: &World) {
    w.outside("mkdir d; echo old > d/old").ok();
    w.new_sandbox("s");
    w.exec("s", "rm -rf d && mkdir d && echo new > d/new").ok();
    w.whatif(["snapshot", "s", "one"]).go().ok();
    meets_theirs(w, "s", "rm -rf d");
}

fn what_reality_puts_into_a_directory_renamed_over_is_not_lost(w: &World) {
    w.outside("mkdir d aside; echo old > d/old; echo other > aside/other").ok();
    w.new_sandbox("s");
    w.exec("s", "rm -rf d && mv aside d").ok();
    w.whatif(["snapshot", "s", "one"]).go().ok();
    meets_theirs(w, "s", "echo mine > d/both");
}

/// Reality makes `d/both`, which the sandbox cannot see; what it does then is a conflict.
fn meets_theirs(w: &World, name: &str, inside: &str) {
    w.outside("echo theirs > d/both").ok();
    w.whatif(["stop", name]).go().ok();
    w.whatif(["start", name]).go().ok();
    w.exec(name, inside).ok();
    w.whatif(["apply", name, "--all", "--yes"]).go().exits(1);
    assert_eq!(w.read("d/both"), "theirs\n");
}

/// The deletion of an ignored file is not asked for, and keeps the directory. The sandbox's version of the directory has no such file.
fn a_directory_with_ignored_files_can_be_replaced(w: &World) {
    for (name, inside) in [("file", "echo file > d"), ("link", "ln -s a d")] {
        w.outside("rm -rf *; echo '*.log' > .gitignore; echo a > a; mkdir -p d/e; echo x > d/x; echo y > d/e/y.log").ok();
        w.sandbox_with(name, &format!("rm -r d; {inside}"));
        w.apply(&[name]).exits(1).says("d: ");
        assert_eq!(w.read("d/e/y.log"), "y\n");
        w.apply(&[name, "--theirs=d"]).ok();
        w.outside("[ -f d ]").ok();
        w.whatif(["undo", "--yes"]).go().ok();
        assert_eq!((w.read("d/x"), w.read("d/e/y.log")), ("x\n".into(), "y\n".into()));
    }
}

/// As a `git switch` there and back does, and an apply of another sandbox with its undo.
fn what_was_deleted_with_a_directory_is_deleted_also_if_reality_made_it_again(w: &World) {
    w.outside("mkdir -p d/e; echo 1 > d/e/1; echo 2 > d/2").ok();
    for (name, inside) in [("replaced", "rm -r d; mkdir d; echo n > d/n"), ("deleted", "rm -r d"), ("renamed", "mv d n")] {
        w.sandbox_with(name, inside);
        let changes = w.whatif(["diff", "--name-only", name]).go().ok().stdout;
        w.outside("cp -r d new; rm -r d; sleep 0.02; cp -r new d; rm -r new").ok();
        assert_eq!(w.whatif(["diff", "--name-only", name]).go().ok().stdout, changes);
        w.apply(&[name]).ok();
        w.outside("[ ! -e d/e ] && [ ! -e d/2 ]").ok();
        w.whatif(["undo", "--yes"]).go().ok();
        assert_eq!((w.read("d/e/1"), w.read("d/2")), ("1\n".into(), "2\n".into()));
    }
}

fn what_reality_made_otherwise_of_a_replaced_directory_is_a_conflict(w: &World) {
    w.outside("mkdir -p d/e; echo 1 > d/e/old; echo 1 > d/same").ok();
    w.sandbox_with("s", "rm -r d; mkdir -p d/e; echo 2 > d/e/new; echo 2 > d/same");
    w.outside("rm -r d; mkdir -p d/e; echo theirs > d/e/old; echo theirs > d/e/mine; echo 1 > d/same").ok();
    w.apply(&["s"]).exits(1).says("d/e/old").says("d/e/mine");
    assert_eq!((w.read("d/e/old"), w.read("d/same")), ("theirs\n".into(), "1\n".into()));
}

fn directories_that_both_sides_made_are_no_deletions(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "mkdir d; echo mine > d/mine").ok();
    w.outside("mkdir d; echo theirs > d/theirs").ok();
    w.apply(&["s"]).ok();
    w.outside("echo more > d/more").ok();
    w.whatif(["diff", "s", "--exit-code"]).go().ok();
    assert_eq!((w.read("d/mine"), w.read("d/theirs")), ("mine\n".into(), "theirs\n".into()));
}

fn in_a_directory_that_reality_made_of_an_unchanged_file_nothing_is_deleted(w: &World) {
    for backend in ["overlay", "copy"] {
        w.outside("rm -rf *; echo old > h; echo x > lib").ok();
        w.whatif(["new", backend, "--backend", backend]).go().ok();
        // Over a copy, what nobody touched is the sandbox's own file, too.
        let touch = if backend == "overlay" { "touch h;" } else { "" };
        w.exec(backend, &format!("{touch} echo y >> lib")).ok();
        w.whatif(["diff", backend]).go().ok();
        w.outside("rm h; mkdir h; echo real > h/in").ok();
        assert_eq!(w.whatif(["diff", backend, "--name-only"]).go().ok().text(), "lib", "{backend}");
        w.apply(&[backend, "--all", "--theirs", "*"]).ok();
        assert_eq!(w.outside("ls h; cat h/in lib").ok().text(), "in\nreal\nx\ny", "{backend}");
        // The sandbox has nothing of its own there.
        w.whatif(["rebase", backend]).go().ok();
        assert_eq!(w.exec(backend, "cat h/in").ok().text(), "real", "{backend}");
        assert_eq!(w.whatif(["diff", backend, "--name-only"]).go().ok().text(), "", "{backend}");
    }
}

fn what_was_never_seen_is_not_deleted_and_the_hint_says_so(w: &World) {
    for backend in ["overlay", "copy"] {
        w.outside("rm -rf *; echo x > lib").ok();
        w.whatif(["new", backend, "--backend", backend]).go().ok();
        w.exec(backend, "echo mine > p").ok();
        w.outside("mkdir p; echo real > p/in").ok();
        for theirs in [&[][..], &["--theirs", "p"]] {
            let refused = w.apply(&[&[backend, "--all"], theirs].concat()).exits(1).says("Move away what is in the directory");
            assert!(!format!("{refused:?}").contains("--theirs PATH"), "{backend}: {refused:?}");
        }
        assert_eq!(w.read("p/in"), "real\n", "{backend}");
        w.outside("mv p/in in").ok();
        w.apply(&[backend, "--all", "--theirs", "p"]).ok();
        assert_eq!(w.outside("cat in p").ok().text(), "real\nmine", "{backend}");
    }
}

fn the_version_over_an_empty_directory_is_proposed_and_can_be_chosen(w: &World) {
    w.outside("echo x > lib").ok();
    w.new_sandbox("s");
    w.exec("s", "echo mine > p; ln -s lib q").ok();
    w.outside("mkdir p; mkdir -p q/deep").ok();
    w.apply(&["s", "--all"]).exits(1).says("p: both added it").says("--theirs PATH").says("q: reality has a directory there");
    w.apply(&["s", "--all", "--theirs", "p", "--skip", "q"]).ok();
    assert_eq!(w.read("p"), "mine\n");
}

/// What the sandbox did in `p` came to nothing, and reality put something else in the place of `p`, or nothing.
fn a_directory_that_was_only_on_the_way_is_not_put_in_the_place_of_what_reality_has(w: &World) {
    for backend in ["overlay", "copy"] {
        for inside in ["touch p/x", "rm p/x", "touch p/x; whatif-snapshot; rm p/x", "rm p/x; whatif-snapshot; touch p/y"] {
            for (outside, is) in [("rm -r p; echo real > p", "real"), ("rm -r p; ln -s lib p", "x\ny"), ("mv p q", "none")] {
                let case = format!("{backend}: {inside}: {outside}");
                w.outside("rm -rf *; mkdir p; echo x > p/x; echo y > p/y; echo x > lib").ok();
                w.whatif(["new", "s", "--backend", backend]).go().ok();
                for (number, part) in inside.split("whatif-snapshot;").enumerate() {
                    if number > 0 {
                        w.whatif(["snapshot", "s"]).go().ok();
                    }
                    w.exec("s", part).ok();
                }
                w.exec("s", "echo y >> lib").ok();
                w.outside(outside).ok();
                assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().text(), "lib", "{case}");
                w.apply(&["s", "--all", "--theirs", "*"]).ok();
                assert_eq!(w.outside("cat p 2>/dev/null || echo none").ok().text(), is, "{case}");
                // It never says that the sandbox is up to date while it shows something else.
                let is_file_inside = w.whatif(["rebase", "s"]).go().code == 0 && is != "none";
                assert!(!is_file_inside || w.exec("s", "cat p").ok().text() == is, "{case}");
                w.whatif(["rm", "s", "--yes"]).go().ok();
            }
        }
    }
}

/// Nobody looked between what the sandbox did and what reality did.
fn a_directory_on_the_way_is_known_without_a_record(w: &World) {
    for (outside, is) in [("rm -r p; echo real > p", "real"), ("mv p q", "none")] {
        w.outside("rm -rf *; mkdir p; echo x > p/x; echo x > lib").ok();
        w.whatif(["new", "s"]).go().ok();
        w.exec("s", "rm p/x; echo y >> lib").ok();
        // As if the command were killed before its end.
        w.outside("rm -r \"$WHATIF_HOME\"/sandboxes/*/base").ok();
        w.outside(outside).ok();
        assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().text(), "lib", "{outside}");
        w.apply(&["s", "--all", "--theirs", "*"]).ok();
        assert_eq!(w.outside("cat p 2>/dev/null || echo none").ok().text(), is, "{outside}");
        w.whatif(["rm", "s", "--yes"]).go().ok();
    }
    w.outside("rm -rf *; mkdir p; echo x > p/x").ok();
    w.whatif(["new", "s"]).go().ok();
    w.exec("s", "echo mine > p/new; rm p/x").ok();
    w.outside("rm -r \"$WHATIF_HOME\"/sandboxes/*/base; rm -r p; echo real > p").ok();
    assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().text(), "p\np/new");
    w.apply(&["s", "--all"]).exits(1);
    assert_eq!(w.read("p"), "real\n");
}

fn what_the_sandbox_did_to_a_directory_that_reality_replaced_is_a_conflict(w: &World) {
    for backend in ["overlay", "copy"] {
        for inside in ["chmod 700 p", "echo mine > p/new", "echo more >> p/x", "rm -r p; echo mine > p", "chmod 700 p; touch p/x"] {
            w.outside("rm -rf *; mkdir p; echo x > p/x; echo x > lib").ok();
            w.whatif(["new", "s", "--backend", backend]).go().ok();
            w.exec("s", inside).ok();
            w.outside("rm -r p; echo real > p").ok();
            w.apply(&["s", "--all"]).exits(1).says("p: ");
            assert_eq!(w.read("p"), "real\n", "{backend}: {inside}");
            w.whatif(["rm", "s", "--yes"]).go().ok();
        }
    }
}
