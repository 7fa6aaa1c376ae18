//! What nobody limited is limited all the same: a runaway program inside leaves the machine alive.

use std::fs;

use serde_json::Value;
use whatif_e2e::{World, as_root, as_root_and_user, needs};

as_root_and_user!(
    a_sandbox_says_which_limits_it_has_by_default,
    memory_ends_at_the_default_limit,
    processes_end_at_the_default_limit,
    a_limit_that_was_asked_for_replaces_the_default_one,
    default_limits_can_be_turned_off,
    what_is_killed_first_cannot_be_killed_later_than_outside,
);
// Control groups of version 1 are for root.
as_root!(commands_yield_to_those_of_the_host, a_control_group_of_either_version_holds_them);

const MIB: u64 = 1 << 20;

fn defaults(w: &World, sandbox: &str) -> Value {
    w.show(sandbox)["details"]["default_limits"].clone()
}

fn machine_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").expect("a kernel");
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:")).expect("it says how much there is");
    line.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).expect("a number") * 1024
}

/// Leaves so little to sandboxes that to use it up does no harm.
fn leave_only(w: &World, mib: u64) {
    let keep = machine_memory() - mib * MIB;
    w.write(w.home.join(".config/whatif/config.toml"), format!("[memory]\nkeep_free = {keep}\n"));
}

fn a_sandbox_says_which_limits_it_has_by_default(w: &World) {
    w.new_sandbox("usual");
    let limits = defaults(w, "usual");
    let memory = limits["memory"]["limit"].as_u64().expect("there is one");
    assert!(memory < machine_memory() && memory >= machine_memory() / 2, "{limits}");
    assert!(limits["pids"]["limit"].as_u64().is_some_and(|pids| pids >= 256), "{limits}");
    let shown = w.whatif(["show", "usual"]).go().ok().stdout;
    let told = |label: &str| shown.lines().filter(|line| line.starts_with(label)).count();
    if w.is_root() {
        assert_eq!(limits["cpu_weight"]["limit"], 50, "{limits}");
    }
    // What cannot be had is said, and refuses nothing.
    let missing = limits["missing"].as_array().map_or(0, Vec::len);
    assert_eq!((told("default limit "), told("no default limit ")), (3 - missing, missing), "{shown}");
    // They are not taken for limits that somebody asked for.
    assert_eq!(w.show("usual")["details"]["enforced"], serde_json::json!([]));
    let doctor = w.whatif(["doctor"]).go().stdout;
    assert!(doctor.lines().any(|line| line.contains("default limits")), "{doctor}");
}

fn memory_ends_at_the_default_limit(w: &World) {
    needs!(w, "python3");
    leave_only(w, 400);
    let hog = "b = []\nfor _ in range(1500): b.append(b'x' * (1 << 20))\nprint('all of it')";
    let outcome = w.whatif(["run", "--rm", "--", "/usr/bin/python3", "-c", hog]).go();
    assert_eq!(outcome.code, 137, "{outcome:?}");
    assert!(outcome.stderr.contains("killed: the default memory limit"), "{}", outcome.stderr);
    let document = w.whatif(["--json", "run", "--rm", "--", "/usr/bin/python3", "-c", hog]).go().json();
    assert_eq!(document["limit_hit"], "memory", "{document}");
    // What stays below goes on.
    w.whatif(["run", "--rm", "--", "/usr/bin/python3", "-c", "b = b'x' * (100 << 20)"]).go().ok();
    // It can be had by asking for it.
    let more = w.whatif(["run", "--rm", "--memory", "1G", "--", "/usr/bin/python3", "-c", "b = b'x' * (600 << 20)"]).go();
    more.ok();
}

fn processes_end_at_the_default_limit(w: &World) {
    needs!(w, "python3");
    w.new_sandbox("bombed");
    let limit = defaults(w, "bombed")["pids"]["limit"].as_u64().expect("there is one");
    // Threads count as processes, and take less.
    let program = r#"
import os, threading, time
threading.stack_size(32768)
made = 0
try:
    while made < 200000:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        made += 1
except RuntimeError: pass
print(made, flush=True)
os._exit(0)
"#;
    let made: u64 = w.python("bombed", program).ok().text().parse().expect("a number");
    assert!(made <= limit && made > limit / 2, "{made} of {limit}");
    // Neither the host nor the others had to do without.
    w.outside("true").ok();
    w.inside("true").ok();
    w.exec("bombed", "true").ok();
}

fn commands_yield_to_those_of_the_host(w: &World) {
    w.new_sandbox("modest");
    let groups = w.exec("modest", "cat /proc/self/cgroup").ok().stdout;
    assert!(groups.contains("whatif-shared"), "{groups}");
    // Only if processors are scarce: the priority is the caller's.
    assert_eq!(w.exec("modest", "nice").ok().text(), w.outside("nice").ok().text());
}

