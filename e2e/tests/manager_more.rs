//! The daemon beside sandboxes themselves: labels and lifetimes, drift, usage, networks, templates, races, upkeep.

use std::thread;

use serde_json::{Value, json};
use whatif_e2e::outside::{Outside, PUBLIC, PUBLIC_2};
use whatif_e2e::{Daemon, Reply, World, as_root_and_user, eventually, outside_as_root_and_user, schema};

use crate::manager::{begin, create, run};

as_root_and_user!(
    labels_are_merged_and_removed,
    of_several_changes_of_one_version_one_is_made,
    a_lifetime_is_set_while_it_runs_and_when_it_is_over,
    drift_is_told_and_rebased,
    usage_and_processes_are_those_of_the_sandbox,
    snapshots_are_compared,
    templates_are_saved_used_and_removed,
    what_gc_announces_it_removes,
    the_configuration_and_the_providers_are_shown,
    races_are_listed_and_compared,
    hostile_requests_are_refused,
);

outside_as_root_and_user!(hosts_are_allowed_and_denied_while_it_runs,);

fn alter(daemon: &Daemon, sandbox: &str, wish: &Value, version: Option<&str>) -> Reply {
    let headers: Vec<(&str, &str)> = version.map(|version| ("If-Match", version)).into_iter().collect();
    daemon.call_with("PATCH", &format!("/api/v1/sandboxes/{sandbox}"), &headers, Some(wish.to_string().as_bytes()))
}

fn show(daemon: &Daemon, sandbox: &str) -> Value {
    daemon.call("GET", &format!("/api/v1/sandboxes/{sandbox}"), None).expect(200)
}

fn labels_are_merged_and_removed(w: &World) {
    let daemon = Daemon::start(w);
    let id = create(&daemon, w, "s");
    let command = begin(&daemon, &id, &json!({ "argv": ["sleep", "1000"] }));
    let first = alter(&daemon, "s", &json!({ "labels": { "team": "x", "to": "go" } }), None);
    assert_eq!(first.expect(200)["labels"], json!({ "team": "x", "to": "go" }));
    let etag = first.header("etag").expect("it has a version").to_owned();
    assert_eq!(etag, format!("\"{}\"", show(&daemon, "s")["version"]));

    let second = alter(&daemon, &id, &json!({ "labels": { "team": "y", "to": null, "never": null } }), Some(&etag)).expect(200);
    assert_eq!(second["labels"], json!({ "team": "y" }));
    let page = daemon.call("GET", "/api/v1/sandboxes?label=team%3Dy", None).expect(200);
    assert_eq!(page["sandboxes"][0]["id"], json!(id), "{page}");
    assert_eq!(w.json(["show", "s"])["details"]["labels"], json!({ "team": "y" }));

    // The version that was seen first is not the one that is there now.
    let stale = alter(&daemon, "s", &json!({ "labels": { "team": "z" }, "ttl": "1h" }), Some(&etag));
    assert_eq!(stale.refused(412), "version_changed");
    assert_eq!(stale.expect(412)["details"]["version"], second["version"]);
    let now = show(&daemon, "s");
    assert_eq!((&now["labels"], &now["limits"]["ttl"]), (&json!({ "team": "y" }), &Value::Null));
    alter(&daemon, "s", &json!({ "labels": { "team": "z" } }), Some("*")).expect(200);
    // What is so already makes no other version.
    let version = show(&daemon, "s")["version"].clone();
    assert_eq!(alter(&daemon, "s", &json!({ "labels": { "team": "z" } }), None).expect(200)["version"], version);
    assert_eq!(alter(&daemon, "s", &json!({}), None).expect(200)["version"], version);

    for wrong in [
        json!({ "labels": { "whatif.race": "x" } }),
        json!({ "labels": { "whatif.race": null } }),
        json!({ "labels": { "": "x" } }),
        json!({ "labels": { "a\0": "x" } }),
        json!({ "labels": { "a": 7 } }),
        json!({ "labels": null }),
        json!({ "labels": ["a"] }),
        json!({ "name": "t" }),
        json!({ "ttl": null }),
        json!({ "ttl": "soon" }),
        json!({ "ttl": "0s" }),
        json!({ "ttl": -1 }),
        json!({ "ttl": "99999999999999999999d" }),
    ] {
        assert_eq!(alter(&daemon, "s", &wrong, None).status, 422, "{wrong}");
    }
    for wrong in ["7", "W/\"7\"", "\"x\"", "\"1\", \"2\"", ""] {
        assert_eq!(alter(&daemon, "s", &json!({ "labels": { "a": "b" } }), Some(wrong)).refused(422), "invalid_field", "{wrong}");
    }
    assert_eq!(show(&daemon, "s")["labels"], json!({ "team": "z" }));
    let command = daemon.call("GET", &format!("/api/v1/sandboxes/{id}/commands/{command}"), None).expect(200);
    assert_eq!(command["state"], "running");
}

