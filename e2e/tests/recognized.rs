//! What an apply left is known again by what it is, not by inode and time alone: an edit that keeps them is one, and a file that
//! was written again with the same bytes is not.

use whatif_e2e::{World, as_root_and_user, needs};

as_root_and_user!(
    an_undo_sees_an_edit_that_keeps_size_and_time,
    an_undo_sees_no_edit_in_the_same_bytes,
    a_second_apply_sees_an_edit_that_keeps_size_and_time,
);

/// Another byte in place, with the time put back.
fn edit_in_place(w: &World, path: &str) {
    w.outside(&format!("cp -p {path} {path}.ref; printf X | dd of={path} conv=notrunc status=none; touch -r {path}.ref {path}"))
        .ok();
    w.outside(&format!("rm {path}.ref")).ok();
}

fn an_undo_sees_an_edit_that_keeps_size_and_time(w: &World) {
    w.outside("echo f > f; printf '\\0b' > binary").ok();
    w.sandbox_with("s", "echo F > f; printf '\\0B' > binary; mkdir d; echo n > d/n");
    w.apply(&["s"]).ok();
    for path in ["f", "binary", "d/n"] {
        edit_in_place(w, path);
    }
    let outcome = w.whatif(["undo", "--yes"]).go().exits(1);
    for path in ["f", "binary", "d/n"] {
        assert!(outcome.stderr.contains(&format!("{path} was modified")), "{path}: {}", outcome.stderr);
    }
    assert_eq!((w.read("f"), w.read("d/n")), ("X\n".into(), "X\n".into()));
}

fn an_undo_sees_no_edit_in_the_same_bytes(w: &World) {
    needs!(w, "git");
    w.outside("git init -q .; git config user.name n; git config user.email e; echo f > f; echo t > t; ln -s a l; git add -A").ok();
    w.outside("git commit -qm first").ok();
    w.sandbox_with("s", "echo F > f; echo T > t; ln -sfn b l; mkdir d; echo n > d/n");
    w.apply(&["s"]).ok();
    w.outside("touch t; git stash -qu; git stash pop -q").ok();
    assert_eq!(w.read("d/n"), "n\n");
    w.whatif(["undo", "--yes"]).go().ok();
    assert_eq!(w.outside("cat f t; readlink l; ls").ok().stdout, "f\nt\na\nf\nl\nt\n");
}

fn a_second_apply_sees_an_edit_that_keeps_size_and_time(w: &World) {
    w.outside("printf '\\0old\\n' > binary").ok();
    w.sandbox_with("s", "printf '\\0new\\n' > binary");
    w.apply(&["s"]).ok();
    edit_in_place(w, "binary");
    w.exec("s", "printf '\\0later\\n' > binary").ok();
    w.apply(&["s"]).exits(1);
    assert_eq!(w.read("binary"), "Xnew\n");
}
