//! Many lives of sandboxes, most of them cut short: whatever is killed, whenever, nothing is left over in the end.
//! `WHATIF_SOAK=2000` for that many rounds, `WHATIF_SEED=7` for others.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use whatif_e2e::{Random, World, as_root_and_user, eventually, wait_for};

as_root_and_user!(an_inventory_sees_what_a_sandbox_is, nothing_is_left_over_after_many_lives);

fn number_from(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// What can be killed. Numbers are asked for anew each time: a process that is gone is no stranger's.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Nobody,
    CommandLine,
    Keeper,
    /// Something that runs inside.
    Command,
    /// All of them, as fast as possible.
    Everything,
}

const VICTIMS: [Victim; 6] =
    [Victim::Nobody, Victim::CommandLine, Victim::Keeper, Victim::Command, Victim::Everything, Victim::CommandLine];

/// What the count is worth: everything a living sandbox consists of is in it.
fn an_inventory_sees_what_a_sandbox_is(w: &World) {
    w.whatif(["run", "--rm", "--quiet", "--", "true"]).go().ok();
    w.assert_nothing_left();
    let before = w.inventory();
    // Without a network, so that nobody waits for its use.
    w.whatif(["new", "seen", "--pids", "50", "--net", "none"]).go().ok();
    w.whatif(["exec", "-d", "seen", "--", "sleep", "1000"]).go().ok();
    let seen = || before.differences(&w.inventory());
    let processes = || seen().iter().filter(|d| d.starts_with("+ process")).count();
    eventually("the keeper and the command", || processes() == 2);
    let seen = seen();
    let mut kinds = vec!["+ process", "+ namespace", "+ socket", "+ file"];
    kinds.extend(w.is_root().then_some("+ control group"));
    for kind in kinds {
        assert!(seen.iter().any(|difference| difference.starts_with(kind)), "no '{kind}' in {seen:#?}");
    }
    w.whatif(["rm", "seen"]).go().ok();
    w.assert_inventory_is(&before, "after it is gone");
}

fn nothing_is_left_over_after_many_lives(w: &World) {
    w.write("real", "untouched");
    // What is made once and stays, as the records do, is there before the first count.
    w.whatif(["run", "--rm", "--quiet", "--", "true"]).go().ok();
    w.assert_nothing_left();
    let before = w.inventory();
    let reality = whatif_e2e::canary(&[&w.project]);
    let (rounds, seed) = (number_from("WHATIF_SOAK", 60), number_from("WHATIF_SEED", 1));
    let mut random = Random::from(seed);
    let mut kept = Vec::new();
    for round in 0..rounds {
        let name = live(w, &mut random, round);
        kept.push(name);
        // A few live side by side, and go in another order than they came.
        if kept.len() > 4 {
            let gone = kept.swap_remove(random.below(kept.len()));
            interrupted(w, &mut random, &["rm", &gone]);
        }
        if random.once_in(20) {
            w.whatif(["gc"]).go().ok();
        }
    }
    w.whatif(["rm", "--all", "--yes"]).go().ok();
    w.whatif(["gc"]).go().ok();
    w.assert_inventory_is(&before, &format!("after {rounds} rounds with seed {seed}"));
    whatif_e2e::assert_same(&reality, &whatif_e2e::canary(&[&w.project]));
    assert_eq!(w.json(["ls"]), serde_json::json!([]));
}

/// One sandbox from its making to somewhere before its end.
fn live(w: &World, random: &mut Random, round: u64) -> String {
    let name = format!("s{round}");
    let limits: &[&str] = match random.below(4) {
        0 => &["--pids", "50"],
        1 => &["--memory", "200M", "--cpus", "1"],
        2 => &["--disk", "100M", "--ttl", "1h"],
        _ => &[],
    };
    let script = "echo x > changed; rm -f real; sleep 0.02";
    match random.below(3) {
        0 => interrupted(w, random, &[&["run", "--name", &name], limits, &["--", "/bin/sh", "-c", script]].concat()),
        1 => interrupted(w, random, &[&["run", "--keep", "--name", &name], limits, &["--", "true"]].concat()),
        _ => interrupted(w, random, &[&["new", &name], limits].concat()),
    }
    for _ in 0..random.below(3) {
        let commands: [&[&str]; 6] = [
            &["exec", &name, "--", "/bin/sh", "-c", script],
            &["exec", "-d", &name, "--", "/bin/sh", "-c", "setsid sleep 1000 & sleep 1000"],
            &["snapshot", &name],
            &["stop", &name, "--grace", "20ms"],
            &["start", &name],
            &["exec", "--timeout", "20ms", &name, "--", "sleep", "10"],
        ];
        let command = *random.pick(&commands);
        interrupted(w, random, command);
    }
    name
}

/// Runs a command, and kills somebody on the way. What the command says does not matter: its sandbox may be gone.
fn interrupted(w: &World, random: &mut Random, arguments: &[&str]) {
    let mut child = w.whatif(arguments.iter().copied()).streams(Stdio::null(), Stdio::null(), Stdio::null()).spawn();
    let moment = Duration::from_micros(random.below(25_000) as u64);
    let begun = Instant::now();
    // A point in time is what this is about, so here it is waited for.
    while begun.elapsed() < moment && child.try_wait().expect("it is our child").is_none() {
        std::thread::sleep(Duration::from_micros(200));
    }
    match random.pick(&VICTIMS) {
        Victim::Nobody => {}
        Victim::CommandLine => drop(child.kill()),
        Victim::Keeper => kill_some(&keepers(w), random),
        Victim::Command => kill_some(&inside(w), random),
        Victim::Everything => {
            let _ = child.kill();
            w.own_process_ids().into_iter().for_each(kill_by_id);
        }
    }
    ended(&mut child, arguments);
}

fn ended(child: &mut Child, arguments: &[&str]) {
    let ended = wait_for(Duration::from_secs(120), || child.try_wait().expect("it is our child"));
    if ended.is_none() {
        let _ = child.kill();
        let _ = child.wait();
        panic!("it did not end: {arguments:?}");
    }
}

fn keepers(w: &World) -> Vec<i32> {
    let lines = w.processes();
    let pids = lines.iter().filter(|l| l.contains(" keeper ")).filter_map(|l| l.split(' ').next()?.parse().ok());
    pids.collect()
}

fn inside(w: &World) -> Vec<i32> {
    let (keepers, own) = (keepers(w), w.own_process_ids());
    own.into_iter().filter(|pid| !keepers.contains(pid)).collect()
}

fn kill_some(pids: &[i32], random: &mut Random) {
    if !pids.is_empty() {
        kill_by_id(*random.pick(pids));
    }
}

fn kill_by_id(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}
