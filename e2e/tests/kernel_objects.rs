//! Attack group CG: things that the kernel counts per user, used up inside, are there outside.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use whatif_e2e::{World, as_root, as_root_and_user, as_user, needs, not_on};

as_root_and_user!(what_a_sandbox_uses_up_is_left_to_others, commands_reach_sandboxes_whatever_is_in_flight);
as_user!(a_sandbox_has_enough_for_real_tools);
as_root!(
    running_sandboxes_have_ids_of_their_own,
    a_sandbox_whose_ids_were_taken_is_known_by_its_new_ones,
    owners_stay_true_whatever_ids_a_sandbox_has,
);

/// Takes as many of each as it is given, and says how many that was and why there are no more.
const TAKE: &str = r#"
import array, ctypes, errno, json, os, resource, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
held = []
def instances():
    if libc.inotify_init1(0) < 0: raise OSError(ctypes.get_errno(), "")
    return 1
def timers():
    timer = ctypes.c_void_p()
    if libc.timer_create(1, None, ctypes.byref(timer)) < 0: raise OSError(ctypes.get_errno(), "")
    return 1
def in_flight():
    null = os.open("/dev/null", 0)
    while True:
        if not held: held.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
        to = held[-1][0]
        to.setblocking(False)
        try:
            to.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null] * 100))])
            os.close(null)
            return 100
        except BlockingIOError:
            held.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
listener, connections, page = socket.socket(), [], bytes(16384)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
listener.bind(("127.0.0.1", 0))
listener.listen(4096)
def pinned():
    SO_ZEROCOPY, MSG_ZEROCOPY = 60, 0x4000000
    while True:
        try:
            if connections:
                connections[-1].send(page, MSG_ZEROCOPY | socket.MSG_DONTWAIT)
                return 1
        except BlockingIOError: pass
        connections.append(socket.create_connection(listener.getsockname()))
        connections[-1].setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
def locked():
    IPC_RMID, SHM_LOCK = 0, 11
    segment = libc.shmget(0, 16384, 0o1600)
    if segment < 0 or libc.shmctl(segment, SHM_LOCK, None) < 0: raise OSError(ctypes.get_errno(), "")
    if most < 1000: libc.shmctl(segment, IPC_RMID, None)
    return 1
def take(one, most):
    taken = 0
    try:
        while taken < most: taken += one()
        return [taken, None]
    except OSError as error: return [taken, errno.errorcode[error.errno]]
most = int(sys.argv[1])
if most > 1000:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
kinds = [timers, pinned, locked, in_flight, instances]
print(json.dumps({kind.__name__: take(kind, most) for kind in kinds}), flush=True)
if most > 1000: signal.pause()
"#;

/// Open files, and memory that is locked or pinned.
const USUAL: &str = "ulimit -Sn 1024; ulimit -Sl 1024";

/// A command in the sandbox that holds all it could get until it is dropped; and what that was.
struct Hog(Child, Value, #[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

/// What one of them has the others of the same user do not get.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

impl Hog {
    fn start(w: &World, sandbox: &str) -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        w.write("take.py", TAKE);
        let bin = w.bin.display();
        w.outside(&format!("{USUAL}; {bin} new {sandbox}")).ok();
        let script = format!("{USUAL}; exec {bin} exec {sandbox} -- python3 take.py 1000000");
        let call = w.program("/bin/sh").args(["-c", &script]).cwd(&w.project);
        let mut child = call.streams(Stdio::null(), Stdio::piped(), Stdio::null()).spawn();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("it is piped")).read_line(&mut line).expect("it says what it took");
        Self(child, serde_json::from_str(&line).expect("what it took"), turn)
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        // Whoever leaves takes the command along.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn what_a_sandbox_uses_up_is_left_to_others(w: &World) {
    needs!(w, "python3");
    let hog = Hog::start(w, "hog");
    let outside = w.outside(&format!("{USUAL}; python3 take.py 5")).ok().json();
    let all =
        json!({ "timers": [5, null], "pinned": [5, null], "locked": [5, null], "in_flight": [100, null], "instances": [5, null] });
    assert_eq!(outside, all, "while inside there were {}", hog.1);
    let other = w.inside("python3 take.py 5").ok().json();
    // Those of an ordinary user have the same uid, for which descriptors in flight and pinned pages are counted.
    let kinds = if w.is_root() { &["timers", "instances", "in_flight", "pinned", "locked"][..] } else { &["timers", "instances"] };
    for kind in kinds {
        assert_eq!(other[kind], all[kind], "{kind} of another sandbox, while there were {}", hog.1);
    }
}

