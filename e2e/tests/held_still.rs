//! A process that cannot be held still: it goes on exchanging directories for links, editing, storing into mapped pages and renaming
//! while its sandbox is looked at, applied, forked and exported. What becomes real is, byte for byte, what was looked at, or it is
//! refused; and nothing that a link leads to is ever taken.
//!
//! `WHATIF_ROUNDS` says how often, for a long run; with `--nocapture` it is told how many were applied.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use whatif_e2e::{Outcome, Terminal, World, as_root_and_user, eventually, wait_for};

as_root_and_user!(
    what_is_applied_is_what_was_approved,
    flags_are_of_the_bytes_that_are_applied,
    a_copy_of_a_living_sandbox_holds_nothing_from_elsewhere,
    a_killed_look_leaves_nothing_held,
    a_digest_sees_a_store_into_a_mapped_page,
    a_decision_sees_a_store_into_a_mapped_page,
    a_digest_holds_after_what_was_alive_has_ended,
);

const HOSTILE: &str = include_str!("held_still/hostile.py");
const MAPPING: &str = "import mmap,os,time
f=os.open('mapped.txt',os.O_RDWR); m=mmap.mmap(f,0); m[0:4]=b'fine'; open('/tmp/ready','w').close()
while not os.path.exists('/tmp/go'): time.sleep(.005)
m[0:4]=b'EVIL'; open('/tmp/done','w').close(); time.sleep(1000)";
const SECRET: &str = "what no sandbox may see\n";

fn rounds(usual: usize) -> usize {
    std::env::var("WHATIF_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(usual)
}

/// The backends that can be had here.
fn backends(w: &World) -> Vec<&'static str> {
    let has_fuse = w.has("fuse-overlayfs") && w.outside("exec 3<>/dev/fuse").code == 0;
    ["overlay", "copy", "fuse"].into_iter().filter(|backend| *backend != "fuse" || has_fuse).collect()
}

