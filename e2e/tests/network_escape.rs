//! Attack group NW: ways around the policy.

use whatif_e2e::outside::{Answer, DOCUMENTED, METADATA, Outside, PRELUDE, PRIVATE, PUBLIC, PUBLIC_V6};
use whatif_e2e::{World, needs, outside_as_root_and_user, outside_on_other_backends};

outside_as_root_and_user!(
    no_kind_of_packet_gets_out,
    an_allowed_name_opens_no_other_way,
    proxy_variables_change_nothing,
    the_shell_has_no_way_of_its_own,
    the_filter_cannot_be_changed_from_inside,
    a_namespace_of_its_own_leads_nowhere,
    sandboxes_do_not_reach_each_other,
    services_of_the_host_are_out_of_reach,
    a_relay_inside_gains_nothing,
    loopback_inside_is_its_own,
    no_descriptor_of_the_network_leaks_in,
    the_users_own_proxy_is_used_and_its_password_kept,
);
outside_on_other_backends!(
    no_kind_of_packet_gets_out,
    the_filter_cannot_be_changed_from_inside,
    sandboxes_do_not_reach_each_other,
    services_of_the_host_are_out_of_reach,
    no_descriptor_of_the_network_leaks_in,
);

/// Tries everything at once, then says what was possible.
const EVERYTHING: &str = r#"
out = []
def attempt(label, body):
    try: body(); out.append(label)
    except (OSError, ValueError): pass
def sending(kind, protocol, target, port):
    family = socket.AF_INET6 if ':' in target else socket.AF_INET
    def body():
        with socket.socket(family, kind, protocol) as s:
            s.settimeout(0.3)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            s.sendto(b'canary-packet', (target, port))
            out.append(f'{label(kind, protocol)} answered by {target}: {s.recv(100)[:20]}')
    return body
def label(kind, protocol): return f'{kind.name}/{protocol}'
targets = ['25.64.113.5', '25.64.113.6', '203.0.113.5', '169.254.169.254', '10.1.2.3', '192.168.7.7', '1.1.1.1', '224.0.0.1',
           '224.0.0.251', '255.255.255.255', '10.255.255.255', '2d00::5', '2001:db8::5', 'fd00:ec2::254', 'ff02::1', 'ff02::fb']
