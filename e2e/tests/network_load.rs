//! Attack group NW-13: what the processes inside can make the supervisor use of the host's processors and memory.

use std::process::{Command, Stdio};
use std::time::Instant;

use whatif_e2e::outside::{Outside, PRELUDE, PUBLIC, PUBLIC_2};
use whatif_e2e::{World, eventually, needs, outside_as_root_and_user};

outside_as_root_and_user!(
    it_uses_no_more_processor_time_than_the_sandbox_may,
    handshakes_are_paced,
    unfinished_heads_take_no_more_memory_than_the_sandbox_has,
    the_buffers_of_many_connections_are_small,
);

/// Python with `flood(host, address, seconds)`, which sends the same TLS hello in one new connection after another and says how many there
/// were, and `requests(host, address, seconds)`, which sends requests over one connection as fast as they are taken.
const FLOOD: &str = r#"
import collections, select, ssl
def client_hello(host):
    written = ssl.MemoryBIO()
    try: ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), written, server_hostname=host).do_handshake()
    except ssl.SSLWantReadError: pass
    return written.read()
def flood(host, address, seconds):
    said, end = client_hello(host), time.time() + seconds
    waiting, count = collections.deque(), 0
    while time.time() < end:
        s = socket.socket()
        s.settimeout(1)
        try:
            s.connect((address, 443)); s.sendall(said); count += 1
        except OSError: pass
        waiting.append(s)
        if len(waiting) > 64: waiting.popleft().close()
    return count
def requests(host, address, seconds):
    s, end = socket.create_connection((address, 80), 10), time.time() + seconds
    s.setblocking(False)
    many, count = f'GET / HTTP/1.1\r\nHost: {host}\r\n\r\n'.encode() * 1000, 0
    while time.time() < end:
        select.select([s], [s], [], 0.1)
        try: count += s.send(many)
        except BlockingIOError: pass
        try: s.recv(1 << 20)
        except BlockingIOError: pass
    return count
"#;

fn with_secret(w: &World, name: &str, flags: &[&str]) {
    let token = w.write(w.home.join("token"), "canary-5eed-secret\n");
    let secret = format!("TOKEN=@{}", token.display());
    let common = ["new", name, "--secret", &secret, "--for", "api.test", "--net", "allow=api.test,shop.test,shop.test:7000"];
    w.whatif(common).args(flags).go().ok();
}

fn names_and_servers(o: &Outside) -> whatif_e2e::outside::Server {
    o.name("api.test", &[PUBLIC_2]);
    o.name("shop.test", &[PUBLIC]);
    o.http(PUBLIC, 80);
    // It never finishes a handshake.
    o.http(PUBLIC_2, 443)
}

/// Seconds of a processor.
fn processor_time(pid: i32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("what follows the name").split(' ').collect();
    let ticks: f64 = fields[11..13].iter().map(|ticks| ticks.parse::<f64>().expect("a number")).sum();
    ticks / rustix::param::clock_ticks_per_second() as f64
}

/// The most that one process had in memory, in MiB.
fn peak_memory(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it has memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
}

/// And other connections get through meanwhile.
fn it_uses_no_more_processor_time_than_the_sandbox_may(w: &World, o: &Outside) {
    needs!(w, "python3");
    names_and_servers(o);
    with_secret(w, "busy", &["--cpus", "0.1"]);
    assert!(o.hello_in(w, "busy", "shop.test", 80).is_hello());
    let pid = o.supervisors()[0];
    let (begun, before) = (Instant::now(), processor_time(pid));
    let program = format!(
        "{PRELUDE}\n{FLOOD}
for work, host in ((flood, 'api.test'), (requests, 'shop.test')):
    address = socket.gethostbyname(host)
    if os.fork() == 0: os._exit(work(host, address, 4) < 50)
sys.exit(os.wait()[1] + os.wait()[1])"
    );
    let mut attack = w
        .whatif(["exec", "busy", "--", "/usr/bin/python3", "-c", &program])
        .streams(Stdio::null(), Stdio::null(), Stdio::inherit())
        .spawn();
    eventually("an honest connection gets through", || o.hello_in(w, "busy", "shop.test", 80).is_hello());
    assert!(attack.wait().expect("it is ours").success(), "there was no flood");
    let (took, used) = (begun.elapsed().as_secs_f64(), processor_time(pid) - before);
    // It may have saved something up before, and have done something since it looked last.
    assert!(used <= took * 0.1 + 0.2 + 0.6, "{used} s in {took} s");
    assert_eq!(o.supervisors(), [pid], "it is the same one");
}

