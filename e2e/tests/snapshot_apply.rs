//! Snapshots and reality: what a sandbox changed is the same whether it lies in its head or in frozen layers, and every command
//! about changes sees all of it.

use serde_json::{Value, json};
use whatif_e2e::{Detail, Tree, World, as_root, as_root_and_user, assert_same, canary, change};

as_root!(what_root_made_before_a_snapshot_belongs_to_the_tree);
as_root_and_user!(
    a_diff_is_the_same_before_and_after_a_snapshot,
    a_diff_after_a_rollback_is_that_of_the_snapshot,
    everything_is_applied_from_all_layers_and_undone,
    a_fork_is_applied_to_reality,
    a_fork_is_applied_that_never_ran,
    two_forks_are_applied_one_after_the_other,
    another_fork_is_applied_after_an_undo,
    a_renamed_directory_is_still_there_after_an_apply,
    an_apply_goes_on_after_a_snapshot,
    a_change_taken_back_in_a_later_layer_is_none,
    drift_is_seen_through_layers,
    a_rebase_reaches_every_layer,
    a_rebase_keeps_what_directories_are_in_newer_layers,
    a_rejected_sandbox_keeps_its_snapshots,
    a_review_sees_every_layer,
    bases_are_those_of_the_first_change,
    between_two_snapshots,
);

const REALITY: &str = "seq 30 > f; echo g > g; echo gone > gone; mkdir -p d/e; echo x > d/x; echo y > d/e/y; ln -s f l; echo m > m";

/// Each step changes something of the steps before it as well.
const STEPS: [&str; 4] = [
    "sed -i s/^2$/two/ f; rm gone; mv d moved; echo new > new",
    "sed -i s/^20$/twenty/ f; echo back > gone; rm moved/x; chmod 755 g; ln -sfn g l",
    "rm new; mkdir new; echo in > new/in; echo 2 > moved/e/y; rm -r moved/e; mkdir moved/e; echo z > moved/e/z",
    "setfattr -n user.tag -v t g; rm m; printf 'a\\0b' > binary",
];

fn changes(w: &World, name: &str) -> Value {
    w.json(["diff", name])["changes"].clone()
}

/// Two sandboxes that did the same, one of them with a snapshot after each step.
fn twins(w: &World) {
    w.outside(REALITY).ok();
    w.new_sandbox("plain");
    w.new_sandbox("layered");
    for (n, step) in STEPS.iter().enumerate() {
        w.exec("plain", &format!("set -e; {step}")).ok();
        w.exec("layered", &format!("set -e; {step}")).ok();
        w.snapshot("layered", &format!("step-{n}"));
    }
}

/// What was changed, without what tells one sandbox from another.
fn summary(changes: &Value) -> Vec<String> {
    let all = changes.as_array().unwrap_or_else(|| panic!("a list of changes: {changes}"));
    let mut lines: Vec<String> = all
        .iter()
        .map(|c| {
            ["path", "kind", "from", "added_lines", "deleted_lines", "mode", "old_mode", "new_mode"]
                .map(|k| c[k].to_string())
                .join(" ")
        })
        .collect();
    lines.sort();
    lines
}

fn a_diff_is_the_same_before_and_after_a_snapshot(w: &World) {
    twins(w);
    assert_eq!(summary(&changes(w, "layered")), summary(&changes(w, "plain")));
    let patch = |name: &str| w.whatif(["diff", name, "--patch"]).go().ok().stdout;
    assert_eq!(patch("layered"), patch("plain"));
    let counted = |name: &str| w.json(["show", name])["changes"]["changed_files"].clone();
    assert_eq!(counted("layered"), counted("plain"));
    w.json(["squash", "layered"]);
    assert_eq!(patch("layered"), patch("plain"), "merged");
    w.whatif(["stop", "layered"]).go().ok();
    assert_eq!(patch("layered"), patch("plain"), "stopped");
    assert_eq!(w.fork("layered", "fork"), "fork");
    assert_eq!(patch("fork"), patch("plain"), "forked");
    let listed = w.json(["ls"]);
    let counted =
        |name: &str| listed.as_array().and_then(|l| l.iter().find(|s| s["name"] == name)).map(|s| s["changed_files"].clone());
    assert_eq!(counted("layered"), counted("plain"), "{listed:#}");
}

fn a_diff_after_a_rollback_is_that_of_the_snapshot(w: &World) {
    w.outside(REALITY).ok();
    w.new_sandbox("s");
    let mut seen = Vec::new();
    for (n, step) in STEPS.iter().enumerate() {
        w.exec("s", &format!("set -e; {step}")).ok();
        seen.push(w.whatif(["diff", "s", "--patch"]).go().ok().stdout);
        w.snapshot("s", &format!("step-{n}"));
    }
    for n in [2, 0, 3, 1] {
        w.rollback("s", &format!("step-{n}"));
        assert_eq!(w.whatif(["diff", "s", "--patch"]).go().ok().stdout, seen[n], "step {n}");
    }
}

