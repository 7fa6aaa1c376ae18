//! Hard links that a sandbox makes become hard links in reality, and those of reality are not broken without a word.

use whatif_e2e::{Terminal, World, as_root, as_root_and_user, change};

as_root_and_user!(
    a_link_to_an_unchanged_file_becomes_one,
    a_link_that_replaces_a_file_becomes_one,
    a_file_and_its_link_changed_together_become_one,
    attributes_changed_with_a_link_are_those_of_both_names,
    one_of_two_names_alone_is_a_file_of_its_own,
    a_rejected_file_is_not_linked_to,
    a_file_of_which_realitys_version_was_kept_is_not_linked_to,
    reality_edited_the_file_meanwhile,
    reality_changed_its_mode_meanwhile,
    reality_replaced_the_file_meanwhile,
    reality_deleted_the_file_meanwhile,
    undone_and_done_once_more,
    an_undo_after_the_file_was_edited,
    frozen_in_a_snapshot_and_forked,
    carried_by_an_archive,
    a_commit_and_checks_see_the_content,
    a_diff_says_what_a_link_is_a_name_of,
    names_that_stay_behind_are_named,
    what_the_sandbox_does_later_is_one_file_again,
    a_rebase_keeps_names_together,
    a_rebase_makes_names_that_both_sides_have_one_file_again,
    a_rebase_merges_a_file_once_for_all_its_names,
    a_rebase_keeps_names_of_a_snapshot_together,
    work_on_one_of_realitys_names_is_whole_after_a_restart,
);
as_root!(a_link_out_of_the_project_needs_its_own_approval);

/// The ways of copy-on-write that work here.
fn backends(w: &World) -> Vec<&'static str> {
    let has_fuse = w.has("fuse-overlayfs") && w.outside("exec 3<>/dev/fuse").code == 0;
    ["overlay", "copy"].into_iter().chain(has_fuse.then_some("fuse")).collect()
}

struct Case<'w> {
    w: &'w World,
    backend: &'static str,
    dir: String,
}

