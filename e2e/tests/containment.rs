//! Containment on every backend: what lies behind the root, and what is masked where no layer can mask it.

use std::os::unix::net::UnixListener;
use std::time::Duration;

use whatif_e2e::{World, as_root, as_root_and_user, needs, wait_for};

as_root_and_user!(
    nothing_lies_behind_the_root,
    settings_are_shown_without_credentials,
    the_keeper_is_not_scheduled_from_inside,
    a_supervisor_does_not_take_orders_from_a_sandbox,
    a_keeper_does_not_take_orders_from_another_sandbox
);
as_root!(
    password_files_are_shown_without_hashes,
    the_server_of_files_has_no_more_rights_than_it_needs,
    the_sandboxes_of_others_are_not_shown
);

/// Those that work here.
fn backends(w: &World) -> Vec<&'static str> {
    if w.can_use_fuse() { vec!["overlay", "fuse", "copy"] } else { vec!["overlay", "copy"] }
}

/// NS-04, XF-03. Several ways to leave a root; afterwards nothing of reality is there, nor a socket that answers.
const LEAVE: &str = r#"
import errno, json, os, socket, sys
found = []
def look(way):
    for path in sys.argv[1:]:
        if os.path.lexists(path): found.append([way, path])
        s = socket.socket(socket.AF_UNIX)
        try: s.connect(path); found.append([way, path, "connected"])
        except OSError: pass
        s.close()
def attempt(way):
    child = os.fork()
    if child: return os.waitpid(child, 0)
    try: way()
    except PermissionError: pass
    look(way.__name__)
    print(json.dumps(found), flush=True)
    os._exit(0)
def by_descriptor():
    fd = os.open("/", os.O_RDONLY)
    os.chroot("/tmp/jail"); os.fchdir(fd)
    for _ in range(50): os.chdir("..")
    os.chroot(".")
def by_working_directory():
    os.chdir("/tmp")
    os.chroot("jail")
    os.chdir("../../../../../../..")
    os.chroot(".")
def by_root_of_the_first(): os.chdir("/proc/1/root"); os.chroot(".")
def by_root_of_others():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for link in ("root", "cwd"):
            try: os.chdir(f"/proc/{pid}/{link}")
            except OSError: continue
            for _ in range(50): os.chdir("..")
            look(f"{link} of {pid}")
    os.chroot("/tmp/jail")
    for _ in range(50): os.chdir("..")
    os.chroot(".")
os.makedirs("/tmp/jail", exist_ok=True)
for way in (by_descriptor, by_working_directory, by_root_of_the_first, by_root_of_others): attempt(way)
"#;

fn nothing_lies_behind_the_root(w: &World) {
    needs!(w, "python3");
    let service = format!("/run/whatif-e2e-behind-{}-{}.sock", std::process::id(), w.uid());
    let _listener = w.is_root().then(|| UnixListener::bind(&service).expect("root may listen in /run"));
    for backend in backends(w) {
        let other = format!("other-{backend}");
        for name in [backend, &other] {
            w.whatif(["new", name, "--backend", backend]).go().ok();
        }
        let state = w.state.join("sandboxes").display().to_string();
        let mut secret: Vec<String> = vec![service.clone(), state.clone()];
        for name in [backend, &other] {
            let directory = w.directory(name).display().to_string();
            secret.extend(w.outside(&format!("find {directory} -type s")).stdout.lines().map(str::to_owned));
        }
        let arguments = ["exec", backend, "--", "/usr/bin/python3", "-c", LEAVE];
        let outcome = w.whatif(arguments).args(&secret).go().ok();
        assert_eq!(outcome.stdout.lines().filter(|line| *line == "[]").count(), 4, "{backend}: {}", outcome.stdout);
        w.whatif(["rm", "--yes", backend, &other]).go().ok();
    }
    let _ = std::fs::remove_file(&service);
}

