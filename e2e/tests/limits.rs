//! Attack group CG: a sandbox that wants everything gets what it was given, and the rest of the machine goes on.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use whatif_e2e::{World, as_root, as_root_and_user, as_user, eventually, needs, skip};

as_root_and_user!(
    processes_stop_at_their_limit,
    threads_count_as_processes,
    a_fork_bomb_goes_off_inside_only,
    a_fork_bomb_can_be_asked_about,
    the_limit_on_processes_cannot_be_lifted_from_inside,
    memory_ends_at_its_limit_whatever_it_is_used_for,
    memory_of_many_small_processes_is_added_up,
    files_in_the_page_cache_are_not_taken_for_memory,
    memory_hidden_from_process_tables_is_counted_too,
    what_lies_in_sockets_is_limited_too,
    who_runs_out_of_memory_takes_nobody_else_along,
    what_a_command_leaves_behind_is_limited_too,
    real_time_and_high_priorities_are_refused,
    descriptors_run_out_inside_only,
    thousands_of_silent_connections_do_not_keep_it_from_serving,
    a_control_group_cannot_be_left_or_made,
    limits_add_no_descriptor_to_a_command,
    who_cannot_be_held_still_is_reported_and_goes_on,
    the_smallest_limits_still_run_something,
    a_sandbox_made_beforehand_is_not_taken_where_limits_are_wanted,
    a_command_reports_what_it_used,
    live_figures_are_shown,
);
as_root!(
    processor_time_stays_near_its_limit,
    every_process_is_in_its_group_before_it_runs,
    groups_go_with_their_sandbox_and_belong_to_their_state_directory,
);
as_user!(one_processor_is_one_processor);

/// How often a time is measured before it counts: a machine has other things to do, too.
const TRIES: usize = 4;

