//! Several commands at the same sandbox at the same moment: each happens as a whole, in one order or the other.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use whatif_e2e::{Detail, Tree, World, as_root_and_user, eventually, wait_for};

as_root_and_user!(
    commands_run_while_snapshots_are_taken,
    what_commands_make_while_snapshots_are_taken_was_never_in_reality,
    commands_start_while_the_sandbox_is_rolled_back,
    a_command_right_after_stands_on_the_new_layers,
    whoever_changes_layers_is_killed_or_held_up,
    many_wait_at_the_door_of_one_that_ends,
    what_was_interrupted_is_finished_under_the_lock,
    snapshots_at_once_all_count,
    forks_at_once_all_begin_at_the_same,
    snapshots_rollbacks_and_forks_at_once,
    a_snapshot_and_its_removal_at_once,
    a_writer_never_sees_a_gap,
    others_look_while_a_head_is_copied,
    layers_are_merged_by_one_command_at_a_time,
);

/// A snapshot is there before the sandbox stands on its layers; nobody ever notices.
fn a_command_right_after_stands_on_the_new_layers(w: &World) {
    let name = w.new_sandbox("s");
    for round in 0..rounds() {
        let (label, script) = (format!("r-{round}"), format!("echo {round} > f && cat f"));
        assert_eq!(w.exec(&name, &script).ok().text(), round.to_string());
        w.snapshot(&name, &label);
        assert_eq!(w.exec(&name, "echo later > f && cat f").ok().text(), "later");
        // One change of layers right after another, without anything in between.
        w.rollback(&name, &label);
        w.rollback(&name, &label);
        assert_eq!(w.exec(&name, "cat f && echo more >> f").ok().text(), round.to_string());
        w.snapshot(&name, &format!("more-{round}"));
        w.whatif(["stop", &name]).go().ok();
        w.whatif(["start", &name]).go().ok();
        assert_eq!(w.exec(&name, "cat f").ok().text(), format!("{round}\nmore"));
    }
    for round in 0..rounds() {
        w.rollback(&name, &format!("r-{round}"));
        assert_eq!(w.exec(&name, "cat f").ok().text(), round.to_string());
    }
}

/// The processes that put sandboxes of this world on other layers.
fn helpers(w: &World) -> Vec<rustix::process::Pid> {
    let is_one = |p: &String| p.trim_end().ends_with(" restack");
    let pid = |p: String| rustix::process::Pid::from_raw(p.split(' ').next()?.parse().ok()?);
    w.processes().into_iter().filter(is_one).filter_map(pid).collect()
}

/// Wherever it gets to, what was recorded is there, and the sandbox goes on.
fn whoever_changes_layers_is_killed_or_held_up(w: &World) {
    let name = w.new_sandbox("s");
    let (mut killed, mut held, mut turned_away) = (0, 0, 0);
    for round in 0..4 * rounds() {
        w.exec(&name, &format!("echo {round} > f")).ok();
        let label = format!("r-{round}");
        let snapshot = start(w, &["snapshot", &name, &label]);
        let found = wait_for(Duration::from_millis(50), || helpers(w).first().copied());
        let is_held = found.is_some_and(|helper| {
            let signal = if round % 2 == 0 { rustix::process::Signal::KILL } else { rustix::process::Signal::STOP };
            rustix::process::kill_process(helper, signal).is_ok() && round % 2 == 1
        });
        let waiting = start(w, &["exec", &name, "--", "cat", "f"]);
        if let Some(helper) = found.filter(|_| is_held) {
            held += 1;
            // One that waits as well, and does not live to see the end of it.
            let mut impatient = start(w, &["diff", &name]);
            std::thread::sleep(Duration::from_millis(20));
            let _ = impatient.kill();
            let _ = impatient.wait();
            let _ = rustix::process::kill_process(helper, rustix::process::Signal::CONT);
        }
        let (code, said) = end(snapshot, "a snapshot");
        killed += usize::from(found.is_some() && !is_held);
        // It waits until the sandbox stands on its layers, whoever puts it there. What is not mended yet: once in some hundred
        // times a helper that is held up makes the keeper end, and the command is told so, not knowing whether it was run.
        let (exit, seen) = end(waiting, "a command meanwhile");
        let is_told = ["lost the connection", "was stopped meanwhile"].iter().any(|said| seen.contains(said));
        if exit == 125 && is_told && is_held {
            turned_away += 1;
        } else {
            assert_eq!((exit, seen.trim()), (0, round.to_string().as_str()), "round {round}, {code}: {said}");
        }
        assert_eq!(w.exec(&name, "cat f && echo again > g && cat g").ok().text(), format!("{round}\nagain"), "{said}");
        if code == 0 {
            let fork = w.fork(&format!("{name}@{label}"), &format!("f-{round}"));
            assert_eq!(w.exec(&fork, "cat f").ok().text(), round.to_string());
            w.whatif(["rm", &fork]).go().ok();
        } else {
            assert!(!w.labels(&name).contains(&label), "{said}");
        }
    }
    assert!(killed + held > 0, "somebody was met");
    assert!(turned_away * 40 <= 4 * rounds(), "{turned_away} commands were turned away");
}

