//! The directories that everything else lies in: the project itself, `/`, and what lies directly in it. Whatever a sandbox went
//! through, they look inside as they do in reality, and their attributes are never applied along with something else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;
use whatif_e2e::{World, as_root, as_root_and_user};

as_root_and_user!(
    a_snapshot_at_rest_leaves_the_project_as_it_is,
    a_project_of_its_own_keeps_its_mode,
    a_fork_of_a_stopped_sandbox_leaves_the_project_as_it_is,
    a_rollback_at_rest_brings_back_the_mode_of_the_project,
    every_backend_leaves_the_project_as_it_is,
    another_mode_of_the_project_takes_an_approval_of_its_own,
    another_mode_of_the_project_is_not_chosen_with_what_lies_in_it,
    a_private_head_of_an_earlier_version_is_not_applied,
    what_a_sandbox_has_of_its_own_is_no_project,
    a_home_in_a_private_place_is_never_lost,
);
as_root!(another_mode_of_a_system_directory_takes_an_approval_of_its_own);

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// A sandbox that stopped after a snapshot, so that directories were made for the next one.
fn stopped_after_a_snapshot(w: &World, name: &str) {
    set_mode(&w.project, 0o755);
    w.new_sandbox(name);
    w.exec(name, "echo 1 > one").ok();
    w.snapshot(name, "first");
    w.exec(name, "echo 2 > two").ok();
    w.whatif(["stop", name]).go().ok();
}

#[track_caller]
fn assert_applies_without_touching_the_project(w: &World, name: &str) {
    w.whatif(["start", name]).go().ok();
    w.exec(name, "echo 3 > three; test $(stat -c %a .) = 755").ok();
    let changed = w.json(["diff", name])["changes"].clone();
    // Nor any other tree: root's is `/`, a user's is the home.
    let is_ours = |path: &str| ["one", "two", "three"].contains(&path);
    assert!(changed.as_array().expect("a list").iter().all(|c| c["path"].as_str().is_some_and(is_ours)), "{changed}");
    w.whatif(["apply", name, "--yes"]).go().ok();
    assert_eq!(w.read("three"), "3\n");
    assert_eq!(mode(&w.project), 0o755);
}

fn a_snapshot_at_rest_leaves_the_project_as_it_is(w: &World) {
    stopped_after_a_snapshot(w, "a");
    w.snapshot("a", "second");
    assert_applies_without_touching_the_project(w, "a");
}

/// A project outside the home is a tree of its own, for a user.
fn a_project_of_its_own_keeps_its_mode(w: &World) {
    let project = w.dir.join("elsewhere");
    w.mkdir(&project);
    set_mode(&project, 0o755);
    let run = |arguments: &[&str]| {
        w.whatif(arguments.iter().copied()).cwd(&project).go().ok();
    };
    run(&["new", "a"]);
    run(&["exec", "a", "--", "/bin/sh", "-c", "echo 1 > one"]);
    run(&["snapshot", "a"]);
    run(&["exec", "a", "--", "/bin/sh", "-c", "echo 2 > two"]);
    run(&["stop", "a"]);
    run(&["snapshot", "a"]);
    run(&["apply", "a", "--yes"]);
    assert_eq!((mode(&project), fs::read_to_string(project.join("two")).ok()), (0o755, Some("2\n".to_owned())));
}

fn a_fork_of_a_stopped_sandbox_leaves_the_project_as_it_is(w: &World) {
    stopped_after_a_snapshot(w, "a");
    w.fork("a", "b");
    assert_applies_without_touching_the_project(w, "b");
    w.whatif(["start", "a"]).go().ok();
    w.exec("a", "test $(stat -c %a .) = 755").ok();
}

fn a_rollback_at_rest_brings_back_the_mode_of_the_project(w: &World) {
    stopped_after_a_snapshot(w, "a");
    w.rollback("a", "first");
    w.whatif(["start", "a"]).go().ok();
    w.exec("a", "set -e; test $(stat -c %a .) = 755; chmod 700 .; echo 4 > four").ok();
    w.snapshot("a", "private");
    w.exec("a", "test $(stat -c %a .) = 700").ok();
    w.whatif(["stop", "a"]).go().ok();
    // Nothing is in its head, but the root of that has the mode of the snapshot it stands on.
    w.rollback("a", "first");
    assert_applies_without_touching_the_project(w, "a");
}

fn every_backend_leaves_the_project_as_it_is(w: &World) {
    set_mode(&w.project, 0o755);
    for backend in ["fuse", "copy"] {
        if backend == "fuse" && (!w.has("fuse-overlayfs") || w.outside("test -w /dev/fuse").code != 0) {
            continue;
        }
        w.json(["new", backend, "--backend", backend]);
        for (n, step) in ["first", "second"].into_iter().enumerate() {
            w.exec(backend, &format!("echo {step} > {backend}-{n}")).ok();
            w.snapshot(backend, step);
            w.whatif(["stop", backend]).go().ok();
            w.whatif(["start", backend]).go().ok();
        }
        w.whatif(["stop", backend]).go().ok();
        w.rollback(backend, "first");
        w.fork(backend, &format!("{backend}-fork"));
        w.exec(&format!("{backend}-fork"), "test $(stat -c %a .) = 755").ok();
        w.whatif(["start", backend]).go().ok();
        w.exec(backend, "test $(stat -c %a .) = 755").ok();
        w.whatif(["apply", backend, "--yes"]).go().ok();
        assert_eq!(mode(&w.project), 0o755, "{backend}");
    }
}

