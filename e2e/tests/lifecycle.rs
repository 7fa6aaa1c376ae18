//! From making a sandbox to throwing it away.

use std::io::Read;
use std::time::{Duration, Instant};

use whatif_e2e::{World, as_root_and_user, eventually, on_other_backends};

as_root_and_user!(
    a_run_is_kept_when_something_that_matters_changed,
    logs_and_caches_of_the_project_matter,
    a_run_can_be_kept_or_removed_by_request,
    a_run_that_leaves_a_process_stays_alive,
    a_run_can_go_into_an_existing_sandbox,
    changes_survive_stop_and_start,
    a_stop_waits_only_for_what_runs,
    a_stopped_sandbox_says_how_to_start_it,
    a_directory_of_somebody_else_above_the_home_is_no_change,
    background_commands_have_logs,
    logs_can_be_followed_to_the_end,
    a_command_whose_sandbox_is_removed_says_so,
    a_run_whose_sandbox_is_removed_says_so,
    a_command_during_a_stop_does_not_start_it_again,
    processes_are_listed_and_signalled,
    files_are_copied_both_ways,
    a_copy_out_replaces_nothing_unasked,
    removing_leaves_nothing,
    after_everything_was_removed_the_state_directory_can_be_deleted,
    a_signal_that_ends_nothing_is_followed_by_a_hint,
    a_command_that_timed_out_is_listed_with_its_exit_code,
    the_collector_reconciles_records_and_directories,
    making_twice_with_one_key_makes_one,
    a_timeout_ends_everything_the_command_started,
    sandboxes_do_not_see_each_other,
    many_sandboxes_live_side_by_side,
    a_sandbox_names_who_had_it_made,
);
on_other_backends!(a_stop_waits_only_for_what_runs);

fn names(w: &World) -> Vec<String> {
    w.whatif(["ls", "-q"]).go().ok().stdout.lines().map(str::to_owned).collect()
}

fn logs_and_caches_of_the_project_matter(w: &World) {
    w.outside("mkdir .cache __pycache__; touch results.log .cache/fixture __pycache__/a.pyc").ok();
    for script in ["echo 42 >> results.log", "echo 42 >> .cache/fixture", "rm __pycache__/a.pyc", "echo 42 > ~/results.log"] {
        let outcome = w.whatif(["run", "--name", "s", "--", "/bin/sh", "-c", script]).go().ok();
        assert!(!outcome.stderr.contains("is gone"), "after {script}: {}", outcome.stderr);
        w.whatif(["rm", "s"]).go().ok();
    }
}

fn a_run_is_kept_when_something_that_matters_changed(w: &World) {
    w.write("file", "old");
    for nothing in [
        "true",
        "cat file",
        "echo x > /tmp/x",
        // With copies of the project, the home is read-only.
        "mkdir -p ~/.cache/tool && echo x > ~/.cache/tool/entry; true",
        "chmod 644 file; touch -r file file",
    ] {
        let outcome = w.whatif(["run", "--", "/bin/sh", "-c", nothing]).go().ok();
        assert!(outcome.stderr.contains("the sandbox is gone"), "after {nothing}: {}", outcome.stderr);
        assert!(names(w).is_empty(), "{nothing}");
    }
    for something in ["echo new > file", "rm file", "mkdir directory", "ln -s file link", "chmod 755 file", "mv file other"] {
        let outcome = w.whatif(["run", "--name", "kept", "--", "/bin/sh", "-c", something]).go().ok();
        assert!(outcome.stderr.contains("Kept as kept"), "after {something}: {}", outcome.stderr);
        assert_eq!(names(w), ["kept"], "{something}");
        w.whatif(["rm", "kept"]).go().ok();
    }
    assert_eq!(w.whatif(["run", "--name", "failed", "--", "/bin/sh", "-c", "echo x > y; exit 3"]).go().exits(3).code, 3);
    assert_eq!(names(w), ["failed"], "also when the command failed");
}

