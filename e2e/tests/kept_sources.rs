//! `apply --ours` leaves reality's version where a sandbox moved something: what was moved stays where it was, however it was moved.
//! Only the sandbox would have it otherwise, and no diff would show it.

use whatif_e2e::{World, as_root_and_user, as_user, needs};

as_root_and_user!(
    what_was_moved_stays_where_it_was,
    what_was_moved_stays_where_it_was_over_fuse,
    what_was_moved_stays_where_it_was_over_a_copy,
    what_has_another_place_goes,
    an_old_name_that_was_not_chosen_stays_for_good,
    a_replaced_directory_can_be_settled,
);

fn what_was_moved_stays_where_it_was(w: &World) {
    nothing_goes(w, "overlay");
}

fn what_was_moved_stays_where_it_was_over_fuse(w: &World) {
    needs!(w, "fuse-overlayfs");
    // Not everybody may have file systems of their own; `backends` tests what is said then.
    if w.outside("exec 3<>/dev/fuse").code == 0 {
        nothing_goes(w, "fuse");
    }
}

fn what_was_moved_stays_where_it_was_over_a_copy(w: &World) {
    nothing_goes(w, "copy");
}

as_user!(a_closed_file_is_told_by_its_size);

fn a_closed_file_is_told_by_its_size(w: &World) {
    w.outside("echo gone > gone; echo content > stays; echo b > b; chmod 000 gone stays").ok();
    w.sandbox_with("s", "rm -f gone; chmod 600 stays; mv -f stays b");
    w.outside("echo mine > b").ok();
    w.apply(&["s", "--all", "--ours=**"]).ok();
    assert_eq!(w.outside("ls; cat b; chmod 600 stays; cat stays").ok().text(), "b\nstays\nmine\ncontent");
}

/// Files with five lines each that no other file has, in each of these directories.
fn files(w: &World, directories: &[&str]) {
    for directory in directories {
        let lines = format!("for f in a b c d/a; do for n in 1 2 3 4 5; do echo {directory}-$f-$n; done > $f; done");
        w.outside(&format!("mkdir -p {directory}/d; cd {directory}; {lines}; ln -s nowhere-{directory} l")).ok();
    }
}

fn nothing_goes(w: &World, backend: &str) {
    needs!(w, "setfattr", "getfattr");
    let mut ways = vec![
        ("over-a-file", "mv a b", "echo more >> b"),
        ("over-a-link", "mv a l", "rm l"),
        ("appended", "cat a >> b; rm a", "echo mine >> b"),
        ("edited", "echo more >> a; mv a b", "echo mine >> b"),
        ("made-binary", "printf 'x\\0y\\n' >> a; mv a b", "echo mine >> b"),
        ("swapped", "mv a t; mv b a; mv t b", "echo mine >> b"),
        ("rotated", "mv c new; mv b c; mv a b", "echo mine > new"),
        ("link", "mv l new", "ln -s elsewhere new"),
        ("binary", "mv bin b", "echo mine >> b"),
        ("merged", "mv d e", "mkdir e; echo mine > e/a"),
    ];
    // fuse-overlayfs does not let `mv` keep the attributes of a directory.
    if backend != "fuse" {
        ways.push(("attribute", "mv marked new", "mkdir new"));
    }
    let names: Vec<&str> = ways.iter().map(|way| way.0).collect();
    files(w, &names);
    w.outside("mkdir -p attribute/marked; setfattr -n user.k -v v attribute/marked; printf 'x\\0y' > binary/bin").ok();
    w.whatif(["new", "s", "--backend", backend]).go().ok();
    for (name, inside, _) in &ways {
        w.exec("s", &format!("cd {name}; {inside}")).ok();
    }
    w.whatif(["diff", "s"]).go().ok();
    for (name, _, theirs) in &ways {
        w.outside(&format!("cd {name}; {theirs}")).ok();
    }
    let real = || w.outside("getfattr -Rd .; ls -lR --time-style=+ | grep -v ^total; grep -ar . .").ok().stdout;
    let before = real();
    for fork in ["s", "fork"] {
        w.whatif(["apply", fork, "--all", "--yes"]).go().exits(1);
        if fork == "s" {
            w.whatif(["fork", "s", "fork"]).go().ok();
        } else {
            // What both have at the new name becomes one text with markers.
            w.whatif(["rebase", fork]).go().exits(1);
        }
        w.whatif(["apply", fork, "--all", "--yes", "--ours=**"]).go().ok();
        assert_eq!(real(), before, "{fork}");
        w.whatif(["apply", fork, "--all", "--yes"]).go().ok();
        assert_eq!(real(), before, "{fork}, applied again");
    }
}

/// What was only deleted, or is put somewhere else as well, is not in question.
fn what_has_another_place_goes(w: &World) {
    files(w, &["."]);
    w.sandbox_with("s", "cp a new; mv a b; rm c");
    w.outside("echo more >> b").ok();
    w.apply(&["s", "--all", "--ours=**"]).ok();
    assert_eq!(
        w.outside("ls; head -n 1 b new; tail -n 1 b").ok().text(),
        "b\nd\nl\nnew\n==> b <==\n.-b-1\n\n==> new <==\n.-a-1\nmore"
    );
}

/// The deletion of the old name is settled along with the new one; left in the diff, a later apply would take the content away.
fn an_old_name_that_was_not_chosen_stays_for_good(w: &World) {
    for (name, choice) in [("files", "--files=e/**"), ("exclude", "--exclude=d/**")] {
        w.outside("rm -rf *").ok();
        files(w, &["."]);
        w.sandbox_with(name, "mv d e; echo new > e/new; echo more >> a");
        w.outside("mkdir e; echo mine > e/a").ok();
        w.apply(&[name, choice, "--ours=**"]).ok();
        w.apply(&[name, "--all"]).ok();
        assert_eq!(w.outside("cat e/a e/new; head -n 1 d/a; tail -n 1 a").ok().text(), "mine\nnew\n.-d/a-1\nmore", "{name}");
    }
}

fn a_replaced_directory_can_be_settled(w: &World) {
    for (name, inside, theirs) in
        [("moved", "mv d e; echo file > d", "mkdir e; echo mine > e/a"), ("known", "rm -r d; echo file > d", "echo mine > d/mine")]
    {
        w.outside("rm -rf *").ok();
        files(w, &["."]);
        w.sandbox_with(name, inside);
        w.outside(theirs).ok();
        w.apply(&[name, "--all"]).exits(1);
        w.apply(&[name, "--all", "--ours=**"]).ok();
        w.outside("[ -d d ] && [ -e e/a ] || [ -e d/mine ]").ok();
        assert_eq!(w.whatif(["diff", name, "--name-only"]).go().ok().text(), "", "{name}");
    }
}
