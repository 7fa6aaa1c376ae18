//! Reality's version can be chosen, and then it stays: what was settled is no change of the sandbox any more.

use serde_json::json;
use whatif_e2e::{World, as_root_and_user, needs};

as_root_and_user!(
    a_deletion_in_reality_that_was_chosen_stays,
    a_file_that_was_chosen_over_its_deletion_stays,
    a_deleted_directory_is_settled_with_what_is_in_it,
    a_replaced_directory_is_settled_with_what_is_in_it,
    a_directory_in_the_place_of_a_file_is_settled,
    what_was_settled_stays_so_after_an_undo,
    theirs_says_what_ours_has_settled,
    a_rebase_leaves_the_sandbox_its_version_of_what_was_settled,
    what_reality_made_as_well_is_left_alone,
    hunks_that_reality_made_as_well_are_left_alone,
    a_deletion_that_was_applied_and_taken_back_by_hand_is_no_conflict,
);

/// With every way of copy-on-write.
fn each(w: &World, test: impl Fn(&str, &dyn Fn(&str))) {
    let has_fuse = w.has("fuse-overlayfs") && w.outside("exec 3<>/dev/fuse").code == 0;
    for backend in ["overlay", "copy", "fuse"].into_iter().filter(|b| *b != "fuse" || has_fuse) {
        w.outside("find . -mindepth 1 -delete").ok();
        let sandbox = format!("s-{backend}");
        test(&sandbox, &|script| {
            w.whatif(["run", "-q", "--keep", "--name", &sandbox, "--backend", backend, "--", "sh", "-ec", script]).go().ok();
        });
    }
}

fn is_settled(w: &World, sandbox: &str) {
    let document = w.json(["diff", sandbox]);
    assert_eq!(document["changes"].as_array().map(Vec::len), Some(0), "{sandbox}: {document:#}");
    w.apply(&[sandbox]).ok();
    w.apply(&[sandbox, "--all"]).ok();
}

fn theirs_says_what_ours_has_settled(w: &World) {
    each(w, |s, run| {
        w.outside("seq 9 > f; seq 9 > g").ok();
        run("sed -i s/5/sandbox/ f g");
        w.outside("sed -i s/5/reality/ f g").ok();
        w.apply(&[s, "--ours", "*"]).ok();
        for pattern in ["f", "f*"] {
            w.apply(&[s, "--theirs", pattern]).ok().says("an earlier --ours settled on reality's version: f; to take: ");
        }
        let document = w.json(["apply", s, "--yes", "--theirs", "*"]);
        let (f, g) = (json!({"path": "f", "reason": "settled_before"}), json!({"path": "g", "reason": "settled_before"}));
        assert_eq!((&document["apply"], &document["left_out"]), (&json!(null), &json!([f, g])), "{s}");
        assert!(w.read("f").contains("reality"), "{s}");
        // What it says helps.
        w.whatif(["cp", "--force", &format!("{s}:f"), "f"]).go().ok();
        assert!(w.read("f").contains("sandbox"), "{s}");
    });
}

/// The merge of both is what reality has: nothing is written, and nothing is left to apply.
fn what_reality_made_as_well_is_left_alone(w: &World) {
    each(w, |s, run| {
        w.outside("seq 60 > f").ok();
        run("sed -i s/^5$/five/ f");
        w.outside("sed -i 's/^5$/five/; s/^50$/fifty/' f").ok();
        let file = || w.outside("stat -c '%i %y' f; cat f").ok().text().to_owned();
        let (before, applies) = (file(), w.json(["history"]));
        let applied = w.json(["apply", s, "--yes"]);
        assert_eq!((&applied["apply"]["id"], &applied["applied"], &applied["skipped"]), (&json!(null), &json!([]), &json!(["f"])));
        assert_eq!((file(), w.json(["history"])), (before, applies), "{s}");
        is_settled(w, s);
        // What both do later is merged as ever, and so is the rest of what reality did.
        w.whatif(["rebase", s]).go().ok();
        w.exec(s, "grep fifty f").ok();
        w.exec(s, "sed -i s/^30$/thirty/ f").ok();
        w.outside("sed -i s/^fifty$/FIFTY/ f").ok();
        w.apply(&[s]).ok();
        assert_eq!(w.outside("grep -v '^[0-9]' f").ok().text(), "five\nthirty\nFIFTY", "{s}");
    });
}

