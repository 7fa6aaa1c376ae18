//! Attack group US: sockets of the host and its desktop, and socket families.

use std::os::unix::net::UnixListener;

use whatif_e2e::{World, as_root, as_root_and_user, needs, on_other_backends};

as_root_and_user!(
    run_and_tmp_are_private,
    a_socket_in_a_visible_tree_cannot_be_reached_by_abstract_name,
    handles_to_services_are_not_in_the_environment,
    unusual_socket_families_are_refused,
    everyday_sockets_work,
    the_control_socket_is_out_of_reach,
);
on_other_backends!(
    handles_to_services_are_not_in_the_environment,
    unusual_socket_families_are_refused,
    the_control_socket_is_out_of_reach,
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
