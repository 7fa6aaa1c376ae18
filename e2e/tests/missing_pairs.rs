//! Two parts of the state directory are missing, cut short or of another version at once: every command ends in an error that says
//! so, or in the full truth. Nothing that was left is deleted, and reality is not touched by halves.
//!
//! By default a few pairs are tried; `WHATIF_SWEEP=full` tries every pair with every kind of damage, and `WHATIF_PAIR` one of them
//! as a failure prints it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use whatif_e2e::{Outcome, World, as_root_and_user, eventually, needs, wait_for};

as_root_and_user!(pairs_of_damaged_parts_lose_nothing);

/// How many pairs each user tries by default.
const SAMPLE: usize = 9;
/// How long something may not be found before it is lost.
const SEARCHED: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Database,
    Sandbox,
    Head,
    Layer,
    LayerNote,
    Base,
    Journal,
    UndoData,
    Pool,
    Template,
    Archive,
}

const PARTS: [Part; 11] = [
    Part::Database,
    Part::Sandbox,
    Part::Head,
    Part::Layer,
    Part::LayerNote,
    Part::Base,
    Part::Journal,
    Part::UndoData,
    Part::Pool,
    Part::Template,
    Part::Archive,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    Missing,
    Emptied,
    CutShort,
    /// Of another version, or something else altogether.
    Foreign,
}

const DAMAGES: [Damage; 4] = [Damage::Missing, Damage::Emptied, Damage::CutShort, Damage::Foreign];

type Hit = (Part, Damage);

fn pairs_of_damaged_parts_lose_nothing(w: &World) {
    needs!(w, "setfattr", "python3");
    let scene = Scene::made(w);
    let failures: Vec<String> = chosen(w.is_root()).into_iter().filter_map(|pair| scene.play(pair)).collect();
    assert!(failures.is_empty(), "{} pairs went wrong\n{}", failures.len(), failures.join("\n\n"));
}

/// Every part is hit by default, and with each kind of damage; the two users try other pairs.
fn chosen(is_root: bool) -> Vec<(Hit, Hit)> {
    let mut all = Vec::new();
    for (index, first) in PARTS.iter().enumerate() {
        for second in &PARTS[index + 1..] {
            for damage in DAMAGES {
                all.extend(DAMAGES.map(|other| ((*first, damage), (*second, other))));
            }
        }
    }
    if let Ok(wanted) = std::env::var("WHATIF_PAIR") {
        return all.into_iter().filter(|pair| format!("{pair:?}") == wanted).collect();
    }
    if std::env::var("WHATIF_SWEEP").is_ok_and(|s| s == "full") {
        return all;
    }
    let stride = all.len() / SAMPLE;
    // The first once lost all snapshots, the second was taken for an empty layer, the third for one that never had more.
    let worst = [
        ((Part::Database, Damage::Missing), (Part::Sandbox, Damage::Missing)),
        ((Part::Layer, Damage::Emptied), (Part::LayerNote, Damage::Emptied)),
        ((Part::Layer, Damage::CutShort), (Part::LayerNote, Damage::Missing)),
    ];
    // No divisor of the number of damages, so that they take turns.
    all.into_iter().skip(if is_root { 5 } else { stride / 2 }).step_by(stride | 1).chain(worst).collect()
}

/// A state directory with everything in it, and what it was before it was damaged.
struct Scene<'w> {
    w: &'w World,
    saved: PathBuf,
    project: PathBuf,
    id: String,
    layer: PathBuf,
    /// The directory of a layer that has the project's files.
    part: String,
    /// What the sandbox changed.
    truth: String,
}

impl<'w> Scene<'w> {
    fn made(w: &'w World) -> Self {
        w.outside("echo real > kept; echo real > changed; echo real > gone").ok();
        w.sandbox_with("first", "echo precious-applied > changed");
        w.whatif(["apply", "first", "--yes"]).go().ok();
        // A sandbox that no record knows would keep the layers of others.
        w.whatif(["rm", "first", "--yes"]).go().ok();
        w.new_sandbox("s");
        w.exec("s", "echo precious-one > one; echo precious-change > changed").ok();
        w.whatif(["snapshot", "s", "one"]).go().ok();
        w.exec("s", "echo precious-two > two; rm gone").ok();
        w.whatif(["snapshot", "s", "two"]).go().ok();
        w.whatif(["template", "save", "s", "t"]).go().ok();
        w.exec("s", "echo precious-three > three").ok();
        w.whatif(["stop", "s"]).go().ok();
        w.whatif(["export", "--force", "s@two", "--output", "../archive"]).go().ok();
        w.configure("[pool]\nsize = 1\n");
        w.whatif(["pool", "fill"]).go().ok();
        let shown = w.json(["show", "s"]);
        let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
        let layer = w.state.join("layers").join(text(&shown["details"]["position"]["stack"][0]));
        let trees = shown["details"]["trees"].as_array().expect("trees");
        let is_around = |tree: &&serde_json::Value| w.project.starts_with(tree.as_str().unwrap_or_default());
        let nearest = trees.iter().filter(is_around).max_by_key(|tree| tree.as_str().map(str::len));
        let part = trees.iter().position(|tree| Some(tree) == nearest).expect("the project is in a tree").to_string();
        let truth = w.whatif(["diff", "s", "--name-only"]).go().ok().stdout;
        assert_eq!(truth, "changed\ngone\none\nthree\ntwo\n");
        // All records in the database itself, not in its log. The pool's keeper is gone in the copy, as after a reboot.
        w.whatif(["tidy"]).go().ok();
        let (saved, project) = (w.dir.join("saved"), w.dir.join("saved-project"));
        // The kernel's own directories are closed to everybody.
        let save = "chmod -R u+rwX \"$0\" && cp -a \"$0\" \"$1\" && cp -a \"$2\" \"$3\"";
        w.program("/bin/sh").args(["-c", save]).args([&w.state, &saved, &w.project, &project]).go().ok();
        w.whatif(["pool", "drain"]).go().ok();
        w.configure("");
        Self { w, saved, project, id: text(&shown["id"]), layer, part, truth }
    }

