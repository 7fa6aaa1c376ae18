//! An apply or undo that is interrupted, killed, overtaken, or fails late: what is true afterwards is what is recorded and told,
//! what a person did meanwhile is theirs, and no other tool ever sees anything of it.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use whatif_e2e::{Detail, Fault, Point, Stopped, Tree, World, as_root_and_user, as_user, eventually, needs, sample, skip};

as_root_and_user!(
    a_sandbox_has_its_work_again_after_a_killed_undo,
    what_is_edited_after_a_crash_is_not_undone,
    an_apply_that_waited_for_a_killed_one_finishes_that_first,
    a_failure_after_the_commit_says_that_it_is_applied,
    a_signal_takes_an_apply_back_or_comes_too_late,
    a_signal_takes_an_undo_back_or_comes_too_late,
    a_signal_while_it_is_planned_is_answered,
    a_signal_while_it_waits_is_answered,
    git_sees_nothing_of_an_apply_under_way,
    git_sees_nothing_of_an_apply_from_another_file_system,
    twenty_applies_at_once_all_arrive,
    a_failed_apply_from_another_file_system_leaves_no_copies,
    directories_that_cannot_be_written_come_and_go,
    what_cannot_be_moved_between_directories_is_applied_all_the_same,
);

as_user!(an_apply_into_a_directory_of_the_group_can_be_undone);

const APPLY: [&str; 4] = ["apply", "s", "--all", "--yes"];
const UNDO: [&str; 2] = ["undo", "--yes"];

/// Edits, additions and deletions, enough for every stage to have some calls.
fn prepare(w: &World) {
    w.outside("for n in 1 2 3 4 5 6; do echo old $n > edited$n; echo old > gone$n; done; mkdir d; echo x > d/x").ok();
    w.sandbox_with(
        "s",
        "for n in 1 2 3 4 5 6; do echo new $n > edited$n; rm gone$n; echo n > new$n; done; mkdir e; echo y > e/y; rm -r d",
    );
}

/// The calls by which names are swapped and put away.
fn renames(points: &[Point]) -> Vec<Point> {
    points.iter().filter(|p| p.call == "renameat2").cloned().collect()
}

fn row(w: &World) -> (String, u64) {
    let listed = w.json(["ls"]);
    let row = &listed[0];
    (row["status"].as_str().unwrap_or_default().to_owned(), row["changed_files"].as_u64().unwrap_or_default())
}

fn a_signal_while_it_is_planned_is_answered(w: &World) {
    needs!(w, "strace");
    prepare(w);
    let before = Tree::of(&w.project, Detail::Times);
    // It ends before anything is written.
    let plan = ["apply", "s", "--all", "--dry-run"];
    let points = w.points_of_reading(&w.project, &plan);
    let listing: Vec<Point> = points.into_iter().filter(|p| p.call == "getdents64").collect();
    for point in sample(&listing[listing.len() / 2..], 3, 0) {
        let outcome = w.with_fault(&point, Fault::Signal("SIGTERM"), &plan).go();
        assert!(outcome.stderr.contains("nothing was changed"), "{point:?}: {outcome:?}");
        assert_ne!(outcome.code, 0, "{point:?}: {outcome:?}");
        Tree::of(&w.project, Detail::Times).assert_is(&before, "it said so");
    }
}

fn a_signal_while_it_waits_is_answered(w: &World) {
    needs!(w, "flock");
    prepare(w);
    // A thread of its own waits for the lock.
    let waits = "while [ $(ls /proc/$pid/task | wc -l) -lt 2 ]; do :; done";
    for command in ["apply s --all --yes", "--json apply s --all --yes"] {
        let script = format!("{} {command} & pid=$!; {waits}; kill -TERM $pid; wait $pid", w.bin.display());
        let outcome = w.program("/usr/bin/flock").args([".", "/bin/sh", "-c", &script]).go();
        outcome.exits(143).says("nothing was changed");
    }
    assert_eq!(w.read("edited1"), "old 1\n");
}

fn a_sandbox_has_its_work_again_after_a_killed_undo(w: &World) {
    needs!(w, "strace");
    prepare(w);
    let before = Tree::of(&w.project, Detail::Content);
    w.whatif(APPLY).go().ok();
    let undo = w.points_of(&w.project, &UNDO);
    let late = renames(&undo);
    // In the middle of the swap, while it is put in order, and while it is written down.
    let after: Vec<Point> = undo.iter().skip_while(|p| *p != late.last().expect("there are some")).skip(1).cloned().collect();
    for point in [vec![late[late.len() / 2].clone()], sample(&after, 4, usize::from(w.is_root()))].concat() {
        w.whatif(["apply", "s", "--all", "--yes"]).go().ok();
        assert_eq!(row(w).0, "approved");
        w.with_fault(&point, Fault::Kill, &UNDO).go();
        let (status, changed) = row(w);
        let is_undone = Tree::of(&w.project, Detail::Content) == before;
        let wanted = if is_undone { ("stopped", true) } else { ("approved", false) };
        assert_eq!((status.as_str(), changed > 0), wanted, "killed at {} {}", point.call, point.number);
        if !is_undone {
            w.whatif(UNDO).go().ok();
        }
    }
}

