//! Reality moves under a sandbox, whatever way of copy-on-write it has: what the sandbox did not touch is none of its changes.

use whatif_e2e::{World, as_root_and_user, needs};

as_root_and_user!(
    what_reality_did_is_no_change_of_the_sandbox,
    what_an_apply_made_real_can_be_deleted_again,
    holes_stay_holes,
    a_snapshot_of_a_copy_remembers_what_it_was_made_from,
    names_like_marks_of_fuse_are_files
);

fn backends(w: &World) -> Vec<&'static str> {
    let has_fuse = w.has("fuse-overlayfs") && w.outside("exec 3<>/dev/fuse").code == 0;
    if has_fuse { vec!["overlay", "copy", "fuse"] } else { vec!["overlay", "copy"] }
}

fn paths(w: &World, name: &str) -> Vec<String> {
    let document = w.json(["diff", name]);
    let changes = document["changes"].as_array().expect("a list of changes").clone();
    changes.iter().map(|c| format!("{} {}", c["kind"].as_str().unwrap_or("?"), c["path"].as_str().unwrap_or("?"))).collect()
}

const REALITY: &str = "rm -rf -- *; mkdir -p d gone; echo 1 > edited; echo 1 > d/deleted; echo 1 > gone/f; echo 1 > untouched";

fn what_reality_did_is_no_change_of_the_sandbox(w: &World) {
    for backend in backends(w) {
        w.outside(REALITY).ok();
        w.whatif(["run", "--keep", "-q", "--name", backend, "--backend", backend, "--", "/bin/sh", "-c", "echo 2 > edited"])
            .go()
            .ok();
        w.outside("rm -r d/deleted gone; echo 2 > untouched; echo new > d/new; mkdir fresh; echo f > fresh/f").ok();
        assert_eq!(paths(w, backend), ["modify edited"], "{backend}");
        w.apply(&[backend, "--all"]).ok();
        let listed = w.outside("find . -type f | sort; cat edited untouched").ok().stdout;
        assert_eq!(listed, "./d/new\n./edited\n./fresh/f\n./untouched\n2\n2\n", "{backend}");
        w.whatif(["rm", backend]).go().ok();
    }
}

fn what_an_apply_made_real_can_be_deleted_again(w: &World) {
    // fuse-overlayfs does not notice that reality has the file now, and writes no mark.
    for backend in backends(w).into_iter().filter(|b| *b != "fuse") {
        w.outside(REALITY).ok();
        w.whatif(["new", backend, "--backend", backend]).go().ok();
        w.exec(backend, "echo made > made").ok();
        w.apply(&[backend, "--all"]).ok();
        assert_eq!(paths(w, backend), Vec::<String>::new(), "{backend}: applied");
        w.exec(backend, "rm made").ok();
        w.apply(&[backend, "--all"]).ok();
        assert!(!w.project.join("made").exists(), "{backend}");
        w.whatif(["rm", backend]).go().ok();
    }
}

fn holes_stay_holes(w: &World) {
    w.outside("truncate -s 2G sparse; echo end >> sparse").ok();
    w.whatif(["new", "s", "--backend", "copy"]).go().ok();
    w.snapshot("s", "one");
    let kilobytes = || w.outside(&format!("du -sk {} | cut -f1", w.state.display())).ok().text().parse::<u64>().expect("a number");
    assert!(kilobytes() < 100_000, "{} KiB for a file that is a hole", kilobytes());
    assert_eq!(w.exec("s", "stat -c %s sparse; tail -c 4 sparse").ok().stdout, "2147483652\nend\n");
}

fn a_snapshot_of_a_copy_remembers_what_it_was_made_from(w: &World) {
    w.outside(REALITY).ok();
    w.whatif(["new", "s", "--backend", "copy"]).go().ok();
    w.exec("s", "echo 2 > edited").ok();
    w.snapshot("s", "one");
    w.exec("s", "echo made > made").ok();
    w.outside("rm -r gone; echo 2 > untouched").ok();
    assert_eq!(paths(w, "s"), ["modify edited", "add made"], "after a snapshot");
    w.rollback("s", "one");
    assert_eq!(paths(w, "s"), ["modify edited"], "rolled back");
    let fork = w.fork("s@one", "fork");
    assert_eq!(paths(w, &fork), ["modify edited"], "forked");
    w.whatif(["exec", "s", "-d", "--", "sleep", "1000"]).go().ok();
    w.exec("s", "echo busy > busy").ok();
    w.snapshot("s", "busy");
    let busy = w.fork("s@busy", "busy");
    assert_eq!(paths(w, &busy), ["add busy", "modify edited"], "forked from a copy of the copy");
    w.apply(&[&busy, "--all"]).ok();
    assert!(!w.project.join("gone").exists(), "what reality deleted stays deleted");
}

/// A program can make such names by other calls than open.
fn names_like_marks_of_fuse_are_files(w: &World) {
    needs!(w, "git");
    if !backends(w).contains(&"fuse") {
        return;
    }
    w.outside("git init -q .; mkdir d e; echo x > d/x; echo x > e/x").ok();
    let script = "mkdir .wh..git; echo a > a; mv a d/.wh..wh..opq; ln -s nowhere .wh.d; ls -A; ls -A d e";
    let inside = w.whatif(["run", "--keep", "-q", "--name", "f", "--backend", "fuse", "--", "/bin/sh", "-ec", script]).go().ok();
    assert!(paths(w, "f").iter().all(|p| !p.starts_with("delete")), "{:?}", paths(w, "f"));
    w.apply(&["f", "--all"]).ok();
    assert_eq!(w.outside("ls -A; ls -A d e").ok().stdout, inside.stdout);
    assert!(w.project.join(".git/config").exists());
    // Mounted again, fuse-overlayfs would show something else.
    w.whatif(["stop", "f"]).go();
    w.whatif(["start", "f"]).go().fails_with_hint(125).says(".wh.");
}
