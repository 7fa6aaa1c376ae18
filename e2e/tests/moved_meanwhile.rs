//! Reality renames or deletes a file while a sandbox has a copy of it, or shows it still.

use whatif_e2e::{World, as_root, as_root_and_user};

as_root_and_user!(
    a_file_that_reality_renamed_is_seen_as_it_is,
    a_change_to_a_file_that_reality_moved_away_does_not_bring_it_back,
    a_change_to_a_file_that_reality_deleted_with_its_directory_does_not_bring_it_back,
    what_is_renamed_inside_is_applied_although_reality_changed_the_directory,
    a_new_file_is_no_conflict_where_reality_replaced_the_only_other_one,
    a_write_to_a_long_file_that_puts_its_time_back_is_a_conflict,
    a_long_file_that_is_only_touched_is_none,
);
as_root!(what_is_renamed_inside_keeps_its_owner);

/// The kernel takes a copy and the file it was made of for one.
fn a_file_that_reality_renamed_is_seen_as_it_is(w: &World) {
    w.outside("echo old > a; echo old > unchanged; ln -s old link").ok();
    w.new_sandbox("s");
    w.exec("s", "echo mine >> a; touch unchanged; touch -h link").ok();
    w.outside("mkdir d; for f in a unchanged link; do mv $f d/$f; done; echo theirs >> d/a").ok();
    for names in ["a d/a unchanged d/unchanged", "d/a a d/unchanged unchanged"] {
        w.whatif(["stop", "s"]).go().ok();
        w.whatif(["start", "s"]).go().ok();
        w.exec("s", &format!("cat {names}")).ok();
    }
    assert_eq!(w.exec("s", "cat d/a; cat a; readlink d/link link").text(), "old\ntheirs\nold\nmine\nold\nold");
    // The two are not one file, whatever is written to either.
    w.exec("s", "echo more >> d/a").ok();
    assert_eq!(w.exec("s", "cat d/a; cat a").text(), "old\ntheirs\nmore\nold\nmine");
    w.whatif(["apply", "s", "--files=d/a", "--yes"]).go().ok();
    assert_eq!(w.read("d/a"), "old\ntheirs\nmore\n");
}

fn a_change_to_a_file_that_reality_moved_away_does_not_bring_it_back(w: &World) {
    shows_what_reality_deletes(w, "mv d/f aside");
}

fn a_change_to_a_file_that_reality_deleted_with_its_directory_does_not_bring_it_back(w: &World) {
    shows_what_reality_deletes(w, "rm -rf d; mkdir d; echo new > d/new");
}

fn shows_what_reality_deletes(w: &World, theirs: &str) {
    w.outside("mkdir d; echo old > d/f; echo old > d/g").ok();
    w.new_sandbox("s");
    w.exec_around("s", "cat d/f", theirs, "chmod 600 d/f");
    w.whatif(["apply", "s", "--all", "--yes"]).go().exits(1).says("reality deleted it");
    w.outside("[ ! -e d/f ]").ok();
    // Not even once nobody can see any more how it came about.
    w.whatif(["fork", "s", "f"]).go().ok();
    w.whatif(["stop", "s"]).go().ok();
    for name in ["s", "f"] {
        w.whatif(["apply", name, "--all", "--yes"]).go().exits(1);
    }
    w.whatif(["apply", "s", "--all", "--ours=**", "--yes"]).go().ok();
    w.outside("[ ! -e d/f ]").ok();
}

fn a_new_file_is_no_conflict_where_reality_replaced_the_only_other_one(w: &World) {
    w.outside("mkdir d; echo a > d/a; echo b > d/b").ok();
    w.new_sandbox("s");
    w.whatif(["exec", "s", "-d", "--", "/bin/sleep", "1000"]).go().ok();
    w.exec("s", "cat d/b; echo x >> d/a").ok();
    w.outside("sed -i s/b/B/ d/b").ok();
    w.exec("s", "echo n > d/new").ok();
    w.apply(&["s"]).ok();
    assert_eq!(w.outside("cat d/a d/b d/new").ok().text(), "a\nx\nB\nn");
}

fn what_is_renamed_inside_is_applied_although_reality_changed_the_directory(w: &World) {
    w.outside("mkdir d; echo old > d/f; seq 99 > d/g").ok();
    w.new_sandbox("s");
    w.whatif(["exec", "s", "-d", "--", "/bin/sleep", "1000"]).go().ok();
    w.outside("echo theirs > d/new").ok();
    w.exec("s", "mv d/f d/renamed; mv d/g d/edited; echo mine >> d/edited").ok();
    w.whatif(["apply", "s", "--all", "--yes"]).go().ok();
    assert_eq!(w.outside("cd d; ls; cat renamed; tail -n 1 edited").text(), "edited\nnew\nrenamed\nold\nmine");
}

/// A directory is copied when it is moved: what root makes in somebody's tree is theirs.
fn what_is_renamed_inside_keeps_its_owner(w: &World) {
    w.outside("mkdir d; echo old > d/f; echo old > g; chown 1000:1000 .").ok();
    w.new_sandbox("s");
    w.exec("s", "mv d e; mv g h; echo new > made").ok();
    w.whatif(["apply", "s", "--all", "--yes"]).go().ok();
    assert_eq!(w.outside("stat -c %u h e e/f made").text(), "0\n1000\n1000\n1000");
    assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().stdout, "");
}

/// Longer than what is hashed.
const LONG: &str = "truncate -s 70M long gone; touch -d 2020-01-01 long gone";

/// What is too long to be hashed is known by its times. Programs that keep a file in use, such as encrypted containers, put them back.
fn a_write_to_a_long_file_that_puts_its_time_back_is_a_conflict(w: &World) {
    w.outside(LONG).ok();
    w.sandbox_with("s", "echo sandbox >> long; rm gone");
    w.outside("for f in long gone; do printf reality | dd of=$f conv=notrunc status=none; touch -d 2020-01-01 $f; done").ok();
    let said = w.apply(&["s"]).exits(1).stderr;
    assert!(said.contains("conflict: long") && said.contains("conflict: gone"), "{said}");
    w.outside("for f in long gone; do head -c 7 $f | grep -q reality; done").ok();
    w.apply(&["s", "--theirs", "long", "--ours", "gone"]).ok();
}

/// A mode, a further name, an apply and its undo move the ctime of a file as well.
fn a_long_file_that_is_only_touched_is_none(w: &World) {
    w.outside(LONG).ok();
    w.sandbox_with("s", "echo sandbox >> long; rm gone");
    w.outside("chmod 700 long; ln gone other").ok();
    for _ in 0..2 {
        w.apply(&["s"]).ok();
        w.outside("[ $(stat -c %s%a long) = 73400328700 ] && ! [ -e gone ]").ok();
        w.whatif(["undo", "--yes"]).go().ok();
    }
}
