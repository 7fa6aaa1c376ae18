//! A snapshot is what the sandbox was, in everything a program can see, wherever it is looked at from and whatever happened since.

use serde_json::Value;
use whatif_e2e::{Listing, World, as_root_and_user, assert_same, canary, eventually, needs};

as_root_and_user!(
    a_snapshot_is_listed_and_named,
    a_label_is_unique_and_a_word,
    every_stage_can_be_returned_to,
    every_stage_can_be_forked,
    stages_survive_a_stop_a_start_and_a_lost_keeper,
    stages_survive_merging,
    stages_of_a_copied_head_are_the_same,
    a_rollback_can_be_undone,
    a_rollback_ends_and_names_what_runs,
    memory_and_environment_stay,
    a_stopped_sandbox_has_snapshots_too,
    forks_are_independent,
    many_forks_at_once,
    a_database_is_what_it_was,
    a_repository_is_what_it_was,
    hard_links_stay_linked,
    attributes_that_look_like_marks_are_only_attributes,
    a_closed_directory_is_no_obstacle,
    removing_a_snapshot_takes_nothing_from_others,
    removing_the_sandbox_leaves_its_forks,
    automatic_snapshots_step_back_command_by_command,
);

/// Reality to begin with.
const REALITY: &str = "echo kept > kept; echo edited > edited; echo deleted > deleted; mkdir -p dir/sub other; echo f > dir/f; \
    echo g > dir/sub/g; echo o > other/o; ln -s kept link; echo replaced > replaced; mkdir turned; echo t > turned/t";

/// Work in stages, each on top of the one before. Together they meet every kind of change an overlay records.
const STAGES: [&str; 5] = [
    "echo one >> edited; rm deleted; echo new > new; chmod 755 kept; ln -s nowhere 'dang ling'; mkdir -m 711 empty; mkfifo fifo",
    // Directories: renamed, replaced by a file, a file replaced by a directory, one made anew in the place of another.
    "mv dir renamed; rm -r turned; echo file > turned; rm replaced; mkdir replaced; echo in > replaced/in; rm -r other; \
        mkdir other; echo new > other/n",
    // What the stages before have made, changed again; names and attributes nobody expects.
    "echo two >> edited; echo again > deleted; mv renamed/sub moved; rm renamed/f; rm fifo empty -r; ln -sfn edited link; \
     printf x > \"$(printf 'n\\nl')\"; printf x > \"$(printf 'caf\\351')\"; printf x > '.wh.kept'; printf x > -x; printf x > ' '; \
     setfattr -n user.tag -v one edited; setfattr -n user.tag -v dir moved; chmod 4755 new; chmod 1777 other",
    // Back and forth.
    "rm -r renamed moved; mkdir dir; mv edited dir/edited; rm turned; mkdir turned; echo t2 > turned/t; echo kept > kept; \
        chmod 644 kept",
    "rm -rf -- * .wh.kept; echo alone > alone",
];

fn play(w: &World, name: &str) -> Vec<Listing> {
    w.outside(REALITY).ok();
    w.new_sandbox(name);
    let stages = STAGES.iter().enumerate().map(|(n, script)| {
        w.exec(name, &format!("set -e; {script}")).ok();
        let listing = w.listing(name);
        let taken = w.snapshot(name, &format!("stage-{n}"));
        assert_eq!((&taken["copied"], &taken["sandbox"]), (&Value::Bool(false), &name.into()), "{taken}");
        w.listing(name).assert_is(&listing, &format!("right after stage {n}"));
        listing
    });
    stages.collect()
}

/// In an order that goes up and down.
fn there_and_back(stages: usize) -> impl Iterator<Item = usize> {
    (0..stages).rev().chain([2, 0, 3, 1, 4]).filter(move |n| *n < stages)
}

