//! Commands in the background that are returned to: nothing is lost or doubled, and nobody holds them up for ever.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use whatif_e2e::numbered::stream;
use whatif_e2e::{Terminal, World, as_root_and_user, eventually, needs, on_other_backends, wait_for};

as_root_and_user!(
    a_command_is_followed_to_its_end_and_gives_its_code,
    one_that_has_ended_is_shown_and_gives_its_code,
    ids_are_never_used_again,
    who_returns_after_a_kill_continues_at_the_same_byte,
    a_slow_reader_gets_every_byte_in_little_memory,
    a_client_holds_the_command_up_only_as_long_as_it_lives,
    several_get_every_byte,
    what_was_dropped_is_told_with_its_place,
    input_stays_open_from_one_client_to_the_next,
    without_asking_there_is_no_input,
    a_command_that_reads_nothing_does_not_keep_its_client,
    signals_go_to_the_command_and_those_that_end_us_do_not,
    a_terminal_is_left_and_returned_to,
    a_person_leaves_a_command_without_a_terminal,
    a_terminal_that_nobody_looks_at_holds_nothing_up,
    what_a_command_leaves_behind_is_not_waited_for,
    a_stopped_sandbox_tells_how_its_commands_ended,
    a_lost_keeper_is_said,
    a_command_that_closes_its_output_is_followed_to_its_end,
    it_can_be_killed_by_its_id,
);
on_other_backends!(who_returns_after_a_kill_continues_at_the_same_byte, a_terminal_is_left_and_returned_to);

/// Writes the numbered stream.
/// Arguments: how much in all, and in what steps; before each step it waits for the file `go-<offset>`. With 0 it waits for none.
const PRODUCER: &str = r#"
import os, sys, time
total, step = int(sys.argv[1]), int(sys.argv[2])
for at in range(0, total, 1 << 20):
    while step and at % step == 0 and not os.path.exists('go-%d' % at):
        time.sleep(0.002)
    data = b''.join(b'%015d' % n + b'.' * 1008 + b'\n' for n in range(at, min(at + (1 << 20), total), 1024))
    while data:
        data = data[os.write(1, data):]
"#;

/// What answers to signals alone: the children of a shell would be signalled too, and the shell would say so.
const SIGNALLED: &str = r#"
import os, signal, sys
def say(word, code=None):
    os.write(1, word + b'\n')
    if code is not None: os._exit(code)
signal.signal(signal.SIGINT, lambda *_: say(b'interrupted'))
signal.signal(signal.SIGUSR1, lambda *_: say(b'told'))
signal.signal(signal.SIGTERM, lambda *_: say(b'ended', 9))
say(b'ready')
while True: signal.pause()
"#;

/// Starts a command in the background; its id.
fn start(w: &World, name: &str, options: &[&str], command: &[&str]) -> String {
    let arguments = [&["exec", "-d"], options, &[name, "--"], command].concat();
    w.json(arguments)["id"].as_str().expect("it has an id").to_owned()
}

fn start_script(w: &World, name: &str, options: &[&str], script: &str) -> String {
    start(w, name, options, &["/bin/sh", "-c", script])
}

fn produce(w: &World, name: &str, total: u64, step: u64) -> String {
    start(w, name, &[], &["/usr/bin/python3", "-c", PRODUCER, &total.to_string(), &step.to_string()])
}

fn attach(w: &World, arguments: &[&str]) -> Child {
    w.whatif([&["attach"], arguments].concat()).streams(Stdio::piped(), Stdio::piped(), Stdio::piped()).spawn()
}

fn output_of(child: &mut Child) -> ChildStdout {
    child.stdout.take().expect("it is piped")
}

fn expect(output: &mut impl Read, text: &str) {
    let mut found = vec![0; text.len()];
    output.read_exact(&mut found).unwrap_or_else(|e| panic!("'{text}' never came: {e}"));
    assert_eq!(String::from_utf8_lossy(&found), text);
}

/// The exit code, or -1 if a signal ended it.
fn code_of(mut child: Child) -> i32 {
    let ended = wait_for(Duration::from_secs(60), || child.try_wait().expect("it is our child"));
    let Some(status) = ended else {
        let _ = child.kill();
        panic!("it did not end");
    };
    status.code().unwrap_or(-1)
}

fn send(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("it has a pid");
    kill_process(pid, signal).expect("it is our child");
}

