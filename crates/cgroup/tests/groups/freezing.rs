//! What is in a group that freezes does not run, whatever it is sent, and goes on or dies afterwards.

use std::fs;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, getpid, kill_process};
use whatif_cgroup::{Found, Freezer, Site, remove};

use crate::support::{eventually, fresh_name, is_dead};

/// A process in a new group. `None` where this user has no freezer.
fn inside() -> Option<(String, Freezer, Child)> {
    let site = match Site::look(getpid()) {
        Ok(site) => site,
        Err(why) => {
            println!("skipped: {why}");
            return None;
        }
    };
    let name = fresh_name();
    let freezer = site.make(&name).unwrap();
    let child = Command::new("sh").args(["-c", "while :; do sleep 0.001; done"]).spawn().unwrap();
    freezer.take(i32::try_from(child.id()).unwrap()).unwrap();
    let membership = fs::read_to_string(format!("/proc/{}/cgroup", child.id())).unwrap();
    assert!(freezer.holds(&membership), "{membership}");
    Some((name, freezer, child))
}

/// Used by it and its children, in ticks.
fn used(child: &Child) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (11..15).map(|field| fields[field].parse::<u64>().unwrap()).sum()
}

#[test]
fn no_signal_lets_it_go_on() {
    let Some((name, freezer, mut child)) = inside() else { return };
    freezer.freeze().unwrap();
    eventually("it is frozen", || freezer.is_frozen().unwrap());
    let before = used(&child);
    for _ in 0..50 {
        kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::CONT).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(freezer.is_frozen().unwrap());
    assert_eq!(used(&child), before);
    freezer.thaw().unwrap();
    eventually("it goes on", || used(&child) > before);
    remove(&Found::look(), &name).unwrap();
    child.wait().unwrap();
    assert!(freezer.is_gone());
}

#[test]
fn what_is_frozen_goes_with_its_group() {
    let Some((name, freezer, mut child)) = inside() else { return };
    freezer.freeze().unwrap();
    eventually("it is frozen", || freezer.is_frozen().unwrap());
    remove(&Found::look(), &name).unwrap();
    eventually("it is dead", || is_dead(child.id()));
    child.wait().unwrap();
}

#[test]
fn one_that_has_ended_is_nobody() {
    let Some((name, freezer, mut child)) = inside() else { return };
    child.kill().unwrap();
    child.wait().unwrap();
    freezer.take(i32::try_from(child.id()).unwrap()).unwrap();
    remove(&Found::look(), &name).unwrap();
}
