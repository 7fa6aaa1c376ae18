//! A power cut at any moment of an `apply --commit`: branch, index and files are all as before or all as after, and a commit that
//! was reported is there.
//!
//! `WHATIF_CUTS=N` tries N moments instead of a few.

use std::fs::{self, File};
use std::path::PathBuf;

use whatif_e2e::power_cut::{self, Cut, Device, Disk, Event, FileSystem, Survivors};
use whatif_e2e::{Call, Random, Who, World, skip};

#[test]
fn as_root() {
    survives(Who::Root);
}

#[test]
fn as_user() {
    survives(Who::User);
}

fn survives(who: Who) {
    if let Err(reason) = power_cut::is_possible() {
        return skip(&reason);
    }
    if !FileSystem::Ext4.is_installed() {
        return skip("mkfs.ext4 is not installed");
    }
    if power_cut::alone() {
        World::with(who, play);
    }
}

const FEW_CUTS: usize = 3;
const EVERYTHING: &str =
    "git log --format=%s; git ls-files -s; git status --porcelain; cat f; find .git -name '*.lock' -o -name '*whatif*'";

struct Stage<'a> {
    w: &'a World,
    disk: PathBuf,
}

impl Stage<'_> {
    fn project(&self) -> PathBuf {
        self.disk.join("project")
    }

    fn whatif(&self, arguments: &[&str]) -> Call {
        self.w.whatif(arguments.iter().copied()).env("WHATIF_HOME", self.disk.join("state")).cwd(&self.project())
    }

    fn script(&self, script: &str) -> String {
        self.w.program("/bin/sh").args(["-euc", script]).cwd(&self.project()).go().ok().stdout
    }
}

fn play(w: &World) {
    w.write(w.home.join(".gitconfig"), "[user]\n\tname = Ann Example\n\temail = ann@example.org\n");
    let stage = Stage { w, disk: w.dir.join("disk") };
    let base = w.dir.join("base.img");
    FileSystem::Ext4.make(&base);
    let (events, before, after) = record(&stage, &base);
    let place = |mark: usize| events.iter().position(|e| matches!(e, Event::Mark(n) if *n == mark)).expect("it was marked");
    let (begin, end) = (place(0) + 1, place(1) + 1);
    let more = std::env::var("WHATIF_CUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(FEW_CUTS);
    let mut random = Random::from(12 + u64::from(w.is_root()));
    let mut cuts = vec![Cut { at: end, survivors: Survivors::None }];
    for n in 0..more {
        let survivors = [Survivors::None, Survivors::All, Survivors::Some(random.number())][n % 3];
        // Evenly, so that every stage has its turn.
        cuts.push(Cut { at: begin + (end - begin) * (2 * n + 1) / (2 * more), survivors });
    }
    for cut in cuts {
        let image = w.dir.join("cut.img");
        cut.image(&base, &events, &image);
        {
            let _mounted = Device::over(&image).mount(&stage.disk, FileSystem::Ext4);
            stage.whatif(&["ls"]).go().ok();
            let now = stage.script(EVERYTHING);
            assert!(now == after || now == before && cut.at < end, "{cut:?} of {begin} to {end}:\n{now}");
            stage.script("git fsck --strict --no-dangling");
        }
        fs::remove_file(&image).expect("it was made");
    }
}

/// The apply on a disk that remembers, and everything before and after.
fn record(stage: &Stage<'_>, base: &std::path::Path) -> (Vec<Event>, String, String) {
    let disk = Disk::serve(&stage.w.dir.join("served"), fs::read(base).expect("it was just made"));
    let mounted = disk.device().mount(&stage.disk, FileSystem::Ext4);
    std::os::unix::fs::chown(&stage.disk, Some(stage.w.uid()), Some(stage.w.uid())).expect("root may");
    stage.w.mkdir(&stage.project());
    stage.script("git init -q .; echo 0 > f; echo gone > gone; git add .; git commit -qm first; echo s > staged; git add staged");
    stage.whatif(&["run", "--quiet", "--name", "s", "--", "/bin/sh", "-c", "echo 1 > f; rm gone; echo n > new"]).go().ok();
    let before = stage.script(EVERYTHING);
    rustix::fs::syncfs(File::open(&stage.disk).expect("it is mounted")).expect("it can be flushed");
    disk.mark(0);
    stage.whatif(&["apply", "s", "--yes", "--commit", "-msecond"]).go().ok();
    disk.mark(1);
    let after = stage.script(EVERYTHING);
    let events = disk.events();
    drop(mounted);
    (events, before, after)
}