fn of_several_changes_of_one_version_one_is_made(w: &World) {
    let daemon = Daemon::start(w);
    create(&daemon, w, "s");
    let version = format!("\"{}\"", show(&daemon, "s")["version"]);
    let change = |n: usize| alter(&daemon, "s", &json!({ "labels": { "by": n.to_string() } }), Some(&version));
    let replies: Vec<Reply> = thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|n| scope.spawn(move || change(n))).collect();
        all.into_iter().map(|one| one.join().expect("it does not panic")).collect()
    });
    let made: Vec<&Reply> = replies.iter().filter(|reply| reply.status == 200).collect();
    assert!(made.len() == 1 && replies.iter().all(|reply| [200, 412].contains(&reply.status)), "{replies:?}");
    assert_eq!(show(&daemon, "s")["labels"], made[0].expect(200)["labels"]);
}

fn a_lifetime_is_set_while_it_runs_and_when_it_is_over(w: &World) {
    let daemon = Daemon::start(w);
    let id = create(&daemon, w, "s");
    run(&daemon, &id, "echo kept > f");
    // More time than there is does not overflow anything.
    let longest = alter(&daemon, "s", &json!({ "ttl": "18446744073709551615ms" }), None).expect(200);
    assert_eq!(longest["status"], "active", "{longest}");
    daemon.call("GET", "/api/v1/sandboxes", None).expect(200);
    assert_eq!(run(&daemon, &id, "cat f")["stdout"], "kept\n");

    assert_eq!(alter(&daemon, "s", &json!({ "ttl": "1h" }), None).expect(200)["limits"]["ttl"], "1h");
    let left = w.json(["show", "s"])["remaining_ms"].as_u64().expect("its time is limited");
    assert!((3_000_000..=3_600_000).contains(&left), "{left}");
    alter(&daemon, "s", &json!({ "ttl": "300ms", "labels": { "was": "short" } }), None).expect(200);
    eventually("its time is up", || show(&daemon, "s")["status"] == "stopped");
    assert_eq!(show(&daemon, "s")["stop_reason"], "expired");
    let start = || daemon.call("POST", "/api/v1/sandboxes/s/start", None);
    assert_eq!(start().refused(507), "expired");
    // It may be given more, and holds what it held.
    let given = alter(&daemon, "s", &json!({ "ttl": "1h" }), None).expect(200);
    assert_eq!((&given["status"], &given["labels"]["was"]), (&json!("stopped"), &json!("short")), "{given}");
    start().expect(200);
    assert_eq!(run(&daemon, &id, "cat f")["stdout"], "kept\n");

    // A project may allow less.
    w.write(".whatif.toml", "[limits]\nttl = \"10m\"\n");
    assert_eq!(alter(&daemon, "s", &json!({ "ttl": "2h" }), None).expect(200)["limits"]["ttl"], "10m");
}

