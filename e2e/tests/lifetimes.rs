//! How long a sandbox lives, who sees to it, and where limits come from.

use std::time::{Duration, Instant};

use serde_json::Value;
use whatif_e2e::{Outcome, World, as_root_and_user, eventually, needs};

as_root_and_user!(
    a_sandbox_ends_when_its_time_is_up,
    a_command_that_outlives_its_sandbox_is_ended_with_a_reason,
    a_command_that_ignores_its_end_is_killed,
    time_that_was_given_is_not_given_again_by_a_restart,
    time_goes_on_without_a_keeper,
    more_time_can_be_given_to_a_running_sandbox,
    an_idle_sandbox_rests_and_wakes,
    a_sandbox_with_a_command_is_not_idle,
    the_end_of_a_life_during_a_snapshot_leaves_it_whole,
    the_end_of_a_life_during_an_apply_leaves_it_whole,
    what_cannot_be_enforced_strictly_is_refused_on_request,
    limits_come_from_flags_profiles_and_configuration,
    a_project_can_only_tighten,
    nonsense_is_refused_before_anything_is_made,
    no_time_at_all_is_refused_by_every_command,
    a_time_limit_for_each_command_comes_from_the_configuration,
    forks_and_restarts_keep_their_limits,
    a_sleep_of_the_machine_counts,
    a_sandbox_that_is_held_still_ends_afterwards,
    background_commands_wake_a_resting_sandbox,
);

/// Enough for a few commands, although the machine is busy.
const TIME_FOR_A_FEW: &str = "6s";

/// Asked in the very moment of its end, the keeper may be gone before it has answered; then it is not known yet.
fn stopped_because(w: &World, name: &str) -> Option<String> {
    let outcome = w.whatif(["--json", "show", name]).go();
    if outcome.code != 0 {
        return None;
    }
    let shown = outcome.json();
    (shown["status"] == "stopped").then(|| shown["details"]["stop_reason"].as_str().unwrap_or_default().to_owned())
}

fn remaining(w: &World, name: &str) -> u64 {
    w.show(name)["remaining_ms"].as_u64().expect("its time is limited")
}

#[track_caller]
fn assert_expired(outcome: &Outcome) {
    assert_eq!(outcome.code, 125, "{} {}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains("\"expired\""), "{}", outcome.stderr);
}

fn a_sandbox_ends_when_its_time_is_up(w: &World) {
    w.whatif(["new", "brief", "--ttl", TIME_FOR_A_FEW]).go().ok();
    w.exec("brief", "echo kept > made").ok();
    w.whatif(["exec", "-d", "brief", "--", "sleep", "1000"]).go().ok();
    // Nobody asks; the keeper alone ends it.
    eventually("it is ended", || w.processes().is_empty());
    assert_eq!(stopped_because(w, "brief").as_deref(), Some("expired"));
    assert_expired(&w.whatif(["--json", "exec", "brief", "--", "true"]).go());
    w.exec("brief", "true").fails_with_hint(125).says("whatif start brief --ttl");
    for command in [vec!["start", "brief"], vec!["run", "--in", "brief", "--", "true"], vec!["shell", "brief"]] {
        w.whatif(command).go().exits(125).says("brief");
    }
    let listed = w.whatif(["ls"]).go().ok().stdout;
    assert!(listed.lines().any(|line| line.starts_with("brief  expired ")), "{listed}");
    // What it changed is still there to be looked at, taken and gone on with.
    assert!(w.whatif(["diff", "brief", "--name-only"]).go().ok().stdout.contains("made"));
    w.whatif(["start", "brief", "--ttl", "1h"]).go().ok();
    assert!(!w.whatif(["ls"]).go().ok().stdout.contains("expired"));
    assert_eq!(w.exec("brief", "cat made").ok().text(), "kept");
    assert!(remaining(w, "brief") > 3_000_000);
}