fn is_running(w: &World, name: &str, id: &str) -> bool {
    w.json(["ps", name])["processes"].as_array().expect("a list").iter().any(|process| process["id"] == id)
}

fn bytes_in_log(w: &World, name: &str, id: &str) -> u64 {
    let logs: PathBuf = w.directory(name).join("logs");
    let length = |name: String| fs::metadata(logs.join(name)).expect("it has a log").len();
    length(format!("{id}.log")) + length(format!("{id}.older.log"))
}

/// What it watches signals with is opened after it has attached.
fn is_attached(client: &Child) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", client.id())).expect("it is alive").filter_map(Result::ok);
    let mut targets = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    targets.any(|target| target.to_string_lossy().contains("signalfd"))
}

fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it is alive");
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).expect("it has memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn a_command_is_followed_to_its_end_and_gives_its_code(w: &World) {
    let name = w.new_sandbox("followed");
    let id = start_script(w, &name, &[], "echo first; until [ -e go ]; do sleep 0.02; done; echo second >&2; exit 7");
    let mut client = attach(w, &[&name, &id]);
    let mut output = output_of(&mut client);
    expect(&mut output, "first\n");
    w.exec(&name, "touch go").ok();
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert_eq!((rest.as_str(), code_of(client)), ("second\n", 7));
}

fn one_that_has_ended_is_shown_and_gives_its_code(w: &World) {
    let name = w.new_sandbox("ended");
    let id = start_script(w, &name, &[], "echo output; exit 3");
    eventually("it ends", || !is_running(w, &name, &id));
    assert_eq!(w.whatif(["attach", &name]).go().exits(3).stdout, "output\n");
    assert_eq!(w.whatif(["attach", &name, &id, "--from", "3"]).go().exits(3).stdout, "put\n");
    assert_eq!(w.whatif(["attach", &name, &id, "--from", "7"]).go().exits(3).stdout, "");
    w.whatif(["attach", &name, &id, "--from", "8"]).go().fails_with_hint(2).says("has written 7 bytes");
    w.whatif(["attach", &name, "c77"]).go().fails_with_hint(2).says("no command c77");
    let document = w.whatif(["--json", "attach", &name, &id, "--from", "1"]).go().exits(3).json();
    assert_eq!((&document["output"], &document["exit_code"]), (&"utput\n".into(), &3.into()));
    assert_eq!((&document["from"], &document["to"], &document["left"]), (&1.into(), &7.into(), &false.into()));
    let by_number = w.json(["logs", &name, &id]);
    assert_eq!((&by_number["output"], &by_number["id"]), (&"output\n".into(), &id.as_str().into()));
    let killed = start_script(w, &name, &[], "kill -9 $$");
    eventually("it ends", || !is_running(w, &name, &killed));
    w.whatif(["attach", &name, &killed]).go().exits(137);
}

/// The numbers of processes begin anew when a sandbox starts again; what was started before stays what it was.
fn ids_are_never_used_again(w: &World) {
    let name = w.new_sandbox("again");
    assert_eq!(start_script(w, &name, &[], "echo before; exit 4"), "c1");
    eventually("it ends", || !is_running(w, &name, "c1"));
    w.whatif(["exec", &name, "-d", "--", "no-such-program-at-all"]).go().exits(127);
    w.whatif(["stop", &name]).go().ok();
    w.whatif(["start", &name]).go().ok();
    let after = start_script(w, &name, &[], "echo after; exit 5");
    assert_ne!(after, "c1");
    eventually("it ends", || !is_running(w, &name, &after));
    assert_eq!(w.whatif(["attach", &name, "c1"]).go().exits(4).stdout, "before\n");
    assert_eq!(w.whatif(["attach", &name, &after]).go().exits(5).stdout, "after\n");
    assert_eq!(w.whatif(["attach", &name]).go().exits(5).stdout, "after\n", "the latest");
}

