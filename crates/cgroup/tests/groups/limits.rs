//! What a group is told, it does.

use std::os::unix::process::ExitStatusExt;

use whatif_cgroup::{CgroupError, Found, Group, Version, Wanted};

use crate::support::{MIB, Trial, eventually, fresh_name, usable};

const MEMORY: Wanted = Wanted { memory: Some(32 * MIB), swap: 0, cpus_milli: None, cpu_weight: None, pids: None };
const PIDS: Wanted = Wanted { memory: None, pids: Some(8), ..MEMORY };
const CPU: Wanted = Wanted { memory: None, cpus_milli: Some(100), ..MEMORY };
const ALL: Wanted = Wanted { memory: Some(32 * MIB), swap: 0, pids: Some(8), cpus_milli: Some(1500), cpu_weight: None };

#[test]
fn what_takes_too_much_memory_is_killed_and_counted() {
    let Some(trial) = Trial::new(&MEMORY) else { return };
    let meters = trial.meters();
    assert_eq!(meters.oom_kills(), Some(0));
    let status = trial.enter("exec dd if=/dev/zero of=/dev/null bs=96M count=1").wait().unwrap();
    assert_eq!(status.signal(), Some(9), "{status:?}");
    // Where all in the group are killed together, some kernels count the first of them twice.
    assert!((1..=2).contains(&meters.oom_kills().unwrap()));
}

#[test]
fn what_takes_less_memory_lives_and_its_peak_is_known() {
    let Some(trial) = Trial::new(&MEMORY) else { return };
    let meters = trial.meters();
    assert!(trial.enter("exec dd if=/dev/zero of=/dev/null bs=16M count=1").wait().unwrap().success());
    assert_eq!(meters.oom_kills(), Some(0));
    let Some(peak) = meters.memory_peak() else { return println!("skipped: this kernel keeps no peak") };
    assert!((16 * MIB..=32 * MIB).contains(&peak), "{peak}");
    if !meters.reset_peak() {
        assert_ne!(trial.found.memory(), Ok(Version::V1));
        return println!("skipped: this kernel cannot reset the peak");
    }
    assert!(trial.enter("exec dd if=/dev/zero of=/dev/null bs=4M count=1").wait().unwrap().success());
    let second = meters.memory_peak().unwrap();
    assert!((4 * MIB..16 * MIB).contains(&second), "{second}");
}