/// A keeper that ends while several knock: none of them is lost, wherever it had got to.
fn many_wait_at_the_door_of_one_that_ends(w: &World) {
    use rustix::process::{Pid, Signal, kill_process};
    let name = w.new_sandbox("s");
    for round in 0..rounds() {
        w.exec(&name, &format!("echo {round} > f")).ok();
        let keeper = Pid::from_raw(w.keeper_pid(&name)).expect("it runs");
        let send = |to: Pid, signal: Signal| kill_process(to, signal).expect("it is there");
        // While the keeper does not answer, the helper waits to be found; while the helper does not, everything is held still.
        send(keeper, Signal::STOP);
        let snapshot = start(w, &["snapshot", &name, &format!("r-{round}")]);
        let helper = wait_for(Duration::from_secs(60), || helpers(w).first().copied()).expect("it has a helper");
        send(helper, Signal::STOP);
        send(keeper, Signal::CONT);
        eventually("the layers are about to be changed", || !w.transient().is_empty());
        send(keeper, Signal::STOP);
        send(helper, Signal::KILL);
        let commands: Vec<_> = (0..5).map(|_| start(w, &["exec", &name, "--", "cat", "f"])).collect();
        eventually("all of them wait", || commands.iter().all(sleeps));
        send(keeper, Signal::CONT);
        let (code, said) = end(snapshot, "a snapshot");
        assert_eq!(code, 125, "{said}");
        for command in commands {
            assert_eq!(end(command, "a command"), (0, format!("{round}\n")));
        }
    }
}

fn sleeps(process: &Child) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

fn rounds() -> usize {
    std::env::var("WHATIF_RACES").ok().and_then(|n| n.parse().ok()).unwrap_or(12)
}

fn start(w: &World, arguments: &[&str]) -> Child {
    w.whatif(arguments.iter().copied()).streams(Stdio::null(), Stdio::piped(), Stdio::piped()).spawn()
}

/// Its exit code and what it said, within a deadline.
fn end(mut child: Child, what: &str) -> (i32, String) {
    let ended = wait_for(Duration::from_secs(120), || child.try_wait().expect("it is our child"));
    if ended.is_none() {
        let _ = child.kill();
    }
    let output = child.wait_with_output().expect("it is our child");
    assert!(ended.is_some(), "it hangs: {what}\n{}", String::from_utf8_lossy(&output.stderr));
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code().unwrap_or(-1), said)
}

/// Where the layer lies that a snapshot has put on its stack.
fn newest_layer(w: &World, said: &str) -> Option<PathBuf> {
    let document: Value = serde_json::from_str(said).ok()?;
    let layer = document["snapshot"]["stack"].as_array()?.last()?.as_str()?.to_owned();
    Some(w.layers().join(layer))
}

/// A command is never lost and never half done because somebody takes a snapshot.
fn commands_run_while_snapshots_are_taken(w: &World) {
    let name = w.new_sandbox("s");
    for round in 0..rounds() {
        let script = format!(
            "echo {round} > a-{round}; cd /; echo {round} > {p}/b-{round}; cat {p}/a-{round} {p}/b-{round}",
            p = w.project.display()
        );
        let command = start(w, &["exec", &name, "--", "/bin/sh", "-c", &script]);
        let label = format!("r-{round}");
        let snapshot = start(w, &["--json", "snapshot", &name, &label]);
        let second = start(w, &["exec", &name, "--", "/bin/sh", "-c", &format!("echo {round} > c-{round}; cat c-{round}")]);
        let (code, said) = end(snapshot, "snapshot");
        assert_eq!(code, 0, "round {round}: {said}");
        let layer = newest_layer(w, &said);
        let frozen = layer.as_ref().map(|layer| Tree::of(layer, Detail::Times));
        let (code, said) = end(command, "exec");
        assert_eq!((code, said.as_str()), (0, format!("{round}\n{round}\n").as_str()), "round {round}");
        let (code, said) = end(second, "exec");
        assert_eq!((code, said.as_str()), (0, format!("{round}\n").as_str()), "round {round}");
        if let (Some(layer), Some(frozen)) = (layer, frozen) {
            Tree::of(&layer, Detail::Times)
                .assert_is(&frozen, &format!("round {round}: a layer is never written, its base neither"));
        }
        let count = w.exec(&name, "ls | wc -l").ok();
        assert_eq!(count.text(), (3 * (round + 1)).to_string(), "round {round}: nothing is lost");
    }
}

