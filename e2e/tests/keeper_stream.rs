//! The keeper as the init of an empty root, spoken to over a stream of bytes.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Duration;

use whatif_e2e::empty_root::{EmptyRoot, busybox, keeper_program, pipe, resident_kib};
use whatif_e2e::{World, as_root_and_user, eventually, needs, wait_for};
use whatif_keeper::client::ClientError;
use whatif_keeper::protocol::{Exec, Reason, Stdio as Given};
use whatif_keeper::stream::StreamError;
use whatif_types::CommandId;

as_root_and_user!(
    a_program_runs_where_there_is_nothing_else,
    signals_and_ends_are_told,
    a_terminal_is_one_at_the_other_end_of_the_stream,
    a_slow_reader_gets_every_byte_and_holds_up_nobody,
    who_returns_after_a_kill_continues_at_the_same_byte,
    what_was_dropped_is_told_by_the_offsets,
    a_command_that_ended_can_be_attached_to,
    input_stays_open_from_one_client_to_the_next,
    a_terminal_in_the_background_is_typed_into,
    an_init_ends_with_its_stream,
    something_else_than_a_client_is_told_so,
);

/// So many bytes go through the stream.
fn total() -> u64 {
    std::env::var("WHATIF_BYTES").map_or(64 << 20, |text| text.parse().expect("WHATIF_BYTES is a number"))
}

