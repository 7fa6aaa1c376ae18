//! `gc`: which sandboxes the rules remove and why, and what it finds that belongs to nobody.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::Value;
use whatif_e2e::{Outcome, World, as_root, as_root_and_user, eventually};

as_root_and_user!(
    by_default_only_what_was_decided_about_goes,
    sandboxes_go_by_age_whatever_they_hold,
    the_least_recently_used_go_until_the_rest_fits,
    layers_of_others_stay_when_a_sandbox_goes,
    rules_that_are_not_understood_are_errors,
    a_keeper_without_a_directory_is_ended,
    a_keeper_without_a_record_is_ended_and_its_work_is_named,
    what_only_looks_like_a_keeper_of_ours_is_left_alone,
    names_that_lead_nowhere_are_removed,
    sockets_that_nobody_will_use_are_removed,
    several_collectors_at_once_remove_each_sandbox_once,
    a_collector_beside_other_commands_removes_all_or_nothing,
    what_takes_most_is_named_after_a_snapshot_too,
    what_lies_deeper_than_a_path_is_long_is_measured,
);
as_root!(overlays_in_the_state_directory_are_unmounted_and_other_mounts_are_named, nothing_is_deleted_through_a_mount,);

/// A sandbox with a change that is stopped.
fn stopped(w: &World, name: &str) {
    w.whatif(["run", "--keep", "--quiet", "--name", name, "--", "/bin/sh", "-c", &format!("echo {name} > from-{name}")]).go().ok();
}

fn names(w: &World) -> Vec<String> {
    let mut names = texts(&w.json(["ls"]), "name");
    names.sort();
    names
}

fn texts(list: &Value, field: &str) -> Vec<String> {
    list.as_array().expect("a list").iter().map(|one| one[field].as_str().expect("text").to_owned()).collect()
}

fn directory(w: &World, name: &str) -> PathBuf {
    PathBuf::from(w.json(["show", name])["directory"].as_str().expect("it has one"))
}

/// The one orphan of this kind.
#[track_caller]
fn orphan(document: &Value, kind: &str) -> Value {
    let all = document["orphans"].as_array().expect("a list");
    let [one] = &all.iter().filter(|o| o["kind"] == kind).collect::<Vec<_>>()[..] else { panic!("not one {kind}: {document}") };
    (*one).clone()
}

fn by_default_only_what_was_decided_about_goes(w: &World) {
    for name in ["approved", "rejected", "undecided", "snapshots"] {
        stopped(w, name);
    }
    w.whatif(["apply", "approved", "--yes"]).go().ok();
    w.whatif(["reject", "rejected", "--keep"]).go().ok();
    w.whatif(["snapshot", "snapshots", "point"]).go().ok();
    w.whatif(["reject", "snapshots", "--keep"]).go().ok();
    w.new_sandbox("running");
    let all = ["approved", "rejected", "running", "snapshots", "undecided"];
    assert!(w.whatif(["gc"]).go().ok().stdout.contains("nothing to do"), "a week has not passed");
    let dry = w.whatif(["gc", "--dry-run"]).go().ok().stdout;
    assert!(dry.starts_with("nothing would be removed\n") && dry.contains("kept, unless you remove it yourself:\n"), "{dry}");
    assert_eq!(names(w), all);

    w.configure("[gc]\nkeep = \"0s\"\n");
    let dry = w.json(["gc", "--dry-run"]);
    assert_eq!(names(w), all, "it was only asked");
    let shown = w.whatif(["gc", "--dry-run"]).go().ok();
    let done = w.json(["gc"]);
    for document in [&dry, &done] {
        assert_eq!(texts(&document["sandboxes"], "name"), ["approved", "rejected"], "{document}");
        let reasons = texts(&document["sandboxes"], "reason");
        assert!(reasons[0].starts_with("it is approved, ") && reasons[1].starts_with("it is rejected, "), "{document}");
        assert!(document["sandboxes"][0]["bytes"].as_u64().expect("a number") > 0, "{document}");
        assert!(document["freed_bytes"].as_u64() > document["sandboxes"][0]["bytes"].as_u64(), "{document}");
    }
    assert!(shown.stdout.contains("approved would go") && shown.stdout.contains("it is rejected"), "{}", shown.stdout);
    assert_eq!(names(w), ["running", "snapshots", "undecided"]);
    assert_eq!(w.read("from-approved"), "approved\n", "what is real stays real");
    assert!(w.whatif(["gc"]).go().ok().stdout.contains("nothing to do"));
    w.exec("running", "true").ok();
    assert_eq!(w.exec("undecided", "cat from-undecided").ok().text(), "undecided");
}

