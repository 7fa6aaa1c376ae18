//! Attack group NW: what is said on a connection that is allowed. A name that is allowed must not be a door to its neighbours.

use serde_json::json;
use whatif_e2e::outside::{Outside, PUBLIC, PUBLIC_2};
use whatif_e2e::{World, needs, outside_as_root_and_user};

outside_as_root_and_user!(
    encrypted_connections_are_for_the_name_they_say,
    a_hello_in_pieces_is_read_like_any_other,
    the_proxy_takes_the_same_care,
    each_port_speaks_its_own_protocol,
    servers_that_speak_first_are_heard,
    ordinary_requests_pass_unchanged,
    requests_for_somebody_else_are_refused,
    ambiguous_requests_are_refused,
    every_request_of_a_connection_is_judged,
    what_is_denied_breaks,
    what_is_denied_says_how_to_allow_it,
    rules_for_requests_are_kept,
);

/// `encrypted(host, sni)` is a request over TLS; the project has the authority's certificate.
const TLS: &str = r#"
import ssl
def encrypted(host, sni, port=443, path='/'):
    context = ssl.create_default_context(cafile='ca.pem')
    context.check_hostname = False
    try:
        with socket.create_connection((host, port), 10) as raw, context.wrap_socket(raw, server_hostname=sni) as s:
            s.sendall(f'GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n'.encode())
            return s.recv(4096).decode()[-6:]
    except OSError as e: return type(e).__name__
"#;

/// A TLS hello, byte by byte, so that it can be wrong.
const HELLO: &str = r#"
import struct
def extension(kind, data): return struct.pack('>HH', kind, len(data)) + data
def client_hello(sni=b'shop.test', more=b'', names=None):
    listed = b''.join(b'\0' + struct.pack('>H', len(n)) + n for n in names or [sni or b''])
    extensions = extension(0, struct.pack('>H', len(listed)) + listed) if sni is not None else b''
    extensions += extension(43, b'\x02\x03\x04') + extension(10, b'\0\x02\0\x1d') + extension(13, b'\0\x04\x04\x03\x08\x04')
    extensions += extension(51, b'\0\x24\0\x1d\0\x20' + bytes([9]) * 32) + more
    body = b'\x03\x03' + bytes(32) + b'\0' + b'\0\x02\x13\x01' + b'\x01\0' + struct.pack('>H', len(extensions)) + extensions
    return b'\x01' + len(body).to_bytes(3, 'big') + body
def records(message, size=16384):
    return b''.join(b'\x16\x03\x01' + struct.pack('>H', len(p)) + p for p in (message[i:i + size] for i in range(0, len(message), size)))
def send(data, pieces=1 << 20, host='shop.test', port=443):
    try:
        with socket.create_connection((host, port), 10) as s:
            s.setsockopt(6, 1, 1)
            for i in range(0, len(data), pieces): s.sendall(data[i:i + pieces])
            return s.recv(5)[:1].hex()
    except OSError: return ''
"#;

/// NW-09.
fn encrypted_connections_are_for_the_name_they_say(w: &World, o: &Outside) {
    needs!(w, "openssl");
    for name in ["shop.test", "bank.test", "evil.test"] {
        o.name(name, &[PUBLIC]);
    }
    let server = o.tls(PUBLIC, 443, &o.authority(w, &["shop.test", "bank.test", "evil.test"]));
    let program = format!(
        "{TLS}\nshow([encrypted(*p) for p in (('shop.test', 'shop.test'), ('shop.test', 'SHOP.test'), ('shop.test', 'evil.test'), \
         ('shop.test', 'bank.test'), ('shop.test', 'a.shop.test'), ('shop.test', None), ('evil.test', 'shop.test'), ('{PUBLIC}', 'shop.test'))])"
    );
    let answers = o.try_inside(w, &["--net", "allow=shop.test,bank.test"], &program);
    let hellos: Vec<bool> = answers.as_array().expect("a list").iter().map(|a| a == "HELLO\n").collect();
    assert_eq!(hellos, [true, true, false, false, false, false, false, false], "{answers}");
    let log = server.log();
    assert_eq!(log.matches("connection").count(), 2, "what is refused is not even dialled: {log}");
    assert!(!o.was_asked("evil"));
}

