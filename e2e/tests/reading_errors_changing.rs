//! The law of `reading_errors` for commands that change something: with one reading call failed a command does exactly what it does
//! without, or it fails, says why, and nothing is lost. Over overlays and copies.
//!
//! By default a few points of each command are tried; `WHATIF_SWEEP=full` tries every one.

use whatif_e2e::{Fault, Holdings, Outcome, Place, Terminal, World, as_root_and_user, needs, sample};

as_root_and_user!(
    forks,
    rebases,
    undos,
    squashes,
    rollbacks,
    collections_of_garbage,
    applies_of_a_race,
    exports,
    imports,
    commits,
    applies_after_a_review,
);

const ERRORS: [&str; 5] = ["EIO", "EMFILE", "ENOMEM", "EACCES", "ENFILE"];
const BASE: &str = "mkdir -p d/e; for n in 1 2 3; do seq 9 > d/f$n; done; echo b > b; ln -s b l";
const WORK: &str = "echo new > n; echo B > b; rm d/f1; echo deep > d/e/deep; ln -sfn n l";
/// So many points of each command and backend.
const WANTED: usize = 3;

struct Case<'a> {
    /// Puts a place into the state in which the command begins; the sandboxes have this backend.
    prepare: fn(&World, &str),
    command: &'a [&'a str],
    /// What else must be as before or as after.
    besides: fn(&World) -> String,
}

/// One that stays, and is down.
fn sandbox(w: &World, backend: &str) {
    w.outside(&format!("test -e b || {{ {BASE}; }}")).ok();
    // What an import gets, too.
    w.configure(format!("[layers]\nbackend = \"{backend}\"\n"));
    w.whatif(["run", "--keep", "-q", "--backend", backend, "--name", "s", "--", "/bin/sh", "-euc", WORK]).go().ok();
}

fn with_snapshots(w: &World, backend: &str) {
    sandbox(w, backend);
    w.whatif(["snapshot", "s", "one"]).go().ok();
    w.exec("s", "echo more > more; rm d/f2").ok();
    w.whatif(["snapshot", "s", "two"]).go().ok();
    w.exec("s", "echo most > more; rm -r d/e").ok();
}

/// The standard library panics when the pipe of a program that was started cannot be read. Nothing may be lost then either.
fn lost_a_pipe(outcome: &Outcome) -> bool {
    outcome.stderr.contains("library/std/src/sys/process")
}

/// The system could not even start it, and so it did nothing.
fn was_not_loaded(outcome: &Outcome) -> bool {
    outcome.code == 127 && outcome.stderr.contains("error while loading shared libraries")
}

fn nothing(_: &World) -> String {
    String::new()
}

fn sweep(w: &World, turn: usize, case: &Case<'_>) {
    for (offset, backend) in ["overlay", "copy"].into_iter().enumerate() {
        sweep_over(w, backend, turn * 2 + offset, case);
    }
}

fn sweep_over(w: &World, backend: &str, turn: usize, case: &Case<'_>) {
    needs!(w, "strace");
    let first = Place::new(w, &format!("{backend}-first"));
    (case.prepare)(&first, backend);
    let before = (first.holdings(), (case.besides)(&first));
    let points = first.points_of_reading(&first.project, case.command);
    let after = (first.holdings(), (case.besides)(&first));
    for (number, point) in sample(&points, WANTED, turn).iter().enumerate() {
        let error = ERRORS[(number + turn) % ERRORS.len()];
        let place = Place::new(w, &format!("{backend}-{number}"));
        (case.prepare)(&place, backend);
        let outcome = place.with_fault(point, Fault::Error(error), case.command).go();
        let context = format!("{:?} over {backend}, {error} at {point:?}: {outcome:?}", case.command);
        // Whatever was interrupted is finished by the next command.
        place.whatif(["ls"]).go().ok();
        let now = (place.holdings(), (case.besides)(&place));
        check(&outcome, &now, &before, &after, &context);
    }
}

#[track_caller]
fn check(outcome: &Outcome, now: &(Holdings, String), before: &(Holdings, String), after: &(Holdings, String), context: &str) {
    // The end of a race removes only what it knows to be real, and says what it left.
    let is_left =
        ["cannot be read and was kept", "the race could not be tidied up"].iter().any(|said| outcome.stderr.contains(said));
    if outcome.code == 0 && is_left {
        assert_eq!(now.0.reality, after.0.reality, "{context}");
        return;
    }
    if outcome.code == 0 {
        assert_eq!(now, after, "it says that it went well; {context}");
        return;
    }
    // A rebase lists what it could not read as open.
    let is_told = ["whatif:", "open: choose"].iter().any(|told| outcome.stderr.contains(told));
    let is_clear = outcome.code < 126 && is_told;
    assert!(is_clear || was_not_loaded(outcome) || lost_a_pipe(outcome), "no clear error; {context}");
    let lost = now.0.lost(&before.0, &after.0);
    assert!(lost.is_empty(), "{lost:#?}; {context}");
    assert!([&before.1, &after.1].contains(&&now.1), "{}; {context}", now.1);
}

