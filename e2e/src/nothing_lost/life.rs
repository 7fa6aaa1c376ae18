//! One life: a reality, its sandboxes, and what happens to them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::edits::{self, Tokens};
use super::laws::Work;
use super::survey::{PROGRAM, Survey};
use crate::{Outcome, Random, World};

/// How the sandboxes of a life see reality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Overlay,
    Fuse,
    Copy,
}

impl Backend {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Overlay => "overlay",
            Self::Fuse => "fuse",
            Self::Copy => "copy",
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Sandbox {
    pub work: Work,
    /// What it had done at its snapshots.
    pub labels: BTreeMap<String, Work>,
    /// What a person does not want of it, as surveys name paths.
    pub rejected: BTreeSet<String>,
    /// Something was left running in it.
    pub is_occupied: bool,
}

/// An apply that can be undone: reality before and after it, and what its sandbox had done then.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub before: Survey,
    pub after: Survey,
    pub work: Work,
}

#[derive(Debug)]
pub struct Life<'a> {
    pub(super) w: &'a World,
    pub(super) random: Random,
    pub(super) backend: Backend,
    pub(super) project: PathBuf,
    pub(super) sandboxes: BTreeMap<String, Sandbox>,
    pub(super) done: Vec<Done>,
    pub(super) made: usize,
    tokens: Tokens,
    seed: u64,
    log: Vec<String>,
}

const MOST_ALIVE: usize = 3;

impl<'a> Life<'a> {
    /// The same life for the same seed, as far as commands are not killed by the clock.
    #[must_use]
    pub fn new(w: &'a World, backend: Backend, seed: u64) -> Self {
        let project = w.home.join(format!("project-{}-{seed}", backend.word()));
        w.mkdir(&project);
        let mut life = Self {
            w,
            random: Random::from(seed),
            backend,
            project,
            sandboxes: BTreeMap::new(),
            done: Vec::new(),
            made: 0,
            tokens: Tokens::default(),
            seed,
            log: Vec::new(),
        };
        let tree = edits::tree(&mut life.random, &mut life.tokens);
        life.prepare(&tree);
        if life.random.once_in(3) {
            life.prepare("git init -q . && git add -A && git -c user.name=n -c user.email=e commit -q -m begin");
        }
        // A tree of another owner's, in which root works.
        if w.is_root() && life.random.once_in(2) {
            life.prepare("chown -R 1000:1000 .");
        }
        life
    }

    pub fn play(mut self, steps: usize) {
        self.make();
        for _ in 0..steps {
            self.step();
        }
        let names: Vec<String> = self.sandboxes.keys().cloned().collect();
        for name in names {
            self.look(&name);
            self.remove(&name);
        }
    }

    fn step(&mut self) {
        if self.sandboxes.is_empty() {
            self.make();
        }
        let names: Vec<String> = self.sandboxes.keys().cloned().collect();
        let name = self.random.pick(&names).clone();
        let has_room = names.len() < MOST_ALIVE;
        match self.random.below(41) {
            0..=6 => self.person(),
            7..=13 => self.edit(&name),
            14..=19 => self.apply(&name),
            20..=21 => self.undo(),
            22..=23 => self.snapshot(&name),
            24 => self.roll_back(&name),
            25 if has_room => self.fork(&name),
            26..=27 => self.rebase(&name),
            28 => self.squash(&name),
            29 => self.quiet(&["gc"]),
            30 => self.quiet(&["stop", &name]),
            31 => self.lose_the_keeper(&name),
            32 => self.occupy(&name),
            33 => self.read(&name),
            34 => self.quiet(&["status", &name]),
            35 => self.quiet(&["diff", &name]),
            36 if has_room => self.carry(&name),
            37 if names.len() > 1 => self.remove(&name),
            38 if has_room => self.make(),
            39 => self.reject(&name),
            _ => self.look(&name),
        }
    }

    fn prepare(&mut self, script: &str) {
        self.note(format!("before that:\n{script}\n"));
        self.outside(script);
    }

