//! A program inside cannot flood, hide or outlive the questions about hosts, and they never hold up anything else.

use rustix::process::Signal;
use whatif_e2e::outside::{Outside, PUBLIC};
use whatif_e2e::{Terminal, World, eventually, outside_as_root_and_user};

outside_as_root_and_user!(
    ctrl_c_says_no_ends_all_questions_and_interrupts,
    signals_are_heard_while_a_question_is_open,
    the_end_of_the_command_drops_the_question,
    the_time_limit_drops_the_question,
    a_question_goes_with_the_client_that_gives_up,
    a_client_that_has_said_everything_still_waits,
    the_terminal_is_reset_before_a_question_and_kept_until_its_answer,
    only_a_few_questions_are_asked,
    a_sandbox_can_be_stopped_and_removed_while_a_question_is_open,
);

const ASKED: &str = "Allow it?";

const ASK: &str = r#"
import os, signal, socket, sys, threading, time
def ask(host):
    try:
        s = socket.create_connection((host, 80), timeout=60)
        s.sendall(b'GET / HTTP/1.0\r\nHost: ' + host.encode() + b'\r\n\r\n')
        return 'HELLO' in s.recv(1000).decode()
    except OSError:
        return False
def wait():
    while not os.path.exists('/tmp/go'): time.sleep(0.01)
def begin(host):
    thread = threading.Thread(target=ask, args=(host,), daemon=True)
    thread.start()
    return thread
"#;

fn run(w: &World, flags: &[&str], script: &str) -> Terminal {
    w.write("ask.py", format!("{ASK}\n{script}"));
    let arguments = [&["run", "--net", "allow=shop.test"], flags, &["--", "/usr/bin/python3", "ask.py"]].concat();
    Terminal::with_whatif(w, &arguments)
}

/// Lets what waits in the sandbox go on.
fn go_on(w: &World, sandbox: &str) {
    // Whatever it says: the sandbox may be gone before this command is.
    w.whatif(["exec", "-d", sandbox, "--", "touch", "/tmp/go"]).go();
}

#[track_caller]
fn assert_nothing_permitted(w: &World) {
    let permits = w.json(["net", "permits"]).to_string();
    assert!(!permits.contains("test"), "{permits}");
}

fn count(terminal: &Terminal, text: &str) -> usize {
    terminal.screen().matches(text).count()
}

fn ctrl_c_says_no_ends_all_questions_and_interrupts(w: &World, _: &Outside) {
    let script = "
try:
    [begin(f'{n}.test') for n in range(3)][0].join()
    time.sleep(60)
except KeyboardInterrupt:
    print('interrupted;', ask('later.test'), flush=True)
";
    let mut terminal = run(w, &["--rm"], script);
    terminal.expect(ASKED);
    terminal.type_in("\x03");
    terminal.expect("interrupted; False");
    assert_eq!(count(&terminal, ASKED), 1, "{}", terminal.screen());
    assert_eq!(terminal.ends(), 0);
    assert_nothing_permitted(w);
}

fn signals_are_heard_while_a_question_is_open(w: &World, _: &Outside) {
    for signal in [Signal::TERM, Signal::HUP] {
        let script = "
def end(number, frame):
    print('heard', number, flush=True)
    os._exit(7)
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGHUP, end)
begin('bank.test')
while True: time.sleep(60)
";
        let mut terminal = run(w, &["--rm"], script);
        terminal.expect(ASKED);
        terminal.signal(signal);
        terminal.expect(&format!("heard {}", signal.as_raw()));
        assert_eq!(terminal.ends(), 7);
    }
    assert_nothing_permitted(w);
}

fn the_end_of_the_command_drops_the_question(w: &World, _: &Outside) {
    let mut terminal = run(w, &["--rm", "--name", "ends"], "begin('bank.test'); wait(); os._exit(3)");
    terminal.expect(ASKED);
    go_on(w, "ends");
    terminal.expect("no to bank.test:80: the command has ended");
    terminal.type_in("a");
    assert_eq!(terminal.ends(), 3);
    assert_nothing_permitted(w);
}

fn the_time_limit_drops_the_question(w: &World, _: &Outside) {
    let mut terminal = run(w, &["--rm", "--timeout", "10s"], "ask('bank.test')");
    terminal.expect(ASKED);
    terminal.expect("no to bank.test:80: the command has ended");
    terminal.type_in("a");
    assert_eq!(terminal.ends(), 124);
    assert_nothing_permitted(w);
}

fn a_question_goes_with_the_client_that_gives_up(w: &World, _: &Outside) {
    let script = r"
s = socket.create_connection(('bank.test', 80))
s.sendall(b'GET / HTTP/1.0\r\nHost: bank.test\r\n\r\n')
wait()
s.close()
print('gave up', flush=True)
time.sleep(60)
";
    let mut terminal = run(w, &["--rm", "--name", "patient"], script);
    terminal.expect(ASKED);
    go_on(w, "patient");
    terminal.expect("bank.test:80 is not wanted any more");
    // The terminal is the program's again.
    terminal.expect("gave up");
    terminal.type_in("\x03");
    assert_ne!(terminal.ends(), 0);
}