fn forks(w: &World) {
    sweep(w, 0, &Case { prepare: sandbox, command: &["fork", "s", "t"], besides: nothing });
}

fn rebases(w: &World) {
    let prepare = |w: &World, backend: &str| {
        sandbox(w, backend);
        w.outside("echo r > r; sed -i 's/^2$/two/' d/f3; rm d/f2").ok();
    };
    sweep(w, 1, &Case { prepare, command: &["rebase", "s"], besides: nothing });
}

fn undos(w: &World) {
    let prepare = |w: &World, backend: &str| {
        sandbox(w, backend);
        w.whatif(["apply", "s", "--all", "--yes"]).go().ok();
    };
    sweep(w, 2, &Case { prepare, command: &["undo", "--yes"], besides: nothing });
}

fn squashes(w: &World) {
    sweep(w, 3, &Case { prepare: with_snapshots, command: &["squash", "s"], besides: nothing });
}

fn rollbacks(w: &World) {
    sweep(w, 4, &Case { prepare: with_snapshots, command: &["rollback", "s", "one"], besides: nothing });
}

fn collections_of_garbage(w: &World) {
    let prepare = |w: &World, backend: &str| {
        with_snapshots(w, backend);
        w.whatif(["fork", "s@one", "t"]).go().ok();
        w.whatif(["snapshot", "rm", "s@two"]).go().ok();
    };
    sweep(w, 5, &Case { prepare, command: &["gc"], besides: nothing });
}

fn applies_of_a_race(w: &World) {
    let prepare = |w: &World, _: &str| {
        w.outside("seq 20 > f").ok();
        let attempts = ["--attempt=one=sed -i s/^2$/two/ f", "--attempt=two=sed -i s/^9$/nine/ f; echo g > g"];
        w.whatif(["race", "--check", "test -e f", "--name", "r"]).args(attempts).go().ok();
    };
    sweep_over(w, "overlay", 6, &Case { prepare, command: &["race", "apply", "two", "--yes"], besides: nothing });
}

/// What the archive holds, if there is one.
fn archive(w: &World) -> String {
    if !w.project.join("../s.whatif").exists() {
        return "none".to_owned();
    }
    w.whatif(["import", "../s.whatif", "--name", "imported"]).go().ok();
    let held = w.whatif(["diff", "imported", "--patch"]).go().ok().stdout;
    w.whatif(["rm", "imported"]).go().ok();
    held
}

fn exports(w: &World) {
    sweep(w, 7, &Case { prepare: sandbox, command: &["export", "--force", "s", "-o", "../s.whatif"], besides: archive });
}

fn imports(w: &World) {
    let prepare = |w: &World, backend: &str| {
        sandbox(w, backend);
        w.whatif(["export", "--force", "s", "-o", "../s.whatif"]).go().ok();
    };
    sweep(w, 8, &Case { prepare, command: &["import", "../s.whatif", "--name", "t"], besides: nothing });
}

fn commits(w: &World) {
    needs!(w, "git");
    let prepare = |w: &World, backend: &str| {
        w.outside("git init -q .; git config user.name A; git config user.email a@example.org; git config gc.auto 0").ok();
        w.outside(&format!("{BASE}; git add .; git commit -qm first")).ok();
        sandbox(w, backend);
    };
    let besides = |w: &World| {
        // A commit that was taken back may be left, where nothing leads to it.
        let locks = w.outside("ls .git/*.lock 2>/dev/null; git fsck --strict --no-dangling 2>&1").stdout;
        assert_eq!(locks, "", "git's own things are in order");
        w.outside("git status --porcelain; git log --format=%s; git show --format= HEAD").ok().stdout
    };
    sweep(w, 9, &Case { prepare, command: &["apply", "s", "--yes", "--commit", "-m", "second"], besides });
}

fn applies_after_a_review(w: &World) {
    let prepare = |w: &World, backend: &str| {
        sandbox(w, backend);
        let mut review = Terminal::with_whatif(w, &["review", "s"]);
        review.expect("undecided");
        // The first is rejected, the next accepted.
        review.type_in("xaq");
        review.expect("1 accepted, 1 rejected");
        assert_eq!(review.ends(), 0);
    };
    // The rejected one stays as it is, whatever happens.
    let besides = |w: &World| w.read("b");
    sweep(w, 10, &Case { prepare, command: &["apply", "s", "--yes"], besides });
}
