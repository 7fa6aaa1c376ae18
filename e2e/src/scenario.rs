//! One case of `scenarios/`: a tree, what a sandbox made of it, what happened to it meanwhile, what was decided, and what it
//! must be in the end.

mod decisions;
mod transform;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use self::decisions::{Decision, Decisions, Expected, Outcome, Step};
use crate::{Detail, Tree, World};

/// A directory of `scenarios/`.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: String,
    source: PathBuf,
}

impl Scenario {
    /// All of them, or those whose names contain `$WHATIF_SCENARIO`.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let wanted = std::env::var("WHATIF_SCENARIO").unwrap_or_default();
        let entries = fs::read_dir(&directory).expect("the scenarios are there").filter_map(Result::ok).map(|e| e.path());
        let named = |source: PathBuf| Self { name: source.file_name().unwrap_or_default().to_string_lossy().into_owned(), source };
        let mut all: Vec<Self> = entries.filter(|p| p.is_dir()).map(named).filter(|s| s.name.contains(&wanted)).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Plays it in a world it may share with others, with one way of copy-on-write. Panics unless everything is as it must be.
    pub fn play(&self, world: &World, backend: &str) {
        let case = Case::set_up(self, world, backend);
        case.run_the_sandbox();
        case.move_reality();
        let before_the_last = case.decide();
        case.check_the_result();
        if let Some(before) = before_the_last {
            case.undo(&before);
        }
    }
}

static ROOM: Mutex<()> = Mutex::new(());

/// A scenario with its trees made real.
struct Case<'a> {
    scenario: &'a Scenario,
    world: &'a World,
    backend: &'a str,
    /// The sandbox's.
    name: String,
    decisions: Decisions,
    project: PathBuf,
    /// What the trees must look like, apart from the project.
    models: PathBuf,
}

impl<'a> Case<'a> {
    fn set_up(scenario: &'a Scenario, world: &'a World, backend: &'a str) -> Self {
        let text = fs::read_to_string(scenario.source.join("decisions")).unwrap_or_default();
        let name = format!("{}.{backend}", scenario.name);
        let case = Self {
            scenario,
            world,
            backend,
            decisions: Decisions::parse(&text),
            project: world.home.join("cases").join(&name).join("project"),
            models: world.dir.join("models").join(&name),
            name,
        };
        for directory in [case.project.parent().expect("it lies in one"), &case.models] {
            // A neighbour may be making the one around it at this moment.
            let _one_at_a_time = ROOM.lock().unwrap_or_else(PoisonError::into_inner);
            world.mkdir(directory);
        }
        if scenario.source.join("base").is_dir() {
            transform::copy(&scenario.source.join("base"), &case.project, world.uid());
        } else {
            world.mkdir(&case.project);
        }
        case.shell(&case.project, case.script("base"));
        case.model("base", &case.project);
        case.model("sandbox", &case.models.join("base"));
        case.model("reality", &case.models.join("base"));
        let outcome = if case.decisions.outcome == Outcome::Sandbox { "sandbox" } else { "reality" };
        case.model("expected", &case.models.join(outcome));
        case
    }

    /// The scenario's own directory, or else a copy of another tree; then its script, if it has one.
    fn model(&self, name: &str, otherwise: &Path) {
        let (source, model) = (self.scenario.source.join(name), self.models.join(name));
        if name != "base" && source.is_dir() {
            transform::copy(&source, &model, self.world.uid());
        } else {
            self.world.program("/bin/cp").args(["-a", "--"]).args([otherwise, &model]).go().ok();
        }
        if name != "base" {
            self.shell(&model, self.script(name));
        }
    }

    /// Turns the base into the sandbox's tree, inside.
    fn run_the_sandbox(&self) {
        let script = self.becoming("sandbox", self.decisions.replaces);
        let run = ["run", "--keep", "--quiet", "--name", &self.name, "--backend", self.backend, "--", "/bin/sh", "-eu", "-c"];
        self.world.whatif(run).args([script]).cwd(&self.project).go().ok();
    }