fn drift_is_told_and_rebased(w: &World) {
    w.outside("seq 20 > merging; echo c > colliding; echo u > untouched").ok();
    let daemon = Daemon::start(w);
    let id = create(&daemon, w, "s");
    run(&daemon, &id, "sed -i s/^2$/two/ merging; echo C > colliding");
    let drift = || daemon.call("GET", "/api/v1/sandboxes/s/drift", None).expect(200);
    assert_eq!(drift()["drift"], json!([]));
    w.outside("sed -i s/^19$/nineteen/ merging; echo mine > colliding; echo U > untouched").ok();
    let told = drift();
    schema::expect("status", &told);
    assert_eq!((&told["collisions"], &told["conflicts"]), (&json!(2), &json!(1)), "{told}");
    let of_the_command_line = w.json(["status", "s"]);
    assert_eq!((&told["drift"], &told["sandbox"]), (&of_the_command_line["drift"], &of_the_command_line["sandbox"]));

    let rebased = daemon.call("POST", "/api/v1/sandboxes/s/rebase", None).expect(200);
    schema::expect("rebase", &rebased);
    assert_eq!((&rebased["merged"], &rebased["conflicts"]), (&json!(["merging"]), &json!(["colliding"])), "{rebased}");
    let inside = run(&daemon, &id, "sed -n '2p;19p' merging; cat untouched; grep -c '<<<<<<<' colliding");
    assert_eq!(inside["stdout"], "two\nnineteen\nU\n1\n");
    assert_eq!(drift()["unsettled"], json!(["colliding"]));
    assert_eq!(w.read("colliding"), "mine\n", "reality is as it was");
}

fn usage_and_processes_are_those_of_the_sandbox(w: &World) {
    let daemon = Daemon::start(w);
    let id = create(&daemon, w, "s");
    create(&daemon, w, "other");
    let command = begin(&daemon, &id, &json!({ "argv": ["/bin/sh", "-c", "while :; do :; done"] }));
    let stats = || daemon.call("GET", "/api/v1/sandboxes/s/stats", None);
    eventually("it is seen to use a processor", || stats().expect(200)["cpus"].as_f64().is_some_and(|cpus| cpus > 0.05));
    let used = stats().expect(200);
    schema::expect("stats", &json!([used]));
    assert_eq!(used["name"], "s");

    let processes = |name: &str| daemon.call("GET", &format!("/api/v1/sandboxes/{name}/processes"), None).expect(200);
    let told = processes("s");
    schema::expect("ps", &told);
    let pids = |told: &Value| -> Vec<Value> {
        told["processes"].as_array().expect("it is a list").iter().map(|process| process["pid"].clone()).collect()
    };
    assert_eq!((pids(&told), &told["sandbox"]), (pids(&w.json(["ps", "s"])), &json!("s")));
    assert!(told["processes"].as_array().is_some_and(|all| all.iter().any(|one| one["id"] == json!(command))), "{told}");
    assert_eq!(pids(&processes("other")).len(), 0);

    daemon.call("POST", "/api/v1/sandboxes/s/stop", None).expect(200);
    assert_eq!(stats().refused(409), "stopped");
    assert_eq!(processes("s")["processes"], json!([]));
}

