//! The network of a sandbox that lives: rules that change, and rules that stay.

use std::time::Duration;

use whatif_e2e::outside::{DOCUMENTED, Outside, PRELUDE, PUBLIC, PUBLIC_2};
use whatif_e2e::{Random, World, eventually, outside_as_root_and_user};

outside_as_root_and_user!(
    a_host_can_be_allowed_and_denied_later,
    denying_cuts_what_is_open,
    denying_wins,
    background_commands_have_the_network,
    rules_changed_before_anybody_used_the_network_hold,
    rules_changed_while_a_command_waits_hold,
    rules_changed_while_a_supervisor_starts_hold,
    rules_stay_through_stop_and_start,
    rules_stay_through_snapshots,
    a_fork_has_the_rules_of_its_parent,
    a_template_has_no_network_of_its_own,
    two_sandboxes_have_two_policies,
);

fn web(o: &Outside) {
    for (name, address) in [("shop.test", PUBLIC), ("bank.test", PUBLIC_2)] {
        o.name(name, &[address]);
        o.http(address, 80);
    }
}

#[track_caller]
fn assert_reaches(w: &World, o: &Outside, sandbox: &str, shop: bool, bank: bool) {
    let reached = ["shop.test", "bank.test"].map(|host| o.hello_in(w, sandbox, host, 80).is_hello());
    assert_eq!(reached, [shop, bank], "shop and bank from {sandbox}");
}

fn a_host_can_be_allowed_and_denied_later(w: &World, o: &Outside) {
    web(o);
    o.http(DOCUMENTED, 8080);
    w.whatif(["new", "life", "--net", "allow=shop.test"]).go().ok();
    assert_reaches(w, o, "life", true, false);
    w.whatif(["net", "allow", "life", "bank.test", "203.0.113.5:8080"]).go().ok();
    assert_reaches(w, o, "life", true, true);
    assert!(o.hello_in(w, "life", DOCUMENTED, 8080).is_hello());
    w.whatif(["net", "deny", "life", "shop.test"]).go().ok();
    assert_reaches(w, o, "life", false, true);
    // The last word counts.
    w.whatif(["net", "allow", "life", "shop.test"]).go().ok();
    assert_reaches(w, o, "life", true, true);
}

/// A program inside that holds a connection and says what became of it.
const HOLDS: &str = r#"
def hold(host, port, name):
    with socket.create_connection((host, port), 20) as s:
        s.settimeout(20)
        s.recv(100)
        open(f'/tmp/{name}.open', 'w')
        while True:
            try:
                s.sendall(b'x\n')
                if not s.recv(100): break
            except OSError: break
            time.sleep(0.02)
    open(f'/tmp/{name}.closed', 'w')
"#;

fn denying_cuts_what_is_open(w: &World, o: &Outside) {
    o.name("shop.test", &[PUBLIC]);
    o.name("bank.test", &[PUBLIC_2]);
    let (shop, bank) = (o.greeter(PUBLIC, 7000), o.greeter(PUBLIC_2, 7000));
    w.whatif(["new", "cut", "--net", "allow=shop.test:7000,bank.test:7000"]).go().ok();
    for host in ["shop.test", "bank.test"] {
        let program = format!("{PRELUDE}\n{HOLDS}\nhold('{host}', 7000, '{host}')");
        w.whatif(["exec", "-d", "cut", "--", "/usr/bin/python3", "-c", &program]).go().ok();
        eventually("it is open", || w.exec("cut", &format!("test -e /tmp/{host}.open")).code == 0);
    }
    w.whatif(["net", "deny", "cut", "shop.test"]).go().ok();
    eventually("it is cut", || w.exec("cut", "test -e /tmp/shop.test.closed").code == 0);
    assert_eq!(w.exec("cut", "test -e /tmp/bank.test.closed").code, 1, "the other one stays");
    let goes_on = || {
        let other = bank.log().len();
        eventually("the other one goes on", || bank.log().len() > other + 2);
    };
    // What was on its way then has arrived when the other one has been served.
    goes_on();
    let before = shop.log().len();
    goes_on();
    assert_eq!(shop.log().len(), before, "nothing more arrives");
}

