//! A person at a terminal is asked about hosts that no rule speaks of.

use whatif_e2e::outside::{Outside, PRELUDE, PUBLIC, PUBLIC_2};
use whatif_e2e::{Terminal, Tmux, World, eventually, needs, outside_as_root_and_user};

outside_as_root_and_user!(
    a_person_allows_once,
    a_person_says_no,
    a_person_allows_for_the_project,
    what_is_denied_by_name_is_not_asked_about,
    nobody_is_asked_without_a_terminal,
    what_was_on_the_screen_before_a_question_stays,
);

const ASKED: &str = "Allow it?";

/// Says what came of two attempts, one after the other.
fn run(w: &World, flags: &[&str], host: &str) -> Terminal {
    w.write(
        "ask.py",
        format!("{PRELUDE}\nfor n in (1, 2): print('attempt', n, 'HELLO' in hello('{host}', 80, seconds=30)['got'])\n"),
    );
    let arguments = [&["run", "--rm"], flags, &["--", "/usr/bin/python3", "ask.py"]].concat();
    Terminal::with_whatif(w, &arguments)
}

/// What is typed the moment a question appears was meant for something else, so a person who means it types it again.
#[track_caller]
fn answer(terminal: &mut Terminal, key: &str, outcome: &str) {
    eventually(outcome, || {
        terminal.type_in(key);
        terminal.screen().contains(outcome)
    });
}

fn web(o: &Outside) -> [whatif_e2e::outside::Server; 2] {
    o.name("shop.test", &[PUBLIC]);
    o.name("bank.test", &[PUBLIC_2]);
    [o.http(PUBLIC, 80), o.http(PUBLIC_2, 80)]
}

fn a_person_allows_once(w: &World, o: &Outside) {
    let [_, bank] = web(o);
    let mut terminal = run(w, &["--net", "allow=shop.test"], "bank.test");
    terminal.expect("bank.test");
    terminal.expect(ASKED);
    assert_eq!(bank.connections(), 0, "nothing is done before the answer");
    assert!(!o.was_asked("bank"), "not even the name is looked up");
    answer(&mut terminal, "o", "attempt 1 True");
    terminal.expect("attempt 2 True");
    assert_eq!(terminal.ends(), 0);
    assert_eq!(bank.connections(), 2);
    // Once is for that sandbox.
    let mut terminal = run(w, &["--net", "allow=shop.test"], "bank.test");
    terminal.expect(ASKED);
    answer(&mut terminal, "n", "attempt 1 False");
}

fn a_person_says_no(w: &World, o: &Outside) {
    let [_, bank] = web(o);
    let mut terminal = run(w, &["--net", "allow=shop.test"], "bank.test");
    terminal.expect(ASKED);
    answer(&mut terminal, "n", "attempt 1 False");
    terminal.expect("attempt 2 False");
    assert_eq!(terminal.ends(), 0);
    assert_eq!(bank.connections(), 0);
    assert!(!o.was_asked("bank"));
}

fn a_person_allows_for_the_project(w: &World, o: &Outside) {
    let [_, bank] = web(o);
    let mut terminal = run(w, &["--net", "allow=shop.test"], "bank.test");
    terminal.expect(ASKED);
    answer(&mut terminal, "p", "attempt 2 True");
    assert_eq!(terminal.ends(), 0);
    assert!(o.hello(w, &["--net", "allow=shop.test"], "bank.test", 80).is_hello(), "nobody has to be asked any more");
    assert!(!o.hello(w, &["--net", "none"], "bank.test", 80).is_hello(), "none is none");
    assert_eq!(bank.connections(), 3);
    let permits = w.json(["net", "permits"]).to_string();
    assert!(permits.contains("bank.test") && permits.contains("project"), "{permits}");
    w.whatif(["net", "permits", "--forget", "bank.test:80"]).go().ok();
    assert!(!o.hello(w, &["--net", "allow=shop.test"], "bank.test", 80).is_hello(), "it is forgotten");
}

fn what_is_denied_by_name_is_not_asked_about(w: &World, o: &Outside) {
    let [_, bank] = web(o);
    w.configure("[network]\ndeny = [\"bank.test\"]\n");
    let mut terminal = run(w, &["--net", "allow=shop.test"], "bank.test");
    terminal.expect("attempt 2 False");
    assert!(!terminal.screen().contains(ASKED), "{}", terminal.screen());
    assert_eq!(terminal.ends(), 0);
    assert_eq!(bank.connections(), 0);
}

fn nobody_is_asked_without_a_terminal(w: &World, o: &Outside) {
    let [_, bank] = web(o);
    w.write("ask.py", format!("{PRELUDE}\nshow(hello('bank.test', 80))"));
    let outcome = w.whatif(["run", "--rm", "--net", "allow=shop.test", "--", "/usr/bin/python3", "ask.py"]).go().ok();
    assert!(!outcome.stderr.contains(ASKED) && !outcome.stdout.contains("HELLO"), "{outcome:?}");
    assert_eq!(bank.connections(), 0);
}

fn what_was_on_the_screen_before_a_question_stays(w: &World, o: &Outside) {
    needs!(w, "tmux", "python3");
    web(o);
    w.write("ask.py", format!("{PRELUDE}\nprint('tested')\nhello('bank.test', 80, seconds=30)\n"));
    let tmux = Tmux::start(w, 100, 30);
    tmux.type_in("clear; seq -f before-%g 3; whatif run --rm --net allow=shop.test -- python3 ask.py");
    let screen = tmux.shows(ASKED);
    let place = |text: &str| screen.iter().position(|line| line.starts_with(text));
    let order = ["before-1", "before-2", "before-3", "tested", "whatif: a program inside wants bank.test"].map(place);
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{screen:#?}");
    tmux.run("send-keys C-c");
}
