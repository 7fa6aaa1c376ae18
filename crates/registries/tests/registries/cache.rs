//! Answers are remembered as long as they are good.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::made::{Made, places};
use whatif_registries::{Found, find_cached};

/// An npm that counts how often it is asked.
fn counted() -> Made {
    let made = Made::bare();
    let answer = "printf '{\"registry\":\"%s\"}' \"$(/bin/cat \"$HOME/.npmrc\" 2>/dev/null || echo https://first.example/)\"";
    made.fake("npm", &format!("echo x >> {}; {answer}", made.record("asked")));
    made
}

fn times_asked(made: &Made) -> usize {
    made.recorded("asked").lines().count()
}

fn ask(made: &Made) -> Found {
    find_cached(&made.asker(), &made.dir.join("cache.json"))
}

/// Changes the time of the answers by text, as a clock would.
fn age(made: &Made, seconds: i64) {
    let path = made.dir.join("cache.json");
    let mut cache: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for entry in cache["entries"].as_array_mut().unwrap() {
        entry["asked"] = (entry["asked"].as_i64().unwrap() - seconds).into();
    }
    std::fs::write(&path, cache.to_string()).unwrap();
}

#[test]
fn tools_are_asked_once() {
    let made = counted();
    let first = ask(&made);
    assert_eq!(places(&first), ["first.example:443"]);
    assert_eq!(ask(&made), first);
    assert_eq!(times_asked(&made), 1);
    let mode = std::fs::metadata(made.dir.join("cache.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_changed_file_is_noticed() {
    let made = counted();
    ask(&made);
    made.write(".npmrc", "https://second.example/");
    assert_eq!(places(&ask(&made)), ["second.example:443"]);
    made.write(".npmrc", "https://third1.example/");
    assert_eq!(places(&ask(&made)), ["third1.example:443"], "the same length, moments later");
    std::fs::remove_file(made.home.join(".npmrc")).unwrap();
    assert_eq!(places(&ask(&made)), ["first.example:443"]);
    assert_eq!(times_asked(&made), 3, "the first answer is still good");
}

#[test]
fn a_changed_variable_and_a_new_tool_are_noticed() {
    let mut made = counted();
    ask(&made);
    made.set("PIP_INDEX_URL", "https://pip.example/");
    assert_eq!(places(&ask(&made)), ["first.example:443", "pip.example:443"]);
    made.fake("pnpm", "echo https://pnpm.example/");
    assert_eq!(places(&ask(&made)), ["first.example:443", "pip.example:443", "pnpm.example:443"]);
}

#[test]
fn remotes_are_noticed_without_asking_the_tools_again() {
    let Some(made) = Made::with_tool("git") else { return };
    made.fake("npm", &format!("echo x >> {}; echo '{{\"registry\":\"https://npm.example/\"}}'", made.record("asked")));
    made.write("project/.git/config", "[remote \"origin\"]\n\turl = https://a.example/\n");
    assert_eq!(places(&ask(&made)), ["a.example:443", "npm.example:443"]);
    made.write("project/.git/config", "[remote \"origin\"]\n\turl = https://b.example/\n");
    assert_eq!(places(&ask(&made)), ["b.example:443", "npm.example:443"]);
    assert_eq!(times_asked(&made), 1);
}

#[test]
fn after_a_day_tools_are_asked_again() {
    let made = counted();
    ask(&made);
    age(&made, 23 * 3600);
    ask(&made);
    assert_eq!(times_asked(&made), 1);
    age(&made, 2 * 3600);
    ask(&made);
    assert_eq!(times_asked(&made), 2);
    age(&made, -3600);
    ask(&made);
    assert_eq!(times_asked(&made), 3, "an answer from the future is none");
}

#[test]
fn a_gap_is_filled_sooner() {
    let made = counted();
    made.fake("pip3", "exit 1");
    let found = ask(&made);
    assert_eq!(found.troubles, ["pip failed"]);
    assert_eq!(ask(&made), found);
    assert_eq!(times_asked(&made), 1);
    age(&made, 700);
    ask(&made);
    assert_eq!(times_asked(&made), 2);
}

#[test]
fn a_bad_cache_is_as_good_as_none() {
    let made = counted();
    let good = ask(&made);
    let path = made.dir.join("cache.json");
    let text = std::fs::read_to_string(&path).unwrap();
    for bad in [
        "",
        "null",
        "{",
        "{\"version\":1}",
        &text.replace("first.example:443", "*:443"),
        &text.replace("first.example:443", "127.0.0.1:22"),
    ] {
        std::fs::write(&path, bad).unwrap();
        assert_eq!(ask(&made), good, "{bad}");
    }
    // One that others can write, or that leads elsewhere, is not read.
    let evil = text.replace("first.example", "evil1.example");
    std::fs::write(&path, &evil).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(ask(&made), good);
    let elsewhere = made.dir.join("elsewhere");
    std::fs::write(&elsewhere, &evil).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert_eq!(ask(&made), good);
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), evil, "nor is it written through");
    // And where none can be written, there is an answer all the same.
    assert_eq!(find_cached(&made.asker(), &made.dir.join("no/such/directory")), good);
}

#[test]
fn reading_it_is_quick() {
    let mut made = counted();
    made.write("project/.git/config", "[remote \"origin\"]\n\turl = https://a.example/\n");
    // As long as a search path gets.
    let directories = (0..15).map(|number| format!("/nowhere/{number}").into()).chain([made.dir.join("bin"), "/usr/bin".into()]);
    made.path = std::env::join_paths(directories).unwrap();
    ask(&made);
    let quickest = (0..50)
        .map(|_| {
            let begin = Instant::now();
            ask(&made);
            begin.elapsed()
        })
        .min()
        .unwrap();
    println!("reading the cache: {quickest:?}");
    assert!(quickest < Duration::from_millis(if cfg!(debug_assertions) { 3 } else { 1 }), "{quickest:?}");
}
