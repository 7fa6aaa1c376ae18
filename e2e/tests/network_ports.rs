//! Ports between a sandbox and the host's own loopback, in both directions.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use whatif_e2e::outside::{Outside, PRELUDE, PRIVATE, PUBLIC};
use whatif_e2e::{World, eventually, outside_as_root_and_user, wait_for};

outside_as_root_and_user!(
    a_service_of_the_host_can_be_reached,
    only_that_port_can_be_reached,
    a_service_that_is_not_there_yet_can_be_reached_later,
    a_published_port_leads_inside,
    a_published_port_is_on_loopback_only,
    a_port_that_is_taken_is_said_before_anything_runs,
    a_port_that_was_taken_meanwhile_is_listed_as_taken,
    silent_connections_to_a_published_port_leave_room_for_others,
    ports_are_published_later_and_listed,
    ports_end_with_the_sandbox,
    a_port_is_free_when_a_run_has_ended,
    sandboxes_publish_the_same_port_side_by_side,
    a_server_that_is_not_there_yet_is_served_later,
);

/// Rules, but without a look at what the user's package managers use, which takes a moment.
const RULES: &str = "--net=allow=shop.test";

fn a_service_of_the_host_can_be_reached(w: &World, o: &Outside) {
    let (four, six) = (o.http("127.0.0.1", 18090), o.http("::1", 18091));
    let program = "show([hello(h, p)['got'][-6:] for h, p in (('127.0.0.1', 18090), ('localhost', 18090), ('::1', 18091), ('localhost', 18091))])";
    let flags = ["--reach", "localhost:18090", "--reach", "18091"];
    let answers = o.try_inside(w, &flags, program);
    assert_eq!(answers, serde_json::json!(["HELLO\n", "HELLO\n", "HELLO\n", "HELLO\n"]));
    assert_eq!((four.connections(), six.connections()), (2, 2));
}

fn only_that_port_can_be_reached(w: &World, o: &Outside) {
    let servers = [o.http("127.0.0.1", 18090), o.http("127.0.0.1", 18091), o.http(PRIVATE, 18090), o.http(PUBLIC, 18090)];
    let program = format!(
        "show([hello(h, p)['got'][-6:] for h, p in (('127.0.0.1', 18091), ('{PRIVATE}', 18090), ('{PUBLIC}', 18090), ('127.0.0.53', 18090))])"
    );
    let answers = o.nothing_leaves("other ports", || o.try_inside(w, &[RULES, "--reach", "localhost:18090"], &program));
    assert!(answers.as_array().expect("a list").iter().all(|a| a != "HELLO\n"), "{answers}");
    assert!(servers.iter().all(|server| server.connections() == 0));
    // It stays one's own for those without the flag, and for those without any network.
    for flags in [&[][..], &["--net", "none"]] {
        assert!(!o.hello(w, flags, "127.0.0.1", 18090).is_hello());
    }
    // Both together: the service, and nothing else.
    assert!(o.hello(w, &["--net", "none", "--reach", "localhost:18090"], "127.0.0.1", 18090).is_hello());
    assert!(!o.hello(w, &["--net", "none", "--reach", "localhost:18090"], PUBLIC, 18090).is_hello());
}

fn a_service_that_is_not_there_yet_can_be_reached_later(w: &World, o: &Outside) {
    w.whatif(["new", "early", RULES, "--reach", "localhost:18090"]).go().ok();
    let answer = o.hello_in(w, "early", "127.0.0.1", 18090);
    assert!(!answer.is_hello());
    o.http("127.0.0.1", 18090);
    assert!(o.hello_in(w, "early", "127.0.0.1", 18090).is_hello());
}

/// A server inside, in the background.
#[track_caller]
fn serve_inside(w: &World, sandbox: &str, host: &str, port: u16, says: &str) {
    let family = if host.contains(':') { "AF_INET6" } else { "AF_INET" };
    let program = format!(
        "{PRELUDE}\nserver = socket.create_server(('{host}', {port}), family=socket.{family})\nopen('/tmp/serving-{port}', 'w')\n\
         while True:\n  c, _ = server.accept()\n  c.recv(4096); c.sendall(b'{says}'); c.close()"
    );
    w.whatif(["exec", "-d", sandbox, "--", "/usr/bin/python3", "-c", &program]).go().ok();
    eventually("it serves", || w.exec(sandbox, &format!("test -e /tmp/serving-{port}")).code == 0);
}