fn a_command_that_outlives_its_sandbox_is_ended_with_a_reason(w: &World) {
    w.whatif(["new", "brief", "--ttl", "3s"]).go().ok();
    let document = w.whatif(["--json", "exec", "brief", "--", "sleep", "1000"]).go().json();
    assert_eq!(document["limit_hit"], "ttl", "{document}");
    assert!([137, 143].iter().any(|code| document["exit_code"] == *code), "{document}");
    let outcome = w.whatif(["run", "--ttl", "3s", "--name", "run", "--", "/bin/sh", "-c", "echo x > y; sleep 1000"]).go();
    assert!([137, 143].contains(&outcome.code), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("lifetime"), "{}", outcome.stderr);
    assert_eq!(w.exec("run", "true").code, 125, "a run's sandbox has no more time than it was given");
}

fn a_command_that_ignores_its_end_is_killed(w: &World) {
    w.whatif(["new", "brief", "--ttl", "3s"]).go().ok();
    let script = "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' & while :; do sleep 0.1; done";
    let document = w.whatif(["--json", "exec", "brief", "--", "/bin/sh", "-c", script]).go().json();
    assert_eq!((&document["exit_code"], &document["limit_hit"]), (&137.into(), &"ttl".into()), "{document}");
    eventually("nothing of it runs", || w.processes().is_empty());
}

fn time_that_was_given_is_not_given_again_by_a_restart(w: &World) {
    w.whatif(["new", "aging", "--ttl", "12s"]).go().ok();
    let first = remaining(w, "aging");
    w.whatif(["stop", "--grace", "0s", "aging"]).go().ok();
    w.whatif(["start", "aging"]).go().ok();
    let second = remaining(w, "aging");
    assert!(second < first, "{first} ms, then {second} ms");
    assert!(w.kill_keeper("aging"));
    w.exec("aging", "true").ok();
    assert!(remaining(w, "aging") < second);
    eventually("its time is up all the same", || stopped_because(w, "aging").is_some());
    assert_expired(&w.whatif(["--json", "exec", "aging", "--", "true"]).go());
}

fn time_goes_on_without_a_keeper(w: &World) {
    w.whatif(["new", "gone", "--ttl", TIME_FOR_A_FEW]).go().ok();
    w.exec("gone", "echo kept > made").ok();
    assert!(w.kill_keeper("gone"));
    eventually("its time is up", || remaining(w, "gone") == 0);
    assert_expired(&w.whatif(["--json", "exec", "gone", "--", "true"]).go());
    w.whatif(["start", "gone", "--ttl", "1h"]).go().ok();
    assert_eq!(w.exec("gone", "cat made").ok().text(), "kept");
}

fn more_time_can_be_given_to_a_running_sandbox(w: &World) {
    w.whatif(["new", "renewed", "--ttl", TIME_FOR_A_FEW]).go().ok();
    let first = Instant::now() + Duration::from_millis(remaining(w, "renewed"));
    w.whatif(["exec", "-d", "renewed", "--", "sleep", "1234"]).go().ok();
    w.whatif(["start", "renewed", "--ttl", "1h"]).go().ok();
    assert!(remaining(w, "renewed") > 3_000_000);
    eventually("the first end is past", || Instant::now() > first + Duration::from_millis(500));
    assert!(w.whatif(["ps", "renewed"]).go().ok().stdout.contains("sleep 1234"), "what runs goes on");
    w.whatif(["start", "renewed", "--ttl", "300ms"]).go().ok();
    eventually("and less time, too", || stopped_because(w, "renewed").as_deref() == Some("expired"));
}

fn an_idle_sandbox_rests_and_wakes(w: &World) {
    w.whatif(["new", "lazy", "--idle", "500ms"]).go().ok();
    w.exec("lazy", "echo kept > made").ok();
    eventually("it rests", || w.processes().is_empty());
    assert_eq!(stopped_because(w, "lazy").as_deref(), Some("idle"));
    assert_eq!(w.exec("lazy", "cat made").ok().text(), "kept", "a command wakes it");
    eventually("it rests again", || stopped_because(w, "lazy").as_deref() == Some("idle"));
}