/// FS-02: for root, hashes are taken out of files that package managers need. In a mount namespace of the test's own, /etc has some.
fn password_files_are_shown_without_hashes(w: &World) {
    for backend in backends(w) {
        let script = format!(
            "set -e; mount -t tmpfs -o mode=755 none /mnt; cp -a /etc/. /mnt/; mount --move /mnt /etc
             for f in shadow gshadow; do echo 'somebody:$y$j9T$canary:19000:0:99999:7:::' >> /etc/$f; done
             \"$0\" run --rm -q --backend {backend} -- sh -c 'cat /etc/shadow /etc/gshadow; stat -c %a:%u /etc/shadow'"
        );
        let unshare = ["--mount", "--propagation", "private", "/bin/sh", "-c", &script];
        let outcome = w.program("/usr/bin/unshare").args(unshare).args([&w.bin]).go().ok();
        assert_eq!(outcome.stdout.matches("somebody:*:").count(), 2, "{backend}: {}", outcome.stdout);
        assert!(!outcome.stdout.contains("canary"), "{backend}: {}", outcome.stdout);
        assert!(outcome.stdout.ends_with("640:0\n"), "{backend}: {}", outcome.stdout);
    }
}

/// FS-02, FS-03: also where the home is shown read-only, and where the file is a link to one elsewhere.
fn settings_are_shown_without_credentials(w: &World) {
    w.write("../.npmrc", "registry=https://mirror.example/\n//mirror.example/:_authToken=canary\n");
    w.write("../dotfiles/gitconfig", "[user]\n\tname = Ann\n[url \"https://canary@example.com\"]\n\tinsteadOf = x\n");
    std::os::unix::fs::symlink("dotfiles/gitconfig", w.home.join(".gitconfig")).expect("the home is writable");
    for backend in backends(w) {
        let script = "cat ~/.npmrc ~/.gitconfig ~/dotfiles/gitconfig";
        let outcome = w.whatif(["run", "--rm", "-q", "--backend", backend, "--", "/bin/sh", "-c", script]).go().ok();
        assert!(outcome.stdout.contains("mirror.example") && outcome.stdout.contains("Ann"), "{backend}: {}", outcome.stdout);
        assert!(!outcome.stdout.contains("canary"), "{backend}: {}", outcome.stdout);
    }
}

/// PR-01: by its number, by its process group, and as one of its user's processes; and its files in /proc.
const RESCHEDULE: &str = r#"
import ctypes, os, json
libc = ctypes.CDLL(None, use_errno=True)
parameter = ctypes.byref(ctypes.c_int(0))
def call(*arguments): return libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]) == 0
attributes = ctypes.create_string_buffer((48).to_bytes(4, "little") + (3).to_bytes(4, "little"), 48)
done = {
    "affinity": call(203, 1, 8, ctypes.byref(ctypes.c_ulong(1))), "scheduler": call(144, 1, 3, parameter),
    "parameter": call(142, 1, parameter), "attributes": call(314, 1, attributes, 0),
    "nice": call(141, 0, 1, 5), "nice of the group": call(141, 1, 1, 5), "nice of the user": call(141, 2, os.getuid(), 5),
    "io": call(251, 1, 1, 3 << 13), "io of the user": call(251, 3, os.getuid(), 3 << 13),
}
for name in ("oom_score_adj", "autogroup", "coredump_filter"):
    try: open(f"/proc/1/{name}", "r+").close(); done[name] = True
    except OSError: pass
own = call(203, 0, 8, ctypes.byref(ctypes.c_ulong(1))) and call(141, 0, 0, 5)
print(json.dumps([[name for name, was in done.items() if was], own]))
"#;

fn the_keeper_is_not_scheduled_from_inside(w: &World) {
    needs!(w, "python3");
    for backend in backends(w) {
        let arguments = ["run", "--rm", "-q", "--backend", backend, "--", "/usr/bin/python3", "-c", RESCHEDULE];
        let outcome = w.whatif(arguments).go().ok();
        assert_eq!(outcome.json(), serde_json::json!([[], true]), "{backend}: its own processes can be, the keeper cannot");
    }
}

/// XF-03: it reads what processes of the sandbox send it.
fn the_server_of_files_has_no_more_rights_than_it_needs(w: &World) {
    if !backends(w).contains(&"fuse") {
        return whatif_e2e::skip("fuse-overlayfs or /dev/fuse is missing");
    }
    w.whatif(["new", "served", "--backend", "fuse"]).go().ok();
    let script =
        "for p in /proc/[0-9]*; do grep -q fuse-overlayfs $p/comm && grep -E '^(CapBnd|NoNewPrivs|Seccomp):' $p/status; done";
    let found = w.exec("served", script).stdout.replace('\t', " ");
    assert_eq!(found, "CapBnd: 000000008820001f\nNoNewPrivs: 1\nSeccomp: 2\n");
}