/// It was killed for this, and says so to people and to programs.
#[track_caller]
fn assert_hit(w: &World, sandbox: &str, program: &str, limit: &str, words: &str) {
    let outcome = w.python(sandbox, program);
    assert_eq!(outcome.code, 137, "{program}\n{}\n{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains(&format!("killed: {words}")), "{}", outcome.stderr);
    let document = w.python_json(sandbox, program);
    assert_eq!((&document["exit_code"], &document["limit_hit"]), (&137.into(), &limit.into()), "{program}: {document}");
    w.assert_alive(sandbox);
}

/// CG-01.
fn processes_stop_at_their_limit(w: &World) {
    needs!(w, "python3");
    w.limited("few", &["--pids", "40"]);
    let program = r#"
import json, os, signal
made, why = 0, None
while made < 500:
    try: pid = os.fork()
    except OSError as e: why = e.errno; break
    if pid == 0:
        signal.pause()
    made += 1
print(json.dumps([made, why]))
"#;
    let result = w.python("few", program).ok();
    let result: Value = serde_json::from_str(&result.stdout).expect("it prints JSON");
    let made = result[0].as_u64().expect("a number");
    assert!((20..=40).contains(&made), "{result}");
    assert_eq!(result[1], libc::EAGAIN);
    // Those it left are alive, so there may be no room for another command, which is then said.
    let refused = w.exec("few", "true");
    assert!(refused.code == 0 || refused.stderr.contains("hint:"), "{}", refused.stderr);
    w.outside("true").ok();
    let document = w.whatif(["--json", "run", "--rm", "--pids", "20", "--", "/usr/bin/python3", "-c", program]).go().json();
    assert_eq!(document["pids_refused"], true, "{document}");
    let said = w.whatif(["run", "--rm", "--pids", "20", "--", "/usr/bin/python3", "-c", program]).go();
    assert!(said.stderr.contains("the limit of 20 on processes was reached"), "{said:?}");
    let few = w.whatif(["--json", "run", "--rm", "--pids", "20", "--", "sh", "-c", "sleep 1 & sleep 1 & wait"]).go().json();
    assert_eq!(few["pids_refused"], false, "{few}");
}

/// CG-01.
fn threads_count_as_processes(w: &World) {
    needs!(w, "python3");
    w.limited("threads", &["--pids", "60"]);
    let program = r#"
import threading, time
made = 0
try:
    while made < 5000:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        made += 1
except RuntimeError: pass
print(made, flush=True)
import os; os._exit(0)
"#;
    let made: u32 = w.python("threads", program).ok().text().parse().expect("a number");
    assert!((20..=60).contains(&made), "{made} threads");
    w.assert_alive("threads");
}

/// Forks for ever, under a name of its own.
const BOMB: &str = "import ctypes, os, sys\nctypes.CDLL(None).prctl(15, sys.argv[1].encode())\nwhile True:\n  try: os.fork()\n  except OSError: pass";

/// Sets such a bomb off. The name by which its processes can be counted: to read the command line of one would mean to wait until
/// it lets go of its memory, which may take long.
fn bomb(w: &World, sandbox: &str) -> String {
    let name = format!("b{}", w.dir.display()).bytes().rev().take(15).map(char::from).collect::<String>();
    w.whatif(["exec", "-d", sandbox, "--", "/usr/bin/python3", "-c", BOMB, &name]).go().ok();
    eventually("it goes off", || count(&name) > 60);
    name
}

fn count(name: &str) -> usize {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    entries.filter(|e| fs::read_to_string(e.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)).count()
}

/// CG-01: those who ask about it are answered, and soon, as far as the machine answers anything soon.
fn a_fork_bomb_can_be_asked_about(w: &World) {
    needs!(w, "python3");
    w.limited("bomb", &["--pids", "100", "--cpus", "0.5"]);
    let name = bomb(w, "bomb");
    w.new_sandbox("quiet");
    // The median, because a machine has other things to do, too.
    let answer = |verb, sandbox| {
        let mut times: Vec<Duration> = (0..5)
            .map(|_| {
                let begun = Instant::now();
                w.whatif([verb, sandbox]).go().ok();
                begun.elapsed()
            })
            .collect();
        times.sort();
        times[2]
    };
    for verb in ["stats", "show", "ps"] {
        // And more than once: those other things come and go between the two.
        let mut seen = Vec::new();
        while seen.last().is_none_or(|(quiet, bomb)| *bomb >= Duration::from_secs(2).max(*quiet * 10)) {
            assert!(seen.len() < TRIES, "{verb}, without a bomb and with one: {seen:?}");
            seen.push((answer(verb, "quiet"), answer(verb, "bomb")));
        }
    }
    w.whatif(["stop", "--grace", "0s", "bomb"]).go().ok();
    assert_eq!(count(&name), 0);
}

/// CG-01: the classic, for as long as somebody wants to watch.
fn a_fork_bomb_goes_off_inside_only(w: &World) {
    needs!(w, "python3");
    w.limited("bomb", &["--pids", "100", "--cpus", "1"]);
    w.new_sandbox("beside");
    let name = bomb(w, "bomb");
    for _ in 0..5 {
        assert!(count(&name) <= 100, "{} processes", count(&name));
        w.outside("true").ok();
        w.assert_alive("beside");
    }
    assert_eq!(w.json(["ls"]).as_array().map(Vec::len), Some(2));
    w.whatif(["stop", "--grace", "100ms", "bomb"]).go().ok();
    assert_eq!(count(&name), 0, "when the command returns, they are dead");
}

fn the_limit_on_processes_cannot_be_lifted_from_inside(w: &World) {
    needs!(w, "python3");
    w.limited("fixed", &["--pids", "30"]);
    let program = r#"
import json, os, resource
for limit in ((resource.RLIM_INFINITY,) * 2, (4000, 4000)):
    try: resource.setrlimit(resource.RLIMIT_NPROC, limit)
    except (OSError, ValueError): pass
try: os.setuid(1)
except OSError: pass
made = 0
try:
    while made < 300:
        if os.fork() == 0:
            import signal; signal.pause()
        made += 1
except OSError: pass
print(made)
"#;
    let made: u32 = w.python("fixed", program).ok().text().parse().expect("a number");
    assert!(made <= 30, "{made} processes");
}

const MIB: &str = "M = 1 << 20\n";

/// CG-02. 64 MiB are allowed, and each way wants 400.
fn memory_ends_at_its_limit_whatever_it_is_used_for(w: &World) {
    needs!(w, "python3");
    w.limited("greedy", &["--memory", "64M"]);
    let ways = [
        "x = bytearray(400 * M)\nimport time; time.sleep(60)",
        "f = open('/tmp/x', 'wb')\nfor n in range(400): f.write(b'x' * M)\nimport time; time.sleep(60)",
        "f = open('/dev/shm/x', 'wb')\nfor n in range(400): f.write(b'x' * M)\nimport time; time.sleep(60)",
        "import ctypes, mmap\nctypes.CDLL(None).mlockall(3)\nm = mmap.mmap(-1, 400 * M)\nm.write(b'x' * (400 * M))\nimport time; time.sleep(60)",
        "import mmap\nm = mmap.mmap(-1, 400 * M)\nfor n in range(0, 400 * M, 4096): m[n] = 1\nimport time; time.sleep(60)",
    ];
    for way in ways {
        assert_hit(w, "greedy", &format!("{MIB}{way}"), "memory", "64 MiB memory limit");
        // What lies in memory as a file is not a process's, and would keep the next command from starting.
        let _ = w.exec("greedy", "rm -f /tmp/x /dev/shm/x");
    }
    assert_eq!(w.show("greedy")["status"], "active");
    let outcome = w.python("greedy", &format!("{MIB}{}", ways[0]));
    assert!(outcome.stderr.contains("hint: a new sandbox can have a higher --memory"), "{}", outcome.stderr);
}

/// CG-02: none of them is too large.
fn memory_of_many_small_processes_is_added_up(w: &World) {
    needs!(w, "python3");
    w.limited("sum", &["--memory", "96M"]);
    let program = r#"
import os, time
for n in range(20):
    if os.fork() == 0:
        x = bytearray(20 << 20)
        for n in range(0, len(x), 4096): x[n] = 1
        time.sleep(60); os._exit(0)
while not os.WIFSIGNALED(os.wait()[1]): pass
raise SystemExit(9)
"#;
    let document = w.python_json("sum", program);
    assert_eq!(document["limit_hit"], "memory", "{document}");
    assert!([9, 137].iter().any(|code| document["exit_code"] == *code), "{document}");
    w.assert_alive("sum");
}

/// CG-02: what can be dropped at any time is no reason to kill anybody.
fn files_in_the_page_cache_are_not_taken_for_memory(w: &World) {
    needs!(w, "python3");
    let program = "with open('big', 'wb') as f:\n  for n in range(100): f.write(b'x' * (1 << 20))\nprint(sum(len(b) for b in iter(lambda f=open('big', 'rb'): f.read(1 << 20), b'')))";
    let call = w.whatif(["--json", "run", "--rm", "--memory", "64M", "--", "/usr/bin/python3", "-c", program]);
    let document = call.go().ok().json();
    assert_eq!((&document["exit_code"], &document["limit_hit"]), (&0.into(), &Value::Null), "{document}");
}

/// CG-02: memory that no process has mapped. What only a control group sees is tried with a control group.
fn memory_hidden_from_process_tables_is_counted_too(w: &World) {
    needs!(w, "python3");
    w.limited("hidden", &["--memory", "40M"]);
    let anybody = [
        "import os\nfd = os.memfd_create('x')\nfor n in range(400): os.write(fd, b'x' * M)",
        "import ctypes\nlibc = ctypes.CDLL(None); libc.shmat.restype = ctypes.c_void_p\nfor n in range(40):\n  a = libc.shmat(libc.shmget(0, 10 * M, 0o1600), None, 0); ctypes.memset(a, 1, 10 * M); libc.shmdt(ctypes.c_void_p(a))",
        "import socket\nkeep = []\nfor n in range(490):\n  a, b = socket.socketpair(); keep += [a, b]; a.setblocking(False)\n  try:\n    while True: a.send(b'x' * 65536)\n  except BlockingIOError: pass",
    ];
    let threads = format!(
        "import ctypes, os, threading\nlibc = ctypes.CDLL(None)\ndef aside(fill):\n  threading.Thread(target=fill).start(); libc.syscall({}, 0)",
        libc::SYS_exit
    );
    let threaded = [
        // The first thread ends, and with it what the kernel tells of the process.
        "def fill():\n  x = bytearray(400 * M); time.sleep(60)\nimport time; aside(fill)",
        "def fill():\n  libc.unshare(0x400); fd = os.memfd_create('x')\n  for n in range(400): os.write(fd, b'x' * M)\n  time.sleep(60)\nimport time; aside(fill)",
        // The same while the first one lives on.
        "def fill():\n  libc.unshare(0x400); fd = os.memfd_create('x')\n  for n in range(400): os.write(fd, b'x' * M)\n  time.sleep(60)\nimport time; threading.Thread(target=fill).start()",
    ]
    .map(|way| format!("{threads}\n{way}"));
    // A control group refuses these rather than end anybody.
    let watched = [
        "import ctypes\nfor n in range(400): ctypes.CDLL(None).semget(0, 16000, 0o1600)",
        "import ctypes\nlibc = ctypes.CDLL(None); text = ctypes.create_string_buffer(b'\\1', 8200)\nfor n in range(15000):\n  queue = libc.msgget(0, 0o1600)\n  for m in range(2): libc.msgsnd(queue, text, 8192, 0o4000)",
    ];
    let grouped = [
        "import fcntl, os\nkeep = []\nfor n in range(490):\n  a, b = os.pipe(); keep += [a, b]; os.set_blocking(b, False)\n  try: fcntl.fcntl(b, 1031, M)\n  except OSError: pass\n  try:\n    while True: os.write(b, b'x' * 65536)\n  except BlockingIOError: pass",
    ];
    let of_this_user = if w.is_root() { grouped.iter() } else { watched.iter() };
    for way in anybody.iter().chain(of_this_user).copied().chain(threaded.iter().map(String::as_str)) {
        let document = w.python_json("hidden", &format!("{MIB}{way}\nimport time; time.sleep(60)"));
        assert_eq!((&document["exit_code"], &document["limit_hit"]), (&137.into(), &"memory".into()), "{way}: {document}");
        // Segments outlive their process; the sandbox's own memory goes with it.
        w.whatif(["stop", "--grace", "0s", "hidden"]).go().ok();
        w.whatif(["start", "hidden"]).go().ok();
        w.assert_alive("hidden");
    }
}

/// Bytes on their way through the sandbox's own loopback. Whoever holds too many is ended, or waits.
fn what_lies_in_sockets_is_limited_too(w: &World) {
    needs!(w, "python3");
    w.limited("sockets", &["--memory", "40M"]);
    let begin = "import socket, struct\nkeep = []\ndef fill(s):\n  s.setblocking(False)\n  try:\n    for n in range(200): s.send(b'x' * 60000)\n  except BlockingIOError: pass";
    let tcp = "l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(500)\nfor n in range(400):\n  a = socket.create_connection(l.getsockname()); b, _ = l.accept(); keep += [a, b]; fill(a); fill(b)";
    let udp = "for n in range(400):\n  a = socket.socket(type=socket.SOCK_DGRAM); a.bind(('127.0.0.1', 0)); b = socket.socket(type=socket.SOCK_DGRAM); b.connect(a.getsockname()); keep += [a, b]; fill(b)";
    // SO_MEMINFO: received, and waiting to be sent.
    let end = "held = [struct.unpack('9I', s.getsockopt(1, 55, 36)) for s in keep]\nprint(sum(h[0] + h[5] for h in held) >> 20)\nimport time; time.sleep(3)";
    for way in [tcp, udp] {
        let document = w.python_json("sockets", &format!("{begin}\n{way}\n{end}"));
        if document["exit_code"] == 137 {
            assert_eq!(document["limit_hit"], "memory", "{way}: {document}");
            w.whatif(["stop", "--grace", "0s", "sockets"]).go().ok();
            w.whatif(["start", "sockets"]).go().ok();
        } else {
            let held: u64 = document["stdout"].as_str().and_then(|text| text.trim().parse().ok()).expect("it counts");
            assert!(held < 40, "{held} MiB are held: {way}: {document}");
        }
        w.assert_alive("sockets");
    }
}

/// Nobody waits for it any more, and it is limited all the same.
fn what_a_command_leaves_behind_is_limited_too(w: &World) {
    needs!(w, "python3");
    let daemon = |program: &str| {
        format!(
            "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\n[os.close(fd) for fd in (0, 1, 2)]\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)\n{MIB}{program}\ntime.sleep(1000)"
        )
    };
    w.limited("left", &["--memory", "64M", "--disk", "16M"]);
    let running = || w.json(["show", "left"])["pids"].as_u64();
    for program in ["x = bytearray(400 * M)", "for n in range(400): open(f'f{n}', 'wb').write(b'x' * M)"] {
        w.python("left", &daemon(program)).ok();
        assert_eq!(running(), Some(1), "it goes on in the background");
        // Whatever becomes of this one, which may be ended along with it.
        let _ = w.exec("left", "touch /tmp/go");
        eventually("it is ended", || running() == Some(0));
        w.exec("left", "rm -f f* /tmp/go").ok();
    }
}

/// CG-02: the keeper, another command of the same sandbox that is small, and the neighbour.
fn who_runs_out_of_memory_takes_nobody_else_along(w: &World) {
    needs!(w, "python3");
    w.limited("crowded", &["--memory", "64M"]);
    w.new_sandbox("beside");
    let keepers = [w.show("crowded")["keeper_pid"].clone(), w.show("beside")["keeper_pid"].clone()];
    w.whatif(["exec", "-d", "beside", "--", "sleep", "1234"]).go().ok();
    for _ in 0..3 {
        w.python("crowded", "x = bytearray(400 << 20)\nimport time; time.sleep(60)").exits(137);
    }
    assert_eq!(keepers, [w.show("crowded")["keeper_pid"].clone(), w.show("beside")["keeper_pid"].clone()]);
    assert!(w.whatif(["ps", "beside"]).go().ok().stdout.contains("sleep 1234"));
    w.assert_alive("crowded");
}

/// How much of one processor a script gets.
fn share(w: &World, sandbox: &str, script: &str) -> f64 {
    let document = w.whatif(["--json", "exec", sandbox, "--", "/bin/sh", "-c", script]).go().json();
    let number = |key: &str| document["usage"][key].as_f64().unwrap_or_else(|| panic!("{document}"));
    number("cpu_ms") / number("wall_ms")
}

/// CG-04: twice as many loops as there are processors, for about a second.
fn processor_time_stays_near_its_limit(w: &World) {
    w.limited("half", &["--cpus", "0.5"]);
    let script = "for n in 1 2 3 4; do timeout 1.5 sh -c 'while :; do :; done' & done; wait";
    // Of one processor; the first period may be used up at once.
    let mut shares = Vec::new();
    while !shares.last().is_some_and(|share| (0.1..=0.65).contains(share)) {
        assert!(shares.len() < TRIES, "{shares:?}");
        shares.push(share(w, "half", script));
    }
}

/// CG-04, where time cannot be shared out: on one of the processors at a time, however many loops there are.
fn one_processor_is_one_processor(w: &World) {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        skip("there is only one processor");
        return;
    }
    w.limited("single", &["--cpus", "1"]);
    let script = "for n in 1 2 3 4; do timeout 1 sh -c 'while :; do :; done' & done; wait";
    // It is shared with all others who run there, so at times they get little of it.
    let mut shares = Vec::new();
    while !shares.last().is_some_and(|share| (0.2..=1.2).contains(share)) {
        assert!(shares.len() < TRIES, "{shares:?}");
        shares.push(share(w, "single", script));
    }
    assert!(shares.iter().all(|share| *share <= 1.2), "{shares:?}");
    let enforced = w.show("single")["details"]["enforced"].to_string();
    assert!(enforced.contains("affinity"), "it is said by what: {enforced}");
}