fn a_sandbox_with_a_command_is_not_idle(w: &World) {
    w.whatif(["new", "busy", "--idle", "400ms"]).go().ok();
    let outcome = w.exec("busy", "sleep 0.9; echo done").ok();
    assert_eq!(outcome.text(), "done", "a foreground command");
    w.whatif(["exec", "-d", "busy", "--", "/bin/sh", "-c", "sleep 0.9; echo done"]).go().ok();
    eventually("a background command", || w.whatif(["logs", "busy"]).go().stdout.contains("done"));
    eventually("then it rests", || stopped_because(w, "busy").as_deref() == Some("idle"));
}

/// DR-11: the same again and again, with the end at other moments.
fn the_end_of_a_life_during_a_snapshot_leaves_it_whole(w: &World) {
    for round in 0..2_u32 {
        let name = format!("snap{round}");
        w.new_sandbox(&name);
        w.exec(&name, "for n in $(seq 200); do echo $n > f$n; done; echo last > last").ok();
        // Only now: a busy machine may take its time with the files.
        w.whatif(["start", &name, "--ttl", "600ms"]).go().ok();
        let mut taken = Vec::new();
        for n in 0..200 {
            let label = format!("l{n}");
            let outcome = w.whatif(["--json", "snapshot", &name, &label]).go();
            if outcome.code == 0 {
                taken.push(label);
            } else {
                assert!(outcome.stderr.contains("\"code\":"), "{}", outcome.stderr);
            }
            let change = format!("echo {n} > changes");
            if w.whatif(["--json", "exec", &name, "--", "/bin/sh", "-c", &change]).go().stderr.contains("\"expired\"") {
                break;
            }
        }
        assert_expired(&w.whatif(["--json", "exec", &name, "--", "true"]).go());
        let why = stopped_because(w, &name);
        // Over fuse it rests after a snapshot, and its time may be up before anything wakes it.
        assert!(why.as_deref() == Some("expired") || (w.backend() == "fuse" && why.as_deref() == Some("finished")), "{why:?}");
        let labels = w.labels(&name);
        assert!(taken.iter().all(|label| labels.contains(label)), "what was reported as taken is there: {taken:?} {labels:?}");
        w.whatif(["start", &name, "--ttl", "1h"]).go().ok();
        assert_eq!(w.exec(&name, "cat f200 last; ls f* | wc -l").ok().stdout, "200\nlast\n200\n", "round {round}");
        w.whatif(["rm", &name]).go().ok();
    }
    eventually("nothing is half done", || w.transient().is_empty());
}

/// DR-11: an apply happens or does not.
fn the_end_of_a_life_during_an_apply_leaves_it_whole(w: &World) {
    for round in 0..2_u64 {
        let name = format!("apply{round}");
        w.whatif(["new", &name]).go().ok();
        w.exec(&name, &format!("mkdir d{round}; for n in $(seq 150); do echo $n > d{round}/f$n; done")).ok();
        w.whatif(["exec", "-d", &name, "--", "sleep", "1000"]).go().ok();
        // Only now: a busy machine may take its time with the files.
        w.whatif(["start", &name, "--ttl", &format!("{}ms", 500 + 30 * round)]).go().ok();
        eventually("it is about to end, or did", || {
            let shown = w.whatif(["--json", "show", &name]).go();
            shown.code != 0 || shown.json()["remaining_ms"].as_u64().is_some_and(|left| left < 60)
        });
        let outcome = w.whatif(["apply", &name, "--yes", "--all"]).go();
        let count = std::fs::read_dir(w.project.join(format!("d{round}"))).map_or(0, Iterator::count);
        assert_eq!(count, if outcome.code == 0 { 150 } else { 0 }, "round {round}: {} {}", outcome.code, outcome.stderr);
        assert!(outcome.code == 0 || outcome.stderr.contains("whatif: "), "{}", outcome.stderr);
        w.whatif(["apply", &name, "--yes", "--all"]).go();
        let count = std::fs::read_dir(w.project.join(format!("d{round}"))).map_or(0, Iterator::count);
        assert_eq!(count, 150, "its changes can be applied after its end");
    }
}