fn hosts_are_allowed_and_denied_while_it_runs(w: &World, o: &Outside) {
    for (name, address) in [("shop.test", PUBLIC), ("bank.test", PUBLIC_2)] {
        o.name(name, &[address]);
        o.http(address, 80);
    }
    let daemon = Daemon::start(w);
    let wish = json!({ "name": "s", "project": w.project, "network": ["allow=shop.test"] });
    daemon.call("POST", "/api/v1/sandboxes", Some(&wish)).expect(201);
    let reached = || ["shop.test", "bank.test"].map(|host| o.hello_in(w, "s", host, 80).is_hello());
    let change = |verb: &str, rules: Value| {
        daemon.call("POST", &format!("/api/v1/sandboxes/s/network/{verb}"), Some(&json!({ "rules": rules })))
    };
    assert_eq!(reached(), [true, false]);
    let allowed = change("allow", json!(["bank.test", "*.example.org:443"])).expect(200);
    schema::expect("net-change", &allowed);
    assert_eq!(allowed["allow"], json!(["shop.test", "bank.test", "*.example.org:443"]), "{allowed}");
    assert_eq!(reached(), [true, true]);
    let denied = change("deny", json!(["shop.test"])).expect(200);
    assert_eq!(denied["deny"], json!(["shop.test"]), "{denied}");
    assert_eq!(reached(), [false, true]);

    let network = |query: &str| daemon.call("GET", &format!("/api/v1/sandboxes/s/network{query}"), None);
    let told = network("").expect(200);
    schema::expect("net", &told);
    assert_eq!((&told["network"], &told["rules"]["deny"]), (&json!("filtered"), &json!(["shop.test"])), "{told}");
    // A connection that has just ended is told with what went through it a moment later.
    eventually("both tell the same", || network("").expect(200)["decisions"] == w.json(["net", "s"])["decisions"]);
    let of = |query: &str| network(query).expect(200)["decisions"].as_array().expect("it is a list").clone();
    let refused = of("?denied=true");
    assert!(refused.len() >= 2 && refused.iter().all(|decision| decision["allowed"] == false), "{refused:?}");
    assert_eq!(of("?denied=true&limit=1"), refused[refused.len() - 1..]);

    for wrong in [
        json!([]),
        json!(["no rule!"]),
        json!([""]),
        json!([7]),
        json!(["a\0.test"]),
        json!("bank.test"),
        json!(["localhost"]),
        json!(["127.0.0.1"]),
        json!(vec!["bank.test"; 1001]),
        json!(["ok.test", "x".repeat(300)]),
    ] {
        let status = change("allow", wrong.clone()).status;
        assert_eq!(status, 422, "{wrong}");
    }
    assert_eq!(network("").expect(200)["rules"]["allow"], denied["allow"], "what is refused changes nothing");
    for wrong in ["?limit=0", "?limit=10001", "?limit=99999999999999999999", "?limit=-1", "?denied=maybe", "?nonsense=1"] {
        assert_eq!(network(wrong).status, 422, "{wrong}");
    }
    let wish = json!({ "name": "closed", "project": w.project, "network": ["none"] });
    daemon.call("POST", "/api/v1/sandboxes", Some(&wish)).expect(201);
    let rules = json!({ "rules": ["bank.test"] });
    assert_eq!(daemon.call("POST", "/api/v1/sandboxes/closed/network/allow", Some(&rules)).status, 409);
    assert_eq!(daemon.call("GET", "/api/v1/sandboxes/closed/network", None).expect(200)["network"], "none");
}

fn snapshots_are_compared(w: &World) {
    w.outside("echo 0 > f").ok();
    let daemon = Daemon::start(w);
    let id = create(&daemon, w, "s");
    let snapshot = |label: &str| {
        daemon.call("POST", &format!("/api/v1/sandboxes/{id}/snapshots"), Some(&json!({ "label": label }))).expect(201)
    };
    run(&daemon, &id, "echo 1 > f");
    snapshot("a");
    run(&daemon, &id, "echo 2 > f; echo new > g");
    snapshot("b");
    run(&daemon, &id, "echo now > h");
    let compare = |query: &str| daemon.call("GET", &format!("/api/v1/sandboxes/s/compare{query}"), None);
    let told = |query: &str| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().expect("it is text").to_owned();
        let document = compare(query).expect(200);
        document["changes"].as_array().expect("it is a list").iter().map(|c| (text(&c["path"]), text(&c["kind"]))).collect()
    };
    let of = |all: &[(&str, &str)]| all.iter().map(|(path, kind)| ((*path).to_owned(), (*kind).to_owned())).collect::<Vec<_>>();
    assert_eq!(told("?from=a&to=b"), of(&[("f", "modify"), ("g", "add")]));
    assert_eq!(told("?from=b&to=a"), of(&[("f", "modify"), ("g", "delete")]));
    assert_eq!(told("?from=@-2&to=@-1"), told("?from=a&to=b"));
    assert_eq!(told("?from=b"), of(&[("h", "add")]));
    assert_eq!(told("?to=a"), of(&[("f", "modify")]));
    assert_eq!(told("?from=a&to=a"), of(&[]));
    let document = compare("?from=a&to=b&hunks=true").expect(200);
    let lines = document["changes"][0]["hunks"][0]["lines"].to_string();
    assert!(lines.contains('1') && lines.contains('2') && !lines.contains('0'), "{document}");
    let of_the_command_line = w.json(["diff", "s@a..s@b"]);
    let document = compare("?from=a&to=b").expect(200);
    assert_eq!((&document["changes"], &document["digest"]), (&of_the_command_line["changes"], &of_the_command_line["digest"]));

    for unknown in ["?from=never&to=b", "?from=a&to=never", "?from=&to=b", "?from=@-9&to=b", "?from=@-99999999999999999999&to=b"] {
        assert_eq!(compare(unknown).status, 404, "{unknown}");
    }
    create(&daemon, w, "t");
    run(&daemon, "t", "echo t > t");
    daemon.call("POST", "/api/v1/sandboxes/t/snapshots", Some(&json!({ "label": "foreign" }))).expect(201);
    for foreign in ["?from=foreign&to=b", "?from=t@foreign&to=b", "?from=a&to=t@foreign"] {
        assert!((400..500).contains(&compare(foreign).status), "{foreign}");
    }
    for wrong in ["?from=%00", "?from=a&hunks=maybe", "?nonsense=1"] {
        assert_eq!(compare(wrong).status, 422, "{wrong}");
    }
}