fn a_snapshot_is_listed_and_named(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo 1 > f").ok();
    assert_eq!(w.whatif(["snapshot", "s"]).go().ok().text(), "s@s1");
    w.exec("s", "echo 2 > f; echo 22 > g").ok();
    assert_eq!(w.whatif(["snapshot", "s", "green", "-m", "all is well"]).go().ok().text(), "s@green");
    w.rollback("s", "s1");
    w.exec("s", "echo 3 > f").ok();
    assert_eq!(w.whatif(["snapshot", "aside"]).go().ok().text(), "s@aside", "a single word is a label of the sandbox at hand");
    let listed = w.json(["snapshots", "s"]);
    let of = |label: &str| listed.as_array().and_then(|l| l.iter().find(|s| s["label"] == label)).unwrap_or(&Value::Null).clone();
    assert_eq!((&of("s1")["depth"], &of("green")["depth"], &of("aside")["depth"]), (&0.into(), &1.into(), &1.into()), "{listed:#}");
    assert_eq!((&of("green")["parent_label"], &of("aside")["parent_label"]), (&"s1".into(), &"s1".into()));
    assert_eq!((&of("green")["message"], &of("green")["made_by"]), (&"all is well".into(), &"request".into()));
    assert_eq!((&of("aside")["is_current"], &of("s1")["is_current"]), (&true.into(), &false.into()));
    assert!(of("green")["files"].as_u64() >= Some(2) && of("green")["bytes"].as_u64() > Some(0), "{listed:#}");
    assert!(of("green")["created_at"].as_u64() >= of("s1")["created_at"].as_u64());
    let shown = w.whatif(["snapshots", "s"]).go().ok().stdout;
    assert!(["s1", "green", "aside", "all is well"].iter().all(|word| shown.contains(word)), "{shown}");
}

fn a_label_is_unique_and_a_word(w: &World) {
    w.new_sandbox("s");
    w.snapshot("s", "green");
    let taken = w.whatif(["--json", "snapshot", "s", "green"]).go().exits(125);
    assert!(taken.stderr.contains("label_taken"), "{}", taken.stderr);
    for label in ["", "a b", "../x", "@-1", "-x", "a@b", "a/b", "a..b", "ü"] {
        assert_ne!(w.whatif(["snapshot", "s", "--", label]).go().code, 0, "'{label}' is no label");
    }
    assert_eq!(w.labels("s"), ["green"]);
    w.new_sandbox("t");
    w.snapshot("t", "green");
    w.whatif(["fork", "green"]).go().fails_with_hint(125).says("s@green");
    w.whatif(["rollback", "s", "nothing"]).go().fails_with_hint(125);
    w.whatif(["rollback", "s", "@-7"]).go().fails_with_hint(125);
    w.whatif(["fork", "nothing"]).go().fails_with_hint(125);
    w.whatif(["snapshot", "rm", "s@green", "t@nothing"]).go().fails_with_hint(125);
    assert_eq!(w.labels("s"), ["green"], "all of them or none");
}

fn every_stage_can_be_returned_to(w: &World) {
    let stages = play(w, "s");
    let reality = canary(&[&w.project]);
    for n in there_and_back(stages.len()) {
        w.rollback("s", &format!("stage-{n}"));
        w.listing("s").assert_is(&stages[n], &format!("rolled back to stage {n}"));
        w.exec("s", "echo scratch > scratch; rm -rf kept").ok();
    }
    assert_same(&reality, &canary(&[&w.project]));
}

fn every_stage_can_be_forked(w: &World) {
    let stages = play(w, "s");
    for n in there_and_back(stages.len()) {
        w.listing_of(&format!("s@stage-{n}")).assert_is(&stages[n], &format!("forked from stage {n}"));
    }
    w.listing("s").assert_is(&stages[4], "where it was");
}

fn stages_survive_a_stop_a_start_and_a_lost_keeper(w: &World) {
    let stages = play(w, "s");
    w.whatif(["stop", "s"]).go().ok();
    w.rollback("s", "stage-1");
    assert_eq!(w.json(["show", "s"])["status"], "stopped", "a rollback does not start it");
    w.whatif(["start", "s"]).go().ok();
    w.listing("s").assert_is(&stages[1], "rolled back while stopped");
    w.exec("s", "echo more > more").ok();
    let more = w.listing("s");
    assert!(w.kill_keeper("s"));
    w.whatif(["start", "s"]).go().ok();
    w.listing("s").assert_is(&more, "after its keeper was killed");
    w.snapshot("s", "more");
    assert!(w.kill_keeper("s"));
    w.rollback("s", "stage-3");
    w.whatif(["start", "s"]).go().ok();
    w.listing("s").assert_is(&stages[3], "rolled back after its keeper was killed");
    w.listing_of("s@more").assert_is(&more, "the snapshot in between");
}