fn what_cannot_be_enforced_strictly_is_refused_on_request(w: &World) {
    let asked = |limits: &[&str]| w.whatif(["--json", "run", "--rm", "--require-limits"]).args(limits).args(["--", "true"]).go();
    // A limit on processes is strict for everybody.
    asked(&["--pids", "50"]).ok();
    let memory = asked(&["--memory", "128M"]);
    let shown = w.json(["run", "--keep", "--name", "kept", "--memory", "128M", "--cpus", "1", "--disk", "1G", "--", "true"]);
    assert_eq!(shown["exit_code"], 0);
    let enforced = w.show("kept")["details"]["enforced"].clone();
    let by = |resource: &str| {
        let all = enforced.as_array().expect("a list").iter();
        all.filter(|e| e["resource"] == resource)
            .map(|e| e["by"].as_str().unwrap_or_default().to_owned())
            .next()
            .unwrap_or_default()
    };
    for (resource, limits) in [("memory", ["--memory", "128M"]), ("cpus", ["--cpus", "1"])] {
        let outcome = asked(&limits);
        if by(resource).starts_with("cgroup") {
            outcome.ok();
        } else {
            let outcome = outcome.exits(125);
            assert!(outcome.stderr.contains("\"limits_unavailable\"") && outcome.stderr.contains("hint"), "{}", outcome.stderr);
        }
    }
    // Without a quota, looking often, holding everything and measuring is what a limit on room is.
    asked(&["--disk", "1G", "--inodes", "1000"]).ok();
    if w.is_root() {
        memory.ok();
    } else {
        memory.exits(125);
        assert_eq!(by("memory"), "watcher", "and without being strict, it is said by what: {enforced}");
    }
    w.configure("[limits]\nrequire = true\nmemory = \"128M\"\n");
    let configured = w.whatif(["--json", "run", "--rm", "--", "true"]).go();
    assert_eq!(configured.code, if w.is_root() { 0 } else { 125 }, "{}", configured.stderr);
    assert_eq!(w.json(["ls"]).as_array().map(Vec::len), Some(1), "nothing was made where it was refused");
}

fn limits_of(w: &World, arguments: &[&str]) -> Value {
    let made = w.json([&["new"], arguments].concat());
    let name = made["name"].as_str().expect("it has a name").to_owned();
    let limits = w.show(&name)["details"]["limits"].clone();
    w.whatif(["rm", &name]).go().ok();
    limits
}

fn limits_come_from_flags_profiles_and_configuration(w: &World) {
    let none = limits_of(w, &[]);
    for key in ["cpus", "memory", "pids", "disk", "inodes", "timeout", "ttl", "idle"] {
        assert_eq!(none[key], Value::Null, "no limits by default: {none}");
    }
    let small = limits_of(w, &["--limits", "small"]);
    let (medium, large) = (limits_of(w, &["--limits", "medium"]), limits_of(w, &["--limits", "large"]));
    for key in ["cpus", "memory", "pids", "disk", "inodes"] {
        let number = |limits: &Value| limits[key].as_f64().unwrap_or_else(|| panic!("{key}: {limits}"));
        assert!(number(&small) < number(&medium) && number(&medium) < number(&large), "{key}");
    }
    let mixed = limits_of(w, &["--limits", "small", "--memory", "300M"]);
    assert_eq!(
        (&mixed["memory"], &mixed["pids"]),
        (&(300_u64 << 20).into(), &small["pids"]),
        "a flag says more than a preset: {mixed}"
    );
    w.configure(
        "[limits]\npids = 77\nmemory = \"200M\"\n[profiles.tiny]\nmemory = \"50M\"\nttl = \"1h\"\n[profiles.small]\npids = 11\n",
    );
    let configured = limits_of(w, &[]);
    assert_eq!((&configured["pids"], &configured["memory"]), (&77.into(), &(200_u64 << 20).into()), "{configured}");
    let tiny = limits_of(w, &["--limits", "tiny"]);
    assert_eq!((&tiny["memory"], &tiny["ttl"]), (&(50_u64 << 20).into(), &"1h".into()), "{tiny}");
    assert_eq!(limits_of(w, &["--limits", "small"])["pids"], 11, "a profile of one's own by the name of a preset");
    assert_eq!(limits_of(w, &["--limits", "none"])["pids"], Value::Null);
    w.whatif(["new", "--limits", "unknown"]).go().fails_with_hint(2);
}

