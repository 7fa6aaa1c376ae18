//! Tools that do what no tool should. The user's own, but then somebody may have replaced them.

use std::time::{Duration, Instant};

use crate::made::{Made, places};

#[test]
fn a_tool_that_hangs_is_ended_with_all_it_started() {
    let made = Made::bare();
    let (own, child) = (made.record("npm.pid"), made.record("child.pid"));
    made.fake(
        "npm",
        &format!("echo $$ > {own}; /bin/sleep 1000 & echo $! > {child}; trap '' TERM INT; while :; do /bin/sleep 1; done"),
    );
    made.fake("pip3", "echo \"global.index-url='https://pip.example/'\"");
    let begin = Instant::now();
    let found = made.find();
    assert!(begin.elapsed() < Duration::from_secs(25), "{:?}", begin.elapsed());
    assert_eq!(places(&found), ["pip.example:443"], "others are not held up");
    assert_eq!(found.troubles, ["npm did not answer within 15 seconds"]);
    for file in ["npm.pid", "child.pid"] {
        let pid = made.recorded(file);
        // What was killed takes its time to go.
        let begin = Instant::now();
        while is_alive(pid.trim()) {
            assert!(begin.elapsed() < Duration::from_secs(30), "{file}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn is_alive(pid: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z ")
}

/// npm keeps logs, what stands in for cargo keeps settings, and others caches.
#[test]
fn a_tool_that_is_asked_changes_nothing() {
    let made = Made::bare();
    made.write(".npmrc", "mine");
    let change = "echo x > .npmrc; mkdir .npm; echo x > .log; /bin/mv .npmrc moved; /bin/rm -f .npmrc; /bin/ln -s a link";
    made.fake("npm", &format!("cd \"$HOME\"; {{ {change}; }} 2>/dev/null; echo '{{\"registry\":\"https://npm.example/\"}}'"));
    assert_eq!(places(&made.find()), ["npm.example:443"]);
    let mut names: Vec<_> = std::fs::read_dir(&made.home).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".npmrc", "project"]);
    assert_eq!(std::fs::read_to_string(made.home.join(".npmrc")).unwrap(), "mine");
}

#[test]
fn all_of_them_together_have_no_more_time_than_one() {
    let made = Made::bare();
    made.write("project/.git/config", "[remote \"origin\"]\n\turl = https://git.example/\n");
    let tools = ["apt-config", "npm", "yarn", "pnpm", "pip3", "python3", "uv", "cargo", "go", "git"];
    tools.iter().for_each(|tool| made.fake(tool, "while :; do /bin/sleep 1; done"));
    let begin = Instant::now();
    let found = made.find();
    assert!(begin.elapsed() < Duration::from_secs(25), "{:?}", begin.elapsed());
    assert_eq!(found.sources, []);
    // Python is asked on behalf of pip.
    assert_eq!(found.troubles.len(), tools.len() - 1, "{:?}", found.troubles);
}

#[test]
fn a_tool_that_closes_its_output_and_stays_is_late_too() {
    let made = Made::bare();
    made.fake("npm", "exec >&-; /bin/sleep 1000");
    assert_eq!(made.find().troubles, ["npm did not answer within 15 seconds"]);
}

#[test]
fn what_a_tool_leaves_behind_is_not_waited_for() {
    let made = Made::bare();
    made.fake("npm", "/usr/bin/setsid /bin/sleep 60 & echo '{\"registry\":\"https://npm.example/\"}'");
    let begin = Instant::now();
    assert_eq!(places(&made.find()), ["npm.example:443"]);
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
}

#[test]
fn a_flood_is_stopped() {
    let made = Made::bare();
    let finished = made.record("finished");
    made.fake("npm", &format!("/usr/bin/head -c 100000000 /dev/zero | /usr/bin/tr '\\0' x; echo yes > {finished}"));
    let begin = Instant::now();
    assert_eq!(made.find().troubles, ["npm says more than can be a set-up"]);
    assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
    assert_eq!(made.recorded("finished"), "", "it was ended, not listened to");
}

#[test]
fn garbage_is_trouble_and_nothing_else() {
    for script in [
        "echo garbage",
        "printf '\\377\\376\\000'",
        "echo '{}' ; echo '{}'",
        "echo '[\"registry\"]'",
        "exit 3",
        "kill -9 $$",
        "echo '{\"registry\":\"https://npm.example/\"}'; exit 1",
    ] {
        let made = Made::bare();
        made.fake("npm", script);
        let found = made.find();
        assert!(found.sources.is_empty() && found.rules.is_empty(), "{script}: {found:?}");
        assert_eq!(found.troubles.len(), 1, "{script}: {found:?}");
    }
}

#[test]
fn urls_that_can_be_read_in_two_ways_open_nothing() {
    for url in [
        "https://good.example\\nhttps://evil.example/",
        "https://good.example\\u0000.evil.example/",
        "https://good.example\\r\\nHost: evil.example/",
        "https://a@good.example@evil.example/",
        "https://good.example\\\\@evil.example/",
        "https://good.example:hunter2",
        "https://*/",
        "https://*.example/",
        "https://10.0.0.0/8",
        "http://169.254.169.254/latest",
        "http://127.0.0.1:8080/",
        "http://[::]/",
        "http://0/",
    ] {
        let made = Made::bare();
        made.fake("npm", &format!("printf '%s' '{{\"registry\":\"{url}\"}}'"));
        let found = made.find();
        // 10.0.0.0 is one address, however much its path looks like a network.
        let expected = if url.ends_with("/8") { vec!["10.0.0.0:443".to_owned()] } else { Vec::new() };
        assert_eq!(places(&found), expected, "{url}");
        assert!(!format!("{found:?}").contains("hunter2"), "{found:?}");
    }
}

