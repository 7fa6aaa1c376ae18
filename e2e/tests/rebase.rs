//! A rebase is the same merge as an apply, into the sandbox: nothing of either side gets lost by it.

use std::process::Stdio;

use serde_json::json;
use whatif_e2e::{Fault, Point, World, as_root, as_root_and_user, as_user, needs, sample, wait_for};

as_root_and_user!(
    attributes_of_both_sides_are_inside_afterwards,
    what_only_reality_changed_is_inside_afterwards,
    what_only_the_sandbox_changed_stays,
    colliding_attributes_are_open_and_not_merged,
    a_link_does_not_lead_out_of_the_tree,
    lines_appended_meanwhile_are_not_lost,
    a_rebase_that_is_killed_loses_nothing,
    what_a_killed_rebase_brought_is_still_realitys,
    directories_keep_their_attributes_when_a_rebase_is_killed,
    a_frozen_layer_is_not_written,
    every_way_of_copy_on_write_does_it,
    what_is_at_rest_is_listed_with_what_it_holds,
    markers_that_are_left_are_settled_as_the_hints_say,
    a_rebase_is_proposed_only_where_it_helps,
    markers_are_known_wherever_they_are_carried,
    what_both_did_is_where_the_sandbox_starts_from,
    what_both_deleted_is_not_deleted_again,
    what_an_apply_deleted_is_a_change_again_after_its_undo,
);

// Nothing is closed to root.
as_user!(what_could_not_be_read_is_open);
as_root!(capabilities_and_owners_survive);

/// What `rebase` says, whatever comes of it.
fn rebase(w: &World) -> serde_json::Value {
    w.whatif(["--json", "rebase", "s"]).go().json()
}

fn outside(w: &World, script: &str) -> String {
    w.outside(script).ok().text().to_owned()
}

fn inside(w: &World, script: &str) -> String {
    w.exec("s", script).ok().text().to_owned()
}

fn attributes_of_both_sides_are_inside_afterwards(w: &World) {
    needs!(w, "setfattr", "setfacl", "getfacl");
    outside(w, "seq 20 > f; mkdir d; echo x > d/x; chmod 755 d; chmod 644 f; setfattr -n user.a -v 1 f");
    w.sandbox_with("s", "sed -i s/^2$/two/ f; setfattr -n user.a -v 1 f; setfattr -n user.mine -v s f; echo X > d/x; chmod 750 d");
    outside(w, "sed s/^19$/nineteen/ f > n; cat n > f; rm n; chmod 600 f; setfacl -m u:4242:r f; setfattr -n user.note -v n d");
    let said = rebase(w);
    assert_eq!((&said["conflicts"], &said["open"]), (&json!([]), &json!([])), "{said}");
    assert_eq!(inside(w, "sed -n '2p;19p' f; stat -c %a f d; cat d/x"), "two\nnineteen\n640\n750\nX");
    assert_eq!(inside(w, "getfattr --only-values -n user.mine f; getfattr --only-values -n user.note d"), "sn");
    // An ordinary user's sandbox does not know the id, but has the entry.
    assert!(inside(w, "getfacl -cnE f").lines().any(|l| l.starts_with("user:") && !l.starts_with("user::") && l.ends_with("r--")));
    w.apply(&["s"]).ok();
    assert_eq!(
        outside(w, "sed -n '2p;19p' f; stat -c %a f d; getfacl -cnE f | grep 4242"),
        "two\nnineteen\n640\n750\nuser:4242:r--"
    );
    assert_eq!(outside(w, "getfattr --only-values -n user.mine f; getfattr --only-values -n user.note d"), "sn");
}

/// Copied up, and as it was: it hides what reality made of it since.
fn what_only_reality_changed_is_inside_afterwards(w: &World) {
    outside(w, "mkdir d; seq 3 > f; echo m > m; echo gone > gone; printf 'a\\0b' > binary; echo x > d/x");
    w.sandbox_with("s", "touch f m gone binary d/x; echo mine > mine; chmod 700 m; chmod 644 m");
    outside(w, "echo 4 >> f; chmod 600 m; rm gone; printf 'a\\0c' > binary; chmod 750 d");
    let said = rebase(w);
    assert_eq!((&said["conflicts"], &said["open"]), (&json!([]), &json!([])), "{said}");
    assert_eq!(
        inside(w, "cat f; stat -c %a m d; ls; od -An -c binary | tr -d ' '"),
        "1\n2\n3\n4\n600\n750\nbinary\nd\nf\nm\nmine\na\\0c"
    );
    let document = w.json(["diff", "s"]);
    assert_eq!(document["changes"].as_array().map(Vec::len), Some(1), "{document:#}");
}