/// HX-10: whatever a project says, it cannot have more than its user gives.
fn a_project_can_only_tighten(w: &World) {
    w.configure("[limits]\npids = 50\nmemory = \"100M\"\n");
    w.write(".whatif.toml", "[limits]\npids = 500\nmemory = \"60M\"\nttl = \"1h\"\n");
    let limits = limits_of(w, &[]);
    assert_eq!(
        (&limits["pids"], &limits["memory"], &limits["ttl"]),
        (&50.into(), &(60_u64 << 20).into(), &"1h".into()),
        "{limits}"
    );
    w.write(".whatif.toml", "[limits]\npreset = \"large\"\n");
    let limits = limits_of(w, &[]);
    assert_eq!((&limits["pids"], &limits["memory"]), (&50.into(), &(100_u64 << 20).into()), "{limits}");
    w.write(".whatif.toml", "[profiles.small]\nmemory = \"100G\"\n");
    assert_ne!(w.whatif(["run", "--rm", "--limits", "small", "--", "true"]).go().code, 0, "profiles are the user's");
}

/// Elsewhere 0 may mean no limit; here it would be the end at once.
fn no_time_at_all_is_refused_by_every_command(w: &World) {
    w.new_sandbox("s");
    w.exec("s", "true").ok();
    for command in [
        &["new", "n", "--ttl", "0"][..],
        &["new", "n", "--idle", "0"],
        &["run", "--timeout", "0", "--", "true"],
        &["run", "--in", "s", "--timeout", "0", "--", "true"],
        &["exec", "s", "--timeout", "0", "--", "true"],
        &["exec", "s", "-d", "--timeout", "0", "--", "true"],
        &["start", "s", "--ttl", "0"],
    ] {
        w.whatif(command.iter().copied()).go().fails_with_hint(2).says("a limit of 0");
    }
    assert_eq!(w.show("s")["status"], "active");
    assert_eq!(w.json(["ls"]).as_array().map(Vec::len), Some(1));
}

fn nonsense_is_refused_before_anything_is_made(w: &World) {
    let flags = [
        ["--memory", "lots"],
        ["--memory", "-1"],
        ["--memory", "0"],
        ["--pids", "0"],
        ["--pids", "-5"],
        ["--cpus", "0"],
        ["--cpus", "many"],
        ["--disk", "1X"],
        ["--inodes", "x"],
        ["--ttl", "soon"],
        ["--ttl", "0s"],
        ["--idle", "-1s"],
        ["--timeout", "x"],
    ];
    for [flag, value] in flags {
        let outcome = w.whatif(["run", "--rm", &format!("{flag}={value}"), "--", "true"]).go();
        assert_eq!(outcome.code, 2, "{flag} {value}: {}", outcome.stderr);
    }
    for text in ["[limits]\nmemory = \"lots\"\n", "[limits]\nfoo = 1\n", "[limits]\npids = 0\n", "[limits]\npreset = \"nobody\"\n"]
    {
        w.configure(text);
        let outcome = w.whatif(["run", "--rm", "--", "true"]).go();
        assert!([2, 125].contains(&outcome.code) && outcome.stderr.contains("hint:"), "{text}: {}", outcome.stderr);
    }
    w.configure("");
    assert_eq!(w.json(["ls"]), serde_json::json!([]));
    // The largest numbers that can be said are limits like any other.
    w.whatif(["run", "--rm", "--memory", "1000000G", "--pids", "4000000", "--disk", "1000000G", "--ttl", "1000d", "--", "true"])
        .go()
        .ok();
}

fn a_time_limit_for_each_command_comes_from_the_configuration(w: &World) {
    w.configure("[limits]\ntimeout = \"3s\"\n");
    w.whatif(["run", "--rm", "--", "sleep", "1000"]).go().exits(124);
    w.new_sandbox("short");
    w.exec("short", "sleep 1000").exits(124);
    w.exec("short", "true").ok();
}