/// Those who attend to a sandbox pass descriptors, as the same user.
fn commands_reach_sandboxes_whatever_is_in_flight(w: &World) {
    needs!(w, "python3");
    let _hog = Hog::start(w, "hog");
    let bin = w.bin.display();
    w.new_sandbox("other");
    // What is in flight of root's is counted for that sandbox alone, its keeper included: it can shut out itself.
    let own = if w.is_root() { None } else { Some("exec hog -- echo reached") };
    for command in own.into_iter().chain(["exec other -- echo reached", "run --rm --quiet -- echo reached"]) {
        let outcome = w.outside(&format!("ulimit -Sn 256; timeout 20 {bin} {command}")).ok();
        assert_eq!(outcome.text(), "reached", "{command}");
    }
}

fn a_sandbox_has_enough_for_real_tools(w: &World) {
    needs!(w, "python3");
    let hog = Hog::start(w, "hog");
    for (kind, least) in [("timers", 1000), ("instances", 16), ("in_flight", 700), ("locked", 16)] {
        assert!(hog.1[kind][0].as_u64() >= Some(least), "{kind}: {}", hog.1);
    }
    let script = format!("ulimit -Sn 4096; exec {} exec hog -- sh -c 'ulimit -Hn'", w.bin.display());
    assert_eq!(w.outside(&script).ok().text(), "3072", "the caller's soft limit, but for a quarter");
}

fn running_sandboxes_have_ids_of_their_own(w: &World) {
    not_on!(w, "fuse", "root inside is root outside");
    const OWN: u32 = 4096;
    let names = ["one", "two", "three"];
    let mut uids = names.map(|name| {
        w.new_sandbox(name);
        uid_of_keeper(w, name)
    });
    uids.sort_unstable();
    assert!(uids.windows(2).all(|pair| pair[1] - pair[0] >= OWN), "{uids:?}");
    assert_eq!(w.json(["show", "one"])["details"]["identity"]["kind"], "mapped");
}

/// As another sandbox may take them while it rests. Its supervisor's id and the owner of its pipes follow from those it has now.
fn a_sandbox_whose_ids_were_taken_is_known_by_its_new_ones(w: &World) {
    not_on!(w, "fuse", "root inside is root outside");
    needs!(w, "python3");
    let base = |w: &World| w.show("s")["details"]["identity"]["base"].as_u64().expect("it is mapped");
    w.new_sandbox("s");
    let first = base(w);
    w.whatif(["stop", "s"]).go().ok();
    let program = format!(
        "import fcntl, subprocess; n = ({first} - 0x7F000000) // 4096; ids = open(f'/run/whatif/ids-{{n // 16}}', 'r+b'); \
         fcntl.lockf(ids, fcntl.LOCK_EX, 1, n % 16); \
         subprocess.run(['{}', 'start', 's'], check=True)",
        w.bin.display()
    );
    w.program("/usr/bin/python3").args(["-c", &program]).cwd(&w.project).go().ok();
    assert_ne!(base(w), first);
    assert_eq!(base(w), u64::from(uid_of_keeper(w, "s")));
}

fn uid_of_keeper(w: &World, name: &str) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", w.keeper_pid(name))).expect("it runs");
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")).and_then(|ids| ids.split_whitespace().next());
    uid.and_then(|uid| uid.parse().ok()).expect("a number")
}

/// Of ids that are the sandbox's own outside, and of others.
fn owners_stay_true_whatever_ids_a_sandbox_has(w: &World) {
    w.sandbox_with("s", "for id in 33 4095 4096 70000; do touch $id; chown $id:$id $id; done");
    for name in ["stop", "start"] {
        w.whatif([name, "s"]).go().ok();
    }
    assert_eq!(w.exec("s", "stat -c %u:%g 33 4095 4096 70000").ok().stdout, "33:33\n4095:4095\n4096:4096\n70000:70000\n");
    w.whatif(["apply", "s", "--yes"]).go().ok();
    for id in [33, 4095, 4096, 70000] {
        assert_eq!(w.project.join(id.to_string()).metadata().map(|m| (m.uid(), m.gid())).expect("it is there"), (id, id));
    }
}