for t in targets:
    six = ':' in t
    for port in (443, 5353, 123, 9999): attempt(f'udp {t} {port}', sending(socket.SOCK_DGRAM, 17, t, port))
    attempt(f'udplite {t}', sending(socket.SOCK_DGRAM, 136, t, 9999))
    attempt(f'icmp {t}', sending(socket.SOCK_DGRAM, 58 if six else 1, t, 0))
    for protocol in (1, 2, 17, 47, 58, 132, 255): attempt(f'raw {protocol} {t}', sending(socket.SOCK_RAW, protocol, t, 0))
    def fast(kind=socket.SOCK_STREAM, protocol=0):
        with socket.socket(socket.AF_INET6 if six else socket.AF_INET, kind, protocol) as s:
            s.settimeout(3)
            s.sendto(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n', getattr(socket, 'MSG_FASTOPEN', 0x20000000), (t, 9999))
            read = s.recv(1000)
            if b'HELLO' in read: out.append(f'fast open {t}')
    try: fast()
    except OSError: pass
    for kind, protocol in ((socket.SOCK_STREAM, 132), (socket.SOCK_SEQPACKET, 132), (6, 33), (socket.SOCK_STREAM, 262)):
        try: fast(kind, protocol)
        except OSError: pass
    for port in (22, 25, 80, 443, 9418, 9999):
        if 'HELLO' in hello(t, port, seconds=3)['got']: out.append(f'tcp {t} {port}')
try: socket.socket(17, socket.SOCK_RAW, 0x300); out.append('packet socket')
except OSError: pass
show([o for o in out if 'answered' in o or o.startswith(('tcp', 'fast', 'raw', 'packet'))])
"#;

/// NW-01, with rules that allow nothing that is tried, and with none at all.
fn no_kind_of_packet_gets_out(w: &World, o: &Outside) {
    let udp = [(PUBLIC, 443), (PUBLIC, 9999), (PRIVATE, 9999), (PUBLIC_V6, 9999)].map(|(a, p)| o.udp(a, p));
    let tcp = [(PUBLIC, 80), (PUBLIC, 22), (PRIVATE, 9999), (PUBLIC_V6, 9999), (METADATA, 80)].map(|(a, p)| o.http(a, p));
    for flags in [["--net", "none"], ["--net", "allow=shop.test"]] {
        let possible = o.nothing_leaves("attempts of all kinds", || o.try_inside(w, &flags, EVERYTHING));
        assert_eq!(possible, serde_json::json!([]), "with {flags:?}");
    }
    assert!(udp.iter().chain(&tcp).all(|server| server.connections() == 0));
}

/// NW-01, NW-02: while there is a way out, nothing else takes it.
fn an_allowed_name_opens_no_other_way(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.http(PUBLIC, 80);
    let (quic, ssh, git) = (o.udp(PUBLIC, 443), o.echo(PUBLIC, 22), o.echo(PUBLIC, 9418));
    let program = format!(
        r#"
first = hello('shop.test', 80)
address = socket.gethostbyname('shop.test')
quic = []
for target in ('{PUBLIC}', address):
    try:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.5)
        s.sendto(b'canary', (target, 443)); quic.append(s.recv(100).decode())
    except OSError: pass
others = [talk(host, port, b'canary\n', until=b'canary') for host in ('shop.test', '{PUBLIC}', address) for port in (22, 9418)]
show([first, quic, [o['got'] for o in others]])
"#
    );
    let result = o.try_inside(w, &["--net", "allow=shop.test:80"], &program);
    assert!(Answer(result[0].clone()).is_hello(), "{result}");
    assert_eq!(result[1], serde_json::json!([]));
    assert_eq!(result[2], serde_json::json!(vec![""; 6]));
    assert_eq!([quic.connections(), ssh.connections(), git.connections()], [0, 0, 0]);
}

/// NW-02: they are a hint for programs, not what enforces anything.
fn proxy_variables_change_nothing(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.name("evil.test", &[PUBLIC]);
    let server = o.http(PUBLIC, 80);
    let program = format!("{PRELUDE}\nshow([hello('shop.test', 80), hello('evil.test', 80), hello('{PUBLIC}', 80)])");
    let ways: [&[&str]; 3] = [
        &["/usr/bin/env", "-i"],
        &["/usr/bin/env", "NO_PROXY=*", "no_proxy=*"],
        &["/usr/bin/env", "HTTP_PROXY=http://127.0.0.1:1", "http_proxy=http://127.0.0.1:1"],
    ];
    for way in ways {
        let flags = ["run", "--rm", "-q", "--net", "allow=shop.test", "--"];
        let answers = w.whatif(flags).args(way).args(["/usr/bin/python3", "-c", &program]).go().ok().json();
        let hellos: Vec<bool> = answers.as_array().expect("a list").iter().map(|a| Answer(a.clone()).is_hello()).collect();
        assert_eq!(hellos, [true, false, false], "{way:?}");
    }
    assert_eq!(server.connections(), 3);
}

/// NW-01: what a shell and everyday tools can do.
fn the_shell_has_no_way_of_its_own(w: &World, o: &Outside) {
    needs!(w, "bash");
    let server = o.http(DOCUMENTED, 80);
    let script = format!(
        "for p in tcp udp; do timeout 1 /bin/bash -c 'exec 3<>/dev/'$p'/{DOCUMENTED}/80 && echo GET / >&3 && head -c 5 <&3'; done; \
         timeout 3 curl -s http://{DOCUMENTED}/ | grep HELLO; timeout 3 wget -qO- http://{DOCUMENTED}/ | grep HELLO; \
         timeout 1 ping -c1 -W1 {DOCUMENTED} | grep from; timeout 3 getent hosts evil.test | grep '{DOCUMENTED}'; echo end"
    );
    let call = w.whatif(["run", "--rm", "-q", "--net", "allow=shop.test", "--", "/bin/sh", "-c", &script]);
    let outcome = o.nothing_leaves("a shell", || call.go()).ok();
    assert_eq!(outcome.text(), "end");
    assert_eq!(server.connections(), 0);
}