fn forks_and_restarts_keep_their_limits(w: &World) {
    needs!(w, "python3");
    w.whatif(["new", "parent", "--memory", "64M", "--pids", "50"]).go().ok();
    w.exec("parent", "echo x > y").ok();
    w.snapshot("parent", "label");
    w.fork("parent", "child");
    let bomb = "x = bytearray(400 << 20)\nimport time; time.sleep(60)";
    let hit = |name: &str| w.whatif(["exec", name, "--", "/usr/bin/python3", "-c", bomb]).go().exits(137);
    hit("child");
    w.whatif(["stop", "--grace", "0s", "parent"]).go().ok();
    w.whatif(["start", "parent"]).go().ok();
    hit("parent");
    w.rollback("parent", "label");
    hit("parent");
    assert!(w.kill_keeper("parent"));
    hit("parent");
}

/// DR-08: to a command for which the clock that counts sleep is a year ahead, it is over; and nobody is hurt by one that is behind.
fn a_sleep_of_the_machine_counts(w: &World) {
    if !rustix::process::geteuid().is_root() {
        whatif_e2e::skip("only root can change the clocks of others");
        return;
    }
    w.whatif(["new", "asleep", "--ttl", "1h"]).go().ok();
    w.exec("asleep", "echo kept > made").ok();
    let with_clock = |seconds: &str, command: &[&str]| {
        let own: &[&str] = if w.is_root() { &[] } else { &["--user", "--map-current-user"] };
        let clock = ["--time", "--fork", "--boottime", seconds];
        w.program("/usr/bin/unshare").args(own).args(clock).args([&w.bin]).args(command).go()
    };
    let behind = with_clock("-100", &["--json", "show", "asleep"]).ok().json();
    assert_eq!(behind["status"], "active", "{behind}");
    assert_eq!(w.exec("asleep", "cat made").ok().text(), "kept");
    w.whatif(["stop", "--grace", "0s", "asleep"]).go().ok();
    let year = with_clock("31536000", &["--json", "start", "asleep"]);
    assert_expired(&year);
    w.whatif(["start", "asleep"]).go().ok();
    assert_eq!(w.exec("asleep", "cat made").ok().text(), "kept");
}

/// Whoever looks at it finishes first. Meanwhile its keeper waits, and does not ask again and again whether it may end.
fn a_sandbox_that_is_held_still_ends_afterwards(w: &World) {
    needs!(w, "python3");
    w.whatif(["new", "held", "--ttl", TIME_FOR_A_FEW]).go().ok();
    w.whatif(["exec", "-d", "held", "--", "sleep", "1234"]).go().ok();
    let shown = w.show("held");
    let (directory, keeper) = (shown["directory"].as_str().expect("a path"), shown["keeper_pid"].to_string());
    let left = shown["remaining_ms"].to_string();
    let program = r#"
import json, os, socket, struct, sys, time
held = os.open(sys.argv[1], os.O_PATH)
s = socket.socket(socket.AF_UNIX); s.connect(f"/proc/self/fd/{held}/keeper.sock")
s.sendall(struct.pack("<I", 8) + b'"freeze"'); assert s.recv(65536)
def ticks(): return sum(map(int, open(f"/proc/{sys.argv[2]}/stat").read().rsplit(")", 1)[1].split()[11:13]))
time.sleep(float(sys.argv[3]) / 1000 + 1)
before, began = ticks(), time.monotonic()
time.sleep(1)
print(json.dumps(dict(busy=(ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - began))))
"#;
    let busy = w.program("/usr/bin/python3").args(["-c", program, directory, &keeper, &left]).go().ok().json();
    assert!(busy["busy"].as_f64().is_some_and(|share| share < 0.2), "its keeper does not rest: {busy}");
    eventually("its time is up", || stopped_because(w, "held").as_deref() == Some("expired"));
}

fn background_commands_wake_a_resting_sandbox(w: &World) {
    // On a busy machine a command that has reached it takes a while to begin, and must not find it at rest again each time.
    w.whatif(["new", "drowsy", "--idle", "300ms"]).go().ok();
    for pause in (0..30).map(|n| Duration::from_millis(260 + n * 3 % 80)) {
        // Around the moment in which it goes to rest.
        std::thread::sleep(pause);
        w.whatif(["exec", "-d", "drowsy", "--", "true"]).go().ok();
    }
}