fn what_only_the_sandbox_changed_stays(w: &World) {
    outside(w, "mkdir d; seq 20 > f; ln -s a link; echo x > x; echo y > d/y");
    w.sandbox_with("s", "sed -i s/^2$/two/ f; chmod 755 f; ln -sfn b link; rm x; chmod 700 d");
    outside(w, "sed -i s/^19$/nineteen/ f; echo new > new; echo more > d/more");
    let said = rebase(w);
    assert_eq!((&said["conflicts"], &said["open"]), (&json!([]), &json!([])), "{said}");
    assert_eq!(
        inside(w, "sed -n '2p;19p' f; stat -c %a f d; readlink link; ls; cat d/more"),
        "two\nnineteen\n755\n700\nb\nd\nf\nlink\nnew\nmore"
    );
    w.apply(&["s"]).ok();
    assert_eq!(outside(w, "sed -n '2p;19p' f; stat -c %a f d; readlink link; ls"), "two\nnineteen\n755\n700\nb\nd\nf\nlink\nnew");
}

fn colliding_attributes_are_open_and_not_merged(w: &World) {
    outside(w, "mkdir d; seq 20 > f; echo x > d/x; ln -s a link");
    w.sandbox_with("s", "sed -i s/^2$/two/ f; chmod 755 f; chmod 711 d; ln -sfn b link");
    outside(w, "sed -i s/^19$/nineteen/ f; chmod 600 f; chmod 700 d; ln -sfn c link");
    let said = rebase(w);
    assert_eq!((&said["merged"], &said["conflicts"]), (&json!([]), &json!([])), "{said}");
    let open: Vec<&str> = said["open"].as_array().expect("a list").iter().filter_map(|o| o["path"].as_str()).collect();
    assert_eq!(open, ["d", "f", "link"], "{said}");
    assert_eq!(inside(w, "stat -c %a d f; sed -n '2p;19p' f; readlink link"), "711\n755\ntwo\n19\nb");
    let outcome = w.apply(&["s"]).exits(1);
    assert!(outcome.stderr.contains("conflict") || outcome.stdout.contains("conflict"), "{outcome:?}");
}

/// Reality has a link where a directory was. What it leads to is none of the sandbox's.
fn a_link_does_not_lead_out_of_the_tree(w: &World) {
    outside(w, "mkdir d ../elsewhere; seq 20 > d/f; sed s/^19$/secret/ d/f > ../elsewhere/f");
    w.sandbox_with("s", "sed -i s/^2$/two/ d/f");
    outside(w, "mv d ../moved; ln -s ../elsewhere d");
    let said = rebase(w);
    assert_eq!(said["merged"], json!([]), "{said}");
    assert!(!said["open"].as_array().expect("a list").is_empty(), "{said}");
    let head = w.directory("s").join("head");
    let found = w.program("/bin/grep").args(["-r", "secret"]).args([head]).go();
    assert_eq!(found.code, 1, "{found:?}");
}

/// Somebody writes to a file all the time: each line is in reality, and in the sandbox after the last rebase.
fn lines_appended_meanwhile_are_not_lost(w: &World) {
    outside(w, "seq 2000 > f");
    w.sandbox_with("s", "sed -i s/^2$/two/ f");
    let script = "i=0; while [ ! -e ../stop ]; do i=$((i+1)); echo line $i >> f; done";
    let (none, quiet) = (Stdio::null, || (Stdio::null(), Stdio::null()));
    let (out, err) = quiet();
    let mut writer = w.program("/bin/sh").args(["-c", script]).streams(none(), out, err).spawn();
    for _ in 0..5 {
        w.whatif(["rebase", "s"]).go();
    }
    outside(w, "touch ../stop");
    wait_for(std::time::Duration::from_secs(60), || writer.try_wait().ok().flatten()).expect("it ends");
    rebase(w);
    let reality = outside(w, "sed s/^2$/two/ f");
    w.apply(&["s"]).ok();
    assert_eq!(outside(w, "cat f"), reality, "no line is lost");
}