    /// What went wrong with a pair.
    fn play(&self, pair: (Hit, Hit)) -> Option<String> {
        self.restore();
        self.damage(pair.0);
        self.damage(pair.1);
        let precious = self.precious();
        let mut wrong = Vec::new();
        for arguments in COMMANDS {
            let outcome = self.w.whatif(arguments.split(' ')).go();
            let found = self.judge(arguments, &outcome).or_else(|| self.lost(&precious));
            wrong.extend(found.map(|what| format!("  {arguments}: {what}\n{}{}", outcome.stdout, outcome.stderr)));
            if ["undo", "apply"].contains(&arguments.split(' ').next().unwrap_or_default()) {
                // What comes next starts from the same reality, whatever it did.
                self.restore_project();
            }
        }
        (!wrong.is_empty()).then(|| format!("{pair:?}\n{}", wrong.join("\n")))
    }

    /// What is nowhere any more. A search that meets a directory while it is deleted in the background may end early.
    fn lost(&self, precious: &BTreeSet<String>) -> Option<String> {
        let mut lost = Vec::new();
        let is_there = || {
            lost = precious.difference(&self.precious()).cloned().collect();
            lost.is_empty().then_some(())
        };
        let found = wait_for(SEARCHED, is_there);
        found.is_none().then(|| format!("lost {lost:?}"))
    }

    fn restore(&self) {
        // A sandbox that could be started and not be stopped any more would be in the way of the next.
        eventually("nothing of it runs", || {
            let running = self.w.own_process_ids();
            for pid in &running {
                self.w.outside(&format!("kill -9 {pid}"));
            }
            running.is_empty()
        });
        let state = self.w.state.display();
        self.w.outside(&format!("chmod -R u+rwx {state}; rm -rf {state}; cp -a {} {state}", self.saved.display())).ok();
        self.w.outside(&format!("cp -a {}/../archive {state}/archive", self.w.project.display())).ok();
        self.restore_project();
    }

    fn restore_project(&self) {
        self.w.outside(&format!("rm -rf ./* && cp -a {}/. .", self.project.display())).ok();
    }

    fn damage(&self, (part, damage): Hit) {
        let sandbox = self.w.state.join("sandboxes").join(&self.id);
        match part {
            Part::Database => self.damage_database(damage),
            Part::Sandbox => self.damage_directory(&sandbox, "head", damage),
            Part::Head => self.damage_directory(&sandbox.join("head"), &self.part, damage),
            Part::Layer => self.damage_directory(&self.layer, &self.part, damage),
            Part::LayerNote => self.damage_note(damage),
            Part::Base => self.damage_file(&sandbox.join("base/index"), damage),
            Part::Journal => self.damage_file(&self.apply().join("journal"), damage),
            Part::UndoData => self.damage_directory(&self.apply().join("old"), "0", damage),
            Part::Pool => self.find("pool", "ready.json").iter().for_each(|path| self.damage_file(path, damage)),
            Part::Template => self.damage_file(&self.w.state.join("templates/t.json"), damage),
            Part::Archive => self.damage_file(&self.w.state.join("archive"), damage),
        }
    }

    fn apply(&self) -> PathBuf {
        let mut applies = fs::read_dir(self.w.state.join("applies")).expect("there was an apply").filter_map(Result::ok);
        applies.next().expect("there was an apply").path()
    }

    fn find(&self, under: &str, name: &str) -> Vec<PathBuf> {
        let found = self.w.outside(&format!("find {}/{under} -name {name}", self.w.state.display())).stdout;
        found.lines().map(PathBuf::from).collect()
    }

