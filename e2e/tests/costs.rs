//! What commands must not cost: flushes, each of which waits for the disk, a look through everything that there is, and asking
//! about every directory above a path.

use std::fs;

use whatif_e2e::{World, as_root_and_user, needs};

as_root_and_user!(a_fork_flushes_no_more_often_than_a_snapshot, a_diff_does_not_list_all_layers, a_diff_of_a_deep_tree_is_quick);

/// The calls of these names that `whatif …` makes itself, whatever is left to processes in the background.
#[track_caller]
fn calls(w: &World, names: &str, arguments: &[&str]) -> Vec<String> {
    let trace = w.dir.join("trace");
    let strace = w.program("/usr/bin/strace").args(["-e", &format!("trace={names}"), "-e", "signal=none", "-o"]);
    strace.args([&trace, &w.bin]).args(arguments).cwd(&w.project).go().ok();
    let trace = fs::read_to_string(&trace).expect("strace wrote it");
    trace.lines().filter(|line| line.contains('(')).map(str::to_owned).collect()
}

/// How often a command flushes, after something was prepared for it. It is done a few times, under other names: now and then the
/// records have to flush something of their own.
#[track_caller]
fn flushes(w: &World, prepare: impl Fn(usize), command: &[&str]) -> usize {
    let tried = (0..3).map(|number| {
        prepare(number);
        let name = format!("{}-{number}", command[2]);
        let arguments = [&command[..2], &[name.as_str()], &command[3..]].concat();
        calls(w, "fsync,fdatasync,syncfs", &arguments).len()
    });
    tried.min().expect("it was tried")
}

fn a_fork_flushes_no_more_often_than_a_snapshot(w: &World) {
    needs!(w, "strace");
    w.new_sandbox("a");
    let change = |number| w.exec("a", &format!("echo {number} > file-{number}")).ok();
    let of_snapshot = flushes(w, |number| _ = change(number), &["snapshot", "a", "first"]);
    assert!(of_snapshot > 0, "it is durable");
    let of_fork = flushes(w, |number| _ = change(number + 10), &["fork", "a", "alive"]);
    assert_eq!(of_fork, of_snapshot, "alive");
    let of_forks = flushes(w, |number| _ = change(number + 20), &["fork", "a", "many", "--count", "5"]);
    assert_eq!(of_forks, of_snapshot, "many at once");
    let rest = |number| {
        let _ = w.whatif(["start", "a"]).go();
        change(number + 30);
        w.whatif(["stop", "a"]).go().ok();
    };
    assert_eq!(flushes(w, rest, &["fork", "a", "rested"]), of_snapshot, "at rest");
    assert_eq!(flushes(w, |_| (), &["fork", "a", "again"]), of_snapshot, "where it stands already");
    for (fork, last) in [("alive-2", 12), ("many-2-5", 22), ("rested-2", 32), ("again-2", 32)] {
        w.whatif(["start", fork]).go().ok();
        w.exec(fork, &format!("cat file-{last}; ! test -e file-{}", last + 1)).ok();
    }
}

/// The end of its own ledger says that the records know all of a sandbox.
fn a_diff_does_not_list_all_layers(w: &World) {
    needs!(w, "strace");
    w.new_sandbox("a");
    w.exec("a", "echo 1 > one").ok();
    w.snapshot("a", "first");
    w.exec("a", "echo 2 > two").ok();
    let opened = calls(w, "openat", &["diff", "a"]);
    let listed = |line: &&String| line.contains("/layers\"") && line.contains("O_DIRECTORY");
    assert_eq!(opened.iter().find(listed), None);
}

/// In time of the processor, which does not depend on what else the machine does.
fn a_diff_of_a_deep_tree_is_quick(w: &World) {
    needs!(w, "python3");
    w.new_sandbox("a");
    let make = "import os\nfor _ in range(1800):\n  os.mkdir('d'); os.chdir('d')\nopen('f', 'w').write('x')";
    w.whatif(["exec", "a", "--", "/usr/bin/python3", "-c", make]).go().ok();
    let timed = w.program("/bin/sh").args(["-c", "\"$0\" diff a --name-only > shown; times"]).args([&w.bin]).go().ok();
    assert_eq!(w.read("shown").len(), 2 * 1800 + "f\n".len());
    // Of the shell itself, then of what it ran: minutes and seconds for the program, and for the kernel.
    let spent = timed.stdout.lines().nth(1).and_then(|line| line.split_whitespace().next()).and_then(|t| t.strip_suffix('s'));
    let (minutes, seconds) = spent.and_then(|spent| spent.split_once('m')).expect("that is what it prints");
    assert_eq!(minutes, "0", "{timed:?}");
    assert!(seconds.parse::<f64>().expect("a number") < 1.0, "{timed:?}");
}
