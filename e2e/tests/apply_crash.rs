//! An apply that is killed, or fails, at any system call: after the next command the tree is what it was before, or all of
//! what it must become. Nothing in between, and nothing of ours left lying about.
//!
//! An apply has some hundred and fifty such points. By default every so many-th is tried, in CI twice as many, each test beginning
//! at another one, so that the five tests of an identity take well under a minute. `WHATIF_SWEEP=full` tries every single one,
//! which takes about ten.

use std::path::PathBuf;
use std::time::Duration;

use whatif_e2e::{Detail, Fault, Point, Tree, World, as_root_and_user, needs, sample, wait_for};

as_root_and_user!(
    a_killed_apply_happened_or_did_not,
    a_killed_recovery_is_repeated,
    a_disk_that_is_full_from_some_call_on_leaves_a_whole_tree,
    an_input_output_error_at_any_call_leaves_a_whole_tree,
    a_file_system_that_turns_read_only_leaves_a_whole_tree,
);

/// Everything is older than what the sandbox does.
const BASE: &str = "
for n in 1 2 3 4 5 6 7 8; do echo old $n > edited$n; done
for n in 1 2 3 4; do echo old $n > deleted$n; done
for n in 1 2 3; do echo mode $n > mode$n; done
mkdir -p gone/deep/er kept empty to-file
for n in 1 2 3; do echo x$n > gone/deep/x$n; echo k$n > kept/k$n; done
echo x > gone/deep/er/x
echo t > to-directory; echo t > to-file/t; echo t > to-link; ln -s t from-link
ln -s a retargeted; ln -s a unlinked; seq 9 > renamed-from
head -c 300000 /dev/zero | tr '\\0' a > large
echo a > attributes; setfattr -n user.note -v old attributes
find . -type f -exec touch -d @1500000000 {} +";

/// Some forty changes of all kinds. Times are set, so that every sandbox has exactly the same.
const CHANGES: &str = "
set -eu
for n in 1 2 3 4; do echo new $n > edited$n; done
for n in 5 6 7 8; do echo new $n > t; mv t edited$n; done
rm deleted1 deleted2 deleted3 deleted4
chmod 755 mode1; chmod 600 mode2; chmod 444 mode3; chmod 700 kept
rm -r gone empty
rm to-directory; mkdir to-directory; echo in > to-directory/in
rm -r to-file; echo file > to-file
rm to-link; ln -s edited1 to-link
rm from-link; echo file > from-link
ln -sfn b retargeted; rm unlinked; ln -s edited2 linked
mv renamed-from renamed-to
mkdir -p new/deep/er new/empty
for n in 1 2 3 4; do echo n$n > new$n; echo n$n > new/deep/n$n; done
echo tool > new/deep/er/tool; chmod 755 new/deep/er/tool
printf b | dd of=large bs=1 seek=150000 conv=notrunc status=none
setfattr -n user.note -v new attributes
find . -type f -newermt @1500000001 -exec touch -d @1600000000 {} +";

const APPLY: [&str; 4] = ["apply", "victim", "--all", "--yes"];

/// One project, its tree before and after the apply, and the calls of the apply in between.
struct Sweep<'a> {
    w: &'a World,
    template: PathBuf,
    before: Tree,
    after: Tree,
    points: Vec<Point>,
}

impl<'a> Sweep<'a> {
    fn new(w: &'a World) -> Self {
        let template = w.dir.join("template");
        w.mkdir(&template);
        w.program("/bin/sh").args(["-euc", BASE]).cwd(&template).go().ok();
        let before = Tree::of(&template, Detail::Times);
        let mut sweep = Self { w, template, after: before.clone(), before, points: Vec::new() };
        sweep.start_over();
        sweep.points = w.points_of(&w.project, &APPLY);
        sweep.after = sweep.now();
        assert_ne!(sweep.before, sweep.after);
        w.whatif(["rm", "victim"]).go().ok();
        sweep
    }

    fn now(&self) -> Tree {
        Tree::of(&self.w.project, Detail::Times)
    }

    /// A fresh sandbox each time: putting the tree back is a change of reality for an old one.
    fn start_over(&self) {
        let template = self.template.display();
        self.w.outside(&format!("find . -mindepth 1 -delete; cp -a {template}/. .")).ok();
        self.w.whatif(["run", "--quiet", "--name", "victim", "--", "/bin/sh", "-c", CHANGES]).go().ok();
        assert_eq!(self.now(), self.before, "a sandbox does not touch reality");
    }