    fn damage_database(&self, damage: Damage) {
        let path = self.w.state.join("state.db");
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(self.w.state.join(format!("state.db{suffix}")));
        }
        match damage {
            // Where the format's version is.
            Damage::Foreign => {
                self.run(&format!("printf '\\143' | dd of={} bs=1 seek=63 conv=notrunc status=none", path.display()))
            }
            _ => self.damage_file(&path, damage),
        }
    }

    fn damage_file(&self, path: &Path, damage: Damage) {
        // The other part of the pair may have taken it along.
        let Ok(metadata) = fs::symlink_metadata(path) else { return };
        let shown = path.display();
        match damage {
            Damage::Missing => self.run(&format!("rm -f {shown}")),
            Damage::Emptied => self.run(&format!(": > {shown}")),
            Damage::CutShort => self.run(&format!("truncate -s {} {shown}", metadata.len() / 2)),
            Damage::Foreign => self.run(&format!("echo '{{\"version\":99}}' > {shown}")),
        }
    }

    /// Cut short, a directory lacks one of those in it; in the place of it, a file.
    fn damage_directory(&self, path: &Path, one: &str, damage: Damage) {
        if fs::symlink_metadata(path).is_err() {
            return;
        }
        let shown = path.display();
        self.run(&format!("chmod -R u+rwx {shown}"));
        match damage {
            Damage::Missing => self.run(&format!("rm -rf {shown}")),
            Damage::Emptied => self.run(&format!("rm -rf {shown}; mkdir -m 700 {shown}")),
            Damage::CutShort => self.run(&format!("rm -rf {shown}/{one}")),
            Damage::Foreign => self.run(&format!("rm -rf {shown}; echo other > {shown}")),
        }
    }

    fn damage_note(&self, damage: Damage) {
        let layer = self.layer.display();
        for name in ["user.whatif.parts", "user.whatif.layer"] {
            match damage {
                Damage::Missing => self.w.outside(&format!("setfattr -x {name} {layer}")),
                Damage::Emptied => self.w.outside(&format!("setfattr -n {name} -v '' {layer}")),
                Damage::CutShort => self.w.outside(&format!("setfattr -n {name} -v '{{\"sandb' {layer}")),
                Damage::Foreign => self.w.outside(&format!("setfattr -n {name} -v '{{\"version\":99}}' {layer}")),
            };
        }
    }

    fn run(&self, script: &str) {
        self.w.outside(script).ok();
    }

    /// What was written inside and is still somewhere, in reality or in the state directory.
    fn precious(&self) -> BTreeSet<String> {
        let places = format!("{} {}", self.w.state.display(), self.w.project.display());
        let find = format!("grep -rhoaE '^precious-[a-z]+$' {places} 2>/dev/null | sort -u");
        self.w.outside(&find).stdout.lines().map(str::to_owned).collect()
    }

    /// What is wrong with how a command ended.
    fn judge(&self, arguments: &str, outcome: &Outcome) -> Option<String> {
        if outcome.stderr.contains("panicked") || outcome.code < 0 || outcome.code == 101 {
            return Some(format!("crashed ({})", outcome.code));
        }
        let reality = self.reality();
        let is_whole = [BEFORE, UNDONE, APPLIED].contains(&reality.as_str());
        if !is_whole || (outcome.code != 0 && reality != BEFORE) {
            return Some(format!("left reality as {reality:?}"));
        }
        if outcome.code != 0 {
            let says_why = outcome.stderr.lines().any(|line| line.len() > 15) || arguments == "doctor";
            return (!says_why).then(|| format!("failed without a word ({})", outcome.code));
        }
        let shows = |expected: &str| (outcome.stdout != expected).then(|| format!("shows something else than {expected:?}"));
        match arguments {
            "ls" => {
                let names_it = outcome.stdout.lines().any(|line| line.starts_with("s ")) || outcome.stderr.contains("record");
                (!names_it).then(|| "does not name the sandbox".to_owned())
            }
            "diff s --name-only" | "diff f --name-only" => shows(&self.truth),
            "exec s -- cat one two three changed" => shows("precious-one\nprecious-two\nprecious-three\nprecious-change\n"),
            "diff imp --name-only" => shows("changed\ngone\none\ntwo\n"),
            "run --rm --quiet --template t -- cat one two" => shows("precious-one\nprecious-two\n"),
            "diff s@one --name-only" => shows("changed\none\n"),
            _ => None,
        }
    }

    fn reality(&self) -> String {
        self.w.outside("for f in *; do echo \"$f=$(cat $f)\"; done | tr '\\n' ' '").ok().stdout
    }
}

/// In this order, each on what the ones before it left.
const COMMANDS: [&str; 23] = [
    "ls",
    "doctor",
    "status s",
    "diff s --name-only",
    "gc --dry-run",
    "gc",
    "show s",
    "pool",
    "export s --output /dev/null",
    "fork s f",
    "diff f --name-only",
    "import ../../state/archive --name imp",
    "diff imp --name-only",
    "run --rm --quiet --template t -- cat one two",
    "start s",
    "exec s -- cat one two three changed",
    "snapshot s three",
    "stop s",
    "undo --yes",
    "gc",
    "apply f --yes",
    "rollback s one",
    "diff s@one --name-only",
];

const BEFORE: &str = "changed=precious-applied gone=real kept=real ";
const UNDONE: &str = "changed=real gone=real kept=real ";
const APPLIED: &str = "changed=precious-change kept=real one=precious-one three=precious-three two=precious-two ";
