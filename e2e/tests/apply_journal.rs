//! What recovery does when it cannot trust what it finds: a damaged journal, or a tree somebody went on working in.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use whatif_e2e::{Detail, Fault, Outcome, Point, Tree, World, as_root_and_user, eventually, needs};

as_root_and_user!(a_damaged_journal_destroys_nothing, work_done_after_a_crash_is_left_alone, a_tree_that_is_gone_is_no_obstacle);

const BASE: &str = "mkdir d; for n in 1 2 3 4 5 6; do echo old $n > f$n; echo gone $n > d/gone$n; done";
const CHANGES: &str = "for n in 1 2 3 4 5 6; do echo new $n > f$n; echo new $n > new$n; done; rm -r d";

/// A project and sandbox of one round. Rounds do not share them: what one leaves behind must not help the next.
struct Round<'a> {
    w: &'a World,
    project: PathBuf,
    name: String,
    before: Tree,
}

impl<'a> Round<'a> {
    fn new(w: &'a World, number: usize) -> Self {
        let (project, name) = (w.home.join(format!("project-{number}")), format!("s{number}"));
        w.mkdir(&project);
        w.program("/bin/sh").args(["-euc", BASE]).cwd(&project).go().ok();
        w.sandbox_in(&project, &name, CHANGES);
        let before = Tree::of(&project, Detail::Content);
        Self { w, project, name, before }
    }

    fn tree(&self) -> Tree {
        Tree::of(&self.project, Detail::Content)
    }

    fn crash_at(&self, point: &Point) {
        self.w.with_fault(point, Fault::Kill, &["apply", &self.name, "--all", "--yes"]).cwd(&self.project).go();
    }

    fn recover(&self) -> Outcome {
        self.w.whatif(["ls"]).cwd(&self.project).go()
    }
}

/// The tree after an apply nobody disturbed, and the points of it at which something is already half done.
fn undisturbed(w: &World) -> (Tree, Vec<Point>) {
    let round = Round::new(w, 0);
    let points = w.points_of(&round.project, &["apply", &round.name, "--all", "--yes"]);
    let stages = [4, 5, 6, 7, 8, 9].map(|tenth| points[points.len() * tenth / 10].clone());
    (round.tree(), stages.to_vec())
}

fn files_below(directory: &Path) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(files_below(&entry.path())),
            Ok(kind) if kind.is_file() => drop(files.insert(entry.path())),
            _ => {}
        }
    }
    files
}

/// Files of the state directory, apart from the database, what sandboxes consist of, and the versions of files that are being
/// exchanged: a change of one of those is an edit, and stays.
fn records(w: &World) -> BTreeSet<PathBuf> {
    let mut records = files_below(&w.state);
    records.retain(|path| {
        let path = path.strip_prefix(&w.state).expect("it lies in there").to_string_lossy().into_owned();
        let is_other = ["state.db", "sandboxes/", "spare/", "cache/", "reserve"].iter().any(|other| path.starts_with(other));
        !is_other && !path.ends_with(".new")
    });
    records
}

fn damage(path: &Path, how: usize) {
    let mut bytes = fs::read(path).expect("it was listed");
    let middle = bytes.len() / 2;
    match how % 3 {
        0 => bytes.iter_mut().skip(middle).take(1).for_each(|byte| *byte ^= 0x40),
        1 => bytes.truncate(middle),
        _ => bytes.extend_from_slice(&bytes.clone()),
    }
    fs::write(path, bytes).expect("it is ours");
}

/// Nothing named by a journal that does not add up is deleted or written; what it was, is, or would become is all it may be.
fn a_damaged_journal_destroys_nothing(w: &World) {
    needs!(w, "strace");
    let (after, stages) = undisturbed(w);
    let mut number = 0;
    for point in &stages {
        for how in 0..6 {
            number += 1;
            let round = Round::new(w, number);
            let old = records(w);
            round.crash_at(point);
            let new: Vec<PathBuf> = records(w).difference(&old).cloned().collect();
            let Some(victim) = new.get(how / 3 * (new.len() / 2)) else { continue };
            let crashed = round.tree();
            damage(victim, how);
            let outcome = round.recover();
            let now = round.tree();
            let context = format!("{victim:?} damaged ({how}) after a kill at {point:?}: {}", outcome.stderr);
            assert_plausible(&now, [&crashed, &round.before, &after], &context);
            if now != round.before && now != after {
                assert!(!outcome.stderr.is_empty(), "a tree between the two, and not a word: {context}");
            }
            give_up(w);
        }
    }
}

/// Every path is as it was in one of these trees.
#[track_caller]
fn assert_plausible(now: &Tree, trees: [&Tree; 3], context: &str) {
    let paths: BTreeSet<&Path> = trees.iter().flat_map(|tree| tree.paths()).chain(now.paths()).collect();
    for path in paths {
        let known = trees.iter().any(|tree| tree.get(path) == now.get(path));
        assert!(known, "{} is {:?}: {context}", path.display(), now.get(path));
    }
}

/// Recovery touches only what is still as it left it, and says what is not.
fn work_done_after_a_crash_is_left_alone(w: &World) {
    needs!(w, "strace");
    let (after, stages) = undisturbed(w);
    let mut told = 0;
    for (index, point) in stages.iter().enumerate() {
        let round = Round::new(w, index + 1);
        round.crash_at(point);
        let work = "for n in 1 6; do echo mine > f$n; echo mine > new$n; done; mkdir -p d; echo mine > d/gone1; echo mine > extra";
        w.program("/bin/sh").args(["-euc", work]).cwd(&round.project).go().ok();
        let outcome = round.recover();
        let context = format!("after a kill at {point:?}: {}", outcome.stderr);
        for path in ["f1", "f6", "new1", "new6", "d/gone1", "extra"] {
            let content = fs::read_to_string(round.project.join(path)).unwrap_or_default();
            assert_eq!(content, "mine\n", "{path} {context}");
        }
        let others = ["f2", "f3", "f4", "f5", "new2", "new3", "d/gone2"].map(Path::new);
        let all = |tree: &Tree| others.iter().all(|path| round.tree().get(path) == tree.get(path));
        told += usize::from(["f6", "new1", "new6", "gone1"].iter().any(|path| outcome.stderr.contains(path)));
        assert!(all(&round.before) || all(&after) || !outcome.stderr.is_empty(), "half done, and not a word {context}");
    }
    assert!(told > 0, "what was left alone is named");
}

/// It may be on a disk that is away, so it is not forgotten; but it blocks nobody else.
fn a_tree_that_is_gone_is_no_obstacle(w: &World) {
    needs!(w, "strace");
    let (_, stages) = undisturbed(w);
    for (index, point) in stages.iter().enumerate() {
        let round = Round::new(w, index + 1);
        round.crash_at(point);
        fs::remove_dir_all(&round.project).expect("it is ours");
        round.w.whatif(["ls"]).go().ok();
        assert!(!round.project.exists(), "it is not made again");
        w.whatif(["rm", &round.name]).go().ok();
    }
    w.sandbox_with("next", "echo x > x");
    w.apply(&["next"]).ok();
    give_up(w);
}

/// By hand, as the message says. What was removed before may still be on its way out.
fn give_up(w: &World) {
    eventually("nothing is left of it", || {
        w.transient().iter().for_each(|pending| drop(fs::remove_dir_all(pending)));
        w.transient().is_empty()
    });
}
