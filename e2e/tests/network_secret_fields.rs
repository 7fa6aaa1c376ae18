//! A secret goes only where a credential belongs, and does not come back (attack group LK).

use whatif_e2e::outside::{Outside, PUBLIC};
use whatif_e2e::{World, outside_as_root_and_user};

outside_as_root_and_user!(
    only_fields_that_carry_credentials_get_the_value,
    a_person_names_further_fields,
    a_value_that_a_server_repeats_is_crossed_out,
    a_server_that_repeats_a_guess_does_not_tell_whether_it_is_right,
    a_service_of_this_machine_gets_the_value_by_way_of_reach,
    a_secret_for_the_sandbox_itself_is_refused,
);

const SECRET: &str = "canary-b16b00b5-secret";
/// `user:` and the secret, as in `Authorization: Basic`.
const ENCODED: &str = "dXNlcjpjYW5hcnktYjE2YjAwYjUtc2VjcmV0";

fn secret(w: &World) -> String {
    let path = w.write(w.home.join("token"), format!("{SECRET}\n"));
    format!("TOKEN=@{}", path.display())
}

/// One request with the variable in each of these fields.
fn send(fields: &[&str]) -> String {
    let names = fields.iter().map(|field| format!("'{field}'")).collect::<Vec<_>>().join(", ");
    format!(
        r"
lines = ''.join(f'{{name}}: {{os.environ[\'TOKEN\']}}\r\n' for name in [{names}])
show(talk('api.test', 80, f'GET / HTTP/1.1\r\nHost: api.test\r\n{{lines}}\r\n'.encode()))"
    )
    .replace("\\'", "\"")
}

fn only_fields_that_carry_credentials_get_the_value(w: &World, o: &Outside) {
    o.name("api.test", &[PUBLIC]);
    let server = o.http(PUBLIC, 80);
    let filled = ["Authorization", "X-Api-Key", "Api-Key", "Private-Token", "x-auth-token", "X-GOOG-API-KEY"];
    let left = [
        "anthropic-beta",
        "anthropic-version",
        "Cookie",
        "X-Forwarded-Prefix",
        "X-Forwarded-Uri",
        "X-Custom",
        "Proxy-Authorization",
        "Openai-Organization",
        "X-Http-Method-Override",
        "User-Agent",
        "Origin",
    ];
    let flags = ["--secret", &secret(w), "--for", "http://api.test", "--net", "allow=api.test"];
    let result = o.try_inside(w, &flags, &send(&[filled.as_slice(), left.as_slice()].concat()));
    assert!(result["got"].as_str().is_some_and(|got| got.contains("HELLO")), "{result}");
    let log = server.log();
    for field in filled {
        assert!(log.contains(&format!("{field}: {SECRET}\r\n")), "{field} in {log}");
    }
    for field in left {
        assert!(log.contains(&format!("{field}: whatif-placeholder-")), "{field} in {log}");
    }
}

fn a_person_names_further_fields(w: &World, o: &Outside) {
    o.name("api.test", &[PUBLIC]);
    let server = o.http(PUBLIC, 80);
    let secret = secret(w);
    let flags = ["--secret", &secret, "--for", "http://api.test", "--field", "X-Acme", "--field", "TOKEN=X-Other"];
    w.whatif(["new", "careful", "--net", "allow=api.test"]).args(flags).go().ok();
    o.try_in(w, "careful", &send(&["X-Acme", "X-Other", "X-Third"]));
    let log = server.log();
    assert!(log.contains(&format!("X-Acme: {SECRET}\r\nX-Other: {SECRET}\r\nX-Third: whatif-placeholder-")), "{log}");
    // What was not filled in can be found out.
    let record = w.whatif(["net", "careful"]).go().ok().stdout;
    assert!(record.contains("--field TOKEN=x-third"), "{record}");
    for wrong in [&["--field", "Host"][..], &["--field", "a b"], &["--field", "OTHER=X-Acme"]] {
        let outcome =
            w.whatif(["run", "--secret", &secret, "--for", "http://api.test"]).args(wrong).args(["--", "/bin/echo", "ran"]).go();
        assert!(outcome.code == 2 && outcome.stdout.is_empty() && outcome.stderr.contains("hint:"), "{outcome:?}");
    }
}

/// Repeats the request: in a field, in chunks that cut the value, compressed if that is asked for, in JSON.
const REPEATER: &str = r#"
import gzip, http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        said = self.headers.get('Authorization', '')
        body = json.dumps({'you sent': said, 'at': self.path}).encode()
        self.send_response(200)
        self.send_header('X-You-Sent', said)
        if 'gzip' in self.headers.get('Accept-Encoding', ''):
            body = gzip.compress(body)
            self.send_header('Content-Encoding', 'gzip')
        if self.path == '/chunked':
            self.send_header('Transfer-Encoding', 'chunked')
            self.end_headers()
            for at in range(0, len(body), 5):
                piece = body[at:at + 5]
                self.wfile.write(b'%x;said=%s\r\n%s\r\n' % (len(piece), said.encode(), piece))
                self.wfile.flush()
            self.wfile.write(b'0\r\nX-Sum: %s\r\n\r\n' % said.encode())
        else:
            self.send_header('Content-Length', str(len(body)))
            self.end_headers()
            self.wfile.write(body)
    def log_message(self, *_): pass
    def log_request(self, *_): print(self.headers.get('Authorization'), flush=True)
server = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler)
print('ready', flush=True)
server.serve_forever()
"#;

fn a_value_that_a_server_repeats_is_crossed_out(w: &World, o: &Outside) {
    o.name("api.test", &[PUBLIC]);
    let server = o.python(REPEATER, &[PUBLIC, "80"]);
    let program = r"
import base64
def ask(path, credentials):
    request = f'GET {path} HTTP/1.1\r\nHost: api.test\r\nAccept-Encoding: gzip\r\nAuthorization: {credentials}\r\nConnection: close\r\n\r\n'
    return talk('api.test', 80, request.encode())['got']
token = os.environ['TOKEN']
basic = 'Basic ' + base64.b64encode(f'user:{token}'.encode()).decode()
show([ask(path, credentials) for path in ('/', '/chunked') for credentials in (f'Bearer {token}', basic)])";
    let flags = ["--secret", &secret(w), "--for", "http://api.test", "--net", "allow=api.test"];
    let result = o.try_inside(w, &flags, program);
    let log = server.log();
    assert!(log.contains(&format!("Bearer {SECRET}")) && log.contains(&format!("Basic {ENCODED}")), "it is used: {log}");
    for answer in result.as_array().expect("it is a list") {
        let answer = answer.as_str().expect("each is a text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head has an end");
        assert!(head.starts_with("HTTP/1.1 200") && !head.contains("gzip"), "{answer}");
        // What is in the chunks, without what is between them.
        let data: String = match head.contains("chunked") {
            true => body.split("\r\n").skip(1).step_by(2).collect(),
            false => body.to_owned(),
        };
        for text in [answer, &data] {
            assert!(!text.contains(SECRET) && !text.contains(ENCODED), "{text}");
        }
        assert!(data.contains("you sent") && data.contains("****"), "{answer}");
    }
}

/// Repeats what the path says, and no more before it is asked again.
const PAUSER: &str = r"
import socket, sys, threading
def serve(client):
    path = client.recv(4096).split(b' ')[1][1:]
    client.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s' % (len(path) + 3, path))
    client.recv(1)
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
print('ready', flush=True)
while True: threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
";

/// Otherwise a program inside could find the value byte by byte.
fn a_server_that_repeats_a_guess_does_not_tell_whether_it_is_right(w: &World, o: &Outside) {
    o.name("api.test", &[PUBLIC]);
    let _server = o.python(PAUSER, &[PUBLIC, "80"]);
    let program = r"
import socket
def repeated(guess):
    with socket.create_connection(('api.test', 80), 20) as s:
        s.sendall(f'GET /{guess} HTTP/1.1\r\nHost: api.test\r\n\r\n'.encode())
        s.settimeout(20)
        got = b''
        try:
            while not got.endswith(guess.encode()): got += s.recv(4096)
        except TimeoutError: pass
        return got.split(b'\r\n\r\n')[-1].decode()
show([repeated(guess) for guess in ('canary-b16b', 'canary-b16x')])";
    let flags = ["--secret", &secret(w), "--for", "http://api.test", "--net", "allow=api.test"];
    assert_eq!(o.try_inside(w, &flags, program), serde_json::json!(["canary-b16b", "canary-b16x"]));
}

fn a_service_of_this_machine_gets_the_value_by_way_of_reach(w: &World, o: &Outside) {
    let server = o.http("127.0.0.1", 18090);
    let other = o.http("127.0.0.1", 18091);
    let program = r#"
def ask(port): return talk('localhost', port, f'GET / HTTP/1.1\r\nHost: localhost:{port}\r\nX-Api-Key: {os.environ["TOKEN"]}\r\n\r\n'.encode())['got'][-6:]
show([ask(18090), ask(18091)])"#;
    let reach = ["--reach", "localhost:18090", "--reach", "localhost:18091"];
    let secret = secret(w);
    let flags = [&["--secret", &secret, "--for", "http://localhost:18090"][..], &reach].concat();
    let result = o.try_inside(w, &flags, program);
    assert_eq!((&result[0], &result[1]), (&"HELLO\n".into(), &"HELLO\n".into()));
    assert!(server.log().contains(&format!("X-Api-Key: {SECRET}\r\n")), "{}", server.log());
    assert!(other.log().contains("X-Api-Key: whatif-placeholder-"), "{}", other.log());
}

/// Nothing there would put it in.
fn a_secret_for_the_sandbox_itself_is_refused(w: &World, _: &Outside) {
    let secret = secret(w);
    for (host, reach) in [
        ("http://localhost:18090", None),
        ("localhost:18090", Some("localhost:18091")),
        ("http://app.localhost:18090", Some("localhost:18090")),
    ] {
        let reach = reach.map_or(Vec::new(), |port| vec!["--reach", port]);
        let outcome = w.whatif(["run", "--secret", &secret, "--for", host]).args(reach).args(["--", "/bin/echo", "ran"]).go();
        assert!(outcome.code == 2 && outcome.stdout.is_empty(), "{host}: {outcome:?}");
        assert!(outcome.stderr.contains("TOKEN") && outcome.stderr.contains("--reach localhost:18090"), "{outcome:?}");
    }
}
