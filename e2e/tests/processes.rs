//! Attack group PR: processes, terminals, keyrings.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use whatif_e2e::{Call, Outcome, Terminal, World, as_root_and_user, as_user, eventually, kill_wholly, needs, on_other_backends};

as_root_and_user!(
    no_process_outside_can_be_signalled,
    no_process_outside_can_be_slowed_down_or_limited,
    characters_cannot_be_pushed_into_a_terminal,
    a_command_pushed_into_the_callers_terminal_does_not_run,
    the_keyring_of_the_session_is_out_of_reach,
    daemons_die_with_their_sandbox,
    processes_that_fork_while_they_are_killed_are_all_dead_after_a_stop,
    processes_that_fork_while_they_are_killed_are_all_dead_after_the_keeper,
    a_hung_first_process_does_not_hang_us,
    a_keeper_that_dies_ends_the_call_with_a_reason,
    a_keeper_that_hangs_ends_every_call_with_a_reason,
    output_that_nobody_reads_holds_up_nobody_else,
    closed_standard_streams_are_survived,
    there_are_no_core_dumps,
    a_crash_leaves_no_core_file,
    escape_sequences_in_logs_do_not_reach_a_terminal,
    escape_sequences_in_arguments_do_not_reach_a_terminal,
    signals_that_its_maker_ignores_are_not_ignored_inside,
);
on_other_backends!(
    no_process_outside_can_be_signalled,
    no_process_outside_can_be_slowed_down_or_limited,
    characters_cannot_be_pushed_into_a_terminal,
    the_keyring_of_the_session_is_out_of_reach,
    daemons_die_with_their_sandbox,
    processes_that_fork_while_they_are_killed_are_all_dead_after_the_keeper,
    a_crash_leaves_no_core_file,
);
// It waits for as long as patience lasts, whoever asks.
as_user!(a_keeper_that_hangs_while_many_knock_can_still_be_ended);

/// PR-01.
fn no_process_outside_can_be_signalled(w: &World) {
    needs!(w, "python3");
    let mut victim = w.program("/bin/sleep").args(["1000"]).spawn();
    let program = format!(
        r#"
import os, errno, json, signal
out = {{}}
def attempt(name, f):
    try: f(); out[name] = "worked"
    except OSError as e: out[name] = errno.errorcode[e.errno]
pid = {pid}
attempt("kill", lambda: os.kill(pid, 9))
attempt("killpg", lambda: os.killpg(pid, 9))
attempt("pidfd", lambda: os.pidfd_open(pid))
attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, pid, 10))
attempt("affinity", lambda: os.sched_setaffinity(pid, [0]))
child = os.fork()
if child == 0:
    signal.pause()
try: os.kill(-1, 9)
except OSError: pass
out["own child"] = os.waitpid(child, 0)[1]
print(json.dumps(out))
"#,
        pid = victim.id()
    );
    let results = w.python_inside(&program);
    let alive = victim.try_wait().expect("it is our child").is_none();
    let _ = victim.kill();
    let _ = victim.wait();
    assert!(alive, "a process outside was killed");
    assert_eq!(results["own child"], 9, "signals work inside");
    for attempt in ["kill", "killpg", "pidfd", "priority", "affinity"] {
        assert_eq!(results[attempt], "ESRCH", "{attempt}");
    }
}

