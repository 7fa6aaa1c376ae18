//! Random histories of up to three sandboxes beside a model that keeps a full copy of everything: after every step each sandbox
//! is what its copy is, and in the end so is every snapshot.
//!
//! 2 rounds of 30 steps for each identity; `WHATIF_RANDOM=1000` for more rounds, `WHATIF_SEED=7` for one in particular,
//! `WHATIF_STEPS=200` for longer ones.

use std::collections::BTreeMap;
use std::path::PathBuf;

use whatif_e2e::{Random, World, as_root_and_user, edits, eventually, needs};

as_root_and_user!(whatever_happens_every_sandbox_is_what_it_should_be);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|n| n.parse().ok())
}

fn whatever_happens_every_sandbox_is_what_it_should_be(w: &World) {
    needs!(w, "setfattr");
    let seeds = number("WHATIF_SEED").map_or_else(|| 1..=number("WHATIF_RANDOM").unwrap_or(2), |seed| seed..=seed);
    for seed in seeds {
        History::new(w, seed).play(number("WHATIF_STEPS").unwrap_or(30));
    }
}

const MOST_ALIVE: usize = 3;

struct Model {
    is_running: bool,
    /// Its snapshots, by label.
    labels: Vec<String>,
}

struct History<'a> {
    w: &'a World,
    random: Random,
    seed: u64,
    project: PathBuf,
    sandboxes: BTreeMap<String, Model>,
    made: usize,
    log: Vec<String>,
}

impl<'a> History<'a> {
    fn new(w: &'a World, seed: u64) -> Self {
        let project = w.home.join(format!("project-{seed}"));
        w.mkdir(&project);
        let mut random = Random::from(seed);
        // One level down: some links lead one level up, and what is done by them must be seen, too.
        let tree = format!("mkdir work; cd work || exit\n{}", edits::tree(&mut random));
        w.program("/bin/sh").args(["-c", &tree]).cwd(&project).go();
        w.mkdir(&w.dir.join("model"));
        Self { w, random, seed, project, sandboxes: BTreeMap::new(), made: 0, log: Vec::new() }
    }

    fn play(mut self, steps: u64) {
        self.make();
        for _ in 0..steps {
            self.step();
        }
        let all: Vec<(String, Vec<String>)> = self.sandboxes.iter().map(|(n, m)| (n.clone(), m.labels.clone())).collect();
        for (name, labels) in all {
            self.compare(&name);
            for label in labels {
                let snapshot = format!("{name}@{label}");
                let listing = self.w.listing_of(&snapshot);
                listing.assert_is(&self.copy_of(&snapshot), &self.context(&snapshot));
            }
        }
        self.whatif(&["rm", "--all", "--yes"]);
        self.whatif(&["gc"]);
        let layers = || std::fs::read_dir(self.w.layers()).map_or(0, Iterator::count);
        eventually(&self.context("layers without a sandbox"), || layers() == 0);
        self.shell("rm -rf model/*");
    }

    fn step(&mut self) {
        let names: Vec<String> = self.sandboxes.keys().cloned().collect();
        let name = self.random.pick(&names).clone();
        match self.random.below(30) {
            0..=8 => self.edit(&name),
            9..=13 => self.snapshot(&name),
            14..=17 => self.roll_back(&name),
            18..=20 if names.len() < MOST_ALIVE => self.fork(&name),
            21 if names.len() > 1 => self.remove(&name),
            22 => self.forget(&name),
            23 => self.say(&["gc"]),
            24 => self.say(&["squash", &name]),
            25 => self.stop(&name),
            26 => self.lose_the_keeper(&name),
            27 => self.occupy(&name),
            28 if names.len() < MOST_ALIVE => self.make(),
            _ => self.start(&name),
        }
        let names: Vec<String> = self.sandboxes.iter().filter(|(_, m)| m.is_running).map(|(n, _)| n.clone()).collect();
        if names.contains(&name) {
            self.compare(&name);
        } else if let Some(other) = names.first() {
            self.compare(&other.clone());
        }
    }

    fn make(&mut self) {
        let name = self.fresh_name("new");
        self.say(&["new", &name]);
        self.shell(&format!("cp -a {} model/{name}", self.project.display()));
        self.sandboxes.insert(name, Model { is_running: true, labels: Vec::new() });
    }

    fn edit(&mut self, name: &str) {
        self.start(name);
        let work = format!("cd work || exit\n{}", edits::work(&mut self.random));
        self.log.push(format!("in {name}:\n{work}"));
        self.whatif(&["exec", name, "--", "/bin/sh", "-c", &work]);
        self.w.program("/bin/sh").args(["-c", &work]).cwd(&self.w.dir.join("model").join(name)).go();
    }

