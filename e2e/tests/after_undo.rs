//! What a sandbox starts from once an apply was undone, and once that was undone in turn.

use whatif_e2e::{Fault, World, as_root_and_user, needs};

as_root_and_user!(
    an_apply_done_again_leaves_nothing_to_apply,
    an_undo_of_an_apply_done_again_has_the_changes_again,
    an_undo_leaves_what_is_known_of_directories_alone,
    what_ours_settled_stays_settled_after_an_undo,
    what_was_kept_in_a_layer_is_known_again_after_an_undo,
    what_was_made_of_a_sandbox_meanwhile_has_its_changes_again,
    a_rollback_after_an_undo_has_the_changes_again,
    merged_layers_know_what_was_before_an_undone_apply,
    what_another_sandbox_made_real_for_a_while_is_still_a_change,
    what_theirs_replaced_is_in_conflict_again_after_an_undo,
    what_theirs_did_not_replace_after_all_is_still_in_conflict,
);

/// Undoes the latest transaction, whichever it was.
fn undo_latest(w: &World) {
    let id = w.json(["history"])[0]["id"].as_str().expect("it is listed").to_owned();
    w.whatif(["undo", &id, "--yes"]).go().ok();
}

fn paths(w: &World, name: &str) -> Vec<String> {
    let document = w.json(["diff", name]);
    let changes = document["changes"].as_array().unwrap_or_else(|| panic!("a list: {document}"));
    changes.iter().map(|c| c["path"].as_str().expect("a path").to_owned()).collect()
}

/// A text, a binary file, attributes and a mode that both sides changed, and what only the sandbox did.
fn merge(w: &World) {
    w.outside("seq 9 > text; seq 9 > tagged; printf '\\0a' > binary; echo c > moded; mkdir d; echo gone > gone").ok();
    w.sandbox_with(
        "s",
        "sed -i s/2/SANDBOX/ text tagged; printf '\\0b' > binary; echo C > moded; chmod 700 d; rm gone; echo new > new",
    );
    w.outside("sed -i s/8/REALITY/ text; chmod 640 moded binary; setfattr -n user.c -v REALITY tagged d").ok();
    w.apply(&["s", "--all"]).ok();
    assert_reality_kept(w, "applied");
}

fn assert_reality_kept(w: &World, when: &str) {
    let found = w.outside("cat text; stat -c %a moded binary; getfattr --only-values -n user.c tagged d").ok().stdout;
    assert!(found.contains("REALITY\n9") && found.contains("640\n640"), "{when}: {found}");
    assert_eq!(found.matches("REALITY").count(), 3, "{when}: {found}");
}

fn an_apply_done_again_leaves_nothing_to_apply(w: &World) {
    needs!(w, "setfattr");
    merge(w);
    let applied = w.outside("cat text tagged binary moded new").ok().stdout;
    for round in ["once", "twice"] {
        undo_latest(w);
        assert_eq!(w.read("gone"), "gone\n", "{round}");
        undo_latest(w);
        assert_eq!(paths(w, "s"), Vec::<String>::new(), "{round}");
        w.apply(&["s", "--all"]).ok();
        assert_reality_kept(w, round);
        assert_eq!(w.outside("cat text tagged binary moded new").ok().stdout, applied, "{round}");
    }
}

fn an_undo_of_an_apply_done_again_has_the_changes_again(w: &World) {
    needs!(w, "setfattr");
    merge(w);
    let applied = w.outside("cat text tagged binary moded new").ok().stdout;
    for _ in 0..3 {
        undo_latest(w);
    }
    assert_reality_kept(w, "undone");
    assert_eq!(paths(w, "s").len(), 7);
    w.apply(&["s", "--all"]).ok();
    assert_reality_kept(w, "applied again");
    assert_eq!(w.outside("cat text tagged binary moded new").ok().stdout, applied);
}

fn an_undo_leaves_what_is_known_of_directories_alone(w: &World) {
    w.outside("mkdir d; echo f > d/f").ok();
    w.sandbox_with("s", "echo F > d/f");
    w.outside("chmod 700 d").ok();
    w.apply(&["s"]).ok();
    undo_latest(w);
    assert_eq!(paths(w, "s"), ["d/f"]);
    w.apply(&["s"]).ok();
    assert_eq!(w.outside("stat -c %a d").ok().text(), "700");
}