fn everything_is_applied_from_all_layers_and_undone(w: &World) {
    twins(w);
    let before = Tree::of(&w.project, Detail::Times);
    w.exec("layered", "echo head > head").ok();
    let inside = w.listing("layered");
    w.apply(&["layered", "--all"]).ok();
    w.real_listing().assert_is(&inside, "applied");
    w.whatif(["undo", "--yes"]).go().ok();
    Tree::of(&w.project, Detail::Times).assert_is(&before, "undone");
}

fn a_fork_is_applied_to_reality(w: &World) {
    twins(w);
    let before = Tree::of(&w.project, Detail::Times);
    let fork = w.fork("layered@step-1", "fork");
    w.exec(&fork, "echo fork > fork; sed -i s/^10$/ten/ f").ok();
    let inside = w.listing(&fork);
    w.apply(&[&fork, "--all"]).ok();
    w.real_listing().assert_is(&inside, "applied");
    w.whatif(["undo", "--yes"]).go().ok();
    Tree::of(&w.project, Detail::Times).assert_is(&before, "undone");
}

fn a_fork_is_applied_that_never_ran(w: &World) {
    twins(w);
    let fork = w.fork("layered@step-2", "silent");
    let inside = w.listing_of("layered@step-2");
    w.apply(&[&fork, "--all"]).ok();
    w.real_listing().assert_is(&inside, "applied without a start");
}

/// Try one, take it back, try the other.
fn another_fork_is_applied_after_an_undo(w: &World) {
    w.outside(REALITY).ok();
    w.new_sandbox("s");
    w.snapshot("s", "start");
    let (a, b) = (w.fork("s@start", "a"), w.fork("s@start", "b"));
    w.exec(&a, "echo a > f; rm g gone; ln -sfn m l; mv d moved").ok();
    w.exec(&b, "echo b > f; rm g; ln -sfn g l; mv d moved-too; chmod 755 m").ok();
    w.apply(&[&a, "--all"]).ok();
    w.whatif(["undo", "--yes"]).go().ok();
    // A renamed directory refers to the real one, which is another one by now; a start finds it again.
    w.whatif(["stop", &b]).go().ok();
    w.whatif(["start", &b]).go().ok();
    let inside = w.listing(&b);
    w.apply(&[&b, "--all"]).ok();
    w.real_listing().assert_is(&inside, "applied");
}

fn a_renamed_directory_is_still_there_after_an_apply(w: &World) {
    w.outside(REALITY).ok();
    for (name, is_frozen) in [("head", false), ("frozen", true)] {
        w.new_sandbox(name);
        w.exec(name, &format!("mv d {name}; rm -r {name}/e; mkdir {name}/e; echo z > {name}/e/z")).ok();
        if is_frozen {
            w.snapshot(name, "one");
        }
        let inside = w.listing(name);
        w.apply(&[name, "--all"]).ok();
        w.real_listing().assert_is(&inside, &format!("{name}: applied"));
        w.listing(name).assert_is(&inside, &format!("{name}: the sandbox sees the same"));
        assert_eq!(changes(w, name), json!([]), "{name}: nothing is left to apply");
        w.whatif(["undo", "--yes"]).go().ok();
    }
}

fn two_forks_are_applied_one_after_the_other(w: &World) {
    w.outside("seq 30 > f; echo own > own").ok();
    w.new_sandbox("s");
    w.exec("s", "sed -i s/^2$/two/ f").ok();
    let (a, b) = (w.fork("s", "a"), w.fork("s", "b"));
    w.exec(&a, "sed -i s/^15$/fifteen/ f; echo a > a").ok();
    w.exec(&b, "sed -i s/^28$/twentyeight/ f; echo b > own").ok();
    w.apply(&[&a]).ok();
    w.apply(&[&b]).ok();
    let f = w.read("f");
    assert!(["two", "fifteen", "twentyeight"].iter().all(|word| f.contains(word)), "{f}");
    assert_eq!((w.read("a").as_str(), w.read("own").as_str()), ("a\n", "b\n"));
}

