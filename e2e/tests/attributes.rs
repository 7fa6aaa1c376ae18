//! Modes, owners, access control lists, extended attributes and capabilities are content: each has three sides of its own.

use whatif_e2e::{World, as_root, as_root_and_user, eventually, needs};

as_root_and_user!(
    a_directory_that_reality_closed_stays_closed,
    what_reality_did_to_a_directory_is_status,
    extended_attributes_of_both_sides_come_together,
    access_control_lists_of_reality_stay,
    a_mode_and_an_access_control_list_come_together,
    both_changed_a_directory_differently,
    the_same_on_both_sides_is_no_change,
    both_made_a_directory_differently,
    what_was_closed_before_it_was_kept_is_not_guessed,
    an_attribute_of_a_binary_file_is_merged_too,
    after_an_apply_reality_goes_on,
    ours_settles_an_attribute,
    a_deleted_directory_that_reality_changed,
    a_changed_directory_that_reality_deleted_before_it_was_kept,
    an_undo_refuses_where_attributes_changed_since,
    a_digest_covers_attributes,
);
as_root!(
    owners_and_capabilities_of_reality_stay,
    rights_that_reality_gave_to_new_content_are_approved,
    a_capability_that_a_write_dropped_is_dropped,
    a_file_replaced_inside_keeps_its_owner_for_good,
    what_a_sandbox_made_is_the_trees_after_a_squash,
    a_directory_given_to_root_on_purpose_is_roots,
    a_renamed_directory_that_reality_closed,
);

/// The ways of copy-on-write that work here.
fn backends(w: &World) -> Vec<&'static str> {
    let has_fuse = w.has("fuse-overlayfs") && w.outside("exec 3<>/dev/fuse").code == 0;
    ["overlay", "copy"].into_iter().chain(has_fuse.then_some("fuse")).collect()
}

/// Plays a case with each of them, in a project of its own each time.
fn with_each(w: &World, case: impl Fn(&Case<'_>)) {
    for backend in backends(w) {
        let dir = format!("on-{backend}");
        w.outside(&format!("mkdir {dir}")).ok();
        case(&Case { w, backend, dir });
    }
}

struct Case<'w> {
    w: &'w World,
    backend: &'static str,
    dir: String,
}

impl Case<'_> {
    fn outside(&self, script: &str) -> String {
        self.w.outside(&format!("cd {} && {{ {script}\n}}", self.dir)).ok().stdout
    }

    fn sandbox(&self, script: &str) {
        let run = ["run", "--keep", "--quiet", "--name", self.backend, "--backend", self.backend, "--", "/bin/sh", "-euc", script];
        self.whatif(&run).ok();
    }

    fn exec(&self, script: &str) -> String {
        self.whatif(&["exec", self.backend, "--", "/bin/sh", "-euc", script]).ok().stdout
    }

    fn whatif(&self, arguments: &[&str]) -> whatif_e2e::Outcome {
        self.w.whatif([]).args(arguments).cwd(&self.w.project.join(&self.dir)).go()
    }

    fn apply(&self, arguments: &[&str]) -> whatif_e2e::Outcome {
        self.whatif(&[&["apply", self.backend, "--yes"], arguments].concat())
    }

    #[track_caller]
    fn is(&self, script: &str, expected: &str) {
        assert_eq!(self.outside(script).trim_end(), expected, "{}: {script}", self.backend);
    }

    #[track_caller]
    fn conflicts(&self, arguments: &[&str], path: &str) {
        let outcome = self.apply(arguments).exits(1);
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(said.contains("conflict") && said.contains(path), "{}: {said}", self.backend);
    }

    #[track_caller]
    fn has_no_changes(&self) {
        let said = self.whatif(&["diff", self.backend, "--name-only"]).ok().stdout;
        assert_eq!(said.trim(), "", "{}: nothing is left to apply", self.backend);
    }
}

fn a_directory_that_reality_closed_stays_closed(w: &World) {
    with_each(w, |c| {
        c.outside("mkdir -p d/e; echo x > d/x; echo y > d/e/y");
        c.sandbox("echo X > d/x; echo Y > d/e/y; echo new > d/new");
        c.outside("chmod 700 d; chmod 750 d/e");
        c.apply(&[]).ok();
        c.is("stat -c %a d d/e; cat d/x d/e/y d/new", "700\n750\nX\nY\nnew");
        c.has_no_changes();
        c.whatif(&["undo", "--yes"]).ok();
        c.is("stat -c %a d d/e; cat d/x; test ! -e d/new", "700\n750\nx");
    });
}