fn templates_are_saved_used_and_removed(w: &World) {
    let daemon = Daemon::start(w);
    let id = create(&daemon, w, "s");
    run(&daemon, &id, "echo one > f");
    daemon.call("POST", &format!("/api/v1/sandboxes/{id}/snapshots"), Some(&json!({ "label": "green" }))).expect(201);
    run(&daemon, &id, "echo two > f");
    let save = |wish: &Value| daemon.call("POST", "/api/v1/templates", Some(wish));
    let saved = save(&json!({ "name": "then", "sandbox": "s", "snapshot": "green", "message": "as it was" })).expect(201);
    schema::expect("template", &saved);
    assert_eq!((&saved["name"], &saved["message"]), (&json!("then"), &json!("as it was")), "{saved}");
    save(&json!({ "name": "now", "sandbox": id })).expect(201);
    let names = || -> Vec<Value> {
        let listed = daemon.call("GET", "/api/v1/templates", None).expect(200);
        schema::expect("template-ls", &listed["templates"]);
        listed["templates"].as_array().expect("it is a list").iter().map(|one| one["name"].clone()).collect()
    };
    assert_eq!(names(), ["now", "then"]);

    // Both hold what they are made of, whatever becomes of the sandbox.
    daemon.call("DELETE", "/api/v1/sandboxes/s", None).expect(204);
    daemon.call("POST", "/api/v1/gc", None).expect(200);
    let made_of = |name: &str, template: &str| {
        let wish = json!({ "name": name, "project": w.project, "template": template });
        daemon.call("POST", "/api/v1/sandboxes", Some(&wish))
    };
    for (name, template, content) in [("a", "then", "one\n"), ("b", "now", "two\n")] {
        assert_eq!(made_of(name, template).expect(201)["made_from"], template);
        assert_eq!(run(&daemon, name, "cat f")["stdout"], content, "{template}");
    }
    assert_eq!(save(&json!({ "name": "then", "sandbox": "b" })).status, 409);
    save(&json!({ "name": "then", "sandbox": "b", "replace": true })).expect(201);
    made_of("c", "then").expect(201);
    assert_eq!(run(&daemon, "c", "cat f")["stdout"], "two\n");

    let remove = |name: &str| daemon.call("DELETE", &format!("/api/v1/templates/{name}"), None);
    remove("then").expect(204);
    remove("then").expect(204);
    assert_eq!(names(), ["now"]);
    assert_eq!(w.json(["template", "ls"]).as_array().map(Vec::len), Some(1));
    assert_eq!(made_of("d", "then").status, 404);
    assert_eq!(run(&daemon, "a", "cat f")["stdout"], "one\n", "sandboxes made from it stay");
    for unnamable in ["..", "no%20name", "%00", "a%2fb", "-"] {
        assert!((400..500).contains(&remove(unnamable).status), "{unnamable}");
    }
    for (wrong, status) in [
        (json!({ "name": "x", "sandbox": "nobody" }), 404),
        (json!({ "name": "x", "sandbox": "b", "snapshot": "never" }), 404),
        (json!({ "name": "no name!", "sandbox": "b" }), 422),
        (json!({ "name": "x".repeat(1000), "sandbox": "b" }), 422),
        (json!({ "name": "x\0", "sandbox": "b" }), 422),
        (json!({ "name": "x", "sandbox": "b", "live": "maybe" }), 422),
        (json!({ "name": "x" }), 422),
        (json!({}), 422),
    ] {
        assert_eq!(save(&wrong).status, status, "{wrong}");
    }
    assert_eq!(names(), ["now"]);
}