/// NW-09: however it is cut, and if it hides something.
fn a_hello_in_pieces_is_read_like_any_other(w: &World, o: &Outside) {
    needs!(w, "openssl");
    o.name("shop.test", &[PUBLIC]);
    let server = o.tls(PUBLIC, 443, &o.authority(w, &["shop.test"]));
    let program = format!(
        r#"{HELLO}
good = [send(records(client_hello())), send(records(client_hello()), 1), send(records(client_hello(), 7)), send(records(client_hello(), 1), 3)]
long = extension(21, bytes(20000))
evil = client_hello(b'evil.test')
bad = [send(records(evil)), send(records(evil), 1), send(records(evil, 7)), send(records(evil, 1), 3),
       send(records(client_hello(None))), send(records(client_hello(b''))), send(records(client_hello(names=[b'shop.test', b'evil.test']))),
       send(records(client_hello(names=[b'evil.test', b'shop.test']))), send(records(client_hello(more=extension(0, b'\0\x0c\0\0\x09evil.test')))),
       send(records(client_hello(more=extension(0xfe0d, b'\0\0\x01\0\x01\0\0\x20' + bytes(32) + b'\0\x10' + bytes(16))))),
       send(records(client_hello(b'evil.test\0.shop.test'))), send(records(client_hello(b'shop.test\0'))), send(records(client_hello(b'shop.test', long), 16384)),
       send(b'\x80\x2e\x01\x03\x01' + bytes(41)), send(b'\x16\x03\x01\xff\xff' + bytes(60000)), send(b'\x16\x03\x01\0\0' * 1000)]
show([good, [b for b in bad if b == '16']])
"#
    );
    let answers = o.try_inside(w, &["--net", "allow=shop.test"], &program);
    assert_eq!(answers, json!([["16", "16", "16", "16"], []]), "{}", server.log());
    assert_eq!(server.log().matches("sni shop.test").count(), 4, "{}", server.log());
    assert!(!server.log().contains("evil"), "{}", server.log());
}

/// NW-09, after CONNECT and SOCKS.
fn the_proxy_takes_the_same_care(w: &World, o: &Outside) {
    needs!(w, "openssl");
    o.name("shop.test", &[PUBLIC]);
    let server = o.tls(PUBLIC, 443, &o.authority(w, &["shop.test", "evil.test"]));
    let others = [22, 25, 53, 8443].map(|port| o.echo(PUBLIC, port));
    let program = format!(
        r#"{TLS}
import urllib.parse
proxy = urllib.parse.urlsplit(os.environ['HTTPS_PROXY'])
def tunnel(target, sni):
    context = ssl.create_default_context(cafile='ca.pem')
    context.check_hostname = False
    try:
        with socket.create_connection((proxy.hostname, proxy.port), 10) as raw:
            raw.sendall(f'CONNECT {{target}} HTTP/1.1\r\nHost: {{target}}\r\n\r\n'.encode())
            line = raw.recv(4096).decode('latin-1')
            if ' 200 ' not in line: return line[9:12]
            with context.wrap_socket(raw, server_hostname=sni) as s:
                s.sendall(b'GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n')
                return s.recv(4096).decode()[-6:]
    except OSError as e: return 'closed'
show([tunnel('shop.test:443', 'shop.test'), tunnel('shop.test:443', 'evil.test'), tunnel('shop.test:443', None)]
     + [tunnel(f'shop.test:{{p}}', 'shop.test') for p in (22, 25, 53, 8443)])
"#
    );
    let answers = o.try_inside(w, &["--net", "allow=shop.test:443"], &program);
    assert_eq!(answers, json!(["HELLO\n", "closed", "closed", "403", "403", "403", "403"]));
    // A client that asks a proxy says its hello only after the server was reached; it gets no further.
    assert_eq!(server.log().matches("sni").count(), 1, "{}", server.log());
    assert_eq!(others.map(|s| s.connections()), [0; 4]);
}

