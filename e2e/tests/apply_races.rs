//! Somebody swaps directories and files of the project for other things while it is applied to. Nothing outside may change,
//! nothing may hang, and what is reported as done is done.
//!
//! 40 rounds for each kind of thing in CI, fewer otherwise; `WHATIF_RACES=10000` does so many in all.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use whatif_e2e::{Canary, Detail, Random, Tree, World, as_root_and_user, assert_same, canary};

as_root_and_user!(
    a_parent_swapped_for_a_link_leads_nowhere,
    a_new_directory_swapped_for_a_link_leads_nowhere,
    a_file_swapped_for_a_link_is_not_followed,
    a_file_swapped_for_a_hard_link_is_not_written_through,
    a_file_swapped_for_a_pipe_or_socket_hangs_nobody,
    a_file_swapped_for_a_directory_is_no_file,
);

const KINDS: usize = 6;

fn rounds() -> usize {
    let all = std::env::var("WHATIF_RACES").ok().and_then(|n| n.parse::<usize>().ok());
    all.map_or(if std::env::var_os("CI").is_some() { 40 } else { 12 }, |all| all.div_ceil(2 * KINDS))
}

/// A project under attack, and the things it is attacked with.
struct Arena<'a> {
    w: &'a World,
    /// What must never change, with all its times.
    outside: PathBuf,
    /// A file of which there is a second link; its change time moves with that.
    linked: PathBuf,
    /// Where the attacker's things lie, and later what they were swapped for.
    lair: PathBuf,
    random: Random,
}

impl<'a> Arena<'a> {
    fn new(w: &'a World) -> Self {
        let [outside, linked, lair] = ["outside", "linked", "lair"].map(|name| w.home.join(name));
        for directory in [&outside, &linked, &lair] {
            w.mkdir(directory);
        }
        for name in ["edited", "gone", "mode", "new", "sub/x", "made/deep/x"] {
            w.write(outside.join(name), "precious\n");
        }
        w.write(linked.join("file"), "precious\n");
        Self { w, outside, linked, lair, random: Random::from(u64::from(w.is_root()) + 1) }
    }

    /// Plays the rounds: `target` of the project is swapped for what `make` puts into the lair.
    fn fight(&mut self, target: &str, make: impl Fn(&Self, &Path)) {
        for round in 0..rounds() {
            self.start_over();
            let thing = self.lair.join("thing");
            make(self, &thing);
            let (outside, linked) = (self.outside_now(), Tree::of(&self.linked, Detail::Times));
            let apply = self.w.whatif(["apply", "s", "--all", "--yes"]);
            let said = fs::File::create(self.w.dir.join("said")).expect("a scratch file");
            let apply = apply.streams(Stdio::null(), said.try_clone().expect("a descriptor").into(), said.into()).spawn();
            let code = self.swap_until_the_end(apply, &self.w.project.join(target), &thing);
            let repaired = self.w.whatif(["ls"]).go().ok().stderr;
            let said = fs::read_to_string(self.w.dir.join("said")).unwrap_or_default();
            let context = format!("round {round}, exit code {code}\n{said}{repaired}");
            assert_same(&outside, &self.outside_now());
            Tree::of(&self.linked, Detail::Times).assert_is(&linked, &context);
            self.assert_whole(target, &thing, code, &context);
            self.w.whatif(["rm", "s"]).go().ok();
        }
    }

    fn start_over(&self) {
        for directory in [&self.w.project, &self.lair] {
            self.w.outside(&format!("find {} -mindepth 1 -delete", directory.display())).ok();
        }
        for name in ["edited", "gone", "mode", "sub/x"] {
            self.w.write(Path::new("d").join(name), "old\n");
        }
        let script = "cd d; echo new > edited; rm gone; chmod 600 mode; echo new > new; echo new > sub/x; mkdir -p made/deep; echo new > made/deep/x";
        self.w.sandbox_with("s", script);
    }

    fn outside_now(&self) -> Canary {
        canary(&[&self.outside])
    }