fn what_gc_announces_it_removes(w: &World) {
    let daemon = Daemon::start(w);
    for name in ["old", "runs"] {
        let id = create(&daemon, w, name);
        run(&daemon, &id, "head -c 100000 /dev/urandom > f");
    }
    daemon.call("POST", "/api/v1/sandboxes/old/stop", None).expect(200);
    let names = |told: &Value| -> Vec<Value> {
        told["sandboxes"].as_array().expect("it is a list").iter().map(|one| one["name"].clone()).collect()
    };
    let preview = |query: &str| daemon.call("GET", &format!("/api/v1/gc{query}"), None);
    let usual = preview("").expect(200);
    schema::expect("gc", &usual);
    assert_eq!((names(&usual).len(), &usual["dry_run"]), (0, &json!(true)), "{usual}");
    let told = preview("?older_than=1ms").expect(200);
    assert_eq!(names(&told), ["old"], "{told}");
    assert_eq!(show(&daemon, "old")["status"], "stopped");

    let collect = |wish: Option<Value>| daemon.call("POST", "/api/v1/gc", wish.as_ref());
    assert_eq!(names(&collect(None).expect(200)).len(), 0);
    assert_eq!(show(&daemon, "old")["status"], "stopped");
    let done = collect(Some(json!({ "older_than": "1ms" }))).expect(200);
    schema::expect("gc", &done);
    assert_eq!((names(&done), &done["dry_run"]), (vec![json!("old")], &json!(false)), "{done}");
    assert_eq!(daemon.call("GET", "/api/v1/sandboxes/old", None).status, 404);
    assert_eq!(show(&daemon, "runs")["status"], "active");
    assert_eq!(run(&daemon, "runs", "wc -c < f")["stdout"], "100000\n");

    for wrong in [
        "?older_than=soon",
        "?older_than=99999999999999999999d",
        "?older_than=-1",
        "?older_than=%00",
        "?max_total=much",
        "?max_total=99999999999999999999T",
        "?delete_unknown=perhaps",
        "?dry_run=false",
    ] {
        assert_eq!(preview(wrong).status, 422, "{wrong}");
    }
    for wrong in
        [json!({ "older_than": "soon" }), json!({ "max_total": -1 }), json!({ "adopt": true }), json!({ "delete_unknown": 7 })]
    {
        assert_eq!(collect(Some(wrong.clone())).status, 422, "{wrong}");
    }
    collect(Some(json!({ "older_than": "18446744073709551615ms", "max_total": 18_446_744_073_709_551_615_u64 }))).expect(200);
    assert_eq!(show(&daemon, "runs")["status"], "active");
}

fn the_configuration_and_the_providers_are_shown(w: &World) {
    w.configure("[gc]\nkeep = \"3d\"\n[limits]\npids = 77\n[profiles.tiny]\nmemory = \"50M\"\n");
    let daemon = Daemon::start(w);
    let config = daemon.call("GET", "/api/v1/config", None).expect(200);
    assert_eq!((&config["gc"]["keep"], &config["limits"]["pids"]), (&json!("3d"), &json!(77)), "{config}");
    assert_eq!((&config["profiles"]["tiny"]["memory"], &config["gc"]["auto"]), (&json!(50 << 20), &json!(true)), "{config}");
    let text = config.to_string();
    assert!(!text.contains(daemon.token()) && !text.contains("own_credentials"), "{text}");

    let listed = daemon.call("GET", "/api/v1/providers", None).expect(200);
    let native = &listed["providers"][0];
    assert_eq!((&native["name"], &native["is_usable"]), (&json!("native"), &json!(true)), "{listed}");
    schema::expect("doctor", &native["probes"]);
    // It is the one that sandboxes have.
    create(&daemon, w, "s");
    assert_eq!(show(&daemon, "s")["provider"], native["name"]);
}