fn a_run_can_be_kept_or_removed_by_request(w: &World) {
    w.whatif(["run", "--keep", "--name", "kept", "--", "true"]).go().ok();
    w.whatif(["run", "--rm", "--name", "gone", "--", "/bin/sh", "-c", "echo x > y"]).go().ok();
    assert_eq!(names(w), ["kept"]);
    w.whatif(["run", "--rm", "--keep", "--", "true"]).go().exits(2);
    assert_eq!(w.whatif(["run", "--rm", "--quiet", "--", "true"]).go().ok().stderr, "");
}

fn a_run_that_leaves_a_process_stays_alive(w: &World) {
    let outcome =
        w.whatif(["run", "--name", "server", "--", "/bin/sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo started"]).go().ok();
    assert_eq!(outcome.text(), "started");
    assert!(outcome.stderr.contains("still running"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("whatif ps ") && outcome.stderr.contains("whatif stop "), "{}", outcome.stderr);
    assert!(w.whatif(["ps", "server"]).go().ok().stdout.contains("sleep 1000"));
}

fn a_run_can_go_into_an_existing_sandbox(w: &World) {
    let name = w.new_sandbox("existing");
    w.whatif(["run", "--in", &name, "--", "/bin/sh", "-c", "echo one > made"]).go().ok();
    assert_eq!(w.whatif(["run", "--in", &name, "--", "cat", "made"]).go().ok().text(), "one");
    // It ends with a report, as a run of its own does.
    let told = w.whatif(["run", "--in", &name, "--", "/bin/sh", "-c", "exit 3"]).go();
    assert!(told.code == 3 && told.stderr.contains("exit code 3") && told.stderr.contains("changed"), "{told:?}");
    assert!(told.stderr.contains(&format!("whatif diff {name}")), "{told:?}");
    assert_eq!(w.whatif(["run", "-q", "--in", &name, "--", "true"]).go().ok().stderr, "");
    assert_eq!(names(w), ["existing"]);
}

fn changes_survive_stop_and_start(w: &World) {
    w.write("edited", "old");
    w.write("deleted", "old");
    let name = w.new_sandbox("survivor");
    w.exec(&name, "echo new > edited; rm deleted; mkdir d; echo x > d/x; ln -s x d/link").ok();
    w.whatif(["stop", &name]).go().ok();
    assert_eq!(w.json(["show", &name])["status"], "stopped");
    assert!(w.processes().is_empty(), "{:?}", w.processes());
    w.whatif(["start", &name]).go().ok();
    assert_eq!(w.exec(&name, "cat edited; ls; cat d/link").ok().stdout, "new\nd\nedited\nx\n");
    w.whatif(["stop", &name]).go().ok();
    w.whatif(["stop", &name]).go().ok();
    w.whatif(["start", &name]).go().ok();
    w.whatif(["start", &name]).go().ok();
}

/// What serves its file systems ends with it, and after everything that may still write to them.
fn a_stop_waits_only_for_what_runs(w: &World) {
    let grace = Duration::from_secs(30);
    w.new_sandbox("s");
    let save = "trap 'for n in 1 2 3; do sleep 0.1; echo saved > saved$n; done; exit' TERM; echo ready > ready; while :; do sleep 0.05; done";
    w.whatif(["exec", "-d", "s", "--", "/bin/sh", "-c", save]).go().ok();
    eventually("it runs", || w.exec("s", "test -e ready").code == 0);
    let began = Instant::now();
    w.whatif(["stop", "s", "--grace", "30s"]).go().ok();
    assert!(began.elapsed() < grace, "{:?}", began.elapsed());
    w.whatif(["start", "s"]).go().ok();
    assert_eq!(w.exec("s", "cat saved1 saved2 saved3").ok().stdout, "saved\n".repeat(3));
}

fn a_stopped_sandbox_says_how_to_start_it(w: &World) {
    let name = w.new_sandbox("asleep");
    w.whatif(["stop", &name]).go().ok();
    w.exec(&name, "true").fails_with_hint(125).says("whatif start asleep");
}

/// The directories on the way to a user's home usually belong to root.
fn a_directory_of_somebody_else_above_the_home_is_no_change(w: &World) {
    let home = w.dir.join("foreign/home");
    std::fs::create_dir_all(&home).expect("the scratch directory is writable");
    std::os::unix::fs::chown(&home, Some(w.uid()), Some(w.uid())).expect("a directory of ours can be given away");
    let call = w.whatif(["--json", "run", "--rm", "--", "/bin/sh", "-c", "echo x > f"]);
    let document = call.env("HOME", &home).cwd(&home).go().ok().json();
    assert_eq!(document["changes"]["changed_files"], 1, "{document}");
}

fn background_commands_have_logs(w: &World) {
    let name = w.new_sandbox("background");
    let started = w.json(["exec", &name, "-d", "--", "/bin/sh", "-c", "echo out; echo err >&2; sleep 1000"]);
    eventually("both streams are in the log", || w.whatif(["logs", &name]).go().ok().stdout == "out\nerr\n");
    assert_eq!(w.whatif(["logs", &name, &started["pid"].to_string()]).go().ok().stdout, "out\nerr\n");
    w.exec(&name, "true").ok();
}

fn logs_can_be_followed_to_the_end(w: &World) {
    let name = w.new_sandbox("followed");
    w.whatif(["exec", &name, "-d", "--", "/bin/sh", "-c", "echo first; while [ ! -e go ]; do sleep 0.05; done; echo last"])
        .go()
        .ok();
    let call = w.whatif(["logs", "-f", &name]);
    let mut following =
        call.streams(std::process::Stdio::null(), std::process::Stdio::piped(), std::process::Stdio::null()).spawn();
    let mut output = following.stdout.take().expect("it is piped");
    let mut first = [0; 6];
    output.read_exact(&mut first).expect("the beginning comes at once");
    assert_eq!(&first, b"first\n");
    assert!(following.try_wait().expect("it is our child").is_none(), "it goes on while the command runs");
    w.exec(&name, "touch go").ok();
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "last\n");
    assert!(following.wait().expect("it is our child").success());
}

