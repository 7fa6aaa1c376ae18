//! Secrets are put in on the way to their host, and nowhere else.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use whatif_inject::{Authority, placeholder};
use whatif_types::network::{EventKind, Protocol, Secret};

use super::servers::Server;
use super::world::{PUBLIC, Wish, allowing, eventually, in_world, read_all};

const VALUE: &str = "the-real-value";

fn wish(host: &str, rules: &[&'static str]) -> (Wish, String, String) {
    let placeholder = placeholder().unwrap();
    let authority = Authority::new("tested", [&"a.test".parse().unwrap()]).unwrap();
    let secret = Secret {
        name: "TOKEN".to_owned(),
        placeholder: placeholder.clone(),
        value: VALUE.to_owned(),
        host: host.to_owned(),
        fields: Vec::new(),
    };
    let handover = Some(authority.handover().to_string());
    (Wish { secrets: vec![secret], authority: handover, ..allowing(rules) }, placeholder, authority.certificate_pem().to_owned())
}

#[test]
fn a_placeholder_becomes_the_secret_for_its_host_only() {
    let (mut wish, placeholder, _) = wish("http://a.test", &["http://a.test/ok", "b.test:80"]);
    let scratch = Scratch::new();
    wish.roots = vec![certificate(&scratch.0).0];
    in_world("secrets::a_placeholder_becomes_the_secret_for_its_host_only", wish, |world| {
        world.hosts(&[("a.test", PUBLIC), ("b.test", "25.64.113.6")]);
        let servers = [Server::web(PUBLIC, 80), Server::web("25.64.113.6", 80)];
        let request =
            |host: &str, path: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {placeholder}\r\n\r\n");
        for host in ["a.test", "b.test"] {
            let mut client = world.connect(host, 80);
            client.write_all(request(host, "/ok").as_bytes()).unwrap();
            client.read_exact(&mut [0; 43]).unwrap();
            client.write_all(request(host, "/other").as_bytes()).unwrap();
            let mut answer = [0; 12];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(&answer[9..], if host == "a.test" { b"403" } else { b"200" }, "rules hold for each request");
        }
        assert!(servers[0].text().contains(&format!("Bearer {VALUE}")) && !servers[0].text().contains(&placeholder));
        assert!(!servers[0].text().contains("/other"));
        assert!(servers[1].text().contains(&placeholder) && !servers[1].text().contains(VALUE));
        // By way of the proxy as well.
        let mut client = world.connect_to_proxy();
        client.write_all(request("a.test", "http://a.test/ok").as_bytes()).unwrap();
        assert!(read_all(&mut client).0.starts_with(b"HTTP/1.1 200 "));
        assert_eq!(servers[0].text().matches(VALUE).count(), 2);
        let denied = world.event("a.test", EventKind::Request);
        assert!(!denied.allowed, "{denied:?}");
        let log = std::fs::read_to_string(world.directory().join("network.jsonl")).unwrap();
        assert!(!log.contains(VALUE));
    });
}

#[test]
fn tls_ends_here_for_a_host_with_a_secret() {
    let scratch = Scratch::new();
    let (root, key) = certificate(&scratch.0);
    let (mut wish, placeholder, inner_root) = wish("a.test", &["a.test:443"]);
    wish.roots = vec![root.clone()];
    in_world("secrets::tls_ends_here_for_a_host_with_a_secret", wish, |world| {
        world.hosts(&[("a.test", PUBLIC)]);
        let server = TlsServer::start(&root, &key);
        let trusted = scratch.0.join("inner.pem");
        std::fs::write(&trusted, &inner_root).unwrap();
        let stand_in = world.resolve("a.test");
        let mut client = world.inside().run(move || {
            let to = format!("{stand_in}:443");
            let mut command = Command::new("openssl");
            command.args(["s_client", "-quiet", "-verify_return_error", "-servername", "a.test", "-connect", &to, "-CAfile"]);
            command.arg(trusted).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
        });
        let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\nAuthorization: Bearer {placeholder}\r\n\r\n");
        client.stdin.as_mut().unwrap().write_all(request.as_bytes()).unwrap();
        eventually("the secret", || server.lines().contains(&format!("Authorization: Bearer {VALUE}")).then_some(()));
        let opened = world.event("a.test", EventKind::Connect);
        assert_eq!((opened.protocol, opened.allowed), (Protocol::Tls, true));
        let _ = client.kill();
        let _ = client.wait();
        let closed = world.event("a.test", EventKind::Closed);
        assert_eq!(closed.sent, request.len() as u64, "{closed:?}");
    });
}

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        let number = std::thread::current().id();
        let path = std::env::temp_dir().join(format!("whatif-supervision-tls-{}-{number:?}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A certificate for `a.test` that signs itself, and its key.
fn certificate(place: &Path) -> (PathBuf, PathBuf) {
    let (certificate, key) = (place.join("root.pem"), place.join("key.pem"));
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=a.test"]);
    command.args(["-addext", "subjectAltName=DNS:a.test", "-addext", "basicConstraints=critical,CA:FALSE"]);
    let output = command.arg("-keyout").arg(&key).arg("-out").arg(&certificate).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (certificate, key)
}

struct TlsServer {
    process: Child,
    lines: std::sync::Arc<std::sync::Mutex<Vec<String>>>,
}

impl TlsServer {
    fn start(certificate: &Path, key: &Path) -> Self {
        let mut command = Command::new("openssl");
        command.args(["s_server", "-quiet", "-naccept", "10", "-accept", &format!("{PUBLIC}:443"), "-cert"]);
        command.arg(certificate).arg("-key").arg(key);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = std::sync::Arc::<std::sync::Mutex<Vec<String>>>::default();
        let (output, theirs) = (process.stdout.take().unwrap(), std::sync::Arc::clone(&lines));
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).for_each(|line| theirs.lock().unwrap().push(line));
        });
        eventually("a server", || std::net::TcpStream::connect((PUBLIC, 443)).ok());
        Self { process, lines }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().iter().map(|line| line.trim_end().to_owned()).collect()
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
