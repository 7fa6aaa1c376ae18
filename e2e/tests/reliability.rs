//! Attack group DR, as far as it concerns one machine without a daemon: killed commands, reused process numbers, clocks, busy
//! mounts, full disks, many at once. Nothing is lost, nothing is left over, and what goes wrong is said.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use whatif_e2e::{
    Fault, Point, Random, World, as_root, as_root_and_user, assert_same, canary, eventually, kill_wholly, needs, sample, skip,
    wait_for,
};

as_root_and_user!(
    killing_commands_disturbs_none_of_fifty_sandboxes,
    killed_at_a_system_call_a_creation_leaves_nothing,
    killed_at_a_system_call_a_removal_leaves_all_or_nothing,
    a_recorded_process_number_that_is_somebody_elses_is_never_signalled,
    records_from_the_future_and_the_past_are_harmless,
    a_machine_that_slept_for_a_year_keeps_its_sandboxes,
    many_sandboxes_leave_nothing_when_they_go,
    a_directory_somebody_works_in_can_be_removed,
    a_view_somebody_entered_can_be_removed,
    everything_at_once_ends_and_leaves_a_whole_sandbox,
);
as_root!(
    a_process_number_of_another_namespace_is_never_signalled,
    a_mount_on_the_way_is_never_deleted_through,
    a_disk_that_fills_under_running_sandboxes_takes_nobody_down,
);

