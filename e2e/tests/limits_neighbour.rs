//! What one sandbox does within its limits, another one hardly notices: its commands take at most three times as long as before.
//!
//! Both are measured in the same run, and more than once, because a machine has other things to do, too.

use std::time::{Duration, Instant};

use whatif_e2e::{World, as_root_and_user, eventually, needs};

as_root_and_user!(
    a_fork_bomb_does_not_slow_a_neighbour_down,
    a_memory_bomb_does_not_slow_a_neighbour_down,
    filling_a_disk_does_not_slow_a_neighbour_down,
    filling_a_disk_with_files_does_not_slow_a_neighbour_down,
    busy_loops_do_not_slow_a_neighbour_down,
);

const TRIES: usize = 6;
const CALLS: usize = 15;
const TIMES: u32 = 3;

/// The median of a few commands in the neighbour.
fn latency(w: &World) -> Duration {
    let mut times: Vec<Duration> = (0..CALLS)
        .map(|_| {
            let begun = Instant::now();
            w.whatif(["exec", "neighbour", "--", "/bin/true"]).go().ok();
            begun.elapsed()
        })
        .collect();
    times.sort();
    times[CALLS / 2]
}

/// How many processes go by this name. Not by their command lines: to read that of one that forks for ever would mean to wait
/// until it lets go of its memory.
fn count(name: &str) -> usize {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    entries.filter(|e| std::fs::read_to_string(e.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)).count()
}

/// Starts a program in a sandbox with limits, and compares.
fn compare(w: &World, limits: &[&str], program: &str, at_least: usize) {
    w.new_sandbox("neighbour");
    w.whatif(["new", "wild"]).args(limits).go().ok();
    let name: String = w.dir.display().to_string().bytes().rev().take(15).map(char::from).collect();
    let program = format!("import ctypes\nctypes.CDLL(None).prctl(15, b'{name}')\n{program}");
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let before = latency(w);
        w.whatif(["exec", "-d", "wild", "--", "/usr/bin/python3", "-c", &program]).go().ok();
        eventually("it is under way", || count(&name) >= at_least);
        let during = latency(w);
        w.whatif(["stop", "--grace", "0s", "wild"]).go().ok();
        w.whatif(["rm", "wild"]).go().ok();
        seen.push((before, during));
        if during <= before * TIMES {
            return;
        }
        w.whatif(["new", "wild"]).args(limits).go().ok();
    }
    panic!("more than {TIMES} times as long each time: {seen:?}");
}

fn a_fork_bomb_does_not_slow_a_neighbour_down(w: &World) {
    needs!(w, "python3");
    let program = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass";
    compare(w, &["--pids", "100", "--cpus", "1"], program, 50);
}

/// The one that is killed is followed by the next.
fn a_memory_bomb_does_not_slow_a_neighbour_down(w: &World) {
    needs!(w, "python3");
    let program = "import os\nwhile True:\n  if os.fork() == 0:\n    x = bytearray(1 << 30); os._exit(0)\n  os.wait()";
    // Where everything is ended at once, there is nobody left to go on.
    let looping = if w.is_root() { program } else { "x = bytearray(60 << 20)\nimport time\nwhile True: x = bytearray(60 << 20)" };
    compare(w, &["--memory", "128M", "--cpus", "1"], looping, 1);
}

fn filling_a_disk_does_not_slow_a_neighbour_down(w: &World) {
    needs!(w, "python3");
    let program = "import os\nwhile True:\n  f = open('big', 'wb')\n  for n in range(40): f.write(b'x' * (1 << 20))\n  f.close(); os.unlink('big')";
    compare(w, &["--disk", "64M", "--cpus", "1"], program, 1);
}

fn filling_a_disk_with_files_does_not_slow_a_neighbour_down(w: &World) {
    needs!(w, "python3");
    let program = "import os\nos.mkdir('d')\nwhile True:\n  for n in range(900): os.close(os.open(f'd/{n}', os.O_CREAT | os.O_WRONLY))\n  for n in range(900): os.unlink(f'd/{n}')";
    compare(w, &["--inodes", "1000", "--cpus", "1"], program, 1);
}

fn busy_loops_do_not_slow_a_neighbour_down(w: &World) {
    needs!(w, "python3");
    let program = "import os\nfor n in range(8): os.fork()\nwhile True: pass";
    compare(w, &["--cpus", "1", "--pids", "300"], program, 100);
}
