//! Two networks and what is between them.
//!
//! A test starts again in namespaces of its own. Outside, every address is local, so servers can be anywhere. Inside is another
//! network namespace, set up by the code that sets up sandboxes. The supervisor is a third process. Only the keeper is a
//! stand-in: a thread that answers what a supervisor asks.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::thread::UnshareFlags;
use whatif_inside::network;
use whatif_keeper::Channel;
use whatif_keeper::protocol::{Reply, Request};
use whatif_supervisor::control::ControlClient;
use whatif_types::limits::Limits;
use whatif_types::network::{Event, EventKind, Instructions, Role, Rules, Secret, UpstreamProxies, Who};

const APART: &str = "WHATIF_SUPERVISOR_APART";

/// Public to the rules, and local here.
pub const PUBLIC: &str = "25.64.113.5";
pub const PRIVATE: &str = "10.1.2.3";

pub const PATIENCE: Duration = Duration::from_secs(15);

/// What a test wants to be different.
#[derive(Default)]
pub struct Wish {
    pub allow: Vec<&'static str>,
    pub deny: Vec<&'static str>,
    pub reach: Vec<u16>,
    pub ask: bool,
    /// Somebody is announced who answers questions.
    pub is_answered: bool,
    pub upstream: UpstreamProxies,
    pub limits: Limits,
    /// What the log holds from earlier.
    pub log: Vec<u8>,
    /// Ports inside that are published.
    pub published: Vec<u16>,
    /// How many descriptors a process may have.
    pub descriptors: Option<u64>,
    pub secrets: Vec<Secret>,
    /// The authority for their hosts, as it is handed over, and what is trusted outside.
    pub authority: Option<String>,
    pub roots: Vec<PathBuf>,
    /// The keeper hears and says nothing.
    pub silent_keeper: bool,
}