/// While nobody is there the command goes on, but no further than what is kept.
fn who_returns_after_a_kill_continues_at_the_same_byte(w: &World) {
    needs!(w, "python3");
    const STEP: u64 = 4 << 20;
    const TOTAL: u64 = 10 * STEP;
    let name = w.new_sandbox("killed");
    let id = produce(w, &name, TOTAL, STEP);
    let (mut at, mut opened, mut lives) = (0_u64, 0, 0_u64);
    let mut all = Vec::new();
    while at < TOTAL {
        let mut client = attach(w, &[&name, &id, "--from", &at.to_string()]);
        let mut output = output_of(&mut client);
        // Somewhere in the middle of a block, each time another place.
        let until = TOTAL.min(at + 3_456_789 + lives * 54_321);
        lives += 1;
        let mut buffer = vec![0; 100_000];
        while at < until {
            // What was read so far and the next step fit into what is kept.
            if at >= opened {
                w.exec(&name, &format!("touch go-{opened}")).ok();
                opened += STEP;
            }
            let most = buffer.len().min((until - at) as usize);
            let length = output.read(&mut buffer[..most]).expect("it is our pipe");
            assert!(length > 0, "it ended at {at}");
            assert_eq!(buffer[..length], stream(at, length), "at {at}, after {lives} lives");
            all.extend_from_slice(&buffer[..length]);
            at += length as u64;
        }
        if at < TOTAL {
            client.kill().expect("it is our child");
            client.wait().expect("it is our child");
        } else {
            assert_eq!(output.read(&mut buffer).expect("it is our pipe"), 0, "nothing more comes");
            assert_eq!(code_of(client), 0);
        }
    }
    assert!(lives > 5, "it was killed {lives} times");
    assert!(all == stream(0, TOTAL as usize), "together it is the whole stream");
}

/// Much more than what is kept, by somebody who begins late and reads in small pieces.
fn a_slow_reader_gets_every_byte_in_little_memory(w: &World) {
    needs!(w, "python3");
    const TOTAL: u64 = 160 << 20;
    let name = w.new_sandbox("slow");
    let id = produce(w, &name, TOTAL, TOTAL);
    let mut client = attach(w, &[&name, &id]);
    eventually("it is attached", || is_attached(&client));
    w.exec(&name, "touch go-0").ok();
    eventually("the log is full", || bytes_in_log(w, &name, &id) >= (16 << 20) - 4096);
    let mut output = output_of(&mut client);
    let (mut at, mut buffer) = (0_u64, vec![0; 60_001]);
    while let length @ 1.. = output.read(&mut buffer).expect("it is our pipe") {
        assert_eq!(buffer[..length], stream(at, length), "at {at}");
        let before = at;
        at += length as u64;
        if at >> 24 != before >> 24 && at + (1 << 20) < TOTAL {
            let keeper = resident_kib(u32::try_from(w.keeper_pid(&name)).expect("a pid"));
            let ours = resident_kib(client.id());
            assert!(keeper < 40 << 10 && ours < 80 << 10, "the keeper has {keeper} KiB, the client {ours}");
        }
    }
    let mut notes = String::new();
    client.stderr.take().expect("it is piped").read_to_string(&mut notes).expect("text");
    assert_eq!((at, notes.as_str(), code_of(client)), (TOTAL, "", 0));
}

fn a_client_holds_the_command_up_only_as_long_as_it_lives(w: &World) {
    let name = w.new_sandbox("stuck");
    let script = "echo here; until [ -e go ]; do sleep 0.02; done; head -c 60000000 /dev/zero; echo done > done";
    let id = start_script(w, &name, &[], script);
    let mut stuck = attach(w, &[&name, &id]);
    // It is attached, and from here on nobody reads what it writes.
    expect(stuck.stdout.as_mut().expect("it is piped"), "here\n");
    w.exec(&name, "touch go").ok();
    eventually("the log is full", || bytes_in_log(w, &name, &id) >= (16 << 20) - 4096);
    assert_eq!(w.exec(&name, "test -e done").code, 1, "it waits for its reader");
    stuck.kill().expect("it is our child");
    stuck.wait().expect("it is our child");
    eventually("it goes on", || w.exec(&name, "test -e done").code == 0);
    w.whatif(["attach", &name, &id]).go().exits(0);
}

fn several_get_every_byte(w: &World) {
    needs!(w, "python3");
    const TOTAL: u64 = 40 << 20;
    let name = w.new_sandbox("several");
    let id = produce(w, &name, TOTAL, 20 << 20);
    let readers: Vec<_> = (0..3)
        .map(|number: u64| {
            let mut client = attach(w, &[&name, &id]);
            let mut output = output_of(&mut client);
            let reading = std::thread::spawn(move || {
                let (mut at, mut buffer) = (0_u64, vec![0; 10_000 << number]);
                while let Ok(length @ 1..) = output.read(&mut buffer) {
                    assert_eq!(buffer[..length], stream(at, length), "at {at}");
                    at += length as u64;
                }
                at
            });
            (client, reading)
        })
        .collect();
    for (client, _) in &readers {
        eventually("it is attached", || is_attached(client));
    }
    w.exec(&name, "touch go-0 go-20971520").ok();
    for (client, reading) in readers {
        assert_eq!(reading.join().expect("it only compares"), TOTAL);
        assert_eq!(code_of(client), 0);
    }
}