/// What somebody outside hears at an address.
fn ask(address: &str, port: u16) -> Option<String> {
    let mut stream = TcpStream::connect((address.parse::<std::net::IpAddr>().expect("an address"), port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    stream.write_all(b"?").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn a_published_port_leads_inside(w: &World, _: &Outside) {
    w.whatif(["new", "shop", RULES, "--publish", "8080", "--publish", "9000:80", "--publish", "0:8090"]).go().ok();
    serve_inside(w, "shop", "127.0.0.1", 8080, "eighty eighty");
    serve_inside(w, "shop", "0.0.0.0", 8090, "any");
    assert_eq!(ask("127.0.0.1", 8080).as_deref(), Some("eighty eighty"));
    let listed = w.whatif(["port", "shop"]).go().ok().stdout;
    let any = listed.lines().find(|line| line.contains("8090")).expect("it is listed");
    let numbers = any.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u16>().ok());
    let free = numbers.filter(|n| *n > 1024 && *n != 8090).max().unwrap_or_else(|| panic!("no port in {any}"));
    assert_eq!(ask("127.0.0.1", free).as_deref(), Some("any"), "{listed}");
    assert!(listed.contains("9000") && listed.contains("8080"), "{listed}");
}

fn a_published_port_is_on_loopback_only(w: &World, o: &Outside) {
    w.whatif(["new", "shop", RULES, "--publish", "8080"]).go().ok();
    serve_inside(w, "shop", "127.0.0.1", 8080, "mine");
    assert_eq!(ask("127.0.0.1", 8080).as_deref(), Some("mine"));
    for address in [PUBLIC, PRIVATE, "2d00::5", "127.0.0.2"] {
        assert_eq!(ask(address, 8080), None, "{address}");
    }
    // Not even for its neighbours.
    assert!(!o.hello(w, &[], "127.0.0.1", 8080).got().contains("mine"));
    let sockets = w.outside("cat /proc/net/tcp /proc/net/tcp6").ok().stdout;
    let listening: Vec<&str> = sockets.lines().filter(|l| l.contains(":1F90 ") && l.contains(" 0A ")).collect();
    assert!(
        listening.iter().all(|l| l.contains("0100007F:1F90") || l.contains("00000000000000000000000001000000:1F90")),
        "{listening:?}"
    );
}

fn a_port_that_is_taken_is_said_before_anything_runs(w: &World, _: &Outside) {
    let _taken = TcpListener::bind("127.0.0.1:8080").expect("nobody else is here");
    let outcome = w.whatif(["run", "--publish", "8080", "--", "/bin/sh", "-c", "echo ran"]).go().fails_with_hint(2);
    assert!(outcome.stderr.contains("8080") && !outcome.stdout.contains("ran"), "{outcome:?}");
    assert!(outcome.stderr.contains("8081:8080"), "it says what to do instead: {}", outcome.stderr);
    assert_eq!(w.json(["ls"]), serde_json::json!([]), "nothing is left of it");
    w.whatif(["new", "live", RULES]).go().ok();
    w.whatif(["port", "live", "8080"]).go().fails_with_hint(2).says("8080");
    w.whatif(["run", "--rm", "--publish", "8081:8080", "--", "/bin/true"]).go().ok();
}

fn a_port_that_was_taken_meanwhile_is_listed_as_taken(w: &World, _: &Outside) {
    w.whatif(["new", "back", RULES, "--publish", "8080:80", "--publish", "9090:80"]).go().ok();
    w.whatif(["stop", "back"]).go().ok();
    let _taken = TcpListener::bind("127.0.0.1:9090").expect("it is free again");
    w.whatif(["start", "back"]).go().ok();
    let listed = w.whatif(["port", "back"]).go().ok();
    let line = |port: &str| listed.stdout.lines().find(|line| line.contains(port)).unwrap_or_default().to_owned();
    assert!(line(":9090").contains("taken") && !line(":8080").contains("taken"), "{listed:?}");
    assert!(listed.stderr.contains("port 9090 of this machine is taken"), "{listed:?}");
    let taken = serde_json::json!([{ "host": 9090, "inside": 80 }]);
    assert_eq!(w.json(["port", "back"])["taken"], taken);
    assert_eq!(w.json(["show", "back"])["taken_ports"], taken);
    assert!(w.whatif(["show", "back"]).go().ok().stdout.contains("127.0.0.1:9090: taken"));
}

/// A server that takes connections and says nothing, and clients that stay: there are only so many, and none of them has the
/// place of a connection that goes out.
fn silent_connections_to_a_published_port_leave_room_for_others(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.http(PUBLIC, 80);
    w.whatif(["new", "silent", RULES, "--publish", "8080"]).go().ok();
    let program = "import socket, time\ns = socket.create_server(('127.0.0.1', 8080), backlog=4096)\nopen('/tmp/serving', 'w')\ntime.sleep(600)";
    w.whatif(["exec", "-d", "silent", "--", "/usr/bin/python3", "-c", program]).go().ok();
    eventually("it serves", || w.exec("silent", "test -e /tmp/serving").code == 0);
    let clients = w.write(
        "clients.py",
        "
import resource, socket, time
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
kept = []
for _ in range(4200):
    try: kept.append(socket.create_connection(('127.0.0.1', 8080)))
    except OSError: pass
print('ALL THERE', flush=True)
time.sleep(600)
",
    );
    let output = w.write("clients.out", "");
    let file = std::fs::File::options().append(true).open(&output).expect("it is ours");
    let call = w.program("/usr/bin/python3").args([clients.to_str().expect("scratch paths are text")]);
    let mut clients = call.streams(std::process::Stdio::null(), file.into(), std::process::Stdio::null()).spawn();
    // Thousands of connections are not made in a moment.
    let are_there = wait_for(Duration::from_secs(240), || w.read("clients.out").contains("ALL THERE").then_some(()));
    assert!(are_there.is_some(), "the clients do not get on");
    let hello = o.hello_in(w, "silent", "shop.test", 80).is_hello();
    let _ = clients.kill();
    let _ = clients.wait();
    assert!(hello, "what goes out has places of its own");
}

fn ports_are_published_later_and_listed(w: &World, _: &Outside) {
    w.whatif(["new", "later", RULES]).go().ok();
    serve_inside(w, "later", "127.0.0.1", 8080, "now");
    assert_eq!(ask("127.0.0.1", 8080), None);
    w.whatif(["port", "later", "8080"]).go().ok();
    w.whatif(["port", "later", "9090:8080"]).go().ok();
    assert_eq!(ask("127.0.0.1", 8080).as_deref(), Some("now"));
    assert_eq!(ask("127.0.0.1", 9090).as_deref(), Some("now"));
    let listed = w.whatif(["port", "later"]).go().ok().stdout;
    assert!(listed.contains("127.0.0.1:8080") && listed.contains("127.0.0.1:9090"), "{listed}");
    let json = w.json(["port", "later"]).to_string();
    assert!(json.contains("8080") && json.contains("9090"), "{json}");
    w.whatif(["port", "nobody"]).go().fails_with_hint(125);
}

fn ports_end_with_the_sandbox(w: &World, o: &Outside) {
    w.whatif(["new", "ends", RULES, "--publish", "8080"]).go().ok();
    serve_inside(w, "ends", "127.0.0.1", 8080, "here");
    assert_eq!(ask("127.0.0.1", 8080).as_deref(), Some("here"));
    w.whatif(["stop", "ends"]).go().ok();
    eventually("the port is free", || TcpListener::bind("127.0.0.1:8080").is_ok());
    w.whatif(["start", "ends"]).go().ok();
    serve_inside(w, "ends", "127.0.0.1", 8080, "again");
    assert_eq!(ask("127.0.0.1", 8080).as_deref(), Some("again"), "what was published stays so");
    w.whatif(["rm", "--yes", "ends"]).go().ok();
    eventually("the port is free", || TcpListener::bind("127.0.0.1:8080").is_ok());
    eventually("no supervisor stays", || o.supervisors().is_empty());
}

/// The same command again, at once.
fn a_port_is_free_when_a_run_has_ended(w: &World, o: &Outside) {
    for _ in 0..10 {
        w.whatif(["run", "--rm", "-q", RULES, "--publish", "8080", "--", "/bin/true"]).go().ok();
        assert_eq!(o.supervisors(), Vec::<i32>::new());
    }
}

fn sandboxes_publish_the_same_port_side_by_side(w: &World, _: &Outside) {
    for (name, host) in [("one", "8001"), ("two", "8002")] {
        w.whatif(["new", name, RULES, "--publish", &format!("{host}:8080")]).go().ok();
        serve_inside(w, name, "127.0.0.1", 8080, name);
    }
    assert_eq!([8001, 8002].map(|port| ask("127.0.0.1", port)), [Some("one".to_owned()), Some("two".to_owned())]);
}

fn a_server_that_is_not_there_yet_is_served_later(w: &World, _: &Outside) {
    w.whatif(["new", "slow", RULES, "--publish", "8080"]).go().ok();
    assert!(ask("127.0.0.1", 8080).is_none_or(|answer| answer.is_empty()));
    let told = w.whatif(["net", "slow"]).go().ok().stdout;
    assert!(told.contains("nothing in the sandbox listens on this published port"), "{told}");
    serve_inside(w, "slow", "127.0.0.1", 8080, "ready");
    assert_eq!(ask("127.0.0.1", 8080).as_deref(), Some("ready"));
}
