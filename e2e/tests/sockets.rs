//! Attack group US: sockets of the host and its desktop, and socket families. And what else of a visible directory could be used to
//! talk to programs of the host, or to stop them: pipes and locks.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::{CWD, FileType, Mode};
use whatif_e2e::{World, as_root, as_root_and_user, needs, on_other_backends};

as_root_and_user!(
    run_and_tmp_are_private,
    a_socket_in_a_visible_tree_cannot_be_reached_by_abstract_name,
    handles_to_services_are_not_in_the_environment,
    unusual_socket_families_are_refused,
    everyday_sockets_work,
    the_control_socket_is_out_of_reach,
    pipes_and_sockets_in_visible_directories_are_not_those_of_the_host,
    locks_inside_stop_nobody_outside,
);
on_other_backends!(
    handles_to_services_are_not_in_the_environment,
    unusual_socket_families_are_refused,
    the_control_socket_is_out_of_reach,
    pipes_and_sockets_in_visible_directories_are_not_those_of_the_host,
    locks_inside_stop_nobody_outside,
);
as_root!(a_host_service_in_run_is_absent);

/// US-01 and US-04: nothing of the host's `/run`, `/var/run`, `/tmp`.
fn run_and_tmp_are_private(w: &World) {
    let host_tmp = std::env::temp_dir().join(format!("whatif-e2e-marker-{}-{}", std::process::id(), w.uid()));
    std::fs::write(&host_tmp, "x").expect("/tmp is writable");
    let script = format!(
        "ls -A {tmp} /tmp/.X11-unix /run/dbus /run/docker.sock /var/run/docker.sock /run/user/*/bus /run/systemd/private 2>/dev/null; \
         find /run /tmp /var/run/ -type s 2>/dev/null; echo a > /tmp/made && echo b > /dev/shm/made; echo end",
        tmp = host_tmp.display()
    );
    let outcome = w.inside(&script).ok();
    std::fs::remove_file(&host_tmp).expect("it is still there");
    assert_eq!(outcome.text(), "end");
    assert!(!std::path::Path::new("/tmp/made").exists() && !std::path::Path::new("/dev/shm/made").exists());
}

/// US-01, with a real listener.
fn a_host_service_in_run_is_absent(w: &World) {
    needs!(w, "python3");
    let path = format!("/run/whatif-e2e-{}.sock", std::process::id());
    let _listener = UnixListener::bind(&path).expect("root may listen in /run");
    let result = w.python_inside(&connect(&path));
    std::fs::remove_file(&path).expect("it is ours");
    assert_eq!(result, "ENOENT");
}

/// US-04: abstract names belong to the network namespace.
fn a_socket_in_a_visible_tree_cannot_be_reached_by_abstract_name(w: &World) {
    needs!(w, "python3");
    use std::os::linux::net::SocketAddrExt;
    let name = format!("whatif-e2e-{}-{}", std::process::id(), w.uid());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).expect("a short name");
    let _listener = UnixListener::bind_addr(&address).expect("nobody else has it");
    for net in ["none", "host"] {
        let program = connect(&format!("\\0{name}"));
        let outcome = w.whatif(["run", "--rm", "--quiet", "--net", net, "--", "/usr/bin/python3", "-c", &program]).go().ok();
        let result = outcome.json();
        assert!(result == "ECONNREFUSED" || result == "EPERM", "with --net {net}: {result}");
    }
}

fn connect(address: &str) -> String {
    format!(
        "import socket, errno, json\ns = socket.socket(socket.AF_UNIX)\ntry: s.connect('{address}'); print(json.dumps('connected'))\n\
         except OSError as e: print(json.dumps(errno.errorcode[e.errno]))"
    )
}