fn denying_wins(w: &World, o: &Outside) {
    web(o);
    w.whatif(["new", "wins", "--net", "allow=*.test"]).go().ok();
    assert_reaches(w, o, "wins", true, true);
    w.whatif(["net", "deny", "wins", "bank.test"]).go().ok();
    assert_reaches(w, o, "wins", true, false);
    w.whatif(["net", "deny", "wins", "*.test"]).go().ok();
    assert_reaches(w, o, "wins", false, false);
}

/// Nobody waits in the foreground, not even when it starts.
fn background_commands_have_the_network(w: &World, o: &Outside) {
    web(o);
    w.whatif(["new", "back", "--net", "allow=shop.test"]).go().ok();
    let program = format!(
        "{PRELUDE}\ntime.sleep(0.5)\nr = [hello('shop.test', 80)['got'][-6:-1], 'HELLO' in hello('bank.test', 80)['got']]\n\
         open('/tmp/part', 'w').write(str(r)); os.rename('/tmp/part', '/tmp/result')"
    );
    w.whatif(["exec", "-d", "back", "--", "/usr/bin/python3", "-c", &program]).go().ok();
    eventually("it is done", || w.exec("back", "test -e /tmp/result").code == 0);
    assert_eq!(w.exec("back", "cat /tmp/result").ok().text(), "['HELLO', False]");
}

/// Waits for a file, then tries both.
const WAITS: &str = r#"
open('/tmp/waits', 'w')
while not os.path.exists('/tmp/go'): time.sleep(0.02)
r = ['HELLO' in hello(h, 80)['got'] for h in ('shop.test', 'bank.test')]
open('/tmp/part', 'w').write(str(r)); os.rename('/tmp/part', '/tmp/result')
"#;

/// Whoever starts the supervisor in the end may have begun to wait long before.
fn rules_changed_before_anybody_used_the_network_hold(w: &World, o: &Outside) {
    web(o);
    w.whatif(["new", "early", "--net", "allow=shop.test"]).go().ok();
    let program = format!("{PRELUDE}\n{WAITS}");
    w.whatif(["exec", "-d", "early", "--", "/usr/bin/python3", "-c", &program]).go().ok();
    w.whatif(["net", "deny", "early", "shop.test"]).go().ok();
    w.whatif(["net", "allow", "early", "bank.test"]).go().ok();
    // Nothing that would start a supervisor itself.
    let go = w.write("go", "").display().to_string();
    w.whatif(["cp", &go, "early:/tmp/go"]).go().ok();
    eventually("it is done", || w.exec("early", "test -e /tmp/result").code == 0);
    assert_eq!(w.exec("early", "cat /tmp/result").ok().text(), "[False, True]");
}

/// The same with somebody in the foreground.
fn rules_changed_while_a_command_waits_hold(w: &World, o: &Outside) {
    web(o);
    w.whatif(["new", "front", "--net", "allow=shop.test"]).go().ok();
    let program = format!("{PRELUDE}\n{WAITS}");
    let null = std::process::Stdio::null;
    let mut waits = w.whatif(["exec", "front", "--", "/usr/bin/python3", "-c", &program]).streams(null(), null(), null()).spawn();
    eventually("it waits", || w.exec("front", "test -e /tmp/waits").code == 0);
    w.whatif(["net", "deny", "front", "shop.test"]).go().ok();
    w.whatif(["net", "allow", "front", "bank.test"]).go().ok();
    let go = w.write("go", "").display().to_string();
    w.whatif(["cp", &go, "front:/tmp/go"]).go().ok();
    waits.wait().expect("it is our child");
    assert_eq!(w.exec("front", "cat /tmp/result").ok().text(), "[False, True]");
}