fn a_rebase_that_is_killed_loses_nothing(w: &World) {
    let files = 12;
    outside(w, &format!("for i in $(seq {files}); do seq 20 > f$i; done"));
    w.sandbox_with("s", &format!("for i in $(seq {files}); do sed -i s/^2$/two/ f$i; done"));
    outside(w, &format!("for i in $(seq {files}); do sed -i s/^19$/nineteen/ f$i; done"));
    for pause in 0..8 {
        let script = format!(
            "\"$0\" rebase s >/dev/null 2>&1 & pid=$!; i=0; while [ $i -lt {} ]; do i=$((i+1)); done; kill -9 $pid; wait $pid; true",
            pause * 1500
        );
        w.program("/bin/sh").args(["-c", &script]).args([&w.bin]).go().ok();
    }
    let applied = w.apply(&["s"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    for i in 1..=files {
        assert_eq!(outside(w, &format!("sed -n '2p;19p' f{i}; wc -l < f{i}")), "two\nnineteen\n20", "f{i}");
    }
}

/// Killed before each flush: between a new version and its record there is one.
fn what_a_killed_rebase_brought_is_still_realitys(w: &World) {
    needs!(w, "strace", "setfattr");
    // Between most flushes nothing happens that matters.
    for (backend, call, step) in [("overlay", "unlink", 1), ("overlay", "fsync", 3), ("copy", "fsync", 4)] {
        for number in (1..).step_by(step) {
            outside(w, "rm -rf *; mkdir d; chmod 755 d; seq 20 > f; seq 9 > g");
            w.whatif(["new", "s", "--backend", backend]).go().ok();
            w.exec("s", "sed -i s/^2$/two/ f; sed -i s/^5$/mine/ g; setfattr -n user.s -v 1 d").ok();
            w.whatif(["diff", "s"]).go().ok();
            outside(w, "sed -i s/^19$/nineteen/ f; setfattr -n user.r -v 1 f; sed -i s/^5$/real/ g; chmod 700 d");
            w.whatif(["stop", "s"]).go().ok();
            let point = Point { call: call.to_owned(), number };
            let is_over = w.with_fault(&point, Fault::Kill, &["rebase", "s"]).go().code == 1;
            outside(w, "seq 20 > f; chmod 755 d; setfattr -x user.r f; seq 9 > g");
            w.apply(&["s", "--all", "--ours=**"]).ok();
            let looks =
                "sed -n '2p;19p' f; stat -c %a d; getfattr --absolute-names -n user.r f 2> /dev/null; grep -c '^[<>=]' g; true";
            assert_eq!(outside(w, looks), "two\n19\n755\n0", "{backend}, killed before {call} {number}");
            w.whatif(["rm", "s"]).go().ok();
            if is_over {
                break;
            }
        }
    }
}

/// A directory that a rebase makes in the head hides the one in a layer.
fn directories_keep_their_attributes_when_a_rebase_is_killed(w: &World) {
    needs!(w, "strace", "setfattr");
    let prepare = || {
        outside(w, "rm -rf *; mkdir -p d e/above; chmod 755 d e e/above; seq 20 > e/above/f");
        w.new_sandbox("s");
        w.exec("s", "for d in d e e/above; do setfattr -n user.s -v 1 $d; done; sed -i s/^2$/two/ e/above/f").ok();
        w.snapshot("s", "one");
        outside(w, "chmod 750 d; sed -i s/^19$/nineteen/ e/above/f");
        w.whatif(["stop", "s"]).go().ok();
    };
    prepare();
    let points = w.points_of(&w.project, &["rebase", "s"]);
    // After a directory is made come its owner and its attributes.
    let gives = |point: &Point| ["fchownat", "lsetxattr"].contains(&point.call.as_str());
    let points: Vec<Point> = points.into_iter().filter(gives).collect();
    for point in sample(&points, 10, usize::from(w.is_root())) {
        w.whatif(["rm", "s", "--yes"]).go().ok();
        prepare();
        w.with_fault(&point, Fault::Kill, &["rebase", "s"]).go();
        w.whatif(["start", "s"]).go().ok();
        let seen = inside(w, "for d in d e e/above; do getfattr --only-values -n user.s $d; stat -c ' %a' $d; done");
        let context = format!("killed at {} {}", point.call, point.number);
        assert!(["1 755\n1 755\n1 755", "1 750\n1 755\n1 755"].contains(&seen.as_str()), "{context}: {seen}");
    }
}

fn a_frozen_layer_is_not_written(w: &World) {
    outside(w, "mkdir d; seq 20 > d/f; chmod 755 d; chmod 644 d/f");
    w.new_sandbox("s");
    w.exec("s", "sed -i s/^2$/two/ d/f; chmod 700 d/f").ok();
    w.snapshot("s", "one");
    let layers = w.frozen();
    outside(w, "sed -i s/^19$/nineteen/ d/f; chmod 750 d");
    let said = rebase(w);
    assert_eq!((&said["conflicts"], &said["open"]), (&json!([]), &json!([])), "{said}");
    whatif_e2e::assert_same(&layers, &w.frozen());
    assert_eq!(inside(w, "sed -n '2p;19p' d/f; stat -c %a d d/f"), "two\nnineteen\n750\n700");
}

fn every_way_of_copy_on_write_does_it(w: &World) {
    needs!(w, "setfattr");
    let has_fuse = w.has("fuse-overlayfs") && w.outside("exec 3<>/dev/fuse").code == 0;
    for backend in ["copy"].into_iter().chain(has_fuse.then_some("fuse")) {
        outside(w, &format!("mkdir {backend} {backend}/d; cd {backend}; seq 20 > d/f; chmod 755 d; chmod 644 d/f"));
        let project = w.project.join(backend);
        let run = ["run", "--keep", "--quiet", "--name", backend, "--backend", backend, "--", "/bin/sh", "-euc"];
        w.whatif(run).args(["sed -i s/^2$/two/ d/f; chmod 640 d/f"]).cwd(&project).go().ok();
        outside(
            w,
            &format!("cd {backend}; sed s/^19$/nineteen/ d/f > n; cat n > d/f; rm n; chmod 700 d; setfattr -n user.n -v 1 d/f"),
        );
        let said = w.whatif(["--json", "rebase", backend]).cwd(&project).go().ok().json();
        assert_eq!((&said["conflicts"], &said["open"]), (&json!([]), &json!([])), "{backend}: {said}");
        let script = "sed -n '2p;19p' d/f; stat -c %a d d/f; getfattr --only-values -n user.n d/f";
        let inside = w.whatif(["exec", backend, "--", "/bin/sh", "-c", script]).cwd(&project).go().ok();
        assert_eq!(inside.text(), "two\nnineteen\n700\n640\n1", "{backend}");
        w.whatif(["apply", backend, "--yes"]).cwd(&project).go().ok();
        assert_eq!(outside(w, &format!("cd {backend}; {script}")), "two\nnineteen\n700\n640\n1", "{backend}");
    }
}

fn capabilities_and_owners_survive(w: &World) {
    needs!(w, "setcap", "getcap");
    outside(w, "cp /bin/true prog; seq 20 > f; chown 4321:1234 f prog; setcap cap_net_raw+ep prog");
    w.sandbox_with("s", "sed -i s/^2$/two/ f; chown 4321:1234 f; setcap cap_net_bind_service+ep prog");
    outside(w, "sed s/^19$/nineteen/ f > n; cat n > f; rm n; chgrp 777 f; chmod 700 prog");
    let said = rebase(w);
    assert_eq!((&said["conflicts"], &said["open"]), (&json!([]), &json!([])), "{said}");
    let head = w.directory("s").join("head");
    let of = |name: &str, format: &str| {
        let script = format!("find {} -name {name} -exec {format} '{{}}' ';'", head.display());
        outside(w, &script)
    };
    assert!(of("prog", "getcap").contains("cap_net_bind_service=ep"), "{}", of("prog", "getcap"));
    assert_eq!((of("prog", "stat -c %u:%g:%a"), of("f", "stat -c %u:%g")), ("4321:1234:700".into(), "4321:777".into()));
    w.apply(&["s", "--all"]).ok();
    assert_eq!(
        outside(w, "stat -c %u:%g f prog; getcap prog; sed -n '2p;19p' f"),
        "4321:777\n4321:1234\nprog cap_net_bind_service=ep\ntwo\nnineteen"
    );
}

/// Who cleans up goes by these numbers.
fn what_is_at_rest_is_listed_with_what_it_holds(w: &World) {
    let listed = |w: &World| {
        let all = w.json(["ls"]);
        let found = all.as_array().into_iter().flatten().find(|s| s["name"] == "s").cloned().expect("it is listed");
        (found["changed_files"].clone(), found["size_bytes"].as_u64().expect("a number") > 0)
    };
    outside(w, "seq 40 > a");
    w.whatif(["new", "s"]).go().ok();
    inside(w, "sed -i s/^5$/mine/ a");
    outside(w, "sed -i s/^25$/real/ a");
    rebase(w);
    assert_eq!(listed(w), (json!(1), true));
    w.whatif(["snapshot", "s", "one"]).go().ok();
    inside(w, "echo b > b; echo c > c");
    w.whatif(["stop", "s"]).go().ok();
    assert_eq!(listed(w), (json!(3), true));
    w.whatif(["rollback", "s", "one"]).go().ok();
    assert_eq!(listed(w), (json!(1), true));
    w.apply(&["s"]).ok();
    assert_eq!(listed(w).0, json!(0));
    w.whatif(["rollback", "s", "before-rollback-2"]).go().ok();
    assert_eq!(listed(w), (json!(2), true));
}

fn markers_that_are_left_are_settled_as_the_hints_say(w: &World) {
    outside(w, "seq 9 > f; seq 9 > g");
    w.sandbox_with("s", "sed -i s/^5$/mine/ f g");
    outside(w, "sed -i s/^5$/real/ f g");
    w.whatif(["rebase", "s"]).go().exits(1).says("--ours PATH");
    w.whatif(["rebase", "s"]).go().exits(1).says("whatif shell s");
    let refused = w.apply(&["s"]).exits(1).says("remove the markers");
    assert!(!format!("{refused:?}").contains("--theirs"), "{refused:?}");
    w.apply(&["s", "--theirs", "f"]).exits(1).says("remove the markers");
    w.exec("s", "seq 9 > g; echo settled >> g").ok();
    w.apply(&["s", "--ours", "f"]).ok();
    assert_eq!(outside(w, "grep -c real f; tail -n 1 g"), "1\nsettled");
    w.whatif(["rebase", "s"]).go().ok();
    assert_eq!(w.json(["diff", "s"])["changes"], json!([]));
    w.whatif(["stop", "s"]).go().ok();
}

/// It writes markers where text collides. What one side deleted, and what is not text, is decided with the apply.
fn a_rebase_is_proposed_only_where_it_helps(w: &World) {
    outside(w, "seq 9 > f; seq 9 > gone");
    w.sandbox_with("s", "rm gone");
    outside(w, "echo more >> gone");
    let status = || w.whatif(["status", "s"]).go().ok().text().to_owned();
    assert!(status().contains("--theirs PATH"), "{}", status());
    let refused = w.apply(&["s"]).exits(1).says("--theirs PATH");
    assert!(!format!("{refused:?}").contains("whatif rebase"), "{refused:?}");
    w.exec("s", "sed -i s/^5$/mine/ f").ok();
    outside(w, "sed -i s/^5$/real/ f");
    assert!(status().contains("whatif rebase s"), "{}", status());
    w.apply(&["s"]).exits(1).says("whatif rebase s");
    w.whatif(["rebase", "s"]).go().exits(1);
    w.whatif(["stop", "s"]).go().ok();
    // Both kinds of conflict have their way out, and a sandbox that was stopped is started before.
    let refused = w.apply(&["s"]).exits(1).says("--theirs PATH").says("whatif start s && whatif shell s");
    assert!(!format!("{refused:?}").contains("whatif rebase"), "{refused:?}");
    w.apply(&["s", "--ours", "f", "--theirs", "gone"]).ok();
    assert_eq!(outside(w, "sed -n 5p f; ls gone 2>&1 | wc -l; test -e gone || echo away"), "real\n1\naway");
}

/// What is made of a sandbox holds its markers, too.
fn markers_are_known_wherever_they_are_carried(w: &World) {
    outside(w, "seq 9 > f");
    w.sandbox_with("s", "sed -i s/^5$/mine/ f");
    outside(w, "sed -i s/^5$/real/ f");
    w.whatif(["rebase", "s"]).go().exits(1);
    let file = w.dir.join("s.whatif").display().to_string();
    w.whatif(["export", "s", "-o", &file]).go().ok();
    w.whatif(["import", &file, "--name", "imported"]).go().ok();
    w.whatif(["fork", "s", "fork"]).go().ok();
    w.whatif(["fork", "imported", "fork-of-import"]).go().ok();
    w.whatif(["template", "save", "s", "t"]).go().ok();
    w.whatif(["new", "from-template", "--template", "t"]).go().ok();
    for name in ["s", "fork", "imported", "fork-of-import", "from-template"] {
        w.apply(&[name, "--all"]).exits(1).says("remove the markers");
        assert_eq!(outside(w, "sed -n 5p f"), "real", "{name}");
    }
}

/// Also if reality goes back to what both had before.
fn what_both_did_is_where_the_sandbox_starts_from(w: &World) {
    needs!(w, "setfattr");
    for backend in ["overlay", "copy"] {
        outside(w, "rm -rf *; mkdir d; chmod 755 d; seq 9 > f; echo a > g; chmod 644 g; ln -s here l");
        w.whatif(["new", "s", "--backend", backend]).go().ok();
        let same = "chmod 700 d; sed -i s/^5$/five/ f; chmod 600 g; setfattr -n user.n -v 1 g; ln -sfn there l";
        w.exec("s", &format!("{same}; echo own > own")).ok();
        w.whatif(["diff", "s"]).go().ok();
        outside(w, same);
        w.whatif(["rebase", "s"]).go().ok();
        outside(w, "chmod 755 d; seq 9 > f; chmod 644 g; setfattr -x user.n g; ln -sfn here l");
        assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().stdout, "own\n", "{backend}");
        w.apply(&["s", "--all"]).ok();
        let looks = "stat -c %a d g; sed -n 5p f; getfattr --absolute-names -d g; readlink l; cat own";
        assert_eq!(outside(w, looks), "755\n644\n5\nhere\nown", "{backend}");
        w.whatif(["rm", "s"]).go().ok();
    }
}

fn what_both_deleted_is_not_deleted_again(w: &World) {
    let can_fuse = w.is_root() && w.program("/usr/bin/env").args(["which", "fuse-overlayfs"]).go().code == 0;
    for backend in ["overlay", "copy", "fuse"].into_iter().filter(|b| *b != "fuse" || can_fuse) {
        let make = "mkdir -p d/e k; echo a > f; echo b > d/e/g; echo c > k/h; ln -s here l";
        outside(w, &format!("rm -rf *; {make}; echo own > own"));
        w.whatif(["new", "s", "--backend", backend]).go().ok();
        w.exec("s", "rm -r f d k/h l; echo mine > own").ok();
        w.whatif(["diff", "s"]).go().ok();
        outside(w, "rm -r f d k/h l");
        w.whatif(["rebase", "s"]).go().ok();
        outside(w, make);
        assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().stdout, "own\n", "{backend}");
        w.apply(&["s", "--all"]).ok();
        assert_eq!(outside(w, "cat f d/e/g k/h own; readlink l"), "a\nb\nc\nmine\nhere", "{backend}");
        // What the sandbox deletes from here on is.
        w.whatif(["rebase", "s"]).go().ok();
        w.exec("s", "rm -f own; echo again > f").ok();
        w.apply(&["s", "--all", "--theirs", "f"]).ok();
        assert_eq!(outside(w, "cat f; ls"), "again\nd\nf\nk\nl", "{backend}");
        w.whatif(["rm", "s"]).go().ok();
    }
}