fn sandboxes_go_by_age_whatever_they_hold(w: &World) {
    for name in ["one", "two"] {
        stopped(w, name);
    }
    w.new_sandbox("running");
    w.whatif(["new", "labelled", "--label", "keep=please"]).go().ok();
    w.whatif(["stop", "labelled"]).go().ok();
    assert_eq!(texts(&w.json(["gc", "--older-than", "1h", "--dry-run"])["sandboxes"], "name"), Vec::<String>::new());
    let dry = w.json(["gc", "--older-than", "1ms", "--dry-run"]);
    assert_eq!(texts(&dry["sandboxes"], "name"), ["one", "two"], "in the order of their last use");
    assert!(texts(&dry["sandboxes"], "reason")[0].contains("1ms is the most"), "{dry}");
    let said = w.whatif(["gc", "--older-than", "1ms", "--dry-run"]).go().ok().stdout;
    assert!(said.contains("one would go") && !said.contains("removing one would free"), "what goes is not kept: {said}");
    assert_eq!(names(w).len(), 4);
    // The same from the configuration.
    w.configure("[gc]\nmax_age = \"1ms\"\n");
    assert_eq!(texts(&w.json(["gc"])["sandboxes"], "name"), ["one", "two"]);
    assert_eq!(names(w), ["labelled", "running"]);
}

fn the_least_recently_used_go_until_the_rest_fits(w: &World) {
    for name in ["old", "middle", "new"] {
        let script = "head -c 3000000 /dev/urandom > large";
        w.whatif(["run", "--keep", "--quiet", "--name", name, "--", "/bin/sh", "-c", script]).go().ok();
    }
    // Used again, so it is the latest now.
    w.exec("old", "true").ok();
    w.whatif(["stop", "old"]).go().ok();
    // What is still removed in the background would count, and then be gone.
    w.settle();
    let total = w.json(["du"])["total_bytes"].as_u64().expect("a number");
    let most = (total - 1).to_string();
    assert_eq!(texts(&w.json(["gc", "--max-total", "1T"])["sandboxes"], "name"), Vec::<String>::new());
    let done = w.json(["gc", "--max-total", &most]);
    assert_eq!(texts(&done["sandboxes"], "name"), ["middle"], "one is enough: {done}");
    assert!(done["sandboxes"][0]["bytes"].as_u64().expect("a number") >= 3_000_000, "{done}");
    assert!(texts(&done["sandboxes"], "reason")[0].contains("everything takes"), "{done}");
    w.configure("[gc]\nmax_total = \"1M\"\n");
    assert_eq!(texts(&w.json(["gc"])["sandboxes"], "name"), ["new", "old"]);
    assert_eq!(names(w), Vec::<String>::new());
}

fn layers_of_others_stay_when_a_sandbox_goes(w: &World) {
    stopped(w, "origin");
    w.whatif(["snapshot", "origin", "point"]).go().ok();
    w.whatif(["new", "other", "--label", "keep="]).go().ok();
    w.whatif(["fork", "origin@point", "branch"]).go().ok();
    w.exec("branch", "cat from-origin").ok();
    assert_eq!(texts(&w.json(["gc", "--older-than", "1ms"])["sandboxes"], "name"), ["origin"]);
    assert_eq!(w.exec("branch", "cat from-origin").ok().text(), "origin", "it stands on the same layer");
    w.whatif(["stop", "branch"]).go().ok();
    let dry = w.json(["gc", "--older-than", "1ms", "--dry-run"]);
    let done = w.json(["gc", "--older-than", "1ms"]);
    for document in [&dry, &done] {
        assert_eq!(texts(&document["sandboxes"], "name"), ["branch"], "{document}");
        assert!(!document["layers"].as_array().expect("a list").is_empty(), "now nobody needs it: {document}");
    }
    assert_eq!(fs::read_dir(w.state.join("layers")).expect("there were layers").count(), 0);
}