/// By what the kernel says of it, not by what `whatif` does: so it is known of a machine with version 2, too.
fn a_control_group_of_either_version_holds_them(w: &World) {
    w.new_sandbox("grouped");
    let limits = defaults(w, "grouped");
    w.whatif(["exec", "-d", "grouped", "--", "sleep", "86413"]).go().ok();
    let is_it = |process: &std::path::Path| fs::read(process.join("cmdline")).is_ok_and(|line| line == b"sleep\x0086413\0");
    let processes = fs::read_dir("/proc").expect("a kernel").flatten().map(|entry| entry.path());
    let sleeping = processes.into_iter().find(|process| is_it(process)).expect("it runs");
    let group = fs::read_to_string(sleeping.join("cgroup")).expect("it runs");
    let (by, file, path) =
        match group.lines().find_map(|line| line.strip_prefix("0::").filter(|path| path.contains("whatif-shared"))) {
            Some(path) => ("cgroup2", "memory.max", path),
            None => {
                let of_memory = group.lines().find_map(|line| line.split_once(":memory:"));
                ("cgroup1", "memory.limit_in_bytes", of_memory.expect("a group of either version").1)
            }
        };
    assert!(path.contains("whatif-shared"), "{group}");
    assert_eq!(limits["memory"]["by"], by, "{limits}");
    let mounts = fs::read_to_string("/proc/mounts").expect("a kernel");
    let is_it = |fields: &[&str]| match by {
        "cgroup2" => fields[2] == "cgroup2",
        _ => fields[2] == "cgroup" && fields[3].split(',').any(|option| option == "memory"),
    };
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let place = fields.filter(|fields| is_it(fields)).map(|fields| fields[1].to_owned()).next().expect("it is mounted");
    let most = fs::read_to_string(format!("{place}{path}/{file}")).expect("a group has this file");
    assert_eq!(most.trim().parse::<u64>().ok(), limits["memory"]["limit"].as_u64(), "{limits}");
    if by == "cgroup2" {
        let read = |file: &str| fs::read_to_string(format!("{place}{path}/{file}")).expect("a group has this file");
        assert_eq!(read("cpu.weight").trim(), "50");
        assert_ne!(read("pids.max").trim(), "max");
    }
}

/// A user cannot make its programs less likely to be killed for lack of memory than they were to begin with, and neither can what runs
/// in a sandbox. Root can.
fn what_is_killed_first_cannot_be_killed_later_than_outside(w: &World) {
    w.new_sandbox("marked");
    let score = "/proc/self/oom_score_adj";
    let outside: i32 = w.outside(&format!("cat {score}")).ok().text().parse().expect("a number");
    assert_eq!(w.exec("marked", &format!("cat {score}")).ok().text(), "300");
    let lowest =
        format!("n=300; for to in $(seq 300 -50 -1000); do echo $to > {score} || break; n=$to; done 2> /dev/null; echo $n");
    let reached: i32 = w.exec("marked", &lowest).ok().text().parse().expect("a number");
    assert!(reached >= outside, "{reached}, and {outside} outside");
    w.exec("marked", &format!("echo 1000 > {score} && cat {score}")).ok();
}

fn a_limit_that_was_asked_for_replaces_the_default_one(w: &World) {
    w.limited("asked", &["--pids", "100"]);
    let limits = defaults(w, "asked");
    assert_eq!(limits["pids"], Value::Null, "{limits}");
    assert!(limits["memory"]["limit"].as_u64().is_some(), "{limits}");
    w.exec("asked", "true").ok();
}

fn default_limits_can_be_turned_off(w: &World) {
    w.limited("free", &["--limits", "none"]);
    assert_eq!(defaults(w, "free"), Value::Null);
    let bound = "grep 'Max processes' /proc/self/limits; nice; cat /proc/self/oom_score_adj; \
                 grep -c whatif-shared /proc/self/cgroup || true";
    let free = w.exec("free", bound).ok().stdout;
    assert_eq!(free, w.outside(bound).ok().stdout, "as outside");
    assert!(w.whatif(["show", "free"]).go().ok().stdout.contains("default limits"));
    // Also after it was started again.
    w.whatif(["stop", "free"]).go().ok();
    w.whatif(["start", "free"]).go().ok();
    assert_eq!(w.exec("free", bound).ok().stdout, free);
    // And by the configuration, for all.
    w.write(w.home.join(".config/whatif/config.toml"), "[limits]\npreset = \"none\"\n");
    w.new_sandbox("freed");
    assert_eq!(defaults(w, "freed"), Value::Null);
    // What may only restrict turns nothing off.
    w.write(w.home.join(".config/whatif/config.toml"), "");
    w.write(".whatif.toml", "[limits]\npreset = \"none\"\n");
    let refused = w.whatif(["new", "tricked"]).go();
    assert!(refused.code != 0 || defaults(w, "tricked") != Value::Null, "{refused:?}");
}