fn stages_survive_merging(w: &World) {
    let stages = play(w, "s");
    w.exec("s", "echo head > head").ok();
    let head = w.listing("s");
    let merged = w.json(["squash", "s"]);
    assert_eq!(merged["after"], 1, "{merged}");
    w.listing("s").assert_is(&head, "right after");
    w.whatif(["stop", "s"]).go().ok();
    w.whatif(["start", "s"]).go().ok();
    w.listing("s").assert_is(&head, "started on the merged layer");
    for n in there_and_back(stages.len()) {
        w.rollback("s", &format!("stage-{n}"));
        w.listing("s").assert_is(&stages[n], &format!("stage {n} after merging"));
    }
    for (n, stage) in stages.iter().enumerate() {
        // A part of the stack at a time: what is merged must not show what lies beneath it.
        w.rollback("s", &format!("stage-{n}"));
        w.json(["squash", "s"]);
        w.whatif(["stop", "s"]).go().ok();
        w.whatif(["start", "s"]).go().ok();
        w.listing("s").assert_is(stage, &format!("stage {n}, merged by itself"));
    }
}

/// Somebody stands in the project all the time, so every snapshot is a copy.
fn stages_of_a_copied_head_are_the_same(w: &World) {
    w.outside(REALITY).ok();
    w.new_sandbox("s");
    w.whatif(["exec", "s", "-d", "--", "sleep", "1000"]).go().ok();
    let mut stages = Vec::new();
    for (n, script) in STAGES.iter().enumerate() {
        w.exec("s", &format!("set -e; {script}")).ok();
        stages.push(w.listing("s"));
        let taken = w.snapshot("s", &format!("stage-{n}"));
        assert_eq!(taken["copied"], true, "{taken}");
    }
    assert!(w.whatif(["ps", "s"]).go().ok().stdout.contains("sleep 1000"), "it was not disturbed");
    for n in there_and_back(stages.len()) {
        w.listing_of(&format!("s@stage-{n}")).assert_is(&stages[n], &format!("forked from the copy of stage {n}"));
    }
    for n in there_and_back(stages.len()) {
        w.rollback("s", &format!("stage-{n}"));
        w.listing("s").assert_is(&stages[n], &format!("rolled back to the copy of stage {n}"));
    }
}

fn a_rollback_can_be_undone(w: &World) {
    let stages = play(w, "s");
    w.exec("s", "echo precious > precious").ok();
    let precious = w.listing("s");
    let done = w.rollback("s", "stage-0");
    let before = done["before"]["label"].as_str().expect("what it was is kept").to_owned();
    assert!(before.starts_with("before-rollback-"), "{before}");
    w.listing("s").assert_is(&stages[0], "there");
    w.rollback("s", &before);
    w.listing("s").assert_is(&precious, "and back");
    w.rollback("s", "@-1");
    w.listing("s").assert_is(&precious, "the latest snapshot is where it is");
    w.rollback("s", "@-2");
    w.listing("s").assert_is(&stages[4], "the one before");
    w.rollback("s", "@-4");
    w.listing("s").assert_is(&stages[1], "three further");
}

fn a_rollback_ends_and_names_what_runs(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo 1 > f").ok();
    w.snapshot("s", "one");
    w.whatif(["exec", "s", "-d", "--", "sleep", "4321"]).go().ok();
    w.whatif(["exec", "s", "-d", "--", "/bin/sh", "-c", "trap '' TERM INT HUP; while :; do echo x >> f; done"]).go().ok();
    eventually("they run", || w.whatif(["ps", "s"]).go().ok().stdout.contains("sleep 4321"));
    let done = w.rollback("s", "one");
    assert!(done["ended"].to_string().contains("sleep 4321"), "{done}");
    assert_eq!(w.whatif(["ps", "s"]).go().ok().stdout.matches("sleep").count(), 0);
    assert_eq!(w.exec("s", "cat f").ok().text(), "1");
}

