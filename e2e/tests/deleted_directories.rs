//! A sandbox deletes a directory, and reality goes on in it: what it does to a directory further down is not lost, and what stays
//! keeps the directories above it. One that an earlier apply made real is deleted like any other.

use whatif_e2e::{World, as_root_and_user, needs};

as_root_and_user!(
    what_reality_made_of_a_directory_in_a_deleted_one_is_not_lost,
    what_reality_made_of_a_directory_in_a_deleted_one_is_not_lost_over_fuse,
    what_reality_made_of_a_directory_in_a_deleted_one_is_not_lost_over_a_copy,
    names_that_went_from_a_directory_in_a_deleted_one_are_no_conflict,
    what_stays_keeps_all_directories_above_it,
    a_directory_that_an_apply_made_real_can_be_deleted,
    a_directory_of_which_nothing_was_changed_stays_deleted,
    what_is_put_in_its_place_does_not_hide_what_reality_did_in_it,
    nor_is_what_reality_did_before_a_conflict,
    what_a_link_in_its_place_leads_to_does_not_matter,
    nor_where_reality_has_such_a_link,
    what_is_deleted_where_a_process_stands_is_deleted,
    where_no_mark_can_be_made_the_sandbox_starts_all_the_same,
);

fn what_reality_made_of_a_directory_in_a_deleted_one_is_not_lost(w: &World) {
    looks_are_not_lost(w, "overlay");
}

fn what_reality_made_of_a_directory_in_a_deleted_one_is_not_lost_over_fuse(w: &World) {
    needs!(w, "fuse-overlayfs");
    // Not everybody may have file systems of their own; `backends` tests what is said then.
    if w.outside("exec 3<>/dev/fuse").code == 0 {
        looks_are_not_lost(w, "fuse");
    }
}

fn what_reality_made_of_a_directory_in_a_deleted_one_is_not_lost_over_a_copy(w: &World) {
    looks_are_not_lost(w, "copy");
}

fn looks_are_not_lost(w: &World, backend: &str) {
    needs!(w, "setfattr");
    for (name, theirs) in [("mode", "chmod 700 d/e/g"), ("attribute", "setfattr -n user.k -v v d/e/g")] {
        w.outside("rm -rf d; mkdir -p d/e/g; echo 1 > d/e/g/one; echo 2 > d/e/g/two").ok();
        w.whatif(["new", name, "--backend", backend]).go().ok();
        w.exec(name, "rm -rf d && mkdir d && echo new > d/new").ok();
        // A name that goes moves the same times.
        w.outside(&format!("{theirs}; rm d/e/g/two")).ok();
        let fork = format!("fork-of-{name}");
        w.whatif(["fork", name, &fork]).go().ok();
        for name in [name, &fork] {
            w.whatif(["apply", name, "--all", "--yes"]).go().exits(1).says("d/e/g: the sandbox deleted it, reality changed it");
        }
        w.whatif(["apply", name, "--all", "--ours=**", "--yes"]).go().ok();
        // Whoever keeps the directory keeps what is in it.
        w.outside("[ -d d/e/g ] && [ -e d/e/g/one ] && [ -e d/new ]").ok();
    }
}

fn names_that_went_from_a_directory_in_a_deleted_one_are_no_conflict(w: &World) {
    w.outside("mkdir -p d/e/g; echo 1 > d/e/g/one; echo 2 > d/e/g/two").ok();
    w.new_sandbox("s");
    w.exec("s", "rm -rf d").ok();
    w.outside("rm d/e/g/two").ok();
    w.whatif(["apply", "s", "--all", "--yes"]).go().ok();
    w.outside("[ ! -e d ]").ok();
}

fn what_stays_keeps_all_directories_above_it(w: &World) {
    for (name, choice) in [("ours", "--ours=**"), ("skip", "--skip=d/e/g/stays"), ("exclude", "--exclude=d/e/g/stays")] {
        w.outside("mkdir -p d/e/g d/e/h; echo 1 > d/e/g/one; echo 2 > d/e/h/two; echo 3 > d/e/g/stays").ok();
        w.new_sandbox(name);
        w.exec(name, "rm -rf d").ok();
        w.outside("echo theirs >> d/e/g/stays").ok();
        w.whatif(["apply", name, "--all", choice, "--yes"]).go().ok().says("still has something in it: d, d/e, d/e/g");
        assert_eq!(w.outside("find d | sort").ok().text(), "d\nd/e\nd/e/g\nd/e/g/stays");
        w.whatif(["undo", "--yes"]).go().ok();
        assert_eq!(w.read("d/e/g/one") + &w.read("d/e/h/two"), "1\n2\n");
    }
}