fn an_apply_goes_on_after_a_snapshot(w: &World) {
    w.outside("seq 30 > f; echo gone > gone; echo same > same").ok();
    w.new_sandbox("s");
    w.exec("s", "sed -i s/^2$/two/ f; rm gone; echo new > new").ok();
    w.snapshot("s", "one");
    let first = w.listing("s");
    w.apply(&["s", "--all"]).ok();
    assert_eq!(changes(w, "s"), json!([]));
    w.exec("s", "sed -i s/^20$/twenty/ f; echo back > gone; rm new").ok();
    w.snapshot("s", "two");
    let document = w.json(["diff", "s"]);
    assert_eq!(change(&document, "gone")["kind"], "add", "{document:#}");
    assert_eq!(document["drift"], json!([]), "what was applied is no drift: {document:#}");
    let inside = w.listing("s");
    w.apply(&["s", "--all"]).ok();
    w.real_listing().assert_is(&inside, "applied in two parts");
    w.rollback("s", "one");
    w.listing("s").assert_is(&first, "the snapshot is what it was");
}

fn a_change_taken_back_in_a_later_layer_is_none(w: &World) {
    w.outside("echo f > f; echo g > g; mkdir d; echo x > d/x").ok();
    let reality = canary(&[&w.project]);
    w.new_sandbox("s");
    w.exec("s", "cp -a f /tmp/f; echo changed > f; rm g; echo new > new; chmod 600 d/x").ok();
    w.snapshot("s", "one");
    w.exec("s", "echo f > f; rm new; chmod 644 d/x").ok();
    w.snapshot("s", "two");
    let paths: Vec<String> = changes(w, "s").as_array().unwrap_or(&Vec::new()).iter().map(|c| c["path"].to_string()).collect();
    assert_eq!(paths, ["\"g\""], "only what differs from reality");
    w.exec("s", "echo g > g").ok();
    assert_eq!(changes(w, "s"), json!([]), "nothing differs any more");
    assert_same(&reality, &canary(&[&w.project]));
}

fn drift_is_seen_through_layers(w: &World) {
    w.outside("seq 20 > merging; seq 20 > colliding; echo same > same").ok();
    w.new_sandbox("s");
    w.exec("s", "sed -i s/^2$/two/ merging; sed -i s/^2$/two/ colliding").ok();
    w.snapshot("s", "one");
    w.exec("s", "echo more > more").ok();
    w.snapshot("s", "two");
    let fork = w.fork("s@one", "fork");
    w.outside("sed -i s/^19$/nineteen/ merging; sed -i s/^2$/zwei/ colliding").ok();
    for name in ["s", &fork] {
        let said = w.whatif(["status", name]).go().ok().stdout;
        assert!(
            said.contains("merging") && said.contains("colliding") && !said.lines().any(|line| line.ends_with(" same")),
            "{name}:\n{said}"
        );
        w.apply(&[name]).exits(1);
    }
    assert!(!w.read("merging").contains("two"), "a conflict writes nothing");
    w.apply(&["s", "--theirs", "colliding"]).ok();
    assert!(w.read("merging").contains("two\n") && w.read("merging").contains("nineteen") && w.read("colliding").contains("two"));
}

fn a_rebase_reaches_every_layer(w: &World) {
    w.outside("seq 20 > merged; echo old > untouched; echo old > own").ok();
    w.new_sandbox("s");
    w.exec("s", "sed -i s/^2$/two/ merged").ok();
    w.snapshot("s", "one");
    w.exec("s", "echo mine > own; echo added > added").ok();
    w.snapshot("s", "two");
    let snapshot = w.listing_of("s@two");
    let layers = w.frozen();
    w.outside("sed -i s/^19$/nineteen/ merged; echo new > untouched; echo later > later").ok();
    w.whatif(["rebase", "s"]).go().ok();
    let inside = w.exec("s", "sed -n '2p;19p' merged; cat untouched own added later").ok().stdout;
    assert_eq!(inside, "two\nnineteen\nnew\nmine\nadded\nlater\n");
    assert_same(&layers, &w.frozen());
    let document = w.json(["diff", "s"]);
    assert_eq!(document["drift"], json!([]), "{document:#}");
    let fork = w.fork("s@two", "fork");
    assert_eq!(w.exec(&fork, "sed -n '2p;19p' merged").ok().stdout, "two\n19\n", "a snapshot keeps what was changed: {snapshot:?}");
}

/// A file of an old layer is merged into the head, with the directories above it.
fn a_rebase_keeps_what_directories_are_in_newer_layers(w: &World) {
    w.outside("mkdir -p d/e; seq 9 > d/e/f; seq 9 > d/g").ok();
    w.new_sandbox("s");
    w.exec("s", "sed -i s/^1$/one/ d/e/f d/g").ok();
    w.snapshot("s", "one");
    w.exec("s", "chmod 750 d; chmod 700 d/e; setfattr -n user.tag -v t d/e").ok();
    w.snapshot("s", "two");
    w.exec("s", "echo > other").ok();
    w.snapshot("s", "three");
    w.outside("sed -i s/^9$/nine/ d/e/f d/g").ok();
    w.whatif(["rebase", "s"]).go().ok();
    let seen = w.exec("s", "stat -c %a d d/e; getfattr --only-values -n user.tag d/e; grep -c one d/e/f; grep -c nine d/e/f");
    assert_eq!(seen.ok().text(), "750\n700\nt1\n1");
}