/// FS-15: what root can read of other users is more than their files.
fn the_sandboxes_of_others_are_not_shown(w: &World) {
    let theirs = w.write("../.local/state/whatif/sandboxes/x/head/file", "canary");
    for backend in backends(w) {
        let outcome = w.whatif(["run", "--rm", "-q", "--backend", backend, "--", "cat"]).args([&theirs]).go();
        assert!(outcome.code != 0 && !outcome.stdout.contains("canary"), "{backend}: {outcome:?}");
    }
}

/// XF-04: the same user, but in the process namespace of a sandbox, with a way to the socket.
fn a_supervisor_does_not_take_orders_from_a_sandbox(w: &World) {
    needs!(w, "python3", "nsenter");
    w.whatif(["new", "ruled", "--net", "registries"]).go().ok();
    let marker = w.dir.join("command").display().to_string();
    w.whatif(["exec", "-d", "ruled", "--", "/bin/sh", "-c", "sleep 1000; true", &marker]).go().ok();
    let pid = || w.processes().iter().find(|p| p.contains(&marker)).and_then(|p| p.split(' ').next().map(str::to_owned));
    let target = wait_for(Duration::from_secs(60), pid).expect("it runs");
    let directory = w.directory("ruled").display().to_string();
    let sockets = w.outside(&format!("find {directory}/network -type s")).stdout;
    let socket = sockets.lines().next().expect("its supervisor listens");
    let ask = format!(
        "import os, socket\nos.chdir(os.path.dirname('{socket}'))\ns = socket.socket(socket.AF_UNIX)\ns.settimeout(60)\n\
         try:\n  s.connect(os.path.basename('{socket}')); s.sendall(b'{{\"op\":\"status\"}}\\n'); print(len(s.recv(9)))\n\
         except OSError: print(0)"
    );
    let user: &[&str] = if w.is_root() { &[] } else { &["--user", "--preserve-credentials"] };
    let inside = ["--target", &target, "--pid", "--", "/usr/bin/python3", "-c", &ask];
    assert_eq!(w.program("/usr/bin/python3").args(["-c", &ask]).go().ok().text(), "9", "from outside it answers");
    assert_eq!(w.program("/usr/bin/nsenter").args(user).args(inside).go().ok().text(), "0", "and not from within");
}

/// XF-04: connects to the socket that a descriptor leads to, and asks what runs.
const ASK_KEEPER: &str = r#"
import os, socket, struct, sys
if sys.argv[1] == "passed": held = socket.recv_fds(socket.socket(fileno=0), 1, 1)[1][0]
else: held = os.open(sys.argv[1], os.O_PATH)
s = socket.socket(socket.AF_UNIX)
s.settimeout(60)
try:
    s.connect(f"/proc/self/fd/{held}")
    s.sendall(struct.pack("<I", 6) + b'"list"')
    reply = s.recv(999)
    print("answered" if reply and b"refused" not in reply else "refused")
except OSError as error: print("refused" if isinstance(error, (BrokenPipeError, ConnectionError)) else error)
"#;

/// Runs a command whose standard input is a socket, through which it gets a descriptor of what the first argument names.
const PASS: &str = r#"
import os, socket, subprocess, sys
ours, theirs = socket.socketpair()
child = subprocess.Popen(sys.argv[2:], stdin=theirs)
socket.send_fds(ours, [b"x"], [os.open(sys.argv[1], os.O_PATH)])
sys.exit(child.wait())
"#;

/// XF-04: the same user, in another sandbox, with a way to the socket.
fn a_keeper_does_not_take_orders_from_another_sandbox(w: &World) {
    needs!(w, "python3");
    w.new_sandbox("attacked");
    let socket = w.directory("attacked").join("keeper.sock").display().to_string();
    // Root's sandboxes have ids of their own, and the mode of the socket keeps them out. Here it does not.
    w.outside(&format!("chmod 666 {socket}")).ok();
    assert_eq!(w.program("/usr/bin/python3").args(["-c", ASK_KEEPER, &socket]).go().ok().text(), "answered", "from outside");
    for backend in backends(w) {
        let program = w.bin.display().to_string();
        let hostile = ["run", "--rm", "-q", "--backend", backend, "--", "/usr/bin/python3", "-c", ASK_KEEPER, "passed"];
        let outcome = w.program("/usr/bin/python3").args(["-c", PASS, &socket, &program]).args(hostile).go().ok();
        assert_eq!(outcome.text(), "refused", "{backend}");
    }
    w.assert_alive("attacked");
}