/// CG-04.
fn real_time_and_high_priorities_are_refused(w: &World) {
    needs!(w, "python3");
    let program = format!(
        r#"
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
out = {{}}
def attempt(name, f):
    try: f(); out[name] = "worked"
    except OSError as e: out[name] = errno.errorcode[e.errno]
for name, policy in dict(fifo=os.SCHED_FIFO, rr=os.SCHED_RR).items():
    attempt(name, lambda: os.sched_setscheduler(0, policy, os.sched_param(1)))
attempt("nice", lambda: os.setpriority(os.PRIO_PROCESS, 0, -20))
attempt("nice by one", lambda: os.nice(-1))
def call(*arguments):
    if libc.syscall(*arguments) < 0: raise OSError(ctypes.get_errno(), "")
# SCHED_DEADLINE: size, policy, flags, nice, priority, runtime, deadline, period.
import struct
attributes = ctypes.create_string_buffer(struct.pack("<IIQiIQQQ", 48, 6, 0, 0, 0, 10_000_000, 20_000_000, 20_000_000))
attempt("deadline", lambda: call({setattr}, 0, attributes, 0))
attempt("real-time io", lambda: call({ioprio}, 1, 0, 1 << 13))
print(json.dumps(out))
"#,
        setattr = libc::SYS_sched_setattr,
        ioprio = libc::SYS_ioprio_set,
    );
    for limits in [&[][..], &["--cpus", "1", "--pids", "50"]] {
        let call = w.whatif(["run", "--rm", "--quiet"]).args(limits).args(["--", "/usr/bin/python3", "-c", &program]);
        for (attempt, result) in call.go().ok().json().as_object().expect("an object") {
            assert!(["EPERM", "EACCES"].iter().any(|e| result == e), "{attempt}: {result}");
        }
    }
}

