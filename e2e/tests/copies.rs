//! What a copied tree remembers of the reality it was made from, where it was found to forget something. Where the others can
//! be asked the same, all backends are.

use whatif_e2e::{Fault, Point, World, as_root, as_root_and_user, as_user, needs};

as_root_and_user!(
    an_attribute_that_reality_gave_a_file_stays,
    an_attribute_that_reality_gave_a_moved_directory_is_not_lost,
    a_directory_that_both_made_differently_is_a_conflict,
    what_a_fork_changed_is_its_change_after_another_apply_was_undone,
    a_directory_swapped_in_is_not_what_was_copied,
    a_snapshot_that_was_killed_while_copying_is_taken_back,
    what_reality_looks_like_outlasts_an_apply_and_its_undo,
    what_both_made_is_a_conflict_again_after_an_undo,
    what_reality_looks_like_outlasts_an_apply_that_was_taken_back,
    a_directory_changed_inside_and_deleted_in_reality_is_a_conflict,
    what_reality_did_not_have_during_a_rebase_is_not_deleted,
    a_rebased_copy_shows_what_reality_did_elsewhere,
    what_an_apply_deleted_stays_deleted_through_a_rebase,
    a_rebase_that_was_killed_loses_nothing_and_can_be_run_again,
    what_a_killed_rebase_left_does_not_come_back,
    what_was_not_changed_is_no_change_in_an_import,
    what_a_killed_rebase_put_in_place_is_realitys,
    an_edit_of_reality_that_puts_the_time_back_is_a_conflict,
);
as_root!(what_root_makes_in_the_tree_of_another_belongs_to_them);
as_user!(a_file_that_cannot_be_copied_can_be_left_out);

fn backends(w: &World) -> Vec<&'static str> {
    let has_fuse = w.has("fuse-overlayfs") && w.outside("exec 3<>/dev/fuse").code == 0;
    if has_fuse { vec!["overlay", "copy", "fuse"] } else { vec!["overlay", "copy"] }
}

fn make(w: &World, name: &str, backend: &str) {
    w.whatif(["new", name, "--backend", backend]).go().ok();
}

fn an_attribute_that_reality_gave_a_file_stays(w: &World) {
    needs!(w, "setfattr");
    for backend in backends(w) {
        w.outside("rm -rf -- *; printf '1\\n2\\n3\\n' > f; echo 1 > g").ok();
        make(w, backend, backend);
        w.exec(backend, "cat f g").ok();
        w.outside("setfattr -n user.k -v x f; setfattr -n user.k -v x g").ok();
        w.exec(backend, "echo 4 >> f; chmod 600 g").ok();
        w.apply(&[backend, "--all"]);
        assert_eq!(w.outside("getfattr --only-values -n user.k f g").ok().stdout, "xx", "{backend}");
        w.whatif(["rm", backend]).go().ok();
    }
}

/// A copy of the copy has to know what the directory was, although the sandbox has it no more.
fn an_attribute_that_reality_gave_a_moved_directory_is_not_lost(w: &World) {
    needs!(w, "setfattr");
    w.outside("mkdir -p d/g; echo 1 > d/g/f").ok();
    make(w, "s", "copy");
    w.exec("s", "true").ok();
    w.outside("setfattr -n user.k -v x d/g").ok();
    w.exec("s", "mv d/g moved").ok();
    for moment in ["at first", "after a snapshot", "after another"] {
        w.apply(&["s", "--all"]).exits(1);
        assert_eq!(w.outside("getfattr --only-values -n user.k d/g").ok().stdout, "x", "{moment}");
        w.snapshot("s", &moment.replace(' ', "-"));
    }
}

fn a_directory_that_both_made_differently_is_a_conflict(w: &World) {
    needs!(w, "setfattr");
    let inside = |name: &str| w.exec(name, "mkdir d; echo 1 > d/inside").ok();
    let outside = || w.outside("mkdir d; chmod 700 d; setfattr -n user.k -v x d; echo 1 > d/outside").ok();
    // What reality makes first is seen through an overlay.
    for (backend, is_reality_first) in [("overlay", false), ("copy", false), ("copy", true)] {
        w.outside("rm -rf -- *; echo 1 > f").ok();
        make(w, backend, backend);
        w.whatif(["exec", backend, "-d", "--", "sleep", "1000"]).go().ok();
        if is_reality_first {
            outside();
            inside(backend);
        } else {
            inside(backend);
            outside();
        }
        w.apply(&[backend, "--all"]).exits(1);
        let looks = w.outside("stat -c %a d; getfattr --only-values -n user.k d; ls d").ok().stdout;
        assert_eq!(looks, "700\nxoutside\n", "{backend}, reality first: {is_reality_first}");
        w.whatif(["rm", backend]).go().ok();
    }
}

