//! A real server with a certificate of an authority made for the test, and a relay in front of it as the supervisor has one.
#![allow(dead_code, reason = "each test file uses a part")]

mod directory;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use directory::Directory;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use whatif_inject::{Authority, Destination, Injector, Roots, Totals, Transport};
use whatif_netpolicy::tls::{self, TlsState};
use whatif_types::network::Secret;

pub const HOST: &str = "api.example.com";
const PATIENCE: Duration = Duration::from_secs(30);

/// What one test needs; all of it ends with it.
pub struct Stage {
    directory: Directory,
    server: Child,
    pub relay: SocketAddr,
    pub certificate_pem: String,
    pub secrets: Vec<Secret>,
    done: Arc<Mutex<Vec<Result<Totals, String>>>>,
}

/// How a test departs from the usual.
pub struct Plan {
    /// The name in the server's certificate.
    pub certified: &'static str,
    /// Whether the machine trusts the authority of the server's certificate.
    pub is_trusted: bool,
    /// What the relay believes the connection is for.
    pub to: &'static str,
    /// The destination has the port that the relay listens on, for clients that cannot be told otherwise.
    pub on_own_port: bool,
    pub values: &'static [&'static str],
    /// Paths the judge denies.
    pub denied: &'static str,
    /// The server speaks no TLS newer than 1.2.
    pub is_old: bool,
}

impl Default for Plan {
    fn default() -> Self {
        let values = &["s3cret-value", "other-value"];
        Self { certified: HOST, is_trusted: true, to: HOST, on_own_port: false, values, denied: "/denied", is_old: false }
    }
}

impl Stage {
    pub fn new() -> Self {
        Self::with(&Plan::default())
    }

    pub fn with(plan: &Plan) -> Self {
        let directory = Directory::new();
        let requests = directory.path().join("requests");
        std::fs::create_dir(&requests).unwrap();
        let root = certify(directory.path(), plan.certified);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = listener.local_addr().unwrap();
        let mut to = plan.to.parse::<Destination>().unwrap();
        if plan.on_own_port {
            to.port = relay.port();
        }
        let secrets = plan.values.iter().enumerate().map(|(index, value)| Secret {
            name: format!("TOKEN_{index}"),
            placeholder: whatif_inject::placeholder().unwrap(),
            value: (*value).to_owned(),
            fields: Vec::new(),
            host: to.to_string(),
        });
        let secrets = secrets.collect::<Vec<_>>();
        let authority = Authority::new("test", [&to.host]).unwrap();
        let other_root = Authority::new("nobody", []).unwrap().certificate_pem().to_owned();
        let roots = Roots::from_pem(if plan.is_trusted { root.as_bytes() } else { other_root.as_bytes() }).unwrap();
        // As it comes to a supervisor.
        let authority = Authority::from_handover(&authority.handover()).unwrap();
        let injector = Injector::with(authority, &roots, secrets.clone()).unwrap();
        assert!(injector.handles(&to));
        let certificate_pem = injector.certificate_pem().to_owned();
        let bundle = whatif_inject::trust::bundle(&[root], &certificate_pem);
        std::fs::write(directory.path().join("bundle.pem"), bundle).unwrap();

        let (server, port) = start_server(directory.path(), &requests, plan, to.transport);
        let done = Arc::new(Mutex::new(Vec::new()));
        let front =
            Front { injector, to, server: SocketAddr::from(([127, 0, 0, 1], port)), denied: plan.denied, done: Arc::clone(&done) };
        // It ends with the process; each test has its own.
        std::thread::spawn(move || front.serve(listener));
        Self { directory, server, relay, certificate_pem, secrets, done }
    }

    pub fn bundle(&self) -> String {
        self.directory.path().join("bundle.pem").display().to_string()
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// What the server got, byte for byte, one text for each request.
    pub fn requests(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path().join("requests")).unwrap();
        let mut paths = entries.map(|entry| entry.unwrap().path()).filter(|path| !path.ends_with(".")).collect::<Vec<_>>();
        paths.retain(|path| !path.file_name().unwrap().to_string_lossy().starts_with('.'));
        paths.sort();
        paths.iter().map(|path| String::from_utf8(std::fs::read(path).unwrap()).unwrap()).collect()
    }