fn what_was_dropped_is_told_with_its_place(w: &World) {
    needs!(w, "python3");
    const TOTAL: u64 = 50 << 20;
    let name = w.new_sandbox("dropped");
    let id = produce(w, &name, TOTAL, 0);
    eventually("it ends", || !is_running(w, &name, &id));
    let shown = w.whatif(["attach", &name, &id, "--from", "1000"]).go().ok();
    let begin = TOTAL - shown.stdout.len() as u64;
    assert!(shown.stdout.len() >= 8 << 20 && shown.stdout.len() <= 16 << 20, "{} bytes are kept", shown.stdout.len());
    assert!(shown.stdout.as_bytes() == stream(begin, shown.stdout.len()), "it is the end of the stream");
    assert_eq!(shown.stderr, format!("[whatif: bytes 1000 to {begin} of the output were dropped]\n"));
    let document = w.whatif(["--json", "attach", &name, &id]).go().ok().json();
    assert_eq!(document["dropped"], serde_json::json!([{ "from": 0, "to": begin }]));
    assert_eq!((&document["from"], &document["to"]), (&0.into(), &TOTAL.into()));
}

fn input_stays_open_from_one_client_to_the_next(w: &World) {
    let name = w.new_sandbox("input");
    let id = start_script(w, &name, &["-i"], "while read line; do echo got $line; done; echo end; exit 6");
    let mut first = attach(w, &[&name, &id]);
    first.stdin.take().expect("it is piped").write_all(b"one\n").expect("it takes it");
    expect(first.stdout.as_mut().expect("it is piped"), "got one\n");
    // The end of a client's input is not the command's, nor is the end of a client.
    first.kill().expect("it is our child");
    first.wait().expect("it is our child");
    let mut watching = attach(w, &[&name, &id, "--from", "8"]);
    let last = w.whatif(["attach", &name, &id, "--from", "8", "--eof"]).input(b"two\nthree\n").go().exits(6);
    assert_eq!(last.stdout, "got two\ngot three\nend\n");
    // Whoever else is attached lets go of the input too, although ours is open.
    let mut rest = String::new();
    output_of(&mut watching).read_to_string(&mut rest).expect("text");
    assert_eq!((rest.as_str(), code_of(watching)), ("got two\ngot three\nend\n", 6));
}

fn without_asking_there_is_no_input(w: &World) {
    let name = w.new_sandbox("none");
    let id = start_script(w, &name, &[], "readlink /proc/self/fd/0; cat; until [ -e go ]; do sleep 0.02; done");
    let mut client = attach(w, &[&name, &id]);
    expect(client.stdout.as_mut().expect("it is piped"), "/dev/null\n");
    w.exec(&name, "touch go").ok();
    assert_eq!(code_of(client), 0);
}

fn a_command_that_reads_nothing_does_not_keep_its_client(w: &World) {
    let name = w.new_sandbox("deaf");
    let script = "echo here; until [ -e go ]; do sleep 0.02; done; exec 0<&-; until [ -e end ]; do sleep 0.02; done; exit 2";
    let id = start_script(w, &name, &["-i"], script);
    let mut client = attach(w, &[&name, &id]);
    expect(client.stdout.as_mut().expect("it is piped"), "here\n");
    let mut input = client.stdin.take().expect("it is piped");
    // More than the pipes take; it fails when the client is gone.
    let writing = std::thread::spawn(move || input.write_all(&vec![b'x'; 1 << 20]).is_ok());
    w.exec(&name, "touch go end").ok();
    assert_eq!(code_of(client), 2);
    let _ = writing.join().expect("it only writes");
}

