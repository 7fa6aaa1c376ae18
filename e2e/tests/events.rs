//! What happened is told in order, once, to whoever asks, and what cannot be taken back is in an audit log that cannot be changed unseen.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use whatif_e2e::{Daemon, World, as_root_and_user, needs, wait_for};

as_root_and_user!(
    what_happens_is_told_in_order,
    a_list_goes_on_where_another_ended,
    events_are_followed_as_they_happen,
    many_at_once_are_each_told_once,
    damaged_lines_lose_nothing_but_themselves,
    whoever_takes_the_spool_away_hides_nothing_that_comes_later,
    a_run_is_told_in_the_order_in_which_it_is_seen,
    what_recovery_finishes_is_told,
    a_changed_audit_log_is_noticed,
    the_daemon_streams_what_the_command_line_does,
);

#[track_caller]
fn told(w: &World, options: &[&str]) -> Vec<Value> {
    let document = w.json(["events"].into_iter().chain(options.iter().copied()));
    document["events"].as_array().expect("it is a list").clone()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["kind"].as_str().expect("it is a word")).collect()
}

fn what_happens_is_told_in_order(w: &World) {
    w.write("f", "one\n");
    w.new_sandbox("s");
    w.exec("s", "echo two >> f; exit 3").exits(3);
    w.whatif(["snapshot", "s", "first"]).go().ok();
    w.whatif(["exec", "s", "-d", "--", "sleep", "1000"]).go().ok();
    w.whatif(["rollback", "s", "first"]).go().ok();
    w.whatif(["fork", "s@first", "t"]).go().ok();
    w.whatif(["apply", "s", "--yes"]).go().ok();
    w.whatif(["undo", "--yes"]).go().ok();
    w.whatif(["reject", "t", "--keep"]).go().ok();
    w.whatif(["stop", "s"]).go().ok();
    w.whatif(["rm", "s", "--yes"]).go().ok();
    let events = told(w, &[]);
    let expected = [
        "sandbox.created",
        "command.ended",
        "snapshot.taken",
        "command.started",
        "sandbox.rolled_back",
        "sandbox.created",
        "apply.made",
        "apply.undone",
        // A rejection decides about each change, as a review does.
        "review.saved",
        "sandbox.rejected",
        "sandbox.stopped",
        "sandbox.removed",
    ];
    assert_eq!(kinds(&events), expected, "{events:#?}");
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["number"].as_u64()).collect();
    assert_eq!(numbers, (1..=expected.len() as u64).collect::<Vec<_>>());
    let ended = &events[1];
    assert_eq!(
        (&ended["subject"], &ended["via"], &ended["about"]["exit_code"]),
        (&json!("s"), &json!("cli"), &json!(3)),
        "{ended}"
    );
    assert_eq!(ended["by"], format!("user:{}", w.uid()));
    assert!(ended["about"]["command"].as_str().is_some_and(|command| command.contains("echo two")), "{ended}");
    assert_eq!(events[5]["about"]["forked_from"], "s@first");
    let applied = events[6]["about"]["apply"].as_str().expect("it has an id");
    assert_eq!(events[7]["about"]["apply"], applied);

    let text = w.whatif(["events", "-n", "2"]).go().ok().stdout;
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("sandbox.removed") && text.contains(&format!("user:{} (cli)", w.uid())), "{text}");

    let log = w.json(["audit"]);
    let actions: Vec<&str> =
        log["entries"].as_array().expect("it is a list").iter().filter_map(|entry| entry["action"].as_str()).collect();
    assert_eq!(actions, ["apply.made", "apply.undone", "review.saved", "sandbox.rejected", "sandbox.removed"], "{log:#}");
    assert_eq!(w.json(["audit", "--verify"])["entries"], 5);
}

fn a_list_goes_on_where_another_ended(w: &World) {
    for name in ["a", "b", "c"] {
        w.new_sandbox(name);
    }
    let first = w.json(["events", "-n", "2"]);
    assert_eq!(first["next"], 3);
    w.exec("b", "true").ok();
    let rest = w.json(["events", "--after", "3"]);
    assert_eq!((&rest["events"][0]["kind"], &rest["next"]), (&json!("command.ended"), &json!(4)), "{rest}");
    let of_b = told(w, &["b"]);
    assert_eq!(kinds(&of_b), ["sandbox.created", "command.ended"]);
    // Nothing is left to tell.
    let none = w.json(["events", "--after", "4"]);
    assert_eq!((&none["events"], &none["next"]), (&json!([]), &json!(4)));
    let text = w.whatif(["events", "nosuch"]).go().ok().stdout;
    assert!(text.is_empty(), "{text}");
}

