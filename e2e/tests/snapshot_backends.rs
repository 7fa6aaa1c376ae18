//! Snapshots over every way of copy-on-write: each marks what is gone in its own way, and none may show.

use whatif_e2e::{World, as_root_and_user, assert_same, canary, needs};

as_root_and_user!(snapshots_of_copied_trees, snapshots_over_fuse, snapshots_over_the_kernels_overlay);

const REALITY: &str = "echo kept > kept; echo edited > edited; echo deleted > deleted; mkdir -p dir/sub turned; echo f > dir/f; \
    echo g > dir/sub/g; \
    echo t > turned/t; ln -s kept link; chmod 750 dir";

const STAGES: [&str; 4] = [
    "echo one >> edited; rm deleted; mkdir new; echo n > new/n; chmod 755 kept",
    "mv dir renamed; rm -r turned; echo file > turned; ln -sfn edited link; echo again > deleted",
    "rm -r new renamed/sub; mkdir renamed/sub; echo fresh > renamed/sub/fresh; rm deleted",
    "rm -rf -- *; echo alone > alone",
];

fn snapshots_of_copied_trees(w: &World) {
    history(w, "copy");
}

fn snapshots_over_the_kernels_overlay(w: &World) {
    history(w, "overlay");
}

fn snapshots_over_fuse(w: &World) {
    needs!(w, "fuse-overlayfs");
    if w.outside("exec 3<>/dev/fuse").code == 0 {
        history(w, "fuse");
    } else {
        w.whatif(["new", "s", "--backend", "fuse"]).go().fails_with_hint(125).says("fuse");
    }
}

fn history(w: &World, backend: &str) {
    w.outside(REALITY).ok();
    let reality = canary(&[&w.project]);
    w.json(["new", "s", "--backend", backend]);
    assert_eq!(w.json(["show", "s"])["details"]["backend"], backend);
    let mut stages = vec![w.listing("s")];
    w.snapshot("s", "stage-0");
    for (n, script) in STAGES.iter().enumerate() {
        w.exec("s", &format!("set -e; {script}")).ok();
        stages.push(w.listing("s"));
        w.snapshot("s", &format!("stage-{}", n + 1));
        w.listing("s").assert_is(&stages[n + 1], &format!("{backend}: right after stage {}", n + 1));
    }
    for n in [3, 0, 4, 2, 1] {
        w.listing_of(&format!("s@stage-{n}")).assert_is(&stages[n], &format!("{backend}: forked from stage {n}"));
        w.rollback("s", &format!("stage-{n}"));
        w.listing("s").assert_is(&stages[n], &format!("{backend}: rolled back to stage {n}"));
        w.exec("s", "echo scratch > scratch; rm -f kept").ok();
    }
    w.rollback("s", "stage-3");
    if backend == "fuse" {
        w.whatif(["squash", "s"]).go().fails_with_hint(2).says("fuse-overlayfs");
    } else {
        w.json(["squash", "s"]);
    }
    w.whatif(["stop", "s"]).go().ok();
    w.whatif(["start", "s"]).go().ok();
    w.listing("s").assert_is(&stages[3], &format!("{backend}: merged"));
    // While somebody works in it.
    w.whatif(["exec", "s", "-d", "--", "sleep", "1000"]).go().ok();
    w.exec("s", "echo busy > busy").ok();
    let busy = w.listing("s");
    assert_eq!(w.snapshot("s", "busy")["copied"], true, "{backend}");
    w.exec("s", "echo later > busy; rm edited").ok();
    w.listing_of("s@busy").assert_is(&busy, &format!("{backend}: the copy"));
    assert!(w.whatif(["ps", "s"]).go().ok().stdout.contains("sleep 1000"));
    assert_same(&reality, &canary(&[&w.project]));
    // And reality takes it. What runs in a sandbox cannot follow where the directory it renamed was.
    w.whatif(["stop", "s"]).go().ok();
    let fork = w.fork("s@stage-2", "fork");
    w.exec(&fork, "echo fork > fork").ok();
    let inside = w.listing(&fork);
    w.apply(&[&fork, "--all"]).ok();
    w.real_listing().assert_is(&inside, &format!("{backend}: applied"));
}