fn tell(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

fn start(w: &World, backend: &str, arguments: &[&str]) -> String {
    let name = w.json(["new", &format!("h-{backend}"), "--backend", backend])["name"].as_str().expect("a name").to_owned();
    w.exec(&name, "printf 'fine and harmless\\n' > mapped.txt").ok();
    let command = [&["exec", &name, "-d", "--", "/usr/bin/python3", "-ISc"], arguments].concat();
    w.whatif(command).go().ok();
    eventually("it is at work", || w.exec(&name, "test -e /tmp/ready").code == 0);
    name
}

/// A sandbox in which the hostile process is at work.
fn hostile(w: &World, backend: &str, pace: &str) -> String {
    let elsewhere = w.home.join(".ssh");
    w.write(elsewhere.join("id"), SECRET);
    start(w, backend, &[HOSTILE, &w.project.display().to_string(), &elsewhere.display().to_string(), pace])
}

/// What a look showed of each new file.
fn shown(diff: &Value) -> BTreeMap<String, String> {
    let text = |change: &Value| -> String {
        let lines =
            change["hunks"].as_array().into_iter().flatten().flat_map(|hunk| hunk["lines"].as_array().into_iter().flatten());
        lines
            .filter(|line| line[0] == "+")
            .filter_map(|line| line[1].as_str())
            .map(|line| format!("{}\n", line.trim_end()))
            .collect()
    };
    let changes = diff["changes"].as_array().into_iter().flatten().filter(|change| change["type"] == "file");
    changes.map(|change| (change["path"].as_str().expect("a path").to_owned(), text(change))).collect()
}

/// All files of the project, links not followed, and the project as empty as it was.
fn take_all(w: &World) -> BTreeMap<String, String> {
    let list = "find . -type f -printf '%P\\n'";
    let files = w.outside(list).ok().stdout.lines().map(|path| (path.to_owned(), w.read(path))).collect();
    w.outside("find . -mindepth 1 -delete").ok();
    files
}

/// A refusal says what to do.
#[track_caller]
fn is_done(outcome: Outcome) -> bool {
    if outcome.code == 0 {
        return true;
    }
    let (code, said) = (outcome.code, format!("{}{}", outcome.stdout, outcome.stderr));
    assert!((1..=125).contains(&code) && said.contains("hint:"), "{code}: {said}");
    false
}

fn what_is_applied_is_what_was_approved(w: &World) {
    for backend in backends(w) {
        let (mut applied, mut refused) = (0, 0);
        let mut name = hostile(w, backend, "slow");
        for _ in 0..rounds(3) {
            let looked = w.whatif(["diff", &name, "--patch", "--json"]).go();
            if looked.code != 0 {
                refused += 1;
                continue;
            }
            let looked = looked.json();
            let digest = looked["digest"].as_str().expect("a digest");
            let approved = shown(&looked);
            if !is_done(w.whatif(["apply", &name, "--all", "--risky", "--yes", "--digest", digest]).go()) {
                refused += 1;
                assert_eq!(take_all(w), BTreeMap::new(), "{backend}: it was refused");
                continue;
            }
            applied += 1;
            for (path, content) in take_all(w) {
                assert_ne!(content, SECRET, "{backend}: {path}");
                assert_eq!(approved.get(&path), Some(&content), "{backend}: {path}");
            }
            name = another(w, backend, &name);
        }
        w.whatif(["rm", &name, "--yes"]).go().ok();
        tell(&format!("apply, {backend}: {applied} applied, {refused} refused"));
    }
}

fn flags_are_of_the_bytes_that_are_applied(w: &World) {
    for backend in backends(w) {
        let (mut applied, mut refused) = (0, 0);
        let mut name = hostile(w, backend, "slow");
        for _ in 0..rounds(3) {
            let is_done = is_done(w.whatif(["apply", &name, "--yes"]).go());
            for (path, content) in take_all(w) {
                assert_ne!(content, SECRET, "{backend}: {path}");
                assert!(path != "package.json" || !content.contains("postinstall"), "{backend}: nobody approved {content}");
            }
            if is_done {
                applied += 1;
                name = another(w, backend, &name);
            } else {
                refused += 1;
            }
        }
        w.whatif(["rm", &name, "--yes"]).go().ok();
        tell(&format!("flags, {backend}: {applied} applied, {refused} refused"));
    }
}

/// What was applied once is not a change any more, so each apply that succeeded takes a new sandbox.
fn another(w: &World, backend: &str, name: &str) -> String {
    w.whatif(["rm", name, "--yes"]).go().ok();
    hostile(w, backend, "slow")
}

fn a_copy_of_a_living_sandbox_holds_nothing_from_elsewhere(w: &World) {
    for backend in backends(w) {
        let name = hostile(w, backend, "fast");
        let archive = w.dir.join("archive").display().to_string();
        let mut copied = 0;
        for _ in 0..rounds(2) {
            copied += usize::from(is_done(w.whatif(["fork", &name, "other"]).go()));
            if is_done(w.whatif(["export", "--force", &name, "--output", &archive]).go()) {
                copied += 1;
                // Unpacked, it can be searched.
                w.whatif(["import", &archive, "--name", "unpacked", "--backend", backend]).go().ok();
            }
            let found = w.outside(&format!("grep -rlF '{}' {} || true", SECRET.trim_end(), w.state.display())).ok().stdout;
            assert_eq!(found, "", "{backend}");
            w.outside(&format!("rm -f {archive}")).ok();
            for copy in ["other", "unpacked"] {
                let _ = w.whatif(["rm", copy, "--yes"]).go();
            }
        }
        w.whatif(["rm", &name, "--yes"]).go().ok();
        // Each round has left layers behind that are deleted in the background.
        let patience = Duration::from_secs(60 + rounds(2) as u64);
        let is_tidy = || w.transient().is_empty() && !w.processes().iter().any(|process| process.contains(" tidy "));
        assert!(wait_for(patience, || is_tidy().then_some(())).is_some(), "{backend}: {:?} {:?}", w.transient(), w.processes());
        tell(&format!("fork and export, {backend}: {copied} copied of {}", 2 * rounds(2)));
    }
}

fn a_killed_look_leaves_nothing_held(w: &World) {
    let name = w.new_sandbox("k");
    w.exec(&name, "mkdir many && for n in $(seq 300); do echo $n > many/$n; done").ok();
    w.whatif(["exec", &name, "-d", "--", "sh", "-c", "n=0; while :; do n=$((n + 1)); echo $n > /tmp/n; done"]).go().ok();
    eventually("it counts", || w.exec(&name, "test -s /tmp/n").code == 0);
    let count = || w.exec(&name, "cat /tmp/n").ok().stdout;
    for milliseconds in [5, 10, 20, 40, 80] {
        let mut look = w.whatif(["diff", &name]).streams(Stdio::null(), Stdio::null(), Stdio::null()).spawn();
        std::thread::sleep(Duration::from_millis(milliseconds));
        look.kill().expect("it is ours");
        look.wait().expect("it has ended");
        let before = count();
        eventually("it goes on", || count() != before);
    }
    w.whatif(["diff", &name]).go().ok();
}

fn a_digest_sees_a_store_into_a_mapped_page(w: &World) {
    for backend in backends(w) {
        let name = start(w, backend, &[MAPPING]);
        let digest = w.json(["diff", &name])["digest"].as_str().expect("a digest").to_owned();
        store(w, &name);
        let outcome = w.whatif(["apply", &name, "--yes", "--digest", &digest]).go();
        assert!(!is_evil(w), "{backend}: {}", outcome.stderr);
        take_all(w);
        w.whatif(["rm", &name, "--yes"]).go().ok();
    }
}

fn a_decision_sees_a_store_into_a_mapped_page(w: &World) {
    for backend in backends(w) {
        let name = start(w, backend, &[MAPPING]);
        let mut terminal = Terminal::with_whatif(w, &["review", &name]);
        terminal.expect("undecided");
        terminal.type_in("aq");
        terminal.expect("1 accepted");
        assert_eq!(terminal.ends(), 0);
        store(w, &name);
        w.whatif(["apply", &name, "--yes"]).go();
        assert!(!is_evil(w), "{backend}");
        take_all(w);
        w.whatif(["rm", &name, "--yes"]).go().ok();
    }
}

fn a_digest_holds_after_what_was_alive_has_ended(w: &World) {
    let name = start(w, "overlay", &[MAPPING]);
    let digest = w.json(["diff", &name])["digest"].as_str().expect("a digest").to_owned();
    w.whatif(["stop", &name]).go().ok();
    w.whatif(["apply", &name, "--yes", "--digest", &digest]).go().ok();
    assert_eq!(w.read("mapped.txt"), "fine and harmless\n");
}

fn store(w: &World, name: &str) {
    w.exec(name, "touch /tmp/go").ok();
    eventually("it has stored", || w.exec(name, "test -e /tmp/done").code == 0);
}

fn is_evil(w: &World) -> bool {
    w.project.join("mapped.txt").exists() && w.read("mapped.txt").contains("EVIL")
}
