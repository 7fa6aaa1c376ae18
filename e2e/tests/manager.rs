//! The daemon: the same engine over HTTP, for those who have its token.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use whatif_e2e::{Daemon, World, as_root_and_user, eventually, wait_for};

as_root_and_user!(
    a_change_goes_all_the_way_and_back,
    requests_without_the_token_are_refused,
    other_hosts_and_origins_are_refused,
    the_token_is_for_its_owner_alone,
    commands_outlive_the_daemon,
    a_client_that_leaves_ends_no_command,
    streams_input_and_signals,
    files_are_read_and_written,
    a_file_that_breaks_off_is_not_written,
    the_same_key_makes_one_sandbox,
    what_is_done_twice_is_done,
    snapshots_and_forks,
    lists_have_pages_and_filters,
    the_command_line_works_beside_it,
    nothing_inside_reaches_it,
    hostile_requests_get_an_answer_or_nothing,
    nobody_inside_can_keep_others_out,
    names_of_files_are_bytes,
    hints_name_routes,
    commands_do_not_see_what_is_the_daemons,
    it_ends_gracefully_and_starts_again,
);

#[track_caller]
pub fn create(daemon: &Daemon, w: &World, name: &str) -> String {
    let made = daemon.call("POST", "/api/v1/sandboxes", Some(&json!({ "name": name, "project": w.project }))).expect(201);
    assert_eq!(made["name"], name);
    made["id"].as_str().expect("it has an id").to_owned()
}

/// A shell script that is waited for.
#[track_caller]
pub fn run(daemon: &Daemon, sandbox: &str, script: &str) -> Value {
    let path = format!("/api/v1/sandboxes/{sandbox}/commands?wait=true");
    daemon.call("POST", &path, Some(&json!({ "argv": ["/bin/sh", "-c", script] }))).expect(200)
}

/// One that is not.
#[track_caller]
pub fn begin(daemon: &Daemon, sandbox: &str, request: &Value) -> String {
    let started = daemon.call("POST", &format!("/api/v1/sandboxes/{sandbox}/commands"), Some(request)).expect(201);
    started["id"].as_str().expect("it has an id").to_owned()
}

#[track_caller]
fn ended(daemon: &Daemon, sandbox: &str, command: &str) -> Value {
    let path = format!("/api/v1/sandboxes/{sandbox}/commands/{command}");
    let told = || Some(daemon.call("GET", &path, None).expect(200)).filter(|told| told["state"] == "ended");
    wait_for(Duration::from_secs(60), told).expect("the command ends")
}

fn a_change_goes_all_the_way_and_back(w: &World) {
    w.write("f", "one\n");
    let daemon = Daemon::start(w);
    let id = create(&daemon, w, "s");
    let done = run(&daemon, &id, "echo two >> f; echo out; echo err >&2; exit 3");
    assert_eq!((&done["exit_code"], &done["stdout"], &done["stderr"]), (&json!(3), &json!("out\n"), &json!("err\n")), "{done}");
    assert_eq!(w.read("f"), "one\n");

    let changes = daemon.call("GET", "/api/v1/sandboxes/s/changes?hunks=true", None).expect(200);
    assert_eq!(changes["changes"].as_array().map(Vec::len), Some(1), "{changes}");
    let patch = daemon.call("GET", "/api/v1/sandboxes/s/changes/patch", None);
    assert!(patch.status == 200 && patch.text().contains("+two"), "{patch:?}");

    let apply = |wish: &Value| daemon.call("POST", &format!("/api/v1/sandboxes/{id}/apply"), Some(wish));
    let digest = changes["digest"].clone();
    assert_eq!(apply(&json!({ "digest": "0000", "all": true })).status, 409);
    assert_eq!(apply(&json!({ "all": true })).refused(422), "invalid_field");
    assert_eq!(apply(&json!({ "digest": digest })).refused(422), "invalid_field");
    let planned = apply(&json!({ "digest": digest, "all": true, "dry_run": true })).expect(200);
    assert!(planned["apply"].is_null() && planned["report"]["steps"][0]["path"] == "f", "{planned}");
    assert_eq!(w.read("f"), "one\n");

    let applied = apply(&json!({ "digest": digest, "all": true })).expect(200);
    assert_eq!(w.read("f"), "one\ntwo\n");
    let apply_id = applied["apply"].as_str().expect("it was written").to_owned();
    let history = daemon.call("GET", "/api/v1/applies?sandbox=s", None).expect(200);
    assert_eq!((&history["applies"][0]["id"], &history["applies"][0]["who"]), (&json!(apply_id), &json!("main")), "{history}");
    let undo = || daemon.call("POST", &format!("/api/v1/applies/{apply_id}/undo"), None);
    assert_eq!(undo().expect(200)["apply"], apply_id);
    assert_eq!(w.read("f"), "one\n");
    assert_eq!(undo().status, 409);
    assert_eq!(daemon.call("POST", "/api/v1/applies/nope/undo", None).status, 404);
}