/// CG-06.
fn descriptors_run_out_inside_only(w: &World) {
    needs!(w, "python3");
    w.new_sandbox("open");
    w.new_sandbox("beside");
    let program = "import os, resource, signal\nhard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\nresource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))\nopen_ones = 0\ntry:\n  while open_ones < 300000: os.dup(1); open_ones += 1\nexcept OSError: pass\nprint(open_ones, flush=True)\nsignal.pause()";
    for _ in 0..3 {
        w.whatif(["exec", "-d", "open", "--", "/usr/bin/python3", "-c", program]).go().ok();
    }
    eventually("they have them all", || w.json(["show", "open"])["pids"] == 3);
    for name in ["open", "beside"] {
        w.assert_alive(name);
    }
    w.outside("true").ok();
}

/// CG-06: connections that say nothing, and some that begin to say something and never end.
fn thousands_of_silent_connections_do_not_keep_it_from_serving(w: &World) {
    needs!(w, "python3");
    w.new_sandbox("door");
    let place = w.directory("door").display().to_string();
    let program = r#"
import os, resource, socket, sys, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
held = os.open(sys.argv[1], os.O_PATH)
keep = []
for n in range(2000):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(5)
    try:
        s.connect(f"/proc/self/fd/{held}/keeper.sock")
        if n % 3 == 1: s.send(b"\xff\xff")
        if n % 3 == 2: s.send(b"\x40\x00\x00\x00{\"exec\":")
    except OSError: pass
    keep.append(s)
print("knocked", flush=True)
time.sleep(1000)
"#;
    let mut knocking: Child =
        w.program("/usr/bin/python3").args(["-c", program, &place]).streams(Stdio::null(), Stdio::piped(), Stdio::null()).spawn();
    let mut word = [0; 7];
    std::io::Read::read_exact(knocking.stdout.as_mut().expect("it is piped"), &mut word).expect("it says so");
    for _ in 0..5 {
        w.assert_alive("door");
    }
    w.whatif(["exec", "-d", "door", "--", "true"]).go().ok();
    assert_eq!(w.json(["ls"])[0]["status"], "active");
    w.snapshot("door", "meanwhile");
    w.whatif(["stop", "--grace", "100ms", "door"]).go().ok();
    let _ = knocking.kill();
    let _ = knocking.wait();
}

