//! Thousands of snapshots of one sandbox: the last ones cost no more than the first ones, and each is what it was.
//!
//! 150 by default, `WHATIF_MANY=10000` for as many as are promised.

use std::fs::File;
use std::time::{Duration, Instant};

use whatif_e2e::{Random, World, as_root_and_user, eventually, wait_for};

as_root_and_user!(the_last_snapshot_costs_what_the_first_did, a_stack_as_deep_as_it_gets_still_works);

/// A sandbox's look-ups slow down with every layer; more than these it should never stand on for long.
const DEEPEST: usize = 40;

fn many() -> usize {
    std::env::var("WHATIF_MANY").ok().and_then(|n| n.parse().ok()).unwrap_or(150)
}

fn depth(w: &World, name: &str) -> usize {
    w.json(["show", name])["details"]["position"]["stack"].as_array().map_or(0, Vec::len)
}

fn the_last_snapshot_costs_what_the_first_did(w: &World) {
    let name = w.new_sandbox("s");
    for n in 0..many() {
        work(w, &name, n);
        w.snapshot(&name, &format!("n-{n}"));
        if n % 50 == 49 {
            eventually("merging keeps up", || depth(w, &name) < DEEPEST);
        }
    }
    eventually("merging keeps up", || depth(w, &name) < DEEPEST);
    assert_costs_what_a_first_one_does(w, &name);
    let mut random = Random::from(7);
    for n in (0..8).map(|_| random.below(many())).chain([0, many() - 1]) {
        let fork = w.fork(&format!("{name}@n-{n}"), "look");
        assert_eq!(w.exec(&fork, &format!("cat f f-{}", n % 50)).ok().stdout, format!("{n}\n{n}\n"), "n-{n}");
        w.whatif(["rm", &fork]).go().ok();
    }
    assert!(w.labels(&name).len() >= many());
    w.rollback(&name, "n-3");
    assert_eq!(w.exec(&name, "cat f; ls").ok().stdout, "3\nf\nf-0\nf-1\nf-2\nf-3\n");
    // So many layers are not deleted in a moment.
    w.whatif(["rm", &name]).go().ok();
    let is_gone = wait_for(Duration::from_secs(120), || w.processes().is_empty().then_some(()));
    assert!(is_gone.is_some(), "{:?}", w.processes());
}

/// A small change: two files are written, and one is deleted.
fn work(w: &World, name: &str, n: usize) {
    w.exec(name, &format!("echo {n} > f; echo {n} > f-{}; [ {n} -lt 7 ] || rm -f f-$(( ({n} - 6) % 50 ))", n % 50)).ok();
}

/// Turn by turn with a sandbox in a state directory of its own, that knows of no other snapshot: whatever else the machine does,
/// it does to both.
fn assert_costs_what_a_first_one_does(w: &World, name: &str) {
    let fresh = w.dir.join("fresh-state");
    w.mkdir(&fresh);
    let with_fresh = |arguments: &[&str]| w.whatif(arguments.iter().copied()).env("WHATIF_HOME", &fresh);
    with_fresh(&["new", "first"]).go().ok();
    let mut turns = 0..;
    let mut measure = || {
        let (mut first, mut last) = (Vec::new(), Vec::new());
        for n in turns.by_ref().take(11) {
            with_fresh(&["exec", "first", "--", "/bin/sh", "-c", &format!("echo {n} > f; echo {n} > g")]).go().ok();
            first.push(time(|| with_fresh(&["snapshot", "first"]).go().ok()));
            work(w, name, many() + n);
            last.push(time(|| w.whatif(["snapshot", name]).go().ok()));
        }
        (median(&first), median(&last))
    };
    // Something else on the machine may get in the way of one of them, but not each time.
    let mut measured = Vec::new();
    let is_as_cheap = (0..6).any(|_| {
        let (first, last) = measure();
        measured.push((first, last));
        last <= first * 2
    });
    with_fresh(&["rm", "--all", "--yes"]).go().ok();
    assert!(is_as_cheap, "first and after {} snapshots: {measured:?}", many());
}

fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let since = Instant::now();
    work();
    since.elapsed()
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times[times.len() / 2]
}

/// The place where layers are merged is taken, so the stack grows and grows. (`WHATIF_DEEP=520` for more than the kernel would
/// mount: shortly before that it is merged in any case.)
fn a_stack_as_deep_as_it_gets_still_works(w: &World) {
    let deep = std::env::var("WHATIF_DEEP").ok().and_then(|n| n.parse().ok()).unwrap_or(24);
    let name = w.new_sandbox("s");
    let mut taken = Some(take_the_place(w, &name));
    let mut deepest = 0;
    for n in 0..deep {
        w.exec(&name, &format!("echo {n} > f-{n}; echo {n} > f; [ {n} = 0 ] || rm f-$(({n} - 1))")).ok();
        w.snapshot(&name, &format!("n-{n}"));
        deepest = deepest.max(depth(w, &name));
        taken = taken.filter(|_| deepest < 470);
    }
    drop(taken);
    assert_eq!(deepest, deep.min(deepest.max(470)), "nothing was merged");
    assert!(deepest < 500, "the kernel would not mount {deepest}");
    let expected = format!("f\nf-{last}\n{last}\n", last = deep - 1);
    assert_eq!(w.exec(&name, "ls; cat f").ok().stdout, expected, "{deepest} layers");
    w.whatif(["stop", &name]).go().ok();
    w.whatif(["start", &name]).go().ok();
    assert_eq!(w.exec(&name, "ls; cat f").ok().stdout, expected, "{deepest} layers, started anew");
    let squashed = w.json(["squash", &name]);
    assert!(squashed["after"].as_u64() < squashed["before"].as_u64() || squashed["after"] == 1, "{squashed}");
    assert_eq!(w.exec(&name, "ls; cat f").ok().stdout, expected, "merged");
    w.rollback(&name, "n-1");
    assert_eq!(w.exec(&name, "ls; cat f").ok().stdout, "f\nf-1\n1\n");
}

/// As long as this is held, somebody seems to be merging layers of this sandbox already.
fn take_the_place(w: &World, name: &str) -> File {
    let id = w.json(["show", name])["id"].as_str().expect("it has one").to_owned();
    let place = w.state.join("transient").join(format!("squash-{id}"));
    w.write(place.join("taken"), "");
    let place = File::open(place).expect("it was just made");
    rustix::fs::flock(&place, rustix::fs::FlockOperation::LockExclusive).expect("nobody else has it");
    place
}