/// While reality looked the same as the fork by itself, the fork was looked at.
fn what_a_fork_changed_is_its_change_after_another_apply_was_undone(w: &World) {
    for backend in backends(w) {
        w.outside("rm -rf -- *; mkdir d; echo 1 > d/f").ok();
        make(w, "s", backend);
        w.exec("s", "chmod 750 d").ok();
        w.fork("s", "fork");
        w.exec("fork", "true").ok();
        w.apply(&["s", "--all"]).ok();
        w.exec("fork", "ls d").ok();
        w.whatif(["diff", "fork"]).go().ok();
        w.whatif(["undo", "--yes"]).go().ok();
        w.apply(&["fork", "--all"]).ok();
        assert_eq!(w.outside("stat -c %a d").ok().stdout, "750\n", "{backend}");
        w.whatif(["rm", "s", "fork"]).go().ok();
    }
}

/// Two directories that were written within one tick of the clock have files of the same size and time.
fn a_directory_swapped_in_is_not_what_was_copied(w: &World) {
    for backend in backends(w) {
        w.outside("rm -rf -- *; mkdir d other; echo 1 > d/f; echo 2 > other/f; touch -d @1700000000.5 d/f other/f").ok();
        make(w, backend, backend);
        w.whatif(["exec", backend, "-d", "--", "sleep", "1000"]).go().ok();
        w.exec(backend, "cat d/f").ok();
        w.outside("mv d away; mv other d").ok();
        let seen = w.exec(backend, "cat d/f; echo mine > d/f");
        if backend == "fuse" {
            // What runs stands in the directory that the names are in: its list of names may be an older one, of which `d` is missing.
            // Of what fuse-overlayfs showed while something ran nobody can be sure afterwards: not even `mine` becomes real.
            assert!(seen.code == 0 || seen.stderr.contains("d/f: No such file or directory"), "{}", seen.stderr);
            w.apply(&[backend, "--all"]).exits(i32::from(seen.code == 0));
        } else {
            // Every command sees reality as it is, so what it changes is what reality has; unless it is in a copy.
            let is_sure = backend == "overlay";
            assert_eq!(seen.ok().stdout, if is_sure { "2\n" } else { "1\n" }, "{backend}");
            w.apply(&[backend, "--all"]).exits(i32::from(!is_sure));
        }
        assert_eq!(w.read("d/f"), if backend == "overlay" { "mine\n" } else { "2\n" }, "{backend}");
        w.whatif(["rm", backend]).go().ok();
    }
}

/// The new head of a copy takes long to make: what is half copied is no work of the sandbox.
fn a_snapshot_that_was_killed_while_copying_is_taken_back(w: &World) {
    needs!(w, "strace");
    w.outside("mkdir d; for i in 1 2 3 4 5 6 7 8; do echo $i > d/$i; done").ok();
    make(w, "s", "copy");
    w.exec("s", "echo mine > d/1; rm d/2").ok();
    for command in [&["snapshot", "s", "label"][..], &["fork", "s", "f"]] {
        for number in [1, 4, 8] {
            w.whatif(["start", "s"]).go().ok();
            let point = Point { call: "utimensat".to_owned(), number };
            w.with_fault(&point, Fault::Kill, command).cwd(&w.project).go();
            let context = format!("{command:?} killed at the {number}th file");
            let seen = w.whatif(["exec", "s", "--", "/bin/sh", "-c", "cat d/1; ls d | wc -l"]).go();
            assert_eq!((seen.code, seen.stdout.as_str()), (0, "mine\n7\n"), "{context}: {}", seen.stderr);
            let changed = w.whatif(["diff", "s", "--name-only"]).go().ok().stdout;
            assert_eq!(changed, "d/1\nd/2\n", "{context}");
        }
    }
}