fn what_ours_settled_stays_settled_after_an_undo(w: &World) {
    w.outside("seq 9 > f; seq 9 > g").ok();
    w.sandbox_with("s", "sed -i s/5/SANDBOX/ f g");
    w.outside("sed -i s/5/REALITY/ f").ok();
    w.apply(&["s", "--ours", "f"]).ok();
    assert_eq!(paths(w, "s"), Vec::<String>::new());
    undo_latest(w);
    assert_eq!(paths(w, "s"), ["g"]);
    w.apply(&["s"]).ok();
    assert!(w.read("f").contains("REALITY") && w.read("g").contains("SANDBOX"));
}

fn what_was_kept_in_a_layer_is_known_again_after_an_undo(w: &World) {
    w.outside("seq 40 > f").ok();
    w.sandbox_with("s", "sed -i 's/^5$/five/' f");
    w.snapshot("s", "first");
    w.exec("s", "sed -i 's/^30$/thirty/' f").ok();
    w.apply(&["s"]).ok();
    w.json(["rollback", "s", "first"]);
    w.outside("sed -i 's/^five$/5/; s/^20$/reality/' f").ok();
    w.apply(&["s"]).ok();
    let applied = w.read("f");
    for word in ["five", "thirty", "reality"] {
        assert!(applied.contains(word), "{applied}");
    }
    undo_latest(w);
    w.outside("sed -i 's/^35$/later/' f").ok();
    w.apply(&["s"]).ok();
    let applied = w.read("f");
    for word in ["five", "thirty", "reality", "later"] {
        assert!(applied.contains(word), "{applied}");
    }
}

const ALL: [&str; 5] = ["added", "binary", "f", "gone", "l"];

/// Every kind of change, real.
fn applied(w: &World) {
    w.outside("seq 9 > f; printf '\\0a' > binary; echo gone > gone; ln -s a l").ok();
    w.sandbox_with("s", "sed -i s/5/five/ f; printf '\\0b' > binary; rm gone; ln -sfn b l; echo new > added");
    w.apply(&["s"]).ok();
    assert_eq!(paths(w, "s"), Vec::<String>::new());
}

/// Applying it makes all of it real.
fn assert_has_all(w: &World, name: &str) {
    assert_eq!(paths(w, name), ALL, "{name}");
    w.apply(&[name]).ok();
    assert_eq!(w.outside("sed -n 5p f; readlink l; ls").ok().stdout, "five\nb\nadded\nbinary\nf\nl\n", "{name}");
    assert_eq!(paths(w, name), Vec::<String>::new(), "{name}");
}

fn what_was_made_of_a_sandbox_meanwhile_has_its_changes_again(w: &World) {
    applied(w);
    w.snapshot("s", "real");
    w.fork("s", "fork");
    w.whatif(["export", "s", "-o", "../s.whatif"]).go().ok();
    w.whatif(["import", "../s.whatif", "--name", "import"]).go().ok();
    // What is done on top of it is not all there is.
    w.exec("fork", "printf '\\0c' > binary").ok();
    undo_latest(w);
    for name in ["s", "fork", "import"] {
        assert_eq!(paths(w, name), ALL, "{name}");
    }
    undo_latest(w);
    for (name, left) in [("s", vec![]), ("fork", vec!["binary"]), ("import", vec![])] {
        assert_eq!(paths(w, name), left, "{name}, applied again");
    }
    undo_latest(w);
    assert_has_all(w, "import");
    undo_latest(w);
    w.rollback("s", "real");
    assert_has_all(w, "s");
    undo_latest(w);
    assert_has_all(w, "fork");
}

fn a_rollback_after_an_undo_has_the_changes_again(w: &World) {
    w.outside("seq 9 > f").ok();
    w.sandbox_with("s", "true");
    w.snapshot("s", "empty");
    w.exec("s", "sed -i s/5/five/ f").ok();
    w.apply(&["s"]).ok();
    w.rollback("s", "empty");
    undo_latest(w);
    assert_eq!(paths(w, "s"), Vec::<String>::new());
    let snapshots = w.json(["snapshots", "s"]).to_string();
    let before = snapshots.split('"').find(|word| word.starts_with("before-rollback")).expect("it was kept").to_owned();
    w.rollback("s", &before);
    assert_eq!(paths(w, "s"), ["f"]);
    w.outside("sed -i s/8/eight/ f").ok();
    w.apply(&["s"]).ok();
    assert!(w.read("f").contains("five") && w.read("f").contains("eight"));
}

