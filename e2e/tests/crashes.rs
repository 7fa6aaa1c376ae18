//! kill -9 of the command line, of the keeper, and of both, at random points: the next command repairs everything.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;
use whatif_e2e::{World, as_root_and_user, on_other_backends, wait_for};

as_root_and_user!(
    killing_the_command_line_leaves_nothing_behind,
    killing_the_keeper_loses_no_change,
    killing_both_leaves_nothing_behind,
    killing_while_removing_or_stopping_is_repaired,
);
on_other_backends!(killing_the_keeper_loses_no_change);

/// What dies or is deleted does so at once, unless the machine is busy with much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many kills each of the eight tests does: 200 in all in CI, 40 otherwise, or `$WHATIF_E2E_CRASHES` in all.
fn rounds() -> u64 {
    let all = std::env::var("WHATIF_E2E_CRASHES").ok().and_then(|n| n.parse().ok());
    all.unwrap_or(if std::env::var_os("CI").is_some() { 200_u64 } else { 40 }).div_ceil(8)
}

/// Points spread over the life of a command, irregularly but the same in every run.
fn moments(seed: u64, longest: Duration) -> impl Iterator<Item = Duration> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some(longest.mul_f64((state % 1000) as f64 / 1000.0))
    })
}

/// A point in time is what this is about, so here it is waited for.
fn at(moment: Duration, since: Instant) {
    let _ = wait_for::<()>(moment.saturating_sub(since.elapsed()), || None);
}

fn start(w: &World, arguments: &[&str]) -> Child {
    w.whatif(arguments.iter().copied()).streams(Stdio::null(), Stdio::null(), Stdio::null()).spawn()
}

fn kill(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn kill_keepers(w: &World) {
    for line in w.processes().iter().filter(|l| l.contains(" keeper ")) {
        kill_by_id(line.split(' ').next().and_then(|p| p.parse().ok()).expect("a line begins with the pid"));
    }
}

/// Kills a process that is not our child, and returns when it is dead. One that is gone already is fine.
fn kill_by_id(pid: i32) {
    let pid = Pid::from_raw(pid).expect("a pid is not zero");
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    let _ = pidfd_send_signal(&handle, Signal::KILL);
    let deadline = PATIENCE.try_into().expect("it is near");
    let dead = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&deadline));
    assert_eq!(dead, Ok(1), "a killed process dies");
}

/// The next command; afterwards only what is recorded as active may run, and nothing is half done or mounted.
#[track_caller]
fn assert_repaired(w: &World, context: &str) -> Vec<Value> {
    let list = || w.json(["ls"]).as_array().expect("a list").clone();
    let mut listed = list();
    // What a killed command was just starting may live a moment longer, and keeps what it works on. What is removed goes by and by.
    let left = wait_for(PATIENCE, || {
        if w.transient().is_empty() {
            return Some(());
        }
        listed = list();
        None
    });
    assert!(left.is_some(), "{context}: half done: {:?}, running: {:?}", w.transient(), w.processes());
    assert_eq!(w.mounts(), Vec::<String>::new(), "{context}");
    let active = |listed: &[Value]| listed.iter().filter(|s| s["status"] == "active").count();
    let keepers = || w.processes().iter().filter(|p| p.contains(" keeper ")).count();
    // A keeper told to stop just before the kill may have been on its way out when it was listed.
    let settled = wait_for(PATIENCE, || {
        listed = if keepers() == active(&listed) { return Some(()) } else { list() };
        None
    });
    assert!(settled.is_some(), "{context}: {} active, running: {:?}", active(&listed), w.processes());
    let directories = std::fs::read_dir(w.state.join("sandboxes")).map_or(0, Iterator::count);
    assert_eq!(directories, listed.len(), "{context}: a directory for each record and no other");
    assert!(listed.iter().all(|s| s["status"] == "active" || s["status"] == "stopped"), "{context}: {listed:?}");
    listed
}