/// PR-01: what the calls beside `kill` could do to a process outside, and to all of the same user at once.
fn no_process_outside_can_be_slowed_down_or_limited(w: &World) {
    needs!(w, "python3");
    let mut victim = w.program("/bin/sleep").args(["1000"]).spawn();
    let stat = || std::fs::read_to_string(format!("/proc/{}/stat", victim.id())).expect("it lives");
    let limits = || std::fs::read_to_string(format!("/proc/{}/limits", victim.id())).expect("it lives");
    let niceness = || stat().rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(16).map(str::to_owned));
    let before = (niceness(), limits());
    let program = format!(
        r#"
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
out = {{}}
def attempt(name, *arguments):
    r = libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    out[name] = "worked" if r >= 0 else errno.errorcode[ctypes.get_errno()]
pid, uid = {pid}, os.getuid()
limit = (ctypes.c_ulong * 2)(1, 1)
info = (ctypes.c_int * 32)(10, 0, -1)
param = (ctypes.c_int * 1)(0)
attempt("tgkill", {tgkill}, pid, pid, 9)
attempt("tkill", {tkill}, pid, 9)
attempt("sigqueue", {sigqueue}, pid, 10, info)
attempt("prlimit", {prlimit}, pid, 7, limit, 0)
attempt("scheduler", {scheduler}, pid, 3, param)
attempt("ioprio", {ioprio}, 1, pid, 3 << 13)
attempt("process group", {setpgid}, pid, pid)
# Whatever these say, they must not reach anybody outside.
libc.syscall({setpriority}, 2, uid, 7)
libc.syscall({setpriority}, 1, 0, 7)
libc.syscall({ioprio}, 3, uid, 3 << 13)
print(json.dumps(out))
"#,
        pid = victim.id(),
        tgkill = libc::SYS_tgkill,
        tkill = libc::SYS_tkill,
        sigqueue = libc::SYS_rt_sigqueueinfo,
        prlimit = libc::SYS_prlimit64,
        scheduler = libc::SYS_sched_setscheduler,
        ioprio = libc::SYS_ioprio_set,
        setpgid = libc::SYS_setpgid,
        setpriority = libc::SYS_setpriority,
    );
    let results = w.python_inside(&program);
    let after = (niceness(), limits());
    let _ = victim.kill();
    let _ = victim.wait();
    assert_eq!(before, after, "a process outside was changed");
    for (attempt, result) in results.as_object().expect("an object") {
        assert!(["ESRCH", "EPERM"].iter().any(|e| result == e), "{attempt}: {result}");
    }
}

/// PR-03, with and without high bits in the request (CVE-2019-10063).
fn characters_cannot_be_pushed_into_a_terminal(w: &World) {
    needs!(w, "python3");
    let program = format!(
        r#"
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
master, slave = os.openpty()
out = []
for request in (0x5412, 0x541C, 0x5412 | 1 << 32, 0x541C | 5 << 40):
    for fd in (slave, 0):
        r = libc.syscall({ioctl}, fd, ctypes.c_ulong(request), b"x")
        out.append("pushed" if r >= 0 else errno.errorcode[ctypes.get_errno()])
print(json.dumps(out))
"#,
        ioctl = libc::SYS_ioctl
    );
    let results = w.python_inside(&program);
    assert!(results.as_array().expect("an array").iter().all(|r| r == "EPERM"), "{results}");
}

/// PR-03, the whole way: a shell on a terminal runs whatif, and what runs inside tries to type into that shell.
fn a_command_pushed_into_the_callers_terminal_does_not_run(w: &World) {
    needs!(w, "python3");
    w.write(
        "inject.py",
        "import fcntl, os\nfor c in 'echo INJE''CTED > pushed\\n':\n  for fd in (0, 1, 2):\n    try: fcntl.ioctl(fd, 0x5412, c)\n    except OSError: pass\nprint('tr'+'ied')\n",
    );
    let mut terminal = Terminal::with(w, &["/bin/sh", "-i"]);
    terminal.type_in(&format!("{} run --rm -- /usr/bin/python3 inject.py\n", w.bin.display()));
    terminal.expect("tried");
    // What is typed before that still belongs to the sandbox's terminal.
    terminal.expect("the sandbox is gone");
    terminal.type_in("echo do''ne\n");
    terminal.expect("done");
    terminal.type_in("exit\n");
    terminal.ends();
    assert!(!w.project.join("pushed").exists(), "the injected command ran");
}

/// PR-05.
fn the_keyring_of_the_session_is_out_of_reach(w: &World) {
    needs!(w, "python3");
    let program = format!(
        r#"
import ctypes, errno, json
libc = ctypes.CDLL(None, use_errno=True)
out = []
for arguments in (({keyctl}, 0, -3, 0), ({keyctl}, 1, 0), ({keyctl}, 11, -3, 0, 0), ({add}, b"user", b"whatif-e2e", b"x", 1, -3), ({request}, b"user", b"x", 0, -3)):
    r = libc.syscall(*arguments)
    out.append("worked" if r >= 0 else errno.errorcode[ctypes.get_errno()])
print(json.dumps(out))
"#,
        keyctl = libc::SYS_keyctl,
        add = libc::SYS_add_key,
        request = libc::SYS_request_key
    );
    let results = w.python_inside(&program);
    assert!(results.as_array().expect("an array").iter().all(|r| r == "EPERM" || r == "ENOSYS"), "{results}");
}