/// Plays a case with each backend, in a project of its own with a file `old`.
fn with_each(w: &World, case: impl Fn(&Case<'_>)) {
    for backend in backends(w) {
        let dir = format!("on-{backend}");
        w.outside(&format!("mkdir {dir} && printf '1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n' > {dir}/old && echo o > {dir}/other")).ok();
        case(&Case { w, backend, dir });
    }
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
    fn are_one_file(&self, names: &[&str]) {
        let inodes = self.outside(&format!("stat -c %i {} | sort -u | wc -l", names.join(" ")));
        assert_eq!(inodes.trim(), "1", "{}: {names:?} are one file", self.backend);
        self.is(&format!("stat -c %h {}", names[0]), &names.len().to_string());
    }

    #[track_caller]
    fn is_alone(&self, name: &str) {
        self.is(&format!("stat -c %h {name}"), "1");
    }

    #[track_caller]
    fn has_no_changes(&self) {
        let said = self.whatif(&["diff", self.backend, "--name-only"]).ok().stdout;
        assert_eq!(said.trim(), "", "{}: nothing is left to apply", self.backend);
    }
}

fn a_link_to_an_unchanged_file_becomes_one(w: &World) {
    with_each(w, |c| {
        let inode = c.outside("stat -c %i old");
        c.sandbox("ln old new; mkdir d; ln old d/deep");
        let said = c.whatif(&["apply", c.backend, "--dry-run"]).ok().stdout;
        assert!(said.contains("new (hard link to old)"), "{}: {said}", c.backend);
        c.apply(&[]).ok();
        c.are_one_file(&["old", "new", "d/deep"]);
        c.is("stat -c %i new", inode.trim_end());
        c.has_no_changes();
        assert!(c.whatif(&["status", c.backend]).ok().stdout.contains("everything it changed was applied"), "{}", c.backend);
    });
}

fn a_link_that_replaces_a_file_becomes_one(w: &World) {
    with_each(w, |c| {
        c.sandbox("ln -f old other");
        c.apply(&[]).ok();
        c.are_one_file(&["old", "other"]);
        c.has_no_changes();
        c.whatif(&["undo", "--yes"]).ok();
        c.is("cat other", "o");
        c.is_alone("old");
    });
}

fn a_file_and_its_link_changed_together_become_one(w: &World) {
    with_each(w, |c| {
        c.sandbox("ln old a-new; echo 9 >> a-new");
        c.apply(&[]).ok();
        c.are_one_file(&["old", "a-new"]);
        c.is("tail -n 1 old", "9");
        c.has_no_changes();
    });
}

fn attributes_changed_with_a_link_are_those_of_both_names(w: &World) {
    with_each(w, |c| {
        c.sandbox("ln old new; chmod 640 new");
        c.apply(&[]).ok();
        c.are_one_file(&["old", "new"]);
        c.is("stat -c %a old", "640");
        c.has_no_changes();
    });
}

fn one_of_two_names_alone_is_a_file_of_its_own(w: &World) {
    with_each(w, |c| {
        c.sandbox("echo 9 >> old; ln old new; ln old third");
        c.apply(&["--skip", "old", "--skip", "third"]).ok();
        c.is_alone("new");
        c.is_alone("old");
        c.is("tail -qn 1 old new", "8\n9");
        c.apply(&["--files", "third"]).ok();
        c.are_one_file(&["new", "third"]);
        c.apply(&[]).ok();
        c.are_one_file(&["old", "new", "third"]);
        c.has_no_changes();
    });
}

fn a_rejected_file_is_not_linked_to(w: &World) {
    w.write("a-old", "o\n");
    w.write("b-old", "o\n");
    w.sandbox_with("s", "ln a-old a-zzz; echo n >> a-old; ln b-old zzz");
    // Of a-old, a-zzz and zzz, the names but not the file they were made of, and not the last one.
    let mut terminal = Terminal::with_whatif(w, &["review", "s"]);
    terminal.expect("a-zzz");
    terminal.type_in("xaxq");
    terminal.expect("1 accepted, 2 rejected");
    terminal.ends();
    w.apply(&["s"]).ok();
    assert_eq!(
        w.outside("cat a-old a-zzz; stat -c %h a-old a-zzz b-old; test -e zzz || echo none").ok().stdout,
        "o\no\nn\n1\n1\n1\nnone\n"
    );
}

fn a_file_of_which_realitys_version_was_kept_is_not_linked_to(w: &World) {
    with_each(w, |c| {
        c.sandbox("sed -i s/1/sandbox/ old");
        c.outside("sed -i s/1/reality/ old");
        c.apply(&["--ours", "old"]).ok();
        c.whatif(&["start", c.backend]).ok();
        c.exec("ln old new");
        c.apply(&[]).ok();
        c.is("head -qn 1 old new", "reality\nsandbox");
    });
}

fn reality_edited_the_file_meanwhile(w: &World) {
    with_each(w, |c| {
        // What the sandbox linked to is the file, whatever is in it by now.
        c.sandbox("ln old new");
        c.outside("sed -i s/1/one/ old");
        c.apply(&[]).ok();
        c.are_one_file(&["old", "new"]);
        c.is("head -n 1 new", "one");
        c.has_no_changes();

        // Both edited it: the merge is in both names.
        c.outside("rm new; printf '1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n' > text");
        c.whatif(&["rm", c.backend, "--yes"]).ok();
        c.sandbox("ln text a; sed 's/8/eight/' text > x; cat x > text; rm x");
        c.outside("sed -i s/1/one/ text");
        c.apply(&[]).ok();
        c.are_one_file(&["text", "a"]);
        c.is("sed -n '1p;8p' a", "one\neight");
        c.has_no_changes();
    });
}

fn reality_changed_its_mode_meanwhile(w: &World) {
    with_each(w, |c| {
        // The new name sorts before the old one, which is the one that reality changed.
        c.sandbox("ln old a-new; echo 9 >> old");
        c.outside("chmod 600 old");
        c.apply(&[]).ok();
        c.are_one_file(&["old", "a-new"]);
        c.is("stat -c %a old; tail -n 1 old", "600\n9");
    });
}

fn reality_replaced_the_file_meanwhile(w: &World) {
    with_each(w, |c| {
        c.sandbox("ln old new");
        c.outside("mkdir d; mv old d/was; ln -s d/was old");
        c.apply(&[]).ok();
        c.is("readlink old", "d/was");
        c.is_alone("new");
        c.is_alone("d/was");
        c.is("head -n 1 new", "1");
    });
}

fn reality_deleted_the_file_meanwhile(w: &World) {
    with_each(w, |c| {
        c.sandbox("ln old new");
        c.outside("rm old");
        c.apply(&["--skip", "old"]).ok();
        c.is_alone("new");
        c.is("head -n 1 new", "1");
        c.is("test -e old || echo gone", "gone");
    });
}

fn undone_and_done_once_more(w: &World) {
    with_each(w, |c| {
        let before = c.outside("stat -c '%i %a %Y %h' old other; cat old other");
        c.sandbox("ln old new; ln -f old other");
        let id = c.whatif(&["apply", c.backend, "--yes", "--json"]).ok().json()["apply"]["id"].as_str().expect("an id").to_owned();
        c.whatif(&["undo", &id, "--yes"]).ok();
        c.is("test -e new || echo gone", "gone");
        assert_eq!(c.outside("stat -c '%i %a %Y %h' old other; cat old other"), before, "{}", c.backend);
        let undo = c.whatif(&["history", "--json"]).ok().json()[0]["id"].as_str().expect("an id").to_owned();
        c.whatif(&["undo", &undo, "--yes"]).ok();
        c.are_one_file(&["old", "new", "other"]);
    });
}

fn an_undo_after_the_file_was_edited(w: &World) {
    with_each(w, |c| {
        c.sandbox("ln old new");
        c.apply(&[]).ok();
        c.outside("echo later >> old");
        c.whatif(&["undo", "--yes"]).ok();
        c.is("test -e new || echo gone; tail -n 1 old; stat -c %h old", "gone\nlater\n1");

        // If the new name is the only one left, it is not taken.
        c.apply(&[]).ok();
        c.outside("echo last >> old; rm old");
        c.whatif(&["undo", "--yes"]).exits(1);
        c.is("tail -n 1 new", "last");
    });
}

fn frozen_in_a_snapshot_and_forked(w: &World) {
    with_each(w, |c| {
        c.sandbox("ln old new");
        c.whatif(&["stop", c.backend]).ok();
        c.whatif(&["snapshot", c.backend, "one"]).ok();
        let fork = format!("fork-{}", c.backend);
        c.whatif(&["fork", &format!("{}@one", c.backend), &fork]).ok();
        c.whatif(&["apply", &fork, "--yes"]).ok();
        c.are_one_file(&["old", "new"]);
    });
}

fn carried_by_an_archive(w: &World) {
    with_each(w, |c| {
        c.sandbox("ln old new; echo 9 >> old; ln other another");
        c.whatif(&["stop", c.backend]).ok();
        c.whatif(&["export", "--force", c.backend, "-o", "../archive"]).ok();
        c.whatif(&["rm", c.backend, "--yes"]).ok();
        c.whatif(&["import", "../archive", "--name", c.backend, "--backend", c.backend]).ok();
        c.outside("rm ../archive");
        c.apply(&[]).ok();
        c.are_one_file(&["old", "new"]);
        c.are_one_file(&["other", "another"]);
        c.is("tail -n 1 new", "9");
    });
}

fn a_commit_and_checks_see_the_content(w: &World) {
    let c = Case { w, backend: "overlay", dir: ".".to_owned() };
    c.outside("git init -q . && git config user.name T && git config user.email t@example.org && echo o > old && git add old && git commit -qm one");
    w.write(
        ".whatif.toml",
        "[[apply.checks]]\nname = \"same\"\nrun = \"cmp a old && cmp new old && test new -ef old && test a -ef old\"\n",
    );
    c.sandbox("ln old a; ln old new");
    c.apply(&["--commit"]).ok();
    c.are_one_file(&["old", "new", "a"]);
    c.is("git show HEAD:new HEAD:a; git status --porcelain -uno", "o\no");
}

fn a_diff_says_what_a_link_is_a_name_of(w: &World) {
    with_each(w, |c| {
        c.sandbox("ln old new; echo n > x; ln x y");
        let said = c.whatif(&["diff", c.backend]).ok().stdout;
        assert!(said.contains("hard link to old") && said.contains("hard link to x"), "{}: {said}", c.backend);
        let document = c.whatif(&["diff", c.backend, "--json"]).ok().json();
        assert_eq!(change(&document, "new")["hard_link"], "old");
        assert_eq!(change(&document, "y")["hard_link"], "x");
        assert!(change(&document, "x")["hard_link"].is_null());
        let plan = c.whatif(&["apply", c.backend, "--dry-run", "--json"]).ok().json();
        let steps = plan["steps"].as_array().expect("steps");
        assert!(steps.iter().any(|s| s["path"] == "new" && s["what"] == "add" && s["hard_link"] == "old"), "{plan}");
    });
}

fn names_that_stay_behind_are_named(w: &World) {
    // fuse-overlayfs takes all names of a file for one of them.
    for backend in backends(w).into_iter().filter(|b| *b != "fuse") {
        w.outside(&format!("mkdir {backend} && echo o > {backend}/one && ln {backend}/one {backend}/two")).ok();
        let c = Case { w, backend, dir: backend.to_owned() };
        c.sandbox("echo more >> one");
        let document = c.whatif(&["diff", backend, "--json"]).ok().json();
        let flags = change(&document, "one")["flags"].to_string();
        assert!(flags.contains("other_names"), "{backend}: {flags}");
        let outcome = c.apply(&[]).ok();
        let said = outcome.stdout + &outcome.stderr;
        assert!(said.contains("other names of one keep the earlier version"), "{backend}: {said}");
        c.is("cat one two", "o\nmore\no");
        c.whatif(&["undo", "--yes"]).ok();
        c.are_one_file(&["one", "two"]);

        // All names changed alike: nothing stays behind.
        c.whatif(&["rm", backend, "--yes"]).ok();
        c.sandbox("echo more >> one; ln -f one two");
        let outcome = c.apply(&[]).ok();
        let said = outcome.stdout + &outcome.stderr;
        assert!(!said.contains("earlier version"), "{backend}: {said}");
        c.are_one_file(&["one", "two"]);
        c.is("cat two", "o\nmore");
    }
}

fn what_the_sandbox_does_later_is_one_file_again(w: &World) {
    with_each(w, |c| {
        c.sandbox("ln old new");
        c.apply(&[]).ok();
        c.exec("echo 9 >> new");
        c.apply(&[]).ok();
        c.are_one_file(&["old", "new"]);
        c.is("tail -n 1 old", "9");
        c.has_no_changes();
    });
}

fn a_rebase_keeps_names_together(w: &World) {
    with_each(w, |c| {
        c.sandbox("ln old new; ln -f old other; mkdir d; ln old d/deep");
        c.outside("sed -i s/1/one/ old; chmod 600 old");
        c.whatif(&["rebase", c.backend]).ok();
        assert_eq!(
            c.exec("[ old -ef new ]; [ old -ef other ]; [ old -ef d/deep ]; head -n 1 old; stat -c '%h %a' new"),
            "one\n4 600\n",
            "{}",
            c.backend
        );
        c.apply(&[]).ok();
        c.are_one_file(&["old", "new", "other", "d/deep"]);
        c.has_no_changes();
    });
}

fn a_rebase_makes_names_that_both_sides_have_one_file_again(w: &World) {
    with_each(w, |c| {
        // fuse-overlayfs loses what is written to a file of which reality has several names.
        if c.backend == "fuse" {
            return;
        }
        c.outside("seq 9 > a; ln a b");
        c.sandbox("echo 10 >> a; ln -f a b");
        c.outside("sed s/1/one/ a > x; cat x > a; rm x");
        c.whatif(&["rebase", c.backend]).ok();
        assert_eq!(c.exec("[ a -ef b ]; sed -n '1p;10p' b"), "one\n10\n", "{}", c.backend);
        c.apply(&[]).ok();
        c.are_one_file(&["a", "b"]);
        c.has_no_changes();
    });
}

fn a_rebase_merges_a_file_once_for_all_its_names(w: &World) {
    with_each(w, |c| {
        // Some names sort before the one that reality has, and some after it.
        c.sandbox("ln old a-new; ln old z-new; sed 's/8/eight/' old > x; cat x > old; rm x");
        c.outside("sed -i s/1/one/ old");
        c.whatif(&["rebase", c.backend]).ok();
        assert_eq!(c.exec("[ old -ef a-new ]; [ old -ef z-new ]; sed -n '1p;8p' z-new"), "one\neight\n", "{}", c.backend);
        // Markers are in all of them, and settled once.
        c.outside("sed -i s/8/acht/ old");
        let said = c.whatif(&["rebase", c.backend]);
        assert!(said.stdout.contains("a-new") || said.stderr.contains("a-new"), "{}: {said:?}", c.backend);
        c.exec("[ old -ef a-new ]; grep -q '^<<<<<<<' a-new; sed '/^[<=>]\\{7\\}/d; /^acht$/d' z-new > x; cat x > z-new; rm x");
        c.apply(&[]).ok();
        c.are_one_file(&["old", "a-new", "z-new"]);
        c.is("sed -n '1p;8p' a-new", "one\neight");
    });
}

fn a_rebase_keeps_names_of_a_snapshot_together(w: &World) {
    with_each(w, |c| {
        c.sandbox("mkdir d; ln old d/new");
        c.whatif(&["snapshot", c.backend]).ok();
        c.outside("sed -i s/1/one/ old");
        c.whatif(&["rebase", c.backend]).ok();
        assert_eq!(c.exec("[ old -ef d/new ]; head -n 1 d/new; stat -c %h old"), "one\n2\n", "{}", c.backend);
        c.apply(&[]).ok();
        c.are_one_file(&["old", "d/new"]);
        c.is("head -n 1 d/new", "one");
    });
}

fn a_link_out_of_the_project_needs_its_own_approval(w: &World) {
    let outside = w.home.join("precious");
    w.write(&outside, "p\n");
    w.sandbox_with("a", &format!("ln {} stolen", outside.display()));
    let document = w.json(["diff", "a", "--json"]);
    assert!(change(&document, "stolen")["flags"].to_string().contains("link_outside"), "{document}");
    w.apply(&["a"]).ok();
    w.outside("test ! -e stolen").ok();
    w.apply(&["a", "--risky"]).ok();
    w.outside(&format!("test stolen -ef {}", outside.display())).ok();
}

/// fuse-overlayfs takes the copy and the other name for one file if it is let, and shows a mix of both. It does so for what lies
/// directly in a tree, and a project that is not in the home is one.
fn work_on_one_of_realitys_names_is_whole_after_a_restart(w: &World) {
    let project = w.dir.join("apart");
    // fuse-overlayfs keeps such names together, and stores the work under either of them (docs/apply.md).
    for backend in backends(w).into_iter().filter(|backend| *backend != "fuse") {
        for way in [["stop", "start"].as_slice(), &["snapshot"]] {
            w.mkdir(&project);
            let outside = |script: &str| w.program("/bin/sh").args(["-euc", script]).cwd(&project).go().ok().stdout;
            let whatif = |arguments: &[&str]| w.whatif([]).args(arguments).cwd(&project).go().ok().stdout;
            outside("echo base > a; ln a b");
            whatif(&["new", "s", "--backend", backend]);
            whatif(&["exec", "s", "--", "/bin/sh", "-c", "echo an hour of work >> a"]);
            way.iter().for_each(|verb| drop(whatif(&[verb, "s"])));
            assert_eq!(whatif(&["exec", "s", "--", "cat", "a"]), "base\nan hour of work\n", "{backend} after {way:?}");
            whatif(&["exec", "s", "--", "sed", "-i", "s/base/BASE/", "a"]);
            whatif(&["apply", "s", "--all", "--yes"]);
            assert_eq!(outside("cat a b"), "BASE\nan hour of work\nbase\n");
            whatif(&["rm", "s", "--yes"]);
            outside("rm a b");
        }
    }
}