/// Nobody inside may touch routes, addresses, the packet filter or the namespace itself.
fn the_filter_cannot_be_changed_from_inside(w: &World, o: &Outside) {
    let server = o.http(PUBLIC, 80);
    let program = format!(
        r#"
import ctypes, struct, subprocess
out = []
def attempt(label, body):
    try: body(); out.append(label)
    except (OSError, PermissionError, subprocess.SubprocessError): pass
libc = ctypes.CDLL(None, use_errno=True)
def setns(path):
    fd = os.open(path, os.O_RDONLY)
    if libc.setns(fd, 0x40000000): raise OSError(ctypes.get_errno(), 'setns')
    if 'HELLO' in hello('{PUBLIC}', 80, seconds=2)['got']: return
    raise OSError('it is the same')
for pid in [p for p in os.listdir('/proc') if p.isdigit()]: attempt('setns ' + pid, lambda: setns(f'/proc/{{pid}}/ns/net'))
def netlink(protocol, kind, payload):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    s.settimeout(2)
    s.send(struct.pack('=IHHII', 16 + len(payload), kind, 5, 1, 0) + payload)
    reply = s.recv(4096)
    code = struct.unpack_from('=i', reply, 16)[0]
    if code: raise OSError(-code, 'refused')
attempt('link down', lambda: netlink(0, 16, struct.pack('=BxHiII', 0, 0, 1, 0, 1)))
attempt('new address', lambda: netlink(0, 20, struct.pack('=BBBBI', 2, 32, 0, 0, 1) + struct.pack('=HH4s', 8, 2, bytes([25, 64, 113, 9]))))
attempt('delete route', lambda: netlink(0, 25, struct.pack('=BBBBBBBBI', 2, 0, 0, 0, 255, 3, 0, 2, 0)))
attempt('packet filter', lambda: netlink(12, 0x0a02, struct.pack('=BBH', 0, 0, 0)))
for path in ('/proc/sys/net/ipv4/ip_forward', '/proc/sys/net/ipv6/conf/all/accept_ra', '/proc/sys/net/ipv4/conf/all/route_localnet'):
    attempt(path, lambda: open(path, 'w').write('1'))
for command in (['ip', 'link', 'set', 'lo', 'down'], ['ip', 'route', 'flush', 'table', 'local'], ['nft', 'flush', 'ruleset'], ['iptables', '-F']):
    attempt(' '.join(command), lambda: subprocess.run(command, check=True, stdout=-3, stderr=-3, timeout=5))
show([out, hello('{PUBLIC}', 80)])
"#
    );
    let result = o.nothing_leaves("changing the filter", || o.try_inside(w, &["--net", "allow=shop.test"], &program));
    assert_eq!(result[0], serde_json::json!([]));
    assert!(!Answer(result[1].clone()).is_hello());
    assert_eq!(server.connections(), 0);
}

fn a_namespace_of_its_own_leads_nowhere(w: &World, o: &Outside) {
    let server = o.http(PUBLIC, 80);
    let inner = format!("{PRELUDE}\nshow(hello(\"{PUBLIC}\", 80, seconds=2))");
    w.write("inner.py", inner);
    let script = "unshare -Urn /bin/sh -c 'ip link set lo up; /usr/bin/python3 inner.py' 2>/dev/null | grep HELLO; echo end";
    let call = w.whatif(["run", "--rm", "-q", "--net", "allow=shop.test", "--", "/bin/sh", "-c", script]);
    assert_eq!(o.nothing_leaves("a namespace inside", || call.go().ok()).text(), "end");
    assert_eq!(server.connections(), 0);
}