    fn snapshot(&mut self, name: &str) {
        let label = self.fresh_name("l");
        self.say(&["snapshot", name, &label]);
        self.keep_copy(name, &format!("{name}@{label}"));
        if let Some(model) = self.sandboxes.get_mut(name) {
            model.labels.push(label);
        }
    }

    fn roll_back(&mut self, name: &str) {
        let Some(label) = self.label(name) else { return };
        self.log.push(format!("rollback {name} {label}"));
        let done = self.w.whatif(["--json", "rollback", name, &label]).cwd(&self.project).go().ok().json();
        if let (Some(before), Some(model)) = (done["before"]["label"].as_str(), self.sandboxes.get_mut(name)) {
            model.labels.push(before.to_owned());
            self.keep_copy(name, &format!("{name}@{before}"));
        }
        self.keep_copy(&format!("{name}@{label}"), name);
    }

    fn fork(&mut self, name: &str) {
        let new = self.fresh_name("fork");
        let source = match self.label(name) {
            Some(label) if self.random.once_in(2) => format!("{name}@{label}"),
            _ => name.to_owned(),
        };
        self.say(&["fork", &source, &new]);
        self.keep_copy(&source, &new);
        self.sandboxes.insert(new, Model { is_running: false, labels: Vec::new() });
    }

    fn remove(&mut self, name: &str) {
        self.say(&["rm", name]);
        self.sandboxes.remove(name);
    }

    fn forget(&mut self, name: &str) {
        let Some(label) = self.label(name) else { return };
        self.say(&["snapshot", "rm", &format!("{name}@{label}")]);
        if let Some(model) = self.sandboxes.get_mut(name) {
            model.labels.retain(|l| *l != label);
        }
    }

    fn stop(&mut self, name: &str) {
        self.say(&["stop", name]);
        self.set_running(name, false);
    }

    fn start(&mut self, name: &str) {
        self.say(&["start", name]);
        self.set_running(name, true);
    }

    fn lose_the_keeper(&mut self, name: &str) {
        self.log.push(format!("kill -9 the keeper of {name}"));
        self.w.kill_keeper(name);
        self.set_running(name, false);
    }

    /// From now on its snapshots are copies.
    fn occupy(&mut self, name: &str) {
        self.start(name);
        self.say(&["exec", name, "-d", "--", "sleep", "1000"]);
    }

    fn set_running(&mut self, name: &str, is_running: bool) {
        if let Some(model) = self.sandboxes.get_mut(name) {
            model.is_running = is_running;
        }
    }

    fn label(&mut self, name: &str) -> Option<String> {
        let labels = self.sandboxes.get(name)?.labels.clone();
        (!labels.is_empty()).then(|| self.random.pick(&labels).clone())
    }

    fn fresh_name(&mut self, word: &str) -> String {
        self.made += 1;
        format!("{word}-{}", self.made)
    }

    #[track_caller]
    fn compare(&mut self, name: &str) {
        self.start(name);
        let call = self.w.whatif(["exec", name, "--", "/usr/bin/python3", "-ISc", whatif_e2e::LISTING]).cwd(&self.project);
        let listing = whatif_e2e::Listing::parse(call.go().ok().json());
        listing.assert_is(&self.copy_of(name), &self.context(name));
    }

    fn copy_of(&self, name: &str) -> whatif_e2e::Listing {
        let call = self.w.program("/usr/bin/python3").args(["-ISc", whatif_e2e::LISTING]).cwd(&self.w.dir.join("model").join(name));
        whatif_e2e::Listing::parse(call.go().ok().json())
    }

    fn keep_copy(&self, from: &str, to: &str) {
        self.shell(&format!("rm -rf model/{to}; cp -a model/{from} model/{to}"));
    }

    #[track_caller]
    fn say(&mut self, arguments: &[&str]) {
        self.log.push(arguments.join(" "));
        self.whatif(arguments);
    }

    #[track_caller]
    fn whatif(&self, arguments: &[&str]) {
        let outcome = self.w.whatif(arguments.iter().copied()).cwd(&self.project).go();
        assert_eq!(outcome.code, 0, "{}\n{}", outcome.stderr, self.context("a command failed"));
    }

    #[track_caller]
    fn shell(&self, script: &str) {
        self.w.program("/bin/sh").args(["-c", script]).cwd(&self.w.dir).go().ok();
    }

    fn context(&self, what: &str) -> String {
        format!("seed {}, {what}, after\n{}", self.seed, self.log.join("\n"))
    }
}