fn rules_that_are_not_understood_are_errors(w: &World) {
    w.whatif(["gc", "--older-than", "soon"]).go().exits(2);
    w.whatif(["gc", "--max-total", "much"]).go().exits(2);
    for text in ["[gc]\nmax_age = \"soon\"\n", "[gc]\nremove = [\"running\"]\n", "[gc]\nmax_size = \"1G\"\n"] {
        w.configure(text);
        assert_ne!(w.whatif(["gc"]).go().code, 0, "{text}");
    }
    w.configure("");
}

fn keepers(w: &World) -> usize {
    w.processes().iter().filter(|l| l.contains(" keeper ")).count()
}

fn a_keeper_without_a_directory_is_ended(w: &World) {
    w.new_sandbox("bystander");
    w.new_sandbox("lost");
    w.whatif(["exec", "lost", "-d", "--", "sleep", "12345"]).go().ok();
    let gone = directory(w, "lost");
    w.outside(&format!("chmod -R u+rwx {0}; rm -rf {0}", gone.display())).ok();
    assert_eq!(keepers(w), 2);
    let dry = w.json(["gc", "--dry-run"]);
    assert_eq!(orphan(&dry, "process")["action"], "ended");
    assert_eq!(keepers(w), 2, "it was only asked");
    let done = w.json(["gc"]);
    let found = orphan(&done, "process");
    let id = gone.file_name().expect("it has a name").to_string_lossy().into_owned();
    assert!(found["action"] == "ended" && found["what"].as_str().is_some_and(|what| what.contains(&id)), "{done}");
    assert_eq!(done["forgotten"], serde_json::json!(["lost"]));
    assert_eq!(keepers(w), 1);
    w.exec("bystander", "true").ok();
    assert!(w.whatif(["gc"]).go().ok().stdout.contains("nothing to do"));
}

fn a_keeper_without_a_record_is_ended_and_its_work_is_named(w: &World) {
    w.new_sandbox("strange");
    w.exec("strange", "echo work > work").ok();
    let known = directory(w, "strange");
    let unknown = known.with_file_name("000000000000");
    fs::rename(&known, &unknown).expect("it is in our directory");
    let done = w.json(["gc"]);
    assert_eq!(orphan(&done, "process")["action"], "ended", "{done}");
    assert_eq!(done["unknown"], serde_json::json!([unknown.to_string_lossy()]));
    assert_eq!(keepers(w), 0);
    let found = w.outside(&format!("grep -rl '^work$' {}/head", unknown.display()));
    assert!(!found.ok().stdout.is_empty(), "what it holds is still there");
    w.outside(&format!("chmod -R u+rwx {0}; rm -rf {0}", unknown.display())).ok();
}

/// DR-04: neither a command line nor a number makes a process ours.
fn what_only_looks_like_a_keeper_of_ours_is_left_alone(w: &World) {
    w.new_sandbox("bystander");
    let other = w.dir.join("other");
    w.mkdir(&other);
    let elsewhere = |arguments: &[&str]| w.whatif(arguments.iter().copied()).env("WHATIF_HOME", &other).go().ok();
    elsewhere(&["new", "elsewhere"]);
    w.write("keeper", "exec 5< \"$2\"; echo ready; read -r end\n");
    let call = w.program("/bin/sh").args(["keeper", "000000000000"]).args([w.state.join("sandboxes")]);
    let mut lookalike = call.streams(Stdio::piped(), Stdio::piped(), Stdio::null()).spawn();
    let mut ready = [0; 6];
    lookalike.stdout.as_mut().expect("it is piped").read_exact(&mut ready).expect("it says so");
    assert!(w.whatif(["gc"]).go().ok().stdout.contains("nothing to do"));
    assert!(lookalike.try_wait().expect("it is our child").is_none(), "it is alive");
    drop(lookalike.stdin.take());
    lookalike.wait().expect("it is our child");
    elsewhere(&["exec", "elsewhere", "--", "true"]);
    // Not even if it has lost its directory; that is for who has that state directory.
    w.outside(&format!("cd {}/sandboxes; chmod -R u+rwx *; rm -rf *", other.display())).ok();
    assert!(w.whatif(["gc"]).go().ok().stdout.contains("nothing to do"));
    assert_eq!(keepers(w), 2);
    assert_eq!(orphan(&elsewhere(&["--json", "gc"]).json(), "process")["action"], "ended");
    assert_eq!(keepers(w), 1);
}