/// For whoever looks at the output: with a gibibyte it is what the test is made for.
fn note(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn read_all(from: OwnedFd) -> String {
    let mut text = String::new();
    File::from(from).read_to_string(&mut text).expect("text");
    text
}

/// Runs it with this input; its exit code and its output.
fn run(root: &EmptyRoot, arguments: &[&str], input: &[u8]) -> (i32, String) {
    let ((stdin, typed), (shown, stdout)) = (pipe(), pipe());
    let mut client = root.connect();
    let exec = Exec { stdio: [Given::Passed; 3], ..busybox(arguments) };
    client.exec(exec, &[stdin.as_fd(), stdout.as_fd(), stdout.as_fd()]).expect("it starts");
    drop((stdin, stdout));
    File::from(typed).write_all(input).expect("somebody reads");
    let output = read_all(shown);
    (client.exited().expect("it ends").code, output)
}

fn detached(arguments: &[&str], id: CommandId) -> Exec {
    Exec { detached: true, keeps_output: true, id: Some(id), ..busybox(arguments) }
}

fn a_program_runs_where_there_is_nothing_else(w: &World) {
    needs!(w, "busybox", "unshare");
    let root = EmptyRoot::start(w);
    let (code, names) = run(&root, &["ls", "/"], b"");
    let names: Vec<_> = names.lines().filter(|name| !name.starts_with("lib")).collect();
    assert_eq!((code, names), (0, vec!["busybox", "dev", "init", "proc"]));
    assert_eq!(run(&root, &["cat"], b"through and back"), (0, "through and back".to_owned()));
    let (_, first) = run(&root, &["cat", "/proc/1/comm"], b"");
    assert_eq!(first, "whatif-keeper\n");
    assert_eq!(run(&root, &["sh", "-c", "echo a >&2; exit 7"], b""), (7, "a\n".to_owned()));
    let listed = root.connect().list().expect("it answers");
    assert!(listed.is_empty(), "{listed:?}");
}

fn signals_and_ends_are_told(w: &World) {
    needs!(w, "busybox", "unshare");
    let root = EmptyRoot::start(w);
    let mut client = root.connect();
    let (pid, _) = client.exec(busybox(&["sleep", "1000"]), &[]).expect("it starts");
    client.forward_signal(pid, 15).expect("it is sent");
    let exited = client.exited().expect("it ends");
    assert_eq!((exited.signal, exited.code), (Some(15), 143));
    let mut client = root.connect();
    let error = client.exec(Exec { arguments: vec!["/nothing".into()], ..busybox(&[]) }, &[]).expect_err("there is none");
    assert!(matches!(error, ClientError::Failed(failed) if failed.reason == Reason::NotFound));
    // A command in the foreground ends with its client.
    let mut client = root.connect();
    client.exec(busybox(&["sleep", "1000"]), &[]).expect("it starts");
    drop(client);
    eventually("it ends with its client", || root.connect().list().expect("it answers").is_empty());
    let mut client = root.connect();
    client.exec(Exec { timeout_ms: Some(100), ..busybox(&["sleep", "1000"]) }, &[]).expect("it starts");
    assert!(client.exited().expect("it ends").timed_out);
    root.connect().stop(100).expect("it stops");
    let (code, why) = root.ends();
    assert!(code == Some(0) && matches!(why, StreamError::Closed), "{code:?} {why}");
}

fn a_terminal_is_one_at_the_other_end_of_the_stream(w: &World) {
    needs!(w, "busybox", "unshare");
    let root = EmptyRoot::start(w);
    let mut client = root.connect();
    // What is typed may overtake the new size on its way.
    let script = "/busybox stty size; read x; until [ \"$(/busybox stty size)\" = '30 100' ]; do /busybox usleep 5000; done; \
                  /busybox stty size; exit 9";
    let exec = Exec { terminal: Some((80, 24)), ..busybox(&["sh", "-c", script]) };
    let (pid, master) = client.exec(exec, &[]).expect("it starts");
    let mut master = File::from(master.expect("it has a terminal"));
    expect(&mut master, "24 80\r\n");
    client.forward_resize(pid, 100, 30).expect("it is sent");
    master.write_all(b"go\n").expect("it is there");
    expect(&mut master, "go\r\n30 100\r\n");
    assert_eq!(client.exited().expect("it ends").code, 9);
}

fn expect(from: &mut impl Read, text: &str) {
    let mut bytes = vec![0; text.len()];
    from.read_exact(&mut bytes).expect("there is as much");
    assert_eq!(String::from_utf8_lossy(&bytes), text);
}

/// The numbers from 1 on, a line each, as `seq` prints them.
struct Numbers {
    next: u64,
    rest: Vec<u8>,
}

impl Numbers {
    fn new() -> Self {
        Self { next: 1, rest: Vec::new() }
    }

    /// What comes next must be this.
    fn check(&mut self, bytes: &[u8]) {
        while self.rest.len() < bytes.len() {
            self.rest.extend_from_slice(format!("{}\n", self.next).as_bytes());
            self.next += 1;
        }
        assert!(self.rest.drain(..bytes.len()).as_slice() == bytes, "something is missing or doubled before {}", self.next);
    }
}

/// How far `seq` has to count to print about so many bytes, and how many they are.
fn counting(bytes: u64) -> (u64, u64) {
    let (mut last, mut length) = (0, 0);
    let mut digits = 1;
    while length < bytes {
        let count = (9 * 10_u64.pow(digits - 1)).min((bytes - length).div_ceil(u64::from(digits) + 1));
        (last, length, digits) = (last + count, length + count * (u64::from(digits) + 1), digits + 1);
    }
    (last, length)
}

fn a_slow_reader_gets_every_byte_and_holds_up_nobody(w: &World) {
    needs!(w, "busybox", "unshare");
    let root = EmptyRoot::start(w);
    let (last, length) = counting(total());
    let (shown, stdout) = pipe();
    let mut client = root.connect();
    let exec = Exec { stdio: [Given::Null, Given::Passed, Given::Null], ..busybox(&["seq", "1", &last.to_string()]) };
    client.exec(exec, &[stdout.as_fd()]).expect("it starts");
    drop(stdout);
    // Nobody reads it yet, and others do not mind.
    for _ in 0..20 {
        assert_eq!(run(&root, &["echo", "meanwhile"], b""), (0, "meanwhile\n".to_owned()));
    }
    let (before, mut most) = (resident_kib("self"), (0, 0));
    let (mut shown, mut numbers, mut at) = (File::from(shown), Numbers::new(), 0_u64);
    let mut buffer = vec![0; 60_001];
    while let read @ 1.. = shown.read(&mut buffer).expect("it is our pipe") {
        numbers.check(&buffer[..read]);
        if at >> 23 != (at + read as u64) >> 23 {
            let (keeper, grown) = (root.keeper_kib(), resident_kib("self").saturating_sub(before));
            most = (keeper.max(most.0), grown.max(most.1));
            assert!(keeper < 40 << 10 && grown < 60 << 10, "the keeper has {keeper} KiB, the client's end {grown} more");
            // Slow for a moment, so that all there is between them fills up.
            std::thread::sleep(Duration::from_millis(20));
        }
        at += read as u64;
    }
    note(&format!("{at} bytes; at most {} KiB in the keeper, {} KiB more in the client's end", most.0, most.1));
    assert_eq!((at, client.exited().expect("it ends").code), (length, 0));
}

fn follow(root: &EmptyRoot, id: CommandId, from: u64) -> std::process::Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_follow"));
    command.arg(&root.directory).arg(id.to_string()).arg(from.to_string());
    command.stdout(Stdio::piped()).spawn().expect("it can be started")
}