/// The number of an inode that was deleted is used again at once.
fn what_root_makes_in_the_tree_of_another_belongs_to_them(w: &World) {
    for backend in backends(w) {
        w.outside("rm -rf -- *; mkdir d; echo 1 > d/f; echo 1 > g; chown -R 1234:1234 .").ok();
        make(w, backend, backend);
        w.exec(backend, "rm -rf d && mkdir d && echo 2 > d/new; rm g && echo 3 > g").ok();
        w.apply(&[backend, "--all"]).ok();
        assert_eq!(w.outside("stat -c '%u %n' . d d/new g").ok().stdout, "1234 .\n1234 d\n1234 d/new\n1234 g\n", "{backend}");
        w.whatif(["rm", backend]).go().ok();
    }
}

/// Before the apply only the inventory of a copy said what the sandbox started from.
fn what_reality_looks_like_outlasts_an_apply_and_its_undo(w: &World) {
    needs!(w, "setfattr");
    for backend in backends(w) {
        w.outside("rm -rf -- *; mkdir d; echo 1 > d/f; echo 1 > g; printf '\\0' > binary").ok();
        make(w, "s", backend);
        w.exec("s", "true").ok();
        w.whatif(["stop", "s"]).go().ok();
        w.outside("setfattr -n user.k -v x d; setfattr -n user.k -v x d/f; setfattr -n user.k -v x binary; chmod 640 g").ok();
        w.whatif(["start", "s"]).go().ok();
        w.exec("s", "chmod 750 d; chmod 755 d/f binary; echo 2 >> g").ok();
        w.apply(&["s", "--all"]).ok();
        for moment in ["once", "twice"] {
            w.whatif(["undo", "--yes"]).go().ok();
            w.snapshot("s", moment);
            w.apply(&["s", "--all"]).ok();
            let modes = w.outside("stat -c '%a %n' d d/f binary g").ok().stdout;
            assert_eq!(modes, "750 d\n755 d/f\n755 binary\n640 g\n", "{backend}, {moment}");
            let attributes = w.outside("getfattr --only-values -n user.k d d/f binary").ok().stdout;
            assert_eq!(attributes, "xxx", "{backend}, {moment}");
        }
        w.whatif(["rm", "s"]).go().ok();
    }
}

fn what_both_made_is_a_conflict_again_after_an_undo(w: &World) {
    w.outside("echo 1 > f").ok();
    make(w, "s", "copy");
    w.exec("s", "true").ok();
    w.outside("echo theirs > new").ok();
    w.exec("s", "echo mine > new").ok();
    w.apply(&["s", "--all", "--theirs", "new"]).ok();
    w.whatif(["undo", "--yes"]).go().ok();
    w.apply(&["s", "--all"]).exits(1);
    assert_eq!(w.read("new"), "theirs\n");
}

/// Of a file of this length neither bytes nor a hash are kept, so the times count, and those have moved.
fn what_reality_looks_like_outlasts_an_apply_that_was_taken_back(w: &World) {
    needs!(w, "strace");
    for backend in backends(w) {
        w.outside("rm -rf -- *; truncate -s 65M long; echo 1 > z").ok();
        make(w, "s", backend);
        w.exec("s", "printf x >> long; echo 2 >> z").ok();
        w.outside("chmod 600 long").ok();
        for number in [1, 2] {
            let point = Point { call: "renameat2".to_owned(), number };
            let failed = w.with_fault(&point, Fault::Error("EIO"), &["apply", "s", "--all", "--yes"]).cwd(&w.project).go();
            assert_ne!(failed.code, 0, "{backend}");
        }
        assert_eq!(w.outside("stat -c '%a %s' long").ok().stdout, "600 68157440\n", "{backend}");
        w.apply(&["s", "--all"]).ok();
        assert_eq!(w.outside("stat -c '%a %s' long").ok().stdout, "600 68157441\n", "{backend}");
        w.whatif(["rm", "s"]).go().ok();
    }
}

