//! The machine was switched off and on again, as far as that can be told: nothing runs, nothing is mounted, no control group
//! is left, it is another boot, and the clock that counts from its beginning has begun anew.

use std::time::Duration;

use whatif_e2e::{Outcome, World, as_root_and_user, assert_same, canary, eventually, kill_wholly, needs, skip};

as_root_and_user!(
    every_head_is_there_after_a_reboot,
    a_time_that_ran_out_meanwhile_has_run_out,
    a_time_that_has_not_run_out_goes_on,
    what_a_boot_left_is_not_taken_for_what_another_has,
    a_reboot_in_the_middle_of_things_is_repaired,
);

/// The next boot is arranged by root, whoever uses it.
macro_rules! needs_root {
    () => {
        if !rustix::process::geteuid().is_root() {
            skip("only root can arrange another boot");
            return;
        }
    };
}

fn every_head_is_there_after_a_reboot(w: &World) {
    needs_root!();
    w.write("real", "reality");
    w.new_sandbox("plain");
    w.exec("plain", "echo 1 > one; rm real; mkdir d; ln -s ../one d/link; chmod 700 d").ok();
    w.new_sandbox("layered");
    w.exec("layered", "echo 1 > one").ok();
    w.snapshot("layered", "label");
    w.exec("layered", "echo 2 > two; rm real").ok();
    w.whatif(["run", "--name", "finished", "--", "/bin/sh", "-c", "echo 1 > one"]).go().ok();
    w.whatif(["new", "limited", "--memory", "200M", "--pids", "50", "--disk", "100M"]).go().ok();
    w.exec("limited", "echo 1 > one").ok();
    w.new_sandbox("down");
    w.exec("down", "echo 1 > one").ok();
    w.whatif(["stop", "down"]).go().ok();
    w.whatif(["exec", "-d", "plain", "--", "sleep", "1000"]).go().ok();
    let heads: Vec<_> = ["plain", "layered", "finished", "limited", "down"]
        .iter()
        .map(|name| format!("{}/head", w.json(["show", name])["directory"].as_str().expect("it has one")))
        .collect();
    let paths: Vec<_> = heads.iter().map(std::path::Path::new).collect();
    w.reboot();
    let (before, layers) = (canary(&paths), w.frozen());
    let listed = w.in_next_boot("$W --json ls").ok().json();
    assert_eq!(listed.as_array().map(Vec::len), Some(5), "{listed}");
    assert!(listed.as_array().expect("a list").iter().all(|s| s["status"] == "stopped"), "{listed}");
    assert_eq!(w.in_next_boot("$W --json show plain").ok().json()["details"]["stop_reason"], "lost");
    assert_same(&before, &canary(&paths));
    assert_same(&layers, &w.frozen());
    // Nobody meant these to be down, so a command brings them up; the one that was stopped waits for `start`.
    let script = "$W exec plain -- sh -c 'cat one d/link; test ! -e real' && $W exec layered -- sh -c 'cat one two; test ! -e real' && \
                  $W exec finished -- cat one && $W exec limited -- cat one && ! $W exec down -- true && $W start down >/dev/null && \
                  $W exec down -- cat one && $W rollback layered label >/dev/null 2>&1 && $W exec layered -- cat one real";
    let expected = "1\n1\n1\n2\n1\n1\n1\n1\nreality";
    assert_eq!(w.in_next_boot(script).ok().text(), expected);
}

/// The sandbox's time is by the calendar then; it cannot be known how long the machine was off otherwise.
fn a_time_that_ran_out_meanwhile_has_run_out(w: &World) {
    needs_root!();
    w.whatif(["new", "short", "--ttl", "8s"]).go().ok();
    w.exec("short", "echo kept > made").ok();
    w.reboot();
    let refused = |outcome: &Outcome| outcome.code == 125 && outcome.stderr.contains("\"expired\"");
    eventually("its time is up", || refused(&w.in_next_boot("$W --json exec short -- true")));
    let shown = w.in_next_boot("$W --json show short").ok().json();
    assert_eq!(shown["status"], "stopped", "{shown}");
    w.in_next_boot("$W start short").exits(125).says("short");
    assert_eq!(w.in_next_boot("$W start short --ttl 1h >/dev/null; $W exec short -- cat made").ok().text(), "kept");
}