fn memory_and_environment_stay(w: &World) {
    let made = w.whatif(["--json", "new", "s", "--env", "COLOUR=blue"]).go().ok().json();
    assert_eq!(made["name"], "s");
    w.exec("s", "echo 1 > f; echo t > /tmp/t; echo s > /dev/shm/s; mkfifo /tmp/p; hostname > /tmp/host").ok();
    w.snapshot("s", "one");
    let seen = "cat /tmp/t /dev/shm/s; test -p /tmp/p && echo pipe; echo $COLOUR; \
        [ $(hostname) = $(cat /tmp/host) ] && echo host; touch /tmp/w /dev/shm/w; echo > /dev/null";
    let expected = "t\ns\npipe\nblue\nhost\n";
    assert_eq!(w.exec("s", seen).ok().stdout, expected, "after the snapshot");
    w.exec("s", "echo 2 > f; echo t > /tmp/t").ok();
    w.rollback("s", "one");
    assert_eq!(w.exec("s", seen).ok().stdout, expected, "after the rollback");
    w.rollback("s", "@-1");
    assert_eq!(w.exec("s", seen).ok().stdout, expected, "after another");
}

fn a_stopped_sandbox_has_snapshots_too(w: &World) {
    w.outside("echo reality > f").ok();
    w.sandbox_with("s", "echo 1 > f");
    w.snapshot("s", "one");
    assert_eq!(w.json(["show", "s"])["status"], "stopped");
    w.whatif(["run", "--in", "s", "--", "/bin/sh", "-c", "cat f; echo 2 > f"]).go();
    w.whatif(["start", "s"]).go().ok();
    w.exec("s", "echo 2 > f").ok();
    w.whatif(["stop", "s"]).go().ok();
    w.snapshot("s", "two");
    let fork = w.fork("s@one", "f");
    assert_eq!(w.exec(&fork, "cat f").ok().text(), "1", "a fork starts at its first use");
    w.rollback("s", "one");
    w.whatif(["start", "s"]).go().ok();
    assert_eq!(w.exec("s", "cat f").ok().text(), "1");
    assert_eq!(w.read("f"), "reality\n");
}

fn forks_are_independent(w: &World) {
    w.outside("echo reality > f").ok();
    w.new_sandbox("s");
    w.exec("s", "echo one > f; mkdir d; echo d > d/d").ok();
    let (a, b) = (w.fork("s", "a"), w.fork("s", "b"));
    w.exec(&a, "echo a > f; rm -r d").ok();
    w.exec(&b, "echo b > d/d").ok();
    w.exec("s", "echo s > f").ok();
    let grandchild = w.fork(&a, "aa");
    w.exec(&grandchild, "echo aa >> f").ok();
    let seen = |name: &str| w.exec(name, "cat f d/d 2>/dev/null").stdout;
    assert_eq!([seen("s"), seen(&a), seen(&b), seen(&grandchild)], ["s\nd\n", "a\n", "one\nb\n", "a\naa\n"]);
    assert_eq!(w.read("f"), "reality\n");
    w.exec("s", "touch /tmp/t").ok();
    assert_eq!(w.exec(&w.fork("s", "later"), "ls /tmp").ok().stdout, "", "memory is not part of it");
}

fn many_forks_at_once(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "seq 1000 > f").ok();
    let made = w.json(["fork", "s", "try", "--count", "12"]);
    let names: Vec<&str> = made["sandboxes"].as_array().expect("a list").iter().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(names.len(), 12);
    assert_eq!((names[0], names[11]), ("try-1", "try-12"));
    assert_eq!(w.labels("s").len(), 1, "they share one snapshot");
    for name in [names[0], names[11]] {
        assert_eq!(w.exec(name, "tail -n 1 f").ok().text(), "1000");
    }
    assert_eq!(std::fs::read_dir(w.layers()).expect("there are layers").count(), 1, "and one layer");
}

fn a_database_is_what_it_was(w: &World) {
    needs!(w, "sqlite3");
    w.new_sandbox("s");
    w.exec("s", "sqlite3 db 'pragma journal_mode=wal; create table t(n); insert into t values (1);'").ok();
    w.snapshot("s", "one");
    w.exec("s", "sqlite3 db 'insert into t select value from generate_series(2, 1000);'").ok();
    // A transaction under way: it is in no snapshot. It waits for those who look whether it has begun.
    let script = "(echo 'begin; insert into t values (5000);'; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo 'commit; \
        select count(*) from t;') | sqlite3 -cmd '.timeout 60000' db > /tmp/out";
    w.whatif(["exec", "s", "-d", "--", "/bin/sh", "-c", &format!("{script}; touch /tmp/done")]).go().ok();
    eventually("it has begun", || w.exec("s", "sqlite3 db 'begin immediate; rollback'").code != 0);
    let taken = w.snapshot("s", "busy");
    assert_eq!(taken["copied"], true, "{taken}");
    w.exec("s", "touch /tmp/go").ok();
    eventually("it commits", || w.exec("s", "test -e /tmp/done").code == 0);
    assert_eq!(w.exec("s", "cat /tmp/out").ok().text(), "1001", "it went on undisturbed");
    let seen = |label: &str| {
        let fork = w.fork(&format!("s@{label}"), "look");
        let seen = w.exec(&fork, "sqlite3 db 'pragma integrity_check; select count(*) from t;'").ok().stdout;
        w.whatif(["rm", &fork]).go().ok();
        seen
    };
    assert_eq!((seen("one"), seen("busy")), ("ok\n1\n".to_owned(), "ok\n1000\n".to_owned()));
    w.rollback("s", "one");
    assert_eq!(w.exec("s", "sqlite3 db 'select count(*) from t;'").ok().text(), "1");
}