fn what_reality_did_to_a_directory_is_status(w: &World) {
    with_each(w, |c| {
        c.outside("mkdir d quiet; echo x > d/x; echo y > quiet/y; echo f > f");
        c.sandbox("echo X > d/x; echo Y > quiet/y; echo F > f");
        let before = c.whatif(&["status", c.backend]).ok().stdout;
        assert!(!before.lines().any(|l| l.trim().ends_with(" d")), "{}: {before}", c.backend);
        c.outside("chmod 700 d; chmod 600 f");
        let said = c.whatif(&["status", c.backend]).ok().stdout;
        assert!(
            said.contains("changed") && said.contains(" d") && said.contains(" f") && !said.contains("quiet"),
            "{}: {said}",
            c.backend
        );
    });
}

fn extended_attributes_of_both_sides_come_together(w: &World) {
    needs!(w, "setfattr");
    with_each(w, |c| {
        c.outside(
            "mkdir d; echo x > d/x; echo f > f; setfattr -n user.a -v 1 d; setfattr -n user.a -v 1 f; setfattr -n user.b -v 1 f",
        );
        c.sandbox("echo X > d/x; echo F > f; setfattr -n user.mine -v s f; setfattr -n user.mine -v s d");
        c.outside("setfattr -n user.a -v 2 d; setfattr -n user.a -v 2 f; setfattr -x user.b f; setfattr -n user.new -v n f");
        let before = c.outside("getfattr -d f d");
        c.apply(&[]).ok();
        c.is("getfattr -d f | sort | grep user", "user.a=\"2\"\nuser.mine=\"s\"\nuser.new=\"n\"");
        c.is("getfattr -d d | sort | grep user", "user.a=\"2\"\nuser.mine=\"s\"");
        c.is("cat f d/x", "F\nX");
        c.has_no_changes();
        c.whatif(&["undo", "--yes"]).ok();
        assert_eq!(c.outside("getfattr -d f d"), before, "{}: undone", c.backend);
    });
}

fn access_control_lists_of_reality_stay(w: &World) {
    needs!(w, "setfacl", "getfacl");
    with_each(w, |c| {
        c.outside("mkdir d; echo x > d/x; echo f > f");
        c.sandbox("echo X > d/x; echo F > f");
        c.outside("setfacl -m u:4242:rwx d; setfacl -d -m u:4242:rx d; setfacl -m u:4242:r f");
        let acls = c.outside("getfacl -cn d f");
        assert!(acls.contains("4242"), "{acls}");
        c.apply(&[]).ok();
        c.is("cat f d/x", "F\nX");
        assert_eq!(c.outside("getfacl -cn d f"), acls, "{}", c.backend);
        c.has_no_changes();
        c.whatif(&["undo", "--yes"]).ok();
        assert_eq!(c.outside("getfacl -cn d f"), acls, "{}: undone", c.backend);
    });
}

/// The list has three entries that are the mode. What `chmod` does inside, it does to the list that reality has by then.
fn a_mode_and_an_access_control_list_come_together(w: &World) {
    needs!(w, "setfacl", "getfacl");
    with_each(w, |c| {
        c.outside("mkdir d; echo f > f; chmod 644 f; chmod 755 d; echo x > d/x");
        c.sandbox("chmod 755 f; chmod 711 d; echo X > d/x");
        c.outside("setfacl -m u:4242:r f; setfacl -m u:4242:rx d");
        c.apply(&[]).ok();
        c.is("stat -c %a f d", "755\n711");
        c.is("getfacl -cnE f | grep 4242; getfacl -cnE d | grep 4242", "user:4242:r--\nuser:4242:r-x");
    });
}

fn both_changed_a_directory_differently(w: &World) {
    with_each(w, |c| {
        c.outside("mkdir d; echo x > d/x; chmod 755 d");
        c.sandbox("chmod 711 d; echo X > d/x");
        c.outside("chmod 700 d");
        c.conflicts(&[], "d");
        c.is("stat -c %a d; cat d/x", "700\nx");
        let said = c.whatif(&["status", c.backend]).ok().stdout;
        assert!(said.contains("conflict"), "{}: {said}", c.backend);
        c.apply(&["--theirs", "d"]).ok();
        c.is("stat -c %a d; cat d/x", "711\nX");
    });
}