/// Where the sandbox only has a part of such a directory, there is nothing to decide about the directory itself.
fn a_directory_changed_inside_and_deleted_in_reality_is_a_conflict(w: &World) {
    for backend in backends(w) {
        w.outside("rm -rf -- *; mkdir -p d/e plain; echo 1 > d/e/f; echo 1 > plain/f; echo 1 > plain/g").ok();
        make(w, "s", backend);
        w.exec("s", "chmod 750 d/e; echo 2 > plain/new").ok();
        w.outside("rm -r d plain").ok();
        w.apply(&["s", "--all"]).exits(1);
        w.apply(&["s", "--all", "--skip", "d/**"]).ok();
        assert_eq!(w.outside("find . -mindepth 1 | sort").ok().stdout, "./plain\n./plain/new\n", "{backend}");
        w.apply(&["s", "--all", "--theirs", "d/**"]).ok();
        assert_eq!(w.outside("stat -c %a d/e").ok().stdout, "750\n", "{backend}");
        w.whatif(["rm", "s"]).go().ok();
    }
}

fn what_reality_did_not_have_during_a_rebase_is_not_deleted(w: &World) {
    for backend in backends(w) {
        w.outside("rm -rf -- * ../away; echo 1 > f").ok();
        make(w, "s", backend);
        w.exec("s", "echo 2 > f").ok();
        w.exec("s", "echo 1 > f").ok();
        w.outside("mv f ../away").ok();
        w.whatif(["rebase", "s"]).go().ok();
        w.outside("mv ../away f").ok();
        w.apply(&["s", "--all"]);
        assert_eq!(w.outside("cat f").ok().stdout, "1\n", "{backend}");
        w.whatif(["rm", "s"]).go().ok();
    }
}

const SHOWN: &str = "find . -mindepth 1 -printf '%P %y %m %l\\n' | sort; grep -r . . | sort";

/// What reality does to all kinds of things, where the sandbox changed some of them, or something in them.
fn move_reality(w: &World) {
    w.outside(
        "echo two > edited; rm deleted; echo new > added; chmod 600 mode; ln -sfn elsewhere link
         mkdir -p tree/sub; echo 1 > tree/sub/f; chmod 500 tree/sub tree
         mv renamed moved; rm -rf gone; rm file; mkdir file; echo 1 > file/f; rm -rf directory; echo 1 > directory
         chmod 700 looks; echo 2 > looks/f; echo 3 > replaced/f; rm emptied/f; echo 2 > kept/theirs
         seq 20 | sed s/^20/last/ > both; rm vanished/f",
    )
    .ok();
}

fn a_rebased_copy_shows_what_reality_did_elsewhere(w: &World) {
    let mut expected: Option<(String, String, String)> = None;
    for backend in backends(w) {
        w.outside("find . -type d -exec chmod u+w {} +; rm -rf -- *").ok();
        w.outside(
            "for f in edited deleted mode file removed; do echo one > $f; done; ln -s nowhere link; seq 20 > both
             for d in renamed gone directory looks replaced emptied kept vanished; do mkdir $d; echo 1 > $d/f; done",
        )
        .ok();
        make(w, backend, backend);
        w.exec(
            backend,
            "echo mine > own; seq 20 | sed s/^1$/first/ > both; rm removed; rm -rf replaced; mkdir replaced
             echo 1 > replaced/own; echo 2 > kept/own; echo 2 > vanished/own",
        )
        .ok();
        w.whatif(["stop", backend]).go().ok();
        move_reality(w);
        // What both sides did to `replaced` collides, and stays as the sandbox has it.
        w.whatif(["rebase", backend]).go().exits(1);
        w.whatif(["start", backend]).go().ok();
        let shown = w.exec(backend, SHOWN).ok().stdout;
        let changed = w.whatif(["diff", backend, "--name-only"]).go().ok().stdout;
        w.apply(&[backend, "--all", "--theirs", "replaced/**"]);
        let reality = w.outside(SHOWN).ok().stdout;
        let is = (shown, changed, reality);
        assert_eq!(expected.get_or_insert_with(|| is.clone()), &is, "{backend}");
        w.whatif(["rm", backend]).go().ok();
    }
    w.outside("find . -type d -exec chmod u+w {} +").ok();
}