fn signals_go_to_the_command_and_those_that_end_us_do_not(w: &World) {
    needs!(w, "python3");
    let name = w.new_sandbox("signals");
    let id = start(w, &name, &[], &["/usr/bin/python3", "-c", SIGNALLED]);
    let mut client = attach(w, &[&name, &id]);
    let mut output = output_of(&mut client);
    expect(&mut output, "ready\n");
    send(&client, Signal::INT);
    expect(&mut output, "interrupted\n");
    send(&client, Signal::USR1);
    expect(&mut output, "told\n");
    send(&client, Signal::TERM);
    let mut notes = String::new();
    client.stderr.take().expect("it is piped").read_to_string(&mut notes).expect("text");
    assert_eq!(code_of(client), 128 + 15);
    assert!(notes.contains(&format!("whatif attach {name} {id} --from 23")), "{notes}");
    assert!(is_running(w, &name, &id), "it goes on");
    w.whatif(["kill", &name, &id]).go().ok();
    assert_eq!(w.whatif(["attach", &name, &id, "--from", "23"]).go().exits(9).stdout, "ended\n");
}

fn a_terminal_is_left_and_returned_to(w: &World) {
    let name = w.new_sandbox("terminal");
    let id = start(w, &name, &["-t"], &["/bin/sh", "-i"]);
    let mut terminal = Terminal::with_whatif(w, &["attach", &name, &id]);
    terminal.type_in("PS1='ready> '\n");
    terminal.expect("\nready> ");
    terminal.type_in("tty; stty size; x=kept\n");
    terminal.expect("/dev/pts/");
    terminal.expect("24 80");
    terminal.resize(40, 100);
    terminal.type_in("until [ \"$(stty size)\" = '40 100' ]; do sleep 0.02; done; echo larger-$((1+1))\n");
    terminal.expect("larger-2");
    terminal.type_in("sh -c 'echo begin-$((1+0)); exec sleep 1000'\n");
    terminal.expect("begin-1");
    terminal.type_in("\u{3}");
    terminal.expect("ready> ");
    terminal.type_in("\u{1d}\u{1d}\u{1d}");
    terminal.expect(&format!("{id} goes on in {name}; to return to it: whatif attach {name} {id} --from "));
    assert_eq!(terminal.ends(), 0);
    assert!(is_running(w, &name, &id));

    let mut terminal = Terminal::with_whatif(w, &["attach", &name]);
    terminal.expect("larger-2");
    terminal.type_in("echo $x-$((2+2)); stty size\n");
    terminal.expect("kept-4");
    terminal.expect("24 80");
    // A terminal that is closed leaves it too.
    drop(terminal);
    let mut terminal = Terminal::with_whatif(w, &["attach", &name]);
    terminal.expect("kept-4");
    terminal.type_in("echo $x-$((3+3)); exit 5\n");
    terminal.expect("kept-6");
    assert_eq!(terminal.ends(), 5);
    w.whatif(["attach", &name, &id]).go().exits(5);
}

fn a_person_leaves_a_command_without_a_terminal(w: &World) {
    let name = w.new_sandbox("lines");
    let id = start_script(w, &name, &["-i"], "echo ready; while read line; do echo got-$line; done; exit 4");
    let mut terminal = Terminal::with_whatif(w, &["attach", &name, &id]);
    terminal.expect("ready");
    terminal.type_in("one\n");
    terminal.expect("got-one");
    terminal.type_in("\u{1d}\u{1d}\u{1d}");
    terminal.expect("goes on in lines");
    assert_eq!(terminal.ends(), 0);
    let mut terminal = Terminal::with_whatif(w, &["attach", &name, &id]);
    terminal.expect("got-one");
    terminal.type_in("\u{4}");
    assert_eq!(terminal.ends(), 4, "Ctrl-D ends its input");
}

fn a_terminal_that_nobody_looks_at_holds_nothing_up(w: &World) {
    let name = w.new_sandbox("unseen");
    // It lets go of its terminal in between, and opens it again.
    let script = "seq 1000000; exec </dev/null >/dev/null 2>&1; sleep 0.1; seq 1000000 >/dev/tty; echo end >/dev/tty; exit 8";
    let id = start_script(w, &name, &["-t"], script);
    eventually("it ends", || !is_running(w, &name, &id));
    assert!(w.whatif(["attach", &name, &id]).go().exits(8).stdout.ends_with("999999\r\n1000000\r\nend\r\n"));
}