/// Whatever comes first, when the command to deny has returned, it is denied.
fn rules_changed_while_a_supervisor_starts_hold(w: &World, o: &Outside) {
    web(o);
    let mut random = Random::from(815);
    for round in 0..12 {
        w.whatif(["new", "race", "--net", "allow=shop.test"]).go().ok();
        let moment = Duration::from_millis(random.below(60) as u64);
        std::thread::scope(|scope| {
            scope.spawn(|| o.hello_in(w, "race", "shop.test", 80));
            std::thread::sleep(moment);
            w.whatif(["net", "deny", "race", "shop.test"]).go().ok();
        });
        assert!(!o.hello_in(w, "race", "shop.test", 80).is_hello(), "in round {round}, denied after {moment:?}");
        w.whatif(["rm", "--yes", "race"]).go().ok();
    }
}

fn rules_stay_through_stop_and_start(w: &World, o: &Outside) {
    web(o);
    w.whatif(["new", "again", "--net", "allow=shop.test"]).go().ok();
    w.whatif(["net", "allow", "again", "bank.test"]).go().ok();
    w.whatif(["net", "deny", "again", "shop.test"]).go().ok();
    assert_reaches(w, o, "again", false, true);
    w.whatif(["stop", "again"]).go().ok();
    eventually("the supervisor goes", || o.supervisors().is_empty());
    assert!(!o.decisions(w, "again").is_empty(), "the record stays");
    w.whatif(["start", "again"]).go().ok();
    assert_reaches(w, o, "again", false, true);
}

fn rules_stay_through_snapshots(w: &World, o: &Outside) {
    web(o);
    w.whatif(["new", "shots", "--net", "allow=shop.test"]).go().ok();
    assert_reaches(w, o, "shots", true, false);
    w.whatif(["snapshot", "shots", "first"]).go().ok();
    w.whatif(["net", "allow", "shots", "bank.test"]).go().ok();
    assert_reaches(w, o, "shots", true, true);
    w.whatif(["rollback", "shots", "first"]).go().ok();
    // Rules are about the sandbox, as its limits are, not about its files.
    assert_reaches(w, o, "shots", true, true);
}

fn a_fork_has_the_rules_of_its_parent(w: &World, o: &Outside) {
    web(o);
    w.whatif(["new", "parent", "--net", "allow=shop.test"]).go().ok();
    assert_reaches(w, o, "parent", true, false);
    w.whatif(["fork", "parent", "child"]).go().ok();
    assert_reaches(w, o, "child", true, false);
    w.whatif(["net", "allow", "child", "bank.test"]).go().ok();
    assert_reaches(w, o, "child", true, true);
    assert_reaches(w, o, "parent", true, false);
    let seen = o.decisions(w, "child");
    assert!(seen.len() < o.decisions(w, "parent").len() + seen.len(), "each has a record of its own");
}

/// What is saved for later says nothing about what a sandbox made of it may reach.
fn a_template_has_no_network_of_its_own(w: &World, o: &Outside) {
    web(o);
    w.whatif(["new", "master", "--net", "allow=bank.test"]).go().ok();
    w.whatif(["template", "save", "master", "ready"]).go().ok();
    w.whatif(["new", "made", "--template", "ready", "--net", "allow=shop.test"]).go().ok();
    assert_reaches(w, o, "made", true, false);
}

fn two_sandboxes_have_two_policies(w: &World, o: &Outside) {
    web(o);
    w.whatif(["new", "one", "--net", "allow=shop.test"]).go().ok();
    w.whatif(["new", "two", "--net", "allow=bank.test"]).go().ok();
    assert_reaches(w, o, "one", true, false);
    assert_reaches(w, o, "two", false, true);
    w.whatif(["rm", "--yes", "one"]).go().ok();
    assert_reaches(w, o, "two", false, true);
}