fn names_that_lead_nowhere_are_removed(w: &World) {
    w.new_sandbox("real");
    let published = w.state.join("names");
    symlink("../sandboxes/000000000000", published.join("ghost")).expect("it is a directory of ours");
    symlink(directory(w, "real"), published.join("alias")).expect("it is a directory of ours");
    stopped(w, "stopped");
    symlink(directory(w, "stopped"), published.join("stopped")).expect("it is a directory of ours");
    let dry = w.json(["gc", "--dry-run"]);
    let done = w.json(["gc"]);
    for document in [&dry, &done] {
        let mut found = texts(&document["orphans"], "what");
        found.sort();
        assert_eq!(
            found,
            ["alias", "ghost", "stopped"].map(|name| published.join(name).to_string_lossy().into_owned()),
            "{document}"
        );
        assert!(document["orphans"].as_array().expect("a list").iter().all(|o| o["kind"] == "name" && o["action"] == "removed"));
    }
    let left: Vec<_> = fs::read_dir(&published).expect("it is there").map(|e| e.expect("an entry").file_name()).collect();
    assert_eq!(left, ["real"]);
}

fn sockets_that_nobody_will_use_are_removed(w: &World) {
    w.new_sandbox("stopped");
    w.whatif(["stop", "stopped"]).go().ok();
    assert!(
        w.whatif(["gc"]).go().ok().stdout.contains("nothing to do"),
        "that of a stopped sandbox is replaced by its next keeper"
    );
    let known = directory(w, "stopped");
    let unknown = known.with_file_name("000000000000");
    fs::rename(&known, &unknown).expect("it is in our directory");
    let done = w.json(["gc"]);
    assert_eq!(orphan(&done, "socket")["what"], unknown.join("keeper.sock").to_string_lossy().as_ref());
    assert!(!unknown.join("keeper.sock").exists() && unknown.join("head").is_dir());
    w.outside(&format!("chmod -R u+rwx {0}; rm -rf {0}", unknown.display())).ok();
}

fn collector(w: &World) -> Child {
    w.whatif(["--json", "gc", "--older-than", "1ms"]).streams(Stdio::null(), Stdio::piped(), Stdio::piped()).spawn()
}

