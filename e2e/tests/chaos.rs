//! Many processes with random verbs over the same sandboxes, all at once, those that only look among them: every command that ran
//! says so, every error has a cause and a next step, and nothing is left in the end. Beside them a program of the host, which has
//! nothing to do with sandboxes, works on.
//!
//! `WHATIF_CHAOS=600` for that many seconds, with 20 processes over 300 sandboxes; `WHATIF_SEED=7` for other verbs.

#![allow(clippy::print_stdout, reason = "figures are its result")]

mod bystander;
mod verbs;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use whatif_e2e::{Outcome, Random, World, as_root_and_user, needs};

use self::bystander::Bystander;
use self::verbs::{Verb, complaint};

as_root_and_user!(whatever_happens_at_once_is_told_and_cleaned_up);

/// How much of it.
struct Measure {
    time: Duration,
    processes: u64,
    sandboxes: usize,
    /// Whether it takes long enough to compare what the host's program took.
    is_long: bool,
}

impl Measure {
    fn wanted() -> Self {
        let seconds = std::env::var("WHATIF_CHAOS").ok().and_then(|n| n.parse().ok());
        match seconds {
            Some(seconds) => Self { time: Duration::from_secs(seconds), processes: 20, sandboxes: 300, is_long: true },
            None => Self { time: Duration::from_secs(6), processes: 6, sandboxes: 8, is_long: false },
        }
    }
}

/// What came of all commands.
#[derive(Default)]
struct Seen {
    commands: usize,
    ends: BTreeMap<String, usize>,
    complaints: Vec<String>,
}

impl Seen {
    fn note(&mut self, w: &World, verb: &Verb, outcome: &Outcome) {
        self.commands += 1;
        *self.ends.entry(format!("{} {}", verb.name(), verb.end(outcome))).or_default() += 1;
        self.complaints.extend(complaint(w, verb, outcome));
    }
}

fn whatever_happens_at_once_is_told_and_cleaned_up(w: &World) {
    needs!(w, "python3");
    let measure = Measure::wanted();
    let seed = std::env::var("WHATIF_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for file in 0..40 {
        w.write(format!("dir{}/file{file}", file % 4), "one\ntwo\nthree\nfour\nfive\nsix\nseven\n");
    }
    // What is made once and stays, as the records do, is there before the first count.
    w.whatif(["run", "--rm", "--quiet", "--", "true"]).go().ok();
    w.assert_nothing_left();
    let before = w.inventory();

    let mut bystander = Bystander::beside(w);
    let alone = bystander.works_for(Duration::from_secs(if measure.is_long { 10 } else { 1 }));
    let begun = Instant::now();
    let seen = Mutex::new(Seen::default());
    std::thread::scope(|scope| {
        for process in 0..measure.processes {
            let (seen, measure) = (&seen, &measure);
            scope.spawn(move || {
                let mut random = Random::from(seed * 1000 + process);
                while begun.elapsed() < measure.time {
                    let verb = Verb::random(w, &mut random, measure.sandboxes);
                    let outcome = verb.go(w);
                    seen.lock().expect("no other thread panicked").note(w, &verb, &outcome);
                }
            });
        }
    });
    let accompanied = bystander.end();

    let Seen { commands, ends, complaints } = seen.into_inner().expect("no thread panicked");
    println!("{commands} commands in {:?}: {ends:#?}", begun.elapsed());
    println!("host alone: {alone:?}\nwith chaos: {accompanied:?}");
    w.whatif(["rm", "--all", "--yes"]).go().ok();
    w.whatif(["gc"]).go().ok();
    assert!(complaints.is_empty(), "{} complaints with seed {seed}:\n{}", complaints.len(), complaints.join("\n\n"));
    assert_eq!(accompanied.failures, Vec::<String>::new(), "a program of the host failed");
    if measure.is_long {
        accompanied.assert_at_most(3.0, &alone);
    }
    // What was applied and undone is kept, to be taken back; everything else is as it was.
    let state = w.state.display();
    w.outside(&format!("rm -rf '{state}/applies' '{state}/undone'")).ok();
    w.assert_inventory_is(&before, &format!("after {commands} commands with seed {seed}"));
}