fn a_rejected_sandbox_keeps_its_snapshots(w: &World) {
    w.outside("echo f > f").ok();
    w.new_sandbox("s");
    w.exec("s", "echo F > f").ok();
    w.snapshot("s", "one");
    let layers = w.frozen();
    w.whatif(["reject", "s", "--keep"]).go().ok();
    assert_eq!(w.json(["ls"])[0]["changed_files"], 1, "it is counted as any other that rests");
    assert_same(&layers, &w.frozen());
    let fork = w.fork("s@one", "fork");
    assert_eq!(w.exec(&fork, "cat f").ok().stdout, "F\n");
    w.whatif(["reject", "s", "--delete"]).go().ok();
    w.whatif(["gc"]).go().ok();
    assert_eq!(w.exec(&fork, "cat f").ok().stdout, "F\n", "a fork stays when the sandbox it came from is deleted");
}

fn a_review_sees_every_layer(w: &World) {
    twins(w);
    let paths = |name: &str| -> Vec<String> {
        let document = w.json(["review", name]);
        let changes = document["changes"].as_array().cloned().unwrap_or_default();
        changes.iter().map(|c| c["path"].to_string()).collect()
    };
    assert_eq!(paths("layered"), paths("plain"));
}

/// A file changed in three layers started from reality once: at the first.
fn bases_are_those_of_the_first_change(w: &World) {
    w.outside("seq 40 > f").ok();
    w.new_sandbox("s");
    for (n, word) in [(2, "two"), (20, "twenty"), (38, "thirtyeight")] {
        w.exec("s", &format!("sed -i s/^{n}$/{word}/ f")).ok();
        w.snapshot("s", word);
    }
    w.outside("sed -i s/^10$/ten/ f").ok();
    w.json(["squash", "s"]);
    w.apply(&["s"]).ok();
    let f = w.read("f");
    assert!(["two", "ten", "twenty", "thirtyeight"].iter().all(|word| f.contains(word)), "merged over the right base: {f}");
}

fn between_two_snapshots(w: &World) {
    w.outside("echo f > f").ok();
    w.new_sandbox("s");
    w.exec("s", "echo 1 > f; echo x > x").ok();
    w.snapshot("s", "one");
    w.exec("s", "echo 2 > f; rm x; echo y > y").ok();
    w.snapshot("s", "two");
    let fork = w.fork("s@one", "fork");
    w.exec(&fork, "echo z > z").ok();
    let paths = |range: &str| -> Vec<String> {
        let document = w.json(["diff", range]);
        let mut paths: Vec<String> = document["changes"]
            .as_array()
            .unwrap_or(&Vec::new())
            .iter()
            .map(|c| c["path"].as_str().unwrap_or_default().to_owned())
            .collect();
        paths.sort();
        paths
    };
    assert_eq!(paths("s@one..s@two"), ["f", "x", "y"]);
    assert_eq!(paths("one..two"), ["f", "x", "y"]);
    assert_eq!(paths("s@two..s@one"), ["f", "x", "y"]);
    assert_eq!(paths("s@one..fork"), ["z"]);
    assert_eq!(paths("s@one..s@one"), Vec::<String>::new());
    assert_eq!(paths("s..fork"), ["f", "x", "y", "z"]);
}

/// A change to it copies it up from its layer, which makes it nothing that came from reality.
fn what_root_made_before_a_snapshot_belongs_to_the_tree(w: &World) {
    w.outside("mkdir d; echo old > d/f; echo old > g; chown -R 1000:1000 .").ok();
    w.new_sandbox("s");
    w.exec("s", "rm -r d g; mkdir d; echo new > d/f; echo new > g").ok();
    for label in ["one", "two"] {
        w.snapshot("s", label);
        w.exec("s", "chmod 750 d; echo more >> d/f; echo more >> g").ok();
    }
    w.whatif(["export", "s", "-o", "../s.whatif"]).go().ok();
    w.whatif(["import", "../s.whatif", "--name", "i"]).go().ok();
    w.whatif(["squash", "s"]).go().ok();
    for name in ["s", "i"] {
        w.exec(name, "chmod 770 d; echo most >> d/f; echo most >> g").ok();
        let diff = w.whatif(["diff", name]).go().ok().stdout;
        assert!(!diff.contains("owner"), "{name}: {diff}");
        w.whatif(["apply", name, "--all", "--yes"]).go().ok();
        assert_eq!(w.outside("stat -c '%u %a' d d/f g").text(), "1000 770\n1000 644\n1000 644", "{name}");
        w.whatif(["undo", "--yes"]).go().ok();
    }
}