fn events_are_followed_as_they_happen(w: &World) {
    w.new_sandbox("before");
    let call = w.whatif(["--json", "events", "-f", "-n", "1"]).streams(Stdio::null(), Stdio::piped(), Stdio::inherit());
    let mut follower = call.spawn();
    let mut lines = BufReader::new(follower.stdout.take().expect("it is piped")).lines();
    let mut next =
        || -> Value { serde_json::from_str(&lines.next().expect("there is more").expect("it is text")).expect("it is JSON") };
    assert_eq!(next()["subject"], "before");
    w.new_sandbox("after");
    w.exec("after", "exit 7").exits(7);
    assert_eq!((next()["subject"].clone(), next()["about"]["exit_code"].clone()), (json!("after"), json!(7)));
    follower.kill().expect("it is our child");
    let _ = follower.wait();
}

fn many_at_once_are_each_told_once(w: &World) {
    const EACH: usize = 8;
    thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                for n in 0..EACH {
                    w.whatif(["run", "--quiet", "--", "sh", "-c", &format!(": {writer}-{n}")]).go().ok();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..EACH {
                    told(w, &[]);
                }
            });
        }
    });
    let events = told(w, &["-n", "1000"]);
    let mut commands: Vec<&str> = events.iter().filter_map(|event| event["about"]["command"].as_str()).collect();
    assert_eq!(commands.len(), 4 * EACH, "{commands:?}");
    commands.sort_unstable();
    commands.dedup();
    assert_eq!(commands.len(), 4 * EACH, "{commands:?}");
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["number"].as_u64()).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
}

fn spool(w: &World) -> PathBuf {
    let files = fs::read_dir(w.state.join("events")).expect("something was told");
    files.map(|entry| entry.expect("it can be listed").path()).max().expect("there is one")
}

fn damaged_lines_lose_nothing_but_themselves(w: &World) {
    w.new_sandbox("a");
    let mut file = fs::File::options().append(true).open(spool(w)).expect("root may");
    file.write_all(b"\n{\"at\":1,\"kind\":\"torn").expect("it is a file");
    w.new_sandbox("b");
    file.write_all(b"\n\0\xff\n[]\n").expect("it is a file");
    w.new_sandbox("c");
    let subjects: Vec<Value> = told(w, &[]).iter().map(|event| event["subject"].clone()).collect();
    assert_eq!(subjects, ["a", "b", "c"]);
}

fn whoever_takes_the_spool_away_hides_nothing_that_comes_later(w: &World) {
    for name in ["a", "b", "c"] {
        w.new_sandbox(name);
    }
    assert_eq!(told(w, &[]).len(), 3);
    fs::remove_dir_all(w.state.join("events")).expect("root may");
    w.new_sandbox("longer");
    w.new_sandbox("d");
    assert_eq!(told(w, &[]).last().expect("there are events")["subject"], "d");
    // It is seen to be cut off as long as it is shorter than what was read of it.
    fs::File::options().write(true).truncate(true).open(spool(w)).expect("root may");
    w.new_sandbox("e");
    assert_eq!(told(w, &[]).last().expect("there are events")["subject"], "e");
    // What is no file of ours holds nobody up.
    w.outside(&format!("cd {}/events && mkfifo 000000000001 && mkdir 000000000002", w.state.display())).ok();
    w.new_sandbox("f");
    assert_eq!(told(w, &[]).last().expect("there are events")["subject"], "f");
    // Where there is no spool, the audit log gets its entries all the same.
    fs::remove_dir_all(w.state.join("events")).expect("root may");
    w.write(w.state.join("events"), "in the way");
    w.whatif(["rm", "f", "--yes"]).go().ok();
    fs::remove_file(w.state.join("events")).expect("root may");
    let log = w.json(["audit"]);
    assert_eq!((&log["entries"][0]["action"], &log["entries"][0]["subject"]), (&json!("sandbox.removed"), &json!("f")), "{log}");
}