/// Not that it lost a keeper, which ends first.
fn a_command_whose_sandbox_is_removed_says_so(w: &World) {
    use std::process::Stdio;
    let name = w.new_sandbox("removed");
    let mut call = w.whatif(["exec", &name, "--", "/bin/sh", "-c", "echo begun; exec sleep 1000"]);
    call = call.streams(Stdio::null(), Stdio::piped(), Stdio::piped());
    let mut running = call.spawn();
    let mut begun = [0; 6];
    running.stdout.as_mut().expect("it is piped").read_exact(&mut begun).expect("it begins");
    w.whatif(["rm", &name]).go().ok();
    let ended = running.wait_with_output().expect("it is our child");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(125) && said.contains("sandbox 'removed' was removed meanwhile"), "{said}");
}

fn a_run_whose_sandbox_is_removed_says_so(w: &World) {
    use std::process::Stdio;
    let mut call = w.whatif(["run", "--name", "removed", "--", "/bin/sh", "-c", "echo x > made; echo begun; exec sleep 1000"]);
    call = call.streams(Stdio::null(), Stdio::piped(), Stdio::piped());
    let mut running = call.spawn();
    let mut begun = [0; 6];
    running.stdout.as_mut().expect("it is piped").read_exact(&mut begun).expect("it begins");
    w.whatif(["rm", "removed"]).go().ok();
    let ended = running.wait_with_output().expect("it is our child");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("another command removed it") && !said.contains("Kept"), "{said}");
    assert_eq!(w.json(["ls"]), serde_json::json!([]));
}