    /// What became of the connections so far, once there are this many.
    pub fn totals(&self, count: usize) -> Vec<Result<Totals, String>> {
        let deadline = Instant::now() + PATIENCE;
        while self.done.lock().unwrap().len() < count {
            assert!(Instant::now() < deadline, "only {:?} ended", self.done.lock().unwrap());
            std::thread::sleep(Duration::from_millis(5));
        }
        self.done.lock().unwrap().clone()
    }

    pub fn placeholder(&self, index: usize) -> &str {
        &self.secrets[index].placeholder
    }

    /// A connection as a client in the sandbox makes it.
    pub fn connect(&self) -> StreamOwned<ClientConnection, TcpStream> {
        self.connect_as(HOST)
    }

    pub fn connect_as(&self, name: &str) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(self.certificate_pem.as_bytes()).map(Result::unwrap));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let connection = ClientConnection::new(Arc::new(config), ServerName::try_from(name.to_owned()).unwrap()).unwrap();
        StreamOwned::new(connection, self.connect_plain())
    }

    pub fn connect_plain(&self) -> TcpStream {
        let stream = TcpStream::connect(self.relay).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Sends these bytes and reads to the end.
    pub fn talk(&self, text: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // A relay that refuses may be gone before all is written.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    /// A program of the sandbox: told to trust the bundle, and nothing else of this process' environment.
    pub fn program(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.path());
        command.envs(whatif_inject::trust::variables(&self.directory.path().join("bundle.pem")));
        command
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Runs a program to its end: whether it succeeded, and what it said.
pub fn run(command: &mut Command) -> (bool, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

/// Whether a client is there to be tested with. Where everything must be tested, it has to be.
pub fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    assert!(found || std::env::var_os("CI").is_none(), "{program} is not installed, and CI skips nothing");
    if !found {
        let _ = writeln!(std::io::stderr(), "SKIPPED: {program} is not installed");
    }
    found
}

/// The end of a connection that has the form of the supervisor's.
struct Front {
    injector: Injector,
    to: Destination,
    server: SocketAddr,
    denied: &'static str,
    done: Arc<Mutex<Vec<Result<Totals, String>>>>,
}

impl Front {
    fn serve(self, listener: std::net::TcpListener) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            listener.set_nonblocking(true).unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let front = Arc::new(self);
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let front = Arc::clone(&front);
                tokio::spawn(async move {
                    let outcome = front.relay(client).await.map_err(|error| error.to_string());
                    front.done.lock().unwrap().push(outcome);
                });
            }
        });
    }

    async fn relay(&self, client: tokio::net::TcpStream) -> std::io::Result<Totals> {
        use tokio::io::AsyncReadExt as _;
        let mut client = client;
        let mut already_read = Vec::new();
        while self.to.transport == Transport::Tls && tls::parse(&already_read) == TlsState::NeedMore {
            if client.read_buf(&mut already_read).await? == 0 {
                break;
            }
        }
        let server = tokio::net::TcpStream::connect(self.server).await?;
        let judge = |head: &whatif_netpolicy::http::Head| match head.target.path() {
            Some(path) if path == self.denied => Err(format!("{path} is denied")),
            _ => Ok(()),
        };
        self.injector.relay(client, already_read, &self.to, server, judge).await
    }
}

fn start_server(directory: &Path, requests: &Path, plan: &Plan, transport: Transport) -> (Child, u16) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stage/server.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(requests).stdin(Stdio::null()).stdout(Stdio::piped());
    if transport == Transport::Tls {
        command.arg(directory.join("server.pem")).arg(directory.join("server.key"));
    }
    if plan.is_old {
        command.arg("old");
    }
    let mut server = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (server, line.trim().parse().unwrap())
}

/// Makes an authority and a server's certificate from it; the authority's certificate.
fn certify(directory: &Path, name: &str) -> String {
    let root_key = KeyPair::generate().unwrap();
    let mut root = CertificateParams::default();
    root.distinguished_name.push(DnType::CommonName, "real authority of the test");
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root_pem = pem("CERTIFICATE", root.self_signed(&root_key).unwrap().der());
    let issuer = Issuer::new(root, root_key);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    std::fs::write(directory.join("server.pem"), pem("CERTIFICATE", certificate.der())).unwrap();
    std::fs::write(directory.join("server.key"), pem("PRIVATE KEY", &key.serialize_der())).unwrap();
    root_pem
}

fn pem(label: &str, der: &[u8]) -> String {
    let encoded = BASE64_STANDARD.encode(der);
    let lines = encoded.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line) + "\n").collect::<String>();
    format!("-----BEGIN {label}-----\n{lines}-----END {label}-----\n")
}