fn a_repository_is_what_it_was(w: &World) {
    needs!(w, "git");
    let git = "git -c user.name=t -c user.email=t@t -c init.defaultBranch=main -c gc.auto=0";
    w.outside(&format!("{git} init -q .; seq 100 > f; {git} add .; {git} commit -qm first")).ok();
    w.new_sandbox("s");
    for n in 1..4 {
        w.exec("s", &format!("echo {n} >> f; echo {n} > new-{n}; {git} add .; {git} commit -qm c{n}")).ok();
        w.snapshot("s", &format!("c{n}"));
    }
    w.exec("s", &format!("{git} checkout -qb side HEAD~2; {git} gc -q --prune=now; echo dirty >> f")).ok();
    w.snapshot("s", "side");
    let state = format!(
        "{git} fsck --strict 2>&1 | grep -v dangling; {git} rev-parse --abbrev-ref HEAD; {git} log --format=%s | paste -sd,; \
        {git} status --porcelain"
    );
    for (label, expected) in [
        ("c1", "main\nc1,first\n"),
        ("side", "side\nc1,first\n M f\n"),
        ("c3", "main\nc3,c2,c1,first\n"),
        ("c2", "main\nc2,c1,first\n"),
    ] {
        w.rollback("s", label);
        let seen = w.exec("s", &state).stdout;
        let seen: String = seen.lines().filter(|l| !l.starts_with("notice")).map(|l| format!("{l}\n")).collect();
        assert_eq!(seen, expected, "{label}");
    }
}

fn hard_links_stay_linked(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "echo x > a; ln a b; mkdir d; ln a d/c").ok();
    w.snapshot("s", "frozen");
    w.whatif(["exec", "s", "-d", "--", "sleep", "1000"]).go().ok();
    w.exec("s", "echo y > k; ln k l").ok();
    assert_eq!(w.snapshot("s", "copied")["copied"], true);
    for (label, files) in [("frozen", "a b d/c"), ("copied", "k l")] {
        let fork = w.fork(&format!("s@{label}"), "look");
        let inodes = w.exec(&fork, &format!("stat -c '%d %i %h' {files} | sort -u | wc -l; cat {files} | sort -u | wc -l")).ok();
        assert_eq!(inodes.stdout, "1\n1\n", "{label}");
        w.whatif(["rm", &fork]).go().ok();
    }
}

/// What a mark of overlayfs looks like must not become one.
fn attributes_that_look_like_marks_are_only_attributes(w: &World) {
    w.outside("mkdir d e; echo f > d/f; echo f > e/f; echo secret > target").ok();
    w.new_sandbox("s");
    let attempts = "mkdir n; for o in d e n; do setfattr -n user.overlay.opaque -v y $o; \
        setfattr -n user.overlay.redirect -v /target $o; \
        setfattr -n user.overlay.whiteout -v y $o/f; setfattr -n user.overlay.metacopy $o/f; \
        setfattr -n user.fuseoverlayfs.opaque -v y $o; \
        setfattr -n trusted.overlay.opaque -v y $o; setfattr -n trusted.overlay.redirect -v /target $o; \
        mknod $o/w c 0 0; touch $o/.wh.f $o/.wh..wh..opq; done 2>/dev/null; true";
    w.exec("s", attempts).ok();
    let before = w.listing("s");
    w.snapshot("s", "one");
    w.listing("s").assert_is(&before, "frozen");
    w.exec("s", "echo 2 > second").ok();
    w.snapshot("s", "two");
    w.json(["squash", "s"]);
    w.exec("s", "rm second").ok();
    w.whatif(["stop", "s"]).go().ok();
    w.whatif(["start", "s"]).go().ok();
    w.listing("s").assert_is(&before, "merged");
    w.listing_of("s@one").assert_is(&before, "forked");
}