fn document(child: Child) -> Value {
    let output = child.wait_with_output().expect("it is our child");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

fn several_collectors_at_once_remove_each_sandbox_once(w: &World) {
    let made: Vec<String> = (0..8).map(|n| format!("s{n}")).collect();
    for name in &made {
        stopped(w, name);
    }
    w.new_sandbox("running");
    let collectors: Vec<Child> = (0..4).map(|_| collector(w)).collect();
    let documents: Vec<Value> = collectors.into_iter().map(document).collect();
    let mut removed: Vec<String> = documents.iter().flat_map(|d| texts(&d["sandboxes"], "name")).collect();
    removed.sort();
    assert_eq!(removed, made, "{documents:#?}");
    for document in &documents {
        for empty in ["forgotten", "unknown", "orphans"] {
            assert_eq!(document[empty], serde_json::json!([]), "{empty} in {document}");
        }
    }
    assert_eq!(names(w), ["running"]);
    eventually("nothing is half deleted", || w.transient().is_empty());
}

/// DR-11: either the command wins or the collector does.
fn a_collector_beside_other_commands_removes_all_or_nothing(w: &World) {
    const ROUNDS: usize = 8;
    for round in 0..ROUNDS {
        // What was used less recently goes first, and this takes a while to delete: long after the other one was judged it is
        // its turn. In between every second round's command begins.
        let script = "mkdir many; cd many; seq 1500 | xargs touch";
        w.whatif(["run", "--keep", "--quiet", "--name", "heavy", "--", "/bin/sh", "-c", script]).go().ok();
        w.write("a", "old\n");
        w.write("b", "old\n");
        let name = format!("r{round}");
        let script = "echo new > a; echo new > b";
        w.whatif(["run", "--keep", "--quiet", "--name", &name, "--", "/bin/sh", "-c", script]).go().ok();
        let (kind, command): (_, &[&str]) = match round % 4 {
            0 => ("exec", &["exec", &name, "--", "/bin/sh", "-c", "cat a b"]),
            1 => ("snapshot", &["snapshot", &name, "point"]),
            2 => ("apply", &["apply", &name, "--all", "--yes"]),
            _ => ("fork", &["fork", &name, "forked"]),
        };
        let collecting = collector(w);
        let was_judged = round / 4 % 2 == 0;
        if was_judged {
            eventually("the first one is gone", || {
                fs::read_dir(w.state.join("sandboxes")).is_ok_and(|entries| entries.count() < 2)
            });
        }
        let outcome: Outcome = w.whatif(command.iter().copied()).go();
        let collected = document(collecting);
        let is_gone = texts(&collected["sandboxes"], "name").contains(&name);
        let context = format!("{kind} in round {round}: {outcome:?}\n{collected}");
        assert!(outcome.code == 0 || outcome.code == 125 && outcome.stderr.contains("hint:"), "{context}");
        assert_eq!(!is_gone, names(w).contains(&name), "{context}");
        assert!(outcome.code == 0 || is_gone, "{context}");
        // What was done with it since it was judged, or that it runs now, keeps it.
        assert!(outcome.code != 0 || !is_gone || !was_judged && kind != "exec", "{context}");
        assert!(texts(&collected["sandboxes"], "name").contains(&"heavy".to_owned()), "{context}");
        match kind {
            "exec" if outcome.code == 0 => assert_eq!(outcome.stdout, "new\nnew\n", "{context}"),
            "apply" => {
                let expected = if outcome.code == 0 { "new\n" } else { "old\n" };
                assert_eq!((w.read("a").as_str(), w.read("b").as_str()), (expected, expected), "{context}");
            }
            "fork" if names(w).contains(&"forked".to_owned()) => {
                assert_eq!(w.exec("forked", "cat a b").ok().stdout, "new\nnew\n", "{context}");
                w.whatif(["rm", "forked"]).go().ok();
            }
            _ => {}
        }
        if !is_gone {
            assert_eq!(w.exec(&name, "cat a b").ok().stdout, "new\nnew\n", "{context}");
            w.whatif(["rm", &name]).go().ok();
        }
    }
    eventually("nothing is half deleted", || w.transient().is_empty());
}

/// A script in the project, in a mount namespace of its own; `$0` is whatif.
#[track_caller]
fn in_namespace(w: &World, script: &str) -> Outcome {
    let unshare = ["--mount", "--propagation", "private", "/bin/sh", "-euc", script];
    w.program("/usr/bin/unshare").args(unshare).args([&w.bin]).go().ok()
}

fn overlays_in_the_state_directory_are_unmounted_and_other_mounts_are_named(w: &World) {
    let script = r#"
"$0" ls >&2
cd "$WHATIF_HOME/cache"
mkdir lower upper work merged memory
mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay merged
echo kept > merged/kept
mount -t tmpfs memory memory
echo here > memory/here
"$0" --json gc --dry-run
"$0" --json gc
cat upper/kept memory/here
grep -c " $PWD/" /proc/self/mountinfo
umount memory
rm -r lower upper work merged memory
"#;
    let outcome = in_namespace(w, script);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let [dry, done, kept, here, left] = lines[..] else { panic!("{outcome:?}") };
    for text in [dry, done] {
        let document: Value = serde_json::from_str(text).expect("a document");
        let found: Vec<(String, String)> =
            texts(&document["orphans"], "what").into_iter().zip(texts(&document["orphans"], "action")).collect();
        let place = |name: &str| w.state.join("cache").join(name).to_string_lossy().into_owned();
        assert_eq!(found, [(place("memory"), "left".to_owned()), (place("merged"), "unmounted".to_owned())], "{document}");
    }
    assert_eq!((kept, here, left), ("kept", "here", "1"), "one of them is left");
}

/// DR-12: not by `gc`, not by `rm`, and not if the mount is of the same file system, which a look at the device does not tell.
fn nothing_is_deleted_through_a_mount(w: &World) {
    let script = r#"
mkdir ../precious ../precious/sub; echo p > ../precious/x; echo p > ../precious/sub/y
"$0" run --keep --quiet --name s -- /bin/sh -c 'mkdir -p d/e; echo x > d/e/x'
place=$(dirname "$(find "$WHATIF_HOME/sandboxes" -path '*/d/e/x' | head -1)")
test -d "$place"
mount --bind ../precious "$place"
"$0" --json gc --older-than 1ms
cat ../precious/x ../precious/sub/y
"$0" rm -y s >&2
"$0" ls >&2
cat ../precious/x ../precious/sub/y
mounted=$(grep -o "[^ ]*/d/e " /proc/self/mountinfo | tr -d ' ')
ls "$mounted" >&2
umount "$mounted"
"$0" ls >&2
n=0; while [ -n "$(ls "$WHATIF_HOME/transient")" ]; do n=$((n + 1)); [ $n -lt 1200 ]; sleep 0.05; done
cat ../precious/x ../precious/sub/y
"#;
    let outcome = in_namespace(w, script);
    let (document, rest) = outcome.stdout.split_once('\n').expect("there are lines");
    assert_eq!(rest, "p\np\n".repeat(3), "{outcome:?}");
    let document: Value = serde_json::from_str(document).expect("a document");
    assert_eq!(document["sandboxes"], serde_json::json!([]), "{document}");
    assert_eq!(document["busy"], serde_json::json!(["s"]), "{document}");
    assert_eq!(orphan(&document, "mount")["action"], "left", "{document}");
}

fn what_takes_most_is_named_after_a_snapshot_too(w: &World) {
    w.write(".gitignore", "target/\n");
    w.new_sandbox("s");
    w.exec("s", "mkdir target; head -c 3000000 /dev/urandom > target/built; echo x > small").ok();
    w.whatif(["du"]).go().ok().says("whatif exec s -- rm -rf target frees ");
    w.whatif(["snapshot", "s", "built"]).go().ok();
    if w.backend() == "copy" {
        // The head is a copy of its own after that, and so are the layers.
        w.whatif(["du"]).go().ok().says("whatif exec s -- rm -rf target frees ");
        return;
    }
    w.whatif(["du"]).go().ok().says("hint: target/ is ").says("removing s frees ");
    assert_eq!(w.json(["du"])["sandboxes"][0]["hint"]["is_in_layers"], true);
    w.whatif(["fork", "s@built", "t"]).go().ok();
    assert!(!w.whatif(["du"]).go().ok().stderr.contains("target/"), "what others need too is nobody's own");
}

fn what_lies_deeper_than_a_path_is_long_is_measured(w: &World) {
    w.new_sandbox("s");
    w.new_sandbox("t");
    w.exec("t", "echo x > small").ok();
    // More ways go on from each directory than a process may open, and each is too long.
    let nest = "import os
for _ in range(50): [os.mkdir(str(n)) for n in range(300)]; os.mkdir('d'*200); open('file','w').close(); os.chdir('d'*200)";
    w.whatif(["exec", "s", "--", "/usr/bin/python3", "-ISc", nest]).go().ok();
    let files = |name| {
        let document = w.json(["du"]);
        let all = document["sandboxes"].as_array().expect("a list");
        all.iter().find(|s| s["name"] == name).expect("it is there")["head_files"].as_u64().expect("a number")
    };
    assert_eq!((files("s"), files("t")), (50, 1));
    w.outside(&format!("ulimit -n 256; exec {} du", w.bin.display())).ok();
    w.whatif(["gc", "--max-total", "1T"]).go().ok();
    w.whatif(["rm", "s", "--yes"]).go().ok();
}