    fn move_reality(&self) {
        self.shell(&self.project, self.becoming("reality", false));
    }

    /// Goes through the decisions. Returns what was there before the last one, if that was an apply that wrote something.
    fn decide(&self) -> Option<Tree> {
        let mut before_the_last = None;
        for decision in &self.decisions.all {
            let before = Tree::of(&self.project, Detail::Times);
            self.take(decision, &before);
            let wrote = Tree::of(&self.project, Detail::Times) != before;
            before_the_last = (wrote && matches!(decision.step, Step::Apply(_))).then_some(before);
        }
        before_the_last
    }

    fn take(&self, decision: &Decision, before: &Tree) {
        let name = &self.name;
        let outcome = match &decision.step {
            Step::Apply(arguments) => self.whatif(&format!("apply {name} --yes {arguments}")),
            Step::Undo(arguments) => self.whatif(&format!("undo --yes {arguments}")),
            Step::InReality(command) => self.world.program("/bin/sh").args(["-eu", "-c", command]).cwd(&self.project).go(),
            Step::InSandbox(command) => {
                self.world.whatif(["exec", name, "--", "/bin/sh", "-eu", "-c", command]).cwd(&self.project).go()
            }
        };
        let said = format!("{}\n{}", outcome.stdout, outcome.stderr);
        match &decision.expected {
            Expected::Success => drop(outcome.ok()),
            Expected::Conflict(paths) => {
                outcome.exits(1);
                assert!(said.to_lowercase().contains("conflict"), "no word of a conflict: {said}");
                paths.iter().for_each(|path| assert!(said.contains(path), "{path} is not named: {said}"));
                self.now(Detail::Times).assert_is(before, "a conflict, and yet something was written");
            }
            Expected::Refusal => {
                assert!([1, 2, 125].contains(&outcome.code), "not refused: {said}");
                self.now(Detail::Times).assert_is(before, "refused, and yet something was written");
            }
        }
        decision.says.iter().for_each(|text| assert!(said.contains(text), "'{text}' is not said: {said}"));
    }

    fn check_the_result(&self) {
        let expected = Tree::of(&self.models.join("expected"), Detail::Content);
        self.now(Detail::Content).assert_is(&expected, "the project is not as expected");
        self.shell(&self.project, self.script("check"));
    }

    /// Whatever was applied can be undone, to the last detail.
    fn undo(&self, before: &Tree) {
        self.whatif("undo --yes").ok();
        self.now(Detail::Times).assert_is(before, "undone, the project is not what it was");
    }

    fn now(&self, detail: Detail) -> Tree {
        Tree::of(&self.project, detail)
    }

    /// Arguments as in a shell, so that they can be quoted, but without its globs, which are whatif's here.
    fn whatif(&self, arguments: &str) -> crate::Outcome {
        let script = format!("exec \"$0\" {arguments}");
        self.world.program("/bin/sh").args(["-fc", &script]).args([&self.world.bin]).cwd(&self.project).go()
    }

    /// A script that turns the base into another tree, and then does what that tree's own script does.
    fn becoming(&self, name: &str, replaces: bool) -> OsString {
        let (source, wanted) = (self.scenario.source.join(name), self.models.join(format!("{name}-without-script")));
        let mut script = OsString::from("umask 022\n");
        if source.is_dir() {
            // A copy, because the checkout may be out of the ordinary user's sight.
            transform::copy(&source, &wanted, self.world.uid());
            script.push(transform::script(&self.models.join("base"), &wanted, replaces));
        }
        script.push(self.script(name));
        script
    }

    fn script(&self, name: &str) -> OsString {
        fs::read_to_string(self.scenario.source.join(format!("{name}.sh"))).unwrap_or_default().into()
    }

    fn shell(&self, directory: &Path, script: OsString) {
        if !script.is_empty() {
            let mut all = OsString::from("umask 022\n");
            all.push(script);
            self.world.program("/bin/sh").args(["-eu", "-c"]).args([all]).cwd(directory).go().ok();
        }
    }
}