fn requests_without_the_token_are_refused(w: &World) {
    let daemon = Daemon::start(w);
    let host = daemon.address.to_string();
    let token = daemon.token().to_owned();
    let description = daemon.call("GET", "/api/v1/openapi.json", None).expect(200);
    let mut seen = 0;
    for (path, operations) in description["paths"].as_object().expect("there are routes") {
        let path = path.replace("{sandbox}", "s").replace("{command}", "c1").replace("{label}", "l").replace("{apply}", "a");
        let path = path.replace("{template}", "t").replace("{race}", "r");
        assert!(!path.contains('{'), "{path}");
        for method in operations.as_object().expect("there are methods").keys() {
            let method = method.to_uppercase();
            seen += 1;
            let is_open = ["/health", "/ready"].contains(&path.as_str());
            let said = |authorization: &[(&str, &str)]| {
                let mut headers = vec![("Host", host.as_str())];
                headers.extend(authorization);
                daemon.send(&method, &path, &headers, b"")
            };
            if is_open {
                assert_eq!(said(&[]).status, 200, "{method} {path}");
                continue;
            }
            let wrong = format!("Bearer {}x", token);
            let (basic, shorter, twice) = (format!("Basic {token}"), format!("Bearer {}", &token[1..]), format!("Bearer {token}"));
            let tried: [&[(&str, &str)]; 7] = [
                &[],
                &[("Authorization", "")],
                &[("Authorization", &token)],
                &[("Authorization", &wrong)],
                &[("Authorization", &basic)],
                &[("Authorization", &shorter)],
                &[("Authorization", &twice), ("Authorization", &twice)],
            ];
            for headers in tried {
                assert_eq!(said(headers).refused(401), "unauthorized", "{method} {path} {headers:?}");
            }
        }
    }
    assert!(seen > 45, "{seen}");
    assert_eq!(daemon.call("GET", "/api/v1/nowhere", None).refused(404), "no_such_route");
    assert_eq!(daemon.call("PATCH", "/api/v1/sandboxes", None).refused(405), "method_not_allowed");
}

fn other_hosts_and_origins_are_refused(w: &World) {
    let daemon = Daemon::start(w);
    let port = daemon.address.port();
    let bearer = format!("Bearer {}", daemon.token());
    let get = |path: &str, headers: &[(&str, &str)]| {
        let mut all = vec![("Authorization", bearer.as_str())];
        all.extend(headers);
        daemon.send("GET", path, &all, b"").status
    };
    let (own, localhost) = (daemon.address.to_string(), format!("localhost:{port}"));
    let other_port = format!("127.0.0.1:{}", port.wrapping_add(1));
    for path in ["/api/v1/sandboxes", "/health", "/metrics", "/api/v1/openapi.json"] {
        assert_eq!((get(path, &[("Host", &own)]), get(path, &[("Host", &localhost)])), (200, 200), "{path}");
        for foreign in ["evil.example", "127.0.0.1", "localhost", &other_port, "127.0.0.1.evil.example", ""] {
            assert_eq!(get(path, &[("Host", foreign)]), 421, "{path} {foreign}");
        }
        assert_eq!(get(path, &[("Host", &own), ("Host", "evil.example")]), 421, "{path}");
        let origin = format!("http://{own}");
        assert_eq!(get(path, &[("Host", &own), ("Origin", &origin)]), 200, "{path}");
        for foreign in ["http://evil.example", "null", "https://evil.example:7717", "file://", ""] {
            assert_eq!(get(path, &[("Host", &own), ("Origin", foreign)]), 403, "{path} {foreign}");
        }
    }
    // The name in the request line counts as well.
    assert_eq!(get("http://evil.example/health", &[("Host", &own)]), 421);
}

