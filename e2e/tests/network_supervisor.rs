//! Attack group NW: the process that lets things through. Without it, nothing gets through.

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use whatif_e2e::outside::{DOCUMENTED, Outside, PRELUDE, PUBLIC, PUBLIC_2};
use whatif_e2e::{Random, World, eventually, outside_as_root_and_user, wait_for};

outside_as_root_and_user!(
    there_is_none_until_it_is_needed,
    it_is_there_for_the_very_first_call_of_a_program,
    none_is_left_behind,
    killed_in_mid_transfer_it_takes_the_connection_along,
    a_foreground_run_gets_another_one,
    killed_at_random_it_never_lets_anything_else_through,
    held_still_it_lets_nothing_through,
    it_ends_with_the_keeper,
    it_ends_when_the_caller_is_killed,
    a_thousand_connections_at_once,
    those_who_say_nothing_do_not_stop_others,
    it_gives_back_what_it_opened,
    it_has_a_uid_that_nobody_else_has,
);

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn signal(pids: &[i32], signal: Signal) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        let _ = kill_process(pid, signal);
    }
}

/// Starting one costs time, which most commands need not spend.
fn there_is_none_until_it_is_needed(w: &World, o: &Outside) {
    w.whatif(["new", "idle", "--net", "allow=shop.test"]).go().ok();
    w.exec("idle", "true").ok();
    assert_eq!(o.supervisors(), Vec::<i32>::new());
    o.hello_in(w, "idle", "evil.test", 80);
    assert_eq!(o.supervisors().len(), 1);
    o.hello_in(w, "idle", "evil.test", 80);
    assert_eq!(o.supervisors().len(), 1, "one is enough");
}

/// A program may connect before whoever runs it has heard that it runs.
fn it_is_there_for_the_very_first_call_of_a_program(w: &World, o: &Outside) {
    o.http(DOCUMENTED, 80);
    let program = format!(
        "exec 3<>/dev/tcp/{DOCUMENTED}/80; printf 'GET / HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n' >&3; read -r -t 10 line <&3; echo $line"
    );
    for round in 0..number("WHATIF_RACES", 25) {
        let net = format!("allow={DOCUMENTED}");
        let outcome = w.whatif(["run", "-q", "--rm", "--net", &net, "--", "/bin/bash", "-c", &program]).go();
        assert!(outcome.stdout.contains("200"), "round {round}: {} {}", outcome.stdout, outcome.stderr);
    }
}

/// Of root; those inside and other sandboxes' supervisors are other users.
fn it_has_a_uid_that_nobody_else_has(w: &World, o: &Outside) {
    let mut uids: Vec<u32> = ["one", "two"]
        .into_iter()
        .map(|name| {
            w.whatif(["new", name, "--net", "allow=shop.test"]).go().ok();
            let before = o.supervisors();
            o.hello_in(w, name, "evil.test", 80);
            let pid = o.supervisors().into_iter().find(|pid| !before.contains(pid)).expect("it was needed");
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
            let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")).and_then(|ids| ids.split_whitespace().next());
            uid.and_then(|uid| uid.parse().ok()).expect("a number")
        })
        .collect();
    if !w.is_root() {
        assert_eq!(uids, [w.uid(); 2]);
        return;
    }
    uids.dedup();
    assert!(uids.len() == 2 && uids.iter().all(|uid| *uid >= 0x7FFF_0000), "{uids:?}");
}

fn none_is_left_behind(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.http(PUBLIC, 80);
    let before = w.inventory();
    let net = ["--net", "allow=shop.test"];
    assert!(o.hello(w, &net, "shop.test", 80).is_hello());
    // A run that leaves nothing does not wait for what it puts away.
    eventually("when a run ends, it ends", || o.supervisors().is_empty());
    for end in [&["stop", "life"][..], &["rm", "--yes", "life"]] {
        if w.whatif(["show", "life"]).go().code != 0 {
            w.whatif(["new", "life"]).args(net).go().ok();
        } else {
            w.whatif(["start", "life"]).go().ok();
        }
        assert!(o.hello_in(w, "life", "shop.test", 80).is_hello());
        assert_eq!(o.supervisors().len(), 1);
        w.whatif(end.iter().copied()).go().ok();
        eventually(&format!("it ends after {end:?}"), || o.supervisors().is_empty());
    }
    w.assert_inventory_is(&before, "a life with a network");
}