/// The next part that such a client writes whole.
fn next_piece(from: &mut impl Read) -> Option<(u64, Vec<u8>)> {
    let mut numbers = [[0; 8]; 2];
    from.read_exact(&mut numbers[0]).ok()?;
    from.read_exact(&mut numbers[1]).ok()?;
    let mut bytes = vec![0; usize::try_from(u64::from_le_bytes(numbers[1])).ok()?];
    from.read_exact(&mut bytes).ok()?;
    Some((u64::from_le_bytes(numbers[0]), bytes))
}

fn who_returns_after_a_kill_continues_at_the_same_byte(w: &World) {
    needs!(w, "busybox", "unshare");
    let root = EmptyRoot::start(w);
    let (last, length) = counting(total());
    let id = CommandId::FIRST;
    // It begins when somebody is attached.
    let script = format!("until [ -e /go ]; do /busybox usleep 5000; done; exec /busybox seq 1 {last}");
    root.connect().exec(detached(&["sh", "-c", &script], id), &[]).expect("it starts");
    // Somebody who reads nothing stays attached while others come and go: what follows is not given up meanwhile.
    let mut anchor = root.follow(id, 0);
    run(&root, &["touch", "/go"], b"");
    let (mut numbers, mut at) = (Numbers::new(), 0);
    for _ in 0..12 {
        let mut client = follow(&root, id, at);
        let mut output = client.stdout.take().expect("it is piped");
        for _ in 0..8 {
            let (start, bytes) = next_piece(&mut output).expect("there is more");
            assert_eq!(start, at, "nothing is missing or doubled");
            numbers.check(&bytes);
            at += bytes.len() as u64;
        }
        // The next one is there before the last one leaves.
        anchor = root.follow(id, at);
        client.kill().expect("it is our child");
        client.wait().expect("it is our child");
    }
    let mut rest = root.follow(id, at);
    drop(anchor);
    let (before, mut most) = (resident_kib("self"), (0, 0));
    while let Some(piece) = rest.next_piece().expect("it answers") {
        assert_eq!(piece.start, at, "nothing is missing or doubled");
        numbers.check(&piece.bytes);
        if at >> 23 != (at + piece.bytes.len() as u64) >> 23 {
            let (keeper, grown) = (root.keeper_kib(), resident_kib("self").saturating_sub(before));
            most = (keeper.max(most.0), grown.max(most.1));
            assert!(keeper < 40 << 10 && grown < 60 << 10, "the keeper has {keeper} KiB, the client's end {grown} more");
            // Slow for a moment, so that the command has to wait.
            std::thread::sleep(Duration::from_millis(20));
        }
        at += piece.bytes.len() as u64;
    }
    note(&format!("{at} bytes; at most {} KiB in the keeper, {} KiB more in the client's end", most.0, most.1));
    assert_eq!((at, rest.finished().map(|f| (f.output, f.exited.code))), (length, Some((length, 0))));
}

fn what_was_dropped_is_told_by_the_offsets(w: &World) {
    needs!(w, "busybox", "unshare");
    let root = EmptyRoot::start(w);
    let (last, length) = counting(16 << 20);
    let id = CommandId::FIRST;
    root.connect().exec(detached(&["seq", "1", &last.to_string()], id), &[]).expect("it starts");
    eventually("it ends, since nobody holds it up", || !root.connect().ended().expect("it answers").is_empty());
    let mut followed = root.follow(id, 5);
    let first = followed.next_piece().expect("it answers").expect("there is some");
    let mut output = first.bytes;
    while let Some(piece) = followed.next_piece().expect("it answers") {
        output.extend_from_slice(&piece.bytes);
    }
    assert_eq!(first.start + output.len() as u64, length);
    assert!(first.start > 5 && (1_000_000..3_000_000).contains(&output.len()), "{} bytes from {}", output.len(), first.start);
    assert!(String::from_utf8_lossy(&output).ends_with(&format!("\n{}\n{last}\n", last - 1)));
}