fn hunks_that_reality_made_as_well_are_left_alone(w: &World) {
    each(w, |s, run| {
        w.outside("seq 60 > f").ok();
        run("sed -i 's/^5$/five/; s/^30$/thirty/' f");
        w.outside("sed -i 's/^5$/five/; s/^50$/fifty/' f").ok();
        let file = || w.outside("stat -c '%i %y' f; cat f").ok().text().to_owned();
        let before = file();
        w.apply(&[s, "--hunks", "f:1"]).ok();
        assert_eq!(file(), before, "{s}");
        w.apply(&[s]).ok();
        assert_eq!(w.outside("grep -v '^[0-9]' f").ok().text(), "five\nthirty\nfifty", "{s}");
        is_settled(w, s);
    });
}

fn a_deletion_in_reality_that_was_chosen_stays(w: &World) {
    each(w, |s, run| {
        w.outside("seq 50 90 > g; seq 9 > h").ok();
        run("sed -i s/60/sb/ g");
        w.outside("rm g").ok();
        w.apply(&[s, "--ours", "g"]).ok();
        is_settled(w, s);
        assert!(!w.project.join("g").exists(), "{s}");
        // What the sandbox makes of it later is a conflict again.
        w.exec(s, "sed -i s/70/sb/ g").ok();
        w.apply(&[s]).exits(1).says("g");
        assert!(!w.project.join("g").exists(), "{s}");
    });
}

fn a_file_that_was_chosen_over_its_deletion_stays(w: &World) {
    each(w, |s, run| {
        w.outside("seq 9 > h").ok();
        run("rm h");
        w.outside("echo real >> h").ok();
        w.apply(&[s, "--ours", "h"]).ok();
        is_settled(w, s);
        w.outside("echo more >> h").ok();
        is_settled(w, s);
        assert!(w.read("h").ends_with("real\nmore\n"), "{s}");
    });
}

fn a_deleted_directory_is_settled_with_what_is_in_it(w: &World) {
    each(w, |s, run| {
        w.outside("mkdir -p d/e; echo 1 > d/1; echo 2 > d/e/2; echo f > f").ok();
        run("rm -r d; echo F > f");
        w.outside("echo real >> d/1; echo new > d/new").ok();
        w.apply(&[s]).exits(1);
        w.apply(&[s, "--ours", "d"]).ok();
        is_settled(w, s);
        w.outside("echo later > d/e/later").ok();
        is_settled(w, s);
        assert_eq!(w.outside("cat d/1 d/e/2 d/new d/e/later f").ok().text(), "1\nreal\n2\nnew\nlater\nF", "{s}");
    });
}

/// However it was said that reality's version stays, and whatever reality did to the directory.
fn a_replaced_directory_is_settled_with_what_is_in_it(w: &World) {
    let ways = [
        ("file", "rm -r file; echo file > file", "echo 3 > file/3"),
        ("link", "rm -r link; ln -s elsewhere link", "echo 3 > link/e/3"),
        ("moved", "mv moved away; echo file > moved", "echo 3 > moved/3"),
        ("other-mode", "rm -r other-mode; echo file > other-mode", "chmod 700 other-mode"),
        ("deleted", "rm -r deleted", "chmod 700 deleted"),
    ];
    each(w, |s, run| {
        for (name, ..) in &ways {
            let fill = format!("mkdir -p {name}/e; cd {name}; echo {name} 1 > 1; echo {name} 2 > e/2; ln -s 1 l");
            w.outside(&fill).ok();
        }
        w.outside("echo f > f").ok();
        let inside: String = ways.iter().map(|(_, inside, _)| format!("{inside}\n")).collect();
        run(&format!("{inside}echo F > f"));
        for (_, _, theirs) in &ways {
            w.outside(theirs).ok();
        }
        let real = |name: &str| w.outside(&format!("find {name} -printf '%p %y %m\\n' | sort; grep -r . {name}")).ok().stdout;
        let all = || ways.iter().map(|(name, ..)| real(name)).collect::<Vec<_>>();
        let before = all();
        w.apply(&[s, "--all"]).exits(1);
        w.apply(&[s, "--all", "--ours", "*"]).ok();
        assert_eq!(all(), before, "{s}");
        is_settled(w, s);
        assert_eq!(all(), before, "{s}, applied again");
        assert_eq!(w.outside("cat f away/1 away/e/2").ok().text(), "F\nmoved 1\nmoved 2", "{s}");
    });
}