fn a_client_that_has_said_everything_still_waits(w: &World, o: &Outside) {
    o.name("bank.test", &[PUBLIC]);
    let _bank = o.http(PUBLIC, 80);
    let script = r"
s = socket.create_connection(('bank.test', 80))
s.sendall(b'GET / HTTP/1.0\r\nHost: bank.test\r\n\r\n')
s.shutdown(socket.SHUT_WR)
print('came', 'HELLO' in s.makefile().read(), flush=True)
";
    let mut terminal = run(w, &["--rm"], script);
    terminal.expect(ASKED);
    eventually("an answer", || {
        terminal.type_in("o");
        terminal.screen().contains("bank.test:80: allowed once")
    });
    terminal.expect("came True");
    assert_eq!(terminal.ends(), 0);
}

/// Colours that are all the same, a screen of its own, one line to scroll in, no cursor, another alphabet, an open string.
fn the_terminal_is_reset_before_a_question_and_kept_until_its_answer(w: &World, _: &Outside) {
    let script = r"
def forge():
    while True:
        print('FORGED: wants pypi.test:443. Fine?', flush=True)
        time.sleep(0.01)
print('BEGUN\x1b]10;#000000\x07\x1b]11;#000000\x07\x1b]4;3;#000000\x07\x1b[?1049h\x1b[1;1r\x1b[?25l\x1b(0\x1b[8m\x1b[?2026h\x1b]0;', end='', flush=True)
threading.Thread(target=forge, daemon=True).start()
ask('bank.test')
print('END', flush=True)
# Ending as usual, Python may find its output locked by the thread that still prints, and aborts.
os._exit(0)
";
    let mut terminal = run(w, &["--rm"], script);
    terminal.expect("wants bank.test:80");
    eventually("an answer", || {
        terminal.type_in("n");
        terminal.screen().contains("bank.test:80: no")
    });
    terminal.expect("END");
    let screen = terminal.screen();
    let (before, rest) = screen.split_once("whatif:").expect("it was asked");
    for undone in [
        "\x1b\\",
        "\x1b]104",
        "\x1b]110",
        "\x1b]111",
        "\x1b[?1049l",
        "\x1b[r",
        "\x1b[?25h",
        "\x1b(B",
        "\x1b[0m",
        "\x1b[?2026l",
        "\x1b[J",
    ] {
        let last = before.rfind(undone).unwrap_or_else(|| panic!("{undone:?} is missing in {before:?}"));
        assert!(before[last..].find("FORGED").is_none(), "{before:?}");
    }
    let (question, after) = rest.split_once("bank.test:80: no").expect("it was answered");
    assert!(!question.contains("FORGED"), "the terminal is not the program's meanwhile: {question:?}");
    assert!(after.contains("what follows is the program's"), "{after:?}");
    assert_eq!(terminal.ends(), 0);
}

fn only_a_few_questions_are_asked(w: &World, _: &Outside) {
    let script = "
threads = [begin(f'host{n}.test') for n in range(40)]
[thread.join() for thread in threads]
print('ALL DENIED', flush=True)
";
    let mut terminal = run(w, &["--rm", "--name", "many"], script);
    eventually("answers to all", || {
        terminal.type_in("n");
        terminal.screen().contains("ALL DENIED")
    });
    terminal.expect("are denied for now; to allow one: whatif net allow many HOST");
    assert_eq!(count(&terminal, ASKED), 5, "{}", terminal.screen());
    assert_eq!(count(&terminal, "too many questions"), 1, "{}", terminal.screen());
    assert_eq!(terminal.ends(), 0);
}

fn a_sandbox_can_be_stopped_and_removed_while_a_question_is_open(w: &World, _: &Outside) {
    let script = "open('made', 'w').write('x'); ask('bank.test')";
    let mut terminal = run(w, &["--name", "kept"], script);
    terminal.expect(ASKED);
    w.whatif(["stop", "kept"]).go().ok();
    terminal.expect("no to bank.test:80: the command has ended");
    assert_eq!(terminal.ends(), 143);
    assert_eq!(w.json(["show", "kept"])["status"], "stopped");
    w.whatif(["rm", "kept"]).go().ok();

    let mut terminal = run(w, &["--name", "gone"], script);
    terminal.expect(ASKED);
    w.whatif(["rm", "gone"]).go().ok();
    terminal.expect("no to bank.test:80: the command has ended");
    let _ = terminal.ends();
    assert_ne!(w.whatif(["show", "gone"]).go().code, 0);

    let mut terminal = run(w, &["--name", "nothing"], "ask('bank.test')");
    terminal.expect(ASKED);
    let outcome = w.whatif(["stop", "nothing"]).go().ok();
    assert!(outcome.stdout.contains("nothing is stopped"), "{outcome:?}");
    assert_eq!(terminal.ends(), 143);
    assert_nothing_permitted(w);
}