fn another_mode_of_the_project_takes_an_approval_of_its_own(w: &World) {
    set_mode(&w.project, 0o755);
    w.new_sandbox("a");
    w.exec("a", "echo 1 > one; chmod 711 .").ok();
    let diff = w.json(["diff", "a"]);
    let project = diff["changes"].as_array().expect("a list").iter().find(|c| c["path"] == ".").expect("it is shown").clone();
    assert_eq!(project["flags"], json!(["top_directory"]));
    let shown = w.whatif(["diff", "a"]).go().ok();
    assert!(shown.text().contains("attributes of a top directory"), "{}", shown.text());

    let applied = w.json(["apply", "a", "--yes"]);
    assert_eq!(applied["left_out"], json!([{ "path": ".", "reason": "risky" }]));
    assert_eq!((mode(&w.project), w.read("one")), (0o755, "1\n".to_owned()));
    w.whatif(["apply", "a", "--yes", "--risky"]).go().ok();
    assert_eq!(mode(&w.project), 0o711);
}

fn another_mode_of_the_project_is_not_chosen_with_what_lies_in_it(w: &World) {
    set_mode(&w.project, 0o755);
    w.new_sandbox("a");
    w.exec("a", "echo 1 > one; chmod 711 .").ok();
    let above = w.home.to_string_lossy().into_owned();
    w.whatif(["apply", "a", "--yes", "--files", &above]).go().ok();
    assert_eq!((mode(&w.project), w.read("one")), (0o755, "1\n".to_owned()));
    w.whatif(["apply", "a", "--yes", "--files", "."]).go().ok();
    assert_eq!(mode(&w.project), 0o711);
}

/// Earlier versions left such heads behind.
fn a_private_head_of_an_earlier_version_is_not_applied(w: &World) {
    stopped_after_a_snapshot(w, "a");
    let id = w.json(["show", "a"])["id"].as_str().expect("it has an id").to_owned();
    let home = mode(&w.home);
    for tree in fs::read_dir(w.state.join("sandboxes").join(id).join("head")).expect("it has a head") {
        set_mode(&tree.expect("it is listed").path(), 0o700);
    }
    w.whatif(["apply", "a", "--yes"]).go().ok();
    assert_eq!((mode(&w.project), w.read("two")), (0o755, "2\n".to_owned()));
    assert_eq!(mode(&w.home), home);
    let diff = w.json(["diff", "a"]);
    let left: Vec<_> = diff["changes"].as_array().expect("a list").iter().map(|c| &c["flags"]).collect();
    assert!(left.iter().all(|flags| flags.as_array().is_some_and(|f| f.contains(&json!("top_directory")))), "{diff}");
}

fn another_mode_of_a_system_directory_takes_an_approval_of_its_own(w: &World) {
    let before = mode(Path::new("/srv"));
    w.new_sandbox("a");
    w.exec("a", "chmod 711 /srv /; echo 1 > one").ok();
    let applied = w.json(["apply", "a", "--yes", "--outside", "--dry-run"]);
    let left_out = applied["left_out"].as_array().expect("a list");
    for path in ["/", "/srv"] {
        assert!(left_out.contains(&json!({ "path": path, "reason": "risky" })), "{applied}");
    }
    assert_eq!(mode(Path::new("/srv")), before);
}

fn what_a_sandbox_has_of_its_own_is_no_project(w: &World) {
    for place in ["/tmp", "/run", "/dev/shm"] {
        let refused = w.whatif(["run", "--", "true"]).cwd(Path::new(place)).go();
        assert_eq!(refused.code, 125, "{place}: {refused:?}");
        assert!(refused.stderr.contains(&format!("{place} cannot be a project")), "{refused:?}");
    }
    assert_eq!(w.whatif(["--json", "ls"]).go().ok().json(), json!([]));
}

/// Wherever the project is: it is put back, or says that it cannot be written to.
fn a_home_in_a_private_place_is_never_lost(w: &World) {
    let home = Path::new("/tmp").join(w.dir.file_name().expect("it has a name"));
    w.outside(&format!("mkdir {0}; echo seen > {0}/f", home.display())).ok();
    let run = |backend: &str, project: &Path| {
        let script = "cat ~/f; echo new > ~/g || echo refused";
        let run = ["run", "--quiet", "--name", "s", "--backend", backend, "--", "/bin/sh", "-c", script];
        let outcome = w.whatif(run).env("HOME", &home).cwd(project).go().ok();
        (outcome.text().to_owned(), w.whatif(["diff", "s", "--name-only", "--outside"]).env("HOME", &home).go().stdout)
    };
    let outside = home.join("g").display().to_string();
    let (told, changes) = run("overlay", Path::new("/"));
    assert!(told == "seen" && changes.contains(outside.trim_start_matches('/')), "{told}: {changes}");
    w.whatif(["rm", "s"]).go().ok();
    assert_eq!(run("copy", &w.project).0, "seen\nrefused");
    w.outside(&format!("rm -r {}", home.display())).ok();
}