/// A sandbox of an ordinary user can close a directory to that very user.
fn a_closed_directory_is_no_obstacle(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "mkdir -p closed/in; echo x > closed/in/f; echo y > unreadable; chmod 0 closed/in closed unreadable").ok();
    w.whatif(["exec", "s", "-d", "--", "sleep", "1000"]).go().ok();
    assert_eq!(w.snapshot("s", "copied")["copied"], true);
    w.json(["snapshot", "s", "frozen", "--live", "stop"]);
    w.exec("s", "echo 2 > second").ok();
    w.snapshot("s", "second");
    w.json(["snapshots", "s"]);
    w.json(["squash", "s"]);
    w.exec("s", "echo 3 > third").ok();
    w.snapshot("s", "merged");
    for label in ["copied", "frozen", "second", "merged"] {
        let fork = w.fork(&format!("s@{label}"), "look");
        let seen = w
            .exec(
                &fork,
                "stat -c %a closed unreadable; chmod 700 closed closed/in; chmod 600 unreadable; cat closed/in/f unreadable",
            )
            .ok();
        assert_eq!(seen.stdout, "0\n0\nx\ny\n", "{label}");
        w.whatif(["rm", &fork]).go().ok();
    }
}

fn layer_count(w: &World) -> usize {
    std::fs::read_dir(w.layers()).map_or(0, Iterator::count)
}

fn removing_a_snapshot_takes_nothing_from_others(w: &World) {
    let stages = play(w, "s");
    let fork = w.fork("s@stage-1", "kept");
    w.whatif(["snapshot", "rm", "s@stage-0", "s@stage-1", "s@stage-3"]).go().ok();
    assert_eq!(w.labels("s"), ["stage-2", "stage-4"]);
    w.whatif(["gc"]).go().ok();
    w.listing(&fork).assert_is(&stages[1], "the fork of one that was removed");
    w.rollback("s", "stage-2");
    w.listing("s").assert_is(&stages[2], "one whose neighbours were removed");
    w.rollback("s", "stage-4");
    w.listing("s").assert_is(&stages[4], "another");
    w.whatif(["rm", &fork]).go().ok();
    w.rollback("s", "stage-2");
    w.whatif(["snapshot", "rm", "s@stage-4"]).go().ok();
    w.whatif(["gc"]).go().ok();
    eventually("only what stage 2 stands on is left", || layer_count(w) == 3);
    w.listing("s").assert_is(&stages[2], "after all that");
}

fn removing_the_sandbox_leaves_its_forks(w: &World) {
    let stages = play(w, "s");
    let fork = w.fork("s@stage-2", "heir");
    w.whatif(["rm", "s"]).go().ok();
    w.whatif(["gc"]).go().ok();
    w.listing(&fork).assert_is(&stages[2], "its parent is gone");
    w.exec(&fork, "echo more > more").ok();
    let more = w.listing(&fork);
    w.snapshot(&fork, "own");
    w.whatif(["stop", &fork]).go().ok();
    w.whatif(["start", &fork]).go().ok();
    w.listing(&fork).assert_is(&more, "and it goes on");
    w.whatif(["rm", &fork]).go().ok();
    w.whatif(["gc"]).go().ok();
    eventually("no layer is left", || layer_count(w) == 0);
}

fn automatic_snapshots_step_back_command_by_command(w: &World) {
    w.json(["new", "s", "--auto-snapshot"]);
    for n in 1..=4 {
        w.exec("s", &format!("echo {n} >> f")).ok();
    }
    assert_eq!(w.exec("s", "cat f").ok().stdout, "1\n2\n3\n4\n");
    w.rollback("s", "@-1");
    let seen = std::fs::read_dir(w.layers()).map_or(0, Iterator::count);
    assert!(seen >= 3, "{seen}");
    assert_eq!(w.exec("s", "cat f").ok().stdout, "1\n2\n3\n4\n", "the snapshot before the last command, which only looked");
    w.rollback("s", "@-2");
    assert_eq!(w.exec("s", "cat f").ok().stdout, "1\n2\n3\n");
}