/// PR-07: double forks, sessions of their own, ignored signals.
fn daemons_die_with_their_sandbox(w: &World) {
    needs!(w, "python3");
    let marker = w.dir.join("daemon-marker").display().to_string();
    let program = r#"
import os, signal, sys
for n in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(s, signal.SIG_IGN)
            os.close(0); os.close(1); os.close(2)
            while True: signal.pause()
        os._exit(0)
"#;
    let alive = || w.processes().iter().filter(|p| p.contains(&marker)).count();
    w.new_sandbox("daemons");
    // A busy machine may take its time, but not each time.
    let is_quick = (0..3).any(|_| {
        w.whatif(["start", "daemons"]).go().ok();
        w.whatif(["exec", "daemons", "--", "/usr/bin/python3", "-c", program, &marker]).go().ok();
        eventually("five daemons run", || alive() == 5);
        let start = Instant::now();
        w.whatif(["stop", "daemons", "--grace", "200ms"]).go().ok();
        eventually("no daemon is left", || alive() == 0);
        start.elapsed() < Duration::from_secs(4)
    });
    assert!(is_quick, "they were waited for, although they ignore that they are to end");
}

/// Thirty lines of processes: each forks and ends at once, so that the one that is seen is gone already. They ignore what they can.
/// Where the test itself is killed, nobody else would ever end them.
const STORM: &str = r#"
import os, signal, time
end = time.monotonic() + 120
for s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT): signal.signal(s, signal.SIG_IGN)
for n in range(30):
    if os.fork() == 0:
        os.setsid()
        while time.monotonic() < end:
            try:
                if os.fork(): os._exit(0)
            except OSError: pass
        os._exit(0)
"#;

/// Makes a sandbox with such a storm in it, and returns what its processes can be told by.
fn storm(w: &World, name: &str) -> String {
    w.new_sandbox(name);
    let marker = w.dir.join(format!("storm-{name}")).display().to_string();
    w.whatif(["exec", "-d", name, "--", "/usr/bin/python3", "-c", STORM, &marker]).go().ok();
    eventually("the storm blows", || alive(w, &marker) >= 10);
    marker
}

fn alive(w: &World, marker: &str) -> usize {
    w.processes().iter().filter(|p| p.contains(marker)).count()
}

/// PR-07: not soon, but when the command returns.
fn processes_that_fork_while_they_are_killed_are_all_dead_after_a_stop(w: &World) {
    needs!(w, "python3");
    for (name, end) in [("stopped", vec!["stop", "--grace", "100ms", "stopped"]), ("removed", vec!["rm", "removed"])] {
        let marker = storm(w, name);
        w.whatif(end).go().ok();
        assert_eq!(alive(w, &marker), 0, "after {name}");
    }
    // What is only held still or copied goes on, and what shall end ends.
    let marker = storm(w, "shifted");
    w.exec("shifted", "echo x > changed").ok();
    w.snapshot("shifted", "beside-it");
    eventually("they go on: a snapshot disturbs nobody", || alive(w, &marker) > 0);
    w.json(["snapshot", "shifted", "after-it", "--live", "stop"]);
    w.exec("shifted", "echo y > changed").ok();
    assert_eq!(alive(w, &marker), 0, "they were to be ended");
}

/// PR-07: nothing of a sandbox can outlive its first process, whoever ends that.
fn processes_that_fork_while_they_are_killed_are_all_dead_after_the_keeper(w: &World) {
    needs!(w, "python3");
    let marker = storm(w, "orphaned");
    assert!(w.kill_keeper("orphaned"), "there was a keeper");
    assert_eq!(alive(w, &marker), 0);
}

