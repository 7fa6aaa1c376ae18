//! Reality puts something into a directory that the sandbox has replaced. An older layer says so, and the head does not: what lies
//! in that directory was never seen, whatever the sandbox does there since.

use whatif_e2e::{World, as_root_and_user};

as_root_and_user!(
    what_reality_puts_into_a_directory_replaced_before_a_snapshot_is_not_lost,
    what_reality_puts_into_a_directory_replaced_before_a_fork_is_not_lost,
    what_reality_puts_into_a_directory_is_not_deleted_with_the_one_that_replaced_it,
    what_reality_puts_into_a_directory_renamed_over_is_not_lost,
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