fn a_directory_that_an_apply_made_real_can_be_deleted(w: &World) {
    w.outside("mkdir -p d/e; echo 1 > d/one; echo 2 > d/e/two").ok();
    w.new_sandbox("s");
    w.exec("s", "mkdir -p new/deep; echo 1 > new/one; echo 2 > new/deep/two; mv d moved; mkdir other; echo 1 > other/one").ok();
    w.apply(&["s"]).ok();
    w.exec("s", "rm -r new moved other; mkdir other; echo another > other/two").ok();
    let listed = w.whatif(["diff", "s", "--name-only"]).go().ok().stdout;
    for path in ["new/one", "new/deep/two", "moved/one", "moved/e/two", "other/one", "other/two"] {
        assert!(listed.lines().any(|line| line == path), "{path}: {listed}");
    }
    w.apply(&["s"]).ok();
    assert_eq!(w.outside("find . -type f").ok().text(), "./other/two");
    assert!(w.whatif(["status", "s"]).go().ok().stdout.contains("everything it changed was applied"));
    w.whatif(["undo", "--yes"]).go().ok();
    assert_eq!(w.read("moved/e/two") + &w.read("new/deep/two") + &w.read("other/one"), "2\n2\n1\n");
}

/// Its file was copied up without a change. What was changed beside it is applied, and nothing is left to apply.
fn a_directory_of_which_nothing_was_changed_stays_deleted(w: &World) {
    w.outside("mkdir -p d/e; echo 1 > d/e/one; echo 2 > d/e/two").ok();
    w.sandbox_with("s", "chmod 600 d/e/one; chmod 644 d/e/one; echo new > d/new");
    w.outside("rm -r d").ok();
    w.apply(&["s"]).ok();
    assert_eq!(w.read("d/new"), "new\n");
    w.whatif(["diff", "s", "--exit-code"]).go().ok();
}

/// What the sandbox has in the place of a directory is younger than what it never saw in there.
fn what_is_put_in_its_place_does_not_hide_what_reality_did_in_it(w: &World) {
    let steps = [
        ("rm -r c/d", "mkdir c/d"),
        ("rm -r c/d", "mkdir c/d; echo mine > c/d/w"),
        ("rm -r c/d", "rm -r c; mkdir c; echo y > c/y"),
        ("mv c/d k", "ln -s ../k c/d"),
        ("rm -r c/d; echo file > c/d", "mv c/d c/k"),
        ("rm -r c/d; mkdir c/d; echo s > c/d/s", "mv c/d c/q"),
        ("rm -r c/d; mkdir c/d", "rmdir c/d; ln -s ../k c/d"),
    ];
    for ((first, second), is_made_inside) in steps.into_iter().flat_map(|step| [(step, false), (step, true)]) {
        w.outside("rm -rf -- *").ok();
        w.new_sandbox("s");
        let make = "mkdir -p c/d; echo w > c/d/w; echo z > c/z";
        if is_made_inside {
            w.exec("s", make).ok();
            w.apply(&["s"]).ok();
        } else {
            w.whatif(["rm", "s"]).go().ok();
            w.outside(make).ok();
            w.new_sandbox("s");
        }
        w.exec("s", first).ok();
        w.outside("echo added > c/d/new").ok();
        w.exec("s", second).ok();
        let context = format!("{first}, {second}, made inside: {is_made_inside}");
        assert_eq!(w.apply(&["s"]).code, 1, "{context}");
        assert_eq!((w.read("c/d/w"), w.read("c/d/new")), ("w\n".into(), "added\n".into()), "{context}");
        w.whatif(["rm", "--yes", "s"]).go().ok();
    }
}