fn keeper(w: &World, sandbox: &str) -> Pid {
    let pid = w.json(["show", sandbox])["keeper_pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    pid.and_then(Pid::from_raw).expect("it runs")
}

/// PR-08: everything in the sandbox is stopped, its pipes are full, and our commands still end.
fn a_hung_first_process_does_not_hang_us(w: &World) {
    let name = w.new_sandbox("hung");
    w.whatif(["exec", &name, "-d", "--", "/bin/sh", "-c", "kill -STOP 1; kill -KILL 1; kill -STOP -1; kill -STOP $$"]).go().ok();
    // What starts in the very moment would be stopped with the rest.
    let is_stopped = |process: &serde_json::Value| process["state"] == "T";
    eventually("it is stopped itself", || {
        w.json(["ps", &name])["processes"].as_array().is_some_and(|all| all.iter().any(is_stopped))
    });
    w.exec(&name, "true").ok();
    w.whatif(["ls"]).go().ok();
    w.whatif(["rm", &name]).go().ok();
}

/// PR-08: the foreground command's end is not known any more, and that is said.
fn a_keeper_that_dies_ends_the_call_with_a_reason(w: &World) {
    let name = w.new_sandbox("dying");
    let call = w.whatif(["--json", "exec", &name, "--", "/bin/sh", "-c", "echo up; exec sleep 1000"]);
    let waiting = std::thread::spawn(move || call.go());
    eventually("it runs", || w.whatif(["ps", &name]).go().stdout.contains("sleep 1000"));
    kill_wholly(&[w.keeper_pid(&name)]);
    let outcome = waiting.join().expect("it ends").exits(125).says("keeper");
    let error: serde_json::Value = serde_json::from_str(outcome.stderr.trim()).expect("errors are JSON, too");
    assert_eq!(error["error"]["code"], "keeper_unreachable", "{error}");
    // Nobody meant it to be down, so the next command brings it up.
    w.exec(&name, "true").ok();
}

/// Each at once, since each waits for as long as patience lasts.
fn all_at_once(calls: Vec<Call>) -> Vec<Outcome> {
    let running: Vec<_> = calls.into_iter().map(|call| std::thread::spawn(move || call.go())).collect();
    running.into_iter().map(|thread| thread.join().expect("it ends in time")).collect()
}

/// PR-08: what needs the keeper says that it does not answer; what does not goes on.
fn a_keeper_that_hangs_ends_every_call_with_a_reason(w: &World) {
    let name = w.new_sandbox("hanging");
    let other = w.new_sandbox("neighbour");
    w.exec(&name, "echo kept > made").ok();
    let pid = keeper(w, &name);
    kill_process(pid, Signal::STOP).expect("it is ours");
    let file = w.write("file", "x").display().to_string();
    // More than fits into a socket that nobody reads.
    let large = format!(
        "l=$(head -c 100000 /dev/zero | tr '\\0' x); exec {} exec --env A=$l --env B=$l --env C=$l {name} -- true",
        w.bin.display()
    );
    let need_it = vec![
        w.whatif(["exec", &name, "--", "true"]),
        w.whatif(["exec", "-d", &name, "--", "true"]),
        w.whatif(["ps", &name]),
        w.whatif(["show", &name]),
        w.whatif(["kill", &name, "2"]),
        w.whatif(["cp", &file, "hanging:/tmp/file"]),
        w.whatif(["snapshot", &name, "label"]),
        w.program("/bin/sh").args(["-c", &large]),
    ];
    let do_not = vec![w.whatif(["ls"]), w.whatif(["gc"]), w.whatif(["exec", &other, "--", "true"])];
    // Whatever the latter say about that one, they come back, and the others are not affected.
    let needing = need_it.len();
    for (n, outcome) in all_at_once(need_it.into_iter().chain(do_not).collect()).into_iter().enumerate() {
        if n < needing {
            outcome.fails_with_hint(125).says("does not answer")
        } else {
            outcome.ok()
        };
    }
    // One that goes on again answers again, and nothing that was given up happens late.
    kill_process(pid, Signal::CONT).expect("it is ours");
    eventually("it answers again", || w.exec(&name, "true").code == 0);
    eventually("what was asked meanwhile is over", || w.json(["show", &name])["pids"] == 0);
    assert_eq!(w.exec(&name, "cat made").ok().text(), "kept");
    assert!(w.labels(&name).is_empty(), "a snapshot that failed is none");
}

/// PR-08 and CG-06: so many wait at its door that no further one could even knock.
fn a_keeper_that_hangs_while_many_knock_can_still_be_ended(w: &World) {
    needs!(w, "python3");
    let knock = "import os, socket, sys\nheld = os.open(sys.argv[1], os.O_PATH)\nopen_ones = []\nwhile True:\n  s = socket.socket(socket.AF_UNIX); s.setblocking(False)\n  try: s.connect(f'/proc/self/fd/{held}/keeper.sock')\n  except BlockingIOError: break\n  open_ones.append(s)\nprint(len(open_ones))";
    let hung = ["hung-stop", "hung-rm", "hung-exec"].map(|name| {
        w.new_sandbox(name);
        w.exec(name, "echo kept > made").ok();
        let directory = w.json(["show", name])["directory"].as_str().expect("it has one").to_owned();
        let pid = keeper(w, name);
        kill_process(pid, Signal::STOP).expect("it is ours");
        // They leave at once, and the door is as blocked as before.
        w.program("/usr/bin/python3").args(["-c", knock, &directory]).go().ok();
        pid
    });
    let calls = [vec!["stop", "--grace", "100ms", "hung-stop"], vec!["rm", "hung-rm"], vec!["exec", "hung-exec", "--", "true"]];
    let outcomes = all_at_once(calls.into_iter().map(|arguments| w.whatif(arguments)).collect());
    outcomes[0].clone().ok();
    outcomes[1].clone().ok();
    outcomes[2].clone().fails_with_hint(125).says("does not answer");
    let lives = |pid: Pid| w.processes().iter().any(|p| p.starts_with(&format!("{} ", pid.as_raw_nonzero())));
    assert!(!lives(hung[0]) && !lives(hung[1]), "a keeper outlives its end: {:?}", w.processes());
    kill_process(hung[2], Signal::CONT).expect("it is ours");
    eventually("it answers again", || w.exec("hung-exec", "true").code == 0);
    w.whatif(["start", "hung-stop"]).go().ok();
    assert_eq!(w.exec("hung-stop", "cat made").ok().text(), "kept");
}

/// PR-08: full pipes, of a foreground command nobody listens to and of a client that asks and never reads.
fn output_that_nobody_reads_holds_up_nobody_else(w: &World) {
    needs!(w, "python3");
    let name = w.new_sandbox("loud");
    let mut unread = w
        .whatif(["exec", &name, "--", "/bin/sh", "-c", "yes > /dev/stderr & yes"])
        .streams(Stdio::null(), Stdio::piped(), Stdio::piped())
        .spawn();
    let directory = w.json(["show", &name])["directory"].as_str().expect("it has one").to_owned();
    // Asks for the list of processes until nothing more can be sent, and never reads an answer.
    let ask = "import os, socket, struct, sys, time\nheld = os.open(sys.argv[1], os.O_PATH)\nfor n in range(20):\n  s = socket.socket(socket.AF_UNIX); s.connect(f'/proc/self/fd/{held}/keeper.sock')\n  s.settimeout(0.3)\n  try:\n    for word in (b'\"list\"',) * 3000: s.sendall(struct.pack('<I', len(word)) + word)\n  except OSError: pass\n  keep = globals().setdefault('keep', []); keep.append(s)\nprint('full', flush=True)\ntime.sleep(1000)";
    let mut rude =
        w.program("/usr/bin/python3").args(["-c", ask, &directory]).streams(Stdio::null(), Stdio::piped(), Stdio::null()).spawn();
    for n in 0..10 {
        assert_eq!(w.exec(&name, &format!("echo {n}")).ok().text(), n.to_string());
    }
    let _ = rude.kill();
    let _ = rude.wait();
    let _ = unread.kill();
    let _ = unread.wait();
    // Its client is gone, and so is it.
    eventually("nothing is left of it", || w.json(["show", &name])["pids"] == 0);
    w.exec(&name, "true").ok();
}

/// PR-08: a caller without standard streams, and a command that closes its own.
fn closed_standard_streams_are_survived(w: &World) {
    let name = w.new_sandbox("closed");
    let bin = w.bin.display();
    for command in ["exec closed -- /bin/true", "run --rm -q -- /bin/true"] {
        w.outside(&format!("{bin} {command} 0<&- 1>&- 2>&-")).ok();
    }
    w.outside(&format!("{bin} exec closed -- /bin/sh -c 'exit 3' 0<&- 1>&- 2>&-")).exits(3);
    w.exec(&name, "exec 0<&- 1>&- 2>&-; sleep 0.1; exit 4").exits(4);
    assert_eq!(w.exec(&name, "echo still").ok().text(), "still");
}

/// PR-09: the host's handler of core dumps is never run for us.
fn there_are_no_core_dumps(w: &World) {
    assert_eq!(w.inside("ulimit -c; ulimit -Hc; ulimit -c unlimited 2>/dev/null; ulimit -c").ok().stdout, "0\n0\n0\n");
    // One byte: the kernel starts a handler that core_pattern names for 0, and does not for 1.
    let limit = w.inside("python3 -c 'import resource; print(resource.getrlimit(resource.RLIMIT_CORE))'").ok().stdout;
    assert_eq!(limit, "(1, 1)\n");
}

/// PR-09: in a fresh sandbox and in a living one, and nobody can raise the limit for another.
fn a_crash_leaves_no_core_file(w: &World) {
    needs!(w, "python3");
    let name = w.new_sandbox("crashing");
    let program = r#"
import json, os, resource, signal
child = os.fork()
if child == 0:
    try: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (OSError, ValueError): pass
    os.kill(os.getpid(), signal.SIGSEGV)
    signal.pause()
status = os.waitpid(child, 0)[1]
print(json.dumps([os.WTERMSIG(status), os.WCOREDUMP(status), [f for f in os.listdir(".") if "core" in f]]))
"#;
    for base in [vec!["run", "--rm", "--quiet"], vec!["exec", &name]] {
        let result = w.whatif(base.into_iter().chain(["--", "/usr/bin/python3", "-c", program])).go().ok().json();
        assert_eq!(result, serde_json::json!([libc::SIGSEGV, false, []]));
    }
}

/// PR-04: what a background command printed is shown to a terminal with its escapes made visible.
fn escape_sequences_in_logs_do_not_reach_a_terminal(w: &World) {
    let name = w.new_sandbox("escapes");
    w.whatif(["exec", &name, "-d", "--", "printf", r"before\033]52;c;ZXZpbA==\007after\n"]).go().ok();
    eventually("the log is written", || w.whatif(["logs", &name]).go().stdout.contains("after"));
    let mut terminal = Terminal::with_whatif(w, &["logs", &name]);
    terminal.expect("after");
    assert!(!terminal.screen().contains("\x1b]52"), "{:?}", terminal.screen());
    assert_eq!(terminal.ends(), 0);
    let mut raw = Terminal::with_whatif(w, &["logs", "--raw", &name]);
    raw.expect("\x1b]52;c;ZXZpbA==\x07after");
    assert_eq!(raw.ends(), 0);
}

/// PR-04: arguments are the sandbox's own words, too.
fn escape_sequences_in_arguments_do_not_reach_a_terminal(w: &World) {
    let evil = "evil-\u{1b}]52;c;ZXZpbA==\u{7}-end";
    w.whatif(["run", "--keep", "--name", "worded", "--", "/bin/sh", "-c", "exit 0", evil]).go().ok();
    w.whatif(["exec", "-d", "worded", "--", "/bin/sh", "-c", "sleep 1000; true", evil]).go().ok();
    let listed = || w.json(["ps", "worded"])["processes"].to_string();
    eventually("it is listed", || listed().contains("sleep 1000"));
    for command in [["ps", "worded"], ["show", "worded"], ["ls", "--here"], ["diff", "worded"]] {
        let script = format!("{} {}; echo all-$((40+2))", w.bin.display(), command.join(" "));
        let mut terminal = Terminal::with(w, &["/bin/sh", "-c", &script]);
        terminal.expect("all-42");
        let screen = terminal.screen();
        assert!(!screen.contains("\u{1b}]52"), "{command:?}: {screen:?}");
    }
}

/// A sandbox that a script made in the background has to hear Ctrl-C when a person works in it.
fn signals_that_its_maker_ignores_are_not_ignored_inside(w: &World) {
    w.outside(&format!("trap '' HUP INT QUIT USR1; exec {} new deaf", w.bin.display())).ok();
    assert_eq!(w.exec("deaf", "grep SigIgn /proc/self/status").ok().stdout, "SigIgn:\t0000000000000000\n");
}