fn a_run_is_told_in_the_order_in_which_it_is_seen(w: &World) {
    w.whatif(["run", "--name", "kept", "--", "sh", "-c", "echo > f"]).go().ok();
    w.whatif(["run", "--timeout", "300ms", "--", "sleep", "60"]).go().exits(124);
    w.whatif(["stop", "kept"]).go().ok();
    let events = told(w, &[]);
    assert_eq!(kinds(&events), ["sandbox.created", "command.ended", "sandbox.stopped", "command.ended"], "{events:#?}");
    assert_eq!((&events[3]["about"]["exit_code"], &events[3]["about"]["timed_out"]), (&json!(124), &json!(true)));
}

/// A command that is killed tells nothing, so whoever finishes its work does.
fn what_recovery_finishes_is_told(w: &World) {
    needs!(w, "strace");
    w.sandbox_with("s", "echo more > f");
    // At the call that files the apply away, all of it is real.
    let trace = w.home.join("trace");
    let killed = [
        "-f",
        "-qq",
        "-o",
        trace.to_str().expect("it is text"),
        "-e",
        "trace=renameat2",
        "-e",
        "inject=renameat2:signal=KILL:when=1",
    ];
    let outcome = w.program("/usr/bin/strace").args(killed).args([&w.bin]).args(["apply", "s", "--yes"]).go();
    assert_ne!(outcome.code, 0, "{outcome:?}");
    w.whatif(["ls"]).go().ok();
    let is_real = w.project.join("f").exists();
    let history = w.json(["history"]).as_array().map_or(0, Vec::len);
    assert_eq!(history, usize::from(is_real));
    let log = w.json(["audit"]);
    let made = log["entries"].as_array().expect("it is a list").iter().filter(|entry| entry["action"] == "apply.made").count();
    assert!(if is_real { made >= 1 } else { made == 0 }, "{log:#}");
    // All the calls after that, until one apply ends by itself.
    for when in 2.. {
        w.whatif(["undo", "--yes"]).go();
        w.outside("rm -f f").ok();
        let inject = format!("inject=renameat2:signal=KILL:when={when}");
        let killed = ["-f", "-qq", "-o", trace.to_str().expect("it is text"), "-e", "trace=renameat2", "-e", &inject];
        let outcome = w.program("/usr/bin/strace").args(killed).args([&w.bin]).args(["apply", "s", "--yes"]).go();
        w.whatif(["ls"]).go().ok();
        let applied = w.json(["history", "--all"]);
        let applied: Vec<&str> = applied.as_array().expect("it is a list").iter().filter_map(|page| page["id"].as_str()).collect();
        let log = w.json(["audit"]).to_string();
        assert!(applied.iter().all(|id| log.contains(id)), "{applied:?} {log}");
        if outcome.code == 0 {
            break;
        }
    }
}

fn a_changed_audit_log_is_noticed(w: &World) {
    needs!(w, "sqlite3");
    assert_eq!(w.json(["audit", "--verify"]), json!({ "entries": 0, "hash": null }));
    for name in ["a", "b", "c"] {
        w.new_sandbox(name);
        w.whatif(["rm", name, "--yes"]).go().ok();
    }
    let before = w.json(["audit", "--verify"]);
    assert_eq!(before["entries"], 3, "{before}");
    let text = w.whatif(["audit", "--verify"]).go().ok().stdout;
    assert!(text.contains("3 entries are as written") && text.contains(before["hash"].as_str().expect("it has one")), "{text}");
    let sql =
        |statement: &str| w.program("/usr/bin/sqlite3").args([w.state.join("state.db").as_os_str(), statement.as_ref()]).go().ok();
    sql("UPDATE audit SET subject = 'x' WHERE number = 2");
    let refused = w.whatif(["audit", "--verify"]).go();
    assert!(refused.code == 125 && refused.stderr.contains("entry 2 of the audit log is not as it was written"), "{refused:?}");
    sql("UPDATE audit SET subject = 'b' WHERE number = 2");
    assert_eq!(w.json(["audit", "--verify"]), before);
    sql("DELETE FROM audit WHERE number = 3");
    assert_eq!(w.whatif(["audit", "--verify"]).go().code, 125);
}

