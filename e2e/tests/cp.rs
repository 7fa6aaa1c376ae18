//! `cp`: a copy takes the room that the original takes, and is whole or not there.

use std::fs;
use std::os::unix::fs::MetadataExt;

use whatif_e2e::{World, as_root_and_user, on_other_backends};

as_root_and_user!(
    holes_stay_holes_both_ways,
    what_is_the_same_already_is_not_copied,
    a_copy_that_fails_leaves_nothing,
    a_directory_may_have_many_entries,
);
on_other_backends!(holes_stay_holes_both_ways,);

/// 200 MiB, of which little was ever written.
const SPARSE: &str = "truncate -s 200M sparse; printf begin | dd of=sparse conv=notrunc status=none; \
    printf middle | dd of=sparse bs=1M seek=100 conv=notrunc status=none";

fn holes_stay_holes_both_ways(w: &World) {
    let name = w.new_sandbox("holes");
    w.exec(&name, SPARSE).ok();
    w.whatif(["cp", "holes:sparse", "out"]).go().ok();
    let out = fs::metadata(w.project.join("out")).expect("it was copied");
    assert_eq!(out.len(), 200 << 20);
    assert!(out.blocks() * 512 < 2 << 20, "{} KiB", out.blocks() / 2);
    let parts = "head -c 5 out; tail -c +104857601 out | head -c 6";
    assert_eq!(w.outside(parts).ok().stdout, "beginmiddle");
    // In the place of another file.
    w.write("old", "old");
    w.whatif(["cp", "--force", "holes:sparse", "old"]).go().ok();
    let old = fs::metadata(w.project.join("old")).expect("it was copied");
    assert!(old.len() == 200 << 20 && old.blocks() * 512 < 2 << 20, "{} KiB", old.blocks() / 2);
    w.whatif(["cp", "out", "holes:in"]).go().ok();
    let inside = w.exec(&name, "stat -c '%s %b' in; cmp in sparse && echo same").ok().stdout;
    let blocks = inside.split_whitespace().nth(1).and_then(|blocks| blocks.parse::<u64>().ok());
    assert!(inside.starts_with("209715200 ") && inside.ends_with("same\n"), "{inside}");
    assert!(blocks.is_some_and(|blocks| blocks * 512 < 2 << 20), "{inside}");
}

fn what_is_the_same_already_is_not_copied(w: &World) {
    let name = w.new_sandbox("same");
    w.exec(&name, "mkdir d; echo 1 > d/a; echo 22 > d/b").ok();
    w.outside("mkdir d; echo 1 > d/a").ok();
    let said = |arguments: &[&str]| w.whatif([&["cp"], arguments].concat()).go().ok().stderr;
    assert_eq!(said(&["same:d/a", "d/a"]), "nothing to copy: 1 file is already the same there\n");
    assert_eq!(said(&["same:d", "."]), "1 file copied, 3 B; 1 more already the same there\n");
    assert_eq!(said(&["same:d/a", "new"]), "1 file copied, 2 B\n");
    let document = w.json(["cp", "same:d/a", "d/a"]);
    assert_eq!((&document["files"], &document["equal"], &document["bytes"]), (&1.into(), &1.into(), &0.into()), "{document}");
}

/// A limit on the length of files is reached as a full disk is: in the middle.
fn a_copy_that_fails_leaves_nothing(w: &World) {
    let name = w.new_sandbox("fails");
    w.exec(&name, "head -c 9000000 /dev/urandom > long; mkdir d; cp long d/long").ok();
    w.outside("head -c 9000000 /dev/urandom > real; echo old > there").ok();
    let limited = |arguments: &str| {
        let script = format!("trap '' XFSZ; ulimit -f 4000; exec \"$0\" cp {arguments}");
        w.program("/bin/sh").args(["-c", &script]).args([&w.bin]).go()
    };
    for arguments in ["fails:long out", "fails:d out", "--force fails:long there"] {
        let outcome = limited(arguments);
        assert_eq!(outcome.code, 125, "{arguments}: {}", outcome.stderr);
    }
    let left = w.outside("find . -type f | sort; cat there").ok().stdout;
    assert_eq!(left, "./real\n./there\nold\n");
    assert_eq!(limited("real fails:in").code, 125);
    assert_eq!(w.exec(&name, "stat -c %s in").ok().text(), "0", "half of it takes no room");
}

/// More than the keeper could say at once.
fn a_directory_may_have_many_entries(w: &World) {
    let name = w.new_sandbox("many");
    w.exec(&name, "mkdir many && cd many && seq 1 30000 | xargs touch").ok();
    w.whatif(["cp", "many:many", "out"]).go().ok();
    assert_eq!(w.outside("ls out | wc -l").ok().text(), "30000");
}
