//! Reality puts something into a directory that the sandbox has replaced. An older layer says so, and the head does not: what lies
//! in that directory was never seen, whatever the sandbox does there since.

use whatif_e2e::{World, as_root_and_user};

as_root_and_user!(
    what_reality_puts_into_a_directory_replaced_before_a_snapshot_is_not_lost,
    what_reality_puts_into_a_directory_replaced_before_a_fork_is_not_lost,
    what_reality_puts_into_a_directory_is_not_deleted_with_the_one_that_replaced_it,
    what_reality_puts_into_a_directory_renamed_over_is_not_lost,
    a_directory_with_ignored_files_can_be_replaced,
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
