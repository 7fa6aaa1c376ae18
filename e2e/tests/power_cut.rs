//! What a power cut leaves, at any moment of a story with every verb in it: nothing that was reported is lost, nothing that was on
//! the disk before is lost, reality is before or after, and `gc` deletes nothing that is needed.
//!
//! `WHATIF_CUTS=N` tries N more moments, at random, on each file system; `WHATIF_CUTS_SEED` chooses them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use whatif_e2e::power_cut::{self, Cut, Device, Disk, Event, FileSystem, Survivors};
use whatif_e2e::{Call, Outcome, Random, Who, World, skip};

#[test]
fn on_ext4_as_root() {
    story_survives(Who::Root, FileSystem::Ext4, |w| play(w, FileSystem::Ext4, "overlay"));
}

#[test]
fn on_ext4_as_user() {
    story_survives(Who::User, FileSystem::Ext4, |w| play(w, FileSystem::Ext4, "overlay"));
}

#[test]
fn of_copies_on_ext4() {
    story_survives(Who::User, FileSystem::Ext4, |w| play(w, FileSystem::Ext4, "copy"));
}

#[test]
fn over_fuse_on_ext4() {
    story_survives(Who::Root, FileSystem::Ext4, |w| play(w, FileSystem::Ext4, "fuse"));
}

#[test]
fn on_xfs() {
    story_survives(Who::User, FileSystem::Xfs, |w| play(w, FileSystem::Xfs, "overlay"));
}

#[test]
fn on_btrfs() {
    story_survives(Who::Root, FileSystem::Btrfs, |w| play(w, FileSystem::Btrfs, "overlay"));
}

/// So many moments are tried besides the ends of steps.
const MORE_CUTS: usize = 4;
/// The first report that is followed by a cut at once.
const REPORTED: usize = 3;

type Files = BTreeMap<&'static str, &'static str>;

/// What there must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Expected {
    sandboxes: BTreeMap<&'static str, Files>,
    snapshots: BTreeMap<&'static str, Files>,
    reality: Files,
    archive: bool,
}

/// A step of the story: what is done, and what is true once it has been reported.
struct Step {
    does: Does,
    then: fn(&mut Expected),
}

enum Does {
    Whatif(&'static [&'static str]),
    /// A script in a sandbox; what it wrote is flushed before the step counts as done.
    Writes(&'static str, &'static str),
}

fn whatif(arguments: &'static [&'static str], then: fn(&mut Expected)) -> Step {
    Step { does: Does::Whatif(arguments), then }
}

fn writes(sandbox: &'static str, script: &'static str, then: fn(&mut Expected)) -> Step {
    Step { does: Does::Writes(sandbox, script), then }
}

impl Expected {
    fn put(&mut self, sandbox: &'static str, file: &'static str, content: &'static str) {
        self.sandboxes.entry(sandbox).or_default().insert(file, content);
    }

    fn keep(&mut self, sandbox: &str, snapshot: &'static str) {
        self.snapshots.insert(snapshot, self.sandboxes[sandbox].clone());
    }
}