fn what_is_edited_after_a_crash_is_not_undone(w: &World) {
    needs!(w, "strace");
    prepare(w);
    let swaps = renames(&w.points_of(&w.project, &APPLY));
    w.whatif(UNDO).go().ok();
    // After the journal got its name some names are swapped.
    w.with_fault(&swaps[swaps.len() / 2], Fault::Kill, &APPLY).go();
    let swapped = (1..=6).map(|n| format!("edited{n}")).find(|f| w.read(f).starts_with("new")).expect("some are swapped");
    w.outside(&format!("echo mine >> {swapped}; echo mine > mine; mv mine new1")).ok();
    w.whatif(["ls"]).go().ok().says(&swapped);
    let mine = w.read(&swapped);
    assert!(mine.ends_with("mine\n"), "{mine}");
    let refused = w.whatif(["--json", "undo", "--yes"]).go().exits(1);
    assert!(refused.stderr.contains("changed_since") && refused.stderr.contains(&swapped), "{refused:?}");
    assert_eq!((w.read(&swapped), w.read("new1")), (mine.clone(), "mine\n".into()));
    // And it is not what the sandbox starts from: another apply does not take it away either.
    let again = w.whatif(APPLY).go();
    assert!(again.code <= 1, "{again:?}");
    assert_eq!((w.read(&swapped), w.read("new1")), (mine, "mine\n".into()));
}

fn an_apply_that_waited_for_a_killed_one_finishes_that_first(w: &World) {
    needs!(w, "strace");
    prepare(w);
    let swaps = renames(&w.points_of(&w.project, &APPLY));
    w.whatif(UNDO).go().ok();
    w.sandbox_with("other", "echo more > more");
    // Well after the commit: it may have a rename more to do for a command that has just ended.
    let stopped = Stopped::at(w, &swaps[swaps.len() * 3 / 4], &APPLY);
    let mut waiting = w.whatif(["apply", "other", "--yes"]).streams(Stdio::null(), Stdio::null(), Stdio::piped()).spawn();
    let mut has_ended = false;
    eventually("it waits for the lock", || {
        has_ended = waiting.try_wait().expect("it is our child").is_some();
        has_ended || waits_for_a_lock(&waiting)
    });
    if has_ended {
        let mut said = String::new();
        let _ = waiting.stderr.take().map(|mut stream| stream.read_to_string(&mut said));
        panic!("it did not wait: {said}");
    }
    stopped.kill();
    assert!(waiting.wait().expect("it is our child").success());
    assert_eq!(w.read("more"), "more\n");
    for n in 1..=6 {
        assert_eq!(w.read(format!("edited{n}")), format!("new {n}\n"), "what the first one began is done");
        assert!(!w.project.join(format!("gone{n}")).exists());
    }
    assert_eq!(w.transient(), Vec::<PathBuf>::new());
}

fn waits_for_a_lock(child: &Child) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
    tasks.map(|task| fs::read_to_string(task.path().join("syscall")).unwrap_or_default()).any(|call| {
        // flock, on x86-64 and on 64-bit ARM; or the pause between two attempts to get one.
        ["73 ", "32 ", "230 ", "115 "].iter().any(|number| call.starts_with(number))
    })
}

fn a_failure_after_the_commit_says_that_it_is_applied(w: &World) {
    needs!(w, "strace");
    prepare(w);
    let points = w.points_of(&w.project, &APPLY);
    w.whatif(UNDO).go().ok();
    // The very last step, by which it is filed.
    let last = points.iter().rfind(|p| p.call == "rename").expect("it is filed by a rename");
    let outcome = w.with_fault(last, Fault::Error("EIO"), &["--json", "apply", "s", "--all", "--yes"]).go();
    assert_eq!(w.read("edited1"), "new 1\n");
    let document: serde_json::Value = serde_json::from_str(outcome.stderr.lines().last().unwrap_or_default()).expect("a document");
    let error = &document["error"];
    let id = error["details"]["id"].as_str().unwrap_or_default();
    assert!(outcome.code == 125 && error["details"]["applied"] == true && !id.is_empty(), "{document:#}");
    assert!(
        error["message"].as_str().unwrap_or_default().contains("applied") && error.to_string().contains("whatif undo"),
        "{document:#}"
    );
    // As it said: the next command writes down the rest, and then it can be taken back.
    w.whatif(["undo", id, "--yes"]).go().ok();
    assert_eq!(w.read("edited1"), "old 1\n");
}