/// What is neither TLS on 443 nor HTTP on 80 could be anything.
fn each_port_speaks_its_own_protocol(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    let (web, secure) = (o.http(PUBLIC, 80), o.http(PUBLIC, 443));
    let program = r#"
request = b'GET /smuggled HTTP/1.1\r\nHost: shop.test\r\n\r\n'
show([talk('shop.test', 443, request)['got'], talk('shop.test', 443, b'SSH-2.0-x\r\n' + request)['got'],
      talk('shop.test', 80, b'SSH-2.0-x\r\n' + request)['got'], talk('shop.test', 80, b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')['got'],
      talk('shop.test', 80, b'GET /smuggled\r\n\r\n')['got'], talk('shop.test', 80, bytes(5) + request)['got']])
"#;
    let answers = o.try_inside(w, &["--net", "allow=shop.test"], program);
    assert!(answers.as_array().expect("a list").iter().all(|a| !a.to_string().contains("HELLO")), "{answers}");
    assert_eq!((web.log(), secure.log()), (String::new(), String::new()));
}

/// SSH, mail, databases.
fn servers_that_speak_first_are_heard(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    let server = o.greeter(PUBLIC, 2222);
    let program =
        "show([talk('shop.test', 2222, until=b'welcome')['got'], talk('shop.test', 2222, b'canary\\n', until=b'canary')['got']])";
    let answers = o.try_inside(w, &["--net", "allow=shop.test:2222"], program);
    assert_eq!(answers, json!(["220 welcome\r\n", "220 welcome\r\ncanary\n"]));
    assert_eq!((server.connections(), server.log().as_str()), (2, "canary\n"));
    let denied = o.try_inside(w, &["--net", "allow=shop.test:80"], program);
    assert_eq!((denied, server.connections()), (json!(["", ""]), 2));
}

fn ordinary_requests_pass_unchanged(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    let server = o.http(PUBLIC, 80);
    let program = r#"
requests = [b'GET /a?b=c HTTP/1.1\r\nHost: shop.test\r\nX-Odd: \xe9 "quoted"\r\n\r\n',
            b'POST /form HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 11\r\n\r\nhello=world',
            b'PUT /chunks HTTP/1.1\r\nHost: shop.test:80\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
            b'DELETE /d HTTP/1.1\r\nhOST: SHOP.test\r\n\r\n', b'HEAD /h HTTP/1.0\r\nHost: shop.test\r\n\r\n']
answers = [talk('shop.test', 80, r)['got'][-6:] for r in requests]
slow = socket.create_connection(('shop.test', 80))
for byte in requests[0]: slow.sendall(bytes([byte]))
answers.append(slow.recv(4096).decode()[-6:])
many = socket.create_connection(('shop.test', 80))
many.sendall(requests[0] * 3)
got = b''
while got.count(b'HELLO') < 3: got += many.recv(4096)
show(answers)
"#;
    assert_eq!(o.try_inside(w, &["--net", "allow=shop.test"], program), json!(vec!["HELLO\n"; 6]));
    let log = server.log();
    for part in ["GET /a?b=c HTTP/1.1", "hello=world", "PUT /chunks", "hello", "DELETE /d", "HEAD /h"] {
        assert!(log.contains(part), "{part} is missing: {log}");
    }
    assert_eq!(log.matches("GET /a?b=c").count(), 5, "{log}");
}

/// Each request goes through a connection to `shop.test` of its own. None of them may arrive.
#[track_caller]
fn none_arrives(w: &World, o: &Outside, requests: &str) {
    o.name("shop.test", &[PUBLIC]);
    o.name("evil.test", &[PUBLIC_2]);
    let (server, evil) = (o.http(PUBLIC, 80), o.http(PUBLIC_2, 80));
    let program = format!(
        "import urllib.parse\nproxy = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])\nrequests = {requests}\n\
         def once(host, port, r): return talk(host, port, r, until=b'\\0', seconds=10)['got']\n\
         show([[str(r), a] for r in requests for a in (once('shop.test', 80, r), once(proxy.hostname, proxy.port, r)) if 'HELLO' in a])"
    );
    assert_eq!(o.try_inside(w, &["--net", "allow=shop.test"], &program), json!([]));
    assert!(!server.log().contains("smuggled"), "{}", server.log());
    assert_eq!(evil.connections(), 0);
    assert!(!o.was_asked("evil"));
}

/// NW-10.
fn requests_for_somebody_else_are_refused(w: &World, o: &Outside) {
    let requests = r#"[
b'GET /smuggled HTTP/1.1\r\nHost: evil.test\r\n\r\n',
b'GET /smuggled HTTP/1.1\r\nHost: shop.test.evil.test\r\n\r\n',
b'GET /smuggled HTTP/1.1\r\nHost: shop.test:8080\r\n\r\n',
b'GET /smuggled HTTP/1.1\r\nHost: shop.test@evil.test\r\n\r\n',
b'GET /smuggled HTTP/1.1\r\nHost: shop.test, evil.test\r\n\r\n',
b'GET /smuggled HTTP/1.1\r\nHost: shop.test evil.test\r\n\r\n',
b'GET http://evil.test/smuggled HTTP/1.1\r\nHost: shop.test\r\n\r\n',
b'GET http://shop.test/smuggled HTTP/1.1\r\nHost: evil.test\r\n\r\n',
b'GET http://shop.test@evil.test/smuggled HTTP/1.1\r\nHost: shop.test\r\n\r\n',
b'GET http://evil.test#@shop.test/smuggled HTTP/1.1\r\nHost: shop.test\r\n\r\n',
b'GET //evil.test/smuggled HTTP/1.1\r\nHost: evil.test\r\n\r\n',
b'CONNECT evil.test:80 HTTP/1.1\r\nHost: shop.test\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: evil.test\r\n\r\n',
b'GET /smuggled HTTP/1.1\r\nHost: shop.test\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n\r\n',
]"#;
    none_arrives(w, o, requests);
}