/// CG-08 (CVE-2022-0492 and older ones): through files, mounts, and what the keeper has open.
fn a_control_group_cannot_be_left_or_made(w: &World) {
    needs!(w, "python3");
    w.limited("locked", &["--memory", "256M", "--pids", "50"]);
    let program = format!(
        r#"
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
opened, made = [], []
for top in ("/sys/fs/cgroup", "/sys/fs", "/proc/self/root/sys/fs/cgroup"):
    for directory, names, files in os.walk(top):
        for name in files:
            try: os.close(os.open(os.path.join(directory, name), os.O_WRONLY)); opened.append(os.path.join(directory, name))
            except OSError: pass
        try: os.mkdir(os.path.join(directory, "made")); made.append(directory)
        except OSError: pass
def attempt(f):
    try: return f()
    except OSError as e: return errno.errorcode[e.errno]
def call(*arguments):
    r = libc.syscall(*arguments)
    return "worked" if r >= 0 else errno.errorcode[ctypes.get_errno()]
os.makedirs("/tmp/c", exist_ok=True)
mounts = [call({mount}, b"none", b"/tmp/c", kind, 0, option) for kind, option in ((b"cgroup", b"memory"), (b"cgroup", b"none,name=x"), (b"cgroup2", None))]
namespaces = [call({unshare}, 0x10000000 | 0x20000), call({unshare}, 0x02000000)]
fds = [attempt(lambda: os.listdir("/proc/1/fd") or "ENOENT"), attempt(lambda: os.open("/proc/1/fd/7", os.O_WRONLY)), call({getfd}, os.pidfd_open(1), 7, 0)]
print(json.dumps([opened, made, mounts, namespaces, fds]))
"#,
        mount = libc::SYS_mount,
        unshare = libc::SYS_unshare,
        getfd = libc::SYS_pidfd_getfd,
    );
    let result: Value = serde_json::from_str(&w.python("locked", &program).ok().stdout).expect("it prints JSON");
    assert_eq!((&result[0], &result[1]), (&serde_json::json!([]), &serde_json::json!([])), "{result}");
    for refused in result[2].as_array().into_iter().chain(result[3].as_array()).chain(result[4].as_array()).flatten() {
        assert!(["EPERM", "EACCES", "ENOSYS", "ENOENT"].iter().any(|e| refused == e), "{result}");
    }
    // And after all that the limit still holds.
    w.python("locked", "x = bytearray(1 << 30)\nimport time; time.sleep(60)").exits(137);
}