/// NW-13.
fn killed_in_mid_transfer_it_takes_the_connection_along(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.http(PUBLIC, 80);
    o.fountain(PUBLIC, 7000);
    w.whatif(["new", "mid", "--net", "allow=shop.test:7000,shop.test"]).go().ok();
    let program = format!(
        "{PRELUDE}\ns = socket.create_connection(('shop.test', 7000), 20); s.settimeout(20)\nn = len(s.recv(100))\nopen('/tmp/flows', 'w')\n\
         try:\n  while (read := s.recv(65536)): n += len(read)\nexcept ConnectionError: pass\nopen('/tmp/ended', 'w').write(str(n))"
    );
    w.whatif(["exec", "-d", "mid", "--", "/usr/bin/python3", "-c", &program]).go().ok();
    eventually("it flows", || w.exec("mid", "test -e /tmp/flows").code == 0);
    // Whoever still looks whether somebody is needed would be the next one.
    eventually("nobody else is at it", || !w.processes().iter().any(|process| process.contains(" attend ")));
    let running = o.supervisors();
    assert_eq!(running.len(), 1);
    signal(&running, Signal::KILL);
    eventually("that is seen", || w.json(["net", "mid"])["supervisor"] == "gone");
    w.whatif(["net", "mid"]).go().ok().says("its supervisor is gone");
    // The next command has the network again; what was open is not.
    eventually("it broke", || w.exec("mid", "test -e /tmp/ended").code == 0);
    assert!(o.hello_in(w, "mid", "shop.test", 80).is_hello());
    assert!(!o.hello_in(w, "mid", "evil.test", 80).is_hello());
}

/// NW-13: whoever waits in the foreground notices nothing but a broken connection.
fn a_foreground_run_gets_another_one(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    let server = o.http(PUBLIC, 80);
    let denied = o.http(DOCUMENTED, 80);
    let program = format!(
        "{PRELUDE}\nfor round in range(400):\n  a = 'HELLO' in hello('shop.test', 80, seconds=5)['got']\n  hello('{DOCUMENTED}', 80, seconds=5)\n  \
         print(round, a, flush=True)\n  time.sleep(0.01)\n  if os.path.exists('{}/enough'): break",
        w.project.display()
    );
    let output = w.write("output", "");
    let out = || File::options().append(true).open(&output).expect("it is ours");
    let call = w.whatif(["run", "--rm", "-q", "--net", "allow=shop.test", "--", "/usr/bin/python3", "-c", &program]);
    let mut run = call.streams(Stdio::null(), out().into(), out().into()).spawn();
    for _ in 0..3 {
        let seen = w.read("output").matches("True").count();
        eventually("it works", || w.read("output").matches("True").count() > seen + 2);
        signal(&o.supervisors(), Signal::KILL);
    }
    let seen = w.read("output").matches("True").count();
    eventually("it works again", || w.read("output").matches("True").count() > seen + 2);
    let _ = run.kill();
    let _ = run.wait();
    w.whatif(["rm", "--all", "--yes"]).go().ok();
    assert_eq!(denied.connections(), 0);
    assert!(server.connections() > 10);
    eventually("none is left", || o.supervisors().is_empty());
}

/// NW-13: at fifty moments, under load, and never a packet to anybody else.
fn killed_at_random_it_never_lets_anything_else_through(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.name("evil.test", &[PUBLIC_2]);
    let allowed = o.http(PUBLIC, 80);
    let denied = [o.http(PUBLIC_2, 80), o.http(DOCUMENTED, 80), o.udp(PUBLIC_2, 443), o.http("127.0.0.1", 80)];
    w.whatif(["new", "storm", "--net", "allow=shop.test"]).go().ok();
    let program = format!(
        r#"{PRELUDE}
import threading
def load(host, port):
    while True: hello(host, port, seconds=2)
def datagrams():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    while True:
        try: s.sendto(b'canary', ('{PUBLIC_2}', 443))
        except OSError: time.sleep(0.001)
for host in ('shop.test', 'shop.test', 'evil.test', '{PUBLIC_2}', '{DOCUMENTED}', '127.0.0.1'):
    threading.Thread(target=load, args=(host, 80), daemon=True).start()
threading.Thread(target=datagrams, daemon=True).start()
time.sleep(3600)
"#
    );
    let mut load = w
        .whatif(["exec", "storm", "--", "/usr/bin/python3", "-c", &program])
        .streams(Stdio::null(), Stdio::null(), Stdio::null())
        .spawn();
    let mut random = Random::from(number("WHATIF_SEED", 4711));
    for _ in 0..number("WHATIF_KILLS", 50) {
        let running = wait_for(Duration::from_secs(60), || Some(o.supervisors()).filter(|all| !all.is_empty()));
        std::thread::sleep(Duration::from_millis(random.below(40) as u64));
        signal(&running.expect("another one is started"), Signal::KILL);
    }
    let seen = allowed.connections();
    eventually("it works in the end", || allowed.connections() > seen);
    let _ = load.kill();
    let _ = load.wait();
    assert_eq!(denied.map(|server| server.connections()), [0; 4]);
    assert!(!o.was_asked("evil"), "{:?}", o.asked());
}