fn what_an_apply_deleted_is_a_change_again_after_its_undo(w: &World) {
    for backend in ["overlay", "copy"] {
        outside(w, "rm -rf *; mkdir -p d/e; echo a > f; echo b > d/e/g; echo own > own");
        w.whatif(["new", "s", "--backend", backend]).go().ok();
        w.exec("s", "rm -r f d").ok();
        w.apply(&["s"]).ok();
        w.whatif(["rebase", "s"]).go().ok();
        w.whatif(["undo", "--yes"]).go().ok();
        assert_eq!(w.whatif(["diff", "s", "--name-only"]).go().ok().stdout, "d/e/g\nf\n", "{backend}");
        w.whatif(["rm", "s"]).go().ok();
    }
}

fn what_could_not_be_read_is_open(w: &World) {
    w.outside("mkdir closed; echo a > closed/f").ok();
    w.sandbox_with("s", "echo inside > closed/f");
    w.outside("echo outside > closed/f; chmod 000 closed").ok();
    let rebased = w.whatif(["rebase", "s"]).go();
    w.outside("chmod 755 closed").ok();
    assert_eq!(rebased.code, 1, "{rebased:?}");
    assert!(rebased.stdout.contains("closed: it cannot be read") && !rebased.stdout.contains("now stands"), "{rebased:?}");
}