fn the_same_on_both_sides_is_no_change(w: &World) {
    with_each(w, |c| {
        c.outside("mkdir d; echo x > d/x; echo f > f");
        c.sandbox("chmod 711 d; chmod 600 f; echo X > d/x");
        c.outside("chmod 711 d; chmod 600 f");
        c.apply(&[]).ok();
        c.is("stat -c %a d f; cat d/x", "711\n600\nX");
        c.has_no_changes();
    });
}

fn both_made_a_directory_differently(w: &World) {
    with_each(w, |c| {
        c.sandbox("mkdir d same; chmod 755 d same; echo x > d/x; echo y > same/y");
        c.outside("mkdir d same; chmod 700 d; chmod 755 same");
        c.conflicts(&[], "d");
        c.apply(&["--theirs", "d"]).ok();
        c.is("stat -c %a d; cat d/x same/y", "755\nx\ny");
    });
}

/// Nothing was kept of what the directory was, and reality did something to it after the sandbox had its own.
fn what_was_closed_before_it_was_kept_is_not_guessed(w: &World) {
    w.outside("mkdir d; echo x > d/x; chmod 755 d").ok();
    w.sandbox_with("s", "chmod 711 d; echo X > d/x");
    std::fs::remove_dir_all(w.directory("s").join("base")).expect("it is there");
    w.outside("chmod 700 d").ok();
    w.apply(&["s"]).exits(1);
    assert_eq!(w.outside("stat -c %a d").ok().text(), "700");
    w.apply(&["s", "--ours", "d"]).ok();
    assert_eq!(w.outside("stat -c %a d").ok().text(), "700");
    assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().text(), "");
}

fn an_attribute_of_a_binary_file_is_merged_too(w: &World) {
    needs!(w, "setfattr");
    with_each(w, |c| {
        c.outside("printf 'a\\0b' > edited; printf 'a\\0b' > marked");
        c.sandbox("printf 'a\\0c' > edited; setfattr -n user.mine -v s marked");
        c.outside("setfattr -n user.note -v n edited; chmod 600 edited; chmod 640 marked");
        c.apply(&[]).ok();
        c.is("od -An -c edited | tr -d ' '; stat -c %a edited marked", "a\\0c\n600\n640");
        c.is("getfattr --only-values -n user.note edited; getfattr --only-values -n user.mine marked", "ns");
        c.has_no_changes();
    });
}

/// What became real with attributes of both sides is not a change of the sandbox afterwards, and reality can go on.
fn after_an_apply_reality_goes_on(w: &World) {
    needs!(w, "setfattr");
    with_each(w, |c| {
        c.outside("mkdir d; seq 9 > d/f; echo x > d/x");
        c.sandbox("sed -i s/^2$/two/ d/f; chmod 750 d");
        c.outside("chmod 600 d/f; setfattr -n user.note -v 1 d");
        c.apply(&[]).ok();
        c.is("stat -c %a d d/f", "750\n600");
        c.outside("chmod 640 d/f; setfattr -n user.note -v 2 d; chmod 700 d");
        c.exec("sed -i s/^8$/eight/ d/f; echo X > d/x");
        c.apply(&[]).ok();
        c.is("stat -c %a d d/f; sed -n '2p;8p' d/f; cat d/x", "700\n640\ntwo\neight\nX");
        c.is("getfattr --only-values -n user.note d", "2");
        c.has_no_changes();
    });
}

fn ours_settles_an_attribute(w: &World) {
    with_each(w, |c| {
        c.outside("mkdir d; echo f > f; printf 'a\\0b' > binary; chmod 644 f binary; chmod 755 d");
        c.sandbox("chmod 700 f binary; chmod 711 d");
        c.outside("chmod 600 f binary; chmod 750 d");
        c.conflicts(&[], "f");
        c.apply(&["--ours", "**"]).ok();
        c.is("stat -c %a f binary d", "600\n600\n750");
        c.has_no_changes();
    });
}

fn a_deleted_directory_that_reality_changed(w: &World) {
    with_each(w, |c| {
        c.outside("mkdir d gone; echo x > d/x; echo y > gone/y");
        c.sandbox("rm -r d gone");
        c.outside("chmod 700 d");
        c.conflicts(&[], "d");
        c.is("stat -c %a d; cat d/x", "700\nx");
        c.apply(&["--theirs", "d"]).ok();
        c.is("ls", "");
    });
}