/// Whatever moment of the stop it meets.
fn a_command_during_a_stop_does_not_start_it_again(w: &World) {
    let name = w.new_sandbox("stopping");
    for _ in 0..3 {
        let script = "trap '' TERM; echo begun > begun; while :; do sleep 0.05; done";
        w.exec(&name, "rm -f begun").ok();
        w.whatif(["exec", &name, "-d", "--", "/bin/sh", "-c", script]).go().ok();
        eventually("it has begun", || w.exec(&name, "test -e begun").code == 0);
        let mut stopping = w.whatif(["stop", &name, "--grace", "300ms"]).spawn();
        // Until it is refused, or the stop is over: it may not have begun.
        let is_over = |stopping: &mut std::process::Child| stopping.try_wait().expect("it is our child").is_some();
        while w.exec(&name, "true").code == 0 && !is_over(&mut stopping) {}
        assert!(stopping.wait().expect("it is our child").success());
        w.exec(&name, "true").fails_with_hint(125).says("is stopped");
        assert_eq!(w.show(&name)["status"], "stopped");
        w.whatif(["start", &name]).go().ok();
    }
}

fn processes_are_listed_and_signalled(w: &World) {
    let name = w.new_sandbox("processes");
    let pid = w.json(["exec", &name, "-d", "--", "sleep", "1234"])["pid"].to_string();
    eventually("it is listed", || w.whatif(["ps", &name]).go().ok().stdout.contains("sleep 1234"));
    w.whatif(["kill", &name, &pid, "--signal", "KILL"]).go().ok();
    eventually("it is gone", || !w.whatif(["ps", &name]).go().ok().stdout.contains("sleep 1234"));
    assert_eq!(w.whatif(["kill", &name, &pid]).go().code, 125, "a process that is gone cannot be signalled");
    w.whatif(["kill", &name, &pid, "--signal", "NONSENSE"]).go().exits(2);
}

fn files_are_copied_both_ways(w: &World) {
    let name = w.new_sandbox("copies");
    w.write("tree/a", "a");
    w.write("tree/sub/b", "b");
    w.whatif(["cp", "tree", "copies:/tmp/tree"]).go().ok();
    assert_eq!(w.exec(&name, "cat /tmp/tree/a /tmp/tree/sub/b").ok().stdout, "ab");
    w.exec(&name, "echo made > made; mkdir out; echo 1 > out/1; chmod 755 out/1").ok();
    w.whatif(["cp", "copies:made", "taken"]).go().ok();
    assert_eq!(w.read("taken"), "made\n");
    w.whatif(["cp", "copies:out", "out-copy"]).go().ok();
    assert_eq!(w.read("out-copy/1"), "1\n");
    assert_eq!(w.whatif(["cp", "copies:missing", "x"]).go().code, 125);
    assert!(!w.project.join("made").exists(), "reality has only what was copied");
}