fn the_token_is_for_its_owner_alone(w: &World) {
    let daemon = Daemon::start(w);
    let file = daemon.token_file.clone();
    assert!(file.starts_with(&w.state), "{}", file.display());
    assert_eq!(fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
    let token = daemon.token().to_owned();
    drop(daemon);
    assert_eq!(Daemon::start(w).token(), token);
    // One that others could have read is not used.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let refused = w.whatif(["serve", "--listen", "127.0.0.1:0"]).go();
    assert!(refused.code == 125 && refused.stderr.contains("others may read the token file"), "{refused:?}");
    for address in ["0.0.0.0:0", "192.0.2.1:80"] {
        let refused = w.whatif(["serve", "--listen", address]).go();
        assert!(refused.code == 2 && refused.stderr.contains("TLS"), "{refused:?}");
    }
    fs::remove_file(w.dir.join("whatifd")).expect("it is there");
    let missing = w.whatif(["serve"]).go();
    assert!(missing.code == 2 && missing.stderr.contains("cargo build --release -p whatif-daemon"), "{missing:?}");
}

fn commands_outlive_the_daemon(w: &World) {
    let daemon = Daemon::start(w);
    let id = create(&daemon, w, "s");
    let script = "for i in 1 2 3 4 5 6; do echo n$i; sleep 0.2; done; while [ ! -e go ]; do sleep 0.05; done; echo end; exit 7";
    let command = begin(&daemon, &id, &json!({ "argv": ["/bin/sh", "-c", script] }));
    let path = format!("/api/v1/sandboxes/{id}/commands/{command}");
    let written = || daemon.call("GET", &format!("{path}/output"), None).expect(200)["output"].to_string();
    eventually("it writes", || written().contains("n1"));
    daemon.kill();
    let daemon = Daemon::start(w);
    assert_eq!(daemon.call("GET", &path, None).expect(200)["state"], "running");
    run(&daemon, &id, "touch go");
    let told = ended(&daemon, &id, &command);
    assert_eq!((&told["exit_code"], &told["signal"]), (&json!(7), &Value::Null), "{told}");
    let output = daemon.call("GET", &format!("{path}/output"), None).expect(200);
    assert_eq!(output["output"], "n1\nn2\nn3\nn4\nn5\nn6\nend\n", "{output}");
    // From an offset on, and the last of it.
    let part = daemon.call("GET", &format!("{path}/output?offset=3&limit=3"), None).expect(200);
    assert_eq!((&part["output"], &part["next"], &part["end"]), (&json!("n2\n"), &json!(6), &json!(22)), "{part}");
    assert_eq!(daemon.call("GET", &format!("{path}/output?tail=4&raw=true"), None).text(), "end\n");
    assert_eq!(daemon.call("GET", &format!("/api/v1/sandboxes/{id}/commands/c999"), None).status, 404);
}

fn a_client_that_leaves_ends_no_command(w: &World) {
    let daemon = Daemon::start(w);
    let id = create(&daemon, w, "s");
    let body = json!({ "argv": ["/bin/sh", "-c", "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo over; echo err >&2"] })
        .to_string();
    let mut stream = daemon.connect();
    let head = format!(
        "POST /api/v1/sandboxes/{id}/commands?wait=true HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        daemon.address,
        daemon.token(),
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("it is connected");
    let commands = || daemon.call("GET", &format!("/api/v1/sandboxes/{id}/commands"), None).expect(200)["commands"].clone();
    eventually("it runs", || commands().as_array().is_some_and(|all| all.len() == 1));
    drop(stream);
    run(&daemon, &id, "touch go");
    assert_eq!(ended(&daemon, &id, "c1")["exit_code"], 0);
    let output = |query: &str| daemon.call("GET", &format!("/api/v1/sandboxes/{id}/commands/c1/output{query}"), None).expect(200);
    assert_eq!(output("")["output"], "begun\nover\n");
    assert_eq!(output("?stream=stderr")["output"], "err\n");
    // On the command line nothing is missing.
    let logs = w.whatif(["logs", "s", "c1"]).go().ok();
    assert!(["begun", "over", "err"].iter().all(|word| logs.stdout.contains(word)), "{logs:?}");
}

fn streams_input_and_signals(w: &World) {
    let daemon = Daemon::start(w);
    let id = create(&daemon, w, "s");
    let start = |request: &Value| daemon.call("POST", &format!("/api/v1/sandboxes/{id}/commands?wait=true"), Some(request));
    let long = "x".repeat(300_000);
    let echoed = start(&json!({ "argv": ["cat"], "stdin": long })).expect(200);
    assert_eq!(echoed["stdout"].as_str().map(str::len), Some(long.len()));
    // It need not be read.
    assert_eq!(start(&json!({ "argv": ["true"], "stdin": long })).expect(200)["exit_code"], 0);
    let told = start(&json!({ "argv": ["sh", "-c", "echo $A; pwd"], "env": { "A": "b c" }, "cwd": "/usr" })).expect(200);
    assert_eq!(told["stdout"], "b c\n/usr\n");
    let late = start(&json!({ "argv": ["sleep", "100"], "timeout": "200ms" })).expect(200);
    assert_eq!(late["timed_out"], true, "{late}");
    assert_eq!(start(&json!({ "argv": ["no-such-program"] })).refused(422), "command_not_found");
    assert_eq!(start(&json!({ "argv": [] })).refused(422), "invalid_field");
    assert_eq!(start(&json!({ "argv": ["x"], "nonsense": 1 })).refused(422), "invalid_field");
    assert_eq!(start(&json!({ "argv": ["a\0b"] })).refused(422), "invalid_field");

    let reader = begin(&daemon, &id, &json!({ "argv": ["cat"], "keep_stdin": true }));
    let of = |command: &str, verb: &str| format!("/api/v1/sandboxes/{id}/commands/{command}/{verb}");
    daemon.call("POST", &of(&reader, "input"), Some(&json!({ "data": "one " }))).expect(204);
    daemon.call("POST", &of(&reader, "input"), Some(&json!({ "data": "two\n", "close": true }))).expect(204);
    ended(&daemon, &id, &reader);
    assert_eq!(daemon.call("GET", &of(&reader, "output"), None).expect(200)["output"], "one two\n");
    assert_eq!(daemon.call("POST", &of(&reader, "input"), Some(&json!({ "data": "x" }))).refused(409), "takes_no_input");

    let sleeper = begin(&daemon, &id, &json!({ "argv": ["sleep", "1000"] }));
    assert_eq!(daemon.call("POST", &of(&sleeper, "signal"), Some(&json!({ "signal": "NOPE" }))).status, 422);
    daemon.call("POST", &of(&sleeper, "signal"), Some(&json!({ "signal": "TERM" }))).expect(204);
    let told = ended(&daemon, &id, &sleeper);
    assert_eq!((&told["signal"], &told["exit_code"]), (&json!(15), &json!(143)), "{told}");
    assert_eq!(daemon.call("POST", &of(&sleeper, "signal"), Some(&json!({ "signal": "TERM" }))).status, 404);
}

fn files_are_read_and_written(w: &World) {
    w.write("a", "0123456789");
    let daemon = Daemon::start(w);
    let id = create(&daemon, w, "s");
    let at = |rest: &str| format!("/api/v1/sandboxes/{id}/files{rest}");
    let stat = daemon.call("GET", &at("/stat?path=a"), None).expect(200);
    assert_eq!((&stat["kind"], &stat["size"]), (&json!("file"), &json!(10)), "{stat}");
    let whole = daemon.call("GET", &at("/content?path=a"), None);
    assert_eq!((whole.status, whole.text().as_str()), (200, "0123456789"));
    let read = |range: &str| daemon.call_with("GET", &at("/content?path=a"), &[("Range", range)], None);
    let part = read("bytes=2-4");
    assert_eq!((part.status, part.text().as_str(), part.header("content-range")), (206, "234", Some("bytes 2-4/10")));
    assert_eq!((read("bytes=-3").text().as_str(), read("bytes=10-").status), ("789", 416));

    let tag = whole.header("etag").expect("it has a version").to_owned();
    let put = |path: &str, headers: &[(&str, &str)], body: &[u8]| {
        daemon.call_with("PUT", &at(&format!("/content?path={path}")), headers, Some(body))
    };
    let big: Vec<u8> = (0..3_000_000_u32).map(|n| n as u8).collect();
    put("a", &[("If-Match", &tag)], &big).expect(200);
    assert_eq!(daemon.call("GET", &at("/content?path=a"), None).body, big);
    assert_eq!(put("a", &[("If-Match", &tag)], b"x").refused(412), "file_changed");
    assert_eq!(put("a", &[("If-None-Match", "*")], b"x").status, 409);
    put("new%20file&mode=0750", &[("If-None-Match", "*")], b"x").expect(200);
    assert_eq!(daemon.call("GET", &at("/stat?path=new%20file"), None).expect(200)["mode"], "0750");
    assert_eq!(w.read("a"), "0123456789");

    daemon.call("POST", &at("/directories"), Some(&json!({ "path": "d/e" }))).expect(204);
    daemon.call("POST", &at("/move"), Some(&json!({ "from": "new file", "to": "d/e/f" }))).expect(204);
    assert_eq!(daemon.call("POST", &at("/move"), Some(&json!({ "from": "a", "to": "d/e/f" }))).status, 409);
    let listed = daemon.call("GET", &at("?path=.&limit=1"), None).expect(200);
    assert_eq!((&listed["entries"][0]["name"], listed["next"].is_null()), (&json!("a"), false), "{listed}");
    assert_eq!(daemon.call("DELETE", &at("?path=d"), None).status, 409);
    daemon.call("DELETE", &at("?path=d&recursive=true"), None).expect(204);
    assert_eq!(daemon.call("DELETE", &at("?path=d"), None).refused(404), "file_not_found");
    assert_eq!(daemon.call("GET", &at("/content?path=."), None).refused(422), "is_a_directory");
    assert_eq!(daemon.call("GET", &at("/stat"), None).status, 422);
}

fn a_file_that_breaks_off_is_not_written(w: &World) {
    w.write("a", "before");
    let daemon = Daemon::start(w);
    let id = create(&daemon, w, "s");
    for (length, sent) in [("Content-Length: 100", "half"), ("Transfer-Encoding: chunked", "4\r\nhalf\r\n")] {
        let mut stream = daemon.connect();
        let head = format!(
            "PUT /api/v1/sandboxes/{id}/files/content?path=a HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n{length}\r\n\r\n{sent}",
            daemon.address,
            daemon.token()
        );
        stream.write_all(head.as_bytes()).expect("it is connected");
        stream.shutdown(std::net::Shutdown::Write).expect("it is connected");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
        assert_eq!(daemon.call("GET", &format!("/api/v1/sandboxes/{id}/files/content?path=a"), None).text(), "before");
    }
}

fn the_same_key_makes_one_sandbox(w: &World) {
    let daemon = Daemon::start(w);
    let make = |key: &str, name: &str| {
        let body = json!({ "name": name, "project": w.project }).to_string();
        daemon.call_with("POST", "/api/v1/sandboxes", &[("Idempotency-Key", key)], Some(body.as_bytes()))
    };
    let (first, second) = (make("k1", "s"), make("k1", "s"));
    assert_eq!((second.status, second.header("idempotency-replayed")), (201, Some("true")), "{second:?}");
    assert_eq!(first.expect(201)["id"], second.expect(201)["id"]);
    let other = make("k1", "t");
    assert!((400..500).contains(&other.status), "{other:?}");
    assert_eq!(make("k2", "s").status, 409);
    make("k2", "t").expect(201);
    assert_eq!(make("bad key", "u").status, 422);
    // Several at once are one as well.
    let ids: Vec<String> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(|| make("k3", "u").expect(201)["id"].to_string())).collect();
        all.into_iter().map(|one| one.join().expect("it does not panic")).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

fn what_is_done_twice_is_done(w: &World) {
    let daemon = Daemon::start(w);
    let id = create(&daemon, w, "s");
    let of = |verb: &str| format!("/api/v1/sandboxes/{id}{verb}");
    let shown = daemon.call("GET", "/api/v1/sandboxes/s", None);
    let tag = shown.header("etag").expect("it has a version").to_owned();
    assert_eq!(shown.expect(200)["owner"], "token:main");
    assert_eq!(daemon.call_with("GET", &of(""), &[("If-None-Match", &tag)], None).status, 304);
    for _ in 0..2 {
        assert_eq!(daemon.call("POST", &of("/stop"), None).expect(200)["status"], "stopped");
    }
    assert_eq!(daemon.call("POST", &of("/commands?wait=true"), Some(&json!({ "argv": ["true"] }))).status, 409);
    for _ in 0..2 {
        assert_eq!(daemon.call("POST", &of("/start"), Some(&json!({ "ttl": "1h" }))).expect(200)["status"], "active");
    }
    for _ in 0..2 {
        assert_eq!(daemon.call("POST", &of("/reject"), Some(&json!({ "delete": false }))).expect(200)["deleted"], false);
    }
    for word in [id.as_str(), "s", &id] {
        daemon.call("DELETE", &format!("/api/v1/sandboxes/{word}"), None).expect(204);
    }
    assert_eq!(daemon.call("DELETE", "/api/v1/sandboxes/never-was", None).refused(404), "not_found");
    assert_eq!(daemon.call("GET", &of(""), None).status, 404);
    // The beginning of an id is not enough.
    let other = create(&daemon, w, "t");
    assert_eq!(daemon.call("DELETE", &format!("/api/v1/sandboxes/{}", &other[..6]), None).status, 404);
}

fn snapshots_and_forks(w: &World) {
    let daemon = Daemon::start(w);
    let id = create(&daemon, w, "s");
    let of = |verb: &str| format!("/api/v1/sandboxes/{id}{verb}");
    run(&daemon, &id, "echo one > f");
    let taken = daemon.call("POST", &of("/snapshots"), Some(&json!({ "label": "green", "message": "it works" }))).expect(201);
    assert_eq!(taken["snapshot"]["label"], "green", "{taken}");
    run(&daemon, &id, "echo two > f");
    let forked = daemon.call("POST", &of("/fork"), Some(&json!({ "name": "t", "snapshot": "green" }))).expect(201);
    assert_eq!(forked["made_from"], "s@green", "{forked}");
    assert_eq!(run(&daemon, "t", "cat f")["stdout"], "one\n");
    let back = daemon.call("POST", &of("/rollback"), Some(&json!({ "to": "green" }))).expect(200);
    assert_eq!((&back["to"]["label"], back["before"].is_null()), (&json!("green"), false), "{back}");
    assert_eq!(run(&daemon, &id, "cat f")["stdout"], "one\n");
    let listed = daemon.call("GET", &of("/snapshots"), None).expect(200);
    assert_eq!(listed["snapshots"].as_array().map(Vec::len), Some(2), "{listed}");
    assert_eq!(daemon.call("POST", &of("/rollback"), Some(&json!({ "to": "never" }))).status, 404);
    daemon.call("DELETE", &of("/snapshots/green"), None).expect(204);
    assert_eq!(daemon.call("DELETE", &of("/snapshots/green"), None).status, 404);
}

fn lists_have_pages_and_filters(w: &World) {
    let daemon = Daemon::start(w);
    for (name, team) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let wish = json!({ "name": name, "project": w.project, "labels": { "team": team }, "limits": { "pids": 100 }, "network": ["none"] });
        let made = daemon.call("POST", "/api/v1/sandboxes", Some(&wish)).expect(201);
        assert_eq!((&made["limits"]["pids"], &made["network"]), (&json!(100), &json!("none")), "{made}");
    }
    let names = |query: &str| -> (Vec<String>, Value) {
        let page = daemon.call("GET", &format!("/api/v1/sandboxes{query}"), None).expect(200);
        let all = page["sandboxes"].as_array().expect("it is a list").iter();
        (all.map(|one| one["name"].as_str().expect("it is a name").to_owned()).collect(), page["next"].clone())
    };
    assert_eq!(names("?label=team%3Dx").0, ["c", "a"]);
    assert_eq!(names("?status=stopped").0.len(), 0);
    assert_eq!(names("?status=active,stopped&owner=token:main").0.len(), 3);
    let (first, next) = names("?limit=2");
    let (rest, end) = names(&format!("?limit=2&cursor={}", next.as_str().expect("there is more")));
    assert_eq!((first, rest, end), (vec!["c".to_owned(), "b".to_owned()], vec!["a".to_owned()], Value::Null));
    for wrong in ["?limit=0", "?limit=x", "?cursor=x", "?status=x", "?label=x", "?nonsense=1"] {
        assert_eq!(daemon.call("GET", &format!("/api/v1/sandboxes{wrong}"), None).status, 422, "{wrong}");
    }
    let wish = |wish: Value| daemon.call("POST", "/api/v1/sandboxes", Some(&wish)).status;
    assert_eq!(wish(json!({ "project": "relative" })), 422);
    assert_eq!(wish(json!({ "project": w.project, "labels": { "whatif.race": "x" } })), 422);
    assert_eq!(wish(json!({ "project": w.project, "network": ["nonsense"] })), 422);
    assert_eq!(wish(json!({ "project": w.project, "name": "no such name!" })), 422);
    assert_eq!(wish(json!({ "project": w.project.join("missing") })), 422);
    assert_eq!(wish(json!({})), 422);
}

fn the_command_line_works_beside_it(w: &World) {
    let daemon = Daemon::start(w);
    w.new_sandbox("mine");
    w.exec("mine", "echo hello > f").ok();
    let changes = daemon.call("GET", "/api/v1/sandboxes/mine/changes", None).expect(200);
    assert_eq!(changes["changes"][0]["path"], "f");
    assert_eq!(run(&daemon, "mine", "cat f")["stdout"], "hello\n");
    create(&daemon, w, "theirs");
    w.exec("theirs", "echo more > g").ok();
    w.whatif(["apply", "theirs", "--yes"]).go().ok();
    assert_eq!(w.read("g"), "more\n");
    let page = daemon.call("GET", "/api/v1/applies", None).expect(200);
    assert_eq!(page["applies"][0]["sandbox"], "theirs", "{page}");
    w.whatif(["rm", "--yes", "theirs"]).go().ok();
    assert_eq!(daemon.call("GET", "/api/v1/sandboxes/theirs", None).status, 404);
    daemon.call("DELETE", "/api/v1/sandboxes/theirs", None).expect(204);
    let metrics = daemon.call("GET", "/metrics", None).text();
    assert!(metrics.contains("whatif_sandboxes{status=\"active\"} 1"), "{metrics}");
}

/// With the token in its hands, which it does not get.
fn nothing_inside_reaches_it(w: &World) {
    let file = w.dir.join("home/token");
    let socket = w.dir.join("home/daemon.sock");
    let options = ["--token-file", file.to_str().expect("it is text"), "--socket", socket.to_str().expect("it is text")];
    let daemon = Daemon::start_with(w, &options);
    let port = daemon.address.port();
    // Outside, both ways work.
    let mut stream = UnixStream::connect(&socket).expect("it listens");
    let same_user = w.uid() == rustix::process::geteuid().as_raw();
    let _ = stream.write_all(b"GET /api/v1/sandboxes HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert_eq!(answer.starts_with("HTTP/1.1 200"), same_user, "{answer}");
    let client = format!(
        r#"
import json, socket, sys
def ask(connected):
    try:
        s = connected()
        s.sendall(b"GET /api/v1/sandboxes HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n")
        answer = b""
        while True:
            more = s.recv(65536)
            if not more: break
            answer += more
        return answer.split(b"\r\n")[0].decode()
    except OSError as error:
        return "error " + str(error.errno)
def tcp(): return socket.create_connection(("127.0.0.1", {port}), 10)
def unix():
    s = socket.socket(socket.AF_UNIX); s.settimeout(10); s.connect("{socket}"); return s
try: token = open("{file}").read()
except OSError as error: token = ""
print(json.dumps([ask(tcp), ask(unix), token]))
"#,
        token = daemon.token(),
        socket = socket.display(),
        file = file.display(),
    );
    let outside = w.program("/usr/bin/python3").args(["-c", &client]).go().ok().json();
    assert_eq!((&outside[0], &outside[1]), (&json!("HTTP/1.1 200 OK"), &json!("HTTP/1.1 200 OK")), "{outside}");
    assert_eq!(outside[2].as_str().map(str::trim), Some(daemon.token()));

    let reach = format!("localhost:{port}");
    let ways: [&[&str]; 5] = [&["--net", "none"], &["--net", "host"], &["--net", "local"], &["--reach", &reach], &[]];
    for way in ways {
        let told = w.whatif(["run", "--rm", "--quiet"]).args(way).args(["--", "/usr/bin/python3", "-c", &client]).go();
        if told.code != 0 && told.stderr.contains("nf_tables") {
            continue;
        }
        let told = told.ok().json();
        for answer in [&told[0], &told[1]] {
            let answer = answer.as_str().expect("it is text");
            assert!(answer.is_empty() || answer.starts_with("error ") || answer.starts_with("HTTP/1.1 403"), "{way:?}: {told}");
        }
        // There the port is reached, and the daemon itself says no.
        if way.contains(&"host") {
            assert_eq!(told[0], "HTTP/1.1 403 Forbidden", "{told}");
        }
        assert!(told[2] == "", "{way:?}: {told}");
    }
    // Nor does exposing it help.
    let shown =
        w.whatif(["run", "--rm", "--quiet", "--expose", file.to_str().expect("it is text"), "--", "cat"]).args([&file]).go();
    assert!(!shown.stdout.contains(daemon.token()), "{shown:?}");
}

fn hostile_requests_get_an_answer_or_nothing(w: &World) {
    let daemon = Daemon::start(w);
    let (host, bearer) = (daemon.address.to_string(), format!("Bearer {}", daemon.token()));
    let deep = "[".repeat(100_000);
    let long = format!("{{\"project\":\"{}\"}}", "x".repeat(2 << 20));
    for (body, status) in [
        ("{", 400),
        ("[]", 422),
        ("7", 422),
        ("\"\\u0000\"", 422),
        ("{\"project\":\"/\\u0000\"}", 422),
        ("{\"project\":7}", 422),
        (deep.as_str(), 400),
        (long.as_str(), 413),
    ] {
        let reply = daemon.call_with("POST", "/api/v1/sandboxes", &[], Some(body.as_bytes()));
        assert_eq!(reply.status, status, "{:.40} {}", body, reply.text());
    }
    let form = [("Content-Type", "text/plain")];
    assert_eq!(daemon.call_with("POST", "/api/v1/sandboxes", &form, Some(b"{}")).refused(415), "not_json");
    for path in [
        "/api/v1/sandboxes/%00",
        "/api/v1/sandboxes/%ff",
        "/api/v1/sandboxes?status=%00",
        "/api/v1/sandboxes/..%2f..",
        "/../etc/passwd",
    ] {
        let reply = daemon.call("GET", path, None);
        assert!((400..500).contains(&reply.status), "{path} {reply:?}");
    }
    // Headers without end.
    let lines = (0..1000).map(|n| format!("X-{n}: y\r\n")).collect::<String>();
    let head = format!("GET /health HTTP/1.1\r\nHost: {host}\r\n");
    for bytes in [format!("{head}{lines}\r\n"), format!("{head}X: {}\r\n\r\n", "y".repeat(10 << 20)), "\0\0\0\0\r\n\r\n".to_owned()]
    {
        let reply = daemon.raw(bytes.as_bytes());
        assert!(reply.status == 0 || (400..500).contains(&reply.status), "{}", reply.status);
    }
    // Two lengths.
    let two = format!(
        "POST /api/v1/sandboxes HTTP/1.1\r\nHost: {host}\r\nAuthorization: {bearer}\r\nContent-Length: 2\r\nContent-Length: 40\r\n\r\n{{}}"
    );
    assert!((400..500).contains(&daemon.raw(two.as_bytes()).status));
    // Clients that say nothing, or next to nothing, are sent away, and keep nobody else from being served.
    let slow: Vec<_> = (0..50).map(|_| daemon.connect()).collect();
    for mut stream in &slow {
        stream.write_all(head.as_bytes()).expect("it is connected");
    }
    let asked = Instant::now();
    assert_eq!(daemon.call("GET", "/health", None).status, 200);
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    for mut stream in slow {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(!rest.starts_with(b"HTTP/1.1 2"));
    }
    assert!(asked.elapsed() < Duration::from_secs(60), "{:?}", asked.elapsed());
    assert_eq!(daemon.call("GET", "/api/v1/sandboxes", None).status, 200);
}

/// Connections without end, each kept alive as long as it is allowed to be.
const FLOOD: &str = r#"
import select, socket, sys, time
port, until = int(sys.argv[1]), time.monotonic() + 40
request = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port
alive = []
print("begun", flush=True)
while time.monotonic() < until:
    while len(alive) < 700:
        s = socket.socket(); s.setblocking(False)
        try: s.connect(("127.0.0.1", port))
        except BlockingIOError: pass
        except OSError: break
        alive.append(s)
    for s in list(alive):
        try:
            s.send(request)
            if s.recv(65536) == b"": raise ConnectionError
        except BlockingIOError: pass
        except OSError: alive.remove(s); s.close()
    time.sleep(0.05)
"#;

fn nobody_inside_can_keep_others_out(w: &World) {
    let daemon = Daemon::start(w);
    let port = daemon.address.port().to_string();
    let flood = w.whatif(["run", "--rm", "--quiet", "--net", "host", "--", "/usr/bin/python3", "-c", FLOOD, &port]);
    let mut flood = flood.streams(Stdio::null(), Stdio::piped(), Stdio::null()).spawn();
    let mut begun = [0; 6];
    flood.stdout.as_mut().expect("it is piped").read_exact(&mut begun).expect("it begins");
    for _ in 0..5 {
        let asked = Instant::now();
        assert_eq!(daemon.call("GET", "/api/v1/sandboxes", None).status, 200);
        assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    }
    let asked = Instant::now();
    assert_eq!(daemon.stop(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    let _ = flood.kill();
    let _ = flood.wait();
}

fn names_of_files_are_bytes(w: &World) {
    let daemon = Daemon::start(w);
    let id = create(&daemon, w, "s");
    let script = r"mkdir q; cd q; printf precious > $(printf '\357\277\275'); printf other > $(printf '\377'); printf a > $(printf '\376a')
touch a zz $(printf '\303\2511') $(printf '\303\2512')";
    run(&daemon, &id, script);
    let at = |path: &str| format!("/api/v1/sandboxes/{id}/files/content?path={path}");
    assert_eq!(daemon.call("GET", &at("q/%ff"), None).text(), "other");
    assert_eq!(daemon.call("GET", &at("q/%ef%bf%bd"), None).text(), "precious");
    // Each name is in the list once, however short its pages are.
    let list = |query: &str| daemon.call("GET", &format!("/api/v1/sandboxes/{id}/files?path=q{query}"), None).expect(200);
    let names = |page: &Value| -> Vec<Value> {
        page["entries"].as_array().expect("it is a list").iter().map(|entry| entry["name"].clone()).collect()
    };
    let whole = names(&list(""));
    assert_eq!(whole, [json!("a"), json!("zz"), json!("é1"), json!("é2"), json!("\u{fffd}"), json!([254, 97]), json!([255])]);
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    while paged.len() <= whole.len() {
        let page = list(&format!("&limit=1{cursor}"));
        paged.extend(names(&page));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(paged, whole);
    daemon.call("DELETE", &format!("/api/v1/sandboxes/{id}/files?path=q/%ff"), None).expect(204);
    let left = run(&daemon, &id, "cat q/*")["stdout"].as_str().expect("it is text").to_owned();
    assert!(left.contains("precious") && !left.contains("other"), "{left}");
    daemon
        .call("POST", &format!("/api/v1/sandboxes/{id}/files/move"), Some(&json!({ "from": [113, 47, 254, 97], "to": "q/moved" })))
        .expect(204);
    assert_eq!(daemon.call("GET", &at("q/moved"), None).text(), "a");
    for wrong in ["q/a/", "q/a/.", "q/"] {
        let path = format!("/api/v1/sandboxes/{id}/files?path={wrong}");
        assert_eq!(daemon.call("DELETE", &path, None).refused(422), "invalid_field", "{wrong}");
        assert_eq!(daemon.call_with("PUT", &at(wrong), &[], Some(b"x")).refused(422), "invalid_field", "{wrong}");
    }
    assert_eq!(daemon.call("GET", "/api/v1/sandboxes?status=%ff", None).status, 422);
    assert_eq!(daemon.call_with("PUT", &(at("q/a") + "&mode=4755"), &[], Some(b"x")).refused(422), "invalid_field");
    // A part of another version than the client has is none of the same file.
    let version = daemon.call("GET", &at("q/moved"), None).header("etag").expect("it has one").to_owned();
    daemon.call_with("PUT", &at("q/moved"), &[], Some(b"replaced")).expect(200);
    let since = |version: &str| daemon.call_with("GET", &at("q/moved"), &[("Range", "bytes=2-"), ("If-Range", version)], None);
    assert_eq!((since(&version).status, since(&version).text()), (200, "replaced".to_owned()));
    let version = daemon.call("GET", &at("q/moved"), None).header("etag").expect("it has one").to_owned();
    assert_eq!((since(&version).status, since(&version).text()), (206, "placed".to_owned()));
}

fn hints_name_routes(w: &World) {
    let daemon = Daemon::start(w);
    let missing: Value = daemon.call("GET", "/api/v1/sandboxes/nosuch", None).expect(404);
    assert!(missing["hints"].to_string().contains("GET /api/v1/sandboxes"), "{missing}");
    let twice = br#"{"project": "/", "name": "a", "name": "b"}"#;
    assert_eq!(daemon.call_with("POST", "/api/v1/sandboxes", &[], Some(twice)).refused(400), "invalid_json");
    let long = json!({ "project": format!("/{}", "a".repeat(300)) });
    assert_eq!(daemon.call("POST", "/api/v1/sandboxes", Some(&long)).status, 422);
    let keys = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")];
    let body = json!({ "project": w.project }).to_string();
    assert_eq!(daemon.call_with("POST", "/api/v1/sandboxes", &keys, Some(body.as_bytes())).refused(422), "invalid_field");
}

fn commands_do_not_see_what_is_the_daemons(w: &World) {
    let daemon = Daemon::start(w);
    let id = create(&daemon, w, "s");
    let told = run(&daemon, &id, "env; ls -l /proc/self/fd; cat /proc/self/fd/3");
    let seen = told["stdout"].as_str().expect("it is text");
    assert!(!seen.contains("WHATIF_HOME") && !seen.contains("socket:") && !seen.contains(daemon.token()), "{seen}");
    assert!(seen.contains("HOME=") && seen.contains("WHATIF_SANDBOX=s"), "{seen}");
    // A variable has a value, or it would be one of the daemon's.
    let wish = json!({ "argv": ["env"], "env": { "USER=x": "" } });
    assert_eq!(daemon.call("POST", &format!("/api/v1/sandboxes/{id}/commands"), Some(&wish)).status, 422);
}

fn it_ends_gracefully_and_starts_again(w: &World) {
    let daemon = Daemon::start(w);
    let id = create(&daemon, w, "s");
    let command = begin(&daemon, &id, &json!({ "argv": ["sleep", "1000"] }));
    // Somebody waits for another one meanwhile.
    let body = json!({ "argv": ["sleep", "1000"] }).to_string();
    let mut stream = daemon.connect();
    let head = format!(
        "POST /api/v1/sandboxes/{id}/commands?wait=true HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        daemon.address,
        daemon.token(),
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("it is connected");
    let count =
        || daemon.call("GET", &format!("/api/v1/sandboxes/{id}/commands"), None).expect(200)["commands"].as_array().map(Vec::len);
    eventually("it runs", || count() == Some(2));
    let asked = Instant::now();
    assert_eq!(daemon.stop(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    assert_eq!(w.json(["ps", "s"])["processes"].as_array().map(Vec::len), Some(2));
    let daemon = Daemon::start(w);
    assert_eq!(daemon.call("GET", &format!("/api/v1/sandboxes/{id}/commands/{command}"), None).expect(200)["state"], "running");
    assert_eq!(daemon.call("GET", "/ready", None).expect(200)["ready"], true);
}