/// An apply has changed the directory, so its times do not tell any more what reality had in it. Only a look in time does, and a
/// snapshot freezes nothing unseen.
fn what_commands_make_while_snapshots_are_taken_was_never_in_reality(w: &World) {
    let name = w.new_sandbox("s");
    w.exec(&name, "echo 0 > f0").ok();
    w.apply(&[&name]).ok();
    let rounds = 4 * rounds();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // One that finds the sandbox busy is refused, which is no matter here.
                end(start(w, &["snapshot", &name]), "snapshot");
            }
        });
        let made: Vec<(i32, String)> = (1..=rounds)
            .map(|round| {
                let script = format!("echo {round} > f{round}; [ {round} -le 3 ] || echo again >> f$(({round} - 3))");
                end(start(w, &["exec", &name, "--", "/bin/sh", "-c", &script]), "exec")
            })
            .collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(made.iter().all(|(code, _)| *code == 0), "{made:?}");
    });
    assert_eq!(w.json(["diff", &name])["drift"], json!([]), "nothing happened in reality");
    w.apply(&[&name]).ok();
    assert_eq!(w.outside("ls | wc -l").ok().text(), (rounds + 1).to_string());
}

/// A rollback ends what runs, and what comes at the same moment runs before it or after it, or is ended by it.
fn commands_start_while_the_sandbox_is_rolled_back(w: &World) {
    let name = w.new_sandbox("s");
    w.exec(&name, "echo 0 > f").ok();
    w.snapshot(&name, "start");
    for round in 0..rounds() {
        let commands: Vec<Child> = (0..3)
            .map(|n| {
                start(w, &["exec", &name, "--", "/bin/sh", "-c", &format!("echo {round} > f; cat f; echo {n} > x-{n}; cat x-{n}")])
            })
            .collect();
        let rollback = start(w, &["--json", "rollback", &name, "start"]);
        let (code, said) = end(rollback, "rollback");
        assert_eq!(code, 0, "round {round}: {said}");
        for command in commands {
            let (code, said) = end(command, "exec");
            assert!(code == 0 || code == 137 || code == 125, "round {round}: {code} {said}");
        }
        w.rollback(&name, "start");
        assert_eq!(w.exec(&name, "ls; cat f").ok().stdout, "f\n0\n", "round {round}");
    }
}

fn snapshots_at_once_all_count(w: &World) {
    let name = w.new_sandbox("s");
    for round in 0..rounds() / 3 {
        w.exec(&name, &format!("echo {round} > f")).ok();
        let all: Vec<Child> = (0..4).map(|_| start(w, &["snapshot", &name])).collect();
        let outcomes: Vec<(i32, String)> = all.into_iter().map(|child| end(child, "snapshot")).collect();
        assert!(outcomes.iter().all(|(code, _)| *code == 0), "round {round}: {outcomes:?}");
        let labels: BTreeSet<String> = w.labels(&name).into_iter().collect();
        assert_eq!(labels.len(), 4 * (round + 1), "each has a label of its own: {outcomes:?}");
        for label in labels.iter().filter(|l| outcomes.iter().any(|(_, said)| said.contains(&format!("@{l}\n")))) {
            let fork = w.fork(&format!("{name}@{label}"), "look");
            assert_eq!(w.exec(&fork, "cat f").ok().text(), round.to_string(), "{label}");
            w.whatif(["rm", &fork]).go().ok();
        }
    }
    let one: Vec<Child> = (0..4).map(|_| start(w, &["--json", "snapshot", &name, "only-one"])).collect();
    let outcomes: Vec<(i32, String)> = one.into_iter().map(|child| end(child, "snapshot")).collect();
    assert_eq!(outcomes.iter().filter(|(code, _)| *code == 0).count(), 1, "{outcomes:?}");
    assert!(outcomes.iter().all(|(code, said)| *code == 0 || said.contains("label_taken")), "{outcomes:?}");
}