/// NW-13: a supervisor that hangs.
fn held_still_it_lets_nothing_through(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.http(PUBLIC, 80);
    w.whatif(["new", "still", "--net", "allow=shop.test"]).go().ok();
    assert!(o.hello_in(w, "still", "shop.test", 80).is_hello());
    // How the connection ends is packets, too.
    eventually("it is over", || o.is_quiet());
    let running = o.supervisors();
    signal(&running, Signal::STOP);
    let program = format!("show([hello('{PUBLIC}', 80, seconds=1), hello('{DOCUMENTED}', 80, seconds=1)])");
    let answers = o.nothing_leaves("a supervisor held still", || o.try_in(w, "still", &program));
    assert!(!answers.to_string().contains("HELLO"), "{answers}");
    signal(&running, Signal::CONT);
    assert!(o.hello_in(w, "still", "shop.test", 80).is_hello());
    signal(&running, Signal::STOP);
    w.whatif(["rm", "--yes", "still"]).go().ok();
    eventually("even then it goes", || o.supervisors().is_empty());
}

fn it_ends_with_the_keeper(w: &World, o: &Outside) {
    w.whatif(["new", "orphan", "--net", "allow=shop.test", "--publish", "8080"]).go().ok();
    o.hello_in(w, "orphan", "evil.test", 80);
    assert_eq!(o.supervisors().len(), 1);
    signal(&[w.keeper_pid("orphan")], Signal::KILL);
    eventually("it follows", || o.supervisors().is_empty());
    eventually("its ports are free", || std::net::TcpListener::bind("127.0.0.1:8080").is_ok());
}

fn it_ends_when_the_caller_is_killed(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.http(PUBLIC, 80);
    let program = "hello('shop.test', 80); open('/tmp/x', 'w'); time.sleep(60)";
    let mut run =
        o.call_inside(w, &["--net", "allow=shop.test"], program).streams(Stdio::null(), Stdio::null(), Stdio::null()).spawn();
    eventually("it is needed", || o.supervisors().len() == 1);
    // As the ordinary user there is a program in front of it, which is the same process.
    run.kill().expect("it runs");
    run.wait().expect("it is our child");
    w.whatif(["rm", "--all", "--yes"]).go().ok();
    eventually("it follows", || o.supervisors().is_empty());
}

fn a_thousand_connections_at_once(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    let server = o.greeter(PUBLIC, 7000);
    let program = r#"
import resource, select
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
address = socket.gethostbyname('shop.test')
poll, all, got = select.poll(), {}, {}
for n in range(1000):
    s = socket.socket(); s.setblocking(False); s.connect_ex((address, 7000))
    all[s.fileno()] = s; got[s.fileno()] = b''; poll.register(s, select.POLLOUT | select.POLLIN)
end, done = time.time() + 100, set()
while len(done) < 1000 and time.time() < end:
    for fd, what in poll.poll(1000):
        try:
            if what & select.POLLOUT: all[fd].send(b'%06d\n' % fd); poll.modify(fd, select.POLLIN)
            elif what & select.POLLIN:
                read = all[fd].recv(100)
                got[fd] += read
                if b'welcome\r\n%06d' % fd in got[fd]: done.add(fd)
                if not read: poll.unregister(fd)
            else: poll.unregister(fd)
        except OSError as e: poll.unregister(fd)
show(len(done))
"#;
    assert_eq!(o.try_inside(w, &["--net", "allow=shop.test:7000"], program), 1000);
    assert_eq!(server.connections(), 1000);
}

fn those_who_say_nothing_do_not_stop_others(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.http(PUBLIC, 80);
    let program = r#"
silent = [socket.create_connection(('shop.test', 80), 10) for _ in range(300)]
halves = [socket.create_connection(('shop.test', 443), 10) for _ in range(100)]
for s in halves: s.sendall(b'\x16\x03\x01')
begun = time.time()
answer = hello('shop.test', 80, seconds=20)
# They may say nothing for 30 seconds.
show([answer['got'][-6:], time.time() - begun < 25])
"#;
    assert_eq!(o.try_inside(w, &["--net", "allow=shop.test"], program), serde_json::json!(["HELLO\n", true]));
}

/// Hundreds of connections of all kinds later, it holds no more descriptors than before.
fn it_gives_back_what_it_opened(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.http(PUBLIC, 80);
    w.whatif(["new", "tidy", "--net", "allow=shop.test"]).go().ok();
    assert!(o.hello_in(w, "tidy", "shop.test", 80).is_hello());
    let pid = o.supervisors()[0];
    let open = || std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    eventually("it is at rest", || o.decisions(w, "tidy").iter().all(|decision| decision["is_open"] == false));
    let before = open();
    let program = r#"
for n in range(100):
    hello('shop.test', 80); hello('evil.test', 80); hello('25.64.113.5', 80)
    socket.create_connection(('shop.test', 80)).close()
    socket.create_connection(('shop.test', 443)).close()
    talk('shop.test', 80, b'nonsense\r\n\r\n', until=b'\0')
show(True)
"#;
    assert_eq!(o.try_in(w, "tidy", program), true);
    eventually("all is given back", || open() <= before + 1);
    assert_eq!(o.supervisors(), [pid], "it is the same one");
}