fn merged_layers_know_what_was_before_an_undone_apply(w: &World) {
    applied(w);
    w.snapshot("s", "one");
    w.exec("s", "echo more > more").ok();
    w.snapshot("s", "two");
    w.fork("s", "fork");
    w.json(["squash", "fork"]);
    undo_latest(w);
    w.exec("fork", "rm more").ok();
    assert_has_all(w, "fork");
}

fn what_another_sandbox_made_real_for_a_while_is_still_a_change(w: &World) {
    for backend in ["copy", "overlay"] {
        w.outside("rm -rf *; mkdir d e; seq 9 > d/x; ln -s nowhere e/l").ok();
        w.whatif(["new", "s", "--backend", backend]).go().ok();
        w.whatif(["start", "s"]).go();
        w.outside("rm -r e; mkdir e; echo real > e/real").ok();
        w.exec("s", "mv d/x e/l").ok();
        w.whatif(["fork", "s", "other"]).go().ok();
        w.apply(&["other", "--all", "--theirs=**"]).ok();
        w.whatif(["diff", "s"]).go().ok();
        undo_latest(w);
        assert_eq!(w.read("d/x"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "{backend}");
        w.apply(&["s", "--all", "--theirs=**"]).ok();
        let text = w.outside("cat d/x e/l 2> /dev/null").stdout;
        assert_eq!(text, "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "{backend}");
        w.whatif(["rm", "s", "--yes"]).go().ok();
        w.whatif(["rm", "other", "--yes"]).go().ok();
    }
}

const THEIRS: [&str; 5] = ["apply", "s", "--all", "--theirs=**", "--yes"];

/// Both sides make the same directory, with other files in it.
fn both_make_a_directory(w: &World, backend: &str) {
    w.outside("rm -rf *; echo old > old").ok();
    w.whatif(["new", "s", "--backend", backend]).go().ok();
    w.exec("s", "mkdir -p d/deep; echo SANDBOX > d/f; echo SANDBOX > d/deep/f").ok();
    w.outside("mkdir -p d/deep; echo REALITY > d/f; echo REALITY > d/deep/f").ok();
}

fn assert_in_conflict(w: &World, when: &str) {
    let refused = w.apply(&["s", "--all"]).exits(1);
    assert!(refused.stderr.contains("d/f") && refused.stderr.contains("d/deep/f"), "{when}: {refused:?}");
    assert_eq!((w.read("d/f"), w.read("d/deep/f")), ("REALITY\n".into(), "REALITY\n".into()), "{when}");
}

fn what_theirs_replaced_is_in_conflict_again_after_an_undo(w: &World) {
    for backend in ["overlay", "copy"] {
        both_make_a_directory(w, backend);
        w.whatif(THEIRS).go().ok();
        assert_eq!((w.read("d/f"), w.read("d/deep/f")), ("SANDBOX\n".into(), "SANDBOX\n".into()), "{backend}");
        undo_latest(w);
        assert_in_conflict(w, backend);
        w.whatif(["rm", "s", "--yes"]).go().ok();
    }
}

fn what_theirs_did_not_replace_after_all_is_still_in_conflict(w: &World) {
    needs!(w, "strace");
    both_make_a_directory(w, "overlay");
    let points = w.points_of(&w.project, &THEIRS);
    w.whatif(["rm", "s", "--yes"]).go().ok();
    for swap in points.iter().filter(|p| p.call == "renameat2") {
        both_make_a_directory(w, "overlay");
        let failed = w.with_fault(swap, Fault::Error("EIO"), &THEIRS).go();
        if failed.code != 0 && !failed.stderr.contains("is applied") {
            assert_in_conflict(w, &format!("renameat2 {}", swap.number));
        }
        w.whatif(["rm", "s", "--yes"]).go().ok();
    }
}