/// What is in reality and differs is somebody's work: nothing is copied, not even the rest, unless that is insisted on.
fn a_copy_out_replaces_nothing_unasked(w: &World) {
    w.write("b.txt", "one\n");
    let name = w.new_sandbox("out");
    w.exec(&name, "mkdir d; echo inside > b.txt; echo inside > d/a; echo inside > d/b; ln -s a d/link").ok();
    w.write("b.txt", "mine\n");
    w.whatif(["cp", "out:b.txt", "b.txt"]).go().fails_with_hint(1);
    assert_eq!(w.read("b.txt"), "mine\n");
    w.write("d/b", "mine\n");
    let refused = w.whatif(["--json", "cp", "out:d", "."]).go().exits(1).stderr;
    assert!(refused.contains("\"exists\"") && refused.contains("d/b"), "{refused}");
    assert!(!w.project.join("d/a").exists(), "all or nothing");
    // The same bytes are no reason to refuse.
    w.write("d/b", "inside\n");
    let copied = w.json(["cp", "out:d", "."]);
    assert_eq!((&copied["files"], &copied["links"], &copied["skipped"]), (&2.into(), &1.into(), &0.into()), "{copied}");
    assert_eq!(std::fs::read_link(w.project.join("d/link")).expect("it is a link"), std::path::Path::new("a"));
    w.whatif(["cp", "--force", "out:b.txt", "b.txt"]).go().ok();
    assert_eq!(w.read("b.txt"), "inside\n");
    // Other backends do not see what is made in reality meanwhile.
    if w.backend() != "overlay" {
        return;
    }
    // What the sandbox did not change is shown through to the very file that would be replaced.
    w.write("e/same", "mine\n");
    w.write("e/other", "mine\n");
    w.outside("ln e/other e/linked").ok();
    w.exec(&name, "echo inside > e/other; chmod 700 e/other").ok();
    w.whatif(["cp", "--force", "out:e", "."]).go().ok();
    assert_eq!(
        (w.read("e/same").as_str(), w.read("e/other").as_str(), w.read("e/linked").as_str()),
        ("mine\n", "inside\n", "mine\n")
    );
    assert_eq!(w.outside("stat -c %a e/other; ls -A e").ok().text(), "700\nlinked\nother\nsame");
    w.whatif(["cp", "d", "out:/tmp/again"]).go().ok();
    assert_eq!(w.exec(&name, "readlink /tmp/again/link").ok().text(), "a");
}

fn removing_leaves_nothing(w: &World) {
    let name = w.new_sandbox("doomed");
    w.exec(&name, "mkdir -p deep/er && echo x > deep/er/file && chmod 0 deep/er deep").ok();
    w.whatif(["exec", &name, "-d", "--", "sleep", "1000"]).go().ok();
    let directory = w.json(["show", &name])["directory"].as_str().expect("it has one").to_owned();
    w.whatif(["rm", &name]).go().ok();
    assert!(names(w).is_empty());
    w.assert_nothing_left();
    eventually("its directory is gone", || !std::path::Path::new(&directory).exists());
    assert!(w.whatif(["rm", &name]).go().ok().stdout.contains("was already removed"));
    w.whatif(["rm", "never-there"]).go().fails_with_hint(125);
}

/// As README says how to uninstall.
fn after_everything_was_removed_the_state_directory_can_be_deleted(w: &World) {
    for name in ["a", "b", "c"] {
        w.sandbox_with(name, "seq 2000 | xargs touch");
    }
    let bin = w.bin.display();
    let outcome = w.outside(&format!("{bin} rm --all --yes && rm -rf {}", w.state.display()));
    w.mkdir(&w.state);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{outcome:?}");
}

fn a_signal_that_ends_nothing_is_followed_by_a_hint(w: &World) {
    let name = w.new_sandbox("stubborn");
    let script = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    let id = w.json(["exec", &name, "-d", "--", "/bin/sh", "-c", script])["id"].as_str().expect("it has one").to_owned();
    eventually("it ignores signals", || w.whatif(["logs", &name]).go().stdout.contains("ready"));
    let outcome = w.whatif(["kill", &name, &id]).go().ok();
    assert_eq!(outcome.stdout.trim(), format!("sent TERM to {id}"));
    outcome.says(&format!("whatif kill {name} {id} -s KILL"));
    let outcome = w.whatif(["kill", &name, &id, "-s", "KILL"]).go().ok();
    assert_eq!((outcome.stdout.trim(), outcome.stderr.as_str()), (format!("sent KILL to {id}").as_str(), ""));
}