/// The events of a stream, each with its id.
fn events_in(text: &str) -> Vec<(String, Value)> {
    let blocks = text.split("\n\n").filter(|block| block.starts_with("id: "));
    let field = |block: &str, name: &str| {
        block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned).unwrap_or_else(|| panic!("{name} in {block}"))
    };
    blocks.map(|block| (field(block, "id: "), serde_json::from_str(&field(block, "data: ")).expect("it is JSON"))).collect()
}

fn the_daemon_streams_what_the_command_line_does(w: &World) {
    let daemon = Daemon::start(w);
    w.new_sandbox("early");
    let listed = daemon.call("GET", "/api/v1/events?subject=early", None).expect(200);
    assert_eq!((&listed["events"][0]["kind"], &listed["next"]), (&json!("sandbox.created"), &json!(1)), "{listed}");

    let open = |headers: &str| {
        let mut stream = daemon.connect();
        let request = format!(
            "GET /api/v1/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\n{headers}\r\n",
            daemon.address,
            daemon.token()
        );
        stream.write_all(request.as_bytes()).expect("it is connected");
        stream.set_read_timeout(Some(Duration::from_millis(100))).expect("it is a socket");
        stream
    };
    let until = |stream: &mut std::net::TcpStream, count: usize| -> Vec<(String, Value)> {
        let mut text = String::new();
        let read = || {
            let mut buffer = [0; 65536];
            if let Ok(length) = stream.read(&mut buffer) {
                text.push_str(&String::from_utf8_lossy(&buffer[..length]));
            }
            // Each comes in a chunk of its own.
            let whole: String = text.split("\r\n").filter(|line| u64::from_str_radix(line, 16).is_err()).collect();
            Some(events_in(&whole)).filter(|events| events.len() >= count)
        };
        wait_for(Duration::from_secs(60), read).unwrap_or_else(|| panic!("{count} events have come"))
    };
    let mut stream = open("");
    // The first bytes say that it has begun.
    let mut first = [0; 1];
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it is a socket");
    stream.read_exact(&mut first).expect("it answers");
    stream.set_read_timeout(Some(Duration::from_millis(100))).expect("it is a socket");
    let beginning = wait_for(Duration::from_secs(60), || {
        let mut buffer = [0; 4096];
        stream.read(&mut buffer).ok().filter(|&length| String::from_utf8_lossy(&buffer[..length]).contains(": whatif"))
    });
    assert!(beginning.is_some());
    w.exec("early", "echo hello > f").ok();
    let digest = daemon.call("GET", "/api/v1/sandboxes/early/changes", None).expect(200)["digest"].clone();
    let wish = json!({ "digest": digest, "all": true });
    daemon.call("POST", "/api/v1/sandboxes/early/apply", Some(&wish)).expect(200);
    let events = until(&mut stream, 2);
    let seen: Vec<_> = events.iter().map(|(id, event)| (id.as_str(), event["kind"].clone(), event["via"].clone())).collect();
    assert_eq!(seen, [("2", json!("command.ended"), json!("cli")), ("3", json!("apply.made"), json!("http"))]);
    drop(stream);
    // Whoever comes back misses nothing, and begins with nothing twice.
    w.exec("early", "true").ok();
    let ids: Vec<String> = until(&mut open("Last-Event-ID: 2\r\n"), 2).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["3", "4"]);

    let log = daemon.call("GET", "/api/v1/audit", None).expect(200);
    assert_eq!(
        (&log["entries"][0]["action"], &log["entries"][0]["principal"]),
        (&json!("apply.made"), &json!("token:main")),
        "{log}"
    );
    assert_eq!(daemon.call("GET", "/api/v1/audit/verify", None).expect(200)["entries"], 1);
    for wrong in ["/api/v1/events?limit=0", "/api/v1/events?after=x", "/api/v1/audit?after=-1"] {
        assert_eq!(daemon.call("GET", wrong, None).status, 422, "{wrong}");
    }
    let broken = [("Accept", "text/event-stream"), ("Last-Event-ID", "x")];
    assert_eq!(daemon.call_with("GET", "/api/v1/events", &broken, None).status, 422);
    // A stream does not hold up the end of the daemon.
    let mut stream = open("");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it is a socket");
    stream.read_exact(&mut first).expect("it answers");
    assert_eq!(daemon.stop(), Some(0));
}
