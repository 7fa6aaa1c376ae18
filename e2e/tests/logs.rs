//! The logs of commands in the background: bounded on disk, and a follower that keeps up gets every byte.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use whatif_e2e::numbered::stream;
use whatif_e2e::{Outcome, World, as_root, as_root_and_user, eventually, needs, wait_for};

as_root_and_user!(
    a_follower_that_keeps_up_gets_every_byte,
    output_without_pause_is_bounded_and_what_is_missing_is_counted,
    a_command_is_never_held_up_by_its_log,
    the_last_lines_can_be_asked_for,
    what_a_command_leaves_behind_goes_on_writing,
    a_command_that_does_not_start_leaves_no_log,
    old_logs_make_room_for_new_ones,
    large_logs_make_room_for_new_ones,
    a_sandbox_that_starts_again_begins_its_logs_anew,
);
as_root!(a_full_disk_is_counted);

/// What the two files of a log may hold at most.
const MOST_ON_DISK: u64 = 16 << 20;
const TOTAL: u64 = 200_000_000;

/// Writes the numbered stream.
/// Arguments: how much in all, in what steps, and where it says how far it is and is told how far it may go ("" for no limit).
const PRODUCER: &str = r#"
import os, sys, time
total, step, place = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
at = 0
while at < total:
    end = min(at + step, total)
    first = at - at % 1024
    data = b''.join(b'%015d' % n + b'.' * 1008 + b'\n' for n in range(first, end, 1024))[at - first:end - first]
    while data:
        data = data[os.write(1, data):]
    at = end
    while place and at < total and not os.path.exists('%s-%d' % (place, at)):
        time.sleep(0.002)
"#;

fn produce(w: &World, name: &str, total: u64, step: u64, place: &str) -> String {
    let program = ["--", "/usr/bin/python3", "-c", PRODUCER, &total.to_string(), &step.to_string(), place].map(str::to_owned);
    let arguments = ["exec", name, "-d"].map(str::to_owned).into_iter().chain(program);
    w.whatif(["--json"]).args(arguments).go().ok().json()["pid"].to_string()
}

fn has_ended(w: &World, name: &str, pid: &str) -> bool {
    w.exec(name, &format!("test -e /proc/{pid}")).code == 1
}

fn log_directory(w: &World, name: &str) -> PathBuf {
    PathBuf::from(w.json(["show", name])["directory"].as_str().expect("a path")).join("logs")
}

fn bytes_on_disk(directory: &PathBuf) -> u64 {
    fs::read_dir(directory).expect("it has logs").map(|e| e.and_then(|e| e.metadata()).expect("a file").len()).sum()
}

fn follow(w: &World, name: &str) -> Child {
    w.whatif(["logs", "-f", name]).streams(Stdio::null(), Stdio::piped(), Stdio::piped()).spawn()
}

/// The sum of all notes about dropped output.
fn dropped(notes: &str) -> u64 {
    let lines = notes.lines().filter_map(|l| l.strip_prefix("[whatif: ")?.split_once(" bytes of earlier output were dropped]"));
    lines.map(|(n, _)| n.parse::<u64>().expect("a number")).sum()
}

/// The producer goes on only when the follower has everything so far, so the result does not depend on who is quicker.
fn a_follower_that_keeps_up_gets_every_byte(w: &World) {
    needs!(w, "python3");
    const STEP: u64 = 7_000_000;
    let name = w.new_sandbox("followed");
    let place = w.project.join("go");
    let pid = produce(w, &name, TOTAL, STEP, &place.to_string_lossy());
    let mut following = follow(w, &name);
    let (mut output, mut notes) = (following.stdout.take().expect("it is piped"), following.stderr.take().expect("it is piped"));
    let directory = log_directory(w, &name);
    let mut at = 0;
    let mut buffer = vec![0; 1 << 20];
    while at < TOTAL {
        let length = output.read(&mut buffer).expect("it is our pipe");
        assert!(length > 0, "the follower ended at {at}");
        assert_eq!(buffer[..length], stream(at, length), "at {at}");
        let before = at;
        at += length as u64;
        if at / STEP > before / STEP && at < TOTAL {
            assert_eq!(at % STEP, 0, "the producer waits here");
            assert!(bytes_on_disk(&directory) <= MOST_ON_DISK);
            w.exec(&name, &format!("touch {}-{at}", place.display())).ok();
        }
    }
    assert_eq!(output.read(&mut buffer).expect("it is our pipe"), 0, "nothing more comes");
    let mut said = String::new();
    notes.read_to_string(&mut said).expect("text");
    assert_eq!(said, "");
    assert!(following.wait().expect("it is our child").success());
    assert!(has_ended(w, &name, &pid));
    assert!(bytes_on_disk(&directory) <= MOST_ON_DISK);
}