/// US-03, US-05.
fn handles_to_services_are_not_in_the_environment(w: &World) {
    let names = [
        "SSH_AUTH_SOCK",
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XAUTHORITY",
        "VSCODE_IPC_HOOK_CLI",
        "GIT_ASKPASS",
        "KRB5CCNAME",
        "TMUX",
        "GPG_AGENT_INFO",
        "DOCKER_HOST",
    ];
    let call =
        names.iter().fold(w.whatif(["run", "--rm", "--quiet", "--", "/usr/bin/env"]), |call, name| call.env(name, "/run/canary"));
    let outcome = call.env("ORDINARY", "carried").go().ok();
    assert!(outcome.stdout.contains("ORDINARY=carried"));
    assert!(!outcome.stdout.contains("/run/canary"), "{}", outcome.stdout);
}

/// US-08, KS-06: everything but unix, IPv4, IPv6 and the routing kind of netlink.
fn unusual_socket_families_are_refused(w: &World) {
    needs!(w, "python3");
    let program = r#"
import socket, errno, json
out = {}
for family in range(0, 50):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        for protocol in ((0, 2, 9, 12, 15, 16) if family == 16 else (0,)):
            try:
                socket.socket(family, kind, protocol).close()
                out.setdefault("opened", []).append([family, kind, protocol])
            except OSError as e: out[f"{family}/{kind}/{protocol}"] = errno.errorcode.get(e.errno, e.errno)
print(json.dumps(out))
"#;
    let results = w.python_inside(program);
    for opened in results["opened"].as_array().expect("ordinary sockets open") {
        let (family, kind, protocol) = (opened[0].as_i64(), opened[1].as_i64(), opened[2].as_i64());
        let ordinary = [Some(1), Some(2), Some(10)].contains(&family);
        let route = family == Some(16) && protocol == Some(0);
        assert!(ordinary || route, "family {family:?} kind {kind:?} protocol {protocol:?} opened");
        assert!(kind != Some(3) || !matches!(family, Some(2 | 10)), "a raw socket opened: {opened}");
    }
}

fn everyday_sockets_work(w: &World) {
    needs!(w, "python3");
    let program = r#"
import socket, json
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
client = socket.create_connection(server.getsockname()); peer, _ = server.accept()
client.sendall(b"hello"); client.close()
text = peer.recv(10).decode()
six = socket.socket(socket.AF_INET6); six.bind(("::1", 0))
a, b = socket.socketpair(); a.sendall(b"!")
named = socket.socket(socket.AF_UNIX); named.bind("/tmp/named"); named.listen()
print(json.dumps(text + b.recv(1).decode()))
"#;
    assert_eq!(w.python_inside(program), "hello!");
}

/// US-07, and the promise that nothing inside reaches the keeper's socket.
fn the_control_socket_is_out_of_reach(w: &World) {
    let name = w.new_sandbox("control");
    let directory = w.json(["show", &name])["directory"].as_str().expect("it has one").to_owned();
    let sockets = w.outside(&format!("find {directory} -type s 2>/dev/null")).stdout;
    assert!(!sockets.trim().is_empty(), "the keeper listens somewhere in {directory}");
    let script = format!(
        "ls {} 2>/dev/null; find / -xdev -type s 2>/dev/null | grep {}; echo end",
        sockets.trim().replace('\n', " "),
        w.state.display()
    );
    assert_eq!(w.exec(&name, &script).ok().text(), "end");
}

/// Directories that a sandbox sees: of the user's, and of root's where that can be made.
struct Visible(Vec<PathBuf>);

impl Visible {
    fn make(w: &World) -> Self {
        let mut places = vec![w.project.join("shared"), w.home.join("shared"), w.dir.join("shared")];
        if rustix::process::geteuid().is_root() {
            places.push(PathBuf::from(format!(
                "/opt/whatif-e2e-{}-{}",
                std::process::id(),
                w.dir.file_name().expect("a name").display()
            )));
        }
        for place in &places {
            DirBuilder::new().mode(0o755).create(place).expect("it is new");
        }
        Self(places)
    }

    /// For a program inside or outside.
    fn list(&self) -> String {
        serde_json::to_string(&self.0).expect("a list of paths")
    }
}

impl Drop for Visible {
    fn drop(&mut self) {
        for place in &self.0 {
            let _ = fs::remove_dir_all(place);
        }
    }
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o666)).expect("it is ours");
}