    /// Swaps there and back at odd moments, and leaves everything under its own name.
    fn swap_until_the_end(&mut self, mut apply: Child, target: &Path, thing: &Path) -> i32 {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let swapped = renameat_with(CWD, target, CWD, thing, RenameFlags::EXCHANGE).is_ok();
            pause(self.random.below(400));
            // It may have been renamed or removed by the apply itself; then there is nothing to swap back.
            let _ = swapped && renameat_with(CWD, target, CWD, thing, RenameFlags::EXCHANGE).is_ok();
            pause(self.random.below(6000));
            if let Some(status) = apply.try_wait().expect("it is our child") {
                return status.code().unwrap_or(-1);
            }
            if Instant::now() > deadline {
                let _ = apply.kill();
                let _ = apply.wait();
                panic!("it hangs");
            }
        }
    }

    /// What was not itself swapped is as before, or, if so reported, as after.
    #[track_caller]
    fn assert_whole(&self, target: &str, thing: &Path, code: i32, context: &str) {
        let d = self.w.project.join("d");
        let text = |name: &str| fs::read_to_string(d.join(name)).ok();
        let state = ["edited", "gone", "new", "sub/x", "made/deep/x"]
            .into_iter()
            .filter(|name| target == "d" || !Path::new("d").join(name).starts_with(target))
            .map(|name| match (name, text(name).as_deref()) {
                ("gone", None) | ("edited" | "new" | "sub/x" | "made/deep/x", Some("new\n")) => "after",
                ("new" | "made/deep/x", None) | ("edited" | "gone" | "sub/x", Some("old\n")) => "before",
                (_, other) => panic!("{context}: {name} is {other:?}"),
            });
        let state: Vec<&str> = state.collect();
        assert!(state.iter().all(|s| *s == state[0]), "{context}: half done: {state:?}");
        assert!(code != 0 || state[0] == "after", "{context}: reported as done, and it is not");
        if target == "d/edited" {
            let places = [d.join("edited"), thing.to_owned()].map(|path| content(&path));
            let wanted: &[&str] = if code == 0 { &["new\n"] } else { &["old\n", "new\n"] };
            assert!(places.iter().any(|p| wanted.contains(&p.as_str())), "{context}: the file is lost: {places:?}");
        }
    }
}

/// The content of a regular file, and of nothing else.
fn content(path: &Path) -> String {
    let regular = fs::symlink_metadata(path).is_ok_and(|m| m.is_file());
    if regular { fs::read_to_string(path).unwrap_or_default() } else { String::new() }
}

/// A moment is what this is about.
fn pause(microseconds: usize) {
    let end = Instant::now() + Duration::from_micros(microseconds as u64);
    while Instant::now() < end {
        std::thread::yield_now();
    }
}

fn a_parent_swapped_for_a_link_leads_nowhere(w: &World) {
    Arena::new(w).fight("d", |arena, thing| symlink(&arena.outside, thing).expect("a fresh name"));
}

/// One that exists only since the apply began.
fn a_new_directory_swapped_for_a_link_leads_nowhere(w: &World) {
    Arena::new(w).fight("d/made", |arena, thing| symlink(arena.outside.join("made"), thing).expect("a fresh name"));
}

fn a_file_swapped_for_a_link_is_not_followed(w: &World) {
    Arena::new(w).fight("d/edited", |arena, thing| symlink(arena.outside.join("edited"), thing).expect("a fresh name"));
}

fn a_file_swapped_for_a_hard_link_is_not_written_through(w: &World) {
    Arena::new(w).fight("d/edited", |arena, thing| fs::hard_link(arena.linked.join("file"), thing).expect("a fresh name"));
}

fn a_file_swapped_for_a_pipe_or_socket_hangs_nobody(w: &World) {
    let mut arena = Arena::new(w);
    arena.fight("d/edited", |_, thing| mknodat(CWD, thing, FileType::Fifo, Mode::from_raw_mode(0o666), 0).expect("a fresh name"));
    arena.fight("d/edited", |_, thing| drop(UnixListener::bind(thing).expect("a fresh name")));
}

fn a_file_swapped_for_a_directory_is_no_file(w: &World) {
    Arena::new(w).fight("d/edited", |arena, thing| {
        fs::create_dir(thing).expect("a fresh name");
        fs::write(thing.join("precious"), "precious\n").expect("a fresh name");
        chown(thing, Some(arena.w.uid()), Some(arena.w.uid())).expect("it is ours");
    });
}