    /// The next command repairs everything; the one after finds nothing to do.
    fn assert_whole(&self, context: &str) -> bool {
        self.w.whatif(["ls"]).go().ok();
        let now = self.now();
        if now != self.before {
            now.assert_is(&self.after, &format!("{context}: neither before nor after"));
        }
        // What was removed before is deleted by and by.
        let is_done = wait_for(Duration::from_secs(60), || self.w.transient().is_empty().then_some(()));
        assert!(is_done.is_some(), "{context}: a recovery leaves {:?}", self.w.transient());
        self.w.whatif(["ls"]).go().ok();
        self.now().assert_is(&now, &format!("{context}: a second recovery changed something"));
        now == self.after
    }

    /// The crash is forgotten: what did not happen can be done, what happened can be undone.
    fn assert_usable(&self, applied: bool, context: &str) {
        if applied {
            self.w.whatif(["undo", "--yes"]).go().ok();
            self.now().assert_is(&self.before, &format!("{context}: undone"));
        } else {
            self.w.whatif(APPLY).go().ok();
            self.now().assert_is(&self.after, &format!("{context}: applied again"));
        }
    }

    fn over(&self, fault: Fault, wanted: usize, turn: usize) {
        let points = sample(&self.points, wanted, turn + usize::from(self.w.is_root()));
        let mut struck = 0;
        for (index, point) in points.iter().enumerate() {
            let context = format!("{fault:?} at {} {} of the apply", point.call, point.number);
            self.start_over();
            let outcome = self.w.with_fault(point, fault, &APPLY).go();
            let applied = self.assert_whole(&context);
            assert!(applied || outcome.code != 0, "{context}: it was acknowledged, and it is not there");
            struck += usize::from(outcome.code != 0);
            if index % 4 == 0 {
                self.assert_usable(applied, &context);
            }
            self.w.whatif(["rm", "victim"]).go().ok();
        }
        assert!(struck > points.len() / 2, "only {struck} of {} faults did any harm", points.len());
    }
}

/// How many points a test tries: fewer on a developer's machine.
fn points(in_ci: usize) -> usize {
    if std::env::var_os("CI").is_some() { in_ci } else { in_ci.div_ceil(2) }
}

fn a_killed_apply_happened_or_did_not(w: &World) {
    needs!(w, "strace", "setfattr");
    Sweep::new(w).over(Fault::Kill, points(40), 0);
}

fn a_disk_that_is_full_from_some_call_on_leaves_a_whole_tree(w: &World) {
    needs!(w, "strace", "setfattr");
    Sweep::new(w).over(Fault::ErrorFromThenOn("ENOSPC"), points(12), 1);
}

fn an_input_output_error_at_any_call_leaves_a_whole_tree(w: &World) {
    needs!(w, "strace", "setfattr");
    Sweep::new(w).over(Fault::Error("EIO"), points(12), 2);
}

fn a_file_system_that_turns_read_only_leaves_a_whole_tree(w: &World) {
    needs!(w, "strace", "setfattr");
    Sweep::new(w).over(Fault::ErrorFromThenOn("EROFS"), points(12), 3);
}

/// A crash while a crash is repaired, once and twice, in different stages of the apply.
fn a_killed_recovery_is_repeated(w: &World) {
    needs!(w, "strace", "setfattr");
    let sweep = Sweep::new(w);
    for (turn, stage) in [4, 6, 8].into_iter().enumerate() {
        let crash = &sweep.points[sweep.points.len() * stage / 10];
        sweep.start_over();
        w.with_fault(crash, Fault::Kill, &APPLY).go();
        let recovery = w.points_of(&w.project, &["ls"]);
        sweep.assert_whole("an undisturbed recovery");
        w.whatif(["rm", "victim"]).go().ok();
        for point in sample(&recovery, points(5), turn) {
            let context =
                format!("killed at {} {} and then at {} {} of the recovery", crash.call, crash.number, point.call, point.number);
            sweep.start_over();
            w.with_fault(crash, Fault::Kill, &APPLY).go();
            for _ in 0..2 {
                w.with_fault(&point, Fault::Kill, &["ls"]).go();
            }
            let applied = sweep.assert_whole(&context);
            sweep.assert_usable(applied, &context);
            w.whatif(["rm", "victim"]).go().ok();
        }
    }
}