/// A pipe with something in it that is meant for a program of the host.
fn pipe(path: &Path) -> File {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).expect("a pipe can be made");
    open_to_all(path);
    let mut pipe = File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path).expect("it opens");
    pipe.write_all(b"for the host").expect("there is room in a pipe");
    pipe
}

fn listener(path: &Path) -> UnixListener {
    let listener = UnixListener::bind(path).expect("the name is free");
    listener.set_nonblocking(true).expect("it is a socket");
    open_to_all(path);
    listener
}

/// US-01: a mount that cannot be written does not stop anybody from writing to a pipe in it, or from connecting to a socket.
fn pipes_and_sockets_in_visible_directories_are_not_those_of_the_host(w: &World) {
    needs!(w, "python3");
    let visible = Visible::make(w);
    let hosts: Vec<_> = visible.0.iter().map(|place| (place, pipe(&place.join("pipe")), listener(&place.join("socket")))).collect();
    let program = format!(
        r#"
import os, socket
for place in {places}:
    for how in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        try: pipe = os.open(place + "/pipe", how | os.O_NONBLOCK)
        except OSError: continue
        for use in (lambda: os.read(pipe, 100), lambda: os.write(pipe, b"from inside")):
            try: use()
            except OSError: pass
    try: socket.socket(socket.AF_UNIX).connect(place + "/socket")
    except OSError: pass
print('"tried"')
"#,
        places = visible.list()
    );
    assert_eq!(w.python_inside(&program), "tried");
    for (place, mut pipe, listener) in hosts {
        let mut content = [0; 100];
        let length = pipe.read(&mut content).unwrap_or(0);
        assert_eq!(String::from_utf8_lossy(&content[..length]), "for the host", "in the pipe in {}", place.display());
        assert_eq!(listener.accept().err().map(|e| e.kind()), Some(ErrorKind::WouldBlock), "at the socket in {}", place.display());
    }
}

/// With a list of directories: takes each kind of lock that a file can have for reading, and holds it until its input ends.
const HOLD: &str = r#"
import fcntl, json, os, struct, sys
everything = struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0)
for place in json.loads(sys.argv[1]):
    file = os.open(place + "/file", os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_EX)
    for command in (fcntl.F_SETLK, fcntl.F_OFD_SETLK): fcntl.fcntl(file, command, everything)
print("held", flush=True)
sys.stdin.read()
"#;

/// Says which locks for writing cannot be had, one after the other.
const TRY: &str = r#"
import fcntl, json, os, struct, sys
everything = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
refused = []
for place in json.loads(sys.argv[1]):
    for kind in ("flock", "F_SETLK", "F_OFD_SETLK"):
        file = os.open(place + "/file", os.O_RDWR)
        try:
            if kind == "flock": fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            else: fcntl.fcntl(file, getattr(fcntl, kind), everything)
        except OSError as error: refused.append([place, kind, str(error)])
        os.close(file)
print(json.dumps(refused))
"#;

/// A program of the host that waits for a lock, as every database does, must not wait for a sandbox.
fn locks_inside_stop_nobody_outside(w: &World) {
    needs!(w, "python3");
    let visible = Visible::make(w);
    for place in &visible.0 {
        fs::write(place.join("file"), "x").expect("the directory is ours");
        open_to_all(&place.join("file"));
    }
    w.new_sandbox("holder");
    let call = w.whatif(["exec", "-i", "holder", "--", "/usr/bin/python3", "-c", HOLD, &visible.list()]);
    let mut holder = call.streams(Stdio::piped(), Stdio::piped(), Stdio::inherit()).spawn();
    let mut said = String::new();
    BufReader::new(holder.stdout.take().expect("it is a pipe")).read_line(&mut said).expect("it says something");
    let refused = w.program("/usr/bin/python3").args(["-c", TRY, &visible.list()]).go().ok().json();
    drop(holder.stdin.take());
    assert!(holder.wait().expect("it is our child").success());
    assert_eq!((said.trim(), refused), ("held", serde_json::json!([])));
}
