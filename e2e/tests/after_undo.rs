//! What a sandbox starts from once an apply was undone, and once that was undone in turn.

use whatif_e2e::{World, as_root_and_user, needs};

as_root_and_user!(
    an_apply_done_again_leaves_nothing_to_apply,
    an_undo_of_an_apply_done_again_has_the_changes_again,
    an_undo_leaves_what_is_known_of_directories_alone,
    what_ours_settled_stays_settled_after_an_undo,
    what_was_kept_in_a_layer_is_known_again_after_an_undo,
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
    w.outside("sed -i 's/^20$/reality/' f").ok();
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