fn a_directory_in_the_place_of_a_file_is_settled(w: &World) {
    each(w, |s, run| {
        w.outside("echo g > g").ok();
        run("rm g; mkdir g; echo x > g/x");
        w.outside("echo real > g").ok();
        w.apply(&[s, "--all", "--ours", "*"]).ok();
        is_settled(w, s);
        // Something new in it does not bring the directory along.
        w.exec(s, "echo y > g/y").ok();
        w.apply(&[s]).exits(1).says("g");
        w.apply(&[s, "--files", "g/y"]).exits(1).says("g");
        assert_eq!(w.read("g"), "real\n", "{s}");
        w.apply(&[s, "--files", "g/y", "--theirs", "g"]).ok();
        assert_eq!(w.read("g/y"), "y\n", "{s}");
    });
}

fn what_was_settled_stays_so_after_an_undo(w: &World) {
    each(w, |s, run| {
        w.outside("seq 9 > f; seq 9 > g").ok();
        run("sed -i s/5/sb/ f g");
        w.outside("sed -i s/5/real/ f").ok();
        w.apply(&[s, "--ours", "f"]).ok();
        w.whatif(["undo", "--yes"]).go().ok();
        let document = w.json(["diff", s]);
        assert_eq!(document["changes"].as_array().map(Vec::len), Some(1), "{s}: {document:#}");
        w.apply(&[s]).ok();
        assert!(w.read("f").contains("real") && w.read("g").contains("sb"), "{s}");
    });
}

/// Reality's version was chosen for reality. The sandbox's is nowhere else.
fn a_rebase_leaves_the_sandbox_its_version_of_what_was_settled(w: &World) {
    each(w, |s, run| {
        w.outside("echo f > f; printf '\\0b' > b; echo g > g; echo kind > kind; mkdir -m 755 d; seq 9 > other").ok();
        run("echo mine > f; printf '\\0mine' > b; echo mine > g; rm kind; ln -s mine kind; chmod 750 d; sed -i s/2/two/ other");
        w.outside("echo real > f; printf '\\0real' > b; rm g; echo real > kind; chmod 700 d; sed -i s/8/eight/ other").ok();
        let inside = || w.exec(s, "cat f b g; readlink kind; stat -c %a d").ok().stdout;
        let before = inside();
        w.apply(&[s, "--all", "--ours", "*"]).ok();
        w.whatif(["diff", s]).go().ok();
        w.outside("rm f; printf '\\0other' > b; echo again > kind; chmod 711 d; sed -i s/5/five/ other").ok();
        let said = w.json(["rebase", s]);
        assert_eq!(said["kept"], json!(["b", "d", "f", "g", "kind"]), "{s}: {said}");
        assert_eq!((&said["conflicts"], &said["open"]), (&json!([]), &json!([])), "{s}: {said}");
        assert_eq!(inside(), before, "{s}");
        // What was merged goes on as before.
        assert_eq!(w.exec(s, "sed -n '2p;5p;8p' other").ok().text(), "two\nfive\neight", "{s}");
        is_settled(w, s);
        assert_eq!(w.outside("ls; stat -c %a d").ok().text(), "b\nd\nkind\nother\n711", "{s}");
        let said = w.whatif(["rebase", s]).go().ok().stdout;
        assert!(said.contains("reality's version was chosen") && said.contains("but for what it keeps"), "{s}: {said}");
    });
}

fn a_deletion_that_was_applied_and_taken_back_by_hand_is_no_conflict(w: &World) {
    needs!(w, "git");
    each(w, |s, run| {
        w.outside("git init -q .; mkdir d; seq 9 > f; seq 3 > d/1; git add .; git -c user.name=n -c user.email=e commit -qm i")
            .ok();
        run("rm -r f d");
        w.apply(&[s]).ok();
        w.outside("git checkout -q f d").ok();
        is_settled(w, s);
        // Made again inside, it is an addition on both sides.
        w.exec(s, "mkdir d; echo other > d/1; echo new > d/2").ok();
        w.apply(&[s]).exits(1).says("d/1");
        w.apply(&[s, "--skip", "d/1"]).ok();
        assert_eq!(w.outside("cat d/1 d/2").ok().text(), "1\n2\n3\nnew", "{s}");
    });
}