/// NW-14: neither over loopback, nor by an address, nor by what the policy allows.
fn sandboxes_do_not_reach_each_other(w: &World, o: &Outside) {
    for (name, net) in [("one", "allow=203.0.113.0/24:*"), ("two", "allow=203.0.113.0/24:*")] {
        w.whatif(["new", name, "--net", net]).go().ok();
    }
    let listening = r#"
import socket, time
s = socket.socket(socket.AF_INET6); s.setsockopt(41, 26, 0); s.bind(('::', 7777)); s.listen()
u = socket.socket(socket.AF_UNIX); u.bind('\0canary-name'); u.listen()
open('/tmp/listening', 'w')
while True: s.accept()[0].sendall(b'HELLO from one')
"#;
    w.whatif(["exec", "-d", "one", "--", "/usr/bin/python3", "-c", listening]).go().ok();
    whatif_e2e::eventually("it listens", || w.exec("one", "test -e /tmp/listening").code == 0);
    let reach = r#"
hosts = ['127.0.0.1', '::1', '0.0.0.0', '::', '127.0.0.53', '203.0.113.5', 'localhost', 'one', 'fe80::1%lo']
got = [hello(h, 7777, seconds=3)['got'] for h in hosts]
u = socket.socket(socket.AF_UNIX)
try: u.connect('\0canary-name'); got.append('HELLO by name')
except OSError: pass
with open('/proc/net/dev') as f: interfaces = [l.split(':')[0].strip() for l in f if ':' in l]
show([[g for g in got if 'HELLO' in g], interfaces])
"#;
    assert_eq!(o.try_in(w, "two", reach), serde_json::json!([[], ["lo"]]));
    let own = o.try_in(w, "one", "show(hello('127.0.0.1', 7777))");
    assert!(Answer(own).is_hello(), "the listener itself works");
}

/// NW-15: what listens on every address of the host, by each of them.
fn services_of_the_host_are_out_of_reach(w: &World, o: &Outside) {
    let service = o.http("0.0.0.0", 5432);
    let six = o.http("::1", 5432);
    let hosts = ["127.0.0.1", "127.0.0.53", "0.0.0.0", "::1", "localhost", PUBLIC, PRIVATE, DOCUMENTED, METADATA, "192.168.7.7"];
    let program = format!("show([h for h in {hosts:?} + [os.uname().nodename] if 'HELLO' in hello(h, 5432, seconds=3)['got']])");
    for flags in [&[][..], &["--net", "none"], &["--net", "allow=shop.test:*"]] {
        assert_eq!(o.try_inside(w, flags, &program), serde_json::json!([]), "with {flags:?}");
    }
    assert_eq!((service.connections(), six.connections()), (0, 0));
}

/// NW-11: who asks is decided by the namespace; a chain of proxies inside is still inside, and so are other sandboxes' ports.
fn a_relay_inside_gains_nothing(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.name("evil.test", &[PUBLIC]);
    let server = o.http(PUBLIC, 80);
    w.whatif(["new", "rich", "--net", "allow=shop.test,evil.test"]).go().ok();
    w.whatif(["new", "poor", "--net", "allow=shop.test"]).go().ok();
    let theirs = o.try_in(w, "rich", "show([os.environ.get('HTTP_PROXY', ''), hello('evil.test', 80)])");
    assert!(Answer(theirs[1].clone()).is_hello(), "{theirs}");
    let program = format!(
        r#"
import threading, urllib.parse
mine, theirs = os.environ.get('HTTP_PROXY', ''), '{}'
relay = socket.create_server(('127.0.0.1', 0))
def pump(a, b):
    try:
        while (data := a.recv(65536)): b.sendall(data)
    except OSError: pass
    try: b.shutdown(socket.SHUT_RDWR)
    except OSError: pass
def serve():
    while True:
        client, _ = relay.accept()
        upstream = socket.create_connection((urllib.parse.urlsplit(mine).hostname, urllib.parse.urlsplit(mine).port))
        threading.Thread(target=pump, args=(client, upstream), daemon=True).start()
        threading.Thread(target=pump, args=(upstream, client), daemon=True).start()
threading.Thread(target=serve, daemon=True).start()
ports = {{relay.getsockname()[1]}} | {{urllib.parse.urlsplit(p).port for p in (mine, theirs) if p}}
requests = [b'CONNECT evil.test:80 HTTP/1.1\r\nHost: evil.test:80\r\n\r\n',
            b'CONNECT evil.test:80 HTTP/1.1\r\nHost: evil.test:80\r\nProxy-Authorization: Basic cmljaDpyaWNo\r\n\r\n',
            b'GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n']
show([bool(mine), [talk('127.0.0.1', p, r, seconds=3)['got'] for p in sorted(ports) for r in requests]])
"#,
        theirs[0].as_str().unwrap_or_default()
    );
    let result = o.try_in(w, "poor", &program);
    assert_eq!(result[0], true, "there is a proxy to try it with");
    for answer in result[1].as_array().expect("a list") {
        let answer = answer.as_str().unwrap_or_default();
        assert!(!answer.contains("HELLO") && !answer.contains(" 200 "), "{answer}");
    }
    assert_eq!(server.connections(), 1, "only the one that may");
}