/// CG-08: the ways into a group are the keeper's, not its commands'.
fn limits_add_no_descriptor_to_a_command(w: &World) {
    needs!(w, "python3");
    w.limited("clean", &["--memory", "256M", "--pids", "50", "--cpus", "1", "--disk", "1G", "--ttl", "1h"]);
    let program = "import os\nopen_ones = []\nfor fd in range(0, 4096):\n  try: os.fstat(fd); open_ones.append(fd)\n  except OSError: pass\nprint(open_ones)";
    assert_eq!(w.python("clean", program).ok().text(), "[0, 1, 2]");
}

/// CG-09: a program whose first instruction is `fork`, and its second, and its third.
fn every_process_is_in_its_group_before_it_runs(w: &World) {
    needs!(w, "gcc");
    if cfg!(not(target_arch = "x86_64")) {
        skip("the program is written for x86-64");
        return;
    }
    w.write("first.c", "__asm__(\".globl _start\\n_start: mov $57, %eax\\nsyscall\\nmov $57, %eax\\nsyscall\\nmov $57, %eax\\nsyscall\\n1: mov $34, %eax\\nsyscall\\njmp 1b\\n\");\n");
    w.outside("gcc -nostdlib -static -o first first.c").ok();
    w.limited("grouped", &["--memory", "256M", "--pids", "100", "--cpus", "1"]);
    let prefix = w.prefix();
    let keeper = w.show("grouped")["keeper_pid"].as_i64().expect("it runs");
    let marker = w.project.join("first").display().to_string();
    for start in [vec!["exec", "-d", "grouped", "--"], vec!["exec", "--timeout", "100s", "grouped", "--"]] {
        let call = w.whatif(start).args([&marker]);
        let running = std::thread::spawn(move || call.go());
        let all = || -> Vec<i32> { w.own_process_ids().into_iter().filter(|pid| is_program(*pid, &marker)).collect() };
        eventually("all eight run", || all().len() == 8);
        for pid in all() {
            let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
            for controller in ["memory", "pids", "cpu"] {
                let line = groups.lines().find(|l| l.split(':').nth(1).is_some_and(|c| c.split(',').any(|c| c == controller)));
                let line = line.or_else(|| groups.lines().find(|l| l.starts_with("0::")));
                assert!(line.is_some_and(|l| l.contains(&prefix)), "process {pid} is elsewhere for {controller}:\n{groups}");
            }
        }
        w.exec("grouped", "kill -9 -1");
        running.join().expect("no panic");
        eventually("they are gone", || all().is_empty());
    }
    let groups = fs::read_to_string(format!("/proc/{keeper}/cgroup")).unwrap_or_default();
    assert!(!groups.contains(&prefix), "the keeper is not in it:\n{groups}");
}