/// It writes without pause to what was the command's output.
fn what_a_command_leaves_behind_is_not_waited_for(w: &World) {
    let name = w.new_sandbox("left");
    let id = start_script(w, &name, &[], "echo ready; until [ -e go ]; do sleep 0.02; done; yes & echo last; exit 3");
    let mut client = attach(w, &[&name, &id]);
    let mut output = output_of(&mut client);
    expect(&mut output, "ready\n");
    w.exec(&name, "touch go").ok();
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).expect("it ends");
    assert_eq!(code_of(client), 3);
    assert!(String::from_utf8_lossy(&rest).contains("last\n"));
    w.whatif(["attach", &name, &id]).go().exits(3);
}

/// One whose reader is far behind, too: what it wrote until then is there.
fn a_stopped_sandbox_tells_how_its_commands_ended(w: &World) {
    needs!(w, "python3");
    let name = w.new_sandbox("stopped");
    let behind = start_script(w, &name, &[], "echo here; until [ -e go ]; do sleep 0.02; done; yes");
    let polite = start(w, &name, &[], &["/usr/bin/python3", "-c", SIGNALLED]);
    let mut clients = [attach(w, &[&name, &polite]), attach(w, &[&name, &behind])];
    expect(clients[0].stdout.as_mut().expect("it is piped"), "ready\n");
    expect(clients[1].stdout.as_mut().expect("it is piped"), "here\n");
    w.exec(&name, "touch go").ok();
    eventually("the log is full", || bytes_in_log(w, &name, &behind) >= (16 << 20) - 4096);
    w.whatif(["stop", &name]).go().ok();
    let [mut polite_client, mut behind_client] = clients;
    let mut rest = String::new();
    output_of(&mut polite_client).read_to_string(&mut rest).expect("text");
    assert_eq!((rest.as_str(), code_of(polite_client)), ("ended\n", 9));
    let mut rest = Vec::new();
    output_of(&mut behind_client).read_to_end(&mut rest).expect("it ends");
    assert_eq!(code_of(behind_client), 128 + 15);
    assert!(rest.len() >= 15 << 20 && rest.chunks(2).all(|line| line == b"y\n" || line == b"y"), "{} bytes", rest.len());
    assert_eq!(w.whatif(["attach", &name, &polite]).go().exits(9).stdout, "ready\nended\n");
}

fn a_lost_keeper_is_said(w: &World) {
    let name = w.new_sandbox("lost");
    let id = start_script(w, &name, &[], "echo here; exec sleep 1000");
    let mut client = attach(w, &[&name, &id]);
    expect(client.stdout.as_mut().expect("it is piped"), "here\n");
    let keeper = Pid::from_raw(w.keeper_pid(&name)).expect("a pid");
    let dead = pidfd_open(keeper, PidfdFlags::empty()).expect("it runs");
    kill_process(keeper, Signal::KILL).expect("we may");
    // It lets go of its client before it lets go of everything else, and until then it is not known to be lost.
    while poll(&mut [PollFd::new(&dead, PollFlags::IN)], None) == Err(Errno::INTR) {}
    let mut said = String::new();
    client.stderr.take().expect("it is piped").read_to_string(&mut said).expect("text");
    assert_eq!(code_of(client), 125);
    assert!(said.contains("is not known"), "{said}");
    let later = w.whatif(["attach", &name, &id]).go().fails_with_hint(125).says("is not known");
    assert_eq!(later.stdout, "here\n", "what is kept is shown");
}

fn a_command_that_closes_its_output_is_followed_to_its_end(w: &World) {
    let name = w.new_sandbox("silent");
    let id = start_script(w, &name, &[], "echo last words; exec >&- 2>&-; until [ -e go ]; do sleep 0.02; done; exit 3");
    let mut client = attach(w, &[&name, &id]);
    expect(client.stdout.as_mut().expect("it is piped"), "last words\n");
    w.exec(&name, "touch go").ok();
    assert_eq!(code_of(client), 3);
}

fn it_can_be_killed_by_its_id(w: &World) {
    let name = w.new_sandbox("by-id");
    let id = start_script(w, &name, &[], "exec sleep 1000");
    w.whatif(["kill", &name, "c9"]).go().fails_with_hint(125).says("no command c9");
    w.whatif(["kill", &name, &id, "-s", "KILL"]).go().ok();
    w.whatif(["attach", &name, &id]).go().exits(137);
    w.whatif(["kill", &name, &id]).go().fails_with_hint(125).says(&format!("no command {id}"));
}