fn output_without_pause_is_bounded_and_what_is_missing_is_counted(w: &World) {
    needs!(w, "python3");
    let name = w.new_sandbox("quick");
    let pid = produce(w, &name, TOTAL, 1 << 20, "");
    let mut following = follow(w, &name);
    let directory = log_directory(w, &name);
    let (mut output, mut notes) = (following.stdout.take().expect("it is piped"), following.stderr.take().expect("it is piped"));
    let followed = std::thread::spawn(move || {
        let (mut length, mut buffer) = (0, vec![0; 1 << 20]);
        while let Ok(read @ 1..) = output.read(&mut buffer) {
            length += read as u64;
        }
        length
    });
    let ended = wait_for(Duration::from_secs(60), || {
        assert!(bytes_on_disk(&directory) <= MOST_ON_DISK);
        has_ended(w, &name, &pid).then_some(())
    });
    assert!(ended.is_some(), "it ends although nobody reads its log");
    let followed = followed.join().expect("it only counts");
    let mut said = String::new();
    notes.read_to_string(&mut said).expect("text");
    assert!(following.wait().expect("it is our child").success());
    assert_eq!(followed + dropped(&said), TOTAL, "{said}");

    let document = w.json(["logs", &name]);
    let (kept, gone) = (document["output"].as_str().expect("text"), document["dropped_bytes"].as_u64().expect("a number"));
    assert_eq!(kept.len() as u64 + gone, TOTAL);
    assert!(kept.len() as u64 > MOST_ON_DISK / 2 - 100, "only {} bytes are kept", kept.len());
    assert!(kept.as_bytes() == stream(gone, kept.len()), "it is the end of the stream");
    let shown = w.whatif(["logs", &name, &pid]).go().ok();
    assert_eq!((shown.stdout.len(), dropped(&shown.stderr)), (kept.len(), gone));
}

/// A log nobody reads, and one whose reader does not read on.
fn a_command_is_never_held_up_by_its_log(w: &World) {
    let name = w.new_sandbox("unread");
    w.whatif(["exec", &name, "-d", "--", "/bin/sh", "-c", "head -c 50000000 /dev/zero; echo done > done"]).go().ok();
    let mut stuck = follow(w, &name);
    eventually("it ends", || w.exec(&name, "cat done").stdout == "done\n");
    let _ = stuck.kill();
    stuck.wait().expect("it is our child");
}

fn the_last_lines_can_be_asked_for(w: &World) {
    let name = w.new_sandbox("tail");
    let script = "seq 1000; while [ ! -e go ]; do sleep 0.05; done; echo end";
    let pid = w.json(["exec", &name, "-d", "--", "/bin/sh", "-c", script])["pid"].to_string();
    eventually("all lines are there", || w.whatif(["logs", &name]).go().ok().stdout.ends_with("\n1000\n"));
    assert_eq!(w.whatif(["logs", &name, "--tail", "3"]).go().ok().stdout, "998\n999\n1000\n");
    assert_eq!(w.whatif(["logs", "-n", "0", &name]).go().ok().stdout, "");
    assert_eq!(w.json(["logs", &name, "--tail", "1"])["output"], "1000\n");
    let mut following =
        w.whatif(["logs", "-f", "--tail", "2", &name, &pid]).streams(Stdio::null(), Stdio::piped(), Stdio::null()).spawn();
    let mut output = following.stdout.take().expect("it is piped");
    let mut first = [0; 9];
    output.read_exact(&mut first).expect("the tail comes at once");
    assert_eq!(&first, b"999\n1000\n");
    w.exec(&name, "touch go").ok();
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "end\n");
    assert!(following.wait().expect("it is our child").success());
}

fn what_a_command_leaves_behind_goes_on_writing(w: &World) {
    let name = w.new_sandbox("left");
    let script = "echo first; (while [ ! -e go ]; do sleep 0.05; done; echo second && echo third) & exit 0";
    let pid = w.json(["exec", &name, "-d", "--", "/bin/sh", "-c", script])["pid"].to_string();
    eventually("the command itself ends", || has_ended(w, &name, &pid));
    w.exec(&name, "touch go").ok();
    eventually("its child is heard", || w.whatif(["logs", &name]).go().ok().stdout == "first\nsecond\nthird\n");
}

fn a_command_that_does_not_start_leaves_no_log(w: &World) {
    let name = w.new_sandbox("nothing");
    w.whatif(["exec", &name, "-d", "--", "no-such-program-at-all"]).go().exits(127);
    assert_eq!(fs::read_dir(log_directory(w, &name)).expect("it is made before").count(), 0);
    w.whatif(["logs", &name]).go().fails_with_hint(2).says("has no logs");
}