/// It used to be "nothing to apply", for ever.
fn a_changed_directory_that_reality_deleted_before_it_was_kept(w: &World) {
    needs!(w, "setfattr", "getfattr");
    for (choice, applied) in [("--theirs=d/e", "mine"), ("--ours=d/e", "")] {
        w.outside("rm -rf *; mkdir -p d/e; echo f > d/e/f").ok();
        w.new_sandbox("s");
        w.whatif(["exec", "s", "-d", "--", "setfattr", "-n", "user.k", "-v", "mine", "d/e"]).go().ok();
        let find = format!("getfattr -R -d {} 2> /dev/null | grep user.k", w.state.display());
        eventually("it is set", || w.outside(&find).code == 0);
        w.outside("rm -r d/e").ok();
        assert_eq!(w.json(["status", "s"])["drift"][0]["collides"], "conflict");
        w.apply(&["s", "--all"]).exits(1).says("d/e");
        w.apply(&["s", "--all", choice]).ok();
        assert_eq!(w.outside("getfattr --only-values -n user.k d/e 2> /dev/null").stdout, applied, "{choice}");
        assert_eq!(w.json(["diff", "s"])["changes"].as_array().map(Vec::len), Some(0), "{choice}");
        w.whatif(["rm", "s", "--yes"]).go().ok();
    }
}

fn an_undo_refuses_where_attributes_changed_since(w: &World) {
    needs!(w, "setfattr", "setfacl", "getfacl");
    with_each(w, |c| {
        c.outside("mkdir d; echo f > f; echo g > g; chmod 755 d");
        c.sandbox("echo F > f; chmod 700 d; echo new > new");
        for (change, path) in [
            ("setfattr -n user.note -v n f", "f"),
            ("setfattr -n user.note -v n new", "new"),
            ("setfattr -n user.note -v n d", "d"),
            ("setfacl -d -m u:4242:r d", "d"),
            ("chmod 711 d", "d"),
        ] {
            c.apply(&[]).ok();
            c.outside(change);
            let before = c.outside("getfattr -d f new d; getfacl -cn d; stat -c %a f new d; cat f");
            let outcome = c.whatif(&["undo", "--yes"]).exits(1);
            let said = format!("{}{}", outcome.stdout, outcome.stderr);
            assert!(said.contains(path), "{}: {change}: {said}", c.backend);
            assert_eq!(
                c.outside("getfattr -d f new d; getfacl -cn d; stat -c %a f new d; cat f"),
                before,
                "{}: {change}",
                c.backend
            );
            c.outside(
                "setfattr -x user.note f; setfattr -x user.note new; setfattr -x user.note d; setfacl -bk d; chmod 700 d; true",
            );
            c.whatif(&["undo", "--yes"]).ok();
            c.is("cat f; stat -c %a d; test ! -e new", "f\n755");
        }
    });
}

fn a_digest_covers_attributes(w: &World) {
    needs!(w, "setfattr");
    with_each(w, |c| {
        c.outside("mkdir d; echo f > f");
        c.sandbox("setfattr -n user.note -v 1 d; setfattr -n user.note -v 1 f");
        let digest = || {
            let said = c.whatif(&["--json", "diff", c.backend]).ok().json();
            said["digest"].as_str().expect("there is one").to_owned()
        };
        let mut seen = vec![digest()];
        for change in
            ["setfattr -n user.note -v 2 d", "setfattr -n user.note -v 2 f", "setfattr -n user.more -v 2 d", "chmod 700 d"]
        {
            c.exec(change);
            let now = digest();
            assert!(!seen.contains(&now), "{}: {change} is not in the digest", c.backend);
            seen.push(now);
        }
        c.apply(&["--digest", &seen[0]]).exits(125);
        c.apply(&["--digest", &seen[4]]).ok();
    });
}

fn owners_and_capabilities_of_reality_stay(w: &World) {
    needs!(w, "setcap", "getcap");
    with_each(w, |c| {
        c.outside("mkdir d; echo x > d/x; echo f > f; cp /bin/true prog; chown 0:0 d f");
        c.sandbox("echo X > d/x; echo F > f; printf x >> prog");
        c.outside("chown 4321 d; chgrp 1234 f; setcap cap_net_raw+ep prog");
        c.apply(&["--all"]).ok();
        c.is("stat -c %u:%g d f; cat d/x f; getcap prog", "4321:0\n0:1234\nX\nF\nprog cap_net_raw=ep");
        c.has_no_changes();
        c.whatif(&["undo", "--yes"]).ok();
        c.is("stat -c %u:%g d f; cat f; getcap prog", "4321:0\n0:1234\nf\nprog cap_net_raw=ep");
    });
}