fn a_command_that_ended_can_be_attached_to(w: &World) {
    needs!(w, "busybox", "unshare");
    let root = EmptyRoot::start(w);
    let mut id = CommandId::FIRST;
    for round in 0..40 {
        root.connect().exec(detached(&["sh", "-c", &format!("echo {round}; exit {round}")], id), &[]).expect("it starts");
        let mut followed = root.follow(id, 0);
        let piece = followed.next_piece().expect("it answers").expect("it says something");
        assert_eq!(String::from_utf8_lossy(&piece.bytes), format!("{round}\n"));
        assert_eq!(followed.next_piece().expect("it answers"), None);
        assert_eq!(followed.finished().map(|f| f.exited.code), Some(round));
        let mut again = root.follow(id, 0);
        assert_eq!(again.next_piece().expect("it answers"), Some(piece));
        id = id.next().expect("there are more");
    }
    let error = root.connect().read_output(CommandId::FIRST, 0).expect_err("the oldest made room");
    assert!(matches!(error, ClientError::Failed(failed) if failed.reason == Reason::NoSuchProcess));
    assert!(root.connect().attach(CommandId::FIRST, 0).expect("it answers").is_none());
}

fn input_stays_open_from_one_client_to_the_next(w: &World) {
    needs!(w, "busybox", "unshare");
    let root = EmptyRoot::start(w);
    let id = CommandId::FIRST;
    let exec = Exec { stdio: [Given::Kept, Given::Null, Given::Null], ..detached(&["cat"], id) };
    root.connect().exec(exec, &[]).expect("it starts");
    for line in ["one\n", "two\n"] {
        let mut followed = root.follow(id, 0);
        let mut input = File::from(followed.attached.input.take().expect("it takes input"));
        input.write_all(line.as_bytes()).expect("it is there");
        let mut shown = String::new();
        while !shown.ends_with(line) {
            let piece = followed.next_piece().expect("it answers").expect("it goes on");
            shown.push_str(&String::from_utf8_lossy(&piece.bytes));
        }
    }
    let mut followed = root.follow(id, 4);
    followed.attached.input = None;
    followed.news.close_input(id).expect("it is sent");
    assert_eq!(followed.next_piece().expect("it answers").map(|piece| piece.bytes), Some(b"two\n".to_vec()));
    assert_eq!(followed.next_piece().expect("it answers"), None);
    assert_eq!(followed.finished().map(|f| f.exited.code), Some(0));
}

fn a_terminal_in_the_background_is_typed_into(w: &World) {
    needs!(w, "busybox", "unshare");
    let root = EmptyRoot::start(w);
    let id = CommandId::FIRST;
    let script = "while read x; do echo \"<$x>\"; [ $x = end ] && exit 4; done";
    let exec = Exec { terminal: Some((80, 24)), ..detached(&["sh", "-c", script], id) };
    root.connect().exec(exec, &[]).expect("it starts");
    for (typed, at, shown) in [("one\n", 0, "one\r\n<one>\r\n"), ("end\n", 12, "end\r\n<end>\r\n")] {
        let mut followed = root.follow(id, at);
        assert!(followed.attached.is_terminal);
        let mut input = File::from(followed.attached.input.take().expect("it takes input"));
        input.write_all(typed.as_bytes()).expect("it is there");
        let mut seen = String::new();
        while seen.len() < shown.len() {
            let piece = followed.next_piece().expect("it answers").expect("it goes on");
            seen.push_str(&String::from_utf8_lossy(&piece.bytes));
        }
        assert_eq!(seen, shown, "all of it is in the log, and nobody else read it");
    }
    let mut followed = root.follow(id, 24);
    assert_eq!(followed.next_piece().expect("it answers"), None);
    assert_eq!(followed.finished().map(|f| f.exited.code), Some(4));
}

fn an_init_ends_with_its_stream(w: &World) {
    needs!(w, "busybox", "unshare");
    let (mut process, input, mut output) = EmptyRoot::start_bare(w);
    let mut hello = [0; 8];
    output.read_exact(&mut hello).expect("it greets");
    drop(input);
    let ended = wait_for(Duration::from_secs(60), || process.try_wait().expect("it is our child"));
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    let refused = w.program(keeper_program(w)).args(["init"]).go().exits(1);
    assert!(refused.stderr.contains("only PID 1 is an init"), "{}", refused.stderr);
}

fn something_else_than_a_client_is_told_so(w: &World) {
    needs!(w, "busybox", "unshare");
    let (mut process, mut input, mut output) = EmptyRoot::start_bare(w);
    input.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("somebody reads");
    let mut told = Vec::new();
    output.read_to_end(&mut told).expect("it says something and ends");
    assert!(String::from_utf8_lossy(&told).ends_with("the other side does not speak the keeper's stream"));
    let ended = wait_for(Duration::from_secs(60), || process.try_wait().expect("it is our child"));
    assert!(ended.is_some(), "it ends");
}