/// It was there when the sandbox deleted it.
fn nor_is_what_reality_did_before_a_conflict(w: &World) {
    w.outside("mkdir -p c/d; echo w > c/d/w; echo z > c/z").ok();
    w.new_sandbox("s");
    w.outside("echo edited > c/d/w; echo added > c/d/new").ok();
    w.exec("s", "rm -r c/d").ok();
    w.exec("s", "mkdir c/d; echo mine > c/d/w").ok();
    w.apply(&["s"]).ok();
    assert_eq!(w.outside("find c -type f | sort | xargs cat").ok().text(), "mine\nz");
}

/// To itself, to somewhere that is closed, to where the same names are.
const LINKS: [&str; 3] = ["d", "closed", "other"];

fn with_link_targets(w: &World) {
    w.outside("rm -rf -- *; mkdir -p d other closed; echo 1 > d/f; echo 2 > other/f; echo 3 > g; chmod 000 closed").ok();
}

fn what_a_link_in_its_place_leads_to_does_not_matter(w: &World) {
    for target in LINKS {
        with_link_targets(w);
        w.sandbox_with(target, &format!("rm -r d; ln -s {target} d; echo more >> g"));
        w.apply(&[target]).ok();
        assert_eq!(w.outside("readlink d; cat g").ok().text(), format!("{target}\n3\nmore"));
        let said = w.whatif(["status", target]).go().ok().stdout;
        assert!(said.contains("everything it changed was applied") || said.contains("has not moved"), "{target}: {said}");
        w.whatif(["diff", target, "--exit-code"]).go().ok();
        w.whatif(["undo", "--yes"]).go().ok();
        assert_eq!(w.read("d/f") + &w.read("g") + &w.read("other/f"), "1\n3\n2\n");
    }
}

fn nor_where_reality_has_such_a_link(w: &World) {
    for target in LINKS {
        with_link_targets(w);
        w.sandbox_with(target, "echo more >> d/f; echo more >> g");
        w.outside(&format!("rm -r d; ln -s {target} d")).ok();
        w.apply(&[target]).exits(1).says("d/f: the sandbox changed it, reality deleted it");
        w.apply(&[target, "--files", "g"]).ok();
        w.whatif(["rebase", target]).go().exits(1);
        w.apply(&[target, "--theirs", "d"]).ok();
        assert_eq!(w.read("d/f") + &w.read("g") + &w.read("other/f"), "1\nmore\n3\nmore\n2\n");
    }
}

/// The kernel does not look up again what a process stands in: that reality has it, too, by now. So it leaves no mark where something
/// in there is deleted.
fn what_is_deleted_where_a_process_stands_is_deleted(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "mkdir -p c/d/e; echo w > c/d/w; echo z > c/z; echo f > c/d/e/f; echo k > c/k").ok();
    let apply = format!("{} apply s --yes", w.bin.display());
    w.exec_around("s", "cd c; ls -R", &apply, "rm z; mv k d/k; rm -r d/e");
    let gone = "c/d/e/f\nc/d/k\nc/z\n";
    assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().stdout, gone);
    // Nobody stands there any more, and what was deleted is not seen again.
    assert_eq!(w.exec("s", "find c | sort").ok().stdout, "c\nc/d\nc/d/k\nc/d/w\n");
    assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().stdout, gone);
    w.apply(&["s"]).ok();
    assert_eq!(w.outside("find c | sort").ok().stdout, "c\nc/d\nc/d/k\nc/d/w\n");
    assert_eq!(w.exec("s", "find c | sort").ok().stdout, "c\nc/d\nc/d/k\nc/d/w\n");
}

fn where_no_mark_can_be_made_the_sandbox_starts_all_the_same(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "mkdir c; echo w > c/w; echo z > c/z").ok();
    let apply = format!("{} apply s --yes", w.bin.display());
    // Root may write in a closed directory, and makes its mark.
    w.exec_around("s", "cd c; ls", &apply, "rm z; chmod 555 .");
    w.outside("echo added > c/new").ok();
    w.whatif(["stop", "s"]).go().ok();
    w.whatif(["start", "s"]).go().ok();
    assert_eq!(w.exec("s", "cat c/w c/new").ok().stdout, "w\nadded\n");
    assert!(w.whatif(["diff", "s"]).go().ok().stdout.contains("D  c/z"));
    w.apply(&["s"]).ok();
    assert_eq!(w.outside("ls c").ok().stdout, "new\nw\n");
}
