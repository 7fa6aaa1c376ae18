//! What each kind of network lets through, and how rules are written.

use whatif_e2e::outside::{
    Answer, DOCUMENTED, DOCUMENTED_2, DOCUMENTED_V6, METADATA, Outside, PRELUDE, PRIVATE, PUBLIC, PUBLIC_2, PUBLIC_V6, Server,
};
use whatif_e2e::{World, outside_as_root_and_user};

outside_as_root_and_user!(
    the_outside_works_without_whatif,
    host_is_the_hosts_network,
    none_is_no_network,
    nothing_but_registries_is_reachable_unless_asked_for,
    a_name_is_allowed_on_every_port,
    names_below_a_name_are_allowed_by_a_star,
    an_address_is_allowed,
    a_port_narrows_a_rule,
    a_network_is_allowed,
    all_of_the_internet_is_not_what_is_private,
    addresses_of_the_sixth_version_are_allowed,
    rules_add_up,
    local_is_what_is_private_and_no_more,
    what_is_no_network_is_refused_before_anything_runs,
);

/// Whoever trusts a test that says "denied" wants to know that it could have said otherwise.
fn the_outside_works_without_whatif(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    let servers = [o.http(PUBLIC, 80), o.http(DOCUMENTED, 18090), o.http(METADATA, 80)];
    let script = format!("{PRELUDE}\nshow([hello('shop.test', 80), hello('{DOCUMENTED}', 18090), hello('{METADATA}', 80)])");
    let answers = w.program("/usr/bin/python3").args(["-c", &script]).go().ok().json();
    let answers = answers.as_array().expect("a list").clone();
    assert!(answers.iter().all(|answer| Answer(answer.clone()).is_hello()), "{answers:?}");
    assert!(servers.iter().all(|s| s.connections() == 1 && s.log().starts_with("GET / HTTP/1.1\r\n")));
    assert!(o.asked().contains(&"A shop.test".to_owned()), "{:?}", o.asked());
}

fn host_is_the_hosts_network(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    let (server, local) = (o.http(PUBLIC, 80), o.http("127.0.0.1", 18090));
    assert!(o.hello(w, &["--net", "host"], "shop.test", 80).is_hello());
    assert!(o.hello(w, &["--net", "host"], "127.0.0.1", 18090).is_hello());
    assert_eq!((server.connections(), local.connections()), (1, 1));
}

fn none_is_no_network(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    let servers = everywhere(o, 18090);
    o.nothing_leaves("--net none", || {
        for host in HOSTS.iter().chain(&["shop.test"]) {
            assert_eq!(o.hello(w, &["--net", "none"], host, 18090).got(), "", "{host}");
        }
    });
    assert!(servers.iter().all(|server| server.connections() == 0));
}

const HOSTS: [&str; 7] = ["127.0.0.1", "::1", PUBLIC, DOCUMENTED, METADATA, PRIVATE, DOCUMENTED_V6];

fn everywhere(o: &Outside, port: u16) -> Vec<Server> {
    HOSTS.iter().map(|host| o.http(host, port)).collect()
}

/// The ordinary case: a project without a word about the network.
fn nothing_but_registries_is_reachable_unless_asked_for(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    let servers: Vec<Server> = [everywhere(o, 18090), everywhere(o, 80)].concat();
    let program = format!("show([hello(h, p) for h in {HOSTS:?} + ['shop.test'] for p in (80, 18090)])");
    for flags in [&[][..], &["--net", "registries"]] {
        let answers = o.nothing_leaves("by default", || o.try_inside(w, flags, &program));
        let answers = answers.as_array().expect("a list").clone();
        assert_eq!(answers.len(), 2 * (HOSTS.len() + 1));
        assert!(answers.iter().all(|a| !Answer(a.clone()).is_hello()), "{answers:?}");
    }
    assert!(servers.iter().all(|server| server.connections() == 0));
}

fn a_name_is_allowed_on_every_port(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.name("other.test", &[PUBLIC]);
    let (web, more) = (o.http(PUBLIC, 80), o.http(PUBLIC, 8080));
    let program = format!(
        "show([hello('shop.test', 80), hello('SHOP.test.', 80, named='shop.test'), hello('shop.test', 8080), \
         hello('other.test', 80), hello('{PUBLIC}', 80), hello('{PUBLIC}', 80, named='shop.test')])"
    );
    assert_eq!(hellos(w, o, &["--net", "allow=shop.test"], &program), [true, true, true, false, false, false]);
    assert_eq!((web.connections(), more.connections()), (2, 1));
    assert!(!o.was_asked("other"), "{:?}", o.asked());
}