fn a_signal_takes_an_apply_back_or_comes_too_late(w: &World) {
    signalled(w, &APPLY, "everything is applied", |w| drop(w.whatif(UNDO).go().ok()));
}

fn a_signal_takes_an_undo_back_or_comes_too_late(w: &World) {
    signalled(w, &UNDO, "everything is restored", |w| drop(w.whatif(APPLY).go().ok()));
}

/// Interrupts a command at some of its calls. `again` puts everything back that it did.
fn signalled(w: &World, arguments: &[&str], done: &str, again: fn(&World)) {
    needs!(w, "strace");
    prepare(w);
    if arguments == UNDO {
        w.whatif(APPLY).go().ok();
    }
    let before = Tree::of(&w.project, Detail::Content);
    let points = w.points_of(&w.project, arguments);
    let after = Tree::of(&w.project, Detail::Content);
    again(w);
    // From the first thing that is staged on, to the last name that is swapped.
    let first = points.iter().position(|p| p.call == "renameat2").expect("the journal gets its name");
    let last = points.iter().rposition(|p| p.call == "renameat2").expect("names are swapped");
    let mut seen = [0, 0];
    for (n, point) in sample(&points[first..=last], 6, usize::from(w.is_root())).iter().enumerate() {
        let (signal, code) = [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)][n % 3];
        let outcome = w.with_fault(point, Fault::Signal(signal), arguments).go();
        let context = format!("{signal} at {} {}: {outcome:?}", point.call, point.number);
        assert_eq!(outcome.code, code, "{context}");
        let now = Tree::of(&w.project, Detail::Content);
        let is_done = outcome.stderr.contains(done);
        assert!(is_done || outcome.stderr.contains("nothing was changed"), "{context}");
        now.assert_is(if is_done { &after } else { &before }, &context);
        assert_eq!(w.transient(), Vec::<PathBuf>::new(), "nothing is left to the next command: {context}");
        w.whatif(["ls"]).go().ok();
        Tree::of(&w.project, Detail::Content).assert_is(&now, "the next command does nothing about it");
        seen[usize::from(is_done)] += 1;
        if is_done {
            again(w);
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "taken back and finished: {seen:?}");
}

fn git_sees_nothing_of_an_apply_under_way(w: &World) {
    looked_at_by_git(w);
}

fn git_sees_nothing_of_an_apply_from_another_file_system(w: &World) {
    if let Some(w) = with_state_in_memory(w) {
        looked_at_by_git(&w);
        let _ = fs::remove_dir_all(&w.state);
    }
}

/// The same world with its state directory on another file system than the project.
fn with_state_in_memory(w: &World) -> Option<std::mem::ManuallyDrop<World>> {
    let memory = Path::new("/dev/shm");
    let name = format!("whatif-test-{}", w.dir.file_name()?.to_string_lossy());
    let state = memory.join(name);
    if fs::create_dir(&state).is_err() {
        skip("there is no file system in memory");
        return None;
    }
    chown(&state, Some(w.uid()), Some(w.uid())).ok()?;
    Some(w.with_state(state))
}

fn looked_at_by_git(w: &World) {
    needs!(w, "strace", "git");
    w.outside("git init -q . && git config user.email a@b && git config user.name n").ok();
    prepare(w);
    w.outside("git add -A && git commit -qm one").ok();
    let points = w.points_of(&w.project, &APPLY);
    w.whatif(UNDO).go().ok();
    let first = points.iter().position(|p| p.call == "renameat2").expect("the journal gets its name");
    for point in sample(&points[first..], 6, usize::from(w.is_root())) {
        let stopped = Stopped::at(w, &point, &APPLY);
        let seen = w.outside("git status --porcelain -uall; git add -An .").ok().stdout;
        assert!(!seen.contains("whatif"), "at {} {}: {seen}", point.call, point.number);
        stopped.kill();
        w.whatif(["ls"]).go().ok();
        let left = w.outside("find . -name '.whatif*'").ok().stdout;
        assert_eq!(left, "", "at {} {}", point.call, point.number);
        if w.read("edited1") == "new 1\n" {
            w.whatif(UNDO).go().ok();
        }
    }
}