/// NW-10: what two programs could read in two ways.
fn ambiguous_requests_are_refused(w: &World, o: &Outside) {
    let requests = r#"[
b'GET /smuggled HTTP/1.1\r\nHost: shop.test\r\nHost: evil.test\r\n\r\n',
b'GET /smuggled HTTP/1.1\r\nHost: evil.test\r\nHost: shop.test\r\n\r\n',
b'GET /smuggled HTTP/1.1\r\nHost: shop.test\r\nHost: shop.test\r\n\r\n',
b'GET /smuggled HTTP/1.1\r\n\r\n',
b'GET /smuggled HTTP/1.1\r\nHost:\r\n shop.test\r\n\r\n',
b'GET /smuggled HTTP/1.1\r\nHost: shop.test\r\nX: a\r\n Host: evil.test\r\n\r\n',
b'GET /smuggled HTTP/1.1\r\nHost : shop.test\r\n\r\n',
b'GET /smuggled HTTP/1.1\nHost: shop.test\n\n',
b'GET /smuggled HTTP/1.1\r\nHost: shop.test\r\nX: a\nHost: evil.test\r\n\r\n',
b'GET /smuggled HTTP/1.1\r\nHost: shop.test\r\nX: a\rb\r\n\r\n',
b'GET /smuggled HTTP/1.1\r\nHost: shop.test\r\nX: \0\r\n\r\n',
b'GET /smug gled HTTP/1.1\r\nHost: shop.test\r\n\r\nsmuggled',
b'GET\t/smuggled HTTP/1.1\r\nHost: shop.test\r\n\r\n',
b'POST /smuggled HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
b'POST /smuggled HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!',
b'POST /smuggled HTTP/1.1\r\nHost: shop.test\r\nContent-Length: +5\r\n\r\nhello',
b'POST /smuggled HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n',
b'POST /smuggled HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n',
b'POST /smuggled HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
b'POST /a HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: evil.test\r\n\r\n',
b'POST /a HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: evil.test\r\n\r\n',
b'POST /a HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: evil.test\r\n\r\n',
b'GET /smuggled HTTP/1.1\r\nHost: shop.test\r\nX: ' + b'a' * 200000 + b'\r\n\r\n',
b'GET /smuggled HTTP/3.7\r\nHost: shop.test\r\n\r\n',
]"#;
    none_arrives(w, o, requests);
}