fn is_program(pid: i32, program: &str) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.split(|b| *b == 0).next() == Some(program.as_bytes()))
}

/// Groups are made for a sandbox and go with it; and nobody collects those of another state directory.
fn groups_go_with_their_sandbox_and_belong_to_their_state_directory(w: &World) {
    let other = w.dir.join("other-state");
    w.mkdir(&other);
    w.limited("one", &["--memory", "256M"]);
    let whole = |w: &World| -> BTreeSet<String> { w.control_groups() };
    let own = whole(w);
    assert_eq!(own.is_empty(), w.show("one")["details"]["enforced"].to_string().contains("watcher"));
    w.whatif(["gc"]).env("WHATIF_HOME", &other).go().ok();
    w.whatif(["run", "--rm", "--memory", "128M", "--", "true"]).env("WHATIF_HOME", &other).go().ok();
    assert_eq!(whole(w), own, "another state directory's");
    w.whatif(["stop", "one"]).go().ok();
    eventually("it is gone with what was in it", || whole(w).is_empty());
    w.whatif(["start", "one"]).go().ok();
    assert_eq!(whole(w).len(), own.len(), "and comes again");
    assert!(w.kill_keeper("one"));
    w.whatif(["gc"]).go().ok();
    eventually("nobody was there to remove it, but the next one does", || whole(w).is_empty());
    w.whatif(["rm", "one"]).go().ok();
    // One that a crash left behind.
    let orphan = own.first().expect("there was one").clone();
    fs::create_dir(&orphan).expect("root makes groups");
    // As long as the sandbox is on its way out, it may be its own.
    eventually("what belongs to no sandbox is removed", || {
        w.whatif(["gc"]).go().ok();
        whole(w).is_empty()
    });
}

/// CG-10: parents between `vfork` and the end of their child wait in the kernel and cannot be stopped.
fn who_cannot_be_held_still_is_reported_and_goes_on(w: &World) {
    needs!(w, "gcc");
    w.write(
        "deep.c",
        "#include <unistd.h>\nint main(void) { if (vfork() == 0) { if (vfork() == 0) { if (vfork() == 0) { for (;;) pause(); } _exit(0); } _exit(0); } return 0; }\n",
    );
    w.outside("gcc -O0 -w -o deep deep.c").ok();
    w.new_sandbox("deep");
    w.exec("deep", "echo x > changed").ok();
    w.whatif(["exec", "-d", "deep", "--", "./deep"]).go().ok();
    eventually("all four are there", || w.show("deep")["pids"] == 4);
    let outcome = w.whatif(["snapshot", "deep", "label"]).go();
    if outcome.code == 0 {
        assert_eq!(w.labels("deep"), ["label"]);
    } else {
        outcome.exits(125).says("held still");
        assert!(w.labels("deep").is_empty());
    }
    let states = || w.json(["ps", "deep"])["processes"].to_string();
    eventually("nobody stays stopped", || !states().contains("\"state\":\"T\""));
    assert_eq!(w.show("deep")["pids"], 4);
    w.whatif(["stop", "--grace", "0s", "deep"]).go().ok();
}

