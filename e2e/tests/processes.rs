//! Attack group PR: processes, terminals, keyrings.

use std::time::{Duration, Instant};

use whatif_e2e::{Terminal, World, as_root_and_user, eventually, needs};

as_root_and_user!(
    no_process_outside_can_be_signalled,
    characters_cannot_be_pushed_into_a_terminal,
    a_command_pushed_into_the_callers_terminal_does_not_run,
    the_keyring_of_the_session_is_out_of_reach,
    daemons_die_with_their_sandbox,
    a_hung_first_process_does_not_hang_us,
    there_are_no_core_dumps,
    escape_sequences_in_logs_do_not_reach_a_terminal,
);

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
    let name = w.new_sandbox("daemons");
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
    w.whatif(["exec", &name, "--", "/usr/bin/python3", "-c", program, &marker]).go().ok();
    let alive = || w.processes().iter().filter(|p| p.contains(&marker)).count();
    eventually("five daemons run", || alive() == 5);
    let start = Instant::now();
    w.whatif(["stop", &name, "--grace", "200ms"]).go().ok();
    eventually("no daemon is left", || alive() == 0);
    assert!(start.elapsed() < Duration::from_secs(4), "it took {:?}", start.elapsed());
}

/// PR-08: everything in the sandbox is stopped, its pipes are full, and our commands still end.
fn a_hung_first_process_does_not_hang_us(w: &World) {
    let name = w.new_sandbox("hung");
    w.whatif(["exec", &name, "-d", "--", "/bin/sh", "-c", "kill -STOP 1; kill -KILL 1; kill -STOP -1; kill -STOP $$"]).go().ok();
    w.exec(&name, "true").ok();
    w.whatif(["ls"]).go().ok();
    w.whatif(["rm", &name]).go().ok();
}

/// PR-09: the host's handler of core dumps is never run for us.
fn there_are_no_core_dumps(w: &World) {
    assert_eq!(w.inside("ulimit -c; ulimit -Hc; ulimit -c unlimited 2>/dev/null; ulimit -c").ok().stdout, "0\n0\n0\n");
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