/// A sandbox without limits as well. Each handshake costs the server something, too.
fn handshakes_are_paced(w: &World, o: &Outside) {
    needs!(w, "python3");
    let server = names_and_servers(o);
    with_secret(w, "fast", &[]);
    // A busy machine may be too slow for a flood, but not each time.
    let is_flood = (0..5).any(|_| {
        // By the name in the hello that the supervisor sends.
        let handshakes = || server.log().matches("api.test").count();
        let (begun, before) = (Instant::now(), handshakes());
        let sent = o.try_in(w, "fast", &format!("{FLOOD}\nshow(flood('api.test', socket.gethostbyname('api.test'), 2))"));
        let (took, handshakes) = (begun.elapsed().as_secs_f64(), handshakes() - before);
        let most = 128.0 + 100.0 * took + 50.0;
        assert!(handshakes > 0 && handshakes as f64 <= most, "{handshakes} of {sent} in {took} s");
        sent.as_f64() > Some(most)
    });
    assert!(is_flood, "there was no flood");
    eventually("the next one is served as usual", || o.hello_in(w, "fast", "shop.test", 80).is_hello());
}

fn unfinished_heads_take_no_more_memory_than_the_sandbox_has(w: &World, o: &Outside) {
    needs!(w, "python3");
    names_and_servers(o);
    with_secret(w, "wide", &["--memory", "64M"]);
    assert!(o.hello_in(w, "wide", "shop.test", 80).is_hello());
    let pid = o.supervisors()[0];
    let before = peak_memory(pid);
    // Several processes, because each has a limit of its own on descriptors.
    let program = r#"
reads, writes = os.pipe()
address, children = socket.gethostbyname('shop.test'), []
for _ in range(4):
    children.append(os.fork())
    if children[-1] == 0:
        held = []
        for _ in range(1000):
            try:
                held.append(socket.create_connection((address, 80), 5))
                held[-1].sendall(b'GET / HTTP/1.1\r\nHost: shop.test\r\nX: ' + b'x' * 15000)
            except OSError: pass
        os.write(writes, b'.')
        time.sleep(1000)
done = sum(len(os.read(reads, 1)) for _ in children)
time.sleep(0.5)
for child in children: os.kill(child, 9)
show(done)
"#;
    assert_eq!(o.try_in(w, "wide", program), 4);
    let most = peak_memory(pid);
    assert!(most < 64, "{before} MiB became {most} MiB");
    eventually("the next one is served as usual", || o.hello_in(w, "wide", "shop.test", 80).is_hello());
}

/// Bytes that wait in them are the kernel's, and no limit of the sandbox's counts those outside.
fn the_buffers_of_many_connections_are_small(w: &World, o: &Outside) {
    needs!(w, "python3", "ss");
    names_and_servers(o);
    let server = o.greeter(PUBLIC, 7000);
    with_secret(w, "many", &["--memory", "256M"]);
    let program = r#"
address = socket.gethostbyname('shop.test')
held = [socket.create_connection((address, 7000), 50)]
held[0].recv(1)
held += [socket.create_connection((address, 7000), 50) for _ in range(399)]
open('/tmp/all', 'w').close()
time.sleep(1000)
"#;
    w.whatif(["exec", "-d", "many", "--", "/usr/bin/python3", "-c", &format!("import socket, time\n{program}")]).go().ok();
    eventually("they are connected", || server.connections() == 400 && w.exec("many", "test -e /tmp/all").code == 0);
    let shown = Command::new("ss").args(["-tnmH", "dst", &format!("{PUBLIC}:7000")]).output().expect("it is installed");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let sizes: Vec<u64> = shown.split(['(', ',']).filter_map(|part| part.strip_prefix("rb")?.parse().ok()).collect();
    assert_eq!(sizes.len(), 400, "{shown}");
    // Without a bound of their own they would be 200 MiB.
    let together = sizes.iter().sum::<u64>() >> 20;
    assert!(together < 100, "{together} MiB");
    assert!(sizes.iter().max() >= Some(&(256 << 10)), "the first one has all it can use: {sizes:?}");
    w.whatif(["stop", "--grace", "0s", "many"]).go().ok();
}