#[test]
fn credentials_are_dropped() {
    let made = Made::bare();
    made.fake("npm", "echo '{\"registry\":\"https://user:hunter2@npm.example:8443/x?token=hunter2#hunter2\",\"@hunter:registry\":\"nonsense hunter2\"}'");
    let cache = made.dir.join("cache.json");
    let found = whatif_registries::find_cached(&made.asker(), &cache);
    assert_eq!(places(&found), ["npm.example:8443"]);
    assert!(!format!("{found:?}").contains("hunter2"), "{found:?}");
    assert!(!std::fs::read_to_string(&cache).unwrap().contains("hunter2"));
}

#[test]
fn a_tool_in_the_project_is_not_run() {
    let mut made = Made::bare();
    let script = format!("#!/bin/sh\necho yes > {}\necho '{{\"registry\":\"https://evil.example/\"}}'\n", made.record("ran"));
    let tool = made.write("project/bin/npm", &script);
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(&tool, made.dir.join("bin/npm")).unwrap();
    std::os::unix::fs::symlink(made.project.join("bin"), made.dir.join("link")).unwrap();
    let path = [
        made.project.join("bin"),
        "bin".into(),
        ".".into(),
        "".into(),
        made.dir.join("link"),
        made.dir.join("bin"),
        "/usr/bin".into(),
        "/bin".into(),
    ];
    made.path = std::env::join_paths(path).unwrap();
    let found = made.find();
    assert!(found.sources.iter().all(|source| source.place != "evil.example:443"), "{found:?}");
    assert_eq!(made.recorded("ran"), "");
}

/// Wherever one happens to be is not where tools are looked for.
#[test]
fn a_tool_at_a_relative_place_is_not_run() {
    let mut made = Made::bare();
    made.fake("npm", "echo '{\"registry\":\"https://evil.example/\"}'");
    let up: std::path::PathBuf = std::env::current_dir().unwrap().components().skip(1).map(|_| "..").collect();
    let relative = up.join(made.dir.join("bin").strip_prefix("/").unwrap());
    assert!(relative.join("npm").exists(), "it would be found");
    made.path = relative.into();
    assert_eq!(made.find(), whatif_registries::Found::default());
}

#[test]
fn a_tool_is_told_only_what_concerns_it() {
    let mut made = Made::bare();
    let (environment, directory) = (made.record("environment"), made.record("directory"));
    made.fake("npm", &format!("/usr/bin/env > {environment}; pwd > {directory}; echo '{{}}'"));
    made.set("NODE_OPTIONS", "--require ./evil.js");
    made.set("AWS_SECRET_ACCESS_KEY", "hunter2");
    made.set("GIT_DIR", "/evil");
    made.set("NPM_CONFIG_REGISTRY", "https://npm.example/");
    let found = made.find();
    let environment = made.recorded("environment");
    assert!(environment.contains("NPM_CONFIG_REGISTRY="), "{environment}");
    for unwanted in ["NODE_OPTIONS", "AWS_", "GIT_DIR", "hunter2"] {
        assert!(!environment.contains(unwanted), "{environment}");
    }
    let directory = made.recorded("directory");
    assert_eq!(directory.trim(), made.home.canonicalize().unwrap().to_str().unwrap());
    assert_eq!(places(&found), ["npm.example:443"]);
}

#[test]
fn uv_is_read_from_its_files_and_its_help() {
    let mut made = Made::bare();
    made.fake("uv", "echo '      --default-index <DEFAULT_INDEX>'; echo '          The URL of the default package index (by default: <https://uv.example/simple>).'");
    assert_eq!(places(&made.find()), ["uv.example:443"]);
    made.write(
        ".config/uv/uv.toml",
        "extra-index-url = [\"https://a.example/\"]\n[[index]]\nname = \"b\"\nurl = \"https://b.example/\"\n",
    );
    assert_eq!(places(&made.find()), ["a.example:443", "b.example:443", "uv.example:443"]);
    made.write(".config/uv/uv.toml", "[pip]\nindex-url = \"https://c.example/\"\n");
    made.set("UV_INDEX", "name=https://d.example/simple https://e.example/?x=y");
    assert_eq!(places(&made.find()), ["c.example:443", "d.example:443", "e.example:443"]);
}

#[test]
fn relatives_of_npm_have_defaults_of_their_own() {
    let made = Made::bare();
    made.fake("yarn", "[ \"$3\" = npmRegistryServer ] && echo https://yarn.example || { echo 'Usage Error'; exit 1; }");
    made.fake("pnpm", "echo https://pnpm.example/");
    let found = made.find();
    assert_eq!(places(&found), ["pnpm.example:443", "yarn.example:443"]);
    assert!(found.troubles.is_empty(), "{:?}", found.troubles);
}

#[test]
fn rustup_uses_what_its_toolchains_came_from() {
    let mut made = Made::bare();
    made.fake("rustup", "exit 1");
    made.write(
        ".rustup/toolchains/stable/lib/rustlib/multirust-channel-manifest.toml",
        "date = \"x\"\n[pkg.a]\nurl = \"https://dist.example/dist/a.tar.gz\"\nurl = \"https://second.example/\"\n",
    );
    assert_eq!(places(&made.find()), ["dist.example:443"]);
    made.set("RUSTUP_DIST_SERVER", "https://mirror.example");
    assert_eq!(places(&made.find()), ["mirror.example:443"]);
}

#[test]
fn without_tools_there_is_nothing_and_no_trouble() {
    let found = Made::bare().find();
    assert_eq!(found, whatif_registries::Found::default());
}
