//! Whatever is in a group, it goes, with everything in it and nothing else.

use std::fs;
use std::process::Command;
use std::thread;

use whatif_cgroup::{Wanted, list, remove};

use crate::support::{Trial, eventually, fresh_name, is_dead, usable};

const PIDS: Wanted = Wanted { pids: Some(50), cpus_milli: None, cpu_weight: None, memory: None, swap: 0 };
const MEMORY: Wanted = Wanted { pids: None, memory: Some(64 << 20), ..PIDS };

#[test]
fn what_still_runs_inside_is_killed() {
    let Some(trial) = Trial::new(&PIDS) else { return };
    let mut child = trial.enter("trap '' TERM INT HUP; sleep 1000 & sleep 1000 & wait; while :; do sleep 1; done");
    let meters = trial.meters();
    eventually("three processes inside", || meters.pids_now() == Some(3));
    remove(&trial.found, &trial.name).unwrap();
    assert!(is_dead(child.id()));
    child.wait().unwrap();
    assert!(trial.directories_gone());
}

#[test]
fn a_fork_bomb_inside_is_killed() {
    let Some(trial) = Trial::new(&PIDS) else { return };
    let mut child = trial.enter("while :; do (sh -c 'while :; do sleep 0 & done' &) ; done");
    let meters = trial.meters();
    eventually("the limit is hit", || meters.pids_hits().unwrap() > 0);
    remove(&trial.found, &trial.name).unwrap();
    child.wait().unwrap();
    assert!(trial.directories_gone());
}

#[test]
fn without_a_count_of_processes_they_are_killed_as_well() {
    let Some(trial) = Trial::new(&MEMORY) else { return };
    let mut child = trial.enter("for i in 1 2 3 4 5 6 7 8 9; do (while :; do sleep 0; done) & done; wait");
    let inside = || trial.says("cgroup.procs").lines().count();
    eventually("all of them run", || inside() >= 10);
    trial.group.remove().unwrap();
    child.wait().unwrap();
    assert!(trial.directories_gone());
}

#[test]
fn groups_inside_go_with_what_runs_in_them() {
    let Some(trial) = Trial::new(&PIDS) else { return };
    let directory = trial.directories().remove(0);
    let deep = directory.join("a/b");
    fs::create_dir_all(&deep).unwrap();
    fs::create_dir(directory.join("empty")).unwrap();
    let child = Command::new("sleep").arg("1000").spawn().unwrap();
    fs::write(deep.join("cgroup.procs"), child.id().to_string()).unwrap();
    remove(&trial.found, &trial.name).unwrap();
    assert!(trial.directories_gone());
    assert!(is_dead(child.id()));
    let mut child = child;
    child.wait().unwrap();
}

#[test]
fn what_is_frozen_is_killed() {
    let Some(trial) = Trial::new(&PIDS) else { return };
    if !trial.has("cgroup.freeze") {
        return println!("skipped: nothing can be frozen here");
    }
    let meters = trial.meters();
    let mut child = trial.enter("while :; do :; done");
    eventually("it is inside", || meters.pids_now() == Some(1));
    fs::write(trial.directories()[0].join("cgroup.freeze"), "1").unwrap();
    eventually("it is frozen", || trial.says("cgroup.events").contains("frozen 1"));
    remove(&trial.found, &trial.name).unwrap();
    child.wait().unwrap();
}

#[test]
fn groups_are_listed_by_prefix_and_only_the_named_one_goes() {
    let (Some(one), Some(two)) = (Trial::new(&PIDS), Trial::new(&PIDS)) else { return };
    let prefix = format!("whatif-test-{}-", std::process::id());
    let listed = list(&one.found, &prefix).unwrap();
    assert!(listed.contains(&one.name) && listed.contains(&two.name), "{listed:?}");
    assert_eq!(list(&one.found, &one.name).unwrap(), std::slice::from_ref(&one.name));
    assert!(list(&one.found, "no-such-prefix").unwrap().is_empty());
    remove(&one.found, &one.name).unwrap();
    assert!(one.directories_gone());
    assert!(!two.directories_gone());
}

#[test]
fn an_absent_group_is_fine_and_a_bad_name_is_not() {
    let Some(found) = usable(&PIDS) else { return };
    remove(&found, &fresh_name()).unwrap();
    for bad in ["", ".", "..", "a/b"] {
        assert!(remove(&found, bad).is_err(), "{bad:?}");
    }
}

#[test]
fn many_can_come_and_go_at_once() {
    let Some(found) = usable(&PIDS) else { return };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let name = fresh_name();
                    let group = whatif_cgroup::Group::make(&found, &name, &PIDS).unwrap();
                    group.remove().unwrap();
                    whatif_cgroup::tidy(&found);
                }
            });
        }
    });
}

impl Trial {
    fn directories_gone(&self) -> bool {
        // A removed directory keeps its name in the table of open files, with a mark.
        self.directories().iter().all(|directory| !directory.exists())
    }
}