/// A limit is for what runs inside, not for what makes the sandbox.
fn the_smallest_limits_still_run_something(w: &World) {
    let smallest = [
        vec!["--pids", "1"],
        vec!["--memory", "1M"],
        vec!["--disk", "1", "--inodes", "1"],
        vec!["--cpus", "0.01"],
        vec!["--idle", "1ms"],
        vec!["--memory", "1M", "--pids", "1", "--cpus", "0.1", "--disk", "1M", "--inodes", "1"],
    ];
    for limits in smallest {
        w.whatif(["run", "--rm", "--quiet"]).args(&limits).args(["--", "/bin/true"]).go().ok();
    }
    w.whatif(["run", "--in", "nobody", "--memory", "1G", "--", "true"]).go().exits(2);
}

/// One from the pool has no limits and no group.
fn a_sandbox_made_beforehand_is_not_taken_where_limits_are_wanted(w: &World) {
    needs!(w, "python3");
    w.configure("[pool]\nsize = 1\n");
    w.whatif(["pool", "fill"]).go().ok();
    let bomb = ["--", "/usr/bin/python3", "-c", "x = bytearray(200 << 20)\nimport time; time.sleep(60)"];
    w.whatif(["run", "--rm", "--memory", "32M"]).args(bomb).go().exits(137).says("32 MiB memory limit");
    w.configure("[pool]\nsize = 1\n[limits]\nmemory = \"32M\"\n");
    w.whatif(["run", "--rm"]).args(bomb).go().exits(137).says("32 MiB memory limit");
    assert_eq!(w.json(["pool", "fill"])["ready"], 0, "none is kept that nobody will take");
    w.whatif(["pool", "drain"]).go().ok();
    w.configure("");
}

/// Of one command, as JSON and in the list of what ended.
fn a_command_reports_what_it_used(w: &World) {
    needs!(w, "python3");
    w.limited("counted", &["--memory", "512M"]);
    let program = "import os, time\nx = bytearray(100 << 20)\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\nf = open('written', 'wb'); f.write(os.urandom(8 << 20)); f.flush(); os.fsync(f.fileno())";
    let document = w.python_json("counted", program);
    let usage = |key: &str| document["usage"][key].as_u64().unwrap_or_else(|| panic!("{document}"));
    assert!((250..5000).contains(&usage("cpu_ms")), "{document}");
    assert!((100 << 20..400 << 20).contains(&usage("peak_memory_bytes")), "{document}");
    assert!(usage("wall_ms") >= 250, "{document}");
    assert_eq!((&document["limit_hit"], &document["pids_refused"]), (&Value::Null, &false.into()), "{document}");
    let run = w.json(["run", "--rm", "--", "/bin/sh", "-c", "head -c 4000000 /dev/zero > f"]);
    assert!(run["usage"]["wall_ms"].is_u64() && run["usage"]["written_bytes"].is_u64(), "{run}");
    let ended = w.show("counted")["ended"].to_string();
    assert!(ended.contains("cpu_ms"), "{ended}");
    assert!(w.whatif(["ps", "--all", "counted"]).go().ok().stdout.contains("python3"), "it is listed after its end");
}

fn live_figures_are_shown(w: &World) {
    w.limited("watched", &["--memory", "256M", "--pids", "50", "--ttl", "1h"]);
    w.whatif(["exec", "-d", "watched", "--", "/bin/sh", "-c", "while :; do :; done"]).go().ok();
    eventually("it uses time", || w.json(["stats", "watched"])[0]["cpu_ms"].as_u64().is_some_and(|ms| ms > 0));
    let stats = w.json(["stats"]);
    assert_eq!((&stats[0]["name"], &stats[0]["processes"]), (&"watched".into(), &1.into()), "{stats}");
    assert_eq!(stats[0]["limits"]["memory"], 256 << 20, "{stats}");
    let mut following =
        w.whatif(["--json", "stats", "-f", "watched"]).streams(Stdio::null(), Stdio::piped(), Stdio::null()).spawn();
    let lines = std::io::BufReader::new(following.stdout.take().expect("it is piped"));
    let seen: Vec<String> = std::io::BufRead::lines(lines).take(2).filter_map(Result::ok).collect();
    let _ = following.kill();
    let _ = following.wait();
    assert!(seen.len() == 2 && seen.iter().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{seen:?}");
    w.whatif(["stats", "nobody"]).go().fails_with_hint(125);
}