fn old_logs_make_room_for_new_ones(w: &World) {
    let name = w.new_sandbox("many");
    let alive = w.json(["exec", &name, "-d", "--", "/bin/sh", "-c", "echo alive; exec sleep 1000"])["pid"].to_string();
    let pids: Vec<String> = (0..60)
        .map(|n| {
            let pid = w.json(["exec", &name, "-d", "--", "echo", &n.to_string()])["pid"].to_string();
            eventually("it ends", || has_ended(w, &name, &pid));
            pid
        })
        .collect();
    let left = fs::read_dir(log_directory(w, &name)).expect("it has logs").count();
    assert!(left <= 2 * 50, "{left} files");
    w.whatif(["logs", &name, &pids[0]]).go().fails_with_hint(2);
    assert_eq!(w.whatif(["logs", &name, &pids[59]]).go().ok().stdout, "59\n");
    assert_eq!(w.whatif(["logs", &name, &alive]).go().ok().stdout, "alive\n", "what runs keeps its log");
}

fn large_logs_make_room_for_new_ones(w: &World) {
    let name = w.new_sandbox("large");
    let directory = log_directory(w, &name);
    for _ in 0..16 {
        let pid = w.json(["exec", &name, "-d", "--", "head", "-c", "20000000", "/dev/zero"])["pid"].to_string();
        eventually("it ends", || has_ended(w, &name, &pid));
        assert!(bytes_on_disk(&directory) <= (128 << 20) + MOST_ON_DISK);
    }
    let left = fs::read_dir(&directory).expect("it has logs").count() / 2;
    assert!((8..14).contains(&left), "as many as fit stay: {left}");
}

/// Numbers of processes begin anew, too.
fn a_sandbox_that_starts_again_begins_its_logs_anew(w: &World) {
    let name = w.new_sandbox("again");
    let first = w.json(["exec", &name, "-d", "--", "/bin/sh", "-c", "head -c 20000000 /dev/zero; echo before"])["pid"].to_string();
    eventually("it ends", || has_ended(w, &name, &first));
    w.whatif(["stop", &name]).go().ok();
    assert_eq!(w.whatif(["logs", &name, &first, "--tail", "1"]).go().ok().stdout.trim_start_matches('\0'), "before\n");
    w.whatif(["start", &name]).go().ok();
    let again = w.json(["exec", &name, "-d", "--", "echo", "after"])["pid"].to_string();
    eventually("it ends", || has_ended(w, &name, &again));
    let document = w.json(["logs", &name]);
    assert_eq!((&document["output"], &document["dropped_bytes"]), (&"after\n".into(), &0.into()));
    if first == again {
        assert_eq!(w.whatif(["logs", &name, &first]).go().ok().stdout, "after\n");
    }
}

/// A script in a mount namespace of its own with a small state directory; `$0` is whatif.
fn with_small_state(w: &World, script: &str) -> Outcome {
    let script = format!("mount -t tmpfs -o size=24m,mode=700 state \"$WHATIF_HOME\"\n{script}\n\"$0\" rm -y full >&2");
    let unshare = ["--mount", "--propagation", "private", "/bin/sh", "-euc", &script];
    w.program("/usr/bin/unshare").args(unshare).args([&w.bin]).go().ok()
}

/// While the disk is full the command goes on; afterwards its log does, and says how much is missing.
fn a_full_disk_is_counted(w: &World) {
    // The keeper would rather end the command than let it fill the disk; here somebody else does.
    w.configure("[disk]\nkeep_free = 0\n");
    let script = r#"
wait_for() { n=0; until eval "$1"; do n=$((n + 1)); [ $n -lt 1200 ]; sleep 0.05; done; }
"$0" new full >&2
"$0" exec full -d -- /bin/sh -c 'echo first; until [ -e /tmp/go ]; do sleep 0.02; done; head -c 3000000 /dev/zero; echo > /tmp/written; \
until [ -e /tmp/on ]; do sleep 0.02; done; echo last' >&2
wait_for '[ "$("$0" logs full)" = first ]'
cat /dev/zero > "$WHATIF_HOME/filler" 2>/dev/null || true
"$0" exec full -- touch /tmp/go
wait_for '"$0" exec full -- test -e /tmp/written'
"$0" logs full 2>&1 | tr -d '\0'
rm "$WHATIF_HOME/filler"
"$0" exec full -- touch /tmp/on
wait_for '"$0" logs full 2>/dev/null | grep -q last'
"$0" logs full 2>/dev/null | tr -d '\0'
"$0" --json logs full --tail 1 | sed 's/\\\\u0000//g'
"#;
    let outcome = with_small_state(w, script);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let [before, note, first, last, document] = lines[..] else { panic!("{outcome:?}") };
    assert_eq!((before, first, last), ("first", "first", "last"), "{outcome:?}");
    let missing = dropped(note);
    assert!(missing > 2_000_000 && missing <= 3_000_000, "{outcome:?}");
    assert!(document.contains(&format!("\"dropped_bytes\":{missing}")), "{document}");
}