#[test]
fn memory_in_use_is_seen_while_it_is() {
    let Some(trial) = Trial::new(&MEMORY) else { return };
    let meters = trial.meters();
    let before = meters.memory_now().unwrap();
    // A stream that never ends: the buffer stays filled.
    let mut child = trial.enter("exec dd if=/dev/zero of=/dev/null bs=8M");
    eventually("8 MiB more in use", || meters.memory_now().unwrap() >= before + 8 * MIB);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn more_processes_than_allowed_cannot_be_made() {
    let Some(trial) = Trial::new(&PIDS) else { return };
    let meters = trial.meters();
    assert_eq!((meters.pids_now(), meters.pids_hits()), (Some(0), Some(0)));
    let status = trial.enter("for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & done; exit 0").wait().unwrap();
    assert!(!status.success(), "all ten were made");
    assert!(meters.pids_hits().unwrap() >= 1);
    assert!((1..=8).contains(&meters.pids_now().unwrap()));
}

#[test]
fn a_share_of_a_processor_is_enforced() {
    let Some(trial) = Trial::new(&CPU) else { return };
    let mut child = trial.enter("while :; do :; done");
    let throttled = || trial.says("cpu.stat").lines().any(|l| l.strip_prefix("nr_throttled ").is_some_and(|n| n != "0"));
    eventually("the busy loop is held back", throttled);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// What v1 refuses need not be refused: the lower share outside holds for everything inside.
#[test]
fn more_of_a_processor_than_there_is_outside_can_be_asked_for() {
    let Some(trial) = Trial::new(&Wanted { cpus_milli: Some(500), ..CPU }) else { return };
    let tests = std::env::current_exe().unwrap();
    let inside = format!("exec {} --ignored --exact limits::three_processors_can_be_asked_for", tests.display());
    assert!(trial.enter(&inside).wait().unwrap().success());
}

#[test]
#[ignore = "run by another test, within a limit"]
fn three_processors_can_be_asked_for() {
    let trial = Trial::new(&Wanted { cpus_milli: Some(3000), ..CPU }).unwrap();
    let quota = if trial.has("cpu.max") { trial.says("cpu.max") } else { trial.says("cpu.cfs_quota_us") };
    assert!(["-1", "300000", "300000 100000"].contains(&quota.as_str()), "{quota}");
}

#[test]
fn every_limit_is_written() {
    let Some(trial) = Trial::new(&ALL) else { return };
    assert_eq!(written(&trial), (32 * MIB, 8, (150_000, 100_000)));
    let trial = Trial::new(&Wanted { cpus_milli: Some(1), ..ALL }).unwrap();
    assert_eq!(written(&trial), (32 * MIB, 8, (1_000, 1_000_000)));
}

#[test]
fn swap_is_no_way_around_the_memory_limit() {
    let Some(trial) = Trial::new(&MEMORY) else { return };
    if trial.has("memory.memsw.limit_in_bytes") {
        assert_eq!(trial.says("memory.memsw.limit_in_bytes"), (32 * MIB).to_string());
    } else if trial.has("memory.swap.max") {
        assert_eq!(trial.says("memory.swap.max"), "0");
    } else if trial.has("memory.swappiness") {
        assert_eq!(trial.says("memory.swappiness"), "0");
    } else {
        println!("skipped: this kernel does not swap");
    }
}

#[test]
fn processor_time_is_counted_in_a_group_that_has_a_meter_of_it() {
    for wanted in [CPU, PIDS] {
        let Some(trial) = Trial::new(&wanted) else { continue };
        let meters = trial.meters();
        let Some(before) = meters.cpu_ms() else {
            assert!(!trial.has("cpuacct.usage") && !trial.has("cgroup.events"));
            println!("skipped: this group does not count processor time");
            continue;
        };
        let mut child = trial.enter("while :; do :; done");
        eventually("some processor time is used", || meters.cpu_ms().unwrap() >= before + 20);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn only_what_is_wanted_is_touched() {
    let Some(trial) = Trial::new(&PIDS) else { return };
    let expected = if trial.found.pids() == Ok(Version::V1) { "pids" } else { "whatif" };
    let directories = trial.directories();
    assert_eq!(directories.len(), 1);
    assert!(directories[0].ancestors().any(|path| path.ends_with(expected)), "{directories:?}");
}

#[test]
fn a_bad_name_or_a_taken_one_is_refused_and_what_is_there_stays() {
    let Some(found) = usable(&PIDS) else { return };
    assert!(matches!(Group::make(&found, "../up", &PIDS), Err(CgroupError::Name { .. })));
    let trial = Trial::new(&ALL).or_else(|| Trial::new(&PIDS)).unwrap();
    assert!(matches!(Group::make(&found, &trial.name, &PIDS), Err(CgroupError::Exists { .. })));
    assert!(trial.directories().iter().all(|directory| directory.exists()));
}

#[test]
fn what_was_made_before_a_refusal_is_removed_again() {
    let Some(trial) = Trial::new(&CPU) else { return };
    if [trial.found.memory(), trial.found.cpu()] != [Ok(Version::V1); 2] || usable(&ALL).is_none() {
        return println!("skipped: memory and processor time are not limited by v1 here");
    }
    // Memory comes first, and processor time has a group of that name already.
    assert!(matches!(Group::make(&trial.found, &trial.name, &ALL), Err(CgroupError::Exists { .. })));
    let beside = Trial::new(&MEMORY).unwrap().directories().remove(0);
    assert!(!beside.with_file_name(&trial.name).exists());
    assert!(trial.directories()[0].exists());
}

#[test]
fn what_this_user_cannot_have_says_why_and_what_helps() {
    let found = Found::look();
    for missing in [found.memory(), found.pids(), found.cpu()].into_iter().filter_map(Result::err) {
        assert!(!missing.reason.is_empty() && missing.fix.is_some(), "{missing:?}");
    }
    let refused = Group::make(&found, &fresh_name(), &ALL);
    match (found.memory().is_ok() && found.pids().is_ok() && found.cpu().is_ok(), refused) {
        (true, Ok(group)) => group.remove().unwrap(),
        (false, Err(CgroupError::Unavailable { .. })) => {}
        (_, unexpected) => panic!("{unexpected:?}"),
    }
}

fn written(trial: &Trial) -> (u64, u64, (u64, u64)) {
    let number = |file: &str| trial.says(file).parse::<u64>().unwrap();
    let memory = if trial.has("memory.max") { number("memory.max") } else { number("memory.limit_in_bytes") };
    let cpu = if trial.has("cpu.max") {
        let text = trial.says("cpu.max");
        let (quota, period) = text.split_once(' ').unwrap();
        (quota.parse().unwrap(), period.parse().unwrap())
    } else {
        (number("cpu.cfs_quota_us"), number("cpu.cfs_period_us"))
    };
    (memory, number("pids.max"), cpu)
}