fn story() -> Vec<Step> {
    vec![
        whatif(&["new", "a"], |e| _ = e.sandboxes.insert("a", e.reality.clone())),
        writes("a", "echo 1 > one; echo A > kept", |e| {
            e.put("a", "one", "1");
            e.put("a", "kept", "A");
        }),
        whatif(&["snapshot", "a", "s1"], |e| e.keep("a", "a@s1")),
        writes("a", "echo 2 > two; echo B > kept", |e| {
            e.put("a", "two", "2");
            e.put("a", "kept", "B");
        }),
        whatif(&["snapshot", "a", "s2"], |e| e.keep("a", "a@s2")),
        writes("a", "echo 3 > three", |e| e.put("a", "three", "3")),
        whatif(&["fork", "a", "b"], |e| _ = e.sandboxes.insert("b", e.sandboxes["a"].clone())),
        whatif(&["rollback", "a", "s1"], |e| _ = e.sandboxes.insert("a", e.snapshots["a@s1"].clone())),
        writes("b", "echo 4 > four; rm two", |e| {
            e.put("b", "four", "4");
            e.sandboxes.get_mut("b").expect("it was forked").remove("two");
        }),
        whatif(&["snapshot", "b", "t1"], |e| e.keep("b", "b@t1")),
        whatif(&["squash", "b"], |_| {}),
        whatif(&["gc"], |_| {}),
        whatif(&["export", "--force", "b", "-o", "../b.whatif"], |e| e.archive = true),
        whatif(&["import", "../b.whatif", "--name", "c"], |e| _ = e.sandboxes.insert("c", e.sandboxes["b"].clone())),
        writes("a", "echo 5 > five", |e| e.put("a", "five", "5")),
        whatif(&["stop", "a"], |_| {}),
        whatif(&["snapshot", "a", "s3"], |e| e.keep("a", "a@s3")),
        whatif(&["rollback", "a", "s2"], |e| _ = e.sandboxes.insert("a", e.snapshots["a@s2"].clone())),
        whatif(&["apply", "b", "--yes"], |e| e.reality = e.sandboxes["b"].clone()),
        whatif(&["undo", "--yes"], |e| e.reality = reality()),
        whatif(&["rm", "c", "--yes"], |e| _ = e.sandboxes.remove("c")),
        whatif(&["snapshot", "rm", "a@s1"], |e| _ = e.snapshots.remove("a@s1")),
        whatif(&["gc"], |_| {}),
    ]
}

fn reality() -> Files {
    Files::from([("kept", "R"), ("real", "yes")])
}

/// Where the story takes place.
struct Stage<'a> {
    w: &'a World,
    disk: PathBuf,
    file_system: FileSystem,
    backend: &'static str,
}

impl Stage<'_> {
    fn project(&self) -> PathBuf {
        self.disk.join("project")
    }

    fn whatif<'b>(&self, arguments: impl IntoIterator<Item = &'b str>) -> Call {
        self.w.whatif(arguments).env("WHATIF_HOME", self.disk.join("state")).cwd(&self.project())
    }

    fn flush(&self) {
        rustix::fs::syncfs(File::open(&self.disk).expect("it is mounted")).expect("it can be flushed");
    }

    /// Something else flushes something of its own: the journal goes to the disk, and the bytes of other files do not.
    fn flush_something_else(&self, number: usize) {
        let file = File::create(self.disk.join(format!("other-{number}"))).expect("there is room");
        file.sync_all().expect("it can be flushed");
    }

    fn take(&self, step: &Step) {
        match step.does {
            Does::Whatif(arguments) => {
                let backend = if ["new", "import"].contains(&arguments[0]) { &["--backend", self.backend][..] } else { &[] };
                self.whatif(arguments.iter().chain(backend).copied()).go().ok();
            }
            Does::Writes(sandbox, script) => {
                self.whatif(["exec", sandbox, "--", "/bin/sh", "-c", script]).go().ok();
                self.flush();
            }
        }
    }
}

fn story_survives(who: Who, file_system: FileSystem, play: fn(&World)) {
    if let Err(reason) = power_cut::is_possible() {
        return skip(&reason);
    }
    if !file_system.is_installed() {
        return skip(&format!("mkfs.{} is not installed", file_system.name()));
    }
    if !power_cut::alone() {
        return;
    }
    World::with(who, play);
}

