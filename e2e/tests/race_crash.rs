//! A race that is killed at any moment, and commands about one that are killed at any system call: repeated, they come to the same
//! end, and nothing is left over.
//!
//! `WHATIF_KILLS=N` and `WHATIF_SEED=N` kill races so often and at other moments. Some system calls of each command are tried;
//! `WHATIF_SWEEP=full` tries all.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use whatif_e2e::racing::ORDERED;
use whatif_e2e::{Detail, Fault, Point, Random, Tree, World, as_root_and_user, eventually, needs, sample, wait_for};

as_root_and_user!(
    killed_at_any_moment_it_is_resumed_to_the_same_end,
    an_apply_that_is_killed_can_be_repeated,
    a_merge_that_is_killed_can_be_repeated,
    a_removal_that_is_killed_can_be_repeated
);

const SAMPLE: usize = 6;

/// Kills are by the clock, so each round finds it elsewhere.
fn killed_at_any_moment_it_is_resumed_to_the_same_end(w: &World) {
    let seed = std::env::var("WHATIF_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(7);
    let rounds = std::env::var("WHATIF_KILLS").ok().and_then(|s| s.parse().ok()).unwrap_or(4);
    let mut random = Random::from(seed);
    let nothing = w.inventory();
    let started = std::time::Instant::now();
    let setup = "--setup=sleep 0.05; echo prepared > prepared";
    let undisturbed = w.race([&["--name=whole", setup], ORDERED.as_slice()].concat()).exits(0);
    let whole = started.elapsed();
    let expected = undisturbed.places();
    for round in 0..rounds {
        let name = format!("killed-{round}");
        let mut running = w.begin_race([&[setup, "--name", &name], ORDERED.as_slice()].concat());
        let race = loop {
            std::thread::sleep(whole.mul_f64(random.below(90) as f64 / 100.0));
            running.signal(Signal::KILL);
            let killed = running.ends();
            let recorded =
                w.json(["race", "ls"]).as_array().is_some_and(|all| all.iter().any(|race| race["race"] == name.as_str()));
            if killed.code == 0 {
                break killed;
            }
            assert_eq!(killed.code, -1, "{}", killed.stderr);
            running = if recorded {
                w.begin_race(["resume", "--race", &name])
            } else {
                w.begin_race([&[setup, "--name", &name], ORDERED.as_slice()].concat())
            };
            if random.once_in(2) {
                break running.ends();
            }
        };
        race.exits(0);
        assert_eq!(w.recorded_places(&name), expected, "round {round} of seed {seed}");
    }
    w.whatif(["race", "rm", "--all"]).go().ok();
    assert_eq!(w.json(["ls"]), json!([]), "seed {seed}");
    w.assert_inventory_is(&nothing, "of races that were killed");
}

fn race(w: &World) {
    w.outside("rm -rf ./*; seq 20 > f; echo g > g").ok();
    let attempts = [
        "--attempt=one=sed -i s/^2$/two/ f; rm g; mkdir d; echo d > d/d",
        "--attempt=two=sed -i s/^19$/nineteen/ f; echo G > G; echo h > h",
    ];
    w.race([&["--name=victim", "--check=test -e f", "--setup=true"], attempts.as_slice()].concat()).exits(0);
}

/// Where a command changes something, and what becomes of the project when nobody disturbs it.
fn undisturbed(w: &World, command: &[&str]) -> (Vec<Point>, Tree) {
    race(w);
    let points = w.points_of_move(&w.project, command);
    let after = Tree::of(&w.project, Detail::Content);
    remove_all(w);
    (points, after)
}

#[track_caller]
fn remove_all(w: &World) {
    w.whatif(["race", "rm", "--all"]).go().ok();
    assert_eq!((w.json(["race", "ls", "--all"]), w.json(["ls"])), (json!([]), json!([])));
}

/// What it started may live on, and strace with it; so it is the command that is waited for, first to come and then to go.
fn kill_at(w: &World, point: &Point, command: &[&str]) {
    let mut strace = w.with_fault(point, Fault::Kill, command).streams(Stdio::null(), Stdio::null(), Stdio::null()).spawn();
    let parent = strace.id().to_string();
    let runs = || w.processes().iter().any(|line| !line.contains("strace") && is_child(line, &parent));
    for is_awaited in [true, false] {
        let mut is_over = || strace.try_wait().expect("it is our child").is_some();
        let _ = wait_for(Duration::from_secs(60), || (is_over() || runs() == is_awaited).then_some(()));
    }
    let _ = strace.kill();
    let _ = strace.wait();
}

/// Whether the process that a line begins with was started by another.
fn is_child(line: &str, parent: &str) -> bool {
    let pid = line.split(' ').next().unwrap_or_default();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|id| id.trim() == parent))
}

/// Kills it at each of some points, and looks at what is to be seen after each.
fn at_some_points(w: &World, turn: usize, command: &[&str], look: impl Fn(&str, &Tree, &Tree)) {
    let (points, after) = undisturbed(w, command);
    w.outside(&format!("rm -rf {}/applies/*", w.state.display())).ok();
    eventually("nothing runs", || w.own_process_ids().is_empty());
    let nothing = w.inventory();
    for point in sample(&points, SAMPLE, turn) {
        race(w);
        let before = Tree::of(&w.project, Detail::Content);
        kill_at(w, &point, command);
        look(&format!("{point:?}"), &before, &after);
        remove_all(w);
        w.outside(&format!("rm -rf {}/applies/*", w.state.display())).ok();
        w.assert_inventory_is(&nothing, &format!("{point:?}"));
    }
}

fn an_apply_that_is_killed_can_be_repeated(w: &World) {
    needs!(w, "strace");
    let command = ["race", "apply", "best", "--yes"];
    at_some_points(w, 0, &command, |point, before, after| {
        // Whichever command comes next puts things right.
        w.whatif(["race", "ls"]).go().ok();
        let now = Tree::of(&w.project, Detail::Content);
        assert!(now == *before || now == *after, "{point}: neither before nor after");
        let again = w.whatif(command).go();
        assert!(again.code == 0 || (now == *after && again.code == 125), "{point}: {again:?}");
        Tree::of(&w.project, Detail::Content).assert_is(after, point);
        w.whatif(["race", "show"]).go().ok();
    });
}

fn a_merge_that_is_killed_can_be_repeated(w: &World) {
    needs!(w, "strace");
    let command = ["race", "merge", "one", "two", "--as", "both"];
    at_some_points(w, 1, &command, |point, before, _| {
        Tree::of(&w.project, Detail::Content).assert_is(before, point);
        w.whatif(["race", "show"]).go().ok();
        let again = w.whatif(command).go();
        let is_done = w.recorded_order("victim").contains(&"both".to_owned());
        assert!(is_done && (again.code == 0 || again.stderr.contains("both")), "{point}: {again:?}");
        w.whatif(["race", "apply", "both", "--yes"]).go().ok();
        let f = w.read("f");
        assert!(f.contains("\ntwo\n") && f.contains("\nnineteen\n") && w.read("h") == "h\n", "{point}: {f}");
    });
}

fn a_removal_that_is_killed_can_be_repeated(w: &World) {
    needs!(w, "strace");
    at_some_points(w, 2, &["race", "rm", "victim"], |point, before, _| {
        Tree::of(&w.project, Detail::Content).assert_is(before, point);
        w.whatif(["race", "ls"]).go().ok();
    });
}