fn what_an_apply_deleted_stays_deleted_through_a_rebase(w: &World) {
    for backend in backends(w) {
        w.outside("rm -rf -- *; echo 1 > f; echo 1 > g").ok();
        make(w, "s", backend);
        w.exec("s", "rm f; echo 2 > h; rm h").ok();
        w.apply(&["s", "--all"]).ok();
        w.outside("echo 2 > f; echo 2 > g; echo 3 > h").ok();
        w.whatif(["rebase", "s"]).go().ok();
        assert_eq!(w.exec("s", "ls; cat g h").ok().stdout, "g\nh\n2\n3\n", "{backend}");
        w.apply(&["s", "--all"]);
        assert_eq!(w.outside("cat f g h").ok().stdout, "2\n2\n3\n", "{backend}");
        w.whatif(["rm", "s"]).go().ok();
    }
}

/// What it had not taken away yet is nothing that the sandbox made, even if it is changed then.
fn what_a_killed_rebase_left_does_not_come_back(w: &World) {
    needs!(w, "strace");
    for (call, number) in [("unlink", 1), ("unlink", 2), ("rmdir", 1)] {
        w.outside("rm -rf -- *; mkdir d; for f in a b d/e d/f; do seq 9 > $f; done").ok();
        make(w, "s", "copy");
        w.outside("rm -r a b d").ok();
        w.with_fault(&Point { call: call.to_owned(), number }, Fault::Kill, &["rebase", "s"]).cwd(&w.project).go();
        w.exec("s", "for f in a b d/e d/f; do [ ! -e $f ] || sed -i 5d $f; done").ok();
        let left = w.exec("s", "ls -d a b d/e d/f 2> /dev/null; true").ok().stdout;
        let context = format!("killed at {call} {number}: {left}");
        w.apply(&["s", "--all"]).exits(i32::from(!left.is_empty()));
        assert_eq!(w.outside("ls").ok().stdout, "", "{context}");
        w.whatif(["rebase", "s"]).go();
        w.apply(&["s", "--all", "--ours=**"]).ok();
        assert_eq!(w.outside("ls").ok().stdout, "", "{context}");
        w.whatif(["rm", "s"]).go().ok();
    }
}

/// Reality goes back to what it was in between: what passed for a deletion of the sandbox would be one then.
fn a_rebase_that_was_killed_loses_nothing_and_can_be_run_again(w: &World) {
    needs!(w, "strace");
    for (call, number) in [("unlink", 1), ("unlink", 2), ("rmdir", 1), ("rename", 1), ("rename", 2), ("rename", 3), ("syncfs", 2)] {
        w.outside("rm -rf -- * ../away; mkdir d ../away; echo 1 > a; echo 1 > b; echo 1 > d/f; echo 1 > own; echo 1 > e").ok();
        make(w, "s", "copy");
        w.exec("s", "echo 2 > own; rm a; echo mine > made").ok();
        w.outside("mv b d ../away; echo 2 > new; mkdir n; echo 1 > n/f; echo 2 > e").ok();
        w.with_fault(&Point { call: call.to_owned(), number }, Fault::Kill, &["rebase", "s"]).cwd(&w.project).go();
        let context = format!("killed at {call} {number}");
        w.outside("mv ../away/* .").ok();
        let changed = w.whatif(["diff", "s", "--name-only"]).go().ok().stdout;
        assert_eq!(changed, "a\nmade\nown\n", "{context}");
        w.whatif(["rebase", "s"]).go().ok();
        w.whatif(["start", "s"]).go().ok();
        let seen = w.exec("s", "cat b d/f own made new n/f e; ls | wc -l").ok().stdout;
        assert_eq!(seen, "1\n1\n2\nmine\n2\n1\n2\n7\n", "{context}");
        w.apply(&["s", "--all"]).ok();
        assert_eq!(w.outside("cat b d/f own made new n/f e").ok().stdout, "1\n1\n2\nmine\n2\n1\n2\n", "{context}");
        w.whatif(["rm", "s"]).go().ok();
    }
}