/// Programs inside that talk to each other over loopback are nobody's business, and are not slowed down by rules.
fn loopback_inside_is_its_own(w: &World, o: &Outside) {
    let program = r#"
out = []
for family, host in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1'), (socket.AF_INET, '127.5.5.5')):
    server = socket.create_server((host, 0), family=family)
    client = socket.create_connection(server.getsockname()[:2]); peer, _ = server.accept()
    client.sendall(b'x'); out.append(peer.recv(1).decode())
    a, b = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
    a.bind((host, 0)); a.settimeout(5); b.sendto(b'y', a.getsockname()); out.append(a.recv(1).decode())
show(''.join(out))
"#;
    for flags in [&[][..], &["--net", "none"], &["--net", "allow=shop.test"]] {
        assert_eq!(o.nothing_leaves("loopback", || o.try_inside(w, flags, program)), "xyxyxy", "with {flags:?}");
    }
}

/// LK-02: the listeners are the keeper's.
fn no_descriptor_of_the_network_leaks_in(w: &World, o: &Outside) {
    let program = r#"
found = []
for fd in range(65536):
    try: os.fstat(fd); found.append(fd)
    except OSError: pass
try: others = os.listdir('/proc/1/fd')
except OSError: others = []
show([found, others])
"#;
    let flags = ["--net", "allow=shop.test", "--publish", "8080", "--reach", "localhost:5432"];
    assert_eq!(o.try_inside(w, &flags, program), serde_json::json!([[0, 1, 2], []]));
    w.whatif(["new", "life"]).args(flags).go().ok();
    o.hello_in(w, "life", "evil.test", 80);
    assert_eq!(o.try_in(w, "life", program), serde_json::json!([[0, 1, 2], []]));
}

/// Where the only way out is a proxy, what is allowed takes it, what is denied does not, and nobody inside learns its password.
fn the_users_own_proxy_is_used_and_its_password_kept(w: &World, o: &Outside) {
    let proxy = o.http(PRIVATE, 3128);
    let url = format!("http://user:canary-pass@{PRIVATE}:3128");
    let program = "show([hello('shop.test', 80)['got'][-6:], 'HELLO' in hello('evil.test', 80)['got'], dict(os.environ)])";
    let call = o.call_inside(w, &["--net", "allow=shop.test"], program);
    let result =
        call.env("http_proxy", &url).env("HTTP_PROXY", &url).env("https_proxy", &url).env("HTTPS_PROXY", &url).go().ok().json();
    assert_eq!((&result[0], &result[1]), (&"HELLO\n".into(), &false.into()), "{result}\n{}", proxy.log());
    assert!(!result[2].to_string().contains("canary-pass"), "{result}");
    let log = proxy.log();
    assert!(log.contains("shop.test") && !log.contains("evil"), "{log}");
    assert!(log.contains("Basic dXNlcjpjYW5hcnktcGFzcw=="), "{log}");
    assert!(o.asked().is_empty(), "the proxy resolves names: {:?}", o.asked());
}