/// The sandbox's content must not get rights that nobody has seen it get.
fn rights_that_reality_gave_to_new_content_are_approved(w: &World) {
    needs!(w, "setcap", "getcap");
    w.outside("cp /bin/true prog; cp /bin/true tool; echo f > f").ok();
    w.sandbox_with("s", "printf x >> prog; printf x >> tool; echo F > f");
    w.outside("setcap cap_net_raw+ep prog; chmod 4755 tool").ok();
    w.apply(&["s"]).ok();
    assert_eq!(w.read("f"), "F\n");
    assert_eq!(w.outside("cmp prog /bin/true && cmp tool /bin/true && getcap prog").ok().text(), "prog cap_net_raw=ep");
    w.apply(&["s", "--risky"]).ok();
    assert_eq!(w.outside("cmp -s prog /bin/true || getcap prog; stat -c %a tool").ok().text(), "prog cap_net_raw=ep\n4755");
}

/// The kernel takes capabilities from a file that is written to. That is a change of the sandbox like any other.
fn a_capability_that_a_write_dropped_is_dropped(w: &World) {
    needs!(w, "setcap", "getcap");
    with_each(w, |c| {
        c.outside("cp /bin/true prog; setcap cap_net_raw+ep prog");
        c.sandbox("printf x >> prog");
        c.apply(&["--all"]).ok();
        c.is("getcap prog", "");
        c.has_no_changes();
    });
}

fn a_file_replaced_inside_keeps_its_owner_for_good(w: &World) {
    with_each(w, |c| {
        c.outside("mkdir d; seq 9 > d/f; chown -R 4321:1234 d");
        c.sandbox("sed s/^2$/two/ d/f > d/new; mv d/new d/f");
        c.apply(&[]).ok();
        c.is("stat -c %u:%g d/f; sed -n 2p d/f", "4321:1234\ntwo");
        c.has_no_changes();
        c.whatif(&["undo", "--yes"]).ok();
        let said = c.whatif(&["diff", c.backend]).ok().stdout;
        assert!(said.contains("d/f") && !said.contains("owner"), "{}: {said}", c.backend);
    });
}

fn what_a_sandbox_made_is_the_trees_after_a_squash(w: &World) {
    w.outside("mkdir d; chown 4321:1234 d").ok();
    w.sandbox_with("s", "echo 1 > d/f");
    w.whatif(["snapshot", "s", "one"]).go().ok();
    w.whatif(["exec", "s", "--", "/bin/sh", "-c", "echo 2 >> d/f"]).go().ok();
    w.whatif(["snapshot", "s", "two"]).go().ok();
    w.apply(&["s"]).ok();
    w.whatif(["rollback", "s", "two"]).go().ok();
    w.whatif(["squash", "s"]).go().ok();
    assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().stdout, "");
    assert_eq!(w.outside("stat -c %u:%g d/f").ok().text(), "4321:1234");
}

fn a_directory_given_to_root_on_purpose_is_roots(w: &World) {
    with_each(w, |c| {
        c.outside("mkdir d; echo x > d/x; echo f > f; chown -R 4321:1234 d f");
        c.sandbox("echo X > d/x; chown 0:0 d f; echo F > f");
        c.apply(&["--all"]).ok();
        c.is("stat -c %u:%g d d/x f; cat f", "0:0\n4321:1234\n0:0\nF");
        c.has_no_changes();
    });
}

/// A rename takes the directory's attributes along; what reality did to it since is not lost with its old name.
fn a_renamed_directory_that_reality_closed(w: &World) {
    w.outside("mkdir -p src/deep; echo x > src/x; echo y > src/deep/y").ok();
    w.sandbox_with("s", "mv src lib; echo Y > lib/deep/y");
    w.outside("chmod 700 src").ok();
    w.apply(&["s"]).exits(1);
    assert_eq!(w.outside("stat -c %a src; cat src/x").ok().text(), "700\nx");
    w.outside("chmod 755 src; chmod 700 src/deep").ok();
    w.apply(&["s"]).exits(1);
    assert_eq!(w.outside("stat -c %a src/deep").ok().text(), "700");
}