fn serve(o: &Outside, places: &[(&str, u16)]) {
    for (address, port) in places {
        o.http(address, *port);
    }
}

/// Which of several attempts were answered by the server meant.
#[track_caller]
fn hellos(w: &World, o: &Outside, flags: &[&str], program: &str) -> Vec<bool> {
    let answers = o.try_inside(w, flags, program);
    answers.as_array().expect("a list").iter().map(|a| Answer(a.clone()).is_hello()).collect()
}

/// NW-06: a star stands for whole labels.
fn names_below_a_name_are_allowed_by_a_star(w: &World, o: &Outside) {
    let names = ["a.shop.test", "a.b.shop.test", "shop.test", "notshop.test", "shop.test.evil.test", "a-shop.test", "test"];
    names.iter().for_each(|name| o.name(name, &[PUBLIC]));
    o.http(PUBLIC, 80);
    let program = format!("show([hello(n, 80) for n in {names:?}])");
    let answered = hellos(w, o, &["--net", "allow=*.shop.test"], &program);
    assert_eq!(answered, [true, true, false, false, false, false, false]);
    let left: Vec<String> = o.asked().into_iter().filter(|q| !q.ends_with(".shop.test")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Whoever names an address means what is there, on every port.
fn an_address_is_allowed(w: &World, o: &Outside) {
    let allowed = [o.http(DOCUMENTED, 18090), o.http(DOCUMENTED, 80)];
    let denied = [o.http(DOCUMENTED_2, 18090), o.http(METADATA, 18090), o.http("127.0.0.1", 18090)];
    let program = format!(
        "show([hello('{DOCUMENTED}', 18090), hello('{DOCUMENTED}', 80), hello('{DOCUMENTED}', 80, named='any.test'), \
         hello('{DOCUMENTED_2}', 18090), hello('{METADATA}', 18090), hello('127.0.0.1', 18090)])"
    );
    assert_eq!(hellos(w, o, &["--net", "allow=203.0.113.5"], &program), [true, true, true, false, false, false]);
    assert_eq!(allowed.map(|s| s.connections()), [1, 2]);
    assert_eq!(denied.map(|s| s.connections()), [0, 0, 0]);
}

fn a_port_narrows_a_rule(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    serve(o, &[(DOCUMENTED, 80), (DOCUMENTED, 8080), (PUBLIC, 80), (PUBLIC, 8080), (PUBLIC, 9090)]);
    let address = format!("show([hello('{DOCUMENTED}', p) for p in (80, 8080)])");
    assert_eq!(hellos(w, o, &["--net", "allow=203.0.113.5:8080"], &address), [false, true]);
    let name = "show([hello('shop.test', p) for p in (80, 8080, 9090)])";
    assert_eq!(hellos(w, o, &["--net", "allow=shop.test:8080"], name), [false, true, false]);
    assert_eq!(hellos(w, o, &["--net", "allow=shop.test:*"], name), [true, true, true]);
}

fn a_network_is_allowed(w: &World, o: &Outside) {
    let hosts = [DOCUMENTED, DOCUMENTED_2, "198.51.100.7", PRIVATE, METADATA];
    serve(o, &hosts.map(|host| (host, 18090)));
    let program = format!("show([hello(h, 18090) for h in {hosts:?}])");
    assert_eq!(hellos(w, o, &["--net", "allow=203.0.113.0/24:*"], &program), [true, true, false, false, false]);
    assert_eq!(hellos(w, o, &["--net", "allow=10.0.0.0/8:18090"], &program), [false, false, false, true, false]);
    // A metadata service has to be named itself.
    assert_eq!(hellos(w, o, &["--net", "allow=169.254.0.0/16:*"], &program), [false; 5]);
    assert_eq!(hellos(w, o, &["--net", "allow=169.254.169.254:18090"], &program), [false, false, false, false, true]);
}

fn all_of_the_internet_is_not_what_is_private(w: &World, o: &Outside) {
    let hosts = [PUBLIC, PUBLIC_V6, PRIVATE, METADATA, "192.168.7.7", "100.100.100.200", "127.0.0.1", "::1"];
    let servers = hosts.map(|host| o.http(host, 80));
    let program = format!("show([hello(h, 80) for h in {hosts:?}])");
    let answered = hellos(w, o, &["--net", "allow=0.0.0.0/0,::/0"], &program);
    assert_eq!(answered, [true, true, false, false, false, false, false, false]);
    assert_eq!(servers.map(|s| s.connections()), [1, 1, 0, 0, 0, 0, 0, 0]);
}

fn addresses_of_the_sixth_version_are_allowed(w: &World, o: &Outside) {
    o.name("six.test", &[PUBLIC_V6]);
    o.name("both.test", &[PUBLIC_V6, PUBLIC]);
    serve(o, &[(DOCUMENTED_V6, 80), (DOCUMENTED_V6, 8080), (PUBLIC_V6, 80), (PUBLIC, 80)]);
    let literal = format!("show([hello('{DOCUMENTED_V6}', p) for p in (80, 8080)])");
    assert_eq!(hellos(w, o, &["--net", "allow=2001:db8::5"], &literal), [true, true]);
    assert_eq!(hellos(w, o, &["--net", "allow=[2001:db8::5]:8080"], &literal), [false, true]);
    assert_eq!(hellos(w, o, &["--net", "allow=[2001:db8::/32]:80"], &literal), [true, false]);
    let names = "show([hello(n, 80) for n in ('six.test', 'both.test')])";
    assert_eq!(hellos(w, o, &["--net", "allow=six.test,both.test"], names), [true, true]);
}

fn rules_add_up(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.name("bank.test", &[PUBLIC_2]);
    serve(o, &[(PUBLIC, 80), (PUBLIC_2, 80), (DOCUMENTED, 80)]);
    let program = format!("show([hello(h, 80) for h in ('shop.test', 'bank.test', '{DOCUMENTED}')])");
    let union = ["--net", "registries", "--net", "allow=shop.test,bank.test", "--net", "allow=203.0.113.5"];
    assert_eq!(hellos(w, o, &union, &program), [true, true, true]);
    assert_eq!(hellos(w, o, &["--net", "allow=shop.test,bank.test"], &program), [true, true, false]);
}

fn local_is_what_is_private_and_no_more(w: &World, o: &Outside) {
    let hosts = [PRIVATE, "192.168.7.7", PUBLIC, METADATA, "100.100.100.200", "127.0.0.1"];
    let servers = hosts.map(|host| o.http(host, 80));
    let program = format!("show([hello(h, 80) for h in {hosts:?}])");
    assert_eq!(hellos(w, o, &["--net", "local"], &program), [true, true, false, false, false, false]);
    assert_eq!(servers.map(|s| s.connections()), [1, 1, 0, 0, 0, 0]);
}

fn what_is_no_network_is_refused_before_anything_runs(w: &World, _: &Outside) {
    let wrong: [(&[&str], &str); 18] = [
        (&["--net", "internet"], "registries"),
        (&["--net", ""], "registries"),
        (&["--net", "allow="], "rule"),
        (&["--net", "allow=a..b"], "a..b"),
        (&["--net", "allow=shop.test,"], "rule"),
        (&["--net", "allow=https://shop.test/path"], "shop.test"),
        (&["--net", "allow=shop.test:0"], "port"),
        (&["--net", "allow=shop.test:70000"], "70000"),
        (&["--net", "allow=203.0.113.0/33"], "33"),
        (&["--net", "allow=*"], "*"),
        (&["--net", "allow=sh\u{6f}p\u{200b}.test"], "ASCII"),
        (&["--net", "none", "--net", "allow=shop.test"], "combined"),
        (&["--net", "host", "--net", "registries"], "combined"),
        (&["--reach", "db.test:5432"], "--net allow=db.test:5432"),
        (&["--reach", "localhost:0"], "port"),
        (&["--publish", "70000"], "port"),
        (&["--publish", "0.0.0.0:80:80"], "port"),
        (&["--secret", "TOKEN=@/dev/null"], "--for"),
    ];
    for (flags, said) in wrong {
        let touched = w.project.join("touched");
        let outcome = w.whatif(["run", "--rm"]).args(flags).args(["--", "/usr/bin/touch", "touched"]).go();
        assert!(outcome.code == 2 || outcome.code == 125, "{flags:?}: {outcome:?}");
        assert!(outcome.stderr.contains(said), "{flags:?} does not speak of {said}: {}", outcome.stderr);
        assert!(!touched.exists() && w.json(["ls"]).as_array().is_some_and(Vec::is_empty), "{flags:?}");
    }
}