fn forks_at_once_all_begin_at_the_same(w: &World) {
    let name = w.new_sandbox("s");
    w.exec(&name, "echo start > f").ok();
    let all: Vec<Child> = (0..6).map(|n| start(w, &["fork", &name, &format!("f-{n}")])).collect();
    for (n, child) in all.into_iter().enumerate() {
        let (code, said) = end(child, "fork");
        assert_eq!(code, 0, "{n}: {said}");
    }
    // Their first use at once, too.
    let uses: Vec<Child> =
        (0..6).map(|n| start(w, &["exec", &format!("f-{}", n % 3), "--", "/bin/sh", "-c", "cat f; echo x > x"])).collect();
    for child in uses {
        assert_eq!(end(child, "exec"), (0, "start\n".to_owned()));
    }
}

fn snapshots_rollbacks_and_forks_at_once(w: &World) {
    let name = w.new_sandbox("s");
    w.exec(&name, "echo start > f").ok();
    w.snapshot(&name, "start");
    for round in 0..rounds() {
        w.exec(&name, &format!("echo {round} > f")).ok();
        let (label, fork) = (format!("l-{round}"), format!("f-{round}"));
        let all = [
            start(w, &["snapshot", &name, &label]),
            start(w, &["rollback", &name, "start"]),
            start(w, &["fork", &name, &fork]),
            start(w, &["squash", &name]),
        ];
        for child in all {
            let (code, said) = end(child, "one of them");
            assert_eq!(code, 0, "round {round}: {said}");
        }
        let expected = ["start\n".to_owned(), format!("{round}\n")];
        let seen = |name: &str| w.exec(name, "cat f").ok().stdout;
        assert_eq!(seen(&name), expected[0], "round {round}: nothing came after the rollback but names");
        assert!(expected.contains(&seen(&fork)), "round {round}");
        let copy = w.fork(&format!("{name}@{label}"), "look");
        assert!(expected.contains(&seen(&copy)), "round {round}");
        w.whatif(["rm", &fork, &copy]).go().ok();
    }
}

fn a_snapshot_and_its_removal_at_once(w: &World) {
    let name = w.new_sandbox("s");
    for round in 0..rounds() {
        w.exec(&name, &format!("echo {round} > f")).ok();
        let label = format!("l-{round}");
        w.snapshot(&name, &label);
        let full = format!("{name}@{label}");
        let all = [
            start(w, &["fork", &full, "f"]),
            start(w, &["snapshot", "rm", &full]),
            start(w, &["gc"]),
            start(w, &["rollback", &name, &label]),
        ];
        let outcomes: Vec<(i32, String)> = all.into_iter().map(|child| end(child, "one of them")).collect();
        assert!(outcomes.iter().all(|(code, _)| *code == 0 || *code == 125), "round {round}: {outcomes:?}");
        assert_eq!(w.exec(&name, "cat f").ok().text(), round.to_string(), "round {round}: {outcomes:?}");
        if outcomes[0].0 == 0 {
            assert_eq!(w.exec("f", "cat f").ok().text(), round.to_string(), "a fork that was made can be used: {outcomes:?}");
            w.whatif(["rm", "f"]).go().ok();
        }
    }
}

/// A process that holds nothing between two writes, through many snapshots: no write fails and none is lost.
fn a_writer_never_sees_a_gap(w: &World) {
    let name = w.new_sandbox("s");
    let script = format!(
        "cd /; n=0; while [ ! -e /tmp/stop ]; do n=$((n+1)); echo $n > {p}/new && mv {p}/new {p}/n || echo failed; \
        [ \"$(cat {p}/n)\" = $n ] || echo lost; done; echo $n > /tmp/last",
        p = w.project.display()
    );
    let started = w.json(["exec", &name, "-d", "--", "/bin/sh", "-c", &script]);
    let mut seen = 0;
    for round in 0..rounds() {
        w.snapshot(&name, &format!("s-{round}"));
        let fork = w.fork(&format!("{name}@s-{round}"), "look");
        let n: u64 = w.exec(&fork, "cat n 2>/dev/null || echo 0").ok().text().parse().unwrap_or(0);
        assert!(n >= seen, "round {round}: time goes on: {seen}, then {n}");
        seen = n;
        w.whatif(["rm", &fork]).go().ok();
    }
    w.exec(&name, "touch /tmp/stop").ok();
    let last = wait_for(Duration::from_secs(60), || Some(w.exec(&name, "cat /tmp/last 2>/dev/null")).filter(|o| o.code == 0));
    let last = last.expect("it ends").text().to_owned();
    assert_eq!(w.exec(&name, "cat n").ok().text(), last);
    assert_eq!(w.whatif(["logs", &name, &started["pid"].to_string()]).go().ok().stdout, "", "no write failed");
}