fn races_are_listed_and_compared(w: &World) {
    let daemon = Daemon::start(w);
    assert_eq!(daemon.call("GET", "/api/v1/races", None).expect(200)["races"], json!([]));
    w.whatif([
        "race",
        "--name",
        "duel",
        "--attempt",
        "good=echo 1 > r",
        "--attempt",
        "bad=echo 2 > r; false",
        "--check",
        "test -e r",
    ])
    .go()
    .ok();
    let listed = daemon.call("GET", "/api/v1/races", None).expect(200);
    assert_eq!(listed["races"], w.json(["race", "ls", "--all"]));
    let race = daemon.call("GET", "/api/v1/races/duel", None).expect(200);
    assert_eq!((&race["winner"], &race["state"]), (&json!("good"), &json!("ended")), "{race}");
    let places: Vec<Value> = race["attempts"].as_array().expect("it is a list").iter().map(|one| one["name"].clone()).collect();
    assert_eq!(places, ["good", "bad"]);
    assert_eq!((&listed["races"][0], &w.json(["race", "show", "duel"])), (&race, &race));
    let id = race["id"].as_str().expect("it has an id");
    assert_eq!(daemon.call("GET", &format!("/api/v1/races/{id}"), None).expect(200), race);
    for unknown in ["nobody", "%2e%2e", "due", &id[..4]] {
        assert_eq!(daemon.call("GET", &format!("/api/v1/races/{unknown}"), None).status, 404, "{unknown}");
    }
    assert_eq!(daemon.call("GET", "/api/v1/races/%00", None).status, 400);
}

fn hostile_requests_are_refused(w: &World) {
    let daemon = Daemon::start(w);
    create(&daemon, w, "s");
    let description = daemon.call("GET", "/api/v1/openapi.json", None).expect(200);
    let long = "x".repeat(5000);
    let mut seen = 0;
    for (path, operations) in description["paths"].as_object().expect("there are routes") {
        for method in operations.as_object().expect("there are methods").keys().map(|method| method.to_uppercase()) {
            // Nobody has these names.
            for word in ["nobody", "..", "%2e%2e%2f", "%00", "%ff", "a%0ab", "'%20or%20''=''", &long] {
                let filled = path.replace("{command}", "1").replace("{label}", "l").replace("{apply}", word);
                let filled = filled.replace("{sandbox}", word).replace("{race}", word);
                let filled = if word == "nobody" { filled } else { filled.replace("{template}", word) };
                if filled == *path || filled.contains('{') {
                    continue;
                }
                seen += 1;
                let reply = daemon.call(&method, &filled, Some(&json!({})));
                assert!((400..500).contains(&reply.status), "{method} {filled:.80} {} {}", reply.status, reply.text());
            }
            // A body that is none.
            let body = operations[method.to_lowercase()].get("requestBody");
            if body.is_some_and(|body| body["content"].get("application/json").is_some()) {
                let filled = path.replace("{sandbox}", "s").replace("{command}", "1");
                let nonsense = json!({ "nonsense": "\0", "deep": [[[[]]]] });
                assert!((400..500).contains(&daemon.call(&method, &filled, Some(&nonsense)).status), "{method} {filled}");
                assert_eq!(daemon.call_with(&method, &filled, &[], Some(b"{\"ttl\":")).status, 400, "{method} {filled}");
            }
        }
    }
    assert!(seen > 150, "{seen}");
    assert_eq!(show(&daemon, "s")["status"], "active");
}
