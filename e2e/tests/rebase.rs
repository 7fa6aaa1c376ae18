//! A rebase is the same merge as an apply, into the sandbox: nothing of either side gets lost by it.

use std::process::Stdio;

use serde_json::json;
use whatif_e2e::{World, as_root, as_root_and_user, needs, wait_for};

as_root_and_user!(
    attributes_of_both_sides_are_inside_afterwards,
    what_only_reality_changed_is_inside_afterwards,
    what_only_the_sandbox_changed_stays,
    colliding_attributes_are_open_and_not_merged,
    a_link_does_not_lead_out_of_the_tree,
    lines_appended_meanwhile_are_not_lost,
    a_rebase_that_is_killed_loses_nothing,
    a_frozen_layer_is_not_written,
    every_way_of_copy_on_write_does_it,
    what_is_at_rest_is_listed_with_what_it_holds,
    markers_that_are_left_are_settled_as_the_hints_say,
);
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
    wait_for(std::time::Duration::from_secs(10), || writer.try_wait().ok().flatten()).expect("it ends");
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
