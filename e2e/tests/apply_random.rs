//! Random work on random trees. Whatever it was: the patch gives the sandbox's files, an apply makes reality equal to the
//! sandbox, and an undo makes it what it was, to the last detail.
//!
//! 15 rounds for each identity; `WHATIF_RANDOM=1000` for more, `WHATIF_SEED=7` for one in particular.

use std::path::PathBuf;

use whatif_e2e::{Detail, Random, Tree, World, as_root_and_user, edits, needs};

as_root_and_user!(whatever_was_done_is_shown_applied_and_undone);

fn seeds() -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    number("WHATIF_SEED").map_or_else(|| (1..=number("WHATIF_RANDOM").unwrap_or(15)).collect(), |seed| vec![seed])
}

/// Everything that must be equal inside and outside, as seen from where it runs. The times of directories and links are not.
const LISTING: &str = r"
export LC_ALL=C
find . -mindepth 1 \( -type f -printf 'file %m %U:%G %T@ %s %P\0' -o -type l -printf 'link %U:%G %P -> %l\0' -o -printf '%y %m %U:%G %P\0' \) | sort -z
find . -type f -print0 | sort -z | xargs -0 -r sha256sum -z
find . -mindepth 1 -print0 | sort -z | xargs -0 -r getfattr -h -d -m '^user\.' --
";

struct Round<'a> {
    w: &'a World,
    seed: u64,
    project: PathBuf,
    name: String,
}

impl Round<'_> {
    /// Does the work, and lists what came of it.
    fn inside(&self, work: &str) -> String {
        let script = format!("{work}\n{LISTING}");
        let run = ["run", "--keep", "--quiet", "--name", &self.name, "--", "/bin/sh", "-c", &script];
        self.w.whatif(run).cwd(&self.project).go().ok().stdout.replace('\0', "\n")
    }

    fn outside(&self) -> String {
        self.w.program("/bin/sh").args(["-c", LISTING]).cwd(&self.project).go().ok().stdout.replace('\0', "\n")
    }

    /// A copy of the project to which git has applied the sandbox's patch. Empty directories would be in its way: it knows none.
    fn patched(&self) -> Tree {
        let (copy, patch) = (self.w.dir.join(format!("copy-{}", self.seed)), self.w.dir.join(format!("patch-{}", self.seed)));
        let script = "umask 022; cp -a . \"$1\"; \"$0\" diff \"$2\" --patch > \"$3\"; cd \"$1\"; find . -type d -empty -delete; git apply --binary --whitespace=nowarn \"$3\"";
        let call = self.w.program("/bin/sh").args(["-euc", script]).args([&self.w.bin, &copy]).args([&self.name]).args([&patch]);
        call.cwd(&self.project).go().ok();
        Tree::of(&copy, Detail::Patch).files()
    }

    fn play(&self) {
        let mut random = Random::from(self.seed);
        let (tree, work) = (edits::tree(&mut random), edits::work(&mut random));
        let context = format!("seed {}, after\n{work}", self.seed);
        self.w.program("/bin/sh").args(["-c", &tree]).cwd(&self.project).go();
        let before = Tree::of(&self.project, Detail::Times);
        let inside = self.inside(&work);
        let patched = self.patched();
        self.w.whatif(["apply", &self.name, "--all", "--yes"]).cwd(&self.project).go().ok();
        patched.assert_is(&Tree::of(&self.project, Detail::Patch).files(), &format!("patched, {context}"));
        assert_same_lines(&self.outside(), &inside, &format!("applied, {context}"));
        self.w.whatif(["undo", "--yes"]).cwd(&self.project).go().ok();
        Tree::of(&self.project, Detail::Times).assert_is(&before, &format!("undone, {context}"));
    }
}

#[track_caller]
fn assert_same_lines(outside: &str, inside: &str, context: &str) {
    let only = |a: &str, b: &str| a.lines().filter(|line| !b.lines().any(|l| l == *line)).collect::<Vec<_>>().join("\n");
    assert!(
        outside == inside,
        "{context}\nreality alone has\n{}\nthe sandbox alone has\n{}",
        only(outside, inside),
        only(inside, outside)
    );
}

fn whatever_was_done_is_shown_applied_and_undone(w: &World) {
    needs!(w, "git", "setfattr", "getfattr");
    for seed in seeds() {
        let round = Round { w, seed, project: w.home.join(format!("project-{seed}")), name: format!("s{seed}") };
        w.mkdir(&round.project);
        round.play();
        w.whatif(["rm", &round.name]).go().ok();
    }
}
