//! A sandbox that was put on other layers while it ran is as closed as it was before: for what came with it, and for what
//! starts in it afterwards.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use serde_json::Value;
use whatif_e2e::{World, as_root_and_user, eventually, not_on};

as_root_and_user!(
    nothing_kept_across_a_snapshot_leads_out,
    nothing_in_flight_across_a_snapshot_leads_out,
    nothing_kept_across_a_rollback_leads_out,
    what_starts_afterwards_is_confined_as_before,
    secrets_stay_hidden,
    mounts_do_not_pile_up,
    the_host_sees_none_of_it,
);

const PROBER: &str = include_str!("snapshots/prober.py");

/// What only reality has: under the state directory, which no sandbox sees, and a secret in the home.
fn canaries(w: &World) -> Vec<String> {
    let secret = w.write(w.home.join(".ssh/id_ed25519"), "secret");
    let state = w.write(w.state.join("only-outside"), "outside");
    vec![secret.display().to_string(), state.display().to_string(), w.state.join("state.db").display().to_string()]
}

/// Starts the prober, lets `meanwhile` happen, and returns what it found then.
fn probe(w: &World, how: &str, name: &str, canaries: &[String], meanwhile: impl FnOnce()) -> Value {
    w.exec(name, "rm -f /tmp/ready /tmp/go /tmp/report").ok();
    // In a place that is private to each sandbox; whoever connects to it is outside.
    let host = std::env::temp_dir().join(w.dir.file_name().expect("it has a name")).with_extension("sock");
    let _ = std::fs::remove_file(&host);
    let _listener = UnixListener::bind(&host).expect("a fresh name");
    std::fs::set_permissions(&host, std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    let socket = host.display().to_string();
    let started = w.whatif(["exec", name, "-d", "--", "/usr/bin/python3", "-ISc", PROBER, how, &socket]).args(canaries).go().ok();
    eventually(&format!("it holds: {}", started.stderr), || w.exec(name, "test -e /tmp/ready").code == 0);
    meanwhile();
    w.exec(name, "touch /tmp/go").ok();
    eventually("it has tried", || w.exec(name, "test -e /tmp/report").code == 0);
    let _ = std::fs::remove_file(&host);
    w.exec(name, "cat /tmp/report").ok().json()
}

#[track_caller]
fn assert_closed(w: &World, name: &str, results: &Value) {
    let root: Vec<String> = w.exec(name, "ls -A /").ok().stdout.lines().map(str::to_owned).collect();
    assert_eq!(results["canaries"], serde_json::json!([]), "{results:#}");
    for (attempt, result) in results.as_object().into_iter().flatten() {
        if attempt.starts_with("up from") && result.is_object() {
            assert_eq!(result["found"], serde_json::json!([]), "{attempt} leads out: {result}");
            let top = result["top"].as_array().cloned().unwrap_or_default();
            let is_ours = top.iter().all(|n| n.as_str().is_some_and(|n| root.iter().any(|r| r == n)));
            assert!(is_ours, "{attempt} leads to something else: {result}");
            assert_ne!(result["connect"], "done", "{attempt} leads to a socket of the host: {result}");
        }
        if attempt.starts_with("/proc/1/") {
            // An empty directory covers it where root inside is root outside.
            assert!(result == "Permission denied" || (result == "[]" && w.backend() == "fuse"), "{attempt}: {result}");
        }
        let is_refused =
            |r: &Value| ["Read-only file system", "Permission denied", "No such file or directory"].iter().any(|e| r == e);
        if attempt.starts_with("write /proc")
            || attempt.starts_with("write /sys")
            || (!w.is_root() && attempt.starts_with("write /usr"))
        {
            assert!(is_refused(result), "{attempt}: {result}");
        }
    }
    assert!(!std::path::Path::new("/escaped-marker").exists());
    assert!(!std::path::Path::new("/usr/escaped-marker").exists());
}

/// The same, without descriptions that differ by chance.
fn mounts(results: &Value) -> Value {
    results["mounts"].clone()
}

fn nothing_kept_across_a_snapshot_leads_out(w: &World) {
    let canaries = canaries(w);
    let name = w.new_sandbox("s");
    w.exec(&name, "echo 1 > f").ok();
    let before = probe(w, "holding", &name, &canaries, || {});
    assert_closed(w, &name, &before);
    // It holds directories, so this one is a copy; what matters is that it does no harm, either.
    let copied = probe(w, "holding", &name, &canaries, || assert_eq!(w.snapshot(&name, "one")["copied"], true));
    assert_closed(w, &name, &copied);
    assert_eq!(mounts(&copied), mounts(&before));
    w.exec(&name, "echo 2 > f").ok();
    w.json(["snapshot", &name, "two", "--live", "stop"]);
    let after = probe(w, "holding", &name, &canaries, || {});
    assert_closed(w, &name, &after);
    assert_eq!(mounts(&after), mounts(&before), "the same mounts, with the same options");
}

/// Nobody could be seen to hold anything; it is enough that somebody is alive.
fn nothing_in_flight_across_a_snapshot_leads_out(w: &World) {
    let canaries = canaries(w);
    let name = w.new_sandbox("s");
    w.exec(&name, "echo 1 > f").ok();
    let results = probe(w, "flying", &name, &canaries, || {
        w.snapshot(&name, "one");
    });
    assert_closed(w, &name, &results);
}

fn nothing_kept_across_a_rollback_leads_out(w: &World) {
    let canaries = canaries(w);
    let name = w.new_sandbox("s");
    w.exec(&name, "echo 1 > f").ok();
    w.snapshot(&name, "one");
    for round in 0..3 {
        w.exec(&name, "echo 2 > f").ok();
        let ended = w.rollback(&name, "one");
        assert_eq!(ended["ended"], serde_json::json!([]), "round {round}: {ended}");
        let results = probe(w, "holding", &name, &canaries, || {});
        assert_closed(w, &name, &results);
    }
}

/// Landlock, capabilities, seccomp: what a process is, and what it may, is the same as in a sandbox that never moved.
fn what_starts_afterwards_is_confined_as_before(w: &World) {
    let seen = "grep -E '^(Cap|NoNewPrivs|Seccomp)' /proc/self/status; unshare -Urm true 2>/dev/null && echo unshared; \
        mount -t tmpfs none /mnt 2>/dev/null && echo mounted; umount /tmp 2>/dev/null && echo unmounted; \
        mount -o remount,rw / 2>/dev/null && echo remounted; mknod /tmp/disk b 8 0 2>/dev/null && echo device; \
        ls -A /dev | sort; id; ulimit -c; wc -l < /proc/self/mountinfo; \
        ls -A /proc/self/fd | wc -l; cat /proc/self/cgroup; ";
    // With fuse-overlayfs it is started again, in others.
    let namespaces = if w.backend() == "fuse" { "true" } else { "readlink /proc/self/ns/* | sort" };
    let seen = &[seen, namespaces].concat();
    let name = w.new_sandbox("s");
    let before = w.exec(&name, seen).ok().stdout;
    let protection = w.json(["show", &name])["details"]["protection"].clone();
    w.exec(&name, "echo 1 > f").ok();
    w.snapshot(&name, "one");
    assert_eq!(w.exec(&name, seen).ok().stdout, before, "after a snapshot");
    w.exec(&name, "echo 2 > f").ok();
    w.rollback(&name, "one");
    assert_eq!(w.exec(&name, seen).ok().stdout, before, "after a rollback");
    assert_eq!(w.json(["show", &name])["details"]["protection"], protection);
}

fn secrets_stay_hidden(w: &World) {
    let canaries = canaries(w);
    w.write(w.home.join(".aws/credentials"), "secret");
    let name = w.new_sandbox("s");
    let look = format!(
        "cat {} ~/.aws/credentials 2>/dev/null; ls -A ~ | sort; ls -A {} 2>/dev/null",
        canaries.join(" "),
        w.state.display()
    );
    let before = w.exec(&name, &look).stdout;
    assert!(!before.contains("secret") && !before.contains("outside"), "{before}");
    w.exec(&name, "mkdir -p ~/.config/x; mv ~/.ssh ~/.moved 2>/dev/null; mv ~/.moved ~/.ssh 2>/dev/null; echo 1 > f").ok();
    let look = format!("{look}; find ~ -name id_ed25519 -o -name credentials");
    let before = w.exec(&name, &look).stdout;
    w.snapshot(&name, "one");
    assert_eq!(w.exec(&name, &look).stdout, before, "after a snapshot");
    // Layers of fuse-overlayfs are not merged.
    if w.backend() != "fuse" {
        w.json(["squash", &name]);
    }
    w.rollback(&name, "one");
    assert_eq!(w.exec(&name, &look).stdout, before, "after a rollback");
    let fork = w.fork("s@one", "fork");
    assert_eq!(w.exec(&fork, &look).stdout, before, "in a fork");
    let layers = w.program("/bin/grep").args(["-rl", "secret"]).args([w.layers()]).go();
    assert_eq!(layers.stdout, "", "no layer holds one");
}

fn mounts_do_not_pile_up(w: &World) {
    not_on!(w, "fuse", "it is started again for each snapshot");
    let name = w.new_sandbox("s");
    let keeper = w.json(["show", &name])["keeper_pid"].as_u64().expect("it runs");
    // Of everything in its namespace, also what is covered; and what the keeper itself holds open.
    let count = |what: &str| match what {
        "mountinfo" => std::fs::read_to_string(format!("/proc/{keeper}/mountinfo")).map_or(0, |t| t.lines().count()),
        _ => std::fs::read_dir(format!("/proc/{keeper}/fd")).map_or(0, Iterator::count),
    };
    w.exec(&name, "echo 0 > f").ok();
    w.snapshot(&name, "first");
    // Whoever puts it on its new layers is at it a moment longer than the command.
    let alone = || eventually("only the keeper is left", || w.processes().len() == 1);
    alone();
    let (mounts, descriptors) = (count("mountinfo"), count("fd"));
    for n in 0..12 {
        w.exec(&name, &format!("echo {n} > f")).ok();
        w.snapshot(&name, &format!("n-{n}"));
        if n % 4 == 3 {
            w.rollback(&name, "first");
        }
    }
    alone();
    // It closes the connection of the last one who asked when it gets to it.
    eventually("no more mounts and descriptors of the keeper", || count("mountinfo") <= mounts && count("fd") <= descriptors);
}

fn the_host_sees_none_of_it(w: &World) {
    let table = || std::fs::read_to_string("/proc/self/mountinfo").map_or(0, |t| t.lines().count());
    let before = table();
    let name = w.new_sandbox("s");
    w.exec(&name, "echo 1 > f").ok();
    w.snapshot(&name, "one");
    w.rollback(&name, "one");
    let fork = w.fork("s@one", "fork");
    w.exec(&fork, "true").ok();
    assert_eq!(w.mounts(), Vec::<String>::new());
    assert!(table() <= before + 2, "other tests mount things of their own, but few: {before} and {}", table());
}