/// Every command looks for what crashes left. A copy under way is not that, however long it takes.
fn others_look_while_a_head_is_copied(w: &World) {
    let name = w.new_sandbox("s");
    w.exec(&name, "seq 3000 | xargs touch").ok();
    w.whatif(["exec", "-d", &name, "--", "sleep", "60"]).go().ok();
    for round in 0..3 {
        let copying = start(w, &["--json", "snapshot", &name, &format!("n-{round}")]);
        let looks: Vec<Child> = (0..4).map(|_| start(w, &["ls"])).collect();
        for look in looks {
            assert_eq!(end(look, "ls").0, 0);
        }
        let (code, said) = end(copying, "snapshot");
        assert_eq!(code, 0, "{said}");
        assert_eq!(w.json(["show", &name])["status"], "active", "its keeper was ended in round {round}");
    }
    w.whatif(["rm", &name]).go().ok();
}

/// What a killed snapshot left is finished by the one who has the sandbox, and by nobody else meanwhile: a second one would end the
/// keeper that the first one starts, and move the head that it runs on.
fn what_was_interrupted_is_finished_under_the_lock(w: &World) {
    use rustix::process::{Pid, Signal, kill_process};
    let name = w.new_sandbox("s");
    w.exec(&name, "echo kept > f").ok();
    let directory = w.directory(&name);
    let keeper = Pid::from_raw(w.keeper_pid(&name)).expect("it runs");
    let send = |to: Pid, signal: Signal| kill_process(to, signal).expect("it is there");
    send(keeper, Signal::STOP);
    let mut snapshot = start(w, &["snapshot", &name, "one"]);
    let helper = wait_for(Duration::from_secs(60), || helpers(w).first().copied()).expect("it has a helper");
    send(helper, Signal::STOP);
    send(keeper, Signal::CONT);
    eventually("the layers are about to be changed", || !w.transient().is_empty());
    snapshot.kill().expect("it is our child");
    send(helper, Signal::KILL);
    snapshot.wait().expect("it is our child");

    let lock = std::fs::File::open(&directory).expect("it is there");
    eventually("the sandbox is free", || lock.try_lock().is_ok());
    w.whatif(["ls"]).go().ok();
    assert!(!w.transient().is_empty(), "somebody finished it although the sandbox was in use");
    // Not by closing it alone: a child that another test has just started may have it as well.
    lock.unlock().expect("it is ours");
    w.whatif(["ls"]).go().ok();
    // By this command, or by what it left to do in the background.
    eventually("it is finished", || w.transient().is_empty());
    assert_eq!(w.exec(&name, "cat f").ok().text(), "kept");
}

/// Whoever comes second waits, and merges what there is then.
fn layers_are_merged_by_one_command_at_a_time(w: &World) {
    let name = w.new_sandbox("s");
    for round in 0..2 {
        w.exec(&name, &format!("echo {round} > f{round}")).ok();
        w.snapshot(&name, &format!("r-{round}"));
    }
    let id = w.directory(&name).file_name().expect("it has a name").to_string_lossy().into_owned();
    let place = w.state.join("transient").join(format!("squash-{id}"));
    w.write(place.join("layer"), "of another command");
    let lock = std::fs::File::open(&place).expect("it is there");
    lock.lock().expect("nobody else has it");
    let mut second = start(w, &["squash", &name]);
    assert!(wait_for(Duration::from_millis(200), || second.try_wait().expect("it is our child")).is_none(), "it did not wait");
    std::fs::remove_dir_all(&place).expect("it is ours");
    lock.unlock().expect("it is ours");
    let (code, said) = end(second, "a squash");
    assert_eq!(code, 0, "{said}");
    assert_eq!(w.exec(&name, "cat f0 f1").ok().text(), "0\n1");
}