fn a_command_that_timed_out_is_listed_with_its_exit_code(w: &World) {
    let name = w.new_sandbox("slow");
    w.whatif(["exec", "--timeout", "200ms", &name, "--", "sleep", "100"]).go().exits(124);
    for arguments in [&["ps", "--all", "slow"][..], &["show", "slow"]] {
        let listed = w.whatif(arguments.iter().copied()).go().ok().stdout;
        assert!(listed.contains("124 (timeout)") && !listed.contains("with 143"), "{listed}");
    }
    w.whatif(["run", "--keep", "--name", "late", "--timeout", "200ms", "--", "sleep", "100"]).go().exits(124);
    let shown = w.whatif(["show", "late"]).go().ok().stdout;
    assert!(shown.lines().any(|line| line.starts_with("exit code") && line.ends_with("124")), "{shown}");
}

fn the_collector_reconciles_records_and_directories(w: &World) {
    assert!(w.whatif(["gc"]).go().ok().stdout.contains("nothing to do"));
    w.new_sandbox("lost");
    w.whatif(["stop", "lost"]).go().ok();
    let directory = w.json(["show", "lost"])["directory"].as_str().expect("it has one").to_owned();
    w.outside(&format!("chmod -R u+rwx {directory}; rm -rf {directory}")).ok();
    let dry = w.json(["gc", "--dry-run"]);
    assert_eq!(dry["forgotten"], serde_json::json!(["lost"]));
    assert_eq!(names(w), ["lost"], "a dry run does nothing");
    w.whatif(["gc"]).go().ok();
    assert!(names(w).is_empty());
}

fn making_twice_with_one_key_makes_one(w: &World) {
    let first = w.json(["new", "--idempotency-key", "k1"]);
    let second = w.json(["new", "--idempotency-key", "k1"]);
    assert_eq!(first["id"], second["id"]);
    assert_ne!(w.json(["new", "--idempotency-key", "k2"])["id"], first["id"]);
}

fn a_timeout_ends_everything_the_command_started(w: &World) {
    let marker = w.dir.join("timeout-marker").display().to_string();
    let script = format!("sh -c 'while :; do sleep 1; done' {marker} & sh -c 'while :; do sleep 1; done' {marker}");
    w.whatif(["run", "--timeout", "300ms", "--", "/bin/sh", "-c", &script]).go().exits(124);
    eventually("nothing of it runs", || w.processes().is_empty());
}

fn sandboxes_do_not_see_each_other(w: &World) {
    w.write("shared", "reality");
    let (a, b) = (w.new_sandbox("a"), w.new_sandbox("b"));
    w.exec(&a, "echo a > shared; echo a > /tmp/t; echo a > /dev/shm/t").ok();
    w.exec(&b, "echo b > shared").ok();
    assert_eq!(w.exec(&a, "cat shared").ok().text(), "a");
    assert_eq!(w.exec(&b, "cat shared; ls /tmp /dev/shm | grep -c '^t$'").stdout, "b\n0\n");
    assert_eq!(w.read("shared"), "reality");
}

fn many_sandboxes_live_side_by_side(w: &World) {
    for n in 0..20 {
        w.new_sandbox(&format!("many-{n}"));
    }
    assert_eq!(names(w).len(), 20);
    for n in [0, 9, 19] {
        assert_eq!(w.exec(&format!("many-{n}"), "echo here").ok().text(), "here");
    }
    w.whatif(["rm", "--all", "--yes"]).go().ok();
    w.assert_nothing_left();
}

fn a_sandbox_names_who_had_it_made(w: &World) {
    w.sandbox_with("s", "echo x > f");
    w.whatif(["fork", "s", "forked"]).go().ok();
    w.whatif(["export", "s", "-o", "s.tar"]).go().ok();
    w.whatif(["import", "s.tar", "--name", "imported"]).go().ok();
    for name in ["s", "forked", "imported"] {
        // Whatever it may be called.
        let shown: serde_json::Value =
            serde_json::from_str(&w.whatif(["show", name, "--json"]).env("USER", "x").go().ok().stdout).expect("it is JSON");
        assert_eq!(shown["owner"], format!("user:{}", w.uid()), "{name}");
    }
}