pub fn allowing(rules: &[&'static str]) -> Wish {
    Wish { allow: rules.to_vec(), ..Wish::default() }
}

pub struct World {
    directory: PathBuf,
    supervisor: Child,
    inside: Inside,
    keeper: Option<OwnedFd>,
    /// The proxy's port inside.
    pub proxy: u16,
    /// Where published ports are reached outside.
    pub published: Vec<SocketAddr>,
}

/// Runs a test of this name in namespaces of its own.
pub fn in_world(name: &str, wish: Wish, test: impl FnOnce(&mut World)) {
    if std::env::var_os(APART).is_none() {
        return again_apart(name);
    }
    whatif_sys::loopback::bring_up().unwrap();
    make_everything_local();
    let mut world = World::new(wish);
    test(&mut world);
}

fn again_apart(name: &str) {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--propagation", "private"]);
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.arg("--").arg(std::env::current_exe().unwrap());
    let output = command.args([name, "--exact", "--nocapture", "--include-ignored"]).env(APART, "1").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("1 passed"), "{name} was not run: {told}");
    for line in told.lines().filter(|line| line.starts_with("MEASURED")) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// The process with the supervisor in it. Its standard input is the socket on which it is told what to do.
pub fn supervise() {
    let mut channel = Channel::new(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let instructions: Instructions = channel.receive().unwrap();
    let descriptors = std::iter::from_fn(|| channel.take_descriptor()).collect();
    whatif_supervisor::serve(instructions, descriptors, || channel.send(&"ready", &[]).unwrap()).unwrap();
}

impl World {
    fn new(wish: Wish) -> Self {
        let directory = std::env::temp_dir().join(format!("whatif-supervision-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        Self::start(directory, &wish)
    }

    fn start(directory: PathBuf, wish: &Wish) -> Self {
        let inside = Inside::new();
        let reach = wish.reach.clone();
        let listeners = inside.run(move || {
            let mut listeners = network::redirect().unwrap();
            network::listen_for_host(&mut listeners, &reach).unwrap();
            listeners
        });
        let proxy = listeners.port.unwrap();
        std::fs::write(directory.join("network.jsonl"), &wish.log).unwrap();
        let log = File::options().append(true).open(directory.join("network.jsonl")).unwrap();
        write_rules(&directory, &rules(wish));
        let control = std::os::unix::net::UnixListener::bind(directory.join("control")).unwrap();
        let folder = rustix::fs::open(&directory, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        let (keeper, theirs) = pair();
        let mut passed: Vec<(Role, OwnedFd)> =
            vec![(Role::Keeper, theirs), (Role::Control, control.into()), (Role::Log, log.into()), (Role::Directory, folder)];
        passed.extend(listeners.all);
        let mut published = Vec::new();
        for port in &wish.published {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            published.push(listener.local_addr().unwrap());
            passed.push((Role::Published { inside: *port }, listener.into()));
        }
        mount_hosts(&directory);
        if !wish.silent_keeper {
            answer_as_keeper(keeper.try_clone().unwrap(), inside.clone());
        }
        if let Some(most) = wish.descriptors {
            let limit = rustix::process::Rlimit { current: Some(most), maximum: Some(most) };
            rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
        }
        let supervisor = start_supervisor(&passed, wish);
        Self { directory, supervisor, inside, keeper: Some(keeper), proxy, published }
    }

    /// Names outside and where they lead.
    pub fn hosts(&self, names: &[(&str, &str)]) {
        let text: String = names.iter().map(|(name, address)| format!("{address} {name}\n")).collect();
        std::fs::write(self.directory.join("hosts"), format!("127.0.0.1 localhost\n{text}")).unwrap();
    }

    pub fn inside(&self) -> &Inside {
        &self.inside
    }

    pub fn supervisor(&mut self) -> &mut Child {
        &mut self.supervisor
    }

    pub fn supervisor_pid(&self) -> u32 {
        self.supervisor.id()
    }

    pub fn end_keeper(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            rustix::net::shutdown(&keeper, rustix::net::Shutdown::Both).unwrap();
        }
    }

    /// A connection inside to a name, by way of its stand-in.
    pub fn connect(&self, name: &str, port: u16) -> TcpStream {
        let address = self.resolve(name);
        self.connect_to(SocketAddr::new(address.into(), port))
    }

    pub fn connect_to(&self, address: SocketAddr) -> TcpStream {
        self.try_to_connect(address).unwrap()
    }

    pub fn try_to_connect(&self, address: SocketAddr) -> std::io::Result<TcpStream> {
        let stream = self.inside.run(move || TcpStream::connect_timeout(&address, PATIENCE))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    /// A reset, be it so quick that the connection does not even seem to be made.
    pub fn assert_denied(&self, address: SocketAddr) {
        match self.try_to_connect(address) {
            Ok(mut client) => assert_reset(&mut client),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }

    pub fn assert_name_denied(&self, name: &str, port: u16) {
        self.assert_denied(SocketAddr::new(self.resolve(name).into(), port));
    }

    pub fn connect_to_proxy(&self) -> TcpStream {
        self.connect_to(SocketAddr::from((Ipv4Addr::LOCALHOST, self.proxy)))
    }

    /// Asks for a name as a program inside would.
    pub fn resolve(&self, name: &str) -> Ipv4Addr {
        let query = query(name);
        let answer = self.inside.run(move || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.connect("192.0.2.53:53").unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.send(&query).unwrap();
            let mut answer = vec![0; 512];
            let length = socket.recv(&mut answer).unwrap();
            answer.truncate(length);
            answer
        });
        address_in(&answer).unwrap_or_else(|| panic!("no address for {name}: {answer:?}"))
    }

    pub fn events(&self) -> Vec<Event> {
        let text = std::fs::read_to_string(self.directory.join("network.jsonl")).unwrap();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// What was recorded about connections to a host, without questions for its name.
    pub fn connections_to(&self, host: &str) -> Vec<Event> {
        self.events().into_iter().filter(|event| event.host == host && event.kind != EventKind::Resolve).collect()
    }

    /// The only event of this kind about a host, now or soon.
    pub fn event(&self, host: &str, kind: EventKind) -> Event {
        eventually("an event", || self.connections_to(host).into_iter().find(|event| event.kind == kind))
    }

    pub fn control(&self) -> ControlClient {
        ControlClient::over(self.control_socket().into())
    }

    pub fn control_socket(&self) -> std::os::unix::net::UnixStream {
        std::os::unix::net::UnixStream::connect(self.directory.join("control")).unwrap()
    }

    pub fn set_rules(&self, wish: &Wish) {
        write_rules(&self.directory, &rules(wish));
        self.control().reload().unwrap();
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.supervisor.kill();
        let _ = self.supervisor.wait();
        let _ = rustix::mount::unmount("/etc/hosts", rustix::mount::UnmountFlags::DETACH);
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn rules(wish: &Wish) -> Rules {
    let read = |rules: &[&str]| rules.iter().map(|rule| rule.parse().unwrap()).collect();
    Rules { allow: read(&wish.allow), deny: read(&wish.deny), reach: wish.reach.clone(), ask: wish.ask, ..Rules::default() }
}

fn write_rules(directory: &Path, rules: &Rules) {
    let new = directory.join("network.json.new");
    std::fs::write(&new, serde_json::to_vec(rules).unwrap()).unwrap();
    std::fs::rename(new, directory.join("network.json")).unwrap();
}

fn start_supervisor(passed: &[(Role, OwnedFd)], wish: &Wish) -> Child {
    let (ours, theirs) = pair();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["supervisor_process", "--exact", "--ignored", "--nocapture"])
        .env_clear()
        .stdin(theirs)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let instructions = Instructions {
        sandbox: "tested".to_owned(),
        uid: 61234,
        limits: wish.limits.clone(),
        descriptors: passed.iter().map(|(role, _)| *role).collect(),
        is_answered: wish.is_answered,
        upstream: wish.upstream.clone(),
        secrets: wish.secrets.clone(),
        authority: wish.authority.clone(),
        roots: wish.roots.clone(),
    };
    let descriptors: Vec<BorrowedFd<'_>> = passed.iter().map(|(_, descriptor)| descriptor.as_fd()).collect();
    let mut channel = Channel::new(ours);
    channel.send(&instructions, &descriptors).unwrap();
    assert_eq!(channel.receive::<String>().unwrap(), "ready");
    child
}

/// A thread in a network namespace of its own.
#[derive(Clone)]
pub struct Inside {
    jobs: Sender<Box<dyn FnOnce() + Send>>,
}

impl Inside {
    fn new() -> Self {
        let (jobs, queue) = channel::<Box<dyn FnOnce() + Send>>();
        std::thread::spawn(move || {
            whatif_sys::namespaces::unshare(UnshareFlags::NEWNET).unwrap();
            whatif_sys::loopback::bring_up().unwrap();
            queue.into_iter().for_each(|job| job());
        });
        Self { jobs }
    }

    /// Sockets made in `job` are of the network inside.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, outcome) = channel();
        self.jobs.send(Box::new(move || done.send(job()).unwrap())).unwrap();
        outcome.recv().unwrap()
    }
}

fn answer_as_keeper(socket: OwnedFd, inside: Inside) {
    std::thread::spawn(move || {
        let mut channel = Channel::new(socket);
        while let Ok(request) = channel.receive::<Request>() {
            let answered = match request {
                Request::Who { local } => {
                    channel.send(&Reply::Who(Some(Who { pid: i32::from(local.port()), program: "tester".to_owned() })), &[])
                }
                Request::Socket => {
                    let both = inside.run(|| {
                        [AddressFamily::INET, AddressFamily::INET6]
                            .map(|family| rustix::net::socket(family, SocketType::STREAM, None))
                    });
                    let both = both.map(Result::unwrap);
                    channel.send(&Reply::Socket, &[both[0].as_fd(), both[1].as_fd()])
                }
                other => panic!("a supervisor does not ask {other:?}"),
            };
            if answered.is_err() {
                return;
            }
        }
    });
}

fn mount_hosts(directory: &Path) {
    let hosts = directory.join("hosts");
    std::fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
    rustix::mount::mount_bind(&hosts, "/etc/hosts").unwrap();
}

fn make_everything_local() {
    let socket = rustix::net::socket(AddressFamily::NETLINK, SocketType::RAW, None).unwrap();
    let mut message = Vec::new();
    // A header: length, RTM_NEWROUTE, request + acknowledge + exclusive + create, number, sender.
    message.extend(36_u32.to_ne_bytes());
    message.extend(24_u16.to_ne_bytes());
    message.extend(0x605_u16.to_ne_bytes());
    message.extend([0; 8]);
    // IPv4, everything, table "local", static, scope "host", kind "local"; by way of device 1.
    message.extend([2, 0, 0, 0, 255, 4, 254, 2, 0, 0, 0, 0]);
    message.extend(8_u16.to_ne_bytes());
    message.extend(4_u16.to_ne_bytes());
    message.extend(1_u32.to_ne_bytes());
    rustix::net::send(&socket, &message, rustix::net::SendFlags::empty()).unwrap();
    let mut answer = [0; 256];
    rustix::io::read(&socket, &mut answer).unwrap();
    assert_eq!(answer[16..20], [0; 4], "the route was not made");
}

fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap()
}

pub fn query(name: &str) -> Vec<u8> {
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(u8::try_from(label.len()).unwrap());
        query.extend(label.bytes());
    }
    query.extend([0, 0, 1, 0, 1]);
    query
}

/// The last record of an answer, if it is an IPv4 address.
pub fn address_in(answer: &[u8]) -> Option<Ipv4Addr> {
    let records = u16::from_be_bytes([answer[6], answer[7]]);
    let octets: [u8; 4] = answer[answer.len() - 4..].try_into().unwrap();
    (records > 0).then(|| Ipv4Addr::from(octets))
}

/// Waits for what has to come.
pub fn eventually<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < deadline, "did not come: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// All until the end of the stream, or the error that was the end.
pub fn read_all(stream: &mut TcpStream) -> (Vec<u8>, Option<std::io::ErrorKind>) {
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes).err().map(|error| error.kind());
    (bytes, end)
}

pub fn assert_reset(stream: &mut TcpStream) {
    let (bytes, end) = read_all(stream);
    assert_eq!((bytes.as_slice(), end), (&b""[..], Some(std::io::ErrorKind::ConnectionReset)));
}

/// Says something and takes what comes before the reset. That may be quicker than any of it.
pub fn until_reset(connected: std::io::Result<TcpStream>, said: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let end = connected.and_then(|mut stream| {
        stream.write_all(said)?;
        // Of a stream that was reset already, there is no half to end.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        stream.read_to_end(&mut bytes)
    });
    let told = String::from_utf8_lossy(&bytes);
    assert_eq!(
        end.map_err(|error| error.kind()),
        Err(std::io::ErrorKind::ConnectionReset),
        "after {} bytes: {told:.300}",
        bytes.len()
    );
    bytes
}

pub fn address(text: &str, port: u16) -> SocketAddr {
    SocketAddr::new(text.parse::<IpAddr>().unwrap(), port)
}