    /// Some edits in reality.
    fn person(&mut self) {
        let work = edits::work(&mut self.random, &mut self.tokens, 4);
        self.note(format!("a person:\n{work}"));
        self.outside(&work);
    }

    /// Some edits in a sandbox.
    fn edit(&mut self, name: &str) {
        let work = edits::work(&mut self.random, &mut self.tokens, 5);
        self.note(format!("in {name}:\n{work}"));
        let real = self.reality();
        // Where something stands, fuse-overlayfs shows what it knew of the directory before.
        if self.backend == Backend::Fuse && self.sandboxes.get_mut(name).is_some_and(|s| std::mem::take(&mut s.is_occupied)) {
            self.quiet(&["stop", name]);
        }
        let script = format!("/usr/bin/python3 -ISc \"$0\" && {{ {work}\n}}");
        let outcome = self.exec(name, &["/bin/sh", "-c", &script, PROGRAM]);
        let before = Survey::parse(outcome.text());
        // Over fuse, what was deleted may be found again in a directory that was made again, until it is mounted anew.
        if self.backend == Backend::Fuse && edits::makes_again(&work) {
            self.quiet(&["stop", name]);
        }
        let after = self.view(name);
        if let Some(sandbox) = self.sandboxes.get_mut(name) {
            sandbox.work.note(&before, &after, &real, &edits::tokens_in(&work).collect());
        }
        self.expect_untouched(&real);
    }

    /// What a sandbox shows.
    pub(super) fn view(&mut self, name: &str) -> Survey {
        let outcome = self.exec(name, &["/usr/bin/python3", "-ISc", PROGRAM]);
        Survey::parse(outcome.text())
    }

    /// A command inside. What reality replaced under a live view may be listed and not be there; a fresh view is whole.
    pub(super) fn exec(&mut self, name: &str, command: &[&str]) -> Outcome {
        let arguments = [&["exec", name, "--"], command].concat();
        self.start(name);
        let mut outcome = self.whatif(&arguments);
        if outcome.code != 0 {
            self.quiet(&["stop", name]);
            self.start(name);
            outcome = self.whatif(&arguments);
        }
        self.must_work(&outcome);
        outcome
    }

    pub(super) fn reality(&self) -> Survey {
        let outcome = self.w.program("/usr/bin/python3").args(["-ISc", PROGRAM]).cwd(&self.project).go();
        assert_eq!(outcome.code, 0, "{}\n{}", outcome.stderr, self.context());
        Survey::parse(outcome.text())
    }

    pub(super) fn work_of(&self, name: &str) -> Work {
        self.sandboxes.get(name).map(|s| s.work.clone()).unwrap_or_default()
    }

    pub(super) fn fresh_name(&mut self, word: &str) -> String {
        self.made += 1;
        format!("{word}-{}", self.made)
    }

    pub(super) fn whatif(&mut self, arguments: &[&str]) -> Outcome {
        let shown: Vec<&str> = arguments.iter().copied().filter(|a| !a.contains('\n')).collect();
        self.note(shown.join(" "));
        let outcome = self.w.whatif(arguments.iter().copied()).cwd(&self.project).go();
        self.note(format!("  → {}", outcome.code));
        outcome
    }

    fn outside(&self, script: &str) {
        self.w.program("/bin/sh").args(["-c", script]).cwd(&self.project).go();
    }

    pub(super) fn note(&mut self, line: String) {
        self.log.push(line);
    }

    #[track_caller]
    pub(super) fn must_work(&self, outcome: &Outcome) {
        assert_eq!(outcome.code, 0, "{}\n{}", outcome.stderr, self.context());
    }

    #[track_caller]
    pub(super) fn expect(&self, complaints: Vec<String>) {
        assert!(complaints.is_empty(), "{}\n{}", complaints.join("\n"), self.context());
    }

    #[track_caller]
    pub(super) fn expect_untouched(&self, before: &Survey) {
        self.expect(super::laws::untouched(before, &self.reality()));
    }

    fn context(&self) -> String {
        format!("seed {}, {:?}, {:?}, after\n{}", self.seed, self.backend, self.w.who, self.log.join("\n"))
    }
}