fn a_time_that_has_not_run_out_goes_on(w: &World) {
    needs_root!();
    w.whatif(["new", "long", "--ttl", "1h"]).go().ok();
    w.exec("long", "echo kept > made").ok();
    w.reboot();
    assert_eq!(w.in_next_boot("$W exec long -- cat made").ok().text(), "kept");
    let remaining = |shown: serde_json::Value| shown["remaining_ms"].as_u64().expect("it has some");
    let left = remaining(w.in_next_boot("$W --json show long").ok().json());
    assert!(left > 1_800_000 && left <= 3_600_000, "{left} ms");
    // Once it was started, it does not matter what becomes of the calendar.
    needs!(w, "python3");
    let program = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
                   db.execute(\"UPDATE sandboxes SET details = json_set(details, '$.expiry.wall_ms', 1)\")";
    let database = w.state.join("state.db").display().to_string();
    w.program("/usr/bin/python3").args(["-c", program, &database]).go().ok();
    let left = remaining(w.in_next_boot("$W --json show long").ok().json());
    assert!(left > 1_800_000, "{left} ms");
}

/// A file of a past boot, a socket nobody listens at, names of processes that are others now.
fn what_a_boot_left_is_not_taken_for_what_another_has(w: &World) {
    needs_root!();
    needs!(w, "python3");
    w.new_sandbox("left");
    w.exec("left", "echo kept > made").ok();
    let mut stranger = w.program("/bin/sleep").args(["1000"]).spawn();
    kill_wholly(&[w.keeper_pid("left")]);
    let program = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], isolation_level=None)\ndb.execute(\"UPDATE sandboxes SET status = 'active', details = json_set(details, '$.keeper_pid', \" + sys.argv[2] + \")\")";
    let database = w.state.join("state.db").display().to_string();
    w.program("/usr/bin/python3").args(["-c", program, &database, &stranger.id().to_string()]).go().ok();
    let listed = w.in_next_boot("$W --json ls").ok().json();
    assert_eq!(listed[0]["status"], "stopped", "{listed}");
    assert_eq!(w.in_next_boot("$W exec left -- cat made; $W rm left").ok().stdout.lines().next(), Some("kept"));
    assert!(stranger.try_wait().expect("it is our child").is_none(), "a stranger was killed");
    let _ = stranger.kill();
    let _ = stranger.wait();
}

fn a_reboot_in_the_middle_of_things_is_repaired(w: &World) {
    needs_root!();
    let before = w.inventory();
    w.new_sandbox("busy");
    w.exec("busy", "echo kept > made").ok();
    let commands: [&[&str]; 4] = [
        &["run", "--name", "half", "--", "/bin/sh", "-c", "echo x > y; sleep 1000"],
        &["snapshot", "busy"],
        &["new", "made"],
        &["fork", "busy"],
    ];
    let children: Vec<_> = commands
        .iter()
        .map(|c| {
            w.whatif(c.iter().copied())
                .streams(std::process::Stdio::null(), std::process::Stdio::null(), std::process::Stdio::null())
                .spawn()
        })
        .collect();
    assert!(whatif_e2e::wait_for(Duration::from_secs(60), || (w.own_process_ids().len() > 4).then_some(())).is_some());
    w.reboot();
    for mut child in children {
        let _ = child.wait();
    }
    let listed = w.in_next_boot("$W --json ls").ok().json();
    assert!(listed.as_array().expect("a list").iter().all(|s| s["status"] == "stopped"), "{listed}");
    eventually("nothing is half done", || w.transient().is_empty());
    assert_eq!(w.in_next_boot("$W exec busy -- cat made").ok().text(), "kept");
    w.in_next_boot("$W rm --all --yes; $W gc").ok();
    w.assert_inventory_is(&before, "after the reboot");
}