fn play(w: &World, file_system: FileSystem, backend: &'static str) {
    let stage = Stage { w, disk: w.dir.join("disk"), file_system, backend };
    let base = w.dir.join("base.img");
    file_system.make(&base);
    let mut steps = story();
    if backend == "fuse" {
        // Its layers are never merged.
        steps.retain(|step| !matches!(step.does, Does::Whatif(["squash", ..])));
    }
    let events = record(&stage, &base, &steps);

    let mut expected = vec![Expected { reality: reality(), ..Expected::default() }];
    for step in &steps {
        let mut next = expected[expected.len() - 1].clone();
        (step.then)(&mut next);
        expected.push(next);
    }
    let mut losses = Vec::new();
    let cuts = cuts(&events, steps.len());
    for cut in &cuts {
        let reported =
            events[..cut.at].iter().rev().find_map(|e| if let Event::Mark(n) = e { Some(*n) } else { None }).unwrap_or(0);
        let (before, after) = (&expected[reported], &expected[(reported + 1).min(steps.len())]);
        let image = w.dir.join("cut.img");
        cut.image(&base, &events, &image);
        let may_be_half = steps.get(reported).is_some_and(|s| matches!(s.does, Does::Writes(..)));
        let found = {
            let _mounted = Device::over(&image).mount(&stage.disk, file_system);
            let found = Aftermath { stage: &stage, before, after, may_be_half }.check();
            let _ = stage.whatif(["rm", "--all", "--yes"]).go();
            found
        };
        let _ = fs::remove_file(&image);
        losses.extend(found.into_iter().map(|loss| format!("{cut:?}, after step {reported}: {loss}")));
    }
    assert!(losses.is_empty(), "on {}, {} cuts:\n{}", file_system.name(), cuts.len(), losses.join("\n"));
}

/// Plays the story once on a disk that remembers.
fn record(stage: &Stage<'_>, base: &Path, steps: &[Step]) -> Vec<Event> {
    let disk = Disk::serve(&stage.w.dir.join("served"), fs::read(base).expect("it was just made"));
    let mounted = disk.device().mount(&stage.disk, stage.file_system);
    std::os::unix::fs::chown(&stage.disk, Some(stage.w.uid()), Some(stage.w.uid())).expect("root may");
    for (name, content) in reality() {
        stage.w.write(stage.project().join(name), format!("{content}\n"));
    }
    stage.flush();
    disk.mark(0);
    for (number, step) in steps.iter().enumerate() {
        stage.take(step);
        disk.mark(number + 1);
        stage.flush_something_else(number);
    }
    let events = disk.events();
    stage.whatif(["rm", "--all", "--yes"]).go().ok();
    drop(mounted);
    events
}

/// The end of each step, when something else has flushed the journal; and others.
fn cuts(events: &[Event], steps: usize) -> Vec<Cut> {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let asked: Option<usize> = number("WHATIF_CUTS");
    let more = asked.unwrap_or(MORE_CUTS);
    // Each costs about a second.
    let stride = if asked.is_some() { 1 } else { 2 };
    let mut random = Random::from(number("WHATIF_CUTS_SEED").unwrap_or(14) as u64);
    let place = |step: usize| events.iter().position(|e| matches!(e, Event::Mark(n) if *n == step)).unwrap_or(events.len());
    let mut cuts = Vec::new();
    for step in (0..=steps).step_by(stride) {
        let end = if step == steps { events.len() } else { place(step + 1) };
        let last_flush = events[..end].iter().rposition(|e| matches!(e, Event::Flush)).map_or(end, |f| f + 1);
        // Before the next step has been reported, with nothing but what was flushed; right after a report.
        cuts.push(Cut { at: last_flush.max(place(step) + 1), survivors: Survivors::None });
    }
    // Right after a report, when nobody else has flushed anything.
    for step in (REPORTED..=steps).step_by(2 * stride) {
        cuts.push(Cut { at: place(step) + 1, survivors: Survivors::None });
    }
    let first = place(0) + 1;
    for _ in 0..more {
        let at = first + random.below(events.len() - first);
        let survivors = match random.below(3) {
            0 => Survivors::None,
            1 => Survivors::All,
            _ => Survivors::Some(random.number()),
        };
        cuts.push(Cut { at, survivors });
    }
    cuts
}

/// What the machine finds when it comes up again.
struct Aftermath<'a> {
    stage: &'a Stage<'a>,
    before: &'a Expected,
    after: &'a Expected,
    /// The step that was under way wrote files, which may be there in part.
    may_be_half: bool,
}