/// NW-10: the second one on a connection is no better than the first.
fn every_request_of_a_connection_is_judged(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.name("evil.test", &[PUBLIC]);
    let server = o.http(PUBLIC, 80);
    let program = r#"
good, bad = (f'GET /{p} HTTP/1.1\r\nHost: {h}\r\n\r\n'.encode() for p, h in (('fine', 'shop.test'), ('smuggled', 'evil.test')))
post = b'POST /fine HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 5\r\n\r\nhello'
chunks = b'POST /fine HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n'
def pipelined(first):
    got = talk('shop.test', 80, first + bad + good, until=b'\0')['got']
    return [got.count('HELLO'), got.count('HTTP/1.1') == 1]
def in_turn(first):
    with socket.create_connection(('shop.test', 80), 10) as s:
        s.sendall(first); one = s.recv(4096)
        s.sendall(bad)
        try: two = s.recv(4096)
        except OSError: two = b''
        return [one.count(b'HELLO'), b'HELLO' not in two]
show([f(r) for f in (pipelined, in_turn) for r in (good, post, chunks)])
"#;
    let answers = o.try_inside(w, &["--net", "allow=shop.test"], program);
    assert_eq!(answers, json!(vec![json!([1, true]); 6]));
    let log = server.log();
    assert_eq!((log.matches("/fine").count(), log.contains("smuggled")), (6, false), "{log}");
}

/// No page that a program could take for what it asked for: connections that are denied break.
fn what_is_denied_breaks(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    let server = o.http(PUBLIC, 80);
    let program = r#"
import urllib.parse
proxy = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])
show([hello('evil.test', 80), hello('evil.test', 5432), hello('203.0.113.5', 80), talk('evil.test', 443, b'\x16\x03\x01'), hello('shop.test', 80, named='evil.test'),
      talk(proxy.hostname, proxy.port, b'GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n')])
"#;
    let answers = o.try_inside(w, &["--net", "allow=shop.test"], program);
    for answer in answers.as_array().expect("a list") {
        assert_eq!(answer, &json!({"got": "", "error": "ECONNRESET"}), "{answers}");
    }
    assert_eq!(server.connections(), 0);
}

/// A person or an agent who reads it knows what to do.
fn what_is_denied_says_how_to_allow_it(w: &World, o: &Outside) {
    w.whatif(["new", "shut", "--net", "allow=shop.test"]).go().ok();
    let program = r#"
import urllib.parse
proxy = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])
show([talk(proxy.hostname, proxy.port, f'CONNECT {t} HTTP/1.1\r\nHost: {t}\r\n\r\n'.encode())['got'] for t in ('evil.test:80', 'evil.test:8080', '203.0.113.5:80')])
"#;
    let answers = o.nothing_leaves("what is denied", || o.try_in(w, "shut", program));
    for (index, rule) in ["evil.test:80", "evil.test:8080", "203.0.113.5:80"].into_iter().enumerate() {
        let answer = answers[index].as_str().unwrap_or_default();
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains(&format!("whatif net allow shut {rule}")), "{answer}");
    }
}

/// `http+get://host/path`.
fn rules_for_requests_are_kept(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    let server = o.http(PUBLIC, 80);
    let program = r#"
def ask(method, path): return talk('shop.test', 80, f'{method} {path} HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 0\r\n\r\n'.encode())['got'][9:12]
paths = ['/pub', '/pub/a?b', '/public', '/private', '/pub/../private', '/pub/%2e%2e/private', '/pub/%2E./private', '//pub', '/pub/..;/private', '/pub\\..\\private']
show([[ask('GET', p) for p in paths], [ask(m, '/pub') for m in ('HEAD', 'POST', 'DELETE', 'get')]])
"#;
    let answers = o.try_inside(w, &["--net", "allow=http+get+head://shop.test/pub"], program);
    let codes: Vec<bool> = answers[0].as_array().expect("a list").iter().map(|a| a == "200").collect();
    assert_eq!(codes, [true, true, false, false, false, false, false, false, false, false], "{answers}");
    let methods: Vec<bool> = answers[1].as_array().expect("a list").iter().map(|a| a == "200").collect();
    assert_eq!(methods, [true, false, false, false], "{answers}");
    assert!(!server.log().contains("private"), "{}", server.log());
}