fn number_from(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

fn kill_by_id(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid is not zero");
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

fn start(w: &World, arguments: &[&str]) -> Child {
    w.whatif(arguments.iter().copied()).streams(Stdio::null(), Stdio::null(), Stdio::null()).spawn()
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Runs a statement on the records, as another program would.
#[track_caller]
fn sql(w: &World, statement: &str) {
    let program = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], isolation_level=None)\ndb.execute(sys.argv[2])\nprint(db.total_changes)";
    let database = w.state.join("state.db").display().to_string();
    let changed = w.program("/usr/bin/python3").args(["-c", program, &database, statement]).go().ok();
    assert_ne!(changed.text(), "0", "{statement} changed nothing");
}

/// DR-01: whoever is killed in the middle of what, the sandboxes live on, and what was started in them ends as it would have.
fn killing_commands_disturbs_none_of_fifty_sandboxes(w: &World) {
    let all: Vec<String> = (0..50).map(|n| w.new_sandbox(&format!("s{n}"))).collect();
    for name in &all {
        w.whatif([
            "exec",
            "-d",
            name,
            "--",
            "/bin/sh",
            "-c",
            "echo $$ > started; while [ ! -e end ]; do sleep 0.2; done; echo over",
        ])
        .go()
        .ok();
    }
    let mut random = Random::from(11);
    let mut started = Vec::new();
    for _ in 0..60 {
        let name = random.pick(&all).clone();
        let commands: [&[&str]; 6] = [
            &["exec", &name, "--", "/bin/sh", "-c", "echo x > busy; sleep 1000"],
            &["status", &name],
            &["diff", &name],
            &["ls"],
            &["cp", "/etc/passwd", &format!("{name}:/tmp/copy")],
            &["gc"],
        ];
        started.push(start(w, random.pick::<&[&str]>(&commands)));
        // Some of them have just begun, some are in the middle, some are over.
        if started.len() > 4 {
            end(started.swap_remove(random.below(4)));
        }
    }
    started.into_iter().for_each(end);
    w.json(["ls"]);
    for name in &all {
        assert_eq!(w.show(name)["status"], "active", "{name}");
        w.exec(name, "until test -s started; do sleep 0.05; done; touch end").ok();
    }
    for name in &all {
        eventually(&format!("what {name} was doing ends by itself"), || w.whatif(["logs", name]).go().ok().stdout == "over\n");
    }
    eventually("what was killed has ended inside, too", || {
        w.json(["ls"]).as_array().expect("a list").iter().all(|s| s["pids"] == 0)
    });
}

/// Runs a command that is killed at a point, and returns when it is gone. A keeper it has started may live on.
fn kill_at(w: &World, point: &Point, command: &[&str]) {
    let trace = w.dir.join("trace");
    let (call, number) = (&point.call, point.number);
    let inject = format!("inject={call}:signal=SIGKILL:when={number}");
    let strace =
        w.program("/usr/bin/strace").args(["-f", "-e", &format!("trace={call}"), "-e", &inject, "-o"]).args([&trace, &w.bin]);
    let mut tracer = strace.args(command).streams(Stdio::null(), Stdio::null(), Stdio::null()).spawn();
    let bin = w.bin.display().to_string();
    // The tracer would wait for a keeper that waits for the next command.
    let is_over = || {
        let is_command = |line: &String| line.split(' ').nth(1) == Some(bin.as_str()) && !line.contains(" keeper ");
        let killed = fs::read_to_string(&trace).is_ok_and(|t| t.contains("killed by SIGKILL"));
        (killed && !w.processes().iter().any(is_command)).then_some(())
    };
    let ended = wait_for(Duration::from_secs(60), || is_over().or_else(|| tracer.try_wait().expect("it is our child").map(|_| ())));
    let _ = tracer.kill();
    let _ = tracer.wait();
    let _ = fs::remove_file(&trace);
    assert!(ended.is_some(), "{command:?} with a kill at {point:?} does not end");
}

/// DR-03, the first half: whatever step it was.
fn killed_at_a_system_call_a_creation_leaves_nothing(w: &World) {
    needs!(w, "strace");
    let before = w.inventory();
    // Commands whose keeper ends with them: who traces a command waits for everything it started.
    let commands: [&[&str]; 2] =
        [&["run", "--name", "made", "--", "/bin/sh", "-c", "echo x > changed"], &["run", "--rm", "--name", "made", "--", "true"]];
    for (turn, command) in commands.iter().enumerate() {
        let points = w.points_of_move(&w.project, command);
        w.whatif(["rm", "--all", "--yes"]).go().ok();
        assert!(points.len() > 30, "a creation takes many steps: {points:?}");
        for point in sample(&points, 9, turn) {
            kill_at(w, &point, command);
            let context = format!("{command:?} killed at {point:?}");
            // What it is now is for the next command to say: there, whole, or not.
            let listed = w.json(["ls"]);
            for sandbox in listed.as_array().expect("a list") {
                assert_eq!(sandbox["name"], "made", "{context}: {listed}");
                w.whatif(["start", "made"]).go().ok();
                w.exec("made", "echo works > again").ok();
                w.whatif(["rm", "made"]).go().ok();
            }
            w.whatif(["gc"]).go().ok();
            w.assert_inventory_is(&before, &context);
        }
    }
}

/// DR-03, the second half.
fn killed_at_a_system_call_a_removal_leaves_all_or_nothing(w: &World) {
    needs!(w, "strace");
    let before = w.inventory();
    let make = || {
        w.new_sandbox("doomed");
        w.exec("doomed", "mkdir -p a/b; echo 1 > a/b/c; echo 2 > d").ok();
        w.snapshot("doomed", "one");
        w.exec("doomed", "echo 3 > d").ok();
        w.whatif(["exec", "-d", "doomed", "--", "sleep", "1000"]).go().ok();
    };
    make();
    let points = w.points_of_move(&w.project, &["rm", "doomed"]);
    for point in sample(&points, 9, 1) {
        make();
        let _ = w.with_fault(&point, Fault::Kill, &["rm", "doomed"]).go();
        let context = format!("rm killed at {point:?}");
        if w.json(["ls"]).as_array().is_some_and(|all| !all.is_empty()) {
            w.whatif(["start", "doomed"]).go().ok();
            assert_eq!(w.exec("doomed", "cat a/b/c d").ok().stdout, "1\n3\n", "{context}");
            w.whatif(["rm", "doomed"]).go().ok();
        }
        w.whatif(["gc"]).go().ok();
        w.assert_inventory_is(&before, &context);
    }
}

/// DR-04: the record's keeper is gone and its number was given to a stranger.
fn a_recorded_process_number_that_is_somebody_elses_is_never_signalled(w: &World) {
    needs!(w, "python3");
    let mut stranger = w.program("/bin/sleep").args(["1000"]).spawn();
    let commands: [&[&str]; 6] = [
        &["stop", "--grace", "0s", "reused"],
        &["rm", "reused"],
        &["start", "reused"],
        &["gc"],
        &["snapshot", "reused", "one"],
        &["ls"],
    ];
    for command in commands {
        w.new_sandbox("reused");
        w.exec("reused", "echo kept > made").ok();
        kill_wholly(&[w.keeper_pid("reused")]);
        let forged = format!("UPDATE sandboxes SET details = json_set(details, '$.keeper_pid', {})", stranger.id());
        sql(w, &forged);
        let done = w.whatif(command.iter().copied()).go();
        assert_eq!(done.code, 0, "{command:?}: {}", done.stderr);
        assert!(stranger.try_wait().expect("it is our child").is_none(), "{command:?} killed a stranger");
        let left = w.json(["ls"]).as_array().map_or(0, Vec::len);
        assert_eq!(left, usize::from(command[0] != "rm"), "{command:?}");
        if left == 1 {
            w.whatif(["start", "reused"]).go().ok();
            assert_eq!(w.exec("reused", "cat made").ok().text(), "kept");
            w.whatif(["rm", "reused"]).go().ok();
        }
    }
    end(stranger);
}

/// DR-04: the keeper lives, but the number by which it is recorded means another process to whoever asks. Containers that share
/// a state directory are like that.
fn a_process_number_of_another_namespace_is_never_signalled(w: &World) {
    for command in ["stop --grace 0s", "rm"] {
        w.new_sandbox("elsewhere");
        let pid = w.keeper_pid("elsewhere");
        // The next process of that namespace gets the keeper's number.
        let script = format!(
            "echo {last} > /proc/sys/kernel/ns_last_pid; /bin/sleep 1000 & stranger=$!; \
             {bin} {command} elsewhere >&2; echo code $?; kill -0 $stranger && echo alive $stranger; kill -9 $stranger",
            last = pid - 1,
            bin = w.bin.display()
        );
        let nested = ["--pid", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c", &script];
        let outcome = w.program("/usr/bin/unshare").args(nested).go();
        assert!(outcome.stdout.contains(&format!("alive {pid}")), "{command}: {} {}", outcome.stdout, outcome.stderr);
        assert!(outcome.stdout.contains("code 0"), "{command}: {} {}", outcome.stdout, outcome.stderr);
        eventually(&format!("{command}: the keeper has ended all the same"), || w.processes().is_empty());
        let _ = w.whatif(["rm", "elsewhere"]).go();
    }
}

/// DR-08: a clock that was a year ahead, or a year behind, when things were written down.
fn records_from_the_future_and_the_past_are_harmless(w: &World) {
    needs!(w, "python3");
    const YEAR: i64 = 365 * 86_400_000;
    w.new_sandbox("running");
    w.new_sandbox("resting");
    for name in ["running", "resting"] {
        w.exec(name, "echo kept > made").ok();
        w.snapshot(name, "one");
        w.exec(name, "echo more > more").ok();
    }
    w.whatif(["stop", "resting"]).go().ok();
    for shift in [YEAR, -3 * YEAR] {
        sql(w, &format!("UPDATE sandboxes SET created_at = created_at + {shift}, updated_at = updated_at + {shift}"));
        sql(w, &format!("UPDATE snapshots SET created_at = created_at + {shift}"));
        assert_eq!(w.json(["ls"]).as_array().map(Vec::len), Some(2));
        w.whatif(["ls"]).go().ok();
        w.whatif(["snapshots", "running"]).go().ok();
        w.json(["gc"]);
        assert_eq!(w.show("running")["status"], "active", "nothing ends early");
        assert_eq!(w.labels("running"), ["one"], "what somebody asked for is kept");
        w.exec("running", "cat made more").ok();
        w.whatif(["start", "resting"]).go().ok();
        assert_eq!(w.exec("resting", "cat made more").ok().stdout, "kept\nmore\n");
        w.whatif(["stop", "resting"]).go().ok();
    }
}

/// DR-08: clocks that count while the machine sleeps are a year ahead, for the command and for the keeper it starts.
fn a_machine_that_slept_for_a_year_keeps_its_sandboxes(w: &World) {
    w.new_sandbox("awake");
    w.exec("awake", "echo kept > made").ok();
    let unshare: &[&str] = if w.is_root() { &[] } else { &["--user", "--map-current-user"] };
    let later = |arguments: &str| {
        let script = format!("{} {arguments}", w.bin.display());
        let year = ["--time", "--fork", "--boottime", "31536000", "--monotonic", "31536000", "/bin/sh", "-c", &script];
        w.program("/usr/bin/unshare").args(unshare).args(year).go()
    };
    if later("--version").code != 0 {
        skip("time namespaces cannot be made here");
        return;
    }
    assert_eq!(later("exec awake -- cat made").ok().text(), "kept");
    later("gc").ok();
    assert_eq!(w.show("awake")["status"], "active");
    later("stop --grace 100ms awake").ok();
    if w.is_root() {
        // An ordinary user's keeper needs a namespace for users of its own, which the other one here is already.
        later("start awake").ok();
        assert_eq!(w.exec("awake", "cat made").ok().text(), "kept");
        let since = std::time::Instant::now();
        w.whatif(["exec", "--timeout", "300ms", "awake", "--", "sleep", "1000"]).go().exits(124);
        assert!(since.elapsed() >= Duration::from_millis(300));
    }
}

/// DR-09: `WHATIF_SANDBOXES=2000` for that many.
fn many_sandboxes_leave_nothing_when_they_go(w: &World) {
    let before = w.inventory();
    let mounts = || fs::read_to_string("/proc/self/mountinfo").expect("there is a mount table");
    let mounted = mounts();
    // What other tests mount goes again.
    let is_nothing_mounted = || mounts().lines().all(|line| mounted.lines().any(|mount| mount == line));
    let many = number_from("WHATIF_SANDBOXES", 60);
    let names: Vec<String> = (0..many).map(|n| format!("m{n}")).collect();
    for name in &names {
        w.new_sandbox(name);
    }
    assert_eq!(w.json(["ls"]).as_array().map(Vec::len), Some(many));
    let descriptors = |name: &str| fs::read_dir(format!("/proc/{}/fd", w.keeper_pid(name))).map_or(0, Iterator::count);
    // One that was just asked has the connection of who asked for a moment.
    eventually("a keeper inherits nothing of the others", || descriptors(&names[many - 1]) <= descriptors(&names[0]));
    for name in names.iter().step_by(10) {
        w.exec(name, "true").ok();
    }
    eventually("sandboxes mount nothing out here", is_nothing_mounted);
    w.whatif(["rm", "--all", "--yes"]).go().ok();
    w.assert_inventory_is(&before, "after they all went");
    eventually("and leave nothing mounted", is_nothing_mounted);
}

/// DR-12: a descriptor and a working directory of somebody outside, in the head.
fn a_directory_somebody_works_in_can_be_removed(w: &World) {
    let before = w.inventory();
    w.new_sandbox("busy");
    w.exec("busy", "mkdir -p deep/er; echo held > deep/er/file").ok();
    let head = w.directory("busy").join("head");
    let held = File::open(find(&head, "file").expect("it is in the head")).expect("it can be read");
    let inside = find(&head, "er").expect("it is in the head");
    let mut squatter = w.program("/bin/sleep").args(["1000"]).cwd(&inside).spawn();
    w.whatif(["rm", "busy"]).go().ok();
    assert!(w.json(["ls"]).as_array().is_some_and(Vec::is_empty));
    eventually("its directory is gone", || !head.exists());
    let text = std::io::read_to_string(held).expect("it is open");
    assert_eq!(text, "held\n", "who holds it keeps it");
    let _ = squatter.kill();
    let _ = squatter.wait();
    w.assert_inventory_is(&before, "after the last one left");
}

fn find(directory: &Path, name: &str) -> Option<PathBuf> {
    let entries: Vec<PathBuf> = fs::read_dir(directory).ok()?.filter_map(Result::ok).map(|e| e.path()).collect();
    let here = entries.iter().find(|p| p.file_name().is_some_and(|n| n == name)).cloned();
    here.or_else(|| entries.iter().filter(|p| p.is_dir() && !p.is_symlink()).find_map(|p| find(p, name)))
}

/// DR-12: somebody who entered the sandbox's mount namespace keeps its mounts alive after everything else of it has ended.
fn a_view_somebody_entered_can_be_removed(w: &World) {
    needs!(w, "nsenter");
    w.write("real", "untouched");
    let before = w.inventory();
    let reality = canary(&[&w.project]);
    w.new_sandbox("entered");
    w.exec("entered", "echo x > changed; rm real").ok();
    // The keeper's own namespaces are closed to its user; those of a command are the same ones.
    let marker = w.dir.join("command").display().to_string();
    w.whatif(["exec", "-d", "entered", "--", "/bin/sh", "-c", "sleep 1000; true", &marker]).go().ok();
    let pid = || w.processes().iter().find(|p| p.contains(&marker)).and_then(|p| p.split(' ').next().map(str::to_owned));
    let target = wait_for(Duration::from_secs(60), pid).expect("it runs");
    let user: &[&str] = if w.is_root() { &[] } else { &["--user", "--preserve-credentials"] };
    let sleeping = ["--target", &target, "--mount", "--root", "--", "/bin/sleep", "1000"];
    let mut visitor = w.program("/usr/bin/nsenter").args(user).args(sleeping).spawn();
    let namespace = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let here = namespace(std::process::id() as i32);
    let visitor_pid = visitor.id() as i32;
    eventually("it is inside", || namespace(visitor_pid).is_some_and(|n| Some(n) != here));
    let place = w.directory("entered");
    w.whatif(["rm", "entered"]).go().ok();
    assert!(w.json(["ls"]).as_array().is_some_and(Vec::is_empty), "it is gone for everybody");
    assert_same(&reality, &canary(&[&w.project]));
    let _ = visitor.kill();
    let _ = visitor.wait();
    w.whatif(["gc"]).go().ok();
    eventually("and its directory", || !place.exists());
    w.assert_inventory_is(&before, "after the visitor left");
}

/// DR-12, the classic: a bind mount of reality below a directory that is to be deleted.
fn a_mount_on_the_way_is_never_deleted_through(w: &World) {
    w.write("precious/file", "precious");
    let reality = canary(&[&w.project]);
    w.new_sandbox("trap");
    w.exec("trap", "mkdir here").ok();
    let here = find(&w.directory("trap").join("head"), "here").expect("it is in the head");
    let script = format!(
        "mount --bind {real} {here} && {bin} rm trap; echo code $?; {bin} gc; ls {here}",
        real = w.project.join("precious").display(),
        here = here.display(),
        bin = w.bin.display()
    );
    let outcome = w.program("/usr/bin/unshare").args(["--mount", "--propagation", "private", "/bin/sh", "-c", &script]).go();
    assert!(outcome.stdout.contains("code "), "{} {}", outcome.stdout, outcome.stderr);
    // The removal is finished by whoever comes next, when nothing is mounted there any more.
    w.whatif(["gc"]).go().ok();
    eventually("it is gone", || !here.exists());
    assert_same(&reality, &canary(&[&w.project]));
}

/// Full disks end the command that needs room, and nobody else.
fn a_disk_that_fills_under_running_sandboxes_takes_nobody_down(w: &World) {
    let script = r#"
mount -t tmpfs -o mode=700,size=8m none "$WHATIF_HOME"
$W new one >/dev/null 2>&1; $W new two >/dev/null 2>&1
$W exec one -- sh -c 'echo precious > precious'
$W exec two -- dd if=/dev/zero of=big bs=64k && echo filled nothing
echo "read $($W exec one -- cat precious)"
$W exec one -- sh -c 'echo more > more' && echo wrote || echo refused
$W ls -q | sort | tr '\n' ' '; echo listed
$W stop two >/dev/null; echo stopped $?
$W rm two >/dev/null; echo removed $?
i=0; while [ -n "$(ls -A $WHATIF_HOME/transient)" ] && [ $i -lt 3000 ]; do i=$((i+1)); sleep 0.01; done
$W exec one -- sh -c 'echo again > again; cat precious again'; echo code $?
$W new three >/dev/null 2>&1; echo made $?
$W rm --all --yes >/dev/null; echo all $?
"#;
    let script = format!("W={}\n{script}", w.bin.display());
    let outcome = w.program("/usr/bin/unshare").args(["--mount", "--propagation", "private", "/bin/sh", "-c", &script]).go();
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    // Either the file system says it, or whoever watches over the room that shall stay free.
    assert!(said.contains("No space") || said.contains("killed: "), "{said}");
    assert!(!said.contains("filled nothing"), "{said}");
    for expected in ["read precious", "one two listed", "stopped 0", "removed 0", "precious\nagain\ncode 0", "made 0", "all 0"] {
        assert!(said.contains(expected), "no '{expected}' in:\n{said}");
    }
}

/// Two and more command lines at everything a sandbox can be asked for, at once, and its keeper killed now and then.
/// `WHATIF_RACES=200` for that many rounds.
fn everything_at_once_ends_and_leaves_a_whole_sandbox(w: &World) {
    w.write("real", "reality");
    let before = w.inventory();
    let reality = canary(&[&w.project]);
    w.new_sandbox("one");
    w.exec("one", "echo precious > precious; mkdir d; echo 1 > d/1").ok();
    w.snapshot("one", "base");
    let mut random = Random::from(number_from("WHATIF_SEED", 5) as u64);
    let commands: [&[&str]; 16] = [
        &["exec", "one", "--", "/bin/sh", "-c", "cat precious && echo x >> grows"],
        &["exec", "-d", "one", "--", "/bin/sh", "-c", "echo y >> grows"],
        &["exec", "--timeout", "50ms", "one", "--", "sleep", "5"],
        &["stop", "one", "--grace", "50ms"],
        &["start", "one"],
        &["snapshot", "one"],
        &["snapshot", "one", "--live", "stop"],
        &["rollback", "one", "base"],
        &["diff", "one", "--name-only"],
        &["status", "one"],
        &["ps", "one"],
        &["show", "one"],
        &["gc"],
        &["squash", "one"],
        &["fork", "one"],
        &["ls"],
    ];
    // Whoever comes too late, or between two others, is told so.
    let allowed = [
        "\"stopped\"",
        "\"ended_meanwhile\"",
        "\"busy\"",
        "\"conflict\"",
        "\"keeper_unreachable\"",
        "\"refused\"",
        "\"in_use\"",
        "\"not_found\"",
        "\"still_running\"",
        "\"restack_failed\"",
        "\"label_taken\"",
        "\"origin_gone\"",
        "\"illegal_transition\"",
        "\"no_such_process\"",
        "\"setup_failed\"",
        "\"io_error\"",
    ];
    for round in 0..number_from("WHATIF_RACES", 10) {
        let calls: Vec<_> = (0..6)
            .map(|_| *random.pick(&commands))
            .map(|arguments| (arguments, w.whatif(["--json"]).args(arguments.iter().copied())))
            .map(|(arguments, call)| std::thread::spawn(move || (arguments, call.go())))
            .collect();
        if random.once_in(3)
            && let Some(pid) = w.processes().iter().find(|p| p.contains(" keeper ")).and_then(|p| p.split(' ').next()?.parse().ok())
        {
            kill_by_id(pid);
        }
        for call in calls {
            let (arguments, outcome) = call.join().expect("it ends in time");
            let excused = outcome.code == 125 && allowed.iter().any(|code| outcome.stderr.contains(code));
            let expected = [0, 124, 137, 143].contains(&outcome.code) || (arguments[0] == "exec" && outcome.code < 125);
            assert!(excused || expected, "round {round}, {arguments:?}: {} {}", outcome.code, outcome.stderr);
        }
        // A keeper that was killed may be about to end still.
        eventually("it starts", || w.whatif(["start", "one"]).go().code == 0);
        assert_eq!(w.exec("one", "cat precious d/1").ok().stdout, "precious\n1\n", "round {round}");
        // Whatever went wrong, it does not stay so.
        w.exec("one", "echo z >> grows").ok();
        w.json(["snapshot", "one"]);
    }
    assert_same(&reality, &canary(&[&w.project]));
    w.whatif(["rm", "--all", "--yes"]).go().ok();
    w.whatif(["gc"]).go().ok();
    w.assert_inventory_is(&before, "after all of it");
}