impl Aftermath<'_> {
    /// Everything that was lost.
    fn check(&self) -> Vec<String> {
        let mut losses = Vec::new();
        let listed = self.stage.whatif(["--json", "ls"]).go();
        if listed.code != 0 {
            return vec![format!("ls: {}", listed.stderr)];
        }
        let collected = self.stage.whatif(["gc"]).go();
        if collected.code != 0 {
            losses.push(format!("gc: {}", collected.stderr));
        }
        let real = self.files_in(|script| self.stage.w.program("/bin/sh").args(["-c", script]).cwd(&self.stage.project()).go());
        match real {
            Ok(files) if [&self.before.reality, &self.after.reality].iter().any(|e| is_same(e, &files)) => {}
            other => losses.push(format!("reality: {other:?}")),
        }
        for name in both(&self.before.sandboxes, &self.after.sandboxes) {
            let looked = self.stage.whatif(["diff", name, "--name-only"]).go();
            if looked.code != 0 {
                losses.push(format!("diff of {name}: {}", looked.stderr));
            }
            let _ = self.stage.whatif(["start", name]).go();
            let found = self.files_in(|script| self.stage.whatif(["exec", name, "--", "/bin/sh", "-c", script]).go());
            losses.extend(self.compare(name, found, &self.before.sandboxes[name], &self.after.sandboxes[name]));
        }
        for name in both(&self.before.snapshots, &self.after.snapshots) {
            let forked = self.stage.whatif(["fork", name, "looked-at"]).go();
            if forked.code != 0 {
                losses.push(format!("{name}: {}", forked.stderr));
                continue;
            }
            let found = self.files_in(|script| self.stage.whatif(["exec", "looked-at", "--", "/bin/sh", "-c", script]).go());
            losses.extend(self.compare(name, found, &self.before.snapshots[name], &self.after.snapshots[name]));
            let _ = self.stage.whatif(["rm", "looked-at", "--yes"]).go();
        }
        if self.before.archive && self.after.archive {
            let imported = self.stage.whatif(["import", "../b.whatif", "--name", "imported", "--backend", self.stage.backend]).go();
            if imported.code != 0 {
                losses.push(format!("the archive: {}", imported.stderr));
            }
        }
        losses
    }

    fn files_in(&self, run: impl FnOnce(&str) -> Outcome) -> Result<BTreeMap<String, String>, String> {
        let ran = run("for f in *; do printf '%s=%s\\n' \"$f\" \"$(cat \"$f\")\"; done");
        if ran.code != 0 {
            return Err(ran.stderr);
        }
        let lines = ran.stdout.lines().filter_map(|line| line.split_once('='));
        Ok(lines.map(|(name, content)| (name.to_owned(), content.to_owned())).collect())
    }

    fn compare(
        &self,
        name: &str,
        found: Result<BTreeMap<String, String>, String>,
        before: &Files,
        after: &Files,
    ) -> Option<String> {
        let found = match found {
            Ok(found) => found,
            Err(error) => return Some(format!("{name}: {error}")),
        };
        // What an apply made real shows through in every other sandbox.
        let shows_through = |file: &str| self.before.reality.contains_key(file) || self.after.reality.contains_key(file);
        let own = |expected: &Files| {
            let files = found.iter().filter(|(f, _)| expected.contains_key(f.as_str()) || !shows_through(f));
            files.map(|(f, content)| (f.clone(), content.clone())).collect::<BTreeMap<_, _>>()
        };
        let is_right = if self.may_be_half {
            let settled = before.iter().filter(|(file, content)| after.get(*file) == Some(*content));
            settled.clone().all(|(file, content)| found.get(*file).is_some_and(|f| f == content))
        } else {
            is_same(before, &own(before)) || is_same(after, &own(after))
        };
        (!is_right).then(|| format!("{name} holds {found:?}, not {before:?} or {after:?}"))
    }
}

fn both<'a>(before: &'a BTreeMap<&'static str, Files>, after: &'a BTreeMap<&'static str, Files>) -> Vec<&'static str> {
    before.keys().copied().filter(|name| after.contains_key(name)).collect()
}

fn is_same(expected: &Files, found: &BTreeMap<String, String>) -> bool {
    expected.len() == found.len() && expected.iter().all(|(file, content)| found.get(*file).is_some_and(|f| f == content))
}