fn what_cannot_be_moved_between_directories_is_applied_all_the_same(w: &World) {
    needs!(w, "strace");
    prepare(w);
    let swaps = renames(&w.points_of(&w.project, &APPLY));
    let after = Tree::of(&w.project, Detail::Content);
    w.whatif(UNDO).go().ok();
    // The first two give the transaction its place and the journal its name; the third one is the first to swap anything.
    for (error, swap) in [("EXDEV", &swaps[2]), ("EACCES", &swaps[5])] {
        w.with_fault(swap, Fault::Error(error), &APPLY).go().ok();
        Tree::of(&w.project, Detail::Content).assert_is(&after, error);
        w.whatif(UNDO).go().ok();
    }
}

fn twenty_applies_at_once_all_arrive(w: &World) {
    w.outside("seq 100 > f").ok();
    let names: Vec<String> = (0..20).map(|n| format!("s{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        let line = n * 5 + 1;
        w.sandbox_with(name, &format!("sed -i 's/^{line}$/{name}/' f"));
    }
    let outcomes: Vec<_> = std::thread::scope(|s| {
        names.iter().map(|n| s.spawn(|| w.apply(&[n.as_str()]))).collect::<Vec<_>>().into_iter().map(|t| t.join()).collect()
    });
    for outcome in outcomes {
        outcome.expect("it ends").ok();
    }
    let f = w.read("f");
    assert!(names.iter().all(|n| f.lines().any(|l| l == n)) && f.lines().count() == 100, "{f}");
}

fn a_failed_apply_from_another_file_system_leaves_no_copies(w: &World) {
    needs!(w, "strace");
    let Some(w) = &with_state_in_memory(w) else { return };
    prepare(w);
    let points = w.points_of(&w.project, &APPLY);
    w.whatif(UNDO).go().ok();
    let swaps = renames(&points);
    for fault in [Fault::Error("EIO"), Fault::Kill] {
        let outcome = w.with_fault(&swaps[swaps.len() / 3], fault, &APPLY).go();
        assert_ne!(outcome.code, 0);
        w.whatif(["ls"]).go().ok();
        if w.read("edited1") == "new 1\n" {
            w.whatif(UNDO).go().ok();
        }
        let left = w.outside(&format!("find {}/remains -type f 2>/dev/null", w.state.display())).stdout;
        assert_eq!(left, "", "{fault:?}: {outcome:?}");
    }
    let _ = fs::remove_dir_all(&w.state);
}

/// A directory can be moved to another one only by who may write to it.
fn directories_that_cannot_be_written_come_and_go(w: &World) {
    w.outside("mkdir closed empty; echo x > closed/x; chmod 500 closed empty").ok();
    w.sandbox_with("s", "mkdir new; echo n > new/n; chmod 500 new; chmod 700 closed; rm -r closed; rmdir empty; echo f > empty");
    let before = Tree::of(&w.project, Detail::Times);
    w.whatif(APPLY).go().ok();
    assert_eq!(w.outside("stat -c %a new; cat new/n empty; ls").ok().text(), "500\nn\nf\nempty\nnew");
    w.whatif(UNDO).go().ok();
    Tree::of(&w.project, Detail::Times).assert_is(&before, "undone");
    w.outside("chmod -R u+w .").ok();
}

/// A directory of somebody else that the group may write to. Its times are not ours to set, and neither is another name for
/// somebody else's file.
fn an_apply_into_a_directory_of_the_group_can_be_undone(w: &World) {
    if !rustix::process::geteuid().is_root() {
        skip("only root can give a directory away");
        return;
    }
    // Not in the home: a sandbox cannot copy a directory of somebody else.
    let project = w.dir.join("shared");
    w.mkdir(&project);
    let outside = |script: &str| w.program("/bin/sh").args(["-euc", script]).cwd(&project).go().ok();
    outside("echo mine > mine");
    for file in ["theirs", "going"] {
        fs::write(project.join(file), format!("{file}\n")).expect("we are root");
        chown(project.join(file), Some(4321), Some(w.uid())).expect("we are root");
    }
    chown(&project, Some(4321), Some(w.uid())).expect("we are root");
    fs::set_permissions(&project, PermissionsExt::from_mode(0o2775)).expect("we are root");
    w.sandbox_in(&project, "s", "echo changed > mine; echo new > new; rm going; cp theirs t; echo more >> t; mv t theirs");
    w.whatif(APPLY).cwd(&project).go().ok();
    assert_eq!(outside("cat mine new theirs; ls").text(), "changed\nnew\ntheirs\nmore\nmine\nnew\ntheirs");
    w.whatif(UNDO).cwd(&project).go().ok();
    let shown = outside("cat mine theirs going; stat -c %u theirs going .; ls");
    assert_eq!(shown.text(), "mine\ntheirs\ngoing\n4321\n4321\n4321\ngoing\nmine\ntheirs");
}