fn killing_the_command_line_leaves_nothing_behind(w: &World) {
    for (round, moment) in moments(1, Duration::from_millis(30)).take(rounds() as usize).enumerate() {
        let since = Instant::now();
        let command = if round % 2 == 0 { "true" } else { "echo x > changed; sleep 1000" };
        let child = start(w, &["run", "--", "/bin/sh", "-c", command]);
        at(moment, since);
        kill(child);
        for sandbox in assert_repaired(w, &format!("round {round} at {moment:?}")) {
            assert!(round % 2 == 1 || sandbox["changed_files"] != 0, "nothing changed, so nothing is kept: {sandbox}");
            w.whatif(["rm", sandbox["name"].as_str().expect("a name")]).go().ok();
        }
    }
    w.whatif(["gc"]).go().ok();
    w.assert_nothing_left();
}

fn killing_the_keeper_loses_no_change(w: &World) {
    let name = w.new_sandbox("victim");
    for (round, moment) in moments(2, Duration::from_millis(20)).take(rounds() as usize).enumerate() {
        w.exec(&name, &format!("echo {round} > kept-{round}; sync kept-{round}")).ok();
        let keeper = w.json(["show", &name])["keeper_pid"].as_i64().and_then(|p| i32::try_from(p).ok()).expect("it runs");
        let since = Instant::now();
        let mut busy = start(w, &["exec", &name, "--", "/bin/sh", "-c", "while :; do echo x > busy; rm busy; done"]);
        at(moment, since);
        kill_by_id(keeper);
        // A command that had not yet reached the sandbox starts it again, which is its right; then that keeper is killed, too.
        let ended = wait_for(PATIENCE, || {
            kill_keepers(w);
            busy.try_wait().expect("it is our child")
        });
        assert!(ended.is_some(), "a command whose sandbox died ends");
        assert_repaired(w, &format!("round {round} at {moment:?}"));
        assert_eq!(w.json(["show", &name])["status"], "stopped");
        w.whatif(["start", &name]).go().ok();
        assert_eq!(
            w.exec(&name, "cat $(ls kept-* | sort -V)").ok().stdout.lines().count(),
            round + 1,
            "every change is still there"
        );
    }
}

fn killing_both_leaves_nothing_behind(w: &World) {
    let kept = w.new_sandbox("bystander");
    w.exec(&kept, "echo precious > precious").ok();
    w.whatif(["stop", &kept]).go().ok();
    for (round, moment) in moments(3, Duration::from_millis(30)).take(rounds() as usize).enumerate() {
        let since = Instant::now();
        let command: &[&str] = match round % 3 {
            0 => &["run", "--", "/bin/sh", "-c", "echo x > changed; sleep 1000"],
            1 => &["new", "made"],
            _ => &["start", "bystander"],
        };
        let child = start(w, command);
        at(moment, since);
        kill(child);
        kill_keepers(w);
        for sandbox in assert_repaired(w, &format!("round {round} at {moment:?}")) {
            let name = sandbox["name"].as_str().expect("a name");
            w.whatif([if name == "bystander" { "stop" } else { "rm" }, name]).go().ok();
        }
    }
    w.whatif(["start", &kept]).go().ok();
    assert_eq!(w.exec(&kept, "cat precious").ok().text(), "precious");
}

fn killing_while_removing_or_stopping_is_repaired(w: &World) {
    for (round, moment) in moments(4, Duration::from_millis(20)).take(rounds() as usize).enumerate() {
        let name = w.new_sandbox(&format!("r{round}"));
        w.exec(&name, "for n in $(seq 100); do echo $n > f$n; done").ok();
        let since = Instant::now();
        let child = start(w, &[["rm", "stop"][round % 2], &name]);
        at(moment, since);
        kill(child);
        let left = assert_repaired(w, &format!("round {round} at {moment:?}"));
        if left.iter().any(|s| s["name"] == name.as_str()) {
            w.whatif(["start", &name]).go().ok();
            assert_eq!(w.exec(&name, "ls | wc -l").ok().text(), "100", "it is either whole or gone");
            w.whatif(["rm", &name]).go().ok();
        }
    }
}