/// What is unpacked has other inodes than what was copied, by which a copy is known.
fn what_was_not_changed_is_no_change_in_an_import(w: &World) {
    w.outside("mkdir -p d/e; seq 4 > d/a; seq 4 > d/b; seq 4 > d/e/c; seq 4 > gone").ok();
    make(w, "s", "copy");
    w.exec("s", "chmod 700 d; echo 5 >> d/b; rm gone; mkdir -m 711 new").ok();
    w.outside("sed -i 3d d/a").ok();
    w.whatif(["export", "s", "-o", "../s.whatif"]).go().ok();
    w.whatif(["import", "../s.whatif", "--name", "i", "--backend", "copy"]).go().ok();
    let changes = "d\nd/b\ngone\nnew\n";
    assert_eq!(w.whatif(["diff", "i", "--name-only"]).go().ok().stdout, changes);
    w.whatif(["export", "i", "-o", "../i.whatif"]).go().ok();
    w.whatif(["import", "../i.whatif", "--name", "again", "--backend", "copy"]).go().ok();
    // What reality makes or moves later, none of them has deleted or made.
    w.outside("mkdir later; echo l > later/l; mv d/e moved").ok();
    for name in ["s", "i", "again"] {
        assert_eq!(w.whatif(["diff", name, "--name-only"]).go().ok().stdout, changes, "{name}");
    }
    w.apply(&["again", "--all"]).ok();
    let real = "seq: 1 2 4 / 1 2 3 4 5 / 700 711 / a b / c / l";
    let look = "echo seq: $(cat d/a) / $(cat d/b) / $(stat -c %a d new) / $(ls d) / $(ls moved) / $(ls later)";
    assert_eq!(w.outside(look).ok().text(), real);
    // And what nobody changed is brought up to date.
    w.whatif(["rebase", "i"]).go().ok();
    assert_eq!(w.exec("i", "cat later/l moved/c d/a; test ! -e d/e").ok().stdout, "l\n1\n2\n3\n4\n1\n2\n4\n");
}

/// Reality goes back to what it was: what passed for the sandbox's would be brought again.
fn what_a_killed_rebase_put_in_place_is_realitys(w: &World) {
    needs!(w, "strace");
    for (call, number) in [("rename", 2), ("rename", 4), ("rename", 6), ("syncfs", 2), ("rmdir", 1)] {
        w.outside("rm -rf -- *; for f in a b c; do seq 3 > $f; done; mkdir t; echo 1 > t/f; echo 1 > own").ok();
        make(w, "s", "copy");
        w.exec("s", "echo 2 > own").ok();
        w.outside("for f in a b c; do echo 4 >> $f; done; mkdir -m 555 n; rm -r t; echo 1 > t").ok();
        w.with_fault(&Point { call: call.to_owned(), number }, Fault::Kill, &["rebase", "s"]).cwd(&w.project).go();
        w.outside("for f in a b c; do seq 3 > $f; done; rmdir n; rm t; mkdir t; echo 1 > t/f").ok();
        let context = format!("killed at {call} {number}");
        assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().stdout, "own\n", "{context}");
        // And what the sandbox does then is its own.
        w.exec("s", "echo mine >> b").ok();
        let changed = w.whatif(["diff", "s", "--name-only"]).go().ok().stdout;
        assert_eq!(changed, "b\nown\n", "{context}");
        w.apply(&["s", "--all", "--ours=**"]).ok();
        assert_eq!(w.outside("cat a c own; test ! -e n").ok().stdout, "1\n2\n3\n1\n2\n3\n2\n", "{context}");
        w.whatif(["rm", "s"]).go().ok();
    }
}

fn a_file_that_cannot_be_copied_can_be_left_out(w: &World) {
    w.outside("echo 1 > f; echo 1 > closed; chmod 0 closed").ok();
    let copied = |options: &[&str]| w.whatif(["run", "--rm", "-q", "--backend", "copy"]).args(options).args(["--", "ls"]).go();
    let refused = copied(&[]);
    let closed = w.project.join("closed");
    assert_eq!(refused.code, 125, "{refused:?}");
    assert!(refused.stderr.contains("the project cannot be copied: failed to open "), "{refused:?}");
    assert!(refused.stderr.contains(&format!("--mask {}", closed.display())), "{refused:?}");
    assert_eq!(copied(&["--mask", "closed"]).ok().text(), "f");
}

fn an_edit_of_reality_that_puts_the_time_back_is_a_conflict(w: &World) {
    w.outside("echo AAAA > f; touch -d 2020-01-01 f").ok();
    make(w, "s", "copy");
    w.outside("echo CCCC > f; touch -d 2020-01-01 f").ok();
    w.exec("s", "echo DDDD > f").ok();
    assert_eq!(w.apply(&["s", "--all"]).code, 1);
    assert_eq!(w.outside("cat f").ok().text(), "CCCC");
}
